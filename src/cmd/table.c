/* SPDX-License-Identifier: Apache-2.0 */
/* Rows wait as they came, in an arena, until a flush. Widths of columns only grow, so that blocks of rows
 * that are flushed one after the other stay under the same head. */
#include "cmd/table.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/file.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/schemas.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct row {
    struct row *next;
    struct args args;
    struct slice text;
};

struct column {
    char name[ARGS_NAME_MAX + 1];
    size_t cut, width;
    bool is_used;
};

struct table {
    const struct table_options *options;
    struct arena arena;
    struct row *first, **last; /* what waits */
    struct column columns[ARGS_MAX + 1];
    size_t n_columns;
    bool has_head, has_colours;
    struct strbuf line, cell;
    /* Of events: */
    struct output *out;
    struct registry *registry;
    struct batch_builder *builder;
    struct schemas met; /* csv: the names of all fields */
    bool has_columns;
};

bool table_format(const char *name, const struct encoding **out)
{
    *out = NULL;
    if (!name || strcmp(name, "table") == 0)
        return true;
    *out = encoding_by_name(slice_str(name));
    if (!*out)
        say("--format: there is no '%.40s'; there are table, ulm, bp, ndjson, xml, csv and binary", name);
    return *out != NULL;
}

static struct column *add_column(struct table *t, struct slice name, size_t cut)
{
    if (t->n_columns == sizeof t->columns / sizeof *t->columns || name.n > ARGS_NAME_MAX)
        return NULL;
    struct column *c = &t->columns[t->n_columns++];
    memcpy(c->name, name.p, name.n);
    c->cut = cut;
    c->width = name.n;
    return c;
}

/* https://no-color.org */
static bool may_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

struct table *table_create(const struct table_options *o)
{
    struct table *t = mem_alloc(sizeof *t);
    t->options = o;
    t->last = &t->first;
    t->has_colours = o->colour && !o->encoding && may_colour();
    for (const struct table_column *c = o->columns; c && c->name; c++) {
        struct column *new = add_column(t, slice_str(c->name), c->cut);
        if (new)
            new->is_used = o->shows_all;
    }
    if (!o->encoding)
        return t;
    t->registry = registry_create();
    t->builder = t->registry ? batch_builder_create(t->registry, 0) : NULL;
    if (!t->builder)
        say("%s", err_text(-ENOMEM));
    if (!t->builder || output_open(NULL, o->encoding, &t->out) < 0) {
        table_destroy(t);
        return NULL;
    }
    return t;
}

void table_destroy(struct table *t)
{
    if (!t)
        return;
    output_close(t->out);
    batch_builder_destroy(t->builder);
    schemas_fini(&t->met);
    registry_destroy(t->registry);
    arena_fini(&t->arena);
    strbuf_fini(&t->line);
    strbuf_fini(&t->cell);
    mem_free(t);
}

void table_again(struct table *t)
{
    t->has_head = false;
}

void table_add(struct table *t, struct args row, struct slice text)
{
    struct row *r = arena_alloc(&t->arena, sizeof *r);
    struct slice bytes = arena_copy(&t->arena, row.bytes), copy = arena_copy(&t->arena, text);
    if (!r || !bytes.p || !copy.p)
        abort(); /* out of memory: as mem_alloc */
    *r = (struct row){.args = {bytes, row.n}, .text = copy};
    *t->last = r;
    t->last = &r->next;
}

static void forget_rows(struct table *t)
{
    t->first = NULL;
    t->last = &t->first;
    arena_reset(&t->arena);
}

/* ---------------------------------------------------------------- sorting */

static int compare_text(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int r = n ? memcmp(a.p, b.p, n) : 0;
    return r ? r : (a.n > b.n) - (a.n < b.n);
}

static int compare_rows(const struct table_order *by, const struct row *a, const struct row *b)
{
    for (; by->name; by++) {
        int r = compare_text(args_text(a->args, by->name), args_text(b->args, by->name));
        if (r)
            return by->is_down ? -r : r;
    }
    return 0;
}

/* Two sorted lists as one; of rows that are alike a's come first. */
static struct row *merge(const struct table_order *by, struct row *a, struct row *b)
{
    struct row *first = NULL, **last = &first;
    while (a && b) {
        struct row **least = compare_rows(by, a, b) <= 0 ? &a : &b;
        *last = *least;
        last = &(*least)->next;
        *least = (*least)->next;
    }
    *last = a ? a : b;
    return first;
}

