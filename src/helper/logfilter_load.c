/* SPDX-License-Identifier: Apache-2.0 */
/* Filter files: libconfuse reads the text; what it says is checked and built here.
 *
 * Messages name the line. libconfuse tells it only while it reads, so values are checked then, by callbacks
 * that it calls for each; what can be checked only at the end (groups that templates name, tables) uses the
 * line of the rule's match, noted on the way. libconfuse 3.3 counts the lines of comments more than once, so
 * comments are blanked out before it sees the text. */
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/level.h"
#include "helper/logfilter_internal.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#ifndef GRIDLINE_FILTERS
#error "the build says where filters are installed"
#endif

struct loading {
    const char *name;
    struct diag *why;
    bool has_failed;
    int code;
    int lines[LOGFILTER_RULES_MAX]; /* of each rule */
    size_t n_rules;
};

/* libconfuse's callbacks are given nothing of ours. */
static _Thread_local struct loading *loading;

/* The first error is kept. */
static int fail_at(int line, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int fail_at(int line, int code, const char *format, ...)
{
    char text[160];
    va_list args;
    if (loading->has_failed)
        return loading->code;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    loading->has_failed = true;
    loading->code = diag_set(loading->why, code, 0, "%.80s:%d: %s", loading->name, line, text);
    if (loading->why)
        loading->why->line = (uint64_t)line;
    return code;
}

static void on_error(cfg_t *cfg, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_error(cfg_t *cfg, const char *format, va_list args)
{
    char text[120];
    (void)vsnprintf(text, sizeof text, format, args);
    (void)fail_at(cfg->line, E_PROTO, "%s; docs/filters.md lists what may be here", text);
}

/* ---- the text ---- */

/* Where the quoted text that starts at p ends; end if it does not. */
static char *skip_quoted(char *p, char *end)
{
    char quote = *p++;
    for (; p < end && *p != quote; p++)
        p += *p == '\\' && p + 1 < end;
    return p;
}

/* Comments become blanks; line ends stay. */
static void blank_comments(char *p, char *end)
{
    for (char *start = p; p < end; p++) {
        if (*p == '"' || *p == '\'') {
            p = skip_quoted(p, end);
        } else if (*p == '#' ||
                   (p + 1 < end && *p == '/' && p[1] == '/' && (p == start || strchr(" \t\n", p[-1])))) {
            while (p < end && *p != '\n')
                *p++ = ' ';
        } else if (p + 1 < end && *p == '/' && p[1] == '*') {
            for (; p < end && !(*p == '*' && p + 1 < end && p[1] == '/'); p++)
                *p = *p == '\n' ? '\n' : ' ';
            for (int i = 0; i < 2 && p < end; i++)
                *p++ = ' ';
            p--;
        }
    }
}

/* ---- patterns ---- */

static pcre2_code *compile(int line, struct slice text, uint32_t options)
{
    int error;
    PCRE2_SIZE at;
    char why[100] = "";
    if (text.n == 0 || text.n > LOGFILTER_PATTERN_MAX) {
        (void)fail_at(line, E_LIMIT, "a pattern has 1 to %d bytes", LOGFILTER_PATTERN_MAX);
        return NULL;
    }
    options |= PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text.p, text.n, options, &error, &at, NULL);
    if (code)
        return code;
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    (void)fail_at(line, E_PROTO, "pattern, byte %zu: %s; write patterns in single quotes", (size_t)at + 1,
                  why);
    return NULL;
}

static int check_pattern(cfg_t *cfg, cfg_opt_t *opt)
{
    const char *text = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
    pcre2_code *code = compile(cfg->line, slice_str(text ? text : ""), 0);
    if (strcmp(opt->name, "match") == 0 && loading->n_rules < LOGFILTER_RULES_MAX)
        loading->lines[loading->n_rules] = cfg->line;
    pcre2_code_free(code);
    return code ? 0 : -1;
}

static enum logvalue_type type_of(const struct type_of *types, size_t n, struct slice name)
{
    for (size_t i = n; i-- > 0;) /* a rule's own come last */
        if (slice_eq(types[i].name, name))
            return types[i].type;
    return LOGVALUE_UNTYPED;
}

struct types {
    struct type_of *v;
    size_t n;
};

static int take_groups(struct logfilter *f, struct pattern *p, const struct types *types, int line)
{
    uint32_t n = 0, size = 0, pairs = 0;
    PCRE2_SPTR table = NULL;
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMECOUNT, &n); /* these can't fail */
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMETABLE, &table);
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_CAPTURECOUNT, &pairs);
    f->pairs_max = pairs > f->pairs_max ? pairs : f->pairs_max;
    if (n > LOGFILTER_GROUPS_MAX)
        return fail_at(line, E_LIMIT, "a pattern has at most %d named groups", LOGFILTER_GROUPS_MAX);
    p->groups = arena_alloc(&f->arena, (n + 1) * sizeof *p->groups);
    if (!p->groups)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++, table += size) {
        struct group *g = &p->groups[i];
        g->name = slice_str((const char *)table + 2); /* lives as long as the code */
        g->number = (uint32_t)table[0] << 8 | table[1];
        g->type = type_of(types->v, types->n, g->name);
        g->is_field = g->name.p[0] != '_';
    }
    p->n_groups = n;
    return 0;
}

