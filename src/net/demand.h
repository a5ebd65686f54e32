/* SPDX-License-Identifier: Apache-2.0 */
/* demand.h - DEMAND (docs/protocol.md, "On demand"): what a gateway's consumers want of a worker's sensors
 * that run on request. As frame.h: pure functions, slices borrowed from the payload. */
#ifndef GRIDLINE_NET_DEMAND_H
#define GRIDLINE_NET_DEMAND_H

#include "net/frame.h"

enum demand_frame { FRAME_DEMAND = 33 };

enum {
    DEMAND_MAX = 1024,          /* requests of one frame */
    DEMAND_EVENTS_MAX = 4096,   /* bytes of a request's patterns */
    DEMAND_BYTES_MAX = 64 << 10 /* of all requests of one frame */
};

struct demand_request {
    struct slice events; /* patterns of event names by commas, not "" */
    uint32_t period_ms;  /* how often they are to be read; 0 = the sensor's own period */
};

/* Requests one behind the other, as they are in the frame. frame_get_demand has looked at all of them:
 * walking them can't fail. */
struct frame_demand {
    uint32_t number; /* one more each time: for the log */
    uint32_t n;
    struct slice list;
};

void demand_put(struct strbuf *list, const struct demand_request *r);
/* The next request of the list, which gets shorter: true; false at its end. */
bool demand_next(struct slice *list, struct demand_request *out);
/* The smallest period, in ns, in which the list asks for events of that name; own_ns stands for that of those
 * who name none. 0 = nobody asks. */
int64_t demand_period_ns(struct slice list, struct slice event, int64_t own_ns);

void frame_put_demand(struct strbuf *out, uint32_t worker, const struct frame_demand *d);
int frame_get_demand(struct slice payload, struct frame_demand *out);

#endif
