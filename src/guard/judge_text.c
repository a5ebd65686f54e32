/* SPDX-License-Identifier: Apache-2.0 */
/* judge_text.c - as much of SQL's grammar as it takes to see identifiers, and which of them are tables:
 * comments are skipped, names may be in "", `` or []. SQLite itself reads the text later. */
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

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_QUOTED, TOKEN_STRING, TOKEN_SIGN };

struct token {
    enum token_kind kind;
    struct slice text; /* without its quotes */
    size_t at, end;
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct token next_token(struct slice text, size_t at)
{
    size_t end;
    while (at < text.n && ((end = skip_comment(text, at)) > at || is_blank(text.p[at])))
        at = end > at ? end : at + 1;
    if (at >= text.n)
        return (struct token){.kind = TOKEN_END, .text = SLICE_LIT(""), .at = text.n, .end = text.n};
    struct token t = {.kind = TOKEN_SIGN, .text = slice_of(text.p + at, 1), .at = at, .end = at + 1};
    char c = text.p[at];
    if (c == '\'' || c == '"' || c == '`' || c == '[') {
        t.kind = c == '\'' ? TOKEN_STRING : TOKEN_QUOTED;
        t.end = skip_quoted(text, at);
        t.text = slice_of(text.p + at + 1, t.end - at >= 2 ? t.end - at - 2 : 0);
    } else if (is_word(c)) {
        t.kind = TOKEN_WORD;
        t.end = skip_word(text, at);
        t.text = slice_of(text.p + at, t.end - at);
    }
    return t;
}

void judge_identifiers(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg)
{
    struct token t;
    for (size_t at = 0; (t = next_token(text, at)).kind != TOKEN_END; at = t.end)
        if ((t.kind == TOKEN_WORD || t.kind == TOKEN_QUOTED) && t.text.n && !fn(arg, t.text, t.at))
            return;
}

/* ---------------------------------------------------------------- tables */

enum { DEPTH_MAX = 64, WITH_MAX = 32 };

struct tables_scan {
    unsigned depth;
    bool is_from[DEPTH_MAX];        /* at this depth of parentheses a list of tables is being read */
    struct slice before[DEPTH_MAX]; /* the name before the parenthesis */
    bool wants_table, is_in;        /* is_in: a table, or a list in parentheses */
    struct slice name;              /* before this token; of NAME(...), too */
    struct slice with[WITH_MAX];
    size_t n_with;
};

static bool is_one_of(struct slice word, const char *const *words)
{
    for (; *words; words++)
        if (slice_eq_nocase(word, slice_str(*words)))
            return true;
    return false;
}

/* NAME AS (...) is a table of the text's own. */
static void note_with(struct tables_scan *s, struct slice text, size_t at)
{
    static const char *const skipped[] = {"not", "materialized", NULL};
    struct token t = next_token(text, at);
    while (t.kind == TOKEN_WORD && is_one_of(t.text, skipped))
        t = next_token(text, t.end);
    if (t.kind == TOKEN_SIGN && t.text.p[0] == '(' && s->name.n && s->n_with < WITH_MAX)
        s->with[s->n_with++] = s->name;
}

static bool is_own(const struct tables_scan *s, struct slice name)
{
    for (size_t i = 0; i < s->n_with; i++)
        if (slice_eq_nocase(s->with[i], name))
            return true;
    return false;
}

static void take_sign(struct tables_scan *s, char c)
{
    if (c == '(') {
        s->wants_table &= !s->is_in;
        s->depth += s->depth + 1 < DEPTH_MAX;
        s->is_from[s->depth] = s->wants_table;
        s->before[s->depth] = s->name;
    } else if (c == ')') {
        s->name = s->before[s->depth];
        s->depth -= s->depth > 0;
        s->wants_table = false;
        return;
    } else if (c == ',') {
        s->wants_table = s->is_from[s->depth];
    }
    s->name = SLICE_LIT("");
}

/* True: it was a keyword. */
static bool take_keyword(struct tables_scan *s, struct slice text, const struct token *t)
{
    static const char *const begin[] = {"from", "join", NULL};
    static const char *const end[] = {"select", "where",  "group", "having",    "order",  "limit",
                                      "window", "values", "union", "intersect", "except", NULL};
    const bool begins = is_one_of(t->text, begin);
    if (begins || is_one_of(t->text, end)) {
        s->wants_table = s->is_from[s->depth] = begins;
        return true;
    }
    if (slice_eq_nocase(t->text, SLICE_LIT("as")))
        note_with(s, text, t->end);
    else if (slice_eq_nocase(t->text, SLICE_LIT("in")))
        s->wants_table = s->is_in = true;
    else
        return false;
    return true;
}

void judge_tables(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg)
{
    struct tables_scan s = {.name = SLICE_LIT("")};
    struct token t;
    for (size_t at = 0; (t = next_token(text, at)).kind != TOKEN_END; at = t.end) {
        if (t.kind == TOKEN_SIGN) {
            take_sign(&s, t.text.p[0]);
            s.is_in = false;
            continue;
        }
        s.is_in = false;
        if (t.kind == TOKEN_WORD && take_keyword(&s, text, &t))
            continue;
        const struct token next = next_token(text, t.end);
        const bool is_schema = next.kind == TOKEN_SIGN && next.text.p[0] == '.';
        if (s.wants_table && !is_schema && !is_own(&s, t.text) && !fn(arg, t.text, t.at))
            return;
        s.wants_table &= is_schema;
        s.name = t.text;
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
