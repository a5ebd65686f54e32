/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tier_columns.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

static const char *const part_names[TIER_FIELD_PARTS] = {"count", "nans", "min",      "max",    "sum",
                                                         "first", "last", "first_at", "last_at"};
static const char *const row_names[] = {"rows", "first_at", "last_at"}; /* from TIER_ROWS on */

/* units[type][part] are constants, so that columns can borrow them. */
#define UNITS(type)                                                                                      \
    {                                                                                                    \
        type ":count", type ":nans", type ":min", type ":max", type ":sum", type ":first", type ":last", \
            type ":first_at", type ":last_at"                                                            \
    }
static const char *const units[VALUE_TYPES][TIER_FIELD_PARTS] = {
    [VALUE_INT] = UNITS("int"),   [VALUE_UINT] = UNITS("uint"), [VALUE_FLOAT] = UNITS("float"),
    [VALUE_BOOL] = UNITS("bool"), [VALUE_TEXT] = UNITS("text"), [VALUE_BYTES] = UNITS("bytes"),
    [VALUE_NUMBER] = UNITS("number")};

/* VALUE_NONE: there is no such part. */
static uint8_t type_of_part(uint8_t type, enum tier_part part)
{
    if (part == TIER_COUNT || part == TIER_LAST_AT || part >= TIER_ROWS)
        return VALUE_UINT;
    if (value_is_text(type))
        return part == TIER_LAST ? type : VALUE_NONE;
    if (part == TIER_FIRST_AT)
        return VALUE_UINT;
    if (part == TIER_NANS)
        return type == VALUE_FLOAT ? VALUE_UINT : VALUE_NONE;
    return part == TIER_SUM ? VALUE_FLOAT : type;
}

bool tier_column_of(const struct field *field, enum tier_part part, struct field *out)
{
    if (part >= TIER_ROWS) {
        *out = (struct field){
            .name = SLICE_LIT(""), .unit = slice_str(row_names[part - TIER_ROWS]), .type = VALUE_UINT};
        return true;
    }
    uint8_t type = type_of_part(field->type, part);
    *out = (struct field){.name = field->name, .unit = slice_str(units[field->type][part]), .type = type};
    return type != VALUE_NONE;
}

enum tier_part tier_part_of(const struct field *column, uint8_t *type)
{
    struct slice unit = column->unit;
    for (size_t i = 0; i < sizeof row_names / sizeof *row_names; i++)
        if (slice_eq_str(unit, row_names[i]) && column->name.n == 0 && column->type == VALUE_UINT)
            return (enum tier_part)(TIER_ROWS + i);
    const char *colon = memchr(unit.p, ':', unit.n);
    size_t n = colon ? (size_t)(colon - unit.p) : 0;
    for (uint8_t t = VALUE_NONE + 1; colon && t < VALUE_TYPES; t++)
        for (int part = 0; part < TIER_FIELD_PARTS && slice_eq_str(slice_of(unit.p, n), value_type_name(t));
             part++)
            if (slice_eq_str(slice_from(unit, n + 1), part_names[part]) &&
                column->type == type_of_part(t, (enum tier_part)part)) {
                *type = t;
                return (enum tier_part)part;
            }
    return TIER_OTHER;
}

/* ---------------------------------------------------------------- a table that grows */

void tier_table_fini(struct tier_table *t)
{
    map_fini(&t->by_content);
    arena_fini(&t->arena);
    mem_free((void *)(uintptr_t)t->def.columns);
    t->def.columns = NULL;
    t->def.n_columns = t->max = 0;
}

/* The column's content as bytes: type, role, name, unit. */
static struct slice content_of(const struct field *c, char *to)
{
    to[0] = (char)c->type;
    to[1] = (char)c->name.n;
    memcpy(to + 2, c->name.p, c->name.n);
    memcpy(to + 2 + c->name.n, c->unit.p, c->unit.n);
    return slice_of(to, 2 + c->name.n + c->unit.n);
}

static int add_column(struct tier_table *t, const struct field *column, struct slice content)
{
    struct field *columns = (struct field *)(uintptr_t)t->def.columns;
    if (t->def.n_columns == ROWS_COLUMNS_MAX)
        return E_LIMIT;
    if (t->def.n_columns == t->max) {
        uint32_t max = t->max ? t->max * 2 : 64;
        columns = mem_try_resize(columns, max * sizeof *columns);
        if (!columns)
            return -ENOMEM;
        t->def.columns = columns;
        t->max = max;
    }
    struct field *new = &columns[t->def.n_columns];
    *new = (struct field){.name = arena_copy(&t->arena, column->name),
                          .unit = arena_copy(&t->arena, column->unit),
                          .help = SLICE_LIT(""),
                          .type = column->type,
                          .role = column->role,
                          .kind = column->kind};
    content = arena_copy(&t->arena, content);
    /* The map has numbers, from 1. */
    if (!new->name.p || !new->unit.p || !content.p ||
        map_put(&t->by_content, content, (void *)(uintptr_t)(t->def.n_columns + 1)) < 0)
        return -ENOMEM;
    t->def.n_columns++;
    return 0;
}

