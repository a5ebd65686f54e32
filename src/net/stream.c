/* SPDX-License-Identifier: Apache-2.0 */
/* Destroying from within a callback only marks: the function that called back frees (leave). While on_data
 * runs, what is sent is collected in the loop's cork and goes to the socket when it returns. */
#include "net/stream.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct stream_loop {
    struct event_base *base;
    char *buffer;       /* STREAM_READ bytes */
    struct strbuf cork; /* what the stream whose on_data runs has sent */
};

struct stream {
    struct stream_loop *loop;
    const struct stream_ops *ops;
    void *arg;
    const struct transport_ops *transport_ops; /* NULL = plain */
    void *transport_ctx;
    struct transport *transport;       /* NULL: not started yet */
    struct event *readable, *writable; /* the latter only while something waits */
    struct strbuf in, out;
    size_t input_max;
    int fd;
    int depth;        /* callbacks that are running */
    short read_wants; /* POLLOUT: the transport must write before it can read, and the other way round */
    short write_wants;
    bool is_ready; /* handshake done, or plain */
    bool is_paused, is_corked, is_over, is_destroyed;
    bool must_give; /* what was kept is to be given again, though nothing new came */
};

struct stream_loop *stream_loop_create(struct event_base *base)
{
    struct stream_loop *l = mem_try_alloc(sizeof *l);
    if (!l)
        return NULL;
    l->base = base;
    l->buffer = mem_try_alloc(STREAM_READ);
    if (!l->buffer) {
        mem_free(l);
        return NULL;
    }
    return l;
}

void stream_loop_destroy(struct stream_loop *l)
{
    if (!l)
        return;
    mem_free(l->buffer);
    strbuf_fini(&l->cork);
    mem_free(l);
}

static void free_stream(struct stream *s)
{
    if (s->transport)
        s->transport_ops->end(s->transport);
    if (s->readable)
        event_free(s->readable);
    if (s->writable)
        event_free(s->writable);
    (void)close(s->fd); /* read-only from here: nothing can be done about it */
    strbuf_fini(&s->in);
    strbuf_fini(&s->out);
    mem_free(s);
}

void stream_destroy(struct stream *s)
{
    if (!s)
        return;
    s->is_destroyed = s->is_over = true;
    if (s->depth == 0)
        free_stream(s);
}

static void enter(struct stream *s)
{
    s->depth++;
}

/* After the owner was called: false when it has destroyed the stream. */
static bool leave(struct stream *s)
{
    s->depth--;
    if (!s->is_destroyed)
        return true;
    if (s->depth == 0)
        free_stream(s);
    return false;
}

/* Says so, once. The stream is still there unless the owner destroys it. */
static void end(struct stream *s, int error, const char *why)
{
    if (s->is_over)
        return;
    s->is_over = true;
    (void)event_del(s->readable); /* nothing more is heard */
    if (s->writable)
        (void)event_del(s->writable);
    enter(s);
    s->ops->on_end(s->arg, error, why);
    (void)leave(s);
}

