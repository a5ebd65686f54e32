/* SPDX-License-Identifier: Apache-2.0 */
/* Enrolment: tokens into certificates, once; and joining as a host does it, in a process of its own, against a server
 * of the gateway's pieces here: TLS, streams, enrol. */
#include "unit/test.h"

#include "gateway/enrol.h"
#include "net/control.h"
#include "net/joiner.h"
#include "net/listen.h"
#include "net/stream.h"
#include "net/tls.h"
#include "unit/net/tls_site.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PATIENCE_S = 20 };
static const int64_t day_ns = 24 * 3600 * NS_PER_S;

/* ---------------------------------------------------------------- enrol alone */

struct asker {
    EVP_PKEY *key;
    struct strbuf request;
    struct token token;
};

static void make_token(const struct tls_site *s, struct asker *a, enum tls_role role, const char *name, int64_t now)
{
    struct strbuf text = {0};
    struct diag why = {0};
    const struct site_token o = {.dir = s->dir, .role = role, .name = name, .ttl_ns = day_ns};
    assert_int_equal(site_token(&o, now, &text, &why), 0);
    assert_int_equal(token_parse(strbuf_slice(&text), &a->token, &why), 0);
    strbuf_fini(&text);
}

static void asker_open(struct asker *a)
{
    *a = (struct asker){0};
    assert_int_equal(certificate_new_key(&a->key), 0);
    assert_int_equal(certificate_new_request(a->key, &a->request), 0);
}

static void asker_close(struct asker *a)
{
    EVP_PKEY_free(a->key);
    strbuf_fini(&a->request);
}

static struct frame_join join_of(const struct asker *a, const char *name)
{
    return (struct frame_join){.token = slice_of((const char *)a->token.secret, sizeof a->token.secret),
                               .name = slice_str(name),
                               .request = strbuf_slice(&a->request)};
}

/* The certificate of an answer is for this key, role, name and time. */
static void check_chain(const struct tls_site *s, const struct frame_certified *k, const struct asker *a,
                        enum tls_role role, const char *name, int64_t until)
{
    STACK_OF(X509) *chain = NULL;
    struct diag why = {0};
    struct tls_identity who;
    assert_int_equal(k->status, 0);
    assert_int_equal(certificate_read_pem(k->chain, &chain, &why), 0);
    assert_int_equal(sk_X509_num(chain), 2);
    assert_int_equal(X509_cmp(sk_X509_value(chain, 1), s->ca.certificate), 0);
    assert_int_equal(certificate_identity(sk_X509_value(chain, 0), &who, &why), 0);
    assert_int_equal(X509_check_private_key(sk_X509_value(chain, 0), a->key), 1);
    assert_int_equal(who.role, role);
    assert_string_equal(who.name, name);
    assert_true(who.not_after_ns / NS_PER_S == until / NS_PER_S);
    sk_X509_pop_free(chain, X509_free);
}

static void says(const struct frame_certified *k, uint16_t status, const char *part)
{
    assert_int_equal(k->status, status);
    assert_int_equal(k->chain.n, 0);
    if (!memmem(k->text.p, k->text.n, part, strlen(part)))
        fail_msg("\"%.*s\" does not say \"%s\"", SLICE_ARG(k->text), part);
}

