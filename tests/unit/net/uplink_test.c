/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end against receivers in the same thread: time is what the test says it is, so that no test
 * waits for a timer. What a stream destination uses of it is tested in client/stream_test.c; here is what the
 * agent uses: the list of addresses, a spool that is written first, marks, frames of the owner's.
 *
 * After each step the sums are checked, and what is in memory and in the spool against them. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"
#include "fault/journal_disk.h"
#include "net/uplink_internal.h"
#include "unit/net/receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { STEP_MS = 10, SEGMENT = 8192, LOGS = 3 };
static const int64_t ms = 1000000;

/* ---------------------------------------------------------------- the sender */

struct sender {
    struct uplink *u;
    struct block_writer *writer;
    struct registry *registry;
    struct batch_builder *builder;
    struct frame_origin origin;
    uint64_t next_seq;
    int64_t now;
    /* What was heard. */
    unsigned n_ready, n_down, n_frames;
    uint8_t last_type;
    int answer; /* of on_frame */
    struct {
        char name[32], position[32];
    } marks[300];
    size_t n_marks;
};

static void on_ready(void *arg, const struct frame_welcome *w)
{
    struct sender *s = arg;
    s->n_ready++;
    assert_int_equal(w->session, 1);
    assert_true(uplink_is_ready(s->u));
    assert_int_equal(uplink_send(s->u, 200, SLICE_LIT("first words")), 0);
}

static void on_down(void *arg)
{
    struct sender *s = arg;
    s->n_down++;
    assert_false(uplink_is_ready(s->u));
    assert_int_equal(uplink_send(s->u, 200, SLICE_LIT("x")), -ENOTCONN);
}

static int on_frame(void *arg, const struct frame *f)
{
    struct sender *s = arg;
    s->n_frames++;
    s->last_type = f->type;
    return s->answer;
}

static const struct uplink_ops ops = {.on_ready = on_ready, .on_down = on_down, .on_frame = on_frame};

static void on_mark(void *arg, struct slice name, struct slice position)
{
    struct sender *s = arg;
    assert_true(s->n_marks < 300 && name.n < 32 && position.n < 32);
    (void)snprintf(s->marks[s->n_marks].name, 32, "%.*s", SLICE_ARG(name));
    (void)snprintf(s->marks[s->n_marks++].position, 32, "%.*s", SLICE_ARG(position));
}

/* The position that was left for a name; NULL = none. */
static const char *mark_of(const struct sender *s, const char *name)
{
    for (size_t i = 0; i < s->n_marks; i++)
        if (strcmp(s->marks[i].name, name) == 0)
            return s->marks[i].position;
    return NULL;
}

static uint64_t check_list(const struct uplink_list *l, uint64_t *memory, uint64_t *waiting)
{
    uint64_t counted = 0;
    for (const struct uplink_item *i = l->head; i; i = i->next) {
        assert_true(!i->data == (i->record != 0));
        *memory += i->data ? i->data_n : 0;
        *waiting += i->mark != NULL;
        counted += i->data || i->is_gone ? (i->is_counted ? i->count : 0) : 0;
    }
    return counted;
}

/* Every event that is queued is in one place, and the sums are right. */
static struct uplink_counts check(const struct sender *s)
{
    const struct uplink *u = s->u;
    struct uplink_counts c;
    uplink_counts(u, &c);
    uint64_t sum = c.passed + c.queued, memory = 0, waiting = 0, segments = 0;
    for (size_t i = 0; i < DROP_REASONS; i++)
        sum += c.dropped[i];
    assert_int_equal(c.given, sum);
    uint64_t queued = check_list(&u->flight, &memory, &waiting) + check_list(&u->queue, &memory, &waiting);
    assert_int_equal(c.queued, queued + u->spool_events);
    assert_int_equal(u->memory, memory);
    assert_true(u->memory <= u->memory_max);
    for (size_t i = 0; i < u->n_segments; i++)
        segments += u->segments[i].events;
    assert_int_equal(u->spool_events, segments);
    for (const struct uplink_mark *m = u->marks; m; m = m->next) {
        waiting -= m->waiting;
        assert_true(m->moving == 0 && !m->is_grouped);
    }
    assert_int_equal(waiting, 0);
    return c;
}

static void sender_open(struct sender *s, const char *addresses, uint8_t producer, unsigned flags)
{
    *s = (struct sender){.origin = {.epoch = 1}, .next_seq = 1, .now = clock_mono_ns()};
    memset(s->origin.producer, producer, sizeof s->origin.producer);
    s->writer = block_writer_create();
    s->registry = registry_create();
    s->builder = batch_builder_create(s->registry, 0);
    const struct uplink_options options = {.host = "h",
                                           .prog = "p",
                                           .origin = s->origin,
                                           .role = PEER_AGENT,
                                           .flags = flags,
                                           .queue_max = 128 << 10,
                                           .ops = &ops,
                                           .arg = s};
    struct diag why;
    assert_int_equal(uplink_open(slice_str(addresses), &options, &s->u, &why), 0);
}

static uint64_t segment_bytes = SEGMENT;

/* With small segments, and a small limit for those who want one. */
static int sender_spool(struct sender *s, const char *dir, uint64_t max_bytes, const struct journal_io *io)
{
    s->u->spool_options.segment_bytes = segment_bytes;
    s->u->spool_options.io = io;
    s->u->spool_min = 8 * SEGMENT;
    return uplink_spool(s->u, dir, max_bytes, on_mark, s);
}

static void sender_free(struct sender *s)
{
    uplink_close(s->u);
    block_writer_destroy(s->writer);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
}

static void sender_close(struct sender *s)
{
    static const uint64_t none[DROP_REASONS];
    uplink_goodbye(s->u, check(s).given, none);
    (void)check(s);
    sender_free(s);
}

static void sender_open_first(struct sender *s, const struct receiver *r, uint8_t producer,
                              uint64_t max_bytes)
{
    char address[128];
    (void)snprintf(address, sizeof address, "unix:%s", r->path);
    sender_open(s, address, producer, UPLINK_SPOOL_FIRST);
    assert_int_equal(sender_spool(s, r->backup, max_bytes, NULL), 0);
}

/* A block of n events with size bytes of text each. log and line (the first one's number) are in them: what a
 * follower of log files would write. */
static void build(struct sender *s, struct strbuf *block, uint32_t n, size_t size, uint64_t log,
                  uint64_t line)
{
    static char text[60000];
    for (uint32_t i = 0; i < n; i++) {
        memset(text, 'a', size + 32);
        (void)snprintf(text, 32, "%llu.%llu", (unsigned long long)log, (unsigned long long)(line + i));
        const struct named_value values[] = {
            {SLICE_LIT("log"), value_uint(log)},
            {SLICE_LIT("line"), value_uint(line + i)},
            {SLICE_LIT("text"), value_text(slice_of(text, size))},
        };
        const struct event_head head = {.time_ns = 1, .name = SLICE_LIT("e"), .host = SLICE_LIT("h")};
        assert_int_equal(batch_builder_add(s->builder, &head, values, 3, NULL), 0);
    }
    struct batch *b = batch_builder_finish(s->builder, NULL);
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++)
        assert_int_equal(block_writer_add(s->writer, &b->events[i]), 0);
    batch_unref(b);
    struct batch_origin o = {.epoch = s->origin.epoch, .first_seq = s->next_seq};
    memcpy(o.producer, s->origin.producer, sizeof o.producer);
    assert_int_equal(block_writer_finish(s->writer, &o, block), 0);
}

