/* SPDX-License-Identifier: Apache-2.0 */
/* The socket does not block; waiting is poll in steps of STEP_MS, so that the owner can show that it waits
 * and a signal that came just before a poll is seen soon. */
#include "net/ask.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/dial.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { STEP_MS = 250, READ_SIZE = 64 << 10 };
static const int64_t ns_per_ms = 1000000;

struct ask {
    struct ask_options options;
    struct strbuf address;
    struct dial *dial;
    struct strbuf in, out;
    size_t done; /* bytes of in that are read: what was given from them is borrowed until the next call */
    uint64_t request;
    bool is_used; /* something was asked */
    struct ask_clock clock;
};

const char *ask_address(const struct ask *a)
{
    return a->address.p;
}

void ask_clock(const struct ask *a, struct ask_clock *out)
{
    *out = a->clock;
}

/* ---------------------------------------------------------------- waiting */

/* 0: fd is ready for one of events. until_ns is CLOCK_MONOTONIC. */
static int wait_for(const struct ask *a, short events, int64_t until_ns)
{
    for (;;) {
        int64_t left_ms = (until_ns - clock_mono_ns()) / ns_per_ms + 1;
        if (a->options.on_wait && a->options.on_wait(a->options.arg))
            return -EINTR;
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = dial_fd(a->dial), .events = events};
        int n = poll(&p, 1, left_ms < STEP_MS ? (int)left_ms : STEP_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int flush(struct ask *a, int64_t until_ns)
{
    struct slice rest = strbuf_slice(&a->out);
    int r = strbuf_failed(&a->out) ? -ENOMEM : 0;
    while (r == 0 && rest.n) {
        short wants = POLLOUT;
        ssize_t n = dial_send(a->dial, rest, &wants);
        if (n >= 0)
            rest = slice_from(rest, (size_t)n);
        else if (n == -EAGAIN)
            r = wait_for(a, wants, until_ns);
        else if (n != -EINTR)
            r = (int)n;
    }
    strbuf_reset(&a->out);
    return r;
}

/* More bytes into in. -ECONNRESET: the gateway hung up. */
static int receive(struct ask *a, int64_t until_ns)
{
    char *room = strbuf_room(&a->in, READ_SIZE);
    if (!room)
        return -ENOMEM;
    for (;;) {
        short wants = POLLIN;
        ssize_t n = dial_receive(a->dial, room, READ_SIZE, &wants);
        if (n > 0) {
            strbuf_advance(&a->in, (size_t)n);
            return 0;
        }
        if (n == 0)
            return -ECONNRESET;
        int r = n == -EAGAIN ? wait_for(a, wants, until_ns) : n == -EINTR ? 0 : (int)n;
        if (r < 0)
            return r;
    }
}

/* The next frame; it is borrowed from in until the next call. */
static int next_frame(struct ask *a, int64_t until_ns, struct frame *out)
{
    for (;;) {
        if (a->done) {
            strbuf_consume(&a->in, a->done);
            a->done = 0;
        }
        int64_t n = frame_read(strbuf_slice(&a->in), FRAME_PAYLOAD_MAX, out);
        if (n < 0)
            return (int)n;
        if (n > 0) {
            a->done = (size_t)n;
            return 0;
        }
        int r = receive(a, until_ns);
        if (r < 0)
            return r;
    }
}

static int explain(const struct ask *a, int r, struct diag *why)
{
    if (r == -ETIMEDOUT)
        return diag_set(why, r, 0, "%.120s does not answer in time; --timeout gives it longer", a->address.p);
    return dial_explain(a->address.p, r, why);
}

/* ---------------------------------------------------------------- dialling */

static int dial(struct ask *a, int64_t until_ns, struct diag *why)
{
    short wants;
    int r = dial_open(a->address.p, a->options.identity, &a->dial, why);
    while (r == 0 && (r = dial_step(a->dial, &wants, why)) == -EAGAIN) {
        r = wait_for(a, wants, until_ns);
        if (r < 0)
            return explain(a, r, why);
    }
    return r;
}

/* ---------------------------------------------------------------- frames */

static void note_clock(struct ask *a, const struct frame_welcome *w, int64_t t3_ns)
{
    int64_t rtt = (t3_ns - w->t0_ns) - (w->t2_ns - w->t1_ns);
    a->clock = (struct ask_clock){
        .rtt_ns = rtt, .offset_ns = w->t2_ns + rtt / 2 - t3_ns, .bound_ns = rtt > 0 ? rtt / 2 : 0};
}

static int greet(struct ask *a, int64_t until_ns, struct diag *why)
{
    struct frame f;
    struct frame_welcome w;
    int r = dial_hello(&a->out, a->options.prog ? a->options.prog : "gridline");
    if (r < 0)
        return explain(a, r, why);
    r = flush(a, until_ns);
    if (r == 0 || r == -EPIPE || r == -ECONNRESET) { /* what it said before it hung up can be read */
        int got = next_frame(a, until_ns, &f);
        r = got == 0 || r == 0 ? got : r;
    }
    if (r < 0)
        return explain(a, r, why);
    if (f.type == FRAME_BYE)
        return dial_explain_bye(a->address.p, f.payload, why);
    if (f.type != FRAME_WELCOME || frame_get_welcome(f.payload, &w) < 0)
        return explain(a, E_PROTO, why);
    note_clock(a, &w, clock_utc_ns());
    return 0;
}

static int64_t limit(const struct ask *a, int64_t wanted_ns)
{
    int64_t ns = wanted_ns ? wanted_ns : a->options.timeout_ns ? a->options.timeout_ns : 10 * NS_PER_S;
    return clock_mono_ns() + ns;
}

int ask_open(const struct ask_options *o, struct ask **out, struct diag *why)
{
    struct ask *a = mem_try_alloc(sizeof *a);
    if (!a)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    a->options = *o;
    if (o->gateway && o->gateway[0])
        strbuf_add_str(&a->address, o->gateway);
    else
        dial_default_gateway(&a->address);
    int64_t until_ns = limit(a, 0);
    int r = strbuf_failed(&a->address) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM))
                                       : dial(a, until_ns, why);
    if (r == 0)
        r = greet(a, until_ns, why);
    if (r < 0) {
        ask_close(a);
        return r;
    }
    *out = a;
    return 0;
}

