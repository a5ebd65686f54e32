/* SPDX-License-Identifier: Apache-2.0 */
/* NAME_bucket and samples_bucket give what GROUP BY over the event's table gives; what they take and refuse.
 */
#include "unit/archive/model.h"
#include "unit/archive/sql_run.h"

#include <errno.h>
#include <inttypes.h>

static struct model m;
static struct sql_run t; /* its engine is over the model's archive */

static int set_up(void **state)
{
    (void)state;
    model_init(&m, 5);
    t = (struct sql_run){.a = m.a, .reader = m.reader};
    assert_int_equal(sql_engine_create(m.reader, &t.engine), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sql_engine_destroy(t.engine);
    strbuf_fini(&t.out);
    model_fini(&m);
    return 0;
}

/* $from, $to and $step in the text. */
static void fill_in(struct strbuf *out, const char *text, int64_t from, int64_t to, int64_t step)
{
    const struct {
        const char *name;
        int64_t value;
    } all[] = {{"$from", from}, {"$to", to}, {"$step", step}};
    while (*text) {
        size_t i = 0;
        while (i < 3 && strncmp(text, all[i].name, strlen(all[i].name)) != 0)
            i++;
        if (i < 3)
            strbuf_printf(out, "%" PRId64, all[i].value);
        else
            strbuf_add_char(out, *text);
        text += i < 3 ? strlen(all[i].name) : 1;
    }
}

/* Both texts give the same with the same range and step. */
static void same(const char *a, const char *b, int64_t from, int64_t to, int64_t step)
{
    struct strbuf first = {0}, text = {0};
    fill_in(&text, a, from, to, step);
    strbuf_add_str(&first, run_text(&t, text.p));
    strbuf_reset(&text);
    fill_in(&text, b, from, to, step);
    assert_string_equal(run_text(&t, text.p), first.p);
    strbuf_fini(&first);
    strbuf_fini(&text);
}

static void is_group_by(void **state)
{
    (void)state;
    model_fill(&m, 60);
    static const int64_t steps[] = {1, 10, 60, 600};
    for (int i = 0; i < 12; i++) {
        int64_t from = m.base_ns + (int64_t)model_random(&m, 700) * SECOND,
                to = from + (int64_t)model_random(&m, 700) * SECOND;
        int64_t step = steps[i % 4] * SECOND;
        same("SELECT bucket(time, $step), host, prog, device, count(*), count(i), min(i), max(i), count(f), "
             "min(f), "
             "max(f), sum(f), avg(f), count(u), max(u), count(s) FROM disk_io WHERE time >= $from AND time < "
             "$to GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
             "SELECT time, host, prog, device, rows, i_count, i_min, i_max, f_count, f_min, f_max, f_sum, "
             "f_avg, u_count, "
             "u_max, s_count FROM disk_io_bucket($from, $to, $step) ORDER BY 1, 2, 3, 4",
             from, to, step);
        same("SELECT host, sum(f), count(i) FROM cpu WHERE time >= $from AND time < $to AND host IN ('h0', "
             "'h2') AND i > 10 GROUP BY 1 ORDER BY 1",
             "SELECT host, f_sum, i_count FROM cpu_bucket($from, $to, NULL, 'i > 10') WHERE host IN ('h0', "
             "'h2') ORDER BY 1",
             from, to, step);
    }
}

static void first_and_last(void **state)
{
    (void)state;
    model_fill(&m, 40);
    char text[400];
    int64_t to = m.base_ns + m.span_ns;
    (void)snprintf(text, sizeof text,
                   "SELECT host, i_first, i_last, s_last FROM cpu_bucket(%" PRId64 ", %" PRId64
                   ") WHERE host = 'h1'",
                   m.base_ns, to);
    const struct model_row *first = NULL, *last = NULL, *last_s = NULL;
    for (size_t i = 0; i < m.n; i++) {
        const struct model_row *r = &m.rows[i];
        if (r->name != 0 || r->host != 1)
            continue;
        if (r->v[M_INT].type && (!first || r->time_ns < first->time_ns))
            first = r;
        if (r->v[M_INT].type && (!last || r->time_ns >= last->time_ns))
            last = r;
        if (r->v[M_TEXT].type && (!last_s || r->time_ns >= last_s->time_ns))
            last_s = r;
    }
    char want[100];
    (void)snprintf(want, sizeof want, "h1|%" PRId64 "|%" PRId64 "|%.*s", first->v[M_INT].i, last->v[M_INT].i,
                   SLICE_ARG(value_slice(last_s->v[M_TEXT])));
    assert_string_equal(run_text(&t, text), want);
}

static void samples_of_all(void **state)
{
    (void)state;
    model_fill(&m, 60);
    assert_int_equal(archive_flush(m.a), 0);
    model_fill(&m, 5);
    uint64_t count = 0, above = 0;
    for (size_t i = 0; i < m.n; i++)
        for (int f = 0; f < M_FIELDS; f++) {
            struct value v = m.rows[i].v[f];
            if (f == M_TEXT || v.type == VALUE_NONE || (v.type == VALUE_FLOAT && isnan(v.f)))
                continue;
            count++;
            above += model_number(v) > 40.5;
        }
    char want[64];
    (void)snprintf(want, sizeof want, "%" PRIu64, count);
    assert_string_equal(run_text(&t, "SELECT sum(count) FROM samples_bucket(NULL, NULL)"), want);
    assert_string_equal(run_text(&t, "SELECT sum(count) FROM samples_bucket('2020-01-01', 'now', '1m')"),
                        want);
    (void)snprintf(want, sizeof want, "%" PRIu64, above);
    assert_string_equal(
        run_text(&t, "SELECT sum(count) FROM samples_bucket(NULL, NULL, NULL, 'value > 40.5')"), want);
    assert_string_equal(
        run_text(&t, "SELECT sum(count) FROM samples_bucket(NULL, NULL, '7s', 'value > 40.5')"), want);
    same("SELECT host, count(f), sum(f), min(f), max(f) FROM disk_io WHERE device = 'd1' GROUP BY 1 ORDER BY "
         "1",
         "SELECT host, count, sum, min, max FROM samples_bucket() WHERE name = 'disk.io' AND field = 'f' AND "
         "keys = "
         "'device=d1' ORDER BY 1",
         0, 0, 0);
    assert_string_equal(
        run_text(&t, "SELECT DISTINCT name, field FROM samples_bucket() WHERE host = 'h0' ORDER BY 1, 2"),
        "cpu|b;cpu|f;cpu|i;cpu|two;cpu|u;disk.io|b;disk.io|f;disk.io|i;disk.io|two;disk.io|u");
}

/* Two branches of an OR, a join in which the range comes from another table, and a CTE. */
static void composes(void **state)
{
    (void)state;
    model_fill(&m, 40);
    same("SELECT host, count(*) FROM cpu WHERE host = 'h0' OR host = 'h1' GROUP BY 1 ORDER BY 1",
         "SELECT host, sum(rows) FROM cpu_bucket(NULL, NULL, '1m') WHERE host = 'h0' OR host = 'h1' GROUP BY "
         "1 ORDER BY 1",
         0, 0, 0);
    same("WITH r(low, high) AS (VALUES ($from, $to), ($to, $to + 60000000000)) SELECT low, count(*) FROM r "
         "JOIN cpu ON "
         "time >= low AND time < high GROUP BY 1 ORDER BY 1",
         "WITH r(low, high) AS (VALUES ($from, $to), ($to, $to + 60000000000)) SELECT low, sum(rows) FROM r "
         "JOIN "
         "cpu_bucket(r.low, r.high) GROUP BY 1 ORDER BY 1",
         m.base_ns, m.base_ns + 500 * SECOND, 0);
    same("SELECT max(n) FROM (SELECT count(*) n FROM cpu GROUP BY bucket(time, '1m'), host)",
         "WITH c AS (SELECT * FROM cpu_bucket(NULL, NULL, '60s')) SELECT max(rows) FROM c", 0, 0, 0);
}

static void refuses(void **state)
{
    (void)state;
    model_fill(&m, 10);
    static const struct {
        const char *text, *why;
    } bad[] = {{"SELECT * FROM cpu_bucket('yesterdayish')", "from: "},
               {"SELECT * FROM cpu_bucket(NULL, NULL, '5 potatoes')", "step: "},
               {"SELECT * FROM cpu_bucket(NULL, NULL, -5)", "step: a duration from 0 on"},
               {"SELECT * FROM cpu_bucket(NULL, NULL, NULL, 'i >')", "character 4: a number should be here"},
               {"SELECT * FROM cpu_bucket(NULL, NULL, NULL, 's > 5')", "no field s with numbers"},
               {"SELECT * FROM samples_bucket(NULL, NULL, NULL, 'i > 5')", "about value"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(run(&t, bad[i].text) < 0);
        if (!strstr(t.why.message, bad[i].why))
            fail_msg("%s: %s", bad[i].text, t.why.message);
    }
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu_bucket(5, 4)"), "0");
}

static void knows_limits(void **state)
{
    (void)state;
    model_fill(&m, 500);
    struct sql_limits limits = {.bytes = 1 << 20};
    t.query.limits = &limits;
    assert_int_equal(
        run(&t, "SELECT count(*), sum(i_sum), sum(f_sum), sum(u_sum) FROM cpu_bucket(NULL, NULL, '50ms')"),
        E_LIMIT);
    assert_non_null(strstr(t.why.message, "a longer step"));
    assert_int_equal(run(&t, "SELECT sum(i_sum) FROM cpu_bucket(NULL, NULL, '1h')"), 0);
}

static bool may_stream(void *arg, struct slice event, struct slice host)
{
    (void)arg;
    (void)event;
    return slice_eq_str(host, "h1");
}

static bool may_field(void *arg, struct slice event, struct slice host, struct slice field)
{
    (void)arg;
    (void)event;
    (void)host;
    return !slice_eq_str(field, "f") && !slice_eq_str(field, "device");
}

static void shows_what_may_be_seen(void **state)
{
    (void)state;
    model_fill(&m, 40);
    const struct sql_access access = {.may_stream = may_stream, .may_field = may_field};
    t.query.access = &access;
    assert_string_equal(
        run_text(&t, "SELECT DISTINCT host, device, f_count, f_max, i_count > 0 FROM disk_io_bucket()"),
        "h1|NULL|NULL|NULL|1");
    assert_string_equal(
        run_text(&t, "SELECT DISTINCT host, keys, field FROM samples_bucket() WHERE name = 'disk.io' ORDER "
                     "BY 3"),
        "h1|NULL|b;h1|NULL|i;h1|NULL|two;h1|NULL|u");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu_bucket(NULL, NULL, NULL, 'f > -1000')"), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_group_by, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_and_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples_of_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(composes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(knows_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shows_what_may_be_seen, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
