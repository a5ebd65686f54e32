/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/chunk.h"

#include "base/mem.h"
#include "event/block.h"
#include "event/encoding.h"

enum { TEXT_MAX = 256 << 10 }; /* bytes of text after which a chunk ends */

static const char *const names[CHUNK_FORMATS] = {"binary", "ndjson", "ulm", "bp", "xml"};

/* The lines of a batch in one format: each made when it is first asked for. */
struct rendering {
    const struct encoding *encoding;
    void *state;
    struct strbuf text;
    struct line {
        size_t at;
        uint32_t n; /* 0 = not made */
    } * lines;      /* one an event of the batch */
    size_t cap;
    bool has_lines; /* they are of this batch */
};

struct chunk_maker {
    const struct batch *batch;
    struct position at;
    struct block_writer *writer;
    struct strbuf block;
    struct rendering renderings[CHUNK_FORMATS];
};

bool chunk_format_parse(struct slice name, enum chunk_format *out)
{
    const struct encoding *e = encoding_by_name(name.n ? name : SLICE_LIT("binary"));
    for (size_t i = 0; e && i < CHUNK_FORMATS; i++)
        if (strcmp(e->name, names[i]) == 0) {
            *out = (enum chunk_format)i;
            return true;
        }
    return false;
}

const char *chunk_format_name(enum chunk_format f)
{
    return names[f];
}

const char *chunk_format_mime(enum chunk_format f)
{
    return encoding_by_name(slice_str(names[f]))->mime;
}

/* n bytes, which are copied behind it; or those of a batch. */
static struct chunk *chunk_new(struct slice data, struct batch *holder)
{
    struct chunk *c = mem_try_alloc(sizeof *c + (holder ? 0 : data.n));
    if (!c)
        return NULL;
    *c = (struct chunk){.refs = 1, .data = data, .batch = holder ? batch_ref(holder) : NULL};
    if (!holder) {
        memcpy(c + 1, data.p, data.n);
        c->data.p = (const char *)(c + 1);
    }
    return c;
}

struct chunk *chunk_ref(struct chunk *c)
{
    c->refs++;
    return c;
}

void chunk_unref(struct chunk *c)
{
    if (!c || --c->refs)
        return;
    batch_unref(c->batch);
    mem_free(c);
}

static void rendering_fini(struct rendering *r)
{
    if (r->state && r->encoding->encoder->fini)
        r->encoding->encoder->fini(r->state);
    mem_free(r->state);
    mem_free(r->lines);
    strbuf_fini(&r->text);
}

static bool rendering_init(struct rendering *r, const char *name)
{
    r->encoding = encoding_by_name(slice_str(name));
    const struct encoder_ops *ops = r->encoding->encoder;
    r->state = mem_try_alloc(ops->state_size ? ops->state_size : 1);
    return r->state && (!ops->init || ops->init(r->state) == 0);
}

struct chunk_maker *chunk_maker_create(void)
{
    struct chunk_maker *m = mem_try_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->writer = block_writer_create();
    bool is_good = m->writer != NULL;
    for (int f = CHUNK_NDJSON; f < CHUNK_FORMATS && is_good; f++)
        is_good = rendering_init(&m->renderings[f], names[f]);
    if (is_good)
        return m;
    chunk_maker_destroy(m);
    return NULL;
}

void chunk_maker_destroy(struct chunk_maker *m)
{
    if (!m)
        return;
    block_writer_destroy(m->writer);
    strbuf_fini(&m->block);
    for (int f = CHUNK_NDJSON; f < CHUNK_FORMATS; f++)
        rendering_fini(&m->renderings[f]);
    mem_free(m);
}

void chunk_maker_begin(struct chunk_maker *m, const struct batch *b, struct position at)
{
    m->batch = b;
    m->at = at;
}

void chunk_maker_end(struct chunk_maker *m)
{
    enum { KEPT = 1 << 20 };
    m->batch = NULL;
    for (int f = CHUNK_NDJSON; f < CHUNK_FORMATS; f++) {
        struct rendering *r = &m->renderings[f];
        r->has_lines = false;
        if (r->text.cap > KEPT)
            strbuf_fini(&r->text);
    }
}

/* What a run is about. */
struct making {
    struct chunk_maker *maker;
    const uint32_t *index;
    const struct event *views;
    size_t n;
    void (*give)(void *arg, struct chunk *c);
    void *arg;
};

static const struct event *event_at(const struct making *k, size_t i)
{
    return k->views ? &k->views[i] : &k->maker->batch->events[k->index[i]];
}

