/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/quote.h"

#include "actuator/escape.h"
#include "base/text.h"
#include "event/json.h"

/* Is the character, a whole UTF-8 sequence, one that changes how the others are shown? */
static bool is_control(const unsigned char *p, size_t n)
{
    if (n == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    if (n == 2)
        return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c); /* U+0080 to 9F; 061C */
    if (n != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9); /* U+200E, 200F, 2028 to 202E; 2066 to 2069 */
}

static void add_hex(struct strbuf *out, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strbuf_printf(out, "\\x%02x", p[i]);
}

static void add(struct strbuf *out, struct slice s, bool is_word)
{
    while (s.n) {
        size_t n = text_utf8_length(s), whole = n ? n : 1;
        if (n == 0 || is_control((const unsigned char *)s.p, n))
            add_hex(out, (const unsigned char *)s.p, whole);
        else {
            if (is_word && (s.p[0] == '"' || s.p[0] == '\\'))
                strbuf_add_char(out, '\\');
            strbuf_add(out, s.p, n);
        }
        s = slice_from(s, whole);
    }
}

void quote_line(struct strbuf *out, struct slice s)
{
    add(out, s, false);
}

void quote_word(struct strbuf *out, struct slice s)
{
    strbuf_add_char(out, '"');
    add(out, s, true);
    strbuf_add_char(out, '"');
}

void quote_json(struct strbuf *out, struct slice s)
{
    struct strbuf clean = {0};
    escape_utf8(&clean, s);
    json_add_string(out, strbuf_slice(&clean));
    out->failed = out->failed || strbuf_failed(&clean);
    strbuf_fini(&clean);
}

void quote_argv(struct strbuf *out, const char *const *argv)
{
    for (size_t i = 0; argv[i]; i++) {
        if (i)
            strbuf_add_char(out, ' ');
        quote_word(out, slice_str(argv[i]));
    }
}
