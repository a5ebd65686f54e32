/* SPDX-License-Identifier: Apache-2.0 */
/* What is in force, as a file that can be read again, or as JSON: [{"key": "budget.cpu", "value": "1%",
 * "origin": ...}]. Values are shown as they were given; what was not given, with its default. Of those
 * without a default, and of empty lists, there is nothing to show. */
#include "agent/config_internal.h"

#include "event/json.h"

struct show {
    enum config_form form;
    bool with_origins;
    struct strbuf *out;
    size_t n;           /* values shown so far */
    const char *indent; /* of a key in the current section */
};

/* ---------------------------------------------------------------- one value */

static bool is_word(const char *text)
{
    for (const char *p = text; *p; p++) {
        bool is_letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!is_letter && !strchr("_-.%", *p))
            return false;
    }
    return *text;
}

/* In quotes unless it is a word; see config_text.c for what a string may hold. */
static void add_text(struct strbuf *out, const char *text)
{
    if (is_word(text)) {
        strbuf_add_str(out, text);
        return;
    }
    strbuf_add_char(out, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < ' ' || *p == 0x7f)
            strbuf_printf(out, "\\x%02x", *p);
        else if (strchr("\"\\$", *p))
            strbuf_printf(out, "\\%c", *p);
        else
            strbuf_add_char(out, (char)*p);
    }
    strbuf_add_char(out, '"');
}

static void add_origin(struct strbuf *out, const struct config_origin *from)
{
    strbuf_add_str(out, from && from->where ? from->where : "default");
    if (from && from->where && from->line)
        strbuf_printf(out, ":%u", from->line);
}

/* A file's name may have a line end in it, which would end the comment. */
static void add_comment(struct strbuf *out, const struct config_origin *from)
{
    struct strbuf text = {0};
    add_origin(&text, from);
    strbuf_add_str(out, "  # ");
    for (size_t i = 0; i < text.n; i++)
        strbuf_add_char(out, (unsigned char)text.p[i] < ' ' ? '?' : text.p[i]);
    strbuf_fini(&text);
}

static void show_text(struct show *s, const char *key, bool is_list, const char *const *texts, size_t n,
                      const struct config_origin *from)
{
    struct strbuf *out = s->out;
    strbuf_printf(out, "%s%s = %s", s->indent, key, is_list ? "{" : "");
    for (size_t i = 0; i < n; i++) {
        strbuf_add_str(out, i ? ", " : "");
        add_text(out, texts[i]);
    }
    strbuf_add_str(out, is_list ? "}" : "");
    if (s->with_origins)
        add_comment(out, from);
    strbuf_add_char(out, '\n');
}

static void show_json(struct show *s, const char *full_name, bool is_list, const char *const *texts, size_t n,
                      const struct config_origin *from)
{
    struct strbuf *out = s->out, origin = {0};
    strbuf_add_str(out, s->n ? ",\n {\"key\": " : " {\"key\": ");
    json_add_string(out, slice_str(full_name));
    strbuf_printf(out, ", \"value\": %s", is_list ? "[" : "");
    for (size_t i = 0; i < n; i++) {
        strbuf_add_str(out, i ? ", " : "");
        json_add_string(out, slice_str(texts[i]));
    }
    strbuf_add_str(out, is_list ? "]" : "");
    if (s->with_origins) {
        add_origin(&origin, from);
        strbuf_add_str(out, ", \"origin\": ");
        json_add_string(out, strbuf_slice(&origin));
        strbuf_fini(&origin);
    }
    strbuf_add_char(out, '}');
}

static void show_value(struct show *s, struct config_scope scope, const char *title,
                       const struct config_key *key, const char *const *texts, size_t n,
                       const struct config_origin *from)
{
    bool is_list = config_type_is_list(key->type);
    const char *dot = strchr(key->name, '.');
    if (s->form == CONFIG_FORM_TEXT) {
        show_text(s, dot ? dot + 1 : key->name, is_list, texts, n, from);
    } else {
        struct strbuf name = {0};
        config_full_name(scope, title, key->name, &name);
        show_json(s, strbuf_slice(&name).p, is_list, texts, n, from);
        strbuf_fini(&name);
    }
    s->n++;
}

/* ---------------------------------------------------------------- one key */

/* Where a default is not in the table. */
struct computed {
    const char *name, *text;
};

