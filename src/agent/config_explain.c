/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables say of a key. In help, `code` is without its quotes here. */
#include "agent/config_internal.h"

#include "base/text.h"
#include "event/json.h"

enum { WIDTH = 96, INDENT = 4 };

struct explain {
    enum config_form form;
    struct strbuf *out;
    size_t n; /* keys so far */
};

static void add_plain(struct strbuf *out, const char *help)
{
    for (; *help; help++)
        if (*help != '`')
            strbuf_add_char(out, *help);
}

/* "duration from 10ms to 366d; default 1s" */
static void add_type(struct strbuf *out, const struct config_key *key)
{
    if (key->words) {
        struct slice rest = slice_str(key->words), word;
        for (const char *before = ""; config_next_word(&rest, '|', &word); before = ", ")
            strbuf_printf(out, "%s%.*s", before, SLICE_ARG(word));
    } else {
        strbuf_add_str(out, config_type_name(key->type));
    }
    if (key->min && key->max)
        strbuf_printf(out, " from %s to %s", key->min, key->max);
    if (key->is_needed)
        strbuf_add_str(out, "; must be given");
    if (key->default_text && *key->default_text)
        strbuf_printf(out, "; default %s", key->default_text);
    if (key->is_program)
        strbuf_add_str(out,
                       "; names a program or file: in a document from config_url only if it is signed or allowed");
}

/* Indented, broken at blanks. */
static void add_wrapped(struct strbuf *out, struct slice text)
{
    struct slice word;
    size_t column = 0;
    while (config_next_word(&text, ' ', &word)) {
        if (column && column + 1 + word.n > WIDTH) {
            strbuf_add_char(out, '\n');
            column = 0;
        }
        strbuf_printf(out, "%*s%.*s", column ? 1 : INDENT, "", SLICE_ARG(word));
        column += (column ? 1 : INDENT) + word.n;
    }
    strbuf_add_char(out, '\n');
}

static void explain_text(struct explain *e, const char *name, const struct config_key *key)
{
    struct strbuf text = {0};
    strbuf_printf(e->out, "%s%s\n", e->n ? "\n" : "", name);
    add_plain(&text, key->help);
    add_wrapped(e->out, strbuf_slice(&text));
    strbuf_reset(&text);
    add_type(&text, key);
    add_wrapped(e->out, strbuf_slice(&text));
    strbuf_fini(&text);
}

static void add_member(struct strbuf *out, const char *name, const char *text)
{
    if (!text)
        return;
    strbuf_printf(out, ", \"%s\": ", name);
    json_add_string(out, slice_str(text));
}

static void explain_json(struct explain *e, const char *name, const struct config_key *key)
{
    struct strbuf help = {0};
    strbuf_add_str(e->out, e->n ? ",\n {\"key\": " : " {\"key\": ");
    json_add_string(e->out, slice_str(name));
    add_plain(&help, key->help);
    add_member(e->out, "type", config_type_name(key->type));
    add_member(e->out, "default", key->default_text);
    add_member(e->out, "min", key->min);
    add_member(e->out, "max", key->max);
    add_member(e->out, "words", key->words);
    add_member(e->out, "help", strbuf_slice(&help).p);
    if (key->is_needed)
        strbuf_add_str(e->out, ", \"needed\": true");
    strbuf_add_char(e->out, '}');
    strbuf_fini(&help);
}

/* How a key is called here: "budget.cpu", "output.NAME.path", "SENSOR.every", "exec.NAME.command". */
static void add_name(struct strbuf *out, struct config_scope scope, const struct config_key *key)
{
    if (scope.kind == SCOPE_SENSOR && !scope.ops)
        strbuf_printf(out, "SENSOR.%s", key->name);
    else
        config_full_name(scope,
                         scope.kind == SCOPE_OUTPUT || (scope.ops && scope.ops->is_multi) ? "NAME" : "",
                         key->name, out);
}

static void explain_key(struct explain *e, struct config_scope scope, const struct config_key *key)
{
    struct strbuf name = {0};
    add_name(&name, scope, key);
    if (e->form == CONFIG_FORM_JSON)
        explain_json(e, strbuf_slice(&name).p, key);
    else
        explain_text(e, strbuf_slice(&name).p, key);
    strbuf_fini(&name);
    e->n++;
}

/* only_own: without the keys that every sensor has. Names begin with prefix. */
static size_t explain_keys(struct explain *e, struct config_scope scope, const char *prefix, bool only_own)
{
    struct config_key key;
    size_t before = e->n;
    for (size_t i = 0; config_key_at(scope, i, &key); i++)
        if (slice_starts(slice_str(key.name), slice_str(prefix)) && (!only_own || key.is_option))
            explain_key(e, scope, &key);
    return e->n - before;
}

