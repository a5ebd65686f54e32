/* SPDX-License-Identifier: Apache-2.0 */
/* Lost samples come back as estimates within their error, and only those: measured rows stay as they are, and
 * a silence in which nothing was lost stays one. */
#include "unit/archive/sql_run.h"

#include "archive/rebuild.h"
#include "archive/rebuild_fit.h"

#include <inttypes.h>
#include <math.h>

#define SECOND INT64_C(1000000000)
#define BASE   (INT64_C(1794776400) * SECOND)

static struct sql_run t;
static uint64_t seed, seq;
static struct schema *vector;

enum { F_LINE, F_NOISE, F_COUNTER, F_STATE, F_INT, FIELDS };

static int set_up(void **state)
{
    const struct field f[FIELDS] = {
        [F_LINE] = {.name = SLICE_LIT("line"), .type = VALUE_FLOAT, .kind = KIND_GAUGE},
        [F_NOISE] = {.name = SLICE_LIT("noise"), .type = VALUE_FLOAT, .kind = KIND_GAUGE},
        [F_COUNTER] = {.name = SLICE_LIT("counter"), .type = VALUE_UINT, .kind = KIND_COUNTER},
        [F_STATE] = {.name = SLICE_LIT("state"), .type = VALUE_TEXT, .kind = KIND_STATE},
        [F_INT] = {.name = SLICE_LIT("int"), .type = VALUE_INT, .kind = KIND_GAUGE}};
    (void)state;
    run_init(&t);
    seed = 1;
    seq = 0;
    assert_int_equal(schema_create(SLICE_LIT("vector"), f, FIELDS, &vector), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    schema_unref(vector);
    run_fini(&t);
    return 0;
}

static double noise(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)(test_random(&seed) % 1000000) / 1e6;
    return sum - 6; /* about normal, of deviation 1 */
}

static int reset_at; /* 0: never */

static uint64_t counter_at(int i)
{
    return reset_at && i >= reset_at ? (uint64_t)(i - reset_at) * 10 : 1000 + (uint64_t)i * 10;
}

static double truths[4000];

/* Sample i of the host: sent, or its number is used up all the same. */
static void sample(const char *host, int i, bool is_lost)
{
    struct value v[FIELDS] = {[F_LINE] = value_float(5 + i * 0.25),
                              [F_NOISE] = value_float(50 + 10 * sin(i * 2 * M_PI / 400) + noise()),
                              [F_COUNTER] = value_uint(counter_at(i)),
                              [F_STATE] = value_text(slice_str(i < 150 ? "up" : "down")),
                              [F_INT] = value_int(100 - i)};
    const struct event_head head = {.time_ns = BASE + i * SECOND,
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("agent"),
                                    .level = LEVEL_INFO};
    struct batch_origin o = {.producer = "producer", .epoch = 4, .first_seq = ++seq};
    o.producer[15] = (uint8_t)host[0];
    truths[i] = v[F_NOISE].f;
    if (is_lost)
        return;
    assert_int_equal(batch_builder_add_known(t.builder, &head, vector, v, NULL), 0);
    run_append(&t, &o);
}

static bool is_lost_at(int i)
{
    return (i >= 50 && i < 53) || i == 80 || (i >= 147 && i < 153) || i % 37 == 5;
}

