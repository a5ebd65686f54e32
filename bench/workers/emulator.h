/* SPDX-License-Identifier: Apache-2.0 */
/* emulator.h - many workers in one process, each by the real protocol (docs/protocol.md): what the emulator's
 * files share.
 *
 *     main.c       options, the loop, phases, what is printed
 *     conn.c       connections: an agent's own, or a relay's with many workers
 *     worker.c     one worker: registration, renewal, announcements, events, leaving
 *     datagrams.c  samples by UDP, and what happens to them on purpose
 *     churn.c      workers that leave, lose their connection, or die, so many a second
 *     sessions.c   workers that come and go as those of a desktop grid
 *
 * A connection has `relay` workers, or one. Its workers lie side by side in one array, so that neither needs
 * a list of the other. One thread, one epoll. */
#ifndef GRIDLINE_BENCH_EMULATOR_H
#define GRIDLINE_BENCH_EMULATOR_H

#include "base/strbuf.h"
#include "event/block.h"
#include "link.h"
#include "net/frame.h"
#include "net/lease.h"
#include "timers.h"

#include <stdint.h>

/* Counted over the whole run; printed by their names. */
#define TALLY(X)                                                                                \
    X(dials)        /* connections begun */                                                     \
    X(dials_failed) /* of them not welcome: nobody there, TLS, turned away */                   \
    X(welcomed)                                                                                 \
    X(resumed)            /* TLS handshakes with a ticket */                                    \
    X(disconnected)       /* by the other end, after WELCOME and before our BYE */              \
    X(registrations)      /* granted */                                                         \
    X(refused)            /* LEASE: refused, to be tried again */                               \
    X(denied)             /* LEASE: denied for good */                                          \
    X(unknown)            /* LEASE: not known, register again */                                \
    X(renewals)           /* answered */                                                        \
    X(renewals_late)      /* due while the one before was not answered */                       \
    X(ended)              /* leases that ended as asked */                                      \
    X(datagrams)          /* numbers given: sent or lost on purpose */                          \
    X(datagrams_lost)     /* of them not sent, on purpose */                                    \
    X(datagrams_unsent)   /* of them refused by the socket */                                   \
    X(datagrams_twice)    /* of them sent twice, on purpose */                                  \
    X(datagrams_behind)   /* of them sent behind the next one, on purpose */                    \
    X(datagrams_received) /* as LEASE said, each once */                                        \
    X(events)             /* written */                                                         \
    X(events_again)       /* of them sent again after a connection was lost */                  \
    X(events_acknowledged)                                                                      \
    X(events_refused)   /* for good */                                                          \
    X(events_abandoned) /* written, not acknowledged, and their worker died or the run ended */ \
    X(left)             /* on purpose: said goodbye, */                                         \
    X(cut)              /* lost the connection, */                                              \
    X(killed)           /* died */                                                              \
    X(came)             /* --session: one began; those of the beginning not counted */          \
    X(vanished)         /* --session: one ended without a word */                               \
    X(controls)         /* CONTROL answered */                                                  \
    X(answers)          /* --bare: of the control server */                                     \
    X(protocol_errors)  /* answers that are wrong, and BYE with a reason */

#define TALLY_FIELD(name) uint64_t name;
struct tally {
    TALLY(TALLY_FIELD)
};

/* k of every n, chosen at random but exactly so many. */
struct fault {
    uint32_t k, n;
    uint32_t k_left, n_left; /* of the current n */
};

struct options {
    const char *gateway, *identity, *name, *report, *lose, *twice, *behind, *sink, *vanish, *standing;
    uint64_t workers, relay, first, dials, sources;
    int64_t time_ns, renew_ns, away_ns, settle_ns, session_ns, gap_ns, day_ns;
    uint64_t datagrams, count, gso, size;
    uint64_t events, block, sensors;
    uint64_t leave, cut, kill, cut_last, seed;
    bool is_guest, resumes, is_busy, reconnects, is_bare, is_flat_out, steps, abandons;
};

enum worker_state {
    WORKER_AWAY,        /* has no connection, or left by the relay's */
    WORKER_REGISTERING, /* REGISTER was sent */
    WORKER_ANNOUNCING,  /* SAMPLES_ORIGIN, SCHEMA and STREAM were sent */
    WORKER_READY,
    WORKER_LEAVING, /* the last RENEW was sent */
    WORKER_OVER     /* deregistered at the end of the run, or denied */
};

