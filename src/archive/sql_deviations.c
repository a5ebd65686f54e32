/* SPDX-License-Identifier: Apache-2.0 */
/* sql_deviations.c - deviations(baseline, from, to [, k [, id]]): deviation.h as a table. All rows are found
 * when the first is asked for. */
#include "archive/deviation.h"
#include "archive/sql_arguments.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>

enum { ARGUMENT_BASELINE, ARGUMENT_FROM, ARGUMENT_TO, ARGUMENT_K, ARGUMENT_ID, ARGUMENTS };
#define K_DEFAULT 3.0

static const char declaration[] =
    "CREATE TABLE x(kind TEXT, event TEXT, next TEXT, host TEXT, prog TEXT, keys TEXT, field TEXT, unit "
    "TEXT, "
    "base_count INTEGER, run_count INTEGER, base_mean REAL, run_mean REAL, base_p95 REAL, run_p95 REAL, "
    "base_sigma REAL, ratio REAL, score REAL, "
    "baseline HIDDEN, from_time HIDDEN, to_time HIDDEN, k HIDDEN, id HIDDEN)";
enum { COLUMNS = 17 };
static const char usage[] = "deviations needs a baseline and the run's time: deviations('NAME', 'now-1h', "
                            "'now' [, K [, 'ID FIELD']])";

struct deviations_vtab {
    sqlite3_vtab base;
    struct sql_context *context;
};

struct deviations_cursor {
    sqlite3_vtab_cursor base;
    struct sql_context *context;
    struct deviations *found;
    size_t row;
};

static int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                        char **error)
{
    struct strbuf text = {0};
    (void)db; /* the context's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, declaration);
    int r = sql_declare(aux, &text);
    strbuf_fini(&text);
    struct deviations_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->context = aux;
    *out = &v->base;
    return SQLITE_OK;
}

static int vtab_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    info->estimatedRows = 100;
    info->estimatedCost = 1e9; /* once is enough */
    return sql_arguments_plan(((struct deviations_vtab *)vtab)->context, info, COLUMNS, ARGUMENT_K, ARGUMENTS,
                              usage);
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct deviations_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->context = ((struct deviations_vtab *)vtab)->context;
    *out = &c->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
    deviations_destroy(((struct deviations_cursor *)cursor)->found);
    mem_free(cursor);
    return SQLITE_OK;
}

static bool find_baseline(const struct sql_context *c, struct slice name, struct baseline *out)
{
    for (size_t i = 0; i < view_baselines(c->view); i++) {
        *out = view_baseline_at(c->view, i);
        if (slice_eq(out->name, name))
            return true;
    }
    return false;
}

static int check(void *arg)
{
    return sql_check(arg);
}

/* 0, or what sql_fail has given. */
static int read_arguments(struct sql_context *c, sqlite3_value **args, struct deviation_spec *spec)
{
    struct baseline b;
    struct diag why = {0};
    struct slice name = sql_argument_text(args[ARGUMENT_BASELINE]);
    if (!args[ARGUMENT_FROM] || !args[ARGUMENT_TO])
        return sql_fail_text(c, E_PROTO, "%s", usage);
    if (!find_baseline(c, name, &b))
        return sql_fail_text(c, E_PROTO, "there is no baseline '%.60s'; the table baselines lists them",
                             name.n && name.n < 60 ? name.p : "");
    spec->baseline = (struct deviation_range){b.from_ns, b.to_ns};
    spec->where = b.where;
    int r = sql_time_of(c, args[ARGUMENT_FROM], &spec->run.from_ns, &why);
    if (r == 0)
        r = sql_time_of(c, args[ARGUMENT_TO], &spec->run.to_ns, &why);
    if (r < 0)
        return sql_fail_text(c, r, "%s", why.message);
    spec->k = args[ARGUMENT_K] ? sqlite3_value_double(args[ARGUMENT_K]) : K_DEFAULT;
    spec->id = args[ARGUMENT_ID] ? sql_argument_text(args[ARGUMENT_ID]) : SLICE_LIT("id");
    return SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int plan, const char *text, int argc,
                         sqlite3_value **argv)
{
    struct deviations_cursor *at = (struct deviations_cursor *)cursor;
    struct sql_context *c = at->context;
    struct deviation_spec spec = {.access = c->access, .check = check, .arg = c};
    sqlite3_value *args[ARGUMENTS];
    struct diag why = {0};
    (void)text; /* the plan is a number */
    deviations_destroy(at->found);
    at->found = NULL;
    at->row = 0;
    sql_arguments_take(plan, argc, argv, args, ARGUMENTS);
    int r = read_arguments(c, args, &spec);
    if (r != SQLITE_OK)
        return r;
    struct sql_account *before = sql_memory_enter(NULL); /* the archive's, not the query's */
    r = deviations_find(c->view, &spec, &at->found, &why);
    (void)sql_memory_enter(before); /* as it was */
    if (r < 0)
        return why.message[0] ? sql_fail_text(c, r, "%s", why.message) : sql_fail(c, r);
    struct scan_loss lost = deviations_damaged(at->found);
    c->loss.rows += lost.rows;
    c->loss.chunks += lost.chunks;
    c->loss.blobs += lost.blobs;
    return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
    ((struct deviations_cursor *)cursor)->row++;
    return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
    const struct deviations_cursor *c = (const struct deviations_cursor *)cursor;
    return !c->found || c->row >= deviations_count(c->found);
}

/* Text where it says something, else NULL. */
static void result_text(sqlite3_context *to, struct slice s)
{
    if (s.n)
        sqlite3_result_text(to, s.p, (int)s.n, SQLITE_TRANSIENT);
}

static void result_number(sqlite3_context *to, double v, bool is_known)
{
    if (is_known && isfinite(v))
        sqlite3_result_double(to, v);
}

static void result_names(sqlite3_context *to, const struct deviation *d, int column)
{
    const struct slice names[] = {d->is_hop ? SLICE_LIT("hop") : SLICE_LIT("metric"),
                                  d->event,
                                  d->next,
                                  d->host,
                                  d->prog,
                                  d->keys,
                                  d->field,
                                  d->unit};
    result_text(to, names[column]);
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct deviations_cursor *c = (const struct deviations_cursor *)cursor;
    const struct deviation *d = deviations_at(c->found, c->row);
    const struct deviation_side *b = &d->baseline, *r = &d->run;
    enum { NAMES = 8 };
    if (column < NAMES) {
        result_names(to, d, column);
        return SQLITE_OK;
    }
    switch (column - NAMES) {
    case 0:
    case 1:
        sqlite3_result_int64(to, (sqlite3_int64)(column == NAMES ? b->count : r->count));
        break;
    case 2:
        result_number(to, b->mean, b->count);
        break;
    case 3:
        result_number(to, r->mean, r->count);
        break;
    case 4:
        result_number(to, b->p95, b->count);
        break;
    case 5:
        result_number(to, r->p95, r->count);
        break;
    case 6:
        result_number(to, b->sigma, b->count);
        break;
    case 7:
        result_number(to, r->mean / b->mean, b->count && r->count && b->mean != 0);
        break;
    case 8:
        result_number(to, d->score, true);
        break;
    default:
        break; /* an argument: nobody has to ask for it */
    }
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((const struct deviations_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = vtab_connect,
    .xBestIndex = best_index,
    .xDisconnect = vtab_disconnect,
    .xDestroy = vtab_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of all */
    return sql_error(c, sqlite3_create_module_v2(c->db, name, &module, c, NULL));
}

const struct sql_kind sql_kind_deviations = {
    .suffix = "deviations", .is_whole = true, .is_of_all = true, .make = make};
