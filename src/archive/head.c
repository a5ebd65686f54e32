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
    mem_free(b->rows);
    mem_free(b->origins);
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
        uint32_t text;
    } columns[];
};

/* Not zeroed: pages that no row has come to yet take no memory. */
static char *alloc_rows(size_t n)
{
    char *rows = mem_try_resize(NULL, n);
    return rows ? rows : mem_alloc(n); /* which ends the program */
}

static struct head_buffer *buffer_create(const struct shape *s)
{
    struct head_buffer *b = mem_alloc(sizeof *b + s->n_columns * sizeof *b->columns);
    atomic_init(&b->refs, 1);
    b->rows_max = s->rows;
    b->origins_max = s->origins;
    b->n_columns = s->n_columns;
    b->mask_words = (s->n_columns + 63) / 64;
    b->row_bytes = (uint32_t)(sizeof(struct head_cells) + (b->mask_words + s->n_columns) * sizeof(uint64_t));
    b->rows = alloc_rows((size_t)s->rows * b->row_bytes);
    b->origins = mem_alloc(s->origins * sizeof *b->origins);
    for (uint32_t i = 0; i < s->n_columns; i++) {
        b->columns[i] = (struct head_column){.id = s->columns[i].id, .type = s->columns[i].type};
        if (!value_is_text(s->columns[i].type))
            continue;
        b->has_text = true;
        b->columns[i].bytes_max = s->columns[i].text;
        b->columns[i].bytes = mem_alloc(s->columns[i].text);
    }
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

static uint64_t *cell_of(const struct head_buffer *b, struct head_cells *row, uint32_t column)
{
    return &row->cells[b->mask_words + column];
}

static bool has_value(const struct head_cells *row, uint32_t column)
{
    return row->cells[column >> 6] >> (column & 63) & 1;
}

/* Where the text of the rows before row ends. */
static uint32_t text_end(const struct head_buffer *b, uint32_t column, uint32_t row)
{
    return row ? (uint32_t)*cell_of(b, head_row_at(b, row - 1), column) : 0;
}

/* One row of from into row n of to, whose columns are those of from at places, and more. Text goes along. */
static void copy_row(const struct head_buffer *to, uint32_t n, const struct head_buffer *from, uint32_t row,
                     const uint16_t *places)
{
    struct head_cells *new = head_row_at(to, n), *old = head_row_at(from, row);
    memcpy(new, old, sizeof *new);
    memset(new->cells, 0, to->mask_words * sizeof *new->cells);
    for (uint32_t i = 0; i < to->n_columns; i++)
        if (to->columns[i].bytes)
            *cell_of(to, new, i) = text_end(to, i, n);
    for (uint32_t i = 0; i < from->n_columns; i++) {
        uint16_t place = places[i];
        if (from->columns[i].bytes) {
            uint32_t begin = text_end(from, i, row), at = text_end(to, place, n);
            uint32_t size = (uint32_t)*cell_of(from, old, i) - begin;
            memcpy(to->columns[place].bytes + at, from->columns[i].bytes + begin, size);
            *cell_of(to, new, place) = at + size;
        } else {
            *cell_of(to, new, place) = *cell_of(from, old, i);
        }
        new->cells[place >> 6] |= (uint64_t)has_value(old, i) << (place & 63);
    }
}

static uint16_t *places_of(const struct head_buffer *from, const struct head_buffer *to)
{
    uint16_t *places = mem_alloc((from->n_columns + 1) * sizeof *places);
    for (uint32_t i = 0; i < from->n_columns; i++)
        places[i] = (uint16_t)find_column(to, from->columns[i].id);
    return places;
}

/* ---------------------------------------------------------------- what a row needs */

static uint16_t column_of(const struct head_row *row, uint32_t field)
{
    bool is_key = row->event->schema->fields[field].role == ROLE_KEY;
    return is_key && !row->with_keys ? NO_PLACE : row->ids[field];
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

static bool text_fits(const struct head *h, const struct event *e)
{
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        uint16_t place = h->places[i];
        const struct head_column *c = place == NO_PLACE ? NULL : &h->buffer->columns[place];
        if (c && c->bytes && e->values[i].type != VALUE_NONE &&
            c->bytes_max - text_end(h->buffer, place, h->n) < e->values[i].n)
            return false;
    }
    return true;
}

/* Does the row fit into the buffer as it is? The places are right. */
static bool fits(const struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    return h->is_complete && h->n < b->rows_max &&
           (h->n_origins < b->origins_max || find_origin(h, row->origin) < h->n_origins) &&
           (!b->has_text || text_fits(h, row->event));
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
        s->columns[s->n_columns++] = (struct shape_column){
            .id = b->columns[i].id, .type = b->columns[i].type, .text = b->columns[i].bytes_max};
    for (uint32_t i = 0; i < row->event->schema->n_fields; i++) {
        uint16_t id = column_of(row, i);
        if (id == NO_PLACE || find_column(b, id) >= 0)
            continue;
        uint8_t type = row->event->schema->fields[i].type;
        s->columns[s->n_columns++] =
            (struct shape_column){.id = id, .type = type, .text = value_is_text(type) ? TEXT_FIRST : 0};
    }
    qsort(s->columns, s->n_columns, sizeof *s->columns, compare_columns);
}

/* Room for the text that the row has. */
static void shape_text(struct shape *s, const struct head *h, const struct head_row *row)
{
    for (uint32_t f = 0; f < row->event->schema->n_fields; f++) {
        const struct value *v = &row->event->values[f];
        if (!value_is_text(v->type))
            continue;
        for (uint32_t i = 0; i < s->n_columns; i++) {
            struct shape_column *c = &s->columns[i];
            if (c->id != column_of(row, f))
                continue;
            int place = find_column(h->buffer, c->id);
            uint32_t need = (place >= 0 ? text_end(h->buffer, (uint32_t)place, h->n) : 0) + v->n;
            while (c->text < need)
                c->text = c->text < UINT32_MAX / 2 ? c->text * 2 : UINT32_MAX;
        }
    }
}

static struct head_buffer *reshape(const struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    size_t columns = row->event->schema->n_fields + (b ? b->n_columns : 0);
    struct shape *s = mem_alloc(sizeof *s + columns * sizeof *s->columns);
    s->rows = b ? (h->n == b->rows_max ? b->rows_max * 2 : b->rows_max)
                : (h->rows_first > ROWS_FIRST ? h->rows_first : ROWS_FIRST);
    s->origins = b ? (h->n_origins == b->origins_max ? b->origins_max * 2 : b->origins_max) : ORIGINS_FIRST;
    shape_columns(s, h, row);
    shape_text(s, h, row);
    struct head_buffer *new = buffer_create(s);
    mem_free(s);
    if (!b)
        return new;
    memcpy(new->origins, b->origins, h->n_origins * sizeof *b->origins);
    if (new->n_columns == b->n_columns) {
        memcpy(new->rows, b->rows, (size_t)h->n * b->row_bytes);
        for (uint32_t i = 0; i < b->n_columns; i++)
            if (b->columns[i].bytes)
                memcpy(new->columns[i].bytes, b->columns[i].bytes, text_end(b, i, h->n));
        return new;
    }
    uint16_t *places = places_of(b, new);
    for (uint32_t i = 0; i < h->n; i++)
        copy_row(new, i, b, i, places);
    mem_free(places);
    return new;
}

/* Which place each field of the row's schema has in b. */
static void find_places(struct head *h, const struct head_buffer *b, const struct head_row *row)
{
    const struct schema *schema = row->event->schema;
    if (h->schema != schema) {
        schema_unref(h->schema);
        h->schema = schema_ref(schema);
        mem_free(h->places);
        h->places = mem_alloc((schema->n_fields + 1) * sizeof *h->places);
    }
    h->is_complete = b != NULL;
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        uint16_t id = column_of(row, i);
        int place = id == NO_PLACE ? -1 : find_column(b, id);
        h->places[i] = place < 0 ? NO_PLACE : (uint16_t)place;
        h->is_complete &= id == NO_PLACE || place >= 0;
    }
}

