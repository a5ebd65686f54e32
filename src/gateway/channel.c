/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/channel.h"

#include "base/clock.h"
#include "base/cursor.h"

#include <errno.h>
#include <inttypes.h>

static struct strbuf *out_of(const struct channel *c)
{
    return &session_all(c->session)->out;
}

/* ---------------------------------------------------------------- leases */

/* The datagrams' part of LEASE: port, level, and a key that the worker has not been told. */
static void offer_datagrams(struct channel *c, struct frame_lease *l)
{
    const struct worker *w = c->worker;
    l->udp_port = session_all(c->session)->udp_port;
    l->level = w->level;
    l->key_id = w->key_id;
    l->datagrams = w->window.received;
    if (w->level != SEAL_NONE && w->key_id && c->key_told != w->key_id)
        l->key = slice_of((const char *)w->key, sizeof w->key);
    c->key_told = w->key_id;
}

static void add_settings(struct args_writer *to, struct args list)
{
    struct arg a;
    while (args_next(&list, &a) && to->n < ARGS_MAX)
        args_add(to, a.name, a.value);
}

/* What is assigned to all, then what is the worker's own. */
static void offer_settings(struct sessions *all, struct worker *w, struct frame_lease *l)
{
    struct cursor list = cursor_of(slice_of(w->settings ? w->settings : "", w->settings_n));
    struct args own;
    if (!w->has_unsent_settings)
        return;
    w->has_unsent_settings = false;
    args_writer_reset(&all->settings);
    add_settings(&all->settings, all->assigned);
    if (w->settings_n && args_get(&list, &own))
        add_settings(&all->settings, own);
    l->has_settings = true;
    l->settings = args_of(&all->settings);
}

/* t0 0: nobody asked, so it is no exchange of clocks. */
static void send_lease(struct channel *c, uint16_t status, uint32_t number, int64_t t0_ns, int64_t t1_ns,
                       const char *why)
{
    struct frame_lease l = {.status = status, .number = number, .t0_ns = t0_ns, .t1_ns = t1_ns};
    struct worker *w = c->worker;
    l.key = SLICE_LIT("");
    l.text = slice_str(why);
    if (w) {
        l.worker = w->id;
        l.lease_ms = w->lease_ms;
        l.renew_ms = w->renew_ms;
        offer_datagrams(c, &l);
        offer_settings(session_all(c->session), w, &l);
    }
    l.t2_ns = clock_utc_ns();
    frame_put_lease(out_of(c), c->number, &l);
    session_send(c->session);
}

/* A session's name begins with its peer's. */
static void note_address(const struct channel *c)
{
    const char *name = session_name(c->session);
    worker_set_address(c->worker, slice_of(name, strcspn(name, " ")));
}

static void on_register(struct channel *c, struct slice payload)
{
    int64_t t1 = clock_utc_ns();
    struct sessions *all = session_all(c->session);
    struct frame_register r;
    if (frame_get_register(payload, &r) < 0) {
        session_protocol_error(c->session, "malformed REGISTER");
        return;
    }
    if (!access_check(session_who(c->session), ACCESS_REGISTER, r.host, SLICE_LIT(""))) {
        all->not_allowed++;
        send_lease(c, LEASE_DENIED, 0, r.t0_ns, t1, "this connection may not speak for that host");
        return;
    }
    if (!session_is_relay(c->session) && !slice_eq(r.host, session_host(c->session))) {
        session_protocol_error(c->session, "REGISTER of another host than HELLO's");
        return;
    }
    uint8_t level = session_is_sealed(c->session) ? SEAL_PRIVATE : SEAL_NONE;
    struct worker *w;
    int e = workers_register(all->workers, &r, c, level, clock_boot_ns(), t1, &w);
    if (e < 0) {
        send_lease(c, LEASE_REFUSED, 0, r.t0_ns, t1, err_text(e));
        return;
    }
    c->worker = w;
    c->is_listing = false;
    note_address(c);
    c->origin = r.origin;
    c->key_told = 0;
    if (c->sampler)
        worker_set_samples(all->workers, w, sampler_origin(c->sampler), c->sampler);
    send_lease(c, LEASE_GRANTED, 0, r.t0_ns, t1, "");
    if (all->registered)
        all->registered(all->registered_arg, w);
}

