/* SPDX-License-Identifier: Apache-2.0 */
/* samples_reader.h - a reader from the inside: what samples_reader.c (what was announced), samples_read.c
 * (packets) and samples_skip.c (rows that nobody wants) share. Nobody else includes it. */
#ifndef GRIDLINE_EVENT_SAMPLES_READER_H
#define GRIDLINE_EVENT_SAMPLES_READER_H

#include "base/cursor.h"
#include "event/samples_layout.h"

/* A baseline before this packet moved it. */
struct change {
    struct samples_stream *stream;
    uint32_t field;
    struct samples_base old;
};

struct samples_reader {
    struct registry *registry;
    struct samples_scratch *scratch;
    const struct schema **schemas; /* one reference each; number - 1 is the index */
    struct samples_kept **streams; /* the same; NULL: not known */
    uint32_t n_schemas, cap_schemas;
    uint32_t n_streams, cap_streams;
    size_t memory; /* as samples_stream_cost and samples_schema_cost count */
    struct samples_context context;
};

struct samples_scratch {
    struct value row[EVENT_FIELDS_MAX];
    uint16_t changed[EVENT_FIELDS_MAX];
    struct samples_stream stream; /* one that rests, unfolded: in the two arrays */
    struct samples_base base[EVENT_FIELDS_MAX];
    uint16_t value_at[EVENT_FIELDS_MAX];
    struct strbuf bytes; /* the state of a stream */
    struct change *log;
    uint32_t n_log, cap_log;
};

static const struct batch_clock samples_no_clock = {.bound_ns = CLOCK_BOUND_UNKNOWN};

/* E_PROTO, with what in *why. */
int samples_refuse(struct diag *why, const char *what);
/* E_LIMIT: past SAMPLES_MEMORY_MAX. */
int samples_too_much(struct diag *why);
/* The array with room for n items; NULL: no memory, and it stays as it is. */
void *samples_reserve(void *array, uint32_t n, uint32_t *cap, size_t item);
/* Reads a value's code: *b is its baseline and becomes the value; text in it then borrows from the payload.
 * E_PROTO, E_LIMIT. */
int samples_read_value(struct cursor *c, const struct field *f, struct samples_base *b, struct diag *why);
/* Reads which of n fields changed: a bit each, lowest first, in marks. E_PROTO: not as a writer marks them.
 */
int samples_read_groups(struct cursor *c, uint32_t n, unsigned char marks[EVENT_FIELDS_MAX / 8]);
/* Skips the marks and values of a row of a plain stream. Whatever numbers they are, they are good: only how
 * far they reach is found. The same errors as reading them. */
int samples_skip_changes(struct cursor *c, const struct samples_kept *k, struct diag *why);

#endif
