/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/certificate.h"

#include "base/clock.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

enum { COMMON_NAME_MAX = 64, SERIAL_BYTES = 16, CHAIN_MAX = 8 };

const char *certificate_reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return text ? text : "no reason given";
}

/* ---------------------------------------------------------------- keys and requests */

int certificate_new_key(EVP_PKEY **out)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    if (!key)
        return -ENOMEM;
    *out = key;
    return 0;
}

int certificate_new_request(EVP_PKEY *key, struct strbuf *der)
{
    unsigned char *bytes = NULL;
    int n = -1;
    X509_REQ *request = X509_REQ_new();
    if (request && X509_REQ_set_version(request, X509_REQ_VERSION_1) && X509_REQ_set_pubkey(request, key) &&
        X509_REQ_sign(request, key, EVP_sha256()) > 0)
        n = i2d_X509_REQ(request, &bytes);
    if (n > 0)
        strbuf_add(der, bytes, (size_t)n);
    OPENSSL_free(bytes);
    X509_REQ_free(request);
    return n > 0 && !strbuf_failed(der) ? 0 : -ENOMEM;
}

static bool is_p256(EVP_PKEY *key)
{
    char group[32];
    size_t n;
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group, sizeof group, &n) == 1 &&
           strcmp(group, SN_X9_62_prime256v1) == 0;
}

int certificate_read_request(struct slice der, EVP_PKEY **out, struct diag *why)
{
    const unsigned char *p = (const unsigned char *)der.p;
    X509_REQ *request = der.n <= LONG_MAX ? d2i_X509_REQ(NULL, &p, (long)der.n) : NULL;
    EVP_PKEY *key =
        request && p == (const unsigned char *)der.p + der.n ? X509_REQ_get_pubkey(request) : NULL;
    int r = 0;
    if (!key)
        r = diag_set(why, E_PROTO, 0, "the request is not PKCS#10 in DER");
    else if (!is_p256(key))
        r = diag_set(why, E_PROTO, 0, "the request's key is not ECDSA P-256");
    else if (X509_REQ_verify(request, key) != 1)
        r = diag_set(why, E_PROTO, 0, "the request is not signed with its own key");
    X509_REQ_free(request);
    ERR_clear_error();
    if (r < 0) {
        EVP_PKEY_free(key);
        return r;
    }
    *out = key;
    return 0;
}

/* ---------------------------------------------------------------- issuing */

bool certificate_is_host(const char *text)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1)
        return true;
    return text_is_name(slice_str(text)) && !strchr(text, ':') && !strchr(text, '_');
}

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool set_serial(X509 *c)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40); /* positive, and always as long */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool is_set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(c));
    BN_free(number);
    return is_set;
}

/* For people: the name, or as much of it as X.509 takes. */
static bool set_subject(X509 *c, const char *name)
{
    size_t n = strnlen(name, COMMON_NAME_MAX);
    return X509_NAME_add_entry_by_NID(X509_get_subject_name(c), NID_commonName, MBSTRING_UTF8,
                                      (const unsigned char *)name, (int)n, -1, 0) == 1;
}

static bool set_times(X509 *c, int64_t from_ns, int64_t until_ns)
{
    return ASN1_TIME_set(X509_getm_notBefore(c), (time_t)(from_ns / NS_PER_S)) &&
           ASN1_TIME_set(X509_getm_notAfter(c), (time_t)(until_ns / NS_PER_S));
}

static bool add_extension(X509 *c, X509V3_CTX *context, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_nconf_nid(NULL, context, nid, value);
    bool is_added = e && X509_add_ext(c, e, -1) == 1;
    X509_EXTENSION_free(e);
    return is_added;
}

static const char *usage_of(enum tls_role role)
{
    static const char *const usages[] = {"codeSigning", "clientAuth", "serverAuth,clientAuth", "clientAuth"};
    return usages[role];
}

/* The URI, then hosts. Every part was checked for characters that mean something here. */
static bool add_names(X509 *c, X509V3_CTX *context, const struct certificate_terms *t)
{
    struct strbuf names = {0};
    if (t->role != TLS_NOBODY)
        strbuf_printf(&names, "URI:gridline:%s/%s", identity_role_name(t->role), t->name);
    for (size_t i = 0; i < t->n_hosts; i++)
        strbuf_printf(&names, "%s%s:%s", names.n ? "," : "", is_address(t->hosts[i]) ? "IP" : "DNS",
                      t->hosts[i]);
    bool is_added =
        !strbuf_failed(&names) && (names.n == 0 || add_extension(c, context, NID_subject_alt_name, names.p));
    strbuf_fini(&names);
    return is_added;
}

