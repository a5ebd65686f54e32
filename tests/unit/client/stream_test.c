/* SPDX-License-Identifier: Apache-2.0 */
/* The stream destination against a receiver in the same thread: time is what the test says it is, so that no
 * test waits for a timer. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/dest_stream.h"
#include "event/block.h"
#include "net/uplink_internal.h"
#include "unit/net/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { STEP_MS = 10 };
static const int64_t ms = 1000000;

/* ---------------------------------------------------------------- the destination */

struct sender {
    struct dest *dest;
    struct dest_env env;
    struct block_writer *writer;
    struct registry *registry;
    struct batch_builder *builder;
    uint64_t next_seq;
    int64_t now;
};

static struct uplink *uplink_of(const struct dest *d)
{
    return ((const struct dest_stream *)d)->uplink;
}

static struct frame_origin origin_of(const struct sender *s)
{
    struct frame_origin o = {.epoch = s->env.origin.epoch};
    memcpy(o.producer, s->env.origin.producer, sizeof o.producer);
    return o;
}

static void sender_open(struct sender *s, const struct receiver *r, uint8_t producer, bool with_backup)
{
    *s = (struct sender){.env = {.host = "h", .prog = "p", .origin = {.epoch = 1}}, .next_seq = 1};
    memset(s->env.origin.producer, producer, sizeof s->env.origin.producer);
    s->now = clock_mono_ns();
    s->writer = block_writer_create();
    s->registry = registry_create();
    s->builder = batch_builder_create(s->registry, 0);
    assert_int_equal(dest_unix.open(slice_str(r->path), SLICE_LIT(""), &s->env, &s->dest), 0);
    if (with_backup)
        assert_int_equal(s->dest->ops->backup(s->dest, r->backup, 0), 0);
}

static struct dest_counts sender_counts(const struct sender *s)
{
    struct dest_counts c;
    s->dest->ops->counts(s->dest, &c);
    uint64_t sum = c.passed + c.queued;
    for (size_t i = 0; i < DROP_REASONS; i++)
        sum += c.dropped[i];
    assert_int_equal(c.given, sum);
    return c;
}

static void sender_close(struct sender *s)
{
    static const uint64_t none[DROP_REASONS];
    s->dest->ops->goodbye(s->dest, sender_counts(s).given, none);
    (void)sender_counts(s);
    s->dest->ops->close(s->dest);
    block_writer_destroy(s->writer);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
}

/* A block of n events with size bytes of text each, of which no two are the same. */
static void sender_put(struct sender *s, uint32_t n, size_t size)
{
    static char text[60000];
    struct strbuf block = {0};
    for (uint32_t i = 0; i < n; i++) {
        memset(text, 'a', size);
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)(s->next_seq + i));
        const struct named_value values[] = {
            {SLICE_LIT("n"), value_uint(s->next_seq + i)},
            {SLICE_LIT("text"), value_text(slice_of(text, size))},
        };
        const struct event_head head = {.time_ns = 1, .name = SLICE_LIT("e"), .host = SLICE_LIT("h")};
        assert_int_equal(batch_builder_add(s->builder, &head, values, 2, NULL), 0);
    }
    struct batch *b = batch_builder_finish(s->builder, NULL);
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++)
        assert_int_equal(block_writer_add(s->writer, &b->events[i]), 0);
    batch_unref(b);
    struct batch_origin o = s->env.origin;
    o.first_seq = s->next_seq;
    assert_int_equal(block_writer_finish(s->writer, &o, &block), 0);
    s->dest->ops->put(s->dest, strbuf_slice(&block), n, s->next_seq);
    s->next_seq += n;
    strbuf_fini(&block);
    (void)sender_counts(s);
}

static int sender_pump(struct sender *s)
{
    int wait = s->dest->ops->pump(s->dest, s->now);
    (void)sender_counts(s);
    return wait;
}

static void sender_pass(struct sender *s, int64_t for_ms)
{
    for (int64_t end = s->now + for_ms * ms; s->now < end; s->now += STEP_MS * ms)
        (void)sender_pump(s);
}