/* --session: where a worker stands, as it knows itself. */
enum standing { STANDING_LIVE, STANDING_NEVER, STANDING_LEFT, STANDING_VANISHED, STANDING_CUT };

struct held; /* a datagram that waits to be sent behind the next one */

struct worker {
    uint32_t index; /* among all, from 0 */
    uint32_t id;    /* of LEASE, for life; 0 = none yet */
    uint8_t state, level;
    bool has_key, has_stream;
    bool is_renewing;             /* the answer is not there yet */
    bool is_ending, is_vanishing; /* --session: it is to end, and how */
    uint8_t standing;
    bool has_told;   /* at the end: was answered once */
    bool is_settled; /* at the end: everything has arrived, as the last renewal told */
    uint32_t epoch;  /* of both origins: counts its lives */
    uint32_t key_id;
    unsigned char key[LEASE_KEY];
    uint32_t lease_ms, renew_ms;
    uint32_t renew_number;
    int64_t t0_ns; /* of the question that waits for its answer */
    struct timer timer;
    struct timer session; /* when it ends, or the next begins */
    uint32_t ready_at;    /* its place in emulator.ready */
    /* Samples of this epoch: */
    uint64_t number; /* of the last datagram; its row has the same sequence number */
    uint64_t lost, unsent, twice, behind;
    uint64_t received; /* as LEASE said last */
    struct held *held;
    /* Events of this epoch: */
    uint64_t written, sent, sent_most, acknowledged, refused;
    int64_t retry_ns; /* REFUSE asked to wait till then; 0 = no */
};

enum conn_state { CONN_AWAY, CONN_QUEUED, CONN_DIALLING, CONN_HELLO, CONN_OPEN, CONN_CLOSING, CONN_OVER };

struct conn {
    struct link link;
    uint8_t state;
    bool is_watched, watches_write;
    bool has_dirty;        /* is on emulator.dirty: has output */
    uint32_t index, first; /* among connections; its first worker */
    uint32_t n_workers;
    uint32_t failures; /* dials since the last WELCOME */
    int64_t t0_ns;     /* of HELLO */
    struct timer timer;
    struct conn *next; /* in the queue of those to be dialled */
    struct conn *next_dirty;
    struct strbuf in;  /* the part of a frame that is not whole */
    SSL_CTX *identity; /* its own; NULL: the target's */
};

enum phase {
    PHASE_REGISTER,
    PHASE_WAIT_LOAD,
    PHASE_LOAD,
    PHASE_WAIT_SETTLE,
    PHASE_SETTLE,
    PHASE_WAIT_CUT,
    PHASE_WAIT_LEAVE,
    PHASE_LEAVE,
    PHASE_DONE
};

struct emulator {
    struct options o;
    struct tally tally;
    enum phase phase;
    struct link_target target;
    uint8_t sink_level;
    int epoll;
    int64_t now_ns; /* CLOCK_MONOTONIC, of this round */
    struct timers timers;
    struct worker *workers;
    struct conn *conns;
    uint32_t n_conns;
    struct worker **ready; /* those in WORKER_READY, in no order */
    uint32_t n_ready;
    uint32_t n_over;   /* workers in WORKER_OVER */
    uint32_t n_absent; /* --session: those that are not there */
    struct fault vanish;
    bool is_incomplete; /* events of a worker that did not die were not acknowledged */
    bool were_gone;     /* during the load: fewer than half were ready */
    struct conn *queue, **queue_end;
    struct conn *dirty;
    uint32_t n_dialling;
    unsigned char run[8]; /* random: part of every producer */
    uint64_t random;
    struct args_writer properties, settings; /* of every REGISTER */
    struct slice schema, stream;             /* payloads of SCHEMA and STREAM, the same for all */
    struct strbuf payload;                   /* of a frame being made */
    struct strbuf sensors;                   /* frames of SENSORS, the same for all; empty = none */
    struct block_writer *block;
    struct schema *event_schema;
    struct datagrams *datagrams;
    uint32_t next_event; /* whose turn it is to write events */
    FILE *report;
    int64_t began_ns, load_ns, phase_ns; /* when the run, the load and this phase began */
    int64_t progress_ns;                 /* when something was last answered that was not known */
    int64_t settle_at_ns;                /* when those that are not settled are asked again */
    uint64_t done[5];                    /* of the load: datagrams, events, left, cut, killed */
    int64_t base_ns;                     /* UTC at the start: event i of a worker is i us later */
    char why[256];                       /* the first protocol error */
};

