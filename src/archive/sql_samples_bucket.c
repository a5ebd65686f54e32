/* SPDX-License-Identifier: Apache-2.0 */
/* sql_samples_bucket.c - samples_bucket(from, to, step [, where [, tier]]): every field with numbers of every
 * event name, folded by stream and step (bucket.h), a row each. The condition is about `value`: each field by
 * itself. */
#include "archive/sql_bucket.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

enum {
    SAMPLES_TIME,
    SAMPLES_NAME,
    SAMPLES_HOST,
    SAMPLES_PROG,
    SAMPLES_KEYS,
    SAMPLES_FIELD,
    SAMPLES_TIER,
    SAMPLES_FIGURES,
    SAMPLES_COLUMNS = SAMPLES_FIGURES + FIGURES
};

struct samples_vtab {
    sqlite3_vtab base;
    struct sql_context *context;
};

struct samples_cursor {
    sqlite3_vtab_cursor base;
    struct sql_context *context;
    struct bucket_args args;
    struct arena arena; /* tables and their columns */
    struct bucket_table *tables;
    size_t n_tables;
    struct bucket *bucket;
    size_t charged;
    struct bucket_row row;
    uint32_t at;                   /* of its columns */
    struct stream_key_parts parts; /* of its key */
    bool is_end;
};

static int samples_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                           char **error)
{
    struct strbuf text = {0};
    (void)db, (void)argc, (void)argv, (void)error;
    strbuf_add_str(&text,
                   "CREATE TABLE x(time INTEGER, name TEXT, host TEXT, prog TEXT, keys TEXT, field TEXT, "
                   "tier INTEGER, count INTEGER, min, max, sum REAL, avg REAL, first, "
                   "last, " BUCKET_ARG_COLUMNS ")");
    int r = sql_declare(aux, &text);
    strbuf_fini(&text);
    struct samples_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->context = aux;
    *out = &v->base;
    return SQLITE_OK;
}

static int samples_disconnect(sqlite3_vtab *v)
{
    mem_free(v);
    return SQLITE_OK;
}

static enum bucket_class usable_as(const void *table, int column)
{
    (void)table;
    return column >= SAMPLES_NAME && column <= SAMPLES_FIELD ? BUCKET_TEXT : BUCKET_NOTHING;
}

static int samples_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
    return bucket_args_plan(((struct samples_vtab *)v)->context, info, SAMPLES_COLUMNS, usable_as, NULL);
}

static int samples_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    struct samples_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->context = c->args.context = ((struct samples_vtab *)v)->context;
    *out = &c->base;
    return SQLITE_OK;
}

static int samples_close(sqlite3_vtab_cursor *cursor)
{
    struct samples_cursor *c = (struct samples_cursor *)cursor;
    bucket_done(&c->args, c->bucket, &c->charged);
    bucket_args_fini(&c->args);
    arena_fini(&c->arena);
    mem_free(c);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- the fold */

/* The columns of the table that are asked: numbers, of the fields that the query names. */
static int add_table(struct samples_cursor *c, const struct table_def *def)
{
    struct bucket_column *columns = arena_alloc(&c->arena, (def->n_columns + 1) * sizeof *columns);
    uint32_t n = 0;
    if (!columns)
        return -ENOMEM;
    for (uint32_t i = 0; i < def->n_columns; i++) {
        const struct field *f = &def->columns[i];
        if (f->role != ROLE_KEY && !value_is_text(f->type) &&
            bucket_args_pass_text(&c->args, SAMPLES_FIELD, f->name))
            columns[n++] = (struct bucket_column){.id = (uint16_t)i};
    }
    if (n)
        c->tables[c->n_tables++] = (struct bucket_table){.def = def, .columns = columns, .n_columns = n};
    return 0;
}

static int choose_tables(struct samples_cursor *c)
{
    struct view *v = c->context->view;
    int r = 0;
    arena_reset(&c->arena);
    c->n_tables = 0;
    c->tables = arena_alloc(&c->arena, (view_tables(v) + 1) * sizeof *c->tables);
    if (!c->tables)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < view_tables(v); i++) {
        const struct table_def *def = view_table_at(v, i);
        if (bucket_args_pass_text(&c->args, SAMPLES_NAME, def->name) && sql_may_table(c->context, def->name))
            r = add_table(c, def);
    }
    return r;
}

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct samples_cursor *c = arg;
    (void)key;
    return sql_may_stream(c->context, parts->name, parts->host) &&
           bucket_args_pass_text(&c->args, SAMPLES_HOST, parts->host) &&
           bucket_args_pass_text(&c->args, SAMPLES_PROG, parts->prog);
}

