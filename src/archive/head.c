/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/head.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { NO_PLACE = UINT16_MAX, ROWS_FIRST = 16, TEXT_FIRST = 256, ORIGINS_FIRST = 2 };

/* ---------------------------------------------------------------- buffers */

struct head_buffer *head_buffer_ref(struct head_buffer *b)
{
    (void)atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); /* the result is not wanted */
    return b;
}

void head_buffer_unref(struct head_buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < b->n_columns; i++)
        mem_free(b->columns[i].bytes);
    mem_free(b->time_ns); /* the one block that all arrays of fixed size are in */
    mem_free(b);
}

void head_fini(struct head *h)
{
    head_buffer_unref(h->buffer);
    schema_unref(h->schema);
    mem_free(h->places);
    *h = (struct head){.buffer = NULL};
}

/* What a new buffer is to have. */
struct shape {
    uint32_t rows, origins, n_columns;
    struct shape_column {
        uint16_t id;
        uint8_t type;
        bool has_present;
        uint32_t text;
    } columns[];
};

static size_t row_bytes(const struct shape *s)
{
    size_t n = sizeof(int64_t) + sizeof(uint64_t) + sizeof(uint16_t) + sizeof(uint8_t);
    for (uint32_t i = 0; i < s->n_columns; i++)
        n += (value_is_text(s->columns[i].type) ? sizeof(uint32_t) : sizeof(uint64_t)) +
             s->columns[i].has_present;
    return n;
}

/* Arrays of 8 bytes first, then those of 4, 2 and 1, so that each is aligned. */
static struct head_buffer *buffer_create(const struct shape *s)
{
    struct head_buffer *b = mem_alloc(sizeof *b + s->n_columns * sizeof *b->columns);
    size_t size = s->origins * sizeof(struct row_origin) + s->rows * row_bytes(s);
    char *at = mem_alloc(size);
    atomic_init(&b->refs, 1);
    b->rows_max = s->rows;
    b->origins_max = s->origins;
    b->n_columns = s->n_columns;
    b->size_bytes = sizeof *b + s->n_columns * sizeof *b->columns + size;
#define TAKE(type, n) ((at += (n) * sizeof(type)), (type *)(void *)(at - (n) * sizeof(type)))
    b->time_ns = TAKE(int64_t, s->rows);
    b->seq = TAKE(uint64_t, s->rows);
    b->origins = TAKE(struct row_origin, s->origins);
    for (uint32_t i = 0; i < s->n_columns; i++) {
        b->columns[i] = (struct head_column){.id = s->columns[i].id, .type = s->columns[i].type};
        if (!value_is_text(s->columns[i].type))
            b->columns[i].values = TAKE(uint64_t, s->rows);
    }
    for (uint32_t i = 0; i < s->n_columns; i++) {
        if (!value_is_text(s->columns[i].type))
            continue;
        b->columns[i].ends = TAKE(uint32_t, s->rows);
        b->columns[i].bytes_max = s->columns[i].text;
        b->columns[i].bytes = mem_alloc(s->columns[i].text);
        b->size_bytes += s->columns[i].text;
    }
    b->origin = TAKE(uint16_t, s->rows);
    b->level = TAKE(uint8_t, s->rows);
    for (uint32_t i = 0; i < s->n_columns; i++)
        if (s->columns[i].has_present)
            b->columns[i].present = TAKE(uint8_t, s->rows);
#undef TAKE
    return b;
}

