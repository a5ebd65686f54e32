/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the parts of the consumer library share, and what the commands use of it beyond
 * gridline/consumer.h: whole batches instead of one event after the other.
 *
 *     consumer    the installed calls: options, subscriptions, waiting
 *     link        a connection to one gateway: dial, greet, frames, pings, pauses
 *     feed        one subscription at one gateway: where it is, what to ask for, what of the frames is new
 *     item        what a program looks at
 *     question    latest, summary, control
 *     query       SQL
 *
 * Nothing is read ahead but the bytes of a frame: a link is stepped until it has one item, and not again
 * before that item is done with. So there is no queue here, and a program that does not read makes its
 * gateway's queue grow and not its own memory: at most LINK_INPUT_MAX bytes a link and one batch.
 *
 * For one thread. All memory is asked for by mem_try_alloc; what fails for want of it can be tried again. */
#ifndef GRIDLINE_CONSUMER_INTERNAL_H
#define GRIDLINE_CONSUMER_INTERNAL_H

#include "base/arena.h"
#include "event/batch.h"
#include "gridline/consumer.h"
#include "net/args.h"
#include "net/dial.h"
#include "net/subscribe.h"

enum {
    CONSUMER_LINKS_MAX = 64,
    CONSUMER_SUBSCRIPTIONS_MAX = 64,
    LINK_READ = 256 << 10,
    LINK_INPUT_MAX = FRAME_HEAD + FRAME_PAYLOAD_MAX + LINK_READ,
    LINK_OUTPUT_MAX = 8 << 20 /* a gateway that pings and does not read is given up */
};

/* What is new: an event of batch, or what the members say. */
struct gridline_item {
    int kind;
    struct link *link; /* NULL: a row */
    uint32_t subscription;
    uint64_t lost;
    int code;
    char text[sizeof((struct diag *)0)->message];
    struct feed *feed;   /* whose batch it is */
    struct batch *batch; /* owned; events from at on are still to be given; NULL = none */
    size_t at;
    const struct event *event; /* EVENT */
    struct args row;           /* ROW */
    const char *gateway;
    struct arena *words; /* C strings made for the program, until the next item */
};

/* Forgets everything but words. */
void item_clear(struct gridline_item *item);
/* Sets all but the batch; text NULL = "". Control characters in it become blanks: it comes from elsewhere. */
void item_set(struct gridline_item *item, int kind, struct link *l, uint32_t subscription, int code,
              struct slice text);

/* ---------------------------------------------------------------- feeds */

enum feed_state {
    FEED_NONE,    /* not at this gateway */
    FEED_WANTED,  /* to be asked for when there is a connection */
    FEED_ASKED,   /* SUBSCRIBE is sent */
    FEED_RUNNING, /* SUBSCRIBED came */
    FEED_ENDED    /* refused */
};

/* A place that a durable subscription may begin at again, and how many events came before it. */
struct feed_mark {
    struct position position;
    uint64_t count;
};
enum { FEED_MARKS = 16 };

struct feed {
    struct subscription *subscription;
    enum feed_state state;
    bool has_run;                       /* SUBSCRIBED came, on whatever connection */
    bool owes_consumed;                 /* CONSUMED is to be sent */
    bool is_placed;                     /* at is a place: not at an agent, and not before it has begun */
    struct position at;                 /* behind all events that came; record 0 = where the journal begins */
    uint32_t skip;                      /* events behind it that were given in an earlier run */
    uint64_t journal;                   /* which at is a place in; 0 = not known */
    struct position before;             /* where the batch that is being given began */
    uint64_t before_count;              /* events that came before it; as came */
    uint64_t came;                      /* events since it first ran, each once */
    struct position consumed;           /* what the program is done with */
    struct feed_mark marks[FEED_MARKS]; /* the newest, a ring */
    size_t n_marks;
};

struct subscription {
    uint32_t id;
    bool is_durable;
    bool is_exact; /* the same events pass each time: no filter that depends on those before */
    char *events, *where, *from;
    struct args_writer options; /* but from */
    struct feed feeds[];        /* one a link */
};

/* Of what the program gave; n is the number of links, only the only one to subscribe at (SIZE_MAX: all).
 * -EINVAL with *why, -ENOMEM. */
int subscription_create(const struct gridline_subscription *s, uint32_t id, size_t n, size_t only,
                        struct subscription **out, struct diag *why);
