/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "guard/judge.h"
#include "guard/judge_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#define T0 (INT64_C(1794776400) * NS_PER_S)

/* ---------------------------------------------------------------- rows of a run, as texts */

enum { ROWS_MAX = 200000 };

struct rows {
    char **rows;
    size_t n, max;
    struct strbuf line;
};

static void put_value(struct strbuf *out, struct value v)
{
    switch (v.type) {
    case VALUE_NONE:
        strbuf_add_str(out, "null");
        break;
    case VALUE_INT:
        strbuf_printf(out, "i%" PRId64, v.i);
        break;
    case VALUE_FLOAT:
        strbuf_printf(out, "f%.17g", v.f);
        break;
    default:
        strbuf_printf(out, "%c'%.*s'", v.type == VALUE_TEXT ? 't' : 'b', (int)v.n, v.p);
        break;
    }
    strbuf_add_char(out, '|');
}

static int keep_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    struct rows *r = arg;
    (void)names;
    assert_true(r->n < ROWS_MAX);
    strbuf_reset(&r->line);
    for (size_t i = 0; i < n; i++)
        put_value(&r->line, values[i]);
    if (r->n == r->max)
        r->rows = realloc(r->rows, (r->max = r->max ? r->max * 2 : 64) * sizeof *r->rows);
    r->rows[r->n++] = strdup(r->line.n ? r->line.p : "");
    return 0;
}

static void rows_fini(struct rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->rows[i]);
    free(r->rows);
    strbuf_fini(&r->line);
    *r = (struct rows){0};
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int run_query(struct judge *j, const char *text, int64_t since, struct rows *out)
{
    struct query *q = NULL;
    struct diag why;
    int r = query_create(j, slice_str(text), &q, &why);
    if (r == 0 || r == E_NODATA)
        r = query_run(
            q,
            &(struct query_run){
                .now_ns = T0, .since_ns = since, .time_ns = 60 * NS_PER_S, .row = keep_row, .arg = out},
            &why);
    if (r < 0)
        print_message("%s: %d %s (%d:%d)\n", text, r, why.message, (int)why.line, (int)why.col);
    query_destroy(q);
    return r;
}

/* ---------------------------------------------------------------- tables with all kinds of values */

/* Fields: i ints and bools, f floats, t text, m anything, n ints and floats. */
struct world {
    struct live *live;
    struct judge *judge, *plain; /* the second: nothing goes down */
    sqlite3 *db;                 /* the same rows in ordinary tables */
    struct schema *schemas[2];
    uint64_t seed;
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return test_random(&w->seed) % n;
}

static const char *const words[] = {"",   "a",   "A", "b",  "1",   "1.0", "01",
                                    "-2", "abc", "5", " 5", "1e3", "x.y"};
enum { N_WORDS = sizeof words / sizeof *words };

static const int64_t odd_ints[] = {0, 1, -1, 5, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1, 1000};
static const double odd_floats[] = {0.5,  -0.5, 1.5, 4.75, 1e19, -1e19, 0x1p63, -0x1p63, 9007199254740993.0,
                                    1e300};

static struct value draw_int(struct world *w)
{
    uint64_t kind = draw(w, 10);
    if (kind == 0)
        return value_none();
    if (kind == 1)
        return value_bool(draw(w, 2));
    if (kind == 2)
        return value_uint(draw(w, 9));
    return value_int(kind == 3 ? odd_ints[draw(w, 8)] : (int64_t)draw(w, 12) - 3);
}

/* With a fraction, or so large that it is no int: in a column of type NUMERIC SQLite would make ints of
 * others.
 */
static struct value draw_fraction(struct world *w)
{
    return value_float(draw(w, 6) ? (double)draw(w, 40) - 10.125 : odd_floats[draw(w, 4)]);
}

static struct value draw_float(struct world *w)
{
    uint64_t kind = draw(w, 10);
    if (kind == 0)
        return value_none();
    if (kind == 1)
        return value_float((double)NAN);
    if (kind == 2)
        return value_float(odd_floats[draw(w, 10)]);
    return value_float((double)draw(w, 96) / 8 - 4);
}

static struct value draw_text(struct world *w)
{
    return draw(w, 8) ? value_text(slice_str(words[draw(w, N_WORDS)])) : value_none();
}

static struct value draw_any(struct world *w)
{
    switch (draw(w, 6)) {
    case 0:
        return draw_int(w);
    case 1:
        return draw_float(w);
    case 2:
        return draw_text(w);
    case 3:
        return value_bytes(slice_str(words[draw(w, N_WORDS)]));
    case 4:
        return value_uint(UINT64_MAX - draw(w, 3));
    default:
        return value_none();
    }
}

static struct schema *make_schema(const char *name)
{
    struct field f[] = {
        {.name = SLICE_LIT("k"), .type = VALUE_INT, .role = ROLE_KEY},
        {.name = SLICE_LIT("i"), .type = VALUE_INT},
        {.name = SLICE_LIT("i"), .type = VALUE_BOOL},
        {.name = SLICE_LIT("i"), .type = VALUE_UINT},
        {.name = SLICE_LIT("f"), .type = VALUE_FLOAT},
        {.name = SLICE_LIT("t"), .type = VALUE_TEXT},
        {.name = SLICE_LIT("n"), .type = VALUE_INT},
        {.name = SLICE_LIT("n"), .type = VALUE_FLOAT},
        {.name = SLICE_LIT("m"), .type = VALUE_INT},
        {.name = SLICE_LIT("m"), .type = VALUE_UINT},
        {.name = SLICE_LIT("m"), .type = VALUE_FLOAT},
        {.name = SLICE_LIT("m"), .type = VALUE_BOOL},
        {.name = SLICE_LIT("m"), .type = VALUE_TEXT},
        {.name = SLICE_LIT("m"), .type = VALUE_BYTES},
    };
    struct schema *s = NULL;
    assert_int_equal(schema_create(slice_str(name), f, sizeof f / sizeof *f, &s), 0);
    return s;
}

