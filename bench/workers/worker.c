/* SPDX-License-Identifier: Apache-2.0 */
/* A worker does what an agent does: REGISTER; with the lease SAMPLES_ORIGIN, SCHEMA and STREAM; when they are
 * acknowledged it is ready. It renews in time, with its COUNTS before. Every answer is checked against the
 * question.
 *
 * Events need no spool: event i of a worker's epoch is the same whenever it is made, so that what was not
 * acknowledged is made and sent again on the next connection, from the last acknowledged one on. */
#include "base/clock.h"
#include "base/mem.h"
#include "emulator.h"
#include "event/drop.h"
#include "event/samples.h"
#include "net/control.h"
#include "net/demand.h"

#include <inttypes.h>

enum {
    FLIGHT_BLOCKS = 4,  /* of a worker on their way, not acknowledged */
    BACKLOG_BLOCKS = 64 /* written and not sent: then it writes no more */
};

struct frame_origin worker_origin(const struct emulator *e, const struct worker *w, uint8_t class)
{
    struct frame_origin o = {.epoch = w->epoch};
    memcpy(o.producer, e->run, sizeof e->run);
    memcpy(o.producer + sizeof e->run, &w->index, sizeof w->index);
    o.producer[15] = class == CLASS_EVENTS ? 'e' : 's';
    return o;
}

/* ---------------------------------------------------------------- epochs */

void worker_begin_epoch(struct worker *w)
{
    w->epoch++;
    w->number = w->lost = w->unsent = w->twice = w->behind = w->received = 0;
    w->written = w->sent = w->sent_most = w->acknowledged = w->refused = 0;
    w->retry_ns = 0;
    w->renew_number = 0;
    datagrams_forget(w);
}

static void print_origin(FILE *f, const struct frame_origin *o)
{
    for (size_t i = 0; i < sizeof o->producer; i++)
        (void)fprintf(f, "%02x", o->producer[i]); /* an error is seen when the file is closed */
}

static void print_epoch(struct emulator *e, const struct worker *w, const char *ended)
{
    FILE *f = e->report;
    char host[64];
    struct frame_origin events = worker_origin(e, w, CLASS_EVENTS),
                        samples = worker_origin(e, w, CLASS_SAMPLES);
    emulator_host(e, w->index, host);
    (void)fprintf(f,
                  "{\"host\":\"%s\",\"worker\":%u,\"epoch\":%u,\"ended\":\"%s\",\"events\":{\"producer\":\"",
                  host, w->id, w->epoch, ended);
    print_origin(f, &events);
    (void)fprintf(f, "\",\"written\":%" PRIu64 ",\"acknowledged\":%" PRIu64 ",\"refused\":%" PRIu64 "},",
                  w->written, w->acknowledged, w->refused);
    (void)fprintf(f, "\"samples\":{\"producer\":\"");
    print_origin(f, &samples);
    (void)fprintf(f,
                  "\",\"datagrams\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"unsent\":%" PRIu64
                  ",\"twice\":%" PRIu64 ",\"behind\":%" PRIu64 ",\"received\":%" PRIu64 "}}\n",
                  w->number, w->lost, w->unsent, w->twice, w->behind, w->received);
}

void worker_end_epoch(struct emulator *e, struct worker *w, const char *ended)
{
    e->tally.events_abandoned += w->written - w->acknowledged;
    e->tally.datagrams_received += w->received;
    if (w->written > w->acknowledged && strcmp(ended, "killed") != 0)
        e->is_incomplete = true;
    if (e->report)
        print_epoch(e, w, ended);
}

/* ---------------------------------------------------------------- being ready */

static void set_state(struct emulator *e, struct worker *w, enum worker_state state)
{
    if (w->state == WORKER_READY && state != WORKER_READY) {
        struct worker *last = e->ready[--e->n_ready];
        e->ready[w->ready_at] = last;
        last->ready_at = w->ready_at;
    }
    if (w->state != WORKER_READY && state == WORKER_READY) {
        w->ready_at = e->n_ready;
        e->ready[e->n_ready++] = w;
    }
    if (w->state != WORKER_OVER && state == WORKER_OVER)
        e->n_over++;
    w->state = (uint8_t)state;
}

static int64_t renew_every_ns(const struct emulator *e, const struct worker *w)
{
    return e->o.renew_ns ? e->o.renew_ns : (int64_t)w->renew_ms * 1000000;
}

