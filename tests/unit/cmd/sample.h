/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - three events with every type of value, odd ones among them, for the tests of this folder. */
#ifndef GRIDLINE_TESTS_CMD_SAMPLE_H
#define GRIDLINE_TESTS_CMD_SAMPLE_H

#include "unit/test.h"

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

#endif
