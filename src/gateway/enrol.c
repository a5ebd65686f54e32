/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/enrol.h"

#include "base/mem.h"
#include "net/control.h"
#include "pki/site.h"

#include <errno.h>

struct enrol {
    char *dir;
    char *tokens; /* its folder */
    struct site_ca ca;
    int64_t agent_life_ns;
    struct strbuf chain; /* of the last answer, as the next */
    struct diag why;
};

static char *join_path(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(n);
    (void)snprintf(path, n, "%s%s%s", dir, name[0] ? "/" : "", name);
    return path;
}

int enrol_create(const char *dir, struct enrol **out, struct diag *why)
{
    struct enrol *e = mem_alloc(sizeof *e);
    e->dir = join_path(dir, "");
    e->tokens = join_path(dir, "tokens");
    e->agent_life_ns = SITE_AGENT_DAYS * SITE_DAY_NS;
    int r = site_ca_read(dir, &e->ca, why);
    if (r < 0) {
        enrol_destroy(e);
        return r;
    }
    *out = e;
    return 0;
}

void enrol_destroy(struct enrol *e)
{
    if (!e)
        return;
    site_ca_fini(&e->ca);
    strbuf_fini(&e->chain);
    mem_free(e->dir);
    mem_free(e->tokens);
    mem_free(e);
}

void enrol_set_life(struct enrol *e, int64_t agent_ns)
{
    e->agent_life_ns = agent_ns ? agent_ns : SITE_AGENT_DAYS * SITE_DAY_NS;
}

static int64_t life_of(const struct enrol *e, enum tls_role role)
{
    return role == TLS_AGENT     ? e->agent_life_ns
           : role == TLS_GATEWAY ? SITE_JOINED_DAYS * SITE_DAY_NS
                                 : SITE_OPERATOR_DAYS * SITE_DAY_NS;
}

/* The answer that e->why tells. What is not the asker's fault is 1, and it may try again. */
static void refuse(const struct enrol *e, int r, struct frame_certified *out)
{
    bool is_denied = r == -EACCES || r == -ENOENT || r == -EKEYEXPIRED || r == E_PROTO || r == -EINVAL;
    *out = (struct frame_certified){.status = is_denied ? CONTROL_NOT_ALLOWED : CONTROL_FAILED,
                                    .text = slice_str(e->why.message),
                                    .chain = SLICE_LIT("")};
}

static void answer(struct enrol *e, int r, struct frame_certified *out)
{
    if (r < 0)
        refuse(e, r, out);
    else
        *out = (struct frame_certified){.text = SLICE_LIT(""), .chain = strbuf_slice(&e->chain)};
}

static int issue(struct enrol *e, EVP_PKEY *key, enum tls_role role, const char *name, int64_t now_ns)
{
    const struct certificate_terms terms = {
        .role = role, .name = name, .now_ns = now_ns, .life_ns = life_of(e, role)};
    strbuf_reset(&e->chain);
    return site_ca_issue(&e->ca, key, &terms, &e->chain, &e->why);
}

static int check_key(struct enrol *e)
{
    if (e->ca.key)
        return 0;
    return diag_set(&e->why, -EACCES, 0,
                    "this gateway does not sign certificates: ask the one where `gridline init` was run");
}

void enrol_join(struct enrol *e, const struct frame_join *join, int64_t now_ns, struct frame_certified *out)
{
    EVP_PKEY *key = NULL;
    struct token_grant grant;
    int r = check_key(e);
    if (r == 0)
        r = certificate_read_request(join->request, &key, &e->why);
    if (r == 0)
        r = token_take(e->tokens, join->token, join->name, now_ns, &grant, &e->why);
    if (r == 0)
        r = issue(e, key, grant.role, grant.name, now_ns);
    EVP_PKEY_free(key);
    answer(e, r, out);
}

static enum tls_role role_of(enum access_kind kind)
{
    return kind == ACCESS_AGENT      ? TLS_AGENT
           : kind == ACCESS_GATEWAY  ? TLS_GATEWAY
           : kind == ACCESS_OPERATOR ? TLS_OPERATOR
                                     : TLS_NOBODY;
}

static int check_who(struct enrol *e, const struct access_identity *who, int64_t now_ns)
{
    if (role_of(who->kind) == TLS_NOBODY)
        return diag_set(&e->why, -EACCES, 0, "only a certificate can be renewed: join with a token");
    if (now_ns >= who->not_after_ns)
        return diag_set(&e->why, -EACCES, 0,
                        "a certificate that has expired can't be renewed: join with a new token");
    return check_key(e);
}

void enrol_certify(struct enrol *e, const struct access_identity *who, const struct frame_certify *ask,
                   int64_t now_ns, struct frame_certified *out)
{
    EVP_PKEY *key = NULL;
    int r = check_who(e, who, now_ns);
    if (r == 0)
        r = certificate_read_request(ask->request, &key, &e->why);
    if (r == 0)
        r = issue(e, key, role_of(who->kind), who->name, now_ns);
    EVP_PKEY_free(key);
    answer(e, r, out);
}

int enrol_renew_own(struct enrol *e, int64_t now_ns, struct diag *why)
{
    return e->ca.key ? site_ca_renew(&e->ca, e->dir, now_ns, why) : 0;
}
