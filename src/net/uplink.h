/* SPDX-License-Identifier: Apache-2.0 */
/* uplink.h - the sending end of a connection to a gateway: blocks in, acknowledgements back, nothing lost
 * silently.
 *
 * libgridline's stream destinations and the agent share it. Blocks wait in memory, bounded, and go to a
 * journal on disk (the backup, or the agent's spool) when the receiver is away; with UPLINK_SPOOL_FIRST every
 * block goes to the journal before it is sent, so that what uplink_commit returned 0 for survives kill -9 and
 * power loss. What is not acknowledged is sent again on the next connection.
 *
 * Addresses are an ordered list. The first is preferred: it is tried first, and again first after every break
 * of a connection that was of use. One that can't be had gives way to the next at once; when all have failed
 * there is a pause, doubling from 50 ms to 5 s. A connection that works is not given up because a preferred
 * address may be back. Names are resolved by uplink_open, which may wait for the resolver, and never again;
 * numeric addresses and unix: never wait. To resolve anew, close and open: with a spool nothing is lost by
 * that.
 *
 * Nothing else here waits but for the disk, logs, or starts a thread. Without UPLINK_SPOOL_FIRST files are
 * written but never synced; with it uplink_commit syncs, and so does uplink_pump when it tries again what the
 * disk did not take. The owner polls: uplink_wait_fd and uplink_pump. One thread at a time. */
#ifndef GRIDLINE_NET_UPLINK_H
#define GRIDLINE_NET_UPLINK_H

#include "base/err.h"
#include "event/drop.h"
#include "net/frame.h"
#include "net/transport.h"

enum {
    UPLINK_MARKS_MAX = 256, /* names */
    UPLINK_MARK_NAME_MAX = 1024,
    UPLINK_MARK_POSITION_MAX = 4096,
    UPLINK_SPOOL_MIN = 16 << 20 /* with UPLINK_SPOOL_FIRST a smaller max_bytes is taken for this */
};

enum uplink_flags {
    UPLINK_SPOOL_FIRST = 1, /* every block goes to the journal first and is sent from there */
    UPLINK_ONE_ADDRESS = 2  /* addresses is one address, whose path may have commas and blanks */
};

/* given = passed + queued + the sum of dropped, always. */
struct uplink_counts {
    uint64_t given;
    uint64_t passed; /* acknowledged */
    uint64_t queued; /* in memory, on the way, or on disk */
    uint64_t dropped[DROP_REASONS];
    /* Records of earlier runs that the journal gave up at its size limit. Their events are in the counts of
     * those runs as queued, and in none of the above. */
    uint64_t earlier_forced;
};

/* Called from within uplink_pump and uplink_goodbye. They may put, commit and send, but not pump or close. */
struct uplink_ops {
    /* Welcomed on a new connection: frames may be sent. */
    void (*on_ready)(void *arg, const struct frame_welcome *w);
    /* A connection that was ready is gone. Not called by close and after_fork. */
    void (*on_down)(void *arg);
    /* A frame that uplink has no use for itself (ACTIVATE, SCHEMA_OK, CONTROL, ...), borrowed for the call. A
     * negative result ends the connection: what is not known and below FRAME_OPTIONAL, or can't be read, is
     * E_PROTO. */
    int (*on_frame)(void *arg, const struct frame *f);
    /* Acknowledged, or (ack.seq is the last of what is refused) never taken: also of blocks that the owner
     * sends itself, by uplink_send. */
    void (*on_done)(void *arg, const struct frame_ack *ack, bool is_refused);
};

struct uplink_options {
    const char *host, *prog; /* for HELLO; borrowed until close */
    struct frame_origin origin;
    uint8_t role; /* enum frame_peer */
    unsigned flags;
    uint64_t queue_max;           /* bytes of blocks in memory; 0 = 8 MiB */
    const struct uplink_ops *ops; /* borrowed; NULL = none, and each call may be NULL */
    void *arg;
    /* For tls:// addresses; NULL = there are none. Both are borrowed. */
    const struct transport_ops *transport;
    void *transport_ctx;
};

struct uplink;

/* addresses: tcp://HOST[:PORT], HOST[:PORT], tls://HOST[:PORT], unix:PATH; several separated by commas, blanks
 * around them ignored, tried in order. Opening never waits for the other side. *out is untouched on failure: -EINVAL,
 * -EPROTONOSUPPORT (tls:// without a transport), -ENAMETOOLONG, -EHOSTUNREACH (a name that can't be resolved now, whichever of the list), E_LIMIT (too many
 * addresses), -ENOMEM; *why (NULL is fine) says which. */
