/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the connections of a gateway: who dialled, what they speak, and their frames or lines.
 *
 * A session owns its socket and ends itself. Bounds, a connection: SESSION_HELLO_MAX bytes and
 * SESSION_HELLO_MS until it has said who it is; then one largest frame (or line) of input and
 * SESSION_OUTPUT_MAX of answers that it does not read; an agent also what event/samples.h allows. A malformed
 * frame ends its connection with BYE 2 and nobody else's. Everything is on the loop. */
#ifndef GRIDLINE_GATEWAY_SESSION_H
#define GRIDLINE_GATEWAY_SESSION_H

#include "gateway/ingest.h"

#include <event2/event.h>
#include <event2/util.h>

enum {
    SESSIONS_MAX = 512,
    SESSION_HELLO_MAX = 4096,
    SESSION_HELLO_MS = 10000,
    SESSION_WINDOW = 4 << 20, /* bytes a sender may have on the way */
    SESSION_OUTPUT_MAX = 256 << 10
};

struct session;

struct sessions {
    struct event_base *base; /* borrowed, as is ingest */
    struct ingest *ingest;
    struct event *commit; /* the owner's timer, started when something waits for its sync */
    int commit_ms;        /* what it was started with */
    int hello_ms;         /* 0 = SESSION_HELLO_MS */
    struct session *first;
    size_t n;
    uint64_t next_id;
    /* Since start: */
    uint64_t accepted, turned_away, bad_frames, bad_lines;
};

/* Takes fd. peer says who it is for the log; it is copied. */
void sessions_accept(struct sessions *all, evutil_socket_t fd, const char *peer);
/* Says BYE 1 to all; they close when it is sent, or after a second. */
void sessions_shut_down(struct sessions *all);
void sessions_destroy_all(struct sessions *all);

#endif
