/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/fields.h"

#include "base/map.h"
#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- the table */

/* The type of the one column: bits of the types that are stored. */
static uint8_t field_type(uint8_t class, unsigned stored)
{
    unsigned numbers = stored & (1u << VALUE_INT | 1u << VALUE_UINT | 1u << VALUE_FLOAT | 1u << VALUE_BOOL);
    if (class == CLASS_TEXT)
        return stored == 1u << VALUE_BYTES ? VALUE_BYTES : VALUE_TEXT;
    /* Beside text, too, it is float: text of an old archive may spell fractions. */
    return numbers == stored && (numbers & (numbers - 1)) == 0 ? (uint8_t)__builtin_ctz(numbers) : VALUE_FLOAT;
}

const struct table_def *fields_of(const struct table_def *stored, const struct class_state *const *states,
                                  struct arena *arena)
{
    struct table_def *t = arena_alloc(arena, sizeof *t);
    struct field *columns = arena_alloc(arena, (stored->n_columns + 1) * sizeof *columns);
    struct class_state *classes = arena_alloc(arena, (stored->n_columns + 1) * sizeof *classes);
    unsigned *types = arena_alloc(arena, (stored->n_columns + 1) * sizeof *types);
    struct map by_name = {0};
    uint32_t n = 0;
    if (!t || !columns || !classes || !types)
        return NULL;
    for (uint32_t i = 0; i < stored->n_columns; i++) {
        const struct field *f = &stored->columns[i];
        uintptr_t at = (uintptr_t)map_get(&by_name, f->name);
        if (!at) {
            columns[n] = *f;
            classes[n] = *states[i];
            types[n] = 0;
            at = ++n;
            if (map_put(&by_name, f->name, (void *)at) < 0) {
                map_fini(&by_name);
                return NULL;
            }
        }
        types[at - 1] |= 1u << f->type;
        if (f->role == ROLE_KEY)
            columns[at - 1].role = ROLE_KEY;
    }
    map_fini(&by_name);
    for (uint32_t i = 0; i < n; i++)
        columns[i].type = field_type(classes[i].class, types[i]);
    *t = (struct table_def){.name = stored->name, .columns = columns, .n_columns = n, .states = classes};
    return t;
}

/* ---------------------------------------------------------------- the map */

/* Does the field have the stored column as it is? */
static bool is_plain(const struct field_map *m, const struct field *stored, uint16_t field)
{
    const struct field *f = &m->fields->columns[field];
    if (!m->fields->states)
        return true;
    if (f->type != stored->type)
        return false;
    return class_of_type(stored->type) == m->fields->states[field].class && stored->type != VALUE_NUMBER;
}

static uint16_t find_field(const struct field_map *m, const struct field *stored, uint16_t guess)
{
    const struct table_def *t = m->fields;
    for (uint32_t k = 0; k < t->n_columns; k++) {
        uint32_t i = (guess + k) % t->n_columns;
        if (slice_eq(t->columns[i].name, stored->name) && (t->states || t->columns[i].type == stored->type))
            return (uint16_t)i;
    }
    return FIELD_NONE;
}

int field_map_init(struct field_map *m, const struct table_def *fields, const struct table_def *stored, bool is_old,
                   struct arena *arena)
{
    *m = (struct field_map){.fields = fields, .stored = stored, .is_same = true, .is_old = is_old};
    m->field_of = arena_alloc(arena, (stored->n_columns + 1) * sizeof *m->field_of);
    m->next = arena_alloc(arena, (stored->n_columns + 1) * sizeof *m->next);
    m->first = arena_alloc(arena, (fields->n_columns + 1) * sizeof *m->first);
    if (!m->field_of || !m->next || !m->first)
        return -ENOMEM;
    memset(m->first, 0xff, (fields->n_columns + 1) * sizeof *m->first);
    for (uint32_t i = stored->n_columns; i-- > 0;) {
        uint16_t field = find_field(m, &stored->columns[i], (uint16_t)i);
        m->field_of[i] = field;
        m->next[i] = FIELD_NONE;
        if (field == FIELD_NONE) {
            m->is_same = false;
            continue;
        }
        m->next[i] = m->first[field];
        m->first[field] = (uint16_t)i;
        m->is_same = m->is_same && field == i && is_plain(m, &stored->columns[i], field);
    }
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static uint16_t base_of(const struct field_map *m, uint16_t id)
{
    uint32_t n = m->fields->n_columns;
    return id < n ? id : id < 2 * n ? (uint16_t)(id - n) : (uint16_t)FIELD_NONE;
}

size_t field_map_want(const struct field_map *m, const uint16_t *want, size_t n_want, uint16_t *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < n_want; i++) {
        uint16_t field = base_of(m, want[i]);
        for (uint16_t k = field == FIELD_NONE ? (uint16_t)FIELD_NONE : m->first[field]; k != FIELD_NONE;
             k = m->next[k])
            if (n < 2 * m->stored->n_columns) /* once for the field and once for its companion */
                out[n++] = k;
    }
    qsort(out, n, sizeof *out, compare_ids);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || out[i] != out[i - 1])
            out[kept++] = out[i];
    return kept;
}