static void put_raw(struct sender *s, uint32_t n, size_t size)
{
    struct strbuf block = {0};
    build(s, &block, n, size, 0, s->next_seq);
    uplink_put(s->u, strbuf_slice(&block), n, s->next_seq);
    s->next_seq += n;
    strbuf_fini(&block);
}

static void put(struct sender *s, uint32_t n, size_t size)
{
    put_raw(s, n, size);
    (void)check(s);
}

/* n lines of a log behind line, with the mark that says so: name log, position line + n. */
static int put_lines(struct sender *s, uint64_t log, uint64_t line, uint32_t n, size_t size)
{
    struct strbuf block = {0};
    char name[32], position[32];
    (void)snprintf(name, sizeof name, "%llu", (unsigned long long)log);
    (void)snprintf(position, sizeof position, "%llu", (unsigned long long)(line + n));
    if (n)
        build(s, &block, n, size, log, line + 1);
    int r =
        uplink_put_marked(s->u, strbuf_slice(&block), n, s->next_seq, slice_str(name), slice_str(position));
    s->next_seq += r == 0 ? n : 0;
    strbuf_fini(&block);
    return r;
}

static int commit(struct sender *s)
{
    int r = uplink_commit(s->u);
    (void)check(s);
    return r;
}

static int pump(struct sender *s)
{
    int wait = uplink_pump(s->u, s->now);
    (void)check(s);
    return wait;
}

static void pass_time(struct sender *s, int64_t for_ms)
{
    for (int64_t end = s->now + for_ms * ms; s->now < end; s->now += STEP_MS * ms)
        (void)pump(s);
}

/* Greeting, HELLO, WELCOME, and on_ready's frame. */
static void welcome(struct sender *s, struct receiver *r, uint64_t seq, uint32_t window)
{
    (void)pump(s);
    receiver_read(r);
    assert_int_equal(greeting_detect(strbuf_slice(&r->in)), GREETING_FRAMES);
    strbuf_consume(&r->in, FRAME_GREETING);
    r->frame.payload.p = NULL;
    assert_int_equal(receiver_frame(r), FRAME_HELLO);
    assert_int_equal(frame_get_hello(r->frame.payload, &r->hello), 0);
    assert_int_equal(r->hello.role, PEER_AGENT);
    receiver_welcome(r, seq, window);
    (void)pump(s);
    assert_int_equal(receiver_frame(r), 200);
    assert_slice(r->frame.payload, "first words");
}

static void meet(struct sender *s, struct receiver *r, uint64_t seq, uint32_t window)
{
    for (int i = 0; i < 2000; i++, s->now += STEP_MS * ms) {
        (void)pump(s);
        if (receiver_accept(r) && !receiver_is_left(r))
            break;
        receiver_hang_up(r); /* one that was given up before */
    }
    assert_true(r->fd >= 0);
    welcome(s, r, seq, window);
}

/* The next frame is a block with that first number; returns its last. */
static uint64_t expect_block(struct sender *s, struct receiver *r, uint64_t first)
{
    (void)pump(s);
    assert_int_equal(receiver_frame(r), FRAME_BATCH);
    assert_int_equal(block_check(r->frame.payload), r->frame.payload.n);
    assert_int_equal(block_origin(r->frame.payload).first_seq, first);
    return first + block_count(r->frame.payload) - 1;
}

static size_t count_segments(const struct sender *s)
{
    struct journal_stats stats;
    journal_stats(s->u->spool, &stats);
    return stats.segments;
}

/* ---------------------------------------------------------------- addresses */

static void test_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {
        "127.0.0.1", "tcp://127.0.0.1:1", "[::1]:99",
        "unix:/a/b", "unix:///a/b",       "tcp://127.0.0.1:1, unix:/a ,[::1]",
        "localhost",
    };
    static const struct {
        const char *text;
        int code;
        uint32_t col;
    } bad[] = {
        {"", -EINVAL, 1},
        {"unix:", -EINVAL, 1},
        {"127.0.0.1,", -EINVAL, 11},
        {"127.0.0.1,,unix:/a", -EINVAL, 11},
        {"unix:/a, 127.0.0.1:x", -EINVAL, 10},
        {"unix:/a,no.such.host.invalid", -EHOSTUNREACH, 9},
        {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", E_LIMIT, 0},
    };
    const struct uplink_options options = {.host = "h", .prog = "p"};
    struct uplink *u = NULL;
    struct diag why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(uplink_open(slice_str(good[i]), &options, &u, NULL), 0);
        uplink_close(u);
    }
    u = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(uplink_open(slice_str(bad[i].text), &options, &u, &why), bad[i].code);
        assert_int_equal(why.col, bad[i].col);
        assert_true(why.message[0] != '\0');
    }
    assert_null(u);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "unix:", 5);
    assert_int_equal(uplink_open(slice_of(longer, 113), &options, &u, NULL), -ENAMETOOLONG);

    struct uplink_options one = options;
    one.flags = UPLINK_ONE_ADDRESS;
    assert_int_equal(uplink_open(SLICE_LIT("unix:///a, b"), &one, &u, NULL), 0);
    assert_int_equal(u->n_peers, 1);
    assert_string_equal(((const struct sockaddr_un *)&u->peers[0].sa)->sun_path, "/a, b");
    uplink_close(u);
    uplink_close(NULL);
}

/* Listens on a free port of loopback instead. */
static void receiver_listen_tcp(struct receiver *r, uint16_t *port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(*port)};
    socklen_t len = sizeof in;
    int on = 1;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(r->listener >= 0);
    assert_int_equal(setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(r->listener, (const struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(r->listener, 8), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&in, &len), 0);
    *port = ntohs(in.sin_port);
}

/* The first is dead: the second gets everything. It breaks: the first is asked first. */
static void test_failover(void **state)
{
    (void)state;
    struct receiver a, b;
    struct sender s;
    char list[256], first[64], second[128];
    uint16_t port = 0;
    receiver_start(&a);
    receiver_die(&a);
    receiver_listen_tcp(&a, &port);
    receiver_die(&a);
    receiver_start(&b);
    (void)snprintf(first, sizeof first, "tcp://127.0.0.1:%u", port);
    (void)snprintf(second, sizeof second, "unix:%s", b.path);
    (void)snprintf(list, sizeof list, "%s, %s", first, second);
    sender_open(&s, list, 1, 0);
    assert_string_equal(uplink_address(s.u), first);
    put(&s, 2, 10);
    put(&s, 3, 10);
    int64_t began = s.now;
    meet(&s, &b, 0, 1 << 20);
    assert_true(s.now - began < 100 * ms); /* at once, not after a pause */
    assert_string_equal(uplink_address(s.u), second);
    assert_int_equal(expect_block(&s, &b, 1), 2);
    assert_int_equal(expect_block(&s, &b, 3), 5);
    receiver_ack(&b, &s.origin, 2);
    (void)pump(&s);

    receiver_listen_tcp(&a, &port); /* back, but a connection that works is kept */
    pass_time(&s, 3000);
    assert_false(receiver_accept(&a));
    receiver_hang_up(&b);
    began = s.now;
    meet(&s, &a, 0, 1 << 20);
    assert_true(s.now - began < 1000 * ms); /* b would have taken it, too */
    assert_string_equal(uplink_address(s.u), first);
    assert_int_equal(s.n_ready, 2);
    assert_int_equal(s.n_down, 1);
    assert_int_equal(expect_block(&s, &a, 3), 5); /* what b has acknowledged is done */
    receiver_ack(&a, &s.origin, 5);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 5);

    receiver_die(&a);
    receiver_die(&b); /* now nobody: the pauses grow to 5 s and no further */
    pass_time(&s, 30000);
    int64_t tries = 0, last = s.u->retry_at_ns, longest = 0;
    for (int i = 0; i < 3000; i++, s.now += STEP_MS * ms) {
        (void)pump(&s);
        if (s.u->retry_at_ns != last) {
            longest = s.u->retry_at_ns - s.now > longest ? s.u->retry_at_ns - s.now : longest;
            last = s.u->retry_at_ns;
            tries++;
        }
    }
    assert_true(tries >= 5 && tries <= 40);
    assert_true(longest > 1000 * ms && longest <= 5000 * ms);
    receiver_listen(&b);
    meet(&s, &b, 5, 1 << 20);
    put(&s, 1, 1);
    assert_int_equal(expect_block(&s, &b, 6), 6);
    sender_close(&s);
    receiver_end(&a);
    receiver_end(&b);
}

