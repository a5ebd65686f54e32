/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.h - events of a grid in a program: subscribe at gateways, ask them. Link with -lgridline-consumer.
 *
 *     struct gridline_consumer_options options = {.size = sizeof options, .gateways = "tls://gw.example"};
 *     struct gridline_subscription busy = {.size = sizeof busy, .events = "load", .where = "one > 8"};
 *     gridline_consumer *c = gridline_consumer_open(&options, why, sizeof why);
 *     gridline_consumer_subscribe(c, &busy);
 *     while (gridline_consumer_next(c, -1, &item) > 0)
 *         if (gridline_item_kind(item) == GRIDLINE_ITEM_EVENT) ...
 *     gridline_consumer_close(c);
 *
 * A consumer holds a connection to each of its gateways. One that breaks is dialled again, after pauses that
 * grow to five seconds, and its subscriptions go on behind the last event that came: nothing comes twice.
 * What can't be had any more is told where it would have come (GRIDLINE_ITEM_GAP). Everything that happens is
 * an item of the one stream that gridline_consumer_next gives: events, gaps, connections that came and went.
 *
 * It lives in other people's programs: it starts no thread, prints nothing and does not abort. It reads no
 * more than the program takes; a program that is too slow makes its gateway hold its events, and then drop
 * them, which is told as a gap. A consumer belongs to one thread at a time. Results are 0 or a count, or a
 * negative errno value; gridline_consumer_why has it in words. In another's loop: poll gridline_consumer_fd
 * for reading, then call gridline_consumer_next with timeout 0 until it gives 0. */
#ifndef GRIDLINE_CONSUMER_H
#define GRIDLINE_CONSUMER_H

#include <gridline/gridline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ consumers */

typedef struct gridline_consumer gridline_consumer;

/* size is sizeof of the struct, here and below: later versions add members at the end. NULL and 0: the
 * default. */
struct gridline_consumer_options {
    size_t size;
    /* Addresses by commas, at most 64: unix:PATH, tcp://HOST[:PORT], tls://HOST[:PORT]. Each is a stream of
     * its own: events of several gateways come as they come. Default: the gateway on this host, if its socket
     * is there, else its agent. An agent's socket (unix:) gives that host's events; it knows no options of
     * subscriptions, and what it sends while nobody listens is gone. */
    const char *gateways;
    /* Key and certificate for tls://: a folder. Default GRIDLINE_IDENTITY, or ~/.config/gridline/identity. */
    const char *identity;
    const char *prog; /* who asks, for the gateway's log */
};

/* Dials, but waits for nobody: a gateway that does not answer is tried again and again. A name in an address
 * is resolved each time it is dialled, which takes as long as the resolver does. NULL: why (may be NULL) says
 * what is wrong with the options, or that there is no memory. */
GRIDLINE_API gridline_consumer *gridline_consumer_open(const struct gridline_consumer_options *o, char *why,
                                                       size_t why_size);
GRIDLINE_API void gridline_consumer_close(gridline_consumer *c); /* NULL is fine */

/* What was wrong with the last call that failed. Never NULL; borrowed until the next call. */
GRIDLINE_API const char *gridline_consumer_why(const gridline_consumer *c);
/* The i-th gateway's address as it was given, NULL behind the last. */
GRIDLINE_API const char *gridline_consumer_gateway(const gridline_consumer *c, size_t i);

/* ------------------------------------------------------------------ subscriptions */