static void set_field(const struct schema *s, struct value *values, const char *name, struct value v)
{
    if (v.type == VALUE_NONE)
        return;
    int i = schema_find(s, slice_str(name), v.type);
    assert_true(i >= 0);
    values[i] = v;
}

static void bind(sqlite3_stmt *stmt, int i, struct value v)
{
    int code = SQLITE_OK;
    if (v.type == VALUE_FLOAT)
        code = sqlite3_bind_double(stmt, i, v.f);
    else if (v.type == VALUE_TEXT)
        code = sqlite3_bind_text(stmt, i, v.p, (int)v.n, SQLITE_TRANSIENT);
    else if (v.type == VALUE_BYTES)
        code = sqlite3_bind_blob(stmt, i, v.n ? v.p : "", (int)v.n, SQLITE_TRANSIENT);
    else if (v.type == VALUE_UINT && v.u > INT64_MAX) {
        char text[24];
        int n = snprintf(text, sizeof text, "%020" PRIu64, v.u);
        code = sqlite3_bind_text(stmt, i, text, n, SQLITE_TRANSIENT);
    } else if (v.type != VALUE_NONE)
        code = sqlite3_bind_int64(stmt, i, v.i);
    assert_int_equal(code, SQLITE_OK);
}

static struct value name_or_none(struct slice s)
{
    return s.n ? value_text(s) : value_none();
}

/* One stream, to live, and if it is heard in time to the ordinary table. */
static void add_stream(struct world *w, sqlite3_stmt *insert, const struct schema *s, int64_t key,
                       int64_t since)
{
    char host[32];
    struct value values[16] = {0};
    struct value i = draw_int(w), f = draw_float(w), t = draw_text(w), m = draw_any(w);
    struct value n = draw(w, 2) ? draw_int(w) : draw_fraction(w);
    if (n.type == VALUE_BOOL || n.type == VALUE_UINT)
        n = value_int(n.i);
    uint64_t kind = draw(w, 12);
    int length = kind == 0 ? 0
                 : kind == 1
                     ? snprintf(host, sizeof host, "%d", (int)draw(w, 3))
                     : snprintf(host, sizeof host, "h%d%s", (int)draw(w, 9), draw(w, 3) ? ".x.y" : "");
    struct event e = {.time_ns = T0 - (int64_t)draw(w, 5),
                      .host = slice_of(host, (size_t)length),
                      .prog = draw(w, 2) ? SLICE_LIT("p") : SLICE_LIT(""),
                      .schema = s,
                      .values = values,
                      .level = (uint8_t)draw(w, 4)};
    int64_t heard = T0 - (int64_t)draw(w, 10);
    values[0] = value_int(key);
    set_field(s, values, "i", i);
    set_field(s, values, "f", f);
    set_field(s, values, "t", t);
    set_field(s, values, "n", n);
    set_field(s, values, "m", m);
    assert_int_equal(live_take(w->live, &e, heard), 0);
    if (heard < since)
        return;
    const char *dot = memchr(host, '.', (size_t)length);
    struct value heads[] = {value_int(e.time_ns),
                            name_or_none(e.host),
                            name_or_none(e.prog),
                            value_text(level_lower(e.level)),
                            value_int(heard),
                            dot ? value_text(slice_str(dot + 1)) : value_none(),
                            values[0],
                            i,
                            f,
                            t,
                            n,
                            m};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        bind(insert, (int)k + 1, heads[k]);
    assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
    assert_int_equal(sqlite3_reset(insert), SQLITE_OK);
    assert_int_equal(sqlite3_clear_bindings(insert), SQLITE_OK);
}

static void fn_now(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_int64(to, T0);
}

static void make_world(struct world *w, uint64_t seed, int64_t since)
{
    *w = (struct world){.seed = seed};
    assert_int_equal(live_create(NULL, &w->live), 0);
    assert_int_equal(judge_create(w->live, NULL, 0, &w->judge), 0);
    assert_int_equal(judge_create(w->live, NULL, 0, &w->plain), 0);
    w->plain->is_plain = true;
    assert_int_equal(sqlite3_open(":memory:", &w->db), SQLITE_OK);
    assert_int_equal(sqlite3_create_function(w->db, "now", 0, SQLITE_UTF8, NULL, fn_now, NULL, NULL),
                     SQLITE_OK);
    for (int k = 0; k < 2; k++) {
        char text[300];
        sqlite3_stmt *insert = NULL;
        w->schemas[k] = make_schema(k ? "b.x" : "a");
        (void)snprintf(
            text, sizeof text,
            "CREATE TABLE %s_latest(time INTEGER, host TEXT, prog TEXT, level TEXT, heard INTEGER, "
            "domain TEXT, k INTEGER, i INTEGER, f REAL, t TEXT, n NUMERIC, m)",
            k ? "b_x" : "a");
        assert_int_equal(sqlite3_exec(w->db, text, NULL, NULL, NULL), SQLITE_OK);
        (void)snprintf(text, sizeof text, "INSERT INTO %s_latest VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
                       k ? "b_x" : "a");
        assert_int_equal(sqlite3_prepare_v2(w->db, text, -1, &insert, NULL), SQLITE_OK);
        for (int64_t i = 0, n = 20 + (int64_t)draw(w, 60); i < n; i++)
            add_stream(w, insert, w->schemas[k], i, since);
        assert_int_equal(sqlite3_finalize(insert), SQLITE_OK);
    }
    live_check(w->live);
}

static void end_world(struct world *w)
{
    judge_destroy(w->judge);
    judge_destroy(w->plain);
    live_destroy(w->live);
    for (int k = 0; k < 2; k++)
        schema_unref(w->schemas[k]);
    assert_int_equal(sqlite3_close(w->db), SQLITE_OK);
}

/* ---------------------------------------------------------------- random queries */

static const char *const columns[] = {"i",    "f",     "t",    "n",     "m",      "host",
                                      "prog", "level", "time", "heard", "domain", "k"};

