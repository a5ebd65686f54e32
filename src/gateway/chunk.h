/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.h - events as bytes, shared by everybody who asked for the same ones in the same format.
 *
 * A batch is encoded for each selection and format of it once, whoever and however many want it (struct
 * chunk_maker). A line of text is made once per event and format, whichever selections it is in. A block that
 * passes as a whole is not encoded at all: the chunk is the block that came.
 *
 * Cost: a block about 10 ns a field; text as its encoding, once an event. On the loop's thread only:
 * references are plain numbers. */
#ifndef GRIDLINE_GATEWAY_CHUNK_H
#define GRIDLINE_GATEWAY_CHUNK_H

#include "event/batch.h"
#include "net/subscribe.h"

enum chunk_format { CHUNK_BINARY, CHUNK_NDJSON, CHUNK_ULM, CHUNK_BP, CHUNK_XML, CHUNK_FORMATS };

/* By the name of the encoding; "" is binary. false: there is none. */
bool chunk_format_parse(struct slice name, enum chunk_format *out);
const char *chunk_format_name(enum chunk_format f);
const char *chunk_format_mime(enum chunk_format f);

struct chunk {
    uint32_t refs;
    uint32_t count;        /* events */
    struct position first; /* of the first event, */
    struct position last;  /* and the last */
    struct slice data;   /* a block; or text: lines, or XML's elements without head and tail of a document */
    struct batch *batch; /* whose block it is; NULL: the bytes are its own */
};
struct chunk *chunk_ref(struct chunk *c);
void chunk_unref(struct chunk *c); /* NULL is fine */

struct chunk_maker;
struct chunk_maker *chunk_maker_create(void);    /* NULL: no memory */
void chunk_maker_destroy(struct chunk_maker *m); /* NULL is fine */

/* A batch and where it is; until chunk_maker_end. Borrowed. */
void chunk_maker_begin(struct chunk_maker *m, const struct batch *b, struct position at);
void chunk_maker_end(struct chunk_maker *m);
/* Chunks of these events of the batch: n > 0 places in order. views: the same events as they may be seen,
 * where that is not how they are; NULL = as they are. give gets one or more, in order, and the reference.
 * false: no memory; then what was given before stays good, and *lost says how many events were not. */
bool chunk_maker_run(struct chunk_maker *m, enum chunk_format format, const uint32_t *index,
                     const struct event *views, size_t n, void (*give)(void *arg, struct chunk *c), void *arg,
                     uint64_t *lost);

#endif
