/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's end of lease, datagrams and control, against a gateway made of sockets. Time is the test's:
 * what depends on it is asked for by moving it. */
#include "unit/agent/fake_gateway.h"

#include "agent/upstream_internal.h"
#include "base/clock.h"
#include "base/mem.h"

#define MS INT64_C(1000000)

enum { LEASE = 30000, RENEW = 10000, WORKER = 77 };

/* An agent, what it was told, and a receiver for its samples. */
struct world {
    struct fake_gateway g[2];
    struct upstream *u;
    int64_t now_ns;
    struct upstream_options options;

    unsigned leases, refusals, exchanges, overs, settings, questions;
    uint32_t worker;
    bool is_denied;
    char why[200], key[64], value[64], verb[64];
    struct timesync_exchange exchange;
    unsigned ways, demands;
    enum upstream_way way;
    uint32_t demanded; /* requests of the last demand */
    int64_t demand_cpu_ns;

    struct sensor_config config;
    struct streams *streams;
    struct value row[32];

    struct registry *registry;
    struct samples_scratch *scratch;
    struct samples_reader *reader;
    struct batch_builder *builder;
    size_t fed;        /* frames of g[0] that the reader has seen */
    uint64_t rows;     /* that it gave */
    uint64_t next_seq; /* 0 = any */
    struct value last[32];
    size_t largest;    /* datagram */
    uint64_t received; /* datagrams, probes too */
    uint64_t datagram_rows, stream_rows;
    uint64_t came, lost; /* datagrams that the socket had; of them dropped, with a row each */
    uint64_t passed_before;
    bool drops_datagrams;
};

/* ---------------------------------------------------------------- what upstream tells */

static void on_lease(void *arg, uint32_t worker, const char *address, uint32_t lease_ms)
{
    struct world *w = arg;
    (void)address;
    assert_true(lease_ms > 0);
    w->leases++;
    w->worker = worker;
}

static void on_refused(void *arg, const char *address, bool is_denied, struct slice why)
{
    struct world *w = arg;
    (void)address;
    w->refusals++;
    w->is_denied = is_denied;
    (void)snprintf(w->why, sizeof w->why, "%.*s", SLICE_ARG(why));
}

static void on_exchange(void *arg, const struct timesync_exchange *x)
{
    struct world *w = arg;
    w->exchanges++;
    w->exchange = *x;
}

static void on_over(void *arg, const char *why)
{
    struct world *w = arg;
    w->overs++;
    (void)snprintf(w->why, sizeof w->why, "%s", why);
}

static void on_way(void *arg, enum upstream_way way, const char *why)
{
    struct world *w = arg;
    (void)why;
    w->ways++;
    w->way = way;
}

static void on_settings(void *arg, struct args settings)
{
    struct world *w = arg;
    struct arg a;
    w->settings++;
    while (args_next(&settings, &a)) {
        (void)snprintf(w->key, sizeof w->key, "%.*s", SLICE_ARG(a.name));
        (void)snprintf(w->value, sizeof w->value, "%.*s", SLICE_ARG(value_slice(a.value)));
    }
}

static void on_control(void *arg, const struct frame_control *c)
{
    struct world *w = arg;
    w->questions++;
    (void)snprintf(w->verb, sizeof w->verb, "%.*s", SLICE_ARG(c->verb));
    const struct frame_answer a = {.request = c->request, .status = CONTROL_DONE, .text = SLICE_LIT("yes")};
    assert_int_equal(upstream_answer(w->u, &a), 0);
}

static void on_demand(void *arg, const struct frame_demand *d)
{
    struct world *w = arg;
    w->demands++;
    w->demanded = d->n;
    w->demand_cpu_ns = demand_period_ns(d->list, SLICE_LIT("cpu"), NS_PER_S);
}

static void describe(void *arg, struct args_writer *properties, struct args_writer *settings)
{
    (void)arg;
    args_add_uint(properties, "cpus", 8);
    args_add_text(settings, "vector.every", SLICE_LIT("1s"));
}

static struct batch_clock clock_of(void *arg)
{
    (void)arg;
    return (struct batch_clock){.offset_ns = -3 * NS_PER_S, .bound_ns = 900 * 1000, .generation = 2};
}

static const struct upstream_ops ops = {.describe = describe,
                                        .on_lease = on_lease,
                                        .on_refused = on_refused,
                                        .on_settings = on_settings,
                                        .on_exchange = on_exchange,
                                        .on_control = on_control,
                                        .on_demand = on_demand,
                                        .on_way = on_way,
                                        .on_over = on_over,
                                        .clock = clock_of};

/* ---------------------------------------------------------------- the world */

