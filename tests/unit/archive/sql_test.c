/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/sql_run.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>

#define SECOND INT64_C(1000000000)
#define BASE   (INT64_C(1794776400) * SECOND) /* 2026-11-15T21:00:00Z */

static struct sql_run t;

static void add(const char *name, const char *host, int64_t time_ns, uint8_t level,
                const struct named_value *v, size_t n)
{
    const struct event_head head = {.time_ns = time_ns,
                                    .name = slice_str(name),
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("p"),
                                    .level = level};
    struct diag why = {0};
    if (batch_builder_add(t.builder, &head, v, n, &why) < 0)
        fail_msg("%s", why.message);
}

#define FIELD(z, v) ((struct named_value){.name = {z, sizeof z - 1}, .value = v})
#define ADD(name, host, time, level, ...)                             \
    add(name, host, time, level, (struct named_value[]){__VA_ARGS__}, \
        sizeof((struct named_value[]){__VA_ARGS__}) / sizeof(struct named_value))

/* cpu of two hosts, a second each; half of it on disk. */
static void fill_cpu(void)
{
    for (int i = 0; i < 200; i++) {
        ADD("cpu", "a", BASE + i * SECOND, LEVEL_INFO, FIELD("usage", value_float(i / 2.0)),
            FIELD("n", value_int(i)));
        ADD("cpu", "b", BASE + i * SECOND, i % 50 ? LEVEL_INFO : LEVEL_ERROR,
            FIELD("n", value_int(1000 + i)));
        if (i == 99) {
            run_append(&t, NULL);
            assert_int_equal(archive_flush(t.a), 0);
        }
    }
    run_append(&t, NULL);
}

static int set_up(void **state)
{
    (void)state;
    run_init(&t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run_fini(&t);
    return 0;
}

static void reads_rows(void **state)
{
    (void)state;
    fill_cpu();
    assert_string_equal(run_text(&t, "SELECT count(*), count(usage), min(n), max(n), sum(n) FROM cpu"),
                        "400|200|0|1199|239800");
    assert_string_equal(
        run_text(&t, "SELECT time, host, prog, level, usage, n FROM cpu WHERE host = 'a' AND n = 3"),
        "1794776403000000000|a|p|info|1.5|3");
    assert_string_equal(
        run_text(&t, "SELECT n FROM cpu WHERE host = 'b' AND time > at('2026-11-15T21:00:10Z') AND "
                     "time <= at('2026-11-15T21:00:12Z') ORDER BY time"),
        "1011;1012");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu WHERE level = 'error' ORDER BY n"),
                        "1000;1050;1100;1150");
    assert_string_equal(run_text(&t, "SELECT host, count(*) FROM cpu WHERE host IN ('b', 'c') GROUP BY host"),
                        "b|200");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu WHERE n IN (7, 1007, 5000) ORDER BY n"), "7;1007");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu WHERE usage IS NULL"), "200");
    assert_string_equal(
        run_text(&t, "SELECT count(*) FROM cpu WHERE usage > 98.9 OR n > 1198 OR (host = 'a' AND n = 199)"),
        "3");
}

static void says_the_newest(void **state)
{
    (void)state;
    fill_cpu();
    assert_string_equal(run_text(&t, "SELECT host, n FROM cpu_latest ORDER BY host"), "a|199;b|1199");
    assert_string_equal(run_text(&t, "SELECT host, n FROM cpu_latest WHERE n < 100"), "");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu_latest WHERE host = 'a'"), "199");
}