/* ---------------------------------------------------------------- frames of the owner's */

static void test_frames(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    char address[128];
    receiver_start(&r);
    (void)snprintf(address, sizeof address, "unix:%s", r.path);
    sender_open(&s, address, 1, 0);
    assert_int_equal(uplink_send(s.u, 15, SLICE_LIT("x")), -ENOTCONN);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(s.n_ready, 1);
    static const uint8_t types[] = {FRAME_ACTIVATE, 10, 14, 199};
    for (size_t i = 0; i < sizeof types; i++) {
        struct strbuf out = {0};
        frame_put(&out, types[i], 0, SLICE_LIT("hear"));
        receiver_send(&r, &out);
        (void)pump(&s);
        assert_int_equal(s.last_type, types[i]);
        assert_int_equal(s.n_frames, i + 1);
        assert_true(uplink_is_ready(s.u));
    }
    assert_int_equal(uplink_send(s.u, 15, SLICE_LIT("answer")), 0);
    short events;
    assert_true(uplink_wait_fd(s.u, &events) >= 0);
    assert_int_equal(events, POLLIN | POLLOUT);
    (void)pump(&s);
    assert_int_equal(receiver_frame(&r), 15);
    assert_slice(r.frame.payload, "answer");
    uint64_t sent, received;
    uplink_bytes(s.u, &sent, &received);
    assert_int_equal(received, 4 * (FRAME_HEAD + 4) + FRAME_HEAD + 54);
    assert_true(sent > 3 * FRAME_HEAD + FRAME_GREETING);

    static char large[FRAME_PAYLOAD_MAX + 1];
    assert_int_equal(uplink_send(s.u, 15, slice_of(large, sizeof large)), E_LIMIT);
    int n = 0;
    while (uplink_send(s.u, 15, slice_of(large, 60000)) == 0)
        n++;
    assert_int_equal(n, 3); /* 128 KiB, exceeded by one */
    assert_int_equal(uplink_send(s.u, 15, SLICE_LIT("x")), -EAGAIN);
    mem_fail_after(1);
    assert_int_equal(uplink_send(s.u, 15, SLICE_LIT("x")), -EAGAIN);
    mem_fail_after(0);

    s.answer = -EINVAL; /* the owner can make nothing of it: that ends the connection */
    struct strbuf out = {0};
    frame_put(&out, 14, 0, SLICE_LIT("?"));
    receiver_send(&r, &out);
    (void)pump(&s);
    assert_false(uplink_is_ready(s.u));
    assert_int_equal(s.n_down, 1);
    sender_close(&s);
    receiver_end(&r);
}

/* ---------------------------------------------------------------- the spool */

/* Nothing is sent before it is committed; then from memory, without reading; and again after a break, from
 * disk. */
static void test_spool_first(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open_first(&s, &r, 1, 0);
    meet(&s, &r, 0, 1 << 20);
    put(&s, 2, 10);
    assert_int_equal(put_lines(&s, 7, 0, 3, 10), 0);
    (void)pump(&s);
    assert_int_equal(receiver_frame(&r), 0);
    assert_true(s.u->memory > 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(s.u->memory, 0);
    assert_int_equal(s.u->spool_events, 5);
    assert_false(uplink_spool_has_unread(s.u));
    assert_null(s.u->reader);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    assert_int_equal(expect_block(&s, &r, 3), 5);
    receiver_ack(&r, &s.origin, 2);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 2);

    receiver_hang_up(&r);
    (void)pump(&s);
    put(&s, 1, 10);
    assert_int_equal(commit(&s), 0);
    assert_true(uplink_spool_has_unread(s.u));
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 3), 5);
    put(&s, 1, 10); /* it is on its way in the order of numbers */
    assert_int_equal(commit(&s), 0);
    assert_int_equal(expect_block(&s, &r, 6), 6);
    assert_int_equal(expect_block(&s, &r, 7), 7);
    receiver_ack(&r, &s.origin, 7);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 7);
    assert_true(uplink_spool_is_empty(s.u));
    assert_int_equal(s.u->spool_done, s.u->spool_last);
    assert_int_equal(put_lines(&s, 7, 3, 0, 0), 0); /* the mark alone; the same position */
    assert_int_equal(commit(&s), 0);
    (void)pump(&s);
    assert_int_equal(receiver_frame(&r), 0);
    sender_close(&s);

    sender_open_first(&s, &r, 2, 0);
    assert_string_equal(mark_of(&s, "7"), "3");
    assert_int_equal(s.n_marks, 1);
    receiver_hang_up(&r);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(receiver_frame(&r), 0); /* all of it was acknowledged */
    sender_close(&s);
    receiver_end(&r);
}

/* What a run left is sent by the next one under its own name, marked or not, with its last COUNTS. */
static void test_earlier_run(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 0);
    struct frame_origin first = s.origin;
    put(&s, 2, 10);
    assert_int_equal(put_lines(&s, 1, 0, 3, 10), 0);
    assert_int_equal(commit(&s), 0);
    put(&s, 1, 10); /* goodbye commits */
    sender_close(&s);

    receiver_listen(&r);
    sender_open_first(&s, &r, 1, 0); /* the same producer and epoch even: its ledger is its own */
    s.next_seq = 100;
    put(&s, 1, 10);
    assert_int_equal(commit(&s), 0);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    assert_int_equal(expect_block(&s, &r, 3), 5);
    assert_int_equal(expect_block(&s, &r, 6), 6);
    assert_int_equal(receiver_frame(&r), FRAME_COUNTS);
    assert_int_equal(frame_get_counts(r.frame.payload, &r.counts), 0);
    assert_true(r.counts.is_final);
    assert_int_equal(r.counts.queued, 6);
    assert_int_equal(expect_block(&s, &r, 100), 100);
    receiver_ack(&r, &first, 6);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 0);
    receiver_ack(&r, &first, 100);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 1);
    sender_close(&s);
    receiver_end(&r);
}

static void test_errors(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s, other;
    receiver_start(&r);
    sender_open_first(&s, &r, 1, 0);
    assert_int_equal(sender_spool(&s, r.backup, 0, NULL), -EEXIST);
    sender_open(&other, "unix:/nowhere", 2, UPLINK_SPOOL_FIRST);
    assert_int_equal(sender_spool(&other, r.backup, 0, NULL), -EBUSY);
    assert_int_equal(sender_spool(&other, "/nowhere/at/all", 0, NULL), -ENOENT);
    put(&other, 1, 10);
    assert_int_equal(uplink_put_marked(other.u, SLICE_LIT(""), 0, 2, SLICE_LIT("m"), SLICE_LIT("1")), 0);
    assert_int_equal(commit(&other), 0); /* without a spool there is nothing to do */
    assert_int_equal(other.u->n_marks, 0);
    sender_close(&other);
    assert_int_equal(commit(&s), 0);
    sender_close(&s);
    receiver_end(&r);
}