/* From the bottom up: runs[i] is empty or a list of 2^i rows. */
static void sort_rows(struct table *t)
{
    struct row *runs[64] = {0}, *all = NULL, *next;
    if (!t->options->order)
        return;
    for (struct row *r = t->first; r; r = next) {
        struct row *carry = r;
        size_t i = 0;
        next = r->next;
        r->next = NULL;
        for (; runs[i]; i++) {
            carry = merge(t->options->order, runs[i], carry);
            runs[i] = NULL;
        }
        runs[i] = carry;
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        all = merge(t->options->order, runs[i], all);
    t->first = all;
    for (t->last = &t->first; *t->last;)
        t->last = &(*t->last)->next;
}

/* ---------------------------------------------------------------- as a table */

void table_add_value(struct strbuf *out, struct value v)
{
    char number[NUM_TEXT_MAX];
    if (v.type == VALUE_UINT)
        strbuf_add(out, number, num_print_uint(number, v.u));
    else if (v.type == VALUE_INT)
        strbuf_add(out, number, num_print_int(number, v.i));
    else if (v.type == VALUE_FLOAT)
        strbuf_add(out, number, num_print_float(number, v.f));
    else if (v.type == VALUE_BOOL)
        strbuf_add_str(out, v.u ? "yes" : "no");
    else
        for (size_t i = 0; i < v.n; i++) /* nothing that could steer a terminal */
            strbuf_add_char(out, (unsigned char)v.p[i] >= 0x20 && v.p[i] != 0x7f ? v.p[i] : '?');
}

static struct column *find_column(struct table *t, struct slice name)
{
    for (size_t i = 0; i < t->n_columns; i++)
        if (slice_eq_str(name, t->columns[i].name))
            return &t->columns[i];
    return t->options->has_rest ? add_column(t, name, 0) : NULL;
}

/* The text of a cell, in t->cell. */
static void make_cell(struct table *t, const struct column *c, struct value v)
{
    strbuf_reset(&t->cell);
    if (v.type != VALUE_NONE)
        table_add_value(&t->cell, v);
    if (c->cut && t->cell.n > c->cut)
        t->cell.n = c->cut;
}

/* Columns that may be seen first with this row, and their widths. */
static void measure(struct table *t, const struct row *r)
{
    struct args args = r->args;
    struct arg a;
    while (args_next(&args, &a)) {
        struct column *c = find_column(t, a.name);
        if (!c)
            continue;
        make_cell(t, c, a.value);
        t->has_head = t->has_head && c->is_used; /* a new column needs a new head */
        c->is_used = true;
        if (t->cell.n > c->width)
            c->width = t->cell.n;
    }
}

static void add_padding(struct strbuf *line, size_t n)
{
    while (n--)
        strbuf_add_char(line, ' ');
}

static void add_cell(struct table *t, const struct column *c, struct slice text, bool is_number,
                     const char *colour)
{
    size_t pad = c->width > text.n ? c->width - text.n : 0;
    if (t->line.n && t->line.p[t->line.n - 1] != '\n')
        strbuf_add_str(&t->line, "  ");
    if (is_number)
        add_padding(&t->line, pad);
    if (colour)
        strbuf_add_str(&t->line, colour);
    strbuf_add_slice(&t->line, text);
    if (colour)
        strbuf_add_str(&t->line, "\x1b[0m");
    if (!is_number)
        add_padding(&t->line, pad);
}

static void end_line(struct table *t)
{
    while (t->line.n && t->line.p[t->line.n - 1] == ' ')
        t->line.n--;
    strbuf_add_char(&t->line, '\n');
}

static bool is_number(uint8_t type)
{
    return type == VALUE_INT || type == VALUE_UINT || type == VALUE_FLOAT || type == VALUE_NUMBER;
}

/* The head; a column is to the right if its first value is a number. */
static void add_head(struct table *t)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct column *c = &t->columns[i];
        char title[ARGS_NAME_MAX + 1];
        size_t n = strlen(c->name);
        if (!c->is_used)
            continue;
        for (size_t k = 0; k <= n; k++)
            title[k] = (char)(c->name[k] >= 'a' && c->name[k] <= 'z' ? c->name[k] - 32
                              : c->name[k] == '_'                    ? ' '
                                                                     : c->name[k]);
        struct value v = t->first ? args_value(t->first->args, c->name) : value_none();
        add_cell(t, c, slice_of(title, n), is_number(v.type), NULL);
    }
    end_line(t);
    t->has_head = true;
}

