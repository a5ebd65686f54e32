/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are not acknowledged stand in a list in the order in which they were sent; a break sends all of
 * them again. The gateway knows what it has and acknowledges that, too. */
#include "cmd/deliver.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "event/block.h"
#include "event/drop.h"
#include "net/dial.h"

#include <errno.h>
#include <poll.h>

enum {
    STEP_MS = 250,
    READ_SIZE = 64 << 10,
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 2000,
    RETRY_MAX_MS = 60000,
    PATIENCE_MS = 30000
};
static const int64_t ns_per_ms = 1000000;

struct item {
    struct item *next;
    struct frame_origin origin;
    uint64_t first, last;
    uint32_t count;
    uint32_t n_refused, refused[DELIVER_REASONS]; /* of count, for good */
    size_t n;
    char block[];
};

struct deliver {
    struct deliver_options options;
    struct strbuf address;
    struct dial *dial; /* NULL: not connected */
    struct strbuf in, out;
    struct item *head, **tail; /* what is on the way */
    uint64_t on_the_way;       /* bytes of blocks; 0 while it is being dialled */
    uint32_t window;
    bool has_first; /* `first` is filled */
    struct frame_welcome first;
    int64_t alive_ns;  /* monotonic: when it was last of use, or asked for something */
    int64_t pause_ms;  /* before it is dialled again */
    uint32_t retry_ms; /* REFUSE said so; 0 = it did not */
    struct deliver_counts counts;
    uint64_t own_sent, own_passed, own_refused[DELIVER_REASONS]; /* of the options' origin, for COUNTS */
};

/* ---------------------------------------------------------------- waiting */

static int64_t patience_ns(const struct deliver *d)
{
    return d->options.patience_ns ? d->options.patience_ns : PATIENCE_MS * ns_per_ms;
}

static bool is_stopped(const struct deliver *d)
{
    return d->options.on_wait && d->options.on_wait(d->options.arg);
}