/* What would have been said at some time before: later rows do not exist, on disk or not. */
static void says_the_past(void **state)
{
    (void)state;
    fill_cpu();
    const int64_t now[] = {BASE - 1, BASE, BASE + 50 * SECOND, BASE + 150 * SECOND + 1};
    const char *const rows[] = {"0|NULL", "1|0", "51|50", "151|150"};
    for (size_t i = 0; i < sizeof now / sizeof *now; i++) {
        t.query.now_ns = now[i];
        t.query.is_past = true;
        assert_string_equal(run_text(&t, "SELECT count(*), max(n) FROM cpu WHERE host = 'a'"), rows[i]);
        assert_string_equal(run_text(&t,
                                     "SELECT coalesce(sum(rows), 0), max(n_max) FROM cpu_bucket(NULL, NULL, "
                                     "'1m') WHERE host = 'a'"),
                            rows[i]);
        assert_string_equal(run_text(&t,
                                     "SELECT coalesce(sum(count), 0), max(max) FROM samples_bucket() WHERE "
                                     "host = 'a' AND field = 'n'"),
                            rows[i]);
        assert_string_equal(run_text(&t, "SELECT count(*), max(n) FROM cpu WHERE host = 'a' AND time <= "
                                         "9223372036854775807"),
                            rows[i]);
        assert_int_equal(run(&t, "SELECT n FROM cpu_latest"), E_PROTO);
        assert_non_null(strstr(t.why.message, "cpu_latest has no past"));
        assert_int_equal(run(&t, "SELECT 1 FROM rebuild('cpu')"), E_PROTO);
        t.query.is_past = false;
        assert_string_equal(run_text(&t, "SELECT count(*), max(n) FROM cpu WHERE host = 'a'"), "200|199");
        assert_string_equal(run_text(&t, "SELECT n FROM cpu_latest WHERE host = 'a'"), "199");
    }
}

static void joins_tables(void **state)
{
    (void)state;
    fill_cpu();
    ADD("job.state", "a", BASE + 5 * SECOND, LEVEL_INFO, FIELD("id", value_text(SLICE_LIT("j1"))));
    ADD("job.state", "b", BASE + 7 * SECOND, LEVEL_INFO, FIELD("id", value_text(SLICE_LIT("j2"))));
    run_append(&t, NULL);
    assert_string_equal(run_text(&t, "SELECT id, n FROM job_state JOIN cpu USING (time, host) ORDER BY id"),
                        "j1|5;j2|1007");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM \"job.state\""), "2");
    assert_string_equal(run_text(&t, "SELECT host FROM Job_State WHERE id = 'j2'"), "b");
}

static void exact_values(void **state)
{
    (void)state;
    ADD("v", "a", BASE, LEVEL_INFO, FIELD("u", value_uint(UINT64_MAX)), FIELD("f", value_float((double)NAN)),
        FIELD("i", value_int(INT64_MIN)), FIELD("b", value_bool(true)), FIELD("s", value_text(SLICE_LIT(""))),
        FIELD("y", value_bytes(SLICE_LIT("\x00\xff"))));
    ADD("v", "a", BASE + 1, LEVEL_INFO, FIELD("u", value_uint(UINT64_C(1) << 63)),
        FIELD("f", value_float(0.1)));
    ADD("v", "a", BASE + 2, LEVEL_INFO, FIELD("u", value_uint(INT64_MAX)),
        FIELD("f", value_text(SLICE_LIT("word"))));
    ADD("v", "a", BASE + 3, LEVEL_INFO, FIELD("host", value_int(5)), FIELD("Time", value_int(6)));
    run_append(&t, NULL);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(run_text(&t, "SELECT u, i, b, s, y FROM v WHERE i < 0"),
                            "1.8446744073709552e19|-9223372036854775808|1||x'00ff'");
        assert_string_equal(run_text(&t, "SELECT \"u:text\" FROM v WHERE u IS NOT NULL ORDER BY u"),
                            "9223372036854775807;9223372036854775808;18446744073709551615");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM v WHERE u > 9223372036854775807"), "2");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM v WHERE u > 1e19"), "1");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM v WHERE u < 1e19"), "2");
        assert_string_equal(run_text(&t, "SELECT count(*), count(f), min(f), avg(f) FROM v"), "4|1|0.1|0.1");
        assert_string_equal(run_text(&t, "SELECT f, nan FROM v ORDER BY time"),
                            "NULL|f;0.1|NULL;NULL|NULL;NULL|NULL");
        assert_string_equal(run_text(&t, "SELECT \"f:text\" FROM v WHERE \"f:text\" = 'word'"), "word");
        assert_string_equal(run_text(&t, "SELECT host, \"$host\", \"$Time\" FROM v WHERE \"$host\" = 5"),
                            "a|5|6");
        assert_int_equal(archive_flush(t.a), 0);
    }
}

