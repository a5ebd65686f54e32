/* SPDX-License-Identifier: Apache-2.0 */
/* sql_forecast.c - NAME_forecast(field, horizon [, history [, rate [, method]]]): what a field of each stream
 * will be when the horizon is over (forecast.h), a row for each stream.
 *
 * A table of each event name, as NAME_bucket, because so the keys are columns: a rule takes host and mount
 * from it as it does from the event's own table. A key that is called like one of our columns gets a $, as a
 * field does that is called like a column that is always there. Streams are predicted as rows are asked for.
 */
#include "archive/sql_forecast.h"
#include "archive/sql_filter.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { COLUMN_TIME, COLUMN_HOST, COLUMN_PROG, HEADS };
enum { OF_VALUE, OF_ERROR, OF_RMSE, OF_PREDICTOR, OF_POINTS, OF_TESTS, OF_LAST, OF_LAST_TIME, RESULTS };
enum { ARG_FIELD, ARG_HORIZON, ARG_HISTORY, ARG_RATE, ARG_METHOD, FORECAST_ARGS };
static const char *const results[RESULTS] = {"value",  "error", "rmse", "predictor",
                                             "points", "tests", "last", "last_time"};
static const char *const result_types[RESULTS] = {"REAL",    "REAL",    "REAL", "TEXT",
                                                  "INTEGER", "INTEGER", "REAL", "INTEGER"};
static const char *const arguments[FORECAST_ARGS] = {"field", "horizon", "history", "rate", "method"};
#define HORIZON_MAX (INT64_C(3660) * 86400 * NS_PER_S) /* ten years, for both */

struct forecast_key {
    const struct sql_field *field;
    const char *name; /* of the column */
};

struct forecast_table {
    struct sql_context *context;
    struct sql_shape *shape;
    struct forecast_key *keys;
    uint32_t n_keys;
    struct arena arena; /* keys and their names */
};

struct forecast_vtab {
    sqlite3_vtab base;
    const struct forecast_table *table;
};

struct forecast_cursor {
    sqlite3_vtab_cursor base;
    const struct forecast_table *table;
    struct bucket_args args;
    struct forecast_spec spec;
    int64_t history_ns;
    const struct sql_field *field;
    bool is_rate;
    struct history history;
    struct forecast forecast;
    struct slice key;
    struct stream_key_parts parts; /* of it */
    bool is_end;
};

/* ---------------------------------------------------------------- the table */

static int n_columns(const struct forecast_table *t)
{
    return HEADS + (int)t->n_keys + RESULTS;
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < RESULTS; i++)
        if (sqlite3_stricmp(name, results[i]) == 0)
            return true;
    for (size_t i = 0; i < FORECAST_ARGS; i++)
        if (sqlite3_stricmp(name, arguments[i]) == 0)
            return true;
    return false;
}

static void declare(const struct forecast_table *t, struct strbuf *out)
{
    strbuf_add_str(out, "CREATE TABLE x(time INTEGER, host TEXT, prog TEXT");
    for (uint32_t i = 0; i < t->n_keys; i++) {
        strbuf_add_str(out, ", ");
        sql_add_quoted(out, t->keys[i].name);
        strbuf_printf(out, " %s", sql_type_name(t->keys[i].field->type));
    }
    for (size_t i = 0; i < RESULTS; i++)
        strbuf_printf(out, ", %s %s", results[i], result_types[i]);
    for (size_t i = 0; i < FORECAST_ARGS; i++)
        strbuf_printf(out, ", %s HIDDEN", arguments[i]);
    strbuf_add_str(out, ")");
}

static int forecast_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                            char **error)
{
    const struct forecast_table *t = aux;
    struct strbuf text = {0};
    (void)db, (void)argc, (void)argv, (void)error;
    declare(t, &text);
    int r = sql_declare(t->context, &text);
    strbuf_fini(&text);
    struct forecast_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->table = t;
    *out = &v->base;
    return SQLITE_OK;
}

static int forecast_disconnect(sqlite3_vtab *v)
{
    mem_free(v);
    return SQLITE_OK;
}

