/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/escape.h"
#include "base/text.h"
#include "event/json.h"

#include <ldap.h>

#define BYTES(s) slice_of(s, sizeof(s) - 1)

typedef void (*escape)(struct strbuf *out, struct slice value);

static void check(escape e, struct slice value, const char *expected)
{
    struct strbuf out = {0};
    e(&out, value);
    assert_false(strbuf_failed(&out));
    assert_slice(strbuf_slice(&out), expected);
    strbuf_fini(&out);
}

static void utf8(void **state)
{
    (void)state;
    check(escape_utf8, BYTES("plain \xc3\xa4"), "plain \xc3\xa4");
    check(escape_utf8, BYTES("a\xff\xc3"), "a\xef\xbf\xbd\xef\xbf\xbd");
    check(escape_utf8, BYTES("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd"); /* overlong */
    check(escape_utf8, BYTES(""), "");
}

static void line(void **state)
{
    (void)state;
    check(escape_line, BYTES("a\r\nBcc: x\0y\x7f"), "a  Bcc: x y ");
    check(escape_line, BYTES("a\xc2\x85z\xe2\x80\xa8y"), "a z y");
    check(escape_line, BYTES("\xe2\x80\xa7\xc2\xa0"), "\xe2\x80\xa7\xc2\xa0"); /* those are no line ends */
}

static void json(void **state)
{
    (void)state;
    check(escape_json, BYTES("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    check(escape_json, BYTES("\0"), "\\u0000");
    check(escape_json, BYTES("\"},{\"x\":\""), "\\\"},{\\\"x\\\":\\\"");
    check(escape_json, BYTES("\xff"), "\xef\xbf\xbd");
}

static void ldap(void **state)
{
    (void)state;
    check(escape_ldap, BYTES("c0-0.example:/x@y_z"), "c0-0.example:/x@y_z");
    check(escape_ldap, BYTES("*)(uid=*"), "\\2a\\29\\28uid\\3d\\2a");
    check(escape_ldap, BYTES(",cn=admin"), "\\2ccn\\3dadmin");
    check(escape_ldap, BYTES("\0\xff #"), "\\00\\ff\\20\\23");
}

static void glob(void **state)
{
    (void)state;
    check(escape_glob, BYTES("node1"), "node1");
    check(escape_glob, BYTES("*[a]?\\"), "\\*\\[a\\]\\?\\\\");
}

static struct slice random_value(uint64_t *seed, char *buffer, size_t max)
{
    static const char special[] = "*()\\\"'{}[]?!,;+<>=# \r\n\t/.-";
    size_t n = test_random(seed) % max;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_random(seed);
        buffer[i] = r % 3 ? special[(r >> 8) % sizeof special] : (char)(r >> 8); /* its NUL, too */
    }
    return slice_of(buffer, n);
}

/* JSON: reads back as the value, made UTF-8. Patterns: match the value, and none that is longer. LDAP: as a
 * name's value it reads back byte for byte. */
static void any_bytes(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (unsigned i = 0; i < 5000 * test_scale(); i++) {
        char buffer[40], read[4 * sizeof buffer];
        struct slice value = random_value(&seed, buffer, sizeof buffer);
        struct strbuf text = {0}, clean = {0}, longer = {0};
        struct json_reader r;
        struct json_item item;
        size_t n = 0;
        strbuf_add_char(&text, '"');
        escape_json(&text, value);
        strbuf_add_char(&text, '"');
        escape_utf8(&clean, value);
        json_init(&r, strbuf_slice(&text), 1, NULL);
        assert_int_equal(json_next(&r, &item), 0);
        assert_int_equal(item.kind, JSON_STRING);
        assert_int_equal(json_unescape(&r, item.text, read, &n), 0);
        assert_true(slice_eq(slice_of(read, n), strbuf_slice(&clean)));
        assert_int_equal(json_next(&r, &item), 0);
        assert_int_equal(item.kind, JSON_END);

        strbuf_reset(&text);
        escape_glob(&text, value);
        assert_true(text_glob(strbuf_slice(&text), value));
        strbuf_add_slice(&longer, value);
        strbuf_add_char(&longer, 'x');
        assert_false(text_glob(strbuf_slice(&text), strbuf_slice(&longer)));

        LDAPDN dn = NULL;
        strbuf_reset(&text);
        strbuf_add_str(&text, "cn=");
        escape_ldap(&text, value);
        strbuf_add_str(&text, ",dc=g");
        /* libldap takes only UTF-8 for a name's value; a server would refuse the rest, too. */
        if (value.n && text_is_utf8(value) && !memchr(value.p, '\0', value.n)) {
            assert_int_equal(ldap_str2dn(text.p, &dn, LDAP_DN_FORMAT_LDAPV3), LDAP_SUCCESS);
            assert_non_null(dn[0]);
            assert_non_null(dn[1]);
            assert_null(dn[2]);
            assert_null(dn[0][1]);
            assert_true(slice_eq(slice_of(dn[0][0]->la_value.bv_val, dn[0][0]->la_value.bv_len), value));
        }
        ldap_dnfree(dn);
        strbuf_fini(&text);
        strbuf_fini(&clean);
        strbuf_fini(&longer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8), cmocka_unit_test(line), cmocka_unit_test(json),
        cmocka_unit_test(ldap), cmocka_unit_test(glob), cmocka_unit_test(any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
