/* SPDX-License-Identifier: Apache-2.0 */
/* A table: the first ROWS_MEASURED rows wait until the columns' widths are known; from then on a column gets
 * wider when it must. In a column `time` nanoseconds are shown as time; other formats have the number. */
#include "cmd/sql_print.h"

#include "archive/query_rows.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cmd/file.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/table.h"
#include "event/encoding.h"
#include "event/level.h"

#include <errno.h>
#include <unistd.h>

enum { ROWS_MEASURED = 1000, WIDTH_MAX = 60, CELLS_BYTES = 16 << 20 };

struct shown {
    struct slice name; /* in the arena */
    size_t width;
    bool has_value; /* one was there */
    bool is_number; /* the first was */
    bool is_time;
};

struct row {
    struct row *next;
    struct slice cells[]; /* as they are shown */
};

/* What a column is in an event. */
enum part { PART_FIELD, PART_TIME, PART_HOST, PART_PROG, PART_LEVEL, PART_NAME };

struct sql_printer {
    struct sql_print_format format;
    struct arena arena; /* names; of a table the rows that wait, in rows */
    size_t n;
    struct shown *columns;
    struct arena rows;
    struct row *first, **last;
    size_t n_waiting;
    bool has_head;
    struct strbuf out, cell;
    struct query_rows text; /* JSON, NDJSON, CSV */
    /* Events: */
    uint8_t *parts;
    struct registry *registry;
    struct batch_builder *builder;
    struct output *output;
    struct named_value *values;
    uint64_t n_events;
};

bool sql_print_format(const char *name, struct sql_print_format *out)
{
    static const char *const names[] = {"table", "json", "ndjson", "csv"};
    const char *event = out->event;
    *out = (struct sql_print_format){.kind = SQL_PRINT_TABLE, .event = event};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!name || strcmp(name, names[i]) == 0) {
            out->kind = (enum sql_print_kind)i;
            return true;
        }
    out->kind = SQL_PRINT_EVENTS;
    out->encoding = encoding_by_name(slice_str(name));
    if (!out->encoding)
        say("--format: there is no '%.40s'; there are table, json, ndjson, csv, and of events ulm, bp, xml "
            "and binary",
            name);
    return out->encoding != NULL;
}

static int write_out(struct sql_printer *p)
{
    int r = strbuf_failed(&p->out) ? -ENOMEM : file_write_all(STDOUT_FILENO, strbuf_slice(&p->out));
    strbuf_reset(&p->out);
    if (r < 0 && r != -EPIPE && r != -EINTR)
        say("stdout: %s", err_text(r));
    return r;
}

/* ---------------------------------------------------------------- a table */

