/* SPDX-License-Identifier: Apache-2.0 */
/* sql_bucket.c - NAME_bucket(from, to, step [, where [, tier]]): an event name folded by stream and step
 * (bucket.h).
 *
 * Columns: time (when the step begins), host, prog, the keys, rows, tier; then of each field FIELD_count,
 * _min, _max, _sum, _avg, _first, _last, and of text FIELD_count and FIELD_last. Fields are called as in the
 * event's table (sql_shape.c). Only fields of which a column is used are folded. SQLite tells that for the
 * first 63 columns; of those behind, by whether the text has their name. */
#include "archive/sql_bucket.h"
#include "archive/sql_filter.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

enum { BUCKET_TIME, BUCKET_HOST, BUCKET_PROG, BUCKET_HEADS };
enum { BUCKET_ROWS, BUCKET_TIER, BUCKET_COUNTS }; /* behind the keys */
enum { COLUMNS_MAX = 1990 };                      /* SQLite allows 2,000 */

/* A column behind the heads. */
struct bucket_sql_column {
    enum { OF_KEY, OF_COUNTS, OF_FIELD } is;
    uint32_t field; /* of the shape; of OF_COUNTS which of them */
    enum bucket_figure figure;
    const char *name;
};

struct bucket_sql_table {
    struct sql_context *context;
    struct sql_shape *shape;
    struct bucket_sql_column *columns;
    uint32_t n; /* without heads and arguments */
    struct arena arena;
};

struct bucket_vtab {
    sqlite3_vtab base;
    const struct bucket_sql_table *table;
};

struct bucket_cursor {
    sqlite3_vtab_cursor base;
    const struct bucket_sql_table *table;
    struct bucket_args args;
    struct bucket_column *wanted; /* fields that are folded */
    uint32_t *place_of;           /* of a field of the shape among them; UINT32_MAX: it is not folded */
    struct bucket_table asked;
    struct bucket *bucket;
    size_t charged;
    struct bucket_row row;
    struct stream_key_parts parts; /* of its key */
    bool is_end;
};

/* ---------------------------------------------------------------- the table */

static int n_columns(const struct bucket_sql_table *t)
{
    return BUCKET_HEADS + (int)t->n;
}

static bool add_column(struct bucket_sql_table *t, struct bucket_sql_column c, const char *name,
                       const char *figure)
{
    struct strbuf full = {0};
    strbuf_printf(&full, "%s%s%s", name, figure ? "_" : "", figure ? figure : "");
    struct slice copy =
        strbuf_failed(&full) ? (struct slice){NULL, 0} : arena_copy(&t->arena, slice_of(full.p, full.n + 1));
    strbuf_fini(&full);
    c.name = copy.p;
    t->columns[t->n++] = c;
    return copy.p;
}

static bool add_field(struct bucket_sql_table *t, uint32_t field)
{
    const struct sql_field *f = &t->shape->fields[field];
    bool is_fine = true;
    for (int i = 0; i < FIGURES && is_fine && t->n < COLUMNS_MAX; i++)
        if (!value_is_text(f->type) || i == FIGURE_COUNT || i == FIGURE_LAST)
            is_fine = add_column(
                t,
                (struct bucket_sql_column){.is = OF_FIELD, .field = field, .figure = (enum bucket_figure)i},
                f->name, bucket_figure_names[i]);
    return is_fine;
}

static int list_columns(struct bucket_sql_table *t)
{
    const struct sql_shape *s = t->shape;
    bool is_fine = true;
    t->columns = arena_alloc(&t->arena, COLUMNS_MAX * sizeof *t->columns);
    if (!t->columns)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_fields && is_fine && t->n < COLUMNS_MAX / 2; i++)
        if (s->fields[i].role == ROLE_KEY && !s->fields[i].is_companion)
            is_fine =
                add_column(t, (struct bucket_sql_column){.is = OF_KEY, .field = i}, s->fields[i].name, NULL);
    is_fine =
        is_fine &&
        add_column(t, (struct bucket_sql_column){.is = OF_COUNTS, .field = BUCKET_ROWS}, "rows", NULL) &&
        add_column(t, (struct bucket_sql_column){.is = OF_COUNTS, .field = BUCKET_TIER}, "tier", NULL);
    for (uint32_t i = 0; i < s->n_fields && is_fine && t->n < COLUMNS_MAX; i++)
        if (s->fields[i].role != ROLE_KEY && !s->fields[i].is_companion)
            is_fine = add_field(t, i);
    return is_fine ? 0 : -ENOMEM;
}

static const char *type_of(const struct bucket_sql_table *t, const struct bucket_sql_column *c)
{
    if (c->is == OF_COUNTS || c->figure == FIGURE_COUNT)
        return c->is == OF_KEY ? sql_type_name(t->shape->fields[c->field].type) : "INTEGER";
    if (c->figure == FIGURE_SUM || c->figure == FIGURE_AVG)
        return "REAL";
    return sql_type_name(t->shape->fields[c->field].type);
}

