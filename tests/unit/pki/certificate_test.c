/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates: what is issued says what it should, and what can't be is not issued. */
#include "unit/test.h"

#include "base/clock.h"
#include "pki/certificate.h"

#include <errno.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

static const int64_t day_ns = 24 * 3600 * NS_PER_S;

struct ca {
    EVP_PKEY *key;
    X509 *certificate;
};

static struct ca make_ca(int64_t now, int64_t life)
{
    struct ca ca;
    assert_int_equal(certificate_new_key(&ca.key), 0);
    assert_int_equal(certificate_new_ca(ca.key, "test CA", now, life, &ca.certificate), 0);
    return ca;
}

static void free_ca(struct ca *ca)
{
    EVP_PKEY_free(ca->key);
    X509_free(ca->certificate);
}

static X509 *issue(const struct ca *ca, const struct certificate_terms *t, int expected)
{
    EVP_PKEY *key = NULL;
    X509 *c = NULL;
    assert_int_equal(certificate_new_key(&key), 0);
    assert_int_equal(certificate_issue(ca->certificate, ca->key, key, t, &c), expected);
    EVP_PKEY_free(key);
    return c;
}

static void every_role_is_issued_and_read_back(void **state)
{
    (void)state;
    int64_t now = clock_utc_ns() / NS_PER_S * NS_PER_S;
    struct ca ca = make_ca(now, 30 * day_ns);
    STACK_OF(X509) *cas = sk_X509_new_null();
    assert_true(sk_X509_push(cas, ca.certificate));
    for (enum tls_role role = TLS_AGENT; role <= TLS_OPERATOR; role++) {
        const struct certificate_terms t = {.role = role, .name = "Node-1.example_x", .now_ns = now, .life_ns = 9 * day_ns};
        X509 *c = issue(&ca, &t, 0);
        struct tls_identity who;
        struct diag why = {0};
        assert_int_equal(certificate_identity(c, &who, &why), 0);
        assert_int_equal(who.role, role);
        assert_string_equal(who.name, "Node-1.example_x");
        assert_true(who.not_after_ns == now + 9 * day_ns);
        assert_true(certificate_not_before_ns(c) == now - CERTIFICATE_SKEW_S * NS_PER_S);
        assert_true(certificate_renew_at_ns(c) > now + 5 * day_ns && certificate_renew_at_ns(c) < now + 7 * day_ns);
        assert_int_equal(certificate_verify(c, NULL, cas, X509_PURPOSE_SSL_CLIENT, 0, &why), 0);
        assert_int_equal(certificate_verify(c, NULL, cas, X509_PURPOSE_SSL_SERVER, 0, &why) == 0, role == TLS_GATEWAY);
        assert_int_equal(X509_check_ca(c), 0);
        X509_free(c);
    }
    sk_X509_free(cas);
    free_ca(&ca);
}

static void the_signer_is_nobody_and_signs_code_only(void **state)
{
    (void)state;
    int64_t now = clock_utc_ns();
    struct ca ca = make_ca(now, 30 * day_ns);
    X509 *c = issue(&ca, &(struct certificate_terms){.name = "signer", .now_ns = now, .life_ns = day_ns}, 0);
    struct tls_identity who;
    assert_int_equal(certificate_identity(c, &who, NULL), E_PROTO);
    assert_int_equal(X509_get_extended_key_usage(c), XKU_CODE_SIGN);
    X509_free(c);
    free_ca(&ca);
}

static void no_certificate_outlives_its_ca(void **state)
{
    (void)state;
    int64_t now = clock_utc_ns() / NS_PER_S * NS_PER_S;
    struct ca ca = make_ca(now, 2 * day_ns);
    struct certificate_terms t = {.role = TLS_AGENT, .name = "n", .now_ns = now, .life_ns = 9 * day_ns};
    X509 *c = issue(&ca, &t, 0);
    assert_true(certificate_not_after_ns(c) == now + 2 * day_ns);
    X509_free(c);
    t.now_ns = now + 2 * day_ns;
    assert_null(issue(&ca, &t, -EKEYEXPIRED));
    free_ca(&ca);
}

/* Every character that would mean something in the text that OpenSSL makes extensions from. */
static void names_that_could_say_more_are_not_issued(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a,URI:gridline:gateway/b", "a/b", "a b", "a\nb", "caf\xc3\xa9", "@x", "a;b"};
    static const char *const hosts[] = {"", "a,URI:gridline:gateway/b", "*", "a b", "a/b", "1.2.3.4:5", "under_score", "::g"};
    int64_t now = clock_utc_ns();
    struct ca ca = make_ca(now, 30 * day_ns);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(issue(&ca, &(struct certificate_terms){TLS_AGENT, names[i], NULL, 0, now, day_ns}, -EINVAL));
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        assert_null(issue(&ca, &(struct certificate_terms){TLS_GATEWAY, "g", &hosts[i], 1, now, day_ns}, -EINVAL));
    free_ca(&ca);
}

static void hosts_are_read_back(void **state)
{
    (void)state;
    static const char *const hosts[] = {"gw.example.org", "192.0.2.7", "2001:db8::1"};
    int64_t now = clock_utc_ns();
    struct ca ca = make_ca(now, 30 * day_ns);
    X509 *c = issue(&ca, &(struct certificate_terms){TLS_GATEWAY, "g", hosts, 3, now, day_ns}, 0);
    struct strbuf text = {0};
    certificate_add_hosts(c, &text);
    assert_string_equal(text.p, "gw.example.org,192.0.2.7,[2001:db8::1],");
    strbuf_fini(&text);
    X509_free(c);
    free_ca(&ca);
}

