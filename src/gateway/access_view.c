/* SPDX-License-Identifier: Apache-2.0 */
/* A view has the rules that are about its identity and action, in order, up to the first that fits
 * everything, and those that only hide. Whether a rule fits an event depends on its host, its name and, if
 * there are rules about targets, its target. Remembered are: of the host that came last, which rules are of
 * it (events come in runs of one host, whatever their names); of each schema, which rules are of its name,
 * and for each rule that has allowed one, and set of those that only hide, the places of the fields that are
 * hidden. So patterns are matched again only when the host changes, and those of targets. About 0.1 us an
 * event of 20 fields, also if each is of another host.
 *
 * The schemas remembered are referenced, or another one might have the address of one that is gone; past
 * SCHEMAS_MAX all are forgotten. Without memory for that the answer is worked out each time: never another
 * one. */
#include "gateway/access.h"

#include "base/map.h"
#include "base/mem.h"
#include "event/limits.h"
#include "gateway/access_internal.h"

#include <errno.h>
#include <string.h>

enum {
    SCHEMAS_MAX = 1024,
    HIDDEN_MAX = 32, /* of a schema; past that they are forgotten, too */
    HIDING_MAX = 64  /* rules that only hide; of more nothing is remembered */
};

/* The fields of a schema that are hidden when that rule allows and those rules hide, too. */
struct hidden {
    struct hidden *next;
    const struct rule *by;
    uint64_t hiding; /* bits of view->hiding */
    uint16_t n;
    uint16_t places[]; /* room for all */
};

/* What is known of a schema. */
struct seen {
    const struct schema *schema; /* a reference; the map's key is these bytes */
    int target;                  /* the place of the field, -1: it has none, or nobody looks at it */
    struct hidden *hidden;       /* the one that was used last is the first */
    size_t n_hidden;             /* how many there are */
    bool is_of_it[]; /* for each rule, then each that only hides: is it about events of that name? */
};

struct access_view {
    const struct rule **rules;  /* that decide */
    const struct rule **hiding; /* that only hide */
    size_t n_rules, n_hiding;
    uint32_t bit;     /* the action's */
    bool has_targets; /* does any rule look at them? */
    bool has_hidden;  /* is anything hidden? */
    bool has_own;     /* does a rule look at own? */
    char own_room[EVENT_ORIGIN_MAX];
    struct slice own; /* the identity's name, in lower case */
    bool has_host;    /* the host that came last: */
    uint8_t host_n;
    char host[EVENT_ORIGIN_MAX], host_lower[EVENT_ORIGIN_MAX];
    bool *is_of_host; /* for each rule, then each that only hides */
    struct map seen;  /* struct seen by the schema's address */
    struct seen *last;
};

/* ---------------------------------------------------------------- making one */

static bool is_unconditional(const struct rule *r)
{
    return access_fit(r, &(struct resource){.host.p = NULL}) == FIT_ALL;
}

static void note_uses(struct access_view *v, const struct rule *r)
{
    v->has_targets = v->has_targets || r->targets.n;
    v->has_hidden = v->has_hidden || r->hide.n;
    for (size_t i = 0; i < r->hosts.n; i++)
        v->has_own = v->has_own || r->hosts.v[i].p == access_own_host;
}

static void choose_rules(struct access_view *v, const struct access_identity *who)
{
    const struct access *t = access_table_of(who);
    bool is_over = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct rule *r = &t->rules[i];
        bool decides = (r->may | r->may_not) & v->bit,
             hides = !(r->may | r->may_not) && v->bit & ACCESS_SEEING;
        if ((!decides && !hides) || (decides && is_over) || !access_is_about(r, who))
            continue;
        if (decides)
            v->rules[v->n_rules++] = r;
        else
            v->hiding[v->n_hiding++] = r;
        is_over = is_over || (decides && is_unconditional(r));
    }
    /* What comes last and says no says nothing. */
    while (v->n_rules && v->rules[v->n_rules - 1]->may_not & v->bit)
        v->n_rules--;
    for (size_t i = 0; i < v->n_rules; i++)
        note_uses(v, v->rules[i]);
    for (size_t i = 0; i < v->n_hiding; i++)
        note_uses(v, v->hiding[i]);
}

