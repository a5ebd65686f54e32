/* SPDX-License-Identifier: Apache-2.0 */
/* acting.h - for tests of actuators: one is run, planned or checked with "name=value" strings. */
#ifndef GRIDLINE_TESTS_ACTING_H
#define GRIDLINE_TESTS_ACTING_H

#include "actuator/actuator.h"
#include "base/clock.h"

#include <errno.h>

struct acting {
    const char *actuator;
    const char *const *options; /* NULL at the end */
    const struct act_datum *data;
    size_t n_data;
    int64_t left_ns; /* 0 = 30 s */
    bool (*is_cancelled)(void *arg);
};

/* Of constants. */
#define DATUM(name, value)           \
    {                                \
        {name, sizeof(name) - 1},    \
        {                            \
            value, sizeof(value) - 1 \
        }                            \
    }
#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline struct actuator_env acting_env(const struct acting *a)
{
    return (struct actuator_env){.data = a->data,
                                 .n_data = a->n_data,
                                 .deadline_ns = clock_mono_ns() + (a->left_ns ? a->left_ns : 30 * NS_PER_S),
                                 .attempt = "test",
                                 .is_cancelled = a->is_cancelled};
}

/* *report is the caller's to end. */
static inline int acting_run(struct acting a, struct actuator_report *report)
{
    struct arena arena = {0};
    const struct parameter_setting *settings;
    size_t n;
    const struct actuator_env env = acting_env(&a);
    *report = (struct actuator_report){0};
    assert_int_equal(parameters_group(a.options, &arena, &settings, &n, NULL), 0);
    int r = actuator_run(actuator_find(slice_str(a.actuator)), settings, n, &env, report);
    arena_fini(&arena);
    return r;
}

static inline int acting_plan(struct acting a, struct strbuf *out, struct diag *why)
{
    struct arena arena = {0};
    const struct parameter_setting *settings;
    size_t n;
    const struct actuator_env env = acting_env(&a);
    assert_int_equal(parameters_group(a.options, &arena, &settings, &n, NULL), 0);
    int r = actuator_plan(actuator_find(slice_str(a.actuator)), settings, n, &env, out, why);
    arena_fini(&arena);
    return r;
}

/* The configuration is refused, and the message says that. */
static inline void acting_refuses(const char *actuator, const char *const *options, const char *says)
{
    struct arena arena = {0};
    const struct parameter_setting *settings;
    struct diag why = {0};
    size_t n;
    assert_int_equal(parameters_group(options, &arena, &settings, &n, NULL), 0);
    assert_int_equal(actuator_check(actuator_find(slice_str(actuator)), settings, n, &why), -EINVAL);
    if (!strstr(why.message, says))
        fail_msg("\"%s\" does not say \"%s\"", why.message, says);
    arena_fini(&arena);
}

static inline void acting_accepts(const char *actuator, const char *const *options)
{
    struct arena arena = {0};
    const struct parameter_setting *settings;
    struct diag why = {0};
    size_t n;
    assert_int_equal(parameters_group(options, &arena, &settings, &n, NULL), 0);
    if (actuator_check(actuator_find(slice_str(actuator)), settings, n, &why) < 0)
        fail_msg("%s", why.message);
    arena_fini(&arena);
}

#endif
