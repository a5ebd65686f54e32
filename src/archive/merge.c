/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - which blobs to merge, and the commit; merge_write.c has what is between.
 *
 * Blobs of one flush have the streams in order, so of each flush those blobs belong together whose first and
 * last streams embrace the same. A set is a small blob and others that have streams between its first and
 * last, from the oldest on. Small: fewer rows a chunk than would do; and while the partition is filled only
 * those of about the same size are merged (within a factor of 8), so that a row is written again only a few
 * times. */
#include "archive/merge_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

void merge_forget_set(struct merge *m)
{
    for (size_t i = 0; i < m->n_inputs; i++) {
        arena_fini(&m->inputs[i].arena);
        strbuf_fini(&m->inputs[i].body);
    }
    for (size_t i = 0; i < m->n_outputs; i++) {
        strbuf_fini(&m->outputs[i].directory);
        strbuf_fini(&m->outputs[i].body);
        strbuf_fini(&m->outputs[i].counts);
        arena_fini(&m->outputs[i].arena);
    }
    for (size_t i = 0; i < m->n_tables; i++) {
        tier_table_fini(m->tables[i]);
        mem_free(m->tables[i]);
    }
    mem_free(m->outputs);
    mem_free(m->tables);
    mem_free(m->chunks);
    blob_writer_destroy(m->writer);
    blob_cache_destroy(m->cache);
    m->outputs = NULL;
    m->tables = NULL;
    m->chunks = NULL;
    m->writer = NULL;
    m->cache = NULL;
    m->n_inputs = m->n_outputs = m->n_tables = m->n_chunks = m->at = 0;
    arena_reset(&m->scratch);
}

int merge_create(struct archive *a, const struct partition_span *span, const struct merge_options *o,
                 struct merge **out)
{
    struct merge *m = mem_try_alloc(sizeof *m);
    if (!m)
        return -ENOMEM;
    m->a = a;
    m->span = *span;
    m->o = *o;
    m->borders = mem_try_alloc((o->n_borders + 1) * sizeof *m->borders);
    if (!m->borders) {
        merge_destroy(m);
        return -ENOMEM;
    }
    for (size_t i = 0; i < o->n_borders; i++)
        m->borders[i] = o->borders[i];
    *out = m;
    return 0;
}

void merge_destroy(struct merge *m)
{
    if (!m)
        return;
    merge_forget_set(m);
    mem_free(m->blobs);
    mem_free(m->borders);
    arena_fini(&m->names);
    arena_fini(&m->scratch);
    mem_free(m);
}

struct merge_counts merge_counts(const struct merge *m)
{
    return m->counts;
}

/* ---------------------------------------------------------------- which blobs there are */

static struct merge_blob *add_blob(struct merge *m, const struct partition_section *s)
{
    if (m->n_blobs && m->blobs[m->n_blobs - 1].id == s->blob)
        return &m->blobs[m->n_blobs - 1];
    if (m->n_blobs == m->max_blobs) {
        size_t max = m->max_blobs ? m->max_blobs * 2 : 64;
        struct merge_blob *all = mem_try_resize(m->blobs, max * sizeof *all);
        if (!all)
            return NULL;
        m->blobs = all;
        m->max_blobs = max;
    }
    m->blobs[m->n_blobs] = (struct merge_blob){.id = s->blob, .gen = s->gen};
    for (size_t i = 0; i < m->o.n_borders; i++)
        m->blobs[m->n_blobs].side += s->gen > m->borders[i];
    return &m->blobs[m->n_blobs++];
}

static bool see_section(void *arg, const struct partition_section *s)
{
    struct merge *m = arg;
    struct merge_blob *b = s->gen > m->limit ? NULL : add_blob(m, s);
    if (!b) {
        m->is_short = m->is_short || s->gen <= m->limit;
        return !m->is_short;
    }
    b->rows += s->s.rows;
    b->streams += s->s.streams;
    b->has_dropped = b->has_dropped || s->s.min_ns < merge_floor(m, s->s.name);
    return true;
}

static int list_blobs(struct merge *m, struct partition *p)
{
    m->limit = archive_merge_limit(m->a);
    m->n_blobs = m->next_key = 0;
    m->is_short = false;
    arena_reset(&m->names);
    int r = partition_sections(p, SLICE_LIT(""), INT64_MIN, INT64_MAX, see_section, m);
    if (r == 0 && m->is_short)
        r = -ENOMEM;
    m->state = MERGE_KEYS;
    return r < 0 ? r : 1;
}

/* By how many rows a chunk has: 0 none, 1 to 7, 8 to 63, ...; UINT_MAX: enough. */
static unsigned size_class(const struct merge_blob *b)
{
    uint64_t rows = b->streams ? b->rows / b->streams : UINT64_MAX;
    unsigned class = 0;
    if (rows >= MERGE_ROWS_ENOUGH)
        return UINT32_MAX;
    for (; rows; rows /= 8)
        class ++;
    return class;
}

static bool is_small(const struct merge_blob *b)
{
    return !b->is_left && size_class(b) != UINT32_MAX;
}

/* The name and key of a chunk as bytes that compare as the two do, nearly: what differs is only which blobs
 * are taken for neighbours. */
static struct slice place_of(struct merge *m, const struct blob_directory *d, uint32_t chunk)
{
    struct slice name = d->sections[d->chunks[chunk].section].name, key = d->chunks[chunk].key;
    char *bytes = arena_alloc(&m->names, name.n + 1 + key.n);
    if (!bytes)
        return (struct slice){NULL, 0};
    memcpy(bytes, name.p, name.n);
    bytes[name.n] = '\0';
    memcpy(bytes + name.n + 1, key.p, key.n);
    return slice_of(bytes, name.n + 1 + key.n);
}

