/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the text before libconfuse reads it. libconfuse 3.3 (Debian 12) reads more than anyone would
 * want, and says nothing:
 *
 *   - a comment line counts as three lines: every message after it would name the wrong one. So comments are
 * left out here, and their line ends kept;
 *   - a section that is not closed ends with the file, and a string that is not closed makes the next parse
 * of the process begin inside a string;
 *   - "${NAME}" becomes an environment variable, also in a document from a URL. It is refused here; `\$` is a
 * dollar;
 *   - characters that it does not know (`*`, `+`) are skipped; a `\0` escape cuts the string;
 *   - memory: 100,000 sections of one MiB of text cost 350 MB. Sections are counted here.
 *
 * What passes has nothing but these tokens, which both read alike:
 *
 *     word      letters, digits and _ - . : / % @ ~
 *     string    "..." with \n \t \" \\ \$ \xHH ..., or '...' with \\ and \'; it ends on its line
 *     = , { }   in pairs, at most DEPTH_MAX deep
 *     comment   # and // to the end of the line, slash-star to star-slash; none begins inside a word */
#include "config/load.h"

#include "base/text.h"

#include <errno.h>

enum { DEPTH_MAX = 2 }; /* a list in a section */

struct scanner {
    const char *p, *end;
    unsigned line;
    bool after_equals; /* the last token: the brace of a list may follow */
    unsigned depth, open_line[DEPTH_MAX];
    size_t sections;
    struct strbuf *out;
    struct diag *why;
};

#define refuse(s, ...) ((s)->why->line = (s)->line, diag_set((s)->why, -EINVAL, 0, __VA_ARGS__))

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.:/%@~", c) != NULL);
}

static char peek(const struct scanner *s, size_t ahead)
{
    return (size_t)(s->end - s->p) > ahead ? s->p[ahead] : '\0';
}

static void skip_line(struct scanner *s)
{
    while (s->p < s->end && *s->p != '\n')
        s->p++;
}

static int skip_block(struct scanner *s)
{
    unsigned began = s->line;
    for (s->p += 2; s->p < s->end; s->p++) {
        if (*s->p == '*' && peek(s, 1) == '/') {
            s->p += 2;
            strbuf_add_char(s->out, ' ');
            return 0;
        }
        if (*s->p == '\n') {
            s->line++;
            strbuf_add_char(s->out, '\n');
        }
    }
    s->line = began;
    return refuse(s, "this comment has no end; close it with */");
}

/* At the backslash; the escape is left for the caller to copy. */
static int check_escape(struct scanner *s)
{
    char c = peek(s, 1);
    if (c >= '0' && c <= '9')
        return refuse(s, "\\%c is no escape; write \\x and two hexadecimal digits", c);
    if (c != 'x')
        return 0;
    int high = text_hex_digit(peek(s, 2)), low = text_hex_digit(peek(s, 3));
    if (high < 0 || (high == 0 && low <= 0))
        return refuse(s, "write \\x and two hexadecimal digits, not 00");
    return 0;
}

/* A string and its quotes, as they are. */
static int take_string(struct scanner *s, char quote)
{
    const char *from = s->p++;
    for (; s->p < s->end && *s->p != quote; s->p++) {
        if (*s->p == '\\') {
            int r = quote == '"' ? check_escape(s) : 0;
            if (r < 0)
                return r;
            s->p++; /* what is behind it is looked at below: it must be on this line, too */
        } else if (quote == '"' && *s->p == '$' && peek(s, 1) == '{') {
            return refuse(s, "${...} is not replaced by the environment; write \\${ for these characters");
        }
        char c = peek(s, 0);
        if (s->p >= s->end || c == '\n')
            return refuse(s, "this text has no end; close it with %c (a line end in a text is \\n)", quote);
        if ((unsigned char)c < ' ' && c != '\t')
            return refuse(s, "a text can't have the control character 0x%02x; write \\x%02x", c, c);
    }
    if (s->p >= s->end)
        return refuse(s, "this text has no end; close it with %c", quote);
    s->p++;
    if (s->p - from > CONFIG_TEXT_MAX)
        return refuse(s, "a text can have %d bytes", CONFIG_TEXT_MAX);
    strbuf_add(s->out, from, (size_t)(s->p - from));
    return 0;
}

static int take_word(struct scanner *s)
{
    const char *from = s->p;
    while (s->p < s->end && is_word(*s->p))
        s->p++;
    if (s->p - from > CONFIG_TEXT_MAX)
        return refuse(s, "a word can have %d bytes", CONFIG_TEXT_MAX);
    strbuf_add(s->out, from, (size_t)(s->p - from));
    return 0;
}

static int open_brace(struct scanner *s)
{
    if (!s->after_equals && ++s->sections > CONFIG_SECTIONS_MAX)
        return refuse(s, "more than %d sections", CONFIG_SECTIONS_MAX);
    if (s->depth == DEPTH_MAX || (s->depth && !s->after_equals))
        return refuse(s, "a section in a section, or is a } missing above (the { of line %u)?",
                      s->open_line[s->depth - 1]);
    s->open_line[s->depth++] = s->line;
    return 0;
}

/* One of = , { } */
static int take_mark(struct scanner *s)
{
    int r = 0;
    if (*s->p == '{')
        r = open_brace(s);
    else if (*s->p == '}' && s->depth-- == 0)
        r = refuse(s, "this } closes nothing");
    if (r < 0)
        return r;
    s->after_equals = *s->p == '=';
    strbuf_add_char(s->out, *s->p++);
    return 0;
}

static int take_other(struct scanner *s)
{
    unsigned char c = (unsigned char)*s->p;
    if (c == '+')
        return refuse(s, "+= is not known; write the whole list with =");
    if (c < ' ' || c == 0x7f)
        return refuse(s, "the control character 0x%02x", c);
    if (c >= 0x80)
        return refuse(s, "only a text in quotes may have letters that are not ASCII");
    return refuse(s, "unexpected %c; a text with such characters is written in quotes", c);
}

static int take_token(struct scanner *s)
{
    char c = *s->p;
    bool is_text = c == '"' || c == '\'' || is_word(c);
    if (c == '#' || (c == '/' && peek(s, 1) == '/')) {
        skip_line(s);
        return 0;
    }
    if (c == '/' && peek(s, 1) == '*')
        return skip_block(s);
    if (strchr("=,{}", c))
        return c ? take_mark(s) : take_other(s);
    if (!is_text)
        return take_other(s);
    s->after_equals = false;
    return is_word(c) ? take_word(s) : take_string(s, c);
}

int config_text_check(struct slice text, struct strbuf *out, struct diag *why)
{
    struct scanner s = {.p = text.p, .end = text.p + text.n, .line = 1, .out = out, .why = why};
    if (text.n > CONFIG_FILE_MAX)
        return refuse(&s, "larger than %d bytes", CONFIG_FILE_MAX);
    if (!text_is_utf8(text))
        return refuse(&s, "this is not UTF-8");
    while (s.p < s.end) {
        int r = 0;
        if (strchr(" \t\r\n", *s.p) && *s.p) {
            s.line += *s.p == '\n';
            strbuf_add_char(out, *s.p++);
        } else {
            r = take_token(&s);
        }
        if (r < 0)
            return r;
    }
    s.line = s.depth ? s.open_line[s.depth - 1] : s.line;
    if (s.depth)
        return refuse(&s, "this { is not closed; write } behind the last key");
    return strbuf_failed(out) ? -ENOMEM : 0;
}