/* A key that is called like one of our columns hides behind it, as a field of the same name would: SQLite
 * finds the first. */
static void declare(const struct bucket_sql_table *t, struct strbuf *out)
{
    strbuf_add_str(out, "CREATE TABLE x(time INTEGER, host TEXT, prog TEXT");
    for (uint32_t i = 0; i < t->n; i++) {
        strbuf_add_str(out, ", ");
        sql_add_quoted(out, t->columns[i].name);
        strbuf_printf(out, " %s", type_of(t, &t->columns[i]));
    }
    strbuf_add_str(out, ", " BUCKET_ARG_COLUMNS ")");
}

static int bucket_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                          char **error)
{
    const struct bucket_sql_table *t = aux;
    struct strbuf text = {0};
    (void)db, (void)argc, (void)argv, (void)error;
    declare(t, &text);
    int r = sql_declare(t->context, &text);
    strbuf_fini(&text);
    struct bucket_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->table = t;
    *out = &v->base;
    return SQLITE_OK;
}

static int bucket_disconnect(sqlite3_vtab *v)
{
    mem_free(v);
    return SQLITE_OK;
}

static enum bucket_class usable_as(const void *table, int column)
{
    const struct bucket_sql_table *t = table;
    if (column == BUCKET_HOST || column == BUCKET_PROG)
        return BUCKET_TEXT;
    if (column < BUCKET_HEADS || t->columns[column - BUCKET_HEADS].is != OF_KEY)
        return BUCKET_NOTHING;
    uint8_t type = t->shape->fields[t->columns[column - BUCKET_HEADS].field].type;
    return type == VALUE_TEXT                        ? BUCKET_TEXT
           : type == VALUE_INT || type == VALUE_UINT ? BUCKET_INTEGER
                                                     : BUCKET_NOTHING;
}

static int bucket_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
    const struct bucket_sql_table *t = ((struct bucket_vtab *)v)->table;
    return bucket_args_plan(t->context, info, n_columns(t), usable_as, t);
}

/* ---------------------------------------------------------------- the fold */

static int bucket_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    const struct bucket_sql_table *t = ((struct bucket_vtab *)v)->table;
    struct bucket_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->table = t;
    c->args.context = t->context;
    c->wanted = mem_try_alloc((t->shape->n_fields + 1) * sizeof *c->wanted);
    c->place_of = mem_try_alloc((t->shape->n_fields + 1) * sizeof *c->place_of);
    *out = &c->base;
    if (c->wanted && c->place_of)
        return SQLITE_OK;
    mem_free(c->wanted);
    mem_free(c->place_of);
    mem_free(c);
    return SQLITE_NOMEM;
}

static int bucket_close(sqlite3_vtab_cursor *cursor)
{
    struct bucket_cursor *c = (struct bucket_cursor *)cursor;
    bucket_done(&c->args, c->bucket, &c->charged);
    bucket_args_fini(&c->args);
    mem_free(c->wanted);
    mem_free(c->place_of);
    mem_free(c);
    return SQLITE_OK;
}

static bool is_used(const struct bucket_cursor *c, uint32_t column)
{
    uint32_t place = BUCKET_HEADS + column;
    if (place < 63)
        return c->args.used >> place & 1;
    return (c->args.used >> 63) && sql_text_names(c->table->context, c->table->columns[column].name);
}

/* The fields of which a column is used. */
static void choose_fields(struct bucket_cursor *c)
{
    const struct bucket_sql_table *t = c->table;
    c->asked = (struct bucket_table){.columns = c->wanted};
    for (uint32_t i = 0; i < t->shape->n_fields; i++)
        c->place_of[i] = UINT32_MAX;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct bucket_sql_column *col = &t->columns[i];
        const struct sql_field *f = &t->shape->fields[col->field];
        if (col->is != OF_FIELD || !is_used(c, i))
            continue;
        if (c->place_of[col->field] ==
            UINT32_MAX) { /* columns are in the order of fields, and these of ids */
            c->place_of[col->field] = c->asked.n_columns;
            c->wanted[c->asked.n_columns++] = (struct bucket_column){.id = f->id};
        }
        if (value_is_text(f->type) && col->figure == FIGURE_LAST)
            c->wanted[c->place_of[col->field]].wants_text = true;
    }
}

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct bucket_cursor *c = arg;
    const struct bucket_sql_table *t = c->table;
    (void)key;
    if (!sql_may_stream(t->context, t->shape->event, parts->host) ||
        (c->args.has_where &&
         !sql_may_field(t->context, t->shape->event, parts->host, c->args.where.field)) ||
        !bucket_args_pass_text(&c->args, BUCKET_HOST, parts->host) ||
        !bucket_args_pass_text(&c->args, BUCKET_PROG, parts->prog))
        return false;
    for (size_t i = 0; i < c->args.n_tests; i++) {
        int column = c->args.tests[i].column;
        if (column < BUCKET_HEADS)
            continue;
        const struct sql_field *f = &t->shape->fields[t->columns[column - BUCKET_HEADS].field];
        char buf[VALUE_SPELLING_MAX];
        if (!bucket_args_pass(&c->args, column, sql_key_value(parts->fields, f, buf)))
            return false;
    }
    return true;
}

