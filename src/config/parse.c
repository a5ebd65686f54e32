/* SPDX-License-Identifier: Apache-2.0 */
/* libconfuse reads the text; the tables become its cfg_opt_t arrays. All values are strings to it: durations,
 * sizes and the rest have one parser each, in base/num, whatever way they come. Include files and functions
 * do not exist because none is registered.
 *
 * Its callbacks get no pointer of ours, so what they have to tell goes through one static pointer (its
 * scanner is static, too: one parse at a time). The line of a value is kept where libconfuse has the default
 * of a number, which a string does not use. */
#include "config/load.h"

#include "base/text.h"

#include <confuse.h>
#include <errno.h>

struct parse {
    struct config_load *load;
    const char *name; /* of the file */
    bool is_document;
    bool has_failed; /* a problem was told */
    struct arena arena;
    cfg_opt_t *root;
    size_t n_root;
};

static struct parse *parsing;

static void tell(struct parse *p, int line, const char *key, const char *message)
{
    struct config_origin at = {p->name, (unsigned)line};
    p->has_failed = true;
    (void)config_problem(p->load, -EINVAL, &at, key, "%s", message); /* remembered in load */
}

/* ---------------------------------------------------------------- messages */

/* The section's, or the root's. */
static struct config_scope scope_of(const cfg_t *cfg)
{
    struct config_scope scope;
    const struct config_schema *schema = parsing->load->schema;
    return config_scope_find(schema, slice_str(cfg->name), &scope) ? scope : config_root(schema);
}

static void try_keys(struct text_nearest *near, const cfg_t *cfg)
{
    const struct config_schema *schema = parsing->load->schema;
    struct config_scope scope = scope_of(cfg);
    size_t inner = *scope.name ? 0 : strlen(cfg->name) + 1; /* "budget." */
    struct config_key key;
    for (size_t i = 0; schema->key_at(scope, i, &key); i++)
        if (inner == 0 || (strncmp(key.name, cfg->name, inner - 1) == 0 && key.name[inner - 1] == '.'))
            text_nearest_try(near, key.name + inner);
}

/* Everything that can stand at the top of a file. */
static void try_root(struct text_nearest *near, bool is_document)
{
    const struct config_schema *schema = parsing->load->schema;
    struct config_scope scope;
    struct config_key key;
    for (size_t i = 0; schema->key_at(config_root(schema), i, &key); i++)
        if (!strchr(key.name, '.') && (!is_document || key.is_document))
            text_nearest_try(near, key.name);
    for (size_t i = 1; schema->scope_at(i, &scope); i++)
        if (!scope.is_family && (!is_document || scope.is_document))
            text_nearest_try(near, scope.name);
    for (const char *const *inner = schema->inner; !is_document && *inner; inner++)
        text_nearest_try(near, *inner);
}

/* Is there such a key or section, but not for documents? */
static bool is_local(const char *name)
{
    const struct config_schema *schema = parsing->load->schema;
    struct config_scope scope;
    struct config_key key;
    return config_inner_find(schema, slice_str(name)) || config_scope_find(schema, slice_str(name), &scope) ||
           config_key_find(schema, config_root(schema), slice_str(name), &key);
}

static void say_unknown(const cfg_t *cfg, const char *name, struct strbuf *out)
{
    const struct config_schema *schema = parsing->load->schema;
    struct text_nearest near = text_nearest_of(slice_str(name));
    bool is_root = strcmp(cfg->name, "root") == 0;
    if (is_root && parsing->is_document && is_local(name)) {
        strbuf_printf(out, "%s is for this host's own files; a document has %ss only", name, schema->section);
        return;
    }
    if (is_root)
        try_root(&near, parsing->is_document);
    else
        try_keys(&near, cfg);
    if (is_root)
        strbuf_printf(out, "no key or %s \"%.80s\"", schema->section, name);
    else
        strbuf_printf(out, "no key \"%.80s\"", name);
    if (near.best)
        strbuf_printf(out, "; did you mean %s?", near.best);
    else
        strbuf_printf(out, "; `%s%s%s` lists them", schema->explain, is_root ? "" : " ",
                      is_root ? "" : cfg->name);
}

