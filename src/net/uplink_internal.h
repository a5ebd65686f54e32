/* SPDX-License-Identifier: Apache-2.0 */
/* uplink_internal.h - what the files of uplink share. Nobody else includes it (its unit tests do).
 *
 *   uplink.c          queue, flight, ledger, what is sent when
 *   uplink_address.c  the list of addresses
 *   uplink_link.c     the connection: dialling, frames in and out, giving up and trying again
 *   uplink_spool.c    the journal: moving blocks there and reading them back
 *   uplink_marks.c    the marks that go with blocks
 *
 * Every block that is not acknowledged is in exactly one place, and the places are in sequence order:
 *
 *     flight            unread spool         queue
 *     (sent; record     (records read_next   (memory)
 *     or memory)        to spool_last)
 *
 * From flight and queue to the spool it goes from the front, so the order stays. Blocks in memory are in
 * flight only while nothing in the spool is unread. When the connection breaks, flight is taken back: blocks
 * in memory to the front of the queue, records by reading them again. */
#ifndef GRIDLINE_NET_UPLINK_INTERNAL_H
#define GRIDLINE_NET_UPLINK_INTERNAL_H

#include "base/strbuf.h"
#include "journal/journal.h"
#include "net/uplink.h"

#include <sys/socket.h>

enum {
    UPLINK_LISTED_MAX = 16,         /* addresses of the list */
    UPLINK_PER_NAME_MAX = 8,        /* socket addresses of one name */
    UPLINK_QUEUE_BYTES = 8 << 20,   /* blocks in memory */
    UPLINK_INPUT_MAX = 64 << 10,    /* bytes of a peer's input */
    UPLINK_OUTPUT_GOAL = 128 << 10, /* bytes made ready to be sent; exceeded by at most one frame */
    UPLINK_FLIGHT_MAX = 4096,       /* blocks on the way */
    UPLINK_SPOOL_BYTES = 64 << 20,
    UPLINK_SEGMENT_BYTES = 4 << 20 /* of a spool that is written first */
};

/* Records of the journal (docs/protocol.md). */
enum { UPLINK_RECORD_BLOCK = 1, UPLINK_RECORD_COUNTS = 2, UPLINK_RECORD_MARK = 3 };

struct uplink_mark;

/* One block (or a mark alone; or, from the spool, the COUNTS of an earlier run). */
struct uplink_item {
    struct uplink_item *next;
    struct frame_origin origin;
    uint64_t first, last; /* sequence numbers */
    uint32_t count;       /* events */
    uint32_t size;        /* bytes of the block */
    uint32_t window;      /* bytes of the window it takes */
    uint64_t record;      /* its number in the spool; 0 = it is in memory */
    char *data;           /* the record's payload: the block, or mark and block; NULL = it is in the spool */
    uint32_t data_n;
    struct uplink_mark *mark; /* NULL = none */
    char *position;           /* of the mark; owned until the mark takes it */
    uint32_t position_n;
    bool is_counted; /* of this run, so of its ledger */
    bool is_done;    /* acknowledged, or refused for good */
    uint32_t n_refused;            /* of its events, for good: */
    uint32_t n_too_old, n_too_new; /* of these for these reasons */
    bool is_gone; /* on the way, but its record was forced out of the spool */
};

struct uplink_list {
    struct uplink_item *head, **tail; /* where the next one is linked */
};

/* One name's mark. position is the newest that is in the journal, or whose block was acknowledged from memory
 * (is_dirty); later ones are with their items. */
struct uplink_mark {
    struct uplink_mark *next;
    char *position;
    size_t position_n; /* 0 = forgotten, or none yet */
    uint64_t record;   /* where the journal has it, or while is_dirty an earlier one; 0 = nowhere */
    uint64_t moving;   /* its record in the group that is being committed; 0 = it is not in it */
    uint32_t waiting;  /* items in memory that have a later position, or will */
    bool is_dirty;
    bool is_grouped; /* an item with it is in the group that is being committed */
    size_t name_n;
    char name[];
};

/* A segment of the journal that this run wrote. */
struct uplink_segment {
    uint64_t first;
    uint64_t events; /* of this run in it, not done with */
};

