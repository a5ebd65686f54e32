/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/schemas.h"

#include "base/mem.h"

#include <stdlib.h>

struct holder {
    const struct schema *schema;
};

void schemas_fini(struct schemas *s)
{
    void *v;
    for (size_t i = 0; map_next(&s->seen, &i, &v);) {
        schema_unref(((struct holder *)v)->schema);
        mem_free(v);
    }
    map_fini(&s->seen);
    map_fini(&s->by_name);
    mem_free(s->names);
    *s = (struct schemas){0};
}

static void put(struct map *m, struct slice key, void *value)
{
    if (map_put(m, key, value) < 0)
        abort(); /* out of memory: as mem_alloc */
}

static void add_name(struct schemas *s, const struct field *f)
{
    if (map_get(&s->by_name, f->name))
        return;
    if (s->n_names == s->cap_names) {
        size_t cap = s->cap_names ? s->cap_names * 2 : 64;
        struct slice *names = mem_alloc(cap * sizeof *names);
        if (s->n_names)
            memcpy(names, s->names, s->n_names * sizeof *names);
        mem_free(s->names);
        s->names = names;
        s->cap_names = cap;
    }
    s->names[s->n_names++] = f->name;
    put(&s->by_name, f->name, s); /* any pointer but NULL */
}

void schemas_add_new(struct schemas *s, const struct schema *schema)
{
    s->last = schema;
    if (map_get(&s->seen, slice_of((const char *)&schema, sizeof schema)))
        return;
    struct holder *h = mem_alloc(sizeof *h);
    h->schema = schema_ref(schema);
    put(&s->seen, slice_of((const char *)&h->schema, sizeof h->schema), h);
    for (uint32_t i = 0; i < schema->n_fields; i++)
        add_name(s, &schema->fields[i]);
}
