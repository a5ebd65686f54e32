/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns and fields are looked up once for each schema version (a plan, found by the low bits of the
 * schema's hash; it holds a reference, so that the address stays this schema's) and the host once for each
 * run of one.
 *
 * Streams are in a map by their key and in a list by when they were last seen: the newest at the front, the
 * one to forget at the back. A stream keeps what was true when one of its events was given last. What
 * decides, so:
 *   - on_change compares a digest of the chosen fields, 128 bits of XXH3, and not the values: 65,536 streams
 * of texts of 64 KiB can't be kept. It is the sum of the fields' own digests, because two versions of a
 * schema may have them in another order. A number's digest does not depend on its type, and NaN has none:
 * 1, 1.0 and TRUE are the same value unless the field's class is text, NaN and missing are both none.
 *   - cross and delta compare as long double, which holds every number of the model.
 * Without memory for a new stream its event is judged as a first one and nothing is remembered. */
#include "event/select.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/select_internal.h"
#include "event/stream_key.h"

#include <errno.h>

enum {
    PLANS = 64,       /* schema versions remembered, a power of two */
    NUMBER_TYPES = 5, /* of one name a schema has at most an int, a uint, a float, a bool and a number as written */
    FIELD_ABSENT = 0xffff,
    KEYS_MAX = 16 << 20 /* bytes of all keys: a key field may be 64 KiB of text */
};

/* Where a schema version has the fields that matter. */
struct plan {
    const struct schema *schema;                       /* a reference; NULL = empty */
    bool is_wanted;                                    /* by its name */
    uint16_t cross[NUMBER_TYPES], delta[NUMBER_TYPES]; /* those there are first, then FIELD_ABSENT */
    uint16_t n_changes;
    uint16_t *changes;        /* of on_change, room for EVENT_FIELDS_MAX; NULL = not asked for */
    uint16_t *change_classes; /* of changes[i] */
};

struct digest {
    uint64_t low, high;
};

enum side { SIDE_UNKNOWN, SIDE_BELOW, SIDE_ABOVE };

/* What matters of an event, and of the one given last. */
struct state {
    int64_t time_ns;
    struct digest digest;
    long double number; /* delta's */
    enum side side;
};

struct stream {
    struct stream *newer, *older;
    struct state given;
    bool was_given; /* one of its events: given has a meaning. Its side has one in any case */
    size_t key_n;
    char key[];
};

struct selector {
    struct arena arena; /* of the options, and the plans' changes */
    struct select_options o;
    const struct class_source *classes;
    uint64_t generation; /* of classes, when the plans were made */
    bool is_all, remembers;

    char host[EVENT_ORIGIN_MAX]; /* of the last event looked at */
    size_t host_n;               /* SIZE_MAX: there was none */
    bool is_host_wanted;

    struct plan plans[PLANS];

    struct map streams;
    struct stream *newest, *oldest;
    size_t keys_bytes;
    struct strbuf key;
};

/* --- plans --- */

static void find_numbers(const struct schema *s, struct slice field, uint16_t at[NUMBER_TYPES])
{
    size_t n = 0;
    memset(at, 0xff, NUMBER_TYPES * sizeof *at); /* FIELD_ABSENT */
    for (uint32_t i = 0; field.n && i < s->n_fields; i++)
        if (s->fields[i].type != VALUE_TEXT && s->fields[i].type != VALUE_BYTES && slice_eq(s->fields[i].name, field))
            at[n++] = (uint16_t)i;
}

static bool is_chosen(const struct select_options *o, const struct field *f)
{
    if (o->is_any_change)
        return f->role == ROLE_VALUE;
    for (size_t i = 0; i < o->n_on_change; i++)
        if (slice_eq(o->on_change[i], f->name))
            return true;
    return false;
}

static struct plan *make_plan(struct selector *s, struct plan *p, const struct schema *schema)
{
    schema_unref(p->schema);
    p->schema = schema_ref(schema);
    p->is_wanted = text_glob_any(s->o.events, schema->name);
    find_numbers(schema, s->o.cross.field, p->cross);
    find_numbers(schema, s->o.delta.field, p->delta);
    p->n_changes = 0;
    for (uint32_t i = 0; p->changes && i < schema->n_fields; i++) {
        if (!is_chosen(&s->o, &schema->fields[i]))
            continue;
        p->change_classes[p->n_changes] = class_of(s->classes, schema, schema->fields[i].name);
        p->changes[p->n_changes++] = (uint16_t)i;
    }
    return p;
}

