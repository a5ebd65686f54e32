/* SPDX-License-Identifier: Apache-2.0 */
/* sql_latest.c - the newest row of every stream of an archive, where nobody has given NAME_latest.
 *
 * Which chunk it is in, its directory tells; of two with the same newest time the one that comes later in the
 * scan, as what is in memory comes last. A newest chunk that is damaged is counted as lost, and its stream
 * has no row: an older one would be wrong. */
#include "archive/sql_latest.h"

#include <errno.h>

struct newest {
    int64_t max_ns;
    uint64_t place;
    struct slice key;
};

static struct newest *add_stream(struct sql_latest *l, struct slice key)
{
    struct newest *n = arena_alloc(&l->arena, sizeof *n);
    if (!n)
        return NULL;
    *n = (struct newest){.key = arena_copy(&l->arena, key)};
    return n->key.p && map_put(&l->streams, n->key, n) == 0 ? n : NULL;
}

/* What the arena and the map have taken more. */
static int charge(struct sql_latest *l)
{
    size_t now = l->arena.total + l->streams.cap * sizeof *l->streams.slots;
    if (now > l->charged && !sql_memory_take(&l->context->memory, now - l->charged))
        return E_LIMIT;
    l->charged = now > l->charged ? now : l->charged;
    return 0;
}

static int look_at(struct sql_latest *l, const struct scan_chunk *c)
{
    const struct blob_chunk *b = c->chunk;
    struct newest *n = map_get(&l->streams, b->key);
    if (n && n->max_ns > b->max_ns)
        return 0;
    if (!n && !(n = add_stream(l, b->key)))
        return -ENOMEM;
    n->max_ns = b->max_ns;
    n->place = c->place;
    return charge(l);
}

int sql_latest_find(struct sql_latest *l, const struct scan_spec *spec, struct scan_loss *counted)
{
    struct scan *scan = NULL;
    struct scan_chunk chunk;
    sql_latest_fini(l);
    int r = sql_scan_open(l->context, spec, &scan);
    while (r >= 0 && (r = sql_scan_next(l->context, scan, &chunk)) > 0)
        r = look_at(l, &chunk);
    sql_scan_close(l->context, scan, counted);
    return r;
}

bool sql_latest_is(const struct sql_latest *l, const struct scan_chunk *c)
{
    const struct newest *n = map_get(&l->streams, c->chunk->key);
    return n && n->place == c->place;
}

void sql_latest_fini(struct sql_latest *l)
{
    if (l->charged)
        sql_memory_give(&l->context->memory, l->charged);
    l->charged = 0;
    map_fini(&l->streams);
    l->streams = (struct map){0};
    arena_fini(&l->arena);
}
