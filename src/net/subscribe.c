/* SPDX-License-Identifier: Apache-2.0 */
#include "net/subscribe.h"

#include "base/num.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

enum { PATTERNS_MAX = 4096, WHERE_MAX = 65536 };

int position_compare(struct position a, struct position b)
{
    if (a.record != b.record)
        return a.record < b.record ? -1 : 1;
    if (a.part != b.part)
        return a.part < b.part ? -1 : 1;
    return a.event < b.event ? -1 : a.event > b.event;
}

size_t position_print(char to[POSITION_TEXT_MAX], struct position p)
{
    int n = snprintf(to, POSITION_TEXT_MAX, "%" PRIu64 "-%" PRIu32 "-%" PRIu32, p.record, p.part, p.event);
    return (size_t)n; /* three numbers fit */
}

/* Up to the next dash, or the end. */
static bool take_number(struct slice *rest, uint64_t max, uint64_t *out)
{
    size_t n = 0;
    while (n < rest->n && rest->p[n] != '-')
        n++;
    if (num_parse_uint(slice_of(rest->p, n), out) < 0 || *out > max)
        return false;
    *rest = slice_from(*rest, n < rest->n ? n + 1 : n);
    return true;
}

bool position_parse(struct slice text, struct position *out)
{
    uint64_t record, part = UINT32_MAX, event = UINT32_MAX;
    struct slice rest = text;
    if (!take_number(&rest, UINT64_MAX, &record))
        return false;
    bool is_whole = text.n && text.p[text.n - 1] != '-';
    if (rest.n &&
        (!take_number(&rest, UINT32_MAX, &part) || !take_number(&rest, UINT32_MAX, &event) || rest.n))
        return false;
    if (!is_whole)
        return false;
    *out = (struct position){record, (uint32_t)part, (uint32_t)event};
    return true;
}

static void put_position(struct strbuf *out, struct position p)
{
    strbuf_add_u64(out, p.record);
    strbuf_add_u32(out, p.part);
    strbuf_add_u32(out, p.event);
}

static struct position get_position(struct cursor *c)
{
    struct position p = {.record = cursor_u64(c)};
    p.part = cursor_u32(c);
    p.event = cursor_u32(c);
    return p;
}

void frame_put_subscribe(struct strbuf *out, const struct frame_subscribe *s)
{
    size_t at = frame_begin(out, FRAME_SUBSCRIBE, 0);
    strbuf_add_u32(out, s->id);
    strbuf_add_text(out, s->events);
    strbuf_add_text(out, s->where);
    args_put(out, s->options);
    frame_end(out, at);
}

/* All options are text. */
static bool has_text_only(struct args options)
{
    struct arg a;
    while (args_next(&options, &a))
        if (a.value.type != VALUE_TEXT || a.value.n > WHERE_MAX)
            return false;
    return true;
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
    if (cursor_left(&c) && (!args_get(&c, &s.options) || !has_text_only(s.options)))
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
    put_position(out, s->position);
    strbuf_add_u64(out, s->journal);
    frame_end(out, at);
}

int frame_get_subscribed(struct slice payload, struct frame_subscribed *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_subscribed s = {.id = cursor_u32(&c)};
    s.status = cursor_u16(&c);
    s.text = cursor_text(&c);
    if (cursor_left(&c))
        s.position = get_position(&c);
    if (!c.bad && cursor_left(&c))
        s.journal = cursor_u64(&c);
    if (c.bad || !text_is_utf8(s.text))
        return E_PROTO;
    *out = s;
    return 0;
}

enum { EVENTS_HEAD = 4 + 16 + 4 };

void frame_put_events_head(struct strbuf *out, const struct frame_events *e, size_t n)
{
    frame_put_head(out, FRAME_EVENTS, 0, EVENTS_HEAD + n);
    strbuf_add_u32(out, e->id);
    put_position(out, e->position);
    strbuf_add_u32(out, e->count);
}

void frame_put_events(struct strbuf *out, const struct frame_events *e)
{
    frame_put_events_head(out, e, e->data.n);
    strbuf_add_slice(out, e->data);
}

int frame_get_events(struct slice payload, struct frame_events *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_events e = {.id = cursor_u32(&c)};
    e.position = get_position(&c);
    e.count = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    e.data = slice_from(payload, EVENTS_HEAD);
    *out = e;
    return 0;
}

void frame_put_gap(struct strbuf *out, const struct frame_gap *g)
{
    size_t at = frame_begin(out, FRAME_GAP, 0);
    strbuf_add_u32(out, g->id);
    strbuf_add_u64(out, g->lost);
    strbuf_add_u16(out, g->reason);
    put_position(out, g->from);
    put_position(out, g->to);
    frame_end(out, at);
}

int frame_get_gap(struct slice payload, struct frame_gap *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_gap g = {.id = cursor_u32(&c)};
    g.lost = cursor_u64(&c);
    g.reason = cursor_u16(&c);
    g.from = get_position(&c);
    g.to = get_position(&c);
    if (c.bad)
        return E_PROTO;
    *out = g;
    return 0;
}

void frame_put_position(struct strbuf *out, enum subscribe_frame type, uint32_t id, struct position p)
{
    size_t at = frame_begin(out, (uint8_t)type, 0);
    strbuf_add_u32(out, id);
    put_position(out, p);
    frame_end(out, at);
}

int frame_get_position(struct slice payload, uint32_t *id, struct position *out)
{
    struct cursor c = cursor_of(payload);
    uint32_t v = cursor_u32(&c);
    struct position p = get_position(&c);
    if (c.bad)
        return E_PROTO;
    *id = v;
    *out = p;
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
