/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/sql_text.h"

/* The place behind what is in quotes and begins at `at`; one that is not ended takes the rest, and more. */
static size_t skip_quoted(struct slice text, size_t at)
{
    char end = text.p[at] == '[' ? ']' : text.p[at];
    for (at++; at < text.n; at++)
        if (text.p[at] == end)
            return at + 1; /* of a doubled one the second begins anew */
    return text.n + 1;
}

static size_t skip_line(struct slice text, size_t at)
{
    while (at < text.n && text.p[at] != '\n')
        at++;
    return at;
}

static size_t skip_comment(struct slice text, size_t at)
{
    const char *end = memmem(text.p + at + 2, text.n - at - 2, "*/", 2);
    return end ? (size_t)(end - text.p) + 2 : text.n + 1;
}

static bool starts_at(struct slice text, size_t at, const char *two)
{
    return at + 1 < text.n && text.p[at] == two[0] && text.p[at + 1] == two[1];
}

/* The place behind the next thing at `at`: a comment, something in quotes, or one character. */
static size_t next(struct slice text, size_t at)
{
    if (starts_at(text, at, "--"))
        return skip_line(text, at);
    if (starts_at(text, at, "/*"))
        return skip_comment(text, at);
    return strchr("'\"`[", text.p[at]) && text.p[at] ? skip_quoted(text, at) : at + 1;
}

size_t sql_text_end(struct slice text)
{
    for (size_t at = 0; at < text.n; at = next(text, at))
        if (text.p[at] == ';')
            return at + 1;
    return 0;
}

bool sql_text_is_empty(struct slice text)
{
    for (size_t at = 0; at < text.n; at = next(text, at)) {
        bool is_comment = starts_at(text, at, "--") || starts_at(text, at, "/*");
        if (!is_comment && !strchr(" \t\r\n;", text.p[at]))
            return false;
    }
    return true;
}

void sql_text_point(struct strbuf *out, struct slice text, uint32_t column)
{
    if (column == 0 || column > text.n + 1)
        return;
    size_t at = column - 1, from = at, to = at;
    while (from > 0 && text.p[from - 1] != '\n')
        from--;
    while (to < text.n && text.p[to] != '\n')
        to++;
    strbuf_add_str(out, "  ");
    for (size_t i = from; i < to; i++) /* nothing that could steer a terminal */
        strbuf_add_char(out, (unsigned char)text.p[i] >= 0x20 && text.p[i] != 0x7f ? text.p[i] : ' ');
    strbuf_add_str(out, "\n  ");
    for (size_t i = from; i < at; i++)
        if (((unsigned char)text.p[i] & 0xc0) != 0x80)
            strbuf_add_char(out, ' ');
    strbuf_add_char(out, '^');
}
