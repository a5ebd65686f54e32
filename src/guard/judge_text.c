/* SPDX-License-Identifier: Apache-2.0 */
/* judge_text.c - as much of SQL's grammar as it takes to see identifiers: strings and comments are skipped,
 * names may be in "", `` or []. SQLite itself reads the text later; what is taken here for a table and is
 * none costs a table that nobody reads. */
#include "guard/judge_internal.h"

static bool is_word(char c)
{
    char l = slice_lower(c);
    return (l >= 'a' && l <= 'z') || (l >= '0' && l <= '9') || l == '_' || l == '$' || (l & 0x80);
}

/* Where what starts at `at` with a quote ends: behind the quote. A doubled quote is one within. */
static size_t skip_quoted(struct slice text, size_t at)
{
    char open = text.p[at], close = open == '[' ? ']' : open;
    for (at++; at < text.n; at++) {
        if (text.p[at] != close)
            continue;
        if (open == '[' || at + 1 == text.n || text.p[at + 1] != close)
            return at + 1;
        at++;
    }
    return text.n;
}

/* Where the comment that starts at `at` ends; at itself if there is none. */
static size_t skip_comment(struct slice text, size_t at)
{
    struct slice rest = slice_from(text, at);
    const char *end;
    if (slice_starts(rest, SLICE_LIT("--")))
        end = memchr(rest.p, '\n', rest.n);
    else if (slice_starts(rest, SLICE_LIT("/*")))
        end = memmem(rest.p + 2, rest.n - 2, "*/", 2);
    else
        return at;
    return end ? (size_t)(end - text.p) + (rest.p[0] == '-' ? 1 : 2) : text.n;
}

static size_t skip_word(struct slice text, size_t at)
{
    while (at < text.n && is_word(text.p[at]))
        at++;
    return at;
}

void judge_identifiers(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg)
{
    size_t end;
    for (size_t at = 0; at < text.n; at = end) {
        char c = text.p[at];
        struct slice name = SLICE_LIT("");
        end = skip_comment(text, at);
        if (end > at)
            continue;
        end = at + 1;
        if (c == '\'') {
            end = skip_quoted(text, at);
        } else if (c == '"' || c == '`' || c == '[') {
            end = skip_quoted(text, at);
            name = slice_of(text.p + at + 1, end - at >= 2 ? end - at - 2 : 0);
        } else if (is_word(c)) {
            end = skip_word(text, at);
            name = slice_of(text.p + at, end - at);
        }
        if (name.n && !fn(arg, name, at))
            return;
    }
}

void judge_place(struct slice text, size_t at, struct diag *why)
{
    if (!why)
        return;
    why->line = 1;
    why->col = 1;
    for (size_t i = 0; i < at && i < text.n; i++) {
        why->col++;
        if (text.p[i] != '\n')
            continue;
        why->line++;
        why->col = 1;
    }
}

struct search {
    struct slice name;
    size_t at;
};

static bool is_not_it(void *arg, struct slice name, size_t at)
{
    struct search *s = arg;
    if (!slice_eq_nocase(name, s->name))
        return true;
    s->at = at;
    return false;
}

size_t judge_find_identifier(struct slice text, struct slice name)
{
    struct search s = {name, SIZE_MAX};
    judge_identifiers(text, is_not_it, &s);
    return s.at;
}
