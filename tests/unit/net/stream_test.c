/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over socket pairs, plain and through a transport that the test makes difficult. */
#include "unit/test.h"

#include "base/mem.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

/* What an owner does with what comes: takes `unit` bytes at a time and sends them back. */
struct owner {
    struct event_base *base;
    struct stream_loop *loop;
    struct stream *stream;
    int peer;
    size_t unit;
    size_t calls;
    struct strbuf seen;
    bool is_ended, destroys_on_data, destroys_on_end, is_silent;
    int error;
    unsigned drained, ready;
};

static size_t on_data(void *arg, struct slice data)
{
    struct owner *o = arg;
    o->calls++;
    size_t used = o->unit ? data.n - data.n % o->unit : 0;
    strbuf_add_slice(&o->seen, slice_of(data.p, used));
    if (o->destroys_on_data) {
        stream_destroy(o->stream);
        o->stream = NULL;
        return 0;
    }
    for (size_t at = 0; at < used && !o->is_silent; at += o->unit)
        assert_int_equal(stream_send(o->stream, slice_of(data.p + at, o->unit)), 0);
    return used;
}

static void on_ready(void *arg)
{
    ((struct owner *)arg)->ready++;
}

static void on_end(void *arg, int error, const char *why)
{
    struct owner *o = arg;
    assert_non_null(why);
    assert_false(o->is_ended);
    o->is_ended = true;
    o->error = error;
    if (o->destroys_on_end) {
        stream_destroy(o->stream);
        o->stream = NULL;
    }
}

static void on_drained(void *arg)
{
    ((struct owner *)arg)->drained++;
}

static const struct stream_ops ops = {on_data, on_ready, on_end, on_drained};

static void open_owner(struct owner *o, size_t unit, size_t input_max)
{
    int ends[2];
    *o = (struct owner){.unit = unit};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    o->base = event_base_new();
    o->loop = stream_loop_create(o->base);
    o->peer = ends[1];
    assert_int_equal(stream_create(o->loop, ends[0], input_max, &ops, o, &o->stream), 0);
}

static void close_owner(struct owner *o)
{
    stream_destroy(o->stream);
    stream_loop_destroy(o->loop);
    event_base_free(o->base);
    (void)close(o->peer);
    strbuf_fini(&o->seen);
}

static void turn(struct owner *o)
{
    assert_true(event_base_loop(o->base, EVLOOP_NONBLOCK) >= 0);
}

/* Sends to the stream and reads what comes back until n bytes have. */
static void exchange(struct owner *o, struct slice data, struct strbuf *back, size_t n)
{
    time_t end = time(NULL) + PATIENCE_S;
    while ((data.n || back->n < n) && time(NULL) < end) {
        ssize_t sent = data.n ? send(o->peer, data.p, data.n, MSG_NOSIGNAL) : 0;
        if (sent > 0)
            data = slice_from(data, (size_t)sent);
        turn(o);
        char *to = strbuf_room(back, 65536);
        ssize_t got = recv(o->peer, to, 65536, 0);
        if (got > 0)
            strbuf_advance(back, (size_t)got);
    }
    assert_int_equal(data.n, 0);
    assert_int_equal(back->n, n);
}

static struct strbuf make_bytes(size_t n)
{
    struct strbuf b = {0};
    for (size_t i = 0; i < n; i++)
        strbuf_add_char(&b, (char)(i * 31 + i / 251));
    return b;
}

static void what_comes_goes_back(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf data = make_bytes(999 * 700), back = {0};
    open_owner(&o, 700, 4096);
    exchange(&o, strbuf_slice(&data), &back, data.n);
    assert_memory_equal(data.p, back.p, data.n);
    assert_int_equal(stream_waiting(o.stream), 0);
    strbuf_fini(&data);
    strbuf_fini(&back);
    close_owner(&o);
}

static void a_part_is_given_again_with_what_follows(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf back = {0};
    open_owner(&o, 4, 16);
    exchange(&o, SLICE_LIT("abc"), &back, 0);
    assert_int_equal(o.calls, 1);
    exchange(&o, SLICE_LIT("defg"), &back, 4);
    assert_slice(strbuf_slice(&o.seen), "abcd");
    assert_slice(stream_rest(o.stream), "efg");
    strbuf_fini(&back);
    close_owner(&o);
}

static void more_than_it_may_send_ends_it(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf back = {0};
    open_owner(&o, 0, 16);
    exchange(&o, SLICE_LIT("0123456789abcdef"), &back, 0);
    turn(&o);
    assert_false(o.is_ended);
    exchange(&o, SLICE_LIT("g"), &back, 0);
    assert_true(o.is_ended);
    assert_int_equal(o.error, E_LIMIT);
    strbuf_fini(&back);
    close_owner(&o);
}

static void the_owner_may_destroy_it_whenever_it_is_called(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf back = {0};
    open_owner(&o, 1, 16);
    o.destroys_on_data = true;
    exchange(&o, SLICE_LIT("x"), &back, 0);
    assert_null(o.stream);
    close_owner(&o);
    open_owner(&o, 1, 16);
    o.destroys_on_end = true;
    (void)shutdown(o.peer, SHUT_RDWR);
    turn(&o);
    assert_true(o.is_ended && !o.stream && o.error == 0);
    strbuf_fini(&back);
    close_owner(&o);
}