/* However much there is to be sent again, a pump reads and makes ready a bounded part of it. */
static void test_replay_bounded(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 64 << 20);
    enum { BLOCKS = 300, SIZE = 10000 };
    for (int i = 0; i < BLOCKS; i++) {
        put(&s, 1, SIZE);
        assert_int_equal(commit(&s), 0);
    }
    receiver_listen(&r);
    meet(&s, &r, 0, 64 << 20);
    uint64_t before, after, received, next = 1;
    int wait = 0;
    for (int i = 0; i < 1000 && next <= BLOCKS; i++) {
        uplink_bytes(s.u, &before, &received);
        wait = pump(&s);
        uplink_bytes(s.u, &after, &received);
        assert_true(after - before < UPLINK_OUTPUT_GOAL + 2 * SIZE);
        assert_true(s.u->out.n < UPLINK_OUTPUT_GOAL + 2 * SIZE);
        if (uplink_spool_has_unread(s.u) && uplink_may_launch(s.u))
            assert_true(wait >= 0 && wait <= 10); /* it wants to go on */
        while (receiver_frame(&r) == FRAME_BATCH)
            assert_int_equal(block_origin(r.frame.payload).first_seq, next++);
    }
    assert_int_equal(next, BLOCKS + 1);
    receiver_hang_up(&r);
    meet(&s, &r, BLOCKS, 64 << 20); /* it has them all: nothing is sent, and still no pump reads everything */
    uint64_t at = s.u->read_next;
    assert_true(at <= 1 + (256 << 10) / SIZE + 1);
    for (int i = 0; i < 1000 && check(&s).queued; i++) {
        (void)pump(&s);
        assert_true(s.u->read_next - at <= (256 << 10) / SIZE + 1);
        at = s.u->read_next;
    }
    assert_int_equal(check(&s).passed, BLOCKS);
    sender_close(&s);
    receiver_end(&r);
}

/* ---------------------------------------------------------------- forced */

/* The limit is reached with nobody there: what is gone is counted, and the rest is what arrives. */
static void test_forced(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 8 * SEGMENT);
    for (int i = 0; i < 200; i++) {
        put(&s, 3, 500);
        if (i % 3 == 0)
            assert_int_equal(commit(&s), 0);
    }
    assert_int_equal(commit(&s), 0);
    struct uplink_counts c = check(&s);
    assert_int_equal(c.given, 600);
    assert_true(c.dropped[DROP_FORCED] > 300);
    assert_int_equal(c.queued + c.dropped[DROP_FORCED], 600);
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    uint64_t next = c.dropped[DROP_FORCED] + 1;
    while (next <= 600)
        next = expect_block(&s, &r, next) + 1; /* the newest, without a hole */
    receiver_ack(&r, &s.origin, 600);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, c.queued);
    assert_int_equal(check(&s).queued, 0);
    sender_close(&s);
    receiver_end(&r);
}

/* Blocks are on the way when their segment goes: they count as passed if they are acknowledged, as forced if
 * not. */
static void test_forced_in_flight(void **state)
{
    (void)state;
    for (int is_acknowledged = 0; is_acknowledged < 2; is_acknowledged++) {
        struct receiver r;
        struct sender s;
        receiver_start(&r);
        sender_open_first(&s, &r, 1, 8 * SEGMENT);
        meet(&s, &r, 0, 4000);
        for (int i = 0; i < 3; i++)
            put(&s, 2, 800);
        assert_int_equal(commit(&s), 0);
        assert_int_equal(expect_block(&s, &r, 1), 2);
        assert_int_equal(expect_block(&s, &r, 3), 4);
        assert_int_equal(receiver_frame(&r), 0); /* the window has room for two */
        for (int i = 0; i < 60; i++) {
            put(&s, 2, 800);
            assert_int_equal(commit(&s), 0);
        }
        struct uplink_counts c = check(&s);
        assert_true(s.u->flight.head->is_gone);
        assert_true(c.dropped[DROP_FORCED] > 30);
        if (is_acknowledged) {
            receiver_ack(&r, &s.origin, 4);
            (void)pump(&s);
            assert_int_equal(check(&s).passed, 4);
            assert_int_equal(check(&s).dropped[DROP_FORCED], c.dropped[DROP_FORCED]);
        } else {
            receiver_ack(&r, &s.origin, 2); /* one of them */
            (void)pump(&s);
            receiver_hang_up(&r);
            (void)pump(&s);
            assert_int_equal(check(&s).passed, 2);
            assert_int_equal(check(&s).dropped[DROP_FORCED], c.dropped[DROP_FORCED] + 2);
            meet(&s, &r, 0, 1 << 20);
        }
        uint64_t held = 0;
        for (int i = 0; i < 100 && check(&s).queued; i++) {
            (void)pump(&s);
            while (receiver_frame(&r) == FRAME_BATCH) {
                uint64_t first = block_origin(r.frame.payload).first_seq;
                assert_int_equal(first, held ? held + 1 : 126 - check(&s).queued + 1);
                held = first + 1;
                receiver_ack(&r, &s.origin, held);
            }
        }
        assert_int_equal(held, 126);
        assert_int_equal(check(&s).passed + check(&s).dropped[DROP_FORCED], 126);
        sender_close(&s);
        receiver_end(&r);
    }
}

/* Those of earlier runs are not in this run's sums, but are told of. */
static void test_forced_earlier(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 8 * SEGMENT);
    for (int i = 0; i < 5; i++) {
        put(&s, 1, 5000);
        assert_int_equal(commit(&s), 0);
    }
    sender_free(&s); /* as if it was killed: five records */
    sender_open_first(&s, &r, 2, 8 * SEGMENT);
    for (int i = 0; i < 20; i++) {
        put(&s, 1, 5000);
        assert_int_equal(commit(&s), 0);
    }
    assert_int_equal(check(&s).earlier_forced, 5);
    struct uplink_counts c = check(&s);
    assert_true(c.dropped[DROP_FORCED] > 0);
    assert_int_equal(c.dropped[DROP_FORCED] + c.queued, 20);
    sender_close(&s);
    receiver_end(&r);
}

/* ---------------------------------------------------------------- a disk that fails */

static void disk_break(struct disk *d, int code)
{
    d->fault = DISK_ERROR;
    d->fail_code = code;
    d->fails_on = true;
    d->fail_at = d->calls + 1;
}

static void disk_heal(struct disk *d)
{
    d->fail_at = 0;
}

/* Full: memory takes over, is sent from, is full too; then comes the disk back and has everything that is
 * left. */
