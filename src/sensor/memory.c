/* SPDX-License-Identifier: Apache-2.0 */
/* What memory is used for, from /proc/meminfo, in bytes. Which lines there are depends on the kernel's version and how
 * it was built; a field whose line is not there is missing.
 *
 * `available` is the kernel's own estimate of what programs could still get without swapping (since 3.14); there is no
 * substitute for it where it is missing: free memory, or that and the caches, is another number. */
#include "sensor/keyed.h"
#include "sensor/sensor.h"

/* The kernel's name, ours, and what it is. */
#define MEMINFO(BYTES, COUNT)                                                                   \
    BYTES("MemTotal", "total", "all memory but what firmware and the kernel's code keep")       \
    BYTES("MemFree", "free", "used for nothing")                                                \
    BYTES("MemAvailable", "available", "what programs could get without swapping, an estimate") \
    BYTES("Buffers", "buffers", "cache of block devices")                                       \
    BYTES("Cached", "cached", "cache of files, shmem included")                                 \
    BYTES("SwapCached", "swap_cached", "read back from swap and still in it")                   \
    BYTES("Active", "active", "used recently")                                                  \
    BYTES("Inactive", "inactive", "not used recently: reclaimed first")                         \
    BYTES("Active(anon)", "active_anon", "active, of no file")                                  \
    BYTES("Inactive(anon)", "inactive_anon", "inactive, of no file")                            \
    BYTES("Active(file)", "active_file", "active, of files")                                    \
    BYTES("Inactive(file)", "inactive_file", "inactive, of files")                              \
    BYTES("Unevictable", "unevictable", "can't be reclaimed")                                   \
    BYTES("Mlocked", "mlocked", "locked by mlock()")                                            \
    BYTES("HighTotal", "high_total", "high memory (32-bit kernels)")                            \
    BYTES("HighFree", "high_free", "of it free")                                                \
    BYTES("LowTotal", "low_total", "low memory (32-bit kernels)")                               \
    BYTES("LowFree", "low_free", "of it free")                                                  \
    BYTES("MmapCopy", "mmap_copy", "copied by mmap() (kernels without MMU)")                    \
    BYTES("SwapTotal", "swap_total", "all swap space")                                          \
    BYTES("SwapFree", "swap_free", "swap space that is not used")                               \
    BYTES("Zswap", "zswap", "used by compressed swap")                                          \
    BYTES("Zswapped", "zswapped", "held in it, before compression")                             \
    BYTES("Dirty", "dirty", "to be written to disk")                                            \
    BYTES("Writeback", "writeback", "being written to disk")                                    \
    BYTES("AnonPages", "anon", "of no file, mapped by programs")                                \
    BYTES("Mapped", "mapped", "of files, mapped by programs")                                   \
    BYTES("Shmem", "shmem", "shared memory and tmpfs")                                          \
    BYTES("KReclaimable", "kernel_reclaimable", "the kernel's, given back when needed")         \
    BYTES("Slab", "slab", "the kernel's objects")                                               \
    BYTES("SReclaimable", "slab_reclaimable", "of them given back when needed")                 \
    BYTES("SUnreclaim", "slab_unreclaimable", "of them not given back")                         \
    BYTES("KernelStack", "kernel_stack", "kernel stacks of all threads")                        \
    BYTES("ShadowCallStack", "shadow_call_stack", "shadow stacks of all threads")               \
    BYTES("PageTables", "page_tables", "page tables")                                           \
    BYTES("SecPageTables", "second_page_tables", "page tables of guests and IOMMU")             \
    BYTES("Quicklists", "quicklists", "lists of free page tables (old kernels)")                \
    BYTES("NFS_Unstable", "nfs_unstable", "sent to an NFS server, not yet on its disk")         \
    BYTES("Bounce", "bounce", "buffers for devices that don't reach all memory")                \
    BYTES("WritebackTmp", "writeback_tmp", "FUSE's buffers for writing")                        \
    BYTES("CommitLimit", "commit_limit", "most that may be promised to programs")               \
    BYTES("Committed_AS", "committed", "promised to programs")                                  \
    BYTES("VmallocTotal", "vmalloc_total", "address space of vmalloc")                          \
    BYTES("VmallocUsed", "vmalloc_used", "of it used")                                          \
    BYTES("VmallocChunk", "vmalloc_chunk", "its largest free piece; 0 since 4.4")               \
    BYTES("Percpu", "per_cpu", "the kernel's data for each processor")                          \
    BYTES("EarlyMemtestBad", "memtest_bad", "found bad when the kernel started")                \
    BYTES("HardwareCorrupted", "corrupted", "found bad by hardware and no longer used")         \
    BYTES("AnonHugePages", "anon_huge", "of anon in huge pages")                                \
    BYTES("ShmemHugePages", "shmem_huge", "of shmem in huge pages")                             \
    BYTES("ShmemPmdMapped", "shmem_huge_mapped", "of those mapped as such")                     \
    BYTES("FileHugePages", "file_huge", "of the cache of files in huge pages")                  \
    BYTES("FilePmdMapped", "file_huge_mapped", "of those mapped as such")                       \
    BYTES("CmaTotal", "cma_total", "kept for devices that need it in one piece")                \
    BYTES("CmaFree", "cma_free", "of it free")                                                  \
    BYTES("Unaccepted", "unaccepted", "not yet accepted by this guest")                         \
    BYTES("Balloon", "balloon", "given back to the hypervisor")                                 \
    COUNT("HugePages_Total", "huge_pages", "pages in the pool of huge pages")                   \
    COUNT("HugePages_Free", "huge_pages_free", "of them free")                                  \
    COUNT("HugePages_Rsvd", "huge_pages_reserved", "of them promised and not yet taken")        \
    COUNT("HugePages_Surp", "huge_pages_surplus", "above the pool's configured size")           \
    BYTES("Hugepagesize", "huge_page_size", "size of a page of the pool")                       \
    BYTES("Hugetlb", "hugetlb", "in pools of huge pages of all sizes")                          \
    BYTES("DirectMap4k", "direct_map_4k", "mapped by the kernel in pages of 4 KiB")             \
    BYTES("DirectMap2M", "direct_map_2m", "in pages of 2 MiB")                                  \
    BYTES("DirectMap4M", "direct_map_4m", "in pages of 4 MiB")                                  \
    BYTES("DirectMap1G", "direct_map_1g", "in pages of 1 GiB")

