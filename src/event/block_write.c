/* SPDX-License-Identifier: Apache-2.0 */
/* Events go into growing columns as they come; finish looks at each column and writes it in its smallest form.
 * See docs/protocol.md for the layout, block_read.c for the other direction.
 *
 * Text columns start as a dictionary; one with many different values (over DICT_TRIAL distinct and more than
 * half of the rows distinct) turns into plain text and stays so until the block ends. */
#include "event/block.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/mem.h"
#include "event/block_layout.h"
#include "event/dict.h"
#include "event/pack.h"
#include "event/schema_bytes.h"

#include <errno.h>

enum { DICT_TRIAL = 64, GROUPS_KEPT = 64 };

/* What an event, a value, a column may cost at most beyond its text; see block_writer_size. */
enum { EVENT_COST = 48, VALUE_COST = 18, COLUMN_COST = 48 };

#define ROW_MISSING UINT32_C(0xffffffff)

struct column {
    uint64_t *v;      /* a number a present value: bits, dictionary index, or length of plain text */
    size_t n, cap;
    uint8_t *present; /* one byte a row; NULL while no value is missing */
    size_t present_cap;
    bool plain;          /* text: not by dictionary */
    struct dict dict;    /* text by dictionary */
    struct strbuf text;  /* plain text */
};

/* The rows of one schema. */
struct group {
    const struct schema *schema; /* one reference; its address is the map's key */
    size_t rows;
    uint64_t index; /* in this block's schema table, when rows > 0 */
    struct column columns[];
};

/* One number an event: index of its group, time, level, index of its host and of its prog. */
enum head { HEAD_ORDER, HEAD_TIME, HEAD_LEVEL, HEAD_HOST, HEAD_PROG, HEADS };

struct heads {
    uint64_t *v[HEADS];     /* filled only once a column varies: but for the time, most never do */
    uint64_t first[HEADS];
    bool varies[HEADS];
    size_t n, cap;
};

struct block_writer {
    struct map groups; /* schema pointer -> struct group */
    struct group *last;
    struct group **used; /* this block's groups in the order of their index */
    size_t n_used, cap_used;
    struct dict strings; /* hosts and progs */
    uint32_t host, prog; /* the last event's, in strings */
    struct slice row_host, row_prog;    /* of rows; borrowed */
    uint32_t row_host_at, row_prog_at; /* in strings, if this block has had a row */
    bool has_row;
    struct heads heads;
    size_t values; /* events x fields, bounded */
    size_t size;
};

static void column_fini(struct column *c)
{
    mem_free(c->v);
    mem_free(c->present);
    dict_fini(&c->dict);
    strbuf_fini(&c->text);
}

static void column_reset(struct column *c)
{
    c->n = 0;
    mem_free(c->present);
    c->present = NULL;
    c->present_cap = 0;
    c->plain = false;
    dict_reset(&c->dict);
    strbuf_reset(&c->text);
}

static int column_grow(struct column *c)
{
    size_t cap = c->cap ? c->cap * 2 : 64;
    uint64_t *v = mem_try_resize(c->v, cap * sizeof *v);
    if (!v)
        return -ENOMEM;
    c->v = v;
    c->cap = cap;
    return 0;
}

static inline int column_push(struct column *c, uint64_t x)
{
    if (c->n == c->cap && column_grow(c) < 0)
        return -ENOMEM;
    c->v[c->n++] = x;
    return 0;
}

/* Says for `row` whether a value is there. Until the first missing one nothing is kept. */
static inline int column_mark(struct column *c, size_t row, bool present)
{
    if (!c->present && present)
        return 0;
    if (row >= c->present_cap) {
        size_t cap = row < 64 ? 128 : row * 2;
        uint8_t *p = mem_try_resize(c->present, cap);
        if (!p)
            return -ENOMEM;
        if (!c->present)
            memset(p, 1, row);
        c->present = p;
        c->present_cap = cap;
    }
    c->present[row] = present;
    return 0;
}

static int column_make_plain(struct column *c)
{
    for (size_t i = 0; i < c->n; i++)
        strbuf_add_slice(&c->text, dict_get(&c->dict, (uint32_t)c->v[i]));
    if (strbuf_failed(&c->text)) {
        strbuf_reset(&c->text);
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->n; i++)
        c->v[i] = c->dict.entries[c->v[i]].n;
    c->plain = true;
    return 0;
}

