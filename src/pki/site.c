/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/site.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the CA */

static int read_ca_key(const char *dir, EVP_PKEY **out, struct diag *why)
{
    struct strbuf text = {0};
    int r = folder_get(dir, "key.pem", 077, &text, why);
    if (r == -ENOENT)
        r = 0; /* this gateway issues nothing */
    else if (r == 0)
        r = certificate_read_key_pem(strbuf_slice(&text), out, why);
    certificate_wipe(&text);
    return r;
}

static int read_ca_certificate(const char *dir, X509 **out, struct diag *why)
{
    struct strbuf text = {0};
    STACK_OF(X509) *all = NULL;
    int r = folder_get(dir, "cert.pem", 0, &text, why);
    if (r == 0)
        r = certificate_read_pem(strbuf_slice(&text), &all, why);
    if (r == 0)
        *out = sk_X509_shift(all);
    sk_X509_pop_free(all, X509_free);
    strbuf_fini(&text);
    return r;
}

int site_ca_read(const char *dir, struct site_ca *out, struct diag *why)
{
    struct site_ca ca = {0};
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/ca", dir);
    int r = strbuf_failed(&path) ? -ENOMEM : read_ca_key(path.p, &ca.key, why);
    if (r == 0 && ca.key)
        r = read_ca_certificate(path.p, &ca.certificate, why);
    if (r == 0 && ca.key && X509_check_private_key(ca.certificate, ca.key) != 1) {
        (void)certificate_reason(); /* empties the queue */
        r = diag_set(why, -EKEYREJECTED, 0, "%.120s: the CA's key does not belong to its certificate",
                     path.p);
    }
    strbuf_fini(&path);
    if (r < 0) {
        site_ca_fini(&ca);
        return r;
    }
    *out = ca;
    return 0;
}

void site_ca_fini(struct site_ca *ca)
{
    EVP_PKEY_free(ca->key);
    X509_free(ca->certificate);
    *ca = (struct site_ca){0};
}

