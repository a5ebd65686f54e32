/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/usage.h"

#include "archive/catalog.h"
#include "base/map.h"
#include "base/mem.h"
#include "event/stream_key.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

struct rows_of {
    struct map by_key; /* -> place in v, + 1 */
    struct usage_row *v;
    size_t n, max;
};

struct usage {
    struct arena arena; /* keys */
    struct rows_of kinds[USAGE_KINDS];
    struct map pairs; /* (producer, stream): each counted once */
    uint64_t bytes, unreadable;
};

struct gathering {
    struct usage *u;
    struct partition *p;
    const char *dir, *name;
    void (*progress)(uint64_t bytes);
    uint64_t blob;
    struct strbuf bytes;
    struct arena arena;
    int r;
};

/* NULL: no memory. */
static struct usage_row *row_of(struct usage *u, enum usage_kind kind, struct slice key, bool *is_new)
{
    struct rows_of *r = &u->kinds[kind];
    uintptr_t at = (uintptr_t)map_get(&r->by_key, key);
    *is_new = at == 0;
    if (at)
        return &r->v[at - 1];
    if (r->n == r->max) {
        size_t max = r->max ? r->max * 2 : 64;
        struct usage_row *v = mem_try_resize(r->v, max * sizeof *v);
        if (!v)
            return NULL;
        r->v = v;
        r->max = max;
    }
    struct slice copy = arena_copy(&u->arena, key);
    if (!copy.p || map_put(&r->by_key, copy, (void *)(uintptr_t)(r->n + 1)) < 0)
        return NULL;
    r->v[r->n] = (struct usage_row){.key = copy, .from_ns = INT64_MAX, .to_ns = INT64_MIN};
    return &r->v[r->n++];
}

static void add(struct usage_row *row, uint64_t rows, uint64_t bytes, const struct blob_chunk *c)
{
    row->rows += rows;
    row->bytes += bytes;
    row->from_ns = c->min_ns < row->from_ns ? c->min_ns : row->from_ns;
    row->to_ns = c->max_ns > row->to_ns ? c->max_ns : row->to_ns;
}

static bool is_overflow(struct slice key)
{
    struct slice fields = stream_key_split(key).fields, name;
    struct value v;
    return stream_key_next(&fields, &name, &v) && slice_eq_str(name, "overflow") && v.type == VALUE_BOOL &&
           fields.n == 0;
}

/* Is it the first chunk of this stream that this producer, or partition, has? */
static int first_of(struct usage *u, char kind, struct slice owner, struct slice key, bool *out)
{
    struct strbuf b = {0};
    strbuf_add_char(&b, kind);
    strbuf_add_text(&b, owner);
    strbuf_add_slice(&b, key);
    int r = strbuf_failed(&b) ? -ENOMEM : 0;
    *out = r == 0 && !map_get(&u->pairs, strbuf_slice(&b));
    if (*out) {
        struct slice copy = arena_copy(&u->arena, strbuf_slice(&b));
        r = copy.p ? map_put(&u->pairs, copy, u) : -ENOMEM;
    }
    strbuf_fini(&b);
    return r;
}

/* Rows of a chunk with several producers are theirs by the numbers of each, as far as those go. */
static int add_producers(struct usage *u, const struct blob_chunk *c, uint64_t bytes)
{
    uint32_t n = c->by.n;
    for (uint32_t i = 0; i < n; i++) {
        bool is_new, is_first;
        struct slice id = slice_of((const char *)c->by.origins[i].producer, 16);
        struct usage_row *row = row_of(u, USAGE_PRODUCER, id, &is_new);
        if (!row)
            return -ENOMEM;
        add(row, c->n_rows / n + (i < c->n_rows % n), bytes / n, c);
        int r = first_of(u, 'p', id, c->key, &is_first);
        if (r < 0)
            return r;
        row->streams += is_first;
    }
    return 0;
}

static int add_chunk(struct gathering *g, const struct blob_directory *d, uint32_t i, uint64_t bytes)
{
    const struct blob_chunk *c = &d->chunks[i];
    struct slice file = slice_str(g->name);
    bool is_new, is_new_stream, is_first;
    struct usage_row *stream = row_of(g->u, USAGE_STREAM, c->key, &is_new_stream);
    if (!stream)
        return -ENOMEM;
    add(stream, c->n_rows, bytes, c);
    stream->is_overflow = is_overflow(c->key);
    struct usage_row *event = row_of(g->u, USAGE_EVENT, d->sections[c->section].name, &is_new);
    if (!event)
        return -ENOMEM;
    add(event, c->n_rows, bytes, c);
    event->streams += is_new_stream;
    struct usage_row *partition = row_of(g->u, USAGE_PARTITION, file, &is_new);
    int r = partition ? first_of(g->u, 'f', file, c->key, &is_first) : -ENOMEM;
    if (r < 0)
        return r;
    add(partition, c->n_rows, 0, c); /* its bytes are the file's */
    partition->streams += is_first;
    return add_producers(g->u, c, bytes);
}