static void a_token_becomes_a_certificate_once(void **state)
{
    (void)state;
    struct tls_site s;
    struct enrol *e = NULL;
    struct diag why = {0};
    struct asker a;
    struct frame_certified k;
    int64_t now = clock_utc_ns();
    tls_site_open(&s, "gw");
    assert_int_equal(enrol_create(s.dir, &e, &why), 0);
    asker_open(&a);
    make_token(&s, &a, TLS_AGENT, "node1", now);
    struct frame_join j = join_of(&a, "node1"), broken = j, guess = j;
    broken.request = SLICE_LIT("garbage");
    enrol_join(e, &broken, now, &k); /* does not use the token up */
    says(&k, CONTROL_NOT_ALLOWED, "not PKCS#10");
    guess.token = SLICE_LIT("12345678901234567890");
    enrol_join(e, &guess, now, &k);
    says(&k, CONTROL_NOT_ALLOWED, "no such token");
    j.name = SLICE_LIT("node2");
    enrol_join(e, &j, now, &k);
    says(&k, CONTROL_NOT_ALLOWED, "for agent node1, not for node2");
    j.name = SLICE_LIT("node1");
    enrol_join(e, &j, now, &k);
    check_chain(&s, &k, &a, TLS_AGENT, "node1", now + 7 * day_ns);
    enrol_join(e, &j, now, &k);
    says(&k, CONTROL_NOT_ALLOWED, "used already");

    make_token(&s, &a, TLS_AGENT, "node1", now);
    j = join_of(&a, "node1");
    enrol_join(e, &j, now + day_ns, &k);
    says(&k, CONTROL_NOT_ALLOWED, "the token expired at");
    enrol_set_life(e, day_ns);
    make_token(&s, &a, TLS_AGENT, "node1", now);
    j = join_of(&a, "node1");
    enrol_join(e, &j, now, &k);
    check_chain(&s, &k, &a, TLS_AGENT, "node1", now + day_ns);
    make_token(&s, &a, TLS_OPERATOR, "ann", now);
    j = join_of(&a, "ann");
    enrol_join(e, &j, now, &k);
    check_chain(&s, &k, &a, TLS_OPERATOR, "ann", now + 365 * day_ns);
    asker_close(&a);
    enrol_destroy(e);
    tls_site_close(&s);
}

static void a_certificate_renews_itself_and_no_other(void **state)
{
    (void)state;
    struct tls_site s;
    struct enrol *e = NULL;
    struct diag why = {0};
    struct asker a;
    struct frame_certified k;
    int64_t now = clock_utc_ns();
    tls_site_open(&s, "gw");
    assert_int_equal(enrol_create(s.dir, &e, &why), 0);
    asker_open(&a);
    const struct frame_certify ask = {strbuf_slice(&a.request)};
    struct access_identity who = {.kind = ACCESS_AGENT, .uid = UINT32_MAX, .name = "node1", .not_after_ns = now + 1};
    enrol_certify(e, &who, &ask, now, &k);
    check_chain(&s, &k, &a, TLS_AGENT, "node1", now + 7 * day_ns);
    enrol_certify(e, &who, &ask, now + 1, &k);
    says(&k, CONTROL_NOT_ALLOWED, "has expired can't be renewed");
    enrol_certify(e, &who, &(struct frame_certify){SLICE_LIT("x")}, now, &k);
    says(&k, CONTROL_NOT_ALLOWED, "not PKCS#10");
    for (enum access_kind kind = ACCESS_NOBODY; kind < ACCESS_AGENT; kind++) {
        who.kind = kind;
        enrol_certify(e, &who, &ask, now, &k);
        says(&k, CONTROL_NOT_ALLOWED, "only a certificate can be renewed");
    }
    asker_close(&a);
    enrol_destroy(e);
    tls_site_close(&s);
}

static void without_the_cas_key_nothing_is_signed(void **state)
{
    (void)state;
    struct tls_site s;
    struct enrol *e = NULL;
    struct diag why = {0};
    struct asker a;
    struct frame_certified k;
    int64_t now = clock_utc_ns();
    char path[128];
    tls_site_open(&s, "gw");
    asker_open(&a);
    make_token(&s, &a, TLS_AGENT, "node1", now);
    (void)snprintf(path, sizeof path, "%s/ca/key.pem", s.dir);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(enrol_create(s.dir, &e, &why), -EACCES); /* a key that others can read is not used */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(enrol_create(s.dir, &e, &why), 0);
    struct frame_join j = join_of(&a, "node1");
    enrol_join(e, &j, now, &k);
    says(&k, CONTROL_NOT_ALLOWED, "where `gridline init` was run");
    assert_int_equal(enrol_renew_own(e, now + 80 * day_ns, &why), 0);
    enrol_destroy(e);
    asker_close(&a);
    tls_site_close(&s);
}

