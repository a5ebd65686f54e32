/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions over socket pairs, on a loop that the test turns. */
#include "unit/gateway/agents.h"
#include "unit/gateway/blocks.h"

#include "base/log.h"
#include "gateway/session.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { PATIENCE_S = 20 };

struct bench {
    char dir[64];
    struct ledger ledger;
    struct store *store;
    struct ingest *in;
    struct event_base *base;
    struct event *commit;
    struct stream_loop *loop;
    struct workers *workers;
    struct access_identity who; /* of those who dial */
    struct sessions all;
};

static void on_commit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ingest_drain(((struct bench *)arg)->in);
}

static void on_replaced(void *arg, struct worker *w, void *link)
{
    (void)w;
    sessions_replaced(&((struct bench *)arg)->all, link);
}

static const struct workers_ops worker_ops = {.on_replaced = on_replaced};

static void open_bench(struct bench *b)
{
    static const struct ingest_options options;
    *b = (struct bench){.dir = "/tmp/gridline-session-XXXXXX"};
    assert_non_null(mkdtemp(b->dir));
    assert_int_equal(store_open(b->dir, NULL, &b->store), 0);
    b->in = ingest_create(&b->ledger, b->store, &options);
    assert_non_null(b->in);
    assert_int_equal(ingest_restore(b->in), 0);
    b->base = event_base_new();
    b->commit = evtimer_new(b->base, on_commit, b);
    b->loop = stream_loop_create(b->base);
    b->workers = workers_create(&(struct workers_options){.lease_ms = 30000, .ops = &worker_ops, .arg = b});
    b->who = (struct access_identity){.kind = ACCESS_OWNER, .uid = UINT32_MAX};
    b->all = (struct sessions){
        .base = b->base, .loop = b->loop, .ingest = b->in, .commit = b->commit, .workers = b->workers};
    log_quiet(true);
}

static void close_bench(struct bench *b)
{
    sessions_destroy_all(&b->all);
    assert_int_equal(b->all.n, 0);
    event_free(b->commit);
    workers_destroy(b->workers);
    stream_loop_destroy(b->loop);
    event_base_free(b->base);
    ingest_destroy(b->in);
    store_close(b->store);
    ledger_fini(&b->ledger);
    test_remove(b->dir);
}

/* The other end of a session. */
static int dial(struct bench *b)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    sessions_accept(&b->all, ends[0], "test", &(struct session_way){.who = b->who});
    return ends[1];
}

static void turn(struct bench *b)
{
    assert_true(event_base_loop(b->base, EVLOOP_NONBLOCK) >= 0);
}

/* Sends everything, turning the loop as needed. False: the session is gone. */
static bool send_all(struct bench *b, int fd, struct slice s)
{
    while (s.n) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0)
            s = slice_from(s, (size_t)n);
        turn(b);
    }
    return true;
}

/* Reads until out holds a whole frame of this type and returns it; earlier ones are skipped. With type 0:
 * until the session hangs up. */
static struct frame receive(struct bench *b, int fd, struct strbuf *in, uint8_t type)
{
    struct frame f = {0};
    time_t end = time(NULL) + PATIENCE_S;
    for (size_t at = 0; time(NULL) < end;) {
        turn(b);
        char *to = strbuf_room(in, 65536);
        ssize_t n = recv(fd, to, 65536, 0);
        if (n > 0)
            strbuf_advance(in, (size_t)n);
        int64_t size = frame_read(slice_from(strbuf_slice(in), at), FRAME_PAYLOAD_MAX, &f);
        assert_true(size >= 0);
        if (size > 0 && f.type == type)
            return f;
        at += (size_t)size;
        if (n == 0 && size == 0) {
            assert_int_equal(type, 0);
            return f;
        }
    }
    fail_msg("no frame %d", type);
    return f;
}

static void say_hello_as(struct strbuf *out, uint8_t producer, enum frame_peer role)
{
    greeting_put(out);
    struct frame_hello h = {.role = (uint8_t)role, .origin = test_origin(producer), .t0_ns = 42};
    h.host = SLICE_LIT("h");
    h.prog = SLICE_LIT("p");
    frame_put_hello(out, &h);
}

static void say_hello(struct strbuf *out, uint8_t producer)
{
    say_hello_as(out, producer, PEER_PROGRAM);
}

static void put_samples_origin(struct strbuf *out, uint8_t producer, bool wants_ok)
{
    frame_put_samples_origin(out, &(struct frame_samples_origin){test_origin(producer), wants_ok});
}

/* An agent's end: the frames that announce one stream with a field n, and packets of it. */
static void agent_announce(struct agent *a, struct strbuf *out)
{
    agent_open(a, SAMPLES_ROLL);
    frame_put(out, FRAME_SCHEMA, 0, strbuf_slice(&a->schema_payload));
    frame_put(out, FRAME_STREAM, 0, strbuf_slice(&a->stream_payload));
}