static void test_disk_full(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    char address[128];
    struct disk *d = disk_create();
    receiver_start(&r);
    (void)snprintf(address, sizeof address, "unix:%s", r.path);
    sender_open(&s, address, 1, UPLINK_SPOOL_FIRST);
    assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(put_lines(&s, 1, 0, 2, 100), 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    receiver_ack(&r, &s.origin, 2);
    (void)pump(&s);

    disk_break(d, -ENOSPC);
    assert_int_equal(put_lines(&s, 1, 2, 2, 100), 0);
    assert_int_equal(put_lines(&s, 2, 0, 1, 100), 0);
    (void)pump(&s);
    assert_int_equal(receiver_frame(&r), 0); /* the disk has not been asked yet */
    assert_int_equal(commit(&s), -ENOSPC);
    assert_int_equal(check(&s).queued, 3);
    assert_int_equal(expect_block(&s, &r, 3), 4); /* from memory */
    assert_int_equal(expect_block(&s, &r, 5), 5);
    receiver_ack(&r, &s.origin, 4);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 4);
    assert_true(uplink_marks_are_dirty(s.u));
    receiver_die(&r);
    (void)pump(&s);
    while (check(&s).dropped[DROP_UNWRITABLE] == 0) {
        put(&s, 1, 10000);
        (void)commit(&s);
    }
    assert_int_equal(check(&s).dropped[DROP_UNWRITABLE], 1);
    assert_true(s.u->memory > (128 << 10) - 11000);
    assert_true(commit(&s) < 0);
    disk_heal(d);
    put(&s, 1, 10000); /* the memory is full, so it asks the disk, but not at once again */
    assert_int_equal(commit(&s), s.u->counts.dropped[DROP_UNWRITABLE] > 1 ? -ENOBUFS : 0);
    assert_int_equal(s.u->memory, 0);
    assert_false(s.u->is_failing);
    uint64_t left = check(&s).queued;
    assert_true(left >= 11);
    assert_int_equal(commit(&s), 0);
    sender_free(&s); /* no goodbye */

    sender_open(&s, address, 2, UPLINK_SPOOL_FIRST);
    assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
    assert_string_equal(mark_of(&s, "1"), "4"); /* acknowledged from memory, so it was owed */
    assert_string_equal(mark_of(&s, "2"), "1");
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    struct frame_origin first = {.epoch = 1};
    memset(first.producer, 1, sizeof first.producer);
    assert_int_equal(expect_block(&s, &r, 5), 5);
    uint64_t n = 1, last = 5;
    for (int i = 0; i < 100; i++) {
        (void)pump(&s);
        while (receiver_frame(&r) == FRAME_BATCH) {
            assert_true(block_origin(r.frame.payload).first_seq > last);
            last = block_origin(r.frame.payload).first_seq;
            receiver_ack(&r, &first, last);
            n++;
        }
    }
    assert_int_equal(n, left);
    sender_close(&s);
    receiver_end(&r);
    assert_int_equal(d->n_open, 0);
    disk_destroy(d);
}

/* Once everything that the disk did not take has been sent, the next block is for the disk again. */
static void test_disk_heals(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    char address[128];
    struct disk *d = disk_create();
    receiver_start(&r);
    (void)snprintf(address, sizeof address, "unix:%s", r.path);
    sender_open(&s, address, 1, UPLINK_SPOOL_FIRST);
    assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
    meet(&s, &r, 0, 1 << 20);
    disk_break(d, -EIO);
    put(&s, 1, 10);
    assert_int_equal(commit(&s), -EIO);
    assert_int_equal(expect_block(&s, &r, 1), 1);
    receiver_ack(&r, &s.origin, 1);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 1);
    disk_heal(d);
    put(&s, 1, 10);
    (void)pump(&s);
    assert_int_equal(receiver_frame(&r), 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(expect_block(&s, &r, 2), 2);
    assert_true(s.u->flight.head->record > 0);
    sender_close(&s);
    receiver_end(&r);
    disk_destroy(d);
}

/* Records that were damaged on disk are dropped, and counted when what is behind them has been acknowledged.
 */
static void test_damaged(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 1 << 20);
    for (int i = 0; i < 8; i++) { /* three a segment */
        put(&s, 2, 1200);
        assert_int_equal(commit(&s), 0);
    }
    assert_int_equal(count_segments(&s), 3);
    char path[160];
    (void)snprintf(path, sizeof path, "%s/0000000000000001.seg", r.backup);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damage", 6, 64 + 3000), 6); /* the second */
    (void)close(fd);
    receiver_listen(&r);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(expect_block(&s, &r, 1), 2);
    assert_int_equal(expect_block(&s, &r, 5), 6);
    receiver_ack(&r, &s.origin, 4);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 2);
    assert_int_equal(check(&s).dropped[DROP_UNWRITABLE], 0); /* not known yet to be needed */
    receiver_ack(&r, &s.origin, 6);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 4);
    assert_int_equal(check(&s).dropped[DROP_UNWRITABLE], 2);
    assert_int_equal(check(&s).queued, 10);
    receiver_ack(&r, &s.origin, 16);
    (void)pump(&s);
    assert_int_equal(check(&s).passed, 14);
    sender_close(&s);
    receiver_end(&r);
}

/* The child has nothing of the parent's, and the spool when the parent has left it, with its marks. */
static void test_fork(void **state)
{
    (void)state;
    struct receiver r;
    struct sender parent, s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 1 << 20);
    assert_int_equal(put_lines(&s, 1, 0, 3, 10), 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(put_lines(&s, 1, 3, 3, 10), 0);
    memset(s.origin.producer, 9, sizeof s.origin.producer);
    s.next_seq = 1;
    uplink_after_fork(s.u, &s.origin);
    assert_int_equal(check(&s).given, 0);
    assert_int_equal(s.u->n_marks, 0);
    assert_null(s.u->spool);
    sender_open_first(&parent, &r, 1, 1 << 20); /* the lock went with the descriptors, so one in its place */
    assert_int_equal(put_lines(&s, 2, 0, 2, 10), 0);
    assert_int_equal(commit(&s), -EAGAIN); /* taken */
    sender_close(&parent);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(s.u->memory, 0);
    assert_int_equal(s.u->n_marks, 2);
    sender_close(&s);
    sender_open_first(&s, &r, 2, 1 << 20);
    assert_string_equal(mark_of(&s, "1"), "3");
    assert_string_equal(mark_of(&s, "2"), "2");
    sender_close(&s);
    receiver_end(&r);
}

/* Each call of the disk fails in turn, once or from then on: the sums hold, and after it is well again what
 * was not dropped arrives, once and in order, and the marks are those of the last blocks. */
static void test_disk_faults(void **state)
{
    (void)state;
    uint64_t calls = 0;
    for (uint64_t nth = 0; nth == 0 || nth <= calls; nth++) {
        struct receiver r;
        struct sender s;
        char address[128];
        struct disk *d = disk_create();
        receiver_start(&r);
        (void)snprintf(address, sizeof address, "unix:%s", r.path);
        sender_open(&s, address, 1, UPLINK_SPOOL_FIRST);
        assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
        meet(&s, &r, 0, 6000);
        uint64_t start = d->calls, held = 0;
        d->fault = DISK_ERROR;
        d->fail_code = nth % 3 ? -EIO : -ENOSPC;
        d->fails_on = nth % 2;
        d->fail_at = nth ? start + nth : 0;
        for (uint64_t i = 0; i < 12; i++) {
            assert_int_equal(put_lines(&s, i % 2, i / 2 * 3, 3, 700), 0);
            s.now += 4000 * ms;
            (void)commit(&s);
            (void)pump(&s);
            if (i == 6) {
                receiver_hang_up(&r);
                (void)pump(&s);
                meet(&s, &r, held, 1 << 20);
            }
            while (receiver_frame(&r) == FRAME_BATCH) {
                uint64_t first = block_origin(r.frame.payload).first_seq;
                assert_true(first <= held + 1);
                held = first + 2 > held ? first + 2 : held;
                if (i % 3 == 0)
                    receiver_ack(&r, &s.origin, held);
            }
        }
        if (nth == 0)
            calls = d->calls - start;
        disk_heal(d);
        assert_int_equal(commit(&s), 0);
        for (int i = 0; i < 200 && check(&s).queued; i++, s.now += STEP_MS * ms) {
            (void)pump(&s);
            if (!uplink_is_ready(s.u)) {
                receiver_hang_up(&r);
                meet(&s, &r, held, 1 << 20);
            }
            while (receiver_frame(&r) == FRAME_BATCH)
                held = block_origin(r.frame.payload).first_seq + 2 > held
                           ? block_origin(r.frame.payload).first_seq + 2
                           : held;
            receiver_ack(&r, &s.origin, held);
        }
        assert_int_equal(held, 36);
        assert_int_equal(check(&s).passed, 36);
        sender_close(&s);
        sender_open(&s, address, 2, UPLINK_SPOOL_FIRST);
        assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
        assert_string_equal(mark_of(&s, "0"), "18");
        assert_string_equal(mark_of(&s, "1"), "18");
        sender_close(&s);
        receiver_end(&r);
        disk_destroy(d);
    }
    assert_true(calls > 40);
}