static int find_column(const struct head_buffer *b, uint16_t id)
{
    uint32_t low = 0, high = b ? b->n_columns : 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (b->columns[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return b && low < b->n_columns && b->columns[low].id == id ? (int)low : -1;
}

static void copy_column(struct head_column *to, const struct head_column *from, uint32_t n)
{
    if (from->values)
        memcpy(to->values, from->values, n * sizeof *to->values);
    if (from->ends) {
        memcpy(to->ends, from->ends, n * sizeof *to->ends);
        memcpy(to->bytes, from->bytes, n ? from->ends[n - 1] : 0);
    }
    if (from->present)
        memcpy(to->present, from->present, n);
    else if (to->present)
        memset(to->present, 1, n);
}

static void copy_rows(struct head_buffer *to, const struct head_buffer *from, const struct head *h)
{
    if (!from)
        return;
    memcpy(to->time_ns, from->time_ns, h->n * sizeof *to->time_ns);
    memcpy(to->seq, from->seq, h->n * sizeof *to->seq);
    memcpy(to->origin, from->origin, h->n * sizeof *to->origin);
    memcpy(to->level, from->level, h->n);
    memcpy(to->origins, from->origins, h->n_origins * sizeof *to->origins);
    for (uint32_t i = 0; i < to->n_columns; i++) {
        int place = find_column(from, to->columns[i].id);
        if (place >= 0)
            copy_column(&to->columns[i], &from->columns[place], h->n);
    }
}

/* ---------------------------------------------------------------- what a row needs */

static uint16_t column_of(const struct head_row *row, uint32_t field)
{
    bool is_key = row->event->schema->fields[field].role == ROLE_KEY;
    return is_key && !row->with_keys ? NO_PLACE : row->ids[field];
}

static uint32_t text_end(const struct head_column *c, uint32_t n)
{
    return n ? c->ends[n - 1] : 0;
}

static bool is_origin(const struct row_origin *o, const struct batch_origin *b)
{
    return memcmp(o->producer, b->producer, sizeof o->producer) == 0 && o->epoch == b->epoch &&
           o->clock.offset_ns == b->clock.offset_ns && o->clock.bound_ns == b->clock.bound_ns &&
           o->clock.generation == b->clock.generation;
}

/* The newest first: it is nearly always that one. n_origins: it is new. */
static uint32_t find_origin(const struct head *h, const struct batch_origin *b)
{
    for (uint32_t i = h->n_origins; i > 0; i--)
        if (is_origin(&h->buffer->origins[i - 1], b))
            return i - 1;
    return h->n_origins;
}

/* Does the row fit into the buffer as it is? The places are right. */
static bool fits(const struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    if (h->n == b->rows_max ||
        (h->n_origins == b->origins_max && find_origin(h, row->origin) == h->n_origins))
        return false;
    if (h->lacks_marks)
        return false;
    for (uint32_t i = 0; i < row->event->schema->n_fields; i++) {
        const struct value *v = &row->event->values[i];
        const struct head_column *c = h->places[i] == NO_PLACE ? NULL : &b->columns[h->places[i]];
        if (c && ((v->type == VALUE_NONE && !c->present) ||
                  (v->type != VALUE_NONE && c->ends && c->bytes_max - text_end(c, h->n) < v->n)))
            return false;
    }
    return true;
}

static int compare_columns(const void *a, const void *b)
{
    return (int)((const struct shape_column *)a)->id - (int)((const struct shape_column *)b)->id;
}

/* The columns there are, and those that the row's schema has besides. */
static void shape_columns(struct shape *s, const struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    for (uint32_t i = 0; b && i < b->n_columns; i++)
        s->columns[s->n_columns++] = (struct shape_column){.id = b->columns[i].id,
                                                           .type = b->columns[i].type,
                                                           .has_present = b->columns[i].present != NULL,
                                                           .text = b->columns[i].bytes_max};
    for (uint32_t i = 0; i < row->event->schema->n_fields; i++) {
        uint16_t id = column_of(row, i);
        if (id == NO_PLACE || find_column(b, id) >= 0)
            continue;
        uint8_t type = row->event->schema->fields[i].type;
        s->columns[s->n_columns++] = (struct shape_column){
            .id = id, .type = type, .has_present = h->n > 0, .text = value_is_text(type) ? TEXT_FIRST : 0};
    }
    qsort(s->columns, s->n_columns, sizeof *s->columns, compare_columns);
}

/* Missing values and text that the row has for column c, which is at places[field] or nowhere. */
static void shape_row(struct shape *s, const struct head *h, const struct head_row *row)
{
    for (uint32_t i = 0; i < s->n_columns; i++) {
        struct shape_column *c = &s->columns[i];
        const struct value *v = NULL;
        for (uint32_t f = 0; f < row->event->schema->n_fields && !v; f++)
            if (column_of(row, f) == c->id)
                v = &row->event->values[f];
        if (!v || v->type == VALUE_NONE) {
            c->has_present = true;
            continue;
        }
        if (!value_is_text(c->type))
            continue;
        int place = find_column(h->buffer, c->id);
        uint32_t need = (place >= 0 ? text_end(&h->buffer->columns[place], h->n) : 0) + v->n;
        while (c->text < need)
            c->text = c->text < UINT32_MAX / 2 ? c->text * 2 : UINT32_MAX;
    }
}

static struct head_buffer *reshape(const struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    size_t columns = row->event->schema->n_fields + (b ? b->n_columns : 0);
    struct shape *s = mem_alloc(sizeof *s + columns * sizeof *s->columns);
    s->rows = b ? (h->n == b->rows_max ? b->rows_max * 2 : b->rows_max) : ROWS_FIRST;
    s->origins = b ? (h->n_origins == b->origins_max ? b->origins_max * 2 : b->origins_max) : ORIGINS_FIRST;
    shape_columns(s, h, row);
    shape_row(s, h, row);
    struct head_buffer *new = buffer_create(s);
    copy_rows(new, b, h);
    mem_free(s);
    return new;
}

/* Is a field of the schema at that place? */
static bool is_placed(const struct head *h, uint16_t place)
{
    for (uint32_t i = 0; i < h->schema->n_fields; i++)
        if (h->places[i] == place)
            return true;
    return false;
}

/* Which place each field of the row's schema has in b. */
static void find_places(struct head *h, const struct head_buffer *b, const struct head_row *row)
{
    const struct schema *schema = row->event->schema;
    uint32_t covered = 0;
    if (h->schema != schema) {
        schema_unref(h->schema);
        h->schema = schema_ref(schema);
        mem_free(h->places);
        h->places = mem_alloc((schema->n_fields + 1) * sizeof *h->places);
    }
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        uint16_t id = column_of(row, i);
        int place = id == NO_PLACE ? -1 : find_column(b, id);
        h->places[i] = place < 0 ? NO_PLACE : (uint16_t)place;
        covered += place >= 0;
    }
    h->covers_all = b && covered == b->n_columns;
    h->lacks_marks = false;
    for (uint32_t i = 0; b && !h->covers_all && i < b->n_columns; i++)
        h->lacks_marks |= !b->columns[i].present && !is_placed(h, (uint16_t)i);
}

static bool lacks_a_column(const struct head *h, const struct head_row *row)
{
    for (uint32_t i = 0; i < row->event->schema->n_fields; i++)
        if (column_of(row, i) != NO_PLACE && h->places[i] == NO_PLACE)
            return true;
    return false;
}

int head_reserve(struct head *h, const struct head_row *row, struct head_buffer **out)
{
    bool is_new = h->schema != row->event->schema || !h->buffer;
    if (is_new)
        find_places(h, h->buffer, row);
    if (h->buffer && (!is_new || !lacks_a_column(h, row)) && fits(h, row))
        return 0;
    if (h->n_origins == HEAD_ORIGINS_MAX && find_origin(h, row->origin) == h->n_origins)
        return E_LIMIT;
    *out = reshape(h, row);
    find_places(h, *out, row);
    return 1;
}

struct head_buffer *head_replace(struct head *h, struct head_buffer *b)
{
    struct head_buffer *old = h->buffer;
    h->buffer = b;
    return old;
}

/* ---------------------------------------------------------------- appending */

static void put_missing(struct head_column *c, uint32_t n)
{
    c->present[n] = 0;
    if (c->ends)
        c->ends[n] = text_end(c, n);
}

static void put_value(struct head_column *c, uint32_t n, const struct value *v)
{
    if (c->present)
        c->present[n] = 1;
    if (c->values) {
        c->values[n] = v->u;
        return;
    }
    uint32_t at = text_end(c, n);
    if (v->n)
        memcpy(c->bytes + at, v->p, v->n);
    c->ends[n] = at + v->n;
}

static void put_origin(struct head *h, const struct batch_origin *o)
{
    uint32_t i = find_origin(h, o);
    if (i == h->n_origins) {
        h->buffer->origins[i] = (struct row_origin){.epoch = o->epoch, .clock = o->clock};
        memcpy(h->buffer->origins[i].producer, o->producer, sizeof o->producer);
        h->n_origins++;
    }
    h->buffer->origin[h->n] = (uint16_t)i;
}

void head_append(struct head *h, const struct head_row *row)
{
    struct head_buffer *b = h->buffer;
    const struct event *e = row->event;
    uint32_t n = h->n;
    b->time_ns[n] = e->time_ns;
    b->level[n] = e->level;
    b->seq[n] = row->seq;
    put_origin(h, row->origin);
    if (!h->covers_all) /* those of other schemas have marks; of this one's, what has none has a value now */
        for (uint32_t i = 0; i < b->n_columns; i++)
            if (b->columns[i].present)
                put_missing(&b->columns[i], n);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (h->places[i] == NO_PLACE)
            continue;
        struct head_column *c = &b->columns[h->places[i]];
        if (e->values[i].type == VALUE_NONE)
            put_missing(c, n);
        else
            put_value(c, n, &e->values[i]);
    }
    h->is_unsorted |= n > 0 && e->time_ns < b->time_ns[n - 1];
    h->n++;
}

