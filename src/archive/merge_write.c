/* SPDX-License-Identifier: Apache-2.0 */
/* merge_write.c - the blobs of a set, read, and their chunks, joined stream by stream and written again. */
#include "archive/merge_internal.h"

#include "archive/archive_internal.h"
#include "archive/rows_join.h"
#include "archive/tier_fold.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { CACHE_BYTES = 16 << 20 };

/* The set can't be merged: without this blob another may. */
static int leave(struct merge *m, struct merge_blob *b)
{
    b->is_left = true;
    merge_forget_set(m);
    m->state = MERGE_PICK;
    return 1;
}

/* ---------------------------------------------------------------- loading */

static int compare_slices(struct slice a, struct slice b)
{
    int r = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return r ? r : (a.n > b.n) - (a.n < b.n);
}

static int compare_chunks(const void *a, const void *b)
{
    const struct merge_chunk *x = a, *y = b;
    int r = compare_slices(x->name, y->name);
    if (r == 0)
        r = compare_slices(x->key, y->key);
    if (r == 0)
        r = (x->min_ns > y->min_ns) - (x->min_ns < y->min_ns);
    if (r == 0)
        r = (x->input > y->input) - (x->input < y->input);
    return r ? r : (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static int list_chunks(struct merge *m)
{
    size_t total = 0;
    for (size_t i = 0; i < m->n_inputs; i++)
        total += m->inputs[i].directory->n_chunks;
    m->chunks = mem_try_alloc((total + 1) * sizeof *m->chunks);
    if (!m->chunks)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        const struct blob_directory *d = m->inputs[i].directory;
        for (uint32_t k = 0; k < d->n_chunks; k++) {
            struct slice name = d->sections[d->chunks[k].section].name;
            if (d->chunks[k].max_ns < merge_floor(m, name))
                m->counts.dropped += d->chunks[k].n_rows;
            else
                m->chunks[m->n_chunks++] =
                    (struct merge_chunk){name, d->chunks[k].key, d->chunks[k].min_ns, i, k};
        }
    }
    qsort(m->chunks, m->n_chunks, sizeof *m->chunks, compare_chunks);
    return 0;
}

static int begin_writing(struct merge *m)
{
    const struct blob_options o = {.zstd_level = m->a->o.zstd_level,
                                   .ids = m->a->ids.fields,
                                   .n_ids = m->a->ids.n_fields,
                                   .has_counts = m->span.step_ns == 0,
                                   .is_old = m->n_inputs && m->inputs[0].directory->is_old};
    m->writer = blob_writer_create(&o);
    m->cache = blob_cache_create(CACHE_BYTES);
    int r = m->writer && m->cache ? list_chunks(m) : -ENOMEM;
    m->at = 0;
    m->state = m->n_chunks ? MERGE_WRITE : MERGE_COMMIT;
    return r < 0 ? r : 1;
}

int merge_load(struct merge *m, struct partition *p)
{
    if (m->at == m->n_inputs)
        return begin_writing(m);
    struct merge_input *in = &m->inputs[m->at];
    struct strbuf bytes = {0};
    int r = partition_directory(p, in->blob->id, &bytes);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&bytes), &in->arena, &in->directory);
    strbuf_fini(&bytes);
    if (r == 0)
        r = partition_body(p, in->blob->id, &in->body);
    if (r == -ENOMEM || r == -EIO)
        return r;
    if (r < 0)
        return leave(m, in->blob);
    in->ids = arena_alloc(&in->arena, (in->directory->n_sections + 1) * sizeof *in->ids);
    if (!in->ids)
        return -ENOMEM;
    memset(in->ids, 0, (in->directory->n_sections + 1) * sizeof *in->ids);
    m->at++;
    return 1;
}

/* ---------------------------------------------------------------- numbers of columns */

/* The table of a tier's event name, in this set. NULL: no memory. */
static struct tier_table *tier_table_for(struct merge *m, struct slice name)
{
    for (size_t i = 0; i < m->n_tables; i++)
        if (slice_eq(m->tables[i]->def.name, name))
            return m->tables[i];
    struct tier_table **all = mem_try_resize(m->tables, (m->n_tables + 1) * sizeof(void *));
    if (!all)
        return NULL;
    m->tables = all;
    struct tier_table *t = mem_try_alloc(sizeof *t);
    if (t) {
        t->def.name = name; /* of an input, which stays as long */
        m->tables[m->n_tables++] = t;
    }
    return t;
}

static int find_column(const struct table_def *t, const struct field *f, uint16_t *id)
{
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].type == f->type && slice_eq(t->columns[i].name, f->name)) {
            *id = (uint16_t)i;
            return 0;
        }
    return -ENOENT;
}

/* E_DAMAGE: it has a column that the catalogue does not. */
static int number_columns(struct merge *m, struct merge_input *in, uint32_t section)
{
    const struct table_def *theirs = &in->directory->tables[section];
    const struct table_def *ours =
        m->span.step_ns ? NULL : catalog_table(archive_catalog(m->a), theirs->name);
    struct tier_table *tier = m->span.step_ns ? tier_table_for(m, theirs->name) : NULL;
    uint16_t *ids = arena_alloc(&in->arena, (theirs->n_columns + 1) * sizeof *ids);
    int r = ids && (!m->span.step_ns || tier) ? 0 : -ENOMEM;
    if (r == 0 && !tier && !ours)
        r = E_DAMAGE;
    for (uint32_t i = 0; r == 0 && i < theirs->n_columns; i++) {
        const struct field *f = &theirs->columns[i];
        if (tier)
            r = tier_table_id(tier, f, &ids[i]);
        else if (i < ours->n_columns && ours->columns[i].type == f->type &&
                 slice_eq(ours->columns[i].name, f->name))
            ids[i] = (uint16_t)i;
        else
            r = find_column(ours, f, &ids[i]);
    }
    if (r == 0)
        in->ids[section] = ids;
    return r == -ENOMEM || r == 0 ? r : E_DAMAGE;
}