/* What libconfuse says, and what we say before and behind its word. */
static const struct {
    const char *theirs, *before, *behind;
    bool has_example; /* of a section, at the end */
} messages[] = {
    {"unexpected token '%s'", "unexpected \"", "\"; write KEY = VALUE, KEY = {VALUE, VALUE} for a list, ",
     true},
    {"missing equal sign after option '%s'", "= is missing behind ", "; write KEY = VALUE", false},
    {"missing opening brace for section '%s'", "{ is missing behind ", ", which has no name of its own",
     false},
    {"missing title for section '%s'", "", " needs a name of its own; write it before the {", false},
    {"no sub-section title/index for '%s'", "no section ", " yet; write the key inside it", false},
    {"found duplicate title '%s'", "", " is there twice in this file; make one section of both", false},
    {"premature end of file", "the file ends in the middle of a value or section", "", false},
};

__attribute__((format(printf, 1, 0))) static void say_in_our_words(const char *format, const char *word,
                                                                   va_list args, struct strbuf *out)
{
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        if (strcmp(messages[i].theirs, format) == 0) {
            strbuf_printf(out, "%s%.80s%s", messages[i].before, word, messages[i].behind);
            if (messages[i].has_example)
                strbuf_printf(out, "%s for a section", parsing->load->schema->example);
            return;
        }
    }
    char theirs[160];
    (void)vsnprintf(theirs, sizeof theirs, format, args); /* cut to fit is fine for a message */
    strbuf_add_str(out, theirs);
}

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg, const char *format, va_list args)
{
    struct strbuf text = {0};
    va_list copy;
    va_copy(copy, args);
    const char *word = strstr(format, "%s") ? va_arg(copy, const char *) : "";
    va_end(copy);
    if (strcmp(format, "no such option '%s'") == 0)
        say_unknown(cfg, word, &text);
    else
        say_in_our_words(format, word, args, &text);
    tell(parsing, cfg->line, strcmp(cfg->name, "root") == 0 ? NULL : cfg->name,
         strbuf_failed(&text) ? "malformed" : strbuf_slice(&text).p);
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- the tables as libconfuse wants them */

/* Called for each value, before it is kept. */
static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    bool is_first = opt->nvalues <= 1;
    if (opt < cfg->opts ||
        opt >= cfg->opts + cfg_num(cfg)) { /* "section|key", which libconfuse takes for a path */
        tell(parsing, cfg->line, opt->name, "write the key inside its section");
        return -1;
    }
    if (is_first && opt->def.number) {
        char message[80];
        (void)snprintf(message, sizeof message, "is there twice, first on line %ld; leave one",
                       opt->def.number);
        tell(parsing, cfg->line, opt->name, message);
        return -1;
    }
    if (opt->nvalues > CONFIG_LIST_MAX) {
        tell(parsing, cfg->line, opt->name, "more than 256 values");
        return -1;
    }
    if (!text_is_utf8(slice_str(value))) {
        tell(parsing, cfg->line, opt->name, "this is not UTF-8");
        return -1;
    }
    if (is_first)
        opt->def.number = cfg->line;
    *(const char **)result = value;
    return 0;
}

/* The keys whose names begin with prefix (which libconfuse does not see), or those without a dot, and room
 * for more. */
static cfg_opt_t *make_options(struct parse *p, struct config_scope scope, struct slice prefix, size_t more,
                               size_t *used)
{
    const struct config_schema *schema = p->load->schema;
    struct config_key key;
    size_t n = 0;
    while (schema->key_at(scope, n, &key))
        n++;
    cfg_opt_t *options = arena_alloc(&p->arena, (n + more + 1) * sizeof *options);
    if (!options)
        return NULL;
    memset(options, 0, (n + more + 1) * sizeof *options);
    *used = 0;
    for (size_t i = 0; schema->key_at(scope, i, &key); i++) {
        if (!slice_starts(slice_str(key.name), prefix) || strchr(key.name + prefix.n, '.'))
            continue;
        if (!*scope.name && p->is_document && !key.is_document)
            continue;
        cfg_flag_t flags = CFGF_NODEFAULT | (config_key_is_list(&key) ? CFGF_LIST : CFGF_NONE);
        options[(*used)++] =
            (cfg_opt_t){.name = key.name + prefix.n, .type = CFGT_STR, .flags = flags, .parsecb = on_value};
    }
    return options;
}

