/* SPDX-License-Identifier: Apache-2.0 */
/* A schema is one allocation: the struct, the field array, first_of_name, then all text. */
#include "event/schema.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdatomic.h>

static int check_field(const struct field *f)
{
    if (!text_is_name(f->name) || f->type == VALUE_NONE || f->type >= VALUE_TYPES)
        return f->name.n > EVENT_NAME_MAX ? E_LIMIT : E_PROTO;
    if (f->role > ROLE_KEY || f->kind > KIND_TEXT || !text_is_utf8(f->unit) || !text_is_utf8(f->help))
        return E_PROTO;
    return f->unit.n > EVENT_UNIT_MAX || f->help.n > EVENT_HELP_MAX ? E_LIMIT : 0;
}

static bool field_same(const struct field *a, const struct field *b)
{
    return a->type == b->type && a->role == b->role && a->kind == b->kind && slice_eq(a->name, b->name) &&
           slice_eq(a->unit, b->unit) && slice_eq(a->help, b->help);
}

/* Every (name, type) once. Quadratic, but only up to 256 and only when a version is made. */
static int check_fields(const struct field *fields, size_t n, size_t *text)
{
    if (n > EVENT_FIELDS_MAX)
        return E_LIMIT;
    for (size_t i = 0; i < n; i++) {
        int r = check_field(&fields[i]);
        if (r < 0)
            return r;
        for (size_t k = 0; k < i; k++)
            if (fields[k].type == fields[i].type && slice_eq(fields[k].name, fields[i].name))
                return E_PROTO;
        *text += fields[i].name.n + fields[i].unit.n + fields[i].help.n;
    }
    return 0;
}

static struct slice place(char **at, struct slice s)
{
    struct slice copy = {*at, s.n};
    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return copy;
}

static uint64_t hash_schema(const struct schema *s)
{
    uint64_t h = hash_bytes(s->name);
    for (uint32_t i = 0; i < s->n_fields; i++) {
        const struct field *f = &s->fields[i];
        const char tags[] = {(char)f->type, (char)f->role, (char)f->kind};
        h = hash_seeded(f->name, h);
        h = hash_seeded(slice_of(tags, sizeof tags), h);
        h = hash_seeded(f->unit, h);
        h = hash_seeded(f->help, h);
    }
    return h;
}

/* Does no field name have two types? Fills first, one place a field. */
static bool find_names(const struct field *fields, size_t n, uint16_t *first)
{
    bool once = true;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (!slice_eq(fields[i].name, fields[k].name))
            k++;
        first[i] = (uint16_t)k;
        once = once && k == i;
    }
    return once;
}

static bool has_keys(const struct schema *s)
{
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (s->fields[i].role == ROLE_KEY)
            return true;
    return false;
}

int schema_create(struct slice name, const struct field *fields, size_t n, struct schema **out)
{
    size_t text = name.n;
    uint16_t first[EVENT_FIELDS_MAX];
    if (!text_is_name(name))
        return name.n > EVENT_NAME_MAX ? E_LIMIT : E_PROTO;
    int r = check_fields(fields, n, &text);
    if (r < 0)
        return r;
    bool once = find_names(fields, n, first);
    size_t first_size = once ? 0 : n * sizeof *first;
    struct schema *s = mem_try_alloc(sizeof *s + n * sizeof *fields + first_size + text);
    if (!s)
        return -ENOMEM;
    struct field *copy = (struct field *)(s + 1);
    char *at = (char *)(copy + n) + first_size;
    if (!once)
        s->first_of_name = memcpy(copy + n, first, first_size);
    s->name = place(&at, name);
    for (size_t i = 0; i < n; i++) {
        copy[i] = fields[i];
        copy[i].name = place(&at, fields[i].name);
        copy[i].unit = place(&at, fields[i].unit);
        copy[i].help = place(&at, fields[i].help);
    }
    s->fields = copy;
    s->n_fields = (uint32_t)n;
    s->hash = hash_schema(s);
    s->names_once = once;
    s->has_keys = has_keys(s);
    atomic_init(&s->refs, 1);
    *out = s;
    return 0;
}

struct schema *schema_ref(const struct schema *s)
{
    struct schema *counted = (struct schema *)s; /* the count is the one thing that changes */
    atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
    return counted;
}

void schema_unref(const struct schema *s)
{
    struct schema *counted = (struct schema *)s;
    if (counted && atomic_fetch_sub_explicit(&counted->refs, 1, memory_order_acq_rel) == 1)
        mem_free(counted);
}

int schema_find(const struct schema *s, struct slice name, uint8_t type)
{
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (s->fields[i].type == type && slice_eq(s->fields[i].name, name))
            return (int)i;
    return -1;
}

bool schema_same(const struct schema *a, const struct schema *b)
{
    if (a == b)
        return true;
    if (a->hash != b->hash || a->n_fields != b->n_fields || !slice_eq(a->name, b->name))
        return false;
    for (uint32_t i = 0; i < a->n_fields; i++)
        if (!field_same(&a->fields[i], &b->fields[i]))
            return false;
    return true;
}

struct registry {
    struct map by_hash;  /* hash (in the schema) -> struct schema, one reference each: the interned ones */
    struct map by_name;  /* name (of the schema) -> struct schema, one reference each */
    struct schema *last; /* the one asked for last; borrowed from by_name */
};

struct registry *registry_create(void)
{
    return mem_try_alloc(sizeof(struct registry));
}

static void forget_all(struct registry *r)
{
    struct map *maps[] = {&r->by_name, &r->by_hash};
    for (size_t k = 0; k < sizeof maps / sizeof *maps; k++) {
        void *s;
        for (size_t i = 0; map_next(maps[k], &i, &s);)
            schema_unref(s);
        map_fini(maps[k]);
    }
    r->last = NULL;
}