static void knows_where_rows_are_from(void **state)
{
    (void)state;
    const struct batch_origin o = {
        .producer = "\x01\x02", .epoch = 9, .first_seq = 40, .clock = {.offset_ns = -3, .bound_ns = 8}};
    ADD("v", "", BASE, LEVEL_INFO, FIELD("n", value_int(1)));
    ADD("v", "", BASE + 1, LEVEL_INFO, FIELD("n", value_int(2)));
    run_append(&t, &o);
    ADD("v", "", BASE + 2, LEVEL_INFO, FIELD("n", value_int(3)));
    run_append(&t, NULL);
    assert_string_equal(
        run_text(&t, "SELECT host, producer, epoch, seq, clock_offset, clock_bound FROM v ORDER BY n"),
        "NULL|01020000000000000000000000000000|9|40|-3|8;"
        "NULL|01020000000000000000000000000000|9|41|-3|8;NULL|NULL|NULL|NULL|0|0");
    assert_string_equal(run_text(&t, "SELECT n FROM v WHERE seq = 41"), "2");
}

/* SQLite says which of the first 63 columns are used; behind them names do. */
static void reads_wide_tables(void **state)
{
    (void)state;
    struct named_value v[200];
    char names[200][8];
    for (int i = 0; i < 200; i++) {
        (void)snprintf(names[i], sizeof names[i], "c%d", i);
        v[i] = (struct named_value){.name = slice_str(names[i]), .value = value_int(i)};
    }
    for (int i = 0; i < 150; i++)
        add("wide", "a", BASE + i * SECOND, LEVEL_INFO, v, 200);
    run_append(&t, NULL);
    assert_int_equal(archive_flush(t.a), 0);
    assert_string_equal(run_text(&t, "SELECT sum(c199), sum(c3), count(*) FROM wide"), "29850|450|150");
    assert_string_equal(run_text(&t, "SELECT \"C150\" FROM wide WHERE c199 = 199 LIMIT 1"), "150");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM (SELECT * FROM wide) WHERE c180 + c20 = 200"),
                        "150");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM wide AS l NATURAL JOIN wide AS r"), "150");
    assert_string_equal(
        run_text(&t, "SELECT max(seq) IS NULL, max(nan) IS NULL, min(clock_offset) FROM wide"), "1|1|0");
}

