/* SPDX-License-Identifier: Apache-2.0 */
/* sql_bucket_args.c - see sql_bucket.h.
 *
 * What xBestIndex decides goes to xFilter as a text: the columns that are used, in hex, then for each value
 * that xFilter gets " COLUMN OP", OP one of = and i (IN: all values at once). */
#include "archive/sql_bucket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- planning */

static bool is_binary(sqlite3_index_info *info, int i)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0;
}

/* What an argument or test of a column is to us: '=', 'i' or '\0' for nothing. */
static char letter_of(sqlite3_index_info *info, int i, enum bucket_class class)
{
    if (info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ || !info->aConstraint[i].usable)
        return '\0';
    if (class == BUCKET_NOTHING || (class == BUCKET_TEXT && !is_binary(info, i)))
        return '\0';
    return sqlite3_vtab_in(info, i, 1) ? 'i' : '=';
}

static int finish_plan(sqlite3_index_info *info, struct strbuf *plan, double rows)
{
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = 1000 + rows;
    info->idxStr = strbuf_failed(plan) ? NULL : sqlite3_mprintf("%s", plan->p);
    info->needToFreeIdxStr = 1;
    strbuf_fini(plan);
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

int bucket_args_plan(struct sql_context *c, sqlite3_index_info *info, int n_columns,
                     enum bucket_class (*usable_as)(const void *table, int column), const void *table)
{
    struct strbuf plan = {0};
    double rows = 1e5;
    int n_args = 0, r = sql_check(c);
    if (r < 0)
        return sql_fail(c, r);
    strbuf_printf(&plan, "%" PRIx64, (uint64_t)info->colUsed);
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        bool is_arg = column >= n_columns && info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ;
        if (is_arg && !info->aConstraint[i].usable) {
            strbuf_fini(&plan);
            return SQLITE_CONSTRAINT; /* another order of the join has the argument */
        }
        char letter = is_arg                              ? '='
                      : column < 0 || column >= n_columns ? '\0'
                                                          : letter_of(info, i, usable_as(table, column));
        if (!letter)
            continue;
        info->aConstraintUsage[i].argvIndex = ++n_args;
        info->aConstraintUsage[i].omit = is_arg;
        strbuf_printf(&plan, " %d%c", column, letter);
        rows = is_arg ? rows : rows / 20;
    }
    return finish_plan(info, &plan, rows < 1 ? 1 : rows);
}

/* ---------------------------------------------------------------- arguments */

static int set_where(struct bucket_args *a, sqlite3_value *v)
{
    struct diag why = {0};
    struct slice text =
        arena_copy(&a->arena, slice_of((const char *)sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v)));
    if (!text.p)
        return sql_fail(a->context, -ENOMEM);
    int r = bucket_where_parse(text, &a->where, &why);
    if (r < 0)
        return sql_fail_text(a->context, r, "the condition '%.*s', character %u: %s",
                             (int)(text.n < 60 ? text.n : 60), text.p, why.col, why.message);
    a->has_where = true;
    return SQLITE_OK;
}

/* NULL: as if it was not given. */
static int set_arg(struct bucket_args *a, enum bucket_arg arg, sqlite3_value *v)
{
    static const char *const names[ARGS] = {"from", "to", "step", "where", "tier"};
    struct diag why = {0};
    int r = 0;
    if (sqlite3_value_type(v) == SQLITE_NULL)
        return SQLITE_OK;
    if (arg == ARG_WHERE)
        return set_where(a, v);
    if (arg == ARG_FROM)
        r = sql_time_of(a->context, v, &a->from_ns, &why);
    else if (arg == ARG_TO)
        r = sql_time_of(a->context, v, &a->to_ns, &why);
    else
        r = sql_duration_of(v, arg == ARG_STEP ? &a->step_ns : &a->tier_ns, &why);
    if (r < 0)
        return sql_fail_text(a->context, r, "%s: %s", names[arg], why.message);
    if (a->step_ns < 0 || a->tier_ns < 0)
        return sql_fail_text(a->context, E_PROTO, "%s: a duration from 0 on", names[arg]);
    a->has_from = a->has_from || arg == ARG_FROM;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- tests */

/* false: it is of a sort that we leave to SQLite. */
static bool value_of(struct bucket_args *a, sqlite3_value *v, struct value *out, bool *is_failed)
{
    if (sqlite3_value_type(v) == SQLITE_INTEGER) {
        *out = value_int(sqlite3_value_int64(v));
        return true;
    }
    if (sqlite3_value_type(v) != SQLITE_TEXT)
        return false;
    struct slice text =
        arena_copy(&a->arena, slice_of((const char *)sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v)));
    *is_failed = !text.p;
    *out = value_text(text);
    return text.p;
}

