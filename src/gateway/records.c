/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/records.h"

#include "event/schema_bytes.h"

/* Numbers are 32 bits; what does not fit is no number of ours. */
static uint32_t get_number(struct cursor *c)
{
    uint64_t v = cursor_varint(c);
    if (v > UINT32_MAX)
        (void)cursor_fail(c); /* c->bad says it */
    return (uint32_t)v;
}

static void get_sampler(struct cursor *c, struct samples_item *out)
{
    out->origin = frame_get_origin(c);
    out->host = cursor_text(c);
    out->context.number = cursor_u8(c);
    out->context.clock.offset_ns = unzigzag(cursor_varint(c));
    out->context.clock.bound_ns = cursor_varint(c) - 1;
    out->context.clock.generation = get_number(c);
}

static void get_stream(struct cursor *c, struct samples_item *out)
{
    out->stream.number = get_number(c);
    out->schema = get_number(c);
    out->stream.baseline = get_number(c);
    out->stream.is_rolled = cursor_u8(c) & 1;
    out->stream.state = cursor_text(c);
}

int record_next_item(struct cursor *c, struct samples_item *out)
{
    if (cursor_left(c) == 0)
        return c->bad ? E_PROTO : 0;
    *out = (struct samples_item){.kind = cursor_u8(c)};
    out->number = get_number(c);
    switch (out->kind) {
    case SAMPLES_SCHEMA:
        out->schema_bytes = cursor_text(c);
        break;
    case SAMPLES_SAMPLER:
        get_sampler(c, out);
        break;
    case SAMPLES_STREAM:
        get_stream(c, out);
        break;
    case SAMPLES_PACKET:
        out->rows = get_number(c);
        out->packet = cursor_text(c);
        break;
    default:
        return E_PROTO;
    }
    return c->bad || out->number == 0 ? E_PROTO : 1;
}

void record_put_schema(struct strbuf *out, uint32_t number, const struct schema *s)
{
    struct strbuf bytes = {0};
    schema_write(&bytes, s);
    out->failed = out->failed || strbuf_failed(&bytes);
    strbuf_add_char(out, SAMPLES_SCHEMA);
    strbuf_add_varint(out, number);
    strbuf_add_text(out, strbuf_slice(&bytes));
    strbuf_fini(&bytes);
}

void record_put_sampler(struct strbuf *out, uint32_t number, const struct frame_origin *origin,
                        struct slice host, const struct samples_context *context)
{
    strbuf_add_char(out, SAMPLES_SAMPLER);
    strbuf_add_varint(out, number);
    frame_put_origin(out, origin);
    strbuf_add_text(out, host);
    strbuf_add_char(out, (char)context->number);
    strbuf_add_varint(out, zigzag(context->clock.offset_ns));
    strbuf_add_varint(out, context->clock.bound_ns + 1); /* not known is 0 */
    strbuf_add_varint(out, context->clock.generation);
}

void record_put_stream_head(struct strbuf *out, uint32_t sampler, uint32_t schema,
                            const struct samples_snapshot *s)
{
    strbuf_add_char(out, SAMPLES_STREAM);
    strbuf_add_varint(out, sampler);
    strbuf_add_varint(out, s->number);
    strbuf_add_varint(out, schema);
    strbuf_add_varint(out, s->baseline);
    strbuf_add_char(out, s->is_rolled);
    strbuf_add_varint(out, s->state.n);
}

static char *put_varint(char *to, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *to++ = (char)(v | 0x80);
    *to++ = (char)v;
    return to;
}

size_t record_put_packet_head(char to[RECORD_PACKET_HEAD], uint32_t sampler, uint32_t rows, size_t n)
{
    char *at = to;
    *at++ = SAMPLES_PACKET;
    at = put_varint(at, sampler);
    at = put_varint(at, rows);
    at = put_varint(at, n);
    return (size_t)(at - to);
}

int record_get_checkpoint(struct slice payload, struct record_checkpoint *out)
{
    struct cursor c = cursor_of(payload);
    *out = (struct record_checkpoint){.kind = cursor_u8(&c)};
    if (out->kind == CHECKPOINT_ACCOUNTS) {
        out->accounts = slice_from(payload, 1);
        return 0;
    }
    bool has_totals = out->kind == CHECKPOINT_BEGIN || out->kind == CHECKPOINT_TOTALS;
    if (has_totals) {
        out->forgotten = cursor_u64(&c);
        out->forced = cursor_u64(&c);
        out->forgotten_s = cursor_u32(&c);
    }
    if (out->kind == CHECKPOINT_BEGIN || out->kind == CHECKPOINT_END)
        out->id = cursor_u64(&c);
    return c.bad || (!has_totals && out->kind != CHECKPOINT_END) ? E_PROTO : 0;
}

void record_put_checkpoint(struct strbuf *out, const struct record_checkpoint *c)
{
    strbuf_add_char(out, (char)c->kind);
    if (c->kind == CHECKPOINT_BEGIN || c->kind == CHECKPOINT_TOTALS) {
        strbuf_add_u64(out, c->forgotten);
        strbuf_add_u64(out, c->forced);
        strbuf_add_u32(out, c->forgotten_s);
    }
    if (c->kind == CHECKPOINT_BEGIN || c->kind == CHECKPOINT_END)
        strbuf_add_u64(out, c->id);
}
