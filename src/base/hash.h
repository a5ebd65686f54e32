/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - XXH3, compiled in from Debian's header so that nothing is linked. */
#ifndef GRIDLINE_BASE_HASH_H
#define GRIDLINE_BASE_HASH_H

#include "base/slice.h"

#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t hash_bytes(struct slice s)
{
    return XXH3_64bits(s.p, s.n);
}
static inline uint64_t hash_seeded(struct slice s, uint64_t seed)
{
    return XXH3_64bits_withSeed(s.p, s.n, seed);
}

#endif
