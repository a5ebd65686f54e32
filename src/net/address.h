/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - HOST[:PORT] as people write it, taken apart. No resolving here. */
#ifndef GRIDLINE_NET_ADDRESS_H
#define GRIDLINE_NET_ADDRESS_H

#include "base/slice.h"

#include <netdb.h>

/* HOST, HOST:PORT, [V6] or [V6]:PORT, as C strings; without a port FRAME_PORT. -EINVAL. */
int address_split(struct slice address, char host[NI_MAXHOST], char port[NI_MAXSERV]);

#endif