/* Groups in the order of the pattern, not of the alphabet: so come the event's fields. */
static int by_number(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int take_patterns(struct logfilter *f, cfg_t *cfg, const char *option, uint32_t flags,
                         const struct types *types, int line, struct pattern_list *out)
{
    unsigned n = cfg_size(cfg, option);
    f->n_patterns += n;
    if (f->n_patterns > LOGFILTER_PATTERNS_MAX)
        return fail_at(line, E_LIMIT, "more than %d patterns; split the filter", LOGFILTER_PATTERNS_MAX);
    out->v = arena_alloc(&f->arena, (n + 1) * sizeof *out->v);
    if (!out->v)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        const char *text = cfg_getnstr(cfg, option, i);
        struct pattern *p = &out->v[i];
        *p = (struct pattern){.code = compile(line, slice_str(text ? text : ""), flags)};
        if (!p->code)
            return E_PROTO;
        out->n = i + 1;
        (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it matching is slower */
        int r = take_groups(f, p, types, line);
        if (r < 0)
            return r;
        qsort(p->groups, p->n_groups, sizeof *p->groups, by_number);
    }
    return 0;
}

/* ---- lists of NAME=VALUE ---- */

static bool split(struct slice s, struct slice *name, struct slice *value)
{
    const char *eq = memchr(s.p, '=', s.n);
    if (!eq || eq == s.p)
        return false;
    *name = slice_of(s.p, (size_t)(eq - s.p));
    *value = slice_from(s, name->n + 1);
    return true;
}

static struct slice last_value(cfg_opt_t *opt)
{
    const char *text = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
    return slice_str(text ? text : "");
}

static int check_types(cfg_t *cfg, cfg_opt_t *opt)
{
    struct slice name, value;
    enum logvalue_type type;
    if (!split(last_value(opt), &name, &value) || logvalue_type_parse(value, &type) < 0)
        return fail_at(cfg->line, E_PROTO,
                       "types: GROUP=TYPE; TYPE is text, int, uint, float, bool, duration, size or time");
    return 0;
}

static int check_levels(cfg_t *cfg, cfg_opt_t *opt)
{
    struct slice name, value;
    uint8_t level;
    if (!split(last_value(opt), &name, &value) || level_parse(value, &level) < 0)
        return fail_at(cfg->line, E_PROTO,
                       "levels: TEXT=LEVEL; LEVEL is debug, info, notice, warning, error, ...");
    return 0;
}

static int check_fields(cfg_t *cfg, cfg_opt_t *opt)
{
    struct slice name, value;
    if (!split(last_value(opt), &name, &value) || !text_is_name(name))
        return fail_at(cfg->line, E_PROTO, "fields: NAME=TEXT; NAME is made of letters, digits and . _ : -");
    return 0;
}

static int check_format(cfg_t *cfg, cfg_opt_t *opt)
{
    char bad;
    struct slice format = last_value(opt);
    if (format.n == 0 || format.n > 100)
        return fail_at(cfg->line, E_PROTO, "time_formats: a format has 1 to 100 bytes");
    if (logtime_check(format.p, &bad) < 0)
        return fail_at(cfg->line, E_PROTO,
                       "time_formats: %%%c is none of Y y m d e H I M S b a p f z s F T %%", bad);
    return 0;
}

static int check_event_name(cfg_t *cfg, cfg_opt_t *opt)
{
    struct slice name = last_value(opt);
    if (name.n > 0 && !text_is_name(name))
        return fail_at(cfg->line, E_PROTO, "%s: an event's name is made of letters, digits and . _ : -",
                       opt->name);
    return 0;
}

static int check_zone(cfg_t *cfg, cfg_opt_t *opt)
{
    struct logtime_zone zone;
    if (logtime_zone_parse(last_value(opt), &zone) < 0)
        return fail_at(cfg->line, E_PROTO, "zone: local, utc, an offset like +02:00, or a zone like Europe/Berlin");
    return 0;
}

static int check_missing(cfg_t *cfg, cfg_opt_t *opt)
{
    struct slice v = last_value(opt);
    return slice_eq_str(v, "now") || slice_eq_str(v, "last") || slice_eq_str(v, "clock")
               ? 0
               : fail_at(cfg->line, E_PROTO, "time_missing: now, last or clock");
}

static int check_duration(cfg_t *cfg, cfg_opt_t *opt)
{
    int64_t ns;
    if (num_parse_duration(last_value(opt), &ns) < 0 || ns < 0)
        return fail_at(cfg->line, E_PROTO, "%s: a duration like 2s or 500ms", opt->name);
    return 0;
}

static int check_range(cfg_t *cfg, cfg_opt_t *opt)
{
    long v = cfg_opt_getnint(opt, 0), max = 10000;
    if (strcmp(opt->name, "max") == 0)
        max = LOGFILTER_ENTRIES_MAX;
    else if (strcmp(opt->name, "year") == 0 && (v < 1970 || v > 2200))
        return fail_at(cfg->line, E_LIMIT, "year: 1970 to 2200");
    return v >= 1 && v <= max ? 0 : fail_at(cfg->line, E_LIMIT, "%s: 1 to %ld", opt->name, max);
}

static int check_event(cfg_t *cfg, cfg_opt_t *opt)
{
    (void)opt;
    if (loading->n_rules >= LOGFILTER_RULES_MAX)
        return fail_at(cfg->line, E_LIMIT, "more than %d events; split the filter", LOGFILTER_RULES_MAX);
    if (loading->lines[loading->n_rules] == 0)
        loading->lines[loading->n_rules] = cfg->line;
    loading->n_rules++;
    return 0;
}

/* ---- templates ---- */

static bool has_group(const struct pattern_list *l, struct slice name)
{
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->v[i].n_groups; k++)
            if (slice_eq(l->v[i].groups[k].name, name))
                return true;
    return false;
}