static struct position place(const struct making *k, size_t i)
{
    struct position p = k->maker->at;
    p.event = k->index[i] + 1;
    return p;
}

/* Events from..to-1 of the run are these bytes. */
static bool give(const struct making *k, size_t from, size_t to, struct slice data, struct batch *holder)
{
    struct chunk *c = chunk_new(data, holder);
    if (!c)
        return false;
    c->count = (uint32_t)(to - from);
    c->first = place(k, from);
    c->last = place(k, to - 1);
    k->give(k->arg, c);
    return true;
}

static bool give_block(const struct making *k, size_t from, size_t to)
{
    struct chunk_maker *m = k->maker;
    const struct batch_origin none = {.clock = m->batch->origin.clock};
    strbuf_reset(&m->block);
    return block_writer_finish(m->writer, &none, &m->block) == 0 &&
           give(k, from, to, strbuf_slice(&m->block), NULL);
}

/* How many were given. */
static size_t make_blocks(const struct making *k)
{
    struct chunk_maker *m = k->maker;
    struct batch *whole = (struct batch *)m->batch; /* only its count of references is touched */
    if (k->n == m->batch->n && !k->views && m->batch->block.n)
        return give(k, 0, k->n, m->batch->block, whole) ? k->n : 0;
    size_t from = 0;
    block_writer_reset(m->writer);
    for (size_t i = 0; i < k->n;) {
        int r = block_writer_add(m->writer, event_at(k, i));
        bool is_full = r == E_LIMIT && i > from;
        if (r < 0 && !is_full)
            return from;
        i += r == 0;
        if (!is_full && i < k->n)
            continue;
        if (!give_block(k, from, i))
            return from;
        from = i;
    }
    return from;
}

static bool render(struct rendering *r, const struct event *e)
{
    const struct batch one = {.events = e, .n = 1, .origin = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}}};
    return r->encoding->encoder->run(r->state, &one, &r->text) == 0 && !strbuf_failed(&r->text);
}

/* Places for the lines of the batch at hand. */
static bool prepare_lines(struct rendering *r, size_t n)
{
    if (r->has_lines)
        return true;
    if (n > r->cap) {
        struct line *lines = mem_try_resize(r->lines, n * sizeof *lines);
        if (!lines)
            return false;
        r->lines = lines;
        r->cap = n;
    }
    memset(r->lines, 0, n * sizeof *r->lines);
    strbuf_reset(&r->text);
    r->has_lines = true;
    return true;
}

/* The line of event i of the run, made if need be; empty: no memory. */
static struct slice line_of(const struct making *k, struct rendering *r, size_t i)
{
    struct line *l = &r->lines[k->index[i]];
    if (k->views || l->n == 0) {
        size_t at = r->text.n;
        if (!render(r, event_at(k, i))) {
            strbuf_reset(&r->text);
            r->has_lines = false;
            return (struct slice){"", 0};
        }
        if (k->views) { /* nobody else's: its place is free again once it is copied */
            struct slice line = slice_of(r->text.p + at, r->text.n - at);
            r->text.n = at;
            return line;
        }
        *l = (struct line){at, (uint32_t)(r->text.n - at)};
    }
    return slice_of(r->text.p + l->at, l->n);
}

static size_t make_text(const struct making *k, struct rendering *r)
{
    struct strbuf *out = &k->maker->block;
    size_t from = 0;
    strbuf_reset(out);
    for (size_t i = 0; i < k->n; i++) {
        struct slice line = prepare_lines(r, k->maker->batch->n) ? line_of(k, r, i) : (struct slice){"", 0};
        strbuf_add_slice(out, line);
        if (line.n == 0 || strbuf_failed(out))
            return from;
        if (out->n < TEXT_MAX && i + 1 < k->n)
            continue;
        if (!give(k, from, i + 1, strbuf_slice(out), NULL))
            return from;
        strbuf_reset(out);
        from = i + 1;
    }
    return from;
}

bool chunk_maker_run(struct chunk_maker *m, enum chunk_format format, const uint32_t *index,
                     const struct event *views, size_t n, void (*give_to)(void *arg, struct chunk *c),
                     void *arg, uint64_t *lost)
{
    const struct making k = {m, index, views, n, give_to, arg};
    size_t given = format == CHUNK_BINARY ? make_blocks(&k) : make_text(&k, &m->renderings[format]);
    *lost = n - given;
    return given == n;
}
