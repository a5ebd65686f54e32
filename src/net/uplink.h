/* SPDX-License-Identifier: Apache-2.0 */
/* uplink.h - the sending end of a connection to a gateway: blocks in, acknowledgements back, nothing lost silently.
 *
 * libgridline's stream destinations and the agent share it. Blocks wait in memory, bounded, and go to a journal on disk
 * (the backup, or the agent's spool) when the receiver is away; with UPLINK_SPOOL_FIRST every block goes to the journal
 * before it is sent, so that what uplink_commit returned 0 for survives kill -9 and power loss. What is not acknowledged
 * is sent again on the next connection. Addresses are an ordered list; a dead one gives way to the next, with back-off.
 *
 * Nothing here waits, logs, or starts a thread. The owner polls: uplink_wait_fd and uplink_pump. */
#ifndef GRIDLINE_NET_UPLINK_H
#define GRIDLINE_NET_UPLINK_H

#include "base/err.h"
#include "net/frame.h"

enum uplink_flags {
    UPLINK_SPOOL_FIRST = 1 /* every block goes to the journal first and is sent from there */
};

/* As on the wire (docs/protocol.md, COUNTS). */
enum drop_reason {
    DROP_RING_FULL = 1,
    DROP_NESTED = 2,
    DROP_TOO_LARGE = 3,
    DROP_UNWRITABLE = 4,
    DROP_MEMORY = 5,
    DROP_REFUSED = 6,
    DROP_TOO_OLD = 7,
    DROP_NO_SCHEMA = 8,
    DROP_FILTERED = 9,
    DROP_FORCED = 10,
    DROP_REASONS = 11
};

struct uplink_counts {
    uint64_t given;
    uint64_t passed; /* acknowledged */
    uint64_t queued; /* in memory, on the way, or on disk */
    uint64_t dropped[DROP_REASONS];
};

struct uplink_ops {
    /* Welcomed on a new connection: frames may be sent. */
    void (*on_ready)(void *arg, const struct frame_welcome *w);
    void (*on_down)(void *arg);
    /* A frame that uplink has no use for itself (ACTIVATE, SCHEMA_OK, CONTROL, ...). */
    void (*on_frame)(void *arg, const struct frame *f);
};

struct uplink_options {
    const char *host, *prog;     /* for HELLO; borrowed until close */
    struct frame_origin origin;
    uint8_t role;                /* enum frame_peer */
    unsigned flags;
    uint64_t queue_max;          /* bytes of blocks in memory; 0 = 8 MiB */
    const struct uplink_ops *ops; /* borrowed; NULL = none */
    void *arg;
};

struct uplink;

/* addresses: tcp://HOST:PORT, HOST:PORT, unix:PATH; several separated by commas, tried in order. Opening never waits for
 * the other side. *out is untouched on failure. */
int uplink_open(struct slice addresses, const struct uplink_options *options, struct uplink **out, struct diag *why);
void uplink_close(struct uplink *u); /* frees; what is queued must be safe or counted; NULL is fine */

/* Sets the journal's directory. on_mark (NULL = none) hears of every mark that earlier runs left, the newest of each
 * name. -EBUSY: another process has it. */
int uplink_spool(struct uplink *u, const char *dir, uint64_t max_bytes,
                 void (*on_mark)(void *arg, struct slice name, struct slice position), void *arg);

/* A whole block, borrowed for the call, of n events from first_seq on. Whatever happens is in the counts. */
void uplink_put(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq);
/* The same with a mark: both are kept or neither (UPLINK_SPOOL_FIRST; else the mark is forgotten). block may be empty
 * (n 0): the mark alone. */
void uplink_put_marked(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq, struct slice mark_name,
                       struct slice mark_position);
/* Makes everything put so far durable (UPLINK_SPOOL_FIRST with a spool; otherwise does nothing). Blocks that the disk
 * does not take stay in memory and are tried again; if memory is full they are dropped and counted. */
int uplink_commit(struct uplink *u);

/* Moves things along: dials, sends, reads answers, replays, retries. Returns after how many ms it wants to be called
 * again if its descriptor stays quiet; -1 = has nothing to do. */
int uplink_pump(struct uplink *u, int64_t now_mono_ns);
/* A descriptor to poll and the events (POLLIN, POLLOUT) to poll for; -1 = none. */
int uplink_wait_fd(const struct uplink *u, short *events);

bool uplink_is_ready(const struct uplink *u);
/* The address in use, or tried next. */
const char *uplink_address(const struct uplink *u);
/* A frame of the owner's on this connection: it is not kept, not acknowledged, not sent again. -ENOTCONN: not ready;
 * -EAGAIN: too much waits to be sent. */
int uplink_send(struct uplink *u, uint8_t type, struct slice payload);
/* Bytes sent and received since open, frames and greetings included. */
void uplink_bytes(const struct uplink *u, uint64_t *sent, uint64_t *received);
void uplink_counts(const struct uplink *u, struct uplink_counts *out);
/* The owner's own counts for the goodbye (COUNTS, BYE), right before close. */
void uplink_goodbye(struct uplink *u, uint64_t taken, const uint64_t dropped_before[DROP_REASONS]);
/* In a forked child: forgets what the parent had, closes without a word, starts with a new origin. */
void uplink_after_fork(struct uplink *u, const struct frame_origin *origin);

#endif