/* ---------------------------------------------------------------- joining, end to end */

struct server {
    struct event_base *base;
    struct stream_loop *loop;
    struct listener *listener;
    struct tls_server *tls;
    struct enrol *enrol;
    struct stream *stream; /* one at a time */
    struct tls_identity who;
    unsigned joins;
};

static size_t on_data(void *arg, struct slice data)
{
    struct server *s = arg;
    struct frame f;
    struct frame_join j;
    struct frame_certified k;
    struct strbuf out = {0};
    if (data.n < FRAME_GREETING || frame_read(slice_from(data, FRAME_GREETING), FRAME_PAYLOAD_MAX, &f) <= 0)
        return 0;
    assert_int_equal(s->who.role, TLS_NOBODY);
    assert_int_equal(f.type, FRAME_JOIN);
    assert_int_equal(frame_get_join(f.payload, &j), 0);
    s->joins++;
    enrol_join(s->enrol, &j, clock_utc_ns(), &k);
    frame_put_certified(&out, &k);
    assert_int_equal(stream_send(s->stream, strbuf_slice(&out)), 0);
    strbuf_fini(&out);
    return data.n;
}

static void on_ready(void *arg)
{
    struct server *s = arg;
    assert_int_equal(tls_identify(stream_transport(s->stream), &s->who), 0);
}

static void on_end(void *arg, int error, const char *why)
{
    (void)error, (void)why;
    struct server *s = arg;
    stream_destroy(s->stream);
    s->stream = NULL;
}

static const struct stream_ops callbacks = {.on_data = on_data, .on_ready = on_ready, .on_end = on_end};

static void on_accept(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    (void)peer;
    struct server *s = arg;
    stream_destroy(s->stream);
    assert_int_equal(stream_create(s->loop, fd, 1 << 20, &callbacks, s, &s->stream), 0);
    stream_set_transport(s->stream, &tls_server_transport, s->tls);
}

static void server_open(struct server *s, const struct tls_site *site)
{
    struct diag why = {0};
    *s = (struct server){.base = event_base_new()};
    s->loop = stream_loop_create(s->base);
    assert_int_equal(tls_server_create(site->dir, &s->tls, &why), 0);
    assert_int_equal(enrol_create(site->dir, &s->enrol, &why), 0);
    assert_int_equal(listener_create(s->base, SLICE_LIT("tls://127.0.0.1:0"), 0, on_accept, s, &s->listener, &why), 0);
}

static void server_close(struct server *s)
{
    stream_destroy(s->stream);
    listener_destroy(s->listener);
    tls_server_destroy(s->tls);
    enrol_destroy(s->enrol);
    stream_loop_destroy(s->loop);
    event_base_free(s->base);
}

/* What the child tells. */
struct said {
    int r;
    struct diag why;
};

/* Joins in a child while the server runs here; what it said is in *why. */
static int join(struct server *s, const struct secure_join *o, struct diag *why)
{
    struct said said = {0};
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tls_identity who;
        said.r = joiner_join(o, &who, &said.why);
        _exit(write(pipes[1], &said, sizeof said) != (ssize_t)sizeof said);
    }
    (void)close(pipes[1]);
    int64_t until = clock_mono_ns() + PATIENCE_S * NS_PER_S;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        static const struct timeval moment = {0, 2000};
        (void)event_base_loopexit(s->base, &moment);
        (void)event_base_loop(s->base, EVLOOP_ONCE);
        assert_true(clock_mono_ns() < until);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(pipes[0], &said, sizeof said), sizeof said);
    (void)close(pipes[0]);
    *why = said.why;
    return said.r;
}

static void expect(int got, int wanted, const struct diag *why, const char *part)
{
    if (got != wanted || (part && !strstr(why->message, part)))
        fail_msg("%d (\"%s\"), not %d (\"%s\")", got, why->message, wanted, part ? part : "");
}

