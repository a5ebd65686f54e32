/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens. What people bring from other languages (&&, ||, =~, comments, bare times) is known here too, to be
 * refused with what to write instead. */
#include "event/predicate_internal.h"

#include "base/text.h"

#include <stdint.h>

static const struct {
    const char *word;
    uint8_t kind;
} keywords[] = {
    {"OR", TOKEN_OR},     {"AND", TOKEN_AND},   {"NOT", TOKEN_NOT},         {"IS", TOKEN_IS},
    {"IN", TOKEN_IN},     {"LIKE", TOKEN_LIKE}, {"BETWEEN", TOKEN_BETWEEN}, {"GLOB", TOKEN_GLOB},
    {"NULL", TOKEN_NULL}, {"TRUE", TOKEN_TRUE}, {"FALSE", TOKEN_FALSE},     {"ESCAPE", TOKEN_ESCAPE},
};

/* Longest first where one begins another. With a hint: not part of the language. */
static const struct {
    const char *sign;
    uint8_t kind, orders;
    const char *hint;
} signs[] = {
    {"=~", 0, 0, "for patterns write LIKE 'a%' or GLOB 'a*'"},
    {"!~", 0, 0, "for patterns write NOT LIKE 'a%' or NOT GLOB 'a*'"},
    {"==", TOKEN_EQUAL, ORDER_EQUAL, NULL},
    {"=", TOKEN_EQUAL, ORDER_EQUAL, NULL},
    {"!=", TOKEN_EQUAL, ORDER_LESS | ORDER_GREATER, NULL},
    {"<>", TOKEN_EQUAL, ORDER_LESS | ORDER_GREATER, NULL},
    {"<=", TOKEN_LESS, ORDER_LESS | ORDER_EQUAL, NULL},
    {"<", TOKEN_LESS, ORDER_LESS, NULL},
    {">=", TOKEN_LESS, ORDER_GREATER | ORDER_EQUAL, NULL},
    {">", TOKEN_LESS, ORDER_GREATER, NULL},
    {"(", TOKEN_LEFT, 0, NULL},
    {")", TOKEN_RIGHT, 0, NULL},
    {",", TOKEN_COMMA, 0, NULL},
    {"+", TOKEN_PLUS, 0, NULL},
    {"--", 0, 0, "in SQL it starts a comment; write - -x with a blank between"},
    {"-", TOKEN_MINUS, 0, NULL},
    {"*", TOKEN_STAR, 0, NULL},
    {"/*", 0, 0, "comments are not allowed here"},
    {"/", TOKEN_SLASH, 0, NULL},
    {"%", TOKEN_PERCENT, 0, NULL},
    {"&&", 0, 0, "write AND"},
    {"||", 0, 0, "write OR"},
    {"!", 0, 0, "write NOT"},
    {";", 0, 0, "a predicate is one expression; leave it out"},
    {".", 0, 0, "a number has digits on both sides of the point, as in 0.5"},
    {":", 0, 0, "a name with : or - in it is written in double quotes, as in \"net:eth0\""},
    {"$", 0, 0, "a field called like a head is written in double quotes, as in \"$host\""},
    {"`", 0, 0, "names are quoted with \"…\", text with '…'"},
    {"[", 0, 0, "names are quoted with \"…\", text with '…'"},
};

struct excerpt predicate_excerpt(struct slice s)
{
    struct excerpt e;
    bool is_utf8 = text_is_utf8(s);
    size_t n = s.n <= 40 ? s.n : 37;
    while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--; /* not in the middle of a character */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        e.z[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && !is_utf8) ? '?' : s.p[i];
    }
    if (n < s.n) {
        memcpy(e.z + n, "...", 3);
        n += 3;
    }
    e.z[n] = '\0';
    return e;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_start(char c)
{
    char l = slice_lower(c);
    return (l >= 'a' && l <= 'z') || c == '_';
}

static bool is_word(char c)
{
    return is_word_start(c) || is_digit(c) || c == '.';
}

/* The byte at an index, or NUL past the end: NUL is in no token's character class. */
static char peek(const struct lexer *l, size_t at)
{
    return at < l->text.n ? l->text.p[at] : '\0';
}

static size_t skip_digits(const struct lexer *l, size_t at)
{
    while (is_digit(peek(l, at)))
        at++;
    return at;
}