/* ---------------------------------------------------------------- summaries */

/* What the summary of a stored column says of its field; count 0: it has no part in it. */
static struct column_summary summary_of(const struct field_map *m, uint16_t stored, const struct column_summary *s,
                                        bool *needs_rows)
{
    uint8_t type = m->stored->columns[stored].type;
    struct column_summary of = *s;
    if (!m->fields->states || type == m->fields->columns[m->field_of[stored]].type)
        return of;
    if (m->fields->states[m->field_of[stored]].class == CLASS_TEXT)
        return (struct column_summary){.count = s->count, .first_ns = s->first_ns, .last_ns = s->last_ns};
    if (type == VALUE_TEXT && m->is_old)
        *needs_rows = true;
    if (type == VALUE_TEXT || type == VALUE_BYTES)
        of.count = 0;
    return of;
}

int field_map_chunk(const struct field_map *m, const struct blob_chunk *c, struct arena *arena, struct blob_chunk *out,
                    bool *needs_rows)
{
    uint16_t *ids = arena_alloc(arena, (c->n_columns + 1) * sizeof *ids);
    struct column_summary *summaries = arena_alloc(arena, (c->n_columns + 1) * sizeof *summaries);
    uint32_t n = 0;
    *needs_rows = false;
    if (!ids || !summaries)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_columns; i++) {
        uint16_t id = m->field_of[c->ids[i]];
        bool is_open = false;
        if (id == FIELD_NONE)
            continue;
        struct column_summary s = summary_of(m, c->ids[i], &c->summaries[i], &is_open);
        *needs_rows |= is_open;
        if (s.count == 0 && !is_open)
            continue;
        if (m->fields->columns[id].type == VALUE_FLOAT)
            column_summary_to_float(&s);
        uint32_t at = n;
        while (at > 0 && ids[at - 1] > id)
            at--;
        if (at > 0 && ids[at - 1] == id) {
            column_summary_merge(&summaries[at - 1], &s);
            continue;
        }
        memmove(&ids[at + 1], &ids[at], (n - at) * sizeof *ids);
        memmove(&summaries[at + 1], &summaries[at], (n - at) * sizeof *summaries);
        ids[at] = id;
        summaries[at] = s;
        n++;
    }
    *out = *c;
    out->n_columns = n;
    out->ids = ids;
    out->summaries = summaries;
    return 0;
}

/* ---------------------------------------------------------------- rows */

/* Stored columns of one field that the rows have. */
struct sources {
    const struct column *columns[VALUE_TYPES];
    uint32_t n;
};

static struct sources find_sources(const struct field_map *m, const struct rows *in, uint16_t field)
{
    struct sources s = {.n = 0};
    for (uint32_t i = 0; i < in->n_columns; i++)
        if (m->field_of[in->columns[i].id] == field && s.n < VALUE_TYPES)
            s.columns[s.n++] = &in->columns[i];
    return s;
}

/* Text of an archive made before numbers as written had a type: one in a spelling that is not canonical was bare. */
static struct value old_number(struct value v)
{
    if (v.type != VALUE_TEXT || num_classify(value_slice(v)).is != NUM_NOT)
        return value_none();
    struct num num = num_written(value_slice(v));
    return num.is == NUM_FLOAT ? value_float(num.f) : value_none();
}

static double number_of(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
}