/* The key field of the column, or NULL. */
static const struct sql_field *key_of(const struct forecast_table *t, int column)
{
    return column >= HEADS && column < HEADS + (int)t->n_keys ? t->keys[column - HEADS].field : NULL;
}

static enum bucket_class usable_as(const void *table, int column)
{
    const struct sql_field *key = key_of(table, column);
    uint8_t type = key ? key->type : column == COLUMN_HOST || column == COLUMN_PROG ? VALUE_TEXT : VALUE_NONE;
    return type == VALUE_TEXT                        ? BUCKET_TEXT
           : type == VALUE_INT || type == VALUE_UINT ? BUCKET_INTEGER
                                                     : BUCKET_NOTHING;
}

static int forecast_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
    const struct forecast_table *t = ((struct forecast_vtab *)v)->table;
    return bucket_args_plan(t->context, info, n_columns(t), usable_as, t);
}

/* ---------------------------------------------------------------- arguments */

static int refuse(const struct forecast_cursor *c, int r, const char *what)
{
    const struct slice event = c->table->shape->event;
    return sql_fail_text(c->table->context, r, "%.*s_forecast: %s", (int)(event.n < 60 ? event.n : 60),
                         event.p, what);
}

static int set_field(struct forecast_cursor *c, struct slice name)
{
    const struct sql_shape *s = c->table->shape;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        const struct sql_field *f = &s->fields[i];
        if (!slice_eq_nocase(name, slice_str(f->name)))
            continue;
        if (f->role == ROLE_KEY || f->is_companion || value_is_text(f->type))
            break;
        c->field = f;
        return SQLITE_OK;
    }
    return refuse(c, E_PROTO, "the first argument is a field with numbers, as in ('free', '2h')");
}

static int set_duration(struct forecast_cursor *c, sqlite3_value *v, int64_t *out)
{
    struct diag why = {0};
    int r = sql_duration_of(v, out, &why);
    if (r < 0)
        return refuse(c, r, why.message);
    return *out > 0 && *out <= HORIZON_MAX
               ? SQLITE_OK
               : refuse(c, E_PROTO, "horizon and history are above 0, and at most ten years");
}

static int set_method(struct forecast_cursor *c, struct slice method)
{
    c->spec.method = arena_copy(&c->args.arena, method);
    if (!c->spec.method.p)
        return sql_fail(c->table->context, -ENOMEM);
    return forecast_knows(c->spec.method)
               ? SQLITE_OK
               : refuse(c, E_PROTO,
                        "method is one of last, mean, median, smooth, trend, holt, or a predictor as the "
                        "column predictor has it");
}

static int set_argument(struct forecast_cursor *c, int argument, sqlite3_value *v)
{
    const char *text = (const char *)sqlite3_value_text(v);
    struct slice s = slice_of(text ? text : "", text ? (size_t)sqlite3_value_bytes(v) : 0);
    switch (argument) {
    case ARG_FIELD:
        return set_field(c, s);
    case ARG_HORIZON:
        return set_duration(c, v, &c->spec.horizon_ns);
    case ARG_HISTORY:
        return set_duration(c, v, &c->history_ns);
    case ARG_RATE:
        c->is_rate = sqlite3_value_int64(v) != 0;
        return SQLITE_OK;
    default:
        return set_method(c, s);
    }
}

/* So many horizons that the errors mean something, and so short that steps of it are short beside one. */
static int64_t default_history(int64_t horizon_ns)
{
    const int64_t day = 86400 * NS_PER_S;
    int64_t many = horizon_ns < HORIZON_MAX / 100 ? 100 * horizon_ns : HORIZON_MAX;
    int64_t few = horizon_ns < HORIZON_MAX / 12 ? 12 * horizon_ns : HORIZON_MAX;
    few = few > day ? few : day;
    return many < few ? many : few;
}

