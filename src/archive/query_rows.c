/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/query_rows.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/csv.h"
#include "event/json.h"
#include "net/query.h"

#include <errno.h>
#include <inttypes.h>

/* ---------------------------------------------------------------- values */

static void put_quoted(struct strbuf *out, const char *text, size_t n)
{
    strbuf_add_char(out, '"');
    strbuf_add(out, text, n);
    strbuf_add_char(out, '"');
}

static void put_number(struct strbuf *out, struct value v)
{
    char text[NUM_TEXT_MAX];
    size_t n = v.type == VALUE_INT    ? num_print_int(text, v.i)
               : v.type == VALUE_UINT ? num_print_uint(text, v.u)
                                      : num_print_float(text, v.f);
    if (v.type == VALUE_FLOAT && !isfinite(v.f))
        put_quoted(out, text, n);
    else
        strbuf_add(out, text, n);
}

void query_rows_put_json(struct strbuf *out, struct value v)
{
    switch (v.type) {
    case VALUE_NONE:
        strbuf_add_str(out, "null");
        break;
    case VALUE_BOOL:
        strbuf_add_str(out, v.u ? "true" : "false");
        break;
    case VALUE_TEXT:
        json_add_string(out, value_slice(v));
        break;
    case VALUE_BYTES:
        strbuf_add_char(out, '"');
        text_add_base64(out, value_slice(v));
        strbuf_add_char(out, '"');
        break;
    default:
        put_number(out, v);
    }
}

/* ---------------------------------------------------------------- the head */

static bool is_among(const struct slice *names, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

/* A name for the i-th column that no other has: its own, or, if it was there before, with the column's number
 * behind it, as often as it takes not to be another's own. */
static void make_key(struct strbuf *key, const struct slice *names, size_t i, size_t n)
{
    strbuf_reset(key);
    strbuf_add_slice(key, names[i]);
    for (bool is_taken = is_among(names, i, names[i]); is_taken && !strbuf_failed(key);
         is_taken = is_among(names, n, strbuf_slice(key)))
        strbuf_printf(key, "_%zu", i + 1);
}

static int make_keys(struct query_rows *w, const struct slice *names, size_t n)
{
    struct strbuf key = {0};
    w->ends = mem_try_alloc(n * sizeof *w->ends);
    for (size_t i = 0; i < n && w->ends; i++) {
        make_key(&key, names, i, n);
        json_add_string(&w->names, strbuf_slice(&key));
        strbuf_add_char(&w->names, ':');
        w->ends[i] = (uint32_t)w->names.n;
    }
    bool is_good = w->ends && !strbuf_failed(&w->names) && !strbuf_failed(&key);
    strbuf_fini(&key);
    return is_good ? 0 : -ENOMEM;
}

static void put_json_head(struct strbuf *out, const struct slice *names, size_t n)
{
    strbuf_add_str(out, "{\"columns\":[");
    for (size_t i = 0; i < n; i++) {
        strbuf_add_str(out, i ? "," : "");
        json_add_string(out, names[i]);
    }
    strbuf_add_str(out, "],\n\"rows\":[");
}

static void put_csv_head(struct strbuf *out, const struct slice *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        strbuf_add_str(out, i ? "," : "");
        csv_put_text(out, names[i]);
    }
    strbuf_add_str(out, "\r\n");
}

int query_rows_begin(struct query_rows *w, enum query_format format, const struct slice *names, size_t n)
{
    w->format = format;
    w->n_columns = n;
    if (n == 0 || n > RESULT_COLUMNS_MAX)
        return E_LIMIT;
    w->values = mem_try_alloc(n * sizeof *w->values);
    if (!w->values)
        return -ENOMEM;
    switch (format) {
    case QUERY_JSON:
        put_json_head(&w->out, names, n);
        break;
    case QUERY_NDJSON:
        return make_keys(w, names, n);
    case QUERY_CSV:
        put_csv_head(&w->out, names, n);
        break;
    case QUERY_BINARY:
        result_begin(&w->out, names, n);
        break;
    }
    return strbuf_failed(&w->out) ? -ENOMEM : 0;
}

void query_rows_fini(struct query_rows *w)
{
    strbuf_fini(&w->out);
    strbuf_fini(&w->names);
    mem_free(w->ends);
    mem_free(w->values);
    *w = (struct query_rows){0};
}

/* ---------------------------------------------------------------- rows */

static void put_json_row(struct query_rows *w, const struct value *values)
{
    strbuf_add_str(&w->out, w->rows ? ",\n[" : "\n[");
    for (size_t i = 0; i < w->n_columns; i++) {
        if (i)
            strbuf_add_char(&w->out, ',');
        query_rows_put_json(&w->out, values[i]);
    }
    strbuf_add_char(&w->out, ']');
}

