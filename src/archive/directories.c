/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/directories.h"

#include "base/mem.h"

#include <errno.h>

static struct slice key_of(const struct blob_place *place)
{
    return slice_of((const char *)place, sizeof *place);
}

static void unlink_entry(struct directories *d, struct directory_entry *e)
{
    *(e->newer ? &e->newer->older : &d->newest) = e->older;
    *(e->older ? &e->older->newer : &d->oldest) = e->newer;
}

static void link_newest(struct directories *d, struct directory_entry *e)
{
    e->newer = NULL;
    e->older = d->newest;
    *(d->newest ? &d->newest->newer : &d->oldest) = e;
    d->newest = e;
}

static void entry_destroy(struct directory_entry *e)
{
    arena_fini(&e->arena);
    strbuf_fini(&e->body);
    mem_free(e);
}

static void forget(struct directories *d, struct directory_entry *e)
{
    (void)map_remove(&d->all, key_of(&e->place)); /* it is there */
    unlink_entry(d, e);
    d->size_bytes -= e->size_bytes;
    entry_destroy(e);
}

static void set_size(struct directories *d, struct directory_entry *e)
{
    d->size_bytes -= e->size_bytes;
    e->size_bytes = sizeof *e + e->arena.total + e->body.cap;
    d->size_bytes += e->size_bytes;
}

/* The oldest give way that nobody uses: bodies first, as a look for one id needs every directory, and of
 * bodies only a few. */
static void shrink(struct directories *d)
{
    for (struct directory_entry *e = d->oldest; e && d->size_bytes > d->max_bytes; e = e->newer) {
        if (e->uses || !e->body.cap)
            continue;
        strbuf_fini(&e->body);
        set_size(d, e);
    }
    for (struct directory_entry *e = d->oldest, *next; e && d->size_bytes > d->max_bytes; e = next) {
        next = e->newer;
        if (e->uses == 0)
            forget(d, e);
    }
}

void directories_fini(struct directories *d)
{
    while (d->oldest)
        forget(d, d->oldest);
    map_fini(&d->all);
}

static int read_entry(struct partition *p, struct directory_entry *e)
{
    struct strbuf bytes = {0};
    int r = partition_directory(p, e->place.blob, &bytes);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&bytes), &e->arena, &e->directory);
    strbuf_fini(&bytes);
    if (r == -ENOMEM || r == -EIO)
        return r;
    e->error = r;
    return 0;
}

int directories_get(struct directories *d, struct partition *p, struct blob_place place,
                    struct directory_entry **out)
{
    struct directory_entry *e = map_get(&d->all, key_of(&place));
    if (e) {
        unlink_entry(d, e);
    } else {
        e = mem_alloc(sizeof *e);
        e->place = place;
        int r = read_entry(p, e);
        if (r == 0)
            r = map_put(&d->all, key_of(&e->place), e);
        if (r < 0) {
            entry_destroy(e);
            return r;
        }
        set_size(d, e);
    }
    link_newest(d, e);
    e->uses++;
    shrink(d);
    *out = e;
    return 0;
}

void directories_put(struct directories *d, struct directory_entry *e)
{
    e->uses--;
    shrink(d);
}

int directories_body(struct directories *d, struct partition *p, struct directory_entry *e)
{
    if (e->body.n)
        return 0;
    int r = partition_body(p, e->place.blob, &e->body);
    if (r < 0)
        strbuf_reset(&e->body);
    set_size(d, e);
    return r;
}
