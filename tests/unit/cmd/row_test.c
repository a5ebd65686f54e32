/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cmd/sample.h"

#include "cmd/row.h"

static void test_round_trip(void **unused)
{
    (void)unused;
    struct arena arena = {0};
    struct batch *b = sample();
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++) {
        struct strbuf row = {0};
        struct event back;
        row_write(&row, &b->events[i]);
        assert_false(strbuf_failed(&row));
        assert_int_equal(row_read(strbuf_slice(&row), b->events[i].time_ns, &arena, &back), 0);
        strbuf_fini(&row); /* what was read does not borrow it */
        assert_true(event_eq(&back, &b->events[i]));
    }
    arena_fini(&arena);
    batch_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