/* ---------------------------------------------------------------- writing */

static int keep_output(struct merge *m)
{
    struct blob_bytes bytes;
    int r = blob_writer_finish(m->writer, &bytes);
    if (r < 0)
        return r;
    struct merge_output *all = mem_try_resize(m->outputs, (m->n_outputs + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    m->outputs = all;
    struct merge_output *o = &all[m->n_outputs++];
    *o = (struct merge_output){.n_sections = bytes.n_sections};
    strbuf_add_slice(&o->directory, bytes.directory);
    strbuf_add_slice(&o->body, bytes.body);
    strbuf_add_slice(&o->counts, bytes.counts);
    o->sections = arena_alloc(&o->arena, (bytes.n_sections + 1) * sizeof *o->sections);
    if (strbuf_failed(&o->directory) || strbuf_failed(&o->body) || strbuf_failed(&o->counts) || !o->sections)
        return -ENOMEM;
    for (size_t i = 0; i < bytes.n_sections; i++) {
        o->sections[i] = bytes.sections[i];
        o->sections[i].name = arena_copy(&o->arena, bytes.sections[i].name);
        if (!o->sections[i].name.p)
            return -ENOMEM;
    }
    return 0;
}

static const struct table_def *table_of(struct merge *m, struct slice name)
{
    return m->span.step_ns ? &tier_table_for(m, name)->def : catalog_table(archive_catalog(m->a), name);
}

static int put_rows(struct merge *m, const struct merge_chunk *c, const struct rows *all)
{
    int r = 0;
    for (uint32_t from = 0; r == 0 && from < all->n; from += ROWS_CHUNK_MAX) {
        uint32_t to = all->n - from > ROWS_CHUNK_MAX ? from + ROWS_CHUNK_MAX : all->n;
        struct rows rows;
        r = rows_slice(all, from, to, &m->scratch, &rows);
        if (r == 0)
            r = blob_writer_add(m->writer, table_of(m, c->name), c->key, &rows);
        if (r == 0 && blob_writer_is_full(m->writer))
            r = keep_output(m);
    }
    m->counts.rows += all->n;
    return r;
}

/* The chunks from m->at on that become one: of one stream, up to what is enough. */
static size_t count_group(const struct merge *m)
{
    const struct merge_chunk *first = &m->chunks[m->at];
    uint64_t rows = 0;
    size_t n = 0;
    for (; m->at + n < m->n_chunks; n++) {
        const struct merge_chunk *c = &first[n];
        if (n &&
            (rows >= MERGE_ROWS_ENOUGH || !slice_eq(c->key, first->key) || !slice_eq(c->name, first->name)))
            break;
        rows += m->inputs[c->input].directory->chunks[c->chunk].n_rows;
    }
    return n;
}

/* In the order in which they came. */
static int compare_arrival(const void *a, const void *b)
{
    const struct merge_chunk *x = a, *y = b;
    if (x->input != y->input)
        return x->input < y->input ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static int read_part(struct merge *m, const struct merge_chunk *c, struct rows_part *out)
{
    struct merge_input *in = &m->inputs[c->input];
    uint32_t section = in->directory->chunks[c->chunk].section;
    int r = in->ids[section] ? 0 : number_columns(m, in, section);
    if (r == 0)
        r = blob_chunk_read(in->directory, strbuf_slice(&in->body), in->blob->id, c->chunk,
                            BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, m->cache,
                            &m->scratch, &out->rows);
    out->ids = in->ids[section];
    return r;
}

/* Joins n chunks and writes them. *bad: the one that can't be read (E_DAMAGE). */
static int write_group(struct merge *m, size_t n, struct merge_blob **bad)
{
    struct merge_chunk *chunks = &m->chunks[m->at];
    struct rows_part *parts = arena_alloc(&m->scratch, n * sizeof *parts);
    struct rows rows;
    uint32_t doubled = 0;
    int r = parts ? 0 : -ENOMEM;
    qsort(chunks, n, sizeof *chunks, compare_arrival);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = read_part(m, &chunks[i], &parts[i]);
        *bad = m->inputs[chunks[i].input].blob;
    }
    if (r == 0)
        r = rows_join(parts, n, &m->scratch, &rows, &doubled);
    if (r == 0 && m->span.step_ns)
        r = tier_fold_again(&rows, tier_table_for(m, chunks->name), 0, &m->scratch, &rows);
    int64_t floor = r == 0 ? merge_floor(m, chunks->name) : INT64_MIN;
    if (r == 0 && rows.n && rows.time_ns[0] < floor) {
        struct rows all = rows;
        uint32_t from = 0;
        while (from < all.n && all.time_ns[from] < floor)
            from++;
        m->counts.dropped += from;
        r = rows_slice(&all, from, all.n, &m->scratch, &rows);
    }
    if (r == 0)
        r = put_rows(m, chunks, &rows);
    m->counts.doubled += doubled;
    return r;
}

int merge_write(struct merge *m)
{
    struct merge_blob *bad = NULL;
    size_t n = count_group(m);
    arena_reset(&m->scratch);
    int r = write_group(m, n, &bad);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return leave(m, bad);
    m->at += n;
    if (m->at < m->n_chunks)
        return 1;
    m->state = MERGE_COMMIT;
    r = blob_writer_is_empty(m->writer) ? 0 : keep_output(m);
    return r < 0 ? r : 1;
}