static void agent_put(struct agent *a, struct strbuf *out, uint32_t n)
{
    frame_put(out, FRAME_SAMPLES, 0, agent_packet(a, n));
}

static void put_batch(struct strbuf *out, uint8_t producer, uint64_t first, uint32_t n)
{
    struct strbuf block = {0};
    test_block(&block, producer, first, n);
    frame_put(out, FRAME_BATCH, 0, strbuf_slice(&block));
    strbuf_fini(&block);
}

/* The whole talk, also if it arrives byte by byte. */
static void test_talk(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    for (int by_byte = 0; by_byte < 2; by_byte++) {
        struct strbuf out = {0}, in = {0};
        struct frame_welcome w;
        struct frame_ack a;
        struct frame_pong p;
        int fd = dial(&b);
        say_hello(&out, 1);
        put_batch(&out, 1, 1, 3);
        put_batch(&out, 1, 4, 2);
        frame_put_ping(&out, &(struct frame_ping){5, 6});
        frame_put(&out, 200, 0, SLICE_LIT("from a later version"));
        for (size_t i = 0; by_byte && i < out.n; i++)
            assert_true(send_all(&b, fd, slice_of(out.p + i, 1)));
        if (!by_byte)
            assert_true(send_all(&b, fd, strbuf_slice(&out)));
        assert_int_equal(frame_get_welcome(receive(&b, fd, &in, FRAME_WELCOME).payload, &w), 0);
        assert_int_equal(w.seq, by_byte ? 5 : 0);
        assert_int_equal(w.t0_ns, 42);
        assert_true(w.t1_ns <= w.t2_ns && w.window > 0);
        assert_int_equal(frame_get_pong(receive(&b, fd, &in, FRAME_PONG).payload, &p), 0);
        assert_true(p.token == 5 && p.t0_ns == 6);
        do
            assert_int_equal(frame_get_ack(receive(&b, fd, &in, FRAME_ACK).payload, &a), 0);
        while (strbuf_consume(&in, in.n), a.seq < 5);
        assert_int_equal(a.seq, 5);
        strbuf_reset(&out);
        struct frame_counts c = {.origin = test_origin(1), .taken = 5, .passed = 5};
        frame_put_counts(&out, &c);
        frame_put_bye(&out, BYE_DONE, SLICE_LIT("bye"));
        assert_true(send_all(&b, fd, strbuf_slice(&out)));
        (void)receive(&b, fd, &in, 0);
        (void)close(fd);
        struct frame_origin o = test_origin(1);
        assert_true(ledger_account(&b.ledger, &o)->is_closed);
        assert_int_equal(ledger_account(&b.ledger, &o)->duplicate, by_byte ? 5 : 0);
        strbuf_fini(&out);
        strbuf_fini(&in);
    }
    struct test_archive archive = test_read(b.dir);
    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(archive.times[1][n], 1);
    close_bench(&b);
}