/* What bucket_args_plan has written: " COLUMN=" for each. NULL: as if it was not given. */
static int set_arguments(struct forecast_cursor *c, const char *plan, int argc, sqlite3_value **argv)
{
    const char *at = strchr(plan, ' ');
    c->field = NULL;
    c->history_ns = 0;
    c->is_rate = false;
    c->spec = (struct forecast_spec){.now_ns = c->table->context->now_ns};
    for (int i = 0; at && i < argc; i++, at = strchr(at + 1, ' ')) {
        int argument = (int)strtol(at, NULL, 10) - n_columns(c->table);
        if (argument < 0 || sqlite3_value_type(argv[i]) == SQLITE_NULL)
            continue;
        int r = set_argument(c, argument, argv[i]);
        if (r != SQLITE_OK)
            return r;
    }
    if (!c->field || !c->spec.horizon_ns)
        return refuse(c, E_PROTO, "a field and a horizon are needed, as in ('free', '2h')");
    if (!c->history_ns)
        c->history_ns = default_history(c->spec.horizon_ns);
    c->spec.half_life_ns = c->history_ns / 4;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- rows */

static int forecast_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    const struct forecast_table *t = ((struct forecast_vtab *)v)->table;
    struct forecast_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->table = t;
    c->args.context = t->context;
    *out = &c->base;
    return SQLITE_OK;
}

static int forecast_close(sqlite3_vtab_cursor *cursor)
{
    struct forecast_cursor *c = (struct forecast_cursor *)cursor;
    history_fini(&c->history);
    bucket_args_fini(&c->args);
    mem_free(c);
    return SQLITE_OK;
}

/* A stream whose field may not be seen has no forecast. */
static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct forecast_cursor *c = arg;
    const struct forecast_table *t = c->table;
    (void)key;
    if (!sql_may_stream(t->context, t->shape->event, parts->host) ||
        !sql_may_field(t->context, t->shape->event, parts->host, c->field->field) ||
        !bucket_args_pass_text(&c->args, COLUMN_HOST, parts->host) ||
        !bucket_args_pass_text(&c->args, COLUMN_PROG, parts->prog))
        return false;
    for (size_t i = 0; i < c->args.n_tests; i++) {
        const struct sql_field *f = key_of(t, c->args.tests[i].column);
        if (f && !bucket_args_pass(&c->args, c->args.tests[i].column, sql_key_value(parts->fields, f, (char[VALUE_SPELLING_MAX]){0})))
            return false;
    }
    return true;
}

static int forecast_step(sqlite3_vtab_cursor *cursor)
{
    struct forecast_cursor *c = (struct forecast_cursor *)cursor;
    int r = history_next(&c->history, &c->key, &c->is_end);
    if (r != SQLITE_OK || c->is_end)
        return r;
    r = forecast_make(c->history.points, c->history.n, &c->spec, &c->forecast);
    if (r < 0)
        return sql_fail(c->table->context, r);
    c->parts = stream_key_split(c->key);
    return SQLITE_OK;
}

static int forecast_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                           sqlite3_value **argv)
{
    struct forecast_cursor *c = (struct forecast_cursor *)cursor;
    struct sql_context *x = c->table->context;
    (void)number;
    history_fini(&c->history);
    c->is_end = true;
    int r = bucket_args_set_tests(&c->args, plan, n_columns(c->table), argc, argv);
    if (r == SQLITE_OK)
        r = set_arguments(c, plan, argc, argv);
    if (r != SQLITE_OK)
        return r;
    const struct table_def *def = view_table(x->view, c->table->shape->event);
    if (!def)
        return SQLITE_OK;
    c->args.to_ns = x->now_ns + 1;
    c->args.from_ns = c->args.to_ns - c->history_ns;
    c->history = (struct history){.args = &c->args,
                                  .table = def,
                                  .column = c->field->id,
                                  .is_rate = c->is_rate,
                                  .wants = wants,
                                  .arg = c};
    r = history_begin(&c->history);
    return r != SQLITE_OK ? r : forecast_step(cursor);
}

static int forecast_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct forecast_cursor *)cursor)->is_end;
}

static int forecast_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)hash_bytes(((const struct forecast_cursor *)cursor)->key);
    return SQLITE_OK;
}

static void result_text(sqlite3_context *to, struct slice text)
{
    if (text.n)
        sqlite3_result_text(to, text.p, (int)text.n, SQLITE_TRANSIENT);
}