static bool add_bearer_extensions(X509 *c, X509 *ca, const struct certificate_terms *t)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, ca, c, NULL, NULL, 0);
    return add_extension(c, &context, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(c, &context, NID_key_usage, "critical,digitalSignature") &&
           add_extension(c, &context, NID_ext_key_usage, usage_of(t->role)) &&
           add_extension(c, &context, NID_subject_key_identifier, "hash") &&
           add_extension(c, &context, NID_authority_key_identifier, "keyid:always") &&
           add_names(c, &context, t);
}

static bool add_ca_extensions(X509 *c)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, c, c, NULL, NULL, 0);
    return add_extension(c, &context, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(c, &context, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_extension(c, &context, NID_subject_key_identifier, "hash");
}

int certificate_new_ca(EVP_PKEY *key, const char *name, int64_t now_ns, int64_t life_ns, X509 **out)
{
    X509 *c = X509_new();
    bool is_made = c && X509_set_version(c, X509_VERSION_3) && set_serial(c) && set_subject(c, name) &&
                   X509_set_issuer_name(c, X509_get_subject_name(c)) &&
                   set_times(c, now_ns - CERTIFICATE_SKEW_S * NS_PER_S, now_ns + life_ns) &&
                   X509_set_pubkey(c, key) && add_ca_extensions(c) && X509_sign(c, key, EVP_sha256()) > 0;
    if (!is_made) {
        X509_free(c);
        ERR_clear_error();
        return -ENOMEM;
    }
    *out = c;
    return 0;
}

static bool terms_are_good(const struct certificate_terms *t)
{
    if (!text_is_name(slice_str(t->name)) || t->n_hosts > CERTIFICATE_HOSTS_MAX)
        return false;
    for (size_t i = 0; i < t->n_hosts; i++)
        if (!certificate_is_host(t->hosts[i]))
            return false;
    return true;
}

int certificate_issue(X509 *ca, EVP_PKEY *ca_key, EVP_PKEY *public_key, const struct certificate_terms *t,
                      X509 **out)
{
    if (!terms_are_good(t))
        return -EINVAL;
    int64_t end = certificate_not_after_ns(ca), until = t->now_ns + t->life_ns;
    if (t->now_ns >= end)
        return -EKEYEXPIRED;
    X509 *c = X509_new();
    bool is_made = c && X509_set_version(c, X509_VERSION_3) && set_serial(c) && set_subject(c, t->name) &&
                   X509_set_issuer_name(c, X509_get_subject_name(ca)) &&
                   set_times(c, t->now_ns - CERTIFICATE_SKEW_S * NS_PER_S, until < end ? until : end) &&
                   X509_set_pubkey(c, public_key) && add_bearer_extensions(c, ca, t) &&
                   X509_sign(c, ca_key, EVP_sha256()) > 0;
    if (!is_made) {
        X509_free(c);
        ERR_clear_error();
        return -ENOMEM;
    }
    *out = c;
    return 0;
}

/* ---------------------------------------------------------------- reading */

static struct slice string_of(const ASN1_STRING *s)
{
    int n = ASN1_STRING_length(s);
    return slice_of((const char *)ASN1_STRING_get0_data(s), n > 0 ? (size_t)n : 0);
}

/* 1: it has one URI of ours, in *out. */
static int find_uri(GENERAL_NAMES *names, struct tls_identity *out)
{
    int found = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int kind;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);
        if (kind != GEN_URI)
            continue;
        int r = identity_parse_uri(string_of(value), out);
        if (r != E_NODATA)
            found += r == 0 ? 1 : 2; /* a wrong one spoils it, as a second one does */
    }
    return found;
}

static uint32_t bits_of(enum tls_role role)
{
    return role == TLS_GATEWAY ? XKU_SSL_SERVER | XKU_SSL_CLIENT : XKU_SSL_CLIENT;
}

int certificate_identity(X509 *c, struct tls_identity *out, struct diag *why)
{
    struct tls_identity who = {.not_after_ns = certificate_not_after_ns(c)};
    GENERAL_NAMES *names = X509_get_ext_d2i(c, NID_subject_alt_name, NULL, NULL);
    int found = names ? find_uri(names, &who) : 0;
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    if (found != 1)
        return diag_set(why, E_PROTO, 0,
                        "it names nobody of a site: it lacks the one URI gridline:ROLE/NAME");
    uint32_t usage = X509_get_extended_key_usage(c); /* UINT32_MAX: it says nothing */
    if (usage == UINT32_MAX || usage != bits_of(who.role))
        return diag_set(why, -EKEYREJECTED, 0, "its extended key usage is not %s, as for the role %s",
                        usage_of(who.role), identity_role_name(who.role));
    *out = who;
    return 0;
}

static int64_t ns_of(const ASN1_TIME *t)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(t, &tm) != 1)
        return 0;
    int64_t s = timegm(&tm), ns;
    return __builtin_mul_overflow(s, NS_PER_S, &ns) ? (s < 0 ? INT64_MIN : INT64_MAX) : ns;
}

int64_t certificate_not_before_ns(const X509 *c)
{
    return ns_of(X509_get0_notBefore(c));
}

