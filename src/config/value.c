/* SPDX-License-Identifier: Apache-2.0 */
/* From texts to the value of a key: kinds, ranges, and what to write instead. */
#include "config/load.h"

#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>

static enum setting_type plain_type(enum config_type type)
{
    return type == CONFIG_MS ? SETTING_DURATION : (enum setting_type)type;
}

static const char *example(enum config_type type)
{
    return type == CONFIG_SHARE   ? "1%, 0.5%"
           : type == CONFIG_DIGIT ? "5"
           : type == CONFIG_COUNT ? "100"
                                  : setting_type_example(plain_type(type));
}

static int parse_share(struct slice text, double *out)
{
    double percent;
    if (text.n < 2 || text.p[text.n - 1] != '%' ||
        num_parse_float(slice_of(text.p, text.n - 1), &percent) < 0)
        return E_PROTO;
    *out = percent / 100;
    return isfinite(percent) ? 0 : E_PROTO;
}

static int parse_uint(struct slice text, uint64_t max, uint64_t *out)
{
    uint64_t v;
    int r = num_parse_uint(text, &v);
    if (r < 0 || v > max)
        return r < 0 ? r : -ERANGE;
    *out = v;
    return 0;
}

union number {
    int64_t i;
    uint64_t u;
    double f;
    bool flag;
    const char *text;
};

static int parse_number(enum config_type type, struct slice text, struct arena *arena, union number *out)
{
    if (type == CONFIG_SHARE)
        return parse_share(text, &out->f);
    if (type == CONFIG_DIGIT || type == CONFIG_COUNT)
        return parse_uint(text, type == CONFIG_DIGIT ? UINT8_MAX : UINT32_MAX, &out->u);
    return setting_parse(plain_type(type), text, arena, out);
}

static bool is_less(enum config_type type, union number a, union number b)
{
    switch (type) {
    case CONFIG_SIZE:
    case CONFIG_DIGIT:
    case CONFIG_COUNT:
        return a.u < b.u;
    case CONFIG_SHARE:
    case CONFIG_FLOAT:
        return a.f < b.f;
    default:
        return a.i < b.i;
    }
}

static bool is_in_range(const struct config_key *key, union number v)
{
    union number bound;
    if (key->min && parse_number(key->type, slice_str(key->min), NULL, &bound) == 0 &&
        is_less(key->type, v, bound))
        return false;
    return !(key->max && parse_number(key->type, slice_str(key->max), NULL, &bound) == 0 &&
             is_less(key->type, bound, v));
}

static void put_number(enum config_type type, union number v, void *to)
{
    enum { NS_PER_MS = 1000000 };
    switch (type) {
    case CONFIG_FLAG:
        *(bool *)to = v.flag;
        break;
    case CONFIG_DIGIT:
        *(uint8_t *)to = (uint8_t)v.u;
        break;
    case CONFIG_COUNT:
        *(uint32_t *)to = (uint32_t)v.u;
        break;
    case CONFIG_MS: /* its range ends long before 32 bits do */
        *(uint32_t *)to = (uint32_t)(v.i / NS_PER_MS);
        break;
    case CONFIG_STRING:
        *(const char **)to = v.text;
        break;
    default:
        memcpy(to, &v, sizeof v.i); /* int64_t, uint64_t, double */
        break;
    }
}

/* Flags, numbers and plain texts. to NULL: only looks. */
static int store_plain(const struct config_value *s, const char *text, void *to)
{
    const struct config_key *key = s->key;
    union number v;
    int r = parse_number(key->type, slice_str(text), s->load->arena, &v);
    if (r == -ENOMEM)
        return config_problem(s->load, r, NULL, NULL, "out of memory");
    if (r == E_PROTO)
        return config_refuse(s, "\"%.80s\" is not a %s; write %s", text, config_key_type(key),
                             example(key->type));
    if (r < 0 || !is_in_range(key, v))
        return config_refuse(s, "\"%.80s\" is out of range; it can be %s to %s", text,
                             key->min ? key->min : "the least",
                             key->max ? key->max : "the largest that 64 bits hold");
    if (to)
        put_number(key->type, v, to);
    return 0;
}

int config_word_place(const struct config_value *v, const char *text, unsigned *out)
{
    struct slice rest = slice_str(v->key->words), word;
    for (unsigned i = 0; config_next_word(&rest, '|', &word); i++) {
        if (!slice_eq_str(word, text))
            continue;
        *out = i;
        return 0;
    }
    return config_refuse(v, "\"%.80s\" is none of %s", text, v->key->words);
}

