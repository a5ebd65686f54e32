/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, their packets, and which way each row goes.
 *
 * Where datagrams are out of the question (a Unix socket, a gateway without them) packets are rolling: each
 * row is the next one's baseline. Otherwise rows are differences to announced baselines, so that a packet can
 * go either way: as a datagram when the gateway has said STREAM_OK for all of its streams' baselines and
 * datagrams arrive, else over the connection. Order of frames there makes that safe at once, so nothing waits
 * for an acknowledgement.
 *
 * A baseline grows old: differences get longer. It is announced anew, with the row at hand, when a row takes
 * over twice the bytes of the first one after it (not more often than every 30 s), after ten minutes, and at
 * once for a row of `vector` that would not fit its 128 bytes. Until STREAM_OK comes the stream's rows go
 * over the connection: no gap, no loss.
 *
 * `vector` has a datagram to itself; other rows share one as long as they fit. `clock`, of which there is one
 * for each renewal, goes with these over the connection: a host that nobody asks for anything sends no
 * datagrams but probes. */
#include "agent/upstream_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>

static void drop_rows(struct upstream *u, uint64_t n, enum drop_reason reason)
{
    u->counts.dropped[reason] += n;
}

/* SAMPLES_ORIGIN tells the receiver to forget, and everything is announced anew. If even that can't be sent
 * now, the next sample tries again. */
void upstream_begin_samples(struct upstream *u)
{
    u->connection++;
    drop_rows(u, samples_writer_rows(u->samples), DROP_UNWRITABLE); /* made for the connection before */
    samples_writer_reset(u->samples);
    u->n_wires = 0;
    frame_put_samples_origin(
        &u->frame, &(struct frame_samples_origin){.origin = u->samples_origin, .wants_ok = !u->is_rolling});
    u->has_begun = upstream_send_frame(u) == 0;
    if (u->has_begun)
        upstream_datagram_begin(u);
}

int upstream_set_rolling(struct upstream *u, bool is_rolling)
{
    if (u->samples && u->is_rolling == is_rolling)
        return 0;
    struct samples_writer *w = samples_writer_create(is_rolling ? SAMPLES_ROLL : 0);
    if (!w)
        return -ENOMEM;
    if (u->samples)
        drop_rows(u, samples_writer_rows(u->samples), DROP_UNWRITABLE);
    samples_writer_destroy(u->samples);
    u->samples = w;
    u->is_rolling = is_rolling;
    u->has_begun = false;
    u->connection++;
    return 0;
}

static void tell_ring(struct upstream *u, bool is_final)
{
    struct frame_counts c;
    while (u->ring && !u->is_down && ring_tell(u->ring, is_final, &c)) {
        frame_put_counts(&u->frame, &c);
        (void)upstream_send_frame(u); /* they are cumulative, and told again when they change */
    }
}

void upstream_tell_samples(struct upstream *u, bool is_final)
{
    tell_ring(u, is_final);
    uint64_t state = u->counts.given + u->counts.passed; /* both only grow, and what is dropped was given */
    if (!is_final && state == u->counts_told)
        return;
    struct frame_counts c = {.origin = u->samples_origin,
                             .class = CLASS_SAMPLES,
                             .is_final = is_final,
                             .taken = u->counts.given,
                             .passed = u->counts.passed,
                             .queued = samples_writer_rows(u->samples)};
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] = u->counts.dropped[i];
    frame_put_counts(&u->frame, &c);
    if (upstream_send_frame(u) < 0)
        return; /* the next one says it: they are cumulative */
    u->counts_told = state;
    u->counts_at_ns = u->now_ns;
}

/* ---------------------------------------------------------------- packets */

static int hand_over(struct upstream *u)
{
    if (u->packet_way == WAY_DATAGRAMS)
        return upstream_datagram_send(u, strbuf_slice(&u->packet));
    return uplink_send(u->link, FRAME_SAMPLES, strbuf_slice(&u->packet));
}

/* What is in the writer goes out as one packet. Rows get their numbers when they are handed over: what is
 * dropped here has none, COUNTS tells of it. */
void upstream_send_packet(struct upstream *u)
{
    uint64_t rows = samples_writer_rows(u->samples);
    if (rows == 0)
        return;
    strbuf_reset(&u->packet);
    if (upstream_clock(u).bound_ns == CLOCK_BOUND_UNKNOWN)
        u->packet_clock.bound_ns =
            CLOCK_BOUND_UNKNOWN; /* local UTC was set since the first row (flow.h); takes no more room */
    int r = samples_writer_finish(u->samples, u->counts.passed + 1, &u->packet_clock, &u->packet);
    bool is_made = r == 0;
    if (is_made)
        r = hand_over(u);
    if (r == 0) {
        u->counts.passed += rows;
        return;
    }
    drop_rows(u, rows, r == -ENOMEM ? DROP_MEMORY : DROP_UNWRITABLE);
    if (is_made && !u->is_rolling)
        return; /* nothing depends on it */
    /* The receiver's baselines are those of before the packet, ours are not; or finish failed and has it
     * still. */
    samples_writer_reset(u->samples);
    upstream_begin_samples(u);
}

