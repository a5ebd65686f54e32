/* SPDX-License-Identifier: Apache-2.0 */
#include "net/subscribe.h"

#include "base/text.h"

enum { PATTERNS_MAX = 4096, WHERE_MAX = 65536 };

void frame_put_subscribe(struct strbuf *out, const struct frame_subscribe *s)
{
    size_t at = frame_begin(out, FRAME_SUBSCRIBE, 0);
    strbuf_add_u32(out, s->id);
    strbuf_add_text(out, s->events);
    strbuf_add_text(out, s->where);
    frame_end(out, at);
}

int frame_get_subscribe(struct slice payload, struct frame_subscribe *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_subscribe s = {.id = cursor_u32(&c)};
    s.events = cursor_text(&c);
    s.where = cursor_text(&c);
    if (c.bad || s.events.n > PATTERNS_MAX || s.where.n > WHERE_MAX || !text_is_utf8(s.events) ||
        !text_is_utf8(s.where))
        return E_PROTO;
    *out = s;
    return 0;
}

void frame_put_subscribed(struct strbuf *out, const struct frame_subscribed *s)
{
    size_t at = frame_begin(out, FRAME_SUBSCRIBED, 0);
    strbuf_add_u32(out, s->id);
    strbuf_add_u16(out, s->status);
    strbuf_add_text(out, s->text);
    frame_end(out, at);
}

int frame_get_subscribed(struct slice payload, struct frame_subscribed *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_subscribed s = {.id = cursor_u32(&c)};
    s.status = cursor_u16(&c);
    s.text = cursor_text(&c);
    if (c.bad || !text_is_utf8(s.text))
        return E_PROTO;
    *out = s;
    return 0;
}

void frame_put_events(struct strbuf *out, const struct frame_events *e)
{
    size_t at = frame_begin(out, FRAME_EVENTS, 0);
    strbuf_add_u32(out, e->id);
    strbuf_add_slice(out, e->block);
    frame_end(out, at);
}

int frame_get_events(struct slice payload, struct frame_events *out)
{
    struct cursor c = cursor_of(payload);
    uint32_t id = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *out = (struct frame_events){id, slice_from(payload, 4)};
    return 0;
}

void frame_put_gap(struct strbuf *out, const struct frame_gap *g)
{
    size_t at = frame_begin(out, FRAME_GAP, 0);
    strbuf_add_u32(out, g->id);
    strbuf_add_u64(out, g->lost);
    frame_end(out, at);
}

int frame_get_gap(struct slice payload, struct frame_gap *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_gap g = {.id = cursor_u32(&c)};
    g.lost = cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = g;
    return 0;
}

void frame_put_unsubscribe(struct strbuf *out, uint32_t id)
{
    size_t at = frame_begin(out, FRAME_UNSUBSCRIBE, 0);
    strbuf_add_u32(out, id);
    frame_end(out, at);
}

int frame_get_unsubscribe(struct slice payload, uint32_t *id)
{
    struct cursor c = cursor_of(payload);
    uint32_t v = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *id = v;
    return 0;
}