struct uplink_peer {
    struct sockaddr_storage sa;
    socklen_t len;
    size_t listed;    /* its address's place in the list */
    const char *text; /* its address, in address_text */
    bool is_tls;
};

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_HANDSHAKE, LINK_HELLO, LINK_READY };

struct uplink {
    struct uplink_options options; /* host, prog, ops borrowed */

    /* The connection. */
    char *address_text;        /* the addresses, each ended by a NUL */
    struct uplink_peer *peers; /* in the order in which they are tried */
    size_t n_peers, peer;      /* the one tried next, or in use */
    enum link_state state;
    int fd;                      /* -1 when down */
    struct transport *transport; /* NULL = plain, or not started */
    short read_wants, write_wants; /* of the transport: what to poll for before it is tried again */
    bool has_input;                /* more was there than one pump reads */
    struct diag why;               /* the last connection ended; message "" = not known */
    uint32_t dials;                /* sockets opened so far */
    int64_t retry_at_ns, up_at_ns, heard_at_ns, pinged_at_ns;
    int64_t backoff_ms;
    bool has_progress; /* something was acknowledged on this connection */
    bool was_waiting;  /* the peer owed us a word when the last pump ended */
    uint64_t random, pings;
    struct strbuf in, out;
    size_t out_at; /* bytes of out that are sent */
    uint64_t bytes_sent, bytes_received;
    uint32_t window;
    uint64_t window_used;
    uint64_t held_seq; /* by WELCOME and ACK: everything of ours up to it is held by the receiver */

    struct uplink_list flight, queue;
    size_t n_flight;
    size_t memory, memory_max; /* bytes of blocks in memory */
    int64_t now_ns;            /* of the last pump */

    /* The spool. */
    char *spool_dir;                      /* NULL = none */
    struct journal_options spool_options; /* tests set segment_bytes and io before uplink_spool */
    uint64_t spool_min;                   /* UPLINK_SPOOL_MIN; tests make it smaller */
    struct journal *spool; /* NULL: none, or not to be had now: tried again at spool_retry_ns */
    struct journal_cursor *cursor_sent, *cursor_marks; /* the latter with UPLINK_SPOOL_FIRST only */
    struct journal_reader *reader;                     /* NULL: to be opened at read_next */
    bool has_ahead;
    struct journal_item ahead;                                /* record read_next, read but not launched */
    uint64_t read_next, spool_oldest, spool_last, spool_done; /* oldest: kept when last looked */
    uint64_t spool_own;                                       /* records from this one on are of this run */
    uint64_t spool_events; /* of this run in it, not done with: the sum of segments */
    struct uplink_segment
        *segments; /* oldest first; the first holds the first record that is not done with */
    size_t n_segments, cap_segments;
    uint64_t newest, before_newest; /* first numbers of the two newest segments, for the marks */
    uint64_t marks_for;             /* the newest segment when cursor_marks was moved last */
    int64_t spool_retry_ns, tidy_at_ns;
    bool is_failing; /* the last attempt to write failed */
    bool has_more;   /* replay stopped though the window has room */
    int lost;        /* a block was dropped since the last commit: why; 0 = none was */
    struct uplink_mark *marks;
    size_t n_marks;

    struct uplink_counts counts;
    struct uplink_counts counts_sent;
    int64_t counts_at_ns;
};

/* uplink.c */
void uplink_list_add(struct uplink_list *l, struct uplink_item *i);
struct uplink_item *uplink_list_take(struct uplink_list *l); /* NULL when empty */
void uplink_item_free(struct uplink_item *i);
/* Its block, while it is in memory. */
struct slice uplink_item_block(const struct uplink_item *i);
/* Do blocks go to the spool before they are sent? */
bool uplink_is_spool_first(const struct uplink *u);
/* The receiver holds everything of origin up to seq. */
void uplink_acknowledge(struct uplink *u, const struct frame_origin *origin, uint64_t seq);
/* The receiver will never take these: whole blocks, or some of the events of a block that it acknowledges. */
void uplink_refuse(struct uplink *u, const struct frame_refuse *r);
/* Makes flight empty again: what was in it will be sent once more. */
void uplink_take_back(struct uplink *u);
/* Puts the item in flight, and its frame in the output unless the receiver has it already or it has no block.
 * The item's block is taken from bytes. -EAGAIN (no room in the window) and -ENOMEM: nothing has happened. */
