/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/remote_config.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/child.h"
#include "sensor/remote.h"
#include "sensor/wire.h"

#include <errno.h>

struct remote_config {
    struct event_base *base; /* borrowed */
    remote_document_fn fn;
    void *arg;
    char *url, *shown_url, *ca;
    int64_t every_ns, retry_ns; /* retry 0: the last question was answered */
    int64_t next_ns;            /* of the next question */
    struct child *child;        /* a question under way; NULL = none */
    struct event *readable;     /* of the child */
    struct strbuf etag;         /* of the document that was given */
    /* What was given last: */
    bool has_given, was_signed;
    uint64_t hash;
    size_t length;
    char why[200]; /* the last failure; "" = none since */
};

static char *copy(struct slice s)
{
    char *p = mem_alloc(s.n + 1);
    if (s.n)
        memcpy(p, s.p, s.n);
    return p;
}

/* scheme://user:password@host/path without user and password. */
static char *without_user(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/?#");
    const char *at = n ? memrchr(host, '@', n) : NULL;
    if (!at)
        return copy(slice_str(url));
    struct strbuf s = {0};
    strbuf_add(&s, url, (size_t)(host - url));
    strbuf_add_str(&s, at + 1);
    char *p = copy(strbuf_slice(&s));
    strbuf_fini(&s);
    return p;
}

int remote_config_create(struct event_base *base, const struct agent_config *config, remote_document_fn fn,
                         void *arg, struct remote_config **out, struct diag *why)
{
    const char *url = config->config_url;
    if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
        return diag_set(why, -EINVAL, 0, "config_url: an address begins with http:// or https://");
    struct remote_config *r = mem_alloc(sizeof *r);
    *r = (struct remote_config){.base = base, .fn = fn, .arg = arg, .every_ns = config->config_every_ns};
    r->url = copy(slice_str(url));
    r->shown_url = without_user(url);
    r->ca = copy(slice_str(config->config_ca ? config->config_ca : ""));
    r->next_ns = clock_mono_ns();
    *out = r;
    return 0;
}

static void end_question(struct remote_config *r)
{
    if (r->readable)
        event_free(r->readable);
    r->readable = NULL;
    child_destroy(r->child);
    r->child = NULL;
}

void remote_config_destroy(struct remote_config *r)
{
    if (!r)
        return;
    end_question(r);
    strbuf_fini(&r->etag);
    mem_free(r->url);
    mem_free(r->shown_url);
    mem_free(r->ca);
    mem_free(r);
}

void remote_config_ask(struct remote_config *r)
{
    strbuf_reset(&r->etag);
    r->has_given = false;
    r->why[0] = '\0';
    r->next_ns = clock_mono_ns();
}

int64_t remote_config_next_ns(const struct remote_config *r)
{
    return r->child ? INT64_MAX : r->next_ns;
}

static void failed(struct remote_config *r, int error, const char *why)
{
    bool is_new = strncmp(r->why, why, sizeof r->why - 1) != 0;
    r->retry_ns = r->retry_ns ? r->retry_ns * 2 : REMOTE_CONFIG_RETRY;
    if (r->retry_ns > r->every_ns)
        r->retry_ns = r->every_ns;
    r->next_ns = clock_mono_ns() + r->retry_ns;
    (void)snprintf(r->why, sizeof r->why, "%s", why); /* a message may be cut */
    const struct remote_document d = {.url = r->shown_url, .error = error, .why = r->why};
    if (is_new)
        r->fn(r->arg, &d);
}

/* The ETag of a document that is not signed though it could be is not kept: its signature may come later,
 * alone. */