static void world_open(struct world *w)
{
    *w = (struct world){.now_ns = clock_mono_ns()};
    fake_open(&w->g[0]);
    fake_open(&w->g[1]);
    w->options =
        (struct upstream_options){.gateways = w->g[0].address, .host = "node7", .ops = &ops, .arg = w};
    w->config = (struct sensor_config){.ops = sensor_find(SLICE_LIT("vector")),
                                       .name = "vector",
                                       .every_ns = NS_PER_S,
                                       .refresh_ns = NS_PER_S};
    w->streams = streams_create(&w->config);
    w->registry = registry_create();
    w->scratch = samples_scratch_create();
    w->reader = samples_reader_create(w->registry, w->scratch);
    w->builder = batch_builder_create(w->registry, 0);
}

static void start(struct world *w)
{
    struct diag why = {0};
    if (upstream_create(&w->options, &w->u, &why) < 0)
        fail_msg("%s", why.message);
}

static void world_close(struct world *w)
{
    upstream_destroy(w->u);
    streams_destroy(w->streams);
    fake_close(&w->g[0]);
    fake_close(&w->g[1]);
    samples_reader_destroy(w->reader);
    samples_scratch_destroy(w->scratch);
    batch_builder_destroy(w->builder);
    registry_destroy(w->registry);
}

/* Both ends do what there is to do, at the same moment of the test's time. */
static void turn(struct world *w)
{
    (void)upstream_pump(w->u, w->now_ns);
    fake_pump(&w->g[0]);
    fake_pump(&w->g[1]);
}

