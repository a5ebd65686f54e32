/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - allocations that end together. Owns memory only, never descriptors or threads.
 *
 * A zeroed struct is an empty arena. Blocks double from 4 KiB to 1 MiB; a larger request gets its own.
 * With -DGRIDLINE_ARENA_DEBUG each allocation is its own malloc, so that ASan sees an overrun. Cost: a few
 * instructions for most allocations, no zeroing. Not thread-safe. */
#ifndef GRIDLINE_BASE_ARENA_H
#define GRIDLINE_BASE_ARENA_H

#include "base/slice.h"

#include <stdint.h>

struct arena_block;

struct arena {
    char *at;  /* next free byte of the current block */
    char *end; /* end of the current block */
    struct arena_block *blocks;
    size_t total; /* bytes taken from the system */
};

void arena_fini(struct arena *a);
/* Frees all allocations but keeps one block for the next use. */
void arena_reset(struct arena *a);
void *arena_alloc_slow(struct arena *a, size_t n);

/* 8-byte aligned, not zeroed; NULL when out of memory. Valid until arena_reset or arena_fini. */
static inline void *arena_alloc(struct arena *a, size_t n)
{
#ifndef GRIDLINE_ARENA_DEBUG
    size_t need = (n + 7) & ~(size_t)7;
    if (need >= n && (size_t)(a->end - a->at) >= need) {
        void *p = a->at;
        a->at += need;
        return p;
    }
#endif
    return arena_alloc_slow(a, n);
}

/* A copy that lives as long as the arena; p is NULL when out of memory (n is then 0). */
static inline struct slice arena_copy(struct arena *a, struct slice s)
{
    char *p = arena_alloc(a, s.n ? s.n : 1);
    if (p && s.n)
        memcpy(p, s.p, s.n);
    return (struct slice){p, p ? s.n : 0};
}

#endif