/* All sources as one column of floats. */
static int join_numbers(const struct field_map *m, const struct sources *s, uint32_t n, struct arena *arena,
                        struct column *out)
{
    size_t words = (n + 63) / 64;
    double *v = arena_alloc(arena, (n + 1) * sizeof *v);
    uint64_t *present = arena_alloc(arena, (words + 1) * sizeof *present);
    if (!v || !present)
        return -ENOMEM;
    memset(v, 0, n * sizeof *v);
    memset(present, 0, words * sizeof *present);
    for (uint32_t k = 0; k < s->n; k++) {
        const struct column *c = s->columns[k];
        for (uint32_t i = 0; i < n; i++) {
            struct value one = column_value(c, i);
            struct value number = c->type == VALUE_TEXT && m->is_old ? old_number(one) : value_number(one);
            if (number.type == VALUE_NONE)
                continue;
            v[i] = number_of(number);
            present[i >> 6] |= UINT64_C(1) << (i & 63);
        }
    }
    *out = (struct column){.type = VALUE_FLOAT, .f = v, .present = present};
    return 0;
}

/* All sources as one column of text. Bytes that stand beside text are base64. */
static int join_texts(const struct sources *s, uint32_t n, struct arena *arena, struct column *out)
{
    size_t words = (n + 63) / 64;
    uint32_t *ends = arena_alloc(arena, (n + 1) * sizeof *ends);
    uint64_t *present = arena_alloc(arena, (words + 1) * sizeof *present);
    struct strbuf bytes = {0};
    if (!ends || !present)
        return -ENOMEM;
    memset(present, 0, words * sizeof *present);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < s->n; k++) {
            char buf[VALUE_SPELLING_MAX];
            struct value v = column_value(s->columns[k], i);
            if (v.type == VALUE_NONE)
                continue;
            if (v.type == VALUE_BYTES)
                text_add_base64(&bytes, value_slice(v));
            else
                strbuf_add_slice(&bytes, value_spelling(&v, buf));
            present[i >> 6] |= UINT64_C(1) << (i & 63);
            break;
        }
        ends[i] = (uint32_t)bytes.n;
    }
    struct slice copy = strbuf_failed(&bytes) ? (struct slice){NULL, 0} : arena_copy(arena, strbuf_slice(&bytes));
    strbuf_fini(&bytes);
    if (!copy.p)
        return -ENOMEM;
    *out = (struct column){.type = VALUE_TEXT, .ends = ends, .bytes = copy.p, .present = present};
    return 0;
}

/* The one source as it is, where that is what is wanted. */
static bool takes_as_is(const struct field_map *m, const struct sources *s, uint8_t class, uint16_t field)
{
    uint8_t type = s->columns[0]->type, wanted = m->fields->columns[field].type;
    if (s->n != 1 || !m->fields->states)
        return !m->fields->states;
    if (class == CLASS_TEXT)
        return type == VALUE_TEXT || (type == VALUE_BYTES && wanted == VALUE_BYTES);
    if (value_is_text(type))
        return false;
    return type == wanted;
}

static bool has_values(const struct column *c, uint32_t n)
{
    for (uint32_t i = 0; c->present && i < (n + 63) / 64; i++)
        if (c->present[i])
            return true;
    return !c->present && n > 0;
}

/* 1: the column has values; 0: none. */
static int make_column(const struct field_map *m, const struct rows *in, uint16_t id, struct arena *arena,
                       struct column *out)
{
    uint16_t field = base_of(m, id);
    struct sources s = field == FIELD_NONE ? (struct sources){.n = 0} : find_sources(m, in, field);
    if (s.n == 0)
        return 0;
    uint8_t class = m->fields->states ? m->fields->states[field].class : CLASS_UNKNOWN;
    if (id != field)
        class = class == CLASS_NUMBER ? CLASS_TEXT : CLASS_NUMBER;
    int r = 0;
    if (takes_as_is(m, &s, class, field))
        *out = *s.columns[0];
    else
        r = class == CLASS_TEXT ? join_texts(&s, in->n, arena, out) : join_numbers(m, &s, in->n, arena, out);
    out->id = id;
    return r < 0 ? r : has_values(out, in->n);
}

int field_map_rows(const struct field_map *m, const struct rows *in, const uint16_t *want, size_t n_want,
                   struct arena *arena, struct rows *out)
{
    size_t n = want ? n_want : m->fields->n_columns;
    struct column *columns = arena_alloc(arena, (n + 1) * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    *out = *in;
    out->n_columns = 0;
    for (size_t i = 0; i < n; i++) {
        int r = make_column(m, in, want ? want[i] : (uint16_t)i, arena, &columns[out->n_columns]);
        if (r < 0)
            return r;
        out->n_columns += (uint32_t)r;
    }
    out->columns = columns;
    return 0;
}