/* Until the condition holds: bytes need a moment on their way, whatever the test's time. */
#define until(w, condition)                        \
    do {                                           \
        int tries_ = 0;                            \
        for (turn(w); !(condition); turn(w)) {     \
            (void)poll(NULL, 0, 1);                \
            if (++tries_ > 20000)                  \
                fail_msg("never: %s", #condition); \
        }                                          \
    } while (0)

/* Time for everything that could still come to be there: for what must not happen. */
static void settle(struct world *w)
{
    for (int i = 0; i < 20; i++) {
        turn(w);
        (void)poll(NULL, 0, 1);
    }
}

static void pass(struct world *w, int64_t ms)
{
    w->now_ns += ms * MS;
}

/* ---------------------------------------------------------------- the gateway's answers */

static void lease_as(struct world *w, struct fake_gateway *g, const struct frame_lease *like)
{
    struct frame_lease l = *like;
    struct strbuf out = {0};
    (void)w;
    if (l.status == LEASE_GRANTED) {
        l.worker = WORKER;
        l.lease_ms = l.lease_ms ? l.lease_ms : LEASE;
        l.renew_ms = l.renew_ms ? l.renew_ms : RENEW;
    }
    frame_put_lease(&out, 0, &l);
    fake_send(g, &out);
}

/* REGISTER and SAMPLES_ORIGIN have come: both are answered. */
static void grant(struct world *w, struct fake_gateway *g, const struct frame_lease *like)
{
    struct slice payload;
    struct frame_register r;
    struct frame_lease l = *like;
    until(w, fake_count(g, FRAME_SAMPLES_ORIGIN) > 0);
    assert_true(fake_next(g, FRAME_REGISTER, &payload));
    assert_int_equal(frame_get_register(payload, &r), 0);
    l.t0_ns = r.t0_ns;
    lease_as(w, g, &l);
    l.t0_ns = 0;
    lease_as(w, g, &l);
    until(w, w->u->lease.is_held && (w->u->is_rolling || w->u->datagrams.origins_due == 0));
}

static struct frame_renew next_renew(struct world *w, struct fake_gateway *g)
{
    struct slice payload = {0};
    struct frame_renew r = {0};
    until(w, fake_next(g, FRAME_RENEW, &payload));
    assert_int_equal(frame_get_renew(payload, &r), 0);
    return r;
}

/* Takes a RENEW and answers it. */
static struct frame_renew renew(struct world *w, struct fake_gateway *g, const struct frame_lease *like)
{
    struct frame_renew r = next_renew(w, g);
    struct frame_lease l = *like;
    l.number = r.number;
    l.t0_ns = r.t0_ns;
    lease_as(w, g, &l);
    until(w, !w->u->lease.asked_ns || l.status != LEASE_GRANTED);
    return r;
}

/* ---------------------------------------------------------------- samples, and their receiver */

static void say_stream_ok(struct world *w, struct slice stream)
{
    struct cursor c = cursor_of(stream);
    struct frame_stream_ok ok = {.stream = cursor_u32(&c)};
    (void)cursor_u32(&c);
    ok.baseline = cursor_u32(&c);
    struct strbuf out = {0};
    frame_put_stream_ok(&out, 0, &ok);
    fake_send(&w->g[0], &out);
}

static void take_packet(struct world *w, struct slice packet)
{
    struct batch_origin origin = {.epoch = 1};
    struct diag why = {0};
    uint32_t unknown = 0;
    if (samples_reader_packet(w->reader, packet, SLICE_LIT("node7"), w->builder, &origin, &unknown, &why) < 0)
        fail_msg("%s", why.message);
    assert_int_equal(unknown, 0);
    struct batch *b = batch_builder_finish(w->builder, &origin);
    assert_non_null(b);
    if (w->next_seq)
        assert_int_equal(b->origin.first_seq, w->next_seq);
    w->next_seq = b->origin.first_seq + b->n;
    w->rows += b->n;
    const struct event *e = &b->events[b->n - 1];
    for (size_t i = 0; i < e->schema->n_fields; i++)
        w->last[i] = e->values[i];
    batch_unref(b);
}

static void forget_announcements(struct world *w)
{
    samples_reader_destroy(w->reader);
    w->reader = samples_reader_create(w->registry, w->scratch);
}

static void take_frames(struct world *w)
{
    struct diag why = {0};
    for (; w->fed < w->g[0].n; w->fed++) {
        const struct fake_frame *f = &w->g[0].frames[w->fed];
        uint64_t before = w->rows;
        if (f->type == FRAME_SAMPLES_ORIGIN)
            forget_announcements(w);
        else if (f->type == FRAME_SCHEMA)
            assert_int_equal(samples_reader_schema(w->reader, f->payload, &why), 0);
        else if (f->type == FRAME_SAMPLES)
            take_packet(w, f->payload);
        else if (f->type == FRAME_STREAM) {
            assert_int_equal(samples_reader_stream(w->reader, f->payload, &why), 0);
            say_stream_ok(w, f->payload);
        }
        w->stream_rows += w->rows - before;
    }
}

static void take_datagrams(struct world *w)
{
    unsigned char datagram[2048];
    ssize_t n;
    while ((n = recv(w->g[0].udp, datagram, sizeof datagram, 0)) > 0) {
        struct datagram_head h;
        size_t tag = w->u->datagrams.level == SEAL_NONE ? 0 : DATAGRAM_TAG;
        uint64_t before = w->rows;
        w->came++;
        assert_int_equal(datagram_get_head(slice_of((char *)datagram, (size_t)n), &h), 0);
        assert_int_equal(h.worker, WORKER);
        bool is_probe = (size_t)n == DATAGRAM_HEAD + tag;
        if (w->drops_datagrams) {
            w->lost += !is_probe;
            continue;
        }
        w->received++;
        if (!is_probe) {
            w->largest = (size_t)n > w->largest ? (size_t)n : w->largest;
            take_packet(w, slice_of((char *)datagram + DATAGRAM_HEAD, (size_t)n - DATAGRAM_HEAD - tag));
        }
        w->datagram_rows += w->rows - before;
    }
}

static bool are_known(const struct upstream *u)
{
    for (size_t i = 0; !u->is_rolling && i < u->n_wires; i++)
        if (!u->wires[i].is_known)
            return false;
    return true;
}

/* All that was sent has come, in the order in which it can be read, and every STREAM_OK is heard of. */
static bool has_all(struct world *w)
{
    take_frames(w);
    take_datagrams(w);
    return w->rows + w->lost == w->u->counts.passed - w->passed_before &&
           w->came == w->u->datagrams.total + w->u->datagrams.sent && are_known(w->u);
}

static void feed(struct world *w)
{
    until(w, has_all(w));
}

static void sample(struct world *w)
{
    struct stream *s = streams_find(w->streams, 0, w->row, w->now_ns);
    upstream_sample(w->u, s, clock_utc_ns(), w->row);
    upstream_flush(w->u);
}

static void fill_row(struct world *w, double scale)
{
    const struct sensor_schema *schema = &w->config.ops->schemas[0];
    for (size_t i = 0; i < schema->n_fields; i++)
        w->row[i] = schema->fields[i].type == VALUE_FLOAT
                        ? value_float(round((double)(i + 1) * scale * 100) / 100)
                        : value_uint((uint64_t)((double)(i + 1) * scale));
}

static void check_last(const struct world *w)
{
    for (size_t i = 0; i < w->config.ops->schemas[0].n_fields; i++)
        assert_true(value_eq(w->last[i], w->row[i]));
}

/* ---------------------------------------------------------------- lease */

static void test_registers_and_renews(void **state)
{
    struct world w;
    struct slice payload;
    struct frame_register r;
    (void)state;
    world_open(&w);
    start(&w);
    until(&w, fake_next(&w.g[0], FRAME_REGISTER, &payload));
    assert_int_equal(frame_get_register(payload, &r), 0);
    assert_int_equal(r.mode, LEASE_RESIDENT);
    assert_slice(r.host, "node7");
    assert_int_equal(args_uint(r.properties, "cpus", 0), 8);
    assert_slice(args_text(r.settings, "vector.every"), "1s");
    assert_true(fake_next(&w.g[0], FRAME_SAMPLES_ORIGIN, &payload)); /* behind it */
    struct args_writer settings = {0};
    args_add_text(&settings, "vector.every", SLICE_LIT("2s"));
    lease_as(
        &w, &w.g[0],
        &(struct frame_lease){
            .t0_ns = r.t0_ns, .t1_ns = 5, .t2_ns = 6, .has_settings = true, .settings = args_of(&settings)});
    args_writer_fini(&settings);
    until(&w, w.leases == 1);
    assert_int_equal(w.worker, WORKER);
    assert_int_equal(w.exchanges, 1);
    assert_int_equal(w.exchange.t0_ns, r.t0_ns);
    assert_int_equal(w.exchange.t1_ns, 5);
    assert_int_equal(w.exchange.t2_ns, 6);
    assert_true(w.exchange.t3_ns >= r.t0_ns);
    assert_string_equal(w.key, "vector.every");
    assert_string_equal(w.value, "2s");
    lease_as(&w, &w.g[0], &(struct frame_lease){.t0_ns = r.t0_ns}); /* said twice: no second exchange */
    settle(&w);
    assert_int_equal(w.exchanges, 1);

    pass(&w, RENEW - 1);
    settle(&w);
    assert_int_equal(fake_count(&w.g[0], FRAME_RENEW), 0);
    upstream_event(w.u, &(struct event){.time_ns = 1,
                                        .host = SLICE_LIT("node7"),
                                        .prog = SLICE_LIT("p"),
                                        .schema = streams_schema(w.streams, 0),
                                        .values = w.row});
    upstream_flush(w.u);
    fill_row(&w, 1);
    sample(&w);
    pass(&w, 1);
    struct frame_renew n = renew(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(n.number, 1);
    assert_int_equal(w.exchanges, 2);
    bool has_events = false, has_samples = false; /* COUNTS of both stand before it */
    for (size_t i = 0; i < w.g[0].n && w.g[0].frames[i].type != FRAME_RENEW; i++) {
        struct frame_counts c;
        if (w.g[0].frames[i].type != FRAME_COUNTS)
            continue;
        assert_int_equal(frame_get_counts(w.g[0].frames[i].payload, &c), 0);
        has_events |= c.class == CLASS_EVENTS && c.taken == 1;
        has_samples |= c.class == CLASS_SAMPLES && c.taken == 1 && c.passed == 1;
    }
    assert_true(has_events && has_samples);
    pass(&w, RENEW);
    assert_int_equal(renew(&w, &w.g[0], &(struct frame_lease){0}).number, 2);
    world_close(&w);
}

/* A renewal goes with a round that comes a little before it: one wake-up less. Without a round it waits for
 * its time. */
static void test_renews_with_a_round(void **state)
{
    struct world w;
    struct slice payload;
    struct frame_register r;
    (void)state;
    world_open(&w);
    start(&w);
    until(&w, fake_next(&w.g[0], FRAME_REGISTER, &payload));
    assert_int_equal(frame_get_register(payload, &r), 0);
    lease_as(&w, &w.g[0], &(struct frame_lease){.t0_ns = r.t0_ns});
    until(&w, w.leases == 1);
    pass(&w, RENEW - RENEW / 10 - 1);
    upstream_flush(w.u);
    settle(&w);
    assert_int_equal(fake_count(&w.g[0], FRAME_RENEW), 0); /* too early */
    pass(&w, 1);
    settle(&w);
    assert_int_equal(fake_count(&w.g[0], FRAME_RENEW), 0); /* no round */
    upstream_flush(w.u);
    settle(&w);
    assert_int_equal(fake_count(&w.g[0], FRAME_RENEW), 1);
    world_close(&w);
}

static void use_both(struct world *w, char addresses[160])
{
    (void)snprintf(addresses, 160, "%s,%s", w->g[0].address, w->g[1].address);
    w->options.gateways = addresses;
}

static void test_refused_is_the_next_one(void **state)
{
    struct world w;
    char addresses[160];
    (void)state;
    world_open(&w);
    use_both(&w, addresses);
    start(&w);
    until(&w, fake_count(&w.g[0], FRAME_REGISTER) == 1);
    lease_as(&w, &w.g[0], &(struct frame_lease){.status = LEASE_REFUSED, .text = SLICE_LIT("full")});
    grant(&w, &w.g[1], &(struct frame_lease){0});
    assert_int_equal(w.refusals, 1);
    assert_false(w.is_denied);
    assert_string_equal(w.why, "full");
    assert_int_equal(w.leases, 1);
    assert_int_equal(w.g[0].fd, -1);
    world_close(&w);
}

static void test_silence_is_the_next_one(void **state)
{
    struct world w;
    char addresses[160];
    (void)state;
    world_open(&w);
    use_both(&w, addresses);
    start(&w);
    until(&w, fake_count(&w.g[0], FRAME_REGISTER) == 1);
    pass(&w, UPSTREAM_LEASE_MS / 3 - 1);
    settle(&w);
    assert_int_equal(w.g[1].accepted, 0);
    pass(&w, 1);
    grant(&w, &w.g[1], &(struct frame_lease){0});
    assert_int_equal(w.refusals, 1);
    /* The one that granted it stops answering: within its lease it is the other's turn again. */
    pass(&w, RENEW);
    (void)next_renew(&w, &w.g[1]);
    pass(&w, LEASE / 3);
    size_t before = w.g[0].accepted;
    turn(&w);
    pass(&w, 5000); /* after all addresses have been tried there is a pause */
    until(&w, w.g[0].accepted > before);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(w.leases, 2);
    world_close(&w);
}

static void test_unknown_registers_again(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start(&w);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &(struct frame_lease){.status = LEASE_UNKNOWN});
    until(&w, fake_count(&w.g[0], FRAME_REGISTER) == 2);
    assert_int_equal(w.g[0].accepted, 1); /* on the same connection */
    struct slice payload;
    assert_true(fake_next(&w.g[0], FRAME_REGISTER, &payload));
    assert_true(fake_next(&w.g[0], FRAME_SAMPLES_ORIGIN, &payload));
    world_close(&w);
}

static void test_guest_without_a_lease_ends(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    w.options.is_guest = true;
    w.options.lease_ms = 6000;
    start(&w);
    until(&w, fake_count(&w.g[0], FRAME_REGISTER) >= 1);
    w.now_ns = w.u->lease.over_ns - 1;
    turn(&w);
    assert_int_equal(w.overs, 0);
    w.now_ns++;
    turn(&w);
    assert_int_equal(w.overs, 1);
    assert_string_equal(w.why, "no gateway granted a lease");
    pass(&w, 60000);
    turn(&w);
    assert_int_equal(w.overs, 1);
    world_close(&w);
}

static void test_guest_ends_before_its_lease(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    w.options.is_guest = true;
    w.options.lease_ms = LEASE;
    start(&w);
    int64_t asked = w.now_ns;
    grant(&w, &w.g[0], &(struct frame_lease){0});
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &(struct frame_lease){0}); /* the time runs from this one */
    asked += RENEW * MS;
    fake_hang_up(&w.g[0]);
    (void)close(w.g[0].listener); /* nobody is there any more */
    w.g[0].listener = -1;
    w.now_ns = asked + LEASE * 9 / 10 * MS - MS;
    turn(&w);
    assert_int_equal(w.overs, 0);
    pass(&w, 1);
    turn(&w);
    assert_int_equal(w.overs, 1);
    assert_string_equal(w.why, "the lease was not renewed");
    world_close(&w);
}

