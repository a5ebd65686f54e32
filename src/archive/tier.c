/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c - see tier.h.
 *
 * The mark is that of a source of records of our own (partition.h): its id is "tier made of" and the step of
 * what it is made of; its record a generation. The connection to the tier's file is our own: its transaction
 * is open over many steps, and the archive closes connections when it likes. */
#include "archive/tier.h"

#include "archive/archive_internal.h"
#include "archive/fields.h"
#include "archive/tier_fold.h"
#include "base/mem.h"

#include <errno.h>
#include <unistd.h>

const int64_t tier_steps[TIERS] = {INT64_C(10000000000), INT64_C(60000000000), INT64_C(3600000000000)};

enum { CACHE_BYTES = 8 << 20 };
static const struct archive_source mark_source = {.id = "tier made of"};

struct source_blob {
    uint64_t id, rows;
};

struct tier {
    struct archive *a;
    struct partition_span from, to;
    struct partition *p; /* the tier's; ours */
    bool is_begun;
    uint64_t gen;              /* of what it is made of, as of the beginning */
    struct source_blob *blobs; /* to be read */
    size_t n_blobs, max_blobs, next_blob;
    bool is_short; /* of memory, while listing */
    /* The blob at hand: */
    const struct blob_directory *directory; /* NULL: none */
    struct strbuf body;
    uint32_t next_chunk;
    struct arena arena;   /* its directory */
    struct arena scratch; /* a chunk */
    struct blob_cache *cache;
    struct blob_writer *writer;
    struct tier_table **tables; /* one an event name, of the blob that is written */
    size_t n_tables;
    struct tier_counts counts;
};

static int open_tier(struct archive *a, const struct partition_span *span, bool is_made,
                     struct partition **out)
{
    char name[PARTITION_NAME_MAX];
    struct diag why = {0};
    partition_name(span, name, sizeof name);
    return partition_open(a->dir, name, is_made ? PARTITION_WRITE | PARTITION_CREATE : 0, span, out, &why);
}

bool tier_fits(const struct partition_span *span, int64_t step_ns)
{
    int64_t finer = span->step_ns ? span->step_ns : 1;
    return step_ns > finer && step_ns % finer == 0 && span->from_ns % step_ns == 0 &&
           span->to_ns % step_ns == 0;
}

int tier_mark(struct archive *a, const struct partition_span *tier, uint64_t *mark)
{
    struct partition *p;
    int r = open_tier(a, tier, false, &p);
    *mark = 0;
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    *mark = partition_mark(p, &mark_source);
    partition_close(p);
    return 0;
}

int tier_create(struct archive *a, const struct partition_span *from, int64_t step_ns, struct tier **out)
{
    struct tier *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->a = a;
    t->from = t->to = *from;
    t->to.step_ns = step_ns;
    *out = t;
    return 0;
}

static void forget_tables(struct tier *t)
{
    for (size_t i = 0; i < t->n_tables; i++) {
        tier_table_fini(t->tables[i]);
        mem_free(t->tables[i]);
    }
    mem_free(t->tables);
    t->tables = NULL;
    t->n_tables = 0;
}

void tier_destroy(struct tier *t)
{
    if (!t)
        return;
    partition_close(t->p);
    forget_tables(t);
    blob_writer_destroy(t->writer);
    blob_cache_destroy(t->cache);
    strbuf_fini(&t->body);
    arena_fini(&t->arena);
    arena_fini(&t->scratch);
    mem_free(t->blobs);
    mem_free(t);
}

struct tier_counts tier_counts(const struct tier *t)
{
    return t->counts;
}

/* ---------------------------------------------------------------- what is to be read */

struct listing {
    struct tier *t;
    uint64_t mark;
};

static bool see_section(void *arg, const struct partition_section *s)
{
    struct listing *l = arg;
    struct tier *t = l->t;
    if (s->gen <= l->mark || s->gen > t->gen)
        return true;
    if (t->n_blobs && t->blobs[t->n_blobs - 1].id == s->blob) {
        t->blobs[t->n_blobs - 1].rows += s->s.rows;
        return true;
    }
    if (t->n_blobs == t->max_blobs) {
        size_t max = t->max_blobs ? t->max_blobs * 2 : 64;
        struct source_blob *all = mem_try_resize(t->blobs, max * sizeof *all);
        t->is_short = !all;
        if (!all)
            return false;
        t->blobs = all;
        t->max_blobs = max;
    }
    t->blobs[t->n_blobs++] = (struct source_blob){s->blob, s->s.rows};
    return true;
}

static int begin(struct tier *t, struct partition *from)
{
    const struct blob_options o = {.zstd_level = t->a->o.zstd_level};
    struct listing l = {.t = t};
    int r = tier_mark(t->a, &t->to, &l.mark);
    t->gen = partition_gen(from);
    if (r == 0)
        r = partition_sections(from, SLICE_LIT(""), INT64_MIN, INT64_MAX, see_section, &l);
    if (r == 0 && t->is_short)
        r = -ENOMEM;
    if (r < 0)
        return r;
    t->is_begun = true;
    if (t->n_blobs == 0)
        return 0;
    t->writer = blob_writer_create(&o);
    t->cache = blob_cache_create(CACHE_BYTES);
    if (!t->writer || !t->cache)
        return -ENOMEM;
    archive_forget(t->a, &t->to); /* one connection writes */
    r = open_tier(t->a, &t->to, true, &t->p);
    return r < 0 ? r : 1;
}

