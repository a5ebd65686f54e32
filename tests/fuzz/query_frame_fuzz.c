/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a query and the pieces of a result. The first byte says which: a frame's type, or 0 and 1: a
 * piece that is the first of its result, or one of a result with as many columns as the second byte says.
 * What can be read is written again and read back to the same; of a piece as many rows come as were counted.
 */
#include "base/text.h"
#include "event/query.h"
#include "net/query.h"

#include <stdlib.h>

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct slice payload_of(const struct strbuf *out)
{
    struct frame f;
    check(!strbuf_failed(out) && frame_read(strbuf_slice(out), FRAME_PAYLOAD_MAX, &f) == (int64_t)out->n);
    return f.payload;
}

static void try_query(struct slice payload, struct strbuf *out)
{
    struct frame_query q, again;
    if (frame_get_query(payload, &q) < 0)
        return;
    check(q.text.n <= QUERY_TEXT_MAX && text_is_utf8(q.text));
    frame_put_query(out, &q);
    check(frame_get_query(payload_of(out), &again) == 0 && again.id == q.id && slice_eq(again.text, q.text) &&
          again.options.n == q.options.n && slice_eq(again.options.bytes, q.options.bytes));
}

static void try_end(struct slice payload, struct strbuf *out)
{
    struct frame_query_end e, again;
    if (frame_get_query_end(payload, &e) < 0)
        return;
    check(text_is_utf8(e.text));
    frame_put_query_end(out, &e);
    check(frame_get_query_end(payload_of(out), &again) == 0 && again.id == e.id && again.status == e.status &&
          slice_eq(again.text, e.text) && again.column == e.column && again.rows == e.rows &&
          again.lost == e.lost && again.notices.n == e.notices.n);
}

static void try_small(uint8_t type, struct slice payload, struct strbuf *out)
{
    struct frame_query_progress p, again;
    struct frame_rows rows;
    uint32_t id, same;
    if (type == FRAME_QUERY_PROGRESS && frame_get_query_progress(payload, &p) == 0) {
        frame_put_query_progress(out, &p);
        check(frame_get_query_progress(payload_of(out), &again) == 0 && again.id == p.id &&
              again.rows_seen == p.rows_seen && again.elapsed_ms == p.elapsed_ms);
    } else if (type == FRAME_QUERY_CANCEL && frame_get_query_cancel(payload, &id) == 0) {
        frame_put_query_cancel(out, id);
        check(frame_get_query_cancel(payload_of(out), &same) == 0 && same == id);
    } else if (type == FRAME_ROWS && frame_get_rows(payload, &rows) == 0) {
        check(rows.piece.n + 4 == payload.n);
    }
}

/* The same names and rows as they are given, written. */
static void write_again(const struct result_piece *p, struct strbuf *out)
{
    static struct slice names[RESULT_COLUMNS_MAX];
    static struct value values[RESULT_COLUMNS_MAX];
    struct slice name, rest = p->names, rows = p->rows;
    uint32_t n = 0;
    uint64_t n_rows = 0;
    while (p->has_columns && result_next_name(&rest, &name)) {
        check(n < p->n_columns && text_is_utf8(name));
        names[n++] = name;
    }
    check(!p->has_columns || n == p->n_columns);
    result_begin(out, p->has_columns ? names : NULL, n);
    while (result_next_row(&rows, p->n_columns, values)) {
        for (uint32_t i = 0; i < p->n_columns; i++) {
            check(values[i].type != VALUE_TEXT || text_is_utf8(value_slice(values[i])));
            result_put(out, values[i]);
        }
        n_rows++;
    }
    check(n_rows == p->n_rows);
}

static void try_piece(struct slice piece, uint32_t n_columns, struct strbuf *out)
{
    struct result_piece p, again;
    if (result_read(piece, n_columns, &p) < 0)
        return;
    check(p.n_columns >= 1 && p.n_columns <= RESULT_COLUMNS_MAX);
    write_again(&p, out);
    check(!strbuf_failed(out) && result_read(strbuf_slice(out), n_columns, &again) == 0);
    check(again.n_rows == p.n_rows && again.n_columns == p.n_columns && again.rows.n <= p.rows.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = slice_of((const char *)data, size);
    struct strbuf out = {0};
    if (size < 2)
        return 0;
    if (data[0] == 0)
        try_piece(slice_from(input, 1), 0, &out);
    else if (data[0] == 1)
        try_piece(slice_from(input, 2), data[1] ? data[1] : 1, &out);
    else if (data[0] == FRAME_QUERY)
        try_query(slice_from(input, 1), &out);
    else if (data[0] == FRAME_QUERY_END)
        try_end(slice_from(input, 1), &out);
    else
        try_small(data[0], slice_from(input, 1), &out);
    strbuf_fini(&out);
    return 0;
}