static void on_renew_due(void *arg, struct timer *t)
{
    struct emulator *e = arg;
    struct worker *w = (struct worker *)((char *)t - offsetof(struct worker, timer));
    timer_set(&e->timers, &w->timer, e->now_ns + renew_every_ns(e, w), on_renew_due);
    if (w->is_renewing)
        e->tally.renewals_late += !e->o.is_busy && e->phase <= PHASE_LOAD;
    else
        worker_renew(e, w, 0);
}

/* As an agent does behind each registration. */
static void announce_sensors(struct emulator *e, struct worker *w)
{
    struct conn *c = conn_of(e, w);
    struct slice rest = strbuf_slice(&e->sensors);
    struct frame f;
    for (int64_t n; rest.n && (n = frame_read(rest, FRAME_PAYLOAD_MAX, &f)) > 0;
         rest = slice_from(rest, (size_t)n))
        frame_put(&c->link.out, f.type, conn_number(e, w), f.payload);
    conn_dirty(e, c);
}

static void become_ready(struct emulator *e, struct worker *w)
{
    if (w->state != WORKER_ANNOUNCING || !w->has_stream || (w->level != SEAL_NONE && !w->has_key))
        return;
    set_state(e, w, WORKER_READY);
    announce_sensors(e, w);
    /* The first one anywhere within the time, so that the renewals of many do not come at once. */
    int64_t every = renew_every_ns(e, w);
    timer_set(&e->timers, &w->timer, e->now_ns + (int64_t)(emulator_random(e) % (uint64_t)every),
              on_renew_due);
    if (e->o.is_busy && e->phase == PHASE_LOAD)
        worker_renew(e, w, 0);
    worker_pump(e, w);
}

void worker_register(struct emulator *e, struct worker *w)
{
    struct conn *c = conn_of(e, w);
    char host[64];
    emulator_host(e, w->index, host);
    struct frame_register r = {.mode = e->o.is_guest ? LEASE_GUEST : LEASE_RESIDENT,
                               .t0_ns = w->t0_ns = clock_boot_ns(),
                               .utc_ns = clock_utc_ns(),
                               .origin = worker_origin(e, w, CLASS_EVENTS),
                               .host = slice_str(host),
                               .properties = args_of(&e->properties),
                               .settings = args_of(&e->settings)};
    frame_put_register(&c->link.out, conn_number(e, w), &r);
    set_state(e, w, WORKER_REGISTERING);
    w->has_key = w->has_stream = w->is_renewing = false;
    conn_dirty(e, c);
}

void worker_sink(struct emulator *e, struct worker *w)
{
    w->id = w->index + 1;
    w->key_id = 1;
    w->level = e->sink_level;
    for (size_t i = 0; i < LEASE_KEY; i++)
        w->key[i] = (unsigned char)(w->id >> (8 * (i % 4)));
    datagrams_target(e, ntohs(e->target.to.sin_port), w->level);
    set_state(e, w, WORKER_READY);
}

static void on_return(void *arg, struct timer *t)
{
    struct emulator *e = arg;
    struct worker *w = (struct worker *)((char *)t - offsetof(struct worker, timer));
    if (conn_of(e, w)->state == CONN_OPEN)
        worker_register(e, w);
}

void worker_lost(struct emulator *e, struct worker *w)
{
    if (w->state == WORKER_OVER)
        return;
    if (w->state != WORKER_AWAY)
        timer_stop(&w->timer); /* else it is the time of its return */
    set_state(e, w, WORKER_AWAY);
    w->is_renewing = false;
    w->sent = w->acknowledged; /* what was on its way is sent again */
    w->retry_ns = 0;
}

static void announce(struct emulator *e, struct worker *w)
{
    struct conn *c = conn_of(e, w);
    uint32_t number = conn_number(e, w);
    const struct frame_samples_origin o = {.origin = worker_origin(e, w, CLASS_SAMPLES), .wants_ok = true};
    strbuf_reset(&e->payload);
    frame_put_samples_origin(&e->payload, &o);
    frame_put(&c->link.out, FRAME_SAMPLES_ORIGIN, number, slice_from(strbuf_slice(&e->payload), FRAME_HEAD));
    frame_put(&c->link.out, FRAME_SCHEMA, number, e->schema);
    frame_put(&c->link.out, FRAME_STREAM, number, e->stream);
    set_state(e, w, WORKER_ANNOUNCING);
    conn_dirty(e, c);
}

/* ---------------------------------------------------------------- renewals */

