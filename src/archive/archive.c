/* SPDX-License-Identifier: Apache-2.0 */
/* Appending: from an event to a row in its stream's head.
 *
 * Sensors send the same streams in the same order again and again, so each stream remembers which one came
 * behind it; that guess is checked by comparing the event with the stream's key, and only when it is wrong is
 * a key made and looked up. */
#include "archive/archive_internal.h"

#include "archive/retain.h"
#include "archive/view.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOST_TABLE "archive.lost"
enum { LOST_CACHE_BYTES = 256 << 10 };

/* ---------------------------------------------------------------- sources */

struct source_state *archive_source_state(struct archive *a, const struct archive_source *s)
{
    for (size_t i = 0; i < a->n_sources; i++)
        if (memcmp(a->sources[i].id.id, s->id, sizeof s->id) == 0)
            return &a->sources[i];
    return NULL;
}

struct newest_mark {
    struct archive *a;
    const struct archive_source *s;
    uint64_t record;
};

static int look_at_mark(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct newest_mark *m = arg;
    int r = 0;
    (void)name;
    if (step_ns != 0)
        return 0;
    struct partition_span span = {.from_ns = from_ns, .to_ns = from_ns + m->a->o.partition_ns};
    struct partition *p = archive_partition(m->a, &span, &r);
    uint64_t record = p ? partition_mark(p, m->s) : 0;
    m->record = record > m->record ? record : m->record;
    return r == E_DAMAGE ? 0 : r; /* a broken one is said by archive_open, and has no marks to go by */
}