/* Characters, as a terminal counts most of them. */
static size_t width_of(struct slice s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static void make_cell(struct sql_printer *p, const struct shown *c, struct value v)
{
    char time[CLOCK_TEXT_MAX];
    strbuf_reset(&p->cell);
    if (v.type == VALUE_BYTES)
        text_add_base64(&p->cell, value_slice(v));
    else if (c->is_time && v.type == VALUE_INT)
        strbuf_add(&p->cell, time, clock_print_iso(time, v.i));
    else if (v.type != VALUE_NONE)
        table_add_value(&p->cell, v);
}

static void pad(struct strbuf *out, size_t n)
{
    while (n--)
        strbuf_add_char(out, ' ');
}

static void put_cell(struct sql_printer *p, size_t i, struct slice text)
{
    const struct shown *c = &p->columns[i];
    size_t width = width_of(text), room = c->width > width ? c->width - width : 0;
    if (i)
        strbuf_add_str(&p->out, "  ");
    if (c->is_number)
        pad(&p->out, room);
    strbuf_add_slice(&p->out, text);
    if (!c->is_number)
        pad(&p->out, room);
    if (i + 1 < p->n)
        return;
    while (p->out.n && p->out.p[p->out.n - 1] == ' ')
        p->out.n--;
    strbuf_add_char(&p->out, '\n');
}

static void put_head(struct sql_printer *p)
{
    for (size_t i = 0; i < p->n; i++)
        put_cell(p, i, p->columns[i].name);
    p->has_head = true;
}

static void measure(struct sql_printer *p, size_t i, struct slice text)
{
    size_t width = width_of(text);
    struct shown *c = &p->columns[i];
    if (width > c->width)
        c->width = width < WIDTH_MAX ? width : c->width > WIDTH_MAX ? c->width : WIDTH_MAX;
}

static int flush_table(struct sql_printer *p)
{
    if (!p->has_head)
        put_head(p);
    for (const struct row *r = p->first; r; r = r->next)
        for (size_t i = 0; i < p->n; i++)
            put_cell(p, i, r->cells[i]);
    p->first = NULL;
    p->last = &p->first;
    p->n_waiting = 0;
    arena_reset(&p->rows);
    return write_out(p);
}

static int add_table_row(struct sql_printer *p, const struct value *values)
{
    struct row *r = arena_alloc(&p->rows, sizeof *r + p->n * sizeof *r->cells);
    if (!r)
        return -ENOMEM;
    r->next = NULL;
    for (size_t i = 0; i < p->n; i++) {
        struct shown *c = &p->columns[i];
        if (!p->has_head && !c->has_value)
            c->is_number = values[i].type == VALUE_FLOAT || (values[i].type == VALUE_INT && !c->is_time);
        c->has_value = c->has_value || values[i].type != VALUE_NONE;
        make_cell(p, c, values[i]);
        r->cells[i] = arena_copy(&p->rows, strbuf_slice(&p->cell));
        if (!r->cells[i].p || strbuf_failed(&p->cell))
            return -ENOMEM;
        measure(p, i, r->cells[i]);
    }
    *p->last = r;
    p->last = &r->next;
    p->n_waiting++;
    return p->n_waiting >= ROWS_MEASURED || p->rows.total > CELLS_BYTES ? flush_table(p) : 0;
}

/* ---------------------------------------------------------------- text */

static int flush_text(struct sql_printer *p)
{
    if (p->text.out.n == 0)
        return 0;
    query_rows_take(&p->text, &p->out);
    int r = write_out(p);
    strbuf_fini(&p->out);
    return r;
}

static int add_text_row(struct sql_printer *p, const struct value *values)
{
    struct diag why = {0};
    int r = query_rows_add(&p->text, values, &why);
    if (r < 0) {
        say("%s", why.message);
        return r;
    }
    return query_rows_is_full(&p->text) ? flush_text(p) : 0;
}

/* ---------------------------------------------------------------- events */

static enum part part_of(const struct sql_print_format *f, struct slice name)
{
    static const struct {
        const char *name;
        enum part part;
    } all[] = {{"time", PART_TIME},   {"host", PART_HOST}, {"prog", PART_PROG},
               {"level", PART_LEVEL}, {"name", PART_NAME}, {"event", PART_NAME}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (slice_eq_str(name, all[i].name))
            return all[i].part == PART_NAME && f->event ? PART_FIELD : all[i].part;
    return PART_FIELD;
}

/* Each of the event's own once; what remains can be a field. */
static int check_parts(const struct sql_printer *p)
{
    unsigned has = p->format.event ? 1u << PART_NAME : 0;
    for (size_t i = 0; i < p->n; i++) {
        struct slice name = p->columns[i].name;
        unsigned bit = 1u << p->parts[i];
        bool is_again = p->parts[i] != PART_FIELD && has & bit;
        if (is_again || (p->parts[i] == PART_FIELD && !text_is_name(name))) {
            say("a column '%.*s' can't be in an event%s; give it a name with AS", SLICE_ARG(name),
                is_again ? " twice" : "");
            return E_PROTO;
        }
        has |= bit;
    }
    if (has & 1u << PART_TIME && has & 1u << PART_HOST && has & 1u << PART_NAME)
        return 0;
    say("as events a result has columns time and host, and name or event (or --event NAME); --format table, "
        "json, ndjson "
        "and csv take any");
    return E_PROTO;
}

static int open_events(struct sql_printer *p)
{
    p->parts = mem_alloc(p->n);
    p->values = mem_alloc(p->n * sizeof *p->values);
    for (size_t i = 0; i < p->n; i++)
        p->parts[i] = (uint8_t)part_of(&p->format, p->columns[i].name);
    int r = check_parts(p);
    if (r < 0)
        return r;
    p->registry = registry_create();
    p->builder = p->registry ? batch_builder_create(p->registry, 0) : NULL;
    if (!p->builder)
        return -ENOMEM;
    return output_open(NULL, p->format.encoding, &p->output);
}

static int flush_events(struct sql_printer *p)
{
    if (batch_builder_count(p->builder) == 0)
        return 0;
    struct batch *b = batch_builder_finish(p->builder, NULL);
    int r = b ? output_batch(p->output, b) : -ENOMEM;
    batch_unref(b);
    return r == 0 ? output_flush(p->output) : r;
}

/* false: it is no value of such a part. */
static bool set_part(struct event_head *head, enum part part, struct value v)
{
    bool is_text = v.type == VALUE_TEXT;
    if (part == PART_TIME && v.type == VALUE_INT)
        head->time_ns = v.i;
    else if (part == PART_TIME)
        return is_text && clock_parse_iso(value_slice(v), &head->time_ns) == 0;
    else if (v.type == VALUE_NONE)
        return part != PART_NAME;
    else if (!is_text)
        return false;
    else if (part == PART_HOST)
        head->host = value_slice(v);
    else if (part == PART_PROG)
        head->prog = value_slice(v);
    else if (part == PART_NAME)
        head->name = value_slice(v);
    else
        return level_parse(value_slice(v), &head->level) == 0;
    return true;
}

static int add_event(struct sql_printer *p, const struct value *values)
{
    struct event_head head = {.name = slice_str(p->format.event ? p->format.event : ""),
                              .host = {"", 0},
                              .prog = {"", 0},
                              .level = LEVEL_INFO};
    struct diag why = {0};
    size_t n = 0;
    p->n_events++;
    for (size_t i = 0; i < p->n; i++) {
        if (p->parts[i] == PART_FIELD) {
            if (values[i].type != VALUE_NONE)
                p->values[n++] = (struct named_value){p->columns[i].name, values[i]};
        } else if (!set_part(&head, (enum part)p->parts[i], values[i])) {
            say("row %llu can't be an event: its %.*s is none", (unsigned long long)p->n_events,
                SLICE_ARG(p->columns[i].name));
            return E_PROTO;
        }
    }
    int r = batch_builder_add(p->builder, &head, p->values, n, &why);
    if (r < 0) {
        say("row %llu can't be an event: %s", (unsigned long long)p->n_events, why.message);
        return r;
    }
    return batch_builder_full(p->builder) ? flush_events(p) : 0;
}

/* ---------------------------------------------------------------- */

static int open_format(struct sql_printer *p, const struct slice *names)
{
    static const enum query_format formats[] = {
        [SQL_PRINT_JSON] = QUERY_JSON, [SQL_PRINT_NDJSON] = QUERY_NDJSON, [SQL_PRINT_CSV] = QUERY_CSV};
    p->columns = arena_alloc(&p->arena, p->n * sizeof *p->columns);
    if (!p->columns)
        return -ENOMEM;
    for (size_t i = 0; i < p->n; i++) {
        p->columns[i] = (struct shown){.name = arena_copy(&p->arena, names[i]),
                                       .width = width_of(names[i]),
                                       .is_time = slice_eq_str(names[i], "time")};
        if (!p->columns[i].name.p)
            return -ENOMEM;
    }
    if (p->format.kind == SQL_PRINT_EVENTS)
        return open_events(p);
    return p->format.kind == SQL_PRINT_TABLE
               ? 0
               : query_rows_begin(&p->text, formats[p->format.kind], names, p->n);
}

int sql_printer_create(const struct sql_print_format *f, const struct slice *names, size_t n,
                       struct sql_printer **out)
{
    struct sql_printer *p = mem_alloc(sizeof *p);
    p->format = *f;
    p->n = n;
    p->last = &p->first;
    int r = open_format(p, names);
    if (r == -ENOMEM)
        say("%s", err_text(r));
    if (r < 0) {
        sql_printer_destroy(p);
        return r;
    }
    *out = p;
    return 0;
}

int sql_printer_row(struct sql_printer *p, const struct value *values)
{
    if (p->format.kind != SQL_PRINT_TABLE)
        return p->format.kind == SQL_PRINT_EVENTS ? add_event(p, values) : add_text_row(p, values);
    int r = add_table_row(p, values);
    if (r == -ENOMEM)
        say("%s", err_text(r));
    return r;
}

int sql_printer_end(struct sql_printer *p, int error, const char *why, uint64_t lost,
                    const struct notices *notices)
{
    struct diag text = {0};
    int r;
    switch (p->format.kind) {
    case SQL_PRINT_TABLE:
        return flush_table(p);
    case SQL_PRINT_EVENTS:
        r = flush_events(p);
        return r < 0 ? r : output_finish(p->output);
    case SQL_PRINT_JSON:
        (void)diag_set(&text, error, 0, "%s", why);
        query_rows_end(&p->text, error, &text, lost, notices);
        break;
    case SQL_PRINT_NDJSON:
    case SQL_PRINT_CSV:
        break; /* rows alone; the rest is said */
    }
    return flush_text(p);
}

void sql_printer_destroy(struct sql_printer *p)
{
    if (!p)
        return;
    output_close(p->output);
    batch_builder_destroy(p->builder);
    registry_destroy(p->registry);
    query_rows_fini(&p->text);
    mem_free(p->parts);
    mem_free(p->values);
    arena_fini(&p->rows);
    arena_fini(&p->arena);
    strbuf_fini(&p->out);
    strbuf_fini(&p->cell);
    mem_free(p);
}
