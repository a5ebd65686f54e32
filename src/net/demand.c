/* SPDX-License-Identifier: Apache-2.0 */
/* DEMAND: u32 number; varint n, at most DEMAND_MAX; n times: text patterns, u32 period_ms. */
#include "net/demand.h"

#include "base/text.h"

void demand_put(struct strbuf *list, const struct demand_request *r)
{
    strbuf_add_text(list, r->events);
    strbuf_add_u32(list, r->period_ms);
}

static bool take(struct cursor *c, struct demand_request *out)
{
    out->events = cursor_text(c);
    out->period_ms = cursor_u32(c);
    return !c->bad;
}

bool demand_next(struct slice *list, struct demand_request *out)
{
    struct cursor c = cursor_of(*list);
    if (list->n == 0 || !take(&c, out))
        return false;
    *list = slice_of((const char *)c.p, cursor_left(&c));
    return true;
}

int64_t demand_period_ns(struct slice list, struct slice event, int64_t own_ns)
{
    int64_t least_ns = 0;
    struct demand_request r;
    while (demand_next(&list, &r)) {
        int64_t period_ns = r.period_ms ? r.period_ms * INT64_C(1000000) : own_ns;
        if ((least_ns == 0 || period_ns < least_ns) && text_glob_any(r.events, event))
            least_ns = period_ns;
    }
    return least_ns;
}

void frame_put_demand(struct strbuf *out, uint32_t worker, const struct frame_demand *d)
{
    size_t at = frame_begin(out, FRAME_DEMAND, worker);
    strbuf_add_u32(out, d->number);
    strbuf_add_varint(out, d->n);
    strbuf_add_slice(out, d->list);
    frame_end(out, at);
}

static bool is_good(struct slice events)
{
    return events.n > 0 && events.n <= DEMAND_EVENTS_MAX && text_is_utf8(events) && !text_has_control(events);
}

int frame_get_demand(struct slice payload, struct frame_demand *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_demand d = {.number = cursor_u32(&c)};
    uint64_t n = cursor_varint(&c);
    const char *first = (const char *)c.p;
    if (c.bad || n > DEMAND_MAX)
        return E_PROTO;
    for (uint64_t i = 0; i < n; i++) {
        struct demand_request r;
        if (!take(&c, &r) || !is_good(r.events))
            return E_PROTO;
    }
    d.n = (uint32_t)n;
    d.list = slice_of(first, (size_t)((const char *)c.p - first));
    if (d.list.n > DEMAND_BYTES_MAX)
        return E_PROTO;
    *out = d;
    return 0;
}