/* Known from here on: where it was left, and up to where a flush that did not end may have got. */
static int open_source(struct archive *a, const struct archive_source *s, struct source_state **out)
{
    *out = archive_source_state(a, s);
    if (*out)
        return 0;
    struct source_state *all = mem_try_resize(a->sources, (a->n_sources + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    a->sources = all;
    uint64_t cursor = catalog_cursor(a->catalog, s);
    struct newest_mark newest = {a, s, cursor};
    int r = catalog_partitions(a->dir, look_at_mark, &newest); /* without all marks rows would come twice */
    if (r < 0)
        return r;
    all[a->n_sources] = (struct source_state){.id = *s, .done = cursor, .again_until = newest.record};
    *out = &all[a->n_sources++];
    return 0;
}

uint64_t archive_cursor(const struct archive *a, const struct archive_source *s)
{
    return catalog_cursor(a->catalog, s);
}

/* ---------------------------------------------------------------- tables and schemas */

struct table_list *table_list_ref(struct table_list *l)
{
    (void)atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed); /* the result is not wanted */
    return l;
}

void table_list_unref(struct table_list *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    arena_fini(&l->arena);
    mem_free(l);
}

static void list_baselines(struct table_list *l, struct catalog *c)
{
    size_t n = catalog_baselines(c);
    l->baselines = arena_alloc(&l->arena, (n + 1) * sizeof *l->baselines);
    for (; l->baselines && l->n_baselines < n; l->n_baselines++) {
        struct baseline b = catalog_baseline_at(c, l->n_baselines);
        b.name = arena_copy(&l->arena, b.name);
        b.label = arena_copy(&l->arena, b.label);
        b.where = arena_copy(&l->arena, b.where);
        l->baselines[l->n_baselines] = b;
    }
}

static void list_gone(struct table_list *l, struct catalog *c)
{
    struct deleted g;
    for (size_t i = 0; catalog_next_gone(c, &i, &g);) {
        if (l->n_gone == l->max_gone) {
            size_t max = l->max_gone ? l->max_gone * 2 : 16;
            struct deleted *all = arena_alloc(&l->arena, max * sizeof *all);
            if (!all)
                return; /* what is not said is still true */
            if (l->n_gone)
                memcpy(all, l->gone, l->n_gone * sizeof *all);
            l->gone = all;
            l->max_gone = max;
        }
        g.name = arena_copy(&l->arena, g.name);
        l->gone[l->n_gone] = g;
        l->n_gone += g.name.p != NULL;
    }
}

int table_name_order(struct slice a, struct slice b)
{
    int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

const struct table_def *table_list_find(const struct table_list *l, struct slice name)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table_name_order(l->defs[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->n && slice_eq(l->defs[low]->name, name) ? l->defs[low] : NULL;
}

struct table_list *table_list_create(struct catalog *c)
{
    size_t n = catalog_tables(c);
    struct table_list *l = mem_alloc(sizeof *l + n * sizeof *l->defs);
    atomic_init(&l->refs, 1);
    for (; l->n < n; l->n++) {
        const struct table_def *def = catalog_table_at(c, l->n);
        size_t at = l->n;
        for (; at > 0 && table_name_order(def->name, l->defs[at - 1]->name) < 0; at--)
            l->defs[at] = l->defs[at - 1];
        l->defs[at] = def;
    }
    list_baselines(l, c);
    list_gone(l, c);
    return l;
}

void archive_publish_tables(struct archive *a)
{
    struct table_list *l = table_list_create(a->catalog);
    pthread_mutex_lock(&a->lock);
    struct table_list *old = a->list;
    a->list = l;
    a->published++;
    pthread_mutex_unlock(&a->lock);
    table_list_unref(old);
}

/* Ours of that name; its definition is the newest. */
static struct archive_table *get_table(struct archive *a, const struct table_def *def)
{
    struct archive_table *t = map_get(&a->tables, def->name);
    if (!t) {
        t = mem_alloc(sizeof *t);
        t->name = def->name;
        pthread_mutex_lock(&a->lock);
        int r = map_put(&a->tables, t->name, t);
        pthread_mutex_unlock(&a->lock);
        if (r < 0) {
            mem_free(t);
            return NULL;
        }
    }
    if (t->def != def) {
        pthread_mutex_lock(&a->lock);
        t->def = def;
        pthread_mutex_unlock(&a->lock);
        a->are_tables_dirty = true;
        archive_publish_tables(a);
    }
    return t;
}

static void info_destroy(struct schema_info *info)
{
    if (!info)
        return;
    schema_unref(info->schema);
    mem_free(info->ids);
    mem_free(info->keys);
    mem_free((void *)info->classes);
    mem_free(info);
}

static void forget_infos(struct archive *a)
{
    void *v;
    for (size_t i = 0; map_next(&a->infos, &i, &v);)
        info_destroy(v);
    map_fini(&a->infos);
    a->last_info = NULL;
    for (size_t i = 0; map_next(&a->streams, &i, &v);)
        ((struct archive_stream *)v)->info = NULL;
}

static struct slice address_key(const struct schema *const *s)
{
    return slice_of((const char *)s, sizeof *s);
}

static int learn(struct archive *a, const struct schema *s, struct schema_info **out)
{
    if (a->infos.n >= ARCHIVE_SCHEMAS_MAX)
        forget_infos(a);
    struct schema_info *info = mem_alloc(sizeof *info);
    const struct table_def *def = NULL;
    info->ids = mem_alloc((s->n_fields + 1) * sizeof *info->ids);
    info->keys = mem_alloc((s->n_fields + 1) * sizeof *info->keys);
    info->classes = mem_alloc((s->n_fields + 1) * sizeof(void *));
    info->schema = schema_ref(s);
    int r = catalog_learn(a->catalog, s, &def, info->ids);
    info->table = r < 0 ? NULL : get_table(a, def);
    for (uint32_t i = 0; r == 0 && i < s->n_fields; i++) {
        info->classes[i] = catalog_class_at(a->catalog, s->name, info->ids[i]);
        info->n_open += info->classes[i] && class_is_open(&info->classes[i]->state);
    }
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (s->fields[i].role == ROLE_KEY)
            info->keys[info->n_keys++] = (uint16_t)i;
    if (r == 0 && !info->table)
        r = -ENOMEM;
    if (r == 0)
        r = map_put(&a->infos, address_key(&info->schema), info);
    if (r < 0) {
        info_destroy(info);
        return r;
    }
    *out = info;
    return 0;
}

static int get_info(struct archive *a, const struct schema *s, struct schema_info **out)
{
    if (a->last_info && a->last_info->schema == s) {
        *out = a->last_info;
        return 0;
    }
    struct schema_info *info = map_get(&a->infos, address_key(&s));
    int r = info ? 0 : learn(a, s, &info);
    if (r == 0)
        a->last_info = *out = info;
    return r;
}

/* ---------------------------------------------------------------- streams */

static struct producer *get_producer(struct archive *a, const uint8_t id[16])
{
    struct producer *p = map_get(&a->producers, slice_of((const char *)id, 16));
    if (p)
        return p;
    p = mem_alloc(sizeof *p);
    memcpy(p->id, id, sizeof p->id);
    if (map_put(&a->producers, slice_of((const char *)p->id, sizeof p->id), p) < 0) {
        mem_free(p);
        return NULL;
    }
    return p;
}

static void put_true(struct strbuf *out, const char *name)
{
    strbuf_add_text(out, slice_str(name));
    strbuf_add_char(out, VALUE_BOOL);
    strbuf_add_u64(out, 1);
}

/* The event's key without its fields, and that it is an overflow stream's. */
static void put_overflow_key(struct strbuf *out, const struct event *e)
{
    strbuf_add_text(out, e->host);
    strbuf_add_text(out, e->prog);
    strbuf_add_text(out, e->schema->name);
    put_true(out, "overflow");
}

static int table_add(struct archive *a, struct archive_table *t, struct archive_stream *s)
{
    pthread_mutex_lock(&a->lock);
    if (t->n == t->max) {
        size_t max = t->max ? t->max * 2 : 4;
        struct archive_stream **streams = mem_try_resize(t->streams, max * sizeof(void *));
        if (!streams) {
            pthread_mutex_unlock(&a->lock);
            return -ENOMEM;
        }
        t->streams = streams;
        t->max = max;
    }
    t->streams[t->n++] = s;
    pthread_mutex_unlock(&a->lock);
    return 0;
}

static void table_remove(struct archive *a, struct archive_table *t, const struct archive_stream *s)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < t->n; i++)
        if (t->streams[i] == s) {
            t->streams[i] = t->streams[--t->n];
            break;
        }
    pthread_mutex_unlock(&a->lock);
}

static struct archive_stream *add_stream(struct archive *a, struct slice key, struct archive_table *t,
                                         struct producer *p)
{
    struct archive_stream *s = mem_alloc(sizeof *s);
    char *copy = mem_alloc(key.n + 1);
    memcpy(copy, key.p, key.n);
    s->key = slice_of(copy, key.n);
    s->parts = stream_key_split(s->key);
    s->table = t;
    s->producer = p;
    if (map_put(&a->streams, s->key, s) < 0 || table_add(a, t, s) < 0) {
        (void)map_remove(&a->streams, s->key); /* it may not be there */
        mem_free(copy);
        mem_free(s);
        return NULL;
    }
    p->streams++;
    return s;
}

static void stream_free(struct archive_stream *s)
{
    head_fini(&s->head);
    mem_free(s->keys);
    mem_free((void *)(uintptr_t)s->key.p);
    mem_free(s);
}

void archive_stream_destroy(struct archive *a, struct archive_stream *s)
{
    table_remove(a, s->table, s);
    (void)map_remove(&a->streams, s->key); /* it is there */
    s->producer->streams--;
    a->counts.head_bytes -= s->head.used_bytes;
    stream_free(s);
}

/* Is the event, which has the schema of the stream's last one, of this stream? */
static bool is_of_stream(const struct archive_stream *s, const struct event *e)
{
    if (!slice_eq(e->host, s->parts.host) || !slice_eq(e->prog, s->parts.prog) || s->is_overflow)
        return false;
    for (uint32_t i = 0; i < s->info->n_keys; i++)
        if (!value_eq(s->keys[i], e->values[s->info->keys[i]]))
            return false;
    return true;
}

/* Its last event is of this schema: the values of its keys, as that one has them. */
static void use_info(struct archive_stream *s, struct schema_info *info)
{
    struct slice fields = s->parts.fields, name;
    struct value v;
    s->info = info;
    mem_free(s->keys);
    s->keys = mem_alloc((info->n_keys + 1) * sizeof *s->keys);
    while (stream_key_next(&fields, &name, &v))
        for (uint32_t i = 0; i < info->n_keys; i++) {
            const struct field *f = &info->schema->fields[info->keys[i]];
            if (f->type == v.type && slice_eq(f->name, name))
                s->keys[i] = v;
        }
}

static struct archive_stream *find_stream(struct archive *a, const struct event *e,
                                          struct schema_info *info, const struct batch_origin *o)
{
    strbuf_reset(&a->key);
    stream_key_put(&a->key, e);
    struct archive_stream *s = map_get(&a->streams, strbuf_slice(&a->key));
    if (s || strbuf_failed(&a->key))
        return s;
    struct producer *p = get_producer(a, o->producer);
    if (!p)
        return NULL;
    if (p->streams < a->o.streams_max || info->n_keys == 0)
        return add_stream(a, strbuf_slice(&a->key), info->table, p);
    strbuf_reset(&a->key);
    put_overflow_key(&a->key, e);
    s = map_get(&a->streams, strbuf_slice(&a->key));
    if (!s && !strbuf_failed(&a->key))
        s = add_stream(a, strbuf_slice(&a->key), info->table, p);
    if (s)
        s->is_overflow = true;
    return s;
}

static struct archive_stream *get_stream(struct archive *a, const struct event *e,
                                         struct schema_info *info, const struct batch_origin *o)
{
    struct archive_stream *guess = a->last ? a->last->next : NULL;
    if (!guess || guess->info != info || !is_of_stream(guess, e)) {
        guess = find_stream(a, e, info, o);
        if (!guess)
            return NULL;
        if (guess->info != info)
            use_info(guess, info);
        if (a->last)
            a->last->next = guess;
    }
    a->last = guess;
    return guess;
}

/* ---------------------------------------------------------------- rows */

/* Of a file whose own words about its span were lost only its begin is certain (salvage.c): a partition ends where the next
 * one begins, whatever it says. */
struct partition_span archive_span_of(const struct archive *a, int64_t time_ns)
{
    int64_t width = a->o.partition_ns, rest = time_ns % width;
    int64_t from = time_ns - (rest < 0 ? rest + width : rest), next = INT64_MAX;
    struct partition_span new = {.from_ns = from, .to_ns = from + width};
    const struct partition_span *found = NULL;
    for (size_t i = 0; i < a->n_spans; i++) {
        const struct partition_span *s = &a->spans[i];
        if (s->from_ns > time_ns)
            next = s->from_ns < next ? s->from_ns : next;
        else if (s->to_ns > time_ns)
            found = !found || s->from_ns > found->from_ns ? s : found;
        else if (s->to_ns > new.from_ns) /* made with another length */
            new.from_ns = s->to_ns;
    }
    if (found)
        new = *found;
    new.to_ns = next < new.to_ns ? next : new.to_ns;
    return new;
}

bool archive_has_span(const struct archive *a, const struct partition_span *span)
{
    for (size_t i = 0; i < a->n_spans; i++)
        if (a->spans[i].from_ns < span->to_ns && a->spans[i].to_ns > span->from_ns)
            return true;
    return false;
}

int archive_note_span(struct archive *a, const struct partition_span *span)
{
    for (size_t i = 0; i < a->n_spans; i++)
        if (a->spans[i].from_ns == span->from_ns)
            return 0;
    if (a->n_spans == a->max_spans) {
        size_t max = a->max_spans ? a->max_spans * 2 : 16;
        struct partition_span *all = mem_try_resize(a->spans, max * sizeof *all);
        if (!all)
            return -ENOMEM;
        a->spans = all;
        a->max_spans = max;
    }
    a->spans[a->n_spans++] = *span;
    return 0;
}

/* Those that are there come to the front; the first *at of them are known. */
static int keep_span(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    void **both = arg;
    struct archive *a = both[0];
    size_t *at = both[1];
    (void)name;
    for (size_t i = *at; step_ns == 0 && i < a->n_spans; i++)
        if (a->spans[i].from_ns == from_ns) {
            struct partition_span swap = a->spans[*at];
            a->spans[(*at)++] = a->spans[i];
            a->spans[i] = swap;
            return 0;
        }
    return 0;
}

int archive_list_spans(struct archive *a)
{
    size_t kept = 0;
    void *both[] = {a, &kept};
    int r = catalog_partitions(a->dir, keep_span, both);
    if (r == 0)
        a->n_spans = kept; /* nobody else makes any */
    return r;
}

/* Is it on disk already, by a flush that did not come to its end? 1, 0, or nobody can tell now. */
static int is_there(struct archive *a, const struct source_state *s, uint64_t record, int64_t time_ns)
{
    if (record > s->again_until)
        return 0;
    int r = 0;
    struct partition_span span = archive_span_of(a, time_ns);
    char name[PARTITION_NAME_MAX];
    struct stat st;
    struct strbuf path = {0};
    partition_name(&span, name, sizeof name);
    strbuf_printf(&path, "%s/%s", a->dir, name);
    bool exists = !strbuf_failed(&path) && stat(path.p, &st) == 0;
    strbuf_fini(&path);
    struct partition *p = exists ? archive_partition(a, &span, &r) : NULL;
    if (r < 0 && r != E_DAMAGE)
        return r;
    return p && partition_mark(p, &s->id) >= record;
}

static void touch(struct archive *a, struct archive_stream *s)
{
    if (s->is_touched)
        return;
    if (a->n_touched == a->max_touched) {
        a->max_touched = a->max_touched ? a->max_touched * 2 : 64;
        struct archive_stream **all = mem_alloc(a->max_touched * sizeof(void *));
        if (a->n_touched)
            memcpy(all, a->touched, a->n_touched * sizeof(void *));
        mem_free(a->touched);
        a->touched = all;
    }
    a->touched[a->n_touched++] = s;
    s->is_touched = true;
}

static int put_row(struct archive *a, struct archive_stream *s, const struct head_row *row)
{
    struct head_buffer *new = NULL;
    int r = head_reserve(&s->head, row, &new);
    if (r < 0)
        return r;
    if (r > 0) {
        pthread_mutex_lock(&a->lock);
        struct head_buffer *old = head_replace(&s->head, new);
        pthread_mutex_unlock(&a->lock);
        head_buffer_unref(old);
    }
    size_t before = s->head.used_bytes;
    head_append(&s->head, row);
    a->counts.head_bytes += s->head.used_bytes - before;
    s->was_fed = true;
    if (!s->is_derived) {
        struct archive_table *t = s->table;
        int64_t at = row->event->time_ns;
        touch(a, s);
        t->head_from_ns = t->head_rows && t->head_from_ns < at ? t->head_from_ns : at;
        t->head_to_ns = t->head_rows && t->head_to_ns > at ? t->head_to_ns : at;
        t->head_rows++;
    }
    a->counts.head_rows++;
    return 0;
}

/* The values of an event of which some field has no class yet. */
static int count_values(struct archive *a, struct schema_info *info, const struct event *e)
{
    int64_t now_ns = a->utc_ns ? a->utc_ns : clock_utc_ns();
    bool is_new = false;
    int r = 0;
    info->n_open = 0;
    for (uint32_t i = 0; i < e->schema->n_fields && r == 0; i++) {
        struct catalog_class *k = info->classes[i];
        if (!k || !class_is_open(&k->state))
            continue;
        if (e->values[i].type != VALUE_NONE) {
            k->unsealed[class_of_type(e->values[i].type) == CLASS_TEXT]++;
            if (class_count(&k->state, e->values[i], now_ns) || !k->is_known) {
                r = catalog_class_changed(a->catalog, k);
                is_new = true;
            }
        }
        info->n_open += class_is_open(&k->state);
    }
    if (is_new)
        (void)get_table(a, catalog_table(a->catalog, e->schema->name)); /* without memory the next one does it */
    return r;
}

static void note_kept(struct archive_stream *s, int64_t time_ns, int64_t until_ns)
{
    bool is_first = s->keep_ns == 0;
    s->keep_ns = until_ns > s->keep_ns ? until_ns : s->keep_ns;
    s->kept_from_ns = is_first || time_ns < s->kept_from_ns ? time_ns : s->kept_from_ns;
    s->kept_to_ns = is_first || time_ns > s->kept_to_ns ? time_ns : s->kept_to_ns;
}

/* 0: it has become of it what the counts say. E_LIMIT: it can't be taken; else nothing has become of it yet.
 */
static int append_event(struct archive *a, const struct source_state *source, uint64_t record,
                        const struct batch *b, size_t i)
{
    const struct event *e = &b->events[i];
    struct schema_info *info = NULL;
    if (!b->origin.keep_ns && (e->time_ns < a->floor_ns || archive_is_too_old(a, e))) {
        a->counts.too_old++;
        return 0;
    }
    if (a->utc_ns && e->time_ns > a->utc_ns + ARCHIVE_AHEAD_NS) {
        a->counts.too_new++;
        return 0;
    }
    int r = is_there(a, source, record, e->time_ns);
    if (r > 0)
        a->counts.again++;
    if (r != 0)
        return r < 0 ? r : 0;
    r = get_info(a, e->schema, &info);
    struct archive_stream *s = r < 0 ? NULL : get_stream(a, e, info, &b->origin);
    if (!s)
        return r < 0 ? r : -ENOMEM;
    const struct head_row row = {.event = e,
                                 .ids = info->ids,
                                 .origin = &b->origin,
                                 .seq = b->origin.first_seq ? b->origin.first_seq + i : 0,
                                 .with_keys = s->is_overflow};
    r = s->is_derived ? E_LIMIT : put_row(a, s, &row);
    if (r < 0)
        return r;
    a->counts.kept++;
    if (info->n_open)
        (void)count_values(a, info, e); /* without memory a value is not counted; the row is kept */
    if (b->origin.keep_ns)
        note_kept(s, e->time_ns, b->origin.keep_ns);
    if (s->is_overflow) {
        a->counts.overflow++;
        s->producer->overflow++;
    }
    return 0;
}

/* A stream of its own, although others may send events of the same name. */
static struct archive_stream *find_derived(struct archive *a, const struct event *e,
                                           struct schema_info *info, const struct batch_origin *o)
{
    strbuf_reset(&a->key);
    stream_key_put(&a->key, e);
    put_true(&a->key, "derived");
    struct archive_stream *s = map_get(&a->streams, strbuf_slice(&a->key));
    struct producer *p = s ? NULL : get_producer(a, o->producer);
    if (!s && p && !strbuf_failed(&a->key))
        s = add_stream(a, strbuf_slice(&a->key), info->table, p);
    if (s && s->head.n == 0)
        s->is_derived = true;
    return s && s->is_derived ? s : NULL;
}

int archive_append_derived(struct archive *a, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct schema_info *info = NULL;
        int r = get_info(a, b->events[i].schema, &info);
        struct archive_stream *s = r < 0 ? NULL : find_derived(a, &b->events[i], info, &b->origin);
        if (!s)
            return r < 0 ? r : -ENOMEM;
        const struct head_row row = {.event = &b->events[i],
                                     .ids = info->ids,
                                     .origin = &b->origin,
                                     .seq = b->origin.first_seq ? b->origin.first_seq + i : 0,
                                     .with_keys = false};
        r = put_row(a, s, &row);
        if (r < 0)
            return r;
    }
    return 0;
}

