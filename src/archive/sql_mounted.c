/* SPDX-License-Identifier: Apache-2.0 */
/* sql_mounted.c - tables that were given filled (event/table.h): system tables, NAME_latest of a gateway.
 *
 * Rows are events of batches. Those of another version of the schema have their fields found by name and
 * type. */
#include "archive/sql_internal.h"

#include "base/mem.h"

#include <errno.h>

struct mounted_table {
    struct sql_context *context;
    struct sql_shape *shape;
    char *name;
};

struct mounted_vtab {
    sqlite3_vtab base;
    const struct mounted_table *table;
};

struct mounted_cursor {
    sqlite3_vtab_cursor base;
    const struct mounted_table *table;
    const struct table_rows *rows; /* of the statement that runs */
    size_t batch, event;
};

static int mounted_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                           char **error)
{
    const struct mounted_table *t = aux;
    struct strbuf text = {0};
    const char *comma = "";
    (void)db; /* the context's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, "CREATE TABLE x(");
    if (t->shape->has_heads) {
        strbuf_add_str(&text, "time INTEGER, host TEXT, prog TEXT, level TEXT");
        comma = ", ";
    }
    for (uint32_t i = 0; i < t->shape->n_fields; i++, comma = ", ") {
        strbuf_add_str(&text, comma);
        sql_add_quoted(&text, t->shape->fields[i].name);
        strbuf_printf(&text, " %s", sql_type_name(t->shape->fields[i].type));
    }
    strbuf_add_str(&text, ")");
    int r = sql_declare(t->context, &text);
    strbuf_fini(&text);
    struct mounted_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->table = t;
    *out = &v->base;
    return SQLITE_OK;
}

static int mounted_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static const struct table_rows *find_rows(const struct mounted_table *t)
{
    for (size_t i = 0; i < t->context->n_mounted; i++)
        if (strcmp(t->context->mounted[i].name, t->name) == 0)
            return &t->context->mounted[i];
    return NULL;
}

static int mounted_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct mounted_table *t = ((struct mounted_vtab *)vtab)->table;
    const struct table_rows *rows = find_rows(t);
    int r = sql_check(t->context);
    if (r < 0)
        return sql_fail(t->context, r);
    double n = 1;
    for (size_t i = 0; rows && i < rows->n; i++)
        n += (double)rows->batches[i]->n;
    info->estimatedRows = (sqlite3_int64)n;
    info->estimatedCost = n;
    return SQLITE_OK;
}

static int mounted_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct mounted_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->table = ((struct mounted_vtab *)vtab)->table;
    *out = &c->base;
    return SQLITE_OK;
}

static int mounted_close(sqlite3_vtab_cursor *cursor)
{
    mem_free(cursor);
    return SQLITE_OK;
}

static void skip_empty(struct mounted_cursor *c)
{
    while (c->batch < c->rows->n && c->event == c->rows->batches[c->batch]->n) {
        c->batch++;
        c->event = 0;
    }
}

static int mounted_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                          sqlite3_value **argv)
{
    struct mounted_cursor *c = (struct mounted_cursor *)cursor;
    (void)number;
    (void)plan;
    (void)argc;
    (void)argv;
    c->rows = find_rows(c->table);
    c->batch = c->event = 0;
    if (!c->rows)
        return sql_fail_text(c->table->context, E_PROTO, "no such table: %s", c->table->name);
    skip_empty(c);
    return SQLITE_OK;
}

static int mounted_next(sqlite3_vtab_cursor *cursor)
{
    struct mounted_cursor *c = (struct mounted_cursor *)cursor;
    c->event++;
    skip_empty(c);
    sql_seen(c->table->context, 1);
    return SQLITE_OK;
}

static int mounted_eof(sqlite3_vtab_cursor *cursor)
{
    const struct mounted_cursor *c = (const struct mounted_cursor *)cursor;
    return c->batch == c->rows->n;
}

static int mounted_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    const struct mounted_cursor *c = (const struct mounted_cursor *)cursor;
    *out = (sqlite3_int64)((uint64_t)c->batch << 32 | c->event);
    return SQLITE_OK;
}

static void result_text(sqlite3_context *to, struct slice s)
{
    if (s.n)
        sqlite3_result_text(to, s.p, (int)s.n, SQLITE_TRANSIENT);
}

static void result_head(sqlite3_context *to, const struct event *e, int column)
{
    if (column == SQL_TIME)
        sqlite3_result_int64(to, e->time_ns);
    else
        result_text(to, column == SQL_HOST ? e->host : column == SQL_PROG ? e->prog : level_lower(e->level));
}

static int mounted_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct mounted_cursor *c = (const struct mounted_cursor *)cursor;
    const struct event *e = &c->rows->batches[c->batch]->events[c->event];
    int heads = c->table->shape->has_heads ? SQL_HEADS : 0;
    if (column < heads) {
        result_head(to, e, column);
        return SQLITE_OK;
    }
    const struct sql_field *f = &c->table->shape->fields[column - heads];
    int i = e->schema == c->rows->schema ? f->id : schema_find(e->schema, f->field, f->type);
    if (i >= 0)
        sql_result(to, e->values[i]);
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = mounted_connect,
    .xBestIndex = mounted_best_index,
    .xDisconnect = mounted_disconnect,
    .xDestroy = mounted_disconnect,
    .xOpen = mounted_open,
    .xClose = mounted_close,
    .xFilter = mounted_filter,
    .xNext = mounted_next,
    .xEof = mounted_eof,
    .xColumn = mounted_column,
    .xRowid = mounted_rowid,
};

static void destroy_table(void *aux)
{
    struct mounted_table *t = aux;
    sql_shape_destroy(t->shape);
    free(t->name);
    mem_free(t);
}

int sql_mounted_make(struct sql_context *c, const struct table_rows *rows)
{
    struct mounted_table *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    struct table_def def = {
        .name = rows->schema->name, .columns = rows->schema->fields, .n_columns = rows->schema->n_fields};
    t->context = c;
    t->name = strdup(rows->name);
    t->shape = sql_shape_create(&def, rows->has_heads);
    if (!t->name || !t->shape) {
        destroy_table(t);
        return -ENOMEM;
    }
    return sql_error(c, sqlite3_create_module_v2(c->db, rows->name, &module, t, destroy_table));
}