int head_reserve(struct head *h, const struct head_row *row, struct head_buffer **out)
{
    if (h->schema != row->event->schema || !h->buffer)
        find_places(h, h->buffer, row);
    if (h->buffer && fits(h, row))
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

static uint16_t put_origin(struct head *h, const struct batch_origin *o)
{
    uint32_t i = find_origin(h, o);
    if (i == h->n_origins) {
        h->buffer->origins[i] = (struct row_origin){.epoch = o->epoch, .clock = o->clock};
        memcpy(h->buffer->origins[i].producer, o->producer, sizeof o->producer);
        h->n_origins++;
    }
    return (uint16_t)i;
}

static void put_text(const struct head *h, struct head_cells *row, uint16_t place, const struct value *v)
{
    uint32_t at = text_end(h->buffer, place, h->n);
    if (v->n)
        memcpy(h->buffer->columns[place].bytes + at, v->p, v->n);
    *cell_of(h->buffer, row, place) = at + v->n;
}

void head_append(struct head *h, const struct head_row *row)
{
    const struct head_buffer *b = h->buffer;
    const struct event *e = row->event;
    struct head_cells *to = head_row_at(b, h->n);
    to->time_ns = e->time_ns;
    to->seq = row->seq;
    to->level = e->level;
    to->origin = put_origin(h, row->origin);
    memset(to->cells, 0, b->mask_words * sizeof *to->cells);
    h->used_bytes += b->row_bytes;
    for (uint32_t i = 0; b->has_text && i < b->n_columns; i++)
        if (b->columns[i].bytes)
            *cell_of(b, to, i) = text_end(b, i, h->n);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        uint16_t place = h->places[i];
        if (place == NO_PLACE || e->values[i].type == VALUE_NONE)
            continue;
        to->cells[place >> 6] |= UINT64_C(1) << (place & 63);
        if (b->columns[place].bytes) {
            put_text(h, to, place, &e->values[i]);
            h->used_bytes += e->values[i].n;
        } else {
            *cell_of(b, to, place) = e->values[i].u;
        }
    }
    h->is_unsorted |= h->n > 0 && e->time_ns < head_row_at(b, h->n - 1)->time_ns;
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
        s->columns[i] = (struct shape_column){
            .id = b->columns[i].id, .type = b->columns[i].type, .text = b->columns[i].bytes_max};
    struct head_buffer *new = buffer_create(s);
    mem_free(s);
    return new;
}

