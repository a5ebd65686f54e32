/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts are in docs/protocol.md; each frame_put_x and frame_get_x below is one row of its table, in the
 * table's order. Everything a peer says is checked here, once. */
#include "net/frame.h"

#include "base/crc32c.h"
#include "base/text.h"
#include "event/level.h"
#include "event/limits.h"

#include <assert.h>

enum { AT_CRC = 12 };

static const char greeting_frames[FRAME_GREETING] = {'G', 'R', 'D', 'L', FRAME_MAJOR, 0, 0, 0};
static const char greeting_ulm[FRAME_GREETING] = {'U', 'L', 'M', 0, ' ', ' ', ' ', ' '};

/* Could head, as far as it goes, be the start of s? */
static bool may_be(struct slice head, const char *s, size_t n)
{
    return memcmp(head.p, s, head.n < n ? head.n : n) == 0;
}

enum greeting greeting_detect(struct slice head)
{
    static const struct slice lines[] = {{"DATE=", 5}, {"ts=", 3}, {"{", 1}};
    if (head.n == 0)
        return GREETING_MORE;
    if (may_be(head, greeting_ulm, FRAME_GREETING))
        return head.n < FRAME_GREETING ? GREETING_MORE : GREETING_ULM;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (may_be(head, lines[i].p, lines[i].n))
            return head.n < lines[i].n ? GREETING_MORE : GREETING_LINES;
    if (!may_be(head, greeting_frames, 4))
        return GREETING_UNKNOWN;
    if (head.n < FRAME_GREETING)
        return GREETING_MORE;
    return head.p[4] == FRAME_MAJOR ? GREETING_FRAMES : GREETING_VERSION;
}

void greeting_put(struct strbuf *out)
{
    strbuf_add(out, greeting_frames, sizeof greeting_frames);
}

int64_t frame_size(struct slice data, uint32_t max_payload)
{
    if (data.n < FRAME_HEAD)
        return 0;
    struct cursor c = cursor_of(slice_of(data.p, FRAME_HEAD));
    uint32_t length = cursor_u32(&c);
    (void)cursor_bytes(&c, AT_CRC - 4);
    if (cursor_u32(&c) != crc32c(0, slice_of(data.p, AT_CRC)))
        return E_DAMAGE;
    return length > max_payload ? E_LIMIT : (int64_t)FRAME_HEAD + length;
}

int64_t frame_read(struct slice data, uint32_t max_payload, struct frame *out)
{
    int64_t size = frame_size(data, max_payload);
    if (size <= 0 || (uint64_t)size > data.n)
        return size < 0 ? size : 0;
    struct cursor c = cursor_of(slice_from(data, 4));
    out->type = cursor_u8(&c);
    (void)cursor_bytes(&c, 3); /* flags and the rest: 0 today, ignored */
    out->worker = cursor_u32(&c);
    out->payload = slice_of(data.p + FRAME_HEAD, (size_t)size - FRAME_HEAD);
    return size;
}

void frame_put_head(struct strbuf *out, uint8_t type, uint32_t worker, size_t length)
{
    assert(length <= FRAME_PAYLOAD_MAX);
    size_t at = out->n;
    strbuf_add_u32(out, (uint32_t)length);
    strbuf_add(out, (const unsigned char[]){type, 0, 0, 0}, 4);
    strbuf_add_u32(out, worker);
    if (!strbuf_failed(out))
        strbuf_add_u32(out, crc32c(0, slice_of(out->p + at, AT_CRC)));
}

void frame_put(struct strbuf *out, uint8_t type, uint32_t worker, struct slice payload)
{
    frame_put_head(out, type, worker, payload.n);
    strbuf_add_slice(out, payload);
}

size_t frame_begin(struct strbuf *out, uint8_t type, uint32_t worker)
{
    size_t at = out->n;
    frame_put_head(out, type, worker, 0);
    return at;
}

