/* SPDX-License-Identifier: Apache-2.0 */
/* The sensors that are to run, from their sections and their tables. */
#include "agent/config_internal.h"

#include <errno.h>

/* The sensor's own options, complete: two configurations of a sensor are the same if these are. */
static int make_settings(struct config_load *l, const struct given_section *section,
                         struct sensor_config *out)
{
    size_t n = 0;
    const struct parameter *options = scope_sensor(section->scope)->options;
    while (options && options[n].name)
        n++;
    struct parameter_setting *settings = config_alloc(l, (n ? n : 1) * sizeof *settings);
    if (!settings)
        return -ENOMEM;
    out->settings = settings;
    for (const struct parameter *o = options; o && o->name; o++) {
        const struct config_entry *entry = given_find(section, o->name);
        struct config_key key = {.type = (enum config_type)o->type, .default_text = o->default_text};
        struct parameter_setting *s = &settings[out->n_settings];
        if (!entry && !o->default_text)
            continue;
        if (entry)
            *s = (struct parameter_setting){.texts = entry->setting.texts, .n = entry->setting.n};
        else if (config_default_texts(l, &key, &s->texts, &s->n) < 0)
            return -ENOMEM;
        s->name = o->name;
        out->n_settings++;
    }
    return 0;
}

/* What one key alone does not show. */
static void check_together(struct config_load *l, const struct given_section *section, const char *name,
                           struct sensor_config *out)
{
    const struct config_entry *refresh = given_find(section, "refresh"), *mode = given_find(section, "mode");
    struct diag why = {0};
    if (out->refresh_ns < out->every_ns && refresh)
        (void)config_problem(l, -EINVAL, &refresh->from, name,
                             "refresh is less than every; a sample can't be sent "
                             "more often than it is taken");
    else if (out->refresh_ns < out->every_ns)
        out->refresh_ns = out->every_ns;
    if (out->mode == MODE_PORT && out->n_ports == 0)
        (void)config_problem(l, -EINVAL, mode ? &mode->from : &section->from, name,
                             "mode = port needs ports; write ports = {5001, 2811}");
    int r = instance_check(out->ops, out->settings, out->n_settings, &why);
    if (r < 0)
        (void)config_problem(l, r, &section->from, name, "%s", why.message[0] ? why.message : err_text(r));
}

static void make_sensor(struct config_load *l, const struct given_section *section, struct sensor_config *out)
{
    struct strbuf name = {0};
    size_t problems = l->problems;
    *out =
        (struct sensor_config){.ops = scope_sensor(section->scope),
                               .name = *section->title ? section->title : scope_sensor(section->scope)->name,
                               .from = section->from};
    config_store_common(l, section, out);
    if (make_settings(l, section, out) < 0 || given_entries(l, section, &out->given, &out->n_given) < 0)
        return;
    config_full_name(section->scope, section->title, NULL, &name);
    if (l->problems == problems)
        check_together(l, section, strbuf_slice(&name).p, out);
    strbuf_fini(&name);
}

/* ---------------------------------------------------------------- all of them */

void config_make_sensors(struct config_load *l, struct agent_config *c)
{
    size_t max = l->n_sections, n = 0;
    while (sensor_list[n])
        n++;
    struct sensor_config *sensors = config_alloc(l, (max + n) * sizeof *sensors);
    if (!sensors)
        return;
    c->sensors = sensors;
    for (size_t i = 0; i < n; i++) {
        struct given_section unlisted = {.scope = scope_of_sensor(sensor_list[i]), .title = ""};
        size_t before = c->n_sensors;
        for (const struct given_section *s = l->sections; s; s = s->next)
            if (scope_sensor(s->scope) == sensor_list[i])
                make_sensor(l, s, &sensors[c->n_sensors++]);
        bool is_listed = c->n_sensors > before;
        if (!is_listed && c->runs_defaults && sensor_list[i]->is_default && !sensor_list[i]->is_multi)
            make_sensor(l, &unlisted, &sensors[c->n_sensors++]);
    }
}

static bool is_allowed(const struct parameter_list *allowed, const char *program)
{
    for (size_t i = 0; i < allowed->n; i++)
        if (strcmp(allowed->v[i], program) == 0)
            return true;
    return false;
}

static void check_programs_of(struct config_load *l, const struct agent_config *c,
                              const struct given_section *section)
{
    struct strbuf name = {0};
    for (const struct parameter *o = scope_sensor(section->scope)->options; o && o->name; o++) {
        const struct config_entry *entry = o->is_program ? given_find(section, o->name) : NULL;
        if (!entry || entry->from.where != l->document || entry->setting.n == 0)
            continue;
        const char *program = entry->setting.texts[0];
        if (is_allowed(&c->allow_programs, program)) /* the paths on it are plain: config_is_plain_path */
            continue;
        strbuf_reset(&name);
        config_full_name(section->scope, section->title, o->name, &name);
        (void)config_problem(l, -EINVAL, &entry->from, strbuf_slice(&name).p,
                             "\"%.200s\" is not allowed here; sign the document, or add exactly this path to "
                             "allow_programs on this host",
                             program);
    }
    strbuf_fini(&name);
}

void config_check_programs(struct config_load *l, const struct agent_config *c)
{
    for (const struct given_section *s = l->sections; s; s = s->next)
        if (scope_sensor(s->scope))
            check_programs_of(l, c, s);
}

/* ---------------------------------------------------------------- comparing */

static bool same_setting(const struct parameter_setting *a, const struct parameter_setting *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->texts[i], b->texts[i]) != 0)
            return false;
    return true;
}

static bool same_settings(const struct sensor_config *a, const struct sensor_config *b)
{
    if (a->n_settings != b->n_settings)
        return false;
    for (size_t i = 0; i < a->n_settings; i++)
        if (!same_setting(&a->settings[i], &b->settings[i]))
            return false;
    return true;
}

static bool same_changes(const struct sensor_config *a, const struct sensor_config *b)
{
    if (a->n_changes != b->n_changes)
        return false;
    for (size_t i = 0; i < a->n_changes; i++) {
        const struct change_limit *x = &a->changes[i], *y = &b->changes[i];
        if (strcmp(x->field, y->field) != 0 || x->limit != y->limit || x->is_percent != y->is_percent)
            return false;
    }
    return true;
}

bool config_same_sensor(const struct sensor_config *a, const struct sensor_config *b)
{
    return a->ops == b->ops && strcmp(a->name, b->name) == 0 && a->mode == b->mode &&
           a->every_ns == b->every_ns && a->fastest_ns == b->fastest_ns && a->refresh_ns == b->refresh_ns &&
           a->compares_previous == b->compares_previous && a->priority == b->priority &&
           a->hold_ns == b->hold_ns && a->n_ports == b->n_ports &&
           (a->n_ports == 0 || memcmp(a->ports, b->ports, a->n_ports * sizeof *a->ports) == 0) &&
           same_changes(a, b) && same_settings(a, b);
}
