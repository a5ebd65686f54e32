/* SPDX-License-Identifier: Apache-2.0 */
/* The sections `access NAME` and `token NAME`. Whatever is wrong with a row is told with its line and ends
 * the load: a row that is not understood would be an open door, or a closed one that nobody finds. */
#include "gateway/config_internal.h"

#include "base/text.h"

#include <errno.h>

#define member(v, base, type) (*(type *)(void *)((char *)(base) + (v)->key->offset))

/* ---------------------------------------------------------------- values */

/* Calls fn with every word of every text: lists may be written {"a", "b"} or "a,b". */
static int each_word(const struct config_value *v, const char *const *texts, size_t n,
                     int (*fn)(const struct config_value *v, struct slice word, void *arg), void *arg)
{
    struct slice word;
    if (n == 0)
        return config_refuse(v, "the list is empty; leave it out, or write what you mean");
    for (size_t i = 0; i < n; i++)
        for (struct slice rest = slice_str(texts[i]); config_next_word(&rest, ',', &word);) {
            int r = fn(v, word, arg);
            if (r < 0)
                return r;
        }
    return 0;
}

static int take_who(const struct config_value *v, struct slice word, void *arg)
{
    struct access_subject s;
    (void)arg; /* it is only looked at */
    if (access_parse_who(word, &s))
        return 0;
    return config_refuse(
        v,
        "\"%.*s\" is nobody; write owner, local, local:UID, insecure, agent:NAME, gateway:NAME, "
        "operator:NAME, token:NAME (NAME may be a pattern), nobody or everybody",
        word.n > 80 ? 80 : (int)word.n, word.p);
}

static int take_action(const struct config_value *v, struct slice word, void *arg)
{
    uint32_t bits, *all = arg;
    if (!access_parse_action(word, &bits))
        return config_refuse(
            v,
            "\"%.*s\" is not an action; write join, publish, register, lookup, subscribe, query, "
            "summary, control, test or all",
            word.n > 80 ? 80 : (int)word.n, word.p);
    *all |= bits;
    return 0;
}

static int take_pattern(const struct config_value *v, struct slice word, void *arg)
{
    (void)arg; /* it is only looked at */
    if (access_is_pattern(word))
        return 0;
    return config_refuse(v, "\"%.*s\" is not a pattern; write {\"web*\", db1}",
                         word.n > 80 ? 80 : (int)word.n, word.p);
}