static void a_host_joins(void **state)
{
    (void)state;
    struct tls_site site, other;
    struct server s;
    struct strbuf text = {0};
    struct folder f = {0};
    struct diag why = {0};
    char dir[128], foreign[1024];
    tls_site_open(&site, "gw");
    tls_site_open(&other, "gw");
    server_open(&s, &site);
    const char *address = listener_address(s.listener);
    struct site_token t = {.dir = other.dir, .role = TLS_AGENT, .name = "node1", .addresses = address, .ttl_ns = day_ns};
    assert_int_equal(site_token(&t, clock_utc_ns(), &text, &why), 0);
    (void)snprintf(foreign, sizeof foreign, "%s", text.p);
    strbuf_reset(&text);
    t.dir = site.dir;
    assert_int_equal(site_token(&t, clock_utc_ns(), &text, &why), 0);
    (void)snprintf(dir, sizeof dir, "%s/joined/identity", site.root);
    struct secure_join o = {.token = foreign, .dir = dir, .timeout_ms = PATIENCE_S * 1000};

    expect(join(&s, &o, &why), -EKEYREJECTED, &why, "not of the token's site");
    assert_int_equal(s.joins, 0); /* it never heard the secret */
    o.token = "gl1_nonsense";
    expect(join(&s, &o, &why), E_PROTO, &why, "not a whole token");
    o.token = text.p;
    o.gateway = "tls://127.0.0.1:1";
    expect(join(&s, &o, &why), -ECONNREFUSED, &why, "can't reach the gateway at 127.0.0.1:1");
    o.gateway = "tls://no:such:address";
    expect(join(&s, &o, &why), -EINVAL, &why, "not an address");
    o.gateway = NULL;
    expect(join(&s, &o, &why), 0, &why, NULL);
    assert_int_equal(s.joins, 1);
    assert_int_equal(folder_read(dir, &f, &why), 0);
    assert_int_equal(f.who.role, TLS_AGENT);
    assert_string_equal(f.who.name, "node1");
    assert_int_equal(folder_check_time(&f, clock_utc_ns(), &why), 0);
    folder_fini(&f);
    expect(join(&s, &o, &why), -EEXIST, &why, "which is valid");
    (void)snprintf(dir, sizeof dir, "%s/again", site.root);
    expect(join(&s, &o, &why), -EACCES, &why, "used already");
    assert_false(folder_is_used(dir));
    strbuf_fini(&text);
    server_close(&s);
    tls_site_close(&site);
    tls_site_close(&other);
}

static void an_expired_identity_is_replaced(void **state)
{
    (void)state;
    struct tls_site site;
    struct server s;
    struct strbuf text = {0};
    struct folder f = {0};
    struct diag why = {0};
    tls_site_open(&site, "gw");
    server_open(&s, &site);
    const char *dir =
        tls_site_identity(&site, "old", TLS_AGENT, "node1", clock_utc_ns() - 9 * day_ns, 7 * day_ns);
    const struct site_token t = {.dir = site.dir,
                                 .role = TLS_AGENT,
                                 .addresses = listener_address(s.listener),
                                 .ttl_ns = day_ns}; /* for any host */
    assert_int_equal(site_token(&t, clock_utc_ns(), &text, &why), 0);
    struct secure_join o = {.token = text.p, .dir = dir, .timeout_ms = PATIENCE_S * 1000};
    expect(join(&s, &o, &why), -EINVAL, &why, "give a name");
    o.name = "node1";
    expect(join(&s, &o, &why), 0, &why, NULL);
    assert_int_equal(folder_read(dir, &f, &why), 0);
    assert_int_equal(folder_check_time(&f, clock_utc_ns(), &why), 0);
    folder_fini(&f);
    strbuf_fini(&text);
    server_close(&s);
    tls_site_close(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_becomes_a_certificate_once),
        cmocka_unit_test(a_certificate_renews_itself_and_no_other),
        cmocka_unit_test(without_the_cas_key_nothing_is_signed),
        cmocka_unit_test(a_host_joins),
        cmocka_unit_test(an_expired_identity_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