static int add_section(struct parse *p, const char *name, struct config_scope scope, struct slice prefix,
                       bool is_titled)
{
    size_t unused;
    cfg_opt_t *options = make_options(p, scope, prefix, 0, &unused);
    if (!options)
        return -ENOMEM;
    cfg_flag_t flags = CFGF_MULTI | (is_titled ? CFGF_TITLE | CFGF_NO_TITLE_DUPES : CFGF_NONE);
    p->root[p->n_root++] = (cfg_opt_t){.name = name, .type = CFGT_SEC, .flags = flags, .subopts = options};
    return 0;
}

/* "budget" of "budget.cpu". */
static int add_inner(struct parse *p, const char *name)
{
    char prefix[CONFIG_INNER_MAX + 2];
    int n = snprintf(prefix, sizeof prefix, "%s.", name);
    return add_section(p, name, config_root(p->load->schema), slice_of(prefix, (size_t)n), false);
}

/* A section that the text does not name needs no table: there are many, and libconfuse copies each twice. */
static int make_root(struct parse *p, struct slice text)
{
    const struct config_schema *schema = p->load->schema;
    struct config_scope scope;
    size_t sections = 0, inner = 0;
    int r = 0;
    while (schema->scope_at(sections, &scope))
        sections++;
    while (schema->inner[inner])
        inner++;
    p->root = make_options(p, config_root(schema), SLICE_LIT(""), sections + inner, &p->n_root);
    if (!p->root)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && !p->is_document && i < inner; i++)
        r = add_inner(p, schema->inner[i]);
    for (size_t i = 1; r == 0 && schema->scope_at(i, &scope); i++) {
        bool is_for_it = !scope.is_family && (!p->is_document || scope.is_document);
        if (is_for_it && memmem(text.p, text.n, scope.name, strlen(scope.name)))
            r = add_section(p, scope.name, scope, SLICE_LIT(""), scope.is_titled);
    }
    return r;
}

/* ---------------------------------------------------------------- what was read */

static bool was_given(const cfg_opt_t *opt)
{
    return opt->type == CFGT_STR && (opt->flags & CFGF_MODIFIED);
}

static int take_key(struct parse *p, struct given_section *to, struct slice prefix, const cfg_opt_t *opt,
                    unsigned line)
{
    struct slice texts[CONFIG_LIST_MAX];
    struct config_key key;
    struct strbuf name = {0};
    struct config_origin at = {p->name, opt->def.number ? (unsigned)opt->def.number : line};
    for (unsigned i = 0; i < opt->nvalues; i++)
        texts[i] = slice_str(opt->values[i]->string);
    strbuf_add_slice(&name, prefix);
    strbuf_add_str(&name, opt->name);
    int r = strbuf_failed(&name) ? -ENOMEM : 0;
    /* The table's name outlives this one. */
    if (r == 0 && config_key_find(p->load->schema, to->scope, strbuf_slice(&name), &key))
        r = given_set(p->load, to, key.name, texts, opt->nvalues, at);
    strbuf_fini(&name);
    return r;
}

static int take_keys(struct parse *p, struct given_section *to, struct slice prefix, const cfg_t *cfg)
{
    int r = 0;
    for (const cfg_opt_t *opt = cfg->opts; r == 0 && opt->name; opt++)
        if (was_given(opt))
            r = take_key(p, to, prefix, opt, (unsigned)cfg->line);
    return r;
}

