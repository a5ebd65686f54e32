/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/verify.h"

#include <errno.h>
#include <limits.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

/* What OpenSSL says it was, in short. */
static const char *ssl_reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "unknown reason";
}

static int load_ca(const char *ca_file, X509_STORE **out, struct diag *why)
{
    X509_STORE *store = X509_STORE_new();
    if (!store)
        return -ENOMEM;
    if (X509_STORE_load_file(store, ca_file) != 1) {
        X509_STORE_free(store);
        return diag_set(why, -ENOENT, 0, "no certificates can be read from %s: %s", ca_file, ssl_reason());
    }
    /* What it is for is looked at by may_sign: OpenSSL 3.0 knows S/MIME and time stamps, but not code. */
    (void)X509_STORE_set_purpose(store, X509_PURPOSE_ANY); /* a constant of its own: can't fail */
    *out = store;
    return 0;
}

static bool may_sign(X509 *signer)
{
    uint32_t usage = X509_get_extended_key_usage(signer); /* UINT32_MAX: it says nothing */
    return (usage != UINT32_MAX && (usage & XKU_CODE_SIGN)) || X509_check_ca(signer) > 0;
}

static bool may_all_sign(CMS_ContentInfo *cms)
{
    STACK_OF(X509) *signers = CMS_get0_signers(cms);
    int n = signers ? sk_X509_num(signers) : 0;
    bool may = n > 0;
    for (int i = 0; i < n && may; i++)
        may = may_sign(sk_X509_value(signers, i));
    sk_X509_free(signers);
    return may;
}

static int verify(CMS_ContentInfo *cms, X509_STORE *store, BIO *document, struct diag *why)
{
    if (CMS_is_detached(cms) != 1)
        return diag_set(why, -EKEYREJECTED, 0, "the signature is not a detached one");
    if (CMS_verify(cms, NULL, store, document, NULL, CMS_BINARY) != 1)
        return diag_set(why, -EKEYREJECTED, 0, "the signature is not good: %s", ssl_reason());
    if (!may_all_sign(cms))
        return diag_set(
            why, -EKEYREJECTED, 0,
            "the signer's certificate is not for that: it lacks the extended key usage codeSigning");
    return 0;
}

int verify_signature(struct slice document, struct slice signature, const char *ca_file, struct diag *why)
{
    X509_STORE *store = NULL;
    BIO *bio = NULL;
    CMS_ContentInfo *cms = NULL;
    const unsigned char *p = (const unsigned char *)signature.p;
    if (document.n > INT_MAX || signature.n > LONG_MAX)
        return E_LIMIT;
    ERR_clear_error();
    int r = load_ca(ca_file, &store, why);
    if (r == 0 && !(bio = BIO_new_mem_buf(document.p, (int)document.n)))
        r = -ENOMEM;
    if (r == 0 && !(cms = d2i_CMS_ContentInfo(NULL, &p, (long)signature.n)))
        r = diag_set(why, -EKEYREJECTED, 0, "the signature is no CMS in DER");
    if (r == 0)
        r = verify(cms, store, bio, why);
    CMS_ContentInfo_free(cms);
    BIO_free(bio);
    X509_STORE_free(store);
    return r;
}