int uplink_launch(struct uplink *u, struct uplink_item *i, struct slice bytes);
bool uplink_may_launch(const struct uplink *u);

/* uplink_address.c. The addresses of the list, in order; peers and address_text are allocated. */
int uplink_address_parse(struct uplink *u, struct slice addresses, struct diag *why);

/* uplink_link.c. Nothing waits. */
void uplink_link_pump(struct uplink *u, int64_t now_ns);                    /* dials, receives, gives up */
void uplink_link_flush(struct uplink *u, int64_t now_ns);                   /* sends what is in the output */
void uplink_link_break(struct uplink *u, int64_t now_ns, int64_t retry_ms); /* retry_ms 0: backoff */
void uplink_link_reset(struct uplink *u);                                   /* closes without a word */
bool uplink_link_is_waiting(const struct uplink *u);                        /* does the peer owe us a word? */
int64_t uplink_link_next_ns(const struct uplink *u); /* when it wants to be pumped; INT64_MAX = needn't */

/* uplink_spool.c. Reads and writes files; syncs them only with UPLINK_SPOOL_FIRST. */
int uplink_spool_open(struct uplink *u);
void uplink_spool_close(struct uplink *u, bool is_child);
bool uplink_spool_has_unread(const struct uplink *u);
bool uplink_spool_is_empty(const struct uplink *u);
/* The next record to be launched is that one. */
void uplink_spool_rewind(struct uplink *u, uint64_t next);
/* Moves what is in memory to the spool, as far as it takes it: 0 when nothing is left in memory. At once, or
 * if the last attempt failed, only after a pause (-EAGAIN). */
int uplink_spool_spill(struct uplink *u, bool at_once);
/* Launches records as far as the window allows. */
void uplink_spool_replay(struct uplink *u);
/* The records up to this one are done with. */
void uplink_spool_pass(struct uplink *u, uint64_t record);
/* n events of this run in that record are done with. */
void uplink_spool_settle(struct uplink *u, uint64_t record, uint32_t n);
/* With UPLINK_SPOOL_FIRST: makes durable what has been acknowledged and gives disk space back, if it is time.
 */
void uplink_spool_tidy(struct uplink *u, bool at_once);
/* Keeps the ledger of this run for a receiver that can't be told now. */
void uplink_spool_add_counts(struct uplink *u, const struct frame_counts *c);

/* uplink_marks.c. A mark's record: text name, text position, then a block or nothing. */
void uplink_mark_put(struct strbuf *out, struct slice name, struct slice position);
/* E_PROTO: cut short, or beyond the limits. */
int uplink_mark_get(struct slice payload, struct slice *name, struct slice *position, struct slice *block);
/* Finds the name's mark or makes one, for an item that will have its next position. E_LIMIT, -ENOMEM. */
int uplink_mark_reserve(struct uplink *u, struct slice name, struct uplink_mark **out);
/* There is no such item, or no longer. The mark may be gone then. */
void uplink_mark_release(struct uplink *u, struct uplink_mark *m);
/* The item's position becomes that of its mark, if it has one, and is released: it is in record i->record
 * now, or (0) its block has been acknowledged from memory. */
void uplink_mark_apply(struct uplink *u, struct uplink_item *i);
bool uplink_marks_are_dirty(const struct uplink *u);
/* Appends the marks that are not in the journal, or in a record before this one; adds their bytes to *bytes.
 * What it appended is settled by the next call: committed or not. */
int uplink_marks_append(struct uplink *u, uint64_t before, uint64_t *bytes);
void uplink_marks_settle(struct uplink *u, bool is_committed);
/* The oldest record that is needed; UINT64_MAX = none is. */
uint64_t uplink_marks_oldest(const struct uplink *u);
/* Reads the marks that are in the journal from record from on. */
int uplink_marks_load(struct uplink *u, uint64_t from);
void uplink_marks_fini(struct uplink *u); /* no item with a mark is left */

#endif