/* What of the stream. All of it is text as in docs/protocol.md, "Subscriptions"; NULL and "" = not given. */
struct gridline_subscription {
    size_t size;
    const char *gateway;   /* at this one of the gateways, as it was given; default: at all of them */
    const char *events;    /* patterns of event names by commas; sensors that run on request start for them */
    const char *host;      /* patterns of host names by commas */
    const char *where;     /* a predicate */
    const char *on_change; /* fields by commas, or "*": events in which one of them has changed */
    const char *cross;     /* FIELD:LEVEL[:HYSTERESIS]: events that cross it */
    const char *delta;     /* FIELD:AMOUNT or FIELD:N%: events that far from the one given last */
    const char *every;     /* a duration ("10s"): at most one event of each stream in that time */
    const char *period;    /* a duration: how often sensors that run on request are to be read */
    const char *from;      /* "oldest", "now" (default), or a position: what comes is behind it */
    const char *durable;   /* a name: its place is kept (gridline_consumer_consumed), nothing is dropped */
    const char *queue;     /* how many bytes ("8MiB") may wait for this consumer at the gateway */
    const char *hold;      /* of a durable one: how large the gateway's journal may grow for it ("64MiB") */
};

/* Returns its number, from 1. The gateway's answer is an item: GRIDLINE_ITEM_SUBSCRIBED or
 * GRIDLINE_ITEM_REFUSED. -EINVAL, -ENOSPC (over 64), -ENOMEM. */
GRIDLINE_API int gridline_consumer_subscribe(gridline_consumer *c, const struct gridline_subscription *s);
/* Nothing more comes of it. -ENOENT. */
GRIDLINE_API int gridline_consumer_unsubscribe(gridline_consumer *c, int subscription);

#define GRIDLINE_POSITION_MAX 80
/* Where subscription is in the stream of a gateway (the i-th): behind the event that gridline_consumer_next
 * gave last. To be stored and given as `from` in another run, with the same subscription. 0; -ENODATA: there
 * is none (an agent keeps none, or it has not begun); -ENOENT. */
GRIDLINE_API int gridline_consumer_position(gridline_consumer *c, int subscription, size_t gateway,
                                            char position[GRIDLINE_POSITION_MAX]);
/* A durable subscription is done with all events that it was given: the next program with that name goes on
 * behind them, and what was not consumed comes again there. By whole batches: of one that is given in part
 * nothing is consumed. Its gateways are told at the next call of gridline_consumer_next, or at close.
 * -ENOENT, -EINVAL (it is not durable). */
GRIDLINE_API int gridline_consumer_consumed(gridline_consumer *c, int subscription);

/* ------------------------------------------------------------------ the stream */

typedef struct gridline_item gridline_item;

/* _code and _text are what gridline_item_code and gridline_item_text say. */
enum gridline_item_kind {
    GRIDLINE_ITEM_EVENT = 1,
    GRIDLINE_ITEM_GAP = 2,        /* events are missing here: gridline_item_lost; _code: enum gridline_gap */
    GRIDLINE_ITEM_CONNECTED = 3,  /* the gateway answers */
    GRIDLINE_ITEM_BROKEN = 4,     /* its connection is gone: _code, _text why. It is dialled again */
    GRIDLINE_ITEM_RETRY = 5,      /* it can't be reached, as BROKEN; told once for each reason */
    GRIDLINE_ITEM_SUBSCRIBED = 6, /* the subscription runs; _text: "", or a notice: what was not given as asked for */
    GRIDLINE_ITEM_REFUSED = 7,    /* it does not, or no longer, for good: _code: enum gridline_status */
    GRIDLINE_ITEM_ROW = 8         /* of an answer: its values are those of an event without a head */
};

enum gridline_gap {
    GRIDLINE_GAP_SLOW = 0,    /* this program was too slow for them */
    GRIDLINE_GAP_GONE = 1,    /* the gateway no longer has them */
    GRIDLINE_GAP_JOURNAL = 2, /* it has another journal than before: what was in the old one is not there */
    GRIDLINE_GAP_BROKEN = 3,  /* the connection broke, and the other end (an agent) keeps nothing */
    GRIDLINE_GAP_DAMAGED = 4  /* they came, and can't be read */
};

/* 1: *item is the next one, borrowed until the next call. 0: there was none within timeout_ms (0: look, do
 * not wait; -1: no limit). Negative: the call failed (-EINTR: a signal came; -ENOMEM); nothing is lost by it,
 * and it can be made again. */
GRIDLINE_API int gridline_consumer_next(gridline_consumer *c, int timeout_ms, const gridline_item **item);
/* A descriptor that is readable when gridline_consumer_next has something to do, pauses and pings included.
 * It stays the same; do not read it. */
