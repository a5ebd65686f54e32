/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/streams.h"
#include "base/clock.h"

#include <inttypes.h>

static const struct field fields[] = {
    KEY("device", ""),
    FIELD("value", FLOAT, GAUGE, "", ""),
    FIELD("note", TEXT, TEXT, "", ""),
};
static const struct field event_fields[] = {FIELD("code", INT, STATE, "", "")};
static const struct sensor_schema schemas[] = {
    SCHEMA("t", fields), SCHEMA_EVENT("t.event", event_fields, LEVEL_ERROR), {0}};
static const struct sensor_ops ops = {.name = "t", .schemas = schemas};

static struct sensor_config config(const struct change_limit *changes, size_t n)
{
    return (struct sensor_config){.ops = &ops,
                                  .name = "t",
                                  .every_ns = NS_PER_S,
                                  .refresh_ns = 10 * NS_PER_S,
                                  .changes = changes,
                                  .n_changes = n};
}

static bool take(struct streams *s, const char *device, double v, int64_t at_s)
{
    const struct value row[] = {value_text(slice_str(device)), value_float(v), value_text(SLICE_LIT("same"))};
    struct stream *t = streams_find(s, 0, row, at_s * NS_PER_S);
    assert_non_null(t);
    return streams_take(s, t, row, at_s * NS_PER_S);
}

static void first_change_and_refresh(void **state)
{
    (void)state;
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    assert_true(take(s, "a", 1, 100));
    assert_false(take(s, "a", 1, 101));
    assert_true(take(s, "a", 2, 102));
    for (int64_t t = 103; t < 112; t++)
        assert_false(take(s, "a", 2, t));
    assert_true(take(s, "a", 2, 112)); /* Δt after it was last sent */
    assert_true(take(s, "b", 2, 112)); /* another stream */
    assert_int_equal(streams_count(s), 2);
    streams_destroy(s);
}

/* The reason for our rule: a slow drift is seen when it has gone far enough, with the seed's it never is. */
static void drift(void **state)
{
    (void)state;
    const struct change_limit limit[] = {{"value", 1, false}};
    struct sensor_config ours = config(limit, 1), seeds = config(limit, 1);
    ours.refresh_ns = seeds.refresh_ns = INT64_MAX / 2;
    seeds.compares_previous = true;
    struct streams *a = streams_create(&ours), *b = streams_create(&seeds);
    unsigned sent_a = 0, sent_b = 0;
    for (int64_t t = 0; t < 100; t++) {
        sent_a += take(a, "x", (double)t * 0.25, t + 1);
        sent_b += take(b, "x", (double)t * 0.25, t + 1);
    }
    assert_int_equal(sent_b, 1);        /* the first alone */
    assert_int_equal(sent_a, 20);       /* the first, then every fifth: 1.25 is more than 1 */
    assert_true(take(b, "x", 99, 101)); /* a jump is seen by both */
    streams_destroy(a);
    streams_destroy(b);
}

static void events_always_pass(void **state)
{
    (void)state;
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    const struct value row[] = {value_int(3)};
    for (int i = 0; i < 3; i++) {
        struct stream *t = streams_find(s, 1, row, 1);
        assert_true(t->is_event);
        assert_true(streams_take(s, t, row, 1));
    }
    streams_destroy(s);
}

static void any_order_finds_the_same(void **state)
{
    (void)state;
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    struct stream *first[20];
    uint64_t seed = 7;
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < 20; i++) {
            size_t k = round == 0 ? i : test_random(&seed) % 20;
            char device[8];
            (void)snprintf(device, sizeof device, "sd%c", (char)('a' + k));
            const struct value row[] = {value_text(slice_str(device)), value_float(1), value_none()};
            struct stream *t = streams_find(s, 0, row, round * NS_PER_S);
            if (round == 0)
                first[k] = t;
            assert_ptr_equal(t, first[k]);
        }
    }
    assert_int_equal(streams_count(s), 20);
    streams_destroy(s);
}

static void too_many_and_forgotten(void **state)
{
    (void)state;
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    char device[16];
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        (void)snprintf(device, sizeof device, "%u", i);
        const struct value row[] = {value_text(slice_str(device)), value_float(1), value_none()};
        assert_non_null(streams_find(s, 0, row, NS_PER_S));
    }
    const struct value more[] = {value_text(SLICE_LIT("more")), value_float(1), value_none()};
    assert_null(streams_find(s, 0, more, NS_PER_S));
    assert_non_null(
        streams_find(s, 0, more, NS_PER_S + 2 * STREAM_FORGET)); /* the others were not seen since */
    assert_int_equal(streams_count(s), 1);
    streams_destroy(s);
}

/* Streams of objects that have ended give way: a churn of many times the limit is never refused. */
static void churn(void **state)
{
    (void)state;
    enum { AT_A_TIME = 3000, ROUNDS = 12 };
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    char device[16];
    for (unsigned round = 1; round <= ROUNDS; round++)
        for (unsigned i = 0; i < AT_A_TIME; i++) {
            (void)snprintf(device, sizeof device, "%u.%u", round, i);
            const struct value row[] = {value_text(slice_str(device)), value_float(1), value_none()};
            assert_non_null(streams_find(s, 0, row, round * NS_PER_S));
            assert_true(streams_count(s) <= STREAMS_MAX);
        }
    const struct value row[] = {value_text(SLICE_LIT("last")), value_float(1), value_none()};
    assert_non_null(streams_find(s, 0, row, NS_PER_S * ROUNDS + 2 * STREAM_FORGET));
    assert_int_equal(streams_count(s), 1); /* the others ended */
    streams_destroy(s);
}

static void renewed_is_sent_again(void **state)
{
    (void)state;
    struct sensor_config c = config(NULL, 0);
    struct streams *s = streams_create(&c);
    assert_true(take(s, "a", 1, 1));
    assert_false(take(s, "a", 1, 2));
    streams_renew(s);
    assert_true(take(s, "a", 1, 3));
    streams_destroy(s);
}

/* Every built-in sensor's schemas are within the model's limits. */
static void all_declared_schemas(void **state)
{
    (void)state;
    for (size_t i = 0; sensor_list[i]; i++) {
        struct sensor_config c = {
            .ops = sensor_list[i], .name = sensor_list[i]->name, .every_ns = 1, .refresh_ns = 1};
        streams_destroy(streams_create(&c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_change_and_refresh), cmocka_unit_test(drift),
        cmocka_unit_test(events_always_pass),       cmocka_unit_test(any_order_finds_the_same),
        cmocka_unit_test(too_many_and_forgotten), cmocka_unit_test(churn),   cmocka_unit_test(renewed_is_sent_again),
        cmocka_unit_test(all_declared_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