static const struct config_scope agent = {.kind = SCOPE_AGENT}, output = {.kind = SCOPE_OUTPUT},
                                 any_sensor = {.kind = SCOPE_SENSOR};

static void explain_all(struct explain *e)
{
    (void)explain_keys(e, agent, "", false); /* how many does not matter */
    (void)explain_keys(e, output, "", false);
    (void)explain_keys(e, any_sensor, "", false);
    for (size_t i = 0; sensor_list[i]; i++)
        (void)explain_keys(e, (struct config_scope){.kind = SCOPE_SENSOR, .ops = sensor_list[i]}, "", true);
}

/* A whole section. */
static bool explain_section(struct explain *e, struct slice name)
{
    const struct sensor_ops *ops = sensor_find(name);
    if (slice_eq(name, SLICE_LIT("agent")))
        return explain_keys(e, agent, "", false);
    if (slice_eq(name, SLICE_LIT("budget")))
        return explain_keys(e, agent, "budget.", false);
    if (slice_eq(name, SLICE_LIT("output")))
        return explain_keys(e, output, "", false);
    if (slice_eq(name, SLICE_LIT("sensor")))
        return explain_keys(e, any_sensor, "", false);
    if (!ops)
        return false;
    if (e->form == CONFIG_FORM_TEXT)
        strbuf_printf(e->out, "%s: %s\n\n", ops->name, ops->summary);
    return explain_keys(e, (struct config_scope){.kind = SCOPE_SENSOR, .ops = ops}, "", false);
}

/* One key: of the agent, of every sensor, or SECTION.KEY and SECTION.NAME.KEY. */
static bool explain_one(struct explain *e, struct slice text)
{
    struct config_name name;
    struct config_key key;
    struct slice common = slice_starts(text, SLICE_LIT("SENSOR.")) ? slice_from(text, 7) : text;
    bool is_found = config_split_name(text, &name) && config_key_find(name.scope, name.key, &key);
    if (!is_found) {
        name.scope = any_sensor;
        is_found = config_key_find(any_sensor, common, &key);
    }
    if (is_found)
        explain_key(e, name.scope, &key);
    return is_found;
}

/* ---------------------------------------------------------------- what was meant */

struct meant {
    struct text_nearest near;
    struct strbuf name, best;
};

static void try_name(struct meant *m, struct config_scope scope, const struct config_key *key)
{
    const char *before = m->near.best;
    strbuf_reset(&m->name);
    config_full_name(scope, "", key->name, &m->name);
    if (!strbuf_failed(&m->name))
        text_nearest_try(&m->near, m->name.p);
    if (m->near.best == before)
        return;
    strbuf_reset(&m->best);
    strbuf_add_slice(&m->best, strbuf_slice(&m->name));
    m->near.best = strbuf_slice(&m->best).p;
}

static int say_unknown(const char *name, struct diag *why)
{
    static const char *const sections[] = {"agent", "budget", "output", "sensor"};
    struct meant m = {.near = text_nearest_of(slice_str(name))};
    struct config_key key;
    for (size_t i = 0; config_key_at(agent, i, &key); i++)
        try_name(&m, agent, &key);
    for (size_t i = 0; config_key_at(any_sensor, i, &key); i++)
        try_name(&m, agent, &key); /* its name alone */
    for (size_t k = 0; sensor_list[k]; k++)
        for (size_t i = 0;
             config_key_at((struct config_scope){.kind = SCOPE_SENSOR, .ops = sensor_list[k]}, i, &key); i++)
            try_name(&m, (struct config_scope){.kind = SCOPE_SENSOR, .ops = sensor_list[k]}, &key);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        text_nearest_try(&m.near, sections[i]);
    for (size_t k = 0; sensor_list[k]; k++)
        text_nearest_try(&m.near, sensor_list[k]->name);
    int r = m.near.best ? diag_set(why, E_NODATA, 0, "no key or section \"%.60s\"; did you mean %s?", name,
                                   m.near.best)
                        : diag_set(why, E_NODATA, 0,
                                   "no key or section \"%.60s\"; `gridline config explain` lists them", name);
    strbuf_fini(&m.name);
    strbuf_fini(&m.best);
    return r;
}

int config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why)
{
    struct explain e = {.form = form, .out = out};
    size_t before = out->n;
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "[\n" : "");
    if (!key) {
        explain_all(&e);
    } else if (!explain_section(&e, slice_str(key)) && !explain_one(&e, slice_str(key))) {
        if (out->n > before)
            out->p[out->n = before] = '\0';
        return say_unknown(key, why);
    }
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "\n]\n" : "");
    return 0;
}
