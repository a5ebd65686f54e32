/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel did to find memory, from /proc/vmstat: page faults, transfers, reclaim, swap, compaction, huge pages,
 * NUMA. How much memory is used for what is in `memory`.
 *
 * `major_faults` are the seeds' cache faults: page faults whose page was not in the page cache and had to be read from
 * disk. `paged_in` and `paged_out` are all bytes that moved between memory and block devices, by page faults or not;
 * the kernel counts them in KiB. Everything else is in pages where it says so, of the host's page size, or in times.
 *
 * Which lines there are depends on the kernel's version, its configuration and the processor; fields whose lines are
 * not there are missing. Old kernels (before 4.8) count reclaim by zone under other names: those are left out. */
#include "sensor/keyed.h"
#include "sensor/sensor.h"

/* The kernel's name, ours, the unit, and what it is. */
#define VMSTAT(COUNT, GAUGE, KIB)                                                                               \
    COUNT("pgfault", "faults", "", "page faults")                                                               \
    COUNT("pgmajfault", "major_faults", "", "cache faults: page faults that had to read from disk")             \
    KIB("pgpgin", "paged_in", "read from block devices")                                                        \
    KIB("pgpgout", "paged_out", "written to block devices")                                                     \
    COUNT("pswpin", "swapped_in", "pages", "read from swap")                                                    \
    COUNT("pswpout", "swapped_out", "pages", "written to swap")                                                 \
    COUNT("swap_ra", "swap_read_ahead", "pages", "read from swap ahead of their use")                           \
    COUNT("swap_ra_hit", "swap_read_ahead_hits", "pages", "of them used")                                       \
    COUNT("swpin_zero", "swapped_in_zero", "pages", "of zeros, made instead of read")                           \
    COUNT("swpout_zero", "swapped_out_zero", "pages", "of zeros, noted instead of written")                     \
    COUNT("zswpin", "zswap_in", "pages", "read from compressed swap")                                           \
    COUNT("zswpout", "zswap_out", "pages", "written to compressed swap")                                        \
    COUNT("zswpwb", "zswap_written_back", "pages", "moved from there to swap")                                  \
    COUNT("ksm_swpin_copy", "ksm_swapped_in", "", "merged pages copied when read from swap")                    \
    COUNT("cow_ksm", "ksm_copied", "", "merged pages copied when written to")                                   \
    COUNT("oom_kill", "oom_kills", "", "processes killed for want of memory")                                   \
    COUNT("pgalloc_dma", "allocated_dma", "pages", "allocated in the zone DMA")                                 \
    COUNT("pgalloc_dma32", "allocated_dma32", "pages", "allocated in DMA32")                                    \
    COUNT("pgalloc_normal", "allocated_normal", "pages", "allocated in Normal")                                 \
    COUNT("pgalloc_high", "allocated_high", "pages", "allocated in HighMem")                                    \
    COUNT("pgalloc_movable", "allocated_movable", "pages", "allocated in Movable")                              \
    COUNT("pgalloc_device", "allocated_device", "pages", "allocated in Device")                                 \
    COUNT("pgfree", "freed", "pages", "freed")                                                                  \
    COUNT("pgreuse", "reused", "pages", "written to in place, as nobody else had them")                         \
    COUNT("allocstall", "stalls", "", "allocations that had to reclaim first (before 4.10)")                    \
    COUNT("allocstall_dma", "stalls_dma", "", "allocations in DMA that had to reclaim first")                   \
    COUNT("allocstall_dma32", "stalls_dma32", "", "the same in DMA32")                                          \
    COUNT("allocstall_normal", "stalls_normal", "", "the same in Normal")                                       \
    COUNT("allocstall_high", "stalls_high", "", "the same in HighMem")                                          \
    COUNT("allocstall_movable", "stalls_movable", "", "the same in Movable")                                    \
    COUNT("allocstall_device", "stalls_device", "", "the same in Device")                                       \
    COUNT("pgskip_dma", "skipped_dma", "pages", "not looked at by reclaim, being in DMA")                       \
    COUNT("pgskip_dma32", "skipped_dma32", "pages", "the same in DMA32")                                        \
    COUNT("pgskip_normal", "skipped_normal", "pages", "the same in Normal")                                     \
    COUNT("pgskip_high", "skipped_high", "pages", "the same in HighMem")                                        \
    COUNT("pgskip_movable", "skipped_movable", "pages", "the same in Movable")                                  \
    COUNT("pgskip_device", "skipped_device", "pages", "the same in Device")                                     \
    COUNT("pgactivate", "activated", "pages", "inactive pages made active")                                     \
    COUNT("pgdeactivate", "deactivated", "pages", "active pages made inactive")                                 \
    COUNT("pglazyfree", "lazily_freed", "pages", "marked by MADV_FREE")                                         \
    COUNT("pglazyfreed", "lazily_freed_taken", "pages", "of them reclaimed")                                    \
    COUNT("pgrefill", "refilled", "pages", "active pages looked at by reclaim")                                 \
    COUNT("pgscan_kswapd", "scanned_background", "pages", "inactive pages looked at by kswapd")                 \
    COUNT("pgscan_direct", "scanned_direct", "pages", "the same by allocations")                                \
    COUNT("pgscan_khugepaged", "scanned_khugepaged", "pages", "the same by khugepaged")                         \
    COUNT("pgscan_proactive", "scanned_proactive", "pages", "the same as told by memory.reclaim")               \
    COUNT("pgscan_direct_throttle", "reclaim_throttled", "", "allocations made to wait for kswapd")             \
    COUNT("pgscan_anon", "scanned_anon", "pages", "looked at, of no file")                                      \
    COUNT("pgscan_file", "scanned_file", "pages", "looked at, of files")                                        \
    COUNT("pgsteal_kswapd", "reclaimed_background", "pages", "reclaimed by kswapd")                             \
    COUNT("pgsteal_direct", "reclaimed_direct", "pages", "reclaimed by allocations")                            \
    COUNT("pgsteal_khugepaged", "reclaimed_khugepaged", "pages", "reclaimed by khugepaged")                     \
    COUNT("pgsteal_proactive", "reclaimed_proactive", "pages", "reclaimed as told by memory.reclaim")           \
    COUNT("pgsteal_anon", "reclaimed_anon", "pages", "reclaimed, of no file")                                   \
    COUNT("pgsteal_file", "reclaimed_file", "pages", "reclaimed, of files")                                     \
    COUNT("zone_reclaim_success", "node_reclaims", "", "reclaims in one NUMA node that gave enough")            \
    COUNT("zone_reclaim_failed", "node_reclaims_failed", "", "those that did not")                              \
    COUNT("pginodesteal", "inode_reclaimed", "pages", "reclaimed by freeing inodes")                            \
    COUNT("kswapd_inodesteal", "inode_reclaimed_background", "pages", "the same by kswapd")                     \
    COUNT("slabs_scanned", "slab_scanned", "", "objects of slabs looked at by reclaim")                         \
    COUNT("kswapd_low_wmark_hit_quickly", "kswapd_low_early", "", "kswapd was back at its low mark at once")    \
    COUNT("kswapd_high_wmark_hit_quickly", "kswapd_high_early", "", "kswapd was back at its high mark at once") \
    COUNT("pageoutrun", "kswapd_runs", "", "runs of kswapd")                                                    \
    COUNT("pgrotated", "rotated", "pages", "moved to where they are reclaimed next")                            \
    COUNT("drop_pagecache", "page_cache_drops", "", "times that somebody dropped the page cache")               \
    COUNT("drop_slab", "slab_drops", "", "times that somebody dropped slabs")                                   \
    COUNT("workingset_refault", "refaulted", "pages", "needed again soon after reclaim (before 5.9)")           \
    COUNT("workingset_refault_anon", "refaulted_anon", "pages", "of no file, needed again soon after reclaim")  \
    COUNT("workingset_refault_file", "refaulted_file", "pages", "of files, needed again soon after reclaim")    \
    COUNT("workingset_activate", "refault_activated", "pages", "of them made active at once (before 5.9)")      \
    COUNT("workingset_activate_anon", "refault_activated_anon", "pages", "of no file, made active at once")     \
    COUNT("workingset_activate_file", "refault_activated_file", "pages", "of files, made active at once")       \
    COUNT("workingset_restore_anon", "refault_restored_anon", "pages", "of no file, active before")             \
    COUNT("workingset_restore_file", "refault_restored_file", "pages", "of files, active before")               \
    COUNT("workingset_nodereclaim", "shadow_nodes_reclaimed", "", "nodes of reclaimed pages' shadows freed")    \
    GAUGE("workingset_nodes", "shadow_nodes", "", "nodes that hold shadows of reclaimed pages")                 \
    COUNT("nr_vmscan_write", "reclaim_written", "pages", "written by reclaim")                                  \
    COUNT("nr_vmscan_immediate_reclaim", "reclaim_waited", "pages", "to be reclaimed once written")             \
    COUNT("nr_dirtied", "dirtied", "pages", "made dirty")                                                       \
    COUNT("nr_written", "written", "pages", "dirty pages written")                                              \
    COUNT("nr_throttled_written", "written_throttled", "pages", "written while reclaim waited")                 \
    GAUGE("nr_dirty_threshold", "dirty_limit", "pages", "at which writers must wait")                           \
    GAUGE("nr_dirty_background_threshold", "dirty_background_limit", "pages", "at which writing begins")        \
    GAUGE("nr_zone_write_pending", "write_pending", "pages", "dirty or being written")                          \
    GAUGE("nr_isolated_anon", "isolated_anon", "pages", "of no file, taken off their lists for now")            \
    GAUGE("nr_isolated_file", "isolated_file", "pages", "of files, taken off their lists for now")              \
    GAUGE("nr_free_pages_blocks", "free_blocks", "pages", "free, in wholly free blocks")                        \
    GAUGE("nr_zspages", "zsmalloc", "pages", "used by zsmalloc")                                                \
    GAUGE("nr_kernel_misc_reclaimable", "kernel_misc_reclaimable", "pages", "other pages of the kernel")        \
    GAUGE("nr_kernel_file_pages", "kernel_file", "pages", "cache of the kernel's own files")                    \
    GAUGE("nr_iommu_pages", "iommu", "pages", "used by IOMMU")                                                  \
    GAUGE("nr_memmap_pages", "memmap", "pages", "descriptions of pages, allocated later")                       \
    GAUGE("nr_memmap_boot_pages", "memmap_boot", "pages", "descriptions of pages, allocated at boot")           \
    COUNT("nr_foll_pin_acquired", "pins", "", "pins of user pages taken")                                       \
    COUNT("nr_foll_pin_released", "unpins", "", "pins of user pages given back")                                \
    COUNT("numa_hit", "numa_hits", "pages", "allocated on the wanted node")                                     \
    COUNT("numa_miss", "numa_misses", "pages", "allocated on another node than wanted")                         \
    COUNT("numa_foreign", "numa_foreign", "pages", "wanted here, allocated on another node")                    \
    COUNT("numa_interleave", "numa_interleaved", "pages", "interleaved, on the wanted node")                    \
    COUNT("numa_local", "numa_local", "pages", "allocated on the running processor's node")                     \
    COUNT("numa_other", "numa_other", "pages", "allocated on another node than it")                             \
    COUNT("numa_pte_updates", "numa_marked", "pages", "marked to learn who uses them")                          \
    COUNT("numa_huge_pte_updates", "numa_marked_huge", "", "huge pages so marked")                              \
    COUNT("numa_hint_faults", "numa_hint_faults", "", "faults on marked pages")                                 \
    COUNT("numa_hint_faults_local", "numa_hint_faults_local", "", "of them on pages of the own node")           \
    COUNT("numa_pages_migrated", "numa_migrated", "pages", "moved to the node that uses them")                  \
    COUNT("pgmigrate_success", "migrated", "pages", "moved")                                                    \
    COUNT("pgmigrate_fail", "migrate_failed", "pages", "that could not be moved")                               \
    COUNT("thp_migration_success", "thp_migrated", "", "huge pages moved")                                      \
    COUNT("thp_migration_fail", "thp_migrate_failed", "", "huge pages that could not be moved")                 \
    COUNT("thp_migration_split", "thp_migrate_split", "", "huge pages split to be moved")                       \
    COUNT("pgpromote_success", "promoted", "pages", "moved to faster memory")                                   \
    COUNT("pgpromote_candidate", "promote_candidates", "pages", "that could be")                                \
    COUNT("pgpromote_candidate_nrl", "promote_unlimited", "pages", "that could be, whatever the rate limit")    \
    COUNT("pgdemote_kswapd", "demoted_background", "pages", "moved to slower memory by kswapd")                 \
    COUNT("pgdemote_direct", "demoted_direct", "pages", "the same by allocations")                              \
    COUNT("pgdemote_khugepaged", "demoted_khugepaged", "pages", "the same by khugepaged")                       \
    COUNT("pgdemote_proactive", "demoted_proactive", "pages", "the same as told by memory.reclaim")             \
    COUNT("compact_migrate_scanned", "compact_scanned", "pages", "looked at by compaction to be moved")         \
    COUNT("compact_free_scanned", "compact_scanned_free", "pages", "looked at as places for them")              \
    COUNT("compact_isolated", "compact_isolated", "pages", "taken for compaction")                              \
    COUNT("compact_stall", "compact_stalls", "", "allocations that had to compact first")                       \
    COUNT("compact_fail", "compact_failures", "", "of them in vain")                                            \
    COUNT("compact_success", "compact_successes", "", "of them with success")                                   \
    COUNT("compact_daemon_wake", "compact_wakes", "", "runs of kcompactd")                                      \
    COUNT("compact_daemon_migrate_scanned", "compact_daemon_scanned", "pages", "the same by kcompactd")         \
    COUNT("compact_daemon_free_scanned", "compact_daemon_scanned_free", "pages", "the same by kcompactd")       \
    COUNT("htlb_buddy_alloc_success", "hugetlb_allocated", "", "pages made for the pool of huge pages")         \
    COUNT("htlb_buddy_alloc_fail", "hugetlb_failed", "", "pages that could not be made for it")                 \
    COUNT("unevictable_pgs_culled", "unevictable_culled", "pages", "moved to the list of unevictable ones")     \
    COUNT("unevictable_pgs_scanned", "unevictable_scanned", "pages", "of that list looked at again")            \
    COUNT("unevictable_pgs_rescued", "unevictable_rescued", "pages", "taken off that list")                     \
    COUNT("unevictable_pgs_mlocked", "unevictable_mlocked", "pages", "locked")                                  \
    COUNT("unevictable_pgs_munlocked", "unevictable_munlocked", "pages", "unlocked")                            \
    COUNT("unevictable_pgs_cleared", "unevictable_cleared", "pages", "that lost their lock by unmapping")       \
    COUNT("unevictable_pgs_stranded", "unevictable_stranded", "pages", "unlocked and left on that list")        \
    COUNT("thp_fault_alloc", "thp_fault_allocated", "", "huge pages given to a page fault")                     \
    COUNT("thp_fault_fallback", "thp_fault_fallbacks", "", "page faults that got small pages instead")          \
    COUNT("thp_fault_fallback_charge", "thp_fault_fallbacks_charge", "", "of them because of a cgroup's limit") \
    COUNT("thp_collapse_alloc", "thp_collapsed", "", "huge pages made of small ones")                           \
    COUNT("thp_collapse_alloc_failed", "thp_collapse_failed", "", "that could not be made")                     \
    COUNT("thp_file_alloc", "thp_file_allocated", "", "huge pages for files and shmem")                         \
    COUNT("thp_file_fallback", "thp_file_fallbacks", "", "small pages instead of those")                        \
    COUNT("thp_file_fallback_charge", "thp_file_fallbacks_charge", "", "of them because of a cgroup's limit")   \
    COUNT("thp_file_mapped", "thp_file_mapped", "", "huge pages of files mapped")                               \
    COUNT("thp_split_page", "thp_split", "", "huge pages split")                                                \
    COUNT("thp_split_page_failed", "thp_split_failed", "", "that could not be split")                           \
    COUNT("thp_deferred_split_page", "thp_split_deferred", "", "put on the list of those to split")             \
    COUNT("thp_underused_split_page", "thp_split_underused", "", "split because mostly zero")                   \
    COUNT("thp_split_pmd", "thp_split_mappings", "", "mappings of huge pages split")                            \
    COUNT("thp_split_pud", "thp_split_mappings_1g", "", "mappings of 1 GiB split")                              \
    COUNT("thp_scan_exceed_none_pte", "thp_skipped_none", "", "not collapsed: too many empty")                  \
    COUNT("thp_scan_exceed_swap_pte", "thp_skipped_swap", "", "not collapsed: too many in swap")                \
    COUNT("thp_scan_exceed_share_pte", "thp_skipped_shared", "", "not collapsed: too many shared")              \
    COUNT("thp_zero_page_alloc", "thp_zero_allocated", "", "huge pages of zeros made")                          \
    COUNT("thp_zero_page_alloc_failed", "thp_zero_failed", "", "that could not be made")                        \
    COUNT("thp_swpout", "thp_swapped_out", "", "huge pages swapped out whole")                                  \
    COUNT("thp_swpout_fallback", "thp_swap_split", "", "huge pages split to be swapped out")                    \
    COUNT("balloon_inflate", "balloon_inflated", "pages", "given to the hypervisor")                            \
    COUNT("balloon_deflate", "balloon_deflated", "pages", "taken back from it")                                 \
    COUNT("balloon_migrate", "balloon_migrated", "pages", "of the balloon moved")                               \
    COUNT("direct_map_level2_splits", "direct_map_splits_2m", "", "mappings of 2 MiB by the kernel split")      \
    COUNT("direct_map_level3_splits", "direct_map_splits_1g", "", "mappings of 1 GiB by the kernel split")      \
    COUNT("direct_map_level2_collapses", "direct_map_joins_2m", "", "mappings joined to 2 MiB")                 \
    COUNT("direct_map_level3_collapses", "direct_map_joins_1g", "", "mappings joined to 1 GiB")