static void names_tables(void **state)
{
    (void)state;
    static const char *const names[] = {"a.b", "a-b", "A.B", "1st", "sensors", "a_b_2", "cpu_latest", "cpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ADD(names[i], "h", BASE, LEVEL_INFO, FIELD("n", value_text(slice_str(names[i]))));
    run_append(&t, NULL);
    /* By name: A.B, a-b, a.b. */
    assert_string_equal(run_text(&t, "SELECT n FROM a_b"), "A.B");
    assert_string_equal(run_text(&t, "SELECT n FROM a_b_3"), "a.b");
    assert_string_equal(run_text(&t, "SELECT n FROM a_b_2"), "a_b_2");
    assert_string_equal(run_text(&t, "SELECT n FROM \"a-b\""), "a-b");
    assert_string_equal(run_text(&t, "SELECT n FROM [a.b]"), "a.b");
    assert_string_equal(run_text(&t, "SELECT n FROM `A.B`"), "A.B");
    assert_string_equal(run_text(&t, "SELECT n FROM _1st"), "1st");
    assert_string_equal(run_text(&t, "SELECT n FROM sensors_2"), "sensors");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu_latest"), "cpu_latest");
    assert_string_equal(
        run_text(&t, "SELECT group_concat(name, ' ') FROM (SELECT name FROM tables ORDER BY event)"),
        "_1st a_b \"a-b\" a_b_3 a_b_2 cpu cpu_latest sensors_2");
    assert_int_equal(run(&t, "SELECT * FROM \"a.b\", \"A.B\""), E_PROTO);
    assert_non_null(strstr(t.why.message, "differ by case"));
    assert_int_equal(run(&t, "SELECT * FROM sensors"), E_PROTO);
}

static void check_refused(const char *text, int r, uint32_t col, const char *message)
{
    int got = run(&t, text);
    if (got != r || !strstr(t.why.message, message) || (col && t.why.col != col))
        fail_msg("%s: %d, column %u: %s", text, got, t.why.col, t.why.message);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    fill_cpu();
    check_refused("SELECT * FROM cpuu", E_PROTO, 15,
                  "no such table: cpuu; did you mean cpu? `gridline schemas`");
    check_refused("SELECT * FROM cpu_lates", E_PROTO, 15, "no such table: cpu_lates");
    check_refused("SELECT usag FROM cpu", E_PROTO, 8, "did you mean \"usage\"?");
    check_refused("SELECT n FROM cpu WHERE host = \"a\"", E_PROTO, 32, "text goes in single quotes");
    check_refused("SELECT n FROM cpu WHERE", E_PROTO, 0, "incomplete input");
    check_refused("SELEC n FROM cpu", E_PROTO, 1, "syntax error");
    check_refused("SELECT 1; SELECT 2", E_PROTO, 10, "one statement");
    check_refused("SELECT 1;;  -- and no more\n;", 0, 0, "");
    check_refused("", E_PROTO, 1, "no statement");
    check_refused("-- nothing", E_PROTO, 1, "no statement");
    check_refused("SELECT ?", E_PROTO, 0, "parameters");
    check_refused("SELECT n FROM cpu WHERE time > 'now-15m'", E_PROTO, 0, "at('now-15m')");
    check_refused("SELECT at('yesterday')", E_PROTO, 0, "is no time");
    check_refused("SELECT '\xff'", E_PROTO, 0, "UTF-8");
    const struct sql_query q = {.text = SLICE_LIT("SELECT 1\0;")};
    struct sql_statement *s = NULL;
    assert_int_equal(sql_prepare(t.engine, &q, &s, &t.why), E_PROTO);
    assert_int_equal(t.why.col, 9);
}

static void only_reads(void **state)
{
    (void)state;
    static const char *const refused[] = {"CREATE TABLE x(a)",
                                          "DROP TABLE cpu",
                                          "INSERT INTO cpu(n) VALUES(1)",
                                          "DELETE FROM cpu",
                                          "UPDATE cpu SET n = 1",
                                          "PRAGMA temp_store = 1",
                                          "PRAGMA table_list",
                                          "ATTACH '/tmp/gridline-x.db' AS x",
                                          "DETACH main",
                                          "BEGIN",
                                          "COMMIT",
                                          "SAVEPOINT x",
                                          "VACUUM",
                                          "VACUUM INTO '/tmp/gridline-x.db'",
                                          "REINDEX",
                                          "ANALYZE",
                                          "CREATE VIRTUAL TABLE x USING fts5(a)",
                                          "CREATE TEMP VIEW x AS SELECT 1",
                                          "SELECT load_extension('x')",
                                          "SELECT * FROM sqlite_master",
                                          "SELECT count(*) FROM sqlite_schema",
                                          "SELECT * FROM pragma_database_list",
                                          "EXPLAIN PRAGMA temp_store",
                                          "SELECT fts3_tokenizer('simple')",
                                          "SELECT sqlite_compileoption_get(1)",
                                          "WITH x AS (SELECT 1) INSERT INTO cpu(n) SELECT * FROM x",
                                          "ALTER TABLE cpu RENAME TO x",
                                          "SELECT * FROM main.sqlite_schema"};
    fill_cpu();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int r = run(&t, refused[i]);
        if (r != -EACCES && r != E_PROTO)
            fail_msg("%s: %d", refused[i], r);
        assert_true(t.why.message[0]);
    }
    assert_int_equal(run(&t, "PRAGMA temp_store = 1"), -EACCES);
    assert_int_equal(run(&t, "DROP TABLE cpu"), -EACCES);
    assert_int_equal(access("/tmp/gridline-x.db", F_OK), -1);
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu"), "400");
    assert_string_equal(run_text(&t, "VALUES(1)"), "1");
    assert_string_equal(
        run_text(&t, "SELECT '{\"a\":5}' ->> 'a', sum(value), (SELECT count(*) FROM json_tree('[1]')) "
                     "FROM json_each('[1,2]')"),
        "5|3|2");
    assert_int_equal(run(&t, "EXPLAIN QUERY PLAN SELECT * FROM cpu WHERE host = 'a'"), 0);
}

/* ---------------------------------------------------------------- limits */