void frame_end(struct strbuf *out, size_t at)
{
    if (strbuf_failed(out))
        return;
    size_t length = out->n - at - FRAME_HEAD;
    assert(length <= FRAME_PAYLOAD_MAX);
    for (unsigned i = 0; i < 4; i++)
        out->p[at + i] = (char)(length >> (8 * i));
    uint32_t crc = crc32c(0, slice_of(out->p + at, AT_CRC));
    for (unsigned i = 0; i < 4; i++)
        out->p[at + AT_CRC + i] = (char)(crc >> (8 * i));
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

static size_t text_size(struct slice s)
{
    return varint_size(s.n) + s.n;
}

static void put_u8(struct strbuf *out, uint8_t v)
{
    strbuf_add_char(out, (char)v);
}

enum { ORIGIN_SIZE = 24 };

void frame_put_origin(struct strbuf *out, const struct frame_origin *o)
{
    strbuf_add(out, o->producer, sizeof o->producer);
    strbuf_add_u64(out, o->epoch);
}

struct frame_origin frame_get_origin(struct cursor *c)
{
    struct frame_origin o = {.epoch = 0};
    struct slice producer = cursor_bytes(c, sizeof o.producer);
    if (!c->bad)
        memcpy(o.producer, producer.p, sizeof o.producer);
    o.epoch = cursor_u64(c);
    return o;
}

bool frame_same_origin(const struct frame_origin *a, const struct frame_origin *b)
{
    return a->epoch == b->epoch && memcmp(a->producer, b->producer, sizeof a->producer) == 0;
}

void frame_put_hello(struct strbuf *out, const struct frame_hello *h)
{
    frame_put_head(out, FRAME_HELLO, 0,
                   2 + 2 + 1 + ORIGIN_SIZE + 8 + text_size(h->host) + text_size(h->prog));
    strbuf_add_u16(out, h->minor_low);
    strbuf_add_u16(out, h->minor_high);
    put_u8(out, h->role);
    frame_put_origin(out, &h->origin);
    strbuf_add_u64(out, (uint64_t)h->t0_ns);
    strbuf_add_text(out, h->host);
    strbuf_add_text(out, h->prog);
}

static bool is_origin_name(struct slice s)
{
    return s.n <= EVENT_ORIGIN_MAX && text_is_utf8(s) && !text_has_control(s);
}

int frame_get_hello(struct slice payload, struct frame_hello *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_hello h;
    h.minor_low = cursor_u16(&c);
    h.minor_high = cursor_u16(&c);
    h.role = cursor_u8(&c);
    h.origin = frame_get_origin(&c);
    h.t0_ns = (int64_t)cursor_u64(&c);
    h.host = cursor_text(&c);
    h.prog = cursor_text(&c);
    if (c.bad || h.minor_low > h.minor_high || h.role < PEER_PROGRAM || h.role > PEER_CONSUMER ||
        !is_origin_name(h.host) || !is_origin_name(h.prog))
        return E_PROTO;
    *out = h;
    return 0;
}

void frame_put_welcome(struct strbuf *out, const struct frame_welcome *w)
{
    frame_put_head(out, FRAME_WELCOME, 0, 2 + 8 + 4 + 8 + 3 * 8 + 8);
    strbuf_add_u16(out, w->minor);
    strbuf_add_u64(out, w->session);
    strbuf_add_u32(out, w->window);
    strbuf_add_u64(out, w->seq);
    strbuf_add_u64(out, (uint64_t)w->t0_ns);
    strbuf_add_u64(out, (uint64_t)w->t1_ns);
    strbuf_add_u64(out, (uint64_t)w->t2_ns);
    strbuf_add_u64(out, w->held);
}

int frame_get_welcome(struct slice payload, struct frame_welcome *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_welcome w;
    w.minor = cursor_u16(&c);
    w.session = cursor_u64(&c);
    w.window = cursor_u32(&c);
    w.seq = cursor_u64(&c);
    w.t0_ns = (int64_t)cursor_u64(&c);
    w.t1_ns = (int64_t)cursor_u64(&c);
    w.t2_ns = (int64_t)cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    w.held = cursor_u64(&c); /* 0 where it is not there: then nothing is known */
    *out = w;
    return 0;
}

void frame_put_ack(struct strbuf *out, const struct frame_ack *a)
{
    frame_put_head(out, FRAME_ACK, 0, ORIGIN_SIZE + 8);
    frame_put_origin(out, &a->origin);
    strbuf_add_u64(out, a->seq);
}

int frame_get_ack(struct slice payload, struct frame_ack *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_ack a = {.origin = frame_get_origin(&c)};
    a.seq = cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = a;
    return 0;
}

void frame_put_refuse(struct strbuf *out, const struct frame_refuse *r)
{
    frame_put_head(out, FRAME_REFUSE, 0, ORIGIN_SIZE + 8 + 4 + 2 + 4 + text_size(r->text));
    frame_put_origin(out, &r->origin);
    strbuf_add_u64(out, r->first_seq);
    strbuf_add_u32(out, r->count);
    strbuf_add_u16(out, r->reason);
    strbuf_add_u32(out, r->retry_ms);
    strbuf_add_text(out, r->text);
}

int frame_get_refuse(struct slice payload, struct frame_refuse *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_refuse r = {.origin = frame_get_origin(&c)};
    r.first_seq = cursor_u64(&c);
    r.count = cursor_u32(&c);
    r.reason = cursor_u16(&c);
    r.retry_ms = cursor_u32(&c);
    r.text = cursor_text(&c);
    if (c.bad)
        return E_PROTO;
    *out = r;
    return 0;
}

void frame_put_counts(struct strbuf *out, const struct frame_counts *k)
{
    uint64_t n = 0;
    for (size_t i = 0; i < FRAME_REASONS; i++)
        n += k->dropped[i] != 0;
    frame_put_head(out, FRAME_COUNTS, 0, ORIGIN_SIZE + 1 + 3 * 8 + varint_size(n) + 9 * (size_t)n + 1);
    frame_put_origin(out, &k->origin);
    put_u8(out, k->class);
    strbuf_add_u64(out, k->taken);
    strbuf_add_u64(out, k->passed);
    strbuf_add_u64(out, k->queued);
    strbuf_add_varint(out, n);
    for (size_t i = 0; i < FRAME_REASONS; i++) {
        if (k->dropped[i] == 0)
            continue;
        put_u8(out, (uint8_t)i);
        strbuf_add_u64(out, k->dropped[i]);
    }
    put_u8(out, k->is_final);
}

/* The counts by reason, each at most once. */
static bool get_reasons(struct cursor *c, struct frame_counts *k, uint64_t *sum)
{
    bool seen[FRAME_REASONS] = {false};
    uint64_t n = cursor_varint(c);
    for (uint64_t i = 0; i < n && !c->bad; i++) {
        uint8_t reason = cursor_u8(c);
        k->dropped[reason] = cursor_u64(c);
        if (seen[reason] || __builtin_add_overflow(*sum, k->dropped[reason], sum))
            return false;
        seen[reason] = true;
    }
    return !c->bad;
}

int frame_get_counts(struct slice payload, struct frame_counts *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_counts k = {.origin = frame_get_origin(&c)};
    k.class = cursor_u8(&c);
    if (k.class > CLASS_SAMPLES)
        return E_PROTO;
    k.taken = cursor_u64(&c);
    k.passed = cursor_u64(&c);
    k.queued = cursor_u64(&c);
    uint64_t sum;
    if (__builtin_add_overflow(k.passed, k.queued, &sum) || !get_reasons(&c, &k, &sum) || sum != k.taken)
        return E_PROTO;
    k.is_final = cursor_left(&c) && cursor_u8(&c) == 1;
    *out = k;
    return 0;
}

void frame_put_ping(struct strbuf *out, const struct frame_ping *p)
{
    frame_put_head(out, FRAME_PING, 0, 2 * 8);
    strbuf_add_u64(out, p->token);
    strbuf_add_u64(out, (uint64_t)p->t0_ns);
}

int frame_get_ping(struct slice payload, struct frame_ping *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_ping p = {.token = cursor_u64(&c)};
    p.t0_ns = (int64_t)cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = p;
    return 0;
}

void frame_put_pong(struct strbuf *out, const struct frame_pong *p)
{
    frame_put_head(out, FRAME_PONG, 0, 4 * 8);
    strbuf_add_u64(out, p->token);
    strbuf_add_u64(out, (uint64_t)p->t0_ns);
    strbuf_add_u64(out, (uint64_t)p->t1_ns);
    strbuf_add_u64(out, (uint64_t)p->t2_ns);
}

int frame_get_pong(struct slice payload, struct frame_pong *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_pong p = {.token = cursor_u64(&c)};
    p.t0_ns = (int64_t)cursor_u64(&c);
    p.t1_ns = (int64_t)cursor_u64(&c);
    p.t2_ns = (int64_t)cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = p;
    return 0;
}

int frame_get_activate(struct slice payload, uint32_t *number, struct slice *list)
{
    struct cursor c = cursor_of(payload);
    uint32_t n = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    struct slice all = slice_from(payload, 4), rest = all;
    struct frame_activation a;
    int r;
    while ((r = frame_next_activation(&rest, &a)) > 0)
        ;
    if (r < 0)
        return r;
    *number = n;
    *list = all;
    return 0;
}

int frame_next_activation(struct slice *list, struct frame_activation *out)
{
    if (list->n == 0)
        return 0;
    struct cursor c = cursor_of(*list);
    struct frame_activation a = {.pattern = cursor_text(&c)};
    a.level = (int8_t)cursor_u8(&c);
    if (c.bad || a.level < -1 || a.level >= LEVEL_COUNT)
        return E_PROTO;
    *list = slice_from(*list, list->n - cursor_left(&c));
    *out = a;
    return 1;
}

enum { ORIGIN_WANTS_OK = 1 };

void frame_put_samples_origin(struct strbuf *out, const struct frame_samples_origin *o)
{
    frame_put_head(out, FRAME_SAMPLES_ORIGIN, 0, ORIGIN_SIZE + 1);
    frame_put_origin(out, &o->origin);
    put_u8(out, o->wants_ok ? ORIGIN_WANTS_OK : 0);
}

int frame_get_samples_origin(struct slice payload, struct frame_samples_origin *out)
{
    static const struct frame_origin none;
    struct cursor c = cursor_of(payload);
    struct frame_samples_origin o = {.origin = frame_get_origin(&c)};
    uint8_t flags = cursor_left(&c) ? cursor_u8(&c) : 0;
    if (c.bad || (flags & ~ORIGIN_WANTS_OK) || o.origin.epoch == 0 ||
        memcmp(o.origin.producer, none.producer, sizeof none.producer) == 0)
        return E_PROTO;
    o.wants_ok = flags & ORIGIN_WANTS_OK;
    *out = o;
    return 0;
}

void frame_put_schema_ok(struct strbuf *out, uint32_t worker, uint32_t schema)
{
    frame_put_head(out, FRAME_SCHEMA_OK, worker, 4);
    strbuf_add_u32(out, schema);
}

int frame_get_schema_ok(struct slice payload, uint32_t *schema)
{
    struct cursor c = cursor_of(payload);
    uint32_t id = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *schema = id;
    return 0;
}

void frame_put_stream_ok(struct strbuf *out, uint32_t worker, const struct frame_stream_ok *ok)
{
    frame_put_head(out, FRAME_STREAM_OK, worker, 2 * 4);
    strbuf_add_u32(out, ok->stream);
    strbuf_add_u32(out, ok->baseline);
}

int frame_get_stream_ok(struct slice payload, struct frame_stream_ok *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_stream_ok ok = {.stream = cursor_u32(&c)};
    ok.baseline = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *out = ok;
    return 0;
}

void frame_put_bye(struct strbuf *out, uint16_t reason, struct slice text)
{
    frame_put_head(out, FRAME_BYE, 0, 2 + text_size(text));
    strbuf_add_u16(out, reason);
    strbuf_add_text(out, text);
}

int frame_get_bye(struct slice payload, struct frame_bye_reason *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_bye_reason b = {.reason = cursor_u16(&c)};
    b.text = cursor_text(&c);
    if (c.bad)
        return E_PROTO;
    *out = b;
    return 0;
}
