/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upstream_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/block.h"
#include "net/join.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/random.h>

#define COUNTS_EVERY_NS (10 * NS_PER_S)

static void make_origin(struct frame_origin *o)
{
    *o = (struct frame_origin){.epoch = 1};
    if (getrandom(o->producer, sizeof o->producer, 0) != sizeof o->producer) {
        uint64_t t = (uint64_t)clock_utc_ns() ^ (uint64_t)clock_mono_ns()
                                                    << 20; /* before the pool is ready: at boot */
        memcpy(o->producer, &t, sizeof t);
    }
}

struct batch_clock upstream_clock(const struct upstream *u)
{
    return u->ops->clock ? u->ops->clock(u->arg) : (struct batch_clock){.bound_ns = CLOCK_BOUND_UNKNOWN};
}

/* The type is where the head has it. */
int upstream_send_frame(struct upstream *u)
{
    struct slice whole = strbuf_slice(&u->frame);
    int r = -ENOMEM;
    if (!strbuf_failed(&u->frame))
        r = uplink_send(u->link, (uint8_t)whole.p[4], slice_from(whole, FRAME_HEAD));
    strbuf_reset(&u->frame);
    return r;
}

/* ---------------------------------------------------------------- demand */

static void tell_demand(struct upstream *u, const struct frame_demand *d)
{
    u->has_demand = d->n > 0;
    if (u->ops->on_demand)
        u->ops->on_demand(u->arg, d);
}

void upstream_end_demand(struct upstream *u)
{
    if (u->has_demand)
        tell_demand(u, &(struct frame_demand){.list = SLICE_LIT("")});
}

static int on_demand(struct upstream *u, struct slice payload)
{
    struct frame_demand d;
    if (frame_get_demand(payload, &d) < 0)
        return E_PROTO;
    tell_demand(u, &d);
    return 0;
}

/* ---------------------------------------------------------------- the connection's callbacks */

static bool is_loopback(const struct sockaddr_storage *sa)
{
    if (sa->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;
    return sa->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127));
}

/* Who is at the other end, as far as the address tells. */
static void look_at_peer(struct upstream *u)
{
    short unused;
    socklen_t len = sizeof u->peer;
    u->peer = (struct sockaddr_storage){0};
    if (getpeername(uplink_wait_fd(u->link, &unused), (struct sockaddr *)&u->peer, &len) < 0)
        u->peer.ss_family = AF_UNSPEC; /* just gone; the connection's end is heard of soon */
    u->is_unix = u->peer.ss_family != AF_INET && u->peer.ss_family != AF_INET6;
    u->has_tls = slice_starts(slice_str(uplink_address(u->link)), SLICE_LIT("tls://"));
    u->is_trusted =
        u->peer.ss_family == AF_UNIX || u->has_tls || is_loopback(&u->peer) || u->takes_insecure_control;
}

static void on_ready(void *arg, const struct frame_welcome *w)
{
    struct upstream *u = arg;
    (void)w; /* the lease's exchange of clocks is as good, and is repeated */
    u->is_down = false;
    u->n_up++;
    look_at_peer(u);
    (void)upstream_set_rolling(u, u->is_unix); /* without memory: as it was, which works, too */
    upstream_certificate_up(u);
    upstream_lease_up(u);
    if (u->ops->on_state)
        u->ops->on_state(u->arg, true, uplink_address(u->link));
}

static void on_down(void *arg)
{
    struct upstream *u = arg;
    u->is_down = true;
    if (u->ring)
        ring_down(u->ring);
    upstream_end_demand(u);
    upstream_lease_down(u);
    upstream_datagram_down(u);
    if (u->ops->on_state)
        u->ops->on_state(u->arg, false, uplink_address(u->link));
}

/* ---------------------------------------------------------------- control */

int upstream_answer(struct upstream *u, const struct frame_answer *a)
{
    frame_put_answer(&u->frame, 0, a);
    return upstream_send_frame(u);
}

