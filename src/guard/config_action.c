/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done: the sections of actuators. */
#include "guard/config_internal.h"

#include <errno.h>

/* Those that were given: the actuator knows its defaults. */
static int make_settings(struct config_load *l, const struct given_section *section,
                         struct action_config *out)
{
    size_t n = 0;
    const struct parameter *options = scope_actuator(section->scope)->options;
    while (options && options[n].name)
        n++;
    struct parameter_setting *settings = config_alloc(l, (n ? n : 1) * sizeof *settings);
    if (!settings)
        return -ENOMEM;
    out->settings = settings;
    for (const struct parameter *o = options; o && o->name; o++) {
        const struct config_entry *entry = given_find(section, o->name);
        if (entry)
            settings[out->n_settings++] = (struct parameter_setting){
                .name = o->name, .texts = entry->setting.texts, .n = entry->setting.n};
    }
    return 0;
}

static void make_action(struct config_load *l, const struct given_section *section, struct action_config *out)
{
    const struct actuator_ops *ops = scope_actuator(section->scope);
    size_t problems = l->problems;
    struct strbuf name = {0};
    struct diag why = {0};
    *out = (struct action_config){.name = section->title,
                                  .actuator = ops->name,
                                  .ops = ops,
                                  .is_repeatable = ops->is_repeatable,
                                  .is_groupable = ops->is_groupable};
    config_store_common(l, section, out);
    if (make_settings(l, section, out) < 0 || given_entries(l, section, &out->given, &out->n_given) < 0 ||
        l->problems != problems)
        return;
    config_full_name(section->scope, section->title, NULL, &name);
    int r = actuator_check(ops, out->settings, out->n_settings, &why);
    if (r < 0)
        (void)config_problem(l, r, &section->from, strbuf_slice(&name).p, "%s",
                             why.message[0] ? why.message : err_text(r)); /* remembered in l */
    if (out->retry_max_ns < out->retry_ns)
        out->retry_max_ns = out->retry_ns;
    strbuf_fini(&name);
}

static bool is_there(const struct guard_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_actions; i++)
        if (strcmp(c->actions[i].name, name) == 0)
            return true;
    return false;
}

void config_make_actions(struct config_load *l, struct guard_config *c)
{
    struct action_config *actions = config_alloc(l, (l->n_sections + 1) * sizeof *actions);
    c->actions = actions;
    for (const struct given_section *s = l->sections; actions && s; s = s->next) {
        if (!scope_actuator(s->scope))
            continue;
        if (c->n_actions == GUARD_ACTIONS_MAX) {
            (void)config_problem(l, E_LIMIT, &s->from, s->title, "more than %d actions", GUARD_ACTIONS_MAX);
            return;
        }
        if (is_there(c, s->title))
            (void)config_problem(l, -EINVAL, &s->from, s->title,
                                 "two actions have this name; rules could not tell them apart");
        make_action(l, s, &actions[c->n_actions]);
        c->n_actions++;
    }
}

void config_find_actions(struct config_load *l, const struct guard_config *c,
                         const struct given_section *section, const char *key, struct action_names *out)
{
    const struct config_entry *entry = given_find(section, key);
    unsigned *v = entry && entry->setting.n ? config_alloc(l, entry->setting.n * sizeof *v) : NULL;
    *out = (struct action_names){v, 0};
    for (size_t i = 0; v && i < entry->setting.n; i++) {
        size_t at = 0;
        while (at < c->n_actions && strcmp(c->actions[at].name, entry->setting.texts[i]) != 0)
            at++;
        if (at == c->n_actions)
            (void)config_problem(
                l, -EINVAL, &entry->from, key,
                "there is no action \"%.80s\"; write a section for it: ACTUATOR %.80s { ... }, and "
                "`gridline act --list` for what there is",
                entry->setting.texts[i], entry->setting.texts[i]);
        else
            v[out->n++] = (unsigned)at;
    }
}
