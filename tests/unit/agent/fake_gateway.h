/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway made of sockets, for tests of the agent's end: it accepts on loopback, takes the frames that come, and sends
 * what the test tells it to. Nothing is answered by itself but HELLO and BATCH. */
#ifndef GRIDLINE_TESTS_AGENT_FAKE_GATEWAY_H
#define GRIDLINE_TESTS_AGENT_FAKE_GATEWAY_H

#include "unit/test.h"

#include "net/control.h"
#include "net/datagram.h"
#include "net/lease.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FAKE_FRAMES = 512 };

struct fake_frame {
    uint8_t type;
    struct slice payload; /* in its buffer's copy */
    char *bytes;
};

struct fake_gateway {
    int listener, fd, udp;
    uint16_t port, udp_port;
    char address[64];
    struct strbuf in;
    bool has_greeting;
    struct fake_frame frames[FAKE_FRAMES]; /* all that came on this connection */
    size_t n, read;                        /* read: the first that fake_next has not given */
    size_t accepted;
};

static inline void fake_open(struct fake_gateway *g)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    *g = (struct fake_gateway){.fd = -1};
    g->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(g->listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(g->listener, 4), 0);
    assert_int_equal(getsockname(g->listener, (struct sockaddr *)&sa, &len), 0);
    g->port = ntohs(sa.sin_port);
    (void)snprintf(g->address, sizeof g->address, "tcp://127.0.0.1:%u", (unsigned)g->port);
    sa.sin_port = 0;
    g->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(g->udp, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(g->udp, (struct sockaddr *)&sa, &len), 0);
    g->udp_port = ntohs(sa.sin_port);
}

static inline void fake_forget(struct fake_gateway *g)
{
    for (size_t i = 0; i < g->n; i++)
        free(g->frames[i].bytes);
    g->n = g->read = 0;
}

/* The connection breaks. */
static inline void fake_hang_up(struct fake_gateway *g)
{
    if (g->fd >= 0)
        (void)close(g->fd);
    g->fd = -1;
    g->has_greeting = false;
    strbuf_fini(&g->in);
}

static inline void fake_close(struct fake_gateway *g)
{
    fake_hang_up(g);
    fake_forget(g);
    (void)close(g->listener);
    (void)close(g->udp);
}

static inline void fake_send(struct fake_gateway *g, struct strbuf *frame)
{
    assert_false(strbuf_failed(frame));
    (void)!send(g->fd, frame->p, frame->n, MSG_NOSIGNAL); /* one that has gone does not want it */
    strbuf_fini(frame);
}

static inline void fake_welcome(struct fake_gateway *g)
{
    struct strbuf out = {0};
    frame_put_welcome(&out, &(struct frame_welcome){.window = 1 << 20});
    fake_send(g, &out);
}

/* All of a block (docs/protocol.md, "Blocks") is in the journal. */
static inline void fake_acknowledge(struct fake_gateway *g, struct slice block)
{
    struct strbuf out = {0};
    struct frame_ack ack;
    struct cursor head = cursor_of(slice_from(block, 16));
    uint32_t n = cursor_u32(&head);
    head = cursor_of(slice_from(block, 24));
    ack.origin = frame_get_origin(&head);
    ack.seq = cursor_u64(&head) + n - 1;
    frame_put_ack(&out, &ack);
    fake_send(g, &out);
}

static inline void fake_take(struct fake_gateway *g, const struct frame *f)
{
    assert_true(g->n < FAKE_FRAMES);
    struct fake_frame *to = &g->frames[g->n++];
    to->type = f->type;
    to->bytes = malloc(f->payload.n + 1);
    memcpy(to->bytes, f->payload.p, f->payload.n);
    to->payload = slice_of(to->bytes, f->payload.n);
    if (f->type == FRAME_HELLO)
        fake_welcome(g);
    if (f->type == FRAME_BATCH)
        fake_acknowledge(g, to->payload);
}

/* Accepts and reads what is there. */
static inline void fake_pump(struct fake_gateway *g)
{
    if (g->fd < 0) {
        g->fd = accept(g->listener, NULL, NULL);
        if (g->fd < 0)
            return;
        assert_int_equal(fcntl(g->fd, F_SETFL, O_NONBLOCK), 0);
        g->accepted++;
        fake_forget(g);
    }
    ssize_t got;
    int error;
    for (;;) {
        char *to = strbuf_room(&g->in, 65536);
        got = recv(g->fd, to, 65536, 0);
        error = errno;
        if (got <= 0)
            break;
        strbuf_advance(&g->in, (size_t)got);
    }
    if (!g->has_greeting && g->in.n >= FRAME_GREETING) {
        strbuf_consume(&g->in, FRAME_GREETING);
        g->has_greeting = true;
    }
    struct frame f;
    int64_t n;
    while (g->has_greeting && (n = frame_read(strbuf_slice(&g->in), FRAME_PAYLOAD_MAX, &f)) > 0) {
        fake_take(g, &f);
        strbuf_consume(&g->in, (size_t)n);
    }
    if (got == 0 || (got < 0 && error == ECONNRESET))
        fake_hang_up(g);
}

/* The next frame of that type that was not given yet; those between are skipped. */
static inline bool fake_next(struct fake_gateway *g, uint8_t type, struct slice *payload)
{
    for (size_t i = g->read; i < g->n; i++) {
        if (g->frames[i].type != type)
            continue;
        g->read = i + 1;
        *payload = g->frames[i].payload;
        return true;
    }
    return false;
}

static inline size_t fake_count(const struct fake_gateway *g, uint8_t type)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++)
        n += g->frames[i].type == type;
    return n;
}

#endif
