/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/runner.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/strays.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

/* From the deadline until it is stopped: it ends by itself before (act_main.c). */
#define LATE_NS (CHILD_GRACE + CHILD_GIVE_UP + NS_PER_S)

enum { ENV_MAX = 4, ENV_TEXT = 1024 };

struct runner {
    struct child *child;
    struct event *readable;
    void (*fn)(void *arg, const struct runner_end *e);
    void *arg;
};

/* Nothing of the guard's own environment but where its home is and what time zone people live in. */
struct environment {
    char texts[ENV_MAX][ENV_TEXT];
    const char *v[ENV_MAX + 1];
    size_t n;
};

static void add_variable(struct environment *e, const char *name, const char *value)
{
    if (!value || snprintf(e->texts[e->n], ENV_TEXT, "%s=%s", name, value) >= ENV_TEXT)
        return;
    e->v[e->n] = e->texts[e->n];
    e->n++;
}

static void make_environment(struct environment *e)
{
    e->n = 0;
    add_variable(e, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    add_variable(e, "LANG", "C.UTF-8");
    add_variable(e, "HOME", getenv("HOME"));
    add_variable(e, "TZ", getenv("TZ"));
    e->v[e->n] = NULL;
}

static void end(struct runner *r, const struct child_end *e)
{
    struct runner_end end = {
        .exit_code = -1, .ran_ns = e->ran_ns, .text = SLICE_LIT(""), .output = SLICE_LIT("")};
    struct act_reply reply;
    struct diag why = {0};
    int code = act_reply_get(child_output(r->child), &reply);
    if (code == 0 && e->reason == CHILD_BY_ITSELF && e->code >= 0) {
        end.is_known = true;
        end.code = reply.code;
        end.exit_code = reply.exit_code;
        end.text = reply.text;
        end.output = reply.output;
    } else if (e->reason != CHILD_BY_ITSELF || e->code != 0) {
        end.code = child_explain(r->child, &why);
        end.text = slice_str(why.message);
    } else {
        end.code = code;
        end.text = SLICE_LIT("gridline-act ended without saying how; is it of this version?");
    }
    r->fn(r->arg, &end); /* r may be gone now */
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct runner *r = arg;
    (void)fd, (void)what; /* the child knows */
    if (child_pump(r->child, clock_mono_ns()) != 0)
        return;
    (void)event_del(r->readable); /* it stays readable */
    /* gridline-act ends what its programs leave. Killed, it could not: they have its mark. */
    if (child_end(r->child)->signal)
        (void)strays_of_the_dead();
    end(r, child_end(r->child));
}

int runner_start(struct event_base *base, const char *act, const struct act_request *request,
                 void (*fn)(void *arg, const struct runner_end *e), void *arg, struct runner **out,
                 struct diag *why)
{
    const char *const argv[] = {act, NULL};
    struct environment env;
    struct strbuf bytes = {0};
    make_environment(&env);
    const struct child_options options = {.argv = argv,
                                          .env = env.v,
                                          .env_is_all = true,
                                          .has_input = true,
                                          .max_run_ns = request->left_ns + LATE_NS,
                                          .max_bytes = 4 * ACT_REPLY_MAX,
                                          .buffer_max = 4 * ACT_REPLY_MAX};
    struct runner *r = mem_alloc(sizeof *r);
    r->fn = fn;
    r->arg = arg;
    int code = act_request_put(&bytes, request);
    if (code < 0)
        (void)diag_set(why, code, 0, "the request does not fit: %s", err_text(code));
    else
        code = child_start(&options, clock_mono_ns(), &r->child, why);
    if (code == 0) {
        r->readable = event_new(base, child_wait_fd(r->child), EV_READ | EV_PERSIST, on_readable, r);
        if (!r->readable || event_add(r->readable, NULL) < 0)
            code = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    }
    if (code == 0) {
        /* Before its input ends it does nothing; of half a request neither: it says so. */
        (void)child_write(r->child, strbuf_slice(&bytes));
        child_end_input(r->child);
    }
    strbuf_fini(&bytes);
    if (code < 0) {
        runner_destroy(r);
        return code;
    }
    *out = r;
    return 0;
}

void runner_destroy(struct runner *r)
{
    if (!r)
        return;
    if (r->readable)
        event_free(r->readable);
    child_destroy(r->child);
    mem_free(r);
}
