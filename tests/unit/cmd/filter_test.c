/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cmd/sample.h"

#include "cmd/filter.h"

static size_t passes(const struct filter_options *o, const struct batch *b, struct batch *view)
{
    static struct filter *f;
    struct diag why;
    filter_destroy(f);
    f = NULL;
    assert_int_equal(filter_create(o, 0, &f, &why), 0);
    filter_run(f, b, view);
    size_t n = view->n;
    for (size_t i = 0; i < n; i++) /* the view must be readable now */
        assert_non_null(view->events[i].schema);
    return n;
}

static void test_filter_limits(void **unused)
{
    (void)unused;
    struct batch *b = sample(), view;
    struct option_time zero = {true, 0}, first = {true, INT64_MIN}, five = {true, -5};
    b->origin.first_seq = 7;
    assert_int_equal(passes(&(struct filter_options){0}, b, &view), 3);
    assert_ptr_equal(view.events, b->events); /* nothing to do: no copy, and the numbers are good */
    assert_int_equal(view.origin.first_seq, 7);
    assert_int_equal(passes(&(struct filter_options){.from = zero}, b, &view), 2);
    assert_int_equal(view.origin.first_seq, 0);
    assert_int_equal(passes(&(struct filter_options){.to = zero}, b, &view), 1);
    assert_int_equal(passes(&(struct filter_options){.from = five, .to = zero}, b, &view), 1);
    assert_int_equal(passes(&(struct filter_options){.from = zero, .to = zero}, b, &view), 0);
    assert_int_equal(passes(&(struct filter_options){.from = first, .to = first}, b, &view), 0);
    assert_int_equal(passes(&(struct filter_options){.from = first}, b, &view), 3);
    assert_int_equal(passes(&(struct filter_options){.where = "other = 5"}, b, &view), 1);
    assert_int_equal(view.events[0].time_ns, -5);
    batch_unref(b);
}

static void test_filter_fills(void **unused)
{
    (void)unused;
    struct batch *b = sample(), view;
    assert_int_equal(passes(&(struct filter_options){.host = "filled", .prog = "q"}, b, &view), 3);
    assert_slice(view.events[0].host, "h");
    assert_slice(view.events[1].host, "filled");
    assert_slice(view.events[1].prog, "p");
    assert_int_equal(passes(&(struct filter_options){.host = "filled", .where = "host = 'filled'"}, b, &view),
                     1);
    batch_unref(b);
}

static void test_filter_refuses(void **unused)
{
    struct filter *f = NULL;
    struct diag why = {0};
    (void)unused;
    assert_true(filter_create(&(struct filter_options){.where = "size >"}, 0, &f, &why) < 0);
    assert_non_null(strstr(why.message, "--where, column"));
    assert_true(filter_create(&(struct filter_options){.host = "a\nb"}, 0, &f, &why) < 0);
    assert_non_null(strstr(why.message, "--host"));
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_limits),
        cmocka_unit_test(test_filter_fills),
        cmocka_unit_test(test_filter_refuses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