static inline int column_push_text(struct column *c, struct slice s)
{
    if (!c->plain && c->dict.n > DICT_TRIAL && (size_t)c->dict.n * 2 > c->n) {
        int r = column_make_plain(c);
        if (r < 0)
            return r;
    }
    if (c->plain) {
        if (!strbuf_room(&c->text, s.n)) {
            c->text.failed = false; /* what is there stays whole */
            return -ENOMEM;
        }
        strbuf_add_slice(&c->text, s);
        return column_push(c, s.n);
    }
    int64_t index = dict_add(&c->dict, s);
    return index < 0 ? (int)index : column_push(c, (uint64_t)index);
}

struct block_writer *block_writer_create(void)
{
    return mem_try_alloc(sizeof(struct block_writer));
}

static void group_destroy(struct group *g)
{
    for (uint32_t i = 0; i < g->schema->n_fields; i++)
        column_fini(&g->columns[i]);
    schema_unref(g->schema);
    mem_free(g);
}

static void destroy_groups(struct block_writer *w)
{
    void *g;
    for (size_t i = 0; map_next(&w->groups, &i, &g);)
        group_destroy(g);
    map_fini(&w->groups);
    w->last = NULL;
}

void block_writer_destroy(struct block_writer *w)
{
    if (!w)
        return;
    destroy_groups(w);
    mem_free(w->used);
    dict_fini(&w->strings);
    for (int i = 0; i < HEADS; i++)
        mem_free(w->heads.v[i]);
    mem_free(w);
}

static struct slice group_key(const struct schema *const *s)
{
    return slice_of((const char *)s, sizeof *s);
}

static struct group *group_create(struct block_writer *w, const struct schema *s)
{
    struct group *g = mem_try_alloc(sizeof *g + s->n_fields * sizeof *g->columns);
    if (!g)
        return NULL;
    g->schema = schema_ref(s);
    if (map_put(&w->groups, group_key(&g->schema), g) < 0) {
        group_destroy(g);
        return NULL;
    }
    return g;
}

/* The group of s, part of this block from now on; NULL when out of memory. */
static struct group *group_get(struct block_writer *w, const struct schema *s)
{
    struct group *g = w->last && w->last->schema == s ? w->last : map_get(&w->groups, group_key(&s));
    if (!g)
        g = group_create(w, s);
    if (!g)
        return NULL;
    w->last = g;
    if (g->rows)
        return g;
    if (w->n_used == w->cap_used) {
        size_t cap = w->cap_used ? w->cap_used * 2 : 8;
        struct group **used = mem_try_resize(w->used, cap * sizeof(struct group *));
        if (!used)
            return NULL;
        w->used = used;
        w->cap_used = cap;
    }
    return g;
}

static size_t schema_cost(const struct schema *s)
{
    size_t n = s->name.n + 32 + s->n_fields * COLUMN_COST;
    for (uint32_t i = 0; i < s->n_fields; i++)
        n += s->fields[i].name.n + s->fields[i].unit.n + s->fields[i].help.n + 8;
    return n;
}

static size_t event_cost(const struct event *e)
{
    size_t n = EVENT_COST + e->host.n + e->prog.n;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        n += VALUE_COST + (value_is_text(e->values[i].type) ? e->values[i].n : 0);
    return n;
}

static inline int push_value(struct column *c, const struct value *v, size_t row)
{
    int r = column_mark(c, row, v->type != VALUE_NONE);
    if (r < 0 || v->type == VALUE_NONE)
        return r;
    return value_is_text(v->type) ? column_push_text(c, value_slice(*v)) : column_push(c, v->u);
}

/* Takes back the values of a row that could not be finished. Text already copied stays as unused bytes of a
 * dictionary (harmless) or is cut off plain text. */
static void take_back(struct group *g, const struct event *e, uint32_t fields)
{
    for (uint32_t i = 0; i < fields; i++) {
        struct column *c = &g->columns[i];
        if (e->values[i].type == VALUE_NONE)
            continue;
        c->n--;
        if (c->plain)
            c->text.n -= (size_t)c->v[c->n];
    }
}