/* ---------------------------------------------------------------- taking out */

static struct head_buffer *buffer_like(const struct head_buffer *b)
{
    struct shape *s = mem_alloc(sizeof *s + b->n_columns * sizeof *s->columns);
    s->rows = b->rows_max;
    s->origins = b->origins_max;
    s->n_columns = b->n_columns;
    for (uint32_t i = 0; i < b->n_columns; i++)
        s->columns[i] = (struct shape_column){.id = b->columns[i].id,
                                              .type = b->columns[i].type,
                                              .has_present = b->columns[i].present != NULL,
                                              .text = b->columns[i].bytes_max};
    struct head_buffer *new = buffer_create(s);
    mem_free(s);
    return new;
}

static void copy_value(struct head_column *to, uint32_t n, const struct head_column *from, uint32_t row)
{
    if (from->present)
        to->present[n] = from->present[row];
    if (from->values) {
        to->values[n] = from->values[row];
        return;
    }
    uint32_t at = text_end(to, n), begin = text_end(from, row), size = from->ends[row] - begin;
    memcpy(to->bytes + at, from->bytes + begin, size);
    to->ends[n] = at + size;
}

void head_without(const struct head *h, int64_t from_ns, int64_t to_ns, struct head *out)
{
    const struct head_buffer *b = h->buffer;
    struct head left = {
        .schema = h->schema, .places = h->places, .covers_all = h->covers_all, .lacks_marks = h->lacks_marks};
    for (uint32_t row = 0; row < h->n; row++) {
        if (b->time_ns[row] >= from_ns && b->time_ns[row] < to_ns)
            continue;
        if (!left.buffer) {
            left.buffer = buffer_like(b);
            left.n_origins = h->n_origins;
            memcpy(left.buffer->origins, b->origins, h->n_origins * sizeof *b->origins);
        }
        uint32_t n = left.n++;
        left.buffer->time_ns[n] = b->time_ns[row];
        left.buffer->seq[n] = b->seq[row];
        left.buffer->origin[n] = b->origin[row];
        left.buffer->level[n] = b->level[row];
        for (uint32_t i = 0; i < b->n_columns; i++)
            copy_value(&left.buffer->columns[i], n, &b->columns[i], row);
        left.is_unsorted |= n > 0 && left.buffer->time_ns[n] < left.buffer->time_ns[n - 1];
    }
    *out = left;
}