static void put_ndjson_row(struct query_rows *w, const struct value *values)
{
    for (size_t i = 0; i < w->n_columns; i++) {
        uint32_t from = i ? w->ends[i - 1] : 0;
        strbuf_add_char(&w->out, i ? ',' : '{');
        strbuf_add(&w->out, w->names.p + from, w->ends[i] - from);
        query_rows_put_json(&w->out, values[i]);
    }
    strbuf_add_str(&w->out, "}\n");
}

static void put_csv_row(struct query_rows *w, const struct value *values)
{
    for (size_t i = 0; i < w->n_columns; i++) {
        if (i)
            strbuf_add_char(&w->out, ',');
        csv_put_value(&w->out, values[i]);
    }
    strbuf_add_str(&w->out, "\r\n");
}

static size_t row_size(const struct query_rows *w, const struct value *values)
{
    enum { VALUE_ROOM = 16 }; /* type, and a number or a length */
    size_t n = w->n_columns * VALUE_ROOM;
    for (size_t i = 0; i < w->n_columns; i++)
        n += value_is_text(values[i].type) ? values[i].n : 0;
    return n;
}

int query_rows_add(struct query_rows *w, const struct value *values, struct diag *why)
{
    if (row_size(w, values) > RESULT_ROW_MAX)
        return diag_set(why, E_LIMIT, 0, "row %" PRIu64 " of the result is larger than %d KiB", w->rows + 1,
                        RESULT_ROW_MAX >> 10);
    switch (w->format) {
    case QUERY_JSON:
        put_json_row(w, values);
        break;
    case QUERY_NDJSON:
        put_ndjson_row(w, values);
        break;
    case QUERY_CSV:
        put_csv_row(w, values);
        break;
    case QUERY_BINARY:
        for (size_t i = 0; i < w->n_columns; i++)
            result_put(&w->out, values[i]);
        break;
    }
    if (strbuf_failed(&w->out))
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    w->rows++;
    return 0;
}

/* What is longer than any row may be becomes a length that says so. */
static struct value value_of(const struct sql_value *v)
{
    struct slice s = v->text;
    s.n = s.n < UINT32_MAX ? s.n : UINT32_MAX;
    switch (v->kind) {
    case SQL_INT:
        return value_int(v->i);
    case SQL_FLOAT:
        return value_float(v->f);
    case SQL_TEXT:
        return s.n > RESULT_ROW_MAX || !text_is_utf8(s) ? value_bytes(s) : value_text(s);
    case SQL_BYTES:
        return value_bytes(s);
    case SQL_NULL:
        break;
    }
    return value_none();
}

int query_rows_add_step(struct query_rows *w, const struct sql_statement *s, struct diag *why)
{
    for (size_t i = 0; i < w->n_columns; i++) {
        struct sql_value v = sql_value(s, i);
        w->values[i] = value_of(&v);
    }
    return query_rows_add(w, w->values, why);
}

void query_rows_take(struct query_rows *w, struct strbuf *page)
{
    *page = w->out;
    w->out = (struct strbuf){0};
    w->given++;
    if (w->format == QUERY_BINARY)
        result_begin(&w->out, NULL, 0);
}

/* ---------------------------------------------------------------- the end */

static void put_error(struct strbuf *out, const char *name, int r, const struct diag *why)
{
    strbuf_printf(out, ",\"%s\":", name);
    json_add_string(out, slice_str(why && why->message[0] ? why->message : err_text(r)));
}

static void put_notices(struct strbuf *out, const struct notices *notices)
{
    if (!notices->n)
        return;
    strbuf_add_str(out, ",\"notices\":");
    notices_put_json(out, notices);
}

void query_rows_end(struct query_rows *w, int r, const struct diag *why, uint64_t lost,
                    const struct notices *notices)
{
    switch (w->format) {
    case QUERY_JSON:
        strbuf_printf(&w->out, "\n],\n\"rows_count\":%" PRIu64 ",\"lost\":%" PRIu64, w->rows, lost);
        if (r < 0)
            put_error(&w->out, "error", r, why);
        put_notices(&w->out, notices);
        strbuf_add_str(&w->out, "}\n");
        break;
    case QUERY_NDJSON:
        strbuf_printf(&w->out, "{\"end\":{\"status\":\"%s\",\"rows\":%" PRIu64 ",\"lost\":%" PRIu64,
                      r < 0 ? "failed" : "done", w->rows, lost);
        if (r < 0)
            put_error(&w->out, "text", r, why);
        put_notices(&w->out, notices);
        strbuf_add_str(&w->out, "}}\n");
        break;
    case QUERY_CSV:
    case QUERY_BINARY:
        break;
    }
}
