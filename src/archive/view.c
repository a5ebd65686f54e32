/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a view: the heads at one moment, under the archive's lock, and the generation of blobs that goes
 * with them. Partitions are opened when a scan needs them: blobs of a newer generation are left out, and none
 * that a view in use sees is merged with one that it does not (archive_merge_limit), so it does not matter
 * when. */
#include "archive/view_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READER_OPEN_MAX = 32, DECIDE_CACHE = 1 << 20 };

/* ---------------------------------------------------------------- the reader */

static void close_partition(struct view_reader *r, struct reader_partition *p)
{
    if (!p->p)
        return;
    if (p->is_reading)
        partition_end_read(p->p);
    partition_close(p->p);
    p->p = NULL;
    p->is_reading = false;
    r->n_open--;
}

void view_reader_destroy(struct view_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_partitions; i++)
        close_partition(r, &r->partitions[i]);
    directories_fini(&r->directories);
    blob_cache_destroy(r->cache);
    table_list_unref(r->list);
    catalog_close(r->catalog);
    mem_free(r->partitions);
    free(r->dir);
    mem_free(r);
}

/* Counts the first values that the table has of each field, and so decides the classes of those that nothing is known of. */
static int decide_table(struct view *v, struct catalog *c, struct slice name)
{
    struct scan_spec spec = {
        .name = name, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .is_stored = true, .id_column = UINT16_MAX};
    struct scan *scan;
    struct scan_chunk chunk;
    int64_t now_ns = clock_utc_ns();
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while (catalog_has_open_class(c, name) && (r = scan_next(scan, &chunk)) > 0) {
        struct rows rows;
        r = scan_read(scan, BLOB_ALL_COLUMNS, NULL, 0, &rows);
        for (uint32_t i = 0; r == 0 && i < rows.n_columns; i++)
            catalog_count_column(c, name, &rows.columns[i], rows.n, scan_is_old(scan), now_ns);
        if (r == -ENOMEM)
            break;
    }
    scan_close(scan);
    return r < 0 && r != E_DAMAGE ? r : catalog_end_count(c, name);
}

static int decide_all(struct view_reader *r, struct catalog *c)
{
    struct view *v = NULL;
    int e = 0;
    for (size_t i = 0; e == 0 && i < catalog_tables(c); i++) {
        struct slice name = catalog_table_at(c, i)->name;
        if (!catalog_has_unknown_class(c, name))
            continue;
        e = v ? 0 : view_take(r, &v);
        if (e == 0)
            e = decide_table(v, c, name);
    }
    view_release(v);
    return e;
}

static int decide_folder(struct view_reader *r)
{
    if (r->is_deciding) /* the view that decides is being taken */
        return 0;
    r->is_deciding = true;
    int e = decide_all(r, r->catalog);
    r->is_deciding = false;
    table_list_unref(r->list);
    r->list = table_list_create(r->catalog);
    return e;
}

int archive_decide_classes(struct archive *a)
{
    struct view_reader *r = NULL;
    struct diag why = {0};
    bool is_any = false;
    for (size_t i = 0; !is_any && i < catalog_tables(a->catalog); i++)
        is_any = catalog_has_unknown_class(a->catalog, catalog_table_at(a->catalog, i)->name);
    if (!is_any)
        return 0;
    int e = view_reader_create(a, NULL, DECIDE_CACHE, &r, &why);
    if (e == 0)
        e = decide_all(r, a->catalog);
    view_reader_destroy(r);
    if (e < 0)
        return e;
    archive_publish_tables(a);
    return catalog_commit(a->catalog);
}

/* The catalogue of a folder that somebody else writes. */
static int open_folder(struct view_reader *r, struct diag *why)
{
    int e = catalog_open(r->dir, false, &r->catalog, why);
    if (e < 0)
        return e;
    r->list = table_list_create(r->catalog);
    return decide_folder(r);
}

int view_reader_create(struct archive *a, const char *dir, size_t cache_bytes, struct view_reader **out,
                       struct diag *why)
{
    struct view_reader *r = mem_alloc(sizeof *r);
    r->a = a;
    r->dir = strdup(a ? archive_dir(a) : dir);
    r->directories.max_bytes = cache_bytes / 2;
    r->cache = blob_cache_create(cache_bytes / 2);
    int e = r->dir && r->cache ? 0 : -ENOMEM;
    if (e == 0 && !a)
        e = open_folder(r, why);
    if (e < 0) {
        view_reader_destroy(r);
        return e;
    }
    *out = r;
    return 0;
}

/* ---------------------------------------------------------------- which partitions there are */

struct listing {
    struct view_reader *r;
    size_t at; /* those before it are in the new list */
};

