/* SPDX-License-Identifier: Apache-2.0 */
/* A row is schema->n_fields values and behind them the bytes of the texts, which the values point to. Host,
 * prog and name are those of the key. */
#include "gateway/latest.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "gateway/stream_question.h"

#include <errno.h>

enum { PAGE_EVENTS = 1024, ROW_STEP = 64, ROW_SPARE = 256 };

struct held {
    struct stream stream;
    const struct schema *schema; /* a reference */
    int64_t time_ns;
    struct slice host, prog; /* in the key */
    struct value *row;
    size_t row_cap;
    uint8_t level;
    char key[];
};

struct latest {
    struct latest_options options;
    struct streams streams;
    struct latest_counts counts;
    struct strbuf key;
};

struct latest *latest_create(const struct latest_options *o)
{
    struct latest *l = mem_try_alloc(sizeof *l);
    if (l)
        l->options = *o;
    return l;
}

static size_t size_of(const struct held *h)
{
    return sizeof *h + h->stream.key.n + h->row_cap + STREAM_OVERHEAD;
}

static void forget(struct latest *l, struct held *h)
{
    l->counts.bytes -= size_of(h);
    streams_remove(&l->streams, &h->stream);
    schema_unref(h->schema);
    mem_free(h->row);
    mem_free(h);
}

void latest_destroy(struct latest *l)
{
    if (!l)
        return;
    while (l->streams.oldest)
        forget(l, (struct held *)l->streams.oldest);
    streams_fini(&l->streams);
    strbuf_fini(&l->key);
    mem_free(l);
}

/* ---------------------------------------------------------------- keeping */

static struct held *new_stream(struct latest *l, struct slice key)
{
    struct held *h = mem_try_alloc(sizeof *h + key.n);
    if (!h)
        return NULL;
    memcpy(h->key, key.p, key.n);
    h->stream.key = slice_of(h->key, key.n);
    struct stream_key_parts parts = stream_key_split(h->stream.key);
    h->host = parts.host;
    h->prog = parts.prog;
    h->time_ns = INT64_MIN;
    if (streams_add(&l->streams, &h->stream) < 0) {
        mem_free(h);
        return NULL;
    }
    l->counts.bytes += size_of(h);
    return h;
}

static size_t row_size(const struct event *e)
{
    size_t n = e->schema->n_fields * sizeof(struct value);
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        n += value_is_text(e->values[i].type) ? e->values[i].n : 0;
    return n;
}

/* Room for n bytes: what there is, unless it is too small, or four times too large. */
static bool make_room(struct latest *l, struct held *h, size_t n)
{
    if (h->row && n <= h->row_cap && h->row_cap / 4 <= n + ROW_SPARE)
        return true;
    size_t cap = (n | (ROW_STEP - 1)) + 1; /* texts that vary a little need no other */
    struct value *row = mem_try_alloc(cap);
    if (!row)
        return false;
    mem_free(h->row);
    h->row = row;
    l->counts.bytes += cap;
    l->counts.bytes -= h->row_cap;
    h->row_cap = cap;
    return true;
}

static void copy_row(struct held *h, const struct event *e)
{
    uint32_t n = e->schema->n_fields;
    char *text = (char *)(h->row + n);
    for (uint32_t i = 0; i < n; i++) {
        struct value v = e->values[i];
        if (value_is_text(v.type)) {
            memcpy(text, v.n ? v.p : "", v.n);
            v.p = text;
            text += v.n;
        }
        h->row[i] = v;
    }
}

static bool store(struct latest *l, struct held *h, const struct event *e)
{
    if (!make_room(l, h, row_size(e)))
        return false;
    copy_row(h, e);
    if (h->schema != e->schema) {
        schema_unref(h->schema);
        h->schema = schema_ref(e->schema);
    }
    h->time_ns = e->time_ns;
    h->level = e->level;
    return true;
}

/* Is the one held newer, and can be? */
static bool is_newer(const struct held *h, int64_t time_ns, int64_t now_ns)
{
    return time_ns < h->time_ns && h->time_ns <= now_ns + LATEST_AHEAD_S * NS_PER_S;
}

static void shrink(struct latest *l)
{
    while (l->streams.oldest != l->streams.newest &&
           (streams_count(&l->streams) > l->options.streams || l->counts.bytes > l->options.memory)) {
        l->counts.forgotten++;
        forget(l, (struct held *)l->streams.oldest);
    }
}

/* The stream of e, which was heard of now; the newest is that of the event before, if that is not NULL. NULL:
 * no memory. */
static struct held *stream_of(struct latest *l, const struct event *e, const struct event *before)
{
    if (before && stream_key_repeats(before, e))
        return (struct held *)l->streams.newest;
    strbuf_reset(&l->key);
    stream_key_put(&l->key, e);
    if (strbuf_failed(&l->key))
        return NULL;
    struct held *h = (struct held *)streams_find(&l->streams, strbuf_slice(&l->key));
    if (!h)
        return new_stream(l, strbuf_slice(&l->key));
    streams_touch(&l->streams, &h->stream);
    return h;
}

