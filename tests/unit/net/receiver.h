/* SPDX-License-Identifier: Apache-2.0 */
/* receiver.h - the other end of a connection, for tests of senders: in the same thread, doing what the test
 * says. */
#ifndef GRIDLINE_TESTS_RECEIVER_H
#define GRIDLINE_TESTS_RECEIVER_H

#include "unit/test.h"

#include "net/frame.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct receiver {
    char dir[64], path[96], backup[96];
    int listener, fd;
    struct strbuf in;
    struct frame_hello hello;
    struct frame_counts counts;
    struct frame frame; /* payload in in */
};

static inline void receiver_listen(struct receiver *r)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", r->path);
    (void)unlink(r->path);
    r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(r->listener >= 0);
    assert_int_equal(bind(r->listener, (const struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(r->listener, 8), 0);
}

static inline void receiver_start(struct receiver *r)
{
    *r = (struct receiver){.dir = "/tmp/gridline-stream-XXXXXX", .listener = -1, .fd = -1};
    assert_non_null(mkdtemp(r->dir));
    (void)snprintf(r->path, sizeof r->path, "%s/sock", r->dir);
    (void)snprintf(r->backup, sizeof r->backup, "%s/backup", r->dir);
    receiver_listen(r);
}

static inline void receiver_hang_up(struct receiver *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
    strbuf_reset(&r->in);
}

static inline void receiver_die(struct receiver *r)
{
    receiver_hang_up(r);
    if (r->listener >= 0)
        (void)close(r->listener);
    r->listener = -1;
}

static inline void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    (void)rmdir(path);
}

static inline void receiver_end(struct receiver *r)
{
    receiver_die(r);
    strbuf_fini(&r->in);
    remove_dir(r->backup);
    remove_dir(r->dir);
}

static inline bool receiver_accept(struct receiver *r)
{
    if (r->fd < 0 && r->listener >= 0)
        r->fd = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return r->fd >= 0;
}

/* Reads what is there; takes the greeting. */
static inline void receiver_read(struct receiver *r)
{
    ssize_t n;
    do {
        char *to = strbuf_room(&r->in, 65536);
        assert_non_null(to);
        n = r->fd >= 0 ? recv(r->fd, to, 65536, 0) : -1;
        if (n > 0)
            strbuf_advance(&r->in, (size_t)n);
    } while (n > 0);
}

/* Has the sender closed? */
static inline bool receiver_is_left(struct receiver *r)
{
    receiver_read(r);
    char c;
    return recv(r->fd, &c, 1, MSG_PEEK) == 0;
}

/* The next whole frame: its type; 0 when there is none. It is valid until the next call. */
static inline uint8_t receiver_frame(struct receiver *r)
{
    if (r->frame.payload.p)
        strbuf_consume(&r->in, FRAME_HEAD + r->frame.payload.n);
    r->frame.payload.p = NULL;
    receiver_read(r);
    int64_t n = frame_read(strbuf_slice(&r->in), FRAME_PAYLOAD_MAX, &r->frame);
    assert_true(n >= 0);
    if (n == 0)
        r->frame.payload = (struct slice){0};
    return n ? r->frame.type : 0;
}

static inline void receiver_send(struct receiver *r, struct strbuf *out)
{
    assert_false(strbuf_failed(out));
    ssize_t n = send(r->fd, out->p, out->n, MSG_NOSIGNAL);
    assert_true(n == (ssize_t)out->n || n < 0); /* the other end may be gone */
    strbuf_fini(out);
}

static inline void receiver_welcome(struct receiver *r, uint64_t seq, uint32_t window)
{
    struct strbuf out = {0};
    frame_put_welcome(&out, &(struct frame_welcome){.session = 1, .window = window, .seq = seq});
    receiver_send(r, &out);
}

static inline void receiver_ack(struct receiver *r, const struct frame_origin *o, uint64_t seq)
{
    struct strbuf out = {0};
    frame_put_ack(&out, &(struct frame_ack){*o, seq});
    receiver_send(r, &out);
}

static inline void receiver_refuse(struct receiver *r, const struct frame_origin *o, uint64_t first,
                                   uint32_t count, uint32_t retry_ms)
{
    struct strbuf out = {0};
    frame_put_refuse(&out, &(struct frame_refuse){.origin = *o,
                                                  .first_seq = first,
                                                  .count = count,
                                                  .reason = REFUSE_STORAGE,
                                                  .retry_ms = retry_ms,
                                                  .text = SLICE_LIT("no")});
    receiver_send(r, &out);
}

#endif
