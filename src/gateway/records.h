/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - the bytes of the gateway's own records: samples and checkpoints (docs/protocol.md, "Journal").
 * Pure functions: what is read borrows from the payload.
 *
 * A record of samples is items one after the other, in the order in which they hold:
 *
 *   u8 1  a schema    varint number; text schema (as in a block)
 *   u8 2  a sampler   varint number; producer; u64 epoch; text host; of its packets with ROLL: u8 number of
 * the next one, varint zigzag(clock offset), varint clock bound + 1, varint clock generation u8 3  a stream
 * varint number of its sampler; varint its own; varint number of its schema; varint baseline; u8 1 if the
 * baseline has been rolled; text state (event/samples_kept.c) u8 4  a packet    varint number of its sampler;
 * varint rows that could be read when it came; text packet
 *
 * Numbers of schemas and samplers are given anew in each segment, from 1: a segment stands alone. A sampler
 * is what one connection announced (or one SAMPLES_ORIGIN of it); each of its streams is there before the
 * first packet of the segment that has a row of it. A stream that comes again replaces the one before.
 *
 * A checkpoint is pieces:
 *
 *   u8 1  begins      totals; u64 id
 *   u8 2  accounts    one after the other (ledger.c)
 *   u8 3  ends        u64 id
 *   u8 4  totals      u64 accounts forgotten so far; u64 records forced so far; u32 forgotten_s (ledger.h)
 *
 * The first is the first record of a segment. What an account says replaces what all before it in the
 * journal said of that account. Accounts and totals are also written by themselves. */
#ifndef GRIDLINE_GATEWAY_RECORDS_H
#define GRIDLINE_GATEWAY_RECORDS_H

#include "base/cursor.h"
#include "base/strbuf.h"
#include "event/samples.h"
#include "net/frame.h"

enum samples_item_kind { SAMPLES_SCHEMA = 1, SAMPLES_SAMPLER = 2, SAMPLES_STREAM = 3, SAMPLES_PACKET = 4 };

struct samples_item {
    uint8_t kind;
    uint32_t number; /* of the schema, or of the sampler; of a stream or packet, of their sampler */
    struct slice schema_bytes;
    struct frame_origin origin;
    struct slice host;
    struct samples_context context;
    uint32_t schema;                /* of a stream: its number */
    struct samples_snapshot stream; /* without schema */
    uint32_t rows;
    struct slice packet;
};

/* The next item: 1; 0 at the end; E_PROTO. */
int record_next_item(struct cursor *c, struct samples_item *out);
void record_put_schema(struct strbuf *out, uint32_t number, const struct schema *s);
void record_put_sampler(struct strbuf *out, uint32_t number, const struct frame_origin *origin,
                        struct slice host, const struct samples_context *context);
/* Its state is put behind. */
void record_put_stream_head(struct strbuf *out, uint32_t sampler, uint32_t schema,
                            const struct samples_snapshot *s);
enum { RECORD_PACKET_HEAD = 24 };
/* The packet is put behind. How many bytes. */
size_t record_put_packet_head(char to[RECORD_PACKET_HEAD], uint32_t sampler, uint32_t rows, size_t n);

enum checkpoint_kind {
    CHECKPOINT_BEGIN = 1,
    CHECKPOINT_ACCOUNTS = 2,
    CHECKPOINT_END = 3,
    CHECKPOINT_TOTALS = 4
};

struct record_checkpoint {
    uint8_t kind;
    uint64_t id;
    uint64_t forgotten, forced;
    uint32_t forgotten_s;
    struct slice accounts;
};

int record_get_checkpoint(struct slice payload, struct record_checkpoint *out); /* E_PROTO */
/* Of CHECKPOINT_ACCOUNTS only the first byte: the accounts are put behind. */
void record_put_checkpoint(struct strbuf *out, const struct record_checkpoint *c);

#endif
