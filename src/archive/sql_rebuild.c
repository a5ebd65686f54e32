/* SPDX-License-Identifier: Apache-2.0 */
/* sql_rebuild.c - rebuild(name, from, to, step, bucket): the samples of an event name, and estimates of those
 * that were lost (rebuild.h); a row for each stream, time and field; or their means by buckets. */
#include "archive/sql_bucket.h"
#include "archive/rebuild.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum {
    REBUILD_TIME,
    REBUILD_HOST,
    REBUILD_PROG,
    REBUILD_KEYS,
    REBUILD_FIELD,
    REBUILD_VALUE,
    REBUILD_ERROR,
    REBUILD_IS,
    REBUILD_COLUMNS,
    REBUILD_NAME = REBUILD_COLUMNS /* arguments */,
    REBUILD_FROM,
    REBUILD_TO,
    REBUILD_STEP,
    REBUILD_BUCKET
};

/* A field of a bucket. */
struct fold {
    double measured, estimated, error; /* sums */
    uint32_t n_measured, n_estimated;
};

struct rebuild_vtab {
    sqlite3_vtab base;
    struct sql_context *context;
};

struct rebuild_cursor {
    sqlite3_vtab_cursor base;
    struct bucket_args args; /* host and prog; the arguments are our own */
    struct slice name;
    struct rebuild *rebuild;
    size_t charged;
    struct rebuild_row row;
    uint32_t at; /* of its columns */
    struct stream_key_parts parts;
    bool is_end;
    /* By buckets: */
    int64_t bucket_ns;          /* 0: samples as they are */
    struct rebuild_row pending; /* of the next bucket, if has_pending */
    bool has_pending;
    struct strbuf key; /* of this one's stream */
    struct fold *folds;
    struct value *values; /* what the row has */
    double *errors;
    uint32_t n_folds;
};

static int rebuild_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                           char **error)
{
    struct strbuf text = {0};
    (void)db, (void)argc, (void)argv, (void)error;
    strbuf_add_str(
        &text,
        "CREATE TABLE x(time INTEGER, host TEXT, prog TEXT, keys TEXT, field TEXT, value, error REAL, "
        "is_rebuilt INTEGER, name TEXT HIDDEN, \"from\" HIDDEN, \"to\" HIDDEN, step HIDDEN, bucket HIDDEN)");
    int r = sql_declare(aux, &text);
    strbuf_fini(&text);
    struct rebuild_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->context = aux;
    *out = &v->base;
    return SQLITE_OK;
}

static int rebuild_disconnect(sqlite3_vtab *v)
{
    mem_free(v);
    return SQLITE_OK;
}

static enum bucket_class usable_as(const void *table, int column)
{
    (void)table;
    return column == REBUILD_HOST || column == REBUILD_PROG || column == REBUILD_FIELD ? BUCKET_TEXT
                                                                                       : BUCKET_NOTHING;
}

static int rebuild_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
    return bucket_args_plan(((struct rebuild_vtab *)v)->context, info, REBUILD_COLUMNS, usable_as, NULL);
}

static int rebuild_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    struct rebuild_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->args.context = ((struct rebuild_vtab *)v)->context;
    *out = &c->base;
    return SQLITE_OK;
}

static void end_rebuild(struct rebuild_cursor *c)
{
    rebuild_destroy(c->rebuild);
    c->rebuild = NULL;
    c->has_pending = false;
    c->bucket_ns = 0;
    if (c->charged)
        sql_memory_give(&c->args.context->memory, c->charged);
    c->charged = 0;
}

static int rebuild_close(sqlite3_vtab_cursor *cursor)
{
    struct rebuild_cursor *c = (struct rebuild_cursor *)cursor;
    end_rebuild(c);
    bucket_args_fini(&c->args);
    strbuf_fini(&c->key);
    mem_free(c->folds);
    mem_free(c->values);
    mem_free(c->errors);
    mem_free(c);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- the rows */

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct rebuild_cursor *c = arg;
    (void)key;
    return sql_may_stream(c->args.context, parts->name, parts->host) &&
           bucket_args_pass_text(&c->args, REBUILD_HOST, parts->host) &&
           bucket_args_pass_text(&c->args, REBUILD_PROG, parts->prog);
}

static int go_on(void *arg, uint64_t rows)
{
    const struct rebuild_cursor *c = arg;
    sql_seen(c->args.context, rows);
    return sql_check(c->args.context);
}

static bool is_shown(const struct rebuild_cursor *c, uint32_t column)
{
    const struct field *f = &c->row.table->columns[column];
    return f->role != ROLE_KEY && c->row.values[column].type != VALUE_NONE &&
           bucket_args_pass_text(&c->args, REBUILD_FIELD, f->name) &&
           sql_may_field(c->args.context, c->row.table->name, c->parts.host, f->name);
}

/* ---------------------------------------------------------------- by buckets */