void head_without(const struct head *h, int64_t from_ns, int64_t to_ns, struct head *out)
{
    const struct head_buffer *b = h->buffer;
    struct head left = {.schema = h->schema,
                        .places = h->places,
                        .is_complete = h->is_complete,
                        .rows_first = h->n + h->n / 8};
    uint16_t *places = NULL;
    for (uint32_t row = 0; row < h->n; row++) {
        int64_t time_ns = head_row_at(b, row)->time_ns;
        if (time_ns >= from_ns && time_ns < to_ns)
            continue;
        if (!left.buffer) {
            left.buffer = buffer_like(b);
            left.n_origins = h->n_origins;
            memcpy(left.buffer->origins, b->origins, h->n_origins * sizeof *b->origins);
            places = places_of(b, left.buffer);
        }
        left.is_unsorted |= left.n > 0 && time_ns < head_row_at(left.buffer, left.n - 1)->time_ns;
        copy_row(left.buffer, left.n++, b, row, places);
    }
    for (uint32_t i = 0; left.n && i < b->n_columns; i++)
        left.used_bytes += b->columns[i].bytes ? text_end(left.buffer, i, left.n) : 0;
    left.used_bytes += left.buffer ? (size_t)left.n * left.buffer->row_bytes : 0;
    mem_free(places);
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

/* The rows by time, those of the same time as they came. NULL: no memory. */
static const struct head_cells **make_order(const struct head_buffer *b, uint32_t n, bool is_unsorted,
                                            struct arena *arena)
{
    const struct head_cells **rows = arena_alloc(arena, n * sizeof(void *));
    struct order_row *order = is_unsorted ? arena_alloc(arena, n * sizeof *order) : NULL;
    if (!rows || (is_unsorted && !order))
        return NULL;
    for (uint32_t i = 0; is_unsorted && i < n; i++)
        order[i] = (struct order_row){head_row_at(b, i)->time_ns, i};
    if (is_unsorted)
        qsort(order, n, sizeof *order, compare_order);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = head_row_at(b, is_unsorted ? order[i].row : i);
    return rows;
}

static int make_heads(const struct head_cells *const *rows, uint32_t n, struct arena *arena, struct rows *out)
{
    int64_t *times = arena_alloc(arena, n * sizeof *times);
    uint64_t *seqs = arena_alloc(arena, n * sizeof *seqs);
    uint16_t *origins = arena_alloc(arena, n * sizeof *origins);
    uint8_t *levels = arena_alloc(arena, n);
    if (!times || !seqs || !origins || !levels)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        times[i] = rows[i]->time_ns;
        seqs[i] = rows[i]->seq;
        origins[i] = rows[i]->origin;
        levels[i] = rows[i]->level;
    }
    out->time_ns = times;
    out->seq = seqs;
    out->origin = origins;
    out->level = levels;
    return 0;
}