static int bucket_next_row(sqlite3_vtab_cursor *cursor)
{
    struct bucket_cursor *c = (struct bucket_cursor *)cursor;
    c->is_end = !c->bucket || !bucket_next(c->bucket, &c->row);
    if (!c->is_end)
        c->parts = stream_key_split(c->row.key);
    return SQLITE_OK;
}

static int bucket_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                         sqlite3_value **argv)
{
    struct bucket_cursor *c = (struct bucket_cursor *)cursor;
    struct bucket_spec spec = {.tables = &c->asked, .n_tables = 1, .wants = wants, .arg = c};
    (void)number;
    bucket_done(&c->args, c->bucket, &c->charged);
    c->bucket = NULL;
    int r = bucket_args_set(&c->args, plan, n_columns(c->table), argc, argv);
    if (r != SQLITE_OK)
        return r;
    choose_fields(c);
    c->asked.def = view_table(c->table->context->view, c->table->shape->event);
    if (c->asked.def)
        r = bucket_run(&c->args, &spec, &c->bucket, &c->charged);
    return r != SQLITE_OK ? r : bucket_next_row(cursor);
}

/* ---------------------------------------------------------------- rows */

static int bucket_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct bucket_cursor *)cursor)->is_end;
}

/* The same row of every fold of a statement: SQLite tells by it what two branches of an OR have found. */
static int bucket_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    const struct bucket_cursor *c = (const struct bucket_cursor *)cursor;
    *out = (sqlite3_int64)hash_seeded(c->row.key, (uint64_t)c->row.time_ns);
    return SQLITE_OK;
}

static void result_head(const struct bucket_cursor *c, sqlite3_context *to, int column)
{
    struct slice text = column == BUCKET_HOST ? c->parts.host : c->parts.prog;
    if (column != BUCKET_TIME) {
        if (text.n)
            sqlite3_result_text(to, text.p, (int)text.n, SQLITE_TRANSIENT);
    } else if (c->args.step_ns || c->args.has_from) {
        sqlite3_result_int64(to, c->row.time_ns);
    }
}

static void result_field(const struct bucket_cursor *c, sqlite3_context *to,
                         const struct bucket_sql_column *col)
{
    const struct bucket_sql_table *t = c->table;
    const struct sql_field *f = &t->shape->fields[col->field];
    if (c->place_of[col->field] == UINT32_MAX ||
        !sql_may_field(t->context, t->shape->event, c->parts.host, f->field))
        return;
    bucket_figure_result(to, &c->row.columns[c->place_of[col->field]], col->figure);
}

static int bucket_column_value(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct bucket_cursor *c = (const struct bucket_cursor *)cursor;
    const struct bucket_sql_table *t = c->table;
    if (column >= n_columns(t)) {
        bucket_args_result(&c->args, to, (enum bucket_arg)(column - n_columns(t)));
        return SQLITE_OK;
    }
    if (column < BUCKET_HEADS) {
        result_head(c, to, column);
        return SQLITE_OK;
    }
    const struct bucket_sql_column *col = &t->columns[column - BUCKET_HEADS];
    const struct sql_field *f = &t->shape->fields[col->field];
    if (col->is == OF_FIELD)
        result_field(c, to, col);
    else if (col->is == OF_COUNTS)
        sqlite3_result_int64(to, col->field == BUCKET_ROWS ? (sqlite3_int64)c->row.rows : c->row.tier_ns);
    else if (sql_may_field(t->context, t->shape->event, c->parts.host, f->field))
        sql_result(to, sql_key_value(c->parts.fields, f, (char[VALUE_SPELLING_MAX]){0}));
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = bucket_connect,
    .xBestIndex = bucket_best_index,
    .xDisconnect = bucket_disconnect,
    .xDestroy = bucket_disconnect,
    .xOpen = bucket_open,
    .xClose = bucket_close,
    .xFilter = bucket_filter,
    .xNext = bucket_next_row,
    .xEof = bucket_eof,
    .xColumn = bucket_column_value,
    .xRowid = bucket_rowid,
};

static void destroy_table(void *aux)
{
    struct bucket_sql_table *t = aux;
    sql_shape_destroy(t->shape);
    arena_fini(&t->arena);
    mem_free(t);
}

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    struct bucket_sql_table *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->context = c;
    t->shape = sql_shape_create(of, true);
    if (!t->shape || list_columns(t) < 0) {
        destroy_table(t);
        return -ENOMEM;
    }
    return sql_error(
        c, sqlite3_create_module_v2(c->db, name, &module, t, destroy_table)); /* destroys it on failure */
}

const struct sql_kind sql_kind_bucket = {.suffix = "_bucket", .has_past = true, .make = make};
