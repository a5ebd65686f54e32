/* SPDX-License-Identifier: Apache-2.0 */
/* A view has the rules that are about its identity and action, in order, up to the first that fits everything, and
 * those that only hide. Whether a rule fits an event depends on its schema (name, and does it have a target?), its
 * host and, if there are rules about targets, its target. So for each schema the answer for the host that came
 * last is remembered, with the places of the hidden fields: events come in runs of one host. Where a target decides
 * nothing is remembered.
 *
 * The schemas remembered are referenced, or another one might have the address of one that is gone; past
 * SCHEMAS_MAX all are forgotten. Without memory for that the answer is worked out each time: never another one. */
#include "gateway/access.h"

#include "base/map.h"
#include "base/mem.h"
#include "event/limits.h"
#include "gateway/access_internal.h"

#include <errno.h>
#include <string.h>

enum { SCHEMAS_MAX = 1024 };

/* What is known of a schema. */
struct seen {
    const struct schema *schema; /* a reference; the map's key is these bytes */
    int target;                  /* the place of the field, -1: it has none */
    bool has_answer;             /* for this host: */
    uint8_t host_n;
    char host[EVENT_ORIGIN_MAX];
    bool is_shown;
    uint16_t n_hidden;
    uint16_t hidden[]; /* places of fields; room for all */
};

struct access_view {
    const struct rule **rules;   /* that decide */
    const struct rule **hiding;  /* that only hide */
    size_t n_rules, n_hiding;
    uint32_t bit; /* the action's */
    bool has_hosts, has_targets; /* does any rule look at them? */
    bool has_hidden;             /* is anything hidden? */
    bool has_own;                /* does a rule look at own? */
    char own_room[EVENT_ORIGIN_MAX];
    struct slice own; /* the identity's name, in lower case */
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
    v->has_hosts = v->has_hosts || r->hosts.n || r->targets.n; /* without a target the host is it */
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
        bool decides = (r->may | r->may_not) & v->bit, hides = !(r->may | r->may_not) && v->bit & ACCESS_SEEING;
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
    if (access_view_is_whole(v) && !v->has_hidden) {
        access_view_destroy(v);
        v = NULL;
    }
    *out = v;
    return 0;
}

static void forget_seen(struct access_view *v)
{
    void *one;
    for (size_t i = 0; map_next(&v->seen, &i, &one);) {
        schema_unref(((struct seen *)one)->schema);
        mem_free(one);
    }
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

/* ---------------------------------------------------------------- events */

/* What a rule is to be asked about; false: the host or target is no host's name. target -1: the host. */
static bool describe(const struct access_view *v, const struct event *e, int target, char *host_room,
                     char *target_room, struct resource *out)
{
    *out = (struct resource){.event = e->schema->name, .own = v->own};
    if (!access_lower(e->host, host_room, &out->host))
        return false;
    out->target = out->host;
    if (target < 0 || e->values[target].type != VALUE_TEXT)
        return true;
    return access_lower(value_slice(e->values[target]), target_room, &out->target);
}

static int find_target(const struct access_view *v, const struct schema *s)
{
    return v->has_targets ? schema_find(s, SLICE_LIT("target"), VALUE_TEXT) : -1;
}

/* Without remembering: as the event is. */
static bool show(const struct access_view *v, const struct event *e, int target, struct event *out,
                 struct value *room)
{
    char host[EVENT_ORIGIN_MAX], about[EVENT_ORIGIN_MAX];
    struct resource of;
    const struct rule *by = describe(v, e, target, host, about, &of) ? decide(v, &of) : NULL;
    bool has_copy = false;
    *out = *e;
    for (uint32_t i = 0; by && v->has_hidden && i < e->schema->n_fields; i++) {
        if (e->values[i].type == VALUE_NONE || !is_hidden(v, by, &of, e->schema->fields[i].name))
            continue;
        if (!has_copy)
            memcpy(room, e->values, e->schema->n_fields * sizeof *room);
        has_copy = true;
        room[i] = value_none();
        out->values = room;
    }
    return by != NULL;
}

/* NULL: no memory for it. */
static struct seen *add_seen(struct access_view *v, const struct schema *schema)
{
    if (v->seen.n >= SCHEMAS_MAX)
        forget_seen(v);
    struct seen *s = mem_try_alloc(sizeof *s + schema->n_fields * sizeof s->hidden[0]);
    if (!s)
        return NULL;
    s->schema = schema_ref(schema);
    s->target = find_target(v, schema);
    if (map_put(&v->seen, slice_of((const char *)&s->schema, sizeof s->schema), s) < 0) {
        schema_unref(s->schema);
        mem_free(s);
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

static void answer(const struct access_view *v, const struct event *e, struct seen *s)
{
    char host[EVENT_ORIGIN_MAX], about[EVENT_ORIGIN_MAX];
    struct resource of;
    const struct rule *by = describe(v, e, -1, host, about, &of) ? decide(v, &of) : NULL;
    s->is_shown = by != NULL;
    s->n_hidden = 0;
    for (uint32_t i = 0; by && v->has_hidden && i < e->schema->n_fields; i++)
        if (is_hidden(v, by, &of, e->schema->fields[i].name))
            s->hidden[s->n_hidden++] = (uint16_t)i;
    s->has_answer = e->host.n <= sizeof s->host;
    s->host_n = (uint8_t)e->host.n;
    if (s->has_answer && e->host.n)
        memcpy(s->host, e->host.p, e->host.n);
}

bool access_view_event(struct access_view *v, const struct event *e, struct event *out, struct value *room)
{
    if (!v) {
        *out = *e;
        return true;
    }
    struct seen *s = find_seen(v, e->schema);
    if (!s || s->target >= 0)
        return show(v, e, s ? s->target : find_target(v, e->schema), out, room);
    bool is_known = s->has_answer && (!v->has_hosts || slice_eq(slice_of(s->host, s->host_n), e->host));
    if (!is_known)
        answer(v, e, s);
    *out = *e;
    if (!s->is_shown || s->n_hidden == 0)
        return s->is_shown;
    memcpy(room, e->values, e->schema->n_fields * sizeof *room);
    for (size_t i = 0; i < s->n_hidden; i++)
        room[s->hidden[i]] = value_none();
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
