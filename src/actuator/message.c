/* SPDX-License-Identifier: Apache-2.0 */
/* Data of events is in subject and body, and an attacker may choose it. What a header line can't have
 * (CR, LF, other control characters) becomes a blank before anything is written, and the body is written so
 * that no line of it is longer than 76 bytes and none holds a bare CR or LF; that a line with a dot alone
 * does not end the mail is libcurl's work. */
#include "actuator/message.h"

#include "actuator/escape.h"
#include "base/clock.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

enum {
    LINE_MAX_BYTES = 76, /* without its end */
    WORD_AROUND = 12     /* bytes of an encoded word around its base64 */
};

/* ---------------------------------------------------------------- headers */

/* Printable ASCII whose words all fit in a line, and that no reader takes for an encoded word. */
static bool is_plain(struct slice text)
{
    size_t word = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < 0x20 || text.p[i] > 0x7e ||
            (text.p[i] == '=' && i + 1 < text.n && text.p[i + 1] == '?'))
            return false;
        word = text.p[i] == ' ' ? 0 : word + 1;
        if (word > LINE_MAX_BYTES - 16)
            return false;
    }
    return true;
}

/* A line is broken before a blank, which stays: that is what folding is. */
static void add_folded(struct strbuf *out, size_t column, struct slice text)
{
    while (text.n) {
        const char *blank = text.n > 1 ? memchr(text.p + 1, ' ', text.n - 1) : NULL;
        size_t n = blank ? (size_t)(blank - text.p) : text.n;
        bool is_blank = text.p[0] == ' ' && n == 1; /* a line of blanks alone would end the headers */
        if (column + n > LINE_MAX_BYTES && text.p[0] == ' ' && !is_blank) {
            strbuf_add_str(out, "\r\n");
            column = 0;
        }
        strbuf_add(out, text.p, n);
        column += n;
        text = slice_from(text, n);
    }
}

/* The first bytes of text, at most max, that end with a whole character. */
static struct slice cut(struct slice text, size_t max)
{
    size_t n = 0, step;
    while ((step = text_utf8_length(slice_from(text, n))) && n + step <= max)
        n += step;
    return slice_of(text.p, n);
}

static void add_encoded_words(struct strbuf *out, size_t column, struct slice text)
{
    while (text.n) {
        struct slice word = cut(text, (LINE_MAX_BYTES - column - WORD_AROUND) / 4 * 3);
        strbuf_add_str(out, "=?UTF-8?B?");
        text_add_base64(out, word);
        strbuf_add_str(out, "?=");
        text = slice_from(text, word.n);
        column = 1;
        if (text.n)
            strbuf_add_str(out, "\r\n ");
    }
}

void message_add_header(struct strbuf *out, const char *name, struct slice text)
{
    assert(strlen(name) <= 40); /* an encoded word has to fit behind it */
    struct strbuf line = {0};
    escape_line(&line, text);
    struct slice clean = strbuf_slice(&line);
    bool is_cut = clean.n > MESSAGE_HEADER_MAX;
    if (is_cut) {
        line.n = cut(clean, MESSAGE_HEADER_MAX).n;
        strbuf_add_str(&line, "...");
        clean = strbuf_slice(&line);
    }
    while (clean.n && clean.p[clean.n - 1] == ' ')
        clean.n--;
    strbuf_printf(out, "%s: ", name);
    if (is_plain(clean))
        add_folded(out, strlen(name) + 2, clean);
    else
        add_encoded_words(out, strlen(name) + 2, clean);
    strbuf_add_str(out, "\r\n");
    out->failed = out->failed || strbuf_failed(&line);
    strbuf_fini(&line);
}

static bool is_atom(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$&'*+-/=?^_`{|}~", c));
}

static void add_id_part(struct strbuf *out, struct slice part)
{
    for (size_t i = 0; i < part.n; i++) {
        bool is_inner_dot = part.p[i] == '.' && i > 0 && i + 1 < part.n && part.p[i - 1] != '.';
        if (is_atom(part.p[i]) || is_inner_dot)
            strbuf_add_char(out, part.p[i]);
        else
            strbuf_printf(out, "%%%02X", (unsigned char)part.p[i]);
    }
}