int site_ca_issue(const struct site_ca *ca, EVP_PKEY *public_key, const struct certificate_terms *terms,
                  struct strbuf *chain_pem, struct diag *why)
{
    X509 *c = NULL;
    int r = certificate_issue(ca->certificate, ca->key, public_key, terms, &c);
    if (r == -EINVAL)
        return diag_set(why, r, 0,
                        "'%.60s' or a host of it is no name for a certificate: letters, digits and . _ : -",
                        terms->name);
    if (r == -EKEYEXPIRED)
        return diag_set(why, r, 0, "the site's CA has expired: make a new site with `gridline init`");
    if (r == 0)
        r = certificate_add_pem(c, chain_pem);
    if (r == 0)
        r = certificate_add_pem(ca->certificate, chain_pem);
    X509_free(c);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

/* A new key and certificate, written by put. */
static int issue_new(const struct site_ca *ca, const struct certificate_terms *terms, const char *dir,
                     int (*put)(const char *dir, EVP_PKEY *key, struct slice chain, struct slice ca_pem,
                                struct diag *why),
                     struct diag *why)
{
    EVP_PKEY *key = NULL;
    struct strbuf chain = {0}, ca_pem = {0};
    int r = certificate_new_key(&key);
    if (r == 0)
        r = certificate_add_pem(ca->certificate, &ca_pem);
    if (r < 0)
        (void)diag_set(why, r, 0, "%s", err_text(r));
    if (r == 0)
        r = site_ca_issue(ca, key, terms, &chain, why);
    if (r == 0)
        r = put(dir, key, strbuf_slice(&chain), strbuf_slice(&ca_pem), why);
    strbuf_fini(&ca_pem);
    strbuf_fini(&chain);
    EVP_PKEY_free(key);
    return r;
}

static int replace(const char *dir, EVP_PKEY *key, struct slice chain, struct slice ca_pem, struct diag *why)
{
    (void)ca_pem; /* stays */
    return folder_replace(dir, key, chain, why);
}

/* The hosts of a certificate as a list; cuts text up. Addresses of IPv6 lose their brackets. */
static size_t split_hosts(struct strbuf *text, const char *out[CERTIFICATE_HOSTS_MAX])
{
    size_t n = 0;
    for (char *p = text->n ? text->p : NULL, *comma;
         p && n < CERTIFICATE_HOSTS_MAX && (comma = strchr(p, ',')); p = comma + 1) {
        bool is_v6 = p[0] == '[';
        comma[is_v6 ? -1 : 0] = '\0';
        out[n++] = p + is_v6;
    }
    return n;
}

int site_ca_renew(const struct site_ca *ca, const char *dir, int64_t now_ns, struct diag *why)
{
    struct folder f = {0};
    struct strbuf hosts = {0};
    const char *list[CERTIFICATE_HOSTS_MAX];
    int r = folder_read(dir, &f, why);
    if (r == 0 && now_ns >= certificate_renew_at_ns(folder_own(&f))) {
        struct certificate_terms t = {
            .role = f.who.role, .name = f.who.name, .hosts = list, .now_ns = now_ns};
        t.life_ns = SITE_GATEWAY_DAYS * SITE_DAY_NS;
        certificate_add_hosts(folder_own(&f), &hosts);
        t.n_hosts = split_hosts(&hosts, list);
        r = strbuf_failed(&hosts) ? -ENOMEM : issue_new(ca, &t, dir, replace, why);
        r = r < 0 ? r : 1;
    }
    strbuf_fini(&hosts);
    folder_fini(&f);
    return r;
}

/* ---------------------------------------------------------------- init */

/* DIR/name, owned by out. */
static const char *path_in(struct strbuf *out, const char *dir, const char *name)
{
    strbuf_reset(out);
    strbuf_printf(out, "%s/%s", dir, name);
    return strbuf_failed(out) ? "" : out->p;
}

static int make_ca(const char *dir, const char *name, int64_t now_ns, struct site_ca *ca, struct diag *why)
{
    struct strbuf title = {0}, key = {0}, certificate = {0};
    strbuf_printf(&title, "gridline CA of %s", name);
    int r = certificate_new_key(&ca->key);
    if (r == 0)
        r = certificate_new_ca(ca->key, title.p ? title.p : "", now_ns, SITE_CA_DAYS * SITE_DAY_NS,
                               &ca->certificate);
    if (r == 0)
        r = certificate_add_key_pem(ca->key, &key);
    if (r == 0)
        r = certificate_add_pem(ca->certificate, &certificate);
    if (r < 0)
        (void)diag_set(why, r, 0, "%s", err_text(r));
    if (r == 0)
        r = folder_make(dir, why);
    if (r == 0)
        r = folder_put(dir, "key.pem", 0600, strbuf_slice(&key), why);
    if (r == 0)
        r = folder_put(dir, "cert.pem", 0644, strbuf_slice(&certificate), why);
    strbuf_fini(&title);
    strbuf_fini(&certificate);
    certificate_wipe(&key);
    return r;
}

static int make_operator(const struct site_init *o, const struct site_ca *ca, const char *dir, int64_t now_ns,
                         struct diag *why)
{
    const struct certificate_terms terms = {.role = TLS_OPERATOR,
                                            .name = o->operator_name,
                                            .now_ns = now_ns,
                                            .life_ns = SITE_OPERATOR_DAYS * SITE_DAY_NS};
    return issue_new(ca, &terms, dir, folder_create, why);
}

/* With the operator, unless it has a place of its own. */
static int make_site(const struct site_init *o, const char *dir, bool has_operator, int64_t now_ns,
                     struct site_ca *ca, struct diag *why)
{
    struct strbuf path = {0};
    const struct certificate_terms gateway = {.role = TLS_GATEWAY,
                                              .name = o->name,
                                              .hosts = o->hosts,
                                              .n_hosts = o->n_hosts,
                                              .now_ns = now_ns,
                                              .life_ns = SITE_GATEWAY_DAYS * SITE_DAY_NS};
    const struct certificate_terms signer = {.role = TLS_NOBODY,
                                             .name = "gridline-configuration",
                                             .now_ns = now_ns,
                                             .life_ns = SITE_SIGNER_DAYS * SITE_DAY_NS};
    int r = make_ca(path_in(&path, dir, "ca"), o->name, now_ns, ca, why);
    if (r == 0)
        r = issue_new(ca, &gateway, dir, folder_create, why);
    if (r == 0)
        r = issue_new(ca, &signer, path_in(&path, dir, "signer"), folder_create, why);
    if (r == 0 && has_operator)
        r = make_operator(o, ca, path_in(&path, dir, "operator"), now_ns, why);
    if (r == 0)
        r = folder_make(path_in(&path, dir, "tokens"), why);
    strbuf_fini(&path);
    return r;
}

static void remove_site(const char *dir)
{
    static const char *const files[] = {"ca/key.pem",         "ca/cert.pem",     "ca",
                                        "signer/key.pem",     "signer/cert.pem", "signer/ca.pem",
                                        "signer/renewed.pem", "signer",          "operator/key.pem",
                                        "operator/cert.pem",  "operator/ca.pem", "operator/renewed.pem",
                                        "operator",           "tokens",          "key.pem",
                                        "cert.pem",           "ca.pem",          "renewed.pem"};
    struct strbuf path = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        (void)remove(path_in(&path, dir, files[i])); /* what is there of it */
    (void)rmdir(dir);                                /* else it stays, under a name that says what it was */
    strbuf_fini(&path);
}

/* Its name's last slash is not part of it. */
static int temporary_beside(const char *dir, struct strbuf *clean, struct strbuf *out, struct diag *why)
{
    struct slice d = slice_str(dir);
    while (d.n > 1 && d.p[d.n - 1] == '/')
        d.n--;
    strbuf_add_slice(clean, d);
    const char *slash = memrchr(d.p, '/', d.n);
    struct strbuf parent = {0};
    strbuf_add(&parent, d.p, slash ? (size_t)(slash - d.p) : 0);
    int r = parent.n ? folder_make(parent.p, why) : 0;
    strbuf_fini(&parent);
    strbuf_printf(out, "%s.new-XXXXXX", clean->p);
    if (r == 0 && (strbuf_failed(out) || !mkdtemp(out->p)))
        r = diag_set(why, -errno, 0, "can't make a folder beside %.120s: %s", dir, err_text(-errno));
    return r;
}

static int put_in_place(const char *temporary, const char *dir, struct diag *why)
{
    if (rename(temporary, dir) == 0)
        return 0;
    int r = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR ? -EEXIST : -errno;
    if (r == -EEXIST)
        return diag_set(
            why, r, 0, "%.100s is there already and is left as it is: give another --dir, or remove it", dir);
    return diag_set(why, r, 0, "can't make %.150s: %s", dir, err_text(r));
}

int site_init(const struct site_init *o, int64_t now_ns, struct strbuf *operator_dir, struct diag *why)
{
    struct strbuf temporary = {0}, dir = {0};
    struct site_ca ca = {0};
    struct stat st;
    bool is_inside = !o->operator_dir || folder_is_used(o->operator_dir);
    bool is_there = lstat(o->dir, &st) == 0 && folder_is_used(o->dir);
    int r = is_there ? diag_set(why, -EEXIST, 0,
                                "%.100s is a site already and is left as it is: give another --dir", o->dir)
                     : temporary_beside(o->dir, &dir, &temporary, why);
    if (r == 0) {
        r = make_site(o, temporary.p, is_inside, now_ns, &ca, why);
        if (r == 0)
            r = put_in_place(temporary.p, dir.p, why);
        if (r < 0)
            remove_site(temporary.p);
    }
    if (r == 0 && is_inside)
        strbuf_printf(operator_dir, "%s/operator", dir.p);
    else if (r == 0)
        strbuf_add_str(operator_dir, o->operator_dir);
    if (r == 0 && !is_inside)
        r = make_operator(o, &ca, o->operator_dir, now_ns, why);
    site_ca_fini(&ca);
    strbuf_fini(&temporary);
    strbuf_fini(&dir);
    return r;
}

/* ---------------------------------------------------------------- tokens */

/* tls://HOST (on the usual port) of every name in the gateway's certificate. */
static void add_addresses(X509 *gateway, struct strbuf *out)
{
    struct strbuf hosts = {0};
    certificate_add_hosts(gateway, &hosts);
    for (char *p = hosts.p, *comma; p && (comma = strchr(p, ',')); p = comma + 1)
        strbuf_printf(out, "%stls://%.*s", out->n ? "," : "", (int)(comma - p), p);
    strbuf_fini(&hosts);
}

static int fill_token(const struct site_token *o, const struct folder *f, struct token *t, struct diag *why)
{
    struct strbuf addresses = {0};
    int r = 0;
    if (o->addresses)
        strbuf_add_str(&addresses, o->addresses);
    else
        add_addresses(folder_own(f), &addresses);
    X509 *ca = sk_X509_value(f->cas, 0);
    if (strbuf_failed(&addresses) || certificate_fingerprint(ca, t->ca) < 0)
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    else if (addresses.n >= sizeof t->addresses)
        r = diag_set(why, E_LIMIT, 0, "the addresses of a token have at most %zu bytes",
                     sizeof t->addresses - 1);
    else if (addresses.n)
        memcpy(t->addresses, addresses.p, addresses.n);
    strbuf_fini(&addresses);
    return r;
}

int site_token(const struct site_token *o, int64_t now_ns, struct strbuf *out, struct diag *why)
{
    struct folder f = {0};
    struct strbuf tokens = {0};
    struct token t = {.role = o->role};
    size_t n = o->name ? strlen(o->name) : 0;
    if (o->name && !text_is_name(slice_str(o->name)))
        return diag_set(why, -EINVAL, 0, "'%.60s' is no name: 1 to 128 letters, digits and . _ : -", o->name);
    if (n)
        memcpy(t.name, o->name, n);
    struct site_ca ca = {0};
    int r = folder_read(o->dir, &f, why);
    if (r == 0)
        r = site_ca_read(o->dir, &ca, why);
    if (r == 0 && !ca.key)
        r = diag_set(why, -ENOENT, 0, "%.80s has no CA's key: make tokens where `gridline init` was run",
                     o->dir);
    if (r == 0)
        r = fill_token(o, &f, &t, why);
    if (r == 0)
        r = token_make(path_in(&tokens, o->dir, "tokens"), &t, now_ns, now_ns + o->ttl_ns, why);
    if (r == 0)
        token_print(&t, out);
    OPENSSL_cleanse(&t, sizeof t);
    site_ca_fini(&ca);
    strbuf_fini(&tokens);
    folder_fini(&f);
    return r < 0 ? r : strbuf_failed(out) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)) : 0;
}