static size_t head_max(const struct archive *a)
{
    return a->o.head_bytes * ARCHIVE_HEAD_FACTOR;
}

int archive_append_some(struct archive *a, const struct archive_source *s, uint64_t record,
                        const struct batch *b, const uint32_t *index, size_t n)
{
    struct source_state *source = NULL;
    int r = open_source(a, s, &source);
    if (r < 0)
        return r;
    if (a->counts.head_bytes > head_max(a) && a->n_touched == 0)
        return -ENOSPC;
    if (record <= source->done) {
        a->counts.taken += n;
        a->counts.again += n;
        return 0;
    }
    size_t i = a->n_begun; /* of this batch, before memory ran out */
    for (; i < n; i++, a->counts.taken++) {
        r = append_event(a, source, record, b, index ? index[i] : i);
        if (r == E_LIMIT)
            a->counts.refused++;
        else if (r < 0)
            break;
    }
    a->n_begun = i < n ? i : 0;
    return i < n ? r : 0;
}

int archive_append(struct archive *a, const struct archive_source *s, uint64_t record, const struct batch *b)
{
    return archive_append_some(a, s, record, b, NULL, b->n);
}

int archive_done(struct archive *a, const struct archive_source *s, uint64_t record)
{
    struct source_state *source = NULL;
    int r = open_source(a, s, &source);
    if (r < 0)
        return r;
    if (record > source->done)
        source->done = record;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->n_touched; i++) {
        struct archive_stream *t = a->touched[i];
        t->n_seen = t->head.n;
        t->n_origins_seen = t->head.n_origins;
        t->is_unsorted_seen = t->head.is_unsorted;
        t->is_touched = false;
    }
    pthread_mutex_unlock(&a->lock);
    a->n_touched = 0;
    return 0;
}