void message_add_id(struct strbuf *out, const char *name, struct slice local, struct slice domain)
{
    enum { PART_MAX = 200 };
    strbuf_printf(out, "%s: <", name);
    add_id_part(out, slice_of(local.p, local.n < PART_MAX ? local.n : PART_MAX));
    strbuf_add_char(out, '@');
    add_id_part(out, domain.n ? slice_of(domain.p, domain.n < PART_MAX ? domain.n : PART_MAX)
                              : SLICE_LIT("localhost"));
    strbuf_add_str(out, ">\r\n");
}

void message_add_date(struct strbuf *out, int64_t utc_ns)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t t = (time_t)(utc_ns / NS_PER_S);
    struct tm tm = {0};
    (void)gmtime_r(&t, &tm); /* a time of int64 nanoseconds is within its years */
    strbuf_printf(out, "Date: %.3s, %d %.3s %d %02d:%02d:%02d +0000\r\n", days + 3 * tm.tm_wday, tm.tm_mday,
                  months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

bool message_is_address(struct slice address)
{
    size_t at = address.n;
    if (address.n == 0 || address.n > MESSAGE_ADDRESS_MAX)
        return false;
    for (size_t i = 0; i < address.n; i++) {
        if (address.p[i] == '@' && at == address.n)
            at = i;
        else if (!is_atom(address.p[i]) && address.p[i] != '.' && address.p[i] != '%')
            return false;
    }
    /* A first `-` could be taken for an option by what delivers the mail. */
    return at > 0 && at + 1 != address.n && address.p[0] != '-' && address.p[at ? at - 1 : 0] != '.';
}

/* ---------------------------------------------------------------- the body: quoted-printable (RFC 2045) */

/* One line without its end. */
static void add_quoted_line(struct strbuf *out, struct slice line)
{
    size_t column = 0;
    for (size_t i = 0; i < line.n; i++) {
        unsigned char c = (unsigned char)line.p[i];
        bool is_last = i + 1 == line.n;
        bool is_literal = (c > 0x20 && c < 0x7f && c != '=') || ((c == ' ' || c == '\t') && !is_last);
        size_t n = is_literal ? 1 : 3;
        if (column + n > LINE_MAX_BYTES - (is_last ? 0u : 1u)) {
            strbuf_add_str(out, "=\r\n");
            column = 0;
        }
        if (is_literal)
            strbuf_add_char(out, (char)c);
        else
            strbuf_printf(out, "=%02X", c);
        column += n;
    }
    strbuf_add_str(out, "\r\n");
}

/* The text up to its next line end, which is taken, too: LF, CR LF or CR. */
static struct slice take_line(struct slice *text)
{
    size_t n = 0;
    while (n < text->n && text->p[n] != '\n' && text->p[n] != '\r')
        n++;
    struct slice line = slice_of(text->p, n);
    bool is_pair = n + 1 < text->n && text->p[n] == '\r' && text->p[n + 1] == '\n';
    *text = slice_from(*text, n + (is_pair ? 2 : 1));
    return line;
}

void message_add_body(struct strbuf *out, struct slice text)
{
    struct strbuf clean = {0};
    strbuf_add_str(out, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                        "Content-Transfer-Encoding: quoted-printable\r\n\r\n");
    escape_utf8(&clean, slice_of(text.p, text.n < MESSAGE_BODY_MAX ? text.n : MESSAGE_BODY_MAX));
    struct slice rest = strbuf_slice(&clean);
    while (rest.n)
        add_quoted_line(out, take_line(&rest));
    if (text.n > MESSAGE_BODY_MAX)
        strbuf_printf(out, "[cut here: %zu bytes more]\r\n", text.n - MESSAGE_BODY_MAX);
    out->failed = out->failed || strbuf_failed(&clean);
    strbuf_fini(&clean);
}