/* What is wrong ends its own connection, with a reason, and no other. */
static void test_malformed(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct strbuf out = {0}, in = {0};
    int good = dial(&b);
    say_hello(&out, 1);
    assert_true(send_all(&b, good, strbuf_slice(&out)));
    for (int kind = 0; kind < 9; kind++) {
        struct strbuf answer = {0};
        struct frame_bye_reason bye;
        int fd = dial(&b);
        strbuf_reset(&out);
        if (kind == 0)
            strbuf_add_str(&out, "GET / HTTP/1.1\r\n\r\n");
        else if (kind == 1)
            strbuf_add(&out, "GRDL\2\0\0\0", 8);
        else if (kind == 2)
            greeting_put(&out), put_batch(&out, 2, 1, 1); /* no HELLO */
        else if (kind == 3)
            greeting_put(&out), frame_put(&out, FRAME_HELLO, 0, SLICE_LIT("short"));
        else if (kind == 4)
            say_hello(&out, 2), frame_put(&out, FRAME_BATCH, 0, SLICE_LIT("no block"));
        else if (kind == 5)
            say_hello(&out, 2), say_hello(&out, 2);
        else if (kind == 6)
            say_hello(&out, 2), frame_put(&out, FRAME_COUNTS, 0, SLICE_LIT("1"));
        else if (kind == 7)
            say_hello(&out, 2), frame_put(&out, 9, 0, SLICE_LIT(""));
        else
            say_hello(&out, 2), out.p[out.n - 20] ^= 1, strbuf_add(&out, "xxxxxxxxxxxxxxxxxxxxxx", 20);
        (void)send_all(&b, fd, strbuf_slice(&out));
        assert_int_equal(frame_get_bye(receive(&b, fd, &answer, FRAME_BYE).payload, &bye), 0);
        assert_int_equal(bye.reason, BYE_PROTOCOL);
        assert_true(bye.text.n > 0);
        strbuf_reset(&answer);
        (void)receive(&b, fd, &answer, 0);
        (void)close(fd);
        strbuf_fini(&answer);
    }
    assert_int_equal(b.all.bad_frames, 9);
    strbuf_reset(&out);
    put_batch(&out, 1, 1, 1);
    assert_true(send_all(&b, good, strbuf_slice(&out)));
    (void)receive(&b, good, &in, FRAME_ACK);
    (void)close(good);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* An agent's samples: stored with what else is stored, not acknowledged, no answers unless asked for. */
static void test_samples(void **state)
{
    (void)state;
    struct bench b;
    struct agent agent;
    struct strbuf out = {0}, in = {0};
    struct frame_origin samples = test_origin(2), events = test_origin(1);
    open_bench(&b);
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_AGENT);
    put_samples_origin(&out, 2, false);
    agent_announce(&agent, &out);
    agent_put(&agent, &out, 3);
    agent_put(&agent, &out, 2);
    frame_put_ping(&out, &(struct frame_ping){5, 6});
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    struct frame pong = receive(&b, fd, &in, FRAME_PONG);
    assert_ptr_equal(pong.payload.p + pong.payload.n, in.p + in.n);
    struct frame first;
    int64_t n = frame_read(strbuf_slice(&in), FRAME_PAYLOAD_MAX, &first);
    assert_int_equal(first.type, FRAME_WELCOME);
    assert_int_equal(n + FRAME_HEAD + (int64_t)pong.payload.n, in.n); /* nothing but these two */
    assert_int_not_equal(ingest_delay_ms(b.in),
                         INGEST_DELAY_MS); /* on a slow machine they may be stored by now */
    assert_int_equal(ledger_account(&b.ledger, &samples)->taken, 5);
    strbuf_reset(&out);
    put_batch(&out, 1, 1, 1); /* this one is waited for */
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    (void)receive(&b, fd, &in, FRAME_ACK);
    assert_int_equal(ledger_account(&b.ledger, &samples)->passed, 5);
    struct test_archive archive = test_read(b.dir);
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(archive.times[2][i], 1);

    strbuf_reset(&out); /* everything anew on the same connection, with answers */
    agent_close(&agent);
    put_samples_origin(&out, 2, true);
    agent_announce(&agent, &out);
    agent.next = 9;
    agent_put(&agent, &out, 1);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    uint32_t schema;
    struct frame_stream_ok ok;
    assert_int_equal(frame_get_schema_ok(receive(&b, fd, &in, FRAME_SCHEMA_OK).payload, &schema), 0);
    assert_int_equal(schema, 1);
    assert_int_equal(frame_get_stream_ok(receive(&b, fd, &in, FRAME_STREAM_OK).payload, &ok), 0);
    assert_true(ok.stream == 1 && ok.baseline == 0);

    strbuf_reset(&out);
    strbuf_reset(&in);
    struct frame_counts c = {.origin = samples, .class = CLASS_SAMPLES, .taken = 9, .passed = 6};
    c.dropped[6] = 3;
    frame_put_counts(&out, &c);
    frame_put_counts(&out, &(struct frame_counts){.origin = events, .taken = 1, .passed = 1});
    frame_put_bye(&out, BYE_DONE, SLICE_LIT(""));
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    (void)receive(&b, fd, &in, 0);
    ingest_drain(b.in);
    struct account *a = ledger_account(&b.ledger, &samples);
    assert_true(a->is_closed && ledger_account(&b.ledger, &events)->is_closed);
    assert_true(a->class == CLASS_SAMPLES && a->passed == 6 && a->highest == 9 && account_lost(a) == 3);
    assert_true(account_check(a));
    (void)close(fd);
    agent_close(&agent);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* Wrong samples end their connection; a program has none. */
static void test_malformed_samples(void **state)
{
    (void)state;
    enum { KINDS = 8 };
    struct bench b;
    open_bench(&b);
    for (int kind = 0; kind < KINDS; kind++) {
        struct strbuf out = {0}, in = {0};
        struct frame_bye_reason bye;
        struct agent agent;
        int fd = dial(&b);
        say_hello_as(&out, 1, kind == 0 ? PEER_PROGRAM : PEER_AGENT);
        if (kind != 1)
            put_samples_origin(&out, kind == 2 ? 1 : 2, false); /* 1 is HELLO's */
        agent_announce(&agent, &out);
        if (kind == 3)
            frame_put(&out, FRAME_SAMPLES, 0, SLICE_LIT(""));
        else if (kind == 4)
            frame_put(&out, FRAME_SCHEMA, 0, SLICE_LIT("\2\0\0\0"));
        else if (kind == 5)
            frame_put(&out, FRAME_STREAM, 0, SLICE_LIT("\2\0\0\0\2\0\0\0\0\0\0\0\0"));
        else if (kind == 6)
            frame_put(&out, FRAME_SAMPLES_ORIGIN, 0, SLICE_LIT("short"));
        agent_put(&agent, &out, 2);
        if (kind == 7) { /* one is left out */
            size_t n = out.n;
            agent_put(&agent, &out, 2);
            out.n = n;
            agent_put(&agent, &out, 2);
        }
        (void)send_all(&b, fd, strbuf_slice(&out));
        assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
        assert_int_equal(bye.reason, BYE_PROTOCOL);
        assert_true(bye.text.n > 0);
        strbuf_reset(&in);
        (void)receive(&b, fd, &in, 0);
        (void)close(fd);
        agent_close(&agent);
        strbuf_fini(&out);
        strbuf_fini(&in);
    }
    assert_int_equal(b.all.bad_frames, KINDS);
    struct frame_origin samples = test_origin(2);
    assert_int_equal(ledger_account(&b.ledger, &samples)->taken, 2); /* those before the one left out */
    close_bench(&b);
}

/* More than 4 KiB before it has said who it is; a frame larger than any may be. */
static void test_too_large(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    for (int kind = 0; kind < 2; kind++) {
        struct strbuf out = {0}, in = {0};
        struct frame_bye_reason bye;
        int fd = dial(&b);
        char *large = calloc(1, FRAME_PAYLOAD_MAX);
        if (kind == 0) {
            greeting_put(&out);
            frame_put(&out, FRAME_HELLO, 0, slice_of(large, SESSION_HELLO_MAX));
        } else {
            say_hello(&out, 1);
            frame_put(&out, FRAME_BATCH, 0, slice_of(large, FRAME_PAYLOAD_MAX));
        }
        free(large);
        (void)send_all(&b, fd, strbuf_slice(&out));
        assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
        assert_int_equal(bye.reason, BYE_PROTOCOL);
        (void)close(fd);
        strbuf_fini(&out);
        strbuf_fini(&in);
    }
    close_bench(&b);
}

/* Says nothing: closed when its time is up. */
static void test_silent(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf in = {0};
    open_bench(&b);
    b.all.hello_ms = 20;
    int fd = dial(&b), half = dial(&b);
    assert_true(send_all(&b, half, SLICE_LIT("GRDL")));
    (void)receive(&b, fd, &in, 0);
    (void)receive(&b, half, &in, 0);
    (void)close(fd);
    (void)close(half);
    strbuf_fini(&in);
    close_bench(&b);
}

/* Asks and never reads: what waits for it is bounded. */
static void test_never_reads(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0};
    open_bench(&b);
    int fd = dial(&b);
    say_hello(&out, 1);
    bool is_there = send_all(&b, fd, strbuf_slice(&out));
    for (int i = 0; is_there && i < 200000; i++) {
        strbuf_reset(&out);
        frame_put_ping(&out, &(struct frame_ping){1, 2});
        is_there = send_all(&b, fd, strbuf_slice(&out));
        if (b.all.n == 0)
            break;
    }
    for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
        turn(&b);
    assert_int_equal(b.all.n, 0);
    (void)close(fd);
    strbuf_fini(&out);
    close_bench(&b);
}

