/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: ours and the site's, and what they name. */
#include "guard/config_internal.h"

#include "guard/defaults.h"

#include <errno.h>

/* ---------------------------------------------------------------- defaults */

enum { WORDS_MAX = 16 };

static const struct config_origin by_default = {.where = "default rule"};

static void give(struct config_load *l, struct given_section *section, const char *key, const char *text)
{
    const struct slice one = text ? slice_str(text) : SLICE_LIT("");
    if (text && !given_find(section, key))
        (void)given_set(l, section, key, &one, 1, by_default); /* remembered in l */
}

static void give_words(struct config_load *l, struct given_section *section, const char *key,
                       const char *text)
{
    struct slice words[WORDS_MAX], rest = text ? slice_str(text) : SLICE_LIT("");
    size_t n = 0;
    while (n < WORDS_MAX && rest.n && config_next_word(&rest, ' ', &words[n]))
        n++;
    if (n && !given_find(section, key))
        (void)given_set(l, section, key, words, n, by_default); /* remembered in l */
}

static void add_default(struct config_load *l, const struct default_rule *d)
{
    struct given_section *s;
    if (given_section(l, scope_rule, slice_str(d->name), by_default, &s) < 0)
        return;
    give(l, s, "help", d->help);
    give(l, s, "query", d->query);
    give(l, s, "clear_query", d->clear_query);
    give_words(l, s, "key", d->key);
    give(l, s, "summary", d->summary);
    give(l, s, "every", d->every);
    give(l, s, "for", d->for_);
    give(l, s, "clear_for", d->clear_for);
    give(l, s, "fresh", d->fresh);
    give(l, s, "severity", d->severity);
    give_words(l, s, "parents", d->parents);
    give(l, s, "place", d->place);
}

/* Not among those that can be left out: a guard that hears nothing can't say that all is well. */
static const struct default_rule blind = {
    .name = "guard.blind",
    .help = "The guard has heard no event at all for `blind`: nothing else that it says of hosts is of "
            "today. Look whether "
            "its gateway and this host's agent run (`gridline doctor`) and what its log says.",
    .query = "SELECT state, feeds, age_s FROM guard_health WHERE state = 'blind'",
    .key = "",
    .summary = "the guard has heard nothing for {age_s} s; {feeds} of its feeds are connected",
    .every = "1s",
    .severity = "critical",
    .place = "here",
};

void config_add_blind(struct config_load *l)
{
    const struct config_entry *actions = given_find(&l->root, "on_blind");
    struct slice names[WORDS_MAX];
    struct given_section *s;
    size_t n = 0;
    add_default(l, &blind);
    if (!actions || given_section(l, scope_rule, slice_str(blind.name), by_default, &s) < 0)
        return;
    for (; n < actions->setting.n && n < WORDS_MAX; n++)
        names[n] = slice_str(actions->setting.texts[n]);
    (void)given_set(l, s, "on_fire", names, n, actions->from);  /* remembered in l */
    (void)given_set(l, s, "on_clear", names, n, actions->from); /* remembered in l */
}

void config_add_defaults(struct config_load *l)
{
    for (size_t i = 0; i < default_rules_n; i++)
        add_default(l, &default_rules[i]);
}

static bool is_default(const char *name)
{
    if (strcmp(name, blind.name) == 0)
        return true;
    for (size_t i = 0; i < default_rules_n; i++)
        if (strcmp(default_rules[i].name, name) == 0)
            return true;
    return false;
}

/* ---------------------------------------------------------------- one rule */

static void check_together(struct config_load *l, const struct given_section *s, const struct rule_config *r)
{
    const struct config_entry *fresh = given_find(s, "fresh");
    if (r->fresh_ns < r->every_ns && fresh)
        (void)config_problem(l, -EINVAL, &fresh->from, r->name,
                             "fresh is less than every: nothing would be fresh");
    if (r->on_repeat.n && r->repeat_ns == 0)
        (void)config_problem(l, -EINVAL, &s->from, r->name, "on_repeat needs repeat; write repeat = 1h");
    if (r->on_escalate.n && r->escalate_ns == 0)
        (void)config_problem(l, -EINVAL, &s->from, r->name,
                             "on_escalate needs escalate; write escalate = 30m");
}

