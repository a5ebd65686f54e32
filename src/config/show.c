/* SPDX-License-Identifier: Apache-2.0 */
/* What is in force, as a file that can be read again, or as JSON: [{"key": "budget.cpu", "value": "1%",
 * "origin": ...}]. Values are shown as they were given; what was not given, with its default. Of those
 * without a default, and of empty lists, there is nothing to show. */
#include "config/load.h"

#include "event/json.h"

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

/* In quotes unless it is a word; see text.c for what a string may hold. */
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

static void show_text(struct config_show *s, const char *key, bool is_list, const char *const *texts,
                      size_t n, const struct config_origin *from)
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

static void show_json(struct config_show *s, const char *full_name, bool is_list, const char *const *texts,
                      size_t n, const struct config_origin *from)
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

static void show_value(struct config_show *s, struct config_scope scope, const char *title,
                       const struct config_key *key, const char *const *texts, size_t n,
                       const struct config_origin *from)
{
    bool is_list = config_key_is_list(key);
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

static void show_default(struct config_show *s, struct config_scope scope, const char *title,
                         const struct config_key *key, const char *text)
{
    const char *words[CONFIG_LIST_MAX];
    struct strbuf copy = {0};
    struct slice rest = slice_str(text), word;
    size_t n = 0;
    if (!config_key_is_list(key)) {
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

static void show_key(struct config_show *s, struct config_scope scope, const char *title,
                     const struct config_key *key, const struct config_entry *entry,
                     const struct config_computed *computed)
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

/* ---------------------------------------------------------------- sections */

static void open_section(struct config_show *s, const char *name, const char *title)
{
    s->indent = "    ";
    if (s->form == CONFIG_FORM_TEXT)
        strbuf_printf(s->out, "\n%s%s%s {\n", name, *title ? " " : "", title);
}

static void close_section(struct config_show *s)
{
    s->indent = "";
    if (s->form == CONFIG_FORM_TEXT)
        strbuf_add_str(s->out, "}\n");
}

void config_show_begin(struct config_show *s)
{
    s->indent = "";
    strbuf_add_str(s->out, s->form == CONFIG_FORM_JSON ? "[\n" : "");
}

/* Those of one section within the root; inner "": those outside of any. */
static void show_inner(struct config_show *s, struct slice inner, const struct config_entry *given, size_t n,
                       const struct config_computed *computed)
{
    struct config_scope root = config_root(s->schema);
    struct config_key key;
    for (size_t i = 0; s->schema->key_at(root, i, &key); i++)
        if (slice_eq(inner, slice_of(key.name, strchr(key.name, '.') ? strcspn(key.name, ".") : 0)))
            show_key(s, root, "", &key, find_entry(given, n, key.name), computed);
}

void config_show_root(struct config_show *s, const struct config_entry *given, size_t n,
                      const struct config_computed *computed)
{
    show_inner(s, SLICE_LIT(""), given, n, computed);
    for (const char *const *inner = s->schema->inner; *inner; inner++) {
        open_section(s, *inner, "");
        show_inner(s, slice_str(*inner), given, n, computed);
        close_section(s);
    }
}

void config_show_section(struct config_show *s, struct config_scope scope, const char *title,
                         const struct config_entry *given, size_t n, const struct config_computed *computed)
{
    struct config_key key;
    open_section(s, scope.name, title);
    for (size_t i = 0; s->schema->key_at(scope, i, &key); i++)
        show_key(s, scope, title, &key, find_entry(given, n, key.name), computed);
    close_section(s);
}

void config_show_end(struct config_show *s)
{
    strbuf_add_str(s->out, s->form == CONFIG_FORM_JSON ? "\n]\n" : "");
}
