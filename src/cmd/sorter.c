/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is one mapping, used from both ends:
 *
 *     records →            | free, at least as large as the entries |            ← entries
 *
 * An entry is the time and the place of a record, 16 bytes. When the free part would be smaller than the
 * entries, it is time to sort: the free part is the second buffer that the sort needs. Sorted, the records
 * are a run; runs go to files and are merged at the end, from the same memory. Runs are numbered in the order
 * of their records, and of equal times the lower run goes first: with a stable sort that makes the whole
 * stable.
 *
 * More than fan_in runs are merged in steps: whenever the newest fan_in runs have the same level they become
 * one of the next level, so that each record is written log(runs) times and few files are open.
 *
 * A run's file: records one behind the other, u64 key, u32 length, bytes; native byte order, as nobody else
 * ever reads it. The key is the time with its sign bit turned over, so that unsigned order is time order.
 *
 * The sort is a radix sort from the lowest digit, 11 bits at a time, on (key - lowest key): an hour in ns
 * takes four passes; what comes in order already takes none. Rejected: sorting pointers by comparing the
 * text, as sort(1) does (a cache miss a comparison); a heap instead of the tree of losers in run.c (twice the
 * comparisons). */
#include "cmd/sorter.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/run.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DIGIT_BITS = 11, DIGIT_SIZE = 1 << DIGIT_BITS, AHEAD = 16, RUNS_MAX = 1024 };

struct entry {
    uint64_t key;
    uint32_t at, n; /* of the record, in memory */
};

struct sorter {
    char *memory;
    size_t size;
    size_t used;          /* bytes of records */
    size_t n;             /* entries; the first is the last of memory */
    uint64_t low, high;   /* keys in memory */
    bool in_order;        /* every key is at least the one before it */
    bool ended;           /* sorter_sort was called */
    struct entry *sorted; /* after sorter_sort without files */
    size_t at;            /* the next of sorted */
    struct run runs[RUNS_MAX];
    size_t n_runs;
    size_t fan_in;
    uint64_t spills;
    struct run_merge *merge; /* after sorter_sort with files */
};

static uint64_t key_of(int64_t time_ns)
{
    return (uint64_t)time_ns ^ (UINT64_C(1) << 63);
}

static int64_t time_of(uint64_t key)
{
    return (int64_t)(key ^ (UINT64_C(1) << 63));
}

static void start_over(struct sorter *s)
{
    s->used = s->n = 0;
    s->low = UINT64_MAX;
    s->high = 0;
    s->in_order = true;
}

int sorter_create(uint64_t memory_bytes, struct sorter **out)
{
    if (memory_bytes < SORTER_MEMORY_MIN)
        memory_bytes = SORTER_MEMORY_MIN;
    if (memory_bytes >= SORTER_MEMORY_MAX)
        memory_bytes = SORTER_MEMORY_MAX - 1; /* places are 32 bits */
    struct sorter *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->size = (size_t)memory_bytes & ~(size_t)4095;
    void *p = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        mem_free(s);
        return -ENOMEM;
    }
    s->memory = p;
    s->fan_in = s->size / RUN_BUFFER_MIN < 64 ? s->size / RUN_BUFFER_MIN : 64;
    start_over(s);
    *out = s;
    return 0;
}

void sorter_destroy(struct sorter *s)
{
    if (!s)
        return;
    run_merge_destroy(s->merge);
    for (size_t i = 0; i < s->n_runs; i++)
        run_close(&s->runs[i]);
    (void)munmap(s->memory, s->size); /* our own mapping */
    mem_free(s);
}

uint64_t sorter_spills(const struct sorter *s)
{
    return s->spills;
}

static struct entry *entries(const struct sorter *s)
{
    return (struct entry *)(void *)(s->memory + s->size) - s->n;
}

/* Entries were added downwards; turned round they are in the order of their records. */
static void turn_round(struct entry *e, size_t n)
{
    for (size_t i = 0, k = n; i + 1 < k; i++) {
        struct entry swap = e[--k];
        e[k] = e[i];
        e[i] = swap;
    }
}

/* Sorts n entries by key from low to high, with the help of as many at other. Returns the one of the two that
 * holds the result. */