static void answered(struct remote_config *r, const struct wire_fetched *f)
{
    r->retry_ns = 0;
    r->next_ns = clock_mono_ns() + r->every_ns;
    r->why[0] = '\0';
    if (f->status == E_NODATA)
        return;
    uint64_t hash = hash_bytes(f->document);
    bool is_same =
        r->has_given && r->was_signed == f->is_signed && r->hash == hash && r->length == f->document.n;
    strbuf_reset(&r->etag);
    if (f->is_signed || !r->ca[0])
        strbuf_add_slice(&r->etag, f->etag);
    if (is_same)
        return;
    r->has_given = true;
    r->was_signed = f->is_signed;
    r->hash = hash;
    r->length = f->document.n;
    const struct remote_document d = {.url = r->shown_url, .text = f->document, .is_signed = f->is_signed};
    r->fn(r->arg, &d);
}

/* The helper has ended: what it said. */
static void take_answer(struct remote_config *r)
{
    struct frame f;
    struct wire_fetched answer;
    struct diag why = {0};
    const struct child_end *end = child_end(r->child);
    struct slice output = child_output(r->child);
    int error = end->reason != CHILD_BY_ITSELF || end->code != 0 ? child_explain(r->child, &why) : 0;
    if (error == 0 && (frame_read(output, FRAME_PAYLOAD_MAX, &f) <= 0 || f.type != WIRE_FETCHED ||
                       wire_get_fetched(f.payload, &answer) < 0))
        error = diag_set(&why, E_PROTO, 0, "gridline-helper sent something that is no answer");
    if (error == 0 && answer.status < 0 && answer.status != E_NODATA)
        error = diag_set(&why, answer.status, 0, "%.*s", SLICE_ARG(answer.why));
    if (error < 0)
        failed(r, error, why.message);
    else
        answered(r, &answer); /* it borrows from the child's output */
    end_question(r);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct remote_config *r = arg;
    (void)fd, (void)what; /* child_pump looks itself */
    if (child_pump(r->child, clock_mono_ns()) == 0)
        take_answer(r);
}

static int send_question(struct remote_config *r)
{
    struct strbuf frame = {0};
    const struct wire_fetch f = {.timeout_ms = REMOTE_CONFIG_TIMEOUT / 1000000 / 2, /* twice: .sig, too */
                                 .url = r->url,
                                 .etag = r->etag.n ? r->etag.p : "",
                                 .ca = r->ca};
    int e = wire_put_fetch(&frame, &f);
    if (e == 0)
        e = child_write(r->child, strbuf_slice(&frame));
    strbuf_fini(&frame);
    return e == -EPIPE ? 0 : e; /* it has ended: how, is seen at its end */
}

static int start_helper(struct remote_config *r, int64_t now_ns, struct diag *why)
{
    struct strbuf path = {0};
    int e = remote_helper_path(&path);
    if (e == 0) {
        const char *argv[] = {path.p, "fetch", NULL};
        const struct child_options o = {.argv = argv,
                                        .has_input = true,
                                        .max_run_ns = REMOTE_CONFIG_TIMEOUT + NS_PER_S,
                                        .max_bytes = FRAME_HEAD + FRAME_PAYLOAD_MAX,
                                        .buffer_max = FRAME_HEAD + FRAME_PAYLOAD_MAX};
        e = child_start(&o, now_ns, &r->child, why);
    }
    strbuf_fini(&path);
    return e;
}

static int begin_question(struct remote_config *r, int64_t now_ns, struct diag *why)
{
    int e = start_helper(r, now_ns, why);
    if (e == 0)
        e = send_question(r);
    if (e < 0)
        return e;
    r->readable = event_new(r->base, child_wait_fd(r->child), EV_READ | EV_PERSIST, on_readable, r);
    return r->readable && event_add(r->readable, NULL) == 0 ? 0 : -ENOMEM;
}

void remote_config_pump(struct remote_config *r, int64_t now_ns)
{
    struct diag why = {0};
    if (r->child || now_ns < r->next_ns)
        return;
    int e = begin_question(r, now_ns, &why);
    if (e < 0) {
        end_question(r);
        failed(r, e, why.message[0] ? why.message : err_text(e));
    }
}