static void fills_what_was_lost(void **state)
{
    (void)state;
    int lost = 0;
    for (int i = 0; i < 300; i++) {
        sample("a", i, is_lost_at(i));
        lost += is_lost_at(i);
        if (i == 120 || i == 151)
            assert_int_equal(archive_flush(t.a), 0);
    }
    char want[64];
    (void)snprintf(want, sizeof want, "0|%d;1|%d", 300 - lost, lost);
    assert_string_equal(
        run_text(&t, "SELECT is_rebuilt, count(*) FROM rebuild('vector') WHERE field = 'line' GROUP BY 1 "
                     "ORDER BY 1"),
        want);
    /* A line is rebuilt exactly, and times are those of the samples. */
    assert_string_equal(
        run_text(&t,
                 "SELECT count(*) FROM rebuild('vector') WHERE field = 'line' AND abs(value - (5 + (time - "
                 "1794776400000000000) / 1e9 * 0.25)) > 1e-6"),
        "0");
    assert_string_equal(
        run_text(&t, "SELECT count(*) FROM rebuild('vector') WHERE field IN ('int') AND value != 100 - "
                     "(time - 1794776400000000000) / 1000000000"),
        "0");
    assert_string_equal(
        run_text(&t,
                 "SELECT count(*) FROM rebuild('vector') WHERE field = 'counter' AND value != 1000 + 10 * "
                 "((time - 1794776400000000000) / 1000000000)"),
        "0");
    /* A state that has changed in the gap is not guessed: that of 147 to 152. */
    assert_string_equal(
        run_text(&t, "SELECT count(*), min(time), max(time) FROM rebuild('vector') WHERE field = 'state' AND "
                     "is_rebuilt AND value = 'up' AND error IS NULL"),
        "8|1794776405000000000|1794776516000000000");
    /* Measured rows have no error; and nothing has been stored. */
    assert_string_equal(
        run_text(&t, "SELECT count(*) FROM rebuild('vector') WHERE NOT is_rebuilt AND error IS NOT NULL"),
        "0");
    (void)snprintf(want, sizeof want, "%d", 300 - lost);
    assert_string_equal(run_text(&t, "SELECT count(*) FROM vector"), want);
    /* A part of the time. */
    assert_string_equal(
        run_text(&t, "SELECT count(*), sum(is_rebuilt) FROM rebuild('vector', 1794776450000000000, "
                     "1794776455000000000, '1s') WHERE field = 'line'"),
        "5|3");
}

/* The true value lies within two errors nearly always, and not always within a fifth of one. */
static void errors_are_honest(void **state)
{
    (void)state;
    unsigned near = 0, very_near = 0, n = 0;
    for (int i = 0; i < 4000; i++)
        sample("a", i, i % 23 == 7);
    assert_int_equal(archive_flush(t.a), 0);
    struct view *v;
    struct rebuild *b;
    struct rebuild_row row;
    struct rebuild_spec spec = {.name = SLICE_LIT("vector"), .from_ns = BASE, .to_ns = BASE + 4000 * SECOND};
    assert_int_equal(view_take(t.reader, &v), 0);
    assert_int_equal(rebuild_run(v, &spec, &b, NULL), 0);
    while (rebuild_next(b, &row)) {
        if (!row.is_rebuilt)
            continue;
        double off = fabs(row.values[F_NOISE].f - truths[(row.time_ns - BASE) / SECOND]),
               error = row.errors[F_NOISE];
        assert_true(error > 0);
        near += off <= 2 * error;
        very_near += off <= error / 5;
        n++;
    }
    rebuild_destroy(b);
    view_release(v);
    assert_in_range(n, 170, 175);
    assert_true(near >= n * 9 / 10);
    assert_true(very_near <= n / 3);
}

/* Numbers that other streams have were not lost. */
static void a_silence_is_no_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        if (i >= 40 && i < 50) { /* the producer sends something else instead */
            const struct event_head head = {
                .time_ns = BASE + i * SECOND, .name = SLICE_LIT("other"), .host = SLICE_LIT("a")};
            const struct named_value v = {SLICE_LIT("x"), value_int(i)};
            struct batch_origin o = {.producer = "producer", .epoch = 4, .first_seq = ++seq};
            o.producer[15] = 'a';
            assert_int_equal(batch_builder_add(t.builder, &head, &v, 1, NULL), 0);
            run_append(&t, &o);
        } else if (i != 70) { /* nothing was sent at all: no number is missing */
            sample("a", i, false);
        }
        if (i == 45)
            assert_int_equal(archive_flush(t.a), 0);
    }
    assert_string_equal(
        run_text(&t, "SELECT count(*), sum(is_rebuilt) FROM rebuild('vector') WHERE field = 'line'"), "89|0");
    /* Another start of the producer: what was between the two nobody knows. */
    assert_string_equal(run_text(&t, "SELECT sum(is_rebuilt) FROM rebuild('other')"), "0");
}

