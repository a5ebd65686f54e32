/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - one worker's frames on a connection: its registration and lease, its samples, its answers. An
 * agent's connection has one channel, a relay's one for each worker that it numbers. Used by session.c alone.
 */
#ifndef GRIDLINE_GATEWAY_CHANNEL_H
#define GRIDLINE_GATEWAY_CHANNEL_H

#include "gateway/session.h"

struct channel {
    struct session *session;
    struct worker *worker;               /* NULL: not registered */
    struct sampler *sampler;             /* NULL: no SAMPLES_ORIGIN yet */
    struct frame_origin origin;          /* of its events: HELLO's, or REGISTER's */
    uint32_t number;                     /* in the frames' heads: 0, or the relay's */
    uint32_t key_told;                   /* the id of the key that LEASE last carried */
    bool wants_ok;                       /* SCHEMA_OK and STREAM_OK */
    bool is_listing;                     /* more of its SENSORS are to come */
    bool has_counts, has_samples_counts; /* its COUNTS came on this connection */
};

/* What channels ask of their session. The frame is in sessions' out. */
void session_send(struct session *s);
void session_protocol_error(struct session *s, const char *text);
/* -ENOMEM, or the peer is wrong: text says how. */
void session_failed(struct session *s, int r, const char *text);
void session_deny(struct session *s, const char *text);
struct sessions *session_all(const struct session *s);
const struct access_identity *session_who(const struct session *s);
const char *session_name(const struct session *s); /* for logs and lists */
struct stream *session_stream(const struct session *s);
bool session_is_ready(const struct session *s);     /* welcomed, and not going */
struct slice session_host(const struct session *s); /* as HELLO said */
/* What limits the samples of that host: NULL, nothing does. */
struct ingest_source *session_limit(struct session *s, struct slice host);
bool session_is_relay(const struct session *s);
bool session_is_sealed(const struct session *s); /* TLS */

/* Is it one of a worker's frames? */
bool channel_takes(uint8_t type);
void channel_frame(struct channel *c, const struct frame *f);
void channel_counts(struct channel *c, struct slice payload);
/* It said BYE. */
void channel_bye(struct channel *c, uint16_t reason);
/* The connection is gone, or another one has the worker. */
void channel_close(struct channel *c);

#endif