/* NaN is NULL. */
static void result_of(const struct forecast *f, sqlite3_context *to, int result)
{
    switch (result) {
    case OF_VALUE:
        sqlite3_result_double(to, f->value);
        break;
    case OF_ERROR:
        sqlite3_result_double(to, f->error);
        break;
    case OF_RMSE:
        sqlite3_result_double(to, f->rmse);
        break;
    case OF_PREDICTOR:
        result_text(to, slice_str(f->predictor));
        break;
    case OF_POINTS:
        sqlite3_result_int64(to, (sqlite3_int64)f->points);
        break;
    case OF_TESTS:
        sqlite3_result_int64(to, (sqlite3_int64)f->tests);
        break;
    case OF_LAST:
        sqlite3_result_double(to, f->last);
        break;
    default:
        sqlite3_result_int64(to, f->last_ns);
        break;
    }
}

static void result_argument(const struct forecast_cursor *c, sqlite3_context *to, int argument)
{
    if (argument == ARG_FIELD)
        result_text(to, slice_str(c->field->name));
    else if (argument == ARG_METHOD)
        result_text(to, c->spec.method);
    else if (argument == ARG_RATE)
        sqlite3_result_int(to, c->is_rate);
    else
        sqlite3_result_int64(to, argument == ARG_HORIZON ? c->spec.horizon_ns : c->history_ns);
}

static int forecast_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct forecast_cursor *c = (const struct forecast_cursor *)cursor;
    const struct forecast_table *t = c->table;
    const struct sql_field *key = key_of(t, column);
    if (column == COLUMN_TIME)
        sqlite3_result_int64(to, c->forecast.at_ns);
    else if (column == COLUMN_HOST || column == COLUMN_PROG)
        result_text(to, column == COLUMN_HOST ? c->parts.host : c->parts.prog);
    else if (column >= n_columns(t))
        result_argument(c, to, column - n_columns(t));
    else if (!key)
        result_of(&c->forecast, to, column - HEADS - (int)t->n_keys);
    else if (sql_may_field(t->context, t->shape->event, c->parts.host, key->field))
        sql_result(to, sql_key_value(c->parts.fields, key, (char[VALUE_SPELLING_MAX]){0}));
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = forecast_connect,
    .xBestIndex = forecast_best_index,
    .xDisconnect = forecast_disconnect,
    .xDestroy = forecast_disconnect,
    .xOpen = forecast_open,
    .xClose = forecast_close,
    .xFilter = forecast_filter,
    .xNext = forecast_step,
    .xEof = forecast_eof,
    .xColumn = forecast_column,
    .xRowid = forecast_rowid,
};

static void destroy_table(void *aux)
{
    struct forecast_table *t = aux;
    sql_shape_destroy(t->shape);
    arena_fini(&t->arena);
    mem_free(t);
}

/* name, or "$name" where one of our own columns has it; NULL: no memory. */
static const char *column_name(struct arena *arena, const char *name)
{
    size_t n = strlen(name) + 1, by = is_ours(name);
    char *copy = arena_alloc(arena, n + by);
    if (!copy)
        return NULL;
    copy[0] = '$';
    memcpy(copy + by, name, n);
    return copy;
}

static int list_keys(struct forecast_table *t)
{
    const struct sql_shape *s = t->shape;
    t->keys = arena_alloc(&t->arena, (s->n_fields + 1) * sizeof *t->keys);
    if (!t->keys)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        if (s->fields[i].role != ROLE_KEY || s->fields[i].is_companion)
            continue;
        struct forecast_key *k = &t->keys[t->n_keys++];
        *k = (struct forecast_key){&s->fields[i], column_name(&t->arena, s->fields[i].name)};
        if (!k->name)
            return -ENOMEM;
    }
    return 0;
}

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    struct forecast_table *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->context = c;
    t->shape = sql_shape_create(of, true);
    if (!t->shape || list_keys(t) < 0) {
        destroy_table(t);
        return -ENOMEM;
    }
    return sql_error(
        c, sqlite3_create_module_v2(c->db, name, &module, t, destroy_table)); /* destroys it on failure */
}

const struct sql_kind sql_kind_forecast = {.suffix = "_forecast", .has_past = true, .make = make};
