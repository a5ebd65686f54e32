/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - readings of many streams as a few bytes: differences to what the receiver knows already.
 *
 * Schemas and streams are announced once a connection (payloads of the frames SCHEMA and STREAM); a packet of
 * samples (payload of the frame SAMPLES, later of datagrams) then holds per row the stream's number, which
 * values changed, and varint differences to the stream's baseline. On a connection, where nothing is lost or
 * overtaken, the packet has the flag ROLL: each row becomes the stream's next baseline. Without it
 * (datagrams) differences are to the announced baseline and each packet decodes alone. The byte layout is in
 * docs/protocol.md ("Samples").
 *
 * Bit for bit: what the reader gives are the values that the writer was given, of every type, missing ones
 * too. Writing costs a few ns a field and no allocation once the buffers have grown. One thread each. */
#ifndef GRIDLINE_EVENT_SAMPLES_H
#define GRIDLINE_EVENT_SAMPLES_H

#include "base/strbuf.h"
#include "event/batch.h"

enum {
    SAMPLES_STREAMS_MAX = 65536, /* a connection */
    SAMPLES_SCHEMAS_MAX = 4096,
    SAMPLES_ROWS_MAX = 4096,     /* a packet */
    SAMPLES_BYTES_MAX = 64 << 10 /* a packet; a row that does not fit alone is E_LIMIT: send it as an event */
};

enum samples_flags { SAMPLES_ROLL = 1 };

struct samples_writer;
struct samples_writer *samples_writer_create(enum samples_flags flags); /* NULL: no memory */
void samples_writer_destroy(struct samples_writer *w);                  /* NULL is fine */
/* A new connection, or the same after SAMPLES_ORIGIN was sent again: nothing is known there. Stream numbers
 * start again from 1; rows of a packet that was not finished are gone. With ROLL this is also what must
 * follow when a finished packet was not sent: the reader refuses what comes behind a missing one. */
void samples_writer_reset(struct samples_writer *w);

/* Announces a stream: the schema, prog, and the key values among values (its row; the value fields become the
 * baseline). Appends to *schema_payload what the frame SCHEMA must carry first (nothing if the schema is
 * known), and to *stream_payload that of the frame STREAM. *stream is its number, from 1. On failure nothing
 * is announced or appended: E_LIMIT: too many, or more than a reader keeps; E_PROTO: a value that the model
 * does not allow; -ENOMEM. */
int samples_writer_announce(struct samples_writer *w, const struct schema *schema, struct slice prog,
                            const struct value *values, struct strbuf *schema_payload,
                            struct strbuf *stream_payload, uint32_t *stream);
/* Announces a stream again, without ROLL: the values become its next baseline, to which rows added from now
 * on are differences. Floats keep at least the decimals they had. Appends STREAM's payload. Only between
 * packets (-EBUSY); the other errors as above. */
int samples_writer_rebase(struct samples_writer *w, uint32_t stream, const struct value *values,
                          struct strbuf *stream_payload);
/* The number of a stream's baseline, as STREAM_OK names it. */
uint32_t samples_writer_baseline(const struct samples_writer *w, uint32_t stream);
/* Rows of a packet take at most that many bytes from now on, so that it fits a datagram; 0 =
 * SAMPLES_BYTES_MAX. */
void samples_writer_limit(struct samples_writer *w, size_t rows_bytes);
/* Bytes before the rows of a packet, at most. */
size_t samples_head_size(uint64_t first_seq, const struct batch_clock *clock);
/* Adds a row of an announced stream to the packet being built. E_LIMIT: the packet is full, nothing was
 * added: finish it and add again. Also nothing added: E_PROTO (a value is not of its field's type, or not
 * UTF-8), -ENOMEM, -EINVAL (no such stream). The key fields of values are not looked at. */
int samples_writer_add(struct samples_writer *w, uint32_t stream, int64_t time_ns,
                       const struct value *values);
size_t samples_writer_rows(const struct samples_writer *w);
size_t samples_writer_bytes(const struct samples_writer *w); /* of the rows */
/* Appends the packet and empties it; nothing when it holds no row. The first row has sequence number
 * first_seq, not 0. clock NULL: none is known. -ENOMEM leaves both as they were. */
