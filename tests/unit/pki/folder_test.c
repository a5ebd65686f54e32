/* SPDX-License-Identifier: Apache-2.0 */
/* Identities on disk: never half of one, whenever the writer stops. */
#include "unit/test.h"

#include "unit/net/tls_site.h"
#include "unit/pki/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const int64_t day_ns = 24 * 3600 * NS_PER_S;

static unsigned mode_of(const char *dir, const char *name)
{
    char path[300];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void only_its_owner_reads_the_key(void **state)
{
    (void)state;
    struct tls_site s;
    struct folder f = {0};
    struct diag why = {0};
    char path[300];
    tls_site_open(&s, "gw");
    const char *dir = tls_site_identity(&s, "a/b/node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns);
    assert_int_equal(mode_of(dir, "."), 0700);
    assert_int_equal(mode_of(dir, "key.pem"), 0600);
    assert_int_equal(folder_read(dir, &f, &why), 0);
    assert_string_equal(f.who.name, "node1");
    folder_fini(&f);
    (void)snprintf(path, sizeof path, "%s/key.pem", dir);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(folder_read(dir, &f, &why), -EACCES);
    assert_non_null(strstr(why.message, "can be read by others: chmod 600"));
    assert_int_equal(folder_create(dir, NULL, SLICE_LIT(""), SLICE_LIT(""), &why), -EEXIST);
    tls_site_close(&s);
}

static void pieces_of_two_identities_are_none(void **state)
{
    (void)state;
    struct tls_site s, other;
    struct folder f = {0};
    struct diag why = {0};
    struct strbuf text = {0};
    char a[128], b[128];
    tls_site_open(&s, "gw");
    tls_site_open(&other, "gw");
    (void)snprintf(a, sizeof a, "%s", tls_site_identity(&s, "a", TLS_AGENT, "a", clock_utc_ns(), day_ns));
    (void)snprintf(b, sizeof b, "%s", tls_site_identity(&other, "b", TLS_AGENT, "b", clock_utc_ns(), day_ns));
    assert_int_equal(folder_get(b, "ca.pem", 0, &text, &why), 0);
    assert_int_equal(folder_put(a, "ca.pem", 0644, strbuf_slice(&text), &why), 0);
    assert_int_equal(folder_read(a, &f, &why), -EKEYREJECTED);
    assert_non_null(strstr(why.message, "not issued by the CA"));
    strbuf_reset(&text);
    assert_int_equal(folder_get(b, "cert.pem", 0, &text, &why), 0);
    assert_int_equal(folder_put(a, "cert.pem", 0644, strbuf_slice(&text), &why), 0);
    assert_int_equal(folder_read(a, &f, &why), -EKEYREJECTED);
    assert_non_null(strstr(why.message, "key does not belong"));
    strbuf_fini(&text);
    tls_site_close(&s);
    tls_site_close(&other);
}

/* A new pair for the folder. */
static void make_pair(const struct tls_site *s, EVP_PKEY **key, struct strbuf *chain)
{
    struct diag why = {0};
    const struct certificate_terms t = {
        .role = TLS_AGENT, .name = "node1", .now_ns = clock_utc_ns(), .life_ns = 20 * day_ns};
    assert_int_equal(certificate_new_key(key), 0);
    assert_int_equal(site_ca_issue(&s->ca, *key, &t, chain, &why), 0);
}

static int64_t end_of(const char *dir)
{
    struct folder f = {0};
    struct diag why = {0};
    if (folder_read(dir, &f, &why) < 0)
        fail_msg("%s", why.message);
    int64_t end = f.who.not_after_ns;
    folder_fini(&f);
    return end;
}

static void replacing_stops_anywhere_and_the_identity_is_whole(void **state)
{
    (void)state;
    struct tls_site s;
    struct diag why = {0};
    EVP_PKEY *key = NULL;
    struct strbuf chain = {0}, both = {0}, text = {0};
    tls_site_open(&s, "gw");
    const char *dir = tls_site_identity(&s, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns);
    int64_t before = end_of(dir);
    make_pair(&s, &key, &chain);
    /* What is on disk after each step that folder_replace takes. */
    assert_int_equal(certificate_add_key_pem(key, &text), 0);
    strbuf_add_slice(&both, strbuf_slice(&text));
    strbuf_add_slice(&both, strbuf_slice(&chain));
    assert_int_equal(folder_put(dir, "renewed.pem", 0600, strbuf_slice(&both), &why), 0);
    assert_true(end_of(dir) > before + 18 * day_ns);
    assert_int_equal(folder_put(dir, "key.pem", 0600, strbuf_slice(&text), &why), 0);
    assert_true(end_of(dir) > before + 18 * day_ns);
    /* And the next replacement goes over what is left. */
    EVP_PKEY_free(key);
    strbuf_reset(&chain);
    make_pair(&s, &key, &chain);
    assert_int_equal(folder_replace(dir, key, strbuf_slice(&chain), &why), 0);
    assert_true(end_of(dir) > before + 18 * day_ns);
    assert_int_equal(test_folder_count(dir), 3);
    EVP_PKEY_free(key);
    strbuf_fini(&chain);
    certificate_wipe(&both);
    certificate_wipe(&text);
    tls_site_close(&s);
}

static void time_is_told(void **state)
{
    (void)state;
    struct tls_site s;
    struct folder f = {0};
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    tls_site_open(&s, "gw");
    assert_int_equal(folder_read(tls_site_identity(&s, "n", TLS_AGENT, "n", now, day_ns), &f, &why), 0);
    assert_int_equal(folder_check_time(&f, now, &why), 0);
    assert_int_equal(folder_check_time(&f, now + day_ns, &why), -EKEYEXPIRED);
    assert_non_null(strstr(why.message, "join again"));
    assert_int_equal(folder_check_time(&f, now - day_ns, &why), -EKEYEXPIRED);
    assert_non_null(strstr(why.message, "clock right?"));
    folder_fini(&f);
    tls_site_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_owner_reads_the_key),
        cmocka_unit_test(pieces_of_two_identities_are_none),
        cmocka_unit_test(replacing_stops_anywhere_and_the_identity_is_whole),
        cmocka_unit_test(time_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