/* Dials, HELLO, WELCOME. */
static void meet(struct sender *s, struct receiver *r, uint64_t seq, uint32_t window)
{
    for (int i = 0; i < 1000 && !receiver_accept(r); i++, s->now += STEP_MS * ms)
        (void)sender_pump(s);
    assert_true(r->fd >= 0);
    (void)sender_pump(s);
    receiver_read(r);
    assert_true(r->in.n >= FRAME_GREETING);
    assert_int_equal(greeting_detect(strbuf_slice(&r->in)), GREETING_FRAMES);
    strbuf_consume(&r->in, FRAME_GREETING);
    r->frame.payload.p = NULL;
    assert_int_equal(receiver_frame(r), FRAME_HELLO);
    assert_int_equal(frame_get_hello(r->frame.payload, &r->hello), 0);
    receiver_welcome(r, seq, window);
    (void)sender_pump(s);
}

/* The next frame is a block with that first number; returns its last. */
static uint64_t expect_block(struct sender *s, struct receiver *r, uint64_t first)
{
    (void)sender_pump(s);
    assert_int_equal(receiver_frame(r), FRAME_BATCH);
    assert_int_equal(block_check(r->frame.payload), r->frame.payload.n);
    assert_int_equal(block_origin(r->frame.payload).first_seq, first);
    return first + block_count(r->frame.payload) - 1;
}

/* ---------------------------------------------------------------- tests */

static void test_acknowledged(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    struct frame_origin o = origin_of(&s);
    sender_put(&s, 3, 10);
    meet(&s, &r, 0, 1 << 20);
    assert_slice(r.hello.prog, "p");
    assert_memory_equal(r.hello.origin.producer, o.producer, 16);
    assert_int_equal(expect_block(&s, &r, 1), 3);
    assert_int_equal(sender_counts(&s).queued, 3);
    receiver_ack(&r, &o, 2); /* a part of a block is not the block */
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 0);
    receiver_ack(&r, &o, 3);
    assert_true(sender_pump(&s) > 2000); /* nothing but COUNTS, in 10 s */
    assert_int_equal(sender_counts(&s).passed, 3);
    assert_int_equal(sender_counts(&s).queued, 0);
    sender_put(&s, 2, 10);
    assert_int_equal(expect_block(&s, &r, 4), 5);
    receiver_ack(&r, &o, 5);
    (void)sender_pump(&s);

    s.now += 10001 * ms;
    (void)sender_pump(&s);
    assert_int_equal(receiver_frame(&r), FRAME_COUNTS);
    assert_int_equal(frame_get_counts(r.frame.payload, &r.counts), 0);
    assert_int_equal(r.counts.passed, 5);
    assert_false(r.counts.is_final);

    sender_close(&s);
    assert_int_equal(receiver_frame(&r), FRAME_COUNTS);
    assert_int_equal(frame_get_counts(r.frame.payload, &r.counts), 0);
    assert_true(r.counts.is_final);
    assert_int_equal(r.counts.taken, 5);
    assert_int_equal(receiver_frame(&r), FRAME_BYE);
    receiver_end(&r);
}

/* Without a backup the oldest are kept and the newest dropped. */
static void test_queue_full(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    assert_int_equal(setenv("GRIDLINE_QUEUE", "64KiB", 1), 0);
    sender_open(&s, &r, 1, false);
    assert_int_equal(unsetenv("GRIDLINE_QUEUE"), 0);
    for (int i = 0; i < 10; i++)
        sender_put(&s, 2, 5000);
    struct dest_counts c = sender_counts(&s);
    assert_int_equal(c.given, 20);
    assert_int_equal(c.queued, 12);
    assert_int_equal(c.dropped[DROP_UNWRITABLE], 8);
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    uint64_t last = 0;
    for (int i = 0; i < 6; i++)
        last = expect_block(&s, &r, last + 1);
    assert_int_equal(last, 12);
    assert_int_equal(receiver_frame(&r), 0);
    sender_put(&s, 1, 1); /* behind a hole in the numbers */
    assert_int_equal(expect_block(&s, &r, 21), 21);
    struct frame_origin o = origin_of(&s);
    receiver_ack(&r, &o, 21);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 13);
    sender_close(&s);
    receiver_end(&r);
}