/* libconfuse has the line where the section ends; that of the first key in it says more. */
static unsigned first_line(const cfg_t *cfg)
{
    unsigned line = (unsigned)cfg->line;
    for (const cfg_opt_t *opt = cfg->opts; opt->name; opt++)
        if (opt->def.number > 0 && (unsigned)opt->def.number < line)
            line = (unsigned)opt->def.number;
    return line;
}

static int take_section(struct parse *p, const cfg_t *cfg)
{
    struct config_origin at = {p->name, first_line(cfg)};
    struct given_section *section;
    struct config_scope scope = scope_of(cfg);
    if (!*scope.name) {
        char prefix[CONFIG_INNER_MAX + 2];
        int n = snprintf(prefix, sizeof prefix, "%s.", cfg->name);
        return take_keys(p, &p->load->root, slice_of(prefix, (size_t)n), cfg);
    }
    int r = given_section(p->load, scope, slice_str(cfg->title ? cfg->title : ""), at, &section);
    if (r == 0)
        r = take_keys(p, section, SLICE_LIT(""), cfg);
    return r == -ENOMEM ? r
                        : 0; /* anything else was told; the other sections may have problems to tell, too */
}

static int take_all(struct parse *p, const cfg_t *cfg)
{
    int r = take_keys(p, &p->load->root, SLICE_LIT(""), cfg);
    for (const cfg_opt_t *opt = cfg->opts; r == 0 && opt->name; opt++) {
        bool is_once = opt->type == CFGT_SEC && !(opt->flags & CFGF_TITLE);
        if (is_once && opt->nvalues > 1) {
            tell(p, (int)first_line(opt->values[1]->section), opt->name,
                 "is there twice in this file; make one section of both");
            continue;
        }
        for (unsigned i = 0; r == 0 && opt->type == CFGT_SEC && i < opt->nvalues; i++)
            r = take_section(p, opt->values[i]->section);
    }
    return r;
}

static void tell_malformed(struct parse *p, int line)
{
    char message[120];
    (void)snprintf(message, sizeof message, "malformed; write KEY = VALUE or %s",
                   p->load->schema->example); /* fits */
    tell(p, line, NULL, message);
}

static int read_checked(struct parse *p, struct slice text)
{
    int r = make_root(p, text);
    cfg_t *cfg = r == 0 ? cfg_init(p->root, CFGF_NONE) : NULL;
    if (!cfg)
        return config_problem(p->load, -ENOMEM, NULL, NULL, "out of memory");
    (void)cfg_set_error_function(cfg, on_error); /* gives the old one back */
    if (cfg_parse_buf(cfg, text.p) != CFG_SUCCESS) {
        if (!p->has_failed) /* it has no words for an empty name */
            tell_malformed(p, cfg->line);
    } else if (take_all(p, cfg) == -ENOMEM) {
        (void)config_problem(p->load, -ENOMEM, NULL, NULL, "out of memory"); /* remembered in load */
    }
    (void)cfg_free(cfg); /* can't fail with a cfg */
    return p->load->code;
}

int config_parse(struct config_load *l, struct slice text, const char *name, bool is_document)
{
    struct parse p = {.load = l, .name = config_copy(l, slice_str(name)), .is_document = is_document};
    struct strbuf checked = {0};
    struct diag why = {0};
    if (!p.name)
        return l->code;
    if (is_document)
        l->document = p.name;
    struct config_origin at = {p.name, 0};
    int r = config_text_check(text, &checked, &why);
    strbuf_add_char(&checked, '\n');
    if (r == 0 && strbuf_failed(&checked))
        r = -ENOMEM;
    at.line = (unsigned)why.line;
    if (r < 0) {
        (void)config_problem(l, r, &at, NULL, "%s",
                             r == -ENOMEM ? "out of memory" : why.message); /* remembered */
    } else {
        parsing = &p;
        (void)read_checked(&p, strbuf_slice(&checked)); /* remembered */
        parsing = NULL;
    }
    strbuf_fini(&checked);
    arena_fini(&p.arena);
    return l->code;
}