static void test_leaves(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start(&w);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    sample(&w);
    upstream_destroy(w.u);
    w.u = NULL;
    for (int i = 0; i < 20000 && fake_count(&w.g[0], FRAME_BYE) == 0; i++) {
        fake_pump(&w.g[0]);
        (void)poll(NULL, 0, 1);
    }
    struct slice payload;
    struct frame_renew r;
    struct frame_counts c;
    assert_true(fake_next(&w.g[0], FRAME_COUNTS, &payload));
    assert_int_equal(frame_get_counts(payload, &c), 0);
    assert_true(c.is_final && c.class == CLASS_SAMPLES);
    assert_int_equal(c.taken, 1);
    assert_true(fake_next(&w.g[0], FRAME_RENEW, &payload));
    assert_int_equal(frame_get_renew(payload, &r), 0);
    assert_int_equal(r.flags, RENEW_LEAVING);
    assert_true(fake_next(&w.g[0], FRAME_BYE, &payload));
    world_close(&w);
}

/* ---------------------------------------------------------------- seals, made up */

static int seals_made;

static void *seal_create_fake(void)
{
    seals_made++;
    return &seals_made;
}
static void seal_destroy_fake(void *seal)
{
    assert_ptr_equal(seal, &seals_made);
    seals_made--;
}
static int64_t seal_close_fake(void *seal, const unsigned char key[LEASE_KEY], uint32_t key_id,
                               unsigned char *p, size_t n)
{
    assert_ptr_equal(seal, &seals_made);
    assert_int_equal(p[1], key_id & 255);
    memset(p + n, key[0], DATAGRAM_TAG);
    return (int64_t)n + DATAGRAM_TAG;
}
static const struct secure_ops secure = {
    .seal_create = seal_create_fake, .seal_destroy = seal_destroy_fake, .seal_close = seal_close_fake};

