/* SPDX-License-Identifier: Apache-2.0 */
/* The lease, from the worker's end (docs/protocol.md, "Leases").
 *
 *     WELCOME -> REGISTER, SAMPLES_ORIGIN -> LEASE granted -> (COUNTS, RENEW -> LEASE) every renew_ms ->
 * RENEW leaving
 *
 * At most one question is open. One without an answer for a third of the lease ends the connection: with a
 * renewal every third of it that is before the lease is over, and the next gateway has two tries left. Not
 * granted: the next gateway, too; not known: registers again. While no lease is known, UPSTREAM_LEASE_MS or
 * what is wanted stands for it.
 *
 * A guest's time runs from the question that was granted last, not from its answer: the gateway can't have
 * given it earlier. It ends a tenth of the lease before that, to be gone when the lease is over. Until the
 * first grant it has the lease it wants, from its start. Deadlines are on the monotonic clock, which stands
 * still while the host sleeps: the lease has then long ended at the gateway, and the guest registers again or
 * ends within what is left. */
#include "agent/upstream_internal.h"

#include "base/clock.h"
#include "base/log.h"

enum {
    RENEW_MIN_MS = 50, /* whatever a gateway says */
    LEASE_MIN_MS = 200,
    AGAIN_MS = 100, /* a renewal that could not be sent is tried again */
    EARLY_PART =
        10, /* of the time between renewals: so much earlier with a round of samples, which saves a wake-up */
    NO_ANSWER = 0xff /* besides enum lease_status */
};

static const int64_t ns_per_ms = 1000000;

static uint32_t current_ms(const struct upstream *u)
{
    const struct lease *l = &u->lease;
    return l->lease_ms ? l->lease_ms : l->wanted_ms ? l->wanted_ms : UPSTREAM_LEASE_MS;
}

/* ---------------------------------------------------------------- asking */

/* A question is on its way. */
static void note_asked(struct upstream *u, int64_t t0_ns)
{
    struct lease *l = &u->lease;
    l->asked_ns = u->now_ns;
    l->sent_ns = u->now_ns;
    l->t0_ns = t0_ns;
}

static void send_register(struct upstream *u)
{
    struct lease *l = &u->lease;
    struct args_writer properties = {0}, settings = {0};
    if (u->ops->describe)
        u->ops->describe(u->arg, &properties, &settings);
    struct frame_register r = {.mode = u->is_guest ? LEASE_GUEST : LEASE_RESIDENT,
                               .lease_ms = l->wanted_ms,
                               .t0_ns = clock_boot_ns(),
                               .utc_ns = clock_utc_ns(),
                               .origin = u->origin,
                               .host = slice_str(u->host),
                               .properties = args_of(&properties),
                               .settings = args_of(&settings)};
    frame_put_register(&u->frame, 0, &r);
    if (upstream_send_frame(u) == 0) {
        l->is_wanted = false;
        l->number = 0;
        note_asked(u, r.t0_ns);
        u->datagrams.origins_due = 0;
        upstream_begin_samples(u);
    }
    args_writer_fini(&properties);
    args_writer_fini(&settings);
}

static void send_renew(struct upstream *u, uint8_t flags)
{
    struct lease *l = &u->lease;
    upstream_tell_samples(u, false);
    uplink_tell_counts(u->link);
    struct frame_renew r = {
        .number = l->number + 1, .flags = flags, .t0_ns = clock_boot_ns(), .datagrams = u->datagrams.sent};
    frame_put_renew(&u->frame, 0, &r);
    if (upstream_send_frame(u) < 0) { /* too much waits to be sent */
        l->renew_at_ns = u->now_ns + AGAIN_MS * ns_per_ms;
        return;
    }
    l->number = r.number;
    u->datagrams.told = r.datagrams;
    note_asked(u, r.t0_ns);
}

void upstream_lease_up(struct upstream *u)
{
    struct lease *l = &u->lease;
    l->is_held = l->must_break = false;
    l->is_wanted = true;
    l->t0_ns = 0;
    l->asked_ns = u->now_ns; /* also if it can't be sent now: this connection has its third of the lease */
    send_register(u);
}

void upstream_lease_down(struct upstream *u)
{
    struct lease *l = &u->lease;
    l->is_held = l->is_wanted = l->must_break = false;
    l->asked_ns = l->t0_ns = 0;
}

void upstream_lease_hasten(struct upstream *u, int64_t at_ns)
{
    if (at_ns < u->lease.renew_at_ns)
        u->lease.renew_at_ns = at_ns;
}

void upstream_lease_leave(struct upstream *u)
{
    if (u->lease.is_held)
        send_renew(u, RENEW_LEAVING);
}

/* ---------------------------------------------------------------- answers */

/* One exchange of Cristian's algorithm a question: its first answer. */
static void take_exchange(struct upstream *u, const struct frame_lease *f)
{
    struct timesync_exchange x = {f->t0_ns, f->t1_ns, f->t2_ns, clock_boot_ns()};
    bool is_ours = u->lease.t0_ns && f->t0_ns == u->lease.t0_ns;
    if (!is_ours)
        return;
    u->lease.t0_ns = 0;
    if (u->ops->on_exchange)
        u->ops->on_exchange(u->arg, &x);
}

