/* SPDX-License-Identifier: Apache-2.0 */
/* sql_own.c - what an archive says of itself: its tables, baselines and partitions, and what retention has
 * deleted, one row each. */
#include "archive/sql_internal.h"

#include "base/mem.h"

#include <errno.h>

struct own_kind {
    const char *declaration;
    size_t (*count)(const struct view *v);
    void (*result)(const struct sql_context *c, size_t i, int column, sqlite3_context *to);
    /* May the asker see it? NULL = it may. */
    bool (*shows)(const struct sql_context *c, size_t i);
};

struct own_table {
    struct sql_context *context;
    const struct own_kind *kind;
};

struct own_vtab {
    sqlite3_vtab base;
    struct own_table table;
};

struct own_cursor {
    sqlite3_vtab_cursor base;
    const struct own_table *table;
    size_t row;
};

static void result_slice(sqlite3_context *to, struct slice s)
{
    sqlite3_result_text(to, s.n ? s.p : "", (int)s.n, SQLITE_TRANSIENT);
}

static void result_baseline(const struct sql_context *c, size_t i, int column, sqlite3_context *to)
{
    struct baseline b = view_baseline_at(c->view, i);
    if (column == 0)
        result_slice(to, b.name);
    else if (column == 1)
        result_slice(to, b.label);
    else if (column == 4)
        result_slice(to, b.where);
    else
        sqlite3_result_int64(to, column == 2 ? b.from_ns : b.to_ns);
}

static void result_partition(const struct sql_context *c, size_t i, int column, sqlite3_context *to)
{
    struct partition_span s = view_partition_at(c->view, i);
    sqlite3_result_int64(to, column == 0 ? s.from_ns : column == 1 ? s.to_ns : s.step_ns);
}

/* As it is written in SQL: its SQL name, or with a number behind it where that is another's; or else in
 * quotes. */
static void put_name(struct strbuf *out, const struct sql_context *c, const struct table_def *t)
{
    sql_table_name(out, t->name);
    size_t n = out->n;
    for (size_t k = 2; !strbuf_failed(out) && k <= view_tables(c->view) + 2; k++) {
        if (sql_find_table(c, strbuf_slice(out)) == t)
            return;
        out->n = n;
        strbuf_printf(out, "_%zu", k);
    }
    strbuf_reset(out);
    strbuf_printf(out, "\"%.*s\"", SLICE_ARG(t->name)); /* no name of an event has a quote in it */
}

static void result_table(const struct sql_context *c, size_t i, int column, sqlite3_context *to)
{
    const struct table_def *t = view_table_at(c->view, i);
    struct strbuf text = {0};
    if (column == 0)
        put_name(&text, c, t);
    else if (column == 1)
        strbuf_add_slice(&text, t->name);
    for (uint32_t k = 0; column == 2 && k < t->n_columns; k++)
        strbuf_printf(&text, "%s%.*s", k ? "," : "", SLICE_ARG(t->columns[k].name));
    if (strbuf_failed(&text))
        sqlite3_result_error_nomem(to);
    else
        result_slice(to, strbuf_slice(&text));
    strbuf_fini(&text);
}

static bool shows_table(const struct sql_context *c, size_t i)
{
    return sql_may_table(c, view_table_at(c->view, i)->name);
}

static const struct own_kind tables = {
    .declaration = "CREATE TABLE x(name TEXT, event TEXT, fields TEXT)",
    .count = view_tables,
    .result = result_table,
    .shows = shows_table,
};

static const struct own_kind baselines = {
    .declaration =
        "CREATE TABLE x(name TEXT, label TEXT, from_time INTEGER, to_time INTEGER, condition TEXT)",
    .count = view_baselines,
    .result = result_baseline,
};

static const struct own_kind partitions = {
    .declaration = "CREATE TABLE x(from_time INTEGER, to_time INTEGER, step INTEGER)",
    .count = view_partitions,
    .result = result_partition,
};

static void result_gone(const struct sql_context *c, size_t i, int column, sqlite3_context *to)
{
    static const char *const reasons[] = {"age", "size", "full disk"};
    struct deleted g = view_gone_at(c->view, i);
    const int64_t numbers[] = {0, g.step_ns, g.from_ns, g.to_ns, (int64_t)g.rows, g.at_ns};
    if (column == 0)
        result_slice(to, g.name);
    else if (column == 6)
        result_slice(to, slice_str(g.why <= GONE_FULL ? reasons[g.why] : ""));
    else
        sqlite3_result_int64(to, numbers[column]);
}