/* ---------------------------------------------------------------- reading */

struct order_row {
    int64_t time_ns;
    uint32_t row;
};

static int compare_order(const void *a, const void *b)
{
    const struct order_row *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

/* The rows' places by time, those of the same time as they came. NULL: no memory. */
static const struct order_row *make_order(const struct head_buffer *b, uint32_t n, struct arena *arena)
{
    struct order_row *order = arena_alloc(arena, n * sizeof *order);
    for (uint32_t i = 0; order && i < n; i++)
        order[i] = (struct order_row){b->time_ns[i], i};
    if (order)
        qsort(order, n, sizeof *order, compare_order);
    return order;
}

#define REORDER(type, from)                        \
    type *to = arena_alloc(arena, n * sizeof *to); \
    for (uint32_t i = 0; to && i < n; i++)         \
        to[i] = (from)[order[i].row];              \
    return to;

static const uint64_t *reorder_u64(const uint64_t *from, const struct order_row *order, uint32_t n,
                                   struct arena *arena)
{
    REORDER(uint64_t, from)
}
static const uint16_t *reorder_u16(const uint16_t *from, const struct order_row *order, uint32_t n,
                                   struct arena *arena)
{
    REORDER(uint16_t, from)
}
static const uint8_t *reorder_u8(const uint8_t *from, const struct order_row *order, uint32_t n,
                                 struct arena *arena)
{
    REORDER(uint8_t, from)
}

static int reorder_text(const struct head_column *c, const struct order_row *order, uint32_t n,
                        struct arena *arena, struct column *out)
{
    uint32_t *ends = arena_alloc(arena, n * sizeof *ends);
    char *bytes = arena_alloc(arena, c->ends[n - 1] + 1U);
    uint32_t at = 0;
    if (!ends || !bytes)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = order[i].row, from = row ? c->ends[row - 1] : 0;
        memcpy(bytes + at, c->bytes + from, c->ends[row] - from);
        at += c->ends[row] - from;
        ends[i] = at;
    }
    out->ends = ends;
    out->bytes = bytes;
    return 0;
}

