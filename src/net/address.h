/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - HOST, HOST:PORT, [V6] or [V6]:PORT, as written in addresses of gateways. libc only. */
#ifndef GRIDLINE_NET_ADDRESS_H
#define GRIDLINE_NET_ADDRESS_H

#include "base/slice.h"

enum { ADDRESS_HOST_MAX = 256, ADDRESS_PORT_MAX = 8 };

/* As C strings; the port is FRAME_PORT if there is none. -EINVAL: neither of these, or port 0 or over 65535. */
int address_split(struct slice address, char host[ADDRESS_HOST_MAX], char port[ADDRESS_PORT_MAX]);
/* Takes the address at the front of a list by commas, without blanks around it. False: there is no more. */
bool address_next(struct slice *list, struct slice *out);

#endif