/* 0: the descriptor is ready. */
static int wait_for(struct deliver *d, short events)
{
    for (;;) {
        int64_t left_ms = (d->alive_ns + patience_ns(d) - clock_mono_ns()) / ns_per_ms + 1;
        if (is_stopped(d))
            return -EINTR;
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = dial_fd(d->dial), .events = events};
        int n = poll(&p, 1, left_ms < STEP_MS ? (int)left_ms : STEP_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int pause_for(struct deliver *d, int64_t ms)
{
    int64_t until = clock_mono_ns() + ms * ns_per_ms;
    for (;;) {
        int64_t left_ms = (until - clock_mono_ns()) / ns_per_ms;
        if (is_stopped(d))
            return -EINTR;
        if (left_ms <= 0)
            return 0;
        (void)poll(NULL, 0, left_ms < STEP_MS ? (int)left_ms : STEP_MS); /* the time is looked at again */
    }
}

/* ---------------------------------------------------------------- bytes */

/* As much of the output as goes without waiting. */
static int send_some(struct deliver *d, short *wants)
{
    int r = strbuf_failed(&d->out) ? -ENOMEM : 0;
    while (r == 0 && d->out.n) {
        *wants = POLLOUT;
        ssize_t n = dial_send(d->dial, strbuf_slice(&d->out), wants);
        if (n >= 0)
            strbuf_consume(&d->out, (size_t)n);
        else if (n != -EINTR)
            r = (int)n;
    }
    return r;
}

static int receive_some(struct deliver *d, short *wants)
{
    char *room = strbuf_room(&d->in, READ_SIZE);
    if (!room)
        return -ENOMEM;
    *wants = POLLIN;
    ssize_t n = dial_receive(d->dial, room, READ_SIZE, wants);
    if (n > 0)
        strbuf_advance(&d->in, (size_t)n);
    return n > 0 || n == -EINTR ? 0 : n == 0 ? -ECONNRESET : (int)n;
}

/* ---------------------------------------------------------------- what comes back */

static struct item *take_head(struct deliver *d)
{
    struct item *i = d->head;
    d->head = i->next;
    if (!d->head)
        d->tail = &d->head;
    return i;
}

static bool is_own(const struct deliver *d, const struct frame_origin *o)
{
    return frame_same_origin(&d->options.origin, o);
}

/* The block at *at is done with: what was not refused has passed. */
static void settle(struct deliver *d, struct item **at)
{
    struct item *i = *at;
    bool is_mine = is_own(d, &i->origin);
    uint32_t passed = i->count - i->n_refused;
    *at = i->next;
    if (!*at)
        d->tail = at;
    d->counts.passed += passed;
    d->own_passed += is_mine ? passed : 0;
    for (size_t k = 0; k < DELIVER_REASONS; k++) {
        d->counts.refused[k] += i->refused[k];
        d->own_refused[k] += is_mine ? i->refused[k] : 0;
    }
    d->on_the_way -= i->n;
    mem_free(i);
}

static void acknowledge(struct deliver *d, const struct frame_ack *a)
{
    for (struct item **at = &d->head; *at;)
        if ((*at)->last <= a->seq && frame_same_origin(&(*at)->origin, &a->origin))
            settle(d, at);
        else
            at = &(*at)->next;
}

/* Whole blocks, or some events of a block whose others are acknowledged. */
static void refuse(struct deliver *d, const struct frame_refuse *r, size_t reason)
{
    for (struct item **at = &d->head; *at;) {
        struct item *i = *at;
        uint32_t n = frame_same_origin(&i->origin, &r->origin) ? frame_refused_of(r, i->first, i->count) : 0;
        n = n < i->count - i->n_refused ? n : i->count - i->n_refused;
        i->n_refused += n;
        i->refused[reason] += n;
        if (n && i->n_refused == i->count)
            settle(d, at);
        else
            at = &i->next;
    }
}

/* What the gateway said, as a string that stays. */
static const char *keep_text(struct deliver *d, size_t reason, struct slice text)
{
    char *to = d->counts.text[reason];
    int n = text.n < sizeof *d->counts.text ? (int)text.n : (int)sizeof *d->counts.text - 1;
    (void)snprintf(to, sizeof *d->counts.text, "%.*s", n, text.p); /* fits */
    return to;
}

static int on_refuse(struct deliver *d, struct slice payload, struct diag *why)
{
    struct frame_refuse r;
    if (frame_get_refuse(payload, &r) < 0)
        return E_PROTO;
    if (!text_is_utf8(r.text) || text_has_control(r.text))
        r.text.n = 0;
    size_t reason = r.reason < DELIVER_REASONS ? r.reason : 0;
    const char *text = keep_text(d, reason, r.text);
    if (r.retry_ms) { /* from the refused block on, on a new connection */
        d->retry_ms = r.retry_ms;
        return diag_set(why, -EAGAIN, 0, "%.60s can't store events now: %.100s", d->address.p, text);
    }
    refuse(d, &r, reason);
    return 0;
}

static int on_frame(struct deliver *d, const struct frame *f, struct diag *why)
{
    struct frame_ack ack;
    struct frame_ping ping;
    switch (f->type) {
    case FRAME_ACK:
        if (frame_get_ack(f->payload, &ack) < 0)
            return E_PROTO;
        d->pause_ms = 0;
        d->alive_ns = clock_mono_ns();
        acknowledge(d, &ack);
        return 0;
    case FRAME_REFUSE:
        return on_refuse(d, f->payload, why);
    case FRAME_PING:
        if (frame_get_ping(f->payload, &ping) < 0)
            return E_PROTO;
        frame_put_pong(&d->out, &(struct frame_pong){ping.token, ping.t0_ns, clock_utc_ns(), clock_utc_ns()});
        return 0;
    case FRAME_BYE:
        return dial_explain_bye(d->address.p, f->payload, why);
    default:
        return 0; /* ACTIVATE and the like: there is nothing here to activate */
    }
}

static int take_frames(struct deliver *d, struct diag *why)
{
    size_t at = 0;
    struct frame f;
    int64_t n;
    int r = 0;
    while (r == 0 && (n = frame_read(slice_from(strbuf_slice(&d->in), at), FRAME_PAYLOAD_MAX, &f)) != 0) {
        r = n < 0 ? (int)n : on_frame(d, &f, why);
        at += n > 0 ? (size_t)n : 0;
    }
    strbuf_consume(&d->in, at);
    return r;
}

/* ---------------------------------------------------------------- the connection */

static void hang_up(struct deliver *d)
{
    dial_close(d->dial);
    d->dial = NULL;
    strbuf_reset(&d->in);
    strbuf_reset(&d->out);
    d->on_the_way = 0;
}

static int explain(const struct deliver *d, int r, struct diag *why)
{
    return why->message[0] ? r : dial_explain(d->address.p, r, why);
}

/* The first frame that comes back. */
static int read_welcome(struct deliver *d, struct frame_welcome *out, struct diag *why)
{
    for (;;) {
        struct frame f;
        short wants = POLLIN;
        int64_t n = frame_read(strbuf_slice(&d->in), FRAME_PAYLOAD_MAX, &f);
        if (n < 0)
            return (int)n;
        if (n > 0 && f.type == FRAME_BYE)
            return dial_explain_bye(d->address.p, f.payload, why);
        if (n > 0) {
            int r = f.type == FRAME_WELCOME ? frame_get_welcome(f.payload, out) : E_PROTO;
            strbuf_consume(&d->in, (size_t)n);
            return r;
        }
        int r = receive_some(d, &wants);
        if (r == -EAGAIN)
            r = wait_for(d, wants);
        if (r < 0)
            return r;
    }
}

static int send_all(struct deliver *d)
{
    short wants;
    int r;
    while ((r = send_some(d, &wants)) == -EAGAIN) {
        r = wait_for(d, wants);
        if (r < 0)
            return r;
    }
    return r;
}

static int greet(struct deliver *d, struct diag *why)
{
    struct frame_welcome w;
    greeting_put(&d->out);
    frame_put_hello(&d->out, &(struct frame_hello){.minor_high = FRAME_MINOR,
                                                   .role = PEER_PROGRAM,
                                                   .origin = d->options.origin,
                                                   .t0_ns = clock_utc_ns(),
                                                   .host = slice_str(d->options.host),
                                                   .prog = slice_str(d->options.prog)});
    int r = send_all(d);
    if (r == 0 || r == -EPIPE || r == -ECONNRESET) { /* what it said before it hung up can be read */
        int got = read_welcome(d, &w, why);
        r = got == 0 || r == 0 ? got : r;
    }
    if (r < 0)
        return r;
    d->window = w.window;
    if (!d->has_first)
        d->first = w;
    d->has_first = true;
    return 0;
}

static int dial(struct deliver *d, struct diag *why)
{
    short wants;
    int r = dial_open(d->address.p, d->options.identity, &d->dial, why);
    while (r == 0 && (r = dial_step(d->dial, &wants, why)) == -EAGAIN)
        r = wait_for(d, wants);
    if (r == 0)
        r = greet(d, why);
    for (struct item *i = d->head; i && r == 0; i = i->next) { /* what was on the way when it broke */
        frame_put(&d->out, FRAME_BATCH, 0, slice_of(i->block, i->n));
        i->n_refused = 0; /* it will be said again */
        memset(i->refused, 0, sizeof i->refused);
        d->on_the_way += i->n;
        r = send_all(d);
    }
    return r;
}

/* Will it never be better? Then it is not tried again. */
static bool is_final(int r)
{
    return r == -EINTR || r == -EACCES || r == -ENOMEM || r == -EINVAL || r == E_PROTO || r == E_VERSION ||
           r == E_LIMIT || r == E_DAMAGE;
}

/* The connection is broken, or has not been made: dials until there is one, or patience is over. */
static int connect_again(struct deliver *d, int r, struct diag *why)
{
    while (r < 0) {
        hang_up(d);
        if (is_final(r) || clock_mono_ns() - d->alive_ns >= patience_ns(d))
            return explain(d, r, why);
        int64_t ms = d->pause_ms ? d->pause_ms * 2 : PAUSE_MIN_MS;
        d->pause_ms = ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
        r = pause_for(d, d->retry_ms > d->pause_ms && d->retry_ms < RETRY_MAX_MS ? d->retry_ms : d->pause_ms);
        d->retry_ms = 0;
        why->message[0] = '\0';
        if (r == 0)
            r = dial(d, why);
        d->counts.reconnects += r == 0;
    }
    return 0;
}

/* Sends and receives until there is room for n bytes more, or nothing on the way (n = SIZE_MAX). */
static int make_room(struct deliver *d, size_t n, struct diag *why)
{
    d->alive_ns = clock_mono_ns(); /* the owner may have been busy with other things */
    for (;;) {
        short wants = 0, wants_in = POLLIN;
        int r = send_some(d, &wants);
        bool is_sent = r == 0;
        if (is_sent || r == -EAGAIN)
            r = receive_some(d, &wants_in);
        bool has_input = r == 0;
        if (r == 0)
            r = take_frames(d, why);
        bool is_blocked = r == -EAGAIN && !has_input;
        bool has_room = is_sent && d->out.n == 0 &&
                        (d->on_the_way == 0 || (n != SIZE_MAX && d->on_the_way + n <= d->window));
        if (has_room && (r == 0 || is_blocked))
            return 0;
        if (is_blocked)
            r = wait_for(d, (short)(wants_in | (is_sent ? 0 : wants)));
        if (r < 0) {
            r = connect_again(d, r, why);
            if (r < 0)
                return r;
        }
    }
}

/* ---------------------------------------------------------------- public */

int deliver_open(const struct deliver_options *o, struct deliver **out, struct diag *why)
{
    struct deliver *d = mem_try_alloc(sizeof *d);
    if (!d)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    d->options = *o;
    d->tail = &d->head;
    d->alive_ns = clock_mono_ns();
    if (o->gateway && o->gateway[0])
        strbuf_add_str(&d->address, o->gateway);
    else
        dial_default_gateway(&d->address);
    int r = strbuf_failed(&d->address) ? -ENOMEM : dial(d, why);
    if (r < 0) {
        r = explain(d, r, why);
        deliver_close(d);
        return r;
    }
    *out = d;
    return 0;
}

void deliver_close(struct deliver *d)
{
    if (!d)
        return;
    while (d->head)
        mem_free(take_head(d));
    dial_close(d->dial);
    strbuf_fini(&d->address);
    strbuf_fini(&d->in);
    strbuf_fini(&d->out);
    mem_free(d);
}

const struct frame_welcome *deliver_welcome(const struct deliver *d)
{
    return &d->first;
}

static struct item *make_item(struct slice block)
{
    struct item *i = mem_try_alloc(sizeof *i + block.n);
    if (!i)
        return NULL;
    struct batch_origin o = block_origin(block);
    memcpy(i->origin.producer, o.producer, sizeof i->origin.producer);
    i->origin.epoch = o.epoch;
    i->first = o.first_seq;
    i->count = block_count(block);
    i->last = i->first + i->count - 1;
    i->n = block.n;
    memcpy(i->block, block.p, block.n);
    return i;
}

int deliver_put(struct deliver *d, struct slice block, struct diag *why)
{
    int r = make_room(d, block.n, why);
    struct item *i = r == 0 ? make_item(block) : NULL;
    if (r < 0 || !i)
        return r < 0 ? r : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    *d->tail = i;
    d->tail = &i->next;
    d->on_the_way += i->n;
    d->counts.sent += i->count;
    d->own_sent += is_own(d, &i->origin) ? i->count : 0;
    frame_put(&d->out, FRAME_BATCH, 0, block);
    short wants;
    r = send_some(d, &wants);
    return r == 0 || r == -EAGAIN ? 0 : connect_again(d, r, why);
}

int deliver_finish(struct deliver *d, uint64_t before, bool is_whole, struct diag *why)
{
    int r = make_room(d, SIZE_MAX, why);
    if (r < 0)
        return r;
    struct frame_counts c = {.origin = d->options.origin,
                             .is_final = is_whole,
                             .taken = before + d->own_sent,
                             .passed = before + d->own_passed};
    for (size_t i = 0; i < DELIVER_REASONS; i++)
        c.dropped[i == REFUSE_TOO_OLD   ? DROP_TOO_OLD
                  : i == REFUSE_TOO_NEW ? DROP_TOO_NEW
                                        : DROP_REFUSED] += d->own_refused[i];
    frame_put_counts(&d->out, &c);
    frame_put_bye(&d->out, BYE_DONE, SLICE_LIT(""));
    (void)send_all(d); /* only the ledger's; all events are acknowledged */
    return 0;
}

void deliver_counts(const struct deliver *d, struct deliver_counts *out)
{
    *out = d->counts;
}
