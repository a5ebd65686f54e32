/* SPDX-License-Identifier: Apache-2.0 */
/* subscribe.h - the frames of a subscription (docs/protocol.md, "Subscriptions") as bytes and plain structs.
 * As frame.h: pure functions, slices borrowed from the payload. */
#ifndef GRIDLINE_NET_SUBSCRIBE_H
#define GRIDLINE_NET_SUBSCRIBE_H

#include "net/args.h"
#include "net/frame.h"

enum subscribe_frame {
    FRAME_SUBSCRIBE = 19,
    FRAME_SUBSCRIBED = 20,
    FRAME_EVENTS = 21,
    FRAME_GAP = 22,
    FRAME_UNSUBSCRIBE = 23,
    FRAME_POSITION = 30,
    FRAME_CONSUMED = 31
};

/* A place in a gateway's journal, behind an event: events and their places are in the same order. record 0 =
 * none. As text "RECORD-PART-EVENT", which a consumer keeps and gives back, and need not understand. */
struct position {
    uint64_t record; /* number in the journal, */
    uint32_t part;   /* which batch of that record, from 0, */
    uint32_t event;  /* and how many events of that batch are passed */
};

enum { POSITION_TEXT_MAX = 48 };
int position_compare(struct position a, struct position b); /* < 0, 0, > 0 */
size_t position_print(char to[POSITION_TEXT_MAX], struct position p);
/* "N" alone is the place behind record N. false: no position. */
bool position_parse(struct slice text, struct position *out);

/* Options are named values, all of them text; those that are not there have their default, and who does not
 * know one of them refuses the subscription. The same names everywhere: frames, HTTP, XML-RPC, commands.
 *     host       patterns of host names by commas
 *     on_change  fields by commas, or "*": only events in which one of them has another value than before
 *     cross      FIELD:LEVEL[:HYSTERESIS]: only events that cross it, up (>= LEVEL) or down (< LEVEL -
 * HYSTERESIS) delta      FIELD:AMOUNT or FIELD:N%: only events that far from the one given last every      a
 * duration: of each stream at most one event in that time period     a duration: how often sensors that run
 * on request are to be read format     binary (default), ndjson, ulm, bp, xml: what EVENTS carries from a
 * position, "oldest", or "now" (default) durable    a name: never dropped, goes on where its consumer has
 * said CONSUMED queue      bytes that may wait for this consumer
 *     hold       of a durable one: bytes that the gateway's journal may grow to for it */
struct frame_subscribe {
    uint32_t id;         /* the consumer's choice */
    struct slice events; /* patterns of event names, separated by commas; "" = all */
    struct slice where;  /* a predicate; "" = all */
    struct args options;
};

struct frame_subscribed {
    uint32_t id;
    uint16_t status; /* enum control_status: 0 = it runs; else text says why not */
    struct slice text;
    struct position position; /* what comes is behind this; record 0 from who keeps no journal */
    uint64_t journal; /* which journal that is a place in: another one has another number; 0 = not told */
};

struct frame_events {
    uint32_t id;
    struct position position; /* of the last event in it; record 0 = none is kept (an agent) */
    uint32_t count;           /* events */
    struct slice data;        /* a block, or text in the format that was asked for */
};

enum gap_reason {
    GAP_SLOW = 0, /* this consumer was too slow for them */
    GAP_GONE = 1, /* the journal no longer has them: forced out, or damaged */
};

struct frame_gap {
    uint32_t id;
    uint64_t lost; /* events, since the last GAP; GAP_GONE: 0 = nobody knows how many */
    uint16_t reason;
    struct position from, to; /* what is missing lies between; record 0 = not known */
};

void frame_put_subscribe(struct strbuf *out, const struct frame_subscribe *s);
int frame_get_subscribe(struct slice payload, struct frame_subscribe *out);
void frame_put_subscribed(struct strbuf *out, const struct frame_subscribed *s);
int frame_get_subscribed(struct slice payload, struct frame_subscribed *out);
/* The head of EVENTS for n bytes of data, which are sent behind it. */
void frame_put_events_head(struct strbuf *out, const struct frame_events *e, size_t n);
void frame_put_events(struct strbuf *out, const struct frame_events *e);
int frame_get_events(struct slice payload, struct frame_events *out);
void frame_put_gap(struct strbuf *out, const struct frame_gap *g);
int frame_get_gap(struct slice payload, struct frame_gap *out);
void frame_put_unsubscribe(struct strbuf *out, uint32_t id);
int frame_get_unsubscribe(struct slice payload, uint32_t *id);
/* POSITION: a consumer that nothing passed for is up to here all the same. CONSUMED: it is done with all up
 * to there. */
void frame_put_position(struct strbuf *out, enum subscribe_frame type, uint32_t id, struct position p);
int frame_get_position(struct slice payload, uint32_t *id, struct position *out);

#endif