static void put_column(struct world *w, struct strbuf *q, const char *alias)
{
    strbuf_printf(q, "%s.%s", alias, columns[draw(w, sizeof columns / sizeof *columns)]);
}

static void put_constant(struct world *w, struct strbuf *q)
{
    switch (draw(w, 12)) {
    case 0:
        strbuf_printf(q, "%" PRId64, odd_ints[1 + draw(w, 4)]);
        break;
    case 1:
        strbuf_printf(q, "%.17g", odd_floats[draw(w, 10)]);
        break;
    case 2:
    case 3:
        strbuf_printf(q, "'%s'", words[draw(w, N_WORDS)]);
        break;
    case 4:
        strbuf_printf(q, "'h%d.x.y'", (int)draw(w, 9));
        break;
    case 5:
        strbuf_add_str(q, "NULL");
        break;
    case 6:
        strbuf_printf(q, "CAST('%s' AS %s)", words[draw(w, N_WORDS)], draw(w, 2) ? "INTEGER" : "TEXT");
        break;
    case 7:
        strbuf_add_str(q, draw(w, 2) ? "x'61'" : "(2+3)");
        break;
    case 8:
        strbuf_printf(q, "now() - %d", (int)draw(w, 6));
        break;
    case 9:
        strbuf_printf(q, "%d.0", (int)draw(w, 8));
        break;
    default:
        strbuf_printf(q, "%d", (int)draw(w, 10) - 3);
        break;
    }
}

static const char *draw_op(struct world *w)
{
    static const char *const ops[] = {"=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"};
    return ops[draw(w, 8)];
}

static void put_in(struct world *w, struct strbuf *q, const char *alias)
{
    put_column(w, q, alias);
    strbuf_add_str(q, draw(w, 4) ? " IN (" : " NOT IN (");
    if (draw(w, 4) == 0) {
        strbuf_printf(q, "SELECT %s FROM %s_latest", columns[draw(w, 12)], draw(w, 2) ? "a" : "b_x");
    } else {
        for (uint64_t i = 0, n = 1 + draw(w, 4); i < n; i++) {
            strbuf_add_str(q, i ? ", " : "");
            put_constant(w, q);
        }
    }
    strbuf_add_str(q, ")");
}

static void put_predicate(struct world *w, struct strbuf *q, const char *alias, int depth)
{
    switch (draw(w, depth > 0 ? 11 : 8)) {
    case 0:
        put_in(w, q, alias);
        break;
    case 1:
        put_column(w, q, alias);
        strbuf_add_str(q, draw(w, 2) ? " IS NULL" : " IS NOT NULL");
        break;
    case 2:
        put_constant(w, q);
        strbuf_printf(q, " %s ", draw_op(w));
        put_column(w, q, alias);
        break;
    case 3:
        put_column(w, q, alias);
        strbuf_add_str(q, " BETWEEN ");
        put_constant(w, q);
        strbuf_add_str(q, " AND ");
        put_constant(w, q);
        break;
    case 4:
        put_column(w, q, alias);
        strbuf_printf(q, " %s ", draw_op(w));
        put_constant(w, q);
        strbuf_add_str(q, draw(w, 2) ? " COLLATE NOCASE" : "");
        break;
    case 8:
        strbuf_add_str(q, "NOT (");
        put_predicate(w, q, alias, depth - 1);
        strbuf_add_str(q, ")");
        break;
    case 9:
    case 10:
        strbuf_add_str(q, "(");
        put_predicate(w, q, alias, depth - 1);
        strbuf_add_str(q, draw(w, 2) ? " OR " : " AND ");
        put_predicate(w, q, alias, depth - 1);
        strbuf_add_str(q, ")");
        break;
    default:
        put_column(w, q, alias);
        strbuf_printf(q, " %s ", draw_op(w));
        put_constant(w, q);
        break;
    }
}

static void put_where(struct world *w, struct strbuf *q, const char *alias)
{
    for (uint64_t i = 0, n = draw(w, 4); i < n; i++) {
        strbuf_add_str(q, i ? " AND " : " WHERE ");
        put_predicate(w, q, alias, 2);
    }
}

static void put_simple(struct world *w, struct strbuf *q)
{
    strbuf_printf(q, "SELECT x.host, x.k, x.i, x.f, x.t, x.n, x.m, x.level, x.domain FROM %s_latest x",
                  draw(w, 2) ? "a" : "\"b.x\"");
    put_where(w, q, "x");
}

static void put_grouped(struct world *w, struct strbuf *q)
{
    const char *by = draw(w, 2) ? "x.host" : draw(w, 3) ? "x.domain" : "x.prog";
    if (draw(w, 4) == 0)
        strbuf_printf(q, "SELECT DISTINCT %s FROM a_latest x", by);
    else
        strbuf_printf(q,
                      "SELECT %s, count(*), sum(iif(abs(x.f) < 100, x.f, 0)), max(typeof(x.m)), min(x.t), "
                      "avg(x.n > 1) FROM a_latest x",
                      by);
    put_where(w, q, "x");
    if (strstr(q->p, "DISTINCT"))
        return;
    strbuf_printf(q, " GROUP BY %s", by);
    if (draw(w, 3) == 0)
        strbuf_printf(q, " HAVING count(*) > %d", (int)draw(w, 4));
}

static void put_join(struct world *w, struct strbuf *q)
{
    strbuf_printf(q, "SELECT x.k, y.k, x.m, y.m FROM a_latest x %s b_x_latest y ON ",
                  draw(w, 3) ? "JOIN" : "LEFT JOIN");
    if (draw(w, 3))
        strbuf_add_str(q, "x.host = y.host");
    else {
        put_column(w, q, "x");
        strbuf_printf(q, " %s ", draw_op(w));
        put_column(w, q, "y");
    }
    if (draw(w, 2)) {
        strbuf_add_str(q, " AND ");
        put_predicate(w, q, "y", 1);
    }
    put_where(w, q, draw(w, 2) ? "x" : "y");
}

