/* SPDX-License-Identifier: Apache-2.0 */
/* subscribe.h - the frames of a subscription (docs/protocol.md, "Subscriptions") as bytes and plain structs.
 * As frame.h: pure functions, slices borrowed from the payload. */
#ifndef GRIDLINE_NET_SUBSCRIBE_H
#define GRIDLINE_NET_SUBSCRIBE_H

#include "net/frame.h"

enum subscribe_frame {
    FRAME_SUBSCRIBE = 19,
    FRAME_SUBSCRIBED = 20,
    FRAME_EVENTS = 21,
    FRAME_GAP = 22,
    FRAME_UNSUBSCRIBE = 23
};

struct frame_subscribe {
    uint32_t id;         /* the consumer's choice */
    struct slice events; /* patterns of event names, separated by commas; "" = all */
    struct slice where;  /* a predicate; "" = all */
};

struct frame_subscribed {
    uint32_t id;
    uint16_t status; /* 0 = it runs; else text says why not */
    struct slice text;
};

struct frame_events {
    uint32_t id;
    struct slice block;
};

struct frame_gap {
    uint32_t id;
    uint64_t lost; /* events that this consumer was too slow for, since the last GAP */
};

void frame_put_subscribe(struct strbuf *out, const struct frame_subscribe *s);
int frame_get_subscribe(struct slice payload, struct frame_subscribe *out);
void frame_put_subscribed(struct strbuf *out, const struct frame_subscribed *s);
int frame_get_subscribed(struct slice payload, struct frame_subscribed *out);
void frame_put_events(struct strbuf *out, const struct frame_events *e);
int frame_get_events(struct slice payload, struct frame_events *out);
void frame_put_gap(struct strbuf *out, const struct frame_gap *g);
int frame_get_gap(struct slice payload, struct frame_gap *out);
void frame_put_unsubscribe(struct strbuf *out, uint32_t id);
int frame_get_unsubscribe(struct slice payload, uint32_t *id);

#endif