static void put_counts(struct emulator *e, struct worker *w, uint8_t class, bool is_final)
{
    struct frame_counts k = {.origin = worker_origin(e, w, class), .class = class, .is_final = is_final};
    if (class == CLASS_SAMPLES) {
        k.taken = k.passed = w->number;
    } else {
        k.taken = w->written;
        k.queued = w->written - w->acknowledged;
        k.passed = w->acknowledged - w->refused;
        k.dropped[DROP_REFUSED] = w->refused;
    }
    strbuf_reset(&e->payload);
    frame_put_counts(&e->payload, &k);
    frame_put(&conn_of(e, w)->link.out, FRAME_COUNTS, conn_number(e, w),
              slice_from(strbuf_slice(&e->payload), FRAME_HEAD));
}

void worker_renew(struct emulator *e, struct worker *w, uint8_t flags)
{
    struct conn *c = conn_of(e, w);
    bool is_final = flags & RENEW_LEAVING;
    put_counts(e, w, CLASS_SAMPLES, is_final);
    if (w->written || is_final)
        put_counts(e, w, CLASS_EVENTS, is_final);
    struct frame_renew r = {.number = ++w->renew_number, .flags = flags, .datagrams = w->number};
    r.t0_ns = w->t0_ns = clock_boot_ns();
    frame_put_renew(&c->link.out, conn_number(e, w), &r);
    w->is_renewing = true;
    if (is_final)
        set_state(e, w, WORKER_LEAVING);
    conn_dirty(e, c);
}

/* ---------------------------------------------------------------- answers */

static bool is_answer(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    if (w->state == WORKER_REGISTERING && l->number == 0 && l->t0_ns == w->t0_ns)
        return true;
    if (l->number && w->is_renewing && l->number == w->renew_number && l->t0_ns == w->t0_ns)
        return true;
    if (l->number == 0 && w->state != WORKER_REGISTERING)
        return true; /* to SAMPLES_ORIGIN, or because something was assigned */
    emulator_wrong(e, w, "LEASE %u (status %u) answers nothing that was asked", l->number, l->status);
    return false;
}

static void check_lease(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    if (w->id && l->worker != w->id)
        emulator_wrong(e, w, "it was worker %u and is %u now", w->id, l->worker);
    if (l->t2_ns < l->t1_ns)
        emulator_wrong(e, w, "LEASE was sent before the question came");
    if (l->number && l->datagrams > w->number - w->lost - w->unsent)
        emulator_wrong(e, w, "LEASE counts %" PRIu64 " datagrams, more than were sent", l->datagrams);
}

static void take_lease(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    check_lease(e, w, l);
    w->id = l->worker;
    w->lease_ms = l->lease_ms;
    w->renew_ms = l->renew_ms;
    w->level = l->level;
    w->key_id = l->key_id;
    if (l->key.n == LEASE_KEY) {
        memcpy(w->key, l->key.p, LEASE_KEY);
        w->has_key = true;
    }
    datagrams_target(e, l->udp_port, l->level);
}

bool worker_is_done(const struct worker *w)
{
    return w->acknowledged == w->written && w->received == w->number - w->lost - w->unsent;
}

static void on_registered(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    take_lease(e, w, l);
    e->tally.registrations++;
    if (e->o.reconnects)
        conn_cut(e, conn_of(e, w), 0);
    else
        announce(e, w);
}

static void on_renewed(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    take_lease(e, w, l);
    e->tally.renewals++;
    w->is_renewing = false;
    if (l->datagrams != w->received || !w->has_told)
        e->progress_ns = e->now_ns;
    w->has_told = true;
    w->received = l->datagrams;
    w->is_settled = worker_is_done(w);
    if (e->o.is_busy && e->phase == PHASE_LOAD && w->state == WORKER_READY)
        worker_renew(e, w, 0);
}

static void on_ended(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    struct conn *c = conn_of(e, w);
    bool is_last = e->phase >= PHASE_LEAVE;
    if (w->state != WORKER_LEAVING) {
        emulator_wrong(e, w, "its lease was ended unasked");
        return;
    }
    e->tally.ended++;
    e->progress_ns = e->now_ns;
    w->is_renewing = false;
    w->received = l->datagrams;
    timer_stop(&w->timer);
    worker_end_epoch(e, w, "left");
    set_state(e, w, is_last ? WORKER_OVER : WORKER_AWAY);
    if (!is_last) {
        worker_begin_epoch(w);
        if (sessions_wanted(e))
            session_gone(e, w, STANDING_LEFT);
        else
            timer_set(&e->timers, &w->timer, e->now_ns + e->o.away_ns, on_return);
    }
    if (!conn_is_relay(e))
        timer_stop(&w->timer); /* the connection's time away is the worker's */
    bool is_done = true;
    for (uint32_t i = 0; i < c->n_workers && is_done; i++)
        is_done = e->workers[c->first + i].state == WORKER_OVER;
    if (!conn_is_relay(e) || is_done)
        conn_bye(e, c);
}

