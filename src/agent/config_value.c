/* SPDX-License-Identifier: Apache-2.0 */
/* From texts to the value of a key: kinds, ranges, and what to write instead. */
#include "agent/config_internal.h"

#include "base/num.h"
#include "base/text.h"
#include "event/limits.h"
#include "sensor/options.h"

#include <errno.h>
#include <math.h>

enum { LIMIT_MAX_WORDS = 2 }; /* "FIELD LIMIT" */

/* What is being stored. */
struct store {
    struct config_load *load;
    const struct config_key *key;
    const char *name; /* the full one */
    struct config_origin at;
};

#define refuse(s, ...) config_problem((s)->load, -EINVAL, &(s)->at, (s)->name, __VA_ARGS__)

static const char *example(enum config_type type)
{
    return type == CONFIG_SHARE   ? "1%, 0.5%"
           : type == CONFIG_DIGIT ? "5"
                                  : options_type_example((enum sensor_option_type)type);
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

static int parse_digit(struct slice text, uint8_t *out)
{
    uint64_t v;
    int r = num_parse_uint(text, &v);
    if (r < 0 || v > UINT8_MAX)
        return r < 0 ? r : -ERANGE;
    *out = (uint8_t)v;
    return 0;
}

static int parse_number(enum config_type type, struct slice text, struct arena *arena, void *at)
{
    if (type == CONFIG_SHARE)
        return parse_share(text, at);
    if (type == CONFIG_DIGIT)
        return parse_digit(text, at);
    return options_parse_text((enum sensor_option_type)type, text, arena, at);
}

union number {
    int64_t i;
    uint64_t u;
    double f;
    uint8_t digit;
    bool flag;
    const char *text;
};

static bool is_less(enum config_type type, union number a, union number b)
{
    switch (type) {
    case CONFIG_SIZE:
        return a.u < b.u;
    case CONFIG_SHARE:
    case CONFIG_FLOAT:
        return a.f < b.f;
    case CONFIG_DIGIT:
        return a.digit < b.digit;
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

static size_t size_of(enum config_type type)
{
    switch (type) {
    case CONFIG_FLAG:
        return sizeof(bool);
    case CONFIG_DIGIT:
        return sizeof(uint8_t);
    case CONFIG_STRING:
        return sizeof(const char *);
    default:
        return sizeof(int64_t); /* and uint64_t, double */
    }
}

/* Flags, numbers and plain texts. to NULL: only looks. */
static int store_plain(const struct store *s, const char *text, void *to)
{
    const struct config_key *key = s->key;
    union number v;
    int r = parse_number(key->type, slice_str(text), &s->load->c->arena, &v);
    if (r == -ENOMEM)
        return config_problem(s->load, r, NULL, NULL, "out of memory");
    if (r == E_PROTO)
        return refuse(s, "\"%.80s\" is not a %s; write %s", text, config_type_name(key->type),
                      example(key->type));
    if (r < 0 || !is_in_range(key, v))
        return refuse(s, "\"%.80s\" is out of range; it can be %s to %s", text,
                      key->min ? key->min : "the least",
                      key->max ? key->max : "the largest that 64 bits hold");
    if (to)
        memcpy(to, &v, size_of(key->type));
    return 0;
}

static int store_word(const struct store *s, const char *text, char *to)
{
    struct slice rest = slice_str(s->key->words), word;
    for (unsigned i = 0; config_next_word(&rest, '|', &word); i++) {
        if (!slice_eq_str(word, text))
            continue;
        if (s->key->type == CONFIG_MODE)
            *(enum sensor_mode *)(void *)to = (enum sensor_mode)i;
        else if (s->key->type == CONFIG_COMPARE)
            *(bool *)to = i == 1;
        else
            memcpy(to, &text, sizeof text);
        return 0;
    }
    return refuse(s, "\"%.80s\" is none of %s", text, s->key->words);
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

/* Texts with a form of their own. "" is NULL where that means "none". */
static int store_text(const struct store *s, const char *text, char *to)
{
    struct slice t = slice_str(text);
    const char *value = text;
    if (s->key->type == CONFIG_HOST && (t.n > EVENT_ORIGIN_MAX || text_has_control(t) || strpbrk(text, " /")))
        return refuse(s, "\"%.80s\" is not the name of a host; it has at most %d bytes and no blanks", text,
                      EVENT_ORIGIN_MAX);
    if (s->key->type == CONFIG_PATH && t.n && (t.p[0] != '/' || text_has_control(t)))
        return refuse(s, "\"%.80s\" is not a path from the root; begin with /", text);
    bool is_web = slice_starts(t, SLICE_LIT("http://")) || slice_starts(t, SLICE_LIT("https://"));
    if (s->key->type == CONFIG_URL && t.n && (!is_web || text_has_control(t) || strchr(text, ' ')))
        return refuse(s, "\"%.80s\" is not an address; write http://HOST/PATH or https://HOST/PATH", text);
    if (s->key->type != CONFIG_PATH && t.n == 0)
        value = NULL;
    memcpy(to, &value, sizeof value);
    return 0;
}

/* ---------------------------------------------------------------- lists */

/* [tcp://]HOST:PORT or unix:PATH, and nothing that would end it in a list. */
static bool is_address(struct slice text)
{
    uint64_t port;
    if (text.n == 0 || text_has_control(text) || memchr(text.p, ',', text.n) || memchr(text.p, ' ', text.n))
        return false;
    if (slice_starts(text, SLICE_LIT("unix:")))
        return text.n > 5;
    if (slice_starts(text, SLICE_LIT("tcp://")))
        text = slice_from(text, 6);
    size_t host = text.n; /* up to the last colon, and that */
    while (host > 0 && text.p[host - 1] != ':')
        host--;
    if (host < 2 || memchr(text.p, '/', host))
        return false;
    return num_parse_uint(slice_from(text, host), &port) == 0 && port > 0 && port <= UINT16_MAX;
}

static int store_addresses(const struct store *s, const char *const *texts, size_t n, char *to)
{
    struct strbuf all = {0};
    for (size_t i = 0; i < n; i++) {
        if (!is_address(slice_str(texts[i]))) {
            strbuf_fini(&all);
            return refuse(s, "\"%.80s\" is not an address; write tcp://HOST:PORT or unix:PATH", texts[i]);
        }
        strbuf_printf(&all, "%s%s", i ? "," : "", texts[i]);
    }
    const char *copy = strbuf_failed(&all) ? NULL : config_copy(s->load, strbuf_slice(&all));
    strbuf_fini(&all);
    if (!copy)
        return config_problem(s->load, -ENOMEM, NULL, NULL, "out of memory");
    memcpy(to, &copy, sizeof copy);
    return 0;
}

static int store_programs(const struct store *s, const char *const *texts, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++)
        if (!config_is_plain_path(slice_str(texts[i])))
            return refuse(s, "\"%.80s\" is not a path from the root without ..; write /usr/bin/NAME",
                          texts[i]);
    *(struct sensor_list *)(void *)to = (struct sensor_list){texts, n};
    return 0;
}

static int store_ports(const struct store *s, const char *const *texts, size_t n, struct sensor_config *to)
{
    uint16_t *ports = config_alloc(s->load, (n ? n : 1) * sizeof *ports);
    if (!ports)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint64_t port;
        if (num_parse_uint(slice_str(texts[i]), &port) < 0 || port == 0 || port > UINT16_MAX)
            return refuse(s, "\"%.80s\" is not a port; a port is a number from 1 to 65535", texts[i]);
        ports[i] = (uint16_t)port;
    }
    to->ports = ports;
    to->n_ports = n;
    return 0;
}

/* Is it a field of a sample of the sensor? One without schemas may have any. */
static bool has_field(const struct sensor_ops *ops, struct slice name, struct text_nearest *near)
{
    if (!ops->schemas || slice_eq(name, SLICE_LIT("*")))
        return slice_eq(name, SLICE_LIT("*")) || text_is_name(name);
    for (const struct sensor_schema *schema = ops->schemas; schema->name; schema++) {
        for (size_t i = 0; i < schema->n_fields; i++) {
            const struct field *f = &schema->fields[i];
            if (f->role != ROLE_VALUE)
                continue;
            if (slice_eq(f->name, name))
                return true;
            text_nearest_try(near, f->name.p); /* FIELD() makes it of a literal: there is a NUL behind */
        }
    }
    return false;
}

static int parse_limit(const struct store *s, const char *text, const struct sensor_ops *ops,
                       struct change_limit *out)
{
    struct slice words[LIMIT_MAX_WORDS + 1], rest = slice_str(text), word;
    size_t n = 0;
    while (n <= LIMIT_MAX_WORDS && config_next_word(&rest, ' ', &word))
        if (word.n)
            words[n++] = word;
    if (n != LIMIT_MAX_WORDS)
        return refuse(s, "\"%.80s\" is not a limit; write \"FIELD 5\" or \"FIELD 10%%\"", text);
    struct text_nearest near = text_nearest_of(words[0]);
    if (!has_field(ops, words[0], &near))
        return near.best ? refuse(s, "%s has no field \"%.*s\"; did you mean %s?", ops->name,
                                  SLICE_ARG(words[0]), near.best)
                         : refuse(s, "%s has no field \"%.*s\"; `gridline sense --list %s` shows them",
                                  ops->name, SLICE_ARG(words[0]), ops->name);
    struct slice number = words[1];
    out->is_percent = number.p[number.n - 1] == '%';
    number.n -= out->is_percent;
    if (num_parse_float(number, &out->limit) < 0 || !isfinite(out->limit) || signbit(out->limit))
        return refuse(s, "\"%.*s\" is not a limit; write a number that is not negative, or one and %%",
                      SLICE_ARG(words[1]));
    out->field = config_copy(s->load, words[0]);
    return out->field ? 0 : -ENOMEM;
}

static int store_changes(const struct store *s, const char *const *texts, size_t n, struct sensor_config *to)
{
    struct change_limit *changes = config_alloc(s->load, (n ? n : 1) * sizeof *changes);
    if (!changes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = parse_limit(s, texts[i], to->ops, &changes[i]);
        if (r < 0)
            return r;
        for (size_t k = 0; k < i; k++)
            if (strcmp(changes[k].field, changes[i].field) == 0)
                return refuse(s, "%s has two limits; leave one", changes[i].field);
    }
    to->changes = changes;
    to->n_changes = n;
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
    if (!config_type_is_list(key->type)) {
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

static int store(const struct store *s, const char *const *texts, size_t n, char *base)
{
    char *to = base ? base + s->key->offset : NULL;
    if (n != 1 && !config_type_is_list(s->key->type))
        return refuse(s, "takes one value, not %zu", n);
    switch (s->key->type) {
    case CONFIG_LIST:
        return 0;
    case CONFIG_ADDRESSES:
        return store_addresses(s, texts, n, to);
    case CONFIG_PROGRAMS:
        return store_programs(s, texts, n, to);
    case CONFIG_PORTS:
        return store_ports(s, texts, n, (struct sensor_config *)(void *)base);
    case CONFIG_CHANGES:
        return store_changes(s, texts, n, (struct sensor_config *)(void *)base);
    case CONFIG_WORD:
    case CONFIG_MODE:
    case CONFIG_COMPARE:
        return store_word(s, texts[0], to);
    case CONFIG_HOST:
    case CONFIG_PATH:
    case CONFIG_URL:
        return store_text(s, texts[0], to);
    default:
        return store_plain(s, texts[0], to);
    }
}

int config_store(struct config_load *l, const struct config_key *key, const struct config_entry *entry,
                 const char *name, void *base)
{
    struct store s = {.load = l, .key = key, .name = name};
    if (entry) {
        s.at = entry->from;
        return store(&s, entry->setting.texts, entry->setting.n, base);
    }
    const char *const *texts;
    size_t n;
    int r = config_default_texts(l, key, &texts, &n);
    return r < 0 ? r : store(&s, texts, n, base);
}