static void test_lines(void **state)
{
    (void)state;
    const struct slice talks[] = {
        SLICE_LIT("ULM\0    DATE=20261115212028.123456 HOST=h PROG=p LVL=Info NL.EVNT=a n=1\nnot a line\n"),
        SLICE_LIT("DATE=20261115212028.123456 HOST=h PROG=p LVL=Info NL.EVNT=a n=2\r\nDATE=20261115212028.1 "
                  "HOST=h PROG=p LVL=Info NL.EVNT=a n=2"), /* the last without an end */
        SLICE_LIT("ts=2026-11-15T21:20:28.123456Z event=a level=Info n=3\n"),
        SLICE_LIT("{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"a\",\"n\":4}\n"),
    };
    struct bench b;
    open_bench(&b);
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++) {
        int fd = dial(&b);
        assert_true(send_all(&b, fd, talks[i]));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
            turn(&b);
        assert_int_equal(b.all.n, 0);
        (void)close(fd);
    }
    assert_int_equal(b.all.bad_lines, 1);
    ingest_drain(b.in);
    struct test_archive a = test_read(b.dir);
    assert_int_equal(a.times[0][1], 1);
    assert_int_equal(a.times[0][2], 2);
    assert_int_equal(a.times[0][3], 1);
    assert_int_equal(a.times[0][4], 1);
    close_bench(&b);
}

