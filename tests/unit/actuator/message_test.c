/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/escape.h"
#include "actuator/message.h"
#include "base/clock.h"
#include "base/text.h"

#define BYTES(s) slice_of(s, sizeof(s) - 1)

static void check_header(struct slice text, const char *expected)
{
    struct strbuf out = {0};
    message_add_header(&out, "Subject", text);
    assert_slice(strbuf_slice(&out), expected);
    strbuf_fini(&out);
}

static void headers(void **state)
{
    (void)state;
    check_header(BYTES("disk full"), "Subject: disk full\r\n");
    check_header(BYTES("x\r\nBcc: evil@example.org\r\n\r\nbody"),
                 "Subject: x  Bcc: evil@example.org    body\r\n");
    check_header(BYTES("\xc3\xa4"), "Subject: =?UTF-8?B?w6Q=?=\r\n");
    /* It would be read as an encoded word. */
    check_header(BYTES("=?UTF-8?B?eA==?="), "Subject: =?UTF-8?B?PT9VVEYtOD9CP2VBPT0/PQ==?=\r\n");
    check_header(BYTES("   "), "Subject: \r\n");
    check_header(BYTES("one two three four five six seven eight nine ten eleven twelve thirteen fourteen"),
                 "Subject: one two three four five six seven eight nine ten eleven twelve\r\n"
                 " thirteen fourteen\r\n");
}

static void ids(void **state)
{
    struct strbuf out = {0};
    (void)state;
    message_add_id(&out, "Message-ID", BYTES("7.3>\r\nX: y@"), BYTES("example.org"));
    assert_slice(strbuf_slice(&out), "Message-ID: <7.3%3E%0D%0AX%3A%20y%40@example.org>\r\n");
    strbuf_reset(&out);
    message_add_id(&out, "Message-ID", BYTES(".a..b."), BYTES(""));
    assert_slice(strbuf_slice(&out), "Message-ID: <%2Ea.%2Eb%2E@localhost>\r\n");
    strbuf_fini(&out);
}

static void date(void **state)
{
    struct strbuf out = {0};
    (void)state;
    message_add_date(&out, INT64_C(1794838132) * NS_PER_S);
    assert_slice(strbuf_slice(&out), "Date: Mon, 16 Nov 2026 14:08:52 +0000\r\n");
    strbuf_fini(&out);
}