/* A name of 128 bytes fits the URI; the common name is cut. */
static void a_long_name_is_whole_in_the_uri(void **state)
{
    (void)state;
    char name[129];
    memset(name, 'n', sizeof name - 1);
    name[128] = '\0';
    int64_t now = clock_utc_ns();
    struct ca ca = make_ca(now, 30 * day_ns);
    X509 *c = issue(&ca, &(struct certificate_terms){.role = TLS_AGENT, .name = name, .now_ns = now, .life_ns = day_ns}, 0);
    struct tls_identity who;
    assert_int_equal(certificate_identity(c, &who, NULL), 0);
    assert_string_equal(who.name, name);
    X509_free(c);
    free_ca(&ca);
}

static void requests_prove_their_key(void **state)
{
    (void)state;
    EVP_PKEY *key = NULL, *back = NULL;
    struct strbuf der = {0};
    struct diag why = {0};
    assert_int_equal(certificate_new_key(&key), 0);
    assert_int_equal(certificate_new_request(key, &der), 0);
    assert_int_equal(certificate_read_request(strbuf_slice(&der), &back, &why), 0);
    assert_int_equal(EVP_PKEY_eq(key, back), 1);
    EVP_PKEY_free(back);
    back = NULL;
    for (size_t i = 0; i < der.n; i++) { /* any bit wrong; the key's own point included */
        der.p[i] ^= 4;
        if (certificate_read_request(strbuf_slice(&der), &back, &why) == 0)
            fail_msg("byte %zu of the request does not matter", i);
        der.p[i] ^= 4;
    }
    for (size_t n = 0; n < der.n; n++)
        assert_int_equal(certificate_read_request(slice_of(der.p, n), &back, &why), E_PROTO);
    strbuf_add_char(&der, 0);
    assert_int_equal(certificate_read_request(strbuf_slice(&der), &back, &why), E_PROTO);
    EVP_PKEY_free(key);
    key = EVP_RSA_gen(2048);
    strbuf_reset(&der);
    assert_int_equal(certificate_new_request(key, &der), 0);
    assert_int_equal(certificate_read_request(strbuf_slice(&der), &back, &why), E_PROTO);
    assert_non_null(strstr(why.message, "not ECDSA P-256"));
    assert_null(back);
    strbuf_fini(&der);
    EVP_PKEY_free(key);
}

static void pem_is_read_and_nothing_else(void **state)
{
    (void)state;
    int64_t now = clock_utc_ns();
    struct ca ca = make_ca(now, 30 * day_ns);
    struct strbuf text = {0};
    STACK_OF(X509) *all = NULL;
    EVP_PKEY *key = NULL;
    struct diag why = {0};
    strbuf_add_str(&text, "a remark\n");
    assert_int_equal(certificate_add_key_pem(ca.key, &text), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(certificate_add_pem(ca.certificate, &text), 0);
    assert_int_equal(certificate_read_pem(strbuf_slice(&text), &all, &why), 0);
    assert_int_equal(sk_X509_num(all), 8);
    sk_X509_pop_free(all, X509_free);
    assert_int_equal(certificate_read_key_pem(strbuf_slice(&text), &key, &why), 0);
    assert_int_equal(EVP_PKEY_eq(key, ca.key), 1);
    assert_int_equal(certificate_add_pem(ca.certificate, &text), 0);
    assert_int_equal(certificate_read_pem(strbuf_slice(&text), &all, &why), E_LIMIT);
    assert_int_equal(certificate_read_pem(SLICE_LIT("nothing"), &all, &why), E_PROTO);
    assert_int_equal(certificate_read_pem(SLICE_LIT("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                                          &all, &why),
                     E_PROTO);
    EVP_PKEY_free(key);
    assert_int_equal(certificate_read_key_pem(SLICE_LIT("nothing"), &key, &why), E_PROTO);
    certificate_wipe(&text);
    free_ca(&ca);
}

static void uris_name_one_of_three_roles(void **state)
{
    (void)state;
    struct tls_identity who;
    assert_int_equal(identity_parse_uri(SLICE_LIT("gridline:agent/node1"), &who), 0);
    assert_int_equal(who.role, TLS_AGENT);
    assert_int_equal(identity_parse_uri(SLICE_LIT("spiffe://x/agent/node1"), &who), E_NODATA);
    const struct slice bad[] = {SLICE_LIT("gridline:"),          SLICE_LIT("gridline:agent"),
                                       SLICE_LIT("gridline:agent/"),    SLICE_LIT("gridline:agent/a/b"),
                                       SLICE_LIT("gridline:nobody/a"),  SLICE_LIT("gridline:Agent/a"),
                                       SLICE_LIT("gridline:agent/a\0b"), SLICE_LIT("gridline:/a")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(identity_parse_uri(bad[i], &who), E_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_role_is_issued_and_read_back),
        cmocka_unit_test(the_signer_is_nobody_and_signs_code_only),
        cmocka_unit_test(no_certificate_outlives_its_ca),
        cmocka_unit_test(names_that_could_say_more_are_not_issued),
        cmocka_unit_test(hosts_are_read_back),
        cmocka_unit_test(a_long_name_is_whole_in_the_uri),
        cmocka_unit_test(requests_prove_their_key),
        cmocka_unit_test(pem_is_read_and_nothing_else),
        cmocka_unit_test(uris_name_one_of_three_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