void ask_close(struct ask *a)
{
    if (!a)
        return;
    if (a->is_used) { /* it was of use: say goodbye, without waiting for room */
        short wants;
        strbuf_reset(&a->out);
        frame_put_bye(&a->out, BYE_DONE, (struct slice){"", 0});
        if (!strbuf_failed(&a->out))
            (void)dial_send(a->dial, strbuf_slice(&a->out), &wants); /* closing says the same */
    }
    dial_close(a->dial);
    strbuf_fini(&a->address);
    strbuf_fini(&a->in);
    strbuf_fini(&a->out);
    mem_free(a);
}

/* Answered then. */
static bool is_ping(struct ask *a, const struct frame *f)
{
    struct frame_ping ping;
    int64_t now = clock_utc_ns();
    if (f->type != FRAME_PING || frame_get_ping(f->payload, &ping) < 0)
        return false;
    frame_put_pong(&a->out, &(struct frame_pong){ping.token, ping.t0_ns, now, now});
    return true;
}

/* One frame while a question is open: 1 when the last answer is in *end. */
static int take_frame(struct ask *a, const struct frame *f, ask_row row, void *arg, struct ask_end *end,
                      struct diag *why)
{
    struct frame_answer answer;
    if (f->type == FRAME_BYE)
        return dial_explain_bye(a->address.p, f->payload, why);
    if (is_ping(a, f) || f->type != FRAME_ANSWER)
        return 0; /* other frames are not for a question */
    if (frame_get_answer(f->payload, &answer) < 0)
        return explain(a, E_PROTO, why);
    if (answer.request != a->request)
        return 0; /* of a question before */
    if (answer.status == CONTROL_MORE)
        return row ? row(arg, &answer) : 0;
    *end = (struct ask_end){answer.status, answer.text, answer.args};
    return 1;
}

int ask_run(struct ask *a, const struct ask_question *q, ask_row row, void *arg, struct ask_end *end,
            struct diag *why)
{
    a->request++;
    a->is_used = true;
    frame_put_control(&a->out, 0, &(struct frame_control){a->request, q->verb, q->args});
    int r = 0;
    while (r == 0) {
        struct frame f;
        int64_t until_ns = limit(a, q->silence_ns);
        r = flush(a, until_ns);
        if (r == 0)
            r = next_frame(a, until_ns, &f);
        if (r < 0)
            return explain(a, r, why);
        r = take_frame(a, &f, row, arg, end, why);
    }
    return r < 0 ? r : 0;
}

/* ---------------------------------------------------------------- other frames */

struct strbuf *ask_out(struct ask *a)
{
    a->is_used = true;
    return &a->out;
}

int ask_frame(struct ask *a, int64_t until_ns, struct frame *out, struct diag *why)
{
    int r = 0;
    do {
        if (a->out.n || strbuf_failed(&a->out))
            r = flush(a, limit(a, 0)); /* all of it, or the connection is of no more use */
        if (r < 0)
            return explain(a, r, why);
        r = next_frame(a, until_ns, out);
    } while (r == 0 && is_ping(a, out));
    if (r == -ETIMEDOUT)
        return -EAGAIN;
    if (r == 0 && out->type == FRAME_BYE)
        return dial_explain_bye(a->address.p, out->payload, why);
    return r == -EINTR ? r : r < 0 ? explain(a, r, why) : 0;
}
