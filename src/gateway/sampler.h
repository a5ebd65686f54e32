/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - the samples of one worker as they come: what it announced, its account, and its packets on
 * their way to the journal.
 *
 * Packets are journalled as received, many of many workers to a record (store.h, STORE_SAMPLES), each after
 * the announcements that it needs are in the same segment. They are walked and counted here; they become
 * events only when somebody wants batches (ingest's on_batch). No allocation and no system call per packet;
 * some 370 bytes for a sampler with one stream of twenty numbers. Cost: see `script/bench ingest`. Everything
 * is on the loop. */
#ifndef GRIDLINE_GATEWAY_SAMPLER_H
#define GRIDLINE_GATEWAY_SAMPLER_H

#include "gateway/ingest.h"

struct sampler;
/* After SAMPLES_ORIGIN. host is copied. E_PROTO: that origin has events; E_LIMIT (host); -ENOMEM. Destroyed
 * before in. */
int sampler_create(struct ingest *in, const struct frame_origin *origin, struct slice host,
                   struct sampler **out);
void sampler_destroy(struct sampler *s); /* NULL is fine */
const struct frame_origin *sampler_origin(const struct sampler *s);
/* Whose samples they are, if it may not say everything (source->may): a packet with one event that it may not
 * say is dropped and counted as refused. source outlives the sampler. */
void sampler_limit(struct sampler *s, struct ingest_source *source);

/* Payloads of SCHEMA and STREAM. E_PROTO, E_LIMIT, -ENOMEM; *why says what. */
int sampler_schema(struct sampler *s, struct slice payload, struct diag *why);
int sampler_stream(struct sampler *s, struct slice payload, struct diag *why);
/* A packet: of SAMPLES, or of a datagram that is authentic and came for the first time. The same errors;
 * without ROLL what is not known is counted as no_schema and not an error. */
int sampler_packet(struct sampler *s, struct slice packet, struct diag *why);
/* Unknown streams since the last call: the agent is to announce anew. */
bool sampler_wants_announcements(struct sampler *s);

#endif
