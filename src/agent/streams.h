/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - the streams of one sensor: which there are, what was last sent of each, and whether a row is to
 * be sent.
 *
 * A stream is found by its key values. Sensors emit their rows in the same order each time, so the search
 * begins behind the last one found: one compare a row. At most STREAMS_MAX a sensor; rows of more are refused
 * (counted by the caller). A stream ends with its object: one that was not seen for three of the sensor's
 * periods, and not for STREAM_FORGET, is forgotten. Where there are too many, those that the last round did
 * not have give way at once, so that only more than STREAMS_MAX at one time are refused. One that comes back
 * is a new one: its first row is sent whatever it says. One thread. */
#ifndef GRIDLINE_AGENT_STREAMS_H
#define GRIDLINE_AGENT_STREAMS_H

#include "agent/config.h"
#include "agent/threshold.h"

enum { STREAMS_MAX = 8192 };
#define STREAM_FORGET (INT64_C(30) * 1000 * 1000 * 1000)

struct stream {
    const struct schema *schema; /* borrowed from the streams */
    bool is_event;
    bool is_of_lease;      /* made by renewals: goes over the connection beside them, never as a datagram */
    struct value *sent;    /* schema->n_fields; text is the stream's own. Keys are set once */
    struct value *sampled; /* the last sample, for the seed's rule; NULL = not kept */
    int64_t sent_at_ns;    /* monotonic; 0 = never */
    int64_t seen_at_ns;
    uint32_t wire;            /* its number on the connection, */
    uint32_t wire_connection; /* of this number; another one: not announced there yet */
    uint32_t ring, ring_generation; /* the same in the ring of samples that wait (ring.h) */
};

struct streams;
/* c is borrowed as long as the streams are. */
struct streams *streams_create(const struct sensor_config *c);
void streams_destroy(struct streams *s); /* NULL is fine */
/* Another configuration of the same sensor: other limits, the streams stay. */
void streams_configure(struct streams *s, const struct sensor_config *c);

const struct schema *streams_schema(const struct streams *s, unsigned schema);
/* NULL: too many. */
struct stream *streams_find(struct streams *s, unsigned schema, const struct value *values, int64_t now_ns);
/* Is this row of the stream to be sent? If so, it is what was last sent from now on. */
bool streams_take(struct streams *s, struct stream *stream, const struct value *values, int64_t now_ns);
/* Forgets what was last sent, so that everything is sent at the next sample. */
void streams_renew(struct streams *s);
size_t streams_count(const struct streams *s);

#endif
