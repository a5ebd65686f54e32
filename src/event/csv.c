/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as RFC 4180 has it, lines ended by CRLF; written only.
 *
 *   time,host,prog,level,name,user,msg
 *   2026-11-15T21:20:28.123456Z,h,p,info,cpu,1.5,"a, b"
 *
 * A file has one set of columns, named in its first line: those of csv_set_columns, or else the fields of the
 * first event's schema. A field that has no column is left out, and counted. A field seen with two types is
 * one column. A field named like one of the first five is headed with a `$` (head_key.h).
 *
 * Missing is empty; empty text is "", quoted, so that the two differ. Bytes are base64. Text is quoted when
 * it has a quote, a comma, a CR or LF, or a space at either end. Text that begins with = + - or @ is written
 * as it is: this is data for programs, and changing it to guard a spreadsheet that takes it for a formula
 * would make it wrong for everyone else. */
#include "event/csv.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/encodings.h"
#include "event/head_key.h"

#include <errno.h>

enum { NO_COLUMN = -1 };

struct csv_writer {
    char *names;           /* the text of all column names, owned */
    struct slice *columns; /* names, pointing there */
    struct value *row;     /* the current event's values by column */
    size_t n_columns;
    bool has_columns; /* they are fixed: given, or taken from the first event */
    bool has_header;  /* its line is written */
    uint64_t left_out;
    const struct schema *schema;     /* a reference to that of the event before; NULL at first */
    int column_of[EVENT_FIELDS_MAX]; /* its fields' columns */
};

static int find_column(const struct csv_writer *w, struct slice name)
{
    for (size_t i = 0; i < w->n_columns; i++)
        if (slice_eq(w->columns[i], name))
            return (int)i;
    return NO_COLUMN;
}

static void add_column(struct csv_writer *w, struct slice name, char **at)
{
    if (find_column(w, name) != NO_COLUMN)
        return;
    memcpy(*at, name.p, name.n);
    w->columns[w->n_columns++] = slice_of(*at, name.n);
    *at += name.n;
}

int csv_set_columns(void *state, const struct slice *fields, size_t n)
{
    struct csv_writer *w = state;
    size_t text = 0;
    if (w->has_columns)
        return -EBUSY;
    for (size_t i = 0; i < n; i++) {
        if (!text_is_name(fields[i]))
            return E_PROTO;
        text += fields[i].n;
    }
    char *names = mem_try_alloc(text);
    struct slice *columns = mem_try_alloc(n * sizeof *columns);
    struct value *row = mem_try_alloc(n * sizeof *row);
    if (!names || !columns || !row) {
        mem_free(names);
        mem_free(columns);
        mem_free(row);
        return -ENOMEM;
    }
    w->names = names;
    w->columns = columns;
    w->row = row;
    for (size_t i = 0; i < n; i++)
        add_column(w, fields[i], &names);
    w->has_columns = true;
    return 0;
}

uint64_t csv_left_out(const void *state)
{
    const struct csv_writer *w = state;
    return w->left_out;
}

static int columns_of_schema(struct csv_writer *w, const struct schema *s)
{
    struct slice names[EVENT_FIELDS_MAX];
    for (uint32_t i = 0; i < s->n_fields; i++)
        names[i] = s->fields[i].name;
    return csv_set_columns(w, names, s->n_fields);
}

static void put_header(struct csv_writer *w, struct strbuf *out)
{
    strbuf_add_str(out, "time,host,prog,level,name");
    for (size_t i = 0; i < w->n_columns; i++) {
        strbuf_add_str(out, head_key_of(w->columns[i]) != HEAD_NONE ? ",$" : ",");
        strbuf_add_slice(out, w->columns[i]); /* the alphabet of names needs no quotes */
    }
    strbuf_add_str(out, "\r\n");
    w->has_header = true;
}

static bool needs_quotes(struct slice s)
{
    if (s.n == 0 || s.p[0] == ' ' || s.p[s.n - 1] == ' ')
        return true;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '"' || s.p[i] == ',' || s.p[i] == '\r' || s.p[i] == '\n')
            return true;
    return false;
}

