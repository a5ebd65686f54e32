/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the connections of a gateway: who dialled, what they speak, and their frames or lines.
 *
 * A session owns its socket and ends itself. Bounds, a connection: SESSION_HELLO_MAX bytes and
 * SESSION_HELLO_MS until it has said who it is; then one largest frame (or line) of input and
 * SESSION_OUTPUT_MAX of answers that it does not read (a consumer's events wait in its subscriptions); a
 * worker also what event/samples.h allows. Of those that have not said who they are there are at most
 * SESSIONS_WAITING: the one that has been silent longest goes. A malformed frame ends its connection with BYE
 * 2 and nobody else's.
 *
 * A connection carries one worker (an agent's) or many (a relay's): each is a channel (channel.c). What a
 * peer may do is asked of access.h, here and in control.c only. Everything is on the loop. */
#ifndef GRIDLINE_GATEWAY_SESSION_H
#define GRIDLINE_GATEWAY_SESSION_H

#include "event/escapes.h"
#include "event/query.h"
#include "gateway/access.h"
#include "gateway/control.h"
#include "gateway/enrol.h"
#include "gateway/ingest.h"
#include "gateway/worker.h"
#include "net/demand.h"
#include "net/sensors.h"
#include "net/stream.h"

#include "base/log.h"

enum {
    SESSIONS_MAX = 16384, /* by default */
    SESSIONS_WAITING = 8192,
    SESSION_HELLO_MAX = 64 << 10, /* a JOIN holds a certificate request */
    SESSION_HELLO_MS = 10000,
    SESSION_WINDOW = 4 << 20, /* bytes a sender may have on the way */
    SESSION_OUTPUT_MAX = 256 << 10,
    RELAY_WORKERS_MAX = 65536 /* a connection */
};

struct session;
struct subscriptions;

/* What sessions need of the gateway; all borrowed. */
struct sessions {
    struct event_base *base;
    struct stream_loop *loop;
    struct ingest *ingest;
    struct event *commit;    /* the owner's timer, started when something waits for its sync */
    struct workers *workers; /* NULL: no workers here (as the next two) */
    struct control *control;
    struct enrol *enrol;
    struct subscriptions *subscriptions; /* NULL: no subscriptions here */
    const struct query_ops *query;       /* NULL: no archive here */
    const struct access *access;         /* what all who come are judged by; NULL = what is built in */
    /* Who a transport's handshake found; NULL when there are no transports. */
    int (*identify)(struct transport *t, struct access_identity *out);
    /* A worker's SENSORS, as they come; NULL = nobody wants to know. */
    void (*on_sensors)(void *arg, struct worker *w, const struct frame_sensors *list);
    void *sensors_arg;
    struct args assigned;     /* settings for every worker; its own come behind and win */
    uint16_t udp_port;        /* offered to workers; 0 = none */
    void (*drain)(void *arg); /* takes the datagrams that have come by now; NULL = there are none */
    void *drain_arg;
    /* A worker has registered and was told so, whatever its state was; NULL = nobody wants to know. */
    void (*registered)(void *arg, struct worker *w);
    void *registered_arg;
    size_t max;   /* connections; 0 = SESSIONS_MAX */
    int hello_ms; /* 0 = SESSION_HELLO_MS */
    enum escapes escapes; /* of lines */

    /* Their own: */
    int commit_ms; /* what the timer was started with */
    struct session *first;
    struct session *longest,
        *latest;         /* those that have not said who they are, or are closing, by the time it began */
    struct event *sweep; /* looks at those */
    size_t n, n_waiting;
    uint64_t next_id;
    struct strbuf out;           /* a frame being written */
    struct args_writer settings; /* for LEASE */
    /* Since start: */
    uint64_t accepted, turned_away, silent, not_allowed, bad_frames, bad_lines, failed_handshakes, joined,
        join_refused;
};

/* How somebody is connected. */
struct session_way {
    struct access_identity who;            /* without a transport; with one, identify tells */
    const struct transport_ops *transport; /* NULL = plain */
    void *transport_ctx;
};

/* Takes fd. peer says who it is for the log; it is copied. */
void sessions_accept(struct sessions *all, evutil_socket_t fd, const char *peer,
                     const struct session_way *way);
/* Takes what has arrived of plain lines, which nobody sends again, and counts those that are cut off. */
void sessions_drain_lines(struct sessions *all);
/* Says BYE 1 to all; they close when it is sent, or after a second. */
void sessions_shut_down(struct sessions *all);
void sessions_destroy_all(struct sessions *all);
/* Something may wait for its sync: starts the timer. */
void sessions_commit(struct sessions *all);

/* For control.h: CONTROL to a worker's agent, ACTIVATE to programs of a host. */
int sessions_control(struct sessions *all, struct worker *w, const struct frame_control *c);
/* For demand.h: DEMAND to the same. 0, -ENOTCONN. */
int sessions_demand(struct sessions *all, struct worker *w, const struct frame_demand *d);
size_t sessions_activate(struct sessions *all, struct slice host, struct slice list);
/* For worker.h: the host has another connection now. */
void sessions_replaced(struct sessions *all, void *link);

#endif