static inline const struct plan *find_plan(struct selector *s, const struct schema *schema)
{
    struct plan *p = &s->plans[schema->hash & (PLANS - 1)];
    return p->schema == schema ? p : make_plan(s, p, schema);
}

/* Plans made with classes that have changed are made again. */
static void renew_plans(struct selector *s)
{
    uint64_t generation = s->classes && s->plans[0].changes ? s->classes->generation(s->classes->arg) : 0;
    if (generation == s->generation)
        return;
    s->generation = generation;
    for (size_t i = 0; i < PLANS; i++) {
        schema_unref(s->plans[i].schema);
        s->plans[i].schema = NULL;
    }
}

/* --- values --- */

/* The event's number in one of those fields. false: it has none. */
static bool get_number(const struct event *e, const uint16_t at[NUMBER_TYPES], long double *out)
{
    for (size_t i = 0; i < NUMBER_TYPES && at[i] != FIELD_ABSENT; i++) {
        struct value v = value_number(e->values[at[i]]);
        if (v.type == VALUE_NONE)
            continue;
        if (v.type == VALUE_FLOAT)
            *out = v.f;
        else if (v.type == VALUE_INT)
            *out = v.i;
        else
            *out = v.u;
        return !isnan(*out);
    }
    return false;
}

/* A number with its field's name, the same for equal numbers of different types. Hashed: no padding. */
struct canonical {
    uint64_t name;
    uint64_t kind; /* 0 integer, not negative; 1 negative integer; 2 another number */
    uint64_t bits;
};

static void canonical_float(double f, struct canonical *out)
{
    if (f >= 0 && f < 0x1p64 && f == (double)(uint64_t)f) {
        out->bits = (uint64_t)f;
    } else if (f < 0 && f >= -0x1p63 && f == (double)(int64_t)f) {
        out->kind = 1;
        out->bits = (uint64_t)(int64_t)f;
    } else {
        out->kind = 2;
        memcpy(&out->bits, &f, sizeof f);
    }
}

static void digest_value(struct digest *d, struct slice name, const struct value *v)
{
    struct canonical c = {.name = hash_bytes(name)};
    XXH128_hash_t h;
    if (v->type == VALUE_FLOAT) {
        canonical_float(v->f, &c);
    } else {
        c.kind = v->type == VALUE_INT && v->i < 0;
        c.bits = v->u;
    }
    if (value_is_text(v->type))
        h = XXH3_128bits_withSeed(v->p, v->n, c.name + v->type);
    else
        h = XXH3_128bits(&c, sizeof c);
    d->low += h.low64;
    d->high += h.high64;
}

static struct digest digest_changes(const struct plan *p, const struct event *e)
{
    struct digest d = {0};
    for (size_t i = 0; i < p->n_changes; i++) {
        const struct value *raw = &e->values[p->changes[i]];
        uint8_t class = (uint8_t)p->change_classes[i];
        char buf[VALUE_SPELLING_MAX];
        struct value v = class_value(class == CLASS_UNKNOWN && raw->type == VALUE_NUMBER ? CLASS_NUMBER : class, *raw, buf);
        if (v.type != VALUE_NONE && !(v.type == VALUE_FLOAT && isnan(v.f)))
            digest_value(&d, p->schema->fields[p->changes[i]].name, &v);
    }
    return d;
}

/* --- streams --- */

static void unlink_stream(struct selector *s, struct stream *t)
{
    *(t->newer ? &t->newer->older : &s->newest) = t->older;
    *(t->older ? &t->older->newer : &s->oldest) = t->newer;
}

static void link_newest(struct selector *s, struct stream *t)
{
    t->newer = NULL;
    t->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = t;
    s->newest = t;
}

static void forget_oldest(struct selector *s)
{
    struct stream *t = s->oldest;
    (void)map_remove(&s->streams, slice_of(t->key, t->key_n)); /* it is t */
    unlink_stream(s, t);
    s->keys_bytes -= t->key_n;
    mem_free(t);
}

