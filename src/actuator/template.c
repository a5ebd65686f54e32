/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/template.h"

#include "actuator/escape.h"
#include "actuator/quote.h"
#include "base/text.h"

#include <errno.h>

/* How a value is put into a text. It has been cut. */
struct encoder {
    const char *name; /* "": as it is */
    void (*add)(struct strbuf *out, struct slice value);
};

/* One {...}, taken apart. */
struct piece {
    struct slice name, fallback;
    bool has_fallback;
    const struct encoder *encoder;
    size_t n; /* bytes of all of it, with the braces */
};

static void add_plain(struct strbuf *out, struct slice value)
{
    while (value.n) {
        const char *nul = memchr(value.p, '\0', value.n);
        size_t n = nul ? (size_t)(nul - value.p) : value.n;
        strbuf_add(out, value.p, n);
        if (nul)
            strbuf_add_str(out, "\\x00");
        value = slice_from(value, n + (nul != NULL));
    }
}

static void add_url(struct strbuf *out, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i], l = slice_lower(c);
        if ((l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c)))
            strbuf_add_char(out, c);
        else
            strbuf_printf(out, "%%%02X", (unsigned char)c);
    }
}

static const struct encoder encoders[] = {{"", add_plain}, {"json", quote_json}, {"url", add_url}};

static const struct encoder *find_encoder(struct slice name)
{
    for (size_t i = 1; i < sizeof encoders / sizeof *encoders; i++)
        if (slice_eq_str(name, encoders[i].name))
            return &encoders[i];
    return NULL;
}

/* What begins with the `{` at the front of text; false: it is none of what template.h lists. */
static bool read_piece(const char *text, struct piece *out)
{
    size_t close = strcspn(text, "}"), name = strcspn(text + 1, "?|}");
    if (text[close] != '}')
        return false;
    const char *at = text + 1 + name;
    *out = (struct piece){.name = slice_of(text + 1, name), .encoder = &encoders[0], .n = close + 1};
    if (*at == '|') {
        size_t n = strcspn(at + 1, "?}");
        out->encoder = find_encoder(slice_of(at + 1, n));
        at += 1 + n;
    }
    out->has_fallback = *at == '?';
    out->fallback = out->has_fallback ? slice_of(at + 1, (size_t)(text + close - at - 1)) : SLICE_LIT("");
    return out->encoder && text_is_name(out->name);
}

int template_check(const char *text, struct diag *why)
{
    struct piece piece;
    for (const char *at = text; (at = strchr(at, '{'));) {
        if (at[1] == '{')
            at += 2;
        else if (read_piece(at, &piece))
            at += piece.n;
        else
            return diag_set(
                why, -EINVAL, (uint32_t)(at - text + 1),
                "`%.20s`: write {NAME}, {NAME?default}, {NAME|json}, {NAME|url}, or {{ for a brace", at);
    }
    return 0;
}

bool template_is_plain(const char *text)
{
    return !strchr(text, '{');
}

const struct act_datum *template_find(const struct act_datum *data, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(data[i].name, name))
            return &data[i];
    return NULL;
}

/* The beginning of it that has at most max bytes, no character cut in two. */
static struct slice beginning(struct slice value, size_t max)
{
    size_t n = max;
    while (n > 0 && max - n < 3 && ((unsigned char)value.p[n] & 0xc0) == 0x80)
        n--;
    return slice_of(value.p, ((unsigned char)value.p[n] & 0xc0) == 0x80 ? max : n);
}

static void add_cut(struct strbuf *out, struct slice value, size_t max, const struct encoder *encoder)
{
    struct strbuf cut = {0};
    if (value.n > max) {
        struct slice begin = beginning(value, max);
        strbuf_add_slice(&cut, begin);
        strbuf_printf(&cut, "[... %zu bytes more]", value.n - begin.n);
        value = strbuf_slice(&cut);
    }
    encoder->add(out, value);
    out->failed = out->failed || strbuf_failed(&cut);
    strbuf_fini(&cut);
}

void template_add_value(struct strbuf *out, struct slice value, size_t value_max)
{
    add_cut(out, value, value_max, &encoders[0]);
}

static struct slice value_of(const struct piece *piece, const struct template_values *values)
{
    const struct act_datum *found = template_find(values->data, values->n, piece->name);
    return values->is_sample ? SLICE_LIT("1") : found ? found->value : piece->fallback;
}

/* Into a text that has a grammar: encoded, and then escaped, unless the encoding is that of the grammar. */
static void add_escaped(struct strbuf *out, const struct piece *piece, const struct template_values *values)
{
    struct strbuf encoded = {0};
    bool is_plain = piece->encoder == &encoders[0];
    struct slice value = value_of(piece, values);
    const struct encoder escape = {"", values->escape};
    if (!is_plain)
        add_cut(&encoded, value, values->value_max, piece->encoder);
    if (is_plain)
        add_cut(out, value, values->value_max, &escape);
    else if (piece->encoder->add == quote_json && values->escape == escape_json)
        strbuf_add_slice(out, strbuf_slice(&encoded));
    else
        values->escape(out, strbuf_slice(&encoded));
    out->failed = out->failed || strbuf_failed(&encoded);
    strbuf_fini(&encoded);
}

void template_fill(struct strbuf *out, const char *text, const struct template_values *values)
{
    struct piece piece;
    for (const char *at; (at = strchr(text, '{'));) {
        strbuf_add(out, text, (size_t)(at - text));
        if (at[1] == '{' || !read_piece(at, &piece)) {
            strbuf_add_char(out, '{');
            text = at + 1 + (at[1] == '{');
            continue;
        }
        if (values->escape)
            add_escaped(out, &piece, values);
        else
            add_cut(out, value_of(&piece, values), values->value_max, piece.encoder);
        text = at + piece.n;
    }
    strbuf_add_str(out, text);
}
