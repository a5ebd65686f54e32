/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - events that travel together. Immutable once built and reference-counted (atomically): fan-out to
 * N consumers is N references and no copy. Events, values and text live in the batch's arena.
 *
 * A builder makes batches; it is reused, belongs to one thread, and is where the limits of the model are
 * checked for everything that comes from outside. */
#ifndef GRIDLINE_EVENT_BATCH_H
#define GRIDLINE_EVENT_BATCH_H

#include "base/arena.h"
#include "base/err.h"
#include "event/event.h"

#include <stdint.h>

#define CLOCK_BOUND_UNKNOWN UINT64_MAX

/* The clock with which a batch was stamped: raw local time = time - offset_ns. */
struct batch_clock {
    int64_t offset_ns;
    uint64_t bound_ns; /* the true offset is within ± this; CLOCK_BOUND_UNKNOWN */
    uint32_t generation;
};

/* Who made it. All zero producer = none known (a bare ULM line): at-least-once only. */
struct batch_origin {
    uint8_t producer[16];
    uint64_t epoch;
    uint64_t first_seq; /* event i has sequence number first_seq + i; 0 = none */
    struct batch_clock clock;
    int64_t keep_ns; /* the archive keeps them until then (UTC), whatever its rules say; 0 = as they say */
};
#define BATCH_KEEP_EVER INT64_MAX

struct batch {
    struct batch_origin origin;
    const struct event *events;
    /* Per event the encoded bytes it came from, if the builder kept them; or NULL. Empty: they must not be copied, as
     * they would not give this event again. */
    const struct slice *raw;
    size_t n;
    struct slice block; /* the block (event/block.h) that it came as, where that was copied; else empty */
    size_t size_bytes;  /* memory held */
    _Atomic uint32_t refs;
};

struct batch *batch_ref(struct batch *b);
void batch_unref(struct batch *b); /* NULL is fine */

/* What an event is besides its fields. */
struct event_head {
    int64_t time_ns;
    struct slice name, host, prog;
    uint8_t level;
};

enum {
    BUILDER_BORROW =
        1, /* text values stay where they are: the caller keeps them alive as long as the batch */
    BUILDER_KEEP_RAW = 2, /* decoders record each event's encoded bytes (borrowed) in batch->raw */
    /* For what others have made, and nobody can be told to make anew: of an event over the limits of text, size or number
     * of fields those fields are left out that do not fit, in the order of the event; the others stay, and the field
     * EVENT_DROPPED_FIELD has the names of those (of more than DROPPED_NAMES_MAX bytes the first, and "..."). */
    BUILDER_TRIM = 4
};
enum { DROPPED_NAMES_MAX = 1024 };

/* What BUILDER_TRIM has left out so far. */
struct batch_trimmed {
    uint64_t events, fields;
};

struct batch_builder;
/* Takes a reference to nothing: registry is borrowed and must outlive the builder. NULL when out of memory.
 */
struct batch_builder *batch_builder_create(struct registry *registry, unsigned flags);
void batch_builder_destroy(struct batch_builder *b); /* NULL is fine; drops an unfinished batch */

/* When reached, batch_builder_full says so; decoders then stop. Defaults: 4096 events, 1 MiB. */
void batch_builder_limit(struct batch_builder *b, size_t max_events, size_t max_bytes);
bool batch_builder_full(const struct batch_builder *b);
size_t batch_builder_count(const struct batch_builder *b);
/* Those so far; borrowed until the next call. */
const struct event *batch_builder_events(const struct batch_builder *b);
/* Takes back all but the first n. */
void batch_builder_cut(struct batch_builder *b, size_t n);

/* Adds an event whose schema is learned. Checks every limit; text that is not UTF-8 becomes bytes. On failure
 * (E_LIMIT, E_PROTO, -ENOMEM, with *why filled if not NULL) nothing is added. */
int batch_builder_add(struct batch_builder *b, const struct event_head *head,
                      const struct named_value *values, size_t n, struct diag *why);
/* The same with a known schema; values in its order, schema->n_fields of them. head->name is not used. */
int batch_builder_add_known(struct batch_builder *b, const struct event_head *head,
                            const struct schema *schema, const struct value *values, struct diag *why);
/* For decoders that have no room for a field. True: the builder trims; the event that is added next counts and names it.
 * False: it is to be refused. batch_builder_begin forgets fields of an event that was not added. */
bool batch_builder_trims(const struct batch_builder *b);
bool batch_builder_drop(struct batch_builder *b, struct slice field);
void batch_builder_begin(struct batch_builder *b);
struct batch_trimmed batch_builder_trimmed(const struct batch_builder *b);
/* Sets the raw bytes of the event added last (BUILDER_KEEP_RAW), unless fields of it were left out. */
void batch_builder_set_raw(struct batch_builder *b, struct slice raw);
/* Arena memory that lives as long as the batch being built; for decoders that unescape. NULL: no memory. */
void *batch_builder_alloc(struct batch_builder *b, size_t n);

/* For block_decode, which has checked everything itself: n events to fill in, counted at once (NULL: no
 * memory); the schemas they use; and the origin that finish takes when it is given none. A builder with an
 * origin is full. */
struct event *batch_builder_bulk(struct batch_builder *b, size_t n);
int batch_builder_use_schema(struct batch_builder *b, const struct schema *s);
void batch_builder_set_origin(struct batch_builder *b, const struct batch_origin *origin);
struct registry *batch_builder_registry(struct batch_builder *b);
void batch_builder_set_block(struct batch_builder *b, struct slice block); /* in the builder's memory */
bool batch_builder_borrows(const struct batch_builder *b);

/* Ends the batch: an owned reference, or NULL when it holds no event or memory ran out (the builder is empty
 * then). The builder is ready for the next one. */
struct batch *batch_builder_finish(struct batch_builder *b, const struct batch_origin *origin);

#endif