/* ---------------------------------------------------------------- what readers of the folder do not see */

void archive_note_unflushed(struct archive *a, int64_t now_ns)
{
    uint64_t rows = a->counts.head_rows;
    bool is_soon = now_ns - a->unflushed_ns < ARCHIVE_UNFLUSHED_NS;
    if (a->unflushed_fd < 0 || rows == a->unflushed_rows || (rows && a->unflushed_rows && is_soon))
        return;
    struct unflushed *all = mem_try_alloc((a->tables.n + 1) * sizeof *all);
    size_t n = 0;
    void *v;
    for (size_t i = 0; all && map_next(&a->tables, &i, &v);) {
        const struct archive_table *t = v;
        if (rows && t->head_rows)
            all[n++] = (struct unflushed){t->name, t->head_rows, t->head_from_ns, t->head_to_ns};
    }
    if (all)
        unflushed_write(a->unflushed_fd, all, n);
    mem_free(all);
    a->unflushed_rows = rows;
    a->unflushed_ns = now_ns;
}

void archive_set_caught_up(struct archive *a, int64_t utc_ns)
{
    pthread_mutex_lock(&a->lock);
    a->caught_up_ns = utc_ns;
    pthread_mutex_unlock(&a->lock);
}

/* ---------------------------------------------------------------- what is lost */