static int add_part(struct logfilter *f, struct template *t, size_t cap, struct slice text, bool is_group)
{
    if (text.n == 0)
        return 0;
    if (t->n == cap)
        return E_LIMIT;
    struct slice copy = arena_copy(&f->arena, text);
    t->v[t->n++] = (struct template_part){copy, is_group};
    return copy.p ? 0 : -ENOMEM;
}

/* Text with {group}; {{ is a brace. */
static int take_template(struct logfilter *f, const struct rule *rule, int line, const char *option,
                         struct slice s, struct template *out)
{
    enum { PARTS_MAX = 32 };
    int r = 0;
    out->v = arena_alloc(&f->arena, PARTS_MAX * sizeof *out->v);
    if (!out->v)
        return -ENOMEM;
    while (r == 0 && s.n > 0) {
        const char *brace = memchr(s.p, '{', s.n);
        size_t n = brace ? (size_t)(brace - s.p) : s.n;
        r = add_part(f, out, PARTS_MAX, slice_of(s.p, n), false);
        s = slice_from(s, n);
        if (r < 0 || s.n == 0)
            break;
        if (s.n > 1 && s.p[1] == '{') {
            r = add_part(f, out, PARTS_MAX, SLICE_LIT("{"), false);
            s = slice_from(s, 2);
            continue;
        }
        const char *close = memchr(s.p, '}', s.n);
        struct slice name = close ? slice_of(s.p + 1, (size_t)(close - s.p) - 1) : slice_of("", 0);
        if (!close || !(has_group(&f->prefix, name) || has_group(&rule->match, name) ||
                        slice_eq_str(name, "_number")))
            return fail_at(line, E_PROTO, "%s: {%.*s} is no group of match or prefix; {{ is a brace", option,
                           SLICE_ARG(close ? name : SLICE_LIT("")));
        r = add_part(f, out, PARTS_MAX, name, true);
        s = slice_from(s, name.n + 2);
    }
    return r == E_LIMIT ? fail_at(line, r, "%s: more than %d parts", option, PARTS_MAX) : r;
}

