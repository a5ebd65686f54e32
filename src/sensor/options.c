/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/options.h"

#include "base/setting.h"

#include <errno.h>

const struct sensor_option *options_find(const struct sensor_ops *ops, const char *name)
{
    for (const struct sensor_option *o = ops->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

static int parse_list(const char *const *texts, size_t n, struct arena *arena, struct sensor_list *out)
{
    const char **v = arena_alloc(arena, (n ? n : 1) * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (setting_parse(SETTING_STRING, slice_str(texts[i]), arena, &v[i]) < 0)
            return -ENOMEM;
    *out = (struct sensor_list){v, n};
    return 0;
}

static int apply(const struct sensor_ops *ops, const struct sensor_setting *s, struct arena *arena, char *state,
                 struct diag *why)
{
    const struct sensor_option *o = options_find(ops, s->name);
    if (!o)
        return diag_set(why, -EINVAL, 0, "%s has no option `%s`; `gridline config explain %s` lists them", ops->name,
                        s->name, ops->name);
    if (o->type == SENSOR_LIST)
        return parse_list(s->texts, s->n, arena, (struct sensor_list *)(void *)(state + o->offset));
    if (s->n != 1)
        return diag_set(why, -EINVAL, 0, "%s.%s takes one value, not %zu", ops->name, s->name, s->n);
    int r = setting_parse((enum setting_type)o->type, slice_str(s->texts[0]), arena, state + o->offset);
    if (r == -ENOMEM)
        return r;
    return r < 0 ? diag_set(why, -EINVAL, 0, "%s.%s: \"%s\" is not a %s; write %s", ops->name, s->name, s->texts[0],
                            setting_type_name((enum setting_type)o->type), setting_type_example((enum setting_type)o->type))
                 : 0;
}

/* Defaults are written as they would be configured; a list's are its words. */
static int apply_default(const struct sensor_option *o, struct arena *arena, char *state)
{
    const char *words[32];
    size_t n = 0;
    struct slice rest = slice_str(o->default_text);
    if (o->type != SENSOR_LIST)
        return setting_parse((enum setting_type)o->type, rest, arena, state + o->offset);
    while (rest.n && n < sizeof words / sizeof *words) {
        const char *blank = memchr(rest.p, ' ', rest.n);
        struct slice word = slice_of(rest.p, blank ? (size_t)(blank - rest.p) : rest.n);
        if (setting_parse(SETTING_STRING, word, arena, &words[n++]) < 0)
            return -ENOMEM;
        rest = slice_from(rest, word.n + 1);
    }
    return parse_list(words, n, arena, (struct sensor_list *)(void *)(state + o->offset));
}

static bool is_given(const char *name, const struct sensor_setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(settings[i].name, name) == 0)
            return true;
    return false;
}

int options_apply(const struct sensor_ops *ops, const struct sensor_setting *settings, size_t n, struct arena *arena,
                  void *state, struct diag *why)
{
    for (const struct sensor_option *o = ops->options; o && o->name; o++) {
        int r = o->default_text ? apply_default(o, arena, state) : 0;
        if (r < 0)
            return r;
        if (o->is_needed && !is_given(o->name, settings, n))
            return diag_set(why, -EINVAL, 0, "%s needs the option `%s`: %s", ops->name, o->name, o->help);
    }
    for (size_t i = 0; i < n; i++) {
        int r = apply(ops, &settings[i], arena, state, why);
        if (r < 0)
            return r;
    }
    return 0;
}