static void test_window(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    struct frame_origin o = origin_of(&s);
    for (int i = 0; i < 4; i++)
        sender_put(&s, 1, 3000);
    meet(&s, &r, 0, 7000);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    assert_int_equal(expect_block(&s, &r, 2), 2);
    assert_int_equal(receiver_frame(&r), 0);
    receiver_ack(&r, &o, 1);
    assert_int_equal(expect_block(&s, &r, 3), 3);
    assert_int_equal(receiver_frame(&r), 0);
    receiver_hang_up(&r);
    meet(&s, &r, 2, 10); /* a window that is too small still lets one through; 2 is held */
    assert_int_equal(sender_counts(&s).passed, 2);
    assert_int_equal(expect_block(&s, &r, 3), 3);
    assert_int_equal(receiver_frame(&r), 0);
    receiver_ack(&r, &o, 3);
    assert_int_equal(expect_block(&s, &r, 4), 4);
    receiver_ack(&r, &o, 4);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 4);
    sender_close(&s);
    receiver_end(&r);
}

/* Absent at first: everything goes to the backup; then it is sent, in order, and later blocks behind it. */
static void test_backup(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open(&s, &r, 1, true);
    struct uplink *st = uplink_of(s.dest);
    struct frame_origin o = origin_of(&s);
    for (int i = 0; i < 5; i++)
        sender_put(&s, 2, 100);
    (void)sender_pump(&s);
    assert_int_equal(st->memory, 0);
    assert_int_equal(st->spool_events, 10);
    assert_int_equal(sender_counts(&s).queued, 10);
    receiver_listen(&r);
    meet(&s, &r, 4, 1 << 20); /* it holds the first two blocks already, they say */
    assert_int_equal(sender_counts(&s).passed, 4);
    assert_int_equal(expect_block(&s, &r, 5), 6);
    sender_put(&s, 2, 100); /* while the backup is in use, to the backup */
    assert_int_equal(st->memory, 0);
    assert_int_equal(expect_block(&s, &r, 7), 8);
    assert_int_equal(expect_block(&s, &r, 9), 10);
    assert_int_equal(expect_block(&s, &r, 11), 12);
    receiver_ack(&r, &o, 8);
    (void)sender_pump(&s);
    assert_int_equal(st->spool_done, 4);
    receiver_hang_up(&r); /* what is not acknowledged comes again */
    meet(&s, &r, 8, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 9), 10);
    assert_int_equal(expect_block(&s, &r, 11), 12);
    receiver_ack(&r, &o, 12);
    (void)sender_pump(&s);
    assert_true(uplink_spool_is_empty(st));
    assert_int_equal(st->spool_events, 0);
    sender_put(&s, 1, 1); /* and from now on through memory */
    assert_true(st->memory > 0);
    assert_int_equal(expect_block(&s, &r, 13), 13);
    receiver_ack(&r, &o, 13);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 13);
    assert_int_equal(sender_counts(&s).queued, 0);
    sender_close(&s);
    receiver_end(&r);
}

/* Memory full while blocks are on the way: those on the way go to the backup too, and are not sent twice. */
static void test_spill_flight(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    assert_int_equal(setenv("GRIDLINE_QUEUE", "64KiB", 1), 0);
    sender_open(&s, &r, 1, true);
    assert_int_equal(unsetenv("GRIDLINE_QUEUE"), 0);
    struct uplink *st = uplink_of(s.dest);
    struct frame_origin o = origin_of(&s);
    meet(&s, &r, 0, 25000);
    for (int i = 0; i < 6; i++) {
        sender_put(&s, 1, 10000);
        (void)sender_pump(&s);
    }
    assert_true(st->flight.head && !st->flight.head->record);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    sender_put(&s, 1, 10000);
    assert_int_equal(st->memory, 0);
    assert_int_equal(st->spool_events, 7);
    assert_int_equal(expect_block(&s, &r, 2), 2);
    assert_int_equal(receiver_frame(&r), 0);
    for (uint64_t seq = 1; seq <= 7; seq++) {
        receiver_ack(&r, &o, seq);
        if (seq + 2 <= 7)
            assert_int_equal(expect_block(&s, &r, seq + 2), seq + 2);
    }
    (void)sender_pump(&s);
    assert_int_equal(receiver_frame(&r), 0);
    assert_int_equal(sender_counts(&s).passed, 7);
    assert_true(uplink_spool_is_empty(st));
    sender_close(&s);
    receiver_end(&r);
}