/* The next blob; one that can't be read is counted and passed over: it will not get better. */
static int open_blob(struct tier *t, struct partition *from)
{
    const struct source_blob *b = &t->blobs[t->next_blob++];
    struct strbuf bytes = {0};
    arena_reset(&t->arena);
    strbuf_reset(&t->body);
    t->next_chunk = 0;
    int r = partition_directory(from, b->id, &bytes);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&bytes), &t->arena, &t->directory);
    strbuf_fini(&bytes);
    if (r == 0)
        r = partition_body(from, b->id, &t->body);
    if (r == -ENOMEM || r == -EIO)
        return r;
    t->counts.damaged += r < 0 ? b->rows : 0;
    if (r < 0 || t->directory->n_chunks == 0)
        t->directory = NULL;
    return 1;
}

/* ---------------------------------------------------------------- a chunk */

static struct tier_table *table_for(struct tier *t, struct slice name)
{
    for (size_t i = 0; i < t->n_tables; i++)
        if (slice_eq(t->tables[i]->def.name, name))
            return t->tables[i];
    struct tier_table **all = mem_try_resize(t->tables, (t->n_tables + 1) * sizeof(void *));
    if (!all)
        return NULL;
    t->tables = all;
    struct tier_table *new = mem_try_alloc(sizeof *new);
    if (!new)
        return NULL;
    all[t->n_tables++] = new;
    new->def.name = arena_copy(&new->arena, name);
    return new->def.name.p ? new : NULL;
}

/* Rows of a tier with the numbers of its columns as `table` has them. */
static int renumber(struct tier *t, const struct table_def *theirs, struct tier_table *table,
                    struct rows *rows)
{
    struct column *columns = arena_alloc(&t->scratch, (rows->n_columns + 1) * sizeof *columns);
    uint32_t n = 0;
    if (!columns)
        return -ENOMEM;
    for (uint32_t i = 0; i < rows->n_columns; i++) {
        columns[n] = rows->columns[i];
        int r = tier_table_id(table, &theirs->columns[rows->columns[i].id], &columns[n].id);
        if (r == -ENOMEM)
            return r;
        t->counts.left_out += r < 0 ? rows->n : 0;
        n += r == 0;
    }
    rows->columns = columns;
    rows->n_columns = n;
    return 0;
}

static int put_blob(struct tier *t)
{
    struct blob_bytes bytes;
    uint64_t id;
    int r = blob_writer_finish(t->writer, &bytes);
    if (r == 0)
        r = partition_put(t->p, &bytes, t->gen, &id);
    forget_tables(t); /* the next blob has tables of its own */
    return r;
}

/* The rows by fields, so that numbers that were stored with several types fold into one. */
static int take_fields(struct tier *t, const struct table_def *fields, const struct table_def *theirs, struct rows *rows)
{
    struct field_map map;
    struct rows stored = *rows;
    int r = field_map_init(&map, fields, theirs, t->directory->is_old, &t->scratch);
    return r < 0 || map.is_same ? r : field_map_rows(&map, &stored, NULL, 0, &t->scratch, rows);
}

static int fold_chunk(struct tier *t, const struct blob_chunk *c, struct rows *rows)
{
    const struct table_def *theirs = &t->directory->tables[c->section];
    struct tier_table *table = table_for(t, theirs->name);
    struct rows folded;
    int r = table ? 0 : -ENOMEM;
    if (r == 0 && t->from.step_ns) {
        r = renumber(t, theirs, table, rows);
        if (r == 0)
            r = tier_fold_again(rows, table, t->to.step_ns, &t->scratch, &folded);
    } else if (r == 0) {
        const struct table_def *ours = catalog_table(t->a->catalog, theirs->name);
        if (ours)
            r = take_fields(t, ours->fields, theirs, rows);
        if (r == 0)
            r = tier_fold_rows(rows, ours ? ours->fields : theirs, t->to.step_ns, table, &t->scratch, &folded,
                               &t->counts.left_out);
    }
    if (r == 0)
        r = blob_writer_add(t->writer, &table->def, c->key, &folded);
    if (r < 0)
        return r;
    t->counts.chunks++;
    t->counts.rows_in += rows->n;
    t->counts.rows_out += folded.n;
    return blob_writer_is_full(t->writer) ? put_blob(t) : 0;
}

static int next_chunk(struct tier *t)
{
    const struct blob_chunk *c = &t->directory->chunks[t->next_chunk++];
    struct rows rows;
    arena_reset(&t->scratch);
    int r = blob_chunk_read(t->directory, strbuf_slice(&t->body), t->blobs[t->next_blob - 1].id,
                            t->next_chunk - 1, BLOB_TIMES | BLOB_ALL_COLUMNS, NULL, 0, t->cache, &t->scratch,
                            &rows);
    if (r == 0) {
        r = fold_chunk(t, c, &rows);
    } else if (r != -ENOMEM) {
        t->counts.damaged += c->n_rows;
        r = 0;
    }
    if (t->next_chunk == t->directory->n_chunks)
        t->directory = NULL;
    return r < 0 ? r : 1;
}

/* ---------------------------------------------------------------- steps */

static int end(struct tier *t)
{
    int r = blob_writer_is_empty(t->writer) ? 0 : put_blob(t);
    if (r == 0)
        r = partition_set_mark(t->p, &mark_source, t->gen);
    if (r == 0)
        r = partition_commit(t->p);
    if (r < 0)
        return r;
    catalog_note_partition(t->a->catalog, t->p);
    partition_close(t->p);
    t->p = NULL;
    return 0;
}

int tier_step(struct tier *t)
{
    int r = 0;
    if (t->is_begun && !t->p)
        return 0;
    struct partition *from = archive_partition(t->a, &t->from, &r);
    if (!from)
        return r;
    if (!t->is_begun)
        return begin(t, from);
    if (t->directory)
        return next_chunk(t);
    return t->next_blob < t->n_blobs ? open_blob(t, from) : end(t);
}