static int take_option(struct logfilter *f, const struct rule *rule, int line, cfg_t *cfg, const char *option,
                       struct template *out)
{
    const char *text = cfg_getstr(cfg, option);
    return text && *text ? take_template(f, rule, line, option, slice_str(text), out) : 0;
}

/* ---- tables ---- */

static struct logtable *table_named(struct logfilter *f, struct slice name, long max)
{
    for (size_t i = 0; i < f->n_tables; i++)
        if (slice_eq(f->tables[i].name, name))
            return &f->tables[i];
    if (f->n_tables == LOGFILTER_TABLES_MAX)
        return NULL;
    struct slice copy = arena_copy(&f->arena, name);
    f->tables[f->n_tables] = (struct logtable){.name = copy, .max = (size_t)max};
    return copy.p ? &f->tables[f->n_tables++] : NULL;
}

enum { TABLE_ENTRIES = 4096 };

/* "TABLE KEY" */
static int take_use(struct logfilter *f, const struct rule *rule, int line, cfg_t *cfg, const char *option,
                    struct table_use *out)
{
    const char *text = cfg_getstr(cfg, option);
    if (!text || !*text)
        return 0;
    struct slice s = slice_str(text);
    const char *blank = memchr(s.p, ' ', s.n);
    struct slice name = slice_of(s.p, blank ? (size_t)(blank - s.p) : s.n);
    struct slice key = slice_from(s, name.n + 1);
    if (!text_is_name(name) || key.n == 0)
        return fail_at(line, E_PROTO, "%s: TABLE KEY, as in \"job {id}\"", option);
    out->table = table_named(f, name, TABLE_ENTRIES);
    if (!out->table)
        return fail_at(line, E_LIMIT, "more than %d tables", LOGFILTER_TABLES_MAX);
    return take_template(f, rule, line, option, key, &out->key);
}

static int take_tables(struct logfilter *f, cfg_t *cfg)
{
    for (unsigned i = 0; i < cfg_size(cfg, "table"); i++) {
        cfg_t *sec = cfg_getnsec(cfg, "table", i);
        struct logtable *t = table_named(f, slice_str(cfg_title(sec)), cfg_getint(sec, "max"));
        if (!t)
            return fail_at(sec->line, E_LIMIT, "more than %d tables", LOGFILTER_TABLES_MAX);
        t->is_queue = cfg_getbool(sec, "queue");
        (void)num_parse_duration(slice_str(cfg_getstr(sec, "age")), &t->age_ns); /* check_duration has seen it */
    }
    return 0;
}

/* ---- rules ---- */

static int take_list(struct logfilter *f, cfg_t *cfg, const char *option, struct slice **out, size_t *n)
{
    *n = cfg_size(cfg, option);
    if (*n > LOGFILTER_LIST_MAX)
        return fail_at(cfg->line, E_LIMIT, "%s: more than %d values", option, LOGFILTER_LIST_MAX);
    *out = arena_alloc(&f->arena, (*n + 1) * sizeof **out);
    for (size_t i = 0; *out && i < *n; i++) {
        const char *text = cfg_getnstr(cfg, option, (unsigned)i);
        (*out)[i] = arena_copy(&f->arena, slice_str(text ? text : ""));
        if (!(*out)[i].p)
            return -ENOMEM;
    }
    return *out ? 0 : -ENOMEM;
}

/* base's types and behind them those of cfg. */
static int take_types(struct logfilter *f, cfg_t *cfg, const struct types *base, struct types *out)
{
    struct slice *texts, value;
    size_t n;
    int r = take_list(f, cfg, "types", &texts, &n);
    if (r < 0)
        return r;
    out->v = arena_alloc(&f->arena, (base->n + n + 1) * sizeof *out->v);
    if (!out->v)
        return -ENOMEM;
    for (size_t i = 0; i < base->n; i++)
        out->v[i] = base->v[i];
    out->n = base->n + n;
    for (size_t i = 0; i < n; i++) {
        struct type_of *t = &out->v[base->n + i];
        t->type = LOGVALUE_TEXT;
        (void)split(texts[i], &t->name, &value); /* check_types has seen it, and the next */
        (void)logvalue_type_parse(value, &t->type);
    }
    return 0;
}