/* What one run left is sent by the next, under its own name, with its COUNTS; and counted by neither twice.
 */
static void test_earlier_run(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open(&s, &r, 1, true);
    struct frame_origin first = origin_of(&s);
    sender_put(&s, 3, 10);
    sender_put(&s, 4, 10);
    sender_close(&s);

    receiver_listen(&r);
    sender_open(&s, &r, 2, true);
    sender_put(&s, 1, 10);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 1), 3);
    assert_int_equal(block_origin(r.frame.payload).producer[0], 1);
    assert_int_equal(expect_block(&s, &r, 4), 7);
    assert_int_equal(receiver_frame(&r), FRAME_COUNTS);
    assert_int_equal(frame_get_counts(r.frame.payload, &r.counts), 0);
    assert_memory_equal(&r.counts.origin, &first, sizeof first);
    assert_true(r.counts.is_final);
    assert_int_equal(r.counts.queued, 7);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    assert_int_equal(block_origin(r.frame.payload).producer[0], 2);
    struct frame_origin second = origin_of(&s);
    receiver_ack(&r, &second, 1); /* of another producer: nothing of the first is done */
    (void)sender_pump(&s);
    assert_int_equal(uplink_of(s.dest)->spool_done, 0);
    receiver_ack(&r, &first, 7);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 1);
    assert_int_equal(sender_counts(&s).given, 1);
    assert_true(uplink_spool_is_empty(uplink_of(s.dest)));
    sender_close(&s);

    sender_open(&s, &r, 3, true); /* nothing is left for a third */
    receiver_hang_up(&r);
    meet(&s, &r, 0, 1 << 20);
    (void)sender_pump(&s);
    assert_int_equal(receiver_frame(&r), 0);
    sender_close(&s);
    receiver_end(&r);
}

/* Accepts and says nothing: given up after 5 s; with data on the way it is asked after 2. */
static void test_hung(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    struct frame_origin o = origin_of(&s);
    (void)sender_pump(&s);
    assert_true(receiver_accept(&r));
    sender_pass(&s, 4900);
    assert_false(receiver_is_left(&r));
    sender_pass(&s, 200);
    assert_true(receiver_is_left(&r));
    receiver_hang_up(&r);

    meet(&s, &r, 0, 1 << 20);
    sender_pass(&s, 20000); /* nothing owed: it may be silent */
    assert_int_equal(uplink_of(s.dest)->state, LINK_READY);
    sender_put(&s, 1, 1);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    sender_pass(&s, 2100);
    uint8_t type = receiver_frame(&r);
    assert_int_equal(type == FRAME_COUNTS ? receiver_frame(&r) : type, FRAME_PING);
    struct frame_ping ping;
    assert_int_equal(frame_get_ping(r.frame.payload, &ping), 0);
    struct strbuf out = {0};
    frame_put_pong(&out, &(struct frame_pong){ping.token, ping.t0_ns, 0, 0});
    receiver_send(&r, &out);
    sender_pass(&s, 4900); /* alive, if slow */
    assert_int_equal(uplink_of(s.dest)->state, LINK_READY);
    sender_pass(&s, 200);
    assert_true(receiver_is_left(&r));
    receiver_hang_up(&r);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    receiver_ack(&r, &o, 1);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 1);
    sender_close(&s);
    receiver_end(&r);
}

