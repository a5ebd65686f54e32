/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a view: the sections of partitions that have the event name and time, the chunks of their blobs,
 * then the heads.
 *
 * A blob numbers the columns of its tables as the catalogue did when it was written, one a type. Where that is as the
 * view's table has them, chunks are given as they are; else their columns are made of the stored ones (fields.h). Tiers
 * have columns that the catalogue does not know: their chunks come with the table of their blob. */
#include "archive/view_internal.h"

#include "archive/blob_counts.h"
#include "archive/fields.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { NO_COLUMN = UINT16_MAX };

struct found_section {
    struct reader_partition *partition;
    uint64_t blob, rows;
};

struct scan {
    struct view *v;
    struct scan_spec spec;
    bool is_of_all;                /* event names */
    const struct table_def *table; /* of the chunk at hand, or of the name */
    struct found_section *sections;
    size_t n_sections, max_sections, next_section;
    size_t next_head;
    int error; /* of collecting sections */
    struct scan_loss loss;

    /* Where we are: */
    struct found_section *at;
    struct directory_entry *entry; /* NULL: between two blobs, or in the heads */
    uint32_t section, chunk;       /* chunk: the one given last */
    uint32_t first_chunk;          /* of the section that was entered first */
    struct field_map map;          /* of the section, or of the head; not of tiers */
    const struct view_head *head;  /* the one given last */
    /* Of the last stream asked: */
    struct slice asked;
    bool is_wanted;
    struct blob_chunk given; /* one that was made up */
    struct arena arena;      /* what was given last */
    struct arena map_arena;  /* map */
    struct strbuf counts;    /* of the blob */
    uint64_t *done;          /* chunks of the section that its counts were enough for, a bit each */
    uint32_t n_done;         /* chunks that have one */
    size_t done_words;
};

/* ---------------------------------------------------------------- which blobs */

static bool add_section(void *arg, const struct partition_section *p)
{
    struct scan *s = arg;
    if (p->gen > s->v->gen)
        return true;
    struct found_section *last = s->n_sections ? &s->sections[s->n_sections - 1] : NULL;
    if (s->is_of_all && last && last->partition == s->at->partition && last->blob == p->blob) {
        last->rows += p->s.rows;
        return true;
    }
    if (s->n_sections == s->max_sections) {
        size_t max = s->max_sections ? s->max_sections * 2 : 16;
        struct found_section *all = mem_try_resize(s->sections, max * sizeof *all);
        if (!all) {
            s->error = -ENOMEM;
            return false;
        }
        s->sections = all;
        s->max_sections = max;
    }
    s->sections[s->n_sections++] = (struct found_section){
        .partition = s->at ? s->at->partition : NULL, .blob = p->blob, .rows = p->s.rows};
    return true;
}

static bool is_in_reach(const struct scan_spec *spec, const struct partition_span *p)
{
    if (spec->only)
        return p->from_ns == spec->only->from_ns && p->step_ns == spec->only->step_ns;
    return p->step_ns == spec->step_ns && p->from_ns <= spec->to_ns && p->to_ns > spec->from_ns;
}

static int collect_sections(struct scan *s)
{
    struct view_reader *r = s->v->reader;
    for (size_t i = 0; i < r->n_partitions; i++) {
        struct reader_partition *p = &r->partitions[i];
        struct found_section here = {.partition = p};
        if (!is_in_reach(&s->spec, &p->span) || p->is_bad)
            continue;
        int e = view_open_partition(s->v, p);
        if (e == -ENOENT)
            continue; /* retention was faster */
        if (e == -ENOMEM)
            return e;
        if (e < 0) {
            p->is_bad = true;
            s->loss.blobs++; /* how many are in it nobody knows */
            continue;
        }
        uint64_t damaged = p->damaged;
        s->at = &here;
        e = partition_sections(p->p, s->spec.name, s->spec.from_ns, s->spec.to_ns, add_section, s);
        s->at = NULL;
        s->loss.blobs += p->damaged - damaged;
        if (e == -ENOMEM || s->error < 0)
            return e < 0 ? e : s->error;
        if (e < 0)
            s->loss.blobs++;
    }
    return 0;
}

static const struct table_def *find_table(const struct scan *s, struct slice name)
{
    return s->spec.is_stored ? view_stored_table(s->v, name) : view_table(s->v, name);
}

int scan_open(struct view *v, const struct scan_spec *spec, struct scan **out)
{
    struct scan *s = mem_alloc(sizeof *s);
    s->v = v;
    s->spec = *spec;
    s->is_of_all = spec->name.n == 0;
    s->table = s->is_of_all ? NULL : find_table(s, spec->name);
    int r = (s->table || s->is_of_all) && !spec->heads_only ? collect_sections(s) : 0;
    if (r < 0) {
        scan_close(s);
        return r;
    }
    *out = s;
    return 0;
}

