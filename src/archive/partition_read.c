/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a partition. The index, event name and time to blob, is in memory: entries in the order of blobs,
 * those of one name linked. It costs 48 bytes an event name and blob, and answers without asking SQLite;
 * after a commit only the rows of new blobs are read, after one that took blobs out, all of them.
 *
 * What the index must hold is known (partition.c): each number below next_blob that was not taken out. A row
 * that is not there, or wrong, is made again from the directory of its blob. */
#include "archive/blob_layout.h"
#include "archive/partition_internal.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/mem.h"

#include <errno.h>

enum { COUNTS_VERSION = 1 };

/* ---------------------------------------------------------------- rows */

void sections_encode(struct strbuf *out, const struct blob_bytes *b)
{
    const struct blob_section *s = b->sections;
    strbuf_add_u64(out, directory_number(b->directory));
    strbuf_add_varint(out, b->n_sections);
    for (size_t i = 0; i < b->n_sections; i++) {
        strbuf_add_text(out, s[i].name);
        strbuf_add_u64(out, (uint64_t)s[i].min_ns);
        strbuf_add_u64(out, (uint64_t)s[i].max_ns);
        strbuf_add_varint(out, s[i].rows);
        strbuf_add_varint(out, s[i].streams);
    }
    if (b->counts.n) {
        strbuf_add_char(out, COUNTS_VERSION);
        strbuf_add_slice(out, b->counts);
    }
}

uint64_t directory_number(struct slice directory)
{
    struct cursor c = cursor_of(slice_from(directory, BLOB_AT_NUMBER));
    return cursor_u64(&c); /* 0: there is none */
}

uint64_t sections_number(struct slice bytes)
{
    struct cursor c = cursor_of(bytes);
    return cursor_u64(&c);
}

static struct blob_section read_section(struct cursor *c)
{
    struct blob_section s = {.name = cursor_text(c)};
    s.min_ns = (int64_t)cursor_u64(c);
    s.max_ns = (int64_t)cursor_u64(c);
    s.rows = cursor_varint(c);
    s.streams = (uint32_t)cursor_varint(c);
    return s;
}

int sections_decode(struct slice bytes, int (*fn)(void *arg, const struct blob_section *s), void *arg)
{
    struct cursor c = cursor_of(slice_from(bytes, sizeof(uint64_t)));
    for (uint64_t n = cursor_varint(&c); n > 0; n--) {
        struct blob_section s = read_section(&c);
        if (c.bad)
            return E_PROTO;
        int r = fn(arg, &s);
        if (r < 0)
            return r;
    }
    return c.bad ? E_PROTO : 0; /* counts may follow */
}

/* "": there are none. */
static struct slice find_counts(struct slice bytes, struct slice name)
{
    struct cursor c = cursor_of(slice_from(bytes, sizeof(uint64_t)));
    struct slice found = {"", 0};
    uint64_t n = cursor_varint(&c), at = UINT64_MAX;
    for (uint64_t i = 0; i < n && !c.bad; i++)
        if (slice_eq(read_section(&c).name, name))
            at = i;
    if (c.bad || at == UINT64_MAX || !cursor_left(&c) || cursor_u8(&c) != COUNTS_VERSION)
        return found;
    for (uint64_t i = 0; i <= at && !c.bad; i++)
        found = cursor_text(&c);
    return c.bad ? slice_of("", 0) : found;
}

int partition_counts(struct partition *p, uint64_t blob, struct slice name, struct strbuf *out)
{
    int r = 0;
    strbuf_reset(out);
    sqlite3_stmt *s = partition_use(p, ST_COUNTS, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)blob);
    r = db_step(p->db, s);
    if (r == 0)
        r = -ENOENT;
    struct slice bytes = r > 0 ? db_column_bytes(s, 1) : slice_of("", 0);
    if (r > 0 && sections_crc(blob, (uint64_t)sqlite3_column_int64(s, 0), bytes) !=
                     (uint32_t)sqlite3_column_int64(s, 2))
        r = E_DAMAGE; /* reported when the index was loaded */
    if (r > 0)
        strbuf_add_slice(out, find_counts(bytes, name));
    (void)sqlite3_reset(s); /* r says what was wrong */
    return r < 0 ? r : strbuf_failed(out) ? -ENOMEM : 0;
}

