/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - the frames of a connection as bytes and as plain structs (docs/protocol.md, "Connections"). Pure
 * functions over buffers, no I/O: libgridline and the gateway share them.
 *
 *     int64_t n = frame_read(input, FRAME_PAYLOAD_MAX, &frame);      (0: more bytes are needed)
 *     if (n > 0 && frame.type == FRAME_ACK)
 *         r = frame_get_ack(frame.payload, &ack);
 *
 * frame_get_* take a payload and give E_PROTO when it is cut short or says what can't be; bytes behind the
 * known part are ignored. Slices in the results are borrowed from the payload. frame_put_* append one whole
 * frame; when memory runs out the buffer says so (strbuf_failed) and holds a part of it.
 *
 * The payloads of SCHEMA, STREAM and SAMPLES are event/samples.h's; 14 and 15 come with their users. */
#ifndef GRIDLINE_NET_FRAME_H
#define GRIDLINE_NET_FRAME_H

#include "base/cursor.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    FRAME_HEAD = 16,
    FRAME_PAYLOAD_MAX = (1024 + 64) * 1024,
    FRAME_GREETING = 8, /* bytes before the first frame, from the one who dialled */
    FRAME_MAJOR = 1,
    FRAME_MINOR = 0,
    FRAME_PORT = 14830,
    FRAME_REASONS = 256 /* drop reasons are a byte */
};

/* Fixed on the wire. A type below FRAME_OPTIONAL that is not known ends the connection, others are skipped.
 */
enum frame_type {
    FRAME_HELLO = 1,
    FRAME_WELCOME = 2,
    FRAME_BATCH = 3,
    FRAME_ACK = 4,
    FRAME_REFUSE = 5,
    FRAME_COUNTS = 6,
    FRAME_PING = 7,
    FRAME_PONG = 8,
    FRAME_SCHEMA = 9,
    FRAME_SCHEMA_OK = 10,
    FRAME_STREAM = 11,
    FRAME_STREAM_OK = 12,
    FRAME_ACTIVATE = 13,
    FRAME_BYE = 16,
    FRAME_SAMPLES = 17,
    FRAME_SAMPLES_ORIGIN = 18,
    FRAME_OPTIONAL = 128
};

enum frame_peer { PEER_PROGRAM = 1, PEER_AGENT = 2, PEER_RELAY = 3, PEER_CONSUMER = 4 };

enum frame_refusal {
    REFUSE_MALFORMED = 1,   /* the block can't be read */
    REFUSE_STORAGE = 2,     /* can't be stored now */
    REFUSE_LIMIT = 3,       /* over a limit of the receiver */
    REFUSE_TOO_OLD = 4,     /* outside the deduplication window, or older than is kept */
    REFUSE_NOT_ALLOWED = 5, /* of a host that the sender may not speak for */
    REFUSE_TOO_NEW = 6      /* further ahead of the receiver's clock than is taken */
};

enum frame_bye { BYE_DONE = 0, BYE_SHUTDOWN = 1, BYE_PROTOCOL = 2, BYE_NOT_ALLOWED = 3, BYE_TOO_MANY = 4 };

/* Who speaks, by its first bytes. */
enum greeting {
    GREETING_MORE,    /* too few bytes to tell */
    GREETING_FRAMES,  /* FRAME_GREETING bytes, then frames */
    GREETING_ULM,     /* NetLogger's FRAME_GREETING bytes, then ULM lines */
    GREETING_LINES,   /* bare lines from the first byte on: encoding_detect tells which */
    GREETING_VERSION, /* frames of a major version that is not ours */
    GREETING_UNKNOWN
};
enum greeting greeting_detect(struct slice head);
void greeting_put(struct strbuf *out);

struct frame {
    uint8_t type;
    uint32_t worker;
    struct slice payload; /* borrowed */
};

/* The frame at the front of data: how many bytes it takes; 0 when they are not all there yet; E_LIMIT (a
 * payload over max_payload, known from the head alone) or E_DAMAGE (the head's checksum). */
int64_t frame_read(struct slice data, uint32_t max_payload, struct frame *out);
/* The same, without asking for the payload's bytes: 0 only while the head is not all there. */
int64_t frame_size(struct slice data, uint32_t max_payload);
/* payload.n is at most FRAME_PAYLOAD_MAX. */
void frame_put(struct strbuf *out, uint8_t type, uint32_t worker, struct slice payload);
/* The head alone, for n bytes of payload that follow. */
void frame_put_head(struct strbuf *out, uint8_t type, uint32_t worker, size_t n);
/* A frame whose payload is appended between the two; at is what begin returned. */
size_t frame_begin(struct strbuf *out, uint8_t type, uint32_t worker);
void frame_end(struct strbuf *out, size_t at);

struct frame_origin {
    uint8_t producer[16];
    uint64_t epoch;
};