static void add_row(struct table *t, const struct row *r)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct column *c = &t->columns[i];
        if (!c->is_used)
            continue;
        struct value v = args_value(r->args, c->name);
        make_cell(t, c, v);
        const char *colour = t->has_colours ? t->options->colour(c->name, v) : NULL;
        add_cell(t, c, strbuf_slice(&t->cell), is_number(v.type), colour);
    }
    if (r->text.n) {
        strbuf_add_str(&t->line, "  ");
        table_add_value(&t->line, value_text(r->text));
    }
    end_line(t);
}

static int print_table(struct table *t)
{
    strbuf_reset(&t->line);
    sort_rows(t);
    for (const struct row *r = t->first; r; r = r->next)
        measure(t, r);
    if (!t->has_head && t->first)
        add_head(t);
    for (const struct row *r = t->first; r; r = r->next)
        add_row(t, r);
    forget_rows(t);
    int e = strbuf_failed(&t->line) ? -ENOMEM : file_write_all(STDOUT_FILENO, strbuf_slice(&t->line));
    if (e < 0 && e != -EPIPE && e != -EINTR)
        say("stdout: %s", err_text(e));
    return e;
}

/* ---------------------------------------------------------------- as events */

/* host and prog are the event's own; a name that comes twice counts once, the last. */
static size_t collect(const struct row *r, struct named_value *to, size_t max, struct event_head *head)
{
    struct args args = r->args;
    struct arg a;
    size_t n = 0;
    while (args_next(&args, &a)) {
        size_t i = 0;
        struct slice *own = slice_eq_str(a.name, "host")   ? &head->host
                            : slice_eq_str(a.name, "prog") ? &head->prog
                                                           : NULL;
        if (own && a.value.type == VALUE_TEXT) {
            *own = value_slice(a.value);
            continue;
        }
        while (i < n && !slice_eq(to[i].name, a.name))
            i++;
        if (i == max)
            continue;
        to[i] = (struct named_value){a.name, a.value};
        n = i == n ? n + 1 : n;
    }
    if (r->text.n && n < max)
        to[n++] = (struct named_value){SLICE_LIT("text"), value_text(r->text)};
    return n;
}

static int build(struct table *t)
{
    struct named_value values[EVENT_FIELDS_MAX];
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    for (const struct row *r = t->first; r; r = r->next) {
        struct event_head head = {.time_ns = now,
                                  .name = slice_str(t->options->event),
                                  .prog = SLICE_LIT("gridline"),
                                  .level = LEVEL_INFO};
        size_t n = collect(r, values, EVENT_FIELDS_MAX, &head);
        int e = batch_builder_add(t->builder, &head, values, n, &why);
        if (e < 0) {
            say("a row can't be written: %s", why.message);
            return e;
        }
    }
    return 0;
}

static int print_events(struct table *t)
{
    if (!t->first)
        return 0;
    sort_rows(t);
    int e = build(t);
    struct batch *b = batch_builder_finish(t->builder, NULL);
    forget_rows(t);
    if (e == 0 && b && strcmp(t->options->encoding->name, "csv") == 0 && !t->has_columns) {
        for (size_t i = 0; i < b->n; i++)
            schemas_add(&t->met, b->events[i].schema);
        e = output_columns(t->out, t->met.names, t->met.n_names);
        t->has_columns = true;
    }
    if (e == 0 && b)
        e = output_batch(t->out, b);
    if (e == 0)
        e = output_flush(t->out);
    batch_unref(b);
    return e;
}

int table_flush(struct table *t)
{
    if (!t->options->encoding)
        return print_table(t);
    bool is_csv = strcmp(t->options->encoding->name, "csv") == 0;
    return is_csv && !t->has_columns ? 0 : print_events(t);
}

int table_round(struct table *t)
{
    return t->options->encoding ? print_events(t) : print_table(t);
}

int table_finish(struct table *t)
{
    int e = table_round(t);
    if (e < 0 || !t->out)
        return e;
    return output_finish(t->out);
}