/* The first and last stream of one more small blob. */
static int learn_keys(struct merge *m, struct partition *p)
{
    while (m->next_key < m->n_blobs && !is_small(&m->blobs[m->next_key]))
        m->next_key++;
    if (m->next_key == m->n_blobs) {
        m->state = MERGE_PICK;
        return 1;
    }
    struct merge_blob *b = &m->blobs[m->next_key++];
    const struct blob_directory *d;
    struct strbuf bytes = {0};
    arena_reset(&m->scratch);
    int r = partition_directory(p, b->id, &bytes);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&bytes), &m->scratch, &d);
    strbuf_fini(&bytes);
    if (r == -ENOMEM)
        return r;
    b->is_left = r < 0 || d->n_chunks == 0;
    if (b->is_left)
        return 1;
    b->is_old = d->is_old;
    b->first = place_of(m, d, 0);
    b->last = place_of(m, d, d->n_chunks - 1);
    return b->first.p && b->last.p ? 1 : -ENOMEM;
}

/* ---------------------------------------------------------------- which belong together */

static int compare_places(struct slice a, struct slice b)
{
    int r = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return r ? r : (a.n > b.n) - (a.n < b.n);
}

static bool do_overlap(const struct merge_blob *a, const struct merge_blob *b)
{
    return compare_places(a->first, b->last) <= 0 && compare_places(b->first, a->last) <= 0;
}

static bool may_join(const struct merge *m, const struct merge_blob *seed, const struct merge_blob *b)
{
    if (!is_small(b) || b->side != seed->side || b->is_old != seed->is_old || !do_overlap(seed, b))
        return false;
    return m->o.is_closed || size_class(b) == size_class(seed);
}

/* Puts those that go with the seed into the set, oldest first: blobs are in the order of their numbers. */
static size_t collect(struct merge *m, const struct merge_blob *seed)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_blobs && n < MERGE_BLOBS_MAX; i++)
        if (may_join(m, seed, &m->blobs[i]))
            m->inputs[n++] = (struct merge_input){.blob = &m->blobs[i]};
    return n;
}

/* Every row of the set is written again; so there must be something to win: fewer chunks by half. Streams
 * that are in all of them are counted as if they were in the largest only. */
static bool is_worth_it(const struct merge *m, size_t n)
{
    uint64_t chunks = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct merge_blob *b = m->inputs[i].blob;
        chunks += b->streams;
        most = b->streams > most ? b->streams : most;
    }
    return n >= (m->o.is_closed ? 2 : MERGE_BLOBS_MIN) && chunks >= most + most / 2;
}

static int pick(struct merge *m)
{
    m->state = MERGE_LOAD;
    for (size_t i = 0; i < m->n_blobs; i++)
        if (m->blobs[i].has_dropped && !m->blobs[i].is_left) {
            m->inputs[0] = (struct merge_input){.blob = &m->blobs[i]};
            m->n_inputs = 1;
            return 1;
        }
    for (size_t i = 0; i < m->n_blobs; i++) {
        struct merge_blob *seed = &m->blobs[i];
        if (!is_small(seed) || seed->is_seed)
            continue;
        seed->is_seed = true;
        size_t n = collect(m, seed);
        if (!is_worth_it(m, n))
            continue;
        m->n_inputs = n;
        return 1;
    }
    m->state = MERGE_DONE;
    return 0;
}

/* ---------------------------------------------------------------- the commit */

static int replace(struct merge *m, struct partition *p)
{
    uint64_t gen = 0, id;
    int r = 0;
    for (size_t i = 0; i < m->n_inputs; i++)
        gen = m->inputs[i].blob->gen > gen ? m->inputs[i].blob->gen : gen;
    for (size_t i = 0; r == 0 && i < m->n_outputs; i++) {
        const struct merge_output *o = &m->outputs[i];
        struct blob_bytes bytes = {strbuf_slice(&o->directory), strbuf_slice(&o->body), o->sections,
                                   o->n_sections, strbuf_slice(&o->counts)};
        r = partition_put(p, &bytes, gen, &id);
    }
    for (size_t i = 0; r == 0 && i < m->n_inputs; i++)
        r = partition_remove(p, m->inputs[i].blob->id);
    return r < 0 ? r : partition_commit(p);
}

static int commit(struct merge *m, struct partition *p)
{
    int r = replace(m, p);
    if (r < 0) {
        partition_rollback(p);
        if (r == -EIO)
            archive_forget(m->a, &m->span); /* its pages can't be trusted: it is opened again */
        merge_forget_set(m);
        m->state = MERGE_LIST;
        return r;
    }
    catalog_note_partition(archive_catalog(m->a), p);
    m->counts.commits++;
    m->counts.blobs_in += m->n_inputs;
    m->counts.blobs_out += m->n_outputs;
    merge_forget_set(m);
    m->state = MERGE_LIST; /* what was written may be merged further */
    return 1;
}

int merge_step(struct merge *m)
{
    int r = 0;
    struct partition *p = m->state == MERGE_DONE ? NULL : archive_partition(m->a, &m->span, &r);
    if (!p)
        return r;
    switch (m->state) {
    case MERGE_LIST:
        return list_blobs(m, p);
    case MERGE_KEYS:
        return learn_keys(m, p);
    case MERGE_PICK:
        return pick(m);
    case MERGE_LOAD:
        return merge_load(m, p);
    case MERGE_WRITE:
        return merge_write(m);
    case MERGE_COMMIT:
        return commit(m, p);
    default:
        return 0;
    }
}