static void test_too_many(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf in = {0};
    struct frame_bye_reason bye;
    struct rlimit limit;
    enum { MAX = 500 };
    static int fds[MAX];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * MAX + 50)
        skip();
    open_bench(&b);
    b.all.max = MAX;
    for (size_t i = 0; i < MAX; i++)
        fds[i] = dial(&b);
    int fd = dial(&b);
    assert_int_equal(b.all.turned_away, 1);
    assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
    assert_int_equal(bye.reason, BYE_TOO_MANY);
    (void)close(fd);
    (void)close(fds[0]);
    for (time_t end = time(NULL) + PATIENCE_S; b.all.n == MAX && time(NULL) < end;)
        turn(&b);
    fds[0] = dial(&b); /* there is room again */
    assert_int_equal(b.all.turned_away, 1);
    for (size_t i = 0; i < MAX; i++)
        (void)close(fds[i]);
    strbuf_fini(&in);
    close_bench(&b);
}

/* Registers as worker number `worker` of the connection. */
static void put_register(struct strbuf *out, uint32_t worker, const char *host, uint8_t producer)
{
    struct frame_register r = {.host = slice_str(host), .t0_ns = 5, .origin = test_origin(producer)};
    frame_put_register(out, worker, &r);
}

static struct frame_lease get_lease(struct bench *b, int fd, struct strbuf *in)
{
    struct frame_lease l;
    strbuf_reset(in);
    assert_int_equal(frame_get_lease(receive(b, fd, in, FRAME_LEASE).payload, &l), 0);
    return l;
}

static void test_lease(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0}, in = {0};
    open_bench(&b);
    b.all.udp_port = 77;
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_AGENT);
    frame_put_renew(&out, 0, &(struct frame_renew){.number = 1, .t0_ns = 8});
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(get_lease(&b, fd, &in).status, LEASE_UNKNOWN);
    strbuf_reset(&out);
    put_register(&out, 0, "h", 1);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    struct frame_lease l = get_lease(&b, fd, &in);
    assert_true(l.status == LEASE_GRANTED && l.worker == 1 && l.t0_ns == 5 && l.t1_ns <= l.t2_ns);
    assert_true(l.lease_ms == 30000 && l.renew_ms == 10000 && l.udp_port == 77 && l.level == SEAL_NONE);
    strbuf_reset(&out);
    frame_put_renew(&out, 0, &(struct frame_renew){.number = 9, .t0_ns = 8, .flags = RENEW_LEAVING});
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    l = get_lease(&b, fd, &in);
    assert_true(l.status == LEASE_ENDED && l.number == 9 && l.t0_ns == 8);
    assert_int_equal(workers_by_id(b.workers, 1)->state, WORKER_DEREGISTERED);
    (void)close(fd);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

struct listed {
    unsigned frames, sensors, lists;
    char host[16];
};

static void on_sensors(void *arg, struct worker *w, const struct frame_sensors *list)
{
    struct listed *l = arg;
    l->frames++;
    l->sensors += list->n;
    l->lists += !list->has_more;
    (void)snprintf(l->host, sizeof l->host, "%s", w->host);
}

/* Lists of sensors, in one frame and in many; those that can't be ends their connection. */
static void test_sensors(void **state)
{
    (void)state;
    static const char bad[][8] = {"", "\1\0\0\0\0",
                                  "\2\1\0\0\0"}; /* empty; goes on with nothing; a sensor that is not there */
    struct bench b;
    struct listed listed = {0};
    struct strbuf out = {0}, in = {0};
    struct sensors_writer w;
    char name[32], why[SENSORS_WHY_MAX];
    open_bench(&b);
    b.all.on_sensors = on_sensors;
    b.all.sensors_arg = &listed;
    memset(why, 'w', sizeof why);
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_AGENT);
    put_register(&out, 0, "h", 1);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(get_lease(&b, fd, &in).status, LEASE_GRANTED);
    strbuf_reset(&out);
    sensors_begin(&w, &out);
    for (unsigned i = 0; i < 100; i++) {
        struct sensors_one s = {.events = {"", 0}, .schemas = {"", 0}, .mode = {"", 0}, .status = {"", 0}};
        (void)snprintf(name, sizeof name, "exec/%u", i);
        s.sensor = slice_str(name);
        s.why = slice_of(why, sizeof why);
        assert_true(sensors_add(&w, &s));
    }
    sensors_end(&w);
    frame_put_renew(&out, 0, &(struct frame_renew){.number = 1});
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(get_lease(&b, fd, &in).number, 1); /* all before it has been looked at */
    assert_true(listed.frames > 2);
    assert_int_equal(listed.sensors, 100);
    assert_int_equal(listed.lists, 1);
    assert_string_equal(listed.host, "h");
    (void)close(fd);
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        struct frame_bye_reason bye;
        bool is_early = i == sizeof bad / sizeof *bad; /* well made, and before a lease */
        fd = dial(&b);
        strbuf_reset(&out);
        strbuf_reset(&in);
        say_hello_as(&out, 2, PEER_AGENT);
        if (!is_early)
            put_register(&out, 0, "h", 2);
        frame_put(&out, FRAME_SENSORS, 0, is_early ? slice_of("\2\0\0\0\0", 5) : slice_of(bad[i], i ? 5 : 0));
        assert_true(send_all(&b, fd, strbuf_slice(&out)));
        assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
        assert_int_equal(bye.reason, BYE_PROTOCOL);
        (void)close(fd);
    }
    assert_int_equal(listed.lists, 1);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