void registry_destroy(struct registry *r)
{
    if (!r)
        return;
    forget_all(r);
    mem_free(r);
}

/* Makes s current for its name; the reference passes to the registry, also on failure. */
static int adopt(struct registry *r, struct schema *s)
{
    if (r->by_name.n >= REGISTRY_NAMES_MAX && !map_get(&r->by_name, s->name))
        forget_all(r);
    struct schema *old = map_get(&r->by_name, s->name);
    int rc = map_put(&r->by_name, s->name, s);
    if (rc < 0) {
        schema_unref(s);
        return rc;
    }
    schema_unref(old);
    r->last = s;
    return 0;
}

static struct slice hash_key(const uint64_t *hash)
{
    return slice_of((const char *)hash, sizeof *hash);
}

const struct schema *registry_by_hash(const struct registry *r, uint64_t hash)
{
    return map_get(&r->by_hash, hash_key(&hash));
}

int registry_intern(struct registry *r, struct schema *s, const struct schema **out)
{
    const struct schema *known = registry_by_hash(r, s->hash);
    if (known && schema_same(known, s)) {
        schema_unref(s);
        *out = known;
        return 0;
    }
    if (r->by_hash.n >= REGISTRY_NAMES_MAX)
        forget_all(r);
    struct schema *other = map_remove(&r->by_hash, hash_key(&s->hash)); /* same hash, another content */
    schema_unref(other);
    int rc = map_put(&r->by_hash, hash_key(&s->hash), s);
    if (rc < 0) {
        schema_unref(s);
        return rc;
    }
    *out = s;
    return 0;
}

int registry_declare(struct registry *r, const struct schema *s)
{
    struct schema *old = map_get(&r->by_name, s->name);
    if (old && schema_same(old, s))
        return 0;
    return adopt(r, schema_ref(s));
}

static struct schema *current(struct registry *r, struct slice name)
{
    if (!r->last || !slice_eq(r->last->name, name))
        r->last = map_get(&r->by_name, name);
    return r->last;
}

/* Every value's place in s; how many are not there. Guesses that fields come in the schema's order. */
static size_t match(const struct schema *s, const struct named_value *values, size_t n, uint16_t *index)
{
    size_t missing = 0;
    int guess = 0;
    for (size_t i = 0; i < n; i++, guess++) {
        const struct field *f = guess < (int)s->n_fields ? &s->fields[guess] : NULL;
        if (!f || f->type != values[i].value.type || !slice_eq(f->name, values[i].name))
            guess = schema_find(s, values[i].name, values[i].value.type);
        index[i] = (uint16_t)guess;
        missing += guess < 0;
    }
    return missing;
}

/* True when a name comes twice in values, of which some may not be in a schema. */
static bool has_twice(const struct named_value *values, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (slice_eq(values[i].name, values[k].name))
                return true;
    return false;
}

/* Ascending indexes prove that no (name, type) came twice; a schema with every name once then proves it for
 * names, which is the common case. Otherwise compare them all. */
static bool strictly_ascending(const uint16_t *index, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (index[i] <= index[i - 1])
            return false;
    return true;
}

/* The same where all have a place in s: two landed on one place, or on two types of one name. */
static bool has_name_twice(const struct schema *s, const uint16_t *index, size_t n)
{
    uint64_t seen[EVENT_FIELDS_MAX / 64] = {0};
    for (size_t i = 0; i < n; i++) {
        unsigned name = s->names_once ? index[i] : s->first_of_name[index[i]];
        uint64_t bit = UINT64_C(1) << name % 64;
        if (seen[name / 64] & bit)
            return true;
        seen[name / 64] |= bit;
    }
    return false;
}

/* old's fields (none if old is NULL or full) and then those of values that it lacks. */
static int grow(const struct schema *old, struct slice name, const struct named_value *values, size_t n,
                size_t missing, struct schema **out)
{
    struct field fields[EVENT_FIELDS_MAX];
    bool keep = old && old->n_fields + missing <= EVENT_FIELDS_MAX;
    size_t count = keep ? old->n_fields : 0;
    if (count)
        memcpy(fields, old->fields, count * sizeof *fields);
    for (size_t i = 0; i < n; i++) {
        if (keep && schema_find(old, values[i].name, values[i].value.type) >= 0)
            continue;
        const uint8_t type = values[i].value.type;
        const bool is_text = type == VALUE_TEXT || type == VALUE_BYTES;
        fields[count++] =
            (struct field){.name = values[i].name, .type = type, .kind = is_text ? KIND_TEXT : KIND_UNKNOWN};
    }
    return schema_create(name, fields, count, out);
}

int registry_learn(struct registry *r, struct slice name, const struct named_value *values, size_t n,
                   const struct schema **out, uint16_t *index)
{
    struct schema *s = current(r, name);
    if (n > EVENT_FIELDS_MAX)
        return E_LIMIT;
    size_t missing = s ? match(s, values, n, index) : n;
    if (!s || missing) {
        if (has_twice(values, n))
            return E_PROTO;
        struct schema *grown;
        int rc = grow(s, name, values, n, missing, &grown);
        if (rc < 0)
            return rc;
        rc = adopt(r, grown);
        if (rc < 0)
            return rc;
        s = grown;
        (void)match(s, values, n, index); /* all there now */
    } else if ((!strictly_ascending(index, n) || !s->names_once) && has_name_twice(s, index, n)) {
        return E_PROTO;
    }
    *out = s;
    return 0;
}
