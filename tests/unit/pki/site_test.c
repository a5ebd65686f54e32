/* SPDX-License-Identifier: Apache-2.0 */
/* Sites: whole or not at all, never over another, and their own certificate renewed. */
#include "unit/test.h"

#include "unit/net/tls_site.h"
#include "unit/pki/folder.h"

#include <errno.h>
#include <sys/stat.h>

static const int64_t day_ns = 24 * 3600 * NS_PER_S;

static int init(const char *dir, const char *name, const char *host, const char *operator_dir, struct strbuf *made,
                struct diag *why)
{
    const struct site_init o = {.dir = dir,
                                .name = name,
                                .hosts = &host,
                                .n_hosts = 1,
                                .operator_name = "ann",
                                .operator_dir = operator_dir};
    strbuf_reset(made);
    return site_init(&o, clock_utc_ns(), made, why);
}

static void a_site_is_made_once(void **state)
{
    (void)state;
    const char *root = test_folder_open();
    struct strbuf made = {0};
    struct diag why = {0};
    struct folder f = {0};
    char dir[128], own[128], second[128];
    (void)snprintf(dir, sizeof dir, "%s/deep/site/", root);
    (void)snprintf(own, sizeof own, "%s/home/identity", root);
    (void)snprintf(second, sizeof second, "%s/deep/second", root);
    assert_int_equal(init(dir, "gw", "gw.example.org", own, &made, &why), 0);
    assert_string_equal(made.p, own);
    assert_int_equal(folder_read(dir, &f, &why), 0);
    assert_int_equal(f.who.role, TLS_GATEWAY);
    folder_fini(&f);
    assert_int_equal(folder_read(own, &f, &why), 0);
    assert_int_equal(f.who.role, TLS_OPERATOR);
    assert_string_equal(f.who.name, "ann");
    folder_fini(&f);
    assert_int_equal(init(dir, "other", "h", own, &made, &why), -EEXIST);
    assert_non_null(strstr(why.message, "left as it is"));
    assert_int_equal(init(second, "gw2", "h", own, &made, &why), 0); /* own is used: inside */
    assert_true(strstr(made.p, "second/operator") != NULL);
    assert_int_equal(folder_read(made.p, &f, &why), 0);
    folder_fini(&f);
    (void)snprintf(second, sizeof second, "%s/home", root); /* a folder with something else in it */
    assert_int_equal(init(second, "gw3", "h", NULL, &made, &why), -EEXIST);
    (void)snprintf(second, sizeof second, "%s/deep", root);
    assert_int_equal(test_folder_count(second), 2); /* nothing is left of the attempts */
    strbuf_fini(&made);
    test_folder_close(root);
}

static void a_name_that_can_not_be_leaves_nothing(void **state)
{
    (void)state;
    const char *root = test_folder_open();
    struct strbuf made = {0};
    struct diag why = {0};
    char dir[128];
    (void)snprintf(dir, sizeof dir, "%s/site", root);
    assert_int_equal(init(dir, "a b", "h", NULL, &made, &why), -EINVAL);
    assert_int_equal(init(dir, "gw", "a,b", NULL, &made, &why), -EINVAL);
    assert_int_equal(test_folder_count(root), 0);
    strbuf_fini(&made);
    test_folder_close(root);
}

static void a_token_knows_the_ca_and_the_gateway(void **state)
{
    (void)state;
    struct tls_site s;
    struct strbuf text = {0};
    struct token t;
    struct diag why = {0};
    unsigned char hash[CERTIFICATE_FINGERPRINT];
    struct site_token o = {.role = TLS_AGENT, .name = "node1", .ttl_ns = day_ns};
    tls_site_open(&s, "gw");
    o.dir = s.dir;
    assert_int_equal(site_token(&o, clock_utc_ns(), &text, &why), 0);
    assert_int_equal(token_parse(strbuf_slice(&text), &t, &why), 0);
    assert_int_equal(certificate_fingerprint(s.ca.certificate, hash), 0);
    assert_memory_equal(t.ca, hash, sizeof hash);
    assert_string_equal(t.addresses, "tls://127.0.0.1");
    strbuf_reset(&text);
    o.addresses = "tls://other:1";
    assert_int_equal(site_token(&o, clock_utc_ns(), &text, &why), 0);
    assert_int_equal(token_parse(strbuf_slice(&text), &t, &why), 0);
    assert_string_equal(t.addresses, "tls://other:1");
    o.name = "no name";
    assert_int_equal(site_token(&o, clock_utc_ns(), &text, &why), -EINVAL);
    o = (struct site_token){.dir = tls_site_identity(&s, "n", TLS_GATEWAY, "n", clock_utc_ns(), day_ns),
                            .role = TLS_AGENT,
                            .name = "x",
                            .ttl_ns = day_ns};
    assert_int_equal(site_token(&o, clock_utc_ns(), &text, &why), -ENOENT);
    assert_non_null(strstr(why.message, "no CA's key"));
    strbuf_fini(&text);
    tls_site_close(&s);
}

static void the_gateways_own_certificate_renews_when_due(void **state)
{
    (void)state;
    struct tls_site s;
    struct folder f = {0};
    struct strbuf hosts = {0};
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    tls_site_open(&s, "gw");
    assert_int_equal(site_ca_renew(&s.ca, s.dir, now, &why), 0);
    assert_int_equal(site_ca_renew(&s.ca, s.dir, now + 59 * day_ns, &why), 0);
    assert_int_equal(site_ca_renew(&s.ca, s.dir, now + 61 * day_ns, &why), 1);
    assert_int_equal(site_ca_renew(&s.ca, s.dir, now + 61 * day_ns, &why), 0);
    assert_int_equal(folder_read(s.dir, &f, &why), 0);
    assert_string_equal(f.who.name, "gw");
    certificate_add_hosts(folder_own(&f), &hosts);
    assert_string_equal(hosts.p, "127.0.0.1,");
    assert_true(f.who.not_after_ns > now + 150 * day_ns);
    folder_fini(&f);
    assert_int_equal(site_ca_renew(&s.ca, s.dir, now + 400 * day_ns, &why), 1); /* also when it is over */
    strbuf_fini(&hosts);
    tls_site_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_site_is_made_once),
        cmocka_unit_test(a_name_that_can_not_be_leaves_nothing),
        cmocka_unit_test(a_token_knows_the_ca_and_the_gateway),
        cmocka_unit_test(the_gateways_own_certificate_renews_when_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
