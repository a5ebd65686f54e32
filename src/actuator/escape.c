/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/escape.h"

#include "actuator/quote.h"
#include "base/text.h"

static const struct slice replacement = {"\xef\xbf\xbd", 3}; /* U+FFFD */

/* The value's next character, which is taken from it. */
static struct slice next_char(struct slice *value)
{
    size_t n = text_utf8_length(*value);
    struct slice c = n ? slice_of(value->p, n) : replacement;
    *value = slice_from(*value, n ? n : 1);
    return c;
}

static bool is_control(struct slice c)
{
    return c.n == 1 && ((unsigned char)c.p[0] < 0x20 || c.p[0] == 0x7f);
}

void escape_utf8(struct strbuf *out, struct slice value)
{
    if (text_is_utf8(value))
        strbuf_add_slice(out, value);
    else
        while (value.n)
            strbuf_add_slice(out, next_char(&value));
}

/* U+0080 to U+009F, U+2028 and U+2029 end lines, too, for some readers. */
static bool is_break(struct slice c)
{
    return (c.n == 2 && c.p[0] == '\xc2' && (unsigned char)c.p[1] < 0xa0) ||
           (c.n == 3 && memcmp(c.p, "\xe2\x80", 2) == 0 && (c.p[2] == '\xa8' || c.p[2] == '\xa9'));
}

void escape_line(struct strbuf *out, struct slice value)
{
    while (value.n) {
        struct slice c = next_char(&value);
        strbuf_add_slice(out, is_control(c) || is_break(c) ? SLICE_LIT(" ") : c);
    }
}

void escape_json(struct strbuf *out, struct slice value)
{
    size_t at = out->n;
    quote_json(out, value);
    if (strbuf_failed(out))
        return;
    memmove(out->p + at, out->p + at + 1, out->n - at - 2); /* without its quotes */
    out->n -= 2;
    out->p[out->n] = '\0';
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._-:/@", c));
}

void escape_ldap(struct strbuf *out, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        if (is_plain(value.p[i]))
            strbuf_add_char(out, value.p[i]);
        else
            strbuf_printf(out, "\\%02x", (unsigned char)value.p[i]);
    }
}

void escape_glob(struct strbuf *out, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] && strchr("*?[]\\!", value.p[i]))
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, value.p[i]);
    }
}