int upstream_sensors(struct upstream *u, struct slice frames)
{
    struct frame f;
    int64_t n;
    int r = 0;
    while (r == 0 && (n = frame_read(frames, FRAME_PAYLOAD_MAX, &f)) > 0) {
        r = uplink_send(u->link, f.type, f.payload);
        frames = slice_from(frames, (size_t)n);
    }
    return r;
}

uint32_t upstream_registration(const struct upstream *u)
{
    return u->lease.is_held ? u->lease.registrations : 0;
}

uint32_t upstream_connection(const struct upstream *u)
{
    return u->n_up;
}

static int on_control(struct upstream *u, struct slice payload)
{
    struct frame_control c;
    if (frame_get_control(payload, &c) < 0)
        return E_PROTO;
    if (u->is_trusted && u->ops->on_control) {
        u->ops->on_control(u->arg, &c);
        return 0;
    }
    u->control_refused++;
    const struct frame_answer no = {
        .request = c.request,
        .status = CONTROL_NOT_ALLOWED,
        .text = SLICE_LIT("this agent takes no orders from a gateway without TLS; join it, "
                          "or set insecure_control = true")};
    (void)upstream_answer(u, &no); /* the asker has a time limit of its own */
    return 0;
}

static int on_frame(void *arg, const struct frame *f)
{
    struct upstream *u = arg;
    switch (f->type) {
    case FRAME_LEASE:
        return upstream_lease_frame(u, f->payload);
    case FRAME_CONTROL:
        return on_control(u, f->payload);
    case FRAME_DEMAND:
        return on_demand(u, f->payload);
    case FRAME_STREAM_OK:
        return upstream_stream_ok(u, f->payload);
    case FRAME_SCHEMA_OK:
        return 0; /* STREAM_OK says it, too */
    case FRAME_CERTIFIED:
        return upstream_certified(u, f->payload);
    default:
        return f->type < FRAME_OPTIONAL ? E_PROTO : 0;
    }
}

static void on_done(void *arg, const struct frame_ack *ack, bool is_refused)
{
    struct upstream *u = arg;
    if (u->ring)
        ring_done(u->ring, &ack->origin, ack->seq, is_refused);
}

static const struct uplink_ops link_ops = {
    .on_ready = on_ready, .on_down = on_down, .on_frame = on_frame, .on_done = on_done};

/* ---------------------------------------------------------------- life */

static int open_link(struct upstream *u, const struct upstream_options *o, struct diag *why)
{
    struct uplink_options lo = {.host = o->host,
                                .prog = "gridline-agent",
                                .origin = u->origin,
                                .role = PEER_AGENT,
                                .flags = o->spool_dir ? UPLINK_SPOOL_FIRST : 0,
                                .queue_max = o->queue_max,
                                .ops = &link_ops,
                                .arg = u,
                                .transport = o->secure ? o->secure->transport : NULL,
                                .transport_ctx = o->identity};
    int r = uplink_open(slice_str(o->gateways), &lo, &u->link, why);
    if (r < 0)
        return r;
    if (!o->spool_dir)
        return 0;
    r = uplink_spool(u->link, o->spool_dir, o->spool_max, o->ops->on_mark, o->arg);
    if (r == -ENOSPC) { /* an agent that is silent because of a full disk helps nobody */
        log_error("the spool %s: %s; events wait in memory until the agent starts again", o->spool_dir,
                  err_text(r));
        return 0;
    }
    return r < 0 ? diag_set(why, r, 0, "the spool %s: %s", o->spool_dir,
                            r == -EBUSY ? "another agent uses it" : err_text(r))
                 : 0;
}

/* Its rows have the producer of the samples, and are its second epoch. */
static void open_ring(struct upstream *u, const struct upstream_options *o)
{
    struct frame_origin origin = u->samples_origin;
    origin.epoch++;
    int r = o->ring_dir ? ring_open(o->ring_dir, o->ring_max, &origin, u->host, &u->ring) : 0;
    if (r < 0)
        log_error("%s: %s; samples are dropped and counted while there is no gateway", o->ring_dir,
                  r == -EBUSY ? "another agent uses it" : err_text(r));
}

