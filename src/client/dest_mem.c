/* SPDX-License-Identifier: Apache-2.0 */
/* The newest blocks, as many as fit in the size that was asked for; the oldest go first. What is held counts
 * as passed: it is where it was sent. */
#include "client/dest_mem.h"

#include "base/mem.h"
#include "base/num.h"
#include "event/block.h"

#include <errno.h>

enum { MEM_MIN = 4096 };
#define MEM_MAX (UINT64_C(1) << 40)

struct held {
    struct held *newer;
    uint32_t n;
    uint64_t first_seq;
    size_t size;
    char bytes[];
};

struct mem {
    struct dest dest;
    uint64_t max; /* bytes of blocks */
    uint64_t size;
    struct held *oldest, *newest;
    struct dest_counts counts;
};

static void drop_oldest(struct mem *m)
{
    struct held *h = m->oldest;
    m->oldest = h->newer;
    m->size -= h->size;
    m->counts.passed -= h->n;
    m->counts.dropped[DROP_MEMORY] += h->n;
    mem_free(h);
}

static void mem_put(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq)
{
    struct mem *m = (struct mem *)d;
    m->counts.given += n;
    struct held *h = block.n <= m->max ? mem_try_alloc(sizeof *h + block.n) : NULL;
    if (!h) {
        m->counts.dropped[DROP_MEMORY] += n;
        return;
    }
    *h = (struct held){.n = n, .first_seq = first_seq, .size = block.n};
    memcpy(h->bytes, block.p, block.n);
    while (m->oldest && m->size + block.n > m->max)
        drop_oldest(m);
    if (m->oldest)
        m->newest->newer = h;
    else
        m->oldest = h;
    m->newest = h;
    m->size += block.n;
    m->counts.passed += n;
}

int dest_mem_copy(const struct dest *mem, struct dest *to)
{
    const struct mem *m = (const struct mem *)mem;
    struct dest_counts c;
    for (const struct held *h = m->oldest; h; h = h->newer)
        to->ops->put(to, slice_of(h->bytes, h->size), h->n, h->first_seq);
    to->ops->counts(to, &c);
    return c.passed == c.given ? 0 : -EIO;
}

static void mem_counts(const struct dest *d, struct dest_counts *out)
{
    *out = ((const struct mem *)d)->counts;
}

static void forget(struct mem *m)
{
    while (m->oldest)
        drop_oldest(m);
    m->counts = (struct dest_counts){0};
}

static void mem_after_fork(struct dest *d, const struct dest_env *env)
{
    (void)env;
    forget((struct mem *)d);
}

static void mem_close(struct dest *d)
{
    forget((struct mem *)d);
    mem_free(d);
}

static int mem_open(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    uint64_t max;
    (void)env;
    if (query.n || num_parse_size(url, &max) < 0 || max < MEM_MIN || max > MEM_MAX)
        return -EINVAL;
    struct mem *m = mem_try_alloc(sizeof *m);
    if (!m)
        return -ENOMEM;
    m->dest.ops = &dest_mem;
    m->max = max;
    *out = &m->dest;
    return 0;
}

const struct dest_ops dest_mem = {
    .scheme = "mem",
    .open = mem_open,
    .put = mem_put,
    .counts = mem_counts,
    .after_fork = mem_after_fork,
    .close = mem_close,
};
