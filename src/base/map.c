/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

void map_fini(struct map *m)
{
    mem_free(m->slots);
    *m = (struct map){0};
}

/* The slot that holds key, or the free one where it would go. cap > n, so there is always a free slot. */
static struct map_slot *find(const struct map *m, struct slice key, uint64_t hash)
{
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct map_slot *s = &m->slots[i];
        if (!s->value || (s->hash == hash && slice_eq(s->key, key)))
            return s;
    }
}

void *map_get(const struct map *m, struct slice key)
{
    return m->n ? find(m, key, hash_bytes(key))->value : NULL;
}

static int grow(struct map *m)
{
    struct map bigger = {.cap = m->cap ? m->cap * 2 : 16, .n = m->n};
    bigger.slots = mem_try_alloc(bigger.cap * sizeof *bigger.slots);
    if (!bigger.slots)
        return -ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].value)
            *find(&bigger, m->slots[i].key, m->slots[i].hash) = m->slots[i];
    mem_free(m->slots);
    *m = bigger;
    return 0;
}

int map_put(struct map *m, struct slice key, void *value)
{
    if (m->n * 2 >= m->cap) {
        int r = grow(m);
        if (r < 0)
            return r;
    }
    uint64_t hash = hash_bytes(key);
    struct map_slot *s = find(m, key, hash);
    if (!s->value)
        m->n++;
    *s = (struct map_slot){key, hash, value};
    return 0;
}

/* Closes the hole at i: later members of the same run move up if the hole is between their home and them. */
static void close_hole(struct map *m, size_t hole)
{
    size_t mask = m->cap - 1;
    for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t home = m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map_slot){0};
}

void *map_remove(struct map *m, struct slice key)
{
    if (m->n == 0)
        return NULL;
    struct map_slot *s = find(m, key, hash_bytes(key));
    void *value = s->value;
    if (value) {
        m->n--;
        close_hole(m, (size_t)(s - m->slots));
    }
    return value;
}

bool map_next(const struct map *m, size_t *i, void **value)
{
    while (*i < m->cap) {
        *value = m->slots[(*i)++].value;
        if (*value)
            return true;
    }
    return false;
}