/* ---------------------------------------------------------------- marks */

/* The record is read back as it was written; what is cut short or too long is not. */
static void test_mark_record(void **state)
{
    (void)state;
    struct strbuf b = {0};
    struct slice name, position, block;
    uplink_mark_put(&b, SLICE_LIT("name"), SLICE_LIT("where"));
    strbuf_add_str(&b, "block");
    assert_int_equal(uplink_mark_get(strbuf_slice(&b), &name, &position, &block), 0);
    assert_slice(name, "name");
    assert_slice(position, "where");
    assert_slice(block, "block");
    for (size_t n = 0; n < 11; n++)
        assert_int_equal(uplink_mark_get(slice_of(b.p, n), &name, &position, &block), E_PROTO);
    static char large[UPLINK_MARK_POSITION_MAX + 1];
    strbuf_reset(&b);
    uplink_mark_put(&b, SLICE_LIT("n"), slice_of(large, sizeof large));
    assert_int_equal(uplink_mark_get(strbuf_slice(&b), &name, &position, &block), E_PROTO);
    strbuf_reset(&b);
    uplink_mark_put(&b, SLICE_LIT(""), SLICE_LIT("where"));
    assert_int_equal(uplink_mark_get(strbuf_slice(&b), &name, &position, &block), E_PROTO);
    strbuf_fini(&b);
}

/* Segments come and go while some marks rest: none is lost, and they don't hold the segments back. */
static void test_marks_survive(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open_first(&s, &r, 1, 1 << 20);
    meet(&s, &r, 0, 1 << 20);
    assert_int_equal(put_lines(&s, 100, 0, 1, 10), 0); /* once and never again */
    assert_int_equal(put_lines(&s, 101, 41, 0, 0), 0);
    assert_int_equal(put_lines(&s, 102, 0, 1, 10), 0); /* taken out later */
    uint64_t lines = 0;
    for (int i = 0; i < 300; i++) {
        assert_int_equal(put_lines(&s, 1, lines++, 1, 2000), 0);
        if (i == 150)
            assert_int_equal(uplink_put_marked(s.u, SLICE_LIT(""), 0, 0, SLICE_LIT("102"), SLICE_LIT("")), 0);
        assert_int_equal(commit(&s), 0);
        (void)pump(&s);
        while (receiver_frame(&r) != 0)
            ;
        receiver_ack(&r, &s.origin, s.next_seq - 1);
        (void)pump(&s);
        s.now += 6000 * ms; /* nothing is owed, so nothing is given up */
        assert_true(count_segments(&s) <= 6);
    }
    assert_int_equal(check(&s).passed, 302);
    assert_true(s.u->newest > 200); /* there were many segments */
    assert_int_equal(s.n_ready, 1);
    sender_close(&s);

    for (uint8_t run = 2; run < 6; run++) { /* runs that do nothing, or little, don't lose them either */
        sender_open_first(&s, &r, run, 1 << 20);
        assert_int_equal(s.n_marks, 3);
        assert_string_equal(mark_of(&s, "100"), "1");
        assert_string_equal(mark_of(&s, "101"), "41");
        assert_string_equal(mark_of(&s, "1"), "300");
        for (int i = 0; i < (run % 2 ? 0 : 10); i++) {
            put(&s, 1, 5000);
            assert_int_equal(commit(&s), 0);
        }
        sender_close(&s);
    }
    receiver_end(&r);
}

/* The same with nobody there and the size limit taking the oldest: marks stay, blocks go. */
static void test_marks_survive_forced(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    for (uint8_t run = 1; run < 5; run++) {
        sender_open_first(&s, &r, run, 8 * SEGMENT);
        if (run > 1) {
            assert_string_equal(mark_of(&s, "9"), "5");
            assert_string_equal(mark_of(&s, "1"), "100");
        } else {
            assert_int_equal(put_lines(&s, 9, 4, 1, 10), 0);
        }
        for (uint64_t i = 0; i < 100; i++) {
            assert_int_equal(put_lines(&s, 1, i, 1, 3000), 0);
            assert_int_equal(commit(&s), 0);
        }
        assert_true(check(&s).dropped[DROP_FORCED] > 50);
        sender_free(&s);
    }
    receiver_end(&r);
}