static int make_folds(struct rebuild_cursor *c, uint32_t n)
{
    if (n <= c->n_folds)
        return 0;
    struct fold *folds = mem_try_resize(c->folds, n * sizeof *folds);
    c->folds = folds ? folds : c->folds;
    struct value *values = mem_try_resize(c->values, n * sizeof *values);
    c->values = values ? values : c->values;
    double *errors = mem_try_resize(c->errors, n * sizeof *errors);
    c->errors = errors ? errors : c->errors;
    if (!folds || !values || !errors)
        return -ENOMEM;
    c->n_folds = n;
    return 0;
}

static void fold_row(struct rebuild_cursor *c, const struct rebuild_row *row)
{
    for (uint32_t i = 0; i < row->table->n_columns; i++) {
        struct value v = row->values[i];
        struct fold *f = &c->folds[i];
        if (v.type != VALUE_INT && v.type != VALUE_UINT && v.type != VALUE_FLOAT)
            continue;
        double number = v.type == VALUE_INT ? (double)v.i : v.type == VALUE_UINT ? (double)v.u : v.f;
        if (row->is_rebuilt) {
            f->estimated += number;
            f->error += row->errors[i];
            f->n_estimated++;
        } else {
            f->measured += number;
            f->n_measured++;
        }
    }
}

static int64_t bucket_of(const struct rebuild_cursor *c, int64_t time_ns)
{
    int64_t over = time_ns % c->bucket_ns;
    return time_ns - (over < 0 ? over + c->bucket_ns : over);
}

/* The means of what was measured in the bucket; of estimates where nothing was. The errors of estimates of
 * one gap are those of one line, so that of their mean is the mean of theirs. */
static void end_bucket(struct rebuild_cursor *c)
{
    for (uint32_t i = 0; i < c->row.table->n_columns; i++) {
        const struct fold *f = &c->folds[i];
        c->values[i] = f->n_measured    ? value_float(f->measured / f->n_measured)
                       : f->n_estimated ? value_float(f->estimated / f->n_estimated)
                                        : value_none();
        c->errors[i] = f->n_measured || !f->n_estimated ? NAN : f->error / f->n_estimated;
    }
    c->row.values = c->values;
    c->row.errors = c->errors;
}

/* 1: c->row is the next bucket; 0: there is none; or an error. */
static int next_bucket(struct rebuild_cursor *c)
{
    bool has_row = c->has_pending || rebuild_next(c->rebuild, &c->pending);
    c->has_pending = false;
    if (!has_row)
        return 0;
    int r = make_folds(c, c->pending.table->n_columns);
    strbuf_reset(&c->key);
    strbuf_add_slice(&c->key, c->pending.key);
    if (r < 0 || strbuf_failed(&c->key))
        return -ENOMEM;
    c->row = (struct rebuild_row){
        .key = strbuf_slice(&c->key), .time_ns = bucket_of(c, c->pending.time_ns), .table = c->pending.table};
    memset(c->folds, 0, c->row.table->n_columns * sizeof *c->folds);
    do {
        fold_row(c, &c->pending);
        c->has_pending = rebuild_next(c->rebuild, &c->pending);
    } while (c->has_pending && slice_eq(c->pending.key, c->row.key) &&
             bucket_of(c, c->pending.time_ns) == c->row.time_ns);
    end_bucket(c);
    return 1;
}

static bool is_estimate(const struct rebuild_cursor *c)
{
    return c->bucket_ns ? c->folds[c->at].n_measured == 0 : c->row.is_rebuilt;
}

static int rebuild_step(sqlite3_vtab_cursor *cursor)
{
    struct rebuild_cursor *c = (struct rebuild_cursor *)cursor;
    for (;;) {
        while (c->row.table && ++c->at < c->row.table->n_columns)
            if (is_shown(c, c->at))
                return SQLITE_OK;
        int r = !c->rebuild ? 0 : c->bucket_ns ? next_bucket(c) : rebuild_next(c->rebuild, &c->row);
        c->is_end = r <= 0;
        if (c->is_end)
            return r < 0 ? sql_fail(c->args.context, r) : SQLITE_OK;
        c->at = UINT32_MAX;
        c->parts = stream_key_split(c->row.key);
    }
}

static int run(struct rebuild_cursor *c, const struct rebuild_spec *spec)
{
    struct sql_context *x = c->args.context;
    struct diag why = {0};
    struct sql_account *before = sql_memory_enter(NULL); /* what views keep is not the query's */
    int r = rebuild_run(x->view, spec, &c->rebuild, &why);
    (void)sql_memory_enter(before);
    if (r < 0)
        return why.message[0] ? sql_fail_text(x, r, "%s", why.message) : sql_fail(x, r);
    struct scan_loss lost = rebuild_damaged(c->rebuild);
    x->loss.rows += lost.rows;
    x->loss.chunks += lost.chunks;
    x->loss.blobs += lost.blobs;
    size_t bytes = rebuild_bytes(c->rebuild);
    if (!sql_memory_take(&x->memory, bytes))
        return sql_fail(x, E_LIMIT);
    c->charged = bytes;
    return SQLITE_OK;
}

