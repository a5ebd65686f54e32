/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the workers: hosts whose agents hold leases, or held one. Pure state: no sockets, no clock of
 * its own.
 *
 * A worker is known by its host name and keeps its id for life, over restarts of the gateway too:
 * registrations and ends are records of the journal (worker_put_record, workers_restore); one that the
 * journal has no room for is written later, as the worker is then (workers_write). Renewals are not: after a
 * restart every lease that had not ended is `late` and has its full time to be renewed.
 *
 * States: live; late (a renewal is overdue, or its connection broke, and the lease still runs); expired (it
 * ran out); deregistered (it said so). on_state hears of every change, once. The newest registration of a
 * host counts: the connection that had it before is told by on_replaced.
 *
 * Timers are a wheel walked by workers_tick: renewing moves a number, no timer is touched. About 600 bytes a
 * worker with typical properties. One thread. */
#ifndef GRIDLINE_GATEWAY_WORKER_H
#define GRIDLINE_GATEWAY_WORKER_H

#include "base/map.h"
#include "gateway/sampler.h"
#include "net/datagram.h"
#include "net/lease.h"

enum worker_state { WORKER_LIVE, WORKER_LATE, WORKER_EXPIRED, WORKER_DEREGISTERED };
const char *worker_state_name(enum worker_state s);

enum { WORKERS_MAX = 1 << 20, WORKER_PROPERTIES_MAX = 8 << 10, WORKER_SETTINGS_MAX = 8 << 10 };

struct worker {
    /* All that taking a datagram touches comes first, in as few cache lines as can be: with many workers each
     * line is one more wait for memory. */
    uint32_t id; /* from 1 */
    uint8_t state, mode;
    uint8_t level; /* enum seal_level of its datagrams */
    uint32_t key_id;
    struct sampler *sampler; /* while it is connected and has one; the session's */
    unsigned char key[LEASE_KEY];
    struct datagram_window window; /* of the samples' origin */

    bool has_unsent_settings;                      /* the next LEASE carries them */
    bool has_own_lease;                            /* set by control: what it asks for does not count */
    struct worker *next_watched, **watched_at;     /* the list of its slot of the wheel; NULL: in none */
    struct worker *next_unwritten, **unwritten_at; /* those whose record was refused; NULL: it was not */
    int64_t watched_slot;
    char *host;                 /* the map's key */
    struct frame_origin origin; /* of its events */
    void *link;                 /* the session's channel it is connected by; NULL = none */
    uint32_t lease_ms, renew_ms;
    int64_t renewed_ns, expires_ns; /* CLOCK_BOOTTIME of the gateway */
    int64_t since_ns;               /* of its state, UTC */
    int64_t registered_ns;          /* UTC, the first time */
    uint32_t registrations;
    struct frame_origin samples; /* origin of its samples */
    uint64_t datagrams_sent;     /* as the last RENEW said */
    uint64_t datagrams_before;   /* of these, sent before this gateway knew the origin: to another, or to its
                                    last run */
    int64_t clock_offset_ns; /* its local clock against ours at registration; bound is half the rtt it saw */
    char *address;           /* of its connection, or its last one: "10.0.0.7:4711"; NULL = not known */
    char *properties, *settings; /* args lists as bytes (args_put); "" = none */
    uint32_t properties_n, settings_n;
};

struct workers_ops {
    void (*on_state)(void *arg, struct worker *w, enum worker_state before, const char *why);
    /* w's connection is another one now; link is what it had. */
    void (*on_replaced)(void *arg, struct worker *w, void *link);
    /* To the journal: a record of w as it is now. < 0: not now; w is kept in mind until workers_write. */
    int (*on_record)(void *arg, const struct worker *w);
};

struct workers_options {
    uint32_t lease_ms, renew_ms; /* 0 = 30 s, 10 s; a wanted lease is taken between 1 s and an hour */
    uint8_t level;               /* SEAL_NONE: no keys are made */
    const struct workers_ops *ops;
    void *arg;
};

struct workers;
struct workers *workers_create(const struct workers_options *o); /* NULL: no memory */
void workers_destroy(struct workers *ws);                        /* NULL is fine */
size_t workers_count(const struct workers *ws);

struct worker *workers_by_id(const struct workers *ws, uint32_t id); /* NULL: none. Constant time */
struct worker *workers_by_host(const struct workers *ws, struct slice host);
uint32_t workers_last_id(const struct workers *ws); /* the highest that was given; 0 = none */
/* All, in the order of ids. */
void workers_each(struct workers *ws, void (*fn)(void *arg, struct worker *w), void *arg);

/* link is what on_replaced names. level: of this connection's datagrams, at most options.level. E_LIMIT: too
 * many workers, or properties that are too large; -ENOMEM. */
int workers_register(struct workers *ws, const struct frame_register *r, void *link, uint8_t level,
                     int64_t boot_ns, int64_t utc_ns, struct worker **out);
/* A renewal came: live again, whatever it was but deregistered. */
void worker_renew(struct workers *ws, struct worker *w, const struct frame_renew *r, int64_t boot_ns,
                  int64_t utc_ns);
/* SAMPLES_ORIGIN: a new key (what older datagrams are differences to is forgotten). Another origin than
 * before: its datagrams are numbered anew. */
void worker_set_samples(struct workers *ws, struct worker *w, const struct frame_origin *samples,
                        struct sampler *s);
/* Of the datagrams it says it has sent: those that have not come. */
uint64_t worker_datagrams_lost(const struct worker *w);
/* Where it is connected from. Without memory that is not known. */
void worker_set_address(struct worker *w, struct slice address);
/* Its connection is gone: late. */
void worker_disconnected(struct workers *ws, struct worker *w, int64_t boot_ns, int64_t utc_ns);
void worker_leave(struct workers *ws, struct worker *w, int64_t utc_ns);
/* Replaces the assigned settings (an args list as bytes) or the lease; sent with the next LEASE. 0 = as it
 * is. */
/* As near to what is wanted as a lease may be. */
uint32_t worker_lease_ms(uint64_t wanted_ms);
int worker_set(struct workers *ws, struct worker *w, struct slice settings, uint32_t lease_ms);
/* Finds who is late or expired by now. Returns when to be called again (CLOCK_BOOTTIME), at most a second on.
 */
int64_t workers_tick(struct workers *ws, int64_t boot_ns, int64_t utc_ns);

/* How many have a record that was refused. */
size_t workers_unwritten(const struct workers *ws);
/* Tries these again, as they are now, until one is refused. */
void workers_write(struct workers *ws);
/* A checkpoint: each from id `from` on, up to `max` of them, whether written before or not. Returns the id to
 * go on with, 0 = that was all. Where the journal is full (-ENOBUFS) it stops; one that is refused otherwise
 * is passed over and kept in mind. */
uint32_t workers_write_all(struct workers *ws, uint32_t from, size_t max);
/* The journal's record of a worker (docs/protocol.md, "Journal", type 6). */
void worker_put_record(struct strbuf *out, const struct worker *w);
/* At start, in the order of the journal. E_PROTO. */
int workers_restore(struct workers *ws, struct slice record, int64_t boot_ns, int64_t utc_ns);

#endif