static bool shows_gone(const struct sql_context *c, size_t i)
{
    return sql_may_table(c, view_gone_at(c->view, i).name);
}

static const struct own_kind retention = {
    .declaration = "CREATE TABLE x(event TEXT, step INTEGER, from_time INTEGER, to_time INTEGER, "
                   "\"rows\" INTEGER, at_time INTEGER, reason TEXT)",
    .count = view_gone,
    .result = result_gone,
    .shows = shows_gone,
};

static int own_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                       char **error)
{
    const struct own_table *t = aux;
    struct strbuf text = {0};
    (void)db; /* the context's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, t->kind->declaration);
    int r = sql_declare(t->context, &text);
    strbuf_fini(&text);
    struct own_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->table = *t;
    *out = &v->base;
    return SQLITE_OK;
}

static int own_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static int own_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct own_table *t = &((struct own_vtab *)vtab)->table;
    size_t n = t->kind->count(t->context->view);
    info->estimatedRows = (sqlite3_int64)n;
    info->estimatedCost = (double)n;
    return SQLITE_OK;
}

static int own_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct own_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->table = &((struct own_vtab *)vtab)->table;
    *out = &c->base;
    return SQLITE_OK;
}

static int own_close(sqlite3_vtab_cursor *cursor)
{
    mem_free(cursor);
    return SQLITE_OK;
}

static bool is_over(const struct own_cursor *c)
{
    return c->row >= c->table->kind->count(c->table->context->view);
}

static void skip_hidden(struct own_cursor *c)
{
    const struct own_kind *kind = c->table->kind;
    while (kind->shows && !is_over(c) && !kind->shows(c->table->context, c->row))
        c->row++;
}

static int own_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                      sqlite3_value **argv)
{
    (void)number;
    (void)plan;
    (void)argc;
    (void)argv;
    ((struct own_cursor *)cursor)->row = 0;
    skip_hidden((struct own_cursor *)cursor);
    return SQLITE_OK;
}

static int own_next(sqlite3_vtab_cursor *cursor)
{
    ((struct own_cursor *)cursor)->row++;
    skip_hidden((struct own_cursor *)cursor);
    return SQLITE_OK;
}

static int own_eof(sqlite3_vtab_cursor *cursor)
{
    return is_over((const struct own_cursor *)cursor);
}

static int own_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct own_cursor *c = (const struct own_cursor *)cursor;
    c->table->kind->result(c->table->context, c->row, column, to);
    return SQLITE_OK;
}

static int own_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((const struct own_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = own_connect,
    .xBestIndex = own_best_index,
    .xDisconnect = own_disconnect,
    .xDestroy = own_disconnect,
    .xOpen = own_open,
    .xClose = own_close,
    .xFilter = own_filter,
    .xNext = own_next,
    .xEof = own_eof,
    .xColumn = own_column,
    .xRowid = own_rowid,
};

static int make(struct sql_context *c, const char *name, const struct own_kind *kind)
{
    struct own_table *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct own_table){.context = c, .kind = kind};
    return sql_error(c,
                     sqlite3_create_module_v2(c->db, name, &module, t, mem_free)); /* freed on failure, too */
}

static int make_baselines(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of none */
    return make(c, name, &baselines);
}

static int make_partitions(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of none */
    return make(c, name, &partitions);
}

static int make_retention(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of none */
    return make(c, name, &retention);
}

static int make_tables(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of none */
    return make(c, name, &tables);
}

const struct sql_kind sql_kind_tables = {
    .suffix = "tables", .is_whole = true, .has_past = true, .make = make_tables};
const struct sql_kind sql_kind_baselines = {
    .suffix = "baselines", .is_whole = true, .has_past = true, .make = make_baselines};
const struct sql_kind sql_kind_retention = {
    .suffix = "retention", .is_whole = true, .has_past = true, .make = make_retention};
const struct sql_kind sql_kind_partitions = {
    .suffix = "partitions", .is_whole = true, .has_past = true, .make = make_partitions};
