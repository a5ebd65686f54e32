/* SPDX-License-Identifier: Apache-2.0 */
/* live_column.c - columns of live tables, and which field goes where.
 *
 * A column is a field's name, whatever types it comes with: each cell has its own tag. SQL does not know
 * case, so a field whose name differs from another's by case only is called name:2, name:3; one that is
 * called like a built-in column gets a $ before its name, as in predicates.
 *
 * An event is stored in two steps, so that it is there whole or not at all: first all texts get room, which
 * may fail and changes nothing that can be seen; then values are stored, which can't fail. */
#include "guard/live_internal.h"

#include "base/mem.h"

#include <errno.h>

static const char *const built_in[] = {"time", "host", "prog", "level"};

/* A little more than needed, so that text whose length varies does not allocate each time. */
static uint32_t text_cap(uint32_t n)
{
    return n + n / 4 + 8;
}

bool live_has_room(const struct live *l, size_t n)
{
    return l->stats.bytes <= l->limits.bytes && n <= l->limits.bytes - l->stats.bytes;
}

/* ---------------------------------------------------------------- columns */

static bool is_taken(const struct live_table *t, struct slice name)
{
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (slice_eq_nocase(slice_str(t->columns[i]->name), name))
            return true;
    return false;
}

static void put_name(struct strbuf *out, const struct live_table *t, struct slice field)
{
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (slice_eq_nocase(field, slice_str(built_in[i])))
            strbuf_add_char(out, '$');
    strbuf_add_slice(out, field);
    size_t n = out->n;
    for (unsigned i = 2; is_taken(t, strbuf_slice(out)); i++) {
        out->n = n;
        strbuf_printf(out, ":%u", i);
    }
}

static size_t column_size(const struct live_column *c, uint32_t cap)
{
    size_t texts = c->texts ? cap * sizeof *c->texts : 0;
    return sizeof *c + c->field.n + strlen(c->name) + 1 + cap * (1 + sizeof *c->bits) + texts;
}

static void destroy_column(struct live_column *c)
{
    if (!c)
        return;
    mem_free(c->tags);
    mem_free(c->bits);
    mem_free(c->texts);
    mem_free((void *)c->name);
    mem_free(c);
}

/* The name and behind it the field are one piece of memory. */
static struct live_column *create_column(const struct live_table *t, struct slice field)
{
    struct strbuf name = {0};
    struct live_column *c = mem_try_alloc(sizeof *c);
    put_name(&name, t, field);
    char *text = strbuf_failed(&name) ? NULL : mem_try_alloc(name.n + 1 + field.n);
    if (c && text) {
        memcpy(text, name.p, name.n);
        memcpy(text + name.n + 1, field.p, field.n);
        c->name = text;
        c->field = slice_of(text + name.n + 1, field.n);
        c->tags = t->cap ? mem_try_alloc(t->cap) : NULL;
        c->bits = t->cap ? mem_try_alloc(t->cap * sizeof *c->bits) : NULL;
        text = NULL;
    }
    strbuf_fini(&name);
    mem_free(text);
    if (c && c->name && (t->cap == 0 || (c->tags && c->bits)))
        return c;
    destroy_column(c);
    return NULL;
}