/* To the next field that has a value and may be seen. */
static int samples_next(sqlite3_vtab_cursor *cursor)
{
    struct samples_cursor *c = (struct samples_cursor *)cursor;
    for (;;) {
        for (; c->row.table && c->at < c->row.table->n_columns; c->at++) {
            const struct bucket_table *t = c->row.table;
            if (c->row.columns[c->at].count && sql_may_field(c->context, t->def->name, c->parts.host,
                                                             t->def->columns[t->columns[c->at].id].name))
                return SQLITE_OK;
        }
        c->is_end = !c->bucket || !bucket_next(c->bucket, &c->row);
        if (c->is_end)
            return SQLITE_OK;
        c->at = 0;
        c->parts = stream_key_split(c->row.key);
    }
}

static int samples_step(sqlite3_vtab_cursor *cursor)
{
    ((struct samples_cursor *)cursor)->at++;
    return samples_next(cursor);
}

static int samples_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                          sqlite3_value **argv)
{
    struct samples_cursor *c = (struct samples_cursor *)cursor;
    (void)number;
    bucket_done(&c->args, c->bucket, &c->charged);
    c->bucket = NULL;
    c->row.table = NULL;
    int r = bucket_args_set(&c->args, plan, SAMPLES_COLUMNS, argc, argv);
    if (r != SQLITE_OK)
        return r;
    if (c->args.has_where && !slice_eq_str(c->args.where.field, "value"))
        return sql_fail_text(c->context, E_PROTO, "where: the condition is about value, as in 'value > 0.9'");
    if ((r = choose_tables(c)) < 0)
        return sql_fail(c->context, r);
    struct bucket_spec spec = {
        .tables = c->tables, .n_tables = c->n_tables, .is_each = c->args.has_where, .wants = wants, .arg = c};
    r = c->n_tables ? bucket_run(&c->args, &spec, &c->bucket, &c->charged) : SQLITE_OK;
    return r != SQLITE_OK ? r : samples_next(cursor);
}

/* ---------------------------------------------------------------- rows */

static int samples_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct samples_cursor *)cursor)->is_end;
}

static int samples_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    const struct samples_cursor *c = (const struct samples_cursor *)cursor;
    *out =
        (sqlite3_int64)(hash_seeded(c->row.key, (uint64_t)c->row.time_ns) + c->row.table->columns[c->at].id);
    return SQLITE_OK;
}

static void result_text(sqlite3_context *to, struct slice text)
{
    if (text.n)
        sqlite3_result_text(to, text.p, (int)text.n, SQLITE_TRANSIENT);
}

static int samples_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    struct samples_cursor *c = (struct samples_cursor *)cursor;
    const struct bucket_table *t = c->row.table;
    if (column >= SAMPLES_COLUMNS)
        bucket_args_result(&c->args, to, (enum bucket_arg)(column - SAMPLES_COLUMNS));
    else if (column >= SAMPLES_FIGURES)
        bucket_figure_result(to, &c->row.columns[c->at], (enum bucket_figure)(column - SAMPLES_FIGURES));
    else if (column == SAMPLES_TIME && (c->args.step_ns || c->args.has_from))
        sqlite3_result_int64(to, c->row.time_ns);
    else if (column == SAMPLES_NAME)
        result_text(to, t->def->name);
    else if (column == SAMPLES_HOST)
        result_text(to, c->parts.host);
    else if (column == SAMPLES_PROG)
        result_text(to, c->parts.prog);
    else if (column == SAMPLES_KEYS)
        return bucket_keys_result(c->context, to, &c->parts);
    else if (column == SAMPLES_FIELD)
        result_text(to, t->def->columns[t->columns[c->at].id].name);
    else if (column == SAMPLES_TIER)
        sqlite3_result_int64(to, c->row.tier_ns);
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = samples_connect,
    .xBestIndex = samples_best_index,
    .xDisconnect = samples_disconnect,
    .xDestroy = samples_disconnect,
    .xOpen = samples_open,
    .xClose = samples_close,
    .xFilter = samples_filter,
    .xNext = samples_step,
    .xEof = samples_eof,
    .xColumn = samples_column,
    .xRowid = samples_rowid,
};

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* it is of all */
    return sql_error(c, sqlite3_create_module_v2(c->db, name, &module, c, NULL));
}

const struct sql_kind sql_kind_samples_bucket = {
    .suffix = "samples_bucket", .is_whole = true, .is_of_all = true, .has_past = true, .make = make};
