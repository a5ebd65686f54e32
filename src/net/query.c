/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts are in docs/protocol.md; each frame_put_x and frame_get_x below is one row of its table. */
#include "net/query.h"

#include "base/text.h"
#include "event/query.h"

void frame_put_query(struct strbuf *out, const struct frame_query *q)
{
    size_t at = frame_begin(out, FRAME_QUERY, 0);
    strbuf_add_u32(out, q->id);
    strbuf_add_text(out, q->text);
    args_put(out, q->options);
    frame_end(out, at);
}

int frame_get_query(struct slice payload, struct frame_query *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_query q = {.id = cursor_u32(&c)};
    q.text = cursor_text(&c);
    if (!c.bad && cursor_left(&c) && !args_get(&c, &q.options))
        return E_PROTO;
    if (c.bad || q.text.n > QUERY_TEXT_MAX || !text_is_utf8(q.text))
        return E_PROTO;
    *out = q;
    return 0;
}

enum { ROWS_HEAD = 4 };

void frame_put_rows_head(struct strbuf *out, uint32_t id, size_t n)
{
    frame_put_head(out, FRAME_ROWS, 0, ROWS_HEAD + n);
    strbuf_add_u32(out, id);
}

int frame_get_rows(struct slice payload, struct frame_rows *out)
{
    struct cursor c = cursor_of(payload);
    uint32_t id = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *out = (struct frame_rows){id, slice_from(payload, ROWS_HEAD)};
    return 0;
}

void frame_put_query_end(struct strbuf *out, const struct frame_query_end *e)
{
    size_t at = frame_begin(out, FRAME_QUERY_END, 0);
    strbuf_add_u32(out, e->id);
    strbuf_add_u16(out, e->status);
    strbuf_add_text(out, e->text);
    strbuf_add_u32(out, e->column);
    strbuf_add_u64(out, e->rows);
    strbuf_add_u64(out, e->lost);
    if (e->notices.n)
        notices_put(out, &e->notices);
    frame_end(out, at);
}

int frame_get_query_end(struct slice payload, struct frame_query_end *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_query_end e = {.id = cursor_u32(&c)};
    e.status = cursor_u16(&c);
    e.text = cursor_text(&c);
    e.column = cursor_u32(&c);
    e.rows = cursor_u64(&c);
    e.lost = cursor_u64(&c);
    if (c.bad || !text_is_utf8(e.text) ||
        notices_get(slice_of((const char *)c.p, cursor_left(&c)), &e.notices) < 0)
        return E_PROTO;
    *out = e;
    return 0;
}

void frame_put_query_cancel(struct strbuf *out, uint32_t id)
{
    size_t at = frame_begin(out, FRAME_QUERY_CANCEL, 0);
    strbuf_add_u32(out, id);
    frame_end(out, at);
}

int frame_get_query_cancel(struct slice payload, uint32_t *id)
{
    struct cursor c = cursor_of(payload);
    uint32_t v = cursor_u32(&c);
    if (c.bad)
        return E_PROTO;
    *id = v;
    return 0;
}

void frame_put_query_progress(struct strbuf *out, const struct frame_query_progress *p)
{
    size_t at = frame_begin(out, FRAME_QUERY_PROGRESS, 0);
    strbuf_add_u32(out, p->id);
    strbuf_add_u64(out, p->rows_seen);
    strbuf_add_u64(out, p->elapsed_ms);
    frame_end(out, at);
}

int frame_get_query_progress(struct slice payload, struct frame_query_progress *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_query_progress p = {.id = cursor_u32(&c)};
    p.rows_seen = cursor_u64(&c);
    p.elapsed_ms = cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    *out = p;
    return 0;
}

/* ---------------------------------------------------------------- rows */

void result_begin(struct strbuf *out, const struct slice *names, size_t n)
{
    strbuf_add(out, (const unsigned char[]){RESULT_VERSION, names ? RESULT_COLUMNS : 0}, 2);
    if (!names)
        return;
    strbuf_add_varint(out, n);
    for (size_t i = 0; i < n; i++)
        strbuf_add_text(out, names[i]);
}

void result_put(struct strbuf *out, struct value v)
{
    strbuf_add_char(out, (char)v.type);
    if (v.type == VALUE_INT)
        strbuf_add_varint(out, zigzag(v.i));
    else if (v.type == VALUE_FLOAT)
        strbuf_add_u64(out, v.u);
    else if (value_is_text(v.type))
        strbuf_add_text(out, value_slice(v));
}

/* false: the cursor is bad, or what it says is none of ours. */
static bool get_value(struct cursor *c, struct value *out)
{
    uint8_t type = cursor_u8(c);
    *out = value_none();
    switch (type) {
    case VALUE_NONE:
        return !c->bad;
    case VALUE_INT:
        *out = value_int(unzigzag(cursor_varint(c)));
        return !c->bad;
    case VALUE_FLOAT:
        *out = (struct value){.u = cursor_u64(c), .type = VALUE_FLOAT};
        return !c->bad;
    case VALUE_TEXT:
    case VALUE_BYTES: {
        struct slice s = cursor_text(c);
        *out = type == VALUE_TEXT ? value_text(s) : value_bytes(s);
        return !c->bad && (type == VALUE_BYTES || text_is_utf8(s));
    }
    default:
        return cursor_fail(c);
    }
}

/* The names, checked. */
static int get_columns(struct cursor *c, struct result_piece *p)
{
    uint64_t n = cursor_varint(c);
    if (c->bad || n == 0)
        return E_PROTO;
    if (n > RESULT_COLUMNS_MAX)
        return E_LIMIT;
    const char *from = (const char *)c->p;
    for (uint64_t i = 0; i < n; i++)
        if (!text_is_utf8(cursor_text(c)))
            return E_PROTO;
    if (c->bad)
        return E_PROTO;
    p->n_columns = (uint32_t)n;
    p->names = slice_of(from, (size_t)((const char *)c->p - from));
    return 0;
}

int result_read(struct slice piece, uint32_t n_columns, struct result_piece *out)
{
    struct cursor c = cursor_of(piece);
    struct value v;
    uint8_t version = cursor_u8(&c), flags = cursor_u8(&c);
    struct result_piece p = {.n_columns = n_columns, .has_columns = flags & RESULT_COLUMNS};
    if (!c.bad && version != RESULT_VERSION)
        return E_VERSION;
    if (c.bad || flags > RESULT_COLUMNS || p.has_columns != (n_columns == 0))
        return E_PROTO;
    int r = p.has_columns ? get_columns(&c, &p) : 0;
    if (r < 0)
        return r;
    p.rows = slice_of((const char *)c.p, cursor_left(&c));
    for (; cursor_left(&c); p.n_rows++)
        for (uint32_t i = 0; i < p.n_columns; i++)
            if (!get_value(&c, &v))
                return E_PROTO;
    *out = p;
    return 0;
}

static void advance(struct slice *s, const struct cursor *c)
{
    *s = slice_of((const char *)c->p, cursor_left(c));
}

bool result_next_name(struct slice *names, struct slice *out)
{
    struct cursor c = cursor_of(*names);
    if (names->n == 0)
        return false;
    *out = cursor_text(&c);
    advance(names, &c);
    return true;
}

bool result_next_row(struct slice *rows, uint32_t n, struct value *out)
{
    struct cursor c = cursor_of(*rows);
    if (rows->n == 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        (void)get_value(&c, &out[i]); /* result_read has checked it */
    advance(rows, &c);
    return true;
}
