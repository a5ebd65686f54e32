/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing: from heads to blobs, partition by partition.
 *
 * A partition is sealed by one commit of its own, oldest first: what is derived of its rows (archive.h), its
 * blobs, and the mark of each source up to the record that was appended last. Then its rows give way in the
 * heads, and the generation by which views tell blobs from heads moves on, at one moment under the lock: a
 * view sees each row once, here or there. Until then blobs of the new generation are invisible.
 *
 * When it fails, what was sealed stays sealed, the rest stays in the heads, and nothing is done twice. The
 * cursor moves when nothing is left. */
#include "archive/archive_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

/* A stream's rows that are in the partition being sealed. */
struct sealed {
    struct archive_stream *stream;
    struct rows rows; /* in arena, or of the head's buffer */
};

struct sealing {
    struct archive *a;
    struct partition_span span;
    struct partition *p;
    struct arena arena;
    struct sealed *all;
    size_t n, max;
    uint64_t blobs, bytes;
};

static uint32_t first_not_before(const struct rows *r, int64_t time_ns)
{
    uint32_t low = 0, high = r->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->time_ns[middle] < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add_sealed(struct sealing *s, struct archive_stream *stream, const struct rows *rows)
{
    if (s->n == s->max) {
        size_t max = s->max ? s->max * 2 : 256;
        struct sealed *all = mem_try_resize(s->all, max * sizeof *all);
        if (!all)
            return -ENOMEM;
        s->all = all;
        s->max = max;
    }
    s->all[s->n++] = (struct sealed){stream, *rows};
    return 0;
}

/* The stream's rows of this partition. */
static int collect(struct sealing *s, struct archive_stream *stream)
{
    const struct head *h = &stream->head;
    struct rows all, rows;
    if (h->n == 0)
        return 0;
    int r = head_rows(h->buffer, h->n, h->n_origins, h->is_unsorted, NULL, 0, &s->arena, &all);
    if (r < 0)
        return r;
    uint32_t from = first_not_before(&all, s->span.from_ns), to = first_not_before(&all, s->span.to_ns);
    if (from == to)
        return 0;
    r = rows_slice(&all, from, to, &s->arena, &rows);
    return r < 0 ? r : add_sealed(s, stream, &rows);
}

static int collect_all(struct sealing *s, bool are_derived)
{
    void *v;
    int r = 0;
    for (size_t i = 0; r == 0 && map_next(&s->a->streams, &i, &v);)
        if (((struct archive_stream *)v)->is_derived == are_derived)
            r = collect(s, v);
    return r;
}

/* Neighbours in a blob: those of one table, then of one host. */
static int compare_sealed(const void *a, const void *b)
{
    const struct archive_stream *x = ((const struct sealed *)a)->stream,
                                *y = ((const struct sealed *)b)->stream;
    if (x->table != y->table)
        return table_name_order(x->table->name, y->table->name);
    return table_name_order(x->key, y->key);
}

static void show(const struct sealing *s)
{
    for (size_t i = 0; s->a->derive.rows && i < s->n; i++)
        s->a->derive.rows(s->a->derive.arg, s->all[i].stream->table->def, s->all[i].stream->key,
                          &s->all[i].rows);
}

/* What is derived comes into heads of its own, and from there into this partition. */
static int derive(struct sealing *s)
{
    struct archive *a = s->a;
    struct batch *b = NULL;
    int r = 0;
    if (!a->derive.derive)
        return 0;
    while ((r = a->derive.derive(a->derive.arg, &b)) > 0) {
        r = archive_append_derived(a, b);
        batch_unref(b);
        if (r < 0)
            break;
    }
    return r < 0 && r != -ENOMEM ? r : collect_all(s, true);
}

static int put_blob(struct sealing *s, struct blob_writer *w)
{
    struct blob_bytes bytes;
    uint64_t id;
    int r = blob_writer_finish(w, &bytes);
    if (r == 0)
        r = partition_put(s->p, &bytes, s->a->gen + 1, &id);
    if (r == 0) {
        s->blobs++;
        s->bytes += bytes.directory.n + bytes.body.n;
    }
    return r;
}

static int put_rows(struct sealing *s, struct blob_writer *w, const struct sealed *sealed)
{
    int r = 0;
    for (uint32_t from = 0; r == 0 && from < sealed->rows.n; from += ROWS_CHUNK_MAX) {
        uint32_t to = sealed->rows.n - from > ROWS_CHUNK_MAX ? from + ROWS_CHUNK_MAX : sealed->rows.n;
        struct rows rows;
        r = rows_slice(&sealed->rows, from, to, &s->arena, &rows);
        if (r == 0)
            r = blob_writer_add(w, sealed->stream->table->def, sealed->stream->key, &rows);
        if (r == 0 && blob_writer_is_full(w))
            r = put_blob(s, w);
    }
    return r;
}

static int put_all(struct sealing *s)
{
    const struct blob_options o = {.zstd_level = s->a->o.zstd_level,
                                   .ids = s->a->ids.fields,
                                   .n_ids = s->a->ids.n_fields,
                                   .has_counts = true};
    struct blob_writer *w = blob_writer_create(&o);
    int r = w ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < s->n; i++)
        r = put_rows(s, w, &s->all[i]);
    if (r == 0 && !blob_writer_is_empty(w))
        r = put_blob(s, w);
    blob_writer_destroy(w);
    return r;
}

