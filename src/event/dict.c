/* SPDX-License-Identifier: Apache-2.0 */
#include "event/dict.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

void dict_fini(struct dict *d)
{
    strbuf_fini(&d->bytes);
    mem_free(d->entries);
    mem_free(d->table);
    *d = (struct dict){0};
}

void dict_reset(struct dict *d)
{
    strbuf_reset(&d->bytes);
    if (d->n)
        memset(d->table, 0, d->table_cap * sizeof *d->table);
    d->n = d->last = 0;
}

static uint32_t *find(const struct dict *d, struct slice s, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & (d->table_cap - 1);; i = (i + 1) & (d->table_cap - 1)) {
        uint32_t *slot = &d->table[i];
        if (*slot == 0)
            return slot;
        const struct dict_entry *e = &d->entries[*slot - 1];
        if (e->hash == hash && slice_eq(dict_get(d, *slot - 1), s))
            return slot;
    }
}

/* Room for one more: entries below cap, table at most half full. */
static int grow(struct dict *d)
{
    if (d->n < d->cap)
        return 0;
    uint32_t cap = d->cap ? d->cap * 2 : 32;
    struct dict_entry *entries = mem_try_resize(d->entries, cap * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    d->entries = entries;
    uint32_t *table = mem_try_alloc((size_t)cap * 2 * sizeof *table);
    if (!table)
        return -ENOMEM;
    mem_free(d->table);
    d->table = table;
    d->table_cap = cap * 2;
    d->cap = cap;
    for (uint32_t i = 0; i < d->n; i++)
        *find(d, dict_get(d, i), d->entries[i].hash) = i + 1;
    return 0;
}

/* By hash; added if new. */
static int64_t look_up(struct dict *d, struct slice s)
{
    int r = grow(d);
    if (r < 0)
        return r;
    uint64_t hash = hash_bytes(s);
    uint32_t *slot = find(d, s, hash);
    if (*slot == 0) {
        uint32_t at = (uint32_t)d->bytes.n;
        if (!strbuf_room(&d->bytes, s.n)) {
            d->bytes.failed = false; /* what is there stays whole */
            return -ENOMEM;
        }
        strbuf_add_slice(&d->bytes, s);
        d->entries[d->n++] = (struct dict_entry){.hash = hash, .at = at, .n = (uint32_t)s.n};
        *slot = d->n;
    }
    return *slot - 1;
}

int64_t dict_add(struct dict *d, struct slice s)
{
    if (d->n == 0)
        return look_up(d, s);
    uint32_t last = d->last, next = d->entries[last].next;
    if (slice_eq(dict_get(d, last), s))
        return last;
    if (slice_eq(dict_get(d, next), s)) {
        d->last = next;
        return next;
    }
    int64_t found = look_up(d, s);
    if (found >= 0) {
        d->entries[last].next = (uint32_t)found;
        d->last = (uint32_t)found;
    }
    return found;
}
