/* SPDX-License-Identifier: Apache-2.0 */
/* Strings are looked through 8 bytes at a time. zero_bytes(x) has the top bit set in each byte of x that is
 * 0; a borrow can also set it in bytes above such a byte, never below: "any" and "the first" are exact.
 *
 * The containers that are open are a stack of bits (object or array), so nesting costs no memory. */
#include "event/json.h"

#include "base/text.h"

#include <endian.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t zero_bytes(uint64_t x)
{
    return (x - EACH(0x01)) & ~x & EACH(0x80);
}

/* Marks `"`, `\` and bytes below 0x20. With bit 1 flipped `"` is 0x20 and what was below 0x20 still is: one
 * comparison finds both. */
static inline uint64_t special_bytes(uint64_t x)
{
    return (((x ^ EACH(0x02)) - EACH(0x21)) & ~x & EACH(0x80)) | zero_bytes(x ^ EACH('\\'));
}

static inline bool is_special(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* The first byte from p on that ends a run of plain characters in a string, or end. */
static inline const char *plain_run(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t marks = special_bytes(le64toh(word));
        if (marks)
            return p + __builtin_ctzll(marks) / 8;
    }
    while (p < end && !is_special((unsigned char)*p))
        p++;
    return p;
}

void json_init(struct json_reader *r, struct slice text, unsigned depth_max, struct diag *why)
{
    *r = (struct json_reader){.start = text.p,
                              .at = text.p,
                              .end = text.p + text.n,
                              .why = why,
                              .depth_max = (uint8_t)(depth_max < JSON_DEPTH_MAX ? depth_max : JSON_DEPTH_MAX),
                              .first = true};
}

uint32_t json_col(const struct json_reader *r, const char *p)
{
    return (uint32_t)(p - r->start) + 1;
}

static int refuse(const struct json_reader *r, const char *at, const char *what)
{
    return diag_set(r->why, E_PROTO, json_col(r, at), "%s", what);
}

static int expected(const struct json_reader *r, const char *what)
{
    if (r->at == r->end)
        return diag_set(r->why, E_PROTO, json_col(r, r->at), "the text ends where %s is expected", what);
    return diag_set(r->why, E_PROTO, json_col(r, r->at), "%s is expected here", what);
}

static const char *behind_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

/* Mostly there is none. */
static inline void skip_space(struct json_reader *r)
{
    if (r->at < r->end && (unsigned char)*r->at <= ' ')
        r->at = behind_space(r->at, r->end);
}

/* p is in a string, where the plain characters end before its closing quote; open is its opening one. Kept
 * out of the way of the usual string, which needs no registers saved. */
__attribute__((noinline)) static int read_odd_string(struct json_reader *r, const char *open, const char *p,
                                                     struct slice *out, bool *escaped)
{
    while (p == r->end || *p != '"') {
        if (p < r->end && (unsigned char)*p < 0x20)
            return refuse(r, p, "a control character in a string must be escaped");
        if (r->end - p < 2)
            return refuse(r, open, "the string is not closed");
        *escaped = true;
        p = plain_run(p + 2, r->end);
    }
    *out = slice_of(open + 1, (size_t)(p - open) - 1);
    r->at = p + 1;
    return 0;
}