static void show_default(struct show *s, struct config_scope scope, const char *title,
                         const struct config_key *key, const char *text)
{
    const char *words[CONFIG_LIST_MAX];
    struct strbuf copy = {0};
    struct slice rest = slice_str(text), word;
    size_t n = 0;
    if (!config_type_is_list(key->type)) {
        show_value(s, scope, title, key, &text, 1, NULL);
        return;
    }
    while (rest.n && n < CONFIG_LIST_MAX && config_next_word(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        words[n++] = (const char *)(uintptr_t)copy.n; /* the place; the buffer may move yet */
        strbuf_add_slice(&copy, word);
        strbuf_add(&copy, "", 1);
    }
    for (size_t i = 0; i < n; i++)
        words[i] = strbuf_failed(&copy) ? "" : copy.p + (uintptr_t)words[i];
    if (n)
        show_value(s, scope, title, key, words, n, NULL);
    strbuf_fini(&copy);
}

static const struct config_entry *find_entry(const struct config_entry *given, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(given[i].setting.name, name) == 0)
            return &given[i];
    return NULL;
}

static void show_key(struct show *s, struct config_scope scope, const char *title,
                     const struct config_key *key, const struct config_entry *entry,
                     const struct computed *computed)
{
    const char *text = key->default_text;
    for (; computed && computed->name; computed++)
        if (strcmp(computed->name, key->name) == 0)
            text = computed->text;
    if (entry)
        show_value(s, scope, title, key, entry->setting.texts, entry->setting.n, &entry->from);
    else if (text)
        show_default(s, scope, title, key, text);
}

static void show_keys(struct show *s, struct config_scope scope, const char *title,
                      const struct config_entry *given, size_t n, const struct computed *computed)
{
    struct config_key key;
    for (size_t i = 0; config_key_at(scope, i, &key); i++)
        show_key(s, scope, title, &key, find_entry(given, n, key.name), computed);
}

/* ---------------------------------------------------------------- sections */

static void open_section(struct show *s, const char *name, const char *title)
{
    s->indent = "    ";
    if (s->form == CONFIG_FORM_TEXT)
        strbuf_printf(s->out, "\n%s%s%s {\n", name, *title ? " " : "", title);
}

static void close_section(struct show *s)
{
    s->indent = "";
    if (s->form == CONFIG_FORM_TEXT)
        strbuf_add_str(s->out, "}\n");
}

/* The keys without a dot, then the section of the others. */
static void show_agent(struct show *s, const struct agent_config *c)
{
    const struct computed computed[] = {{"state_dir", c->state_dir ? c->state_dir : ""},
                                        {"run_dir", c->run_dir},
                                        {"socket", c->socket},
                                        {NULL, NULL}};
    struct config_scope agent = {.kind = SCOPE_AGENT};
    struct config_key key;
    for (int in_section = 0; in_section <= 1; in_section++) {
        if (in_section)
            open_section(s, "budget", "");
        for (size_t i = 0; config_key_at(agent, i, &key); i++)
            if ((strchr(key.name, '.') != NULL) == in_section)
                show_key(s, agent, "", &key, find_entry(c->given, c->n_given, key.name), computed);
        if (in_section)
            close_section(s);
    }
}

static void show_sensor(struct show *s, const struct sensor_config *sensor)
{
    struct config_scope scope = {.kind = SCOPE_SENSOR, .ops = sensor->ops};
    const char *title = sensor->ops->is_multi ? sensor->name : "";
    const struct config_entry *every = find_entry(sensor->given, sensor->n_given, "every");
    struct config_key key = {0};
    (void)config_key_find(scope, SLICE_LIT("every"), &key); /* every sensor has it */
    /* A refresh that was not given grows with every. */
    const struct computed grown[] = {{"refresh", every ? every->setting.texts[0] : key.default_text},
                                     {NULL, NULL}};
    bool has_grown = sensor->refresh_ns == sensor->every_ns;
    open_section(s, sensor->ops->name, title);
    show_keys(s, scope, title, sensor->given, sensor->n_given, has_grown ? grown : NULL);
    close_section(s);
}

void config_show(const struct agent_config *c, enum config_form form, bool with_origins, struct strbuf *out)
{
    struct show s = {.form = form, .with_origins = with_origins, .out = out, .indent = ""};
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "[\n" : "");
    show_agent(&s, c);
    for (size_t i = 0; i < c->n_outputs; i++) {
        const struct output_config *o = &c->outputs[i];
        open_section(&s, "output", o->name);
        show_keys(&s, (struct config_scope){.kind = SCOPE_OUTPUT}, o->name, o->given, o->n_given, NULL);
        close_section(&s);
    }
    for (size_t i = 0; i < c->n_sensors; i++)
        show_sensor(&s, &c->sensors[i]);
    strbuf_add_str(out, form == CONFIG_FORM_JSON ? "\n]\n" : "");
}
