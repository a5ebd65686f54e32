/* SPDX-License-Identifier: Apache-2.0 */
/* What was given, from wherever: sections, their keys and texts. And the two ways to give a value that are no
 * file, the environment and flags, where a key has its full name ("budget.cpu", "disk.every",
 * "exec.root-disk.every") and a list is separated by commas. */
#include "config/load.h"

#include "base/text.h"

#include <errno.h>
#include <unistd.h>

int given_section(struct config_load *l, struct config_scope scope, struct slice title,
                  struct config_origin at, struct given_section **out)
{
    for (struct given_section *s = l->sections; s; s = s->next) {
        if (strcmp(s->scope.name, scope.name) == 0 && slice_eq_str(title, s->title)) {
            *out = s;
            return 0;
        }
    }
    if (scope.is_titled && !text_is_name(title))
        return config_problem(l, -EINVAL, &at, scope.name,
                              "\"%.*s\" is not a name; a name has letters, digits and . _ : -",
                              title.n > 80 ? 80 : (int)title.n, title.p);
    if (l->n_sections == CONFIG_SECTIONS_MAX)
        return config_problem(l, -EINVAL, &at, NULL, "more than %d sections", CONFIG_SECTIONS_MAX);
    struct given_section *s = config_alloc(l, sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct given_section){.scope = scope, .title = config_copy(l, title), .from = at};
    if (!s->title)
        return -ENOMEM;
    *l->last = s;
    l->last = &s->next;
    l->n_sections++;
    *out = s;
    return 0;
}

static struct given_key *find_key(const struct given_section *section, const char *key)
{
    struct given_key *k = section->keys;
    while (k && strcmp(k->entry.setting.name, key) != 0)
        k = k->next;
    return k;
}

const struct config_entry *given_find(const struct given_section *section, const char *key)
{
    struct given_key *k = find_key(section, key);
    return k ? &k->entry : NULL;
}

int given_set(struct config_load *l, struct given_section *section, const char *key,
              const struct slice *texts, size_t n, struct config_origin at)
{
    const char **copies = config_alloc(l, (n ? n : 1) * sizeof *copies);
    if (!copies)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!(copies[i] = config_copy(l, texts[i])))
            return -ENOMEM;
    struct given_key *k = find_key(section, key);
    if (!k) {
        k = config_alloc(l, sizeof *k);
        if (!k)
            return -ENOMEM;
        k->next = section->keys;
        section->keys = k;
    }
    k->entry = (struct config_entry){.setting = {.name = key, .texts = copies, .n = n}, .from = at};
    return 0;
}