/* The room of the table's rows is not needed: a gateway has a view for each connection. */
static void fit_rules(const struct rule ***rules, size_t n)
{
    const struct rule **fitting = mem_try_resize(*rules, (n + 1) * sizeof **rules);
    if (fitting)
        *rules = fitting;
}

int access_view_create(const struct access_identity *who, enum access_action action, struct access_view **out)
{
    const struct access *t = access_table_of(who);
    if (!access_allows(who, action, SLICE_LIT("")))
        return -EACCES;
    struct access_view *v = mem_try_alloc(sizeof *v);
    if (!v)
        return -ENOMEM;
    v->bit = ACCESS_BIT(action);
    v->rules = mem_try_alloc((t->n + 1) * sizeof *v->rules);
    v->hiding = mem_try_alloc((t->n + 1) * sizeof *v->hiding);
    if (!v->rules || !v->hiding || !access_lower(slice_str(who->name), v->own_room, &v->own)) {
        access_view_destroy(v);
        return -ENOMEM; /* a name always fits */
    }
    choose_rules(v, who);
    fit_rules(&v->rules, v->n_rules);
    fit_rules(&v->hiding, v->n_hiding);
    v->is_of_host = mem_try_alloc(v->n_rules + v->n_hiding + 1);
    if (!v->is_of_host) {
        access_view_destroy(v);
        return -ENOMEM;
    }
    if (access_view_is_whole(v) && !v->has_hidden) {
        access_view_destroy(v);
        v = NULL;
    }
    *out = v;
    return 0;
}

static void forget_hidden(struct seen *s)
{
    for (struct hidden *h = s->hidden, *next; h; h = next) {
        next = h->next;
        mem_free(h);
    }
    s->hidden = NULL;
    s->n_hidden = 0;
}

static void seen_free(struct seen *s)
{
    forget_hidden(s);
    schema_unref(s->schema);
    mem_free(s);
}

static void forget_seen(struct access_view *v)
{
    void *one;
    for (size_t i = 0; map_next(&v->seen, &i, &one);)
        seen_free(one);
    map_fini(&v->seen);
    v->seen = (struct map){0};
    v->last = NULL;
}

void access_view_destroy(struct access_view *v)
{
    if (!v)
        return;
    forget_seen(v);
    mem_free(v->rules);
    mem_free(v->hiding);
    mem_free(v->is_of_host);
    mem_free(v);
}

bool access_view_is_whole(const struct access_view *v)
{
    return !v || (v->n_rules == 1 && is_unconditional(v->rules[0]));
}

bool access_view_is_whole_of(const struct access_view *v, struct slice host)
{
    char room[EVENT_ORIGIN_MAX];
    if (!v)
        return true;
    struct resource of = {.own = v->own};
    if (!access_lower(host, room, &of.host))
        return false;
    for (size_t i = 0; i < v->n_rules; i++) {
        enum fit fit = access_fit(v->rules[i], &of);
        if (fit != FIT_NO)
            return fit == FIT_ALL && v->rules[i]->may & v->bit;
    }
    return false;
}

/* ---------------------------------------------------------------- comparing */

static bool same_patterns(const struct patterns *a, const struct patterns *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!slice_eq(a->v[i], b->v[i]))
            return false;
    return true;
}

static bool same_rules(const struct rule *const *a, const struct rule *const *b, size_t n, uint32_t a_bit,
                       uint32_t b_bit)
{
    for (size_t i = 0; i < n; i++)
        if (!(a[i]->may & a_bit) != !(b[i]->may & b_bit) || !same_patterns(&a[i]->hosts, &b[i]->hosts) ||
            !same_patterns(&a[i]->events, &b[i]->events) || !same_patterns(&a[i]->targets, &b[i]->targets) ||
            !same_patterns(&a[i]->hide, &b[i]->hide))
            return false;
    return true;
}

