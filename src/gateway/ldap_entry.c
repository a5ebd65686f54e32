/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ldap_entry.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

const char *const ldap_attribute_names[ATTRIBUTES] = {
    [ATTRIBUTE_CLASS] = "objectClass",      [ATTRIBUTE_GATEWAY] = "gridlineGatewayName",
    [ATTRIBUTE_HOST] = "gridlineHostName",  [ATTRIBUTE_SENSOR] = "gridlineSensorName",
    [ATTRIBUTE_DOMAIN] = "gridlineDomain",  [ATTRIBUTE_STATE] = "gridlineState",
    [ATTRIBUTE_STATUS] = "gridlineStatus",  [ATTRIBUTE_WHY] = "gridlineWhy",
    [ATTRIBUTE_MODE] = "gridlineMode",      [ATTRIBUTE_EVENT] = "gridlineEvent",
    [ATTRIBUTE_SCHEMA] = "gridlineSchema",  [ATTRIBUTE_EVERY] = "gridlineEvery",
    [ATTRIBUTE_RATE] = "gridlineRate",      [ATTRIBUTE_SINCE] = "gridlineSince",
    [ATTRIBUTE_LAST] = "gridlineLastEvent", [ATTRIBUTE_UPDATED] = "gridlineUpdated",
};

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._-:/@", c));
}

void ldap_encode(struct strbuf *out, struct slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (is_plain(name.p[i]))
            strbuf_add_char(out, name.p[i]);
        else
            strbuf_printf(out, "%%%02X", (unsigned char)name.p[i]);
    }
}

static void add_name(struct strbuf *out, enum ldap_attribute a, struct slice name)
{
    strbuf_add_str(out, ldap_attribute_names[a]);
    strbuf_add_char(out, '=');
    ldap_encode(out, name);
}

void ldap_entry_name(struct strbuf *out, struct slice host, struct slice sensor, struct slice gateway)
{
    if (host.n == 0) {
        add_name(out, ATTRIBUTE_GATEWAY, gateway);
        return;
    }
    if (sensor.n) {
        add_name(out, ATTRIBUTE_SENSOR, sensor);
        strbuf_add_char(out, ',');
    }
    add_name(out, ATTRIBUTE_HOST, host);
}

static int compare(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = n ? memcmp(x->p, y->p, n) : 0;
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

void ldap_record_add(struct strbuf *out, enum ldap_attribute a, struct slice *values, size_t n)
{
    if (n > 1)
        qsort(values, n, sizeof *values, compare);
    for (size_t i = 0; i < n; i++) {
        if (values[i].n == 0 || (i && slice_eq(values[i], values[i - 1])))
            continue;
        strbuf_add_char(out, (char)a);
        strbuf_add_text(out, values[i]);
    }
}

bool ldap_record_next(struct cursor *c, struct ldap_value *out)
{
    if (cursor_left(c) == 0)
        return false;
    out->attribute = cursor_u8(c);
    out->text = cursor_text(c);
    return !c->bad;
}

static void add_one(struct strbuf *out, enum ldap_attribute a, struct slice value)
{
    ldap_record_add(out, a, &value, 1);
}

static void add_encoded(struct strbuf *out, enum ldap_attribute a, struct slice name)
{
    struct strbuf text = {0};
    ldap_encode(&text, name);
    if (strbuf_failed(&text))
        out->failed = true;
    else
        add_one(out, a, strbuf_slice(&text));
    strbuf_fini(&text);
}

/* As it is, where a server takes it. */
static void add_text(struct strbuf *out, enum ldap_attribute a, struct slice text)
{
    if (text_is_utf8(text) && !text_has_control(text))
        add_one(out, a, text);
    else
        add_encoded(out, a, text);
}

static void add_number(struct strbuf *out, enum ldap_attribute a, uint64_t v)
{
    char text[NUM_TEXT_MAX];
    if (v)
        add_one(out, a, slice_of(text, num_print_uint(text, v)));
}

static void add_rate(struct strbuf *out, double rate)
{
    char text[NUM_TEXT_MAX];
    double rounded = round(rate * 1000) / 1000;
    if (rounded > 0 && isfinite(rounded))
        add_one(out, ATTRIBUTE_RATE, slice_of(text, num_print_float(text, rounded)));
}

/* 20261115212028Z: whole seconds. */
static void add_time(struct strbuf *out, enum ldap_attribute a, int64_t ns)
{
    enum { DIGITS = 14 };
    char text[CLOCK_TEXT_MAX];
    if (ns <= 0)
        return;
    (void)clock_print_ulm(text, ns); /* the digits of the date and time are first, whatever comes behind */
    text[DIGITS] = 'Z';
    add_one(out, a, slice_of(text, DIGITS + 1));
}

static struct slice cut_word(struct slice *list)
{
    const char *comma = list->n ? memchr(list->p, ',', list->n) : NULL;
    struct slice word = slice_of(list->p, comma ? (size_t)(comma - list->p) : list->n);
    *list = slice_from(*list, word.n + 1);
    return word;
}

/* The names, and "NAME HASH" of those that have one. */
static void add_events(struct strbuf *out, struct slice events, struct slice schemas)
{
    struct slice values[LDAP_VALUES_MAX], pairs[LDAP_VALUES_MAX];
    size_t offsets[LDAP_VALUES_MAX], n = 0, n_pairs = 0;
    struct strbuf text = {0};
    while (events.n && n < LDAP_VALUES_MAX) {
        struct slice event = cut_word(&events), hash = cut_word(&schemas);
        if (!text_is_name(event))
            continue;
        values[n++] = event;
        if (!text_is_name(hash))
            continue;
        offsets[n_pairs++] = text.n;
        strbuf_printf(&text, "%.*s %.*s", SLICE_ARG(event), SLICE_ARG(hash));
    }
    ldap_record_add(out, ATTRIBUTE_EVENT, values, n);
    for (size_t i = 0; i < n_pairs && !strbuf_failed(&text); i++)
        pairs[i] = slice_of(text.p + offsets[i], (i + 1 < n_pairs ? offsets[i + 1] : text.n) - offsets[i]);
    if (strbuf_failed(&text))
        out->failed = true;
    else
        ldap_record_add(out, ATTRIBUTE_SCHEMA, pairs, n_pairs);
    strbuf_fini(&text);
}

void ldap_entry_record(struct strbuf *out, const struct ldap_entry *e, struct slice gateway)
{
    struct slice class = e->sensor.n ? SLICE_LIT("gridlineSensor") : SLICE_LIT("gridlineHost");
    if (e->host.n == 0)
        class = SLICE_LIT("gridlineGateway");
    add_one(out, ATTRIBUTE_CLASS, class);
    add_encoded(out, ATTRIBUTE_GATEWAY, gateway);
    add_encoded(out, ATTRIBUTE_HOST, e->host);
    add_encoded(out, ATTRIBUTE_SENSOR, e->sensor);
    add_text(out, ATTRIBUTE_DOMAIN, e->domain);
    add_text(out, ATTRIBUTE_STATE, e->state);
    add_text(out, ATTRIBUTE_STATUS, e->status);
    add_text(out, ATTRIBUTE_WHY, e->why);
    add_text(out, ATTRIBUTE_MODE, e->mode);
    add_events(out, e->events, e->schemas);
    add_number(out, ATTRIBUTE_EVERY, e->every_ms);
    add_rate(out, e->rate);
    add_time(out, ATTRIBUTE_SINCE, e->since_ns);
    add_time(out, ATTRIBUTE_LAST, e->last_ns);
    add_time(out, ATTRIBUTE_UPDATED, e->updated_ns);
}
