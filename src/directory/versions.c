/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of schemas: those that events came with, and those that sensors announced by their hash. A
 * version is known by its hash, which covers everything in it. One that no host makes any more goes after
 * `keep`, or when its name has too many. */
#include "base/mem.h"
#include "directory/internal.h"

#include <stdlib.h>

enum { SWEEP_VERSIONS = 256 }; /* looked at a tick */

static struct slice hash_key(const uint64_t *hash)
{
    return slice_of((const char *)hash, sizeof *hash);
}

static void describe(const struct version *v, struct directory_schema *out)
{
    *out = (struct directory_schema){.id = v->id,
                                     .event = name_slice(v->of->name),
                                     .hash = v->hash,
                                     .schema = v->schema,
                                     .makers = v->makers,
                                     .events = v->events,
                                     .first_ns = v->first_ns,
                                     .last_ns = v->last_ns,
                                     .conflict = name_slice(v->of->conflict)};
}

static void tell(const struct directory *d, const struct version *v, enum directory_change change)
{
    struct directory_schema view;
    describe(v, &view);
    for (size_t i = 0; i < d->n_observers; i++)
        if (d->observers[i].ops->on_schema)
            d->observers[i].ops->on_schema(d->observers[i].arg, &view, change);
}

/* ---------------------------------------------------------------- fields of two types */