uint64_t emulator_random(struct emulator *e);
/* Whether the next one is among the k of n. */
bool emulator_strikes(struct emulator *e, struct fault *f);
/* An answer that can't be: counted; the first is told at the end. */
void emulator_wrong(struct emulator *e, const struct worker *w, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void emulator_host(const struct emulator *e, uint32_t worker, char to[64]);

/* conn.c */
struct conn *conn_of(struct emulator *e, const struct worker *w);
bool conn_is_relay(const struct emulator *e);
/* The number of w in the head of frames. */
uint32_t conn_number(const struct emulator *e, const struct worker *w);
void conn_enqueue(struct emulator *e, struct conn *c);
/* Dials those whose turn it is. */
void conns_dial(struct emulator *e);
/* Sends what frame_put_* left in its output. */
void conn_dirty(struct emulator *e, struct conn *c);
void conns_flush(struct emulator *e);
void conn_event(struct emulator *e, struct conn *c, uint32_t events);
/* --bare: the next question. */
void conn_ask_bare(struct emulator *e, struct conn *c);
/* Says BYE; it is over when the other end closes. */
void conn_bye(struct emulator *e, struct conn *c);
/* Takes the socket away without a word; dials again after that time, < 0: as after a failure. */
void conn_cut(struct emulator *e, struct conn *c, int64_t away_ns);
/* The same, and it does not dial again by itself. */
void conn_hang_up(struct emulator *e, struct conn *c);

/* worker.c */
void worker_begin_epoch(struct worker *w);
/* ended: how, for the report: "left", "killed", "denied", "open". */
void worker_end_epoch(struct emulator *e, struct worker *w, const char *ended);
struct frame_origin worker_origin(const struct emulator *e, const struct worker *w, uint8_t class);
void worker_register(struct emulator *e, struct worker *w);
/* --sink: ready without a lease. */
void worker_sink(struct emulator *e, struct worker *w);
/* Its connection is gone. */
void worker_lost(struct emulator *e, struct worker *w);
void worker_renew(struct emulator *e, struct worker *w, uint8_t flags);
/* Everything up to seq is in the gateway's journal. */
void worker_acknowledge(struct emulator *e, struct worker *w, uint64_t seq);
/* Everything of this epoch has arrived, as far as it was told. */
bool worker_is_done(const struct worker *w);
/* Sends what is written and may be sent. */
void worker_pump(struct emulator *e, struct worker *w);
void worker_frame(struct emulator *e, struct worker *w, const struct frame *f);
/* So many new events, a block a worker in turn. Returns how many were written: workers may have to wait. */
uint64_t workers_write(struct emulator *e, uint64_t n);

/* K/N of an option. */
int fault_parse(const char *name, const char *text, struct fault *out, struct diag *why);

/* datagrams.c */
int datagrams_create(struct emulator *e, struct diag *why);
void datagrams_destroy(struct emulator *e);
/* LEASE named a port and a level. */
void datagrams_target(struct emulator *e, uint16_t port, uint8_t level);
/* Sends n, a worker after the other. Returns how many numbers were given. */
uint64_t datagrams_send(struct emulator *e, uint64_t n);
/* Forgets what waits. */
void datagrams_forget(struct worker *w);
/* Sends what waits. */
void datagrams_release(struct emulator *e, struct worker *w);

/* churn.c: n connections, chosen at random, leave, are cut, or their workers die. Returns how many. */
enum churn { CHURN_LEAVE, CHURN_CUT, CHURN_KILL };
uint64_t churn(struct emulator *e, enum churn what, uint64_t n);

/* sessions.c */
bool sessions_wanted(const struct emulator *e);
/* Who is there at first; before anybody dials. */
void sessions_begin(struct emulator *e);
/* The load begins: plans the first ends and beginnings; it is over: nobody comes or goes any more. */
void sessions_start(struct emulator *e);
void sessions_stop(struct emulator *e);
/* w is not there any more. */
void session_gone(struct emulator *e, struct worker *w, enum standing how);
/* Closes n connections of those that are there, without a word, for good. */
void sessions_cut(struct emulator *e, uint64_t n);
/* A line "HOST STANDING" a worker. -errno. */
int sessions_print(const struct emulator *e, const char *path);

#endif