int given_entries(struct config_load *l, const struct given_section *section, const struct config_entry **out,
                  size_t *n)
{
    struct config_key key;
    size_t count = 0;
    for (const struct given_key *k = section->keys; k; k = k->next)
        count++;
    struct config_entry *entries = config_alloc(l, (count ? count : 1) * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    *n = 0;
    for (size_t i = 0; l->schema->key_at(section->scope, i, &key); i++) {
        const struct config_entry *e = given_find(section, key.name);
        if (e)
            entries[(*n)++] = *e;
    }
    *out = entries;
    return 0;
}

/* ---------------------------------------------------------------- one text for a key */

static struct slice trim(struct slice s)
{
    while (s.n && s.p[0] == ' ')
        s = slice_from(s, 1);
    while (s.n && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

static int set_list(struct config_load *l, struct given_section *section, const char *key, struct slice value,
                    struct config_origin at)
{
    struct slice words[CONFIG_LIST_MAX], word;
    size_t n = 0;
    while (value.n && config_next_word(&value, ',', &word)) {
        if (n == CONFIG_LIST_MAX)
            return config_problem(l, -EINVAL, &at, key, "more than %d values", CONFIG_LIST_MAX);
        words[n++] = trim(word);
    }
    return given_set(l, section, key, words, n, at);
}

/* Anything that a file could not hold is refused here, too. */
static int set_text(struct config_load *l, struct given_section *section, const struct config_key *key,
                    struct slice value, struct config_origin at)
{
    if (value.n > CONFIG_TEXT_MAX || !text_is_utf8(value))
        return config_problem(l, -EINVAL, &at, NULL, "this is not UTF-8, or more than %d bytes",
                              CONFIG_TEXT_MAX);
    if (config_key_is_list(key))
        return set_list(l, section, key->name, value, at);
    return given_set(l, section, key->name, &value, 1, at);
}

/* ---------------------------------------------------------------- flags */

/* Calls fn with every full name there is, until it returns true. */
static void each_name(const struct config_load *l,
                      bool (*fn)(void *arg, struct config_scope scope, const char *title,
                                 const struct config_key *key),
                      void *arg)
{
    struct config_key key;
    struct config_scope scope;
    for (size_t k = 0; l->schema->scope_at(k, &scope); k++)
        for (size_t i = 0; !scope.is_titled && !scope.is_family && l->schema->key_at(scope, i, &key); i++)
            if (fn(arg, scope, "", &key))
                return;
    for (const struct given_section *s = l->sections; s; s = s->next)
        for (size_t i = 0; *s->title && l->schema->key_at(s->scope, i, &key); i++)
            if (fn(arg, s->scope, s->title, &key))
                return;
}

struct search {
    const struct config_schema *schema;
    struct text_nearest near;
    bool in_environment;
    struct strbuf name;      /* of the one just tried */
    struct strbuf best_name; /* near.best, kept */
};

static bool try_name(void *arg, struct config_scope scope, const char *title, const struct config_key *key)
{
    struct search *s = arg;
    struct strbuf full = {0};
    config_full_name(scope, title, key->name, &full);
    strbuf_reset(&s->name);
    if (s->in_environment)
        config_environment_name(s->schema, strbuf_slice(&full), &s->name);
    else
        strbuf_add_slice(&s->name, strbuf_slice(&full));
    strbuf_fini(&full);
    const char *best = s->near.best;
    size_t head = s->in_environment ? strlen(s->schema->environment) : 0;
    if (!strbuf_failed(&s->name))
        text_nearest_try(&s->near, s->name.p + head);
    if (s->near.best != best) {
        strbuf_reset(&s->best_name);
        strbuf_add_slice(&s->best_name, strbuf_slice(&s->name));
        s->near.best = strbuf_failed(&s->best_name) ? NULL : s->best_name.p + head;
    }
    return false;
}

/* "output.copy.pth": the keys of that section, which may not be there yet. */
static void try_titled(const struct config_load *l, struct slice word, struct search *s)
{
    struct config_name name;
    struct config_key key;
    struct strbuf title = {0};
    if (!config_split_name(l->schema, word, &name) || !name.scope.is_titled || name.title.n == 0)
        return;
    strbuf_add_slice(&title, name.title);
    for (size_t i = 0; !strbuf_failed(&title) && l->schema->key_at(name.scope, i, &key); i++)
        (void)try_name(s, name.scope, title.p, &key); /* it never ends the search */
    strbuf_fini(&title);
}

static void say_unknown(struct config_load *l, struct slice word, bool in_environment,
                        struct config_origin at)
{
    struct search s = {.schema = l->schema, .near = text_nearest_of(word), .in_environment = in_environment};
    each_name(l, try_name, &s);
    if (!in_environment)
        try_titled(l, word, &s);
    if (s.near.best)
        (void)config_problem(l, -EINVAL, &at, NULL, "there is no such key; did you mean %s?", s.best_name.p);
    else
        (void)config_problem(l, -EINVAL, &at, NULL, "there is no such key; `%s` lists them",
                             l->schema->explain);
    strbuf_fini(&s.name);
    strbuf_fini(&s.best_name);
}

void given_setting(struct config_load *l, const char *text, const char *from)
{
    struct config_name name;
    struct config_key key;
    struct given_section *section = &l->root;
    const char *equals = strchr(text, '=');
    struct slice full = slice_of(text, equals ? (size_t)(equals - text) : strlen(text));
    char where[200];
    (void)snprintf(where, sizeof where, "%s %.*s", from, SLICE_ARG(full)); /* cut to fit is fine */
    struct config_origin at = {config_copy(l, slice_str(where)), 0};
    if (!at.where)
        return;
    if (!equals) {
        (void)config_problem(l, -EINVAL, &at, NULL, "= is missing; write -s KEY=VALUE"); /* remembered in l */
        return;
    }
    bool is_known =
        config_split_name(l->schema, full, &name) && config_key_find(l->schema, name.scope, name.key, &key);
    if (is_known && name.scope.is_titled && name.title.n == 0) {
        (void)config_problem(l, -EINVAL, &at, NULL, "a name is missing; write -s %.*s.NAME.%s=VALUE",
                             (int)(full.n - name.key.n - 1), full.p, key.name); /* remembered in l */
        return;
    }
    if (!is_known || name.scope.is_titled != (name.title.n > 0)) {
        say_unknown(l, full, false, at);
        return;
    }
    if (!*name.scope.name || given_section(l, name.scope, name.title, at, &section) == 0)
        (void)set_text(l, section, &key, slice_str(equals + 1), at); /* remembered in l */
}

void given_from_flags(struct config_load *l)
{
    for (size_t i = 0; i < l->flags->n_settings; i++)
        given_setting(l, l->flags->settings[i], "flag -s");
}

/* ---------------------------------------------------------------- environment */

struct variable {
    struct config_load *load;
    struct slice name, value;
    struct config_origin at;
    bool is_found;
};

static bool take_if_same(void *arg, struct config_scope scope, const char *title,
                         const struct config_key *key)
{
    struct variable *v = arg;
    struct strbuf full = {0}, name = {0};
    struct given_section *section = &v->load->root;
    config_full_name(scope, title, key->name, &full);
    config_environment_name(v->load->schema, strbuf_slice(&full), &name);
    v->is_found = slice_eq(strbuf_slice(&name), v->name);
    strbuf_fini(&full);
    strbuf_fini(&name);
    if (!v->is_found)
        return false;
    if (!*scope.name || given_section(v->load, scope, slice_str(title), v->at, &section) == 0)
        (void)set_text(v->load, section, key, v->value, v->at); /* remembered in load */
    return true;
}

void given_from_environment(struct config_load *l)
{
    size_t head = strlen(l->schema->environment);
    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        if (strncmp(*e, l->schema->environment, head) != 0 || !equals)
            continue;
        char where[200];
        struct variable v = {
            .load = l, .name = slice_of(*e, (size_t)(equals - *e)), .value = slice_str(equals + 1)};
        (void)snprintf(where, sizeof where, "environment %.*s", SLICE_ARG(v.name)); /* cut to fit is fine */
        v.at.where = config_copy(l, slice_str(where));
        if (!v.at.where)
            return;
        each_name(l, take_if_same, &v);
        if (!v.is_found)
            say_unknown(l, slice_from(v.name, head), true, v.at);
    }
}