int tier_table_id(struct tier_table *t, const struct field *column, uint16_t *id)
{
    char bytes[2 + EVENT_NAME_MAX + EVENT_UNIT_MAX];
    if (column->name.n > EVENT_NAME_MAX || column->unit.n > EVENT_UNIT_MAX)
        return E_LIMIT;
    struct slice content = content_of(column, bytes);
    uintptr_t known = (uintptr_t)map_get(&t->by_content, content);
    if (!known) {
        int r = add_column(t, column, content);
        if (r < 0)
            return r;
        known = t->def.n_columns;
    }
    *id = (uint16_t)(known - 1);
    return 0;
}

/* ---------------------------------------------------------------- reading */

/* The slot of that field and type; UINT32_MAX: it is not asked. */
static uint32_t find_slot(struct tier_columns *t, const struct table_def *table, const uint16_t *ids, uint32_t n,
                          struct slice field, uint8_t type)
{
    uint32_t place = 0;
    while (place < n && !slice_eq(table->columns[ids[place]].name, field))
        place++;
    if (place == n)
        return UINT32_MAX;
    bool is_text = table->states ? table->states[ids[place]].class == CLASS_TEXT
                                 : value_is_text(table->columns[ids[place]].type);
    if (!is_text && value_is_text(type))
        return UINT32_MAX;
    for (uint32_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].place == place && t->slots[i].type == type)
            return i;
    t->slots[t->n_slots] = (struct tier_slot){place, type};
    return t->n_slots++;
}

static uint64_t hash_columns(const struct table_def *t)
{
    uint64_t h = t->n_columns;
    for (uint32_t i = 0; i < t->n_columns; i++)
        h = hash_seeded(t->columns[i].unit, hash_seeded(t->columns[i].name, h ^ t->columns[i].type));
    return h;
}

bool tier_columns_are_of(const struct tier_columns *t, const struct table_def *tier)
{
    return t->of && t->n == tier->n_columns && t->content == hash_columns(tier);
}

int tier_columns_init(struct tier_columns *t, const struct table_def *tier, const struct table_def *table,
                      const uint16_t *ids, uint32_t n_ids)
{
    struct tier_columns made = {.of = mem_try_alloc((tier->n_columns + 1) * sizeof *made.of),
                                .n = tier->n_columns,
                                .slots = mem_try_alloc((tier->n_columns + 1) * sizeof *made.slots),
                                .content = hash_columns(tier)};
    if (!made.of || !made.slots) {
        tier_columns_fini(&made);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < tier->n_columns; i++) {
        uint8_t type = 0;
        enum tier_part part = tier_part_of(&tier->columns[i], &type);
        uint32_t at = part < TIER_FIELD_PARTS ? find_slot(&made, table, ids, n_ids, tier->columns[i].name, type) : 0;
        if (at != UINT32_MAX && part < TIER_FIELD_PARTS && part != TIER_COUNT && !value_is_text(type) &&
            table->columns[ids[made.slots[at].place]].type == VALUE_TEXT)
            at = UINT32_MAX;
        made.of[i] = (struct tier_column){.part = at == UINT32_MAX ? TIER_OTHER : (uint8_t)part, .at = at};
    }
    *t = made;
    return 0;
}

void tier_columns_fini(struct tier_columns *t)
{
    mem_free(t->of);
    mem_free(t->slots);
    *t = (struct tier_columns){.of = NULL};
}

void tier_column_set(struct column_summary *to, enum tier_part part, const struct column_summary *of)
{
    switch (part) {
    case TIER_COUNT:
        to->count = (uint32_t)of->sum;
        break;
    case TIER_NANS:
        to->nans = (uint32_t)of->sum;
        break;
    case TIER_MIN:
        to->min = of->min;
        break;
    case TIER_MAX:
        to->max = of->max;
        break;
    case TIER_SUM:
        to->sum = of->sum;
        break;
    case TIER_FIRST:
        to->first = of->first;
        to->first_ns = of->first_ns;
        break;
    case TIER_LAST:
        to->last = of->last;
        to->last_ns = of->last_ns;
        break;
    default:
        break;
    }
}
