/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parameter.h"

#include "base/text.h"

#include <errno.h>

const struct parameter *parameter_find(const struct parameter *table, const char *name)
{
    for (const struct parameter *o = table; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

static int parse_list(const char *const *texts, size_t n, struct arena *arena, struct parameter_list *out)
{
    const char **v = arena_alloc(arena, (n ? n : 1) * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (setting_parse(SETTING_STRING, slice_str(texts[i]), arena, &v[i]) < 0)
            return -ENOMEM;
    *out = (struct parameter_list){v, n};
    return 0;
}

static int refuse_unknown(const struct parameter_owner *owner, const struct parameter *table,
                          const char *name, struct diag *why)
{
    struct text_nearest near = text_nearest_of(slice_str(name));
    for (const struct parameter *o = table; o && o->name; o++)
        text_nearest_try(&near, o->name);
    if (near.best)
        return diag_set(why, -EINVAL, 0, "%s has no option `%s`; did you mean `%s`?", owner->name, name,
                        near.best);
    return diag_set(why, -EINVAL, 0, "%s has no option `%s`; `%s` lists them", owner->name, name,
                    owner->explain);
}

static int apply(const struct parameter_owner *owner, const struct parameter *table,
                 const struct parameter_setting *s, struct arena *arena, char *state, struct diag *why)
{
    const struct parameter *o = parameter_find(table, s->name);
    if (!o)
        return refuse_unknown(owner, table, s->name, why);
    if (o->type == SETTING_LIST)
        return parse_list(s->texts, s->n, arena, (struct parameter_list *)(void *)(state + o->offset));
    if (s->n != 1)
        return diag_set(why, -EINVAL, 0, "%s.%s takes one value, not %zu", owner->name, s->name, s->n);
    int r = setting_parse(o->type, slice_str(s->texts[0]), arena, state + o->offset);
    if (r == -ENOMEM)
        return r;
    return r < 0 ? diag_set(why, -EINVAL, 0, "%s.%s: \"%s\" is not a %s; write %s", owner->name, s->name,
                            s->texts[0], setting_type_name(o->type), setting_type_example(o->type))
                 : 0;
}

/* Defaults are written as they would be configured; a list's are its words. */
static int apply_default(const struct parameter *o, struct arena *arena, char *state)
{
    const char *words[32];
    size_t n = 0;
    struct slice rest = slice_str(o->default_text);
    if (o->type != SETTING_LIST)
        return setting_parse(o->type, rest, arena, state + o->offset);
    while (rest.n && n < sizeof words / sizeof *words) {
        const char *blank = memchr(rest.p, ' ', rest.n);
        struct slice word = slice_of(rest.p, blank ? (size_t)(blank - rest.p) : rest.n);
        if (setting_parse(SETTING_STRING, word, arena, &words[n++]) < 0)
            return -ENOMEM;
        rest = slice_from(rest, word.n + 1);
    }
    return parse_list(words, n, arena, (struct parameter_list *)(void *)(state + o->offset));
}

static bool is_given(const char *name, const struct parameter_setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(settings[i].name, name) == 0)
            return true;
    return false;
}

int parameters_apply(const struct parameter_owner *owner, const struct parameter *table,
                     const struct parameter_setting *settings, size_t n, struct arena *arena, void *state,
                     struct diag *why)
{
    for (const struct parameter *o = table; o && o->name; o++) {
        int r = o->default_text ? apply_default(o, arena, state) : 0;
        if (r < 0)
            return r;
        if (o->is_needed && !is_given(o->name, settings, n))
            return diag_set(why, -EINVAL, 0, "%s needs the option `%s`: %s", owner->name, o->name, o->help);
    }
    for (size_t i = 0; i < n; i++) {
        int r = apply(owner, table, &settings[i], arena, state, why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The texts of all options with the name of options[first], which is copied. */
static int group_one(const char *const *options, size_t first, struct arena *arena, const char **texts,
                     struct parameter_setting *out)
{
    size_t length = strcspn(options[first], "=") + 1;
    int r = setting_parse(SETTING_STRING, slice_of(options[first], length - 1), arena, &out->name);
    out->texts = texts;
    out->n = 0;
    for (size_t i = first; options[i]; i++)
        if (strncmp(options[i], options[first], length) == 0)
            texts[out->n++] = options[i] + length;
    return r;
}

int parameters_group(const char *const *options, struct arena *arena, const struct parameter_setting **out,
                     size_t *n, struct diag *why)
{
    size_t total = 0, groups = 0, taken = 0;
    while (options && options[total])
        total++;
    struct parameter_setting *settings = arena_alloc(arena, (total + 1) * sizeof *settings);
    const char **texts = arena_alloc(arena, (total + 1) * sizeof *texts);
    int r = settings && texts ? 0 : -ENOMEM;
    for (size_t i = 0; i < total && r == 0; i++) {
        size_t length = strcspn(options[i], "=");
        if (length == 0 || options[i][length] != '=')
            return diag_set(why, -EINVAL, 0, "'%.60s': an option is given as name=value", options[i]);
        bool is_known = false;
        for (size_t k = 0; k < groups && !is_known; k++)
            is_known = slice_eq_str(slice_of(options[i], length), settings[k].name);
        if (is_known)
            continue;
        r = group_one(options, i, arena, texts + taken, &settings[groups]);
        taken += settings[groups++].n;
    }
    if (r < 0)
        return r;
    *out = settings;
    *n = groups;
    return 0;
}