/* Before the worker leaves: datagrams that it sent before are in the socket's queue by now, or lost; after it
 * they would not be its own any more. */
static void take_last_datagrams(const struct channel *c)
{
    const struct sessions *all = session_all(c->session);
    const struct worker *w = c->worker;
    if (w && w->sampler && w->state != WORKER_DEREGISTERED && all->drain)
        all->drain(all->drain_arg);
}

static void on_renew(struct channel *c, struct slice payload)
{
    int64_t t1 = clock_utc_ns();
    struct sessions *all = session_all(c->session);
    struct frame_renew r;
    if (frame_get_renew(payload, &r) < 0) {
        session_protocol_error(c->session, "malformed RENEW");
        return;
    }
    if (!c->worker) {
        send_lease(c, LEASE_UNKNOWN, r.number, r.t0_ns, t1, "register first");
        return;
    }
    worker_renew(all->workers, c->worker, &r, clock_boot_ns(), t1);
    bool is_leaving = r.flags & RENEW_LEAVING;
    if (is_leaving) {
        take_last_datagrams(c);
        worker_leave(all->workers, c->worker, t1);
    }
    send_lease(c, is_leaving ? LEASE_ENDED : LEASE_GRANTED, r.number, r.t0_ns, t1, "");
}

/* ---------------------------------------------------------------- samples */

static void on_samples_origin(struct channel *c, struct slice payload)
{
    struct sessions *all = session_all(c->session);
    struct frame_samples_origin o;
    if (frame_get_samples_origin(payload, &o) < 0 ||
        memcmp(o.origin.producer, c->origin.producer, sizeof o.origin.producer) == 0) {
        session_protocol_error(c->session, "malformed SAMPLES_ORIGIN, or that of HELLO");
        return;
    }
    struct slice host = c->worker ? slice_str(c->worker->host) : session_host(c->session);
    if (c->worker)
        c->worker->sampler = NULL;
    sampler_destroy(c->sampler);
    c->sampler = NULL;
    c->wants_ok = o.wants_ok;
    c->has_samples_counts = false;
    int r = sampler_create(all->ingest, &o.origin, host, &c->sampler);
    if (r < 0) {
        session_failed(c->session, r, "");
        return;
    }
    sampler_limit(c->sampler, session_limit(c->session, host));
    if (!c->worker)
        return;
    worker_set_samples(all->workers, c->worker, &o.origin, c->sampler);
    send_lease(c, LEASE_GRANTED, 0, 0, 0, "");
}

static void on_schema(struct channel *c, struct slice payload)
{
    struct diag why = {0};
    int r = sampler_schema(c->sampler, payload, &why);
    struct cursor number = cursor_of(payload);
    if (r < 0) {
        session_failed(c->session, r, why.message);
    } else if (c->wants_ok) {
        frame_put_schema_ok(out_of(c), c->number, cursor_u32(&number));
        session_send(c->session);
    }
}

static void on_stream(struct channel *c, struct slice payload)
{
    struct diag why = {0};
    int r = sampler_stream(c->sampler, payload, &why);
    struct cursor numbers = cursor_of(payload);
    if (r < 0) {
        session_failed(c->session, r, why.message);
    } else if (c->wants_ok) {
        struct frame_stream_ok ok = {.stream = cursor_u32(&numbers)};
        (void)cursor_u32(&numbers); /* the schema */
        ok.baseline = cursor_u32(&numbers);
        frame_put_stream_ok(out_of(c), c->number, &ok);
        session_send(c->session);
    }
}

static void on_samples(struct channel *c, struct slice payload)
{
    struct diag why = {0};
    int r = sampler_packet(c->sampler, payload, &why);
    if (r < 0)
        session_failed(c->session, r, why.message);
}

/* ---------------------------------------------------------------- the rest */

static void on_answer(struct channel *c, struct slice payload)
{
    struct frame_answer a;
    if (frame_get_answer(payload, &a) < 0)
        session_protocol_error(c->session, "malformed ANSWER");
    else if (c->worker && session_all(c->session)->control)
        control_answered(session_all(c->session)->control, c->worker, &a);
}

