/* SPDX-License-Identifier: Apache-2.0 */
/* What partitions know, for a catalogue that is gone; and what a catalogue knows, for partitions that have
 * lost something.
 *
 * Cursors. A partition's mark says up to where that partition is complete, and a flush commits one partition
 * after the other: the cursor is where all of them are. Each commit has with it what the cursor was (the
 * floor): the greatest floor of all partitions is at most one flush behind the cursor that was lost. What is
 * read again from there is left out where marks cover it. */
#include "archive/catalog_internal.h"

#include "base/cursor.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* ---------------------------------------------------------------- gathering */

struct gathering {
    struct catalog *c;
    struct partition *p;
    uint64_t blob; /* the last that was read */
    struct strbuf bytes;
    struct arena arena;
    uint64_t unread;
    int r;
};

static bool learn_blob(void *arg, const struct partition_section *s)
{
    struct gathering *g = arg;
    const struct blob_directory *d = NULL;
    if (s->blob == g->blob)
        return true;
    g->blob = s->blob;
    arena_reset(&g->arena);
    int r = partition_directory(g->p, s->blob, &g->bytes);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&g->bytes), &g->arena, &d);
    for (uint32_t i = 0; r == 0 && i < d->n_sections; i++) {
        const struct table_def *t = &d->tables[i], *mine;
        r = catalog_learn_fields(g->c, t->name, t->columns, t->n_columns, &mine, NULL);
    }
    if (r == -ENOMEM || r == -EIO)
        g->r = r;
    else if (r < 0)
        g->unread++;
    return g->r == 0;
}

static void take_floor(void *arg, const struct partition_mark *m)
{
    struct catalog *c = arg;
    if (m->floor > catalog_cursor(c, &m->source))
        catalog_set_cursor(c, &m->source, m->floor);
}

static int gather_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct gathering *g = arg;
    struct diag why = {0};
    (void)from_ns;
    (void)step_ns;
    int r = partition_open(g->c->dir, name, 0, NULL, &g->p, &why);
    if (r == E_DAMAGE || r == -ENOENT) {
        if (r == E_DAMAGE)
            catalog_say(g->c, "%s; what is in it is not in the catalogue", why.message);
        return 0;
    }
    if (r < 0)
        return r;
    g->blob = 0;
    r = partition_begin_read(g->p);
    if (r == 0)
        r = partition_sections(g->p, slice_of("", 0), INT64_MIN, INT64_MAX, learn_blob, g);
    if (r == 0)
        r = g->r;
    if (r == 0)
        r = partition_marks(g->p, take_floor, g->c);
    if (r == 0)
        catalog_note_partition(g->c, g->p);
    partition_end_read(g->p);
    partition_close(g->p);
    return r == E_DAMAGE ? 0 : r;
}

int catalog_gather(struct catalog *c)
{
    struct gathering g = {.c = c};
    int r = catalog_partitions(c->dir, gather_partition, &g);
    if (g.unread)
        catalog_say(c, "%llu blobs could not be read for the catalogue", (unsigned long long)g.unread);
    strbuf_fini(&g.bytes);
    arena_fini(&g.arena);
    return r;
}

/* ---------------------------------------------------------------- comparing */

/* The sources that the partition had got further with are read again from where it is. */
static void set_back(struct catalog *c, const char *name, struct partition *p)
{
    struct strbuf key = {0};
    strbuf_add_text(&key, slice_str(name));
    const struct fact *fact;
    for (size_t i = 0; !strbuf_failed(&key) && (fact = facts_next(c->facts, FACT_MARK, &i)) != NULL;) {
        if (!slice_starts(fact->key, strbuf_slice(&key)) || fact->key.n != key.n + 16)
            continue;
        struct archive_source s;
        memcpy(s.id, fact->key.p + key.n, sizeof s.id);
        struct cursor v = cursor_of(fact->value);
        uint64_t had = cursor_u64(&v), has = partition_mark(p, &s);
        if (has >= had)
            continue;
        catalog_say(c, "%s: records %llu to %llu of a source are gone from it; they are read again", name,
                    (unsigned long long)has + 1, (unsigned long long)had);
        if (has < catalog_cursor(c, &s))
            catalog_set_cursor(c, &s, has);
    }
    strbuf_fini(&key);
}

