/* SPDX-License-Identifier: Apache-2.0 */
/* SENSORS: there and back, in one frame and in many, cut at every byte, and what may not be said. */
#include "unit/test.h"

#include "net/sensors.h"

#include <stdio.h>

#define LIT(s)              \
    {                       \
        "" s, sizeof(s) - 1 \
    }
static const struct sensors_one whole = {.sensor = LIT("exec/root disk"),
                                         .events = LIT("disk,disk.io"),
                                         .schemas = LIT("0123456789abcdef,"),
                                         .mode = LIT("on-request"),
                                         .status = LIT("failed"),
                                         .why = LIT("no such caf\xc3\xa9"),
                                         .every_ms = 1500,
                                         .since_ns = INT64_C(1700000000000000001)};

static void check_same(const struct sensors_one *a, const struct sensors_one *b)
{
    assert_true(slice_eq(a->sensor, b->sensor) && slice_eq(a->events, b->events) &&
                slice_eq(a->schemas, b->schemas));
    assert_true(slice_eq(a->mode, b->mode) && slice_eq(a->status, b->status) && slice_eq(a->why, b->why));
    assert_true(a->every_ms == b->every_ms && a->since_ns == b->since_ns);
}

/* The next frame of all, which gets shorter. */
static struct slice take_frame(struct slice *all)
{
    struct frame f;
    int64_t n = frame_read(*all, FRAME_PAYLOAD_MAX, &f);
    assert_true(n > 0);
    assert_int_equal(f.type, FRAME_SENSORS);
    *all = slice_from(*all, (size_t)n);
    return f.payload;
}

static void a_list_goes_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct sensors_writer w;
    struct frame_sensors f;
    struct sensors_one got, least = whole;
    least.events = least.schemas = least.mode = least.status = least.why = (struct slice){"", 0};
    least.every_ms = 0;
    least.since_ns = 0;
    sensors_begin(&w, &out);
    assert_true(sensors_add(&w, &whole));
    assert_true(sensors_add(&w, &least));
    sensors_end(&w);
    struct slice all = strbuf_slice(&out);
    struct slice payload = take_frame(&all);
    assert_int_equal(all.n, 0);
    assert_int_equal(frame_get_sensors(payload, &f), 0);
    assert_true(f.is_first);
    assert_false(f.has_more);
    assert_int_equal(f.n, 2);
    assert_true(sensors_next(&f, &got));
    check_same(&got, &whole);
    assert_true(sensors_next(&f, &got));
    check_same(&got, &least);
    assert_false(sensors_next(&f, &got));
    for (size_t n = 0; n < payload.n; n++)
        assert_int_equal(frame_get_sensors(slice_of(payload.p, n), &f), E_PROTO);
    strbuf_fini(&out);
}

static void an_empty_list_is_one(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct sensors_writer w;
    struct frame_sensors f;
    sensors_begin(&w, &out);
    sensors_end(&w);
    struct slice all = strbuf_slice(&out);
    assert_int_equal(frame_get_sensors(take_frame(&all), &f), 0);
    assert_int_equal(f.n, 0);
    assert_false(f.has_more);
    strbuf_fini(&out);
}

static void a_long_list_is_many_frames(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct sensors_writer w;
    char name[64], why[SENSORS_WHY_MAX];
    struct sensors_one one = whole;
    memset(why, 'w', sizeof why);
    one.why = slice_of(why, sizeof why);
    sensors_begin(&w, &out);
    for (unsigned i = 0; i < SENSORS_MAX; i++) {
        (void)snprintf(name, sizeof name, "exec/%u", i);
        one.sensor = slice_str(name);
        assert_true(sensors_add(&w, &one));
    }
    assert_false(sensors_add(&w, &one)); /* one more than there may be */
    sensors_end(&w);
    struct slice all = strbuf_slice(&out);
    unsigned n = 0, frames = 0;
    bool has_more = true;
    while (all.n) {
        struct frame_sensors f;
        struct sensors_one got;
        assert_true(has_more);
        struct slice payload = take_frame(&all);
        assert_true(payload.n <= SENSORS_FRAME_MAX + 16);
        assert_int_equal(frame_get_sensors(payload, &f), 0);
        assert_int_equal(f.is_first, frames == 0);
        has_more = f.has_more;
        for (frames++; sensors_next(&f, &got); n++) {
            (void)snprintf(name, sizeof name, "exec/%u", n);
            assert_slice(got.sensor, name);
        }
    }
    assert_false(has_more);
    assert_int_equal(n, SENSORS_MAX);
    assert_true(frames > 30);
    strbuf_fini(&out);
}

static void what_may_not_be_said_is_refused(void **state)
{
    (void)state;
    static char name[SENSORS_EVENTS_MAX + 1];
    memset(name, 'x', sizeof name);
    struct sensors_one bad[12];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i] = whole;
    bad[n++].sensor = (struct slice){"", 0};
    bad[n++].sensor = slice_of(name, SENSORS_NAME_MAX + 1);
    bad[n++].sensor = SLICE_LIT("a\nb");
    bad[n++].events = SLICE_LIT("a,,b");
    bad[n++].events = SLICE_LIT("a b");
    bad[n++].events = slice_of(name, SENSORS_EVENTS_MAX + 1);
    bad[n++].schemas = SLICE_LIT("123");
    bad[n++].schemas = SLICE_LIT("0123456789abcdeg");
    bad[n++].mode = slice_of(name, SENSORS_WORD_MAX + 1);
    bad[n++].status = SLICE_LIT("a b");
    bad[n++].why = slice_of(name, SENSORS_WHY_MAX + 1);
    bad[n++].why = SLICE_LIT("\xff");
    for (size_t i = 0; i < n; i++) {
        struct strbuf out = {0};
        struct args_writer values = {0};
        struct frame_sensors f;
        struct sensors_writer w;
        sensors_begin(&w, &out);
        assert_false(sensors_add(&w, &bad[i]));
        sensors_end(&w);
        strbuf_reset(&out); /* and by a peer that says it all the same */
        strbuf_add_char(&out, 0);
        strbuf_add_u32(&out, 1);
        args_add_text(&values, "sensor", bad[i].sensor);
        args_add_text(&values, "events", bad[i].events);
        args_add_text(&values, "schemas", bad[i].schemas);
        args_add_text(&values, "mode", bad[i].mode);
        args_add_text(&values, "status", bad[i].status);
        args_add_text(&values, "why", bad[i].why);
        args_put(&out, args_of(&values));
        assert_int_equal(frame_get_sensors(strbuf_slice(&out), &f), E_PROTO);
        args_writer_fini(&values);
        strbuf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_goes_there_and_back),
        cmocka_unit_test(an_empty_list_is_one),
        cmocka_unit_test(a_long_list_is_many_frames),
        cmocka_unit_test(what_may_not_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
