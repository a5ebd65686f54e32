/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - samples that wait on disk while the gateway is away: bounded, the oldest give way and are counted.
 *
 * A resident agent has one (state_dir/samples). While there is no gateway every round is one record of it,
 * written and not synced: it survives kill -9, not a power cut. When the gateway is back the rows go to it
 * with their own times, as blocks of events with numbers, one block at a time: what is not acknowledged is
 * sent again, and the gateway sees the second copy. Live samples do not wait for that: a block is small, and
 * there is a pause between two.
 *
 * Ledger: given = passed + queued + dropped by reason, for each run of the agent that wrote rows; ring_tell
 * makes COUNTS of it. What a run left behind is counted by the next one.
 *
 * One thread. Memory is used while samples are written or sent, not in between. */
#ifndef GRIDLINE_AGENT_RING_H
#define GRIDLINE_AGENT_RING_H

#include "agent/streams.h"
#include "event/batch.h"
#include "net/frame.h"
#include "net/uplink.h"

struct ring;

/* origin: of the rows of this run. host is borrowed. -EBUSY: another agent has it; -ENOSPC and others of the
 * disk. *out is untouched on failure. */
int ring_open(const char *dir, uint64_t max_bytes, const struct frame_origin *origin, const char *host,
              struct ring **out);
void ring_close(struct ring *r); /* after ring_flush. NULL is fine */

/* Takes a row; whatever becomes of it is in the counts. */
void ring_sample(struct ring *r, struct stream *s, int64_t time_ns, const struct value *values,
                 const struct batch_clock *clock);
/* Ends a round: its rows are in the file, or counted as dropped. The first failure of a row of failures is
 * returned, else 0. */
int ring_flush(struct ring *r, const struct batch_clock *clock);
/* There is a gateway: nothing is written for a while. */
void ring_rest(struct ring *r);

/* Nothing waits to be sent. */
bool ring_is_empty(const struct ring *r);
/* The next block to send, borrowed until the next call: 1; 0: none now; *next_ns: when to ask again,
 * INT64_MAX: not before something has happened. The caller sends it, or says ring_down. */
int ring_next(struct ring *r, int64_t now_ns, struct slice *block, int64_t *next_ns);
/* Everything of origin up to seq is acknowledged; or (is_refused) will never be taken. Of other origins:
 * ignored. */
void ring_done(struct ring *r, const struct frame_origin *origin, uint64_t seq, bool is_refused);
/* The connection is gone: what is on the way is sent again. */
void ring_down(struct ring *r);

/* The next COUNTS that have changed since they were told: true; false: there are no more. is_final: this run
 * ends; its counts are final unless rows of it wait. */
bool ring_tell(struct ring *r, bool is_final, struct frame_counts *out);
void ring_counts(const struct ring *r, struct uplink_counts *out); /* of this run */

#endif
