/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"

#include <pthread.h>

static void test_fail_after(void **state)
{
    (void)state;
    mem_fail_after(2);
    void *first = mem_try_alloc(1);
    assert_non_null(first);
    assert_null(mem_try_resize(first, 100));
    first = mem_try_resize(first, 100);
    assert_non_null(first);
    mem_free(first);
    mem_free(NULL);
}

struct shared {
    char *before, *after, *grown;
    const char *problem;
};

static const char *use_reserve(struct shared *s)
{
    mem_last_words();
    s->after = mem_try_alloc(1000);
    for (int i = 0; i < 1000; i++)
        if (s->after[i] != 0)
            return "not zeroed";
    memcpy(s->after, "reserve", 8);
    s->after = mem_try_resize(s->after, 5000);
    s->grown = mem_try_resize(s->before, 300);
    mem_free(s->before); /* does nothing */
    if (mem_try_alloc(MEM_RESERVE) || mem_try_alloc(SIZE_MAX) || mem_try_alloc(SIZE_MAX - 15))
        return "more than there is";
    size_t n = 0;
    while (mem_try_alloc(65536))
        n++;
    return n > 0 && n < MEM_RESERVE / 65536 ? NULL : "not bounded";
}

/* In a thread of its own: there is no way back. */
static void *last_words(void *arg)
{
    struct shared *s = arg;
    s->problem = use_reserve(s);
    return NULL;
}

/* Blocks of malloc move to the reserve and keep their bytes; any thread may free what came from it. */
static void test_reserve(void **state)
{
    (void)state;
    struct shared s = {.before = mem_try_alloc(100)};
    memcpy(s.before, "malloc", 7);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, last_words, &s), 0);
    (void)pthread_join(t, NULL);
    assert_null(s.problem);
    assert_string_equal(s.after, "reserve");
    assert_string_equal(s.grown, "malloc");
    assert_ptr_not_equal(s.grown, s.before);
    mem_free(s.after);
    mem_free(s.grown);
    mem_free(s.before); /* this thread's free is a real one */
    void *p = mem_try_alloc(64);
    assert_non_null(p);
    mem_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fail_after), cmocka_unit_test(test_reserve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