uint32_t sections_crc(uint64_t blob, uint64_t gen, struct slice bytes)
{
    return db_row_crc((uint64_t[]){blob, gen}, 2, bytes);
}

uint32_t blob_row_crc(uint64_t id, uint64_t gen, uint64_t directory_bytes, uint32_t directory_crc,
                      uint64_t body_bytes, uint32_t body_crc)
{
    const uint64_t numbers[] = {id, gen, directory_bytes, directory_crc, body_bytes, body_crc};
    return db_row_crc(numbers, sizeof numbers / sizeof *numbers, slice_of("", 0));
}

/* ---------------------------------------------------------------- directories and bodies */

struct blob_row {
    uint64_t gen;
    uint32_t directory_crc;
    uint64_t body_bytes;
    struct slice bytes; /* the directory or the body; good until the statement moves */
};

/* -ENOENT; E_DAMAGE: its checksum is wrong. */
static int find_blob(struct partition *p, sqlite3_stmt *s, uint64_t id, struct blob_row *out)
{
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id); /* a number always fits */
    int r = db_step(p->db, s);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    out->gen = (uint64_t)sqlite3_column_int64(s, 0);
    out->directory_crc = (uint32_t)sqlite3_column_int64(s, 1);
    uint32_t body_crc = (uint32_t)sqlite3_column_int64(s, 2), crc = (uint32_t)sqlite3_column_int64(s, 3);
    uint64_t directory_bytes = (uint64_t)sqlite3_column_int64(s, 4);
    uint64_t body_bytes = (uint64_t)sqlite3_column_int64(s, 5);
    if (blob_row_crc(id, out->gen, directory_bytes, out->directory_crc, body_bytes, body_crc) != crc ||
        directory_bytes > BLOB_DIRECTORY_MAX || body_bytes > BLOB_BODY_MAX)
        return E_DAMAGE;
    out->body_bytes = body_bytes;
    out->bytes = db_column_bytes(s, 6);
    return 0;
}

static int get_directory(struct partition *p, uint64_t blob, struct strbuf *out, uint64_t *gen)
{
    int r = 0;
    struct blob_row row = {0};
    sqlite3_stmt *s = partition_use(p, ST_DIRECTORY, &r);
    if (!s)
        return r;
    r = find_blob(p, s, blob, &row);
    if (r == 0 && crc32c(0, row.bytes) != row.directory_crc)
        r = E_DAMAGE;
    strbuf_reset(out);
    if (r == 0)
        strbuf_add_slice(out, row.bytes);
    *gen = row.gen;
    (void)sqlite3_reset(s); /* r says what was wrong */
    return r == 0 && strbuf_failed(out) ? -ENOMEM : r;
}

int partition_directory(struct partition *p, uint64_t blob, struct strbuf *out)
{
    uint64_t gen;
    int r = get_directory(p, blob, out, &gen);
    if (r == E_DAMAGE)
        partition_report(p, blob, "the directory of a blob is damaged", NULL);
    return r;
}

int partition_body(struct partition *p, uint64_t blob, struct strbuf *out)
{
    int r = 0;
    struct blob_row row = {0};
    sqlite3_stmt *s = partition_use(p, ST_BODY, &r);
    if (!s)
        return r;
    r = find_blob(p, s, blob, &row);
    strbuf_reset(out);
    if (r == 0)
        strbuf_add_slice(out, row.bytes);
    (void)sqlite3_reset(s); /* r says what was wrong */
    if (r == E_DAMAGE)
        partition_report(p, blob, "the body of a blob is damaged", NULL);
    return r == 0 && strbuf_failed(out) ? -ENOMEM : r;
}

int partition_body_bytes(struct partition *p, uint64_t blob, uint64_t *out)
{
    int r = 0;
    struct blob_row row = {0};
    sqlite3_stmt *s = partition_use(p, ST_DIRECTORY, &r);
    if (!s)
        return r;
    r = find_blob(p, s, blob, &row);
    (void)sqlite3_reset(s); /* r says what was wrong */
    if (r == 0)
        *out = row.body_bytes;
    return r;
}

/* ---------------------------------------------------------------- index */

void index_fini(struct partition_index *x)
{
    mem_free(x->blobs);
    mem_free(x->entries);
    map_fini(&x->names);
    arena_fini(&x->arena);
    *x = (struct partition_index){0};
}