/* Sides whose affinity is not that of their values. */
static void put_compound(struct world *w, struct strbuf *q)
{
    strbuf_printf(q, "SELECT x.k, u.c FROM a_latest x JOIN (SELECT %s AS c FROM b_x_latest %s SELECT ",
                  columns[draw(w, 12)], draw(w, 2) ? "UNION" : "UNION ALL");
    put_constant(w, q);
    strbuf_add_str(q, ") u ON ");
    put_column(w, q, "x");
    strbuf_printf(q, " %s u.c", draw_op(w));
    put_where(w, q, "x");
}

static void put_query(struct world *w, struct strbuf *q)
{
    switch (draw(w, 5)) {
    case 0:
        put_grouped(w, q);
        break;
    case 1:
        put_join(w, q);
        break;
    case 2:
        put_compound(w, q);
        break;
    default:
        put_simple(w, q);
        break;
    }
}

/* ---------------------------------------------------------------- the same in ordinary tables */

static struct value column_value(sqlite3_stmt *stmt, int i)
{
    struct slice s = slice_of(sqlite3_column_blob(stmt, i), (size_t)sqlite3_column_bytes(stmt, i));
    switch (sqlite3_column_type(stmt, i)) {
    case SQLITE_INTEGER:
        return value_int(sqlite3_column_int64(stmt, i));
    case SQLITE_FLOAT:
        return value_float(sqlite3_column_double(stmt, i));
    case SQLITE_TEXT:
        return value_text(s);
    case SQLITE_BLOB:
        return value_bytes(s);
    default:
        return value_none();
    }
}

static int run_ordinary(struct world *w, const char *text, struct rows *out)
{
    sqlite3_stmt *stmt = NULL;
    struct value values[16];
    int code = sqlite3_prepare_v2(w->db, text, -1, &stmt, NULL);
    if (code != SQLITE_OK)
        print_message("%s: %s\n", text, sqlite3_errmsg(w->db));
    assert_int_equal(code, SQLITE_OK);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        int n = sqlite3_column_count(stmt);
        for (int i = 0; i < n; i++)
            values[i] = column_value(stmt, i);
        (void)keep_row(out, NULL, values, (size_t)n);
    }
    (void)sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? 0 : -1;
}

static void compare(const char *text, const struct rows *a, const struct rows *b)
{
    for (size_t i = 0; i < a->n || i < b->n; i++) {
        if (i < a->n && i < b->n && strcmp(a->rows[i], b->rows[i]) == 0)
            continue;
        print_message("%s\n  row %zu of %zu: %s\n  row %zu of %zu: %s\n", text, i, a->n,
                      i < a->n ? a->rows[i] : "-", i, b->n, i < b->n ? b->rows[i] : "-");
        fail();
    }
}

static void sort_rows(struct rows *r)
{
    if (r->n)
        qsort(r->rows, r->n, sizeof *r->rows, compare_lines);
}

/* "b.x" is b_x there. */
static void to_ordinary(char *text)
{
    for (char *at; (at = strstr(text, "\"b.x\"_latest"));)
        memcpy(at, "b_x_latest  ", 12);
}

static size_t check_query(struct world *w, int64_t since, char *text)
{
    struct rows want = {0}, got = {0}, plain = {0};
    to_ordinary(text);
    int r = run_ordinary(w, text, &want);
    assert_int_equal(run_query(w->judge, text, since, &got) < 0, r < 0);
    assert_int_equal(run_query(w->plain, text, since, &plain) < 0, r < 0);
    sort_rows(&want);
    sort_rows(&got);
    sort_rows(&plain);
    if (r == 0) {
        compare(text, &want, &got);
        compare(text, &want, &plain);
    }
    size_t n = want.n;
    rows_fini(&want);
    rows_fini(&got);
    rows_fini(&plain);
    return n;
}

static void test_like_sqlite(void **state)
{
    size_t rows = 0;
    (void)state;
    for (unsigned k = 0; k < 8 * test_scale(); k++) {
        const int64_t since = T0 - 7;
        struct world w;
        make_world(&w, 20261116 + k, since);
        print_message("seed %u\n", 20261116 + k);
        for (int i = 0; i < 400; i++) {
            struct strbuf q = {0};
            put_query(&w, &q);
            rows += check_query(&w, since, q.p);
            strbuf_fini(&q);
        }
        end_world(&w);
    }
    assert_true(rows > 10000);
}