int uplink_open(struct slice addresses, const struct uplink_options *options, struct uplink **out,
                struct diag *why);
/* Frees. What is only in memory is forgotten: uplink_goodbye comes first and saves or counts it. NULL is
 * fine. */
void uplink_close(struct uplink *u);

/* Sets the journal's directory; max_bytes 0 = 64 MiB. What earlier runs left there is sent, under their own
 * names. Full, it takes nothing more; with UPLINK_SPOOL_FIRST it gives up the oldest. on_mark (NULL = none)
 * hears of every mark that earlier runs left, the newest position of each name, before this returns. -EBUSY:
 * another process has it. -EEXIST: it is set already. On failure there is none, and it can be set again. */
int uplink_spool(struct uplink *u, const char *dir, uint64_t max_bytes,
                 void (*on_mark)(void *arg, struct slice name, struct slice position), void *arg);

/* A whole block, borrowed for the call, of n events from first_seq on. Whatever happens is in the counts. */
void uplink_put(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq);
/* The same with a mark: both are kept or neither (UPLINK_SPOOL_FIRST with a spool; else the mark is
 * forgotten). block may be empty (n 0): the mark alone. An empty position takes the name out of the marks.
 * E_LIMIT (the name is empty, or name or position are too long, or there are UPLINK_MARKS_MAX other names)
 * and -ENOMEM (for a new name): nothing was taken or counted. 0: as uplink_put.
 *
 * While the disk fails, blocks are sent from memory and their marks wait for it: what is acknowledged
 * meanwhile is repeated by the owner if it starts again before the disk has taken the mark. */
int uplink_put_marked(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq,
                      struct slice mark_name, struct slice mark_position);
/* Makes everything put so far durable (UPLINK_SPOOL_FIRST with a spool; otherwise does nothing). Blocks that
 * the disk does not take stay in memory, are sent from there, and are tried again; if memory is full they are
 * dropped and counted. 0: all that was put since the last call is durable; else the error of the disk, or of
 * a block that was dropped. */
int uplink_commit(struct uplink *u);

/* Moves things along: dials, sends, reads answers, replays, retries. Returns after how many ms it wants to be
 * called again if its descriptor stays quiet; -1 = has nothing to do. Of the journal it reads at most 256 KiB
 * and a record at a time, and finding the place to begin one segment (4 MiB). */
int uplink_pump(struct uplink *u, int64_t now_mono_ns);
/* A descriptor to poll and the events (POLLIN, POLLOUT) to poll for; -1 = none. */
int uplink_wait_fd(const struct uplink *u, short *events);
/* How many sockets were opened so far: a descriptor of the same number may be another one. */
uint32_t uplink_dials(const struct uplink *u);

bool uplink_is_ready(const struct uplink *u);
/* Gives up a connection that works but is of no use to the owner (it answers no question of his): the next
 * address is tried, as after one that could not be had. Not from within a callback. */
void uplink_break(struct uplink *u, int64_t now_mono_ns);
/* Sends COUNTS of this run now, if anything changed since they were last sent. */
void uplink_tell_counts(struct uplink *u);
/* The address in use, or tried next, as it was given. */
const char *uplink_address(const struct uplink *u);
/* Why the last attempt or connection ended, in words ("tls://gw: the certificate of gateway g expired at ..."); "" =
 * not known, or it works. Borrowed until the next pump. */
const char *uplink_why(const struct uplink *u);
/* A frame of the owner's on this connection, sent by the next pump: it is not kept, not acknowledged, not
 * sent again. -ENOTCONN: not ready; -EAGAIN: too much waits to be sent; E_LIMIT: too large; -ENOMEM. */
int uplink_send(struct uplink *u, uint8_t type, struct slice payload);
/* Bytes sent and received since open, frames and greetings included. */
void uplink_bytes(const struct uplink *u, uint64_t *sent, uint64_t *received);
void uplink_counts(const struct uplink *u, struct uplink_counts *out);
/* The owner's own counts for the goodbye (COUNTS, BYE), right before close. */
void uplink_goodbye(struct uplink *u, uint64_t taken, const uint64_t dropped_before[DROP_REASONS]);
/* In a forked child: forgets what the parent had, closes without a word, starts with a new origin. */
void uplink_after_fork(struct uplink *u, const struct frame_origin *origin);

#endif