void subscription_destroy(struct subscription *s); /* NULL is fine */

/* [JOURNAL.]POS[+N]: behind the N-th event that passes behind POS, in the journal of that number (hex
 * digits). Without +N it is a position as the HTTP API has them. */
struct feed_place {
    struct position position;
    uint32_t skip;
    uint64_t journal;
};
size_t feed_print(char to[GRIDLINE_POSITION_MAX], const struct feed_place *p);
bool feed_parse(struct slice text, struct feed_place *out);

/* Appends what is to be said on a connection that is ready: SUBSCRIBE, CONSUMED. */
void feed_ask(struct feed *f, struct strbuf *out);
/* The connection is gone. */
void feed_reset(struct feed *f);
/* Frames of a feed that asked: 1 = an item; 0; E_PROTO; -ENOMEM (as if the frame had not come). *tell: also
 * an item SUBSCRIBED behind this one. */
int feed_subscribed(struct feed *f, const struct frame_subscribed *s, struct gridline_item *out, bool *tell);
int feed_events(struct feed *f, const struct frame_events *e, struct batch_builder *builder,
                struct gridline_item *out);
int feed_gap(struct feed *f, const struct frame_gap *g, struct gridline_item *out);
void feed_position(struct feed *f, struct position p);
/* Where it is, given events of its batch counted. false: nowhere. */
bool feed_place(const struct feed *f, const struct gridline_item *current, struct feed_place *out);
/* The program is done with all that it was given: CONSUMED is owed, if that is news. */
void feed_consumed(struct feed *f, const struct gridline_item *current);

/* ---------------------------------------------------------------- links */

enum link_state { LINK_DOWN, LINK_DIALLING, LINK_HELLO, LINK_READY };

struct link {
    struct gridline_consumer *consumer;
    size_t index;
    char *address;
    enum link_state state;
    struct dial *dial;
    struct strbuf in, out;
    size_t done;     /* bytes of in that the item before still borrows */
    size_t out_sent; /* bytes of out that are gone */
    short read_wants, write_wants;
    int64_t since_ns, heard_ns, pinged_ns; /* monotonic; pinged 0 = nothing is owed */
    int64_t retry_ns;
    int64_t pause_ms;
    bool was_useful;   /* this connection: a subscription ran */
    bool is_hasty;     /* there may be more to read that the socket does not show (TLS) */
    struct feed *tell; /* its SUBSCRIBED is to be told */
    struct diag told;  /* the last RETRY */
    int polled_fd;     /* what the consumer's epoll has of it; -1 = nothing */
    uint32_t polled_events;
};

int link_init(struct link *l, struct gridline_consumer *c, size_t index, struct slice address);
/* NULL address is fine. Says BYE if it can without waiting. */
void link_fini(struct link *l);
/* Does what can be done without waiting: 1 = *out is an item; 0 = nothing more now; -ENOMEM. */
int link_step(struct link *l, int64_t now_ns, struct gridline_item *out);
/* The same with bytes from elsewhere, for tests: they are as if received, and what is to be sent stays in
 * out. */
int link_input(struct link *l, struct slice bytes, int64_t now_ns, struct gridline_item *out);
/* What to poll for; fd -1 = nothing. And when to step at the latest. */
int link_wants(const struct link *l, short *events);
int64_t link_deadline_ns(const struct link *l);

/* ---------------------------------------------------------------- consumers */

struct gridline_consumer {
    char *identity, *prog;
    struct link *links;
    size_t n_links, turn;
    uint32_t last_id; /* of subscriptions */
    struct subscription *subscriptions[CONSUMER_SUBSCRIPTIONS_MAX];
    struct registry *registry;
    struct batch_builder *builder;
    struct gridline_item item;
    struct arena words;
    int epoll, timer;
    int64_t armed_ns;
    struct diag why;
};

struct subscription *consumer_find(const struct gridline_consumer *c, int64_t id); /* NULL: none */
/* As gridline_consumer_next, but of events all that came together: item->batch, from item->at on. Its owner
 * says how many of them it is done with, for positions. */
int consumer_next_batch(struct gridline_consumer *c, int timeout_ms, const struct gridline_item **item);
void consumer_given(struct gridline_consumer *c, size_t n);
/* From now on batches stand alone: they may be kept by batch_ref. -ENOMEM. */
int consumer_keep_batches(struct gridline_consumer *c);

#endif
