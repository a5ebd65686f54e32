/* SPDX-License-Identifier: Apache-2.0 */
/* subscription.h - who wants which events, and the queue of each (JM-4, SV-1).
 *
 * Every batch that is in the journal is looked at once for each different selection (same patterns, same
 * WHERE, same view of access), and what passes is encoded once for each format of it: a chunk, which all who
 * asked for the same share by reference. Subscriptions that remember events (select.h) have a selection of
 * their own.
 *
 * A subscription has a bounded queue of chunks. A consumer that does not read loses the oldest of its own, is
 * told how many (a gap, at the place where they are missing), and costs nobody else anything. A durable one
 * loses none: when its queue is full it goes on from the journal, where its consumer's cursor is.
 *
 * Positions (net/subscribe.h) are places in the journal: a consumer that comes again with the last one it has
 * gets what it missed from there (replay.h), or a gap for what is gone, and then what comes.
 *
 *     subscriptions_batch(all, batch, position) for each batch; subscriptions_flush(all) after the last of
 * them
 *
 * On the loop, one thread; replay reads the journal in its own. Cost: see `script/bench fanout`. */
#ifndef GRIDLINE_GATEWAY_SUBSCRIPTION_H
#define GRIDLINE_GATEWAY_SUBSCRIPTION_H

#include "event/batch.h"
#include "event/select.h"
#include "gateway/access.h"
#include "gateway/chunk.h"
#include "gateway/cursors.h"

#include <event2/event.h>

enum {
    SUBSCRIPTIONS_MAX = 8192,     /* of all */
    SUBSCRIPTIONS_OF_ONE = 64,    /* of one subscriber */
    SUBSCRIPTION_QUEUE = 4 << 20, /* bytes that may wait, by default */
    SUBSCRIPTION_QUEUE_MIN = 64 << 10,
    SUBSCRIPTION_QUEUE_MAX = 64 << 20,
    SUBSCRIPTION_PERIOD_MIN_NS = 1000000 /* in milliseconds on the wire (demand.h) */
};

struct subscription_gap {
    uint64_t lost; /* 0 = nobody knows how many */
    enum gap_reason reason;
    struct position from, to;
};

/* Somebody who has subscriptions: a session, an HTTP stream. Embedded in it; zeroed but for these two. */
struct subscriber;
struct subscriber_ops {
    /* More is given only while this says so: false, then subscriptions_writable when it is true again. */
    bool (*is_writable)(const struct subscriber *s);
    /* These may end the subscriber only by way of the loop, not within the call. */
    void (*events)(struct subscriber *s, uint32_t id, struct chunk *c); /* takes a reference if it keeps it */
    void (*gap)(struct subscriber *s, uint32_t id, const struct subscription_gap *gap);
    void (*position)(struct subscriber *s, uint32_t id, struct position p); /* NULL = not told */
    /* All that can be given now was given: send it. NULL = it was. */
    void (*flush)(struct subscriber *s);
    /* It was ended by the gateway: another consumer has its durable name, or there is no memory. */
    void (*ended)(struct subscriber *s, uint32_t id, const char *why);
};
struct subscriber {
    const struct subscriber_ops *ops;
    const struct access_identity *who; /* as long as it lives */
    const char *name;                  /* for lists and the log; borrowed as long as it lives; NULL = none */
    struct subscription *first;        /* subscriptions' own */
    uint32_t n;
};

/* What is asked for. From the names of net/subscribe.h, by whatever interface. */
struct subscription_options {
    struct select_spec select;
    struct slice period, format, from, durable, hold, queue;
};
/* Sets the member of that name: "event", "host", "where", "on_change", ... false: there is none. The text is
 * borrowed. */
bool subscription_option(struct subscription_options *o, struct slice name, struct slice text);