/* Constant fields: those of the filter, then the rule's. */
static int take_fields(struct logfilter *f, cfg_t *top, cfg_t *cfg, struct rule *rule,
                       const struct types *types, int line)
{
    struct slice *texts[2], name, value;
    size_t n[2];
    int r = take_list(f, top, "fields", &texts[0], &n[0]);
    if (r == 0)
        r = take_list(f, cfg, "fields", &texts[1], &n[1]);
    if (r < 0)
        return r;
    rule->fields = arena_alloc(&f->arena, (n[0] + n[1] + 1) * sizeof *rule->fields);
    if (!rule->fields)
        return -ENOMEM;
    for (size_t i = 0; i < n[0] + n[1]; i++) {
        struct typed_template *t = &rule->fields[i];
        (void)split(i < n[0] ? texts[0][i] : texts[1][i - n[0]], &name,
                    &value); /* check_fields has seen it */
        *t = (struct typed_template){.name = name, .type = type_of(types->v, types->n, name)};
        r = take_template(f, rule, line, "fields", value, &t->value);
        if (r < 0)
            return r;
        rule->n_fields = i + 1;
    }
    return 0;
}

static int take_time_group(struct logfilter *f, cfg_t *cfg, struct rule *rule, int line)
{
    const char *text = cfg_getstr(cfg, "time");
    struct slice name = slice_str(text && *text ? text : "time");
    if (text && *text && !has_group(&rule->match, name) && !has_group(&f->prefix, name))
        return fail_at(line, E_PROTO, "time: %s is no group of match or prefix", text);
    rule->time_group = arena_copy(&f->arena, name);
    return rule->time_group.p ? 0 : -ENOMEM;
}

static int take_rule(struct logfilter *f, cfg_t *top, cfg_t *cfg, const struct types *types, int line)
{
    struct rule *rule = &f->rules[f->n_rules++];
    struct types own;
    struct slice label = slice_str(cfg_title(cfg));
    *rule = (struct rule){.label = arena_copy(&f->arena, label), .emits = cfg_getbool(cfg, "emit")};
    if (cfg_size(cfg, "match") == 0)
        return fail_at(line, E_PROTO, "event '%.60s' has no match; give it a pattern", label.p);
    int r = take_types(f, cfg, types, &own);
    if (r == 0)
        r = take_patterns(f, cfg, "match", 0, &own, line, &rule->match);
    if (r == 0)
        r = take_time_group(f, cfg, rule, line);
    struct slice name = slice_str(cfg_getstr(cfg, "name") ? cfg_getstr(cfg, "name") : "");
    if (r == 0)
        r = take_template(f, rule, line, "name", name.n ? name : label, &rule->name);
    const struct {
        const char *option;
        struct template *to;
    } templates[] = {
        {"level", &rule->level}, {"prog", &rule->prog},     {"id", &rule->id},
        {"host", &rule->host},   {"target", &rule->target},
    };
    for (size_t i = 0; r == 0 && i < sizeof templates / sizeof *templates; i++)
        r = take_option(f, rule, line, cfg, templates[i].option, templates[i].to);
    if (r == 0 && rule->prog.n == 0)
        r = take_option(f, rule, line, top, "prog", &rule->prog);
    if (r == 0 && rule->host.n == 0)
        r = take_option(f, rule, line, top, "host", &rule->host);
    rule->id_type = type_of(own.v, r == 0 ? own.n : 0, SLICE_LIT("id"));
    if (r == 0)
        r = take_fields(f, top, cfg, rule, &own, line);
    const struct {
        const char *option;
        struct table_use *to;
    } uses[] = {{"remember", &rule->remember},
                {"recall", &rule->recall},
                {"forget", &rule->forget},
                {"end", &rule->end}};
    for (size_t i = 0; r == 0 && i < sizeof uses / sizeof *uses; i++)
        r = take_use(f, rule, line, cfg, uses[i].option, uses[i].to);
    if (r == 0 && rule->remember.table)
        rule->remember.table->is_filled = true;
    return r < 0 ? r : take_list(f, cfg, "keep", &rule->keep, &rule->n_keep);
}

static int take_rules(struct logfilter *f, cfg_t *cfg, const struct types *types)
{
    unsigned n = cfg_size(cfg, "event");
    f->rules = arena_alloc(&f->arena, (n + 1) * sizeof *f->rules);
    if (!f->rules)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        int r = take_rule(f, cfg, cfg_getnsec(cfg, "event", i), types, loading->lines[i]);
        if (r < 0)
            return r;
    }
    if (n == 0 && f->unmatched.n == 0)
        return fail_at(1, E_PROTO, "no event; add one, or unmatched = \"NAME\" to send all lines");
    for (size_t i = 0; i < f->n_rules; i++) {
        const struct rule *r = &f->rules[i];
        const struct logtable *of[] = {r->recall.table, r->forget.table, r->end.table};
        for (size_t k = 0; k < 3; k++)
            if (of[k] && !of[k]->is_filled)
                return fail_at(loading->lines[i], E_PROTO, "no event remembers anything in table %.*s",
                               SLICE_ARG(of[k]->name));
    }
    return 0;
}

