/* SPDX-License-Identifier: Apache-2.0 */
/* Names and records of LDAP entries: nothing that a peer calls itself gets a meaning in a distinguished name.
 */
#include "unit/test.h"

#include "gateway/ldap_entry.h"

#include <math.h>

static void names_are(struct slice host, struct slice sensor, const char *name)
{
    struct strbuf out = {0};
    ldap_entry_name(&out, host, sensor, SLICE_LIT("gw"));
    assert_string_equal(out.p, name);
    strbuf_fini(&out);
}

static void names(void **state)
{
    (void)state;
    names_are(SLICE_LIT(""), SLICE_LIT(""), "gridlineGatewayName=gw");
    names_are(SLICE_LIT("node17.example.org"), SLICE_LIT(""), "gridlineHostName=node17.example.org");
    names_are(SLICE_LIT("n"), SLICE_LIT("exec/root-disk"),
              "gridlineSensorName=exec/root-disk,gridlineHostName=n");
}

static void hostile_names(void **state)
{
    (void)state;
    names_are(SLICE_LIT("a,dc=example"), SLICE_LIT(""), "gridlineHostName=a%2Cdc%3Dexample");
    names_are(SLICE_LIT("a+b"), SLICE_LIT("*"), "gridlineSensorName=%2A,gridlineHostName=a%2Bb");
    names_are(SLICE_LIT("#04\"\\;<>"), SLICE_LIT(""), "gridlineHostName=%2304%22%5C%3B%3C%3E");
    names_are(SLICE_LIT(" a "), SLICE_LIT(""), "gridlineHostName=%20a%20"); /* servers take these for one */
    names_are(SLICE_LIT("a%20"), SLICE_LIT(""), "gridlineHostName=a%2520");
    names_are(SLICE_LIT("\xc3\xbc\xff"), SLICE_LIT(""), "gridlineHostName=%C3%BC%FF");
    names_are(SLICE_LIT("a\0b\n"), SLICE_LIT(")(x=*"),
              "gridlineSensorName=%29%28x%3D%2A,gridlineHostName=a%00b%0A");
}

/* Whatever two names are: the same text only if they are the same; and no byte that means something. */
static void different_names_differ(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct strbuf a = {0}, b = {0};
    for (int round = 0; round < 20000; round++) {
        char x[6], y[6];
        size_t n = test_random(&seed) % sizeof x, k = test_random(&seed) % sizeof y;
        for (size_t i = 0; i < sizeof x; i++) {
            x[i] = "a%2C ,=\0\xff"[test_random(&seed) % 9];
            y[i] = test_random(&seed) % 4 ? x[i] : "a%2C ,=\0\xff"[test_random(&seed) % 9];
        }
        strbuf_reset(&a);
        strbuf_reset(&b);
        ldap_encode(&a, slice_of(x, n));
        ldap_encode(&b, slice_of(y, k));
        assert_int_equal(slice_eq(strbuf_slice(&a), strbuf_slice(&b)),
                         slice_eq(slice_of(x, n), slice_of(y, k)));
        for (size_t i = 0; i < a.n; i++)
            assert_null(memchr(" ,=+\"\\<>;#*()\0\xff", a.p[i], 15));
    }
    strbuf_fini(&a);
    strbuf_fini(&b);
}

/* As lines "attribute: value", for comparing. */
static void record_is(const struct ldap_entry *e, const char *lines)
{
    struct strbuf record = {0}, out = {0};
    struct ldap_value v;
    ldap_entry_record(&record, e, SLICE_LIT("gw 1"));
    struct cursor c = cursor_of(strbuf_slice(&record));
    while (ldap_record_next(&c, &v))
        strbuf_printf(&out, "%s: %.*s\n", ldap_attribute_names[v.attribute], SLICE_ARG(v.text));
    assert_false(c.bad);
    assert_string_equal(out.p, lines);
    strbuf_fini(&record);
    strbuf_fini(&out);
}

static void records(void **state)
{
    (void)state;
    record_is(&(struct ldap_entry){.state = SLICE_LIT("running"), .updated_ns = INT64_C(1794777628123456789)},
              "objectClass: gridlineGateway\n"
              "gridlineGatewayName: gw%201\n"
              "gridlineState: running\n"
              "gridlineUpdated: 20261115212028Z\n");
    record_is(&(struct ldap_entry){.host = SLICE_LIT("n 1"),
                                   .state = SLICE_LIT("live"),
                                   .domain = SLICE_LIT("here")},
              "objectClass: gridlineHost\n"
              "gridlineGatewayName: gw%201\n"
              "gridlineHostName: n%201\n"
              "gridlineDomain: here\n"
              "gridlineState: live\n");
    record_is(
        &(struct ldap_entry){.host = SLICE_LIT("n"),
                             .sensor = SLICE_LIT("net"),
                             .status = SLICE_LIT("failed"),
                             .why = SLICE_LIT("no such \xc3\xbc"),
                             .mode = SLICE_LIT("always"),
                             .events = SLICE_LIT("tcp,network,ip,tcp"),
                             .schemas = SLICE_LIT("00000000000000aa,,0123456789abcdef,00000000000000aa"),
                             .every_ms = 10000,
                             .rate = 0.1,
                             .since_ns = INT64_C(1794777628000000000),
                             .last_ns = INT64_C(1794777629999999999)},
        "objectClass: gridlineSensor\n"
        "gridlineGatewayName: gw%201\n"
        "gridlineHostName: n\n"
        "gridlineSensorName: net\n"
        "gridlineStatus: failed\n"
        "gridlineWhy: no such \xc3\xbc\n"
        "gridlineMode: always\n"
        "gridlineEvent: ip\n"
        "gridlineEvent: network\n"
        "gridlineEvent: tcp\n"
        "gridlineSchema: ip 0123456789abcdef\n"
        "gridlineSchema: tcp 00000000000000aa\n"
        "gridlineEvery: 10000\n"
        "gridlineRate: 0.1\n"
        "gridlineSince: 20261115212028Z\n"
        "gridlineLastEvent: 20261115212029Z\n");
}

/* What no server would take as text is written as names are; what is not known is left out. */
static void odd_values(void **state)
{
    (void)state;
    record_is(&(struct ldap_entry){.host = SLICE_LIT("n"),
                                   .sensor = SLICE_LIT("s"),
                                   .why = SLICE_LIT("two\nlines \xff"),
                                   .events = SLICE_LIT(",a b,ok,"),
                                   .schemas = SLICE_LIT("1"),
                                   .rate = NAN},
              "objectClass: gridlineSensor\n"
              "gridlineGatewayName: gw%201\n"
              "gridlineHostName: n\n"
              "gridlineSensorName: s\n"
              "gridlineWhy: two%0Alines%20%FF\n"
              "gridlineEvent: ok\n");
    struct ldap_entry e = {.host = SLICE_LIT("n"), .rate = INFINITY, .since_ns = -5};
    record_is(&e, "objectClass: gridlineHost\ngridlineGatewayName: gw%201\ngridlineHostName: n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),   cmocka_unit_test(hostile_names), cmocka_unit_test(different_names_differ),
        cmocka_unit_test(records), cmocka_unit_test(odd_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