/* ---------------------------------------------------------------- datagrams */

/* Registered, with datagrams, and a first look that finds that they arrive. */
static void start_with_datagrams(struct world *w, const struct frame_lease *like)
{
    struct frame_lease l = *like;
    start(w);
    l.udp_port = w->g[0].udp_port;
    grant(w, &w->g[0], &l);
    feed(w);
    assert_int_equal(w->received, 1); /* the probe */
    assert_int_equal(w->u->datagrams.way, WAY_STREAM);
    l.datagrams = w->received;
    pass(w, 200);
    assert_int_equal(renew(w, &w->g[0], &l).datagrams, 1);
    assert_int_equal(w->u->datagrams.way, WAY_DATAGRAMS);
    assert_int_equal(w->way, WAY_DATAGRAMS);
}

static void test_by_datagram(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start_with_datagrams(&w, &(struct frame_lease){0});
    fill_row(&w, 1);
    sample(&w); /* announced, and over the connection: nobody has said STREAM_OK */
    feed(&w);
    assert_int_equal(w.stream_rows, 1);
    check_last(&w);
    for (int i = 2; i < 50; i++) {
        fill_row(&w, 1 + i / 10.0);
        sample(&w);
        feed(&w);
        check_last(&w);
    }
    assert_int_equal(w.stream_rows, 1);
    assert_int_equal(w.datagram_rows, 48);
    assert_true(w.largest <= UPSTREAM_VECTOR_MAX);
    struct upstream_counts c;
    upstream_counts(w.u, &c);
    assert_int_equal(c.samples.passed, 49);
    assert_int_equal(c.datagrams, 49); /* and the probe */
    world_close(&w);
}