/* Values of the test, or nothing where one of them is not for us. */
static int set_test(struct bucket_args *a, struct bucket_test *t, char letter, sqlite3_value *v)
{
    sqlite3_value *one = letter == 'i' ? NULL : v;
    size_t n = 0;
    bool is_failed = false;
    int r = letter == 'i' ? sqlite3_vtab_in_first(v, &one) : SQLITE_OK;
    for (; r == SQLITE_OK && one; r = letter == 'i' ? sqlite3_vtab_in_next(v, &one) : SQLITE_DONE)
        n++;
    struct value *any = arena_alloc(&a->arena, (n + 1) * sizeof *any);
    if (!any)
        return sql_fail(a->context, -ENOMEM);
    one = letter == 'i' ? NULL : v;
    r = letter == 'i' ? sqlite3_vtab_in_first(v, &one) : SQLITE_OK;
    for (; r == SQLITE_OK && one && t->n < n;
         r = letter == 'i' ? sqlite3_vtab_in_next(v, &one) : SQLITE_DONE) {
        if (sqlite3_value_type(one) == SQLITE_NULL)
            continue; /* equal to nothing */
        if (!value_of(a, one, &any[t->n], &is_failed))
            return is_failed ? sql_fail(a->context, -ENOMEM) : SQLITE_OK;
        t->n++;
    }
    t->any = any;
    return SQLITE_OK;
}

static size_t count_values(const char *plan)
{
    size_t n = 0;
    for (; *plan; plan++)
        n += *plan == ' ';
    return n;
}

static int set_all(struct bucket_args *a, const char *plan, int n_columns, int argc, sqlite3_value **argv,
                   bool with_args)
{
    char *at = NULL;
    struct sql_context *c = a->context;
    arena_fini(&a->arena);
    *a = (struct bucket_args){
        .context = c, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .used = strtoull(plan, &at, 16)};
    a->tests = arena_alloc(&a->arena, (count_values(plan) + 1) * sizeof *a->tests);
    if (!a->tests)
        return sql_fail(c, -ENOMEM);
    for (int i = 0; i < argc && *at; i++) {
        int column = (int)strtol(at, &at, 10), r = SQLITE_OK;
        char letter = *at++;
        if (column < n_columns) {
            struct bucket_test *t = &a->tests[a->n_tests];
            *t = (struct bucket_test){.column = column};
            r = set_test(a, t, letter, argv[i]);
            a->n_tests += t->any != NULL;
        } else if (with_args) {
            r = set_arg(a, (enum bucket_arg)(column - n_columns), argv[i]);
        }
        if (r != SQLITE_OK)
            return r;
    }
    return SQLITE_OK;
}

int bucket_args_set(struct bucket_args *a, const char *plan, int n_columns, int argc, sqlite3_value **argv)
{
    return set_all(a, plan, n_columns, argc, argv, true);
}

int bucket_args_set_tests(struct bucket_args *a, const char *plan, int n_columns, int argc,
                          sqlite3_value **argv)
{
    return set_all(a, plan, n_columns, argc, argv, false);
}

void bucket_args_fini(struct bucket_args *a)
{
    arena_fini(&a->arena);
}

/* As SQLite would, or more than that: it tests again. */
static bool may_equal(struct value a, struct value b)
{
    if (a.type == VALUE_NONE)
        return false;
    if (a.type == VALUE_TEXT && b.type == VALUE_TEXT)
        return value_eq(a, b);
    if ((a.type == VALUE_INT || a.type == VALUE_UINT || a.type == VALUE_BOOL) && b.type == VALUE_INT)
        return a.u == b.u;
    return true;
}

bool bucket_args_pass(const struct bucket_args *a, int column, struct value v)
{
    for (size_t i = 0; i < a->n_tests; i++) {
        const struct bucket_test *t = &a->tests[i];
        bool is_any = t->column != column;
        for (size_t k = 0; !is_any && k < t->n; k++)
            is_any = may_equal(v, t->any[k]);
        if (!is_any)
            return false;
    }
    return true;
}

bool bucket_args_pass_text(const struct bucket_args *a, int column, struct slice text)
{
    return bucket_args_pass(a, column, text.n ? value_text(text) : value_none());
}

void bucket_args_result(const struct bucket_args *a, sqlite3_context *to, enum bucket_arg arg)
{
    if (arg == ARG_FROM && a->has_from)
        sqlite3_result_int64(to, a->from_ns);
    else if (arg == ARG_TO && a->to_ns != INT64_MAX)
        sqlite3_result_int64(to, a->to_ns);
    else if (arg == ARG_STEP && a->step_ns)
        sqlite3_result_int64(to, a->step_ns);
    else if (arg == ARG_TIER && a->tier_ns)
        sqlite3_result_int64(to, a->tier_ns);
}

