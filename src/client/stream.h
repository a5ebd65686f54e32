/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - what the files of the stream destination share (unix:PATH, tcp://HOST:PORT). Nobody else
 * includes it.
 *
 *   dest_stream.c    the destination: queue, ledger, what is sent when
 *   stream_link.c    the connection: dialling, frames in and out, giving up and trying again
 *   stream_backup.c  the backup directory: moving blocks there and reading them back
 *
 * Every block that is not acknowledged is in exactly one place, and the places are in sequence order:
 *
 *     flight            unread backup        queue
 *     (sent; record     (records read_next   (memory)
 *     or memory)        to backup_last)
 *
 * From flight and queue to the backup it goes from the front, so the order stays. Blocks in memory are in
 * flight only while nothing in the backup is unread. When the connection breaks, flight is taken back: blocks
 * in memory to the front of the queue, records by reading them again. */
#ifndef GRIDLINE_CLIENT_STREAM_H
#define GRIDLINE_CLIENT_STREAM_H

#include "base/strbuf.h"
#include "client/dest.h"
#include "journal/journal.h"
#include "net/frame.h"

#include <sys/socket.h>

enum {
    STREAM_ADDRESSES_MAX = 8,
    STREAM_QUEUE_BYTES = 8 << 20,   /* blocks in memory; GRIDLINE_QUEUE changes it */
    STREAM_INPUT_MAX = 64 << 10,    /* bytes of a peer's input */
    STREAM_OUTPUT_GOAL = 128 << 10, /* bytes made ready to be sent; exceeded by at most one frame */
    STREAM_FLIGHT_MAX = 4096,       /* blocks on the way */
    STREAM_BACKUP_BYTES = 64 << 20
};

/* One block (or, from the backup, the COUNTS of an earlier run). */
struct stream_item {
    struct stream_item *next;
    struct frame_origin origin;
    uint64_t first, last; /* sequence numbers */
    uint32_t count;       /* events */
    uint32_t size;        /* bytes */
    uint32_t window;      /* bytes of the window it takes */
    uint64_t record;      /* its number in the backup; 0 = it is in memory */
    char *data;           /* NULL = it is in the backup */
    bool is_own;          /* of this handle, so of its ledger */
    bool is_done;         /* acknowledged, or refused for good */
    bool is_refused;
};

struct stream_list {
    struct stream_item *head, **tail; /* where the next one is linked */
};

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_HELLO, LINK_READY };

struct stream {
    struct dest dest;           /* first */
    const struct dest_env *env; /* borrowed */
    struct frame_origin origin;

    /* The connection. */
    struct {
        struct sockaddr_storage sa;
        socklen_t len;
    } addresses[STREAM_ADDRESSES_MAX];
    size_t n_addresses, address; /* the one tried next, or in use */
    enum link_state state;
    int fd; /* -1 when down */
    int64_t retry_at_ns, up_at_ns, heard_at_ns, pinged_at_ns;
    int64_t backoff_ms;
    bool has_progress; /* something was acknowledged on this connection */
    uint64_t random, pings;
    struct strbuf in, out;
    size_t out_at; /* bytes of out that are sent */
    uint32_t window;
    uint64_t window_used;
    uint64_t held_seq; /* by WELCOME and ACK: everything of ours up to it is held by the receiver */

    struct stream_list flight, queue;
    size_t n_flight;
    size_t memory, memory_max; /* bytes of blocks in memory */

    /* The backup. */
    char *backup_dir; /* NULL = none */
    uint64_t backup_max;
    struct journal *backup; /* NULL: none, or not to be had now: tried again at backup_retry_ns */
    struct journal_cursor *backup_cursor;
    struct journal_reader *reader; /* NULL: to be opened at read_next */
    bool has_ahead;
    struct journal_item ahead; /* record read_next, read but not launched */
    uint64_t read_next, backup_last, backup_done;
    uint64_t backup_events; /* of ours in it */
    int64_t backup_retry_ns;

    struct dest_counts counts;
    struct dest_counts counts_sent;
    int64_t counts_at_ns;
    void (*on_activate)(void *arg, struct slice list);
    void *on_activate_arg;
};

/* dest_stream.c */
void stream_list_add(struct stream_list *l, struct stream_item *i);
struct stream_item *stream_list_take(struct stream_list *l); /* NULL when empty */
void stream_item_free(struct stream_item *i);
bool stream_is_own(const struct stream *s, const struct frame_origin *o);
/* The receiver holds everything of origin up to seq. */
void stream_acknowledge(struct stream *s, const struct frame_origin *origin, uint64_t seq);
/* The receiver will never take these; whole blocks only. */
void stream_refuse(struct stream *s, const struct frame_refuse *r);
/* Makes flight empty again: what was in it will be sent once more. */
void stream_take_back(struct stream *s);
/* Puts the item in flight, and its frame in the output unless the receiver has it already. The item's data is
 * taken from bytes. -EAGAIN (no room in the window) and -ENOMEM: nothing has happened. */
int stream_launch(struct stream *s, struct stream_item *i, struct slice bytes);
bool stream_may_launch(const struct stream *s);
/* The counters of this handle as COUNTS. */
struct frame_counts stream_counts(const struct stream *s);

/* stream_link.c. Nothing waits. */
void link_pump(struct stream *s, int64_t now_ns);                    /* dials, receives, gives up */
void link_flush(struct stream *s, int64_t now_ns);                   /* sends what is in the output */
void link_break(struct stream *s, int64_t now_ns, int64_t retry_ms); /* retry_ms 0: backoff */
void link_reset(struct stream *s);                                   /* closes without a word */
int64_t link_next_ns(const struct stream *s); /* when it wants to be pumped; INT64_MAX = needn't */

/* stream_backup.c. Reads and writes files, never syncs them. */
int backup_open(struct stream *s);
void backup_close(struct stream *s, bool is_child);
bool backup_has_unread(const struct stream *s);
bool backup_is_empty(const struct stream *s);
/* The next record to be launched is that one. */
void backup_rewind(struct stream *s, uint64_t next);
/* Moves what is in memory to the backup, as far as it takes it. */
void backup_spill(struct stream *s);
/* Launches records as far as the window allows. */
void backup_replay(struct stream *s);
/* The records up to this one are done with. */
void backup_pass(struct stream *s, uint64_t record);
/* Keeps the ledger of this run for a receiver that can't be told now. */
void backup_add_counts(struct stream *s, const struct frame_counts *c);

#endif