/* Where affinity makes numbers of text, or text of numbers, on one side or both. */
static void test_affinity(void **state)
{
    static const char *const texts[] = {
        "SELECT x.k FROM (SELECT i AS c FROM b_x_latest UNION SELECT '1.0') u CROSS JOIN a_latest x ON x.t = "
        "u.c",
        "SELECT x.k FROM (SELECT i AS c FROM b_x_latest UNION SELECT '1.0') u CROSS JOIN a_latest x ON "
        "x.host "
        "= u.c",
        "SELECT x.k FROM (SELECT t AS c FROM b_x_latest UNION SELECT 5) u CROSS JOIN a_latest x ON x.m < u.c",
        "SELECT x.k FROM (SELECT t AS c FROM b_x_latest UNION SELECT 5) u CROSS JOIN a_latest x ON x.t = u.c",
        "SELECT x.k FROM b_x_latest y CROSS JOIN a_latest x ON x.t = y.i",
        "SELECT x.k FROM b_x_latest y CROSS JOIN a_latest x ON x.host = y.i",
        "SELECT x.k FROM b_x_latest y CROSS JOIN a_latest x ON x.m = y.t",
        "SELECT x.k FROM b_x_latest y CROSS JOIN a_latest x ON x.i = y.t",
        "SELECT x.k FROM (SELECT i AS c FROM b_x_latest UNION SELECT '5') u CROSS JOIN a_latest x ON x.t > "
        "u.c",
        "SELECT x.k FROM (SELECT i AS c FROM b_x_latest UNION SELECT '1.0') u CROSS JOIN a_latest x ON x.m = "
        "u.c",
        "SELECT x.k FROM (SELECT i AS c FROM b_x_latest UNION SELECT '!x') u CROSS JOIN a_latest x ON x.t < "
        "u.c",
        "SELECT k FROM a_latest WHERE m = 'A' COLLATE NOCASE",
        "SELECT k FROM a_latest WHERE m > 'A' COLLATE NOCASE",
        "SELECT k FROM a_latest WHERE m IN ('a', 5, 'A')",
        "SELECT k FROM a_latest WHERE t = 5",
        "SELECT k FROM a_latest WHERE i = '5'",
        "SELECT k FROM a_latest WHERE m = '5'",
        "SELECT k FROM a_latest WHERE m = 5",
        "SELECT k FROM a_latest WHERE host = 1",
        "SELECT k FROM a_latest WHERE host IN (1, 'h1')",
        "SELECT k FROM a_latest WHERE t IN (SELECT i FROM b_x_latest)",
        "SELECT k FROM a_latest WHERE i IN (SELECT t FROM b_x_latest)",
        "SELECT k FROM a_latest WHERE m > '0'",
        "SELECT k FROM a_latest WHERE i < 4.5 AND i > -0.5",
        "SELECT k FROM a_latest WHERE i < 1e19 AND i >= -9.3e18",
        "SELECT k FROM a_latest WHERE i = 9223372036854775807",
        "SELECT k FROM a_latest WHERE i >= 9223372036854775807.0",
        "SELECT k FROM a_latest WHERE n <> 5",
        "SELECT k FROM a_latest WHERE f <> 0.5",
        "SELECT k FROM a_latest WHERE t = 'A' COLLATE NOCASE",
        "SELECT k FROM a_latest WHERE (i, f) > (1, 2)",
    };
    size_t rows = 0;
    (void)state;
    for (unsigned seed = 0; seed < 6; seed++) {
        struct world w;
        make_world(&w, seed, T0 - 7);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            char text[200];
            (void)snprintf(text, sizeof text, "%s", texts[i]);
            rows += check_query(&w, T0 - 7, text);
        }
        end_world(&w);
    }
    assert_true(rows > 1000);
}

/* ORDER BY host is the tables' own order: here the order counts. */
static void test_order(void **state)
{
    static const char *const texts[] = {
        "SELECT host FROM a_latest ORDER BY host",
        "SELECT host FROM a_latest WHERE i > 0 ORDER BY host",
        "SELECT domain FROM a_latest ORDER BY domain",
        "SELECT host, count(*) FROM a_latest GROUP BY host ORDER BY host",
        "SELECT host FROM a_latest WHERE host IN ('h3', 'h1.x.y', 'h2') ORDER BY host",
        "SELECT host FROM a_latest ORDER BY host DESC",
        "SELECT DISTINCT host FROM a_latest ORDER BY host",
        "SELECT x.host FROM a_latest x JOIN b_x_latest y ON x.host = y.host ORDER BY x.host",
        "SELECT max(host), min(host) FROM a_latest",
    };
    struct world w;
    (void)state;
    make_world(&w, 4, T0 - 7);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rows want = {0}, got = {0};
        assert_int_equal(run_ordinary(&w, texts[i], &want), 0);
        assert_int_equal(run_query(w.judge, texts[i], T0 - 7, &got), 0);
        assert_true(want.n > 0);
        compare(texts[i], &want, &got);
        rows_fini(&want);
        rows_fini(&got);
    }
    end_world(&w);
}

/* ---------------------------------------------------------------- plans */

static void check_plan(struct judge *j, const char *text, const char *want)
{
    struct strbuf all = {0};
    struct query *q = NULL;
    sqlite3_stmt *stmt = NULL;
    struct diag why;
    assert_int_equal(query_create(j, slice_str(text), &q, &why), 0);
    strbuf_printf(&all, "EXPLAIN QUERY PLAN %s", text);
    assert_int_equal(sqlite3_prepare_v2(j->db, all.p, -1, &stmt, NULL), SQLITE_OK);
    strbuf_reset(&all);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        strbuf_printf(&all, "%s; ", (const char *)sqlite3_column_text(stmt, 3));
    if (strcmp(all.p, want) != 0)
        print_message("%s\n  %s\n", text, all.p);
    assert_string_equal(all.p, want);
    (void)sqlite3_finalize(stmt);
    strbuf_fini(&all);
    query_destroy(q);
}

/* What goes down, and that nothing is sorted for host and domain. */
static void test_plans(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 5, T0);
    check_plan(w.judge, "SELECT host FROM a_latest WHERE f > 90 AND t = 'a' AND m < 5",
               "SCAN a_latest VIRTUAL TABLE INDEX 0:6>c 7=c 9<c ; ");
    check_plan(w.judge, "SELECT host FROM a_latest WHERE time < now() - 5 AND prog LIKE 'x%'",
               "SCAN a_latest VIRTUAL TABLE INDEX 0:0<e ; ");
    check_plan(w.judge, "SELECT host, avg(f) FROM a_latest GROUP BY host",
               "SCAN a_latest VIRTUAL TABLE INDEX 1:; ");
    check_plan(w.judge, "SELECT domain, avg(f) FROM a_latest GROUP BY domain",
               "SCAN a_latest VIRTUAL TABLE INDEX 2:; ");
    check_plan(w.judge, "SELECT x.host FROM a_latest x JOIN b_x_latest y ON x.host = y.host WHERE x.f > 90",
               "SCAN x VIRTUAL TABLE INDEX 0:6>c ; SCAN y VIRTUAL TABLE INDEX 0:1=e ; ");
    end_world(&w);
}