static struct reader_partition *find_listed(struct view_reader *r, const char *name, uint64_t inode)
{
    for (size_t i = 0; i < r->n_partitions; i++)
        if (strcmp(r->partitions[i].name, name) == 0 && r->partitions[i].inode == inode)
            return &r->partitions[i];
    return NULL;
}

static uint64_t inode_of(const struct view_reader *r, const char *name)
{
    struct strbuf path = {0};
    struct stat st;
    strbuf_printf(&path, "%s/%s", r->dir, name);
    uint64_t inode = !strbuf_failed(&path) && stat(path.p, &st) == 0 ? st.st_ino : 0;
    strbuf_fini(&path);
    return inode;
}

/* In the order of the listing: what is known keeps its connection, what is gone is behind listing.at then. */
static int list_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct listing *l = arg;
    struct view_reader *r = l->r;
    uint64_t inode = inode_of(r, name);
    struct reader_partition *known = find_listed(r, name, inode);
    if (!known) {
        if (r->n_partitions == r->max_partitions) {
            size_t max = r->max_partitions ? r->max_partitions * 2 : 16;
            struct reader_partition *all = mem_try_resize(r->partitions, max * sizeof *all);
            if (!all)
                return -ENOMEM;
            r->partitions = all;
            r->max_partitions = max;
        }
        known = &r->partitions[r->n_partitions++];
        *known =
            (struct reader_partition){.span = {.from_ns = from_ns, .to_ns = INT64_MAX, .step_ns = step_ns},
                                      .number = ++r->last_number,
                                      .inode = inode};
        memcpy(known->name, name, strnlen(name, sizeof known->name - 1));
    }
    struct reader_partition swap = r->partitions[l->at];
    r->partitions[l->at] = *known;
    *known = swap;
    l->at++;
    return 0;
}