GRIDLINE_API int gridline_consumer_fd(const gridline_consumer *c);

GRIDLINE_API int gridline_item_kind(const gridline_item *item);
GRIDLINE_API const char *gridline_item_gateway(const gridline_item *item); /* as it was given */
GRIDLINE_API int gridline_item_subscription(const gridline_item *item);    /* 0: it is about the gateway */
/* Of a gap: how many events; 0 = nobody knows. */
GRIDLINE_API uint64_t gridline_item_lost(const gridline_item *item);
/* As the kinds say; of a connection a negative errno, -EACCES: not allowed; below -10000: the other end does
 * not speak as a gateway does. */
GRIDLINE_API int gridline_item_code(const gridline_item *item);
GRIDLINE_API const char *gridline_item_text(const gridline_item *item); /* never NULL */

/* Of an event. host and prog: "" = not known. */
struct gridline_head {
    int64_t time_ns; /* global time, UTC */
    const char *name, *host, *prog;
    size_t n_fields;
    int level; /* enum gridline_level */
};
/* 0; -ENOENT: it is no event; -ENOMEM. Text is borrowed like the item, here and below. */
GRIDLINE_API int gridline_item_head(const gridline_item *item, struct gridline_head *out, size_t size);
/* The i-th field of an event or value of a row: 1; 0: this event has no value there (*out has the name, type
 * 0); -ENOENT behind the last. Text has a NUL behind it, which n does not count. It may be given to
 * gridline_write_values. */
GRIDLINE_API int gridline_item_field(const gridline_item *item, size_t i, struct gridline_value *out);
/* The field of that name: 1; 0: there is none, or it has no value. */
GRIDLINE_API int gridline_item_get(const gridline_item *item, const char *name, struct gridline_value *out);
/* The same as a number, whatever the type: 1; 0: there is none, or it is no number. */
GRIDLINE_API int gridline_item_number(const gridline_item *item, const char *name, double *out);
/* The same as text, as it was written: "0.50" for a number that an untyped source (a ULM line, a CSV file) spelt so, of
 * which the calls above give the float 0.5. NULL: there is none, or no memory. Borrowed like text; bytes may hold a NUL. */
GRIDLINE_API const char *gridline_item_spelling(const gridline_item *item, const char *name);

/* ------------------------------------------------------------------ questions */

/* How an answer ended: the exit codes of the commands. */
enum gridline_status {
    GRIDLINE_STATUS_DONE = 0,
    GRIDLINE_STATUS_FAILED = 1,
    GRIDLINE_STATUS_USAGE = 2,
    GRIDLINE_STATUS_NOT_FOUND = 3,
    GRIDLINE_STATUS_PARTLY = 4,
    GRIDLINE_STATUS_NOT_ALLOWED = 5
};

/* A row of an answer (GRIDLINE_ITEM_ROW, or GRIDLINE_ITEM_EVENT where rows are events), borrowed for the
 * call, in which no call on the consumer may be made. A negative result ends the question and is returned. */
typedef int (*gridline_row_fn)(void *arg, const gridline_item *row);

/* Asks the i-th gateway (docs/protocol.md, "Control"), on a connection of its own, and waits for all of the
 * answer, up to timeout_ms (0: 10 s) of silence. values: n of them; types as in gridline_write_values. An
 * enum gridline_status with its text in gridline_consumer_why, or a negative errno. */
GRIDLINE_API int gridline_consumer_ask(gridline_consumer *c, size_t gateway, const char *verb,
                                       const struct gridline_value *values, size_t n, int timeout_ms,
                                       gridline_row_fn fn, void *arg);
/* The latest event of each stream that is meant: rows are events. */
GRIDLINE_API int gridline_consumer_latest(gridline_consumer *c, size_t gateway, const char *events,
                                          const char *host, const char *where, gridline_row_fn fn, void *arg);
