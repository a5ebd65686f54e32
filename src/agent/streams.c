/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/streams.h"

#include "base/mem.h"

#include <assert.h>

enum { SCHEMAS_MAX = 16 };

/* The streams of one schema. */
struct family {
    struct schema *schema;
    bool is_event;
    struct limit *limits;
    struct stream **all;
    size_t n, cap;
    size_t next; /* where the next row's stream probably is */
};

struct streams {
    const struct sensor_config *config; /* borrowed */
    struct family families[SCHEMAS_MAX];
    size_t n_families, n;
    int64_t now_ns, before_ns; /* of this round and the one before */
    int64_t forgot_at_ns;      /* when old ones were looked for */
    int64_t crowded_at_ns;     /* when there were too many: once a round */
};

static void value_drop(struct value *v)
{
    if (value_is_text(v->type))
        mem_free((void *)(uintptr_t)v->p);
    *v = value_none();
}

/* Text that is the same stays as it is: most text never changes. */
static void value_keep(struct value *to, struct value from)
{
    if (!value_is_text(from.type) && !value_is_text(to->type)) {
        *to = from;
        return;
    }
    if (value_eq(*to, from))
        return;
    value_drop(to);
    *to = from;
    if (value_is_text(from.type)) {
        char *copy = mem_alloc(from.n ? from.n : 1);
        memcpy(copy, from.p, from.n);
        to->p = copy;
    }
}

static void values_free(struct value *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++)
        value_drop(&values[i]);
    mem_free(values);
}

static void stream_free(struct stream *s)
{
    values_free(s->sent, s->schema->n_fields);
    values_free(s->sampled, s->schema->n_fields);
    mem_free(s);
}

static void family_init(struct family *f, const struct sensor_schema *d, const struct sensor_config *c)
{
    int r = schema_create(slice_str(d->name), d->fields, d->n_fields, &f->schema);
    assert(r == 0); /* declared in our own tables; a test creates them all */
    f->is_event = d->is_event;
    f->limits = mem_alloc(d->n_fields * sizeof *f->limits);
    limits_resolve(c->changes, c->n_changes, d, f->limits);
}

struct streams *streams_create(const struct sensor_config *c)
{
    struct streams *s = mem_alloc(sizeof *s);
    s->config = c;
    for (const struct sensor_schema *d = c->ops->schemas; d && d->name; d++) {
        assert(s->n_families < SCHEMAS_MAX);
        family_init(&s->families[s->n_families++], d, c);
    }
    return s;
}

void streams_destroy(struct streams *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_families; i++) {
        struct family *f = &s->families[i];
        for (size_t k = 0; k < f->n; k++)
            stream_free(f->all[k]);
        mem_free(f->all);
        mem_free(f->limits);
        schema_unref(f->schema);
    }
    mem_free(s);
}

void streams_configure(struct streams *s, const struct sensor_config *c)
{
    s->config = c;
    for (size_t i = 0; i < s->n_families; i++)
        limits_resolve(c->changes, c->n_changes, &c->ops->schemas[i], s->families[i].limits);
}

const struct schema *streams_schema(const struct streams *s, unsigned schema)
{
    return s->families[schema].schema;
}

size_t streams_count(const struct streams *s)
{
    return s->n;
}

static bool same_keys(const struct stream *s, const struct value *values)
{
    for (size_t i = 0; i < s->schema->n_fields; i++)
        if (s->schema->fields[i].role == ROLE_KEY && !value_eq(s->sent[i], values[i]))
            return false;
    return true;
}

/* Forgets those that were last seen before that. */
static void forget_older(struct streams *s, int64_t seen_ns)
{
    for (size_t i = 0; i < s->n_families; i++) {
        struct family *f = &s->families[i];
        size_t kept = 0;
        for (size_t k = 0; k < f->n; k++) {
            if (f->all[k]->seen_at_ns >= seen_ns)
                f->all[kept++] = f->all[k];
            else
                stream_free(f->all[k]);
        }
        s->n -= f->n - kept;
        f->n = kept;
        f->next = 0;
    }
}