static void leave_blob(struct scan *s)
{
    if (s->entry)
        directories_put(&s->v->reader->directories, s->entry);
    s->entry = NULL;
    s->asked = (struct slice){NULL, 0};
}

void scan_close(struct scan *s)
{
    if (!s)
        return;
    leave_blob(s);
    arena_fini(&s->arena);
    arena_fini(&s->map_arena);
    strbuf_fini(&s->counts);
    mem_free(s->done);
    mem_free(s->sections);
    mem_free(s);
}

struct scan_loss scan_damaged(const struct scan *s)
{
    return s->loss;
}

/* ---------------------------------------------------------------- numbers of columns */

static int map_columns(struct scan *s)
{
    const struct table_def *theirs = &s->entry->directory->tables[s->section];
    if (s->spec.step_ns)
        s->table = theirs;
    else if (s->is_of_all)
        s->table = find_table(s, theirs->name);
    if (s->spec.step_ns || !s->table)
        return 0;
    arena_reset(&s->map_arena);
    return field_map_init(&s->map, s->table, theirs, s->entry->directory->is_old, &s->map_arena);
}

/* Are columns given as they are stored? */
static bool is_as_stored(const struct scan *s)
{
    return s->spec.step_ns || s->map.is_same;
}

/* ---------------------------------------------------------------- chunks */

/* Of that stream, and allowed? Streams of one key come one after the other. */
static bool is_stream_wanted(struct scan *s, struct slice key)
{
    if (!s->spec.wants)
        return true;
    if (s->asked.p && slice_eq(s->asked, key))
        return s->is_wanted;
    struct stream_key_parts parts = stream_key_split(key);
    s->asked = key;
    s->is_wanted = s->spec.wants(s->spec.arg, key, &parts);
    return s->is_wanted;
}

static bool is_in_time(const struct scan *s, const struct blob_chunk *c)
{
    return c->min_ns <= s->spec.to_ns && c->max_ns >= s->spec.from_ns;
}

/* A field that is a value in one version of a schema may be a key in another. */
static bool is_id_in_key(const struct scan *s, struct slice key)
{
    struct slice fields = stream_key_split(key).fields, name;
    struct value v;
    if (!s->table || s->spec.id_column >= s->table->n_columns)
        return false;
    const struct field *f = &s->table->columns[s->spec.id_column];
    while (stream_key_next(&fields, &name, &v))
        if (slice_eq(name, f->name))
            return true;
    return false;
}

static bool may_have_id(const struct scan *s, uint32_t chunk)
{
    if (s->spec.id_column == NO_COLUMN || !s->spec.id.p)
        return true;
    uint16_t column = s->spec.step_ns ? s->spec.id_column
                      : s->spec.id_column < s->map.fields->n_columns ? s->map.first[s->spec.id_column]
                                                                     : (uint16_t)NO_COLUMN;
    for (; column != NO_COLUMN; column = s->spec.step_ns ? (uint16_t)NO_COLUMN : s->map.next[column])
        if (blob_chunk_may_have(s->entry->directory, chunk, column, s->spec.id))
            return true;
    return is_id_in_key(s, s->entry->directory->chunks[chunk].key);
}

/* Partitions have numbers from 1. */
static uint64_t place_of(uint64_t partition, uint64_t blob, uint64_t chunk)
{
    const uint64_t at[] = {partition, blob, chunk};
    return hash_bytes(slice_of((const char *)at, sizeof at));
}

static bool are_all_done(const struct scan *s)
{
    for (uint32_t i = 0; i < s->n_done; i++)
        if (!(s->done[i / 64] >> i % 64 & 1))
            return false;
    return s->n_done > 0;
}

/* 1: nothing else is needed of the blob. */
static int ask_counts(struct scan *s)
{
    s->n_done = 0;
    if (!s->spec.take_counts || s->is_of_all)
        return 0;
    int r = partition_counts(s->at->partition->p, s->at->blob, s->spec.name, &s->counts);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* its rows are read: they say what is wrong */
    struct counts_reader counts;
    uint32_t n = counts_open(&counts, strbuf_slice(&s->counts));
    size_t words = (n + 63) / 64;
    if (words > s->done_words) {
        uint64_t *done = mem_try_resize(s->done, words * sizeof *done);
        if (!done)
            return -ENOMEM;
        s->done = done;
        s->done_words = words;
    }
    if (n) {
        memset(s->done, 0, words * sizeof *s->done);
        r = s->spec.take_counts(s->spec.arg, &counts, s->done);
        s->n_done = n;
    }
    counts_close(&counts);
    return r < 0 ? r : are_all_done(s);
}