static void test_nothing_arrives(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    struct frame_lease l = {.udp_port = w.g[0].udp_port};
    start_with_datagrams(&w, &l);
    fill_row(&w, 1);
    sample(&w);
    feed(&w);
    w.drops_datagrams = true;
    l.datagrams = w.received;
    for (int i = 0; i < 3; i++)
        sample(&w);
    feed(&w);
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &l);
    assert_int_equal(w.way, WAY_STREAM);
    assert_int_equal(w.ways, 2);
    w.next_seq = 0; /* three are lost, as their numbers tell */
    uint64_t before = w.stream_rows;
    for (int i = 0; i < 5; i++) {
        fill_row(&w, 10 + i);
        sample(&w);
        feed(&w);
        check_last(&w);
    }
    assert_int_equal(w.stream_rows - before, 5);
    /* A probe with each renewal; when one arrives, it is datagrams again. */
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &l);
    assert_int_equal(w.way, WAY_STREAM);
    w.drops_datagrams = false;
    feed(&w);
    l.datagrams = w.received;
    assert_int_equal(w.received, 2);
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &l);
    assert_int_equal(w.way, WAY_DATAGRAMS);
    before = w.datagram_rows;
    for (int i = 0; i < 3; i++) { /* the first may be a new baseline */
        sample(&w);
        feed(&w);
    }
    assert_true(w.datagram_rows - before >= 2);
    world_close(&w);
}

static void test_a_few_lost_stay(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    struct frame_lease l = {.udp_port = w.g[0].udp_port};
    start_with_datagrams(&w, &l);
    fill_row(&w, 1);
    sample(&w);
    feed(&w);
    l.datagrams = w.received;
    w.drops_datagrams = true;
    sample(&w);
    sample(&w); /* two: that is no proof */
    feed(&w);
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &l);
    assert_int_equal(w.way, WAY_DATAGRAMS);
    world_close(&w);
}

/* What a busy host of a large site may say, from one sample to the next. */
static const double heights[] = {100, 100,   100,    65000, 512, 2e12,   1.5e12, 90000, 4e6,
                                 2e6, 64000, 900000, 4096,  1e6, 2.5e10, 100000, 3e7,   1e6};

static void test_vector_fits(void **state)
{
    struct world w;
    enum { ROWS = 1000 };
    uint64_t random = 4;
    (void)state;
    world_open(&w);
    w.options.secure = &secure;
    start_with_datagrams(
        &w, &(struct frame_lease){.level = SEAL_PRIVATE, .key_id = 9, .key = SLICE_LIT("0123456789abcdef")});
    w.u->counts.passed = w.u->counts.given = w.passed_before = UINT64_C(1)
                                                               << 35; /* a thousand years of them */
    const struct sensor_schema *schema = &w.config.ops->schemas[0];
    assert_int_equal(schema->n_fields, sizeof heights / sizeof *heights);
    for (unsigned i = 0; i < ROWS; i++) {
        bool is_first = i == 0; /* has no rates, as the sensor's */
        for (size_t k = 0; k < schema->n_fields; k++) {
            double v = heights[k] * (double)(test_random(&random) >> 11) / 9007199254740992.0;
            bool is_float = schema->fields[k].type == VALUE_FLOAT;
            w.row[k] = is_float ? is_first ? value_none() : value_float(round(v * 100) / 100)
                                : value_uint((uint64_t)v / 1024 * 1024);
        }
        sample(&w);
        feed(&w);
        check_last(&w);
    }
    print_message("vector: largest datagram %zu bytes, %llu of %llu rows by datagram\n", w.largest,
                  (unsigned long long)w.datagram_rows, (unsigned long long)w.rows);
    assert_int_equal(w.rows, ROWS);
    assert_true(w.largest <= UPSTREAM_VECTOR_MAX);
    assert_true(w.datagram_rows > ROWS * 95 / 100); /* those that did not fit were new baselines */
    world_close(&w);
}

