/* SPDX-License-Identifier: Apache-2.0 */
/* encoding.h - the encodings of the one event model: ulm, bp, ndjson, xml, binary; and csv, which is written
 * only. Each is a const struct encoding at the bottom of its own file and a line in encoding.c.
 *
 *     struct decoder *d;  decoder_create(encoding_detect(bytes), &d);
 *     for (;;) {
 *         r = decoder_run(d, data, at_end, builder, &used, &why);
 *         ... batch = batch_builder_finish(builder, NULL) ... encoder_run(e, batch, &out) ...
 *     }
 *
 * All text encodings carry name, type and value of every field, time, host, prog, level and name, exactly.
 * Roles, kinds, units and help belong to the schema; binary carries them too. */
#ifndef GRIDLINE_EVENT_ENCODING_H
#define GRIDLINE_EVENT_ENCODING_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "event/batch.h"
#include "event/escapes.h"

struct decoder;
struct encoder;

/* No unit of any encoding is longer; a caller that gives this much at a time always makes progress. */
enum { DECODE_UNIT_MAX = (2 << 20) + 4096 };
/* What a step answers when the builder must be finished before its unit can go in. */
enum { DECODE_FULL = 1 };

struct decoder_ops {
    size_t state_size;                   /* zeroed before init */
    int (*init)(void *state);            /* NULL = nothing to do; fini is called even if it fails */
    void (*fini)(void *state);           /* NULL = nothing to do */
    /* One unit (line, element, block) from the front of data; see decoder_run for the contract of one step:
     * returns 0 with *used > 0 (a unit was taken; it may have held no event), 0 with *used == 0 (data does
     * not hold a whole unit; never when at_end), DECODE_FULL with *used == 0, or < 0 with *used > 0 past the bad unit. */
    int (*step)(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                struct diag *why);
    void (*set_escapes)(void *state, enum escapes escapes, escapes_look look, void *arg); /* NULL = it has none */
};

struct encoder_ops {
    size_t state_size;
    int (*init)(void *state);
    void (*fini)(void *state);
    void (*begin)(void *state, struct strbuf *out);                        /* file head; NULL = none */
    int (*run)(void *state, const struct batch *b, struct strbuf *out);    /* all events of b */
    void (*end)(void *state, struct strbuf *out);                          /* file tail; NULL = none */
};

struct encoding {
    const char *name;
    const char *suffix;   /* file name ending, ".ulm" */
    const char *mime;
    const char *summary;  /* one line for help and man pages */
    bool is_lines;        /* a unit is a line of text: raw bytes can be copied from file to file */
    bool (*detect)(struct slice head);      /* do these first bytes look like it? NULL = never */
    const struct decoder_ops *decoder;      /* NULL = can't be read */
    const struct encoder_ops *encoder;
};

/* NULL when there is no encoding of that name (case ignored; "json" is ndjson) or for those bytes or file name. */
const struct encoding *encoding_by_name(struct slice name);
const struct encoding *encoding_by_suffix(struct slice file_name);
const struct encoding *encoding_detect(struct slice head);
/* The i-th, NULL after the last. */
const struct encoding *encoding_at(size_t i);

int decoder_create(const struct encoding *enc, struct decoder **out);
void decoder_destroy(struct decoder *d); /* NULL is fine */
/* Before the first run, of ULM and BP: which escapes quoted values have (escapes.h); of others nothing. look, or NULL, is
 * asked at most once, where ESCAPES_AUTO has to be decided; without it what the decoder has been given decides. */
void decoder_set_escapes(struct decoder *d, enum escapes escapes, escapes_look look, void *arg);
/* Decodes units from the front of data into out until data has no whole unit left or the builder is full.
 * *used says how many bytes are done with; the caller gives the rest again, with more behind it. With at_end
 * what remains is the last unit, whole or not.
 *   0   went as far as it could      1   the builder is full: finish the batch and call again
 *  <0   a unit is bad: *used is past it, *why says where and what; calling again goes on behind it. Events
 *       before it are in the builder. -ENOMEM is the exception: nothing is skipped.
 * why->line is the line within the whole input (text encodings) or 0. A unit longer than EVENT_LINE_MAX is an
 * error; so memory is bounded: DECODE_UNIT_MAX bytes always hold a whole unit or an error. */
int decoder_run(struct decoder *d, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                struct diag *why);

int encoder_create(const struct encoding *enc, struct encoder **out);
void encoder_destroy(struct encoder *e); /* NULL is fine */
/* Appends the encoded events of b (and once, first, the head of the file). -ENOMEM: what it has appended is to be taken
 * back; the next call is as if this one had not been. */
int encoder_run(struct encoder *e, const struct batch *b, struct strbuf *out);
/* Appends the tail of the file. */
int encoder_end(struct encoder *e, struct strbuf *out);

/* CSV needs its columns before the first row. Takes over nothing; schemas seen later with other fields have
 * those fields left out and counted. Only for an encoder of csv. */
int encoder_csv_columns(struct encoder *e, const struct slice *fields, size_t n);
uint64_t encoder_csv_left_out(const struct encoder *e);

#endif
