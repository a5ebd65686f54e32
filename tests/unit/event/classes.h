/* SPDX-License-Identifier: Apache-2.0 */
/* classes.h - a class source for tests: a few fields of any event, with their classes. */
#ifndef GRIDLINE_TESTS_EVENT_CLASSES_H
#define GRIDLINE_TESTS_EVENT_CLASSES_H

#include "event/class.h"

struct test_classes {
    struct {
        const char *field;
        uint8_t class;
    } fields[8];
    uint64_t generation;
    struct class_source source;
};

static inline bool test_classes_get(void *arg, struct slice event, struct slice field, struct class_state *out)
{
    const struct test_classes *t = arg;
    (void)event;
    for (size_t i = 0; i < 8 && t->fields[i].field; i++)
        if (slice_eq(field, slice_str(t->fields[i].field))) {
            *out = (struct class_state){.class = t->fields[i].class, .by = CLASS_DECIDED};
            return true;
        }
    *out = (struct class_state){.class = class_by_name(field), .by = CLASS_BY_NAME};
    return false;
}

static inline int test_classes_set(void *arg, struct slice event, struct slice field, uint8_t class, struct diag *why)
{
    struct test_classes *t = arg;
    (void)event;
    for (size_t i = 0; i < 8 && t->fields[i].field; i++)
        if (slice_eq(field, slice_str(t->fields[i].field))) {
            t->fields[i].class = class;
            t->generation++;
            return 0;
        }
    return diag_set(why, E_NODATA, 0, "there is no field %.*s", SLICE_ARG(field));
}

static inline uint64_t test_classes_generation(void *arg)
{
    const struct test_classes *t = arg;
    return t->generation;
}

static inline const struct class_source *test_classes_source(struct test_classes *t)
{
    t->source = (struct class_source){t, test_classes_get, test_classes_set, test_classes_generation};
    return &t->source;
}

#endif