/* By what the rules say, not by which rows say it. */
bool access_view_same(const struct access_view *a, const struct access_view *b)
{
    if (a == b || !a || !b)
        return a == b;
    bool has_own = a->has_own || b->has_own;
    return a->n_rules == b->n_rules && a->n_hiding == b->n_hiding && (!has_own || slice_eq(a->own, b->own)) &&
           same_rules(a->rules, b->rules, a->n_rules, a->bit, b->bit) &&
           same_rules(a->hiding, b->hiding, a->n_hiding, a->bit, b->bit);
}

/* ---------------------------------------------------------------- deciding */

/* The rule that allows it; NULL: none does. */
static const struct rule *decide(const struct access_view *v, const struct resource *of)
{
    for (size_t i = 0; i < v->n_rules; i++) {
        enum fit fit = access_fit(v->rules[i], of);
        if (fit != FIT_NO && v->rules[i]->may & v->bit)
            return v->rules[i];
        if (fit == FIT_ALL)
            return NULL;
    }
    return NULL;
}

/* A pattern means the field's name, or the event's and the field's with a dot between them. */
static bool hides(const struct rule *r, struct slice event, struct slice field)
{
    char both[2 * EVENT_NAME_MAX + 1];
    if (r->hide.n == 0)
        return false;
    if (access_match(&r->hide, field))
        return true;
    if (event.n == 0 || event.n + 1 + field.n > sizeof both)
        return false;
    memcpy(both, event.p, event.n);
    both[event.n] = '.';
    memcpy(both + event.n + 1, field.p, field.n);
    return access_match(&r->hide, slice_of(both, event.n + 1 + field.n));
}

static bool is_hidden(const struct access_view *v, const struct rule *by, const struct resource *of,
                      struct slice field)
{
    if (hides(by, of->event, field))
        return true;
    for (size_t i = 0; i < v->n_hiding; i++)
        if (access_fit(v->hiding[i], of) != FIT_NO && hides(v->hiding[i], of->event, field))
            return true;
    return false;
}

/* ---------------------------------------------------------------- events, one by one */

static int find_target(const struct access_view *v, const struct schema *s)
{
    return v->has_targets ? schema_find(s, SLICE_LIT("target"), VALUE_TEXT) : -1;
}

/* What it is about, in lower case: its target, or its host. false: that is no host's name. */
static bool find_about(const struct event *e, int target, struct slice host, char *room, struct slice *out)
{
    *out = host;
    return target < 0 || e->values[target].type != VALUE_TEXT ||
           access_lower(value_slice(e->values[target]), room, out);
}

/* Without anything remembered. */
static bool show(const struct access_view *v, const struct event *e, struct event *out, struct value *room)
{
    char host[EVENT_ORIGIN_MAX], about[EVENT_ORIGIN_MAX];
    struct resource of = {.event = e->schema->name, .own = v->own};
    bool has_names = access_lower(e->host, host, &of.host) &&
                     find_about(e, find_target(v, e->schema), of.host, about, &of.target);
    const struct rule *by = has_names ? decide(v, &of) : NULL;
    *out = *e;
    if (!by || !v->has_hidden || e->schema->n_fields == 0)
        return by != NULL;
    memcpy(room, e->values, e->schema->n_fields * sizeof *room);
    out->values = room;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (is_hidden(v, by, &of, e->schema->fields[i].name))
            room[i] = value_none();
    return true;
}

/* ---------------------------------------------------------------- events, with what is remembered */