/* ---- the rest of the file ---- */

static int take_multiline(struct logfilter *f, cfg_t *cfg)
{
    static const char *const options[] = {"start", "continue", "end"};
    const struct types none = {0};
    int given = 0;
    cfg_t *sec = cfg_size(cfg, "multiline") ? cfg_getnsec(cfg, "multiline", 0) : NULL;
    if (!sec)
        return 0;
    for (int i = 0; i < 3; i++) {
        if (cfg_size(sec, options[i]) == 0)
            continue;
        f->multiline = (enum multiline)(LINES_START + i);
        int r =
            ++given > 1 ? 0 : take_patterns(f, sec, options[i], 0, &none, sec->line, &f->multiline_pattern);
        if (r < 0)
            return r;
    }
    if (given != 1 || f->multiline_pattern.n != 1)
        return fail_at(sec->line, E_PROTO, "multiline: one pattern as start, continue or end");
    int r = take_patterns(f, sec, "whole", 0, &none, sec->line, &f->whole);
    if (r < 0)
        return r;
    f->lines_max = (size_t)cfg_getint(sec, "max_lines");
    f->join = arena_copy(&f->arena, slice_str(cfg_getstr(sec, "join")));
    (void)num_parse_duration(slice_str(cfg_getstr(sec, "wait")), &f->wait_ns); /* check_duration has seen it */
    return f->join.p ? 0 : -ENOMEM;
}

static int take_levels(struct logfilter *f, cfg_t *cfg)
{
    struct slice *texts, value;
    int r = take_list(f, cfg, "levels", &texts, &f->n_levels);
    if (r < 0)
        return r;
    f->levels = arena_alloc(&f->arena, (f->n_levels + 1) * sizeof *f->levels);
    for (size_t i = 0; f->levels && i < f->n_levels; i++) {
        f->levels[i].level = LEVEL_INFO;
        (void)split(texts[i], &f->levels[i].text, &value); /* check_levels has seen it, and the next */
        (void)level_parse(value, &f->levels[i].level);
    }
    return f->levels ? 0 : -ENOMEM;
}

static int take_times(struct logfilter *f, cfg_t *cfg, const struct logfilter_options *o)
{
    const char *zone = o && o->zone ? o->zone : cfg_getstr(cfg, "zone");
    unsigned given = cfg_size(cfg, "time_formats");
    f->n_time_formats = given ? given : 1;
    if (f->n_time_formats > LOGFILTER_LIST_MAX)
        return fail_at(1, E_LIMIT, "time_formats: more than %d", LOGFILTER_LIST_MAX);
    if (logtime_zone_parse(slice_str(zone), &f->zone) < 0)
        return fail_at(1, E_PROTO, "zone %.40s: give local, utc, an offset like +02:00, or a zone like Europe/Berlin", zone);
    f->zone.year = o && o->year ? o->year : (int)cfg_getint(cfg, "year");
    if (o && o->own_host)
        f->own_host = arena_copy(&f->arena, slice_str(o->own_host));
    const char *missing = cfg_getstr(cfg, "time_missing");
    f->time_missing = strcmp(missing, "now") == 0 ? TIME_NOW : strcmp(missing, "last") == 0 ? TIME_LAST : TIME_CLOCK;
    f->time_formats = arena_alloc(&f->arena, (f->n_time_formats + 1) * sizeof *f->time_formats);
    for (size_t i = 0; f->time_formats && i < f->n_time_formats; i++) {
        const char *text = given ? cfg_getnstr(cfg, "time_formats", (unsigned)i) : "iso";
        f->time_formats[i] = arena_copy(&f->arena, slice_of(text, strlen(text) + 1)).p;
        if (!f->time_formats[i])
            return -ENOMEM;
    }
    return f->time_formats ? 0 : -ENOMEM;
}