struct drained {
    const struct bench *bench;
    unsigned times, live; /* how often it was asked; of these, while the worker had its lease */
};

static void on_drain(void *arg)
{
    struct drained *d = arg;
    struct worker *w = workers_by_id(d->bench->workers, 1);
    d->times++;
    d->live += w->state == WORKER_LIVE && w->sampler;
    w->window.received = 3; /* that is what was in the queue */
}

/* Sends what is in out, which is answered by one LEASE. */
static struct frame_lease ask_lease(struct bench *b, int fd, struct strbuf *out, struct strbuf *in)
{
    assert_true(send_all(b, fd, strbuf_slice(out)));
    strbuf_reset(out);
    return get_lease(b, fd, in);
}

/* What it sent before it leaves is taken first, whether it leaves by RENEW or by BYE, and only if there can
 * be some. */
static void test_last_datagrams(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0}, in = {0};
    open_bench(&b);
    struct drained drained = {.bench = &b};
    b.all.drain = on_drain;
    b.all.drain_arg = &drained;
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_AGENT);
    put_register(&out, 0, "h", 1);
    assert_int_equal(ask_lease(&b, fd, &out, &in).status, LEASE_GRANTED);
    frame_put_renew(&out, 0,
                    &(struct frame_renew){.number = 1, .flags = RENEW_LEAVING}); /* it has no samples */
    assert_int_equal(ask_lease(&b, fd, &out, &in).status, LEASE_ENDED);
    assert_int_equal(drained.times, 0);
    for (unsigned i = 1; i <= 2; i++) {
        put_register(&out, 0, "h", 1);
        assert_int_equal(ask_lease(&b, fd, &out, &in).status, LEASE_GRANTED);
        put_samples_origin(&out, (uint8_t)(1 + i), false);
        assert_int_equal(ask_lease(&b, fd, &out, &in).status, LEASE_GRANTED);
        frame_put_renew(&out, 0, &(struct frame_renew){.number = 2, .datagrams = 3});
        assert_int_equal(ask_lease(&b, fd, &out, &in).datagrams, 0);
        assert_int_equal(drained.times, i - 1);
        if (i == 1) {
            frame_put_renew(&out, 0,
                            &(struct frame_renew){.number = 3, .datagrams = 3, .flags = RENEW_LEAVING});
            struct frame_lease l = ask_lease(&b, fd, &out, &in);
            assert_true(l.status == LEASE_ENDED && l.datagrams == 3);
        } else {
            frame_put_bye(&out, BYE_DONE, SLICE_LIT(""));
            assert_true(send_all(&b, fd, strbuf_slice(&out)));
            for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
                turn(&b);
        }
        assert_int_equal(workers_by_id(b.workers, 1)->state, WORKER_DEREGISTERED);
        assert_int_equal(worker_datagrams_lost(workers_by_id(b.workers, 1)), 0);
        assert_true(drained.times == i && drained.live == i);
    }
    (void)close(fd);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* Two connections that claim one host: the later one has it, the earlier one is told. */
static void test_replaced(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0}, in = {0};
    struct frame_bye_reason bye;
    open_bench(&b);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(&b);
        strbuf_reset(&out);
        say_hello_as(&out, (uint8_t)(i + 1), PEER_AGENT);
        put_register(&out, 0, "h", (uint8_t)(i + 1));
        assert_true(send_all(&b, fds[i], strbuf_slice(&out)));
        assert_int_equal(get_lease(&b, fds[i], &in).worker, 1);
    }
    strbuf_reset(&in);
    assert_int_equal(frame_get_bye(receive(&b, fds[0], &in, FRAME_BYE).payload, &bye), 0);
    assert_int_equal(bye.reason, BYE_NOT_ALLOWED);
    (void)receive(&b, fds[0], &in, 0);
    assert_int_equal(workers_by_id(b.workers, 1)->state, WORKER_LIVE);
    (void)close(fds[0]);
    (void)close(fds[1]);
    for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
        turn(&b);
    assert_int_equal(workers_by_id(b.workers, 1)->state, WORKER_LATE);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* Many workers on one connection, each with its own answers; one leaves, the others stay. */
