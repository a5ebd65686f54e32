/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - one connection of a daemon that has many: bytes in, bytes out, plain or through a transport
 * (TLS).
 *
 * Written for tens of thousands at a time: a connection that is quiet holds no buffer. What arrives is read
 * into one buffer that all streams of a loop share; only the part that its owner could not use yet is kept.
 * What is sent goes to the socket at once (everything sent from within on_data in one call), and only what
 * the socket does not take is kept. A message that is asked and answered costs one recv and one send.
 *
 * The owner's callbacks may send, pause and destroy. On the loop; one thread. */
#ifndef GRIDLINE_NET_STREAM_H
#define GRIDLINE_NET_STREAM_H

#include "base/strbuf.h"
#include "net/transport.h"

#include <event2/event.h>

enum {
    STREAM_READ = 64 << 10 /* bytes of one recv */,
    STREAM_ROUNDS = 4 /* recvs of one wake-up */,
    STREAM_PARTS = 64
};

/* What the streams of one loop share. */
struct stream_loop;
struct stream_loop *stream_loop_create(struct event_base *base); /* borrowed. NULL: no memory */
void stream_loop_destroy(struct stream_loop *l);                 /* NULL is fine; after its streams */

struct stream;

struct stream_ops {
    /* Bytes came: how many of them are done with. The others are given again, with what follows. */
    size_t (*on_data)(void *arg, struct slice data);
    /* The transport is ready: its handshake is done. Not called without one. */
    void (*on_ready)(void *arg);
    /* The end: the peer closed (error 0), or it failed; why is "" or in words. The owner destroys the stream.
     */
    void (*on_end)(void *arg, int error, const char *why);
    /* All that had to wait was sent. */
    void (*on_drained)(void *arg);
};

/* Takes fd, which is not blocking. input_max: bytes kept that the owner does not use, at most; more is an
 * error (E_LIMIT). -ENOMEM: fd is closed. */
int stream_create(struct stream_loop *l, evutil_socket_t fd, size_t input_max, const struct stream_ops *ops,
                  void *arg, struct stream **out);
/* Bytes go through this, which is started (ctx is its) when the first one comes: a peer that says nothing
 * costs nothing. Right after create. */
void stream_set_transport(struct stream *s, const struct transport_ops *ops, void *ctx);
struct transport *stream_transport(const struct stream *s); /* NULL = plain, or not started */
/* Closes without a word. NULL is fine. */
void stream_destroy(struct stream *s);

void stream_set_input_max(struct stream *s, size_t input_max);
/* No more reading; what was read is given again on resume. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Reads what the socket has now, some STREAM_READ bytes of it. false: the stream is over, or was destroyed.
 */
bool stream_read_now(struct stream *s);

/* -ENOMEM: some of it is lost, and the connection is of no use. An error of the socket is told by on_end. */
int stream_send(struct stream *s, struct slice data);
/* The same of several pieces, in one call of the socket where it can be. */
int stream_send_parts(struct stream *s, const struct slice *parts, size_t n);
/* What came and its owner did not use, borrowed: within on_end, the cut end of what the peer said. */
struct slice stream_rest(const struct stream *s);
/* Bytes that wait for the socket. */
size_t stream_waiting(const struct stream *s);
evutil_socket_t stream_fd(const struct stream *s);

#endif