int archive_lost(struct archive *a, const struct archive_source *s, const struct archive_loss *loss)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, 0) : NULL;
    /* Nobody knows when the lost events happened: the row has the time at which the loss was found. */
    const struct event_head head = {.time_ns = a->utc_ns ? a->utc_ns : clock_utc_ns(),
                                    .name = SLICE_LIT(LOST_TABLE),
                                    .host = SLICE_LIT(""),
                                    .prog = SLICE_LIT("gridline-archive"),
                                    .level = LEVEL_ERROR};
    const struct named_value values[] = {
        {SLICE_LIT("source"), value_bytes(slice_of((const char *)s->id, sizeof s->id))},
        {SLICE_LIT("first"), value_uint(loss->first)},
        {SLICE_LIT("last"), value_uint(loss->last)},
        {SLICE_LIT("count"), value_uint(loss->count)},
        {SLICE_LIT("why"), value_text(loss->why)},
    };
    const struct batch_origin nobody = {.clock.bound_ns = CLOCK_BOUND_UNKNOWN};
    struct batch *b = NULL;
    if (builder && batch_builder_add(builder, &head, values, sizeof values / sizeof *values, NULL) == 0)
        b = batch_builder_finish(builder, &nobody);
    int r = b ? archive_append(a, s, loss->last, b) : -ENOMEM;
    batch_unref(b);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return r;
}

