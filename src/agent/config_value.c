/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of values that only the agent has. */
#include "agent/config_internal.h"

#include "base/num.h"
#include "base/text.h"
#include "event/limits.h"

#include <errno.h>
#include <math.h>

enum { LIMIT_MAX_WORDS = 2 }; /* "FIELD LIMIT" */

#define member(v, base, type) (*(type *)(void *)((char *)(base) + (v)->key->offset))

static int store_mode(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    unsigned place;
    (void)n; /* one, as it is no list */
    int r = config_word_place(v, texts[0], &place);
    if (r == 0)
        member(v, base, enum sensor_mode) = (enum sensor_mode)place;
    return r;
}

static int store_compare(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    unsigned place;
    (void)n; /* one, as it is no list */
    int r = config_word_place(v, texts[0], &place);
    if (r == 0)
        member(v, base, bool) = place == 1;
    return r;
}

static int store_host(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice t = slice_str(texts[0]);
    (void)n; /* one, as it is no list */
    if (t.n > EVENT_ORIGIN_MAX || text_has_control(t) || strpbrk(t.p, " /"))
        return config_refuse(v, "\"%.80s\" is not the name of a host; it has at most %d bytes and no blanks", t.p,
                             EVENT_ORIGIN_MAX);
    member(v, base, const char *) = t.n ? t.p : NULL;
    return 0;
}

static int store_url(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice t = slice_str(texts[0]);
    (void)n; /* one, as it is no list */
    bool is_web = slice_starts(t, SLICE_LIT("http://")) || slice_starts(t, SLICE_LIT("https://"));
    if (t.n && (!is_web || text_has_control(t) || strchr(t.p, ' ')))
        return config_refuse(v, "\"%.80s\" is not an address; write http://HOST/PATH or https://HOST/PATH", t.p);
    member(v, base, const char *) = t.n ? t.p : NULL;
    return 0;
}

/* ---------------------------------------------------------------- lists */

/* [tcp://]HOST:PORT, tls://HOST:PORT or unix:PATH, and nothing that would end it in a list. */
static bool is_address(struct slice text)
{
    uint64_t port;
    if (text.n == 0 || text_has_control(text) || memchr(text.p, ',', text.n) || memchr(text.p, ' ', text.n))
        return false;
    if (slice_starts(text, SLICE_LIT("unix:")))
        return text.n > 5;
    if (slice_starts(text, SLICE_LIT("tcp://")) || slice_starts(text, SLICE_LIT("tls://")))
        text = slice_from(text, 6);
    size_t host = text.n; /* up to the last colon, and that */
    while (host > 0 && text.p[host - 1] != ':')
        host--;
    if (host < 2 || memchr(text.p, '/', host))
        return false;
    return num_parse_uint(slice_from(text, host), &port) == 0 && port > 0 && port <= UINT16_MAX;
}

static int store_addresses(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        if (!is_address(slice_str(texts[i])))
            return config_refuse(v, "\"%.80s\" is not an address; write tls://HOST:PORT, tcp://HOST:PORT or unix:PATH",
                                 texts[i]);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_names(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        if (!text_is_name(slice_str(texts[i])))
            return config_refuse(v, "\"%.80s\" is not a name; a name has letters, digits and . _ : -", texts[i]);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_programs(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        if (!config_is_plain_path(slice_str(texts[i])))
            return config_refuse(v, "\"%.80s\" is not a path from the root without ..; write /usr/bin/NAME",
                                 texts[i]);
    member(v, base, struct parameter_list) = (struct parameter_list){texts, n};
    return 0;
}

static int store_ports(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct sensor_config *to = base;
    uint16_t *ports = config_alloc(v->load, (n ? n : 1) * sizeof *ports);
    if (!ports)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint64_t port;
        if (num_parse_uint(slice_str(texts[i]), &port) < 0 || port == 0 || port > UINT16_MAX)
            return config_refuse(v, "\"%.80s\" is not a port; a port is a number from 1 to 65535", texts[i]);
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

static int parse_limit(const struct config_value *v, const char *text, const struct sensor_ops *ops,
                       struct change_limit *out)
{
    struct slice words[LIMIT_MAX_WORDS + 1], rest = slice_str(text), word;
    size_t n = 0;
    while (n <= LIMIT_MAX_WORDS && config_next_word(&rest, ' ', &word))
        if (word.n)
            words[n++] = word;
    if (n != LIMIT_MAX_WORDS)
        return config_refuse(v, "\"%.80s\" is not a limit; write \"FIELD 5\" or \"FIELD 10%%\"", text);
    struct text_nearest near = text_nearest_of(words[0]);
    if (!has_field(ops, words[0], &near))
        return near.best ? config_refuse(v, "%s has no field \"%.*s\"; did you mean %s?", ops->name,
                                  SLICE_ARG(words[0]), near.best)
                         : config_refuse(v, "%s has no field \"%.*s\"; `gridline sense --list %s` shows them",
                                  ops->name, SLICE_ARG(words[0]), ops->name);
    struct slice number = words[1];
    out->is_percent = number.p[number.n - 1] == '%';
    number.n -= out->is_percent;
    if (num_parse_float(number, &out->limit) < 0 || !isfinite(out->limit) || signbit(out->limit))
        return config_refuse(v, "\"%.*s\" is not a limit; write a number that is not negative, or one and %%",
                      SLICE_ARG(words[1]));
    out->field = config_copy(v->load, words[0]);
    return out->field ? 0 : -ENOMEM;
}

static int store_changes(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct sensor_config *to = base;
    struct change_limit *changes = config_alloc(v->load, (n ? n : 1) * sizeof *changes);
    if (!changes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = parse_limit(v, texts[i], to->ops, &changes[i]);
        if (r < 0)
            return r;
        for (size_t k = 0; k < i; k++)
            if (strcmp(changes[k].field, changes[i].field) == 0)
                return config_refuse(v, "%s has two limits; leave one", changes[i].field);
    }
    to->changes = changes;
    to->n_changes = n;
    return 0;
}

const struct config_own config_own_mode = {"word", false, store_mode};
const struct config_own config_own_compare = {"word", false, store_compare};
const struct config_own config_own_host = {"text", false, store_host};
const struct config_own config_own_url = {"address", false, store_url};
const struct config_own config_own_addresses = {"list of addresses", true, store_addresses};
const struct config_own config_own_names = {"list of names", true, store_names};
const struct config_own config_own_programs = {"list of paths", true, store_programs};
const struct config_own config_own_ports = {"list of ports", true, store_ports};
const struct config_own config_own_changes = {"list of limits", true, store_changes};
