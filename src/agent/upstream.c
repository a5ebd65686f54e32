/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upstream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"
#include "event/samples.h"

#include <errno.h>
#include <sys/random.h>

#define COUNTS_EVERY_NS (10 * NS_PER_S)

struct upstream {
    struct uplink *link;
    const char *host; /* borrowed */
    bool spools_samples;
    void (*on_state)(void *arg, bool is_up, const char *address);
    void *arg;

    /* Events: */
    struct frame_origin origin;
    uint64_t seq; /* the last one given */
    struct block_writer *block;
    struct strbuf bytes;
    uint64_t too_large;

    /* Samples: */
    struct frame_origin samples_origin;
    struct samples_writer *samples;
    uint32_t connection; /* counts connections: streams are announced anew on each */
    bool is_down;        /* no connection */
    bool has_begun;      /* SAMPLES_ORIGIN was sent on this one */
    struct strbuf packet, schema, stream;
    struct uplink_counts counts;
    uint64_t counts_told; /* what COUNTS last said was taken */
    int64_t counts_at_ns;
};

static const struct batch_clock local_clock = {.bound_ns = CLOCK_BOUND_UNKNOWN};

static void make_origin(struct frame_origin *o)
{
    *o = (struct frame_origin){.epoch = 1};
    if (getrandom(o->producer, sizeof o->producer, 0) != sizeof o->producer) {
        uint64_t t = (uint64_t)clock_utc_ns() ^ (uint64_t)clock_mono_ns()
                                                    << 20; /* before the pool is ready: at boot */
        memcpy(o->producer, &t, sizeof t);
    }
}

/* ---------------------------------------------------------------- the connection's callbacks */

static void drop_rows(struct upstream *u, uint64_t n, enum drop_reason reason)
{
    u->counts.dropped[reason] += n;
}

/* The receiver knows nothing of our streams, or must forget them: SAMPLES_ORIGIN tells it, and everything is
 * announced anew. If even that can't be sent now, the next sample tries again. */
static void begin_samples(struct upstream *u)
{
    u->connection++;
    drop_rows(u, samples_writer_rows(u->samples), DROP_UNWRITABLE); /* made for the connection before */
    samples_writer_reset(u->samples);
    strbuf_reset(&u->packet);
    frame_put_samples_origin(&u->packet, &(struct frame_samples_origin){.origin = u->samples_origin});
    u->has_begun =
        !strbuf_failed(&u->packet) &&
        uplink_send(u->link, FRAME_SAMPLES_ORIGIN, slice_from(strbuf_slice(&u->packet), FRAME_HEAD)) == 0;
}

static void on_ready(void *arg, const struct frame_welcome *w)
{
    struct upstream *u = arg;
    (void)w; /* its times are for the global clock, which is the gateway's issue */
    u->is_down = false;
    begin_samples(u);
    if (u->on_state)
        u->on_state(u->arg, true, uplink_address(u->link));
}

static void on_down(void *arg)
{
    struct upstream *u = arg;
    u->is_down = true;
    if (u->on_state)
        u->on_state(u->arg, false, uplink_address(u->link));
}

static int on_frame(void *arg, const struct frame *f)
{
    (void)arg, (void)f; /* control comes with the gateway's side; a frame that is not known yet is no error */
    return 0;
}

static const struct uplink_ops link_ops = {.on_ready = on_ready, .on_down = on_down, .on_frame = on_frame};

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
                                .arg = u};
    int r = uplink_open(slice_str(o->gateways), &lo, &u->link, why);
    if (r < 0)
        return r;
    if (!o->spool_dir)
        return 0;
    r = uplink_spool(u->link, o->spool_dir, o->spool_max, o->on_mark, o->arg);
    return r < 0 ? diag_set(why, r, 0, "the spool %s: %s", o->spool_dir,
                            r == -EBUSY ? "another agent uses it" : err_text(r))
                 : 0;
}

int upstream_create(const struct upstream_options *o, struct upstream **out, struct diag *why)
{
    struct upstream *u = mem_alloc(sizeof *u);
    *u = (struct upstream){.host = o->host,
                           .spools_samples = o->spools_samples,
                           .is_down = true,
                           .on_state = o->on_state,
                           .arg = o->arg};
    make_origin(&u->origin);
    make_origin(&u->samples_origin);
    u->block = block_writer_create();
    u->samples = samples_writer_create(SAMPLES_ROLL);
    int r = u->block && u->samples ? open_link(u, o, why) : -ENOMEM;
    if (r < 0) {
        upstream_destroy(u);
        return r;
    }
    *out = u;
    return 0;
}

static void tell_counts(struct upstream *u, bool is_final)
{
    struct frame_counts c = {.origin = u->samples_origin,
                             .class = 1,
                             .is_final = is_final,
                             .taken = u->counts.given,
                             .passed = u->counts.passed,
                             .queued = samples_writer_rows(u->samples)};
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] = u->counts.dropped[i];
    strbuf_reset(&u->packet);
    frame_put_counts(&u->packet, &c);
    if (strbuf_failed(&u->packet) ||
        uplink_send(u->link, FRAME_COUNTS, slice_from(strbuf_slice(&u->packet), FRAME_HEAD)) < 0)
        return; /* the next one says it: they are cumulative */
    u->counts_told = c.taken;
}