static ssize_t receive(struct stream *s, char *to, size_t n)
{
    ssize_t got;
    if (s->transport)
        return s->transport_ops->receive(s->transport, to, n, &s->read_wants);
    do
        got = recv(s->fd, to, n, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t transmit(struct stream *s, const char *from, size_t n)
{
    ssize_t sent;
    if (s->transport)
        return s->transport_ops->send(s->transport, from, n, &s->write_wants);
    do
        sent = send(s->fd, from, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    s->write_wants = POLLOUT;
    return sent < 0 ? -errno : sent;
}

static void on_writable(evutil_socket_t fd, short what, void *arg);

static int want_writable(struct stream *s)
{
    if (!s->writable)
        s->writable = event_new(s->loop->base, s->fd, EV_WRITE | EV_PERSIST, on_writable, s);
    return s->writable && event_add(s->writable, NULL) == 0 ? 0 : -ENOMEM;
}

static void forget_writable(struct stream *s)
{
    if (s->writable)
        event_free(s->writable);
    s->writable = NULL;
}

/* Sends what waits. 0: all of it; -EAGAIN: the socket is full; or the socket's error. */
static int flush(struct stream *s)
{
    size_t at = 0;
    ssize_t n = 0;
    while (at < s->out.n && n >= 0) {
        n = transmit(s, s->out.p + at, s->out.n - at);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at == s->out.n) {
        strbuf_fini(&s->out); /* a quiet connection holds no buffer */
        return 0;
    }
    strbuf_consume(&s->out, at);
    if (n == -EAGAIN && s->write_wants & POLLOUT)
        return want_writable(s) < 0 ? -ENOMEM : -EAGAIN;
    return (int)n; /* -EAGAIN with POLLIN: reading goes on anyway and tries again */
}

static void flush_or_end(struct stream *s)
{
    bool had_waited = s->writable != NULL;
    int r = s->out.n ? flush(s) : 0;
    if (r == 0) {
        forget_writable(s);
        if (had_waited && !s->is_over && s->ops->on_drained)
            s->ops->on_drained(s->arg);
    } else if (r != -EAGAIN) {
        end(s, r, "");
    }
}

/* Sends what the cork holds, and keeps what the socket does not take. */
static void uncork(struct stream *s)
{
    struct strbuf *cork = &s->loop->cork;
    s->is_corked = false;
    int r = s->is_destroyed || cork->n == 0 ? 0 : stream_send(s, strbuf_slice(cork));
    bool is_lost = strbuf_failed(cork) || r < 0;
    strbuf_reset(cork);
    if (is_lost && !s->is_destroyed)
        end(s, -ENOMEM, "");
}

/* Gives the owner what there is; *rest is what it did not take. False: it has destroyed the stream. */
static bool give(struct stream *s, struct slice data, struct slice *rest)
{
    enter(s);
    s->is_corked = true;
    size_t used = s->ops->on_data(s->arg, data);
    uncork(s);
    *rest = slice_from(data, used);
    return leave(s);
}

/* n new bytes lie in the shared buffer. False: over. */
static bool take(struct stream *s, size_t n)
{
    struct slice data = slice_of(s->loop->buffer, n), rest;
    bool has_kept = s->in.n > 0;
    if (has_kept) {
        strbuf_add_slice(&s->in, data);
        data = strbuf_slice(&s->in);
    }
    if (strbuf_failed(&s->in)) {
        end(s, -ENOMEM, "");
        return false;
    }
    if (!give(s, data, &rest))
        return false;
    if (rest.n == 0)
        strbuf_fini(&s->in); /* a quiet connection holds no buffer */
    else if (has_kept)
        strbuf_consume(&s->in, data.n - rest.n);
    else
        strbuf_add_slice(&s->in, rest);
    if (s->in.n > s->input_max && !s->is_over)
        end(s, E_LIMIT, "it sent more than it may");
    return !s->is_over;
}

/* 1: the handshake goes on; 0: done, or there is none; negative: over. */
static int shake_hands(struct stream *s)
{
    struct diag why = {0};
    if (s->is_ready)
        return 0;
    int r = s->transport ? 0 : s->transport_ops->start(s->transport_ctx, s->fd, NULL, &s->transport, &why);
    if (r == 0)
        r = s->transport_ops->handshake(s->transport, &s->read_wants, &why);
    if (r == -EAGAIN) {
        if (s->read_wants & POLLOUT && want_writable(s) < 0)
            end(s, -ENOMEM, "");
        return 1;
    }
    if (r < 0) {
        end(s, r, why.message);
        return -1;
    }
    s->is_ready = true;
    forget_writable(s);
    enter(s);
    if (s->ops->on_ready)
        s->ops->on_ready(s->arg);
    return leave(s) && !s->is_over ? 0 : -1;
}

/* A transport may hold bytes that the socket does not show: it is asked until it has none. */
static bool may_hold_more(const struct stream *s)
{
    return s->transport && (!s->transport_ops->has_more || s->transport_ops->has_more(s->transport));
}

static const char *words_of(const struct stream *s)
{
    return s->transport && s->transport_ops->why ? s->transport_ops->why(s->transport) : "";
}

static void read_more(struct stream *s)
{
    if (s->must_give && s->in.n && !take(s, 0))
        return;
    s->must_give = false;
    for (int round = 0; round < STREAM_ROUNDS && !s->is_paused; round++) {
        ssize_t n = receive(s, s->loop->buffer, STREAM_READ);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            end(s, (int)n, words_of(s));
            return;
        }
        if (!take(s, (size_t)n) || (n < STREAM_READ && !may_hold_more(s)))
            return;
    }
    if (!s->is_paused && may_hold_more(s))
        event_active(s->readable, EV_READ, 0);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    (void)fd, (void)what;
    enter(s);
    int r = shake_hands(s);
    if (r == 0 && !s->is_over)
        read_more(s);
    if (!s->is_over && s->is_ready && s->out.n && s->write_wants & POLLIN)
        flush_or_end(s);
    (void)leave(s);
}

bool stream_read_now(struct stream *s)
{
    enter(s);
    if (s->is_ready && !s->is_over)
        read_more(s);
    return leave(s) && !s->is_over;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    (void)fd, (void)what;
    enter(s);
    if (shake_hands(s) == 0 && !s->is_over)
        flush_or_end(s);
    (void)leave(s);
}

int stream_create(struct stream_loop *l, evutil_socket_t fd, size_t input_max, const struct stream_ops *ops,
                  void *arg, struct stream **out)
{
    struct stream *s = mem_try_alloc(sizeof *s);
    if (!s) {
        (void)close(fd);
        return -ENOMEM;
    }
    *s = (struct stream){
        .loop = l, .ops = ops, .arg = arg, .fd = fd, .input_max = input_max, .is_ready = true};
    s->readable = event_new(l->base, fd, EV_READ | EV_PERSIST, on_readable, s);
    if (!s->readable || event_add(s->readable, NULL) < 0) {
        free_stream(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

void stream_set_transport(struct stream *s, const struct transport_ops *ops, void *ctx)
{
    s->transport_ops = ops;
    s->transport_ctx = ctx;
    s->is_ready = false;
}

struct transport *stream_transport(const struct stream *s)
{
    return s->transport;
}

void stream_set_input_max(struct stream *s, size_t input_max)
{
    s->input_max = input_max;
}

void stream_pause(struct stream *s)
{
    if (s->is_over)
        return;
    s->is_paused = true;
    (void)event_del(s->readable); /* of an event that is there: can't fail */
}

void stream_resume(struct stream *s)
{
    if (s->is_over || !s->is_paused)
        return;
    s->is_paused = false;
    s->must_give = true;
    if (event_add(s->readable, NULL) < 0)
        end(s, -ENOMEM, "");
    else if (s->in.n || s->transport)
        event_active(s->readable, EV_READ, 0);
}

int stream_send(struct stream *s, struct slice data)
{
    if (s->is_over)
        return 0;
    if (s->is_corked && s->out.n == 0) {
        strbuf_add_slice(&s->loop->cork, data);
        return strbuf_failed(&s->loop->cork) ? -ENOMEM : 0;
    }
    ssize_t n = s->out.n || !s->is_ready ? 0 : transmit(s, data.p, data.n);
    if (n < 0)
        n = 0; /* full; or an error, which the loop finds again and tells */
    if ((size_t)n == data.n)
        return 0;
    strbuf_add_slice(&s->out, slice_from(data, (size_t)n));
    if (strbuf_failed(&s->out))
        return -ENOMEM;
    return s->is_ready ? want_writable(s) : 0;
}

/* What the socket takes of them; 0 when it is full or broken. */
static size_t transmit_parts(struct stream *s, const struct slice *parts, size_t n)
{
    struct iovec v[STREAM_PARTS];
    struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
    for (size_t i = 0; i < n; i++)
        v[i] = (struct iovec){(void *)parts[i].p, parts[i].n}; /* only read */
    ssize_t sent;
    do
        sent = sendmsg(s->fd, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    s->write_wants = POLLOUT;
    return sent < 0 ? 0 : (size_t)sent;
}

int stream_send_parts(struct stream *s, const struct slice *parts, size_t n)
{
    bool is_direct = !s->is_over && !s->is_corked && s->is_ready && !s->transport && s->out.n == 0;
    size_t skip = is_direct && n <= STREAM_PARTS ? transmit_parts(s, parts, n) : 0;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (skip >= parts[i].n) {
            skip -= parts[i].n;
            continue;
        }
        if (is_direct) { /* the socket is full: what is left waits */
            strbuf_add_slice(&s->out, slice_from(parts[i], skip));
            skip = 0;
        } else {
            r = stream_send(s, parts[i]);
        }
    }
    if (!is_direct || s->out.n == 0)
        return r;
    return strbuf_failed(&s->out) ? -ENOMEM : want_writable(s);
}

size_t stream_waiting(const struct stream *s)
{
    return s->out.n + (s->is_corked ? s->loop->cork.n : 0);
}

struct slice stream_rest(const struct stream *s)
{
    return strbuf_slice(&s->in);
}

evutil_socket_t stream_fd(const struct stream *s)
{
    return s->fd;
}