static int enter_blob(struct scan *s)
{
    s->at = &s->sections[s->next_section++];
    int counted = ask_counts(s);
    if (counted != 0)
        return counted < 0 ? counted : 0;
    struct blob_place place = {s->at->partition->number, s->at->blob};
    int r = directories_get(&s->v->reader->directories, s->at->partition->p, place, &s->entry);
    if (r < 0)
        return r;
    const struct blob_directory *d = s->entry->directory;
    s->section = 0;
    while (d && !s->is_of_all && s->section < d->n_sections &&
           !slice_eq(d->sections[s->section].name, s->spec.name))
        s->section++;
    if (!d || s->section == d->n_sections) {
        s->loss.blobs++;
        s->loss.rows += s->at->rows;
        leave_blob(s);
        return 0;
    }
    s->chunk = blob_directory_find(d, s->section, SLICE_LIT("")) - 1;
    s->first_chunk = s->chunk + 1;
    return map_columns(s);
}

/* The next chunk is in the section, or in the next one where all are asked. */
static int enter_section(struct scan *s, uint32_t section)
{
    if (section == s->section)
        return 1;
    if (!s->is_of_all)
        return 0;
    s->section = section;
    int r = map_columns(s);
    return r < 0 ? r : 1;
}

/* Was the chunk at hand counted? */
static bool is_done(const struct scan *s)
{
    uint32_t i = s->chunk - s->first_chunk;
    return i < s->n_done && s->done[i / 64] >> i % 64 & 1;
}

/* Rows of the blob's chunk at hand, as stored. */
static int read_stored(struct scan *s, unsigned what, const uint16_t *want, size_t n_want, struct rows *out)
{
    struct view_reader *reader = s->v->reader;
    int r = directories_body(&reader->directories, s->at->partition->p, s->entry);
    return r < 0 ? r
                 : blob_chunk_read(s->entry->directory, strbuf_slice(&s->entry->body),
                                   s->entry->place.partition << 40 ^ s->entry->place.blob, s->chunk, what, want,
                                   n_want, reader->cache, &s->arena, out);
}

/* Summaries of fields that only rows tell of: text of an old blob that may be numbers. */
static int summarise_rows(struct scan *s, struct blob_chunk *c)
{
    struct rows stored, rows;
    uint16_t *ids = (uint16_t *)(uintptr_t)c->ids;
    struct column_summary *summaries = (struct column_summary *)(uintptr_t)c->summaries;
    int r = read_stored(s, BLOB_TIMES | BLOB_ALL_COLUMNS, NULL, 0, &stored);
    if (r == 0)
        r = field_map_rows(&s->map, &stored, NULL, 0, &s->arena, &rows);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* whoever reads the rows is told */
    c->n_columns = 0;
    for (uint32_t i = 0; i < rows.n_columns; i++) { /* at most as many as there were: each has a stored column */
        ids[c->n_columns] = rows.columns[i].id;
        column_summarise(&rows, &rows.columns[i], 0, rows.n, &summaries[c->n_columns++]);
    }
    return 0;
}

/* The chunk by fields, in s->given. */
static int make_chunk(struct scan *s, const struct blob_chunk *c)
{
    bool needs_rows;
    int r = field_map_chunk(&s->map, c, &s->arena, &s->given, &needs_rows);
    return r < 0 || !needs_rows ? r : summarise_rows(s, &s->given);
}