/* The arguments, as bucket_args has put them: name is where it has from, and so on. */
static int set_args(struct rebuild_cursor *c, const char *plan, int argc, sqlite3_value **argv,
                    struct rebuild_spec *spec)
{
    struct sql_context *x = c->args.context;
    struct diag why = {0};
    const char *at = strchr(plan, ' ');
    for (int i = 0; at && i < argc; i++, at = strchr(at + 1, ' ')) {
        int column = (int)strtol(at, NULL, 10), r = 0;
        if (column < REBUILD_COLUMNS || sqlite3_value_type(argv[i]) == SQLITE_NULL)
            continue;
        if (column == REBUILD_NAME)
            c->name = arena_copy(&c->args.arena, slice_of((const char *)sqlite3_value_text(argv[i]),
                                                          (size_t)sqlite3_value_bytes(argv[i])));
        else if (column == REBUILD_STEP || column == REBUILD_BUCKET)
            r = sql_duration_of(argv[i], column == REBUILD_STEP ? &spec->step_ns : &c->bucket_ns, &why);
        else
            r = sql_time_of(x, argv[i], column == REBUILD_FROM ? &spec->from_ns : &spec->to_ns, &why);
        if (r < 0 || spec->step_ns < 0 || c->bucket_ns < 0)
            return sql_fail_text(x, r < 0 ? r : E_PROTO, "rebuild: %s",
                                 r < 0 ? why.message : "a step or bucket is not negative");
    }
    return SQLITE_OK;
}

static int rebuild_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                          sqlite3_value **argv)
{
    struct rebuild_cursor *c = (struct rebuild_cursor *)cursor;
    struct sql_context *x = c->args.context;
    struct rebuild_spec spec = {
        .from_ns = INT64_MIN, .to_ns = INT64_MAX, .wants = wants, .go_on = go_on, .arg = c};
    (void)number;
    end_rebuild(c);
    c->row.table = NULL;
    c->name = (struct slice){NULL, 0};
    int r = bucket_args_set_tests(&c->args, plan, REBUILD_COLUMNS, argc, argv);
    if (r == SQLITE_OK)
        r = set_args(c, plan, argc, argv, &spec);
    if (r != SQLITE_OK)
        return r;
    const struct table_def *table = c->name.n ? sql_find_table(x, c->name) : NULL;
    if (!table)
        return sql_fail_text(x, E_PROTO,
                             "rebuild: the first argument is an event name, as in rebuild('cpu', 'now-1h')");
    spec.name = table->name;
    sql_asks(x, spec.name, spec.from_ns, spec.to_ns, MISSING_ROWS);
    int64_t left = x->memory.limit - x->memory.used;
    spec.bytes_max = left < BUCKET_BYTES_MAX ? (left > 1 ? (size_t)left : 1) : BUCKET_BYTES_MAX;
    r = run(c, &spec);
    return r != SQLITE_OK ? r : rebuild_step(cursor);
}

/* ---------------------------------------------------------------- values */

static int rebuild_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct rebuild_cursor *)cursor)->is_end;
}

static int rebuild_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    const struct rebuild_cursor *c = (const struct rebuild_cursor *)cursor;
    *out = (sqlite3_int64)(hash_seeded(c->row.key, (uint64_t)c->row.time_ns) + c->at);
    return SQLITE_OK;
}

static void result_text(sqlite3_context *to, struct slice text)
{
    if (text.n)
        sqlite3_result_text(to, text.p, (int)text.n, SQLITE_TRANSIENT);
}

static int rebuild_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct rebuild_cursor *c = (const struct rebuild_cursor *)cursor;
    switch (column) {
    case REBUILD_TIME:
        sqlite3_result_int64(to, c->row.time_ns);
        break;
    case REBUILD_HOST:
        result_text(to, c->parts.host);
        break;
    case REBUILD_PROG:
        result_text(to, c->parts.prog);
        break;
    case REBUILD_KEYS:
        return bucket_keys_result(c->args.context, to, &c->parts);
    case REBUILD_FIELD:
        result_text(to, c->row.table->columns[c->at].name);
        break;
    case REBUILD_VALUE:
        sql_result(to, c->row.values[c->at]);
        break;
    case REBUILD_ERROR:
        if (c->row.errors)
            sqlite3_result_double(to, c->row.errors[c->at]); /* NaN is NULL */
        break;
    case REBUILD_IS:
        sqlite3_result_int(to, is_estimate(c));
        break;
    case REBUILD_NAME:
        result_text(to, c->name);
        break;
    default:
        break;
    }
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = rebuild_connect,
    .xBestIndex = rebuild_best_index,
    .xDisconnect = rebuild_disconnect,
    .xDestroy = rebuild_disconnect,
    .xOpen = rebuild_open,
    .xClose = rebuild_close,
    .xFilter = rebuild_filter,
    .xNext = rebuild_step,
    .xEof = rebuild_eof,
    .xColumn = rebuild_column,
    .xRowid = rebuild_rowid,
};

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* it is of the one that its argument names */
    return sql_error(c, sqlite3_create_module_v2(c->db, name, &module, c, NULL));
}

const struct sql_kind sql_kind_rebuild = {
    .suffix = "rebuild", .is_whole = true, .is_of_all = true, .make = make};
