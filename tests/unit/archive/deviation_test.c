/* SPDX-License-Identifier: Apache-2.0 */
/* A workload of requests and of metrics, twice; in the second one hop is slower and one metric higher, and
 * these are found, by one statement, and nothing else (NL-7). */
#include "unit/archive/sql_run.h"

#include "archive/deviation.h"
#include "base/clock.h"

#include <errno.h>
#include <math.h>

#define SECOND      INT64_C(1000000000)
#define BASE        (INT64_C(1794776400) * SECOND) /* 2026-11-15T21:00:00Z */
#define RUN         (BASE + 7200 * SECOND)
#define FIELD(z, v) ((struct named_value){.name = {z, sizeof z - 1}, .value = v})

static struct sql_run t;
static uint64_t seed;

static int set_up(void **state)
{
    (void)state;
    seed = 11;
    run_init(&t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run_fini(&t);
    return 0;
}

/* About normal: mean 0, deviation 1. */
static double noise(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(test_random(&seed) >> 11) / (double)(UINT64_C(1) << 53);
    return sum;
}

static void add(const char *name, const char *host, int64_t time_ns, const struct named_value *v, size_t n)
{
    const struct event_head head = {.time_ns = time_ns,
                                    .name = slice_str(name),
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("server"),
                                    .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(t.builder, &head, v, n, NULL), 0);
}

struct workload {
    int64_t at_ns;
    double read_s, memory, rate; /* of one hop, of one metric on host b, and of a counter a second */
    bool has_retry;              /* an event that was not there before */
};

static const struct field counter_fields[] = {
    {.name = {"packets", 7}, .unit = {"1", 1}, .help = {"", 0}, .type = VALUE_UINT, .kind = KIND_COUNTER}};

static void request(const struct workload *w, int i)
{
    char id[24];
    int n = snprintf(id, sizeof id, "r%d", i);
    struct named_value v = FIELD("id", value_text(slice_of(id, (size_t)n)));
    int64_t at = w->at_ns + i * SECOND;
    add("request.start", "a", at, &v, 1);
    at += (int64_t)((0.010 + 0.001 * noise()) * 1e9);
    add("disk.read", "b", at, &v, 1);
    at += (int64_t)((w->read_s + 0.002 * noise()) * 1e9);
    if (w->has_retry && i % 20 == 0)
        add("disk.retry", "b", at - 1000, &v, 1);
    add("request.end", "a", at, &v, 1);
}

static void put_workload(const struct workload *w)
{
    struct schema *counters = NULL;
    double packets = 5;
    assert_int_equal(schema_create(SLICE_LIT("net"), counter_fields, 1, &counters), 0);
    for (int i = 0; i < 300; i++) {
        request(w, i);
        const struct named_value a[] = {FIELD("used", value_float(50 + noise())), FIELD("n", value_int(7))};
        const struct named_value b[] = {FIELD("used", value_float(w->memory + noise())),
                                        FIELD("n", value_int(7))};
        add("memory", "a", w->at_ns + i * SECOND, a, 2);
        add("memory", "b", w->at_ns + i * SECOND, b, 2);
        packets += w->rate + noise();
        const struct event_head head = {.time_ns = w->at_ns + i * SECOND,
                                        .host = SLICE_LIT("a"),
                                        .prog = SLICE_LIT("server"),
                                        .level = LEVEL_INFO};
        const struct value value = value_uint((uint64_t)packets);
        assert_int_equal(batch_builder_add_known(t.builder, &head, counters, &value, NULL), 0);
    }
    run_append(&t, NULL);
    schema_unref(counters);
}

static void set_baseline(const char *where)
{
    const struct baseline b = {.name = SLICE_LIT("good"),
                               .label = SLICE_LIT("as it should be"),
                               .from_ns = BASE,
                               .to_ns = BASE + 3600 * SECOND,
                               .where = slice_str(where)};
    assert_int_equal(archive_set_baseline(t.a, &b), 0);
    assert_int_equal(archive_flush(t.a), 0); /* half of it is on disk */
}

static const struct workload good = {.at_ns = BASE, .read_s = 0.030, .memory = 70, .rate = 100};

#define STATEMENT                                                                      \
    "SELECT kind, event, coalesce(next, ''), coalesce(host, ''), coalesce(field, '') " \
    "FROM deviations('good', '2026-11-15T23:00:00Z', '2026-11-16T00:00:00Z') ORDER BY kind, event, host"

static void same_is_nothing(void **state)
{
    (void)state;
    struct workload again = good;
    again.at_ns = RUN;
    put_workload(&good);
    set_baseline("");
    put_workload(&again);
    assert_string_equal(run_text(&t, STATEMENT), "");
    /* with k = 0 everything that is compared */
    assert_string_equal(run_text(&t, "SELECT kind, count(*) FROM deviations('good', '2026-11-15T23:00:00Z', "
                                     "'2026-11-16T00:00:00Z', 0) GROUP BY kind"),
                        "hop|2;metric|3");
}

static void injected_change(void **state)
{
    (void)state;
    struct workload worse = {.at_ns = RUN, .read_s = 0.060, .memory = 90, .rate = 100};
    put_workload(&good);
    set_baseline("");
    put_workload(&worse);
    assert_string_equal(run_text(&t, STATEMENT), "hop|disk.read|request.end||;metric|memory||b|used");
    assert_string_equal(
        run_text(&t,
                 "SELECT kind, base_count, run_count, printf('%.2g', base_mean), printf('%.2g', run_mean), "
                 "round(ratio, 1), unit, score > 3 FROM deviations('good', '2026-11-15T23:00:00Z', "
                 "'2026-11-16T00:00:00Z') ORDER BY kind"),
        "hop|300|300|0.03|0.06|2.0|s|1;metric|300|300|70|90|1.3|NULL|1");
}

static void rates_and_new_hops(void **state)
{
    (void)state;
    struct workload worse = {.at_ns = RUN, .read_s = 0.030, .memory = 70, .rate = 300, .has_retry = true};
    put_workload(&good);
    set_baseline("");
    put_workload(&worse);
    assert_string_equal(run_text(&t, STATEMENT),
                        "hop|disk.read|disk.retry||;hop|disk.retry|request.end||;metric|net||a|packets");
    assert_string_equal(run_text(&t,
                                 "SELECT next, base_count, run_count, score FROM deviations('good', "
                                 "'2026-11-15T23:00:00Z', '2026-11-16T00:00:00Z') WHERE next = 'disk.retry'"),
                        "disk.retry|0|15|NULL");
}

/* The baseline's condition is asked of both. */
static void condition(void **state)
{
    (void)state;
    struct workload worse = {.at_ns = RUN, .read_s = 0.060, .memory = 90, .rate = 300};
    put_workload(&good);
    set_baseline("host = 'a'");
    put_workload(&worse);
    assert_string_equal(run_text(&t, STATEMENT), "hop|request.start|request.end||;metric|net||a|packets");
}

static bool not_b(void *arg, struct slice event, struct slice host)
{
    (void)arg;
    (void)event;
    return !slice_eq_str(host, "b");
}

static void what_may_be_seen(void **state)
{
    (void)state;
    struct workload worse = {.at_ns = RUN, .read_s = 0.060, .memory = 90, .rate = 100};
    const struct sql_access access = {.may_stream = not_b};
    put_workload(&good);
    set_baseline("");
    put_workload(&worse);
    t.query.access = &access;
    assert_string_equal(run_text(&t, STATEMENT), "hop|request.start|request.end||");
}

static void wrong(void **state)
{
    (void)state;
    put_workload(&good);
    set_baseline("");
    assert_int_equal(run(&t, "SELECT * FROM deviations('bad', 'now-1h', 'now')"), E_PROTO);
    assert_non_null(strstr(t.why.message, "no baseline 'bad'"));
    assert_int_equal(run(&t, "SELECT * FROM deviations('good', 'now', 'now-1h')"), E_PROTO);
    assert_non_null(strstr(t.why.message, "ends before it begins"));
    assert_int_equal(run(&t, "SELECT * FROM deviations('good')"), E_PROTO);
    assert_non_null(strstr(t.why.message, "deviations needs"));
    assert_int_equal(run(&t, "SELECT * FROM deviations('good', 'whenever', 'now')"), E_PROTO);
    assert_int_equal(run(&t, "SELECT * FROM deviations"), E_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_is_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(injected_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rates_and_new_hops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(condition, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_may_be_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
