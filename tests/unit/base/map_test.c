/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/map.h"
#include "base/mem.h"

#include <errno.h>

enum { KEYS = 500 };

/* Random puts and removes against a plain array. */
static void test_against_array(void **state)
{
    (void)state;
    static char keys[KEYS][8];
    bool in[KEYS] = {false};
    size_t count = 0;
    struct map m = {0};
    uint64_t seed = 5;
    for (int i = 0; i < KEYS; i++)
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
    for (int round = 0; round < 50000; round++) {
        size_t k = test_random(&seed) % KEYS;
        struct slice key = slice_str(keys[k]);
        if (test_random(&seed) % 2) {
            assert_int_equal(map_put(&m, key, keys[k]), 0);
            count += !in[k];
            in[k] = true;
        } else {
            assert_ptr_equal(map_remove(&m, key), in[k] ? keys[k] : NULL);
            count -= in[k];
            in[k] = false;
        }
        assert_int_equal(m.n, count);
        k = test_random(&seed) % KEYS;
        assert_ptr_equal(map_get(&m, slice_str(keys[k])), in[k] ? keys[k] : NULL);
    }
    size_t seen = 0;
    void *v;
    for (size_t i = 0; map_next(&m, &i, &v);)
        seen++;
    assert_int_equal(seen, count);
    map_fini(&m);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct map m = {0};
    mem_fail_after(1);
    assert_int_equal(map_put(&m, SLICE_LIT("a"), &m), -ENOMEM);
    assert_null(map_get(&m, SLICE_LIT("a")));
    assert_int_equal(map_put(&m, SLICE_LIT("a"), &m), 0);
    map_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_array), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
