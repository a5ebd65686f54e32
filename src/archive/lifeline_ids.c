/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/lifeline_ids.h"

#include "base/num.h"
#include "base/text.h"
#include "event/stream_key.h"

#include <errno.h>

static struct slice trim(struct slice s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = slice_from(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* What is before the next c, and *rest gets what is behind it; n 0 and p NULL when there was no c. */
static struct slice cut(struct slice s, char c, struct slice *rest)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    *rest = at ? slice_from(s, (size_t)(at - s.p) + 1) : (struct slice){NULL, 0};
    return at ? slice_of(s.p, (size_t)(at - s.p)) : s;
}

static int add_field(struct id_set *s, struct slice name)
{
    for (size_t i = 0; i < s->n_fields; i++)
        if (slice_eq_str(name, s->fields[i]))
            return 0;
    char *z = arena_alloc(&s->arena, name.n + 1);
    if (!z)
        return -ENOMEM;
    memcpy(z, name.p, name.n);
    z[name.n] = '\0';
    s->fields[s->n_fields++] = z;
    return 0;
}

static int parse_one(struct id_set *s, struct slice text, uint32_t col, struct diag *why)
{
    struct slice pattern;
    struct slice names = trim(cut(text, '@', &pattern));
    if (s->n == ID_DECLARED_MAX)
        return diag_set(why, E_LIMIT, col, "more than %d ids are declared", ID_DECLARED_MAX);
    struct id_declared *d = &s->declared[s->n];
    *d = (struct id_declared){.name = names, .events = pattern.p ? trim(pattern) : SLICE_LIT("")};
    if (pattern.p && (d->events.n == 0 || !text_glob_is_closed(d->events)))
        return diag_set(why, E_PROTO, col, "behind the @ there must be a pattern of event names");
    for (struct slice rest = names; rest.p;) {
        struct slice field = cut(rest, '+', &rest);
        if (!text_is_name(field))
            return diag_set(why, E_PROTO, col, "'%.*s' is not the name of a field", SLICE_ARG(field));
        if (d->n_fields == ID_FIELDS_MAX)
            return diag_set(why, E_LIMIT, col, "an id has at most %d fields", ID_FIELDS_MAX);
        d->fields[d->n_fields++] = field;
        int r = add_field(s, field);
        if (r < 0)
            return r;
    }
    s->n++;
    return 0;
}

int id_set_parse(const char *text, struct id_set *out, struct diag *why)
{
    struct id_set s = {.n = 0};
    struct slice all = arena_copy(&s.arena, slice_str(text ? text : "id"));
    int r = all.p ? 0 : -ENOMEM;
    for (struct slice rest = all; r == 0 && rest.p;) {
        uint32_t col = (uint32_t)(rest.p - all.p) + 1;
        r = parse_one(&s, trim(cut(rest, ',', &rest)), col, why);
    }
    if (r < 0) {
        arena_fini(&s.arena);
        return r;
    }
    *out = s;
    return 0;
}

void id_set_fini(struct id_set *s)
{
    arena_fini(&s->arena);
    *s = (struct id_set){.n = 0};
}

static bool find_key(struct slice key, struct slice name, struct value *out)
{
    struct slice fields = stream_key_split(key).fields, field;
    struct value v;
    while (stream_key_next(&fields, &field, &v))
        if (slice_eq(field, name)) {
            *out = v;
            return true;
        }
    return false;
}

/* Columns of that name that these rows have. */
static bool find_columns(const struct table_def *table, const struct rows *rows, struct slice name,
                         const struct column *out[2])
{
    size_t n = 0;
    for (uint32_t i = 0; i < rows->n_columns && n < 2; i++)
        if (rows->columns[i].id < table->n_columns &&
            slice_eq(table->columns[rows->columns[i].id].name, name))
            out[n++] = &rows->columns[i];
    return n > 0;
}

static bool find_parts(const struct id_declared *d, const struct table_def *table, struct slice key,
                       const struct rows *rows, struct id_place *out)
{
    *out = (struct id_place){.declared = d};
    for (uint32_t i = 0; i < d->n_fields; i++)
        if (!find_columns(table, rows, d->fields[i], out->parts[i].columns) &&
            !find_key(key, d->fields[i], &out->parts[i].key))
            return false;
    return true;
}

size_t id_places(const struct id_set *s, const struct table_def *table, struct slice key,
                 const struct rows *rows, struct id_place out[ID_DECLARED_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct id_declared *d = &s->declared[i];
        uint32_t number = 0;
        while (!slice_eq(s->declared[number].name, d->name))
            number++;
        if (d->events.n && !text_glob(d->events, table->name))
            continue;
        bool is_there = false;
        for (size_t k = 0; k < n; k++)
            is_there |= out[k].number == number;
        if (is_there || !find_parts(d, table, key, rows, &out[n]))
            continue;
        out[n++].number = number;
    }
    return n;
}

static struct value part_value(const struct id_place *p, uint32_t part, uint32_t row)
{
    for (size_t i = 0; i < 2 && p->parts[part].columns[i]; i++)
        if (column_has(p->parts[part].columns[i], row))
            return column_value(p->parts[part].columns[i], row);
    return p->parts[part].key;
}

void id_put_value(struct strbuf *out, struct value v)
{
    char number[NUM_TEXT_MAX];
    switch (v.type) {
    case VALUE_INT:
        strbuf_add(out, number, num_print_int(number, v.i));
        break;
    case VALUE_UINT:
        strbuf_add(out, number, num_print_uint(number, v.u));
        break;
    case VALUE_FLOAT:
        strbuf_add(out, number, num_print_float(number, v.f));
        break;
    case VALUE_BOOL:
        strbuf_add_str(out, v.u ? "true" : "false");
        break;
    case VALUE_TEXT:
        strbuf_add_slice(out, value_slice(v));
        break;
    default:
        text_add_base64(out, value_slice(v));
    }
}

/* From place `at` on: a + or \ of a value is no separator. */
static void escape_from(struct strbuf *out, size_t at)
{
    for (size_t i = at; i < out->n; i++) {
        if (out->p[i] != '+' && out->p[i] != '\\')
            continue;
        if (!strbuf_room(out, 1))
            return; /* strbuf_failed says it */
        memmove(out->p + i + 1, out->p + i, out->n - i);
        out->p[i++] = '\\';
        strbuf_advance(out, 1);
    }
}

int id_text(const struct id_place *p, uint32_t row, struct strbuf *scratch, struct slice *out)
{
    struct value v = part_value(p, 0, row);
    if (p->declared->n_fields == 1 && v.type == VALUE_TEXT) {
        *out = value_slice(v);
        return v.n == 0 ? 0 : v.n <= ID_TEXT_MAX ? 1 : E_LIMIT;
    }
    strbuf_reset(scratch);
    for (uint32_t i = 0; i < p->declared->n_fields; i++) {
        v = part_value(p, i, row);
        if (v.type == VALUE_NONE)
            return 0;
        if (value_is_text(v.type) && v.n > ID_TEXT_MAX)
            return E_LIMIT;
        if (i)
            strbuf_add_char(scratch, '+');
        size_t at = scratch->n;
        id_put_value(scratch, v);
        if (p->declared->n_fields > 1)
            escape_from(scratch, at);
    }
    *out = strbuf_slice(scratch);
    return strbuf_failed(scratch) ? -ENOMEM : out->n <= ID_TEXT_MAX ? 1 : E_LIMIT;
}