/* ---------------------------------------------------------------- streams */

static struct wire *wire_of(struct upstream *u, const struct stream *s)
{
    return s->wire_connection == u->connection ? &u->wires[s->wire - 1] : NULL;
}

static int reserve_wire(struct upstream *u)
{
    if (u->n_wires < u->cap_wires)
        return 0;
    size_t cap = u->cap_wires ? u->cap_wires * 2 : 32;
    struct wire *wires = mem_try_resize(u->wires, cap * sizeof *wires);
    if (!wires)
        return -ENOMEM;
    u->wires = wires;
    u->cap_wires = cap;
    return 0;
}

/* What the writer has just announced. */
static int send_announcement(struct upstream *u)
{
    int r = 0;
    if (u->schema.n)
        r = uplink_send(u->link, FRAME_SCHEMA, strbuf_slice(&u->schema));
    if (r == 0)
        r = uplink_send(u->link, FRAME_STREAM, strbuf_slice(&u->stream));
    if (r < 0)
        upstream_begin_samples(u); /* the receiver has not heard what the writer takes for known */
    return r;
}

static struct wire fresh_wire(const struct upstream *u, uint32_t number)
{
    return (struct wire){.baseline = samples_writer_baseline(u->samples, number), .announced_ns = u->now_ns};
}

static int announce(struct upstream *u, struct stream *s, const struct value *values)
{
    strbuf_reset(&u->schema);
    strbuf_reset(&u->stream);
    int r = reserve_wire(u);
    if (r == 0)
        r = samples_writer_announce(u->samples, s->schema, SLICE_LIT("gridline-agent"), values, &u->schema,
                                    &u->stream, &s->wire);
    if (r < 0)
        return r;
    uint32_t connection = u->connection;
    u->wires[u->n_wires++] = fresh_wire(u, s->wire);
    r = send_announcement(u);
    if (r == 0)
        s->wire_connection = connection;
    return r;
}

/* The packet before it is sent: the writer has no rows. */
static int rebase(struct upstream *u, struct stream *s, const struct value *values)
{
    strbuf_reset(&u->schema);
    strbuf_reset(&u->stream);
    int r = samples_writer_rebase(u->samples, s->wire, values, &u->stream);
    if (r < 0)
        return r;
    u->wires[s->wire - 1] = fresh_wire(u, s->wire);
    return send_announcement(u);
}

int upstream_stream_ok(struct upstream *u, struct slice payload)
{
    struct frame_stream_ok ok;
    if (frame_get_stream_ok(payload, &ok) < 0)
        return E_PROTO;
    /* One of before everything was announced anew names an older baseline, or is for a number not given again
     * yet. */
    if (!u->is_rolling && ok.stream >= 1 && ok.stream <= u->n_wires &&
        u->wires[ok.stream - 1].baseline == ok.baseline)
        u->wires[ok.stream - 1].is_known = true;
    return 0;
}

static bool is_stale(const struct upstream *u, const struct wire *w)
{
    int64_t age = u->now_ns - w->announced_ns;
    if (!w->is_known || w->bytes_base == 0)
        return false;
    return age >= UPSTREAM_REBASE_S * NS_PER_S ||
           (age >= UPSTREAM_REBASE_MIN_S * NS_PER_S && w->bytes > 2 * w->bytes_base);
}

/* ---------------------------------------------------------------- rows */

static bool is_vector(const struct stream *s)
{
    return slice_eq(s->schema->name, SLICE_LIT("vector"));
}

/* Opens a packet for a row of that way, unless the one being made will do. */
static void choose_packet(struct upstream *u, enum upstream_way way, bool is_alone)
{
    size_t rows = samples_writer_rows(u->samples);
    if (rows && (way != u->packet_way || is_alone || u->packet_is_alone))
        upstream_send_packet(u);
    if (samples_writer_rows(u->samples))
        return;
    u->packet_way = way;
    u->packet_is_alone = is_alone;
    u->packet_clock = upstream_clock(u);
    size_t datagram = is_alone ? UPSTREAM_VECTOR_MAX : DATAGRAM_MAX;
    samples_writer_limit(u->samples,
                         way == WAY_STREAM ? 0 : upstream_datagram_room(u, datagram, u->counts.passed + 1));
}