static void test_sealed(void **state)
{
    struct world w;
    struct frame_lease l = {.level = SEAL_PRIVATE, .key_id = 300, .key = SLICE_LIT("0123456789abcdef")};
    (void)state;
    world_open(&w);
    w.options.secure = &secure;
    l.udp_port = w.g[0].udp_port;
    start_with_datagrams(&w, &l);
    assert_int_equal(seals_made, 1);
    fill_row(&w, 1);
    sample(&w);
    feed(&w);
    fill_row(&w, 2);
    sample(&w);
    feed(&w);
    check_last(&w);
    assert_int_equal(w.datagram_rows, 1);
    world_close(&w);
    assert_int_equal(seals_made, 0);
}

/* No module: sealed datagrams can't be, and the stream rolls. */
static void test_no_seal_no_datagrams(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start(&w);
    grant(&w, &w.g[0],
          &(struct frame_lease){.udp_port = w.g[0].udp_port,
                                .level = SEAL_PRIVATE,
                                .key_id = 1,
                                .key = SLICE_LIT("0123456789abcdef")});
    assert_true(w.u->is_rolling);
    fill_row(&w, 1);
    sample(&w);
    feed(&w);
    check_last(&w);
    assert_int_equal(w.received, 0);
    world_close(&w);
}

/* A number is used once with a key: after SAMPLES_ORIGIN nothing is sent before its answer. */
static void test_new_origin_waits_for_its_key(void **state)
{
    struct world w;
    struct frame_lease l = {.level = SEAL_PRIVATE, .key_id = 1, .key = SLICE_LIT("0123456789abcdef")};
    (void)state;
    world_open(&w);
    w.options.secure = &secure;
    l.udp_port = w.g[0].udp_port;
    start_with_datagrams(&w, &l);
    fill_row(&w, 1);
    sample(&w);
    feed(&w);
    uint64_t before = w.came;
    upstream_begin_samples(w.u);
    sample(&w);
    feed(&w); /* STREAM_OK, before the key */
    sample(&w);
    settle(&w);
    take_datagrams(&w);
    assert_int_equal(w.came, before);
    upstream_counts(w.u, &(struct upstream_counts){0});
    uint64_t dropped = w.u->counts.dropped[DROP_UNWRITABLE];
    assert_int_equal(dropped, 0); /* it went over the connection */
    l.key_id = 2;
    lease_as(&w, &w.g[0], &l); /* t0 and number 0 */
    until(&w, w.u->datagrams.is_counted);
    sample(&w);
    feed(&w);
    assert_int_equal(w.came, before + 1);
    assert_int_equal(w.u->datagrams.sent, 1);
    world_close(&w);
}

/* Differences grow: a new baseline is announced, over the connection, without a gap. */
static void test_rebases(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start_with_datagrams(&w, &(struct frame_lease){0});
    for (int i = 0; i < 3; i++) {
        fill_row(&w, 1.11 + i / 100.0);
        sample(&w);
        feed(&w);
    }
    assert_int_equal(fake_count(&w.g[0], FRAME_STREAM), 1);
    pass(&w, UPSTREAM_REBASE_MIN_S * 1000);
    for (int i = 0; i < 3; i++) {
        fill_row(&w, 100000 + i);
        sample(&w);
        feed(&w);
        check_last(&w);
    }
    assert_int_equal(fake_count(&w.g[0], FRAME_STREAM), 2);
    assert_int_equal(w.rows, 6);
    assert_int_equal(w.stream_rows, 2);
    world_close(&w);
}

/* ---------------------------------------------------------------- control */

static struct frame_answer ask(struct world *w, const char *verb)
{
    struct strbuf out = {0};
    struct slice payload = {0};
    struct frame_answer a = {0};
    frame_put_control(&out, 0, &(struct frame_control){.request = 9, .verb = slice_str(verb)});
    fake_send(&w->g[0], &out);
    until(w, fake_next(&w->g[0], FRAME_ANSWER, &payload));
    assert_int_equal(frame_get_answer(payload, &a), 0);
    assert_int_equal(a.request, 9);
    return a;
}

