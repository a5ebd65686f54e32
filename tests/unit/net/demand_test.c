/* SPDX-License-Identifier: Apache-2.0 */
/* DEMAND: there and back, cut at every byte, and what it refuses. */
#include "unit/test.h"

#include "net/demand.h"

/* The payload of the frame in out. */
static struct slice payload_of(const struct strbuf *out, uint32_t worker)
{
    struct frame f;
    assert_int_equal(frame_read(strbuf_slice(out), FRAME_PAYLOAD_MAX, &f), out->n);
    assert_int_equal(f.type, FRAME_DEMAND);
    assert_int_equal(f.worker, worker);
    return f.payload;
}

static void put(struct strbuf *out, struct slice events, uint32_t period_ms, uint32_t n)
{
    struct strbuf list = {0};
    for (uint32_t i = 0; i < n; i++)
        demand_put(&list, &(struct demand_request){events, period_ms});
    strbuf_reset(out);
    frame_put_demand(out, 0, &(struct frame_demand){.number = 1, .n = n, .list = strbuf_slice(&list)});
    assert_false(strbuf_failed(out));
    strbuf_fini(&list);
}

static void goes_there_and_back(void **state)
{
    (void)state;
    struct strbuf list = {0}, out = {0};
    struct frame_demand got;
    struct demand_request r;
    demand_put(&list, &(struct demand_request){SLICE_LIT("cpu"), 0});
    demand_put(&list, &(struct demand_request){SLICE_LIT("disk*,network"), 250});
    frame_put_demand(&out, 9, &(struct frame_demand){.number = 7, .n = 2, .list = strbuf_slice(&list)});
    struct slice p = payload_of(&out, 9);
    assert_int_equal(frame_get_demand(p, &got), 0);
    assert_int_equal(got.number, 7);
    assert_int_equal(got.n, 2);
    assert_true(demand_next(&got.list, &r));
    assert_slice(r.events, "cpu");
    assert_int_equal(r.period_ms, 0);
    assert_true(demand_next(&got.list, &r));
    assert_slice(r.events, "disk*,network");
    assert_int_equal(r.period_ms, 250);
    assert_false(demand_next(&got.list, &r));
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_demand(slice_of(p.p, n), &got), E_PROTO);
    strbuf_fini(&list);
    strbuf_fini(&out);
}

static void nothing_is_a_list(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_demand got;
    struct demand_request r;
    put(&out, SLICE_LIT("unused"), 0, 0);
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), 0);
    assert_int_equal(got.n, 0);
    assert_false(demand_next(&got.list, &r));
    strbuf_fini(&out);
}

static void what_comes_later_is_ignored(void **state)
{
    (void)state;
    struct strbuf payload = {0};
    struct frame_demand got;
    struct demand_request r;
    strbuf_add_u32(&payload, 1);
    strbuf_add_varint(&payload, 1);
    demand_put(&payload, &(struct demand_request){SLICE_LIT("cpu"), 5});
    strbuf_add_str(&payload, "of a later version");
    assert_int_equal(frame_get_demand(strbuf_slice(&payload), &got), 0);
    assert_true(demand_next(&got.list, &r));
    assert_false(demand_next(&got.list, &r));
    strbuf_fini(&payload);
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct strbuf out = {0}, long_one = {0};
    struct frame_demand got;
    while (long_one.n < DEMAND_EVENTS_MAX)
        strbuf_add_char(&long_one, 'x');
    put(&out, strbuf_slice(&long_one), 1, 1);
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), 0);
    put(&out, strbuf_slice(&long_one), 1, 16); /* with the heads more than 64 KiB */
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), E_PROTO);
    strbuf_add_char(&long_one, 'x');
    put(&out, strbuf_slice(&long_one), 1, 1);
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), E_PROTO);
    put(&out, SLICE_LIT("cpu"), 1, DEMAND_MAX);
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), 0);
    put(&out, SLICE_LIT("cpu"), 1, DEMAND_MAX + 1);
    assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), E_PROTO);
    static const char *const bad[] = {"", "a\nb", "\xff", "a\x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(&out, slice_str(bad[i]), 1, 1);
        assert_int_equal(frame_get_demand(payload_of(&out, 0), &got), E_PROTO);
    }
    strbuf_fini(&out);
    strbuf_fini(&long_one);
}

static void the_most_frequent_counts(void **state)
{
    (void)state;
    struct strbuf list = {0};
    demand_put(&list, &(struct demand_request){SLICE_LIT("cpu,disk*"), 5000});
    demand_put(&list, &(struct demand_request){SLICE_LIT("disk"), 0});
    demand_put(&list, &(struct demand_request){SLICE_LIT("disk.io"), 250});
    struct slice l = strbuf_slice(&list);
    const int64_t ms = 1000000, own = 2000 * ms;
    assert_int_equal(demand_period_ns(l, SLICE_LIT("cpu"), own), 5000 * ms);
    assert_int_equal(demand_period_ns(l, SLICE_LIT("disk"), own), own);
    assert_int_equal(demand_period_ns(l, SLICE_LIT("disk"), 9000 * ms), 5000 * ms);
    assert_int_equal(demand_period_ns(l, SLICE_LIT("disk.io"), own), 250 * ms);
    assert_int_equal(demand_period_ns(l, SLICE_LIT("memory"), own), 0);
    assert_int_equal(demand_period_ns(SLICE_LIT(""), SLICE_LIT("cpu"), own), 0);
    strbuf_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_there_and_back),         cmocka_unit_test(nothing_is_a_list),
        cmocka_unit_test(what_comes_later_is_ignored), cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(the_most_frequent_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
