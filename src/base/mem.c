/* SPDX-License-Identifier: Apache-2.0 */
/* The reserve (mem_last_words) is a block of zeros that costs address space until it is used. A piece of it has its
 * size in the 16 bytes before it. Pieces may be freed by any thread, which does nothing. */
#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { PIECE_HEAD = 16 };

static _Alignas(16) char reserve[MEM_RESERVE];
static _Atomic size_t reserve_used;
static _Thread_local bool is_last_words __attribute__((tls_model("initial-exec"))); /* usable in a handler */

static bool is_reserve(const void *p)
{
    return (uintptr_t)p - (uintptr_t)reserve < sizeof reserve;
}

static void *reserve_alloc(size_t n)
{
    if (n > MEM_RESERVE - PIECE_HEAD)
        return NULL;
    size_t need = (n + PIECE_HEAD + 15) & ~(size_t)15;
    size_t at = atomic_fetch_add(&reserve_used, need);
    if (at > MEM_RESERVE - need)
        return NULL;
    memcpy(reserve + at, &n, sizeof n);
    return reserve + at + PIECE_HEAD;
}

static size_t size_of(const void *p)
{
    size_t n;
    if (!is_reserve(p))
        return malloc_usable_size((void *)p); /* reads the block's own head, takes no lock */
    memcpy(&n, (const char *)p - PIECE_HEAD, sizeof n);
    return n;
}

static void *reserve_resize(void *p, size_t n)
{
    void *to = reserve_alloc(n);
    size_t had = p ? size_of(p) : 0;
    if (to && had)
        memcpy(to, p, had < n ? had : n);
    return to;
}

static _Atomic uint64_t fail_countdown;

static int should_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0)
        return 0;
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

void *mem_try_alloc(size_t n)
{
    if (should_fail())
        return NULL;
    return is_last_words ? reserve_alloc(n) : calloc(1, n ? n : 1);
}

void *mem_alloc(size_t n)
{
    void *p = mem_try_alloc(n);
    if (!p) {
        (void)fputs("gridline: out of memory\n", stderr); /* nothing to do if even that fails */
        abort();
    }
    return p;
}

void *mem_try_resize(void *p, size_t n)
{
    if (should_fail())
        return NULL;
    return is_last_words || is_reserve(p) ? reserve_resize(p, n) : realloc(p, n ? n : 1);
}

void mem_free(void *p)
{
    if (!is_last_words && !is_reserve(p))
        free(p);
}

void mem_fail_after(uint64_t n)
{
    atomic_store(&fail_countdown, n);
}

void mem_last_words(void)
{
    is_last_words = true;
}