int samples_writer_finish(struct samples_writer *w, uint64_t first_seq, const struct batch_clock *clock,
                          struct strbuf *out);

/* What reading a packet needs while it lasts, 12 KiB: shared by all readers of a thread, so that a reader is
 * as small as what it was told (a few hundred bytes for a stream of twenty fields). */
struct samples_scratch;
struct samples_scratch *samples_scratch_create(void);    /* NULL: no memory */
void samples_scratch_destroy(struct samples_scratch *s); /* NULL is fine */

struct samples_reader;
/* registry and scratch are borrowed. NULL: no memory. */
struct samples_reader *samples_reader_create(struct registry *registry, struct samples_scratch *scratch);
void samples_reader_destroy(struct samples_reader *r); /* NULL is fine */
/* E_PROTO, E_LIMIT, -ENOMEM; *why says what, and nothing has changed. Numbers come in order, from 1.
 * Announcing a stream's number again replaces what it meant; a schema's keeps its meaning. */
int samples_reader_schema(struct samples_reader *r, struct slice payload, struct diag *why);
int samples_reader_stream(struct samples_reader *r, struct slice payload, struct diag *why);
/* Adds the packet's rows to the builder as events of that host, level info. The builder must be empty and not
 * borrow text, and is full afterwards; *origin (producer and epoch given) gets first_seq and clock. On
 * E_PROTO, E_LIMIT, -ENOMEM nothing is added and baselines are as before. A row of a stream or baseline that
 * is not known can't be read, nor what is behind it: without ROLL the packet ends there, and *unknown counts
 * the rows from there on (to be counted as no_schema); with ROLL, where announcements can't be late, it is
 * E_PROTO. */
int samples_reader_packet(struct samples_reader *r, struct slice payload, struct slice host,
                          struct batch_builder *out, struct batch_origin *origin, uint32_t *unknown,
                          struct diag *why);
/* The same behind what is in the builder already, which is not full afterwards: the rows of many packets then
 * share one batch, and who has made it knows which are whose. */
int samples_reader_add(struct samples_reader *r, struct slice payload, struct slice host,
                       struct batch_builder *out, struct batch_origin *origin, uint32_t *unknown,
                       struct diag *why);

/* What a packet holds. */
struct samples_count {
    uint64_t first_seq;
    uint32_t rows;    /* in all */
    uint32_t unknown; /* of these, as above */
};
/* What the packet's head says; unknown is 0. Whether the rows can be read is another question. E_PROTO,
 * E_LIMIT. */
int samples_packet_count(struct slice payload, struct samples_count *out);
/* Takes the packet as samples_reader_packet does, with the same result and the same effect on baselines, but
 * makes no events. Some 50 ns for a packet without ROLL that has a row of twenty numbers. */
int samples_reader_scan(struct samples_reader *r, struct slice payload, struct samples_count *out,
                        struct diag *why);

/* A reader's knowledge, to be written down and made again elsewhere, so that a packet can be read which comes
 * later: what holds for all streams, and each stream. */
struct samples_context {
    struct batch_clock clock; /* ROLL: of the packet before */
    uint8_t number;           /* ROLL: of the next packet, modulo 16 */
};
struct samples_snapshot {
    uint32_t number;
    const struct schema *schema; /* borrowed */
    uint32_t baseline;
    bool is_rolled;     /* the baseline is not the announced one any more */
    struct slice state; /* prog and the baseline; the layout is at the head of samples_kept.c. Borrowed */
};
struct samples_context samples_reader_context(const struct samples_reader *r);
void samples_reader_set_context(struct samples_reader *r, const struct samples_context *c);
/* How many streams were announced: numbers 1 to that. */
uint32_t samples_reader_streams(const struct samples_reader *r);
/* Borrows until the next call with this reader or its scratch. E_NODATA: there is no such stream. -ENOMEM. */
int samples_reader_snapshot(const struct samples_reader *r, uint32_t number, struct samples_snapshot *out);
/* The other direction. Numbers may come in any order. E_PROTO, E_LIMIT: nothing has changed. -ENOMEM: the
 * stream may not be known any more. */
int samples_reader_restore(struct samples_reader *r, const struct samples_snapshot *s, struct diag *why);

#endif