/* Bits from bytes. *count: how many are set; all: no bits are needed. */
static int make_present(const uint8_t *bytes, const struct order_row *order, uint32_t n, struct arena *arena,
                        const uint64_t **out, uint32_t *count)
{
    uint64_t *bits = arena_alloc(arena, (n + 63) / 64 * sizeof *bits);
    if (!bits)
        return -ENOMEM;
    memset(bits, 0, (n + 63) / 64 * sizeof *bits);
    *count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t is_there = bytes[order ? order[i].row : i];
        bits[i >> 6] |= is_there << (i & 63);
        *count += (uint32_t)is_there;
    }
    *out = *count == n ? NULL : bits;
    return 0;
}

/* 1: it has values; 0: it has none. */
static int make_column(const struct head_column *c, const struct order_row *order, uint32_t n,
                       struct arena *arena, struct column *out)
{
    uint32_t count = n;
    *out = (struct column){.id = c->id, .type = c->type};
    int r = c->present ? make_present(c->present, order, n, arena, &out->present, &count) : 0;
    if (r < 0 || count == 0)
        return r;
    if (!order && c->values) {
        out->u = c->values;
    } else if (!order) {
        out->ends = c->ends;
        out->bytes = c->bytes;
    } else if (c->values) {
        out->u = reorder_u64(c->values, order, n, arena);
        r = out->u ? 0 : -ENOMEM;
    } else {
        r = reorder_text(c, order, n, arena, out);
    }
    return r < 0 ? r : 1;
}

static bool is_wanted(const uint16_t *want, size_t n, uint16_t id)
{
    for (size_t i = 0; want && i < n; i++)
        if (want[i] == id)
            return true;
    return !want;
}

static int order_heads(const struct head_buffer *b, const struct order_row *order, uint32_t n,
                       struct arena *arena, struct rows *out)
{
    int64_t *times = arena_alloc(arena, n * sizeof *times);
    for (uint32_t i = 0; times && i < n; i++)
        times[i] = order[i].time_ns;
    out->time_ns = times;
    out->level = reorder_u8(b->level, order, n, arena);
    out->seq = reorder_u64(b->seq, order, n, arena);
    out->origin = reorder_u16(b->origin, order, n, arena);
    return times && out->level && out->seq && out->origin ? 0 : -ENOMEM;
}

int head_rows(const struct head_buffer *b, uint32_t n, uint32_t n_origins, bool is_unsorted,
              const uint16_t *want, size_t n_want, struct arena *arena, struct rows *out)
{
    const struct order_row *order = is_unsorted ? make_order(b, n, arena) : NULL;
    struct column *columns = arena_alloc(arena, (b->n_columns + 1) * sizeof *columns);
    if ((is_unsorted && !order) || !columns)
        return -ENOMEM;
    struct rows rows = {.n = n,
                        .time_ns = b->time_ns,
                        .level = b->level,
                        .seq = b->seq,
                        .origin = b->origin,
                        .origins = b->origins,
                        .n_origins = n_origins,
                        .columns = columns};
    if (order && order_heads(b, order, n, arena, &rows) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < b->n_columns; i++) {
        if (!is_wanted(want, n_want, b->columns[i].id))
            continue;
        int r = make_column(&b->columns[i], order, n, arena, &columns[rows.n_columns]);
        if (r < 0)
            return r;
        rows.n_columns += (uint32_t)r;
    }
    *out = rows;
    return 0;
}