#define FIELD_BYTES(kernel, name, help) FIELD(name, UINT, GAUGE, "bytes", help),
#define FIELD_COUNT(kernel, name, help) FIELD(name, UINT, GAUGE, "", help),
#define NAME_BYTES(kernel, name, help)  {SENSOR_TEXT_(kernel), KEYED_KB},
#define NAME_COUNT(kernel, name, help)  {SENSOR_TEXT_(kernel), KEYED_PLAIN},

static const struct field memory_fields[] = {MEMINFO(FIELD_BYTES, FIELD_COUNT)};
static const struct keyed_name memory_names[] = {MEMINFO(NAME_BYTES, NAME_COUNT)};

enum { MEMORY_FIELDS = sizeof memory_fields / sizeof *memory_fields };

static const struct sensor_schema memory_schemas[] = {
    SCHEMA("memory", memory_fields),
    {0},
};

struct memory {
    struct sensor_env *env;
    struct source *meminfo;
    struct keyed keyed;
};

static int memory_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct memory *m = state;
    (void)why; /* can't fail */
    m->env = env;
    m->meminfo = env_source(env, "/proc/meminfo");
    keyed_init(&m->keyed, memory_names, MEMORY_FIELDS);
    return 0;
}

static int memory_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct memory *m = state;
    struct slice text;
    struct value row[MEMORY_FIELDS] = {0};
    int r = source_read(env, m->meminfo, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/meminfo: %s", err_text(r));
    if (keyed_read(&m->keyed, text, row) == 0)
        return diag_set(out->why, E_NODATA, 0, "/proc/meminfo: not a single line that is known");
    sensor_row(out, 0, row);
    return 0;
}

static void memory_close(void *state)
{
    struct memory *m = state;
    if (m->env)
        source_close(m->env, m->meminfo);
    keyed_fini(&m->keyed);
}

const struct sensor_ops sensor_memory = {
    .name = "memory",
    .summary = "what memory is used for",
    .schemas = memory_schemas,
    .every = "1s",
    .refresh = "60s",
    .priority = 2,
    .is_default = true,
    .state_size = sizeof(struct memory),
    .open = memory_open,
    .sample = memory_sample,
    .close = memory_close,
};
