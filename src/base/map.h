/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - bytes -> pointer. Open addressing, power-of-two size, at most half full, tombstone-free removal.
 * Keys are borrowed: they usually live in the value they map to. A zeroed struct is an empty map.
 * Not thread-safe. */
#ifndef GRIDLINE_BASE_MAP_H
#define GRIDLINE_BASE_MAP_H

#include "base/slice.h"

#include <stdint.h>

struct map_slot {
    struct slice key;
    uint64_t hash;
    void *value; /* NULL = free slot */
};

struct map {
    struct map_slot *slots;
    size_t cap; /* 0 or a power of two */
    size_t n;
};

void map_fini(struct map *m); /* the values are not touched */
/* NULL when absent. */
void *map_get(const struct map *m, struct slice key);
/* Adds or replaces (key too). value is not NULL. -ENOMEM leaves the map as it was. */
int map_put(struct map *m, struct slice key, void *value);
/* Returns the value that was there, or NULL. */
void *map_remove(struct map *m, struct slice key);

/* for (size_t i = 0; map_next(m, &i, &v);) ... in no order; do not change the map meanwhile. */
bool map_next(const struct map *m, size_t *i, void **value);

#endif
