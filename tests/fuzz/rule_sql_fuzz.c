/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the query of a rule, over two small live tables and one of the guard's own. It ends, with rows
 * or with a known error that explains itself at a place within the text; nothing is written anywhere; live
 * tables are as before, and so is the judge. */
#include "base/clock.h"
#include "guard/judge.h"
#include "guard/judge_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BASE (INT64_C(1794776400) * NS_PER_S)

enum { HOSTS = 40, ROWS_MAX = 300 };

static struct live *live;
static struct judge *judge;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void add_events(const char *name, bool has_key)
{
    const struct field fields[] = {
        {.name = SLICE_LIT("usage"), .type = VALUE_FLOAT},
        {.name = SLICE_LIT("n"), .type = VALUE_INT},
        {.name = SLICE_LIT("n"), .type = VALUE_TEXT},
        {.name = SLICE_LIT("u"), .type = VALUE_UINT},
        {.name = SLICE_LIT("raw"), .type = VALUE_BYTES},
        {.name = SLICE_LIT("mount"), .type = VALUE_TEXT, .role = ROLE_KEY},
    };
    struct schema *s = NULL;
    check(schema_create(slice_str(name), fields, has_key ? 6 : 5, &s) == 0);
    for (int i = 0; i < HOSTS; i++) {
        char host[32];
        int n = snprintf(host, sizeof host, "h%d.%s", i / 2, i % 3 ? "a.org" : "b");
        const struct value values[] = {
            value_float(i % 7 ? i / 8.0 : (double)NAN),
            i % 3 ? value_int(i) : value_none(),
            i % 3 ? value_none() : value_text(SLICE_LIT("word")),
            value_uint(i % 5 ? (uint64_t)i : UINT64_MAX),
            i % 2 ? value_bytes(slice_of("\0\xff", 2)) : value_none(),
            value_text(i % 2 ? SLICE_LIT("/") : SLICE_LIT("/home")),
        };
        const struct event e = {.time_ns = BASE - i,
                                .host = slice_of(host, i % 11 ? (size_t)n : 0),
                                .prog = SLICE_LIT("p"),
                                .schema = s,
                                .values = values,
                                .level = (uint8_t)(i % LEVEL_COUNT)};
        check(live_take(live, &e, BASE - i % 4) >= 0);
    }
    schema_unref(s);
}

static int fill(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    (void)arg;
    for (int i = 0; i < HOSTS; i++) {
        char host[16];
        int n = snprintf(host, sizeof host, "h%d.b", i);
        const struct value row[] = {value_text(slice_of(host, (size_t)n)), value_int(i % 3)};
        int r = put(to, row);
        if (r < 0)
            return r;
    }
    return 0;
}

static void end_all(void)
{
    judge_destroy(judge);
    live_destroy(live);
}

static void make_all(void)
{
    static const char *const columns[] = {"host", "state", NULL};
    static const struct judge_table own = {"host_health", columns, fill, NULL};
    check(live_create(NULL, &live) == 0);
    add_events("cpu", false);
    add_events("file.system", true);
    check(judge_create(live, &own, 1, &judge) == 0);
    check(atexit(end_all) == 0);
}

struct seen {
    size_t rows;
};

static int see_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    struct seen *s = arg;
    s->rows++;
    for (size_t i = 0; i < n; i++) {
        check(names[i].p && values[i].type < VALUE_TYPES && values[i].type != VALUE_UINT);
        check(values[i].type != VALUE_FLOAT || !isnan(values[i].f));
        check(!value_is_text(values[i].type) || values[i].n <= JUDGE_LENGTH_MAX);
    }
    return 0;
}

static void check_error(struct slice text, int r, const struct diag *why)
{
    bool is_known = r == E_PROTO || r == E_LIMIT || r == E_NODATA || r == -EACCES || r == -EXDEV ||
                    r == -ETIMEDOUT || r == -ENOMEM;
    check(is_known && why->message[0] && why->col <= text.n + 1 && why->line <= text.n + 1);
}

static void ask(struct slice text)
{
    struct query *q = NULL;
    struct diag why = {.message = ""};
    struct slice name;
    struct seen seen = {0};
    const struct query_run run = {.now_ns = BASE,
                                  .since_ns = BASE - 2,
                                  .time_ns = NS_PER_S / 4,
                                  .rows_max = ROWS_MAX,
                                  .row = see_row,
                                  .arg = &seen};
    int r = query_create(judge, text, &q, &why);
    if (r < 0)
        check_error(text, r, &why);
    check((q != NULL) == (r == 0 || r == E_NODATA));
    for (size_t i = 0; q && query_table(q, i, &name); i++)
        check(name.n > 0 && i < JUDGE_TABLES_MAX);
    for (int i = 0; q && i < 2; i++) {
        seen.rows = 0;
        r = query_run(q, &run, &why);
        check(seen.rows <= ROWS_MAX);
        if (r < 0)
            check_error(text, r, &why);
    }
    query_destroy(q);
}

/* Everything is as before, and works. */
static void check_all(void)
{
    struct query *q = NULL;
    struct diag why;
    struct seen seen = {0};
    const struct query_run run = {.now_ns = BASE, .since_ns = 0, .row = see_row, .arg = &seen};
    live_check(live);
    check(sqlite3_total_changes64(judge->db) == 0 && sqlite3_get_autocommit(judge->db));
    check(
        query_create(judge,
                     SLICE_LIT("SELECT c.host FROM cpu_latest c JOIN file_system_latest f ON f.host = c.host "
                               "WHERE c.usage > 1 AND f.mount = '/' GROUP BY c.host"),
                     &q, &why) == 0);
    check(query_run(q, &run, &why) == 0 && seen.rows > 10);
    query_destroy(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!judge)
        make_all();
    ask((struct slice){(const char *)data, size});
    check_all();
    return 0;
}