static int store_who(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    int r = each_word(v, texts, n, take_who, NULL);
    return r < 0 ? r : config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_actions(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    member(v, base, uint32_t) = 0;
    return each_word(v, texts, n, take_action, &member(v, base, uint32_t));
}

static int store_patterns(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    int r = each_word(v, texts, n, take_pattern, NULL);
    return r < 0 ? r : config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_sha256(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    unsigned char hash[32];
    (void)n; /* one, as it is no list */
    if (!access_parse_sha256(slice_str(texts[0]), hash))
        return config_refuse(
            v, "this is not a SHA-256 in 64 hex digits; `gridline token --http NAME` makes one");
    member(v, base, const char *) = texts[0];
    return 0;
}

static const struct config_own own_who = {"list of identities", true, store_who};
static const struct config_own own_actions = {"list of actions", true, store_actions};
static const struct config_own own_patterns = {"list of patterns", true, store_patterns};
static const struct config_own own_sha256 = {"SHA-256", false, store_sha256};

/* ---------------------------------------------------------------- keys */

#define ROW(member)   offsetof(struct access_row, member)
#define TOKEN(member) offsetof(struct access_token, member)

static const struct config_key access_keys[] = {
    {.name = "who",
     .type = CONFIG_OWN,
     .own = &own_who,
     .offset = ROW(who),
     .help =
         "whom it is about: `owner`, `local`, `local:UID`, `insecure`, `agent:NAME`, `gateway:NAME`, "
         "`operator:NAME`, `token:NAME` (names may be patterns; without one: any), `nobody`, `everybody`"},
    {.name = "may",
     .type = CONFIG_OWN,
     .own = &own_actions,
     .offset = ROW(may),
     .help = "what it allows: `join`, `publish`, `register`, `lookup`, `subscribe`, `query`, `summary`, "
             "`control`, `test`, "
             "or `all` of these. The first row that fits decides"},
    {.name = "may_not",
     .type = CONFIG_OWN,
     .own = &own_actions,
     .offset = ROW(may_not),
     .help = "what it forbids, in place of may. With neither the row only hides"},
    {.name = "hosts",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = ROW(hosts),
     .help = "of which hosts: patterns, `{\"web*\", db1}`; `@own`: the one that has the identity's name; "
             "none: all"},
    {.name = "events",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = ROW(events),
     .help = "of which events, by patterns of their names; none: all"},
    {.name = "targets",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = ROW(targets),
     .help = "about which targets: patterns of the field `target`, or of the host where an event has none; "
             "none: all"},
    {.name = "hide",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = ROW(hide),
     .help = "which fields and host properties are not seen: patterns of `FIELD` or `EVENT.FIELD`"},
    {0},
};

static const struct config_key token_keys[] = {
    {.name = "sha256",
     .type = CONFIG_OWN,
     .own = &own_sha256,
     .offset = TOKEN(sha256),
     .help = "SHA-256 of the token in hex: the token itself is nowhere here"},
    {.name = "file",
     .type = CONFIG_PATH,
     .offset = TOKEN(path),
     .help = "in place of it, a file that holds the token; nobody else may read it (mode 0600)"},
    {0},
};

const struct config_scope scope_access = {
    .name = "access", .summary = "who may do what: docs/access.md", .of = access_keys, .is_titled = true};
const struct config_scope scope_token = {
    .name = "token", .summary = "a token by which HTTP knows who asks", .of = token_keys, .is_titled = true};

/* ---------------------------------------------------------------- sections */

static void tell(struct config_load *l, const struct given_section *s, const char *what)
{
    struct strbuf name = {0};
    config_full_name(s->scope, s->title, NULL, &name);
    (void)config_problem(l, -EINVAL, &s->from, strbuf_slice(&name).p, "%s", what); /* remembered in l */
    strbuf_fini(&name);
}

void config_make_access(struct config_load *l, const struct given_section *s, struct access_row *a)
{
    size_t problems = l->problems;
    *a = (struct access_row){.name = s->title,
                             .who = "",
                             .hosts = "",
                             .events = "",
                             .targets = "",
                             .hide = "",
                             .file = s->from.where,
                             .line = s->from.line};
    config_store_section(l, s, a);
    (void)given_entries(l, s, &a->given, &a->n_given); /* remembered in l */
    if (l->problems > problems)
        return;
    const char *problem = *a->who ? access_row_problem(a) : "who is missing: whom is it about?";
    if (problem)
        tell(l, s, problem);
}

void config_make_token(struct config_load *l, const struct given_section *s, struct access_token *t)
{
    size_t problems = l->problems;
    *t = (struct access_token){
        .name = s->title, .sha256 = "", .path = "", .file = s->from.where, .line = s->from.line};
    config_store_section(l, s, t);
    (void)given_entries(l, s, &t->given, &t->n_given); /* remembered in l */
    if (l->problems == problems && !*t->sha256 == !*t->path)
        tell(l, s, "give it sha256 or file, one of both");
}

static bool is_token(const struct gateway_config *c, struct slice pattern)
{
    for (size_t i = 0; i < c->n_tokens; i++)
        if (text_glob(pattern, slice_str(c->tokens[i].name)))
            return true;
    return pattern.n == 0; /* any that there may be */
}

/* A token that there is not is a slip of the pen, and a may_not for it would forbid nothing. */
void config_check_access(struct config_load *l, const struct gateway_config *c)
{
    for (size_t i = 0; i < c->n_access; i++) {
        const struct access_row *row = &c->access[i];
        const struct config_origin at = {row->file, row->line};
        struct slice rest = slice_str(row->who), word;
        struct access_subject s;
        while (rest.n && config_next_word(&rest, ',', &word))
            if (access_parse_who(word, &s) && !s.is_everybody && s.kind == ACCESS_TOKEN &&
                !is_token(c, s.name))
                (void)config_problem(l, -EINVAL, &at, "access",
                                     "%s: there is no such token as %.*s; write token NAME "
                                     "{ sha256 = ... }",
                                     row->name, SLICE_ARG(word)); /* remembered in l */
    }
}