static int by_name(const void *a, const void *b)
{
    const struct field *x = *(const struct field *const *)a, *y = *(const struct field *const *)b;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int order = memcmp(x->name.p, y->name.p, n);
    return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

/* All fields of all versions, side by side where they have the same name. */
static size_t collect(const struct event_name *e, const struct field **out)
{
    size_t n = 0;
    for (const struct version *v = e->first; v; v = v->next_of_name)
        for (uint32_t i = 0; v->schema && i < v->schema->n_fields; i++) {
            if (out)
                out[n] = &v->schema->fields[i];
            n++;
        }
    return n;
}

static void print_conflicts(struct strbuf *out, const struct field *const *fields, size_t n)
{
    const struct field *last = NULL; /* the one that was printed */
    for (size_t i = 1; i < n; i++) {
        bool is_same = slice_eq(fields[i - 1]->name, fields[i]->name);
        if (!is_same || fields[i - 1]->type == fields[i]->type ||
            (last && slice_eq(last->name, fields[i]->name)))
            continue;
        if (out->n + fields[i]->name.n + 1 > DIRECTORY_TEXT_MAX)
            return; /* that there is a conflict is plain */
        if (out->n)
            strbuf_add_char(out, ',');
        strbuf_add_slice(out, fields[i]->name);
        last = fields[i];
    }
}

/* Which fields of the name have two types. Without memory it stays as it was. */
static void find_conflicts(struct directory *d, struct event_name *e)
{
    size_t n = collect(e, NULL);
    const struct field **fields = mem_try_alloc((n + 1) * sizeof *fields);
    if (!fields)
        return;
    (void)collect(e, fields); /* n */
    qsort(fields, n, sizeof *fields, by_name);
    strbuf_reset(&d->text);
    print_conflicts(&d->text, fields, n);
    struct name *conflict = strbuf_failed(&d->text) ? NULL : names_get(&d->names, strbuf_slice(&d->text));
    if (conflict || d->text.n == 0)
        (void)directory_swap_name(d, &e->conflict, conflict);
    mem_free(fields);
}

/* ---------------------------------------------------------------- coming and going */

static void forget_name(struct directory *d, struct event_name *e)
{
    if (e->n)
        return;
    (void)map_remove(&d->by_event, name_slice(e->name)); /* it is e itself */
    names_unref(&d->names, e->conflict);
    names_unref(&d->names, e->name);
    mem_free(e);
}

/* The place of the first version whose id is above that. */
static size_t place_behind(const struct directory *d, uint64_t id)
{
    size_t low = 0, high = d->counts.schemas;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->versions[middle]->id > id)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void take_out(struct directory *d, struct version *v)
{
    struct event_name *e = v->of;
    struct version **at = &e->first;
    size_t place = place_behind(d, v->id); /* of the next */
    while (*at != v)
        at = &(*at)->next_of_name;
    *at = v->next_of_name;
    e->n--;
    (void)map_remove(&d->by_hash, hash_key(&v->hash)); /* it is v itself */
    for (size_t i = 0; i < DIRECTORY_RECENT; i++)
        if (d->recent[i] == v)
            d->recent[i] = NULL;
    memmove(d->versions + place - 1, d->versions + place, (d->counts.schemas - place) * sizeof *d->versions);
    d->counts.schemas--;
}

static void forget(struct directory *d, struct version *v)
{
    struct event_name *e = v->of;
    tell(d, v, DIRECTORY_GONE);
    while (v->mades)
        versions_link(NULL, v->mades);
    take_out(d, v);
    schema_unref(v->schema);
    mem_free(v);
    if (e->n)
        find_conflicts(d, e);
    forget_name(d, e);
}

static struct event_name *name_of(struct directory *d, struct slice event)
{
    struct event_name *e = map_get(&d->by_event, event);
    if (e)
        return e;
    e = mem_try_alloc(sizeof *e);
    if (!e)
        return NULL;
    e->name = names_get(&d->names, event);
    if (!e->name || map_put(&d->by_event, name_slice(e->name), e) < 0) {
        names_unref(&d->names, e->name);
        mem_free(e);
        return NULL;
    }
    return e;
}

/* The one of the name that nobody makes and that was seen least lately. */
static struct version *find_unused(const struct event_name *e)
{
    struct version *oldest = NULL;
    for (struct version *v = e->first; v; v = v->next_of_name)
        if (!v->mades && (!oldest || v->last_ns < oldest->last_ns))
            oldest = v;
    return oldest;
}

static bool make_room(struct directory *d, const struct event_name *e)
{
    if (d->counts.schemas >= DIRECTORY_SCHEMAS_MAX)
        return false;
    if (e->n < DIRECTORY_VERSIONS_MAX)
        return true;
    struct version *unused = find_unused(e);
    if (unused)
        forget(d, unused); /* e has others */
    return unused != NULL;
}

static bool reserve(struct directory *d)
{
    if (d->counts.schemas < d->cap_versions)
        return true;
    size_t cap = d->cap_versions ? d->cap_versions * 2 : 64;
    struct version **versions = mem_try_resize(d->versions, cap * sizeof *versions);
    if (!versions)
        return false;
    d->versions = versions;
    d->cap_versions = cap;
    return true;
}

static struct version *add(struct directory *d, struct event_name *e, uint64_t hash)
{
    struct version *v = make_room(d, e) && reserve(d) ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return NULL;
    v->hash = hash;
    if (map_put(&d->by_hash, hash_key(&v->hash), v) < 0) {
        mem_free(v);
        return NULL;
    }
    v->of = e;
    v->id = ++d->last_version;
    v->next_of_name = e->first;
    e->first = v;
    e->n++;
    d->versions[d->counts.schemas++] = v;
    return v;
}

struct version *versions_see(struct directory *d, struct slice event, uint64_t hash,
                             const struct schema *schema, int64_t utc_ns)
{
    struct version *v = map_get(&d->by_hash, hash_key(&hash));
    bool is_new = !v;
    if (!v) {
        struct event_name *e = name_of(d, event);
        v = e ? add(d, e, hash) : NULL;
        if (e && !v)
            forget_name(d, e);
        if (!v) {
            d->counts.refused_schemas++;
            return NULL;
        }
        v->first_ns = utc_ns;
    }
    v->last_ns = utc_ns;
    bool is_filled = schema && !v->schema;
    if (is_filled) {
        v->schema = schema_ref(schema);
        find_conflicts(d, v->of);
    }
    if (is_new || is_filled)
        tell(d, v, is_new ? DIRECTORY_ADDED : DIRECTORY_CHANGED);
    return v;
}

/* A version holds its schema, so that no other one can have its address. */
struct version *versions_of(struct directory *d, const struct schema *schema, int64_t utc_ns)
{
    uintptr_t address = (uintptr_t)schema;
    struct version **place = &d->recent[(address >> 5 ^ address >> 13) % DIRECTORY_RECENT];
    if (*place && (*place)->schema == schema)
        return *place;
    struct version *v = versions_see(d, schema->name, schema->hash, schema, utc_ns);
    if (v && v->schema == schema)
        *place = v;
    return v;
}

void versions_link(struct version *v, struct made *m)
{
    if (m->version == v)
        return;
    if (m->version) {
        m->version->makers--;
        *m->version_at = m->next_of_version;
        if (m->next_of_version)
            m->next_of_version->version_at = m->version_at;
    }
    m->version = v;
    m->next_of_version = NULL;
    if (!v)
        return;
    v->makers++;
    m->version_at = &v->mades;
    m->next_of_version = v->mades;
    if (v->mades)
        v->mades->version_at = &m->next_of_version;
    v->mades = m;
}

void versions_tick(struct directory *d, int64_t utc_ns)
{
    for (size_t i = 0; i < SWEEP_VERSIONS && i < d->counts.schemas; i++) {
        d->swept_version = d->swept_version < d->counts.schemas ? d->swept_version : 0;
        struct version *v = d->versions[d->swept_version];
        if (!v->mades && utc_ns - v->last_ns > d->keep_ns)
            forget(d, v); /* the next has its place now */
        else
            d->swept_version++;
    }
}

void versions_fini(struct directory *d)
{
    while (d->counts.schemas) {
        struct version *v = d->versions[d->counts.schemas - 1];
        struct event_name *e = v->of;
        take_out(d, v);
        schema_unref(v->schema);
        mem_free(v);
        forget_name(d, e);
    }
    mem_free(d->versions);
    map_fini(&d->by_event);
    map_fini(&d->by_hash);
}

/* ---------------------------------------------------------------- reading */

bool directory_next_schema(const struct directory *d, uint64_t *id, struct directory_schema *out)
{
    size_t place = place_behind(d, *id);
    if (place == d->counts.schemas)
        return false;
    *id = d->versions[place]->id;
    describe(d->versions[place], out);
    return true;
}

void directory_schema_makers(const struct directory *d, uint64_t id, bool (*fn)(void *arg, struct slice host),
                             void *arg)
{
    size_t place = place_behind(d, id);
    const struct version *v = place ? d->versions[place - 1] : NULL;
    for (const struct made *m = v && v->id == id ? v->mades : NULL; m; m = m->next_of_version)
        if (!fn(arg, name_slice(m->host->name)))
            return;
}
