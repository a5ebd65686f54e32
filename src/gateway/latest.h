/* SPDX-License-Identifier: Apache-2.0 */
/* latest.h - the newest event of every stream (JM-4: query mode), and the question `latest` about it.
 *
 * Newest is by the events' own time: one that is older than the one held does not take its place (it is
 * counted); of two with the same time the later to come counts. So that a clock that was wrong once does not
 * hold a stream for ever, an event that is more than LATEST_AHEAD_S ahead of the gateway's clock gives way to
 * any other.
 *
 * Bounded by streams and by memory: the stream that was quiet longest is forgotten, and counted. What is held
 * is a copy: values and text in one piece that is used again while the next event fits, and a reference to
 * the schema. A stream costs about 350 bytes, its key and text, and 16 bytes a field; an event of 20 fields
 * about 130 ns, 300 ns where the streams do not fit into the caches (bench/streams.c), without an allocation
 * unless the stream is new or the event larger than those before. Not kept over a restart. On the loop.
 *
 * The question (docs/protocol.md): event, host (patterns; host: places, streams.h), where, after. The rows
 * are events, as the asker may see them; pages as of stream_question.h. */
#ifndef GRIDLINE_GATEWAY_LATEST_H
#define GRIDLINE_GATEWAY_LATEST_H

#include "event/batch.h"
#include "gateway/control.h"
#include "gateway/stream_options.h"

enum { LATEST_AHEAD_S = 60 };

struct latest_counts {
    uint64_t streams, bytes; /* now */
    uint64_t taken;          /* events: */
    uint64_t older;          /* came behind newer ones of their streams */
    uint64_t no_memory;      /* could not be kept; nor is what was held of the stream */
    uint64_t forgotten;      /* streams that gave way */
};

struct latest;
struct latest *latest_create(const struct latest_options *o); /* NULL: no memory */
void latest_destroy(struct latest *l);                        /* NULL is fine */
/* now_ns: the gateway's clock, UTC. Copies what it keeps. */
void latest_batch(struct latest *l, const struct batch *b, int64_t now_ns);
void latest_counts(const struct latest *l, struct latest_counts *out);
/* The event held of the stream that e is of; false: none. Borrowed until the next batch. */
bool latest_get(struct latest *l, const struct event *e, struct event *out);
/* Are any kept? */
bool latest_keeps(const struct latest *l);
/* For other questions about them (stream_question.h); and the event held of one of these streams, borrowed as
 * above. */
struct streams;
struct stream;
const struct streams *latest_streams(const struct latest *l);
struct event latest_event(const struct stream *s);
/* Adds the verb; l is its arg. */
int latest_add_verbs(struct latest *l, struct control *c);
bool latest_check(const struct latest *l); /* all invariants, for tests */

#endif