/* ---------------------------------------------------------------- what a text may not do */

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int want;
    } cases[] = {
        {"DELETE FROM a_latest", -EACCES},
        {"INSERT INTO a_latest(i) VALUES(1)", -EACCES},
        {"CREATE TABLE z(a)", -EACCES},
        {"CREATE TEMP TABLE z AS SELECT * FROM a_latest", -EACCES},
        {"DROP TABLE a_latest", -EACCES},
        {"ATTACH '/tmp/x' AS y", -EACCES},
        {"PRAGMA user_version", -EACCES},
        {"PRAGMA writable_schema=1", -EACCES},
        {"SELECT * FROM pragma_user_version", -EACCES},
        {"SELECT load_extension('x')", -EACCES},
        {"SELECT fts3_tokenizer('simple')", -EACCES},
        {"SELECT readfile('/etc/passwd')", E_PROTO},
        {"SELECT writefile('/tmp/x', 'y')", E_PROTO},
        {"SELECT sqlite_compileoption_get(1)", -EACCES},
        {"SELECT * FROM sqlite_schema", -EACCES},
        {"SELECT * FROM sqlite_master", -EACCES},
        {"VACUUM INTO '/tmp/x'", -EACCES},
        {"BEGIN", -EACCES},
        {"SAVEPOINT x", -EACCES},
        {"REINDEX", -EACCES},
        {"ANALYZE", -EACCES},
        {"EXPLAIN SELECT 1", -EACCES},
        {"", E_PROTO},
        {" -- nothing", E_PROTO},
        {"SELECT 1; SELECT 2", E_PROTO},
        {"SELECT ?", E_PROTO},
        {"SELEC 1", E_PROTO},
        {"SELECT host FROM a_latest WHERE", E_PROTO},
        {"SELECT nosuch(1)", E_PROTO},
        {"SELECT * FROM cpu", -EXDEV},
        {"SELECT * FROM cpu_bucket(1, 2, 3)", -EXDEV},
        {"SELECT * FROM a_latest JOIN workers USING (host)", -EXDEV},
        {"SELECT forecast(1, 2)", -EXDEV},
        {"SELECT x FROM a_latest", E_NODATA},
        {"SELECT host FROM never_latest", 0},
        {"SELECT usage FROM never_latest", E_NODATA},
        {"SELECT host FROM a_latest; -- done\n ;", 0},
        {"WITH z AS (SELECT host FROM a_latest) SELECT * FROM z", 0},
        {"VALUES (1), (2)", 0},
        {"SELECT value FROM json_each('[1,2]')", 0},
    };
    struct world w;
    (void)state;
    make_world(&w, 6, T0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct query *q = NULL;
        struct diag why = {0};
        int r = query_create(w.judge, slice_str(cases[i].text), &q, &why);
        if (r != cases[i].want)
            print_message("%s: %d %s\n", cases[i].text, r, why.message);
        assert_int_equal(r, cases[i].want);
        assert_true(r == 0 || why.message[0]);
        assert_int_equal(q != NULL, r == 0 || r == E_NODATA);
        query_destroy(q);
    }
    end_world(&w);
}

static void test_places(void **state)
{
    struct world w;
    struct query *q = NULL;
    struct diag why;
    (void)state;
    make_world(&w, 6, T0);
    assert_int_equal(query_create(w.judge, SLICE_LIT("SELECT host\nFROM a_latest, cpu"), &q, &why), -EXDEV);
    assert_int_equal(why.line, 2);
    assert_int_equal(why.col, 16);
    assert_non_null(strstr(why.message, "cpu"));
    assert_int_equal(query_create(w.judge, SLICE_LIT("SELECT host\nFROM a_latest WHERE )"), &q, &why),
                     E_PROTO);
    assert_int_equal(why.line, 2);
    assert_int_equal(why.col, 21);
    assert_int_equal(query_create(w.judge, SLICE_LIT("SELECT 'a\0b'"), &q, &why), E_PROTO);
    assert_int_equal(why.col, 10);
    end_world(&w);
}

/* ---------------------------------------------------------------- limits */

static int count_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    (void)names;
    (void)values;
    (void)n;
    ++*(size_t *)arg;
    return 0;
}

static int stop_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    (void)arg;
    assert_int_equal(n, 1);
    assert_slice(names[0], "x");
    assert_int_equal(values[0].i, 7);
    return -EINTR;
}

static void test_limits(void **state)
{
    static const char endless[] =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT %s FROM c";
    struct world w;
    struct query *q = NULL;
    struct diag why;
    size_t n = 0;
    char text[200];
    (void)state;
    make_world(&w, 6, T0);
    (void)snprintf(text, sizeof text, endless, "sum(x)");
    assert_int_equal(query_create(w.judge, slice_str(text), &q, &why), 0);
    assert_int_equal(
        query_run(q, &(struct query_run){.time_ns = 20000000, .row = count_row, .arg = &n}, &why),
        -ETIMEDOUT);
    assert_true(why.message[0] && n == 0);
    query_destroy(q);
    (void)snprintf(text, sizeof text, endless, "x");
    assert_int_equal(query_create(w.judge, slice_str(text), &q, &why), 0);
    assert_int_equal(query_run(q, &(struct query_run){.rows_max = 10, .row = count_row, .arg = &n}, &why),
                     E_LIMIT);
    assert_int_equal(n, 10);
    query_destroy(q);
    assert_int_equal(query_create(w.judge, SLICE_LIT("SELECT hex(zeroblob(2000000))"), &q, &why), 0);
    assert_int_equal(query_run(q, &(struct query_run){.row = count_row, .arg = &n}, &why), E_LIMIT);
    query_destroy(q);
    assert_int_equal(query_create(w.judge, SLICE_LIT("SELECT 7 AS x"), &q, &why), 0);
    assert_int_equal(query_run(q, &(struct query_run){.row = stop_row}, &why), -EINTR);
    query_destroy(q);
    end_world(&w);
}

/* ---------------------------------------------------------------- tables that come later */

static void take_one(struct live *l, const char *name, const char *field, struct value v)
{
    struct field f = {.name = slice_str(field), .type = v.type};
    struct schema *s = NULL;
    assert_int_equal(schema_create(slice_str(name), &f, 1, &s), 0);
    const struct event e = {.time_ns = T0, .host = SLICE_LIT("a"), .schema = s, .values = &v};
    assert_int_equal(live_take(l, &e, T0), 0);
    schema_unref(s);
}

