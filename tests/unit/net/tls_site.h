/* SPDX-License-Identifier: Apache-2.0 */
/* tls_site.h - sites and identities for tests, good ones and bad ones, in folders that are removed at the
 * end. */
#ifndef GRIDLINE_TESTS_TLS_SITE_H
#define GRIDLINE_TESTS_TLS_SITE_H

#include "base/clock.h"
#include "pki/site.h"

#include <ftw.h>
#include <unistd.h>

struct tls_site {
    char root[64];
    char dir[96]; /* the site's own folder */
    struct site_ca ca;
};

static inline void tls_site_open(struct tls_site *s, const char *gateway)
{
    struct strbuf operator_dir = {0};
    struct diag why = {0};
    const char *const hosts[] = {"127.0.0.1"};
    *s = (struct tls_site){.root = "/tmp/gridline-tls-XXXXXX"};
    assert_non_null(mkdtemp(s->root));
    (void)snprintf(s->dir, sizeof s->dir, "%s/site", s->root);
    const struct site_init wanted = {
        .dir = s->dir, .name = gateway, .hosts = hosts, .n_hosts = 1, .operator_name = "ann"};
    int r = site_init(&wanted, clock_utc_ns(), &operator_dir, &why);
    if (r < 0)
        fail_msg("site_init: %s", why.message);
    assert_int_equal(site_ca_read(s->dir, &s->ca, &why), 0);
    strbuf_fini(&operator_dir);
}

static inline int tls_site_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void tls_site_close(struct tls_site *s)
{
    site_ca_fini(&s->ca);
    assert_int_equal(nftw(s->root, tls_site_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* A folder of this name with a certificate of the site's, as of now_ns; where it is. */
static inline const char *tls_site_identity(const struct tls_site *s, const char *folder, enum tls_role role,
                                            const char *name, int64_t now_ns, int64_t life_ns)
{
    static char dir[128];
    EVP_PKEY *key = NULL;
    struct strbuf chain = {0}, ca = {0};
    struct diag why = {0};
    const struct certificate_terms terms = {.role = role, .name = name, .now_ns = now_ns, .life_ns = life_ns};
    (void)snprintf(dir, sizeof dir, "%s/%s", s->root, folder);
    assert_int_equal(certificate_new_key(&key), 0);
    assert_int_equal(site_ca_issue(&s->ca, key, &terms, &chain, &why), 0);
    assert_int_equal(certificate_add_pem(s->ca.certificate, &ca), 0);
    assert_int_equal(folder_create(dir, key, strbuf_slice(&chain), strbuf_slice(&ca), &why), 0);
    EVP_PKEY_free(key);
    strbuf_fini(&chain);
    strbuf_fini(&ca);
    return dir;
}

#endif