static void on_refused(struct emulator *e, struct worker *w, const struct frame_lease *l)
{
    bool is_final = l->status == LEASE_DENIED;
    if (is_final)
        emulator_wrong(e, w, "denied: %.*s", SLICE_ARG(l->text));
    e->tally.denied += is_final;
    e->tally.refused += !is_final;
    timer_stop(&w->timer);
    w->is_renewing = false;
    if (is_final)
        worker_end_epoch(e, w, "denied");
    set_state(e, w, is_final ? WORKER_OVER : WORKER_AWAY);
    if (!is_final)
        timer_set(&e->timers, &w->timer, e->now_ns + e->o.away_ns, on_return);
}

static void on_lease(struct emulator *e, struct worker *w, struct slice payload)
{
    struct frame_lease l;
    if (frame_get_lease(payload, &l) < 0) {
        emulator_wrong(e, w, "malformed LEASE");
        return;
    }
    if (!is_answer(e, w, &l))
        return;
    switch (l.status) {
    case LEASE_GRANTED:
        if (l.number)
            on_renewed(e, w, &l);
        else if (w->state == WORKER_REGISTERING)
            on_registered(e, w, &l);
        else
            take_lease(e, w, &l);
        break;
    case LEASE_UNKNOWN:
        e->tally.unknown++;
        timer_stop(&w->timer);
        worker_register(e, w);
        break;
    case LEASE_ENDED:
        on_ended(e, w, &l);
        break;
    default:
        on_refused(e, w, &l);
        break;
    }
}

static void on_stream_ok(struct emulator *e, struct worker *w, struct slice payload)
{
    struct frame_stream_ok ok;
    if (frame_get_stream_ok(payload, &ok) < 0 || ok.stream != 1 || ok.baseline != 0) {
        emulator_wrong(e, w, "STREAM_OK is not of the stream that was announced");
        return;
    }
    w->has_stream = true;
    become_ready(e, w);
}

static void on_schema_ok(struct emulator *e, struct worker *w, struct slice payload)
{
    uint32_t schema;
    if (frame_get_schema_ok(payload, &schema) < 0 || schema != 1)
        emulator_wrong(e, w, "SCHEMA_OK is not of the schema that was announced");
}

/* ---------------------------------------------------------------- events */

void worker_acknowledge(struct emulator *e, struct worker *w, uint64_t seq)
{
    if (seq <= w->acknowledged)
        return;
    if (seq > w->written) {
        emulator_wrong(e, w, "event %" PRIu64 " is acknowledged, which was not written", seq);
        return;
    }
    e->tally.events_acknowledged += seq - w->acknowledged;
    e->progress_ns = e->now_ns;
    w->acknowledged = seq;
    if (w->sent < seq)
        w->sent = seq;
}

static void on_ack(struct emulator *e, struct worker *w, struct slice payload)
{
    struct frame_ack ack;
    struct frame_origin o = worker_origin(e, w, CLASS_EVENTS);
    if (frame_get_ack(payload, &ack) < 0) {
        emulator_wrong(e, w, "malformed ACK");
        return;
    }
    if (!frame_same_origin(&ack.origin, &o))
        return; /* of an epoch before */
    worker_acknowledge(e, w, ack.seq);
    worker_pump(e, w);
}

static void on_refuse(struct emulator *e, struct worker *w, struct slice payload)
{
    struct frame_refuse r;
    struct frame_origin o = worker_origin(e, w, CLASS_EVENTS);
    if (frame_get_refuse(payload, &r) < 0 || r.first_seq == 0 || r.first_seq + r.count - 1 > w->written) {
        emulator_wrong(e, w, "malformed REFUSE, or of what was not sent");
        return;
    }
    if (!frame_same_origin(&r.origin, &o))
        return;
    if (r.retry_ms) {
        w->sent = r.first_seq - 1 > w->acknowledged ? r.first_seq - 1 : w->acknowledged;
        w->retry_ns = e->now_ns + (int64_t)r.retry_ms * 1000000;
        return;
    }
    w->refused += r.count;
    e->tally.events_refused += r.count;
    if (r.first_seq == w->acknowledged + 1)
        w->acknowledged += r.count; /* done with */
}