static int set_marks(const struct sealing *s)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->a->n_sources; i++) {
        const struct source_state *source = &s->a->sources[i];
        if (source->done)
            r = partition_set_mark(s->p, &source->id, source->done);
        if (r == 0 && source->done)
            r = partition_set_floor(s->p, &source->id, catalog_cursor(s->a->catalog, &source->id));
    }
    return r;
}

/* The event names of rows that are to be kept; what was derived of them goes with them. */
static int set_kept(const struct sealing *s)
{
    int64_t longest = 0;
    int r = 0;
    for (int derived = 0; derived < 2; derived++)
        for (size_t i = 0; r == 0 && i < s->n; i++) {
            const struct archive_stream *a = s->all[i].stream;
            bool is_kept = a->keep_ns && a->kept_from_ns < s->span.to_ns && a->kept_to_ns >= s->span.from_ns;
            int64_t until = a->is_derived ? longest : is_kept ? a->keep_ns : 0;
            if (a->is_derived == (derived == 1) && until)
                r = partition_keep(s->p, a->table->name, until);
            longest = until > longest ? until : longest;
        }
    return r;
}

static void use_head(struct archive_stream *s, const struct head *left)
{
    s->head = *left;
    s->n_seen = s->is_derived ? 0 : left->n;
    s->n_origins_seen = left->n_origins;
    s->is_unsorted_seen = left->is_unsorted;
    s->keep_ns = left->n ? s->keep_ns : 0;
}

/* The rows of this partition are on disk: they give way in all heads at one moment. */
static void give_way(const struct sealing *s)
{
    struct archive *a = s->a;
    struct head *left = mem_alloc((s->n + 1) * sizeof *left);
    struct head_buffer **old = mem_alloc((s->n + 1) * sizeof(void *));
    for (size_t i = 0; i < s->n; i++) {
        old[i] = s->all[i].stream->head.buffer;
        head_without(&s->all[i].stream->head, s->span.from_ns, s->span.to_ns, &left[i]);
        a->counts.head_bytes += left[i].used_bytes;
        a->counts.head_bytes -= s->all[i].stream->head.used_bytes;
        a->counts.head_rows -= s->all[i].rows.n;
    }
    pthread_mutex_lock(&a->lock);
    a->gen++;
    for (size_t i = 0; i < s->n; i++)
        use_head(s->all[i].stream, &left[i]);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < s->n; i++)
        head_buffer_unref(old[i]);
    mem_free(left);
    mem_free(old);
}

/* Values by field, for the counts of their classes. */
static void count_classes(const struct sealing *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->all[i].rows.n_columns; k++) {
            const struct column *c = &s->all[i].rows.columns[k];
            struct catalog_class *class = catalog_class_at(s->a->catalog, s->all[i].stream->table->name, c->id);
            if (class)
                class->sealed[class_of_type(c->type) == CLASS_TEXT] += column_count(c, s->all[i].rows.n);
        }
}

/* What was derived for a commit that has failed. */
static void drop_derived(struct archive *a)
{
    void *v;
    for (size_t i = 0; map_next(&a->streams, &i, &v);) {
        struct archive_stream *s = v;
        if (!s->is_derived || !s->head.n)
            continue;
        a->counts.head_rows -= s->head.n;
        a->counts.head_bytes -= s->head.used_bytes;
        head_fini(&s->head);
    }
}

static int seal_rows(struct sealing *s)
{
    int r = collect_all(s, false);
    if (r < 0 || s->n == 0)
        return r;
    show(s);
    r = derive(s);
    if (r < 0)
        return r;
    qsort(s->all, s->n, sizeof *s->all, compare_sealed);
    s->p = archive_partition(s->a, &s->span, &r);
    if (!s->p)
        return r;
    r = archive_note_span(s->a, partition_span(s->p));
    if (r == 0)
        r = put_all(s);
    if (r == 0)
        r = set_marks(s);
    if (r == 0)
        r = set_kept(s);
    return r < 0 ? r : partition_commit(s->p);
}