/* Room for one more; the columns grow one by one, cap only when all have. */
static int heads_grow(struct heads *h)
{
    size_t cap = h->cap ? h->cap * 2 : 64;
    for (int i = 0; i < HEADS; i++) {
        uint64_t *v = mem_try_resize(h->v[i], cap * sizeof *v);
        if (!v)
            return -ENOMEM;
        h->v[i] = v;
    }
    h->cap = cap;
    return 0;
}

/* The number of s; *last is the one of the event before, which is usually the same. */
static inline int add_string(struct dict *d, struct slice s, uint32_t *last)
{
    if (*last < d->n && slice_eq(dict_get(d, *last), s))
        return 0;
    int64_t index = dict_add(d, s);
    if (index < 0)
        return (int)index;
    *last = (uint32_t)index;
    return 0;
}

static void heads_vary(struct heads *h, int column)
{
    for (size_t i = 0; i < h->n; i++)
        h->v[column][i] = h->first[column];
    h->varies[column] = true;
}

static inline void heads_put(struct heads *h, int column, uint64_t x)
{
    if (h->n == 0) {
        h->first[column] = x;
        h->varies[column] = false;
    } else if (!h->varies[column] && x != h->first[column]) {
        heads_vary(h, column);
    }
    if (h->varies[column])
        h->v[column][h->n] = x;
}

static inline int push_head(struct heads *h, const uint64_t row[HEADS])
{
    if (h->n == h->cap && heads_grow(h) < 0)
        return -ENOMEM;
    for (int i = 0; i < HEADS; i++)
        heads_put(h, i, row[i]);
    h->n++;
    return 0;
}

static int push_event_head(struct block_writer *w, const struct event *e, uint64_t group)
{
    if (add_string(&w->strings, e->host, &w->host) < 0 || add_string(&w->strings, e->prog, &w->prog) < 0)
        return -ENOMEM;
    const uint64_t row[HEADS] = {group, (uint64_t)e->time_ns, e->level, w->host, w->prog};
    return push_head(&w->heads, row);
}

static bool fits(const struct block_writer *w, size_t cost, uint32_t fields, bool new_group)
{
    return w->size + cost <= BLOCK_BODY_MAX && w->heads.n < BLOCK_EVENTS_MAX &&
           w->values + fields <= BLOCK_VALUES_MAX && w->n_used + new_group <= BLOCK_SCHEMAS_MAX;
}

/* The row is whole: counts it. */
static void row_done(struct block_writer *w, struct group *g, size_t cost)
{
    if (g->rows == 0) {
        g->index = w->n_used;
        w->used[w->n_used++] = g;
    }
    g->rows++;
    w->values += g->schema->n_fields;
    w->size += cost;
}

int block_writer_add(struct block_writer *w, const struct event *e)
{
    struct group *g = group_get(w, e->schema);
    if (!g)
        return -ENOMEM;
    bool new_group = g->rows == 0;
    size_t cost = event_cost(e) + (new_group ? schema_cost(e->schema) : 0);
    if (!fits(w, cost, e->schema->n_fields, new_group))
        return E_LIMIT;
    uint32_t i = 0;
    int r = 0;
    for (; i < e->schema->n_fields && r == 0; i++)
        r = push_value(&g->columns[i], &e->values[i], g->rows);
    if (r == 0)
        r = push_event_head(w, e, new_group ? w->n_used : g->index);
    else
        i--; /* that one was not pushed */
    if (r < 0) {
        take_back(g, e, i);
        return r;
    }
    row_done(w, g, cost);
    return 0;
}

/* The next value of a row; moves *row behind it. */
static inline struct value row_value(const char **row, uint8_t type)
{
    struct value v = {.type = type};
    if (type != VALUE_TEXT) {
        memcpy(&v.u, *row, 8);
        *row += 8;
        return type == VALUE_FLOAT ? value_float(v.f) : v;
    }
    memcpy(&v.n, *row, 4);
    v.p = *row + 4;
    if (v.n == ROW_MISSING)
        v = value_none();
    *row += (v.n + 11) & ~(size_t)7;
    return v;
}

/* As take_back, for the first `fields` of a row. */
static void take_back_row(struct group *g, const char *row, uint32_t fields)
{
    for (uint32_t i = 0; i < fields; i++) {
        struct column *c = &g->columns[i];
        if (row_value(&row, g->schema->fields[i].type).type == VALUE_NONE)
            continue;
        c->n--;
        if (c->plain)
            c->text.n -= (size_t)c->v[c->n];
    }
}