/* Buckets of 10 s: those of a gap are estimated, one that has samples is not, and nothing comes unasked. */
static void fills_buckets(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++)
        sample("a", i, (i >= 100 && i < 120) || (i >= 205 && i < 208));
    assert_string_equal(run_text(&t, "SELECT count(*) FROM vector_bucket(1794776400000000000, "
                                     "1794776700000000000, '10s') WHERE line_count > 0"),
                        "28");
    assert_string_equal(run_text(&t,
                                 "SELECT count(*), sum(is_rebuilt) FROM rebuild('vector', NULL, NULL, '1s', "
                                 "'10s') WHERE field = 'line'"),
                        "30|2");
    assert_string_equal(
        run_text(&t, "SELECT (time - 1794776400000000000) / 1000000000, round(value, 6), error < 1e-6 FROM "
                     "rebuild('vector', NULL, NULL, '1s', '10s') WHERE field = 'line' AND is_rebuilt"),
        "100|31.125|1;110|33.625|1");
    /* The mean of what was measured, where something was. */
    assert_string_equal(
        run_text(&t,
                 "SELECT count(*) FROM rebuild('vector', NULL, NULL, '1s', '10s') r JOIN "
                 "vector_bucket(1794776400000000000, 1794776700000000000, '10s') b ON b.time = r.time WHERE "
                 "r.field = 'noise' AND NOT is_rebuilt AND error IS NULL AND abs(value - noise_sum / "
                 "noise_count) < 1e-9"),
        "28");
    for (int from = 100; from < 120; from += 10) {
        double truth = 0;
        char text[300];
        for (int i = from; i < from + 10; i++)
            truth += truths[i] / 10;
        (void)snprintf(
            text, sizeof text,
            "SELECT abs(value - %.9f) < 3 * error, error < 5 FROM rebuild('vector', NULL, NULL, '1s', "
            "'10s') WHERE field = 'noise' AND time = %" PRId64,
            truth, BASE + from * SECOND);
        assert_string_equal(run_text(&t, text), "1|1");
    }
    assert_string_equal(run_text(&t, "SELECT count(*) FROM rebuild('vector', NULL, NULL, '1s', '10s') WHERE "
                                     "field = 'state'"),
                        "0");
}

static void knows_resets_and_streams(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        sample("a", i, i == 30);
        sample("b", i, i == 20 || i == 21);
    }
    assert_string_equal(
        run_text(&t,
                 "SELECT host, sum(is_rebuilt) FROM rebuild('vector') WHERE field = 'line' GROUP BY 1 ORDER "
                 "BY 1"),
        "a|1;b|2");
    assert_string_equal(
        run_text(&t,
                 "SELECT host, sum(is_rebuilt) FROM rebuild('vector') WHERE field = 'line' AND host = 'b' "
                 "GROUP BY 1"),
        "b|2");
    reset_at = 25; /* while it could not be seen */
    for (int i = 0; i < 60; i++)
        sample("c", i, (i >= 24 && i < 28) || i == 40);
    reset_at = 0;
    assert_string_equal(
        run_text(&t, "SELECT field, sum(is_rebuilt) FROM rebuild('vector') WHERE host = 'c' AND field IN "
                     "('counter', 'line') GROUP BY 1 ORDER BY 1"),
        "counter|1;line|5");
    assert_true(run(&t, "SELECT * FROM rebuild()") < 0);
    assert_non_null(strstr(t.why.message, "event name"));
    assert_true(run(&t, "SELECT * FROM rebuild('nothing')") < 0);
    assert_true(run(&t, "SELECT * FROM rebuild('vector', 'sometime')") < 0);
}

static void fits_lines(void **state)
{
    (void)state;
    const struct fit_point line[] = {{-2, 1}, {-1, 3}, {1, 7}, {2, 9}}, two[] = {{-1, 4}, {1, 6}},
                           flat[] = {{-2, 5}, {-1, 5}, {1, 5}};
    struct fit f = fit_line(line, 4);
    assert_true(fabs(f.y - 5) < 1e-9 && f.error < 1e-6);
    f = fit_line(two, 2);
    assert_true(fabs(f.y - 5) < 1e-9 && isnan(f.error));
    f = fit_line(flat, 3);
    assert_true(fabs(f.y - 5) < 1e-9 && f.error < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fills_what_was_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_are_honest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silence_is_no_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fills_buckets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(knows_resets_and_streams, set_up, tear_down),
        cmocka_unit_test(fits_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