static void test_control(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start(&w);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(ask(&w, "worker.suspend").status, CONTROL_DONE); /* on loopback */
    assert_string_equal(w.verb, "worker.suspend");
    w.u->is_trusted = false; /* as another host without TLS is */
    assert_int_equal(ask(&w, "worker.kill").status, CONTROL_NOT_ALLOWED);
    assert_int_equal(w.questions, 1);
    struct upstream_counts c;
    upstream_counts(w.u, &c);
    assert_int_equal(c.control_refused, 1);
    world_close(&w);
}

/* ---------------------------------------------------------------- demand */

static void demand(struct world *w, struct fake_gateway *g, struct slice events, uint32_t period_ms)
{
    struct strbuf list = {0}, out = {0};
    unsigned before = w->demands;
    struct frame_demand d = {.number = 1, .n = events.n > 0};
    if (events.n)
        demand_put(&list, &(struct demand_request){events, period_ms});
    d.list = strbuf_slice(&list);
    frame_put_demand(&out, 0, &d);
    fake_send(g, &out);
    strbuf_fini(&list);
    until(w, w->demands > before);
}

static void test_demand(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    w.options.gateways = w.g[0].address;
    start(&w);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    w.u->is_trusted = false; /* it is no order: a gateway without TLS may ask, too */
    demand(&w, &w.g[0], SLICE_LIT("cpu"), 250);
    assert_int_equal(w.demanded, 1);
    assert_int_equal(w.demand_cpu_ns, 250 * MS);
    demand(&w, &w.g[0], SLICE_LIT("disk"), 0); /* the whole list is another */
    assert_int_equal(w.demand_cpu_ns, 0);
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(w.demands, 2); /* renewing changes nothing */
    assert_int_equal(w.demanded, 1);
    demand(&w, &w.g[0], SLICE_LIT(""), 0);
    assert_int_equal(w.demanded, 0);
    world_close(&w);
}

/* Without a connection nobody hears; and with a registration begins a new life. */
static void test_demand_ends(void **state)
{
    struct world w;
    (void)state;
    world_open(&w);
    start(&w);
    grant(&w, &w.g[0], &(struct frame_lease){0});
    demand(&w, &w.g[0], SLICE_LIT("cpu"), 250);
    fake_hang_up(&w.g[0]);
    until(&w, w.demands == 2);
    assert_int_equal(w.demanded, 0);
    pass(&w, 60000); /* past any delay of dialling */
    grant(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(w.demands, 2); /* there was none that could end */
    demand(&w, &w.g[0], SLICE_LIT("cpu"), 250);
    pass(&w, RENEW);
    (void)renew(&w, &w.g[0], &(struct frame_lease){.status = LEASE_UNKNOWN});
    until(&w, fake_count(&w.g[0], FRAME_REGISTER) == 2);
    demand(&w, &w.g[0], SLICE_LIT("cpu,disk"), 0); /* sent before the gateway had heard of that */
    grant(&w, &w.g[0], &(struct frame_lease){0});
    assert_int_equal(w.demands, 5);
    assert_int_equal(w.demanded, 0);
    world_close(&w);
}

/* ---------------------------------------------------------------- what a gateway must not be able to do */

static void test_bad_frames_end_the_connection(void **state)
{
    static const uint8_t types[] = {FRAME_LEASE, FRAME_CONTROL, FRAME_STREAM_OK, FRAME_DEMAND, 99};
    (void)state;
    for (size_t i = 0; i < sizeof types; i++) {
        struct world w;
        struct strbuf out = {0};
        world_open(&w);
        start(&w);
        grant(&w, &w.g[0], &(struct frame_lease){0});
        frame_put(&out, types[i], 0, SLICE_LIT("\xff"));
        fake_send(&w.g[0], &out);
        until(&w, w.g[0].fd < 0);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registers_and_renews),
        cmocka_unit_test(test_renews_with_a_round),
        cmocka_unit_test(test_refused_is_the_next_one),
        cmocka_unit_test(test_silence_is_the_next_one),
        cmocka_unit_test(test_unknown_registers_again),
        cmocka_unit_test(test_guest_without_a_lease_ends),
        cmocka_unit_test(test_guest_ends_before_its_lease),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_by_datagram),
        cmocka_unit_test(test_nothing_arrives),
        cmocka_unit_test(test_a_few_lost_stay),
        cmocka_unit_test(test_vector_fits),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_no_seal_no_datagrams),
        cmocka_unit_test(test_new_origin_waits_for_its_key),
        cmocka_unit_test(test_rebases),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_demand),
        cmocka_unit_test(test_demand_ends),
        cmocka_unit_test(test_bad_frames_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