static struct stream *add_stream(struct selector *s, struct slice key)
{
    while (s->oldest && (s->streams.n >= SELECT_STREAMS_MAX || s->keys_bytes + key.n > KEYS_MAX))
        forget_oldest(s);
    struct stream *t = mem_try_alloc(sizeof *t + key.n);
    if (!t)
        return NULL;
    memcpy(t->key, key.p, key.n);
    t->key_n = key.n;
    if (map_put(&s->streams, slice_of(t->key, t->key_n), t) < 0) {
        mem_free(t);
        return NULL;
    }
    link_newest(s, t);
    s->keys_bytes += key.n;
    return t;
}

/* The event's, now the newest; NULL: no memory. */
static struct stream *find_stream(struct selector *s, const struct event *e)
{
    strbuf_reset(&s->key);
    stream_key_put(&s->key, e);
    if (strbuf_failed(&s->key))
        return NULL;
    struct stream *t = map_get(&s->streams, strbuf_slice(&s->key));
    if (!t)
        return add_stream(s, strbuf_slice(&s->key));
    if (t != s->newest) {
        unlink_stream(s, t);
        link_newest(s, t);
    }
    return t;
}

/* --- what is new --- */

/* Each says whether its option lets the event pass, and what is to be remembered if it is given. */

static bool is_crossing(const struct selector *s, const struct plan *p, const struct event *e,
                        struct stream *t, struct state *now)
{
    long double v;
    now->side = t->given.side;
    if (!get_number(e, p->cross, &v))
        return false;
    if (v >= s->o.cross.up)
        now->side = SIDE_ABOVE;
    else if (v < s->o.cross.down || t->given.side == SIDE_UNKNOWN)
        now->side = SIDE_BELOW;
    if (t->given.side == SIDE_UNKNOWN)
        t->given.side = now->side; /* the first says where the stream is, given or not */
    return now->side != t->given.side;
}

static bool has_changed(const struct plan *p, const struct event *e, const struct stream *t,
                        struct state *now)
{
    now->digest = digest_changes(p, e);
    return !t->was_given || now->digest.low != t->given.digest.low ||
           now->digest.high != t->given.digest.high;
}

static bool is_far(const struct selector *s, const struct plan *p, const struct event *e,
                   const struct stream *t, struct state *now)
{
    if (!get_number(e, p->delta, &now->number))
        return false;
    if (!t->was_given)
        return true;
    long double away = fabsl(now->number - t->given.number); /* Inf - Inf is NaN, and not away */
    long double least = s->o.delta.amount * (s->o.delta.is_relative ? fabsl(t->given.number) : 1);
    return away > 0 && away >= least;
}

/* Away in either direction: a clock that was far ahead and is set back does not silence the stream. */
static bool is_due(const struct selector *s, const struct event *e, const struct stream *t)
{
    int64_t a = e->time_ns, b = t->given.time_ns;
    uint64_t away = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return !t->was_given || away >= s->o.every_ns;
}

static bool is_new(struct selector *s, const struct plan *p, const struct event *e)
{
    struct stream nobody = {0};
    struct stream *t = find_stream(s, e);
    if (!t)
        t = &nobody;
    struct state now = {.time_ns = e->time_ns};
    if (s->o.cross.field.n && !is_crossing(s, p, e, t, &now))
        return false;
    if (p->changes && !has_changed(p, e, t, &now))
        return false;
    if (s->o.delta.field.n && !is_far(s, p, e, t, &now))
        return false;
    if (s->o.every_ns && !is_due(s, e, t))
        return false;
    t->given = now;
    t->was_given = true;
    return true;
}

/* --- the whole --- */

static bool look_at_host(struct selector *s, struct slice host)
{
    bool is_wanted = text_glob_any(s->o.hosts, host);
    if (host.n > sizeof s->host)
        return is_wanted; /* more than the model allows: not remembered */
    if (host.n)
        memcpy(s->host, host.p, host.n);
    s->host_n = host.n;
    s->is_host_wanted = is_wanted;
    return is_wanted;
}

static inline bool wants_host(struct selector *s, struct slice host)
{
    if (s->o.hosts.n == 0)
        return true;
    return slice_eq(host, slice_of(s->host, s->host_n)) ? s->is_host_wanted : look_at_host(s, host);
}