static void start_lease(struct upstream *u, const struct upstream_options *o)
{
    uint32_t time_ms = o->lease_ms ? o->lease_ms : UPSTREAM_LEASE_MS;
    u->lease.wanted_ms = o->lease_ms;
    u->lease.over_ns = o->is_guest ? clock_mono_ns() + time_ms * INT64_C(1000000) : INT64_MAX;
}

int upstream_create(const struct upstream_options *o, struct upstream **out, struct diag *why)
{
    struct upstream *u = mem_alloc(sizeof *u);
    *u = (struct upstream){.host = o->host,
                           .keeps_order = o->keeps_order,
                           .takes_insecure_control = o->takes_insecure_control,
                           .is_guest = o->is_guest,
                           .secure = o->secure,
                           .identity = o->identity,
                           .is_down = true,
                           .certify_ns = INT64_MAX,
                           .ops = o->ops,
                           .arg = o->arg};
    upstream_datagram_init(u);
    start_lease(u, o);
    make_origin(&u->origin);
    make_origin(&u->samples_origin);
    u->block = block_writer_create();
    int r = u->block ? upstream_set_rolling(u, true) : -ENOMEM;
    if (r == 0)
        r = open_link(u, o, why);
    if (r < 0) {
        upstream_destroy(u);
        return r;
    }
    open_ring(u, o);
    *out = u;
    return 0;
}

static void say_goodbye(struct upstream *u)
{
    uint64_t before[DROP_REASONS] = {[DROP_TOO_LARGE] = u->too_large};
    upstream_flush(u);
    upstream_tell_samples(u, true);
    upstream_lease_leave(u);
    static const struct upstream_ops nobody;
    u->ops = &nobody; /* the owner's other parts may be gone: what still comes is not for them */
    uplink_goodbye(u->link, u->seq + u->too_large, before);
    uplink_close(u->link);
}

void upstream_destroy(struct upstream *u)
{
    if (!u)
        return;
    if (u->link)
        say_goodbye(u);
    ring_close(u->ring);
    upstream_datagram_fini(u);
    samples_writer_destroy(u->samples);
    block_writer_destroy(u->block);
    mem_free(u->wires);
    strbuf_fini(&u->bytes);
    strbuf_fini(&u->frame);
    strbuf_fini(&u->packet);
    strbuf_fini(&u->schema);
    strbuf_fini(&u->stream);
    mem_free(u);
}

/* ---------------------------------------------------------------- events */

static void finish_block(struct upstream *u, struct slice mark_name, struct slice position)
{
    uint32_t n = (uint32_t)block_writer_count(u->block);
    struct batch_origin o = {
        .epoch = u->origin.epoch, .first_seq = u->seq - n + 1, .clock = upstream_clock(u)};
    memcpy(o.producer, u->origin.producer, sizeof o.producer);
    strbuf_reset(&u->bytes);
    if (n && block_writer_finish(u->block, &o, &u->bytes) < 0)
        return; /* no memory: the writer still has them, and the next round tries again */
    if (mark_name.n &&
        uplink_put_marked(u->link, strbuf_slice(&u->bytes), n, o.first_seq, mark_name, position) == 0)
        return;
    if (n) /* without a mark, or with one that can't be kept: then its sensor may say this again after a crash
            */
        uplink_put(u->link, strbuf_slice(&u->bytes), n, o.first_seq);
}

void upstream_event(struct upstream *u, const struct event *e)
{
    int r = block_writer_add(u->block, e);
    if (r == E_LIMIT) {
        finish_block(u, (struct slice){"", 0}, (struct slice){"", 0});
        r = block_writer_add(u->block, e);
    }
    if (r == 0)
        u->seq++;
    else
        u->too_large++;
}

