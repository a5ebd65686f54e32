/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "cmd/filter.h"
#include "event/batch.h"

#include <math.h>

static struct registry *registry;
static struct batch_builder *builder;

static int set_up(void **unused)
{
    (void)unused;
    registry = registry_create();
    builder = registry ? batch_builder_create(registry, 0) : NULL;
    return builder ? 0 : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return 0;
}

static void add(const char *name, int64_t time, const char *host, uint8_t level, const struct named_value *v,
                size_t n)
{
    struct event_head head = {.time_ns = time,
                              .name = slice_str(name),
                              .host = slice_str(host),
                              .prog = SLICE_LIT("p"),
                              .level = level};
    assert_int_equal(batch_builder_add(builder, &head, v, n, NULL), 0);
}

static struct batch *sample(void)
{
    const struct named_value all[] = {
        {SLICE_LIT("i"), value_int(INT64_MIN)},
        {SLICE_LIT("u"), value_uint(UINT64_MAX)},
        {SLICE_LIT("f"), value_float(-0.0)},
        {SLICE_LIT("b"), value_bool(true)},
        {SLICE_LIT("t"), value_text(SLICE_LIT("a\0b"))},
        {SLICE_LIT("x"), value_bytes(SLICE_LIT("\xff\n"))},
        {SLICE_LIT("e"), value_text(SLICE_LIT(""))},
        {SLICE_LIT("n"), value_float(NAN)},
    };
    const struct named_value one[] = {{SLICE_LIT("other"), value_int(5)}};
    add("a", INT64_MAX, "h", 3, all, 8);
    add("a", -5, "", 11, one, 1);
    add("none", 0, "longer.host.name", 0, NULL, 0);
    return batch_builder_finish(builder, NULL);
}

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