static void on_sensors(struct channel *c, struct slice payload)
{
    const struct sessions *all = session_all(c->session);
    struct frame_sensors list;
    if (frame_get_sensors(payload, &list) < 0) {
        session_protocol_error(c->session, "malformed SENSORS");
        return;
    }
    if (!c->worker || (!list.is_first && !c->is_listing)) {
        session_protocol_error(c->session,
                               c->worker ? "SENSORS that go on with no list" : "SENSORS before a lease");
        return;
    }
    c->is_listing = list.has_more;
    if (all->on_sensors)
        all->on_sensors(all->sensors_arg, c->worker, &list);
}

static void on_certify(struct channel *c, struct slice payload)
{
    struct sessions *all = session_all(c->session);
    struct frame_certify ask;
    struct frame_certified answer = {.status = CONTROL_FAILED};
    if (frame_get_certify(payload, &ask) < 0) {
        session_protocol_error(c->session, "malformed CERTIFY");
        return;
    }
    answer.text = SLICE_LIT("this gateway does not sign certificates");
    answer.chain = SLICE_LIT("");
    if (all->enrol)
        enrol_certify(all->enrol, session_who(c->session), &ask, clock_utc_ns(), &answer);
    frame_put_certified(out_of(c), &answer);
    session_send(c->session);
}

bool channel_takes(uint8_t type)
{
    return type == FRAME_SCHEMA || type == FRAME_STREAM || type == FRAME_SAMPLES ||
           type == FRAME_SAMPLES_ORIGIN || type == FRAME_REGISTER || type == FRAME_RENEW ||
           type == FRAME_ANSWER || type == FRAME_CERTIFY || type == FRAME_SENSORS;
}

void channel_frame(struct channel *c, const struct frame *f)
{
    if (f->type == FRAME_REGISTER)
        on_register(c, f->payload);
    else if (f->type == FRAME_RENEW)
        on_renew(c, f->payload);
    else if (f->type == FRAME_ANSWER)
        on_answer(c, f->payload);
    else if (f->type == FRAME_CERTIFY)
        on_certify(c, f->payload);
    else if (f->type == FRAME_SENSORS)
        on_sensors(c, f->payload);
    else if (f->type == FRAME_SAMPLES_ORIGIN)
        on_samples_origin(c, f->payload);
    else if (!c->sampler)
        session_protocol_error(c->session, "samples before SAMPLES_ORIGIN");
    else if (f->type == FRAME_SCHEMA)
        on_schema(c, f->payload);
    else if (f->type == FRAME_STREAM)
        on_stream(c, f->payload);
    else
        on_samples(c, f->payload);
}

void channel_counts(struct channel *c, struct slice payload)
{
    struct frame_counts counts;
    if (frame_get_counts(payload, &counts) < 0) {
        session_protocol_error(c->session, "malformed COUNTS, or they do not add up");
        return;
    }
    c->has_counts = c->has_counts || frame_same_origin(&counts.origin, &c->origin);
    c->has_samples_counts = c->has_samples_counts ||
                            (c->sampler && frame_same_origin(&counts.origin, sampler_origin(c->sampler)));
    ingest_counts(session_all(c->session)->ingest, payload, &counts);
}

void channel_bye(struct channel *c, uint16_t reason)
{
    struct sessions *all = session_all(c->session);
    if (reason != BYE_DONE)
        return;
    take_last_datagrams(c);
    if (c->has_counts)
        ingest_end_epoch(all->ingest, &c->origin);
    if (c->has_samples_counts && c->sampler)
        ingest_end_epoch(all->ingest, sampler_origin(c->sampler));
    if (c->worker)
        worker_leave(all->workers, c->worker, clock_utc_ns());
}

void channel_close(struct channel *c)
{
    struct sessions *all = session_all(c->session);
    struct worker *w = c->worker;
    c->worker = NULL;
    if (w && w->link == c) {
        worker_disconnected(all->workers, w, clock_boot_ns(), clock_utc_ns());
        if (all->control)
            control_disconnected(all->control, w);
    }
    sampler_destroy(c->sampler);
    c->sampler = NULL;
}