void frame_put_origin(struct strbuf *out, const struct frame_origin *o);
struct frame_origin frame_get_origin(struct cursor *c);
bool frame_same_origin(const struct frame_origin *a, const struct frame_origin *b);

struct frame_hello {
    uint16_t minor_low, minor_high;
    uint8_t role;
    struct frame_origin origin;
    int64_t t0_ns;           /* the sender's raw clock */
    struct slice host, prog; /* at most 255 bytes each, printable UTF-8 */
};

struct frame_welcome {
    uint16_t minor;
    uint64_t session;
    uint32_t window; /* bytes of BATCH payload that may be on the way, not acknowledged */
    uint64_t seq;    /* all of HELLO's origin up to it is held */
    int64_t t0_ns, t1_ns, t2_ns;
    uint64_t held; /* how many of 1..seq are held; fewer: the sender dropped some, or they were refused */
};

struct frame_ack {
    struct frame_origin origin;
    uint64_t seq;
};

struct frame_refuse {
    struct frame_origin origin;
    uint64_t first_seq;
    uint32_t count;
    uint16_t reason;
    uint32_t retry_ms; /* 0 = never */
    struct slice text;
};
/* How many of the count events from first on it is about. */
static inline uint32_t frame_refused_of(const struct frame_refuse *r, uint64_t first, uint32_t count)
{
    uint64_t from = r->first_seq > first ? r->first_seq - first : 0;
    uint64_t before = first > r->first_seq ? first - r->first_seq : 0;
    uint64_t n = before < r->count ? r->count - before : 0;
    uint64_t room = from < count ? count - from : 0;
    return (uint32_t)(n < room ? n : room);
}

enum frame_class { CLASS_EVENTS = 0, CLASS_SAMPLES = 1 };

/* The ledger: taken = passed + queued + the sum of dropped; frame_get_counts refuses what does not add up. */
struct frame_counts {
    struct frame_origin origin;
    uint8_t class; /* enum frame_class */
    bool is_final; /* the epoch is over: nothing more will be taken */
    uint64_t taken, passed, queued;
    uint64_t dropped[FRAME_REASONS]; /* by reason */
};

struct frame_ping {
    uint64_t token;
    int64_t t0_ns;
};

struct frame_pong {
    uint64_t token;
    int64_t t0_ns, t1_ns, t2_ns;
};

/* Whose samples follow on this connection: a producer of their own, since they have their own sequence
 * numbers. Everything announced before is forgotten. */
struct frame_samples_origin {
    struct frame_origin origin; /* neither all zero nor epoch 0 */
    bool wants_ok;              /* SCHEMA_OK and STREAM_OK, please: for datagrams */
};

struct frame_stream_ok {
    uint32_t stream, baseline;
};

struct frame_bye_reason {
    uint16_t reason;
    struct slice text;
};

void frame_put_hello(struct strbuf *out, const struct frame_hello *h);
int frame_get_hello(struct slice payload, struct frame_hello *out);
void frame_put_welcome(struct strbuf *out, const struct frame_welcome *w);
int frame_get_welcome(struct slice payload, struct frame_welcome *out);
void frame_put_ack(struct strbuf *out, const struct frame_ack *a);
int frame_get_ack(struct slice payload, struct frame_ack *out);
void frame_put_refuse(struct strbuf *out, const struct frame_refuse *r);
int frame_get_refuse(struct slice payload, struct frame_refuse *out);
void frame_put_counts(struct strbuf *out, const struct frame_counts *c);
int frame_get_counts(struct slice payload, struct frame_counts *out);
void frame_put_ping(struct strbuf *out, const struct frame_ping *p);
int frame_get_ping(struct slice payload, struct frame_ping *out);
void frame_put_pong(struct strbuf *out, const struct frame_pong *p);
int frame_get_pong(struct slice payload, struct frame_pong *out);
void frame_put_samples_origin(struct strbuf *out, const struct frame_samples_origin *o);
int frame_get_samples_origin(struct slice payload, struct frame_samples_origin *out);
void frame_put_schema_ok(struct strbuf *out, uint32_t worker, uint32_t schema);
int frame_get_schema_ok(struct slice payload, uint32_t *schema);
void frame_put_stream_ok(struct strbuf *out, uint32_t worker, const struct frame_stream_ok *ok);
int frame_get_stream_ok(struct slice payload, struct frame_stream_ok *out);
void frame_put_bye(struct strbuf *out, uint16_t reason, struct slice text);
int frame_get_bye(struct slice payload, struct frame_bye_reason *out);

/* ACTIVATE: a number, then (pattern, level) to the end of the payload. */
struct frame_activation {
    struct slice pattern;
    int8_t level; /* -1 = off */
};
/* Checks the whole list: every entry is whole, every level is -1 or of the model. */
int frame_get_activate(struct slice payload, uint32_t *number, struct slice *list);
/* Takes the next entry from the front of a list: 1; 0 at its end; E_PROTO. */
int frame_next_activation(struct slice *list, struct frame_activation *out);

#endif
