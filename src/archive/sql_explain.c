/* SPDX-License-Identifier: Apache-2.0 */
/* sql_explain.c - what is wrong with a text: from SQLite's code and message to what, where and what next. */
#include "archive/sql_guard.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>

struct place {
    struct slice name;
    size_t at;
    bool is_found;
};

static bool find_place(void *arg, struct slice name, size_t at)
{
    struct place *p = arg;
    p->is_found = slice_eq_nocase(name, p->name);
    p->at = at;
    return !p->is_found;
}

/* The column (from 1) of the first identifier of that name; 0: there is none. */
static uint32_t column_of(struct slice text, struct slice name)
{
    struct place p = {.name = name};
    sql_tokens(text, find_place, &p);
    return p.is_found ? (uint32_t)p.at + 1 : 0;
}

static int say_no_table(const struct sql_context *c, struct slice text, struct slice name, struct diag *why)
{
    struct strbuf near = {0};
    sql_nearest_table(c, name, &near);
    /* main.cpu, job.state: the column is of what follows the dot */
    const char *dot = memrchr(name.p, '.', name.n);
    uint32_t col = column_of(text, dot ? slice_from(name, (size_t)(dot - name.p) + 1) : name);
    int r = diag_set(why, E_PROTO, col,
                     "no such table: %.*s; %s%.*s%s`gridline schemas` lists the event names", SLICE_ARG(name),
                     near.n ? "did you mean " : "", SLICE_ARG(strbuf_slice(&near)), near.n ? "? " : "");
    strbuf_fini(&near);
    return r;
}

struct column_search {
    const struct sql_context *context;
    struct text_nearest near;
    struct strbuf best;
};

static void try_column(struct column_search *s, const char *name)
{
    s->near.best = NULL;
    text_nearest_try(&s->near, name);
    if (!s->near.best)
        return;
    strbuf_reset(&s->best);
    strbuf_add_str(&s->best, name);
}

static bool try_table(void *arg, struct slice name, size_t at)
{
    struct column_search *s = arg;
    const struct table_def *t = sql_find_table(s->context, name);
    struct sql_shape *shape = t ? sql_shape_create(t, true) : NULL;
    (void)at; /* not asked */
    for (uint32_t i = 0; shape && i < shape->n_fields; i++)
        try_column(s, shape->fields[i].name);
    sql_shape_destroy(shape);
    return true;
}

/* The nearest column of the tables that the text names; to be freed. */
static struct strbuf nearest_column(const struct sql_context *c, struct slice text, struct slice name)
{
    static const char *const heads[] = {"time", "host", "prog", "level"};
    struct column_search s = {.context = c, .near = text_nearest_of(name)};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        try_column(&s, heads[i]);
    sql_tokens(text, try_table, &s);
    return s.best;
}

static int say_no_column(const struct sql_context *c, struct slice text, struct slice name, uint32_t col,
                         struct diag *why)
{
    struct strbuf near = nearest_column(c, text, name);
    bool is_quoted = col && col <= text.n && text.p[col - 1] == '"';
    const char *hint = is_quoted ? "; text goes in single quotes" : "";
    int r = near.n ? diag_set(why, E_PROTO, col, "no such column: %.*s; did you mean \"%.*s\"?%s",
                              SLICE_ARG(name), SLICE_ARG(strbuf_slice(&near)), hint)
                   : diag_set(why, E_PROTO, col, "no such column: %.*s%s", SLICE_ARG(name), hint);
    strbuf_fini(&near);
    return r;
}

static int say_limit(const struct sql_context *c, int code, struct diag *why)
{
    if ((code & 0xff) == SQLITE_TOOBIG && !c->memory.is_over)
        return diag_set(why, E_LIMIT, 0, "a text or value is longer than the %d bytes that one may have",
                        SQL_LENGTH_MAX);
    return diag_set(
        why, E_LIMIT, 0,
        "the query needs more than %zu MiB of memory; ask for a shorter time, fewer columns or fewer groups",
        c->limits.bytes >> 20);
}

static int say_failed(const struct sql_context *c, int r, struct diag *why)
{
    const char *message = c->failure.message;
    if (r == -ETIMEDOUT)
        return diag_set(
            why, r, 0, "the query took longer than %" PRId64 " ms; ask for a shorter time or use NAME_bucket",
            c->limits.time_ns / 1000000);
    if (r == -ECANCELED)
        return diag_set(why, r, 0, "cancelled");
    return diag_set(why, r, 0, "%s", *message ? message : err_text(r));
}

int sql_explain(const struct sql_context *c, int code, struct diag *why)
{
    struct slice text = strbuf_slice(&c->text);
    int r = sql_error(c, code);
    if (r == E_LIMIT && (c->memory.is_over || c->failed == 0))
        return say_limit(c, code, why);
    if (c->failed < 0)
        return say_failed(c, c->failed, why);
    struct slice message = slice_str(sqlite3_errmsg(c->db));
    int offset = sqlite3_error_offset(c->db);
    uint32_t col = offset >= 0 ? (uint32_t)offset + 1 : 0;
    if (slice_starts(message, SLICE_LIT("no such table: ")))
        return say_no_table(c, text, slice_from(message, 15), why);
    if (slice_starts(message, SLICE_LIT("no such column: ")))
        return say_no_column(c, text, slice_from(message, 16), col, why);
    return diag_set(why, r, col, "%.*s", SLICE_ARG(message));
}