static void ends_what_is_too_much(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
    } hostile[] = {
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
         -ETIMEDOUT},
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT count(*) FROM c", E_LIMIT},
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, randomblob(1000) FROM c "
         "ORDER BY 2",
         E_LIMIT},
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
         "group_concat(hex(randomblob(900))) FROM c",
         E_LIMIT},
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT percentile(x, 50) FROM c",
         E_LIMIT},
        {"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
         E_LIMIT}, /* rows */
        {"SELECT randomblob(1e9)", E_LIMIT},
        {"SELECT zeroblob(1e9)", E_LIMIT},
        {"SELECT length(replace(hex(zeroblob(500000)), '0', hex(zeroblob(500000))))", E_LIMIT},
        {"SELECT count(*) FROM cpu a, cpu b, cpu c, cpu d", -ETIMEDOUT},
        {"SELECT a.n FROM cpu a, cpu b ORDER BY a.n + b.n, randomblob(2000)", E_LIMIT},
    };
    fill_cpu();
    const struct sql_limits limits = {.time_ns = SECOND, .rows = 100000, .bytes = 16 << 20};
    t.query.limits = &limits;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        int r = run(&t, hostile[i].text);
        bool is_either = r == -ETIMEDOUT || r == E_LIMIT; /* under a sanitizer time may run out first */
        if (r != hostile[i].r && !(is_either && r == -ETIMEDOUT))
            fail_msg("%s: %d %s", hostile[i].text, r, t.why.message);
        assert_true(t.why.message[0]);
        /* The next one has all its memory again. */
        assert_string_equal(run_text(&t, "SELECT count(*) FROM (SELECT n FROM cpu ORDER BY usage)"), "400");
    }
}

/* Memory that ends anywhere ends the query and nothing else. */
static void memory_ends_anywhere(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SELECT host, bucket(time, '10s'), median(n), counter_rate(time, n) FROM cpu GROUP BY 1, 2 ORDER BY "
        "3",
        "SELECT a.n, replace(a.host, 'a', 'b') FROM cpu_latest a JOIN cpu b ON a.host = b.host AND b.n IN "
        "(5, 1005)",
    };
    struct sql_limits limits = {.bytes = 0};
    fill_cpu();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool is_done = false;
        for (limits.bytes = 256; !is_done; limits.bytes += 64 + limits.bytes / 128) {
            t.query.limits = &limits;
            int r = run(&t, texts[i]);
            if (r != 0 && r != E_LIMIT)
                fail_msg("%zu bytes: %d %s", limits.bytes, r, t.why.message);
            is_done = r == 0;
            assert_true(limits.bytes < 64 << 20);
        }
        t.query.limits = NULL;
        assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu"), "400");
    }
}

/* One call of a function can't be interrupted: whatever two lengths multiply in must be bounded. */
static void long_calls_end(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SELECT instr(hex(zeroblob(500000)), hex(zeroblob(250000)) || '1')",
        "SELECT length(replace(hex(zeroblob(500000)), hex(zeroblob(250000)) || '1', ''))",
        "SELECT length(trim(hex(zeroblob(500000)), '0'))",
        "SELECT hex(zeroblob(500000)) LIKE '%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%0%1'",
        "SELECT hex(zeroblob(500000)) GLOB '*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*1'",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(run(&t, texts[i]), 0);
    assert_string_equal(
        run_text(&t, "SELECT instr('grün', 'n'), instr(x'000102', x'02'), instr('a', ''), instr('a', 'b'), "
                     "instr(NULL, 'a')"),
        "4|3|1|0|NULL");
    assert_string_equal(
        run_text(&t, "SELECT replace('aXbXc', 'X', '--'), replace('a', '', 'b'), replace('aaa', 'a', '')"),
        "a--b--c|a|");
    assert_string_equal(
        run_text(&t, "SELECT trim('  a b '), ltrim('xxaxx', 'x'), rtrim('aüü', 'ü'), trim('', 'x')"),
        "a b|axx|a|");
    assert_int_equal(run(&t, "SELECT trim('a', hex(zeroblob(100)))"), E_PROTO);
    /* SQLite's own answer to what is too long for a text. */
    assert_string_equal(run_text(&t, "SELECT printf('%1000000000d', 1), printf('%.1000000000f', 1)"),
                        "NULL|NULL");
}