void block_writer_origin(struct block_writer *w, struct slice host, struct slice prog)
{
    w->row_host = host;
    w->row_prog = prog;
    w->has_row = false;
}

/* The numbers of the rows' host and prog in this block. */
static int find_row_origin(struct block_writer *w)
{
    w->row_host_at = w->host;
    w->row_prog_at = w->prog;
    int r = add_string(&w->strings, w->row_host, &w->row_host_at);
    if (r == 0)
        r = add_string(&w->strings, w->row_prog, &w->row_prog_at);
    w->has_row = r == 0;
    return r;
}

static inline int push_row_head(struct block_writer *w, const struct block_row *row, uint64_t group)
{
    if (!w->has_row && find_row_origin(w) < 0)
        return -ENOMEM;
    const uint64_t head[HEADS] = {group, (uint64_t)row->time_ns, row->level, w->row_host_at, w->row_prog_at};
    return push_head(&w->heads, head);
}

int block_writer_add_row(struct block_writer *w, const struct block_row *row)
{
    struct group *g = group_get(w, row->schema);
    if (!g)
        return -ENOMEM;
    uint32_t n = row->schema->n_fields, i = 0;
    bool new_group = g->rows == 0;
    size_t cost = EVENT_COST + w->row_host.n + w->row_prog.n + n * VALUE_COST + row->text_bytes +
                  (new_group ? schema_cost(row->schema) : 0);
    if (!fits(w, cost, n, new_group))
        return E_LIMIT;
    int r = 0;
    for (const char *at = row->words; i < n && r == 0; i++) {
        struct value v = row_value(&at, row->schema->fields[i].type);
        r = push_value(&g->columns[i], &v, g->rows);
    }
    if (r == 0)
        r = push_row_head(w, row, new_group ? w->n_used : g->index);
    else
        i--; /* that one was not pushed */
    if (r < 0) {
        take_back_row(g, row->words, i);
        return r;
    }
    row_done(w, g, cost);
    return 0;
}

size_t block_writer_count(const struct block_writer *w)
{
    return w->heads.n;
}

size_t block_writer_size(const struct block_writer *w)
{
    return BLOCK_HEAD + w->size;
}

static void write_bits(struct strbuf *out, const uint8_t *bytes, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        unsigned b = 0;
        for (size_t k = 0; k < 8 && i + k < n; k++)
            b |= (unsigned)((bytes ? bytes[i + k] : words[i + k]) != 0) << k;
        strbuf_add_char(out, (char)b);
    }
}

static void write_dict(struct strbuf *out, const struct dict *d)
{
    strbuf_add_varint(out, d->n);
    for (uint32_t i = 0; i < d->n; i++)
        strbuf_add_varint(out, d->entries[i].n);
    strbuf_add_slice(out, strbuf_slice(&d->bytes));
}

static double float_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The smallest k for which every value is exactly m / 10^k with |m| < 2^53, or -1. Fills m. */
static int as_decimal(const uint64_t *v, size_t n, uint64_t *m)
{
    for (int k = 0; k <= BLOCK_DECIMAL_MAX; k++) {
        size_t i = 0;
        for (; i < n; i++) {
            double scaled = rint(float_of(v[i]) * block_powers[k]);
            if (!(fabs(scaled) < 9007199254740992.0))
                return -1;
            double back = scaled / block_powers[k];
            uint64_t bits;
            memcpy(&bits, &back, sizeof bits);
            if (bits != v[i] || v[i] == BLOCK_MINUS_ZERO)
                break;
            m[i] = (uint64_t)(int64_t)scaled;
        }
        if (i == n)
            return k;
        if (v[i] == BLOCK_MINUS_ZERO)
            return -1;
    }
    return -1;
}

static uint8_t column_codec(const struct column *c, uint8_t type, uint64_t **scratch, int *decimal)
{
    if (c->n == 0)
        return CODEC_EMPTY;
    if (type == VALUE_BOOL)
        return CODEC_BITS;
    if (value_is_text(type))
        return c->plain ? CODEC_PLAIN : CODEC_DICT;
    if (type != VALUE_FLOAT)
        return CODEC_INTS;
    *scratch = mem_try_alloc(c->n * sizeof **scratch); /* without it the plain bits are written: same values */
    *decimal = *scratch ? as_decimal(c->v, c->n, *scratch) : -1;
    return *decimal >= 0 ? CODEC_DECIMAL : CODEC_INTS;
}

