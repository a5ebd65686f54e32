/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdatomic.h>

static _Atomic uint64_t fail_countdown;

static int should_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0)
        return 0;
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

void *mem_try_alloc(size_t n)
{
    return should_fail() ? NULL : calloc(1, n ? n : 1);
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
    return should_fail() ? NULL : realloc(p, n ? n : 1);
}

void mem_free(void *p)
{
    free(p);
}

void mem_fail_after(uint64_t n)
{
    atomic_store(&fail_countdown, n);
}