static void stops_when_cancelled(void **state)
{
    (void)state;
    _Atomic bool is_cancelled = true;
    _Atomic uint64_t seen = 0;
    fill_cpu();
    t.query.is_cancelled = &is_cancelled;
    t.query.progress = &seen;
    assert_int_equal(run(&t, "SELECT count(*) FROM cpu"), -ECANCELED);
    atomic_store(&is_cancelled, false);
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu"), "400");
    assert_int_equal(atomic_load(&seen), 400);
}

static void one_statement_at_a_time(void **state)
{
    (void)state;
    const struct sql_query q = {.text = SLICE_LIT("SELECT 1")};
    struct sql_statement *s = NULL, *second = NULL;
    assert_int_equal(sql_prepare(t.engine, &q, &s, &t.why), 0);
    assert_int_equal(sql_prepare(t.engine, &q, &second, &t.why), -EBUSY);
    assert_int_equal(sql_step(s, &t.why), 1);
    assert_int_equal(sql_step(s, &t.why), 0);
    sql_finish(s);
}

/* ---------------------------------------------------------------- what may be seen */

static bool may_table(void *arg, struct slice event)
{
    (void)arg;
    return !slice_eq_str(event, "secret");
}

static bool may_stream(void *arg, struct slice event, struct slice host)
{
    (void)arg;
    (void)event;
    return !slice_eq_str(host, "b");
}

static bool may_field(void *arg, struct slice event, struct slice host, struct slice field)
{
    (void)arg;
    (void)event;
    (void)host;
    return !slice_eq_str(field, "usage") && !slice_eq_str(field, "device");
}

static void shows_what_may_be_seen(void **state)
{
    (void)state;
    const struct sql_access access = {
        .may_table = may_table, .may_stream = may_stream, .may_field = may_field};
    const struct field fields[] = {{.name = SLICE_LIT("device"), .type = VALUE_TEXT, .role = ROLE_KEY},
                                   {.name = SLICE_LIT("n"), .type = VALUE_INT}};
    const struct value values[] = {value_text(SLICE_LIT("sda")), value_int(4)};
    const struct event_head head = {.time_ns = BASE, .host = SLICE_LIT("a")};
    struct schema *disk = NULL;
    assert_int_equal(schema_create(SLICE_LIT("disk"), fields, 2, &disk), 0);
    fill_cpu();
    ADD("secret", "a", BASE, LEVEL_INFO, FIELD("n", value_int(1)));
    assert_int_equal(batch_builder_add_known(t.builder, &head, disk, values, NULL), 0);
    run_append(&t, NULL);
    schema_unref(disk);
    for (int i = 0; i < 2; i++) {
        t.query.access = NULL;
        assert_string_equal(run_text(&t, "SELECT n FROM secret"), "1");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM tables WHERE name = 'secret'"), "1");
        assert_string_equal(run_text(&t, "SELECT n FROM disk WHERE device = 'sda'"), "4");
        t.query.access = &access;
        check_refused("SELECT n FROM secret", E_PROTO, 15, "no such table: secret; `gridline schemas`");
        check_refused("SELECT n FROM 'secret'", E_PROTO, 0, "no such table: secret; `gridline schemas`");
        check_refused("SELECT n FROM secre", E_PROTO, 15, "no such table: secre; `gridline schemas`");
        check_refused("SELECT count(*) FROM secret_latest", E_PROTO, 0, "no such table");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM tables WHERE name = 'secret'"), "0");
        assert_string_equal(run_text(&t, "SELECT event, fields FROM tables WHERE name = 'disk'"),
                            "disk|device,n");
        assert_string_equal(run_text(&t, "SELECT DISTINCT host FROM cpu"), "a");
        assert_string_equal(run_text(&t, "SELECT host FROM cpu_latest"), "a");
        assert_string_equal(run_text(&t, "SELECT count(*), count(usage), max(n) FROM cpu"), "200|0|199");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu WHERE usage > 0"), "0");
        assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu WHERE usage IS NULL"), "200");
        assert_string_equal(run_text(&t, "SELECT device, n FROM disk"), "NULL|4");
        assert_string_equal(run_text(&t, "SELECT n FROM disk WHERE device = 'sda'"), "");
        assert_string_equal(run_text(&t, "SELECT n FROM disk_latest WHERE device = 'sda'"), "");
        assert_int_equal(archive_flush(t.a), 0);
    }
}

