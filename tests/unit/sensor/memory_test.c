/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

static void in_bytes(void **state)
{
    (void)state;
    tree_assert_text(
        "memory", FIXTURES "container", NULL,
        "memory total=536870912 free=268435456 available=409600000 buffers=0 cached=134217728 swap_cached=0 "
        "active=67108864 inactive=67108864 swap_total=0 swap_free=0\n");
}

/* No estimate of what is available, and none is made up; pools of huge pages are counted, not measured. */
static void old_kernel(void **state)
{
    (void)state;
    tree_assert_text("memory", FIXTURES "old-kernel", NULL,
                     "memory total=1060253696 free=34275328 buffers=73613312 cached=636047360 swap_cached=4096 "
                     "active=450560000 inactive=481280000 high_total=134152192 high_free=258048 low_total=926101504 "
                     "low_free=34017280 swap_total=2080366592 swap_free=2080256000 dirty=163840 writeback=0 "
                     "anon=221184000 mapped=61440000 slab=78848000 page_tables=4505600 nfs_unstable=0 bounce=0 "
                     "commit_limit=2610491392 committed=921600000 vmalloc_total=117432320 vmalloc_used=7168000 "
                     "vmalloc_chunk=109568000 huge_pages=0 huge_pages_free=0 huge_pages_reserved=0 "
                     "huge_page_size=4194304\n");
}

static void new_kernel(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "memory", FIXTURES "many-cores", NULL), 0);
    for (int i = 0; i < 2; i++) { /* the second time by what it remembers */
        assert_int_equal(sense_run(&s), 0);
        assert_non_null(strstr(s.text.p, " available=491646418944 "));
        assert_non_null(strstr(s.text.p, " vmalloc_total=14073748835531776 "));
        assert_non_null(strstr(s.text.p, " huge_pages=64 huge_pages_free=60 huge_pages_reserved=2 "
                                         "huge_pages_surplus=0 huge_page_size=2097152 hugetlb=134217728 "));
        size_t values = 0;
        for (const char *p = s.text.p; (p = strchr(p, '=')); p++)
            values++;
        assert_int_equal(values, 57); /* each line of the file */
    }
    sense_close(&s);
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("memory", NULL);
}

static void nothing_known_is_no_data(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/meminfo", "MemoryTotal: 5 kB\n");
    tree_assert_no_data_at("memory", t.root, NULL);
    tree_remove(&t);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("memory", FIXTURES "old-kernel", "/proc/meminfo", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_bytes),
        cmocka_unit_test(old_kernel),
        cmocka_unit_test(new_kernel),
        cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(nothing_known_is_no_data),
        cmocka_unit_test(cut_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