static uint64_t number_in(const struct table_def *t, const struct rows *rows, uint32_t row, const char *name)
{
    for (uint32_t i = 0; i < rows->n_columns; i++)
        if (slice_eq_str(t->columns[rows->columns[i].id].name, name))
            return column_value(&rows->columns[i], row).u;
    return 0;
}

int archive_lost_sums(struct archive *a, uint64_t *events, uint64_t *records)
{
    const struct scan_spec spec = {
        .name = SLICE_LIT(LOST_TABLE), .from_ns = INT64_MIN, .to_ns = INT64_MAX, .id_column = UINT16_MAX};
    struct view_reader *reader = NULL;
    struct view *view = NULL;
    struct scan *scan = NULL;
    struct scan_chunk chunk;
    struct rows rows;
    struct diag why;
    uint64_t n_events = 0, n_records = 0;
    int r = view_reader_create(a, NULL, LOST_CACHE_BYTES, &reader, &why);
    if (r == 0)
        r = view_take_of(reader, &spec.name, 1, &view);
    if (r == 0)
        r = scan_open(view, &spec, &scan);
    while (r == 0 && (r = scan_next(scan, &chunk)) > 0) {
        r = scan_read(scan, BLOB_ALL_COLUMNS, NULL, 0, &rows);
        for (uint32_t i = 0; r == 0 && i < rows.n; i++) {
            uint64_t count = number_in(chunk.table, &rows, i, "count");
            n_events += count;
            if (count == 0)
                n_records +=
                    number_in(chunk.table, &rows, i, "last") - number_in(chunk.table, &rows, i, "first") + 1;
        }
    }
    scan_close(scan);
    view_release(view);
    view_reader_destroy(reader);
    if (r == 0) {
        *events = n_events;
        *records = n_records;
    }
    return r;
}

/* ---------------------------------------------------------------- partitions of the writer */

static bool is_same_span(const struct partition_span *a, const struct partition_span *b)
{
    return a->from_ns == b->from_ns && a->step_ns == b->step_ns;
}