static int add_column(struct live *l, struct live_table *t, struct slice field)
{
    /* the name may get a prefix and a suffix */
    size_t most = sizeof(struct live_column) + 2 * field.n + 16 + t->cap * (1 + sizeof(union live_bits)) +
                  live_map_more(&t->by_field) + sizeof *t->columns;
    if (t->n_columns == LIVE_COLUMNS_MAX || !live_has_room(l, most))
        return E_LIMIT;
    struct live_column **columns = mem_try_resize(t->columns, (t->n_columns + 1) * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    t->columns = columns;
    struct live_column *c = create_column(t, field);
    size_t map_before = live_map_size(&t->by_field);
    if (!c || map_put(&t->by_field, c->field, c) < 0) {
        destroy_column(c);
        return -ENOMEM;
    }
    t->columns[t->n_columns++] = c;
    live_charge(l, column_size(c, t->cap) + sizeof *columns + live_map_size(&t->by_field) - map_before);
    t->version = ++l->versions;
    return 0;
}

/* ---------------------------------------------------------------- shapes */

static size_t shape_size(const struct schema *s)
{
    return sizeof(struct live_shape) + s->n_fields * sizeof(uint16_t);
}

static void drop_shape(struct live *l, struct live_shape *s)
{
    if (!s)
        return;
    live_discharge(l, shape_size(s->schema));
    schema_unref(s->schema);
    mem_free(s);
}

static uint16_t number_of(const struct live_table *t, const struct live_column *c)
{
    uint16_t i = 0;
    while (t->columns[i] != c)
        i++;
    return i;
}

static int make_shape(struct live *l, struct live_table *t, const struct schema *s, struct live_shape **out)
{
    for (uint32_t i = 0; i < s->n_fields; i++) {
        int r = map_get(&t->by_field, s->fields[i].name) ? 0 : add_column(l, t, s->fields[i].name);
        if (r < 0)
            return r;
    }
    struct live_shape *shape = live_has_room(l, shape_size(s)) ? mem_try_alloc(shape_size(s)) : NULL;
    if (!shape)
        return live_has_room(l, shape_size(s)) ? -ENOMEM : E_LIMIT;
    for (uint32_t i = 0; i < s->n_fields; i++)
        shape->column[i] = number_of(t, map_get(&t->by_field, s->fields[i].name));
    shape->schema = schema_ref(s);
    live_charge(l, shape_size(s));
    *out = shape;
    return 0;
}

int live_shape_of(struct live *l, struct live_table *t, const struct schema *s, const struct live_shape **out)
{
    for (size_t i = 0; i < LIVE_SHAPES; i++) {
        if (t->shapes[i] && t->shapes[i]->schema == s) {
            *out = t->shapes[i];
            return 0;
        }
    }
    struct live_shape *shape = NULL;
    int r = make_shape(l, t, s, &shape);
    if (r < 0)
        return r;
    drop_shape(l, t->shapes[t->shape_next]);
    t->shapes[t->shape_next] = shape;
    t->shape_next = (t->shape_next + 1) % LIVE_SHAPES;
    *out = shape;
    return 0;
}

/* ---------------------------------------------------------------- cells */

static int need_texts(struct live *l, struct live_table *t, struct live_column *c)
{
    size_t size = t->cap * sizeof *c->texts;
    if (c->texts)
        return 0;
    if (!live_has_room(l, size))
        return E_LIMIT;
    c->texts = mem_try_alloc(size);
    if (!c->texts)
        return -ENOMEM;
    live_charge(l, size);
    return 0;
}

static int reserve_text(struct live *l, struct live_text **at, uint32_t n)
{
    uint32_t before = *at ? (*at)->cap : 0;
    if (*at && before >= n)
        return 0;
    uint32_t cap = text_cap(n);
    size_t more = cap - before + (*at ? 0 : sizeof **at);
    if (!live_has_room(l, more))
        return E_LIMIT;
    struct live_text *text = mem_try_resize(*at, sizeof *text + cap);
    if (!text)
        return -ENOMEM;
    if (!*at)
        text->n = 0;
    text->cap = cap;
    *at = text;
    live_charge(l, more);
    return 0;
}

int live_cells_reserve(struct live *l, struct live_table *t, const struct live_shape *s, uint32_t row,
                       const struct event *e)
{
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (!value_is_text(e->values[i].type))
            continue;
        struct live_column *c = t->columns[s->column[i]];
        int r = need_texts(l, t, c);
        if (r == 0)
            r = reserve_text(l, &c->texts[row], e->values[i].n);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint8_t seen_of(struct value v)
{
    return (uint8_t)(1 << v.type | (v.type == VALUE_UINT && v.u > INT64_MAX ? LIVE_SEEN_HUGE : 0));
}

static void store(struct live *l, struct live_table *t, struct live_column *c, uint32_t row, struct value v)
{
    if (v.type == VALUE_NUMBER) /* rules compare the number; its spelling is the archive's */
        v = value_number(v);
    uint8_t seen = seen_of(v);
    if ((c->seen & seen) != seen) {
        c->seen |= seen;
        t->version = ++l->versions;
    }
    c->tags[row] = v.type;
    if (!value_is_text(v.type)) {
        c->bits[row].u = v.u;
        return;
    }
    c->texts[row]->n = v.n;
    if (v.n)
        memcpy(c->texts[row]->p, v.p, v.n);
}

/* Columns that the event says nothing of are missing now. */
void live_cells_store(struct live *l, struct live_table *t, const struct live_shape *s, uint32_t row,
                      const struct event *e)
{
    for (uint32_t i = 0; i < t->n_columns; i++)
        t->columns[i]->tags[row] = VALUE_NONE;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (e->values[i].type != VALUE_NONE)
            store(l, t, t->columns[s->column[i]], row, e->values[i]);
}

/* ---------------------------------------------------------------- places */

static bool resize_column(struct live_column *c, uint32_t before, uint32_t cap)
{
    uint8_t *tags = mem_try_resize(c->tags, cap);
    c->tags = tags ? tags : c->tags;
    union live_bits *bits = mem_try_resize(c->bits, cap * sizeof *bits);
    c->bits = bits ? bits : c->bits;
    if (!tags || !bits)
        return false;
    memset(tags + before, VALUE_NONE, cap - before);
    if (!c->texts)
        return true;
    struct live_text **texts = mem_try_resize(c->texts, cap * sizeof *texts);
    c->texts = texts ? texts : c->texts;
    for (uint32_t i = before; texts && i < cap; i++)
        texts[i] = NULL;
    return texts;
}

int live_cells_resize(struct live_table *t, uint32_t cap)
{
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (!resize_column(t->columns[i], t->cap, cap))
            return -ENOMEM;
    return 0;
}

size_t live_cells_row_size(const struct live_table *t)
{
    size_t size = 0;
    for (uint32_t i = 0; i < t->n_columns; i++)
        size += 1 + sizeof(union live_bits) + (t->columns[i]->texts ? sizeof(struct live_text *) : 0);
    return size;
}

void live_cells_clear(struct live *l, struct live_table *t, uint32_t row)
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        struct live_column *c = t->columns[i];
        c->tags[row] = VALUE_NONE;
        if (!c->texts || !c->texts[row])
            continue;
        live_discharge(l, sizeof(struct live_text) + c->texts[row]->cap);
        mem_free(c->texts[row]);
        c->texts[row] = NULL;
    }
}

