/* SPDX-License-Identifier: Apache-2.0 */
/* dest_stream.h - what a stream destination is made of. For its unit tests; nobody else includes it. */
#ifndef GRIDLINE_CLIENT_DEST_STREAM_H
#define GRIDLINE_CLIENT_DEST_STREAM_H

#include "client/dest.h"
#include "net/uplink.h"

struct dest_stream {
    struct dest dest; /* first */
    struct uplink *uplink;
    void (*on_activate)(void *arg, struct slice list);
    void *on_activate_arg;
};

#endif
