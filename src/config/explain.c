/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables say of a key. In help, `code` is without its quotes here. */
#include "config/load.h"

#include "base/text.h"
#include "event/json.h"

enum { WIDTH = 96, INDENT = 4 };

struct explain {
    const struct config_schema *schema;
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
        strbuf_add_str(out, config_key_type(key));
    }
    if (key->min && key->max)
        strbuf_printf(out, " from %s to %s", key->min, key->max);
    if (key->is_needed)
        strbuf_add_str(out, "; must be given");
    if (key->default_text && *key->default_text)
        strbuf_printf(out, "; default %s", key->default_text);
    if (key->note)
        strbuf_printf(out, "; %s", key->note);
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
    add_member(e->out, "type", config_key_type(key));
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

/* As it is called here: "budget.cpu", "output.NAME.path", "SENSOR.every", "exec.NAME.command". */
static void explain_key(struct explain *e, struct config_scope scope, const struct config_key *key)
{
    struct strbuf name = {0};
    config_full_name(scope, scope.is_titled ? "NAME" : "", key->name, &name);
    if (e->form == CONFIG_FORM_JSON)
        explain_json(e, strbuf_slice(&name).p, key);
    else
        explain_text(e, strbuf_slice(&name).p, key);
    strbuf_fini(&name);
    e->n++;
}

/* only_own: without the keys of its family. Names begin with prefix. */
static size_t explain_keys(struct explain *e, struct config_scope scope, const char *prefix, bool only_own)
{
    struct config_key key;
    size_t before = e->n;
    for (size_t i = 0; e->schema->key_at(scope, i, &key); i++)
        if (slice_starts(slice_str(key.name), slice_str(prefix)) && !(only_own && key.is_common))
            explain_key(e, scope, &key);
    return e->n - before;
}

static void explain_all(struct explain *e)
{
    struct config_scope scope;
    for (size_t i = 0; e->schema->scope_at(i, &scope); i++)
        (void)explain_keys(e, scope, "", !scope.is_family); /* how many does not matter */
}

static bool find_family(const struct config_schema *schema, struct config_scope *out)
{
    for (size_t i = 0; schema->scope_at(i, out); i++)
        if (out->is_family)
            return true;
    return false;
}

/* A whole section. */
static bool explain_section(struct explain *e, struct slice name)
{
    struct config_scope scope;
    if (slice_eq_str(name, e->schema->program))
        return explain_keys(e, config_root(e->schema), "", false);
    if (config_inner_find(e->schema, name)) {
        char prefix[CONFIG_INNER_MAX + 2];
        (void)snprintf(prefix, sizeof prefix, "%.*s.", SLICE_ARG(name)); /* fits */
        return explain_keys(e, config_root(e->schema), prefix, false);
    }
    if (find_family(e->schema, &scope) && slice_eq_nocase(name, slice_str(scope.name)))
        return explain_keys(e, scope, "", false);
    if (!config_scope_find(e->schema, name, &scope))
        return false;
    if (e->form == CONFIG_FORM_TEXT && scope.summary)
        strbuf_printf(e->out, "%s: %s\n\n", scope.name, scope.summary);
    return explain_keys(e, scope, "", false);
}

/* "SENSOR.every", and "every" alone. */
static bool find_common(const struct config_schema *schema, struct slice text, struct config_scope *scope,
                        struct config_key *key)
{
    if (!find_family(schema, scope))
        return false;
    size_t n = strlen(scope->name);
    bool is_full = slice_starts(text, slice_str(scope->name)) && text.n > n && text.p[n] == '.';
    return config_key_find(schema, *scope, is_full ? slice_from(text, n + 1) : text, key);
}

/* One key: of the root, of the family, or SECTION.KEY and SECTION.NAME.KEY. */
static bool explain_one(struct explain *e, struct slice text)
{
    struct config_name name;
    struct config_key key;
    bool is_found =
        config_split_name(e->schema, text, &name) && config_key_find(e->schema, name.scope, name.key, &key);
    if (!is_found)
        is_found = find_common(e->schema, text, &name.scope, &key);
    if (is_found)
        explain_key(e, name.scope, &key);
    return is_found;
}

/* ---------------------------------------------------------------- what was meant */

struct meant {
    struct text_nearest near;
    struct strbuf name, best;
};

/* of "": the key's name alone. */
static void try_name(struct meant *m, const char *of, const char *key)
{
    const char *before = m->near.best;
    strbuf_reset(&m->name);
    strbuf_printf(&m->name, "%s%s%s", of, *of ? "." : "", key);
    if (!strbuf_failed(&m->name))
        text_nearest_try(&m->near, m->name.p);
    if (m->near.best == before)
        return;
    strbuf_reset(&m->best);
    strbuf_add_slice(&m->best, strbuf_slice(&m->name));
    m->near.best = strbuf_slice(&m->best).p;
}

static void try_all(struct meant *m, const struct config_schema *schema)
{
    struct config_scope scope;
    struct config_key key;
    for (size_t k = 0; schema->scope_at(k, &scope); k++)
        for (size_t i = 0; schema->key_at(scope, i, &key); i++)
            try_name(m, scope.is_family ? "" : scope.name, key.name);
    try_name(m, "", schema->program);
    for (const char *const *inner = schema->inner; *inner; inner++)
        try_name(m, "", *inner);
    for (size_t k = 1; schema->scope_at(k, &scope); k++)
        try_name(m, "", scope.is_family ? schema->section : scope.name);
}

static int say_unknown(const struct config_schema *schema, const char *name, struct diag *why)
{
    struct meant m = {.near = text_nearest_of(slice_str(name))};
    try_all(&m, schema);
    int r = m.near.best ? diag_set(why, E_NODATA, 0, "no key or section \"%.60s\"; did you mean %s?", name,
                                   m.near.best)
                        : diag_set(why, E_NODATA, 0, "no key or section \"%.60s\"; `%s` lists them", name,
                                   schema->explain);
    strbuf_fini(&m.name);
    strbuf_fini(&m.best);
    return r;
}

int config_explain_schema(const struct config_schema *schema, const char *key, enum config_form form,
                          struct strbuf *out, struct diag *why)
{
    struct explain e = {.schema = schema, .form = form, .out = out};
    size_t before = out->n;
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "[\n" : "");
    if (!key) {
        explain_all(&e);
    } else if (!explain_section(&e, slice_str(key)) && !explain_one(&e, slice_str(key))) {
        if (out->n > before)
            out->p[out->n = before] = '\0';
        return say_unknown(schema, key, why);
    }
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "\n]\n" : "");
    return 0;
}