/* At the opening quote; leaves r->at behind the closing one. */
static inline int read_string(struct json_reader *r, struct slice *out, bool *escaped)
{
    const char *open = r->at, *p = plain_run(open + 1, r->end);
    if (p == r->end || *p != '"')
        return read_odd_string(r, open, p, out, escaped);
    *out = slice_of(open + 1, (size_t)(p - open) - 1);
    r->at = p + 1;
    return 0;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
static int read_number(struct json_reader *r, struct slice *out)
{
    const char *p = r->at + (*r->at == '-'), *whole = p;
    p = digits(p, r->end);
    if (p == whole || (*whole == '0' && p - whole > 1))
        return refuse(r, r->at, "a number has one digit or more, and no zeros in front");
    if (p < r->end && *p == '.') {
        const char *fraction = ++p;
        p = digits(p, r->end);
        if (p == fraction)
            return refuse(r, r->at, "a digit must follow the decimal point");
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < r->end && (*p == '+' || *p == '-');
        const char *exponent = p;
        p = digits(p, r->end);
        if (p == exponent)
            return refuse(r, r->at, "the exponent has no digit");
    }
    *out = slice_of(r->at, (size_t)(p - r->at));
    r->at = p;
    return 0;
}

bool json_is_number(struct slice s)
{
    struct json_reader r;
    struct slice number;
    json_init(&r, s, 0, NULL);
    return s.n && read_number(&r, &number) == 0 && number.n == s.n;
}

static int read_word(struct json_reader *r, struct slice word)
{
    if (!slice_starts(slice_of(r->at, (size_t)(r->end - r->at)), word))
        return expected(r, "a value");
    r->at += word.n;
    return 0;
}

static int open_container(struct json_reader *r, bool is_object)
{
    if (r->depth == r->depth_max)
        return diag_set(r->why, E_LIMIT, json_col(r, r->at), "nested deeper than %d levels", r->depth_max);
    r->at++;
    r->depth++;
    r->objects = r->objects << 1 | is_object;
    r->first = true;
    return 0;
}

static int close_container(struct json_reader *r, struct json_item *item)
{
    item->kind = r->objects & 1 ? JSON_OBJECT_END : JSON_ARRAY_END;
    item->at = r->at++;
    r->depth--;
    r->objects >>= 1;
    r->first = false;
    return 0;
}

static int read_value(struct json_reader *r, struct json_item *item)
{
    if (r->at == r->end)
        return expected(r, "a value");
    item->at = r->at;
    r->first = false;
    switch (*r->at) {
    case '"':
        item->kind = JSON_STRING;
        return read_string(r, &item->text, &item->escaped);
    case '{':
        item->kind = JSON_OBJECT;
        return open_container(r, true);
    case '[':
        item->kind = JSON_ARRAY;
        return open_container(r, false);
    case 't':
        item->kind = JSON_TRUE;
        return read_word(r, SLICE_LIT("true"));
    case 'f':
        item->kind = JSON_FALSE;
        return read_word(r, SLICE_LIT("false"));
    case 'n':
        item->kind = JSON_NULL;
        return read_word(r, SLICE_LIT("null"));
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        item->kind = JSON_NUMBER;
        return read_number(r, &item->text);
    default:
        return expected(r, "a value");
    }
}

static int read_key(struct json_reader *r, struct json_item *item)
{
    if (r->at == r->end || *r->at != '"')
        return expected(r, "a key in quotes");
    int rc = read_string(r, &item->key, &item->key_escaped);
    if (rc < 0)
        return rc;
    skip_space(r);
    if (r->at == r->end || *r->at != ':')
        return expected(r, "a colon");
    r->at++;
    skip_space(r);
    return 0;
}

static int read_top(struct json_reader *r, struct json_item *item)
{
    if (r->first)
        return read_value(r, item);
    if (r->at < r->end)
        return refuse(r, r->at, "something follows the end of the value");
    item->kind = JSON_END;
    return 0;
}

int json_next(struct json_reader *r, struct json_item *item)
{
    *item = (struct json_item){.key = {"", 0}, .text = {"", 0}};
    skip_space(r);
    if (r->depth == 0)
        return read_top(r, item);
    bool in_object = r->objects & 1;
    if (r->at < r->end && *r->at == (in_object ? '}' : ']'))
        return close_container(r, item);
    if (!r->first) {
        if (r->at == r->end || *r->at != ',')
            return expected(r, in_object ? "a comma or a closing brace" : "a comma or a closing bracket");
        r->at++;
        skip_space(r);
    }
    if (in_object) {
        int rc = read_key(r, item);
        if (rc < 0)
            return rc;
    }
    return read_value(r, item);
}

/* The four digits of a \u escape at p as a number, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = text_hex_digit(p[i]);
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static char *put_utf8(char *to, int32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* The character of the \u escape whose digits are at *p, which moves behind it; the second half of a
 * surrogate pair is taken along. -1: no hex digits, -2: half a pair. */
static int32_t unicode_escape(const char **p, const char *end)
{
    int32_t c = hex4(*p, end);
    if (c < 0)
        return -1;
    *p += 4;
    if (c < 0xd800 || c > 0xdfff)
        return c;
    bool paired = c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u';
    int32_t low = paired ? hex4(*p + 2, end) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return -2;
    *p += 6;
    return 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
}

/* What a backslash and this letter mean; 0 for what is no such letter. */
static char short_escape(char letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case '"':
    case '\\':
    case '/':
        return letter;
    default:
        return 0;
    }
}

int json_unescape(const struct json_reader *r, struct slice raw, char *to, size_t *n)
{
    const char *p = raw.p, *end = raw.p + raw.n;
    char *start = to;
    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((slash ? slash : end) - p);
        memcpy(to, p, run);
        to += run;
        if (!slash)
            break;
        p = slash + 2; /* the reader has seen to it that a byte follows */
        if (slash[1] != 'u') {
            *to = short_escape(slash[1]);
            if (!*to++)
                return refuse(r, slash, "no such escape in JSON");
            continue;
        }
        int32_t c = unicode_escape(&p, end);
        if (c < 0)
            return refuse(r, slash,
                          c == -1 ? "\\u needs four hexadecimal digits" : "half of a surrogate pair");
        to = put_utf8(to, c);
    }
    *n = (size_t)(to - start);
    return 0;
}

static char *put_escape(char *to, unsigned char c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    *to++ = '\\';
    if (c < sizeof letters && letters[c]) {
        *to++ = letters[c];
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = "0123456789abcdef"[c >> 4];
    to[4] = "0123456789abcdef"[c & 15];
    return to + 5;
}

static char *put_escaped(char *to, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (is_special(c) || c == 0x7f)
            to = put_escape(to, c);
        else
            *to++ = s.p[i];
    }
    return to;
}

/* Copies the word at p and says whether something in it must be escaped. */
static inline uint64_t copy_word(char *to, const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    memcpy(to, &word, 8);
    return special_bytes(word) | zero_bytes(word ^ EACH(0x7f));
}

/* Copies s as it is; false when something in it must be escaped. The last word overlaps the one before it. */
static inline bool put_plain(char *to, struct slice s)
{
    uint64_t marks = 0;
    if (s.n < 8)
        return false;
    for (size_t i = 0; i + 8 < s.n; i += 8)
        marks |= copy_word(to + i, s.p + i);
    return (marks | copy_word(to + s.n - 8, s.p + s.n - 8)) == 0;
}

char *json_put_string(char *to, struct slice s)
{
    *to++ = '"';
    to = put_plain(to, s) ? to + s.n : put_escaped(to, s);
    *to++ = '"';
    return to;
}

void json_add_string(struct strbuf *out, struct slice s)
{
    char *to = strbuf_room(out, JSON_STRING_ROOM(s.n));
    if (to)
        strbuf_advance(out, (size_t)(json_put_string(to, s) - to));
}
