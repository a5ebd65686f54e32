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
    /* A writer also ends what a crash has left undone in the file, which a reader can't. */
    int r = partition_open(g->c->dir, name, g->c->is_writer ? PARTITION_WRITE : 0, NULL, &g->p, &why);
    if (r == E_DAMAGE || r == -ENOENT) {
        if (r == E_DAMAGE)
            catalog_say(g->c, "%s; what is in it is not in the catalogue", why.message);
        return 0;
    }
    if (r < 0)
        return r;
    g->blob = 0;
    r = partition_begin_read(g->p);
    if (r == 0 && partition_span(g->p)->step_ns == 0) /* tiers have tables of their own, in their blobs */
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

/* Records up to `had` of the source were in the partition, now there are those up to `has`: they are read
 * again from there. But if there are rows and the source's mark was lost, nobody knows which records these
 * are of: reading any again could bring them twice. */
static int set_back_source(struct catalog *c, const char *name, struct partition *p, bool lacks_marks,
                           const struct archive_source *s, uint64_t had)
{
    uint64_t has = partition_mark(p, s);
    if (has >= had)
        return 0;
    if (lacks_marks && has == 0) {
        catalog_say(c, "%s: records up to %llu of a source may be gone from it; they are not read again",
                    name, (unsigned long long)had);
        return partition_set_mark(p, s, had);
    }
    catalog_say(c, "%s: records %llu to %llu of a source are gone from it; they are read again", name,
                (unsigned long long)has + 1, (unsigned long long)had);
    if (has < catalog_cursor(c, s))
        catalog_set_cursor(c, s, has);
    return 0;
}

static int set_back(struct catalog *c, const char *name, struct partition *p, bool lacks_marks)
{
    struct strbuf key = {0};
    strbuf_add_text(&key, slice_str(name));
    const struct fact *fact;
    int r = strbuf_failed(&key) ? -ENOMEM : 0;
    for (size_t i = 0; r == 0 && (fact = facts_next(c->facts, FACT_MARK, &i)) != NULL;) {
        if (!slice_starts(fact->key, strbuf_slice(&key)) || fact->key.n != key.n + 16)
            continue;
        struct archive_source s;
        memcpy(s.id, fact->key.p + key.n, sizeof s.id);
        struct cursor v = cursor_of(fact->value);
        r = set_back_source(c, name, p, lacks_marks, &s, cursor_u64(&v));
    }
    strbuf_fini(&key);
    return r < 0 ? r : partition_commit(p);
}

/* E_DAMAGE: it has less than it had, or can't be written; *gen: what it has. First as a reader: a writer
 * tidies the log up as SQLite reads it, and with it goes what can be salvaged behind a damage. */
static int look_at(struct catalog *c, const char *name, uint64_t had, uint64_t *gen)
{
    struct diag why = {0};
    struct partition *p = NULL;
    int r = partition_open(c->dir, name, 0, NULL, &p, &why);
    *gen = r == 0 ? partition_gen(p) : 0;
    partition_close(p);
    p = NULL;
    if (r == -ENOENT) { /* the file is there: it has no tables */
        catalog_say(c, "%s is empty", name);
        return E_DAMAGE;
    }
    if (r == 0 && *gen < had) {
        catalog_say(c, "%s: the last commits are gone (%llu of %llu are there)", name,
                    (unsigned long long)*gen, (unsigned long long)had);
        return E_DAMAGE;
    }
    if (r == 0)
        r = partition_open(c->dir, name, PARTITION_WRITE, NULL, &p, &why);
    partition_close(p);
    if (r == E_DAMAGE)
        catalog_say(c, "%s", why.message);
    return r;
}

/* What there is now, and where sources go on. */
static int take_mended(struct catalog *c, const char *name, bool lacks_marks)
{
    struct partition *p = NULL;
    struct diag why = {0};
    int r = partition_open(c->dir, name, PARTITION_WRITE, NULL, &p, &why);
    if (r == 0)
        r = set_back(c, name, p, lacks_marks);
    if (r == 0)
        catalog_note_partition(c, p);
    partition_close(p);
    return r;
}

int catalog_salvage(struct catalog *c, const char *name, uint64_t *lost)
{
    struct partition_health health = {0};
    struct diag why = {0};
    int r = partition_salvage(c->dir, name, NULL, NULL, &health, &why);
    if (r < 0) {
        catalog_say(c, "%s could not be salvaged: %s", name, why.message);
        return r;
    }
    catalog_say(c, "%s was made again: %llu rows, %llu are lost; what was damaged is kept beside it", name,
                (unsigned long long)health.rows, (unsigned long long)health.bad_rows);
    *lost = health.bad_rows;
    return take_mended(c, name, health.rows > 0 && health.has_lost_marks);
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

static int mend(struct catalog *c, const char *name, uint64_t had)
{
    uint64_t gen = 0, lost = 0;
    int r = look_at(c, name, had, &gen);
    if (r == E_DAMAGE)
        return catalog_salvage(c, name, &lost);
    return r == 0 && gen > had ? catch_up(c, name) : r;
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