static void one_that_does_not_read_is_waited_for_and_told(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf data = make_bytes(4 << 20), back = {0};
    open_owner(&o, 1, 16);
    assert_int_equal(stream_send(o.stream, strbuf_slice(&data)), 0);
    size_t waiting = stream_waiting(o.stream);
    assert_true(waiting > 0 && waiting < data.n);
    turn(&o);
    assert_int_equal(o.drained, 0);
    exchange(&o, SLICE_LIT(""), &back, data.n);
    turn(&o);
    assert_int_equal(o.drained, 1);
    assert_memory_equal(data.p, back.p, data.n);
    (void)close(o.peer);
    o.peer = -1;
    for (int i = 0; i < 10 && !o.is_ended; i++) {
        assert_int_equal(stream_send(o.stream, strbuf_slice(&data)), 0);
        turn(&o);
    }
    assert_true(o.is_ended);
    strbuf_fini(&data);
    strbuf_fini(&back);
    close_owner(&o);
}

static void a_paused_one_hears_the_rest_when_it_resumes(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf back = {0};
    open_owner(&o, 0, 16);
    exchange(&o, SLICE_LIT("ab"), &back, 0);
    stream_pause(o.stream);
    exchange(&o, SLICE_LIT("cd"), &back, 0);
    assert_int_equal(o.calls, 1);
    o.unit = 2;
    stream_resume(o.stream);
    exchange(&o, SLICE_LIT(""), &back, 4);
    assert_slice(strbuf_slice(&back), "abcd");
    strbuf_fini(&back);
    close_owner(&o);
}

/* A transport that turns every bit round, takes a few bytes at a time, often says "again", and keeps some
 * back. */
struct transport {
    int fd;
    uint64_t seed;
    unsigned steps;
    char held[64];
    size_t n_held;
};

static int hard_start(void *ctx, int fd, const char *name, struct transport **out, struct diag *why)
{
    (void)name, (void)why;
    *out = mem_alloc(sizeof **out);
    (*out)->fd = fd;
    ++*(unsigned *)ctx;
    return 0;
}

static int hard_handshake(struct transport *t, short *wants, struct diag *why)
{
    (void)why;
    if (++t->steps < 4) {
        *wants = t->steps % 2 ? POLLOUT : POLLIN;
        return -EAGAIN;
    }
    return 0;
}

static ssize_t hard_send(struct transport *t, const void *p, size_t n, short *wants)
{
    char piece[97];
    *wants = POLLOUT;
    if (test_random(&t->seed) % 3 == 0)
        return -EAGAIN;
    n = n < sizeof piece ? n : sizeof piece;
    for (size_t i = 0; i < n; i++)
        piece[i] = (char)~((const char *)p)[i];
    ssize_t sent = send(t->fd, piece, n, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* Reads more than it gives: the rest is not to be seen on the socket. */
static ssize_t hard_receive(struct transport *t, void *p, size_t n, short *wants)
{
    *wants = POLLIN;
    if (t->n_held == 0) {
        ssize_t got = recv(t->fd, t->held, sizeof t->held, 0);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        t->n_held = (size_t)got;
    }
    size_t k = n < 7 ? n : 7;
    k = k < t->n_held ? k : t->n_held;
    for (size_t i = 0; i < k; i++)
        ((char *)p)[i] = (char)~t->held[i];
    t->n_held -= k;
    memmove(t->held, t->held + k, t->n_held);
    return (ssize_t)k;
}

static void hard_end(struct transport *t)
{
    mem_free(t);
}

static const struct transport_ops hard = {.start = hard_start,
                                          .handshake = hard_handshake,
                                          .send = hard_send,
                                          .receive = hard_receive,
                                          .end = hard_end};

static void a_transport_is_asked_until_it_has_nothing_more(void **state)
{
    (void)state;
    struct owner o;
    struct strbuf data = make_bytes(5000), back = {0};
    open_owner(&o, 5, 16);
    unsigned started = 0;
    stream_set_transport(o.stream, &hard, &started);
    turn(&o);
    assert_int_equal(started, 0);
    for (size_t i = 0; i < data.n; i++)
        data.p[i] = (char)~data.p[i];
    exchange(&o, strbuf_slice(&data), &back, data.n);
    assert_true(o.ready == 1 && started == 1 && stream_transport(o.stream));
    assert_memory_equal(data.p, back.p, data.n);
    strbuf_fini(&data);
    strbuf_fini(&back);
    close_owner(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_goes_back),
        cmocka_unit_test(a_part_is_given_again_with_what_follows),
        cmocka_unit_test(more_than_it_may_send_ends_it),
        cmocka_unit_test(the_owner_may_destroy_it_whenever_it_is_called),
        cmocka_unit_test(one_that_does_not_read_is_waited_for_and_told),
        cmocka_unit_test(a_paused_one_hears_the_rest_when_it_resumes),
        cmocka_unit_test(a_transport_is_asked_until_it_has_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