/* A block of events first to last, the same each time. */
static void put_block(struct emulator *e, struct worker *w, uint64_t first, uint64_t last)
{
    struct conn *c = conn_of(e, w);
    char host[64];
    emulator_host(e, w->index, host);
    struct frame_origin origin = worker_origin(e, w, CLASS_EVENTS);
    struct batch_origin o = {
        .epoch = origin.epoch, .first_seq = first, .clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    memcpy(o.producer, origin.producer, sizeof o.producer);
    for (uint64_t seq = first; seq <= last; seq++) {
        struct value values[] = {value_uint(w->index), value_uint(w->epoch), value_uint(seq)};
        struct event ev = {.time_ns = e->base_ns + (int64_t)seq * 1000,
                           .host = slice_str(host),
                           .prog = SLICE_LIT("gridline-agent"),
                           .schema = e->event_schema,
                           .values = values,
                           .level = LEVEL_INFO};
        if (block_writer_add(e->block, &ev) < 0)
            abort(); /* blocks are small: there is no memory */
    }
    strbuf_reset(&e->payload);
    if (block_writer_finish(e->block, &o, &e->payload) < 0)
        abort();
    frame_put(&c->link.out, FRAME_BATCH, conn_number(e, w), strbuf_slice(&e->payload));
    conn_dirty(e, c);
}

void worker_pump(struct emulator *e, struct worker *w)
{
    if (w->retry_ns > e->now_ns)
        return;
    w->retry_ns = 0;
    while (w->state == WORKER_READY && w->sent < w->written &&
           w->sent - w->acknowledged < FLIGHT_BLOCKS * e->o.block) {
        uint64_t first = w->sent + 1, last = w->sent + e->o.block;
        last = last < w->written ? last : w->written;
        put_block(e, w, first, last);
        if (w->sent_most >= first)
            e->tally.events_again += (last < w->sent_most ? last : w->sent_most) - first + 1;
        w->sent_most = last > w->sent_most ? last : w->sent_most;
        w->sent = last;
    }
}

uint64_t workers_write(struct emulator *e, uint64_t n)
{
    uint64_t done = 0;
    for (uint32_t tried = 0; tried < e->n_ready && done + e->o.block <= n; tried++) {
        struct worker *w = e->ready[e->next_event++ % e->n_ready];
        if (w->written - w->sent >= BACKLOG_BLOCKS * e->o.block) {
            worker_pump(e, w); /* it may have waited for a time to retry */
            continue;
        }
        w->written += e->o.block;
        e->tally.events += e->o.block;
        done += e->o.block;
        worker_pump(e, w);
    }
    return done;
}

/* ---------------------------------------------------------------- frames */

/* Whatever is asked is done at once: an emulated worker has no sensors. */
static void on_control(struct emulator *e, struct worker *w, struct slice payload)
{
    struct conn *c = conn_of(e, w);
    struct frame_control ask;
    if (frame_get_control(payload, &ask) < 0) {
        emulator_wrong(e, w, "malformed CONTROL");
        return;
    }
    frame_put_answer(&c->link.out, conn_number(e, w),
                     &(struct frame_answer){.request = ask.request, .text = {"", 0}});
    e->tally.controls++;
    conn_dirty(e, c);
}

void worker_frame(struct emulator *e, struct worker *w, const struct frame *f)
{
    if (w->standing != STANDING_LIVE)
        return; /* a relay can't hand it on: the machine is off */
    switch (f->type) {
    case FRAME_LEASE:
        on_lease(e, w, f->payload);
        break;
    case FRAME_SCHEMA_OK:
        on_schema_ok(e, w, f->payload);
        break;
    case FRAME_STREAM_OK:
        on_stream_ok(e, w, f->payload);
        break;
    case FRAME_ACK:
        on_ack(e, w, f->payload);
        break;
    case FRAME_REFUSE:
        on_refuse(e, w, f->payload);
        break;
    case FRAME_CONTROL:
        on_control(e, w, f->payload);
        break;
    case FRAME_ACTIVATE:
        break; /* for programs on its host, and it has none */
    case FRAME_DEMAND:
        break; /* all of its sensors run always */
    default:
        if (f->type < FRAME_OPTIONAL)
            emulator_wrong(e, w, "frame %u is not expected", f->type);
        break;
    }
}