static void note_size(struct wire *w, size_t bytes, bool is_first)
{
    w->bytes = bytes < UINT16_MAX ? (uint16_t)bytes : UINT16_MAX;
    if (!is_first && w->bytes_base == 0)
        w->bytes_base = w->bytes;
}

/* One that is full is sent and the row tried again. */
static int add_row(struct upstream *u, struct stream *s, enum upstream_way way, int64_t time_ns,
                   const struct value *values)
{
    uint32_t connection = u->connection;
    bool is_alone = way == WAY_DATAGRAMS && is_vector(s);
    choose_packet(u, way, is_alone);
    int r = connection == u->connection ? samples_writer_add(u->samples, s->wire, time_ns, values) : -EAGAIN;
    if (r != E_LIMIT || samples_writer_rows(u->samples) == 0)
        return r;
    upstream_send_packet(u);
    choose_packet(u, way, is_alone);
    return connection == u->connection ? samples_writer_add(u->samples, s->wire, time_ns, values) : -EAGAIN;
}

static int add_with_size(struct upstream *u, struct stream *s, enum upstream_way way, int64_t time_ns,
                         const struct value *values, bool is_first)
{
    size_t rows = samples_writer_rows(u->samples), before = samples_writer_bytes(u->samples);
    int r = add_row(u, s, way, time_ns, values);
    struct wire *w = r == 0 ? wire_of(u, s) : NULL;
    if (w)
        note_size(
            w, samples_writer_bytes(u->samples) - (samples_writer_rows(u->samples) == rows + 1 ? before : 0),
            is_first);
    return r;
}

/* The stream is announced, and has a new baseline if it is time for one. 1: it was announced just now. */
static int ready_stream(struct upstream *u, struct stream *s, const struct value *values)
{
    struct wire *w = wire_of(u, s);
    bool is_new = !w;
    if (w && (u->is_rolling || !is_stale(u, w)))
        return 0;
    /* The rows before it go first: if the announcement can't be sent, everything begins anew. */
    upstream_send_packet(u);
    if (!u->has_begun)
        return -EAGAIN;
    if (!is_new && !wire_of(u, s))
        is_new = true; /* the packet could not be sent: all is forgotten */
    int r = is_new ? announce(u, s, values) : rebase(u, s, values);
    if (r == E_LIMIT && is_new && u->n_wires >= SAMPLES_STREAMS_MAX)
        return -ENOBUFS;
    return r < 0 ? r : 1;
}

static int add_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values)
{
    if (!u->has_begun && !u->lease.is_wanted) /* they are a worker's: registering comes first */
        upstream_begin_samples(u);
    if (!u->has_begun)
        return -EAGAIN;
    int r = ready_stream(u, s, values);
    if (r < 0)
        return r;
    bool may_be_datagram = !s->is_of_lease && wire_of(u, s)->is_known && u->datagrams.way == WAY_DATAGRAMS &&
                           u->datagrams.is_counted;
    if (!may_be_datagram)
        return add_with_size(u, s, WAY_STREAM, time_ns, values, r == 1);
    r = add_with_size(u, s, WAY_DATAGRAMS, time_ns, values, false);
    if (r != E_LIMIT || !wire_of(u, s))
        return r;
    /* It does not fit a datagram, alone as it is: the connection takes it, of `vector` as the next baseline.
     */
    r = is_vector(s) ? rebase(u, s, values) : 0;
    return r < 0 ? r : add_with_size(u, s, WAY_STREAM, time_ns, values, is_vector(s));
}

void upstream_overflow(struct upstream *u)
{
    u->counts.given++;
    drop_rows(u, 1, DROP_STREAMS);
}

/* Samples that can't be sent now go to the ring. */
void upstream_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values)
{
    bool waits = u->is_down || (u->keeps_order && u->ring && !ring_is_empty(u->ring));
    int r = waits ? -EAGAIN : add_sample(u, s, time_ns, values);
    if (u->ring && (r == -EAGAIN || r == -ENOTCONN)) {
        const struct batch_clock clock = upstream_clock(u);
        ring_sample(u->ring, s, time_ns, values, &clock);
        return;
    }
    u->counts.given++;
    if (r < 0)
        drop_rows(u, 1,
                  r == E_LIMIT    ? DROP_TOO_LARGE
                  : r == -ENOBUFS ? DROP_STREAMS
                  : r == -ENOMEM  ? DROP_MEMORY
                                  : DROP_UNWRITABLE);
}