void upstream_mark(struct upstream *u, const char *sensor, struct slice position)
{
    finish_block(u, slice_str(sensor), position);
}

void upstream_flush(struct upstream *u)
{
    u->has_flushed = true;
    upstream_send_packet(u);
    if (u->ring) {
        const struct batch_clock clock = upstream_clock(u);
        int r = ring_flush(u->ring, &clock);
        if (r < 0)
            log_error("samples that wait for the gateway can't be kept: %s; they are dropped and counted",
                      err_text(r));
    }
    if (block_writer_count(u->block))
        finish_block(u, (struct slice){"", 0}, (struct slice){"", 0});
    (void)uplink_commit(u->link); /* what the disk does not take waits in memory or is counted there */
}

/* ---------------------------------------------------------------- moving along */

static int sooner_ms(int ms, int64_t until_ns, int64_t now_ns)
{
    if (until_ns == INT64_MAX)
        return ms;
    int64_t left = until_ns > now_ns ? (until_ns - now_ns + 999999) / 1000000 : 0;
    return ms >= 0 && ms < left ? ms : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Sends what waits in the ring, a block at a time; when to come back. */
static int64_t drain_ring(struct upstream *u)
{
    struct slice block;
    int64_t next_ns = INT64_MAX;
    if (!u->ring || u->is_down || !u->lease.is_held)
        return INT64_MAX;
    if (u->has_begun && !u->keeps_order)
        ring_rest(u->ring);
    if (ring_next(u->ring, u->now_ns, &block, &next_ns) && uplink_send(u->link, FRAME_BATCH, block) < 0)
        ring_down(u->ring); /* too much waits to be sent: again later */
    return next_ns;
}

int upstream_pump(struct upstream *u, int64_t now_ns)
{
    u->now_ns = now_ns;
    if (!u->is_down && now_ns - u->counts_at_ns >= COUNTS_EVERY_NS)
        upstream_tell_samples(u, false);
    upstream_lease_keep(u, now_ns);
    if (!u->is_down)
        upstream_certificate_keep(u);
    int64_t ring_ns = drain_ring(u);
    int ms = uplink_pump(u->link, now_ns);
    if (u->lease.must_break) {
        uplink_break(u->link, now_ns);
        u->lease.must_break = false;
        ms = uplink_pump(u->link, now_ns);
    }
    return sooner_ms(sooner_ms(ms, upstream_lease_next_ns(u), now_ns), ring_ns, now_ns);
}

int upstream_wait_fd(const struct upstream *u, short *events)
{
    return uplink_wait_fd(u->link, events);
}

uint32_t upstream_dials(const struct upstream *u)
{
    return uplink_dials(u->link);
}

bool upstream_is_up(const struct upstream *u)
{
    return uplink_is_ready(u->link);
}

const char *upstream_why(const struct upstream *u)
{
    return uplink_why(u->link);
}

bool upstream_is_idle(const struct upstream *u)
{
    struct uplink_counts c;
    uplink_counts(u->link, &c);
    return c.queued == 0;
}

void upstream_counts(const struct upstream *u, struct upstream_counts *out)
{
    uplink_counts(u->link, &out->events);
    out->events.given += u->too_large + block_writer_count(u->block);
    out->events.queued += block_writer_count(u->block);
    out->events.dropped[DROP_TOO_LARGE] += u->too_large;
    out->samples = u->counts;
    if (u->ring) {
        struct uplink_counts k;
        ring_counts(u->ring, &k);
        out->samples.given += k.given;
        out->samples.passed += k.passed;
        out->samples.queued += k.queued;
        for (size_t i = 0; i < DROP_REASONS; i++)
            out->samples.dropped[i] += k.dropped[i];
    }
    out->datagrams = u->datagrams.total + u->datagrams.sent;
    out->control_refused = u->control_refused;
    uplink_bytes(u->link, &out->bytes_sent, &out->bytes_received);
}