static void addresses(void **state)
{
    static const char *const good[] = {"ops@example.org", "root", "a.b+c@x-1.y", "%x@h"};
    static const char *const bad[] = {"",      "@",       "a@",   "@b",   "a@b@c", "a b@c", "a@b>",  "<a@b>",
                                      "a,b@c", "a\r\n@b", "-f@b", "a.@b", "a@b\n", "a\"@b", "a(b)@c"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(message_is_address(slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(message_is_address(slice_str(bad[i])));
    assert_false(message_is_address(BYTES("a\0b@c")));
}

static void check_body(struct slice text, const char *expected)
{
    static const char head[] = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                               "Content-Transfer-Encoding: quoted-printable\r\n\r\n";
    struct strbuf out = {0};
    message_add_body(&out, text);
    assert_true(slice_starts(strbuf_slice(&out), BYTES(head)));
    assert_slice(slice_from(strbuf_slice(&out), sizeof head - 1), expected);
    strbuf_fini(&out);
}

static void bodies(void **state)
{
    (void)state;
    check_body(BYTES("a\nb\r\nc\rd"), "a\r\nb\r\nc\r\nd\r\n");
    check_body(BYTES("1=2 \n.\n"), "1=3D2=20\r\n.\r\n");
    check_body(BYTES("\xc3\xa4\0\xff"), "=C3=A4=00=EF=BF=BD\r\n");
}

/* ---------------------------------------------------------------- any bytes: what a reader gets */

/* Takes `Name: ...` with its folded lines from the front; appends what its text means. */
static void read_header(struct slice *message, struct strbuf *out)
{
    struct strbuf word = {0};
    size_t n = 0;
    while (!(slice_starts(slice_from(*message, n), BYTES("\r\n")) &&
             (n + 2 >= message->n || message->p[n + 2] != ' ')))
        n++;
    struct slice text = slice_of(message->p + 9, n - 9); /* behind "Subject: " */
    *message = slice_from(*message, n + 2);
    while (text.n) {
        if (slice_starts(text, BYTES("=?UTF-8?B?"))) {
            size_t end = 10;
            while (text.p[end] != '?')
                end++;
            assert_int_equal(text_from_base64(slice_of(text.p + 10, end - 10), out), 0);
            assert_true(end + 2 <= 75);
            text = slice_from(text, end + 2);
            if (text.n) { /* between encoded words a line's end counts for nothing */
                assert_true(slice_starts(text, BYTES("\r\n =?")));
                text = slice_from(text, 3);
            }
        } else if (slice_starts(text, BYTES("\r\n"))) {
            text = slice_from(text, 2);
        } else {
            strbuf_add_char(out, text.p[0]);
            text = slice_from(text, 1);
        }
    }
    strbuf_fini(&word);
}

static void read_body(struct slice text, struct strbuf *out)
{
    for (; text.n; text = slice_from(text, 1)) {
        if (text.p[0] != '=') {
            strbuf_add_char(out, text.p[0]);
        } else if (slice_starts(text, BYTES("=\r\n"))) {
            text = slice_from(text, 2);
        } else {
            strbuf_add_char(out, (char)(text_hex_digit(text.p[1]) << 4 | text_hex_digit(text.p[2])));
            text = slice_from(text, 2);
        }
    }
}

/* No line is long, none has a bare CR or LF or another byte that needs more than 7 bits. */
static void check_lines(struct slice message)
{
    size_t column = 0;
    for (size_t i = 0; i < message.n; i++) {
        if (slice_starts(slice_from(message, i), BYTES("\r\n"))) {
            column = 0;
            i++;
            continue;
        }
        assert_in_range((unsigned char)message.p[i], message.p[i] == '\t' ? '\t' : ' ', '~');
        assert_true(++column <= 78);
    }
    assert_int_equal(column, 0);
}

static void any_bytes(void **state)
{
    uint64_t seed = 11;
    (void)state;
    for (unsigned i = 0; i < 3000 * test_scale(); i++) {
        char buffer[600];
        size_t n = test_random(&seed) % (i % 7 ? 90 : sizeof buffer);
        uint64_t kind = test_random(&seed) % 3;
        for (size_t j = 0; j < n; j++) {
            uint64_t r = test_random(&seed);
            buffer[j] = kind == 0 ? (char)r : "\r\n .=?=\taz\xc3\xa4"[r % 13];
            if (kind == 2)
                buffer[j] = "abcdefgh ij"[r % 11];
        }
        struct slice value = slice_of(buffer, n), message;
        struct strbuf out = {0}, subject = {0}, body = {0}, clean = {0};
        message_add_header(&out, "Subject", value);
        message_add_body(&out, value);
        check_lines(strbuf_slice(&out));
        message = strbuf_slice(&out);
        read_header(&message, &subject);
        escape_line(&clean, value);
        struct slice wanted = strbuf_slice(&clean);
        while (wanted.n && wanted.p[wanted.n - 1] == ' ')
            wanted.n--;
        if (clean.n <= MESSAGE_HEADER_MAX)
            assert_true(slice_eq(strbuf_slice(&subject), wanted));
        assert_true(slice_starts(message, BYTES("MIME-Version: 1.0\r\n"))); /* nothing came between */

        while (!slice_starts(message, BYTES("\r\n\r\n")))
            message = slice_from(message, 1);
        read_body(slice_from(message, 4), &body);
        strbuf_reset(&clean);
        escape_utf8(&clean, value);
        /* Line ends are CR LF now, and there is one at the end. */
        struct strbuf lines = {0};
        for (size_t j = 0; j < clean.n; j++) {
            bool is_end = clean.p[j] == '\r' || clean.p[j] == '\n';
            if (is_end && clean.p[j] == '\r' && j + 1 < clean.n && clean.p[j + 1] == '\n')
                j++;
            strbuf_add(&lines, is_end ? "\r\n" : &clean.p[j], is_end ? 2 : 1);
        }
        if (clean.n && !slice_ends(strbuf_slice(&lines), BYTES("\r\n")))
            strbuf_add_str(&lines, "\r\n");
        assert_true(slice_eq(strbuf_slice(&body), strbuf_slice(&lines)));
        strbuf_fini(&lines);
        strbuf_fini(&out);
        strbuf_fini(&subject);
        strbuf_fini(&body);
        strbuf_fini(&clean);
    }
}

static void long_ones(void **state)
{
    static char text[MESSAGE_BODY_MAX + 100];
    struct strbuf out = {0};
    (void)state;
    memset(text, 'x', sizeof text);
    message_add_header(&out, "Subject", slice_of(text, sizeof text));
    assert_true(out.n < 2 * MESSAGE_HEADER_MAX);
    check_lines(strbuf_slice(&out));
    message_add_body(&out, slice_of(text, sizeof text));
    check_lines(strbuf_slice(&out));
    assert_true(slice_ends(strbuf_slice(&out), BYTES("[cut here: 100 bytes more]\r\n")));
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),   cmocka_unit_test(ids),       cmocka_unit_test(date),
        cmocka_unit_test(bodies),    cmocka_unit_test(addresses), cmocka_unit_test(any_bytes),
        cmocka_unit_test(long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