/* The partition is damaged. -ESTALE: there is a new one in its place, with what could be read. */
static int mend(struct archive *a, const struct partition_span *span)
{
    char name[PARTITION_NAME_MAX];
    uint64_t lost = 0;
    archive_forget(a, span);
    partition_name(span, name, sizeof name);
    int r = catalog_salvage(a->catalog, name, &lost);
    a->counts.damaged += lost;
    return r < 0 ? r : -ESTALE;
}

/* All rows of one partition. */
static int seal(struct archive *a, const struct partition_span *span)
{
    struct sealing s = {.a = a, .span = *span};
    int r = seal_rows(&s);
    if (r < 0) {
        if (s.p)
            partition_rollback(s.p);
        drop_derived(a);
        if (r == E_DAMAGE)
            r = mend(a, span);
    } else {
        count_classes(&s);
        give_way(&s);
        if (s.p)
            catalog_note_partition(a->catalog, s.p);
        a->counts.blobs += s.blobs;
        a->counts.bytes += s.bytes;
    }
    if (a->derive.end)
        a->derive.end(a->derive.arg, r == 0);
    mem_free(s.all);
    arena_fini(&s.arena);
    return r;
}

/* The time of the oldest row in heads. false: there is none. */
static bool find_oldest(const struct archive *a, int64_t *out)
{
    bool is_any = false;
    void *v;
    for (size_t i = 0; map_next(&a->streams, &i, &v);) {
        const struct head *h = &((const struct archive_stream *)v)->head;
        for (uint32_t row = 0; row < (h->is_unsorted ? h->n : h->n > 0); row++)
            if (!is_any || head_row_at(h->buffer, row)->time_ns < *out) {
                *out = head_row_at(h->buffer, row)->time_ns;
                is_any = true;
            }
    }
    return is_any;
}

/* Streams that have been quiet for long have no place here; they come again when a row does. */
static void forget_quiet(struct archive *a)
{
    void *v;
    size_t n = 0;
    for (size_t i = 0; map_next(&a->streams, &i, &v);) {
        struct archive_stream *s = v;
        s->next = NULL; /* it may point to one that goes */
        s->quiet = s->was_fed ? 0 : (uint8_t)(s->quiet + 1);
        s->was_fed = false;
        n += s->quiet >= ARCHIVE_QUIET_FLUSHES && !s->head.n;
    }
    a->last = NULL;
    struct archive_stream **gone = n ? mem_alloc(n * sizeof(void *)) : NULL;
    n = 0;
    for (size_t i = 0; gone && map_next(&a->streams, &i, &v);)
        if (((struct archive_stream *)v)->quiet >= ARCHIVE_QUIET_FLUSHES &&
            !((struct archive_stream *)v)->head.n)
            gone[n++] = v;
    for (size_t i = 0; i < n; i++)
        archive_stream_destroy(a, gone[i]);
    mem_free(gone);
}

static int commit_tables(struct archive *a)
{
    int r = a->are_tables_dirty ? catalog_commit(a->catalog) : 0;
    if (r == 0)
        a->are_tables_dirty = false;
    return r;
}

/* A cursor that is not on disk is none: who believed it would forget what it covers. */
static int commit_cursors(struct archive *a)
{
    bool has_moved = false;
    for (size_t i = 0; i < a->n_sources; i++) {
        struct source_state *s = &a->sources[i];
        s->before = catalog_cursor(a->catalog, &s->id);
        has_moved |= s->done != s->before;
        catalog_set_cursor(a->catalog, &s->id, s->done);
    }
    int r = has_moved ? catalog_commit(a->catalog) : 0;
    for (size_t i = 0; r < 0 && i < a->n_sources; i++)
        catalog_set_cursor(a->catalog, &a->sources[i].id, a->sources[i].before);
    return r;
}

/* How many rows of the heads are in the span, a day (options.partition_ns) between the first and the last of
 * them. */
static uint64_t rows_a_day(const struct archive *a, const struct partition_span *span)
{
    uint64_t n = 0;
    int64_t first = INT64_MAX, last = INT64_MIN;
    void *v;
    for (size_t i = 0; map_next(&a->streams, &i, &v);) {
        const struct head *h = &((const struct archive_stream *)v)->head;
        for (uint32_t row = 0; row < h->n; row++) {
            int64_t t = head_row_at(h->buffer, row)->time_ns;
            if (t < span->from_ns || t >= span->to_ns)
                continue;
            n++;
            first = t < first ? t : first;
            last = t > last ? t : last;
        }
    }
    return n ? n / (uint64_t)((last - first) / a->o.partition_ns + 1) : 0;
}

