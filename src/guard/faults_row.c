/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: what a query gave, as texts, key columns first. All rows of a query have the same columns, so their
 * names are kept once (struct shape) and each row has only its values. */
#include "base/mem.h"
#include "base/num.h"
#include "guard/faults_internal.h"

#include <assert.h>
#include <errno.h>

/* names and order have n of each, copied. */
static int shape_create(const struct slice *names, const uint16_t *order, size_t n, size_t n_key, size_t n_in,
                        struct shape **out)
{
    size_t head = sizeof(struct shape) + n * sizeof *names, bytes = head + n * sizeof *order;
    for (size_t i = 0; i < n; i++)
        bytes += names[i].n;
    struct shape *s = mem_try_alloc(bytes);
    if (!s)
        return -ENOMEM;
    uint16_t *to_order = (uint16_t *)((char *)s + head);
    char *to = (char *)(to_order + n);
    for (size_t i = 0; i < n; i++) {
        if (names[i].n)
            memcpy(to, names[i].p, names[i].n);
        s->names[i] = slice_of(to, names[i].n);
        to_order[i] = order[i];
        to += names[i].n;
    }
    s->refs = 1;
    s->n = n;
    s->n_key = n_key;
    s->n_in = n_in;
    s->order = to_order;
    *out = s;
    return 0;
}

void shape_unref(struct shape *s)
{
    if (s && --s->refs == 0)
        mem_free(s);
}

static bool find_column(const struct slice *names, size_t n, struct slice name, uint16_t *out)
{
    for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
        if (!slice_eq_nocase(names[i], name))
            continue;
        *out = (uint16_t)i;
        return true;
    }
    return false;
}

static bool has_place(const uint16_t *order, size_t n, size_t place)
{
    for (size_t i = 0; i < n; i++)
        if (order[i] == place)
            return true;
    return false;
}

/* Key columns have the names that the rule gives them, whatever their case in the query: they are in ids. */
int shape_of_query(const struct rule_config *rule, const struct slice *in, size_t n_in, struct shape **out,
                   struct diag *why)
{
    struct slice names[FAULT_FIELDS_MAX];
    uint16_t order[FAULT_FIELDS_MAX];
    size_t n = 0;
    assert(rule->key.n <= RULE_KEY_MAX);
    for (size_t i = 0; i < rule->key.n; i++) {
        names[n] = slice_str(rule->key.v[i]);
        if (!find_column(in, n_in, names[n], &order[n]))
            return diag_set(why, E_NODATA, 0, "the key's column `%s` is not in the rows", rule->key.v[i]);
        n++;
    }
    if (!rule->key.n && find_column(in, n_in, SLICE_LIT("host"), &order[0]))
        names[n++] = SLICE_LIT("host");
    size_t n_key = n;
    for (size_t i = 0; i < n_in && i < UINT16_MAX && n < FAULT_FIELDS_MAX; i++) {
        if (has_place(order, n_key, i))
            continue;
        names[n] = in[i];
        order[n++] = (uint16_t)i;
    }
    return shape_create(names, order, n, n_key, n_in, out);
}

bool shape_is_of_query(const struct shape *s, const struct slice *names, size_t n)
{
    if (s->n_in != n)
        return false;
    for (size_t i = 0; i < s->n_key; i++)
        if (!slice_eq_nocase(s->names[i], names[s->order[i]]))
            return false;
    for (size_t i = s->n_key; i < s->n; i++)
        if (!slice_eq(s->names[i], names[s->order[i]]))
            return false;
    return true;
}

int shape_of_fields(const struct scratch *scratch, struct shape **out)
{
    struct slice names[FAULT_FIELDS_MAX];
    uint16_t order[FAULT_FIELDS_MAX];
    for (size_t i = 0; i < scratch->n; i++) {
        names[i] = scratch->fields[i].name;
        order[i] = (uint16_t)i;
    }
    return shape_create(names, order, scratch->n, scratch->n_key, scratch->n, out);
}

bool shape_is_of_fields(const struct shape *s, const struct scratch *scratch)
{
    if (s->n != scratch->n || s->n_key != scratch->n_key)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (!slice_eq(s->names[i], scratch->fields[i].name))
            return false;
    return true;
}

static size_t print_value(char *to, struct value v)
{
    switch (v.type) {
    case VALUE_INT:
        return num_print_int(to, v.i);
    case VALUE_UINT:
    case VALUE_BOOL:
        return num_print_uint(to, v.u);
    case VALUE_FLOAT:
        return num_print_float(to, v.f);
    default:
        return 0;
    }
}

/* The value as text: of a number in *to, which is moved on. */
static struct slice as_text(char **to, struct value v)
{
    if (value_is_text(v.type))
        return value_slice(v);
    struct slice text = {*to, print_value(*to, v)};
    *to += text.n;
    return text;
}

/* Cuts between characters of UTF-8. */
static struct slice cut(struct slice text, size_t max)
{
    if (text.n <= max)
        return text;
    while (max > 0 && ((unsigned char)text.p[max] & 0xc0) == 0x80)
        max--;
    return slice_of(text.p, max);
}

int row_scan(struct faults *fs, const struct shape *shape, const struct value *values)
{
    struct scratch *s = &fs->scratch;
    char *to = fs->values.p;
    s->n = s->bytes = 0;
    s->n_key = shape->n_key;
    for (size_t i = 0; i < shape->n; i++) {
        struct value v = values[shape->order[i]];
        if (i >= shape->n_key && v.type == VALUE_NONE)
            continue;
        struct slice text = as_text(&to, v), kept = cut(text, FAULT_ROW_BYTES - s->bytes);
        if (i < shape->n_key && kept.n < text.n)
            return E_LIMIT;
        s->fields[s->n++] = (struct act_datum){shape->names[i], kept};
        s->bytes += kept.n;
    }
    return 0;
}

/* Fields of scratch are those of the shape, in its order, but for some that are NULL. */
static void fill(struct row *r, const struct shape *shape, const struct scratch *s)
{
    char *to = (char *)&r->fields[s->n];
    for (size_t i = 0, at = 0; i < s->n; i++, at++) {
        while (!slice_eq(shape->names[at], s->fields[i].name))
            at++;
        struct slice value = s->fields[i].value;
        if (value.n)
            memcpy(to, value.p, value.n);
        r->fields[i] = (struct act_datum){shape->names[at], slice_of(to, value.n)};
        to += value.n;
    }
    r->n = s->n;
}

size_t row_bytes(const struct scratch *s)
{
    return sizeof(struct row) + s->n * sizeof(struct act_datum) + s->bytes;
}

int row_keep(struct faults *fs, struct shape *shape, struct row **row)
{
    const struct scratch *s = &fs->scratch;
    size_t bytes = row_bytes(s);
    struct row *old = *row, *r = old;
    if (!old || bytes > old->bytes) {
        if (old && fs->bytes + bytes - old->bytes > fs->bytes_max)
            return E_LIMIT;
        if (!(r = mem_try_alloc(bytes)))
            return -ENOMEM;
        r->bytes = bytes;
        fs->bytes += bytes;
    }
    shape->refs++;
    fill(r, shape, s);
    if (r == old)
        shape_unref(r->shape);
    else
        row_destroy(fs, old);
    r->shape = shape;
    *row = r;
    return 0;
}

void row_destroy(struct faults *fs, struct row *r)
{
    if (!r)
        return;
    fs->bytes -= r->bytes;
    shape_unref(r->shape);
    mem_free(r);
}