struct partition *archive_partition(struct archive *a, const struct partition_span *span, int *r)
{
    struct open_partition *place = &a->open[0];
    char name[PARTITION_NAME_MAX];
    struct diag why = {0};
    for (size_t i = 0; i < ARCHIVE_OPEN_MAX; i++) {
        struct open_partition *o = &a->open[i];
        if (o->p && is_same_span(&o->span, span)) {
            o->used = ++a->uses;
            return o->p;
        }
        if (!o->p || (place->p && o->used < place->used))
            place = o;
    }
    partition_close(place->p);
    *place = (struct open_partition){.p = NULL};
    partition_name(span, name, sizeof name);
    *r = partition_open(a->dir, name, PARTITION_WRITE | PARTITION_CREATE, span, &place->p, &why);
    if (*r < 0)
        return NULL;
    place->span = *span;
    place->used = ++a->uses;
    return place->p;
}

void archive_forget(struct archive *a, const struct partition_span *span)
{
    for (size_t i = 0; i < ARCHIVE_OPEN_MAX; i++)
        if (a->open[i].p && is_same_span(&a->open[i].span, span)) {
            partition_close(a->open[i].p);
            a->open[i] = (struct open_partition){.p = NULL};
        }
}

/* ---------------------------------------------------------------- the whole */

static int set_options(struct archive *a, const struct archive_options *o, struct diag *why)
{
    a->o = *o;
    a->dir = strdup(o->dir);
    a->o.dir = a->dir;
    a->o.ids = NULL;
    if (!a->o.partition_ns)
        a->o.partition_ns = ARCHIVE_PARTITION_NS;
    if (!a->o.head_bytes)
        a->o.head_bytes = ARCHIVE_HEAD_BYTES;
    if (!a->o.flush_ns)
        a->o.flush_ns = ARCHIVE_FLUSH_NS;
    if (!a->o.streams_max)
        a->o.streams_max = ARCHIVE_STREAMS_MAX;
    return a->dir ? id_set_parse(o->ids, &a->ids, why) : -ENOMEM;
}

struct newest_gen {
    struct archive *a;
    uint64_t gen;
};

static int look_at_gen(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct newest_gen *newest = arg;
    int r = 0;
    (void)name;
    if (step_ns != 0)
        return 0;
    struct partition_span span = {.from_ns = from_ns, .to_ns = from_ns + newest->a->o.partition_ns};
    struct partition *p = archive_partition(newest->a, &span, &r);
    if (p && archive_note_span(newest->a, partition_span(p)) < 0)
        return -ENOMEM;
    uint64_t gen = p ? partition_gen(p) : 0;
    newest->gen = gen > newest->gen ? gen : newest->gen;
    /* A broken one is for `gridline archive repair`; the others are good without it. */
    return r == E_DAMAGE ? 0 : r;
}

int archive_find_gen(struct archive *a)
{
    struct newest_gen newest = {a, 0};
    a->n_spans = 0;
    int r = catalog_partitions(a->dir, look_at_gen, &newest);
    pthread_mutex_lock(&a->lock);
    a->gen = newest.gen > a->gen ? newest.gen : a->gen;
    pthread_mutex_unlock(&a->lock);
    return r;
}

int archive_open(const struct archive_options *o, struct archive **out, struct diag *why)
{
    struct archive *a = mem_alloc(sizeof *a);
    a->views.next = a->views.before = &a->views;
    pthread_mutex_init(&a->lock, NULL);
    a->unflushed_fd = -1;
    a->unflushed_rows = UINT64_MAX; /* what an earlier writer has left there is not ours */
    int r = set_options(a, o, why);
    if (r == 0)
        r = catalog_open(a->dir, true, &a->catalog, why);
    if (r == 0)
        r = archive_find_gen(a);
    if (r < 0) {
        archive_close(a);
        return r;
    }
    a->unflushed_fd = unflushed_open(a->dir);
    archive_publish_tables(a);
    r = archive_decide_classes(a);
    if (r < 0) {
        (void)diag_set(why, r, 0, "%s: the classes of its fields: %s", a->dir, err_text(r));
        archive_close(a);
        return r;
    }
    *out = a;
    return 0;
}

/* SQLite leaves a log beside a file that a reader was the last to close. Who writes next would empty it;
 * nobody may. */
static int tidy_log(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    const struct archive *a = arg;
    struct partition *p = NULL;
    struct strbuf log = {0}, index = {0};
    (void)from_ns, (void)step_ns;
    strbuf_printf(&log, "%s/%s-wal", a->dir, name);
    strbuf_printf(&index, "%s/%s-shm", a->dir, name);
    if (!strbuf_failed(&log) && !strbuf_failed(&index) &&
        (access(log.p, F_OK) == 0 || access(index.p, F_OK) == 0) &&
        partition_open(a->dir, name, PARTITION_WRITE, NULL, &p, NULL) == 0)
        partition_close(p);
    strbuf_fini(&log);
    strbuf_fini(&index);
    return 0;
}