/* digits [. digits] [e [+-] digits], and nothing like a word behind it. */
static int lex_number(struct lexer *l, struct token *t, struct diag *why)
{
    size_t at = skip_digits(l, l->at);
    if (peek(l, at) == '.' && is_digit(peek(l, at + 1)))
        at = skip_digits(l, at + 1);
    if (slice_lower(peek(l, at)) == 'e') {
        size_t sign = peek(l, at + 1) == '+' || peek(l, at + 1) == '-';
        if (is_digit(peek(l, at + 1 + sign)))
            at = skip_digits(l, at + 1 + sign);
    }
    size_t end = at;
    while (is_word(peek(l, end)))
        end++;
    t->kind = TOKEN_NUMBER;
    t->text = slice_of(l->text.p + l->at, end - l->at);
    if (end != at)
        return diag_set(why, E_PROTO, t->col, "%s is not a number; text and times are quoted with '…'",
                        predicate_excerpt(t->text).z);
    l->at = end;
    return 0;
}

/* From the opening quote at `open`; a doubled quote is part of the content. */
static int lex_quoted(struct lexer *l, size_t open, uint8_t kind, struct token *t, struct diag *why)
{
    char quote = l->text.p[open];
    for (size_t at = open + 1; at < l->text.n; at++) {
        if (l->text.p[at] != quote)
            continue;
        if (peek(l, at + 1) == quote) {
            at++;
            continue;
        }
        t->kind = kind;
        t->text = slice_of(l->text.p + l->at, at + 1 - l->at);
        l->at = at + 1;
        return 0;
    }
    return diag_set(why, E_PROTO, t->col, "this %c is not closed", quote);
}

static void lex_word(struct lexer *l, struct token *t)
{
    size_t end = l->at;
    while (is_word(peek(l, end)))
        end++;
    t->kind = TOKEN_NAME;
    t->text = slice_of(l->text.p + l->at, end - l->at);
    l->at = end;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (slice_eq_nocase(t->text, slice_str(keywords[i].word)))
            t->kind = keywords[i].kind;
}

static int lex_sign(struct lexer *l, struct token *t, struct diag *why)
{
    struct slice rest = slice_from(l->text, l->at);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        struct slice sign = slice_str(signs[i].sign);
        if (!slice_starts(rest, sign))
            continue;
        if (signs[i].hint)
            return diag_set(why, E_PROTO, t->col, "unexpected %s: %s", signs[i].sign, signs[i].hint);
        t->kind = signs[i].kind;
        t->orders = signs[i].orders;
        t->text = slice_of(rest.p, sign.n);
        l->at += sign.n;
        return 0;
    }
    unsigned char c = (unsigned char)rest.p[0];
    if (c > 0x20 && c < 0x7f)
        return diag_set(why, E_PROTO, t->col, "unexpected %c: text is quoted with '…'", c);
    return diag_set(why, E_PROTO, t->col, "unexpected byte 0x%02x: text is quoted with '…'", c);
}

int predicate_lex(struct lexer *l, struct token *out, struct diag *why)
{
    while (peek(l, l->at) == ' ' || peek(l, l->at) == '\t' || peek(l, l->at) == '\n' ||
           peek(l, l->at) == '\r')
        l->at++;
    *out = (struct token){.kind = TOKEN_END, .col = (uint32_t)l->at + 1, .text = slice_from(l->text, l->at)};
    if (l->at == l->text.n)
        return 0;
    char c = l->text.p[l->at];
    if (slice_lower(c) == 'x' && peek(l, l->at + 1) == '\'')
        return lex_quoted(l, l->at + 1, TOKEN_BYTES, out, why);
    if (c == '\'' || c == '"')
        return lex_quoted(l, l->at, c == '"' ? TOKEN_QUOTED : TOKEN_TEXT, out, why);
    if (is_digit(c))
        return lex_number(l, out, why);
    if (!is_word_start(c))
        return lex_sign(l, out, why);
    lex_word(l, out);
    return 0;
}

const char *predicate_nearest_keyword(struct slice word)
{
    const char *best = NULL;
    unsigned nearest = 3; /* further than two slips is another word */
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        struct slice keyword = slice_str(keywords[i].word);
        unsigned distance = text_distance(word, keyword);
        if (distance < nearest && distance <= keyword.n / 3) {
            nearest = distance;
            best = keywords[i].word;
        }
    }
    return best;
}