/* Is anything of it not ours? What on_blind says of guard.blind is no section of it. */
static bool is_given(const struct rule_config *r)
{
    for (size_t i = 0; i < r->n_given && strcmp(r->name, blind.name) != 0; i++)
        if (strcmp(r->given[i].from.where, by_default.where) != 0)
            return true;
    return false;
}

static void make_rule(struct config_load *l, const struct guard_config *c, const struct given_section *s,
                      struct rule_config *out)
{
    size_t problems = l->problems;
    *out = (struct rule_config){.name = s->title, .is_default = is_default(s->title)};
    config_store_section(l, s, out);
    config_find_actions(l, c, s, "on_fire", &out->on_fire);
    config_find_actions(l, c, s, "on_repeat", &out->on_repeat);
    config_find_actions(l, c, s, "on_escalate", &out->on_escalate);
    config_find_actions(l, c, s, "on_clear", &out->on_clear);
    if (given_entries(l, s, &out->given, &out->n_given) < 0 || l->problems != problems)
        return;
    out->is_given = is_given(out);
    if (out->fresh_ns < out->every_ns && !given_find(s, "fresh"))
        out->fresh_ns = 3 * out->every_ns;
    check_together(l, s, out);
}

/* ---------------------------------------------------------------- parents */

static unsigned find_rule(const struct guard_config *c, const char *name)
{
    unsigned i = 0;
    while (i < c->n_rules && strcmp(c->rules[i].name, name) != 0)
        i++;
    return i;
}

static void find_parents(struct config_load *l, const struct guard_config *c, struct rule_config *r)
{
    unsigned *v = config_alloc(l, (r->parents.n + 1) * sizeof *v);
    for (size_t i = 0; v && i < r->parents.n; i++) {
        v[i] = find_rule(c, r->parents.v[i]);
        if (v[i] == c->n_rules)
            (void)config_problem(l, -EINVAL, &r->from, r->name, "its parent \"%.80s\" is no rule",
                                 r->parents.v[i]);
    }
    r->parent_rules = v;
}

/* Can it be reached from there? Each rule is gone through once, whatever the ways to it. */
static bool leads_to(const struct guard_config *c, unsigned from, unsigned to, bool *is_seen)
{
    const struct rule_config *r = &c->rules[from];
    if (is_seen[from])
        return false;
    is_seen[from] = true;
    for (size_t i = 0; i < r->parents.n; i++)
        if (r->parent_rules[i] == to || leads_to(c, r->parent_rules[i], to, is_seen))
            return true;
    return false;
}

static void check_circles(struct config_load *l, const struct guard_config *c)
{
    bool is_seen[GUARD_RULES_MAX];
    for (unsigned i = 0; i < c->n_rules && l->code == 0; i++) {
        memset(is_seen, 0, sizeof is_seen);
        if (leads_to(c, i, i, is_seen))
            (void)config_problem(l, -EINVAL, &c->rules[i].from, c->rules[i].name, "it is a parent of itself");
    }
}

void config_make_rules(struct config_load *l, struct guard_config *c)
{
    struct rule_config *rules = config_alloc(l, (l->n_sections + 1) * sizeof *rules);
    c->rules = rules;
    for (const struct given_section *s = l->sections; rules && s; s = s->next) {
        if (!scope_is_rule(s->scope))
            continue;
        make_rule(l, c, s, &rules[c->n_rules]);
        rules[c->n_rules++].from = s->from;
    }
    if (c->n_rules > GUARD_RULES_MAX)
        (void)config_problem(l, E_LIMIT, NULL, NULL, "more than %d rules", GUARD_RULES_MAX);
    for (size_t i = 0; rules && i < c->n_rules; i++)
        find_parents(l, c, &rules[i]);
    if (l->code == 0)
        check_circles(l, c);
}