static int index_add_blob(struct partition_index *x, uint64_t id, uint64_t gen)
{
    if (x->n_blobs == x->blobs_cap) {
        size_t cap = x->blobs_cap ? x->blobs_cap * 2 : 64;
        struct index_blob *v = mem_try_resize(x->blobs, cap * sizeof *v);
        if (!v)
            return -ENOMEM;
        x->blobs = v;
        x->blobs_cap = cap;
    }
    x->blobs[x->n_blobs++] = (struct index_blob){id, gen};
    return 0;
}

static struct index_name *index_name(struct partition_index *x, struct slice name)
{
    struct index_name *had = map_get(&x->names, name);
    if (had)
        return had;
    struct index_name *n = arena_alloc(&x->arena, sizeof *n);
    struct slice copy = arena_copy(&x->arena, name);
    if (!n || !copy.p)
        return NULL;
    *n = (struct index_name){.name = copy};
    return map_put(&x->names, n->name, n) < 0 ? NULL : n;
}

/* Entry 0 is none: a link of 0 is the end. */
static int index_room(struct partition_index *x)
{
    if (x->n_entries + 1 < x->entries_cap)
        return 0;
    size_t cap = x->entries_cap ? x->entries_cap * 2 : 256;
    struct index_entry *v = mem_try_resize(x->entries, cap * sizeof *v);
    if (!v)
        return -ENOMEM;
    x->entries = v;
    x->entries_cap = cap;
    if (x->n_entries == 0)
        x->entries[x->n_entries++] = (struct index_entry){0};
    return 0;
}

/* Of the blob added last. */
static int index_add(void *arg, const struct blob_section *s)
{
    struct partition_index *x = arg;
    struct index_name *name = index_name(x, s->name);
    if (!name || index_room(x) < 0)
        return -ENOMEM;
    uint32_t at = (uint32_t)x->n_entries++;
    x->entries[at] = (struct index_entry){.min_ns = s->min_ns,
                                          .max_ns = s->max_ns,
                                          .rows = s->rows,
                                          .streams = s->streams,
                                          .blob = (uint32_t)x->n_blobs - 1,
                                          .name = name};
    if (name->first)
        x->entries[name->last].next = at;
    else
        name->first = at;
    name->last = at;
    return 0;
}

/* What the blob itself says. E_DAMAGE, -ENOENT: nothing. */
static int index_add_from_blob(struct partition *p, uint64_t id)
{
    struct strbuf bytes = {0};
    struct arena arena = {0};
    const struct blob_directory *d = NULL;
    uint64_t gen = 0;
    int r = get_directory(p, id, &bytes, &gen);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&bytes), &arena, &d);
    if (r == 0)
        r = index_add_blob(&p->index, id, gen);
    for (uint32_t i = 0; r == 0 && i < d->n_sections; i++)
        r = index_add(&p->index, &d->sections[i]);
    arena_fini(&arena);
    strbuf_fini(&bytes);
    return r == -ENOENT || r == E_PROTO || r == E_LIMIT ? E_DAMAGE : r;
}

static int index_recover(struct partition *p, uint64_t id)
{
    int r = index_add_from_blob(p, id);
    if (r == 0) {
        partition_report(p, id, "the index of a blob is damaged; it is made from its directory", NULL);
        return 0;
    }
    if (r != E_DAMAGE)
        return r;
    p->index.n_missing++;
    partition_report(p, id, "a blob is gone, and what it held is not known", NULL);
    return 0;
}

/* The blobs from `from` to below `to` that must be there have no rows. */
static int index_recover_range(struct partition *p, uint64_t from, uint64_t to)
{
    int r = 0;
    for (uint64_t id = from; r == 0 && id < to; id++)
        if (!gone_has(&p->gone, id))
            r = index_recover(p, id);
    return r;
}

static int index_take(struct partition *p, sqlite3_stmt *s, uint64_t id)
{
    uint64_t gen = (uint64_t)sqlite3_column_int64(s, 1);
    struct slice bytes = db_column_bytes(s, 2);
    if (sections_crc(id, gen, bytes) != (uint32_t)sqlite3_column_int64(s, 3))
        return E_DAMAGE;
    int r = index_add_blob(&p->index, id, gen);
    return r < 0 ? r : sections_decode(bytes, index_add, &p->index);
}

