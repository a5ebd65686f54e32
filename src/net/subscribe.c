/* SPDX-License-Identifier: Apache-2.0 */
#include "net/subscribe.h"

#include "base/cursor.h"
#include "base/text.h"

enum { PATTERNS_MAX = 4096, WHERE_MAX = 65536 };

static void put_text(struct strbuf *out, struct slice s)
{
    strbuf_add_varint(out, s.n);
    strbuf_add_slice(out, s);
}

static struct slice get_text(struct cursor *c)
{
    return cursor_bytes(c, cursor_varint(c));
}

/* Appends the frame and frees the payload. */
static void put(struct strbuf *out, uint8_t type, struct strbuf *payload)
{
    if (strbuf_failed(payload))
        out->failed = true;
    else
        frame_put(out, type, 0, strbuf_slice(payload));
    strbuf_fini(payload);
}

void frame_put_subscribe(struct strbuf *out, const struct frame_subscribe *s)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, s->id);
    put_text(&p, s->events);
    put_text(&p, s->where);
    put(out, FRAME_SUBSCRIBE, &p);
}

int frame_get_subscribe(struct slice payload, struct frame_subscribe *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_subscribe s = {.id = cursor_u32(&c)};
    s.events = get_text(&c);
    s.where = get_text(&c);
    if (c.bad || s.events.n > PATTERNS_MAX || s.where.n > WHERE_MAX || !text_is_utf8(s.events) ||
        !text_is_utf8(s.where))
        return E_PROTO;
    *out = s;
    return 0;
}

void frame_put_subscribed(struct strbuf *out, const struct frame_subscribed *s)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, s->id);
    strbuf_add_u16(&p, s->status);
    put_text(&p, s->text);
    put(out, FRAME_SUBSCRIBED, &p);
}

int frame_get_subscribed(struct slice payload, struct frame_subscribed *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_subscribed s = {.id = cursor_u32(&c)};
    s.status = cursor_u16(&c);
    s.text = get_text(&c);
    if (c.bad || !text_is_utf8(s.text))
        return E_PROTO;
    *out = s;
    return 0;
}

void frame_put_events(struct strbuf *out, const struct frame_events *e)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, e->id);
    strbuf_add_slice(&p, e->block);
    put(out, FRAME_EVENTS, &p);
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
    struct strbuf p = {0};
    strbuf_add_u32(&p, g->id);
    strbuf_add_u64(&p, g->lost);
    put(out, FRAME_GAP, &p);
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
    struct strbuf p = {0};
    strbuf_add_u32(&p, id);
    put(out, FRAME_UNSUBSCRIBE, &p);
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