static void test_refused(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    struct frame_origin o = origin_of(&s);
    meet(&s, &r, 0, 1 << 20);
    sender_put(&s, 2, 1);
    sender_put(&s, 3, 1);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    receiver_refuse(&r, &o, 1, 2, 0); /* never */
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).dropped[DROP_REFUSED], 2);
    assert_int_equal(expect_block(&s, &r, 3), 5);
    receiver_refuse(&r, &o, 3, 3, 1000); /* not now */
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).queued, 3);
    receiver_hang_up(&r);
    sender_pass(&s, 900);
    assert_false(receiver_accept(&r));
    meet(&s, &r, 2, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 3), 5);
    receiver_ack(&r, &o, 5);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 3);
    sender_close(&s);
    receiver_end(&r);
}

/* Anything a peer may say that is wrong ends the connection and nothing else. */
static void test_garbage(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    sender_put(&s, 1, 1);
    uint64_t seed = 7;
    for (int round = 0; round < 60; round++) {
        struct strbuf out = {0};
        meet(&s, &r, 0, 1 << 20);
        switch (round % 6) {
        case 0: /* no frame */
            strbuf_add_str(&out, "HTTP/1.1 400 Bad Request\r\n\r\n");
            break;
        case 1: /* a head that promises too much */
            strbuf_add_u32(&out, UPLINK_INPUT_MAX);
            strbuf_add_u64(&out, FRAME_ACK);
            strbuf_add_u32(&out, 0);
            break;
        case 2: /* a frame that nobody knows */
            frame_put(&out, 99, 0, SLICE_LIT("?"));
            break;
        case 3: /* cut short inside */
            frame_put(&out, FRAME_ACK, 0, SLICE_LIT("short"));
            break;
        case 4: /* not now */
            frame_put_welcome(&out, &(struct frame_welcome){.window = 1});
            break;
        default:
            for (int i = 0; i < 200; i++)
                strbuf_add_char(&out, (char)test_random(&seed));
        }
        receiver_send(&r, &out);
        (void)sender_pump(&s);
        assert_int_equal(uplink_of(s.dest)->state, LINK_DOWN);
        assert_int_equal(sender_counts(&s).queued, 1);
        receiver_hang_up(&r);
    }
    meet(&s, &r, 1, 1 << 20);
    assert_int_equal(sender_counts(&s).passed, 1);
    struct strbuf out = {0}; /* from 128 on: skipped */
    frame_put(&out, 200, 0, SLICE_LIT("later"));
    receiver_send(&r, &out);
    (void)sender_pump(&s);
    assert_int_equal(uplink_of(s.dest)->state, LINK_READY);
    sender_close(&s);
    receiver_end(&r);
}

static void on_activate(void *arg, struct slice list)
{
    struct frame_activation a;
    assert_int_equal(frame_next_activation(&list, &a), 1);
    assert_slice(a.pattern, "x.*");
    *(int *)arg = a.level;
}

static void test_activate(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    int level = 0;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    s.dest->ops->on_activate(s.dest, on_activate, &level);
    meet(&s, &r, 0, 1 << 20);
    struct strbuf out = {0};
    frame_put(&out, FRAME_ACTIVATE, 0, SLICE_LIT("\1\0\0\0\3x.*\14"));
    receiver_send(&r, &out);
    (void)sender_pump(&s);
    assert_int_equal(level, 12);
    sender_close(&s);
    receiver_end(&r);
}

/* The child starts over: nothing of the parent's queue, another name, its own counts. */
static void test_fork(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open(&s, &r, 1, false);
    meet(&s, &r, 0, 1 << 20);
    sender_put(&s, 5, 1);
    (void)sender_pump(&s);
    memset(s.env.origin.producer, 9, 16);
    s.next_seq = 1;
    s.dest->ops->after_fork(s.dest, &s.env);
    assert_int_equal(sender_counts(&s).given, 0);
    assert_int_equal(receiver_frame(&r), FRAME_BATCH);
    assert_int_equal(receiver_frame(&r), 0); /* no goodbye in the parent's name */
    receiver_hang_up(&r);
    sender_put(&s, 2, 1);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(r.hello.origin.producer[0], 9);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    sender_close(&s);
    assert_int_equal(receiver_frame(&r), FRAME_COUNTS);
    assert_int_equal(frame_get_counts(r.frame.payload, &r.counts), 0);
    assert_int_equal(r.counts.taken, 2);
    assert_int_equal(r.counts.dropped[DROP_UNWRITABLE],
                     2); /* not acknowledged, no backup: not known to have arrived */
    receiver_end(&r);
}

