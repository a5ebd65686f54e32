/* SPDX-License-Identifier: Apache-2.0 */
/* A worker becomes an event `worker` with its host, the fields state, mode and worker (its id), and its
 * static properties, so that predicates are the same language here as everywhere. Properties of those names
 * give way; so do those past the 256 fields that an event can have. */
#include "gateway/control_choose.h"

#include "base/text.h"
#include "event/predicate.h"

#include <errno.h>

int choice_init(struct choice *c, struct slice patterns, struct slice where, int64_t now_ns, struct diag *why)
{
    *c = (struct choice){.patterns = patterns};
    if (where.n == 0)
        return 0;
    c->registry = registry_create();
    if (!c->registry)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    return predicate_compile(where, now_ns, &c->where, why);
}

void choice_fini(struct choice *c)
{
    predicate_destroy(c->where);
    registry_destroy(c->registry);
    *c = (struct choice){0};
}

bool choice_is_all(const struct choice *c)
{
    return c->patterns.n == 0 && !c->where;
}

static struct slice trim(struct slice s)
{
    while (s.n && s.p[0] == ' ')
        s = slice_from(s, 1);
    while (s.n && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

bool choice_matches(struct slice patterns, struct slice host)
{
    if (patterns.n == 0)
        return true;
    while (patterns.n) {
        const char *comma = memchr(patterns.p, ',', patterns.n);
        struct slice one = comma ? slice_of(patterns.p, (size_t)(comma - patterns.p)) : patterns;
        patterns = slice_from(patterns, one.n + (comma ? 1 : 0));
        if (text_glob(trim(one), host))
            return true;
    }
    return false;
}

struct args choice_list(const char *bytes, uint32_t n)
{
    struct args list = {0};
    struct cursor c = cursor_of(slice_of(bytes ? bytes : "", n));
    if (n == 0 || !args_get(&c, &list))
        return (struct args){0};
    return list;
}

const char *choice_mode_name(const struct worker *w)
{
    return w->mode == LEASE_GUEST ? "guest" : "resident";
}

static bool has_name(const struct named_value *values, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(values[i].name, name))
            return true;
    return false;
}

/* How many of values, which has room for EVENT_FIELDS_MAX. */
static size_t describe(const struct worker *w, struct access_view *view, struct named_value *values)
{
    size_t n = 0;
    values[n++] = (struct named_value){SLICE_LIT("state"),
                                       value_text(slice_str(worker_state_name((enum worker_state)w->state)))};
    values[n++] = (struct named_value){SLICE_LIT("mode"), value_text(slice_str(choice_mode_name(w)))};
    values[n++] = (struct named_value){SLICE_LIT("worker"), value_uint(w->id)};
    struct args properties = choice_list(w->properties, w->properties_n);
    struct arg a;
    while (n < EVENT_FIELDS_MAX && args_next(&properties, &a))
        if (!has_name(values, n, a.name) && access_view_shows_property(view, slice_str(w->host), a.name))
            values[n++] = (struct named_value){a.name, a.value};
    return n;
}

static bool passes(struct choice *c, const struct worker *w)
{
    struct named_value named[EVENT_FIELDS_MAX];
    struct value values[EVENT_FIELDS_MAX];
    uint16_t index[EVENT_FIELDS_MAX];
    const struct schema *schema;
    size_t n = describe(w, c->view, named);
    int r = registry_learn(c->registry, SLICE_LIT("worker"), named, n, &schema, index);
    if (r < 0) {
        c->failed = r;
        return false;
    }
    for (uint32_t i = 0; i < schema->n_fields; i++)
        values[i] = value_none();
    for (size_t i = 0; i < n; i++)
        values[index[i]] = named[i].value;
    return predicate_test(c->where, &(struct event){.time_ns = w->since_ns,
                                                    .host = slice_str(w->host),
                                                    .prog = SLICE_LIT("agent"),
                                                    .schema = schema,
                                                    .values = values,
                                                    .level = LEVEL_INFO});
}

bool choice_takes(struct choice *c, const struct worker *w)
{
    struct slice host = slice_str(w->host);
    return choice_matches(c->patterns, host) && access_view_shows(c->view, host, SLICE_LIT("")) &&
           (!c->where || passes(c, w));
}