static void write_column(struct strbuf *out, const struct column *c, uint8_t type, size_t rows)
{
    uint64_t *scratch = NULL;
    int decimal = -1;
    uint8_t codec = column_codec(c, type, &scratch, &decimal);
    bool holes = c->present && c->n && c->n < rows;
    strbuf_add_char(out, (char)(codec | (holes ? CODEC_HOLES : 0)));
    if (holes)
        write_bits(out, c->present, NULL, rows);
    switch (codec) {
    case CODEC_BITS:
        write_bits(out, NULL, c->v, c->n);
        break;
    case CODEC_INTS:
        pack_write(out, c->v, c->n);
        break;
    case CODEC_DECIMAL:
        strbuf_add_char(out, (char)decimal);
        pack_write(out, scratch, c->n);
        break;
    case CODEC_PLAIN:
        pack_write(out, c->v, c->n);
        strbuf_add_slice(out, strbuf_slice(&c->text));
        break;
    case CODEC_DICT:
        write_dict(out, &c->dict);
        pack_write(out, c->v, c->n);
        break;
    default:
        break;
    }
    mem_free(scratch);
}

static void write_body(const struct block_writer *w, struct strbuf *out)
{
    for (size_t i = 0; i < w->n_used; i++)
        schema_write(out, w->used[i]->schema);
    write_dict(out, &w->strings);
    for (int i = 0; i < HEADS; i++) {
        if (w->heads.varies[i])
            pack_write(out, w->heads.v[i], w->heads.n);
        else
            pack_write_same(out, w->heads.first[i]);
    }
    for (size_t i = 0; i < w->n_used; i++)
        for (uint32_t f = 0; f < w->used[i]->schema->n_fields; f++)
            write_column(out, &w->used[i]->columns[f], w->used[i]->schema->fields[f].type, w->used[i]->rows);
}

static void write_head(const struct block_writer *w, const struct batch_origin *o, struct strbuf *out)
{
    strbuf_add(out, BLOCK_MAGIC, 4);
    strbuf_add_u32(out, 0); /* length and checksum are put in when they are known */
    strbuf_add_u32(out, 0);
    strbuf_add_u16(out, 0);
    strbuf_add_u16(out, (uint16_t)w->n_used);
    strbuf_add_u32(out, (uint32_t)w->heads.n);
    strbuf_add_u32(out, o->clock.generation);
    strbuf_add(out, o->producer, sizeof o->producer);
    strbuf_add_u64(out, o->epoch);
    strbuf_add_u64(out, o->first_seq);
    strbuf_add_u64(out, (uint64_t)o->clock.offset_ns);
    strbuf_add_u64(out, o->clock.bound_ns);
    strbuf_add_u64(out, (uint64_t)o->keep_ns);
}

static void put_u32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> (8 * i));
}

void block_writer_reset(struct block_writer *w)
{
    for (size_t i = 0; i < w->n_used; i++) {
        for (uint32_t f = 0; f < w->used[i]->schema->n_fields; f++)
            column_reset(&w->used[i]->columns[f]);
        w->used[i]->rows = 0;
    }
    w->heads.n = 0;
    w->has_row = false;
    dict_reset(&w->strings);
    w->n_used = w->values = w->size = 0;
    if (w->groups.n > GROUPS_KEPT)
        destroy_groups(w);
}

int block_writer_finish(struct block_writer *w, const struct batch_origin *origin, struct strbuf *out)
{
    static const struct batch_origin none = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    if (w->heads.n == 0)
        return 0;
    size_t at = out->n;
    write_head(w, origin ? origin : &none, out);
    write_body(w, out);
    if (strbuf_failed(out)) {
        out->failed = false;
        out->n = at;
        return -ENOMEM;
    }
    char *head = out->p + at;
    put_u32(head + 4, (uint32_t)(out->n - at - BLOCK_HEAD));
    put_u32(head + 8, crc32c(0, slice_of(head, out->n - at)));
    block_writer_reset(w);
    return 0;
}