#define FIELD_COUNT(kernel, name, unit, help) FIELD(name, UINT, COUNTER, unit, help),
#define FIELD_GAUGE(kernel, name, unit, help)   FIELD(name, UINT, GAUGE, unit, help),
#define FIELD_KIB(kernel, name, help)           FIELD(name, UINT, COUNTER, "bytes", help),
#define NAME_PLAIN(kernel, name, unit, help)    {SENSOR_TEXT_(kernel), KEYED_PLAIN},
#define NAME_KIB(kernel, name, help)            {SENSOR_TEXT_(kernel), KEYED_BARE_KB},

static const struct field paging_fields[] = {VMSTAT(FIELD_COUNT, FIELD_GAUGE, FIELD_KIB)};
static const struct keyed_name paging_names[] = {VMSTAT(NAME_PLAIN, NAME_PLAIN, NAME_KIB)};

enum { PAGING_FIELDS = sizeof paging_fields / sizeof *paging_fields };
_Static_assert((int)PAGING_FIELDS <= (int)EVENT_FIELDS_MAX, "one event");

static const struct sensor_schema paging_schemas[] = {
    SCHEMA("paging", paging_fields),
    {0},
};

struct paging {
    struct sensor_env *env;
    struct source *vmstat;
    struct keyed keyed;
};

static int paging_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct paging *p = state;
    (void)why; /* can't fail */
    p->env = env;
    p->vmstat = env_source(env, "/proc/vmstat");
    keyed_init(&p->keyed, paging_names, PAGING_FIELDS);
    return 0;
}

static int paging_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct paging *p = state;
    struct slice text;
    struct value row[PAGING_FIELDS] = {0};
    int r = source_read(env, p->vmstat, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/vmstat: %s", err_text(r));
    if (keyed_read(&p->keyed, text, row) == 0)
        return diag_set(out->why, E_NODATA, 0, "/proc/vmstat: not a single line that is known");
    sensor_row(out, 0, row);
    return 0;
}

static void paging_close(void *state)
{
    struct paging *p = state;
    if (p->env)
        source_close(p->env, p->vmstat);
    keyed_fini(&p->keyed);
}

const struct sensor_ops sensor_paging = {
    .name = "paging",
    .summary = "page faults, transfers, reclaim, swap, compaction",
    .schemas = paging_schemas,
    .every = "1s",
    .refresh = "60s",
    .priority = 4,
    .is_default = true,
    .state_size = sizeof(struct paging),
    .open = paging_open,
    .sample = paging_sample,
    .close = paging_close,
};