int64_t certificate_not_after_ns(const X509 *c)
{
    return ns_of(X509_get0_notAfter(c));
}

int64_t certificate_renew_at_ns(const X509 *c)
{
    int64_t from = certificate_not_before_ns(c), until = certificate_not_after_ns(c);
    return until - (until / 3 - from / 3);
}

int certificate_fingerprint(const X509 *c, unsigned char out[CERTIFICATE_FINGERPRINT])
{
    return X509_digest(c, EVP_sha256(), out, NULL) == 1 ? 0 : -ENOMEM;
}

static void add_host(const GENERAL_NAME *name, struct strbuf *out)
{
    char text[INET6_ADDRSTRLEN];
    int kind;
    struct slice value = string_of(GENERAL_NAME_get0_value(name, &kind));
    if (kind == GEN_DNS)
        strbuf_printf(out, "%.*s,", SLICE_ARG(value));
    else if (kind == GEN_IPADD && value.n == 4 && inet_ntop(AF_INET, value.p, text, sizeof text))
        strbuf_printf(out, "%s,", text);
    else if (kind == GEN_IPADD && value.n == 16 && inet_ntop(AF_INET6, value.p, text, sizeof text))
        strbuf_printf(out, "[%s],", text);
}

void certificate_add_hosts(const X509 *c, struct strbuf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(c, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++)
        add_host(sk_GENERAL_NAME_value(names, i), out);
    GENERAL_NAMES_free(names);
}

int certificate_verify(X509 *c, STACK_OF(X509) *between, STACK_OF(X509) *cas, int purpose, unsigned long flags,
                       struct diag *why)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    int r = -ENOMEM;
    if (check && X509_STORE_CTX_init(check, NULL, c, between) == 1 &&
        X509_STORE_CTX_set_purpose(check, purpose) == 1) {
        X509_STORE_CTX_set0_trusted_stack(check, cas);
        X509_STORE_CTX_set_flags(check, flags);
        r = X509_verify_cert(check) == 1
                ? 0
                : diag_set(why, -EKEYREJECTED, 0, "%s",
                           X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    }
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return r;
}

/* ---------------------------------------------------------------- PEM */

/* What was written to bio. */
static int take_bio(BIO *bio, struct strbuf *out)
{
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    if (n > 0)
        strbuf_add(out, p, (size_t)n);
    return n > 0 && !strbuf_failed(out) ? 0 : -ENOMEM;
}

int certificate_add_pem(X509 *c, struct strbuf *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    int r = bio && PEM_write_bio_X509(bio, c) == 1 ? take_bio(bio, out) : -ENOMEM;
    BIO_free(bio);
    return r;
}

int certificate_add_key_pem(EVP_PKEY *key, struct strbuf *out)
{
    BIO *bio = BIO_new(BIO_s_secmem()); /* wiped when freed */
    int r = bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                ? take_bio(bio, out)
                : -ENOMEM;
    BIO_free(bio);
    return r;
}

void certificate_wipe(struct strbuf *text)
{
    if (text->p)
        OPENSSL_cleanse(text->p, text->cap);
    strbuf_fini(text);
}

static bool is_end_of_pem(void)
{
    unsigned long e = ERR_peek_last_error();
    return ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
}

int certificate_read_pem(struct slice text, STACK_OF(X509) * *out, struct diag *why)
{
    BIO *bio = text.n <= INT_MAX ? BIO_new_mem_buf(text.p, (int)text.n) : NULL;
    STACK_OF(X509) *all = sk_X509_new_null();
    X509 *c = NULL;
    int r = bio && all ? 0 : -ENOMEM;
    ERR_clear_error();
    while (r == 0 && (c = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (sk_X509_num(all) >= CHAIN_MAX || sk_X509_push(all, c) == 0) {
            X509_free(c);
            r = diag_set(why, E_LIMIT, 0, "more than %d certificates", CHAIN_MAX);
        }
    }
    if (r == 0 && (!is_end_of_pem() || sk_X509_num(all) == 0))
        r = diag_set(why, E_PROTO, 0, "no certificate in PEM, or a damaged one");
    ERR_clear_error();
    BIO_free(bio);
    if (r < 0) {
        sk_X509_pop_free(all, X509_free);
        return r;
    }
    *out = all;
    return 0;
}

/* OpenSSL would ask on the terminal. */
static int no_pass_phrase(char *to, int n, int is_writing, void *arg)
{
    (void)to, (void)n, (void)is_writing, (void)arg; /* there is none */
    return -1;
}

int certificate_read_key_pem(struct slice text, EVP_PKEY **out, struct diag *why)
{
    BIO *bio = text.n <= INT_MAX ? BIO_new_mem_buf(text.p, (int)text.n) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    if (!key)
        return diag_set(why, E_PROTO, 0, "no private key in PEM, or one with a pass phrase");
    *out = key;
    return 0;
}
