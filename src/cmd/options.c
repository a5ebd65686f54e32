/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/encoding.h"
#include "event/level.h"

#include <stdbool.h>

struct parse {
    const struct verb *verb;
    char **argv;
    int argc, at;
    int64_t now_ns;
    void *state;
    struct diag *why;
};

const char *options_nearest(struct slice word, const void *words, size_t n, size_t stride)
{
    struct text_nearest near = text_nearest_of(word);
    for (size_t i = 0; i < n; i++) {
        const char *w;
        memcpy(&w, (const char *)words + i * stride, sizeof w);
        text_nearest_try(&near, w);
    }
    return near.best;
}

static size_t count_options(const struct option_spec *table)
{
    size_t n = 0;
    while (table[n].name)
        n++;
    return n;
}

static int refuse_value(struct parse *p, const struct option_spec *o, const char *value, const char *hint)
{
    return diag_set(p->why, E_PROTO, 0, "--%s: '%.60s' is not %s", o->name, value, hint);
}

static int set_format(struct parse *p, const struct option_spec *o, const char *value)
{
    const struct encoding *e = encoding_by_name(slice_str(value));
    if (e && o->type == OPTION_INPUT && !e->decoder)
        return diag_set(p->why, E_PROTO, 0, "--%s: %s can be written, but not read", o->name, e->name);
    if (e) {
        memcpy((char *)p->state + o->offset, &e, sizeof(e));
        return 0;
    }
    const char *names[16];
    size_t n = 0, length = 0;
    char list[120] = "";
    for (; n < 16 && encoding_at(n); n++) {
        names[n] = encoding_at(n)->name;
        int more = snprintf(list + length, sizeof list - length, "%s%s", n ? " " : "", names[n]);
        length += more > 0 && (size_t)more < sizeof list - length ? (size_t)more : 0;
    }
    const char *near = options_nearest(slice_str(value), names, n, sizeof *names);
    if (near)
        return diag_set(p->why, E_PROTO, 0, "--%s: no format '%.40s'; did you mean %s?", o->name, value,
                        near);
    return diag_set(p->why, E_PROTO, 0, "--%s: no format '%.40s'; there are %s", o->name, value, list);
}

static int set_level(struct parse *p, const struct option_spec *o, const char *value)
{
    if (level_parse(slice_str(value), (uint8_t *)p->state + o->offset) == 0)
        return 0;
    const char *names[LEVEL_COUNT];
    for (uint8_t i = 0; i < LEVEL_COUNT; i++)
        names[i] = level_lower(i).p;
    const char *near = options_nearest(slice_str(value), names, LEVEL_COUNT, sizeof *names);
    if (near)
        return diag_set(p->why, E_PROTO, 0, "--%s: no level '%.40s'; did you mean %s?", o->name, value, near);
    return refuse_value(p, o, value, "a level (error, warning, info, debug, ...)");
}

static int set_time(struct parse *p, const struct option_spec *o, const char *value)
{
    struct option_time t = {.is_set = true};
    if (!*value || clock_parse_human(slice_str(value), p->now_ns, &t.at_ns) < 0)
        return refuse_value(p, o, value, "a time (now-15m, 2026-11-15T21:20:28Z, seconds since 1970)");
    memcpy((char *)p->state + o->offset, &t, sizeof t);
    return 0;
}

static int add_text(struct parse *p, const struct option_spec *o, const char *value)
{
    struct option_texts *texts = (void *)((char *)p->state + o->offset);
    if (texts->n == OPTION_TEXTS_MAX)
        return diag_set(p->why, E_LIMIT, 0, "--%s can be given %d times", o->name, OPTION_TEXTS_MAX);
    texts->v[texts->n++] = value;
    return 0;
}

static int set_value(struct parse *p, const struct option_spec *o, const char *value)
{
    void *to = (char *)p->state + o->offset;
    switch (o->type) {
    case OPTION_FLAG:
        *(bool *)to = true;
        return 0;
    case OPTION_TEXT:
    case OPTION_FILE:
        memcpy(to, &value, sizeof value);
        return 0;
    case OPTION_TEXTS:
        return add_text(p, o, value);
    case OPTION_FORMAT:
    case OPTION_INPUT:
        return set_format(p, o, value);
    case OPTION_LEVEL:
        return set_level(p, o, value);
    case OPTION_SIZE:
        return num_parse_size(slice_str(value), to) == 0 ? 0
                                                         : refuse_value(p, o, value, "a size (64MiB, 2G)");
    case OPTION_DURATION:
        return num_parse_duration(slice_str(value), to) == 0
                   ? 0
                   : refuse_value(p, o, value, "a duration (5s, 250ms)");
    case OPTION_KEEP:
        *(int64_t *)to = INT64_MAX;
        if (strcmp(value, "forever") == 0 ||
            (num_parse_duration(slice_str(value), to) == 0 && *(int64_t *)to > 0))
            return 0;
        return refuse_value(p, o, value, "a duration (30d, 12h) or `forever`");
    case OPTION_TIME:
        return set_time(p, o, value);
    default:
        return E_PROTO;
    }
}

