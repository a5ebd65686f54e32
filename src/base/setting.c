/* SPDX-License-Identifier: Apache-2.0 */
#include "base/setting.h"

#include "base/err.h"
#include "base/num.h"

#include <errno.h>

static const struct {
    const char *name, *example;
} types[] = {
    [SETTING_FLAG] = {"flag", "true or false"},
    [SETTING_INT] = {"number", "10"},
    [SETTING_FLOAT] = {"number", "0.5"},
    [SETTING_SIZE] = {"size", "64KiB"},
    [SETTING_DURATION] = {"duration", "10s, 5m, 250ms"},
    [SETTING_STRING] = {"text", "some text"},
    [SETTING_LIST] = {"list", "{\"a\", \"b\"}"},
};

const char *setting_type_name(enum setting_type type)
{
    return types[type].name;
}

const char *setting_type_example(enum setting_type type)
{
    return types[type].example;
}

static int parse_flag(struct slice text, bool *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (slice_eq_nocase(text, slice_str(words[i]))) {
            *out = i & 1;
            return 0;
        }
    }
    return E_PROTO;
}

static int parse_string(struct slice text, struct arena *arena, const char **out)
{
    char *copy = arena_alloc(arena, text.n + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    *out = copy;
    return 0;
}

int setting_parse(enum setting_type type, struct slice text, struct arena *arena, void *at)
{
    switch (type) {
    case SETTING_FLAG:
        return parse_flag(text, at);
    case SETTING_INT:
        return num_parse_int(text, at);
    case SETTING_FLOAT:
        return num_parse_float(text, at);
    case SETTING_SIZE:
        return num_parse_size(text, at);
    case SETTING_DURATION:
        return num_parse_duration(text, at);
    case SETTING_STRING:
        return parse_string(text, arena, at);
    case SETTING_LIST:
        break;
    }
    return E_PROTO;
}