struct subscriptions;
struct subscriptions_options {
    struct event_base *base;
    const char *journal;     /* folder, for replay; NULL = nothing but what comes */
    const struct replay_refill *refill; /* replay.h; NULL = none */
    uint64_t settled;        /* the last record of it */
    struct cursors *cursors; /* of the durable ones; NULL = there are none. Borrowed */
    const struct class_source *classes; /* by which fields are taken; NULL = none. The same */
    uint64_t hold_max;       /* bytes that the journal may grow to for a durable one */
    /* What subscriptions ask of on-request sensors has changed (demand.h). NULL = not told. */
    void (*on_demand)(void *arg);
    void *arg;
};
struct subscriptions *subscriptions_create(const struct subscriptions_options *o); /* NULL: no memory */
void subscriptions_destroy(struct subscriptions *all); /* NULL is fine; after the subscribers */

/* The same id of the same subscriber is replaced. *at (NULL is fine) is where it begins. E_PROTO or E_LIMIT: *why says what
 * is wrong with it; -EACCES; -EBUSY; -ENOMEM. With 0, *why is a notice where less is given than was asked for, or where a
 * comparison can't be meant (selector_notice), else empty. */
int subscriptions_add(struct subscriptions *all, struct subscriber *s, uint32_t id,
                      const struct subscription_options *o, struct position *at, struct diag *why);
void subscriptions_remove(struct subscriptions *all, struct subscriber *s, uint32_t id);
/* It goes: all of its. */
void subscriptions_forget(struct subscriptions *all, struct subscriber *s);
/* It takes more. */
void subscriptions_writable(struct subscriptions *all, struct subscriber *s);
/* Its consumer is done with all up to there: moves a durable one's cursor. */
void subscriptions_consumed(struct subscriptions *all, struct subscriber *s, uint32_t id, struct position p);

/* The same by its name, for those who have no connection of their own: E_NODATA: there is none of that name;
 * E_PROTO: nobody was given that much. */
int subscriptions_consumed_durable(struct subscriptions *all, struct slice name, struct position p,
                                   const struct access_identity *who);

/* The number of the journal that positions are places in; 0 = there is none. */
uint64_t subscriptions_journal(const struct subscriptions *all);
/* Forgets a durable name that nobody reads by. E_NODATA: there is none; -EBUSY; -EACCES: it is somebody
 * else's, and who may not control either. */
int subscriptions_remove_durable(struct subscriptions *all, struct slice name,
                                 const struct access_identity *who);

/* How far a durable subscription is behind. */
struct subscription_lag {
    const struct cursor_mark *mark; /* borrowed for the call */
    uint64_t hold;                  /* bytes that the journal may grow to for it */
    uint64_t records, bytes;        /* that it has not consumed, of the journal */
    int64_t ns;                     /* since the oldest of them came, about */
    bool is_own;                    /* of who asks */
};
/* Of each durable name, whether somebody reads by it or not. */
void subscriptions_each_durable(struct subscriptions *all, const struct access_identity *who,
                                void (*fn)(void *arg, const struct subscription_lag *lag), void *arg);

/* A batch that is in the journal: part `at.part` of record `at.record`; at.event is not looked at. */
void subscriptions_batch(struct subscriptions *all, const struct batch *b, struct position at);
/* The last of those that came together: sends them. last: everything up to this record has been given. */
void subscriptions_flush(struct subscriptions *all, uint64_t last);
/* Once a second: positions to those for whom nothing passed. */
void subscriptions_tick(struct subscriptions *all, int64_t now_ns);

/* Borrowed for the call. */
struct subscription_info {
    uint32_t id;
    const struct subscriber *subscriber;
    const struct selector *selector;
    struct slice events, hosts, where; /* as asked */
    struct slice durable;              /* "" = it is not */
    struct subscription_lag lag;       /* of a durable one */
    int64_t period_ns;                 /* 0 = not asked for */
    uint64_t given, filtered, lost, queued_bytes;
    struct position position; /* of what was given last */
    bool is_replaying;
};
void subscriptions_each(struct subscriptions *all, void (*fn)(void *arg, const struct subscription_info *i),
                        void *arg);
size_t subscriptions_count(const struct subscriptions *all);

#endif
