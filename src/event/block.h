/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - a batch as bytes: the one binary form, in files, on the wire, in the journal and in backups.
 *
 * A block stands alone: it holds the schemas of its events, so that any intact block can be read whatever
 * happened to the bytes around it. Columns, not rows: about a byte or two for what repeats or steps evenly.
 * The byte layout is in docs/protocol.md ("Blocks") and is version 1; never change what it says.
 *
 * Writing costs about 10 ns a field and no allocation once the writer's buffers have grown; reading about
 * 5 ns a field, text stays where it is. One thread a writer. */
#ifndef GRIDLINE_EVENT_BLOCK_H
#define GRIDLINE_EVENT_BLOCK_H

#include "base/err.h"
#include "base/strbuf.h"
#include "event/batch.h"

enum {
    BLOCK_HEAD = 80,             /* bytes before the body */
    BLOCK_BODY_MAX = 1 << 20,    /* bytes of body */
    BLOCK_EVENTS_MAX = 65536,
    BLOCK_VALUES_MAX = 1 << 20,  /* events x fields: bounds what a small block can unfold to */
    BLOCK_SCHEMAS_MAX = 4096
};

struct block_writer;
struct block_writer *block_writer_create(void); /* NULL when out of memory */
void block_writer_destroy(struct block_writer *w); /* NULL is fine */

/* Copies the event in. E_LIMIT: the block is full, nothing was added: finish it and add again (an event within
 * the model's limits always fits an empty block). -ENOMEM: nothing was added, what was there stays. */
int block_writer_add(struct block_writer *w, const struct event *e);
/* The same for events whose values are a row of words, as libgridline's rings hold them: 8 bytes a field in the schema's
 * order, or for text u32 length and the text, padded to 8; length 0xffffffff = missing. They all come from one host and
 * prog, said before (borrowed as long as rows are added). The caller has checked the text and says how many bytes it is
 * in all; no field is of type bytes. */
void block_writer_origin(struct block_writer *w, struct slice host, struct slice prog);
struct block_row {
    const struct schema *schema;
    int64_t time_ns;
    uint8_t level;
    const char *words;
    size_t text_bytes;
};
int block_writer_add_row(struct block_writer *w, const struct block_row *row);
size_t block_writer_count(const struct block_writer *w);
/* Forgets what was added. */
void block_writer_reset(struct block_writer *w);
/* An upper bound of the bytes finish would write now. */
size_t block_writer_size(const struct block_writer *w);
/* Appends the block to out and empties the writer; nothing when it holds no event. -ENOMEM leaves both as they
 * were. */
int block_writer_finish(struct block_writer *w, const struct batch_origin *origin, struct strbuf *out);

/* Is there a whole block at the front of data? Its length in bytes; 0 when more bytes are needed to tell;
 * E_PROTO (no block starts here), E_VERSION, E_LIMIT, or E_DAMAGE (checksum). */
int64_t block_check(struct slice data);
/* Where the next block may start, at 1 or behind; data.n when there is no sign of one. */
size_t block_resync(struct slice data);
/* What the head says, of a block that block_check accepted. */
struct batch_origin block_origin(struct slice block);
uint32_t block_count(struct slice block);

/* Decodes a block that block_check accepted into the builder: adds its events and sets its origin. The builder
 * must be empty and is full afterwards (one block, one batch). Schemas are shared with the builder's registry.
 * Unless the builder borrows, the block's bytes are copied. E_PROTO, E_LIMIT, -ENOMEM: nothing is added. */
int block_decode(struct slice block, struct batch_builder *out, struct diag *why);

#endif