static uint64_t weight(const struct blob_chunk *c)
{
    uint64_t n = c->n_rows;
    for (uint32_t i = 0; i < c->n_columns; i++)
        n += c->summaries[i].count;
    return n;
}

static int add_directory(struct gathering *g, const struct blob_directory *d, uint64_t bytes)
{
    uint64_t all = 0;
    int r = 0;
    for (uint32_t i = 0; i < d->n_chunks; i++)
        all += weight(&d->chunks[i]);
    for (uint32_t i = 0; r == 0 && i < d->n_chunks; i++)
        r = add_chunk(g, d, i, (uint64_t)((double)bytes * (double)weight(&d->chunks[i]) / (double)all));
    return r;
}

static bool add_blob(void *arg, const struct partition_section *s)
{
    struct gathering *g = arg;
    const struct blob_directory *d = NULL;
    if (s->blob == g->blob)
        return true;
    g->blob = s->blob;
    arena_reset(&g->arena);
    uint64_t body = 0;
    int r = partition_directory(g->p, s->blob, &g->bytes);
    if (r == 0)
        r = partition_body_bytes(g->p, s->blob, &body);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&g->bytes), &g->arena, &d);
    if (r == 0)
        r = add_directory(g, d, g->bytes.n + body);
    if (r == -ENOMEM || r == -EIO)
        g->r = r;
    else if (r < 0)
        g->u->unreadable++;
    return g->r == 0;
}

static uint64_t file_bytes(const char *dir, const char *name)
{
    uint64_t n = 0;
    static const char *const ends[] = {"", "-wal"};
    for (size_t i = 0; i < 2; i++) {
        struct strbuf path = {0};
        struct stat st;
        strbuf_printf(&path, "%s/%s%s", dir, name, ends[i]);
        if (!strbuf_failed(&path) && stat(path.p, &st) == 0)
            n += (uint64_t)st.st_size;
        strbuf_fini(&path);
    }
    return n;
}

static int gather_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct gathering *g = arg;
    (void)from_ns;
    (void)step_ns;
    bool is_new;
    struct usage_row *row = row_of(g->u, USAGE_PARTITION, slice_str(name), &is_new);
    if (!row)
        return -ENOMEM;
    row->bytes = file_bytes(g->dir, name);
    g->u->bytes += row->bytes;
    g->name = name;
    g->blob = 0;
    int r = partition_open(g->dir, name, 0, NULL, &g->p, NULL);
    if (r == 0)
        r = partition_begin_read(g->p);
    if (r == 0)
        r = partition_sections(g->p, slice_of("", 0), INT64_MIN, INT64_MAX, add_blob, g);
    if (r == 0)
        g->u->unreadable += partition_missing(g->p);
    partition_close(g->p);
    g->p = NULL;
    if (g->progress)
        g->progress(g->u->bytes);
    if (r == E_DAMAGE || r == -ENOENT)
        g->u->unreadable++;
    return g->r < 0 ? g->r : r == -ENOMEM || r == -EIO ? r : 0;
}

int usage_gather(const char *dir, void (*progress)(uint64_t bytes), struct usage **out, struct diag *why)
{
    struct usage *u = mem_try_alloc(sizeof *u);
    struct gathering g = {.u = u, .dir = dir, .progress = progress};
    int r = u ? catalog_partitions(dir, gather_partition, &g) : -ENOMEM;
    strbuf_fini(&g.bytes);
    arena_fini(&g.arena);
    if (r < 0) {
        usage_destroy(u);
        return diag_set(why, r, 0, "%s: %s", dir, err_text(r));
    }
    *out = u;
    return 0;
}

void usage_destroy(struct usage *u)
{
    if (!u)
        return;
    for (size_t i = 0; i < USAGE_KINDS; i++) {
        map_fini(&u->kinds[i].by_key);
        mem_free(u->kinds[i].v);
    }
    map_fini(&u->pairs);
    arena_fini(&u->arena);
    mem_free(u);
}

static int compare_rows(const void *a, const void *b)
{
    const struct usage_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->rows < y->rows) - (x->rows > y->rows);
}

const struct usage_row *usage_rows(struct usage *u, enum usage_kind kind, size_t *n)
{
    struct rows_of *r = &u->kinds[kind];
    map_fini(&r->by_key); /* places change: all has been gathered */
    if (r->n)
        qsort(r->v, r->n, sizeof *r->v, compare_rows);
    *n = r->n;
    return r->v;
}

uint64_t usage_bytes(const struct usage *u)
{
    return u->bytes;
}

uint64_t usage_unreadable(const struct usage *u)
{
    return u->unreadable;
}