/* ---------------------------------------------------------------- the fold */

/* spec.arg of the fold; whoever runs it has one of its own. */
struct run {
    struct bucket_args *args;
    bool (*wants)(void *arg, struct slice key, const struct stream_key_parts *parts);
    void *arg;
};

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    struct run *r = arg;
    return r->wants(r->arg, key, parts);
}

static int go_on(void *arg, uint64_t rows)
{
    struct run *r = arg;
    sql_seen(r->args->context, rows);
    return sql_check(r->args->context);
}

int bucket_run(struct bucket_args *a, struct bucket_spec *spec, struct bucket **out, size_t *charged)
{
    struct sql_context *c = a->context;
    struct run run = {a, spec->wants, spec->arg};
    struct diag why = {0};
    struct scan_loss lost;
    int64_t left = c->memory.limit - c->memory.used;
    spec->from_ns = a->from_ns;
    spec->to_ns = a->to_ns > c->until_ns ? c->until_ns + 1 : a->to_ns;
    spec->step_ns = a->step_ns;
    spec->tier_ns = a->tier_ns;
    spec->where = a->has_where ? &a->where : NULL;
    spec->wants = wants;
    spec->go_on = go_on;
    spec->arg = &run;
    spec->bytes_max = left < BUCKET_BYTES_MAX ? (left > 1 ? (size_t)left : 1) : BUCKET_BYTES_MAX;
    for (size_t i = 0; spec->from_ns < spec->to_ns && i < spec->n_tables; i++)
        sql_asks(c, spec->tables[i].def->name, spec->from_ns, spec->to_ns - 1,
                 spec->where ? MISSING_ROWS : MISSING_FOLDED);
    struct sql_account *before = sql_memory_enter(NULL); /* what views keep is not the query's */
    int r = bucket_fold(c->view, spec, out, &why);
    (void)sql_memory_enter(before);
    if (r < 0)
        return why.message[0] ? sql_fail_text(c, r, "%s", why.message) : sql_fail(c, r);
    lost = bucket_damaged(*out);
    c->loss.rows += lost.rows;
    c->loss.chunks += lost.chunks;
    c->loss.blobs += lost.blobs;
    *charged = bucket_bytes(*out);
    if (sql_memory_take(&c->memory, *charged))
        return SQLITE_OK;
    *charged = 0;
    bucket_done(a, *out, charged);
    *out = NULL;
    return sql_fail(c, E_LIMIT);
}

void bucket_done(struct bucket_args *a, struct bucket *b, size_t *charged)
{
    bucket_destroy(b);
    if (*charged)
        sql_memory_give(&a->context->memory, *charged);
    *charged = 0;
}

/* ---------------------------------------------------------------- figures */

const char *const bucket_figure_names[FIGURES] = {"count", "min", "max", "sum", "avg", "first", "last"};

void bucket_figure_result(sqlite3_context *to, const struct column_summary *s, enum bucket_figure f)
{
    uint32_t numbers = s->count - s->nans; /* NaN is NULL in SQL, which is not counted */
    switch (f) {
    case FIGURE_COUNT:
        sqlite3_result_int64(to, numbers);
        break;
    case FIGURE_MIN:
        sql_result(to, s->min);
        break;
    case FIGURE_MAX:
        sql_result(to, s->max);
        break;
    case FIGURE_SUM:
        if (s->min.type)
            sqlite3_result_double(to, s->sum);
        break;
    case FIGURE_AVG:
        if (s->min.type)
            sqlite3_result_double(to, s->sum / numbers);
        break;
    case FIGURE_FIRST:
        sql_result(to, s->first);
        break;
    default:
        sql_result(to, s->last);
        break;
    }
}

int bucket_keys_result(const struct sql_context *c, sqlite3_context *to, const struct stream_key_parts *parts)
{
    struct slice fields = parts->fields, name;
    struct strbuf keys = {0};
    struct value v;
    while (stream_key_next(&fields, &name, &v))
        if (sql_may_field(c, parts->name, parts->host, name))
            stream_key_print_field(&keys, 0, name, v);
    bool is_failed = strbuf_failed(&keys);
    if (!is_failed && keys.n)
        sqlite3_result_text(to, keys.p, (int)keys.n, SQLITE_TRANSIENT);
    strbuf_fini(&keys);
    return is_failed ? SQLITE_NOMEM : SQLITE_OK;
}