static void test_marks_limit(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    receiver_die(&r);
    sender_open_first(&s, &r, 1, 4 << 20);
    static char large[UPLINK_MARK_POSITION_MAX + 1];
    const struct slice empty = SLICE_LIT(""), x = SLICE_LIT("x");
    assert_int_equal(uplink_put_marked(s.u, empty, 0, 1, empty, x), E_LIMIT);
    assert_int_equal(uplink_put_marked(s.u, empty, 0, 1, slice_of(large, UPLINK_MARK_NAME_MAX + 1), x),
                     E_LIMIT);
    assert_int_equal(uplink_put_marked(s.u, empty, 0, 1, x, slice_of(large, sizeof large)), E_LIMIT);
    for (uint64_t i = 0; i < UPLINK_MARKS_MAX; i++)
        assert_int_equal(put_lines(&s, i, i, 0, 0), 0);
    assert_int_equal(put_lines(&s, 999, 0, 1, 10), E_LIMIT); /* nothing is taken */
    assert_int_equal(check(&s).given, 0);
    assert_int_equal(put_lines(&s, 5, 6, 1, 10), 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(put_lines(&s, 999, 0, 1, 10), E_LIMIT);
    assert_int_equal(uplink_put_marked(s.u, empty, 0, 1, SLICE_LIT("17"), empty), 0);
    assert_int_equal(commit(&s), 0);
    assert_int_equal(put_lines(&s, 999, 0, 1, 10), 0); /* there is room again */
    assert_int_equal(uplink_put_marked(s.u, empty, 0, 1, SLICE_LIT("18"), empty), 0); /* out and in again */
    assert_int_equal(put_lines(&s, 18, 70, 0, 0), 0);
    assert_int_equal(commit(&s), 0);
    mem_fail_after(1);
    assert_int_equal(put_lines(&s, 5, 7, 0, 0), 0); /* no memory: neither block nor mark */
    mem_fail_after(0);
    assert_int_equal(commit(&s), -ENOMEM);
    assert_int_equal(commit(&s), 0);
    sender_close(&s);
    sender_open_first(&s, &r, 2, 4 << 20);
    assert_int_equal(s.n_marks, UPLINK_MARKS_MAX);
    assert_null(mark_of(&s, "17"));
    assert_string_equal(mark_of(&s, "18"), "70");
    assert_string_equal(mark_of(&s, "5"), "7");
    assert_string_equal(mark_of(&s, "255"), "255");
    assert_string_equal(mark_of(&s, "999"), "1");
    sender_close(&s);
    receiver_end(&r);
}

/* ---------------------------------------------------------------- crashes */

/* What a follower of LOGS logs has written: of each, lines 1 to n exist and belong to blocks with marks. */
struct follower {
    uint64_t put[LOGS];       /* last line given to uplink */
    uint64_t committed[LOGS]; /* last line that is durable, by uplink_commit */
};

/* Reads every block that a receiver gets and checks: of each log, the lines come in order without a hole,
 * from where the receiver already was, and end exactly at the log's mark. */
struct reader {
    uint64_t lines[LOGS]; /* last line received */
};

static void read_block(struct reader *rd, struct slice block)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    assert_int_equal(block_decode(block, builder, NULL), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++) {
        uint64_t log = b->events[i].values[0].u, line = b->events[i].values[1].u;
        assert_true(log < LOGS);
        assert_true(line <= rd->lines[log] + 1); /* no hole; a second time is the receiver's to see */
        if (line > rd->lines[log])
            rd->lines[log] = line;
    }
    batch_unref(b);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

static void read_all(struct sender *s, struct receiver *r, struct reader *rd)
{
    meet(s, r, 0, 1 << 20);
    for (int idle = 0; idle < 3; idle++, s->now += STEP_MS * ms) {
        (void)pump(s);
        while (receiver_frame(r) == FRAME_BATCH) {
            struct batch_origin b = block_origin(r->frame.payload);
            struct frame_origin o = {.epoch = b.epoch};
            memcpy(o.producer, b.producer, sizeof o.producer);
            read_block(rd, r->frame.payload);
            receiver_ack(r, &o, b.first_seq + block_count(r->frame.payload) - 1);
            idle = 0;
        }
    }
    assert_true(uplink_spool_is_empty(s->u));
    receiver_hang_up(r);
}

static uint64_t mark_line(const struct sender *s, uint64_t log)
{
    char name[8];
    (void)snprintf(name, sizeof name, "%llu", (unsigned long long)log);
    const char *position = mark_of(s, name);
    return position ? strtoull(position, NULL, 10) : 0;
}

/* From where the marks are the next run goes on; nothing that was committed is missing. */
static void go_on(const struct sender *s, struct follower *f)
{
    for (uint64_t log = 0; log < LOGS; log++) {
        uint64_t at = mark_line(s, log);
        assert_true(at >= f->committed[log]);
        assert_true(at <= f->put[log]);
        f->put[log] = f->committed[log] = at;
    }
}

/* The marks are exactly those of the last lines received. */
static void check_marks(const struct sender *s, const struct reader *rd, struct follower *f)
{
    for (uint64_t log = 0; log < LOGS; log++)
        assert_int_equal(mark_line(s, log), rd->lines[log]);
    go_on(s, f);
}

static void follow(struct sender *s, struct follower *f, size_t size_max, uint64_t *seed)
{
    uint64_t log = test_random(seed) % LOGS;
    uint32_t n = (uint32_t)(test_random(seed) % 4);
    if (n == 0 && f->put[log] == 0)
        n = 1;
    f->put[log] += n;
    assert_int_equal(put_lines(s, log, f->put[log] - n, n, test_random(seed) % size_max), 0);
}

/* A child that follows, puts and commits, and tells, after each. */
static void child(const struct receiver *parent, int pipe_fd, struct follower f, uint8_t producer,
                  uint64_t seed)
{
    struct sender s;
    sender_open_first(&s, parent, producer, 1 << 20); /* it never dials */
    for (;;) {
        for (uint64_t n = 1 + test_random(&seed) % 5; n; n--) {
            follow(&s, &f, 900, &seed);
            if (write(pipe_fd, &f, sizeof f) != sizeof f) /* below PIPE_BUF, so whole */
                _exit(3);
        }
        if (uplink_commit(s.u) < 0)
            _exit(4);
        memcpy(f.committed, f.put, sizeof f.committed);
        if (write(pipe_fd, &f, sizeof f) != sizeof f)
            _exit(5);
    }
}

static void hear(int fd, struct follower *f, uint64_t n)
{
    struct follower m;
    while (n-- && read(fd, &m, sizeof m) == (ssize_t)sizeof m)
        *f = m;
}

/* kill -9 between put and commit, after commit, or in it. */
static void test_kill(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    struct follower f = {0};
    struct reader rd = {0};
    uint64_t seed = (uint64_t)getpid(); /* the instants can't be repeated anyway */
    receiver_start(&r);
    for (uint64_t round = 0; round < 20 * test_scale(); round++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)close(fds[0]);
            child(&r, fds[1], f, (uint8_t)(round % 250 + 1), seed);
        }
        (void)close(fds[1]);
        hear(fds[0], &f, test_random(&seed) % 80);
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* it ended by nothing else */
        hear(fds[0], &f, UINT64_MAX);
        (void)close(fds[0]);
        for (int i = 0; i < LOGS; i++)
            f.put[i] += 3; /* one put may have been made and not told of */
        sender_open_first(&s, &r, 255, 1 << 20);
        if (round % 3) {
            read_all(&s, &r, &rd);
            check_marks(&s, &rd, &f);
        } else {
            go_on(&s, &f); /* several runs are in the spool then */
        }
        sender_close(&s);
    }
    receiver_end(&r);
}

/* Power loss at any call of the disk, with what was not synced kept, lost or torn at random. */
static struct {
    uint64_t at; /* the call */
    struct disk *found;
    struct follower *f;
    struct follower then;
    uint64_t *seed;
} power;

static void cut_power(struct disk *d)
{
    if (d->calls + 1 != power.at || power.found)
        return;
    power.found = disk_crash(d, power.seed);
    power.then = *power.f;
}

static void test_power_loss(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 150 * test_scale(); round++) {
        struct receiver r;
        struct sender s;
        struct follower f = {0};
        struct reader rd = {0};
        uint64_t seed = round;
        const bool has_large_groups =
            round % 2; /* of small records, in large segments: so that they are torn inside */
        segment_bytes = has_large_groups ? 32 * SEGMENT : SEGMENT;
        char address[128];
        struct disk *d = disk_create();
        receiver_start(&r);
        (void)snprintf(address, sizeof address, "unix:%s", r.path);
        for (int run = 0; run < 3; run++) { /* it happens again to the one that goes on */
            power.at = d->calls + 1 + test_random(&seed) % 300;
            power.found = NULL;
            power.f = &f;
            power.seed = &seed;
            d->before_call = cut_power;
            sender_open(&s, address, (uint8_t)(1 + run), UPLINK_SPOOL_FIRST);
            assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
            if (run)
                check_marks(&s, &rd, &f);
            bool is_met = false;
            struct reader now = rd;
            for (int i = 0; i < 500 && !power.found; i++) {
                follow(&s, &f, has_large_groups ? 40 : 900, &seed);
                if (test_random(&seed) % (has_large_groups ? 12 : 3) == 0) {
                    assert_int_equal(commit(&s), 0);
                    memcpy(f.committed, f.put, sizeof f.committed);
                }
                s.now += 3000 * ms;
                if (test_random(&seed) % 4 == 0 && !power.found) {
                    if (!is_met)
                        meet(&s, &r, 0, 1 << 20);
                    is_met = true;
                }
                (void)pump(&s);
                while (is_met && receiver_frame(&r) == FRAME_BATCH) {
                    struct batch_origin b = block_origin(r.frame.payload);
                    struct frame_origin o = {.epoch = b.epoch};
                    memcpy(o.producer, b.producer, sizeof o.producer);
                    read_block(&now, r.frame.payload);
                    receiver_ack(&r, &o, b.first_seq + block_count(r.frame.payload) - 1);
                }
                if (!power.found)
                    rd = now; /* what came later than the power loss never happened */
            }
            assert_non_null(power.found);
            d->before_call = NULL;
            f = power.then;
            sender_free(&s);
            receiver_hang_up(&r);
            disk_destroy(d);
            d = power.found;

            sender_open(&s, address, 200, UPLINK_SPOOL_FIRST); /* the next run: reads what was found */
            assert_int_equal(sender_spool(&s, "spool", 1 << 20, &d->io), 0);
            read_all(&s, &r, &rd);
            check_marks(&s, &rd, &f);
            sender_close(&s);
        }
        receiver_end(&r);
        disk_destroy(d);
    }
    segment_bytes = SEGMENT;
}