/* Where one that is not open ends at the latest: where the next of its kind begins. */
static void set_end(struct view_reader *r, size_t at)
{
    struct reader_partition *p = &r->partitions[at];
    for (size_t i = 0; !p->p && i < r->n_partitions; i++) {
        const struct partition_span *s = &r->partitions[i].span;
        if (s->step_ns == p->span.step_ns && s->from_ns > p->span.from_ns && s->from_ns < p->span.to_ns)
            p->span.to_ns = s->from_ns;
    }
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int list_partitions(struct view_reader *r)
{
    struct listing l = {.r = r};
    struct stat st;
    if (stat(r->dir, &st) < 0)
        return -errno;
    if (is_same_time(&st.st_mtim, &r->listed))
        return 0;
    int e = catalog_partitions(r->dir, list_partition, &l);
    if (e < 0)
        return e;
    while (r->n_partitions > l.at)
        close_partition(r, &r->partitions[--r->n_partitions]);
    for (size_t i = 0; i < r->n_partitions; i++)
        set_end(r, i);
    r->listed = st.st_mtim;
    return 0;
}

static void on_damage(void *arg, const struct partition_damage *d)
{
    (void)d; /* counted here; `gridline archive check` names it */
    ((struct reader_partition *)arg)->damaged++;
}

/* One that the view has not begun to read, to make room. */
static void close_one(struct view_reader *r)
{
    for (size_t i = 0; i < r->n_partitions; i++)
        if (r->partitions[i].p && !r->partitions[i].is_reading) {
            close_partition(r, &r->partitions[i]);
            return;
        }
}

int view_open_partition(struct view *v, struct reader_partition *p)
{
    struct view_reader *r = v->reader;
    struct diag why = {0};
    if (!p->p) {
        if (r->n_open >= READER_OPEN_MAX)
            close_one(r);
        int e = partition_open(r->dir, p->name, 0, NULL, &p->p, &why);
        if (e < 0)
            return e;
        r->n_open++;
        p->span = *partition_span(p->p);
        p->damaged = 0;
    }
    partition_on_damage(p->p, on_damage, p);
    if (p->is_reading)
        return 0;
    int e = partition_begin_read(p->p);
    p->is_reading = e == 0;
    return e;
}

/* ---------------------------------------------------------------- views */

static void add_head(struct view *v, const struct archive_stream *s)
{
    if (v->n_heads == v->max_heads) {
        size_t max = v->max_heads ? v->max_heads * 2 : 64;
        struct view_head *heads = mem_alloc(max * sizeof *heads);
        if (v->n_heads)
            memcpy(heads, v->heads, v->n_heads * sizeof *heads);
        mem_free(v->heads);
        v->heads = heads;
        v->max_heads = max;
    }
    v->heads[v->n_heads++] = (struct view_head){.key = arena_copy(&v->arena, s->key),
                                                .table = s->table->def,
                                                .buffer = head_buffer_ref(s->head.buffer),
                                                .n = s->n_seen,
                                                .n_origins = s->n_origins_seen,
                                                .is_unsorted = s->is_unsorted_seen};
}

/* What was written since; a table that is missed is there the next time. */
static void refresh_folder(struct view_reader *r)
{
    if (catalog_refresh(r->catalog) <= 0)
        return;
    table_list_unref(r->list);
    r->list = table_list_create(r->catalog);
    (void)decide_folder(r); /* those that it can't read now are provisional */
}

static bool is_named(const struct slice *names, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

/* Under the lock. */
static void take_heads(struct view *v, struct archive *a, const struct slice *names, size_t n)
{
    void *value;
    for (size_t i = 0; map_next(&a->tables, &i, &value);) {
        const struct archive_table *t = value;
        if (names && !is_named(names, n, t->name))
            continue;
        for (size_t k = 0; k < t->n; k++)
            if (t->streams[k]->n_seen)
                add_head(v, t->streams[k]);
    }
}

static void take_from_archive(struct view *v, struct archive *a, const struct slice *names, size_t n)
{
    pthread_mutex_lock(&a->lock);
    v->gen = v->in_use.gen = a->gen;
    v->in_use.next = a->views.next;
    v->in_use.before = &a->views;
    a->views.next->before = &v->in_use;
    a->views.next = &v->in_use;
    v->list = table_list_ref(a->list);
    v->behind_ns =
        a->caught_up_ns && clock_utc_ns() - a->caught_up_ns > ARCHIVE_BEHIND_NS ? a->caught_up_ns : 0;
    take_heads(v, a, names, n);
    pthread_mutex_unlock(&a->lock);
}

int view_take_of(struct view_reader *r, const struct slice *names, size_t n, struct view **out)
{
    if (r->is_taken)
        return -EBUSY;
    struct view *v = mem_alloc(sizeof *v);
    v->reader = r;
    if (r->a) {
        take_from_archive(v, r->a, names, n);
    } else {
        refresh_folder(r);
        v->gen = UINT64_MAX;
        v->list = table_list_ref(r->list);
        v->n_unflushed = unflushed_read(r->dir, &v->arena, &v->unflushed);
    }
    r->is_taken = true;
    int e = list_partitions(r);
    if (e < 0) {
        view_release(v);
        return e;
    }
    *out = v;
    return 0;
}

int view_take(struct view_reader *r, struct view **out)
{
    return view_take_of(r, NULL, 0, out);
}

static void leave_archive(struct view *v, struct archive *a)
{
    pthread_mutex_lock(&a->lock);
    v->in_use.before->next = v->in_use.next;
    v->in_use.next->before = v->in_use.before;
    pthread_mutex_unlock(&a->lock);
}

void view_release(struct view *v)
{
    if (!v)
        return;
    if (v->reader->a)
        leave_archive(v, v->reader->a);
    for (size_t i = 0; i < v->reader->n_partitions; i++) {
        struct reader_partition *p = &v->reader->partitions[i];
        if (p->is_reading)
            partition_end_read(p->p);
        p->is_reading = p->is_bad = false;
    }
    for (size_t i = 0; i < v->n_heads; i++)
        head_buffer_unref(v->heads[i].buffer);
    v->reader->is_taken = false;
    table_list_unref(v->list);
    arena_fini(&v->arena);
    mem_free(v->heads);
    mem_free(v);
}

/* ---------------------------------------------------------------- what there is */

size_t view_tables(const struct view *v)
{
    return v->list->n;
}

const struct table_def *view_stored_table_at(const struct view *v, size_t i)
{
    return v->list->defs[i];
}

const struct table_def *view_table_at(const struct view *v, size_t i)
{
    return v->list->defs[i]->fields;
}

const struct table_def *view_stored_table(const struct view *v, struct slice name)
{
    return table_list_find(v->list, name);
}

const struct table_def *view_table(const struct view *v, struct slice name)
{
    const struct table_def *stored = view_stored_table(v, name);
    return stored ? stored->fields : NULL;
}

size_t view_baselines(const struct view *v)
{
    return v->list->n_baselines;
}

struct baseline view_baseline_at(const struct view *v, size_t i)
{
    return v->list->baselines[i];
}

size_t view_gone(const struct view *v)
{
    return v->list->n_gone;
}

struct deleted view_gone_at(const struct view *v, size_t i)
{
    return v->list->gone[i];
}

size_t view_unflushed(const struct view *v)
{
    return v->n_unflushed;
}

struct unflushed view_unflushed_at(const struct view *v, size_t i)
{
    return v->unflushed[i];
}

int64_t view_behind(const struct view *v)
{
    return v->behind_ns;
}

size_t view_partitions(const struct view *v)
{
    return v->reader->n_partitions;
}

struct partition_span view_partition_at(const struct view *v, size_t i)
{
    return v->reader->partitions[i].span;
}
