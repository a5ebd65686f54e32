/* SPDX-License-Identifier: Apache-2.0 */
/* distinct.h - how many different texts there were: 8 bytes a text, and no copy of it. Two texts with the same 64-bit
 * hash count as one. A zeroed or reset strbuf has seen none. */
#ifndef GRIDLINE_SENSOR_DISTINCT_H
#define GRIDLINE_SENSOR_DISTINCT_H

#include "base/hash.h"
#include "base/strbuf.h"

#include <stdlib.h>

static inline void distinct_add(struct strbuf *seen, struct slice text)
{
    uint64_t hash = hash_bytes(text);
    strbuf_add(seen, &hash, sizeof hash);
}

static inline int distinct_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts them. Wrong after strbuf_failed. */
static inline size_t distinct_count(struct strbuf *seen)
{
    uint64_t *v = (uint64_t *)(void *)seen->p; /* as malloc aligned it */
    size_t n = seen->n / sizeof *v, distinct = n > 0;
    if (n > 1)
        qsort(v, n, sizeof *v, distinct_compare);
    for (size_t i = 1; i < n; i++)
        distinct += v[i] != v[i - 1];
    return distinct;
}

#endif