/* Takes what comes, as a good receiver does, and keeps the order; false when there was nothing. */
static bool serve_one(struct receiver *r, struct sender *s, uint64_t *held, uint64_t *seed)
{
    uint8_t type = receiver_frame(r);
    if (type == 0)
        return false;
    if (type != FRAME_BATCH)
        return true;
    struct batch_origin o = block_origin(r->frame.payload);
    uint64_t last = o.first_seq + block_count(r->frame.payload) - 1;
    assert_true(o.first_seq <= *held + 1); /* no hole: nothing was dropped */
    if (last > *held)
        *held = last;
    struct frame_origin me = origin_of(s);
    if (test_random(seed) % 2)
        receiver_ack(r, &me, last);
    return true;
}

/* Breaks, refusals and silence at random; in the end every event has come, in order, and is counted once. */
static void test_random_faults(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 30 * test_scale(); round++) {
        struct receiver r;
        struct sender s;
        uint64_t seed = round, held = 0;
        receiver_start(&r);
        assert_int_equal(setenv("GRIDLINE_QUEUE", "64KiB", 1), 0);
        sender_open(&s, &r, 1, true);
        struct frame_origin o = origin_of(&s);
        bool is_met = false;
        for (int step = 0; step < 300; step++) {
            sender_put(&s, 1 + (uint32_t)(test_random(&seed) % 5), test_random(&seed) % 5000);
            s.now += STEP_MS * ms;
            (void)sender_pump(&s);
            if (!is_met && test_random(&seed) % 8 == 0) {
                meet(&s, &r, held, 1 + (uint32_t)(test_random(&seed) % 40000));
                is_met = true;
            }
            for (uint64_t n = is_met ? test_random(&seed) % 6 : 0; n; n--)
                if (!serve_one(&r, &s, &held, &seed))
                    break;
            if (is_met && test_random(&seed) % 16 == 0)
                receiver_refuse(&r, &o, held + 1, 1, 100);
            if (is_met && (test_random(&seed) % 16 == 0 || uplink_of(s.dest)->state != LINK_READY)) {
                receiver_hang_up(&r);
                is_met = false;
            }
        }
        receiver_hang_up(&r);
        (void)sender_pump(&s);
        meet(&s, &r, held, 1 << 20);
        for (int i = 0; i < 2000 && sender_counts(&s).queued; i++) {
            while (serve_one(&r, &s, &held, &seed))
                ;
            receiver_ack(&r, &o, held);
            (void)sender_pump(&s);
        }
        assert_int_equal(held, s.next_seq - 1);
        assert_int_equal(sender_counts(&s).passed, s.next_seq - 1);
        sender_close(&s);
        receiver_end(&r);
    }
}

/* A backup that takes no more: memory first, then the newest are dropped; no sum is wrong meanwhile. */
static void test_backup_full(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    assert_int_equal(setenv("GRIDLINE_QUEUE", "64KiB", 1), 0);
    sender_open(&s, &r, 1, false);
    assert_int_equal(s.dest->ops->backup(s.dest, r.backup, 100000), 0);
    for (int i = 0; i < 40; i++)
        sender_put(&s, 1, 10000);
    struct dest_counts c = sender_counts(&s);
    assert_true(c.dropped[DROP_UNWRITABLE] > 20);
    assert_true(c.queued >= 8);
    struct frame_origin o = origin_of(&s);
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    for (uint64_t seq = 1; seq <= c.queued; seq++) {
        assert_int_equal(expect_block(&s, &r, seq), seq); /* the first ones, all of them, in order */
        receiver_ack(&r, &o, seq);
    }
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, c.queued);
    assert_int_equal(sender_counts(&s).queued, 0);
    sender_close(&s);
    receiver_end(&r);
}