static int run_count(struct query *q, size_t *n)
{
    *n = 0;
    return query_run(q, &(struct query_run){.now_ns = T0, .since_ns = T0, .row = count_row, .arg = n}, NULL);
}

static void test_columns_that_come(void **state)
{
    struct live *l = NULL;
    struct judge *j = NULL;
    struct query *q = NULL, *all = NULL;
    struct slice name;
    struct diag why;
    size_t n;
    (void)state;
    assert_int_equal(live_create(NULL, &l), 0);
    assert_int_equal(judge_create(l, NULL, 0, &j), 0);
    assert_int_equal(query_create(j, SLICE_LIT("SELECT usage FROM cpu_latest WHERE usage > 5"), &q, &why),
                     E_NODATA);
    assert_non_null(strstr(why.message, "usage"));
    assert_int_equal(query_create(j, SLICE_LIT("SELECT * FROM cpu_latest"), &all, &why), 0);
    assert_true(query_table(q, 0, &name));
    assert_slice(name, "cpu");
    assert_false(query_table(q, 1, &name));
    assert_int_equal(run_count(q, &n), E_NODATA);
    assert_int_equal(run_count(all, &n), E_NODATA);
    take_one(l, "cpu", "idle", value_float(1));
    assert_int_equal(run_count(q, &n), E_NODATA);
    assert_int_equal(run_count(all, &n), 0);
    assert_int_equal(n, 1);
    take_one(l, "cpu", "usage", value_float(6));
    assert_int_equal(run_count(q, &n), 0);
    assert_int_equal(n, 1);
    take_one(l, "cpu", "usage", value_text(SLICE_LIT("much"))); /* text is more than any number */
    assert_int_equal(run_count(q, &n), 0);
    assert_int_equal(n, 1);
    take_one(l, "cpu", "usage", value_int(4));
    assert_int_equal(run_count(q, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(run_count(all, &n), 0);
    assert_int_equal(n, 1);
    live_check(l);
    query_destroy(q);
    judge_destroy(j);
    query_destroy(all); /* in any order */
    live_destroy(l);
}

static int check_names(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    (void)values;
    assert_int_equal(n, 2);
    assert_slice(names[0], "a_name_of_some_length");
    assert_slice(names[1], "usage");
    (*(size_t *)arg)++;
    return 0;
}

/* Tables that are made for other queries have SQLite compile all statements again: names stay right. */
static void test_names_that_stay(void **state)
{
    enum { TABLES = 20 };
    struct live *l = NULL;
    struct judge *j = NULL;
    struct query *q = NULL, *others[TABLES] = {NULL};
    size_t n = 0;
    (void)state;
    assert_int_equal(live_create(NULL, &l), 0);
    assert_int_equal(judge_create(l, NULL, 0, &j), 0);
    take_one(l, "cpu", "usage", value_float(6));
    assert_int_equal(
        query_create(j, SLICE_LIT("SELECT host AS a_name_of_some_length, usage FROM cpu_latest"), &q, NULL),
        0);
    for (size_t i = 0; i < TABLES; i++) {
        char name[16], text[64];
        (void)snprintf(name, sizeof name, "other%zu", i);
        (void)snprintf(text, sizeof text, "SELECT x FROM other%zu_latest", i);
        take_one(l, name, "x", value_int(1));
        assert_int_equal(query_create(j, slice_str(text), &others[i], NULL), 0);
        take_one(l, name, "y", value_int(1)); /* its table is made anew */
        size_t rows;
        assert_int_equal(run_count(others[i], &rows), 0);
        const struct query_run run = {.now_ns = T0, .since_ns = T0, .row = check_names, .arg = &n};
        assert_int_equal(query_run(q, &run, NULL), 0);
    }
    assert_int_equal(n, TABLES);
    for (size_t i = 0; i < TABLES; i++)
        query_destroy(others[i]);
    query_destroy(q);
    judge_destroy(j);
    live_destroy(l);
}

/* A table of live that went and came again with other columns. */
static void test_tables_that_go(void **state)
{
    struct live *l = NULL;
    struct judge *j = NULL;
    struct query *q = NULL;
    struct diag why;
    size_t n;
    (void)state;
    assert_int_equal(live_create(&(struct live_limits){.tables = 1, .forget_ns = NS_PER_S}, &l), 0);
    assert_int_equal(judge_create(l, NULL, 0, &j), 0);
    take_one(l, "cpu", "usage", value_float(6));
    assert_int_equal(query_create(j, SLICE_LIT("SELECT usage FROM cpu_latest"), &q, &why), 0);
    assert_int_equal(run_count(q, &n), 0);
    live_forget(l, T0 + 2 * NS_PER_S);
    assert_int_equal(run_count(q, &n), 0);
    assert_int_equal(n, 0);
    take_one(l, "memory", "free", value_int(6)); /* takes its place */
    assert_int_equal(run_count(q, &n), E_NODATA);
    live_forget(l, T0 + 2 * NS_PER_S);
    take_one(l, "cpu", "usage", value_float(6));
    assert_int_equal(run_count(q, &n), 0);
    assert_int_equal(n, 1);
    query_destroy(q);
    judge_destroy(j);
    live_destroy(l);
}

/* What a query reads: not what only looks like a table. */
static void test_query_table(void **state)
{
    struct world w;
    struct query *q = NULL;
    struct slice name;
    struct diag why;
    (void)state;
    make_world(&w, 6, T0);
    assert_int_equal(
        query_create(w.judge,
                     SLICE_LIT("SELECT 'q_latest', count(*) AS z_latest FROM a_latest /* y_latest */ "
                               "WHERE host IN (SELECT host FROM [b.x_latest])"),
                     &q, &why),
        0);
    assert_true(query_table(q, 0, &name));
    assert_slice(name, "a");
    assert_true(query_table(q, 1, &name));
    assert_slice(name, "b.x");
    assert_false(query_table(q, 2, &name));
    query_destroy(q);
    end_world(&w);
}

static void test_functions_and_hidden(void **state)
{
    struct live *l = NULL;
    struct judge *j = NULL;
    struct rows rows = {0};
    struct field f[] = {{.name = SLICE_LIT("heard"), .type = VALUE_TEXT}};
    struct schema *s = NULL;
    struct value v = value_text(SLICE_LIT("own"));
    (void)state;
    assert_int_equal(live_create(NULL, &l), 0);
    assert_int_equal(judge_create(l, NULL, 0, &j), 0);
    assert_int_equal(schema_create(SLICE_LIT("a"), f, 1, &s), 0);
    struct event e = {
        .time_ns = T0 - 1500000000, .host = SLICE_LIT("n1.site.org"), .schema = s, .values = &v};
    assert_int_equal(live_take(l, &e, T0), 0);
    assert_int_equal(run_query(j,
                               "SELECT age(time), age(NULL), age('x'), now() - time, domain, heard, "
                               "\"$heard\" - time FROM a_latest",
                               0, &rows),
                     0);
    assert_int_equal(rows.n, 1);
    assert_string_equal(rows.rows[0], "f1.5|null|null|i1500000000|t'site.org'|t'own'|i1500000000|");
    rows_fini(&rows);
    schema_unref(s);
    judge_destroy(j);
    live_destroy(l);
}

/* ---------------------------------------------------------------- tables of the guard's own */

struct health {
    int fills, fail;
};

static int fill_health(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    struct health *h = arg;
    h->fills++;
    for (int i = 0; i < 2000; i++) {
        char host[16];
        int n = snprintf(host, sizeof host, "h%d", i % 1000);
        const struct value row[] = {i % 500 == 499 ? value_int(i) : value_text(slice_of(host, (size_t)n)),
                                    value_bool(i % 2)};
        int r = put(to, row);
        if (r < 0)
            return r;
    }
    return h->fail;
}

static void test_mounted(void **state)
{
    static const char *const names[] = {"host", "is_up", NULL};
    struct health health = {0};
    const struct judge_table tables[] = {{"host_health", names, fill_health, &health},
                                         {"other", names, fill_health, &health}};
    struct live *l = NULL;
    struct judge *j = NULL;
    struct rows rows = {0};
    (void)state;
    assert_int_equal(live_create(NULL, &l), 0);
    assert_int_equal(judge_create(l, tables, 2, &j), 0);
    assert_int_equal(
        run_query(j, "SELECT count(*), sum(is_up), count(DISTINCT host) FROM host_health", 0, &rows), 0);
    assert_string_equal(rows.rows[0], "i2000|i1000|i1002|");
    assert_int_equal(health.fills, 1);
    rows_fini(&rows);
    /* 998 texts that come twice on both sides, and 4 ints */
    assert_int_equal(
        run_query(j, "SELECT count(*) FROM host_health a JOIN other b ON a.host = b.host", 0, &rows), 0);
    assert_string_equal(rows.rows[0], "i3996|");
    assert_int_equal(health.fills, 3);
    rows_fini(&rows);
    assert_int_equal(run_query(j, "SELECT nosuch FROM host_health", 0, &rows), E_PROTO);
    health.fail = -EIO;
    assert_int_equal(run_query(j, "SELECT host FROM host_health", 0, &rows), -EIO);
    rows_fini(&rows);
    judge_destroy(j);
    live_destroy(l);
}

static bool list_table(void *arg, struct slice name, size_t at)
{
    struct strbuf *all = arg;
    (void)at;
    strbuf_printf(all, "%s%.*s", all->n ? " " : "", SLICE_ARG(name));
    return true;
}

/* Which names in a text are tables: those whose events a rule relies on. */
static void test_tables_of_a_text(void **state)
{
    static const struct {
        const char *text, *tables;
    } cases[] = {
        {"SELECT host FROM cpu", "cpu"},
        {"select a.host, b.x from cpu a, \"job.state\" as b where a.x in (1, 2) order by 1, 2",
         "cpu job.state"},
        {"SELECT 1 FROM a LEFT JOIN b USING (host, prog) JOIN [c d] ON c.x = f(a.x, b.y), e WHERE x, y",
         "a b c d e"},
        {"SELECT 1 FROM main.a, 'b'", "a b"},
        {"SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c) GROUP BY p, q", "a b c"},
        {"SELECT 1 FROM (a JOIN (b, c)), (SELECT x, y FROM d) AS e, f", "a b c d f"},
        {"SELECT 1 FROM f_forecast('free', '2h') WHERE x IN y AND z NOT IN (SELECT 1 FROM z)",
         "f_forecast y z"},
        {"WITH v AS (SELECT 1 FROM a), w(p, q) AS MATERIALIZED (SELECT 1, 2 FROM v) SELECT p, q FROM v, w, b",
         "a b"},
        {"WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n, a) SELECT i FROM n", "a"},
        {"SELECT 'FROM x' -- FROM y\n FROM /* FROM z, */ a UNION SELECT p, q FROM b", "a b"},
        {"SELECT CAST(x AS VARCHAR(10)) OVER (PARTITION BY p, q ORDER BY r) FROM a WINDOW w AS (PARTITION BY "
         "p, q)",
         "a"},
        {"SELECT 1, 2", ""},
        {"FROM", ""},
        {"))))((((,,,, FROM (((", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf all = {0};
        judge_tables(slice_str(cases[i].text), list_table, &all);
        if (!slice_eq_str(strbuf_slice(&all), cases[i].tables))
            fail_msg("%s: %s", cases[i].text, all.p ? all.p : "");
        strbuf_fini(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_sqlite),     cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_order),           cmocka_unit_test(test_plans),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_places),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_columns_that_come),
        cmocka_unit_test(test_names_that_stay), cmocka_unit_test(test_tables_that_go),
        cmocka_unit_test(test_query_table),     cmocka_unit_test(test_functions_and_hidden),
        cmocka_unit_test(test_mounted),         cmocka_unit_test(test_tables_of_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