void csv_put_text(struct strbuf *out, struct slice s)
{
    if (!needs_quotes(s)) {
        strbuf_add_slice(out, s);
        return;
    }
    char *to = strbuf_room(out, 2 * s.n + 2), *start = to;
    if (!to)
        return;
    *to++ = '"';
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            *to++ = '"';
        *to++ = s.p[i];
    }
    *to++ = '"';
    strbuf_advance(out, (size_t)(to - start));
}

static void put_number(struct strbuf *out, struct value v)
{
    char *to = strbuf_room(out, NUM_TEXT_MAX);
    if (!to)
        return;
    strbuf_advance(out, v.type == VALUE_INT    ? num_print_int(to, v.i)
                        : v.type == VALUE_UINT ? num_print_uint(to, v.u)
                                               : num_print_float(to, v.f));
}

void csv_put_value(struct strbuf *out, struct value v)
{
    switch (v.type) {
    case VALUE_NONE:
        break;
    case VALUE_BOOL:
        strbuf_add_str(out, v.u ? "true" : "false");
        break;
    case VALUE_TEXT:
    case VALUE_NUMBER:
        csv_put_text(out, value_slice(v));
        break;
    case VALUE_BYTES:
        if (v.n)
            text_add_base64(out, value_slice(v));
        else
            strbuf_add_str(out, "\"\"");
        break;
    default:
        put_number(out, v);
    }
}

static void put_head(const struct event *e, struct strbuf *out)
{
    char *to = strbuf_room(out, CLOCK_TEXT_MAX);
    if (to)
        strbuf_advance(out, clock_print_iso(to, e->time_ns));
    strbuf_add_char(out, ',');
    if (e->host.n)
        csv_put_text(out, e->host);
    strbuf_add_char(out, ',');
    if (e->prog.n)
        csv_put_text(out, e->prog);
    strbuf_add_char(out, ',');
    strbuf_add_slice(out, level_lower(e->level));
    strbuf_add_char(out, ',');
    strbuf_add_slice(out, e->schema->name);
}

static void use_schema(struct csv_writer *w, const struct schema *s)
{
    if (w->schema == s)
        return;
    schema_unref(w->schema);
    w->schema = schema_ref(s);
    for (uint32_t i = 0; i < s->n_fields; i++)
        w->column_of[i] = find_column(w, s->fields[i].name);
}

static void put_event(struct csv_writer *w, const struct event *e, struct strbuf *out)
{
    use_schema(w, e->schema);
    memset(w->row, 0, w->n_columns * sizeof *w->row);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (e->values[i].type == VALUE_NONE)
            continue;
        if (w->column_of[i] == NO_COLUMN)
            w->left_out++;
        else
            w->row[w->column_of[i]] = e->values[i];
    }
    put_head(e, out);
    for (size_t i = 0; i < w->n_columns; i++) {
        strbuf_add_char(out, ',');
        csv_put_value(out, w->row[i]);
    }
    strbuf_add_str(out, "\r\n");
}

static int csv_run(void *state, const struct batch *b, struct strbuf *out)
{
    struct csv_writer *w = state;
    if (b->n && !w->has_columns) {
        int rc = columns_of_schema(w, b->events[0].schema);
        if (rc < 0)
            return rc;
    }
    if (b->n && !w->has_header)
        put_header(w, out);
    for (size_t i = 0; i < b->n; i++)
        put_event(w, &b->events[i], out);
    return strbuf_failed(out) ? -ENOMEM : 0;
}

/* A file without events still says what its columns are. */
static void csv_end(void *state, struct strbuf *out)
{
    struct csv_writer *w = state;
    if (!w->has_header)
        put_header(w, out);
}

static void csv_fini(void *state)
{
    struct csv_writer *w = state;
    schema_unref(w->schema);
    mem_free(w->names);
    mem_free(w->columns);
    mem_free(w->row);
}

static const struct encoder_ops csv_encoder = {
    .state_size = sizeof(struct csv_writer),
    .fini = csv_fini,
    .run = csv_run,
    .end = csv_end,
};

const struct encoding encoding_csv = {
    .name = "csv",
    .suffix = ".csv",
    .mime = "text/csv",
    .summary = "comma-separated values (RFC 4180), written only",
    .is_lines = false, /* a line alone does not say what its columns are */
    .encoder = &csv_encoder,
};
