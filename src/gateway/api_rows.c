/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/api_rows.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/csv.h"
#include "event/encoding.h"
#include "event/head_key.h"
#include "event/json.h"

#include <errno.h>

static void put_number(struct strbuf *out, struct value v)
{
    char *to = strbuf_room(out, NUM_TEXT_MAX);
    if (!to)
        return;
    strbuf_advance(out, v.type == VALUE_INT    ? num_print_int(to, v.i)
                        : v.type == VALUE_UINT ? num_print_uint(to, v.u)
                                               : num_print_float(to, v.f));
}

static void put_base64(struct strbuf *out, struct value v)
{
    strbuf_add_char(out, '"');
    text_add_base64(out, value_slice(v));
    strbuf_add_char(out, '"');
}

void rows_put_value(struct strbuf *out, struct value v)
{
    bool is_quoted = v.type == VALUE_FLOAT && !isfinite(v.f);
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
    case VALUE_NUMBER:
        if (json_is_number(value_slice(v)))
            strbuf_add_slice(out, value_slice(v));
        else
            json_add_string(out, value_slice(v));
        break;
    case VALUE_BYTES:
        put_base64(out, v);
        break;
    default:
        strbuf_add_str(out, is_quoted ? "\"" : "");
        put_number(out, v);
        strbuf_add_str(out, is_quoted ? "\"" : "");
    }
}

/* Does a later value have the same name? Rows are short. */
static bool is_replaced(struct args rest, struct slice name)
{
    struct arg a;
    while (args_next(&rest, &a))
        if (slice_eq(a.name, name))
            return true;
    return false;
}

size_t rows_put_members(struct strbuf *out, struct args row)
{
    struct arg a;
    size_t n = 0;
    while (args_next(&row, &a)) {
        if (is_replaced(row, a.name))
            continue;
        if (n++)
            strbuf_add_char(out, ',');
        json_add_string(out, a.name);
        strbuf_add_char(out, ':');
        rows_put_value(out, a.value);
    }
    return n;
}

void rows_put_row(struct strbuf *out, struct args row, struct slice text)
{
    strbuf_add_char(out, '{');
    size_t n = rows_put_members(out, row);
    if (text.n && args_value(row, "text").type == VALUE_NONE) {
        strbuf_add_str(out, n ? ",\"text\":" : "\"text\":");
        json_add_string(out, text);
    }
    strbuf_add_char(out, '}');
}

int rows_put_event(struct strbuf *out, const struct event *e)
{
    const struct batch one = {.events = e, .n = 1};
    struct encoder *encoder;
    int r = encoder_create(encoding_by_name(SLICE_LIT("ndjson")), &encoder);
    if (r < 0)
        return r;
    r = encoder_run(encoder, &one, out);
    encoder_destroy(encoder);
    if (r == 0 && out->n && out->p[out->n - 1] == '\n')
        out->p[--out->n] = '\0';
    return r;
}

void rows_of_event(struct args_writer *out, const struct event *e)
{
    char time[CLOCK_TEXT_MAX], marked[1 + EVENT_NAME_MAX] = "$";
    args_add_text(out, "time", slice_of(time, clock_print_iso(time, e->time_ns)));
    if (e->host.n)
        args_add_text(out, "host", e->host);
    if (e->prog.n)
        args_add_text(out, "prog", e->prog);
    args_add_text(out, "level", level_lower(e->level));
    args_add_text(out, "name", e->schema->name);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        struct slice name = e->schema->fields[i].name;
        if (head_key_of(name) != HEAD_NONE) {
            memcpy(marked + 1, name.p, name.n);
            name = slice_of(marked, name.n + 1);
        }
        args_add(out, name, e->values[i]);
    }
}

/* ---------------------------------------------------------------- CSV */

static struct slice column(const struct rows_table *t, size_t i)
{
    size_t from = i ? t->ends[i - 1] : 0;
    return slice_of(t->names.p + from, t->ends[i] - from);
}

static void add_column(struct rows_table *t, struct slice name)
{
    for (size_t i = 0; i < t->n_columns; i++)
        if (slice_eq(column(t, i), name))
            return;
    if (t->n_columns == ROWS_COLUMNS_MAX) {
        t->has_left_out = true;
        return;
    }
    strbuf_add_slice(&t->names, name);
    if (!strbuf_failed(&t->names))
        t->ends[t->n_columns++] = (uint32_t)t->names.n;
}

void rows_table_add(struct rows_table *t, struct args row, struct slice text)
{
    struct args_writer with_text = {0};
    struct args rest = row;
    struct arg a;
    if (text.n && args_value(row, "text").type == VALUE_NONE) {
        while (with_text.n < ARGS_MAX - 1 && args_next(&rest, &a))
            args_add(&with_text, a.name, a.value);
        args_add_text(&with_text, "text", text);
        row = args_of(&with_text);
    }
    rest = row;
    while (args_next(&rest, &a))
        add_column(t, a.name);
    strbuf_add_u32(&t->rows, row.n);
    strbuf_add_u32(&t->rows, (uint32_t)row.bytes.n);
    strbuf_add_slice(&t->rows, row.bytes);
    t->n++;
    args_writer_fini(&with_text);
}

static struct value find(struct args row, struct slice name)
{
    struct value found = value_none();
    struct arg a;
    while (args_next(&row, &a))
        if (slice_eq(a.name, name))
            found = a.value;
    return found;
}

void rows_table_put(const struct rows_table *t, struct strbuf *out)
{
    struct cursor c = cursor_of(strbuf_slice(&t->rows));
    for (size_t i = 0; i < t->n_columns; i++) {
        strbuf_add_str(out, i ? "," : "");
        csv_put_text(out, column(t, i));
    }
    strbuf_add_str(out, "\r\n");
    for (size_t k = 0; k < t->n; k++) {
        struct args row = {.n = cursor_u32(&c)};
        row.bytes = cursor_bytes(&c, cursor_u32(&c));
        for (size_t i = 0; i < t->n_columns; i++) {
            strbuf_add_str(out, i ? "," : "");
            csv_put_value(out, find(row, column(t, i)));
        }
        strbuf_add_str(out, "\r\n");
    }
}

void rows_table_fini(struct rows_table *t)
{
    strbuf_fini(&t->names);
    strbuf_fini(&t->rows);
    t->n = t->n_columns = 0;
}