static uint32_t at_least(uint32_t v, uint32_t least)
{
    return v < least ? least : v;
}

/* The answer to a question: the lease runs anew. */
static void note_answered(struct upstream *u)
{
    struct lease *l = &u->lease;
    l->is_held = true;
    l->must_break = false; /* just in time */
    l->told = 0;
    l->asked_ns = 0;
    l->renew_at_ns = u->now_ns + l->renew_ms * ns_per_ms;
    if (u->is_guest)
        l->over_ns = l->sent_ns + l->lease_ms * ns_per_ms / 10 * 9;
}

static void granted(struct upstream *u, const struct frame_lease *f)
{
    struct lease *l = &u->lease;
    bool is_answer = f->number || f->t0_ns, was_held = l->is_held; /* else it answers SAMPLES_ORIGIN */
    bool is_renewal = f->number && f->number == l->number && l->asked_ns;
    if (is_answer && !f->number) /* what was asked for before is behind the registration by now, or void */
        upstream_end_demand(u);
    l->worker = f->worker;
    l->lease_ms = at_least(f->lease_ms, LEASE_MIN_MS);
    l->renew_ms = at_least(f->renew_ms, RENEW_MIN_MS);
    if (is_answer)
        note_answered(u);
    l->registrations += !was_held && l->is_held;
    if (!was_held && l->is_held && u->ops->on_lease)
        u->ops->on_lease(u->arg, l->worker, uplink_address(u->link), l->lease_ms);
    upstream_datagram_lease(u, f, is_renewal);
    if (f->has_settings && u->ops->on_settings)
        u->ops->on_settings(u->arg, f->settings);
}

/* This gateway is of no use now. */
static void give_up(struct upstream *u, uint8_t status, struct slice why)
{
    struct lease *l = &u->lease;
    l->must_break = true;
    l->is_held = l->is_wanted = false;
    if (l->told != status && u->ops->on_refused)
        u->ops->on_refused(u->arg, uplink_address(u->link), status == LEASE_DENIED, why);
    l->told = status;
}

/* The gateway has forgotten us, and what we announced. */
static void register_again(struct upstream *u)
{
    u->lease.is_held = false;
    u->lease.is_wanted = true;
    send_register(u);
}

int upstream_lease_frame(struct upstream *u, struct slice payload)
{
    struct lease *l = &u->lease;
    struct frame_lease f;
    if (frame_get_lease(payload, &f) < 0)
        return E_PROTO;
    switch (f.status) {
    case LEASE_GRANTED:
        take_exchange(u, &f);
        granted(u, &f);
        return 0;
    case LEASE_REFUSED:
    case LEASE_DENIED:
        give_up(u, (uint8_t)f.status, log_safe(f.text));
        return 0;
    case LEASE_UNKNOWN:
        if (l->is_held)
            register_again(u);
        else /* it says that to REGISTER, too */
            give_up(u, LEASE_REFUSED, log_safe(f.text));
        return 0;
    default:
        return 0; /* LEASE_ENDED, and what later versions say */
    }
}

/* ---------------------------------------------------------------- time passes */

static int64_t answer_by_ns(const struct upstream *u)
{
    const struct lease *l = &u->lease;
    return l->asked_ns ? l->asked_ns + current_ms(u) * ns_per_ms / 3 : INT64_MAX;
}

static void end_guest(struct upstream *u)
{
    struct lease *l = &u->lease;
    l->is_over = true;
    l->over_ns = INT64_MAX;
    if (u->ops->on_over)
        u->ops->on_over(u->arg, l->worker ? "the lease was not renewed" : "no gateway granted a lease");
}

void upstream_lease_keep(struct upstream *u, int64_t now_ns)
{
    struct lease *l = &u->lease;
    int64_t early_ns = u->has_flushed ? l->renew_ms * ns_per_ms / EARLY_PART : 0;
    u->has_flushed = false;
    if (now_ns >= l->over_ns)
        end_guest(u);
    if (u->is_down)
        return;
    if (now_ns >= answer_by_ns(u)) {
        give_up(u, NO_ANSWER,
                l->is_held ? SLICE_LIT("no answer to a renewal")
                           : SLICE_LIT("no answer to the registration"));
        return;
    }
    if (l->is_wanted)
        send_register(u);
    else if (l->is_held && !l->asked_ns && now_ns >= l->renew_at_ns - early_ns)
        send_renew(u, 0);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t upstream_lease_next_ns(const struct upstream *u)
{
    const struct lease *l = &u->lease;
    int64_t next = l->over_ns;
    if (u->is_down)
        return next;
    next = earlier(next, answer_by_ns(u));
    return l->is_held && !l->asked_ns ? earlier(next, l->renew_at_ns) : next;
}