/* Records that were damaged on disk are dropped, and counted as such. */
static void test_backup_damaged(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open(&s, &r, 1, true);
    for (int i = 0; i < 3; i++)
        sender_put(&s, 1, 1000);
    char path[160];
    (void)snprintf(path, sizeof path, "%s/0000000000000001.seg", r.backup);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damage", 6, 64 + 1500), 6);
    (void)close(fd);
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    struct frame_origin o = origin_of(&s);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    assert_int_equal(expect_block(&s, &r, 3), 3);
    receiver_ack(&r, &o, 3);
    (void)sender_pump(&s);
    assert_int_equal(sender_counts(&s).passed, 2);
    assert_int_equal(sender_counts(&s).dropped[DROP_UNWRITABLE], 1);
    assert_int_equal(sender_counts(&s).queued, 0);
    sender_close(&s);
    receiver_end(&r);
}

/* Whatever allocation fails, the sums hold and what is acknowledged is counted once. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct receiver r;
        struct sender s;
        receiver_start(&r);
        receiver_die(&r);
        sender_open(&s, &r, 1, true);
        struct frame_origin o = origin_of(&s);
        sender_put(&s, 2, 100);
        receiver_listen(&r);
        mem_fail_after(nth); /* somewhere in dialling, replaying, spilling, sending */
        for (int i = 0; i < 300; i++, s.now += STEP_MS * ms) {
            (void)s.dest->ops->pump(s.dest, s.now);
            if (receiver_accept(&r))
                break;
        }
        mem_fail_after(0);
        (void)sender_counts(&s);
        receiver_hang_up(&r);
        (void)sender_pump(&s);
        mem_fail_after(0);
        meet(&s, &r, 0, 1 << 20);
        mem_fail_after(nth);
        (void)s.dest->ops->pump(s.dest, s.now);
        mem_fail_after(0);
        for (int i = 0; i < 1000 && sender_counts(&s).queued; i++, s.now += STEP_MS * ms) {
            (void)sender_pump(&s);
            if (uplink_of(s.dest)->state != LINK_READY) {
                receiver_hang_up(&r);
                meet(&s, &r, 0, 1 << 20);
            }
            while (receiver_frame(&r) == FRAME_BATCH)
                receiver_ack(&r, &o, 2);
        }
        assert_int_equal(sender_counts(&s).passed, 2);
        sender_close(&s);
        receiver_end(&r);
    }
}

static void test_urls(void **state)
{
    (void)state;
    struct dest_env env = {.host = "h", .prog = "p"};
    struct dest *d = NULL;
    static const char *const good[] = {"127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:99", "localhost:14830"};
    static const char *const bad[] = {"",       ":1", "127.0.0.1:",          "127.0.0.1:x",
                                      "[::1]x", "[]", "no.such.host.invalid"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(dest_tcp.open(slice_str(good[i]), SLICE_LIT(""), &env, &d), 0);
        assert_true(uplink_of(d)->n_peers > 0);
        d->ops->close(d);
    }
    d = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(dest_tcp.open(slice_str(bad[i]), SLICE_LIT(""), &env, &d) < 0);
    assert_int_equal(dest_unix.open(SLICE_LIT(""), SLICE_LIT(""), &env, &d), -EINVAL);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    assert_int_equal(dest_unix.open(slice_of(longer, 108), SLICE_LIT(""), &env, &d), -ENAMETOOLONG);
    assert_null(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledged), cmocka_unit_test(test_queue_full),
        cmocka_unit_test(test_window),       cmocka_unit_test(test_backup),
        cmocka_unit_test(test_spill_flight), cmocka_unit_test(test_earlier_run),
        cmocka_unit_test(test_hung),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_garbage),      cmocka_unit_test(test_activate),
        cmocka_unit_test(test_fork),         cmocka_unit_test(test_random_faults),
        cmocka_unit_test(test_backup_full),  cmocka_unit_test(test_backup_damaged),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