/* Averages, minima and maxima of the fields (patterns by commas) of each stream that is meant, over windows
 * ("1m,10m"): NULL = all that are kept. A row each. */
GRIDLINE_API int gridline_consumer_summary(gridline_consumer *c, size_t gateway, const char *events,
                                           const char *host, const char *fields, const char *windows,
                                           gridline_row_fn fn, void *arg);

/* ------------------------------------------------------------------ SQL */

/* A query at a gateway that keeps an archive (docs/sql.md): every event name is a table. Belongs to one
 * thread at a time, which may be another than its consumer's; the consumer must outlive it.
 *
 *     struct gridline_query_options o = {.size = sizeof o, .sql = "SELECT host, one FROM load_latest"};
 *     gridline_query *q = gridline_query_open(c, 0, &o);
 *     while (q && gridline_query_next(q, -1) > 0)
 *         ... gridline_query_value(q, 0, &host) ...
 *     gridline_query_close(q); */
typedef struct gridline_query gridline_query;

struct gridline_query_options {
    size_t size;
    const char *sql;  /* one statement, which reads */
    uint64_t time_ms; /* how long it may take; default: as the gateway has it, 30 s */
    uint64_t rows;    /* how many rows it may give, else it fails; default: 1,000,000 */
    /* Called from within gridline_query_next, about twice a second while it takes long: how many rows were
     * looked at so far. NULL = not asked. */
    void (*progress)(void *arg, uint64_t rows_seen, uint64_t elapsed_ms);
    void *arg;
    int connect_ms; /* how long connecting may take; default 10 s */
};

/* Connects to the i-th gateway of c, on a connection of its own, and asks. NULL: errno and
 * gridline_consumer_why(c). */
GRIDLINE_API gridline_query *gridline_query_open(gridline_consumer *c, size_t gateway,
                                                 const struct gridline_query_options *o);
/* What still runs is cancelled. NULL is fine. */
GRIDLINE_API void gridline_query_close(gridline_query *q);

/* 1: a row; 0: there are no more. -EAGAIN: none came within timeout_ms (0: look, do not wait; -1: no limit);
 * call again. Others: it failed, after the rows that were given: gridline_query_why says why, and
 * gridline_query_status what kind of failure the gateway says it is. */
GRIDLINE_API int gridline_query_next(gridline_query *q, int timeout_ms);
/* Asks the gateway to stop. gridline_query_next gives -ECANCELED then, or the rows that were on their way. */
GRIDLINE_API void gridline_query_cancel(gridline_query *q);

/* How many columns the result has, known with the first row or at the end (before: 0); and the name of each,
 * NULL behind the last. */
GRIDLINE_API size_t gridline_query_columns(const gridline_query *q);
GRIDLINE_API const char *gridline_query_column(const gridline_query *q, size_t i);
/* The i-th value of the row: 1; 0: it is NULL (*out has the name, type 0); -ENOENT behind the last; -ENOMEM.
 * Types: 'i', 'f', 't', and 'x' for bytes. Text has a NUL behind it, which n does not count; it is borrowed
 * until the next call of gridline_query_next. */
GRIDLINE_API int gridline_query_value(gridline_query *q, size_t i, struct gridline_value *out);

/* An enum gridline_status once it has ended by the gateway's word; -EINPROGRESS before that. */
GRIDLINE_API int gridline_query_status(const gridline_query *q);
GRIDLINE_API const char *gridline_query_why(const gridline_query *q); /* never NULL */
/* Rows that damage of the archive kept out of the result; known at the end. */
GRIDLINE_API uint64_t gridline_query_lost(const gridline_query *q);
/* The i-th notice, from 0: a fact beside the rows without which they mislead, such as "data from 09:00 on; 3
 * h deleted by retention". 1: *code is a word for programs ("retention"), *text a sentence for people, both
 * borrowed until gridline_query_close; 0: there is none; -EINPROGRESS before the end. */
GRIDLINE_API int gridline_query_notice(gridline_query *q, size_t i, const char **code, const char **text);

#ifdef __cplusplus
}
#endif

#endif