static struct entry *radix_sort(struct entry *from, struct entry *other, size_t n, uint64_t low,
                                uint64_t high)
{
    for (unsigned shift = 0; shift < 64 && (high - low) >> shift; shift += DIGIT_BITS) {
        uint32_t place[DIGIT_SIZE] = {0};
        for (size_t i = 0; i < n; i++)
            place[((from[i].key - low) >> shift) & (DIGIT_SIZE - 1)]++;
        for (uint32_t d = 0, sum = 0; d < DIGIT_SIZE; d++) {
            uint32_t count = place[d];
            place[d] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            other[place[((from[i].key - low) >> shift) & (DIGIT_SIZE - 1)]++] = from[i];
        struct entry *swap = from;
        from = other;
        other = swap;
    }
    return from;
}

static struct entry *sort_memory(struct sorter *s)
{
    struct entry *e = entries(s);
    turn_round(e, s->n);
    if (s->in_order)
        return e;
    struct entry *other = (struct entry *)(void *)(s->memory + ((s->used + 15) & ~(size_t)15));
    return radix_sort(e, other, s->n, s->low, s->high);
}

/* Merges the newest n runs into one. The memory holds no records now. */
static int merge_newest(struct sorter *s, size_t n)
{
    struct run *first = &s->runs[s->n_runs - n];
    struct run_writer w;
    struct run_merge *m = NULL;
    struct slice record;
    uint64_t key;
    int r = run_writer_open(&w, first->level + 1);
    if (r < 0)
        return r;
    r = run_merge_create(first, n, s->memory, s->size, &m);
    while (r == 0 && (r = run_merge_next(m, &key, &record)) > 0)
        r = run_writer_add(&w, key, record);
    run_merge_destroy(m);
    struct run merged;
    r = run_writer_close(&w, r, &merged);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        run_close(&first[i]);
    *first = merged;
    s->n_runs -= n - 1;
    return 0;
}

/* As often as the newest fan_in runs are of one level. */
static int merge_levels(struct sorter *s)
{
    while (s->n_runs >= s->fan_in) {
        const struct run *newest = &s->runs[s->n_runs - 1];
        if (newest[1 - (ptrdiff_t)s->fan_in].level != newest->level)
            return 0;
        int r = merge_newest(s, s->fan_in);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Sorted by time the records are anywhere in memory: their first three cache lines are asked for early. */
static inline void fetch_ahead(const struct sorter *s, const struct entry *e)
{
    __builtin_prefetch(s->memory + e->at);
    __builtin_prefetch(s->memory + e->at + 64);
    __builtin_prefetch(s->memory + e->at + 128);
}

/* Memory becomes a run. */
static int spill(struct sorter *s)
{
    const struct entry *e = sort_memory(s);
    struct run_writer w;
    int r = run_writer_open(&w, 0);
    if (r < 0)
        return r;
    for (size_t i = 0; i < s->n && r == 0; i++) {
        if (i + AHEAD < s->n)
            fetch_ahead(s, &e[i + AHEAD]);
        r = run_writer_add(&w, e[i].key, slice_of(s->memory + e[i].at, e[i].n));
    }
    assert(s->n_runs < RUNS_MAX); /* merge_levels leaves fewer than fan_in of each level */
    r = run_writer_close(&w, r, &s->runs[s->n_runs]);
    if (r < 0)
        return r;
    s->n_runs++;
    s->spills++;
    start_over(s);
    return merge_levels(s);
}

int sorter_add(struct sorter *s, int64_t time_ns, struct slice record)
{
    assert(!s->ended);
    if (record.n > SORTER_RECORD_MAX)
        return E_LIMIT;
    if (s->used + record.n + 2 * (s->n + 1) * sizeof(struct entry) + 16 > s->size) {
        int r = spill(s);
        if (r < 0)
            return r;
    }
    uint64_t key = key_of(time_ns);
    memcpy(s->memory + s->used, record.p, record.n);
    s->n++;
    *entries(s) = (struct entry){.key = key, .at = (uint32_t)s->used, .n = (uint32_t)record.n};
    s->used += record.n;
    if (key < s->high)
        s->in_order = false;
    else
        s->high = key;
    if (key < s->low)
        s->low = key;
    return 0;
}

int sorter_sort(struct sorter *s)
{
    assert(!s->ended);
    s->ended = true;
    if (s->n_runs == 0) {
        s->sorted = sort_memory(s);
        return 0;
    }
    int r = s->n ? spill(s) : 0;
    while (r == 0 && s->n_runs > s->fan_in) { /* the newest are the smallest */
        size_t too_many = s->n_runs - s->fan_in + 1;
        r = merge_newest(s, too_many < s->fan_in ? too_many : s->fan_in);
    }
    return r < 0 ? r : run_merge_create(s->runs, s->n_runs, s->memory, s->size, &s->merge);
}

int sorter_next(struct sorter *s, int64_t *time_ns, struct slice *record)
{
    assert(s->ended);
    uint64_t key;
    if (s->merge) {
        int r = run_merge_next(s->merge, &key, record);
        *time_ns = r > 0 ? time_of(key) : *time_ns;
        return r;
    }
    if (s->at >= s->n)
        return 0;
    const struct entry *e = &s->sorted[s->at++];
    if (s->at + AHEAD < s->n)
        fetch_ahead(s, &e[AHEAD]);
    *time_ns = time_of(e->key);
    *record = slice_of(s->memory + e->at, e->n);
    return 1;
}
