/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

/* Reclaim by zone is left out; bytes for what the kernel counts in KiB. */
static void old_kernel(void **state)
{
    (void)state;
    tree_assert_text(
        "paging", FIXTURES "old-kernel", NULL,
        "paging faults=800000 major_faults=900 paged_in=4096000 paged_out=9216000 swapped_in=1 swapped_out=27 "
        "allocated_dma=5 allocated_normal=600000 allocated_high=90000 freed=700000 stalls=3 activated=12000 "
        "deactivated=3000 slab_scanned=4096 kswapd_runs=12 rotated=22\n");
}

static void new_kernel(void **state)
{
    (void)state;
    tree_assert_text(
        "paging", FIXTURES "many-cores", NULL,
        "paging faults=7777777777 major_faults=65432 paged_in=353975194624 paged_out=1011358024704 "
        "swapped_in=88 swapped_out=22160 swap_read_ahead=60 swap_read_ahead_hits=44 oom_kills=1 "
        "allocated_dma=4 allocated_dma32=1000 allocated_normal=9900000000 allocated_movable=0 "
        "freed=9975000000 stalls_normal=17 stalls_movable=29 activated=45000000 deactivated=12000000 "
        "scanned_background=56000000 scanned_direct=23456 reclaimed_background=55000000 "
        "reclaimed_direct=12345 refaulted_anon=7 refaulted_file=81234 shadow_nodes=4400 dirtied=123123123 "
        "written=120120120 dirty_limit=19000000 dirty_background_limit=9500000 write_pending=1296 "
        "isolated_anon=0 isolated_file=32 zsmalloc=0 numa_hits=9876543210 numa_misses=1234 "
        "numa_foreign=1234 numa_interleaved=5678 numa_local=9876540000 numa_other=3210 "
        "numa_marked=300000000 numa_hint_faults=280000000 numa_hint_faults_local=270000000 "
        "numa_migrated=4000000 migrated=4100000 migrate_failed=3 compact_stalls=5 "
        "thp_fault_allocated=250000 thp_split=12\n");
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("paging", NULL);
    tree_assert_no_data_at("paging", FIXTURES "container", NULL);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("paging", FIXTURES "old-kernel", "/proc/vmstat", NULL);
    tree_assert_cuts("paging", FIXTURES "many-cores", "/proc/vmstat", NULL);
}

/* This host: the kernel's own order and names. */
static void here(void **state)
{
    (void)state;
    struct sense s;
    if (access("/proc/vmstat", R_OK) != 0)
        skip();
    assert_int_equal(sense_open(&s, "paging", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    assert_non_null(strstr(s.text.p, " major_faults="));
    assert_non_null(strstr(s.text.p, " paged_out="));
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_kernel),        cmocka_unit_test(new_kernel), cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
