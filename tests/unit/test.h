/* SPDX-License-Identifier: Apache-2.0 */
/* test.h - cmocka with what it needs included first, and a small deterministic random generator. */
#ifndef GRIDLINE_TESTS_TEST_H
#define GRIDLINE_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/slice.h"

#define assert_slice(s, z)                                                                                   \
    do {                                                                                                     \
        struct slice test_s = (s);                                                                           \
        assert_int_equal(test_s.n, strlen(z));                                                               \
        assert_memory_equal(test_s.p, z, test_s.n);                                                          \
    } while (0)

/* splitmix64: the seed is in the failing test's output, so any run can be repeated. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* GRIDLINE_TEST_SCALE multiplies the rounds of long tests (1 = the short form). */
static inline unsigned test_scale(void)
{
    const char *s = getenv("GRIDLINE_TEST_SCALE");
    return s ? (unsigned)strtoul(s, NULL, 10) : 1;
}

/* Until the clock that files are stamped with has moved on: what is written then is later, and seen to be. */
static inline void test_tick(void)
{
    struct timespec from, now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &from);
    do
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (now.tv_sec == from.tv_sec && now.tv_nsec == from.tv_nsec);
}

#endif
