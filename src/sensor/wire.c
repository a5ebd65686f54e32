/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/wire.h"

#include "base/cursor.h"

#include <errno.h>

static void put_text(struct strbuf *out, struct slice s)
{
    strbuf_add_varint(out, s.n);
    strbuf_add_slice(out, s);
}

static struct slice get_text(struct cursor *c)
{
    uint64_t n = cursor_varint(c);
    return cursor_bytes(c, n);
}

static int get_status(struct cursor *c)
{
    return (int)(int32_t)cursor_u32(c);
}

static struct slice get_rest(struct cursor *c)
{
    return cursor_bytes(c, cursor_left(c));
}

/* The payload, which it frees, as a frame. */
static int put_frame(struct strbuf *out, enum wire_type type, struct strbuf *payload)
{
    int r = strbuf_failed(payload) ? -ENOMEM : payload->n > FRAME_PAYLOAD_MAX ? E_LIMIT : 0;
    if (r == 0) {
        frame_put(out, (uint8_t)type, 0, strbuf_slice(payload));
        r = strbuf_failed(out) ? -ENOMEM : 0;
    }
    strbuf_fini(payload);
    return r;
}

int wire_put_open(struct strbuf *out, const struct wire_open *o)
{
    struct strbuf p = {0};
    strbuf_add_char(&p, WIRE_VERSION);
    put_text(&p, slice_str(o->sensor));
    put_text(&p, slice_str(o->instance));
    put_text(&p, slice_str(o->root));
    put_text(&p, o->position);
    strbuf_add_varint(&p, o->n);
    for (size_t i = 0; i < o->n; i++) {
        put_text(&p, slice_str(o->settings[i].name));
        strbuf_add_varint(&p, o->settings[i].n);
        for (size_t k = 0; k < o->settings[i].n; k++)
            put_text(&p, slice_str(o->settings[i].texts[k]));
    }
    return put_frame(out, WIRE_OPEN, &p);
}

/* A text without NUL in it, with one behind it. */
static int get_string(struct cursor *c, struct arena *arena, const char **out)
{
    struct slice s = get_text(c);
    if (c->bad || memchr(s.p, '\0', s.n))
        return E_PROTO;
    char *copy = arena_alloc(arena, s.n + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    *out = copy;
    return 0;
}

static int get_setting(struct cursor *c, struct arena *arena, struct parameter_setting *out)
{
    int r = get_string(c, arena, &out->name);
    uint64_t n = cursor_varint(c);
    if (r < 0 || n > WIRE_TEXTS_MAX)
        return r < 0 ? r : E_LIMIT;
    const char **texts = arena_alloc(arena, (n ? n : 1) * sizeof *texts);
    if (!texts)
        return -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = get_string(c, arena, &texts[i]);
    out->texts = texts;
    out->n = n;
    return r;
}

int wire_get_open(struct slice payload, struct arena *arena, struct wire_open *out)
{
    struct cursor c = cursor_of(payload);
    struct wire_open o = {0};
    if (cursor_u8(&c) != WIRE_VERSION)
        return c.bad ? E_PROTO : E_VERSION;
    int r = get_string(&c, arena, &o.sensor);
    if (r == 0)
        r = get_string(&c, arena, &o.instance);
    if (r == 0)
        r = get_string(&c, arena, &o.root);
    if (r < 0)
        return r;
    o.position = get_text(&c);
    uint64_t n = cursor_varint(&c);
    if (o.position.n > WIRE_POSITION_MAX || n > WIRE_SETTINGS_MAX)
        return E_LIMIT;
    struct parameter_setting *settings = arena_alloc(arena, (n ? n : 1) * sizeof *settings);
    struct slice position = arena_copy(arena, o.position);
    if (!settings || !position.p)
        return -ENOMEM;
    for (; o.n < n && r == 0; o.n++)
        r = get_setting(&c, arena, &settings[o.n]);
    if (r < 0 || c.bad)
        return r < 0 ? r : E_PROTO;
    o.settings = settings;
    o.position = position;
    *out = o;
    return 0;
}

int wire_put_done(struct strbuf *out, const struct wire_done *d)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, (uint32_t)d->status);
    strbuf_add_char(&p, d->is_answer);
    put_text(&p, d->why);
    return put_frame(out, WIRE_DONE, &p);
}

int wire_get_done(struct slice payload, struct wire_done *out)
{
    struct cursor c = cursor_of(payload);
    struct wire_done d = {.status = get_status(&c)};
    uint8_t is_answer = cursor_u8(&c);
    d.why = get_text(&c);
    if (c.bad || is_answer > 1 || d.status > 0)
        return E_PROTO;
    d.is_answer = is_answer;
    *out = d;
    return 0;
}

int wire_put_fetch(struct strbuf *out, const struct wire_fetch *f)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, f->timeout_ms);
    put_text(&p, slice_str(f->url));
    put_text(&p, slice_str(f->etag));
    put_text(&p, slice_str(f->ca));
    return put_frame(out, WIRE_FETCH, &p);
}

int wire_get_fetch(struct slice payload, struct arena *arena, struct wire_fetch *out)
{
    struct cursor c = cursor_of(payload);
    struct wire_fetch f = {.timeout_ms = cursor_u32(&c)};
    int r = get_string(&c, arena, &f.url);
    if (r == 0)
        r = get_string(&c, arena, &f.etag);
    if (r == 0)
        r = get_string(&c, arena, &f.ca);
    if (r == 0 && f.timeout_ms > INT32_MAX)
        r = E_LIMIT;
    if (r == 0)
        *out = f;
    return r;
}

int wire_put_fetched(struct strbuf *out, const struct wire_fetched *f)
{
    struct strbuf p = {0};
    strbuf_add_u32(&p, (uint32_t)f->status);
    strbuf_add_char(&p, f->is_signed);
    put_text(&p, f->etag);
    put_text(&p, f->why);
    strbuf_add_slice(&p, f->document);
    return put_frame(out, WIRE_FETCHED, &p);
}

int wire_get_fetched(struct slice payload, struct wire_fetched *out)
{
    struct cursor c = cursor_of(payload);
    struct wire_fetched f = {.status = get_status(&c)};
    uint8_t is_signed = cursor_u8(&c);
    f.etag = get_text(&c);
    f.why = get_text(&c);
    f.document = get_rest(&c);
    if (c.bad || is_signed > 1 || f.status > 0)
        return E_PROTO;
    f.is_signed = is_signed;
    *out = f;
    return 0;
}