/* ---------------------------------------------------------------- functions */

static void knows_times(void **state)
{
    (void)state;
    assert_string_equal(run_text(&t, "SELECT time_text(at('2026-11-15T21:00:00Z')), time_text(0), at(NULL)"),
                        "2026-11-15T21:00:00.000000Z|1970-01-01T00:00:00.000000Z|NULL");
    assert_string_equal(run_text(&t, "SELECT at('now') - at('now-15m'), at('now') = at('now'), at(5)"),
                        "900000000000|1|5");
    assert_string_equal(run_text(&t, "SELECT abs(at('now') / 1000000000 - unixepoch('now')) < 3600"), "1");
    assert_string_equal(
        run_text(&t, "SELECT duration('1h30m'), duration('250ms'), duration('-1d 2h'), duration(7)"),
        "5400000000000|250000000|-93600000000000|7");
    assert_string_equal(
        run_text(&t, "SELECT duration_text(5400000000000), duration_text(-1500000001), duration_text(0)"),
        "1h30m|-1s500ms1ns|0s");
    assert_string_equal(
        run_text(&t, "SELECT bucket(at('2026-11-15T21:00:17Z'), '10s') = at('2026-11-15T21:00:10Z'), "
                     "bucket(-1, 10), bucket(20, 10), bucket(NULL, 10)"),
        "1|-10|20|NULL");
    assert_string_equal(run_text(&t, "SELECT severity('error') < severity('warning'), severity('x')"),
                        "1|NULL");
    static const char *const wrong[] = {
        "SELECT duration('abc')", "SELECT duration('1h30')||duration('m')",
        "SELECT bucket(1, 0)",    "SELECT bucket(1, '-5s')",
        "SELECT duration('')",    "SELECT time_text(1e300)",
        "SELECT duration(1.5)",   "SELECT bucket(-9223372036854775807, 1000)"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(run(&t, wrong[i]), E_PROTO);
}

static void rates_counters(void **state)
{
    (void)state;
    static const int64_t readings[] = {100, 150, 10, 30}; /* set to zero once */
    for (int i = 3; i >= 0; i--)
        ADD("net", "a", BASE + i * 10 * SECOND, LEVEL_INFO, FIELD("bytes", value_int(readings[i])));
    ADD("net", "a", BASE + 5 * SECOND, LEVEL_INFO, FIELD("other", value_int(1)));
    run_append(&t, NULL);
    assert_string_equal(
        run_text(&t, "SELECT counter_increase(time, bytes), counter_rate(time, bytes) FROM net"),
        "80.0|2.6666666666666665");
    assert_string_equal(
        run_text(&t, "SELECT counter_rate(time, bytes) OVER (ORDER BY time ROWS 1 PRECEDING) FROM net "
                     "WHERE bytes IS NOT NULL ORDER BY time"),
        "NULL;5.0;1.0;2.0");
    assert_string_equal(run_text(&t, "SELECT counter_rate(time, bytes) FROM net WHERE bytes > 1000"), "NULL");
}

static void percentiles(void **state)
{
    (void)state;
    fill_cpu();
    assert_string_equal(
        run_text(
            &t,
            "SELECT percentile(n, 0), percentile(n, 50), percentile(n, 100), median(n), percentile(n, 99) "
            "FROM cpu WHERE host = 'a'"),
        "0.0|99.5|199.0|99.5|197.01");
    assert_string_equal(run_text(&t, "SELECT percentile(n, 50) FROM cpu WHERE n > 5000"), "NULL");
    assert_string_equal(
        run_text(&t,
                 "SELECT max(m) FROM (SELECT median(n) OVER (ORDER BY time ROWS 2 PRECEDING) AS m FROM cpu "
                 "WHERE host = 'a')"),
        "198.0");
    assert_int_equal(run(&t, "SELECT percentile(n, 101) FROM cpu"), E_PROTO);
    assert_int_equal(run(&t, "SELECT percentile(n, n) FROM cpu"), E_PROTO);
}

/* ---------------------------------------------------------------- mounted tables */

static void reads_mounted_tables(void **state)
{
    (void)state;
    fill_cpu();
    ADD("sensors", "x", BASE, LEVEL_INFO, FIELD("name", value_text(SLICE_LIT("load"))),
        FIELD("host", value_text(SLICE_LIT("n1"))));
    ADD("sensors", "x", BASE, LEVEL_INFO, FIELD("name", value_text(SLICE_LIT("disk"))),
        FIELD("period", value_float(2.5)));
    struct batch *b = batch_builder_finish(t.builder, NULL);
    assert_non_null(b);
    struct table_rows mounted[2] = {
        {.name = "sensors", .schema = schema_ref(b->events[1].schema)},
        {.name = "cpu_latest", .has_heads = true, .schema = schema_ref(b->events[1].schema)}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(table_rows_add(&mounted[i], batch_ref(b)), 0);
    batch_unref(b);
    t.query.mounted = mounted;
    t.query.n_mounted = 2;
    assert_string_equal(run_text(&t, "SELECT * FROM Sensors ORDER BY name"), "disk|NULL|2.5;load|n1|NULL");
    assert_string_equal(run_text(&t, "SELECT host, level, \"$host\" FROM cpu_latest WHERE name = 'load'"),
                        "x|info|n1");
    assert_string_equal(run_text(&t, "SELECT s.name FROM sensors s JOIN cpu ON cpu.n = s.period * 2"),
                        "disk");
    t.query.n_mounted = 0;
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu_latest"), "2");
    assert_int_equal(run(&t, "SELECT * FROM sensors"), E_PROTO);
    for (int i = 0; i < 2; i++)
        table_rows_fini(&mounted[i]);
}

static void name_seen(void *arg, struct slice name)
{
    struct strbuf *out = arg;
    strbuf_printf(out, "%.*s,", SLICE_ARG(name));
}

static void finds_identifiers(void **state)
{
    (void)state;
    struct strbuf out = {0};
    sql_identifiers(
        SLICE_LIT(
            "SELECT \"a.b\", `c`, [d] /* no \" */ FROM x1 -- y\n WHERE s = 'it''s' AND 1e5 > _k$ AND x'00'"),
        name_seen, &out);
    assert_string_equal(out.p, "SELECT,a.b,c,d,FROM,x1,WHERE,s,AND,_k$,AND,x,");
    strbuf_reset(&out);
    sql_identifiers(SLICE_LIT("\"open"), name_seen, &out);
    sql_identifiers(SLICE_LIT("'"), name_seen, &out);
    sql_identifiers(SLICE_LIT("/*"), name_seen, &out);
    sql_table_name(&out, SLICE_LIT("Job.state-2"));
    sql_table_name(&out, SLICE_LIT("9x"));
    assert_string_equal(out.p, "ope,job_state_2_9x");
    strbuf_fini(&out);
}

/* Tables stay on the connection, and get the columns that come later. */
static void tables_grow(void **state)
{
    (void)state;
    ADD("g", "a", BASE, LEVEL_INFO, FIELD("n", value_int(1)));
    run_append(&t, NULL);
    assert_string_equal(run_text(&t, "SELECT * FROM g"), "1794776400000000000|a|p|info|1");
    ADD("g", "a", BASE + 1, LEVEL_INFO, FIELD("m", value_int(2)));
    run_append(&t, NULL);
    assert_string_equal(run_text(&t, "SELECT n, m FROM g ORDER BY time"), "1|NULL;NULL|2");
    char text[64];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof text, "many.%d", i);
        ADD(text, "a", BASE, LEVEL_INFO, FIELD("n", value_int(i)));
    }
    run_append(&t, NULL);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof text, "SELECT n FROM many_%d", i);
        assert_int_equal(strtol(run_text(&t, text), NULL, 10), i);
    }
    assert_string_equal(run_text(&t, "SELECT count(*) FROM g"), "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_the_newest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_the_past, set_up, tear_down),
        cmocka_unit_test_setup_teardown(joins_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exact_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(knows_where_rows_are_from, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_wide_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_what_is_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_what_is_too_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_ends_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_calls_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stops_when_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_statement_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shows_what_may_be_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(knows_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rates_counters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(percentiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_mounted_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(finds_identifiers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tables_grow, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