/* Which rows have a value; *count of them. All: no bits are needed. */
static int make_present(const struct head_cells *const *rows, uint32_t n, uint32_t column,
                        struct arena *arena, const uint64_t **out, uint32_t *count)
{
    uint32_t words = (n + 63) / 64;
    uint64_t *bits = arena_alloc(arena, words * sizeof *bits);
    if (!bits)
        return -ENOMEM;
    memset(bits, 0, words * sizeof *bits);
    *count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t is_there = has_value(rows[i], column);
        bits[i >> 6] |= is_there << (i & 63);
        *count += (uint32_t)is_there;
    }
    *out = *count == n ? NULL : bits;
    return 0;
}

/* Where row's text begins: where that of the row before it in the buffer ends. */
static uint32_t text_begin(const struct head_buffer *b, const struct head_cells *row, uint32_t column)
{
    return text_end(b, column, (uint32_t)((size_t)((const char *)row - b->rows) / b->row_bytes));
}

static int make_text(const struct head_buffer *b, const struct head_cells *const *rows, uint32_t n,
                     uint32_t column, struct arena *arena, struct column *out)
{
    uint32_t *ends = arena_alloc(arena, n * sizeof *ends), size = text_end(b, column, n), at = 0;
    char *bytes = arena_alloc(arena, size + 1U);
    if (!ends || !bytes)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = text_begin(b, rows[i], column);
        uint32_t to = (uint32_t)rows[i]->cells[b->mask_words + column];
        memcpy(bytes + at, b->columns[column].bytes + from, to - from);
        at += to - from;
        ends[i] = at;
    }
    out->ends = ends;
    out->bytes = bytes;
    return 0;
}

/* 1: it has values; 0: it has none. */
static int make_column(const struct head_buffer *b, const struct head_cells *const *rows, uint32_t n,
                       uint32_t column, struct arena *arena, struct column *out)
{
    uint32_t count;
    *out = (struct column){.id = b->columns[column].id, .type = b->columns[column].type};
    int r = make_present(rows, n, column, arena, &out->present, &count);
    if (r < 0 || count == 0)
        return r;
    if (b->columns[column].bytes) {
        r = make_text(b, rows, n, column, arena, out);
        return r < 0 ? r : 1;
    }
    uint64_t *values = arena_alloc(arena, n * sizeof *values);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        values[i] = rows[i]->cells[b->mask_words + column];
    out->u = values;
    return 1;
}

static bool is_wanted(const uint16_t *want, size_t n, uint16_t id)
{
    for (size_t i = 0; want && i < n; i++)
        if (want[i] == id)
            return true;
    return !want;
}

int head_rows(const struct head_buffer *b, uint32_t n, uint32_t n_origins, bool is_unsorted,
              const uint16_t *want, size_t n_want, struct arena *arena, struct rows *out)
{
    const struct head_cells **rows = make_order(b, n, is_unsorted, arena);
    struct column *columns = arena_alloc(arena, (b->n_columns + 1) * sizeof *columns);
    struct rows made = {.n = n, .origins = b->origins, .n_origins = n_origins, .columns = columns};
    if (!rows || !columns || make_heads(rows, n, arena, &made) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < b->n_columns; i++) {
        if (!is_wanted(want, n_want, b->columns[i].id))
            continue;
        int r = make_column(b, rows, n, i, arena, &columns[made.n_columns]);
        if (r < 0)
            return r;
        made.n_columns += (uint32_t)r;
    }
    *out = made;
    return 0;
}