/* E_DAMAGE: it has less than it had; *p (a reader's) is there nevertheless if it could be opened. */
static int look_at(struct catalog *c, const char *name, uint64_t gen, struct partition **p)
{
    struct diag why = {0};
    int r = partition_open(c->dir, name, 0, NULL, p, &why);
    if (r == -ENOENT) { /* the file is there: it has no tables */
        r = E_DAMAGE;
        catalog_say(c, "%s is empty", name);
    } else if (r == E_DAMAGE) {
        catalog_say(c, "%s", why.message);
    }
    if (r == 0 && partition_gen(*p) < gen) {
        catalog_say(c, "%s: the last commits are gone (%llu of %llu are there)", name,
                    (unsigned long long)partition_gen(*p), (unsigned long long)gen);
        r = E_DAMAGE;
    }
    return r;
}

/* What there is now, and where sources go on. */
static int take_mended(struct catalog *c, const char *name)
{
    struct partition *p = NULL;
    struct diag why = {0};
    int r = partition_open(c->dir, name, 0, NULL, &p, &why);
    if (r < 0)
        return r;
    set_back(c, name, p);
    catalog_note_partition(c, p);
    partition_close(p);
    return 0;
}

/* The partition has more than the catalogue knows: a flush did not come to its end, or the catalogue has lost
 * commits. There may be columns that it does not know. */
static int catch_up(struct catalog *c, const char *name)
{
    struct gathering g = {.c = c};
    int r = gather_partition(&g, name, 0, 0);
    strbuf_fini(&g.bytes);
    arena_fini(&g.arena);
    return r;
}

static int mend(struct catalog *c, const char *name, uint64_t gen)
{
    struct partition *p = NULL;
    struct partition_health health;
    struct diag why = {0};
    int r = look_at(c, name, gen, &p);
    bool is_ahead = r == 0 && partition_gen(p) > gen;
    partition_close(p);
    if (r != E_DAMAGE)
        return is_ahead ? catch_up(c, name) : r;
    r = partition_salvage(c->dir, name, NULL, NULL, &health, &why);
    if (r < 0) {
        catalog_say(c, "%s could not be salvaged: %s", name, why.message);
        return r;
    }
    catalog_say(c, "%s was made again: %llu rows; what was damaged is kept beside it", name,
                (unsigned long long)health.rows);
    return take_mended(c, name);
}

static int compare_one(struct catalog *c, const struct fact *fact)
{
    char name[PARTITION_NAME_MAX] = "";
    struct cursor v = cursor_of(fact->value);
    uint64_t gen = cursor_u64(&v);
    if (fact->key.n >= sizeof name)
        return 0;
    memcpy(name, fact->key.p, fact->key.n);
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s", c->dir, name);
    bool is_there = !strbuf_failed(&path) && access(path.p, F_OK) == 0;
    strbuf_fini(&path);
    int r = is_there ? mend(c, name, gen) : -ENOENT;
    if (r != -ENOENT)
        return r;
    catalog_say(c, "%s is gone", name);
    catalog_forget_partition(c, name);
    return 0;
}

static int look_for_unknown(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct catalog *c = arg;
    (void)from_ns, (void)step_ns;
    return facts_get(c->facts, FACT_PARTITION, slice_str(name)) ? 0 : catch_up(c, name);
}

int catalog_compare(struct catalog *c)
{
    /* Facts may go and come in compare_one: by id, then. */
    uint64_t last = 0;
    for (int r = 0;;) {
        const struct fact *fact;
        size_t i = 0;
        while ((fact = facts_next(c->facts, FACT_PARTITION, &i)) != NULL && fact->id <= last)
            ;
        if (!fact)
            return catalog_partitions(c->dir, look_for_unknown, c);
        last = fact->id;
        r = compare_one(c, fact);
        if (r < 0)
            return r;
    }
}

int catalog_rebuild(const char *dir, struct diag *why)
{
    struct catalog *c = NULL;
    int r = catalog_open(dir, true, &c, why); /* takes what it can from the one that is there */
    if (r < 0)
        return r;
    r = catalog_gather(c);
    if (r == 0)
        r = catalog_commit(c);
    catalog_close(c);
    return r;
}