static inline bool passes(struct selector *s, const struct event *e)
{
    const struct plan *p = find_plan(s, e->schema);
    if (!p->is_wanted || !wants_host(s, e->host))
        return false;
    if (s->o.where && !predicate_test(s->o.where, e))
        return false;
    return !s->remembers || is_new(s, p, e);
}

/* As passes, of many: each question to all that are left. First the patterns, */
static size_t choose(struct selector *s, const struct event *events, size_t n, uint32_t *index)
{
    const bool is_any_host = s->o.hosts.n == 0;
    const struct schema *last = NULL;
    bool is_wanted = false;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (events[i].schema != last) {
            last = events[i].schema;
            is_wanted = find_plan(s, last)->is_wanted;
        }
        index[kept] = (uint32_t)i;
        kept += is_wanted && (is_any_host || wants_host(s, events[i].host));
    }
    return kept;
}

/* and last what is remembered, which only those change that get so far. */
static size_t keep_new(struct selector *s, const struct event *events, uint32_t *index, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = index[i];
        index[kept] = at;
        kept += is_new(s, find_plan(s, events[at].schema), &events[at]);
    }
    return kept;
}

static int give_plans_room(struct selector *s)
{
    if (!s->o.is_any_change && s->o.n_on_change == 0)
        return 0;
    uint16_t *room = arena_alloc(&s->arena, (size_t)PLANS * 2 * EVENT_FIELDS_MAX * sizeof *room);
    if (!room)
        return -ENOMEM;
    for (size_t i = 0; i < PLANS; i++) {
        s->plans[i].changes = room + 2 * i * EVENT_FIELDS_MAX;
        s->plans[i].change_classes = s->plans[i].changes + EVENT_FIELDS_MAX;
    }
    return 0;
}

int selector_create(const struct select_spec *spec, int64_t now_ns, struct selector **out, struct diag *why)
{
    struct selector *s = mem_try_alloc(sizeof *s);
    if (!s)
        return diag_set(why, -ENOMEM, 0, "there is no memory for a selection");
    s->host_n = SIZE_MAX;
    s->classes = spec->classes;
    int r = select_options_parse(spec, now_ns, &s->arena, &s->o, why);
    if (r == 0 && (r = give_plans_room(s)) < 0)
        (void)diag_set(why, r, 0, "on_change: there is no memory for it"); /* r is returned below */
    if (r < 0) {
        selector_destroy(s);
        return r;
    }
    if (s->o.where)
        predicate_use_classes(s->o.where, s->classes);
    s->remembers = s->plans[0].changes || s->o.cross.field.n || s->o.delta.field.n || s->o.every_ns;
    s->is_all = !s->remembers && !s->o.where && s->o.events.n == 0 && s->o.hosts.n == 0;
    *out = s;
    return 0;
}

void selector_destroy(struct selector *s)
{
    if (!s)
        return;
    while (s->oldest)
        forget_oldest(s);
    map_fini(&s->streams);
    strbuf_fini(&s->key);
    for (size_t i = 0; i < PLANS; i++)
        schema_unref(s->plans[i].schema);
    predicate_destroy(s->o.where);
    arena_fini(&s->arena);
    mem_free(s);
}

bool selector_is_all(const struct selector *s)
{
    return s->is_all;
}

bool selector_remembers(const struct selector *s)
{
    return s->remembers;
}

bool selector_wants_event(const struct selector *s, struct slice name)
{
    return text_glob_any(s->o.events, name);
}

bool selector_wants_host(const struct selector *s, struct slice host)
{
    return text_glob_any(s->o.hosts, host);
}

bool selector_notice(const struct selector *s, struct diag *why)
{
    struct slice rest = s->o.events;
    while (s->o.where && rest.n) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice name = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        if (predicate_notice(s->o.where, s->classes, name, why)) /* a pattern is no event's name: nothing is known of it */
            return true;
        rest = slice_from(rest, name.n + (comma ? 1 : 0));
    }
    return false;
}

bool selector_test(struct selector *s, const struct event *e)
{
    renew_plans(s);
    return s->is_all || passes(s, e);
}

size_t selector_run(struct selector *s, const struct event *events, size_t n, uint32_t *index)
{
    renew_plans(s);
    size_t passed = choose(s, events, n, index);
    if (s->o.where)
        passed = predicate_filter(s->o.where, events, index, passed);
    return s->remembers ? keep_new(s, events, index, passed) : passed;
}