static int build(struct logfilter *f, cfg_t *cfg, const struct logfilter_options *o)
{
    const struct types none = {0};
    struct types types;
    f->unmatched = arena_copy(&f->arena, slice_str(cfg_getstr(cfg, "unmatched")));
    int r = f->unmatched.p ? take_types(f, cfg, &none, &types) : -ENOMEM;
    if (r == 0)
        r = take_times(f, cfg, o);
    if (r == 0)
        r = take_levels(f, cfg);
    if (r == 0)
        r = take_tables(f, cfg);
    if (r == 0)
        r = take_multiline(f, cfg);
    if (r == 0)
        r = take_patterns(f, cfg, "prefix", PCRE2_ANCHORED, &types, 1, &f->prefix);
    if (r == 0)
        r = take_patterns(f, cfg, "skip", 0, &types, 1, &f->skip);
    if (r == 0)
        r = take_rules(f, cfg, &types);
    return r < 0 ? r : logfilter_prepare(f);
}

static void set_checks(cfg_t *cfg)
{
    static const struct {
        const char *option;
        cfg_validate_callback_t check;
    } checks[] = {
        {"prefix", check_pattern},
        {"skip", check_pattern},
        {"types", check_types},
        {"levels", check_levels},
        {"fields", check_fields},
        {"time_formats", check_format},
        {"zone", check_zone},
        {"year", check_range},
        {"time_missing", check_missing},
        {"unmatched", check_event_name},
        {"multiline|start", check_pattern},
        {"multiline|continue", check_pattern},
        {"multiline|end", check_pattern},
        {"multiline|whole", check_pattern},
        {"multiline|wait", check_duration},
        {"multiline|max_lines", check_range},
        {"table|max", check_range},
        {"table|age", check_duration},
        {"event", check_event},
        {"event|match", check_pattern},
        {"event|types", check_types},
        {"event|fields", check_fields},
    };
    cfg_set_error_function(cfg, on_error);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        (void)cfg_set_validate_func(cfg, checks[i].option, checks[i].check); /* returns the one before */
}