static void test_relay(void **state)
{
    (void)state;
    enum { WORKERS = 300 };
    struct bench b;
    struct strbuf out = {0}, in = {0};
    open_bench(&b);
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_RELAY);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    for (uint32_t i = 1; i <= WORKERS; i++) {
        char host[16];
        (void)snprintf(host, sizeof host, "w%u", i);
        strbuf_reset(&out);
        strbuf_reset(&in);
        put_register(&out, i, host, 2);
        assert_true(send_all(&b, fd, strbuf_slice(&out)));
        struct frame f = receive(&b, fd, &in, FRAME_LEASE);
        struct frame_lease l;
        assert_int_equal(f.worker, i);
        assert_int_equal(frame_get_lease(f.payload, &l), 0);
        assert_int_equal(l.worker, i);
    }
    strbuf_reset(&out);
    size_t at = frame_begin(&out, FRAME_BYE, 7);
    strbuf_add_u16(&out, BYE_DONE);
    strbuf_add_text(&out, SLICE_LIT(""));
    frame_end(&out, at);
    frame_put_renew(&out, 8, &(struct frame_renew){.number = 1});
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(get_lease(&b, fd, &in).worker, 8);
    assert_int_equal(workers_by_id(b.workers, 7)->state, WORKER_DEREGISTERED);
    (void)close(fd);
    for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
        turn(&b);
    for (uint32_t i = 1; i <= WORKERS; i++)
        assert_int_equal(workers_by_id(b.workers, i)->state, i == 7 ? WORKER_DEREGISTERED : WORKER_LATE);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* What an identity may not do is refused, counted, and changes nothing. */
static void test_not_allowed(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0}, in = {0};
    struct frame_bye_reason bye;
    open_bench(&b);
    b.who = (struct access_identity){.kind = ACCESS_AGENT, .name = "other", .uid = UINT32_MAX};
    int fd = dial(&b);
    say_hello_as(&out, 1, PEER_AGENT); /* as h */
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
    assert_int_equal(bye.reason, BYE_NOT_ALLOWED);
    (void)close(fd);
    b.who = (struct access_identity){.kind = ACCESS_NOBODY, .uid = UINT32_MAX};
    fd = dial(&b);
    strbuf_reset(&in);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
    assert_int_equal(bye.reason, BYE_NOT_ALLOWED);
    (void)close(fd);
    b.who = (struct access_identity){.kind = ACCESS_LOCAL, .uid = UINT32_MAX};
    assert_false(access_allows(&b.who, ACCESS_CONTROL, SLICE_LIT("h")));
    assert_int_equal(b.all.not_allowed, 2);
    assert_int_equal(workers_count(b.workers), 0);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

/* An event of that name, number seq of that producer, as a BATCH. */
static void put_named(struct strbuf *out, uint8_t producer, uint64_t seq, const char *name)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct block_writer *writer = block_writer_create();
    struct strbuf block = {0};
    struct batch_origin o = {.epoch = 1, .first_seq = seq};
    const struct named_value v = {SLICE_LIT("n"), value_uint(seq)};
    const struct event_head head = {.time_ns = 5, .name = slice_str(name), .host = SLICE_LIT("h")};
    memset(o.producer, producer, sizeof o.producer);
    assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_int_equal(block_writer_add(writer, &b->events[0]), 0);
    assert_int_equal(block_writer_finish(writer, &o, &block), 0);
    frame_put(out, FRAME_BATCH, 0, strbuf_slice(&block));
    batch_unref(b);
    strbuf_fini(&block);
    block_writer_destroy(writer);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

/* Is it taken from who b.who is, in that role? What is not is counted as refused. */
static bool is_taken(struct bench *b, uint8_t producer, enum frame_peer role, const char *name)
{
    static uint64_t seq[256];
    struct strbuf out = {0}, in = {0};
    struct frame_pong p;
    struct frame_origin o = test_origin(producer);
    int fd = dial(b);
    say_hello_as(&out, producer, role);
    put_named(&out, producer, ++seq[producer], name);
    frame_put_ping(&out, &(struct frame_ping){5, 6});
    assert_true(send_all(b, fd, strbuf_slice(&out)));
    assert_int_equal(frame_get_pong(receive(b, fd, &in, FRAME_PONG).payload, &p), 0);
    ingest_drain(b->in);
    const struct account *a = ledger_account(&b->ledger, &o);
    assert_int_equal(a->passed + a->refused, seq[producer]);
    static uint64_t refused[256];
    bool is_refused = a->refused > refused[producer];
    refused[producer] = a->refused;
    (void)close(fd);
    strbuf_fini(&out);
    strbuf_fini(&in);
    return !is_refused;
}

/* What sensors and guards say comes from agents and the owner, not from any user of this host. */
static void test_reserved_names(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "fault.state", "rule.state", "guard.state", "heartbeat"};
    struct bench b;
    open_bench(&b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        b.who = (struct access_identity){.kind = ACCESS_OWNER, .uid = 0};
        assert_true(is_taken(&b, 1, PEER_PROGRAM, names[i]));
        b.who = (struct access_identity){.kind = ACCESS_LOCAL, .uid = 1000};
        assert_false(is_taken(&b, 2, PEER_PROGRAM, names[i]));
        assert_false(is_taken(&b, 2, PEER_CONSUMER, names[i]));
        assert_true(is_taken(&b, 3, PEER_AGENT, names[i]));
        b.who = (struct access_identity){.kind = ACCESS_INSECURE, .uid = UINT32_MAX};
        assert_false(is_taken(&b, 2, PEER_PROGRAM, names[i]));
        b.who = (struct access_identity){.kind = ACCESS_AGENT, .uid = UINT32_MAX, .name = "h"};
        assert_true(is_taken(&b, 1, PEER_PROGRAM, names[i]));
    }
    b.who = (struct access_identity){.kind = ACCESS_LOCAL, .uid = 1000};
    assert_true(is_taken(&b, 2, PEER_PROGRAM, "cpus"));
    assert_true(is_taken(&b, 2, PEER_PROGRAM, "process.signal")); /* what programs say of themselves */
    close_bench(&b);
}