static int store_word(const struct config_value *v, const char *text, const char **to)
{
    unsigned place;
    int r = config_word_place(v, text, &place);
    if (r == 0)
        *to = text;
    return r;
}

bool config_is_plain_path(struct slice text)
{
    struct slice part;
    if (text.n == 0 || text.p[0] != '/')
        return false;
    while (config_next_word(&text, '/', &part))
        if (slice_eq(part, SLICE_LIT("..")))
            return false;
    return true;
}

static int store_path(const struct config_value *v, const char *text, const char **to)
{
    if (*text && (*text != '/' || text_has_control(slice_str(text))))
        return config_refuse(v, "\"%.80s\" is not a path from the root; begin with /", text);
    *to = text;
    return 0;
}

int config_store_joined(const struct config_value *v, const char *const *texts, size_t n, char by,
                        const char **out)
{
    struct strbuf all = {0};
    for (size_t i = 0; i < n; i++) {
        if (i)
            strbuf_add_char(&all, by);
        strbuf_add_str(&all, texts[i]);
    }
    const char *copy = strbuf_failed(&all) ? NULL : config_copy(v->load, strbuf_slice(&all));
    strbuf_fini(&all);
    if (!copy)
        return config_problem(v->load, -ENOMEM, NULL, NULL, "out of memory");
    *out = copy;
    return 0;
}

/* ---------------------------------------------------------------- any key */

int config_default_texts(struct config_load *l, const struct config_key *key, const char *const **texts,
                         size_t *n)
{
    struct slice rest = slice_str(key->default_text ? key->default_text : ""), word;
    size_t count = 0;
    const char **list =
        config_alloc(l, (rest.n / 2 + 1) * sizeof *list); /* a word takes two bytes, its blank included */
    if (!list)
        return -ENOMEM;
    if (!config_key_is_list(key)) {
        list[count++] = key->default_text;
        rest.n = 0;
    }
    while (rest.n && config_next_word(&rest, ' ', &word))
        if (word.n && !(list[count++] = config_copy(l, word)))
            return -ENOMEM;
    *texts = list;
    *n = count;
    return 0;
}

static int store(const struct config_value *v, const char *const *texts, size_t n, char *base)
{
    void *to = base ? base + v->key->offset : NULL;
    if (n != 1 && !config_key_is_list(v->key))
        return config_refuse(v, "takes one value, not %zu", n);
    switch (v->key->type) {
    case CONFIG_LIST:
        return 0;
    case CONFIG_OWN:
        return v->key->own->store(v, texts, n, base);
    case CONFIG_WORD:
        return store_word(v, texts[0], to);
    case CONFIG_PATH:
        return store_path(v, texts[0], to);
    default:
        return store_plain(v, texts[0], to);
    }
}

int config_store(struct config_load *l, const struct config_key *key, const struct config_entry *entry,
                 const char *name, void *base)
{
    struct config_value v = {.load = l, .key = key, .name = name};
    if (entry) {
        v.at = entry->from;
        return store(&v, entry->setting.texts, entry->setting.n, base);
    }
    const char *const *texts;
    size_t n;
    int r = config_default_texts(l, key, &texts, &n);
    return r < 0 ? r : store(&v, texts, n, base);
}

void config_store_section(struct config_load *l, const struct given_section *section, void *base)
{
    struct config_key key;
    struct strbuf name = {0};
    for (size_t i = 0; l->schema->key_at(section->scope, i, &key); i++) {
        const struct config_entry *entry = given_find(section, key.name);
        strbuf_reset(&name);
        config_full_name(section->scope, section->title, key.name, &name);
        if (key.is_needed && (!entry || entry->setting.n != 1 || !*entry->setting.texts[0]))
            (void)config_problem(l, -EINVAL, &section->from, strbuf_slice(&name).p, "it is missing: %s",
                                 key.help); /* remembered in l */
        else if (entry || key.default_text)
            (void)config_store(l, &key, entry, strbuf_slice(&name).p, base); /* remembered in l */
    }
    strbuf_fini(&name);
}

void config_store_common(struct config_load *l, const struct given_section *section, void *base)
{
    struct config_key key;
    struct strbuf name = {0};
    for (size_t i = 0; l->schema->key_at(section->scope, i, &key); i++) {
        const struct config_entry *entry = given_find(section, key.name);
        strbuf_reset(&name);
        config_full_name(section->scope, section->title, key.name, &name);
        if (entry || key.is_common)
            (void)config_store(l, &key, entry, strbuf_slice(&name).p,
                               key.is_common ? base : NULL); /* remembered in l */
    }
    strbuf_fini(&name);
}
