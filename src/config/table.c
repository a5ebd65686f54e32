/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked of a schema: its scopes, its keys and their names. */
#include "config/load.h"

bool config_table_at(const struct config_key *table, size_t i, struct config_key *out)
{
    for (; i > 0 && table->name; i--)
        table++;
    *out = *table;
    return table->name;
}

bool config_key_find(const struct config_schema *schema, struct config_scope scope, struct slice name,
                     struct config_key *out)
{
    for (size_t i = 0; schema->key_at(scope, i, out); i++)
        if (slice_eq_str(name, out->name))
            return true;
    return false;
}

bool config_key_is_list(const struct config_key *key)
{
    return key->type == CONFIG_OWN ? key->own->is_list : key->type == CONFIG_LIST;
}

const char *config_key_type(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_SHARE:
        return "percentage";
    case CONFIG_DIGIT:
    case CONFIG_COUNT:
        return "number";
    case CONFIG_MS:
        return setting_type_name(SETTING_DURATION);
    case CONFIG_WORD:
        return "word";
    case CONFIG_PATH:
        return "path";
    case CONFIG_OWN:
        return key->own->name;
    default:
        return setting_type_name((enum setting_type)key->type);
    }
}

struct config_scope config_root(const struct config_schema *schema)
{
    struct config_scope root = {.name = ""};
    (void)schema->scope_at(0, &root); /* every schema has it */
    return root;
}

bool config_scope_find(const struct config_schema *schema, struct slice name, struct config_scope *out)
{
    for (size_t i = 1; schema->scope_at(i, out); i++)
        if (!out->is_family && slice_eq_str(name, out->name))
            return true;
    return false;
}

bool config_inner_find(const struct config_schema *schema, struct slice name)
{
    for (const char *const *inner = schema->inner; *inner; inner++)
        if (slice_eq_str(name, *inner))
            return true;
    return false;
}

bool config_next_word(struct slice *rest, char by, struct slice *word)
{
    if (!rest->p)
        return false;
    const char *stop = rest->n ? memchr(rest->p, by, rest->n) : NULL;
    *word = slice_of(rest->p, stop ? (size_t)(stop - rest->p) : rest->n);
    *rest = stop ? slice_from(*rest, word->n + 1) : slice_of(NULL, 0);
    return true;
}

/* ---------------------------------------------------------------- names */

void config_full_name(struct config_scope scope, const char *title, const char *name, struct strbuf *out)
{
    strbuf_add_str(out, scope.name);
    if (*title)
        strbuf_printf(out, ".%s", title);
    if (name)
        strbuf_printf(out, "%s%s", out->n ? "." : "", name);
}

void config_environment_name(const struct config_schema *schema, struct slice full_name, struct strbuf *out)
{
    strbuf_add_str(out, schema->environment);
    for (size_t i = 0; i < full_name.n; i++) {
        char c = full_name.p[i];
        bool is_lower = c >= 'a' && c <= 'z',
             is_other = is_lower || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        strbuf_add_char(out, is_lower ? (char)(c - 32) : is_other ? c : '_');
    }
}

/* The section whose name, and a dot, the text begins with: the longest, for there is filesystem and
 * filesystem.remote. */
static bool find_leading(const struct config_schema *schema, struct slice text, struct config_scope *out)
{
    struct config_scope scope;
    size_t best = 0;
    for (size_t i = 1; schema->scope_at(i, &scope); i++) {
        struct slice name = slice_str(scope.name);
        bool leads = !scope.is_family && text.n > name.n && slice_starts(text, name) && text.p[name.n] == '.';
        if (leads && name.n > best) {
            best = name.n;
            *out = scope;
        }
    }
    return best > 0;
}

bool config_split_name(const struct config_schema *schema, struct slice full, struct config_name *out)
{
    struct config_key key;
    *out = (struct config_name){.scope = config_root(schema), .title = SLICE_LIT(""), .key = full};
    if (config_key_find(schema, out->scope, full, &key))
        return true;
    if (!find_leading(schema, full, &out->scope))
        return false;
    out->key = slice_from(full, strlen(out->scope.name) + 1);
    for (size_t dot = out->key.n; dot-- > 0;) {
        if (out->key.p[dot] == '.') {
            out->title = slice_of(out->key.p, dot);
            out->key = slice_from(out->key, dot + 1);
            break;
        }
    }
    return true;
}