/* An order to guards is the gateway's own word. */
static void test_orders_are_refused(void **state)
{
    (void)state;
    static const enum access_kind kinds[] = {ACCESS_OWNER, ACCESS_LOCAL, ACCESS_GATEWAY, ACCESS_OPERATOR};
    struct bench b;
    open_bench(&b);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        b.who = (struct access_identity){.kind = kinds[i], .uid = UINT32_MAX, .name = "h"};
        assert_false(is_taken(&b, 5, PEER_PROGRAM, "fault.order"));
        assert_false(is_taken(&b, 5, PEER_AGENT, "fault.order"));
        assert_true(is_taken(&b, 5, PEER_PROGRAM, "fault.orders") || kinds[i] == ACCESS_LOCAL);
    }
    close_bench(&b);
}

/* Of lines each is looked at by itself. */
static void test_reserved_lines(void **state)
{
    (void)state;
    const struct slice talk =
        SLICE_LIT("{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"a\",\"n\":1}\n"
                  "{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"cpu\",\"n\":2}\n"
                  "{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"fault.order\",\"n\":3}\n"
                  "{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"a\",\"n\":4}\n");
    static const struct frame_origin none;
    struct bench b;
    open_bench(&b);
    for (int is_owner = 0; is_owner < 2; is_owner++) {
        b.who = (struct access_identity){.kind = is_owner ? ACCESS_OWNER : ACCESS_LOCAL, .uid = 1000};
        int fd = dial(&b);
        assert_true(send_all(&b, fd, talk));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        for (time_t end = time(NULL) + PATIENCE_S; b.all.n && time(NULL) < end;)
            turn(&b);
        (void)close(fd);
        ingest_drain(b.in);
        assert_int_equal(ledger_account(&b.ledger, &none)->refused, is_owner ? 3 : 2);
    }
    struct test_archive a = test_read(b.dir);
    assert_int_equal(a.times[0][1], 2);
    assert_int_equal(a.times[0][2], 1); /* the owner's */
    assert_int_equal(a.times[0][3], 0);
    assert_int_equal(a.times[0][4], 2);
    close_bench(&b);
}

/* Those that say nothing make room for those that come. */
static void test_many_silent(void **state)
{
    (void)state;
    struct bench b;
    struct rlimit limit;
    open_bench(&b);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < SESSIONS_WAITING + 100) {
        close_bench(&b);
        skip();
    }
    for (size_t i = 0; i < SESSIONS_WAITING + 50;
         i++) /* their other ends are closed, which the loop has not seen */
        (void)close(dial(&b));
    assert_int_equal(b.all.n, SESSIONS_WAITING);
    assert_int_equal(b.all.silent, 50);
    close_bench(&b);
}

static void test_shut_down(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf out = {0}, in = {0};
    struct frame_bye_reason bye;
    open_bench(&b);
    int fd = dial(&b);
    say_hello(&out, 1);
    assert_true(send_all(&b, fd, strbuf_slice(&out)));
    sessions_shut_down(&b.all);
    assert_int_equal(frame_get_bye(receive(&b, fd, &in, FRAME_BYE).payload, &bye), 0);
    assert_int_equal(bye.reason, BYE_SHUTDOWN);
    strbuf_reset(&in);
    (void)receive(&b, fd, &in, 0);
    assert_int_equal(b.all.n, 0);
    (void)close(fd);
    strbuf_fini(&out);
    strbuf_fini(&in);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_talk),           cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_too_large),      cmocka_unit_test(test_silent),
        cmocka_unit_test(test_never_reads),    cmocka_unit_test(test_lines),
        cmocka_unit_test(test_reserved_names), cmocka_unit_test(test_orders_are_refused),
        cmocka_unit_test(test_reserved_lines), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_shut_down),      cmocka_unit_test(test_lease),
        cmocka_unit_test(test_replaced),       cmocka_unit_test(test_sensors),
        cmocka_unit_test(test_last_datagrams), cmocka_unit_test(test_relay),
        cmocka_unit_test(test_not_allowed),    cmocka_unit_test(test_many_silent),
        cmocka_unit_test(test_samples),        cmocka_unit_test(test_malformed_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