/* Which rules are about such a thing, whatever is not said of it. */
static void find_rules(const struct access_view *v, const struct resource *of, bool *out)
{
    for (size_t i = 0; i < v->n_rules; i++)
        out[i] = access_fit(v->rules[i], of) != FIT_NO;
    for (size_t i = 0; i < v->n_hiding; i++)
        out[v->n_rules + i] = access_fit(v->hiding[i], of) != FIT_NO;
}

/* false: that is no host's name. */
static bool set_host(struct access_view *v, struct slice host)
{
    if (v->has_host && slice_eq(slice_of(v->host, v->host_n), host))
        return true;
    struct resource of = {.own = v->own};
    v->has_host = access_lower(host, v->host_lower, &of.host);
    if (!v->has_host)
        return false;
    v->host_n = (uint8_t)host.n;
    if (host.n)
        memcpy(v->host, host.p, host.n);
    find_rules(v, &of, v->is_of_host);
    return true;
}

/* NULL: no memory for it. */
static struct seen *add_seen(struct access_view *v, const struct schema *schema)
{
    if (v->seen.n >= SCHEMAS_MAX)
        forget_seen(v);
    struct seen *s = mem_try_alloc(sizeof *s + v->n_rules + v->n_hiding);
    if (!s)
        return NULL;
    s->schema = schema_ref(schema);
    s->target = find_target(v, schema);
    find_rules(v, &(struct resource){.event = schema->name, .own = v->own}, s->is_of_it);
    if (map_put(&v->seen, slice_of((const char *)&s->schema, sizeof s->schema), s) < 0) {
        seen_free(s);
        return NULL;
    }
    return s;
}

static struct seen *find_seen(struct access_view *v, const struct schema *schema)
{
    if (v->last && v->last->schema == schema)
        return v->last;
    struct seen *s = map_get(&v->seen, slice_of((const char *)&schema, sizeof schema));
    if (!s)
        s = add_seen(v, schema);
    v->last = s;
    return s;
}

/* Is the i-th rule (those that only hide behind the others) about an event of that schema, of the host that
 * is set, about that? */
static bool is_about(const struct access_view *v, const struct seen *s, size_t i, const struct rule *r,
                     struct slice about)
{
    return v->is_of_host[i] && s->is_of_it[i] && (r->targets.n == 0 || access_match(&r->targets, about));
}

static const struct rule *decide_seen(const struct access_view *v, const struct seen *s, struct slice about)
{
    for (size_t i = 0; i < v->n_rules; i++)
        if (is_about(v, s, i, v->rules[i], about))
            return v->rules[i]->may & v->bit ? v->rules[i] : NULL;
    return NULL;
}

static uint64_t find_hiding(const struct access_view *v, const struct seen *s, struct slice about)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < v->n_hiding; i++)
        if (is_about(v, s, v->n_rules + i, v->hiding[i], about))
            bits |= UINT64_C(1) << i;
    return bits;
}

/* NULL: no memory for it. */
static struct hidden *make_hidden(const struct access_view *v, const struct seen *s, const struct rule *by,
                                  uint64_t hiding)
{
    struct hidden *h = mem_try_alloc(sizeof *h + s->schema->n_fields * sizeof h->places[0]);
    if (!h)
        return NULL;
    h->by = by;
    h->hiding = hiding;
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        struct slice field = s->schema->fields[i].name;
        bool is_in = hides(by, s->schema->name, field);
        for (size_t k = 0; k < v->n_hiding && !is_in; k++)
            is_in = hiding >> k & 1 && hides(v->hiding[k], s->schema->name, field);
        if (is_in)
            h->places[h->n++] = (uint16_t)i;
    }
    return h;
}

static const struct hidden *find_hidden(const struct access_view *v, struct seen *s, const struct rule *by,
                                        uint64_t hiding)
{
    struct hidden **at = &s->hidden, *h;
    while ((h = *at) && (h->by != by || h->hiding != hiding))
        at = &h->next;
    if (h) {
        *at = h->next;
    } else {
        if (s->n_hidden == HIDDEN_MAX)
            forget_hidden(s);
        h = make_hidden(v, s, by, hiding);
        if (!h)
            return NULL;
        s->n_hidden++;
    }
    h->next = s->hidden;
    s->hidden = h;
    return h;
}