static struct stream *add(struct streams *s, struct family *f, const struct value *values)
{
    if (s->n >= STREAMS_MAX && s->crowded_at_ns != s->now_ns) {
        s->crowded_at_ns = s->now_ns;
        forget_older(s, s->before_ns);
    }
    if (s->n >= STREAMS_MAX)
        return NULL;
    if (f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 4;
        struct stream **all = mem_try_resize(f->all, cap * sizeof *all);
        if (!all)
            return NULL;
        f->all = all;
        f->cap = cap;
    }
    struct stream *n = mem_alloc(sizeof *n);
    *n = (struct stream){.schema = f->schema, .is_event = f->is_event};
    n->sent = mem_alloc((f->schema->n_fields + 1u) * sizeof *n->sent);
    if (s->config->compares_previous)
        n->sampled = mem_alloc((f->schema->n_fields + 1u) * sizeof *n->sampled);
    for (size_t i = 0; i < f->schema->n_fields; i++)
        if (f->schema->fields[i].role == ROLE_KEY)
            value_keep(&n->sent[i], values[i]);
    f->all[f->n++] = n;
    s->n++;
    return n;
}

struct stream *streams_find(struct streams *s, unsigned schema, const struct value *values, int64_t now_ns)
{
    struct family *f = &s->families[schema];
    if (now_ns != s->now_ns) {
        s->before_ns = s->now_ns;
        s->now_ns = now_ns;
        int64_t after = 3 * s->config->every_ns > STREAM_FORGET ? 3 * s->config->every_ns : STREAM_FORGET;
        if (now_ns - s->forgot_at_ns > after) {
            s->forgot_at_ns = now_ns;
            forget_older(s, now_ns - after);
        }
    }
    struct stream *found = NULL;
    for (size_t i = 0; i < f->n && !found; i++) {
        size_t at = f->next + i < f->n ? f->next + i : f->next + i - f->n;
        if (same_keys(f->all[at], values)) {
            found = f->all[at];
            f->next = at + 1 < f->n ? at + 1 : 0;
        }
    }
    found = found ? found : add(s, f, values);
    if (found)
        found->seen_at_ns = now_ns;
    return found;
}

static void keep_values(struct value *to, const struct schema *schema, const struct value *values)
{
    for (size_t i = 0; i < schema->n_fields; i++)
        if (schema->fields[i].role == ROLE_VALUE)
            value_keep(&to[i], values[i]);
}

static bool is_worth_it(const struct streams *s, const struct stream *t, const struct value *values,
                        int64_t now_ns)
{
    const struct sensor_config *c = s->config;
    const struct family *f = s->families;
    while (f->schema != t->schema)
        f++;
    if (t->is_event || t->sent_at_ns == 0)
        return true;
    /* Half a period of grace: a round is never exactly on time, and being early is better than a period late.
     */
    if (now_ns - t->sent_at_ns >= c->refresh_ns - c->every_ns / 2)
        return true;
    return limits_passed(f->limits, t->schema, t->sampled ? t->sampled : t->sent, values);
}

bool streams_take(struct streams *s, struct stream *t, const struct value *values, int64_t now_ns)
{
    bool is_sent = is_worth_it(s, t, values, now_ns);
    if (t->sampled)
        keep_values(t->sampled, t->schema, values);
    if (!is_sent)
        return false;
    t->sent_at_ns = now_ns;
    if (!t->is_event)
        keep_values(t->sent, t->schema, values);
    return true;
}

void streams_renew(struct streams *s)
{
    for (size_t i = 0; i < s->n_families; i++)
        for (size_t k = 0; k < s->families[i].n; k++)
            s->families[i].all[k]->sent_at_ns = 0;
}