/* The value of an option that is not given with '=' or in the same word. */
static const char *next_word(struct parse *p)
{
    return p->at < p->argc ? p->argv[p->at++] : NULL;
}

/* The same where it may be left out: the next word is one if it can be one. */
static const char *next_keep(struct parse *p)
{
    int64_t ns;
    const char *word = p->at < p->argc ? p->argv[p->at] : "";
    bool is_value = strcmp(word, "forever") == 0 || num_parse_duration(slice_str(word), &ns) == 0;
    return is_value ? next_word(p) : "forever";
}

static int refuse_missing(struct parse *p, const struct option_spec *o)
{
    return diag_set(p->why, E_PROTO, 0, "--%s needs a value: --%s %s", o->name, o->name, o->metavar);
}

static int take_long(struct parse *p, const char *word)
{
    const char *equals = strchr(word, '=');
    struct slice name = equals ? slice_of(word, (size_t)(equals - word)) : slice_str(word);
    const struct option_spec *o = p->verb->options;
    while (o->name && !slice_eq_str(name, o->name))
        o++;
    if (!o->name) {
        const char *near = options_nearest(name, &p->verb->options->name, count_options(p->verb->options),
                                           sizeof *p->verb->options);
        if (near)
            return diag_set(p->why, E_PROTO, 0, "no option --%.*s; did you mean --%s?", SLICE_ARG(name),
                            near);
        return diag_set(p->why, E_PROTO, 0, "no option --%.*s; `gridline help %s` lists them",
                        SLICE_ARG(name), p->verb->name);
    }
    if (o->type == OPTION_FLAG && equals)
        return diag_set(p->why, E_PROTO, 0, "--%s takes no value", o->name);
    if (o->type == OPTION_FLAG)
        return set_value(p, o, NULL);
    const char *value = equals ? equals + 1 : o->type == OPTION_KEEP ? next_keep(p) : next_word(p);
    return value ? set_value(p, o, value) : refuse_missing(p, o);
}

/* -abc: flags one behind the other, the last perhaps with a value. */
static int take_letters(struct parse *p, const char *word)
{
    for (const char *c = word; *c; c++) {
        const struct option_spec *o = p->verb->options;
        while (o->name && o->letter != *c)
            o++;
        if (!o->name)
            return diag_set(p->why, E_PROTO, 0, "no option -%c; `gridline help %s` lists them", *c,
                            p->verb->name);
        if (o->type == OPTION_FLAG) {
            (void)set_value(p, o, NULL); /* a flag can't be wrong */
            continue;
        }
        const char *value = c[1] ? c + 1 : next_word(p);
        return value ? set_value(p, o, value) : refuse_missing(p, o);
    }
    return 0;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static enum options_result check_operands(const struct verb *v, struct operands *found, struct diag *why)
{
    if (found->n < v->operands_min) {
        (void)diag_set(why, E_PROTO, 0, "missing %s: gridline %s %s", v->operands, v->name, v->operands);
        return OPTIONS_BAD;
    }
    if (found->n > v->operands_max) {
        (void)diag_set(why, E_PROTO, 0, "'%.60s' is one argument too many", found->v[v->operands_max]);
        return OPTIONS_BAD;
    }
    return OPTIONS_OK;
}

enum options_result options_parse(const struct verb *v, int argc, char **argv, int64_t now_ns, void *state,
                                  struct operands *operands, struct diag *why)
{
    struct parse p = {.verb = v, .argv = argv, .argc = argc, .now_ns = now_ns, .state = state, .why = why};
    struct operands found = {.v = argv}; /* operands move to the front of argv, behind what has been read */
    bool only_operands = false;
    while (p.at < p.argc) {
        char *word = argv[p.at++];
        int r = 0;
        if (only_operands || word[0] != '-' || word[1] == '\0')
            found.v[found.n++] = word;
        else if (asks_for_help(word))
            return OPTIONS_HELP;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else if (word[1] == '-')
            r = take_long(&p, word + 2);
        else
            r = take_letters(&p, word + 1);
        if (r < 0)
            return OPTIONS_BAD;
    }
    enum options_result r = check_operands(v, &found, why);
    if (r == OPTIONS_OK)
        *operands = found;
    return r;
}
