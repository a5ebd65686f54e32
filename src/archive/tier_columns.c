/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tier_columns.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

static const char *const part_names[TIER_PARTS] = {"count", "nans", "min", "max", "sum", "first", "last"};

void tier_column_name(struct strbuf *out, struct slice field, uint8_t type, enum tier_part part)
{
    strbuf_add_slice(out, field);
    strbuf_printf(out, ":%s:%s", value_type_name(type), part_names[part]);
}

uint8_t tier_column_type(uint8_t type, enum tier_part part)
{
    if (part == TIER_COUNT)
        return VALUE_UINT;
    if (value_is_text(type))
        return part == TIER_LAST ? type : VALUE_NONE;
    if (part == TIER_NANS)
        return type == VALUE_FLOAT ? VALUE_UINT : VALUE_NONE;
    return part == TIER_SUM ? VALUE_FLOAT : type;
}

/* What is behind the last ':' of *s, which is cut off; "" if there is none. */
static struct slice cut_word(struct slice *s)
{
    for (size_t i = s->n; i-- > 0;)
        if (s->p[i] == ':') {
            struct slice word = slice_from(*s, i + 1);
            s->n = i;
            return word;
        }
    return SLICE_LIT("");
}

enum tier_part tier_column_parse(struct slice name, struct slice *field, uint8_t *type)
{
    if (slice_eq_str(name, "rows"))
        return TIER_ROWS;
    struct slice part = cut_word(&name), type_name = cut_word(&name);
    enum tier_part p = TIER_COUNT;
    while (p < TIER_PARTS && !slice_eq_str(part, part_names[p]))
        p++;
    uint8_t t = VALUE_NONE + 1;
    while (t < VALUE_TYPES && !slice_eq_str(type_name, value_type_name(t)))
        t++;
    if (p == TIER_PARTS || t == VALUE_TYPES || tier_column_type(t, p) == VALUE_NONE)
        return TIER_OTHER;
    *field = name;
    *type = t;
    return p;
}

static uint32_t find_id(const struct table_def *table, const uint16_t *ids, uint32_t n, struct slice field,
                        uint8_t type)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct field *f = &table->columns[ids[i]];
        if (f->type == type && slice_eq(f->name, field))
            return i;
    }
    return n;
}

static uint64_t hash_names(const struct table_def *t)
{
    uint64_t h = t->n_columns;
    for (uint32_t i = 0; i < t->n_columns; i++)
        h = hash_seeded(t->columns[i].name, h);
    return h;
}

bool tier_columns_are_of(const struct tier_columns *t, const struct table_def *tier)
{
    return t->of && t->n == tier->n_columns && t->names == hash_names(tier);
}

int tier_columns_init(struct tier_columns *t, const struct table_def *tier, const struct table_def *table,
                      const uint16_t *ids, uint32_t n_ids)
{
    struct tier_column *of = mem_try_alloc((tier->n_columns + 1) * sizeof *of);
    if (!of)
        return -ENOMEM;
    for (uint32_t i = 0; i < tier->n_columns; i++) {
        struct slice field = {NULL, 0};
        uint8_t type = 0;
        enum tier_part part = tier_column_parse(tier->columns[i].name, &field, &type);
        uint32_t at = part < TIER_PARTS ? find_id(table, ids, n_ids, field, type) : 0;
        bool is_ours = part == TIER_ROWS || (part < TIER_PARTS && at < n_ids);
        of[i] = (struct tier_column){.part = is_ours ? (uint8_t)part : TIER_OTHER, .at = at};
    }
    *t = (struct tier_columns){of, tier->n_columns, hash_names(tier)};
    return 0;
}

void tier_columns_fini(struct tier_columns *t)
{
    mem_free(t->of);
    *t = (struct tier_columns){NULL, 0, 0};
}

void tier_column_set(struct column_summary *to, enum tier_part part, const struct column_summary *of,
                     int64_t step_ns)
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
        to->last_ns = of->last_ns + step_ns - 1;
        break;
    default:
        break;
    }
}