bool access_view_event(struct access_view *v, const struct event *e, struct event *out, struct value *room)
{
    char lower[EVENT_ORIGIN_MAX];
    struct slice about;
    *out = *e;
    if (!v)
        return true;
    struct seen *s = v->n_hiding <= HIDING_MAX ? find_seen(v, e->schema) : NULL;
    if (!s)
        return show(v, e, out, room);
    if (!set_host(v, e->host) || !find_about(e, s->target, slice_of(v->host_lower, v->host_n), lower, &about))
        return false;
    const struct rule *by = decide_seen(v, s, about);
    if (!by || !v->has_hidden)
        return by != NULL;
    const struct hidden *h = find_hidden(v, s, by, find_hiding(v, s, about));
    if (!h)
        return show(v, e, out, room);
    if (h->n == 0)
        return true;
    memcpy(room, e->values, e->schema->n_fields * sizeof *room);
    for (size_t i = 0; i < h->n; i++)
        room[h->places[i]] = value_none();
    out->values = room;
    return true;
}

/* ---------------------------------------------------------------- directories */

static const struct rule *decide_for(const struct access_view *v, struct slice host, struct slice event,
                                     char *room, struct resource *of)
{
    *of = (struct resource){.event = event.n ? event : (struct slice){NULL, 0}, .own = v->own};
    return host.n && !access_lower(host, room, &of->host) ? NULL : decide(v, of);
}

bool access_view_shows(struct access_view *v, struct slice host, struct slice event)
{
    char room[EVENT_ORIGIN_MAX];
    struct resource of;
    return !v || decide_for(v, host, event, room, &of);
}

bool access_view_shows_field(struct access_view *v, struct slice host, struct slice event, struct slice field)
{
    char room[EVENT_ORIGIN_MAX];
    struct resource of;
    if (!v)
        return true;
    const struct rule *by = decide_for(v, host, event, room, &of);
    return by && !is_hidden(v, by, &of, field);
}

bool access_view_shows_property(struct access_view *v, struct slice host, struct slice property)
{
    return access_view_shows_field(v, host, SLICE_LIT("worker"), property);
}

/* ---------------------------------------------------------------- streams */

/* Of the rules that could be about it, up to the one that certainly is: all must allow. hidden: does any of
 * them hide the field? NULL = nobody asks. */
static bool is_certain(const struct access_view *v, const struct resource *of, struct slice field,
                       bool *hidden)
{
    for (size_t i = 0; i < v->n_rules; i++) {
        enum fit fit = access_fit(v->rules[i], of);
        if (fit == FIT_NO)
            continue;
        if (!(v->rules[i]->may & v->bit))
            return false;
        if (hidden)
            *hidden = *hidden || hides(v->rules[i], of->event, field);
        if (fit == FIT_ALL)
            return true;
    }
    return false;
}

bool access_view_certain(const struct access_view *v, struct slice host, struct slice event)
{
    char room[EVENT_ORIGIN_MAX];
    if (!v)
        return true;
    struct resource of = {.event = event, .own = v->own};
    return access_lower(host, room, &of.host) && is_certain(v, &of, (struct slice){"", 0}, NULL);
}

bool access_view_certain_field(const struct access_view *v, struct slice host, struct slice event,
                               struct slice field)
{
    char room[EVENT_ORIGIN_MAX];
    bool hidden = false;
    if (!v)
        return true;
    struct resource of = {.event = event, .own = v->own};
    if (!access_lower(host, room, &of.host) || !is_certain(v, &of, field, &hidden))
        return false;
    for (size_t i = 0; i < v->n_hiding && !hidden; i++)
        hidden = access_fit(v->hiding[i], &of) != FIT_NO && hides(v->hiding[i], event, field);
    return !hidden;
}