/* Those up from `from`, in order; *next: the first that is not known. E_DAMAGE: the rest can't be read from
 * this side. */
static int index_read_up(struct partition *p, uint64_t from, uint64_t to, uint64_t *next)
{
    int r = 0;
    *next = from;
    sqlite3_stmt *s = partition_use(p, ST_SECTIONS, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)from);
    (void)sqlite3_bind_int64(s, 2, (sqlite3_int64)to);
    while (*next < to && (r = db_step(p->db, s)) > 0) {
        uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
        if (id < *next || id >= to || gone_has(&p->gone, id))
            continue; /* no row of ours */
        r = index_recover_range(p, *next, id);
        if (r == 0)
            r = index_take(p, s, id);
        if (r == E_DAMAGE)
            r = index_recover(p, id);
        if (r < 0)
            break;
        *next = id + 1;
    }
    (void)sqlite3_reset(s); /* r says what was wrong */
    return r < 0 ? r : 0;
}

/* Behind a broken page: every blob is asked itself. */
static int index_read_broken(struct partition *p, uint64_t from, uint64_t to)
{
    partition_report_once(p, SAID_SECTIONS, "the index can't be read to its end; directories are used");
    return index_recover_range(p, from, to);
}

int index_load(struct partition *p)
{
    struct partition_index *x = &p->index;
    if (x->is_loaded && x->commits == p->state.commits)
        return 0;
    if (!x->is_loaded || x->gone_at != p->state.gone_at) {
        index_fini(x);
        int r = meta_get_gone(p, &p->gone);
        if (r < 0 && r != E_DAMAGE)
            return r;
        x->next_blob = 1;
    }
    uint64_t next = x->next_blob, to = p->state.next_blob;
    int r = index_read_up(p, next, to, &next);
    if (r == E_DAMAGE)
        r = index_read_broken(p, next, to);
    else if (r == 0)
        r = index_recover_range(p, next, to);
    if (r < 0) {
        index_fini(x);
        return r;
    }
    x->next_blob = to;
    x->gone_at = p->state.gone_at;
    x->commits = p->state.commits;
    x->is_loaded = true;
    return 0;
}

/* ---------------------------------------------------------------- reading */

static int begin_read(struct partition *p)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, ST_BEGIN_READ, &r);
    if (s)
        r = db_run(p->db, s);
    if (r < 0)
        return r;
    p->is_reading = true;
    r = partition_look(p);
    if (r == 0)
        r = index_load(p);
    if (r < 0)
        partition_end_read(p);
    return r;
}

int partition_begin_read(struct partition *p)
{
    return p->is_reading || p->is_writing ? -EBUSY : begin_read(p);
}

void partition_end_read(struct partition *p)
{
    if (!p->is_reading)
        return;
    p->is_reading = false;
    int r = 0;
    sqlite3_stmt *s = partition_use(p, ST_ROLLBACK, &r);
    if (s)
        (void)db_run(p->db, s); /* nothing was written */
    (void)sqlite3_db_release_memory(p->db);
}

int partition_sections(struct partition *p, struct slice name, int64_t from_ns, int64_t to_ns,
                       bool (*fn)(void *arg, const struct partition_section *s), void *arg)
{
    int r = 0;
    if (p->is_writing) {
        r = index_load(p);
    } else if (!p->is_reading) {
        r = begin_read(p);
        partition_end_read(p);
    }
    if (r < 0)
        return r;
    const struct partition_index *x = &p->index;
    const struct index_name *only = name.n ? map_get(&x->names, name) : NULL;
    if (name.n && !only)
        return 0;
    for (uint32_t i = only ? only->first : 1; i && i < x->n_entries; i = only ? x->entries[i].next : i + 1) {
        const struct index_entry *e = &x->entries[i];
        if (e->max_ns < from_ns || e->min_ns > to_ns)
            continue;
        const struct partition_section out = {
            .blob = x->blobs[e->blob].id,
            .gen = x->blobs[e->blob].gen,
            .s = {e->name->name, e->min_ns, e->max_ns, e->rows, e->streams},
        };
        if (!fn(arg, &out))
            break;
    }
    return 0;
}

uint64_t partition_missing(struct partition *p)
{
    return p->index.n_missing;
}
