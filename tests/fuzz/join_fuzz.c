/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from those who join: JOIN, CERTIFY, CERTIFIED, requests in DER, chains in PEM, tokens as text, the files of
 * tokens, and URIs of certificates. The first byte says which; the rest is it. What is read must be written again as the
 * same, and what is granted must be within the limits. */
#include "net/join.h"
#include "pki/certificate.h"
#include "pki/token.h"

#include "base/text.h"

static struct strbuf out; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static struct slice again(uint8_t type)
{
    struct frame f;
    check(!strbuf_failed(&out));
    check(frame_read(strbuf_slice(&out), FRAME_PAYLOAD_MAX, &f) == (int64_t)out.n && f.type == type);
    return f.payload;
}

static void fuzz_join(struct slice data)
{
    struct frame_join a, b;
    if (frame_get_join(data, &a) < 0)
        return;
    check(a.token.n > 0 && a.name.n > 0 && a.request.n > 0 && a.request.n <= JOIN_REQUEST_MAX);
    frame_put_join(&out, &a);
    check(frame_get_join(again(FRAME_JOIN), &b) == 0);
    check(slice_eq(a.token, b.token) && slice_eq(a.name, b.name) && slice_eq(a.request, b.request));
}

static void fuzz_certify(struct slice data)
{
    struct frame_certify a, b;
    if (frame_get_certify(data, &a) < 0)
        return;
    frame_put_certify(&out, &a);
    check(frame_get_certify(again(FRAME_CERTIFY), &b) == 0 && slice_eq(a.request, b.request));
}

static void fuzz_certified(struct slice data)
{
    struct frame_certified a, b;
    if (frame_get_certified(data, &a) < 0)
        return;
    check((a.status == 0) == (a.chain.n > 0));
    frame_put_certified(&out, &a);
    check(frame_get_certified(again(FRAME_CERTIFIED), &b) == 0);
    check(a.status == b.status && slice_eq(a.text, b.text) && slice_eq(a.chain, b.chain));
}

static void fuzz_request(struct slice data)
{
    EVP_PKEY *key = NULL;
    struct diag why = {0};
    if (certificate_read_request(data, &key, &why) == 0)
        check(EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && EVP_PKEY_get_bits(key) == 256);
    else
        check(!key && why.message[0]);
    EVP_PKEY_free(key);
}

static void fuzz_chain(struct slice data)
{
    STACK_OF(X509) *chain = NULL;
    struct tls_identity who;
    struct diag why = {0};
    if (certificate_read_pem(data, &chain, &why) < 0)
        return;
    check(sk_X509_num(chain) > 0);
    if (certificate_identity(sk_X509_value(chain, 0), &who, &why) == 0)
        check(who.role >= TLS_AGENT && who.role <= TLS_OPERATOR && text_is_name(slice_str(who.name)));
    certificate_add_hosts(sk_X509_value(chain, 0), &out);
    sk_X509_pop_free(chain, X509_free);
}

static void fuzz_token(struct slice data)
{
    struct token a, b;
    struct diag why = {0};
    if (token_parse(data, &a, &why) < 0)
        return;
    token_print(&a, &out);
    check(token_parse(strbuf_slice(&out), &b, &why) == 0 && memcmp(&a, &b, sizeof a) == 0);
}

static void fuzz_token_file(struct slice data)
{
    struct token_grant grant;
    int64_t expires;
    if (token_parse_file(data, &grant, &expires) == 0)
        check(grant.role != TLS_NOBODY && (strcmp(grant.name, "*") == 0 || text_is_name(slice_str(grant.name))));
}

static void fuzz_uri(struct slice data)
{
    struct tls_identity who;
    if (identity_parse_uri(data, &who) < 0)
        return;
    strbuf_printf(&out, "gridline:%s/%s", identity_role_name(who.role), who.name);
    check(slice_eq(strbuf_slice(&out), data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const by_kind[])(struct slice data) = {fuzz_join,  fuzz_certify, fuzz_certified,  fuzz_request,
                                                         fuzz_chain, fuzz_token,   fuzz_token_file, fuzz_uri};
    if (size == 0)
        return 0;
    strbuf_reset(&out);
    by_kind[data[0] % 8](slice_of((const char *)data + 1, size - 1));
    return 0;
}