/* The next chunk of this blob: 1; 0: there is no more. */
static int next_chunk(struct scan *s, struct scan_chunk *out)
{
    const struct blob_directory *d = s->entry->directory;
    while (++s->chunk < d->n_chunks) {
        const struct blob_chunk *c = &d->chunks[s->chunk];
        int e = enter_section(s, c->section);
        if (e <= 0)
            return e;
        if (!s->table || is_done(s) || !is_in_time(s, c) || !is_stream_wanted(s, c->key) ||
            !may_have_id(s, s->chunk))
            continue;
        if (!is_as_stored(s)) {
            int r = make_chunk(s, c);
            if (r < 0)
                return r;
            c = &s->given;
        }
        if (s->spec.may_have && !s->spec.may_have(s->spec.arg, s->table, c))
            continue;
        *out = (struct scan_chunk){.chunk = c,
                                   .table = s->table,
                                   .place = place_of(s->at->partition->number, s->at->blob, s->chunk)};
        return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- heads */

static int make_head_chunk(struct scan *s, const struct view_head *h)
{
    struct rows r, stored;
    int e = head_rows(h->buffer, h->n, h->n_origins, h->is_unsorted, NULL, 0, &s->arena, &stored);
    r = stored;
    if (s->map.stored != h->table || s->map.fields != s->table) {
        arena_reset(&s->map_arena);
        e = e < 0 ? e : field_map_init(&s->map, s->table, h->table, false, &s->map_arena);
    }
    if (e == 0 && !s->map.is_same)
        e = field_map_rows(&s->map, &stored, NULL, 0, &s->arena, &r);
    if (e < 0)
        return e;
    uint16_t *ids = arena_alloc(&s->arena, (r.n_columns + 1) * sizeof *ids);
    struct column_summary *summaries = arena_alloc(&s->arena, (r.n_columns + 1) * sizeof *summaries);
    if (!ids || !summaries)
        return -ENOMEM;
    for (uint32_t i = 0; i < r.n_columns; i++) {
        ids[i] = r.columns[i].id;
        column_summarise(&r, &r.columns[i], 0, r.n, &summaries[i]);
    }
    s->given = (struct blob_chunk){.key = h->key,
                                   .n_rows = r.n,
                                   .min_ns = r.time_ns[0],
                                   .max_ns = r.time_ns[r.n - 1],
                                   .n_columns = r.n_columns,
                                   .ids = ids,
                                   .summaries = summaries};
    return 0;
}

static int next_head(struct scan *s, struct scan_chunk *out)
{
    bool has_heads = (s->table || s->is_of_all) && s->spec.step_ns == 0 && !s->spec.only;
    while (has_heads && s->next_head < s->v->n_heads) {
        const struct view_head *h = &s->v->heads[s->next_head++];
        if ((!s->is_of_all && !slice_eq(h->table->name, s->spec.name)) || !is_stream_wanted(s, h->key))
            continue;
        if (s->is_of_all)
            s->table = s->spec.is_stored ? h->table : find_table(s, h->table->name);
        if (!s->table)
            continue;
        arena_reset(&s->arena);
        int r = make_head_chunk(s, h);
        if (r < 0)
            return r;
        if (!is_in_time(s, &s->given) ||
            (s->spec.may_have && !s->spec.may_have(s->spec.arg, s->table, &s->given)))
            continue;
        s->head = h;
        *out = (struct scan_chunk){
            .chunk = &s->given, .table = s->table, .is_head = true, .place = place_of(0, 0, s->next_head)};
        return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- the scan */

int scan_next(struct scan *s, struct scan_chunk *out)
{
    s->head = NULL;
    arena_reset(&s->arena);
    for (;;) {
        int r = s->entry ? next_chunk(s, out) : 0;
        if (r != 0)
            return r;
        leave_blob(s);
        if (s->next_section == s->n_sections)
            return next_head(s, out);
        r = enter_blob(s);
        if (r < 0)
            return r;
    }
}

bool scan_is_old(const struct scan *s)
{
    return s->entry && s->entry->directory->is_old;
}

static bool has_companion(const struct scan *s, const uint16_t *want, size_t n)
{
    for (size_t i = 0; !s->spec.step_ns && i < n; i++)
        if (want[i] >= s->map.fields->n_columns)
            return true;
    return false;
}

/* want: of the stored columns. */
static int read_head(struct scan *s, unsigned what, const uint16_t *want, size_t n_want, struct rows *out)
{
    static const uint16_t none = NO_COLUMN;
    const struct view_head *h = s->head;
    return head_rows(h->buffer, h->n, h->n_origins, h->is_unsorted,
                     what & BLOB_ALL_COLUMNS ? NULL : (n_want ? want : &none), n_want, &s->arena, out);
}

static int read_fields(struct scan *s, unsigned what, const uint16_t *want, size_t n_want, struct rows *out)
{
    bool is_plain = is_as_stored(s) && !has_companion(s, want, n_want);
    const uint16_t *theirs = want;
    size_t n = n_want;
    struct rows stored;
    if (!is_plain && !(what & BLOB_ALL_COLUMNS)) {
        uint16_t *list = arena_alloc(&s->arena, (2 * s->map.stored->n_columns + 1) * sizeof *list);
        if (!list)
            return -ENOMEM;
        n = field_map_want(&s->map, want, n_want, list);
        theirs = list;
    } else if (is_plain && !s->head && !s->spec.step_ns) {
        uint32_t has = s->map.stored->n_columns; /* our columns that the blob does not know yet are the last */
        while (n && theirs[n - 1] >= has)
            n--;
    }
    int r = s->head ? read_head(s, what, theirs, n, &stored) : read_stored(s, what, theirs, n, &stored);
    if (r < 0 || is_plain) {
        if (r == 0)
            *out = stored;
        return r;
    }
    return field_map_rows(&s->map, &stored, what & BLOB_ALL_COLUMNS ? NULL : want, n_want, &s->arena, out);
}

int scan_read(struct scan *s, unsigned what, const uint16_t *want, size_t n_want, struct rows *out)
{
    int r = read_fields(s, what, want, n_want, out);
    if (r == -ENOMEM || r == 0 || s->head)
        return r;
    s->loss.chunks++;
    s->loss.rows += s->entry->directory->chunks[s->chunk].n_rows;
    return E_DAMAGE;
}