void upstream_destroy(struct upstream *u)
{
    if (!u)
        return;
    if (u->link) {
        uint64_t before[DROP_REASONS] = {[DROP_TOO_LARGE] = u->too_large};
        upstream_flush(u);
        tell_counts(u, true);
        uplink_goodbye(u->link, u->seq + u->too_large, before);
        uplink_close(u->link);
    }
    samples_writer_destroy(u->samples);
    block_writer_destroy(u->block);
    strbuf_fini(&u->bytes);
    strbuf_fini(&u->packet);
    strbuf_fini(&u->schema);
    strbuf_fini(&u->stream);
    mem_free(u);
}

/* ---------------------------------------------------------------- samples */

/* What is in the writer goes out as one packet. Rows get their numbers when they are handed over: what is
 * dropped here has none, COUNTS tells of it. */
static void send_packet(struct upstream *u)
{
    uint64_t rows = samples_writer_rows(u->samples);
    if (rows == 0)
        return;
    strbuf_reset(&u->packet);
    uint64_t first = u->counts.passed + 1;
    int r = samples_writer_finish(u->samples, first, &local_clock, &u->packet);
    if (r == 0)
        r = uplink_send(u->link, FRAME_SAMPLES, strbuf_slice(&u->packet));
    if (r == 0) {
        u->counts.passed += rows;
        return;
    }
    /* The receiver's baselines are those of before the packet, ours are not. */
    drop_rows(u, rows, r == -ENOMEM ? DROP_MEMORY : DROP_UNWRITABLE);
    samples_writer_reset(u->samples); /* forgets them, if it was finish that failed */
    begin_samples(u);
}

static int announce(struct upstream *u, struct stream *s, const struct value *values)
{
    strbuf_reset(&u->schema);
    strbuf_reset(&u->stream);
    int r = samples_writer_announce(u->samples, s->schema, SLICE_LIT("gridline-agent"), values, &u->schema,
                                    &u->stream, &s->wire);
    if (r < 0)
        return r;
    if (u->schema.n)
        r = uplink_send(u->link, FRAME_SCHEMA, strbuf_slice(&u->schema));
    if (r == 0)
        r = uplink_send(u->link, FRAME_STREAM, strbuf_slice(&u->stream));
    if (r == 0)
        s->wire_connection = u->connection;
    else
        begin_samples(u); /* the receiver has not heard what the writer takes for known */
    return r;
}

static int add_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values)
{
    int r = 0;
    if (!u->has_begun)
        begin_samples(u);
    if (!u->has_begun)
        return -EAGAIN;
    /* The rows before it go first: if the announcement can't be sent, everything begins anew. */
    if (s->wire_connection != u->connection) {
        send_packet(u);
        r = u->has_begun ? announce(u, s, values) : -EAGAIN;
    }
    if (r < 0)
        return r;
    r = samples_writer_add(u->samples, s->wire, time_ns, values);
    if (r == E_LIMIT && samples_writer_rows(u->samples)) {
        send_packet(u);
        r = s->wire_connection == u->connection ? samples_writer_add(u->samples, s->wire, time_ns, values)
                                                : -EAGAIN;
    }
    return r;
}

void upstream_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values)
{
    const struct event e = {.time_ns = time_ns,
                            .host = slice_str(u->host),
                            .prog = SLICE_LIT("gridline-agent"),
                            .schema = s->schema,
                            .values = values,
                            .level = LEVEL_INFO};
    if (u->is_down && u->spools_samples) {
        upstream_event(u, &e);
        return;
    }
    u->counts.given++;
    if (u->is_down) {
        drop_rows(u, 1, DROP_UNWRITABLE);
        return;
    }
    int r = add_sample(u, s, time_ns, values);
    if (r == E_LIMIT)
        drop_rows(u, 1, DROP_TOO_LARGE);
    else if (r < 0)
        drop_rows(u, 1, r == -ENOMEM ? DROP_MEMORY : DROP_UNWRITABLE);
}

/* ---------------------------------------------------------------- events */

static void finish_block(struct upstream *u, struct slice mark_name, struct slice position)
{
    uint32_t n = (uint32_t)block_writer_count(u->block);
    struct batch_origin o = {.epoch = u->origin.epoch, .first_seq = u->seq - n + 1, .clock = local_clock};
    memcpy(o.producer, u->origin.producer, sizeof o.producer);
    strbuf_reset(&u->bytes);
    if (n && block_writer_finish(u->block, &o, &u->bytes) < 0)
        return; /* no memory: the writer still has them, and the next round tries again */
    if (mark_name.n && uplink_put_marked(u->link, strbuf_slice(&u->bytes), n, o.first_seq, mark_name, position) == 0)
        return;
    if (n) /* without a mark, or with one that can't be kept: then its sensor may say this again after a crash */
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
    send_packet(u);
    if (block_writer_count(u->block))
        finish_block(u, (struct slice){"", 0}, (struct slice){"", 0});
    (void)uplink_commit(u->link); /* what the disk does not take waits in memory or is counted there */
}

int upstream_pump(struct upstream *u, int64_t now_ns)
{
    if (!u->is_down && u->counts.given != u->counts_told && now_ns - u->counts_at_ns >= COUNTS_EVERY_NS) {
        u->counts_at_ns = now_ns;
        tell_counts(u, false);
    }
    return uplink_pump(u->link, now_ns);
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
    uplink_bytes(u->link, &out->bytes_sent, &out->bytes_received);
}