void archive_close(struct archive *a)
{
    void *v;
    if (!a)
        return;
    if (a->unflushed_fd >= 0) {
        a->unflushed_ns = INT64_MIN / 2;
        archive_note_unflushed(a, 0);
        (void)close(a->unflushed_fd); /* advice */
    }
    for (size_t i = 0; i < ARCHIVE_OPEN_MAX; i++)
        partition_close(a->open[i].p);
    if (a->catalog)
        (void)catalog_partitions(a->dir, tidy_log, a); /* the next time, else */
    for (size_t i = 0; map_next(&a->streams, &i, &v);)
        stream_free(v);
    for (size_t i = 0; map_next(&a->tables, &i, &v);) {
        mem_free(((struct archive_table *)v)->streams);
        mem_free(v);
    }
    for (size_t i = 0; map_next(&a->producers, &i, &v);)
        mem_free(v);
    map_fini(&a->streams);
    forget_infos(a);
    map_fini(&a->tables);
    map_fini(&a->producers);
    table_list_unref(a->list);
    catalog_close(a->catalog);
    strbuf_fini(&a->key);
    mem_free(a->touched);
    mem_free(a->sources);
    mem_free(a->spans);
    id_set_fini(&a->ids);
    free(a->dir);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
}

void archive_counts(const struct archive *a, struct archive_counts *out)
{
    *out = a->counts;
    out->streams = a->streams.n;
}

struct catalog *archive_catalog(struct archive *a)
{
    return a->catalog;
}

/* Views see it when it is on disk. What the disk does not take now is written with whatever comes next. */
static int commit_baselines(struct archive *a)
{
    int r = catalog_commit(a->catalog);
    if (r == 0)
        archive_publish_tables(a);
    else
        a->are_tables_dirty = true;
    return r;
}

int archive_set_baseline(struct archive *a, const struct baseline *b)
{
    int r = catalog_set_baseline(a->catalog, b);
    return r < 0 ? r : commit_baselines(a);
}

int archive_remove_baseline(struct archive *a, struct slice name)
{
    int r = catalog_remove_baseline(a->catalog, name);
    return r < 0 ? r : commit_baselines(a);
}

const char *archive_dir(const struct archive *a)
{
    return a->dir;
}

void archive_on_flush(struct archive *a, const struct archive_derive_ops *ops)
{
    a->derive = ops ? *ops : (struct archive_derive_ops){.arg = NULL};
}

void archive_set_floor(struct archive *a, int64_t time_ns)
{
    a->floor_ns = time_ns;
}

void archive_set_rules(struct archive *a, const struct retain_rules *rules)
{
    a->rules = rules;
}

bool archive_is_too_old(const struct archive *a, const struct event *e)
{
    return a->rules && a->utc_ns && e->time_ns < a->utc_ns - retain_rules_age(a->rules, e->schema->name);
}

int64_t archive_floor(const struct archive *a)
{
    return a->floor_ns;
}

void archive_count_shed(struct archive *a, uint64_t rows)
{
    a->counts.shed += rows;
}

void archive_count_damaged(struct archive *a, uint64_t rows)
{
    a->counts.damaged += rows;
}

void archive_each_overflow(struct archive *a,
                           void (*fn)(void *arg, const uint8_t producer[16], uint32_t streams, uint64_t rows),
                           void *arg)
{
    void *v;
    for (size_t i = 0; map_next(&a->producers, &i, &v);) {
        const struct producer *p = v;
        if (p->overflow)
            fn(arg, p->id, p->streams, p->overflow);
    }
}

void archive_baselines_changed(struct archive *a)
{
    archive_publish_tables(a);
}

uint64_t archive_merge_limit(struct archive *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t limit = a->gen;
    for (const struct view_gen *v = a->views.next; v != &a->views; v = v->next)
        limit = v->gen < limit ? v->gen : limit;
    pthread_mutex_unlock(&a->lock);
    return limit;
}

/* ---------------------------------------------------------------- classes of fields */

int archive_set_class(struct archive *a, struct slice event, struct slice field, uint8_t class)
{
    int r = catalog_set_class(a->catalog, event, field, class);
    if (r < 0)
        return r;
    forget_infos(a); /* which have what is open */
    (void)get_table(a, catalog_table(a->catalog, event)); /* NULL: no memory; the catalogue has it */
    return commit_baselines(a);
}

bool archive_get_class(struct archive *a, struct slice event, struct slice field, struct class_state *out)
{
    bool is_there = false;
    pthread_mutex_lock(&a->lock);
    struct table_list *l = table_list_ref(a->list);
    pthread_mutex_unlock(&a->lock);
    const struct table_def *t = table_list_find(l, event);
    for (uint32_t i = 0; t && !is_there && i < t->fields->n_columns; i++)
        if (slice_eq(t->fields->columns[i].name, field)) {
            *out = t->fields->states[i];
            is_there = true;
        }
    table_list_unref(l);
    return is_there;
}

uint64_t archive_classes_generation(struct archive *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t generation = a->published;
    pthread_mutex_unlock(&a->lock);
    return generation;
}
