/* SPDX-License-Identifier: Apache-2.0 */
#include "net/lease.h"

#include "base/text.h"

enum { HOST_MAX = 255, WHY_MAX = 1024, HAS_SETTINGS = 1 };

static bool is_host(struct slice s)
{
    return s.n > 0 && s.n <= HOST_MAX && text_is_utf8(s) && !text_has_control(s);
}

void frame_put_register(struct strbuf *out, uint32_t worker, const struct frame_register *r)
{
    size_t at = frame_begin(out, FRAME_REGISTER, worker);
    strbuf_add_char(out, (char)r->mode);
    strbuf_add_u32(out, r->lease_ms);
    strbuf_add_u64(out, (uint64_t)r->t0_ns);
    strbuf_add_u64(out, (uint64_t)r->utc_ns);
    frame_put_origin(out, &r->origin);
    strbuf_add_text(out, r->host);
    args_put(out, r->properties);
    args_put(out, r->settings);
    strbuf_add_u64(out, r->datagrams);
    frame_end(out, at);
}

int frame_get_register(struct slice payload, struct frame_register *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_register r = {.mode = cursor_u8(&c), .lease_ms = cursor_u32(&c)};
    r.t0_ns = (int64_t)cursor_u64(&c);
    r.utc_ns = (int64_t)cursor_u64(&c);
    r.origin = frame_get_origin(&c);
    r.host = cursor_text(&c);
    if (!args_get(&c, &r.properties) || !args_get(&c, &r.settings) || r.mode > LEASE_GUEST ||
        !is_host(r.host))
        return E_PROTO;
    r.datagrams = cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = r;
    return 0;
}

void frame_put_renew(struct strbuf *out, uint32_t worker, const struct frame_renew *r)
{
    size_t at = frame_begin(out, FRAME_RENEW, worker);
    strbuf_add_u32(out, r->number);
    strbuf_add_char(out, (char)r->flags);
    strbuf_add_u64(out, (uint64_t)r->t0_ns);
    strbuf_add_u64(out, r->datagrams);
    frame_end(out, at);
}

int frame_get_renew(struct slice payload, struct frame_renew *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_renew r = {.number = cursor_u32(&c), .flags = cursor_u8(&c)};
    r.t0_ns = (int64_t)cursor_u64(&c);
    r.datagrams = cursor_u64(&c);
    if (c.bad || r.number == 0)
        return E_PROTO;
    *out = r;
    return 0;
}

void frame_put_lease(struct strbuf *out, uint32_t worker, const struct frame_lease *l)
{
    size_t at = frame_begin(out, FRAME_LEASE, worker);
    strbuf_add_u16(out, l->status);
    strbuf_add_u32(out, l->number);
    strbuf_add_u32(out, l->worker);
    strbuf_add_u32(out, l->lease_ms);
    strbuf_add_u32(out, l->renew_ms);
    strbuf_add_u64(out, (uint64_t)l->t0_ns);
    strbuf_add_u64(out, (uint64_t)l->t1_ns);
    strbuf_add_u64(out, (uint64_t)l->t2_ns);
    strbuf_add_u64(out, l->datagrams);
    strbuf_add_u16(out, l->udp_port);
    strbuf_add_char(out, (char)l->level);
    strbuf_add_u32(out, l->key_id);
    strbuf_add_text(out, l->key);
    strbuf_add_char(out, l->has_settings ? HAS_SETTINGS : 0);
    if (l->has_settings)
        args_put(out, l->settings);
    strbuf_add_text(out, l->text);
    frame_end(out, at);
}

/* Status to key id: everything of a fixed size. */
static struct frame_lease get_fixed(struct cursor *c)
{
    struct frame_lease l = {.status = cursor_u16(c)};
    l.number = cursor_u32(c);
    l.worker = cursor_u32(c);
    l.lease_ms = cursor_u32(c);
    l.renew_ms = cursor_u32(c);
    l.t0_ns = (int64_t)cursor_u64(c);
    l.t1_ns = (int64_t)cursor_u64(c);
    l.t2_ns = (int64_t)cursor_u64(c);
    l.datagrams = cursor_u64(c);
    l.udp_port = cursor_u16(c);
    l.level = cursor_u8(c);
    l.key_id = cursor_u32(c);
    return l;
}

int frame_get_lease(struct slice payload, struct frame_lease *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_lease l = get_fixed(&c);
    l.key = cursor_text(&c);
    l.has_settings = cursor_u8(&c) & HAS_SETTINGS;
    if (l.has_settings && !args_get(&c, &l.settings))
        return E_PROTO;
    l.text = cursor_text(&c);
    bool has_lease = l.status != LEASE_GRANTED || (l.worker && l.lease_ms && l.renew_ms);
    if (c.bad || !has_lease || l.level > SEAL_PRIVATE || (l.key.n && l.key.n != LEASE_KEY) ||
        l.text.n > WHY_MAX || !text_is_utf8(l.text))
        return E_PROTO;
    *out = l;
    return 0;
}