/* ---------------------------------------------------------------- without memory; at random */

/* Whatever allocation fails, the sums hold, and what was not dropped arrives. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 120; nth++) {
        struct receiver r;
        struct sender s;
        receiver_start(&r);
        sender_open_first(&s, &r, 1, 1 << 20);
        meet(&s, &r, 0, 3000);
        struct strbuf blocks[6] = {0};
        for (uint64_t i = 0; i < 6; i++) {
            s.next_seq = 1 + 2 * i;
            build(&s, &blocks[i], 2, 500, 0, i);
        }
        mem_fail_after(nth);
        for (uint64_t i = 0; i < 6; i++) {
            (void)uplink_put_marked(s.u, strbuf_slice(&blocks[i]), 2, 1 + 2 * i, slice_str(i % 2 ? "a" : "b"),
                                    SLICE_LIT("p"));
            (void)commit(&s);
            (void)pump(&s);
            if (i == 3) {
                receiver_hang_up(&r);
                (void)pump(&s);
            }
        }
        mem_fail_after(0);
        for (int i = 0; i < 6; i++)
            strbuf_fini(&blocks[i]);
        (void)commit(&s);
        assert_int_equal(s.u->memory, 0);
        receiver_hang_up(&r);
        (void)pump(&s);
        meet(&s, &r, 0, 1 << 20);
        for (int i = 0; i < 100 && check(&s).queued; i++, s.now += STEP_MS * ms) {
            (void)pump(&s);
            while (receiver_frame(&r) == FRAME_BATCH)
                receiver_ack(&r, &s.origin, block_origin(r.frame.payload).first_seq + 1);
        }
        struct uplink_counts c = check(&s);
        assert_int_equal(c.queued, 0);
        assert_true(c.given >= 10 && c.passed >= c.given - 2);
        sender_close(&s);
        receiver_end(&r);
    }
}

/* Opening without memory: no leak, and it can be opened again. */
static void test_open_no_memory(void **state)
{
    (void)state;
    struct receiver r;
    struct sender s;
    receiver_start(&r);
    sender_open_first(&s, &r, 1, 0);
    assert_int_equal(put_lines(&s, 1, 0, 1, 10), 0);
    sender_close(&s);
    const struct uplink_options options = {.host = "h", .prog = "p", .flags = UPLINK_SPOOL_FIRST};
    for (uint64_t nth = 1;; nth++) {
        struct uplink *u = NULL;
        mem_fail_after(nth);
        int r1 = uplink_open(SLICE_LIT("127.0.0.1,unix:/a"), &options, &u, NULL);
        int r2 = r1 == 0 ? uplink_spool(u, r.backup, 0, NULL, NULL) : -ENOMEM;
        mem_fail_after(0);
        assert_true(r2 == 0 || r2 == -ENOMEM);
        uplink_close(u);
        if (r2 == 0 && nth > 5)
            break;
        assert_true(nth < 100);
    }
    receiver_end(&r);
}

/* Takes what has come; marks the numbers. Returns the last one; 0 = nothing came. */
static uint64_t take_blocks(struct receiver *r, bool *has, uint64_t *n_has)
{
    uint64_t last = 0;
    for (uint8_t type; (type = receiver_frame(r)) != 0;) {
        if (type != FRAME_BATCH)
            continue;
        last = block_origin(r->frame.payload).first_seq + block_count(r->frame.payload) - 1;
        for (uint64_t q = block_origin(r->frame.payload).first_seq; q <= last; q++) {
            *n_has += !has[q];
            has[q] = true;
        }
    }
    return last;
}

/* Breaks, a small spool, a disk that comes and goes; the receiver keeps a list of what it has. */
static void test_random_faults(void **state)
{
    (void)state;
    enum { STEPS = 400, LAST = 380 };
    for (uint64_t round = 0; round < 30 * test_scale(); round++) {
        struct receiver r;
        struct sender s;
        char address[128];
        bool has[5 * STEPS + 1] = {0};
        uint64_t seed = round * 31 + 5, n_has = 0;
        struct disk *d = disk_create();
        receiver_start(&r);
        (void)snprintf(address, sizeof address, "unix:%s", r.path);
        sender_open(&s, address, 1, UPLINK_SPOOL_FIRST);
        assert_int_equal(sender_spool(&s, "spool", 8 * SEGMENT, &d->io), 0);
        bool is_met = false;
        for (uint64_t step = 0; step < STEPS; step++) {
            const bool is_last = step >= LAST; /* all is well from here on */
            uint64_t dice[6];
            for (int i = 0; i < 6; i++)
                dice[i] = test_random(&seed);
            if (!is_last)
                assert_int_equal(
                    put_lines(&s, dice[0] % 5, step, (uint32_t)(1 + dice[0] / 5 % 5), dice[1] % 900), 0);
            if (!is_last && d->fail_at == 0 && dice[2] % 32 == 0)
                disk_break(d, -EIO);
            else if (is_last || dice[2] % 8 == 0)
                disk_heal(d);
            if (is_last || dice[3] % 2)
                (void)commit(&s);
            s.now += 500 * ms;
            (void)pump(&s);
            if (is_met && (!uplink_is_ready(s.u) || step == LAST || (!is_last && dice[4] % 24 == 0))) {
                receiver_hang_up(&r);
                (void)pump(&s);
                is_met = false;
            }
            if (!is_met && (is_last || dice[4] % 16 == 1)) {
                meet(&s, &r, 0, is_last ? 1 << 20 : (uint32_t)(1 + dice[5] % 20000));
                is_met = true;
            }
            uint64_t last = is_met ? take_blocks(&r, has, &n_has) : 0;
            if (last && (is_last || dice[5] % 2))
                receiver_ack(&r, &s.origin, last);
        }
        struct uplink_counts c = check(&s);
        assert_int_equal(c.queued, 0);
        assert_true(n_has >= c.passed); /* some were received, not acknowledged in time, and forced out */
        assert_true(n_has <= c.passed + c.dropped[DROP_FORCED]);
        assert_int_equal(c.given, s.next_seq - 1);
        sender_close(&s);
        receiver_end(&r);
        disk_destroy(d);
    }
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_frames),           cmocka_unit_test(test_spool_first),
        cmocka_unit_test(test_earlier_run),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_replay_bounded),   cmocka_unit_test(test_forced),
        cmocka_unit_test(test_forced_in_flight), cmocka_unit_test(test_forced_earlier),
        cmocka_unit_test(test_disk_full),        cmocka_unit_test(test_disk_heals),
        cmocka_unit_test(test_damaged),          cmocka_unit_test(test_fork),
        cmocka_unit_test(test_disk_faults),      cmocka_unit_test(test_mark_record),
        cmocka_unit_test(test_marks_survive),    cmocka_unit_test(test_marks_survive_forced),
        cmocka_unit_test(test_marks_limit),      cmocka_unit_test(test_kill),
        cmocka_unit_test(test_power_loss),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_open_no_memory),   cmocka_unit_test(test_random_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