static int parse(struct logfilter *f, char *text, const struct logfilter_options *o)
{
    cfg_opt_t event[] = {
        CFG_STR_LIST("match", NULL, CFGF_NONE), CFG_STR("name", "", CFGF_NONE),
        CFG_STR("level", "info", CFGF_NONE),    CFG_STR("time", "", CFGF_NONE),
        CFG_STR("prog", "", CFGF_NONE),         CFG_STR("id", "", CFGF_NONE),
        CFG_STR("host", "", CFGF_NONE),
        CFG_STR("target", "", CFGF_NONE),       CFG_STR_LIST("fields", NULL, CFGF_NONE),
        CFG_STR_LIST("types", NULL, CFGF_NONE), CFG_STR("remember", "", CFGF_NONE),
        CFG_STR_LIST("keep", NULL, CFGF_NONE),  CFG_STR("recall", "", CFGF_NONE),
        CFG_STR("forget", "", CFGF_NONE),       CFG_STR("end", "", CFGF_NONE),
        CFG_BOOL("emit", cfg_true, CFGF_NONE),  CFG_END(),
    };
    cfg_opt_t table[] = {CFG_INT("max", TABLE_ENTRIES, CFGF_NONE), CFG_BOOL("queue", cfg_false, CFGF_NONE),
                         CFG_STR("age", "0s", CFGF_NONE), CFG_END()};
    cfg_opt_t multiline[] = {
        CFG_STR_LIST("start", NULL, CFGF_NONE),
        CFG_STR_LIST("continue", NULL, CFGF_NONE),
        CFG_STR_LIST("end", NULL, CFGF_NONE),
        CFG_STR_LIST("whole", NULL, CFGF_NONE),
        CFG_STR("join", "\n", CFGF_NONE),
        CFG_INT("max_lines", 500, CFGF_NONE),
        CFG_STR("wait", "2s", CFGF_NONE),
        CFG_END(),
    };
    cfg_opt_t top[] = {
        CFG_STR_LIST("prefix", NULL, CFGF_NONE),
        CFG_STR_LIST("skip", NULL, CFGF_NONE),
        CFG_STR_LIST("types", NULL, CFGF_NONE),
        CFG_STR_LIST("levels", NULL, CFGF_NONE),
        CFG_STR_LIST("fields", NULL, CFGF_NONE),
        CFG_STR_LIST("time_formats", NULL, CFGF_NONE),
        CFG_STR("zone", "local", CFGF_NONE),
        CFG_INT("year", 0, CFGF_NONE),
        CFG_STR("time_missing", "now", CFGF_NONE),
        CFG_STR("host", "", CFGF_NONE),
        CFG_STR("prog", "", CFGF_NONE),
        CFG_STR("unmatched", "", CFGF_NONE),
        CFG_SEC("multiline", multiline, CFGF_MULTI),
        CFG_SEC("table", table, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
        CFG_SEC("event", event, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
        CFG_END(),
    };
    cfg_t *cfg = cfg_init(top, CFGF_NONE);
    if (!cfg)
        return -ENOMEM;
    set_checks(cfg);
    int r = cfg_parse_buf(cfg, text) == CFG_SUCCESS ? 0 : E_PROTO;
    if (r == 0 && cfg_size(cfg, "multiline") > 1)
        r = fail_at(1, E_PROTO, "multiline: one is all there may be");
    if (r == 0)
        r = build(f, cfg, o);
    cfg_free(cfg);
    return r;
}

int logfilter_parse(struct slice text, const char *name, const struct logfilter_options *o,
                    struct logfilter **out, struct diag *why)
{
    struct loading l = {.name = name, .why = why};
    if (text.n > LOGFILTER_FILE_MAX || memchr(text.p, '\0', text.n) || !text_is_utf8(text))
        return diag_set(why, E_LIMIT, 0, "%.80s:1: no filter: more than %d KiB, or not UTF-8 text", name,
                        LOGFILTER_FILE_MAX >> 10);
    struct logfilter *f = mem_alloc(sizeof *f);
    char *copy = mem_try_alloc(text.n + 2); /* one more: libconfuse is given no empty text */
    int r = copy ? 0 : -ENOMEM;
    if (copy) {
        memcpy(copy, text.p, text.n);
        copy[text.n] = '\n';
        blank_comments(copy, copy + text.n);
        loading = &l;
        r = parse(f, copy, o);
        if (r < 0 && !l.has_failed)
            (void)fail_at(1, r, "%s", err_text(r));
        loading = NULL;
    }
    mem_free(copy);
    if (r < 0) {
        logfilter_destroy(f);
        return l.has_failed ? l.code : r;
    }
    *out = f;
    return 0;
}

int logfilter_load(const char *path, const struct logfilter_options *o, struct logfilter **out,
                   struct diag *why)
{
    struct strbuf text = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r = fd < 0 ? -errno : 0;
    while (r == 0 && text.n <= LOGFILTER_FILE_MAX) {
        char *to = strbuf_room(&text, 16384);
        ssize_t n = to ? read(fd, to, 16384) : -1;
        if (n < 0)
            r = to ? -errno : -ENOMEM;
        if (n <= 0)
            break;
        strbuf_advance(&text, (size_t)n);
    }
    if (fd >= 0)
        (void)close(fd); /* opened for reading */
    if (r < 0)
        (void)diag_set(why, r, 0, "%.120s: %s", path, err_text(r));
    else
        r = logfilter_parse(strbuf_slice(&text), path, o, out, why);
    strbuf_fini(&text);
    return r;
}

int logfilter_find(const char *filter, const struct logfilter_options *o, struct logfilter **out, struct diag *why)
{
    static const char *const folders[] = {"/etc/gridline/filters", GRIDLINE_FILTERS};
    struct strbuf path = {0};
    int r = -ENOENT;
    if (strchr(filter, '/'))
        return logfilter_load(filter, o, out, why);
    for (size_t i = 0; r == -ENOENT && i < sizeof folders / sizeof *folders; i++) {
        strbuf_reset(&path);
        strbuf_printf(&path, "%s/%s.conf", folders[i], filter);
        r = strbuf_failed(&path) ? -ENOMEM : logfilter_load(path.p, o, out, why);
    }
    strbuf_fini(&path);
    if (r == -ENOENT)
        return diag_set(why, r, 0, "no filter %.60s in %s or %s; give its path", filter, folders[0], folders[1]);
    return r;
}

int logfilter_check(const char *path, struct diag *why)
{
    struct logfilter *f = NULL;
    int r = logfilter_load(path, NULL, &f, why);
    logfilter_destroy(f);
    return r;
}

int logfilter_plain(const char *event_name, struct logfilter **out, struct diag *why)
{
    if (!text_is_name(slice_str(event_name)))
        return diag_set(why, E_PROTO, 0, "%.80s: no name for an event", event_name);
    struct strbuf text = {0};
    strbuf_printf(&text, "unmatched = \"%s\"", event_name);
    int r =
        strbuf_failed(&text) ? -ENOMEM : logfilter_parse(strbuf_slice(&text), "(no filter)", NULL, out, why);
    strbuf_fini(&text);
    return r;
}
