/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/mem.h"

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    _Alignas(16) char data[];
};

static void free_blocks(struct arena_block *b)
{
    while (b) {
        struct arena_block *next = b->next;
        mem_free(b);
        b = next;
    }
}

void arena_fini(struct arena *a)
{
    free_blocks(a->blocks);
    *a = (struct arena){0};
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->blocks; /* the newest one, which is the largest of the doubling series */
    if (!keep)
        return;
#ifdef GRIDLINE_ARENA_DEBUG
    arena_fini(a);
#else
    free_blocks(keep->next);
    keep->next = NULL;
    a->at = keep->data;
    a->end = keep->data + keep->size;
    a->total = keep->size;
#endif
}

static struct arena_block *block_create(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *b = mem_try_resize(NULL, sizeof *b + size); /* not zeroed */
    if (b)
        *b = (struct arena_block){.size = size};
    return b;
}

void *arena_alloc_slow(struct arena *a, size_t n)
{
#ifdef GRIDLINE_ARENA_DEBUG
    size_t size = n;
#else
    size_t size = a->blocks && a->blocks->size < BLOCK_MAX ? a->blocks->size * 2 : BLOCK_MIN;
    if (a->blocks && a->blocks->size >= BLOCK_MAX)
        size = BLOCK_MAX;
    if (size < n)
        size = (n + 7) & ~(size_t)7;
    if (size < n)
        return NULL;
#endif
    struct arena_block *b = block_create(size);
    if (!b)
        return NULL;
    b->next = a->blocks;
    a->blocks = b;
    a->total += size;
#ifdef GRIDLINE_ARENA_DEBUG
    a->at = a->end = NULL;
#else
    a->at = b->data + ((n + 7) & ~(size_t)7);
    a->end = b->data + size;
#endif
    return b->data;
}