/* The partition for rows of that time. A file costs tens of kilobytes before its first row, so that old rows
 * which are few a day (an imported series of years ago) do not get one a day: but one of 7, 28 or 364 days,
 * the longest that would hold no more than ARCHIVE_SPARSE_ROWS if they go on like this, is over for
 * ARCHIVE_OLD_DAYS, and overlaps none that there is. These lengths are multiples of each other from 1970 on,
 * so that later ones fit beside them. */
static struct partition_span choose_span(const struct archive *a, int64_t time_ns)
{
    static const int64_t days[] = {364, 28, 7};
    struct partition_span span = archive_span_of(a, time_ns);
    if (archive_has_span(a, &span) || !a->utc_ns)
        return span;
    for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
        int64_t width, rest, old = a->utc_ns - ARCHIVE_OLD_DAYS * a->o.partition_ns;
        if (__builtin_mul_overflow(days[i], a->o.partition_ns, &width) || time_ns > old ||
            time_ns < INT64_MIN + width)
            continue;
        rest = time_ns % width;
        struct partition_span wide = {.from_ns = time_ns - (rest < 0 ? rest + width : rest)};
        wide.to_ns = wide.from_ns + width;
        if (wide.to_ns <= old && !archive_has_span(a, &wide) &&
            rows_a_day(a, &wide) <= (uint64_t)(ARCHIVE_SPARSE_ROWS / days[i]))
            return wide;
    }
    return span;
}

static int flush(struct archive *a)
{
    int64_t oldest = 0;
    int r = commit_tables(a);
    if (r == 0)
        r = archive_list_spans(a);
    while (r == 0 && find_oldest(a, &oldest)) {
        struct partition_span span = choose_span(a, oldest);
        r = seal(a, &span);
    }
    if (r == 0 && catalog_settle_classes(a->catalog))
        archive_publish_tables(a);
    return r < 0 ? r : commit_cursors(a);
}

/* A commit failed, and may be on disk all the same: what the marks say counts, and what is not there is read
 * again. */
static void rewind_all(struct archive *a)
{
    void *v;
    for (size_t i = 0; map_next(&a->streams, &i, &v);) {
        struct archive_stream *s = v;
        struct head old = s->head;
        pthread_mutex_lock(&a->lock);
        s->head = (struct head){.buffer = NULL};
        s->n_seen = 0;
        s->keep_ns = 0;
        pthread_mutex_unlock(&a->lock);
        head_fini(&old);
    }
    a->counts.taken -= a->counts.head_rows;
    a->counts.kept -= a->counts.head_rows;
    a->counts.head_rows = a->counts.head_bytes = 0;
    a->n_sources = 0;
    a->n_begun = 0;
    for (size_t i = 0; i < ARCHIVE_OPEN_MAX; i++)
        archive_forget(a, &a->open[i].span);
    archive_find_gen(a);
}

/* Heads are empty. */
static void forget_unflushed(struct archive *a)
{
    void *v;
    for (size_t i = 0; map_next(&a->tables, &i, &v);)
        ((struct archive_table *)v)->head_rows = 0;
}

int archive_flush(struct archive *a)
{
    if (a->n_touched)
        return -EBUSY;
    int r = flush(a);
    if (r == -EIO || r == -ESTALE) {
        rewind_all(a);
        forget_unflushed(a);
        return -ESTALE;
    }
    if (r < 0)
        return r;
    a->counts.flushes++;
    a->oldest_ns = 0;
    a->is_hurried = false;
    forget_quiet(a);
    forget_unflushed(a);
    return 0;
}

/* Heads are full: there is enough for good chunks, or there is too much. */
static bool is_full(const struct archive *a)
{
    if (a->counts.head_bytes < a->o.head_bytes)
        return false;
    return a->counts.head_rows >= a->streams.n * ROWS_CHUNK_MIN ||
           a->counts.head_bytes >= a->o.head_bytes * (ARCHIVE_HEAD_FACTOR - 1);
}

void archive_hurry(struct archive *a)
{
    a->is_hurried = true;
}

int archive_tick(struct archive *a, int64_t now_ns, int64_t utc_ns)
{
    a->utc_ns = utc_ns;
    if (!a->oldest_ns)
        a->oldest_ns = now_ns;
    bool is_due = a->is_hurried || is_full(a) || now_ns - a->oldest_ns >= a->o.flush_ns;
    if (a->n_touched || now_ns < a->retry_ns || !is_due) {
        archive_note_unflushed(a, now_ns);
        return 0;
    }
    int r = archive_flush(a);
    a->retry_ns = r < 0 ? now_ns + ARCHIVE_RETRY_NS : 0;
    a->oldest_ns = r < 0 ? a->oldest_ns : now_ns;
    archive_note_unflushed(a, now_ns);
    return r;
}