/* Is its stream the newest then? */
static bool take(struct latest *l, const struct event *e, const struct event *before, int64_t now_ns)
{
    size_t bytes = l->counts.bytes;
    struct held *h = stream_of(l, e, before);
    l->counts.taken++;
    if (h && is_newer(h, e->time_ns, now_ns)) {
        l->counts.older++;
        return true;
    }
    if (!h || !store(l, h, e)) {
        l->counts.no_memory++;
        if (h)
            forget(l, h); /* what it has is no longer the newest */
        return false;
    }
    if (l->counts.bytes > bytes)
        shrink(l);
    return true;
}

void latest_batch(struct latest *l, const struct batch *b, int64_t now_ns)
{
    if (l->options.streams == 0)
        return;
    const struct event *before = NULL;
    for (const struct event *e = b->events; e < b->events + b->n; e++)
        before = take(l, e, before, now_ns) ? e : NULL;
}

void latest_counts(const struct latest *l, struct latest_counts *out)
{
    *out = l->counts;
    out->streams = streams_count(&l->streams);
}

static struct event event_of(const struct held *h)
{
    return (struct event){.time_ns = h->time_ns,
                          .host = h->host,
                          .prog = h->prog,
                          .schema = h->schema,
                          .values = h->row,
                          .level = h->level};
}

bool latest_get(struct latest *l, const struct event *e, struct event *out)
{
    strbuf_reset(&l->key);
    stream_key_put(&l->key, e);
    const struct held *h =
        strbuf_failed(&l->key) ? NULL : (const struct held *)streams_find(&l->streams, strbuf_slice(&l->key));
    if (h)
        *out = event_of(h);
    return h != NULL;
}

bool latest_keeps(const struct latest *l)
{
    return l->options.streams > 0;
}

const struct streams *latest_streams(const struct latest *l)
{
    return &l->streams;
}

struct event latest_event(const struct stream *s)
{
    return event_of((const struct held *)s);
}

bool latest_check(const struct latest *l)
{
    size_t bytes = 0;
    for (const struct stream *s = l->streams.oldest; s; s = s->newer)
        bytes += size_of((const struct held *)s);
    return streams_check(&l->streams) && bytes == l->counts.bytes &&
           (streams_count(&l->streams) <= l->options.streams || streams_count(&l->streams) == 1);
}

/* ---------------------------------------------------------------- the question */

/* Events of a page; those of which fields are hidden have their values in the arena. */
struct page {
    struct event *events;
    size_t n;
    size_t bytes; /* about what they become */
    struct arena arena;
};

static int add_to_page(struct page *p, const struct stream_question *q, struct event *e)
{
    if (e->values == q->room) {
        size_t size = e->schema->n_fields * sizeof *e->values;
        struct value *copy = arena_alloc(&p->arena, size);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, e->values, size);
        e->values = copy;
    }
    p->events[p->n++] = *e;
    return 0;
}

static int fill_page(struct page *p, struct stream_question *q)
{
    struct stream *s;
    while ((s = stream_question_next(q))) {
        struct event e = event_of((const struct held *)s), seen;
        if (!stream_question_sees(q, &e, &seen) || (q->where && !predicate_test(q->where, &seen)))
            continue;
        size_t size = row_size(&seen) + seen.host.n + seen.prog.n;
        if (p->n && (p->n == PAGE_EVENTS || p->bytes + size > CONTROL_PAGE)) {
            stream_question_full(q, 0);
            return 0;
        }
        if (add_to_page(p, q, &seen) < 0)
            return -ENOMEM;
        p->bytes += size;
    }
    return 0;
}

static void run_latest(void *arg, struct control_turn *t)
{
    struct latest *l = arg;
    struct stream_question q;
    struct page p = {0};
    if (l->options.streams == 0) {
        control_end(t, CONTROL_FAILED, (struct args){0},
                    "this gateway keeps no latest events; latest.streams in its configuration says how many");
        return;
    }
    if (!stream_question_open(&q, t, "latest", &l->streams, ACCESS_QUERY, SLICE_LIT(""), NULL))
        return;
    p.events = mem_try_alloc(PAGE_EVENTS * sizeof *p.events);
    int r = p.events ? fill_page(&p, &q) : -ENOMEM;
    if (r == 0 && p.n && !control_events(t, p.events, p.n))
        r = -ENOMEM; /* or nobody listens: then nobody hears of it */
    q.rows = p.n;
    stream_question_end(&q, r);
    arena_fini(&p.arena);
    mem_free(p.events);
}

static const struct control_verb verbs[] = {{"latest", ACCESS_QUERY, run_latest}};

int latest_add_verbs(struct latest *l, struct control *c)
{
    return control_add(c, verbs, sizeof verbs / sizeof *verbs, l);
}