void live_cells_free(struct live_table *t)
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        struct live_column *c = t->columns[i];
        mem_free(c->tags);
        mem_free(c->bits);
        mem_free(c->texts);
        c->tags = NULL;
        c->bits = NULL;
        c->texts = NULL;
    }
}

void live_cells_move(struct live_table *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        struct live_column *c = t->columns[i];
        c->tags[to] = c->tags[from];
        c->bits[to] = c->bits[from];
        c->tags[from] = VALUE_NONE;
        if (!c->texts)
            continue;
        c->texts[to] = c->texts[from];
        c->texts[from] = NULL;
    }
}

void live_columns_fini(struct live *l, struct live_table *t)
{
    for (size_t i = 0; i < LIVE_SHAPES; i++)
        drop_shape(l, t->shapes[i]);
    live_discharge(l, live_map_size(&t->by_field));
    map_fini(&t->by_field);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        live_discharge(l, column_size(t->columns[i], t->cap) + sizeof *t->columns);
        destroy_column(t->columns[i]);
    }
    mem_free(t->columns);
}

static size_t texts_size(const struct live_table *t, const struct live_column *c)
{
    size_t size = 0;
    for (uint32_t i = 0; c->texts && i < t->n; i++)
        size += c->texts[i] ? sizeof(struct live_text) + c->texts[i]->cap : 0;
    return size;
}

size_t live_columns_size(const struct live_table *t)
{
    size_t size = live_map_size(&t->by_field);
    for (size_t i = 0; i < LIVE_SHAPES; i++)
        size += t->shapes[i] ? shape_size(t->shapes[i]->schema) : 0;
    for (uint32_t i = 0; i < t->n_columns; i++)
        size += column_size(t->columns[i], t->cap) + sizeof *t->columns + texts_size(t, t->columns[i]);
    return size;
}
