/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the gateway's journal and the thread that writes it, so that the loop never waits for a disk.
 *
 * The loop appends records to a group, in memory. store_commit hands the group to the thread, which writes
 * and syncs it; meanwhile the next group fills. store_fd becomes readable when it is done, and store_poll
 * says how it went. There are these two groups and no more, of at most STORE_GROUP_MAX bytes each: when the
 * disk is too slow for that, store_append refuses.
 *
 * Groups are all or nothing, in order: when one can't be written, the one that fills is forgotten with it, as
 * its records may need those that failed.
 *
 * Segments: a group is in one segment; store_begin says when a group starts a new one. Whoever writes records
 * that need others of the same segment (samples) looks at store_segment. At max_bytes the oldest segments
 * give way, but none that holds the newest complete checkpoint or what follows it: at start only that is
 * read; and none that a reader still needs (store_hold). When the archive is so far behind that its segments
 * fill max_bytes, store_check_room says so and the callers refuse: samples first, then events, and at
 * max_bytes everything.
 *
 * Everything here is called on one thread, the loop. Records and what they hold: docs/protocol.md, "Journal".
 */
#ifndef GRIDLINE_GATEWAY_STORE_H
#define GRIDLINE_GATEWAY_STORE_H

#include "base/slice.h"
#include "journal/journal.h"

#include <stdint.h>

enum store_type {
    STORE_BLOCK = 1,      /* a block as it was received */
    STORE_COUNTS = 2,     /* the payload of a COUNTS frame */
    STORE_SAMPLES = 4,    /* packets of samples and what they need to be read (records.h) */
    STORE_WORKER = 6,     /* a worker (worker.h) */
    STORE_CHECKPOINT = 7, /* the ledger, in pieces (records.h) */
    STORE_CURSOR = 8      /* of a durable subscription (cursors.h) */
};

enum {
    STORE_GROUP_MAX = 32 << 20,    /* bytes of a group */
    STORE_ADDED_MAX = 128 << 10,   /* store_add starts a new record from here on */
    STORE_SEGMENT_MAX = 128 << 20, /* bytes of a segment; a larger group makes a larger one */
};

/* 0 means the default. */
struct store_options {
    uint64_t max_bytes;          /* 1 GiB; of all segments. Exceeded where the newest checkpoint needs it */
    uint64_t segment_bytes;      /* an eighth of max_bytes, at most STORE_SEGMENT_MAX */
    const struct journal_io *io; /* journal_io_libc; borrowed */
};

/* Who is told what the journal holds: a record, or a gap (lost records). A negative result ends the reading.
 */
typedef int (*store_each)(void *arg, const struct journal_item *item);

struct store;
/* *out is untouched on failure. */
int store_open(const char *dir, const struct store_options *options, struct store **out);
/* Waits for the group that is being written; the other one is forgotten. NULL is fine. */
void store_close(struct store *s);
/* Before the first group: gives everything from the newest complete checkpoint on to each; without a whole
 * one, everything that is there. */
int store_restore(struct store *s, store_each each, void *arg);

/* Begins a group, unless one has begun. True: it starts a new segment, and nothing is in it yet. */
bool store_begin(struct store *s);
/* Of the group that has begun: changes with every new segment, and is never 0. */
uint32_t store_segment(const struct store *s);
/* Appends a record. -ENOBUFS: the group is full. E_LIMIT, -ENOMEM. Nothing is appended then. */
int store_append(struct store *s, enum store_type type, struct slice payload);
/* Appends head and body to the record of this type that was added to last, or starts one. The same errors. */
int store_add(struct store *s, enum store_type type, struct slice head, struct slice body);
/* The first record of this group begins a checkpoint; the last one of this group ends the one that was begun.
 */
void store_begin_checkpoint(struct store *s);
void store_end_checkpoint(struct store *s);
/* Bytes and records in the group; and bytes of all groups handed over since open. */
size_t store_filled(const struct store *s);
uint32_t store_records(const struct store *s);
uint64_t store_written(const struct store *s);

/* Hands the group to the thread. There is something in it, and none is being written. */
void store_commit(struct store *s);
/* Readable when what was handed over is done. */
int store_fd(const struct store *s);
/* True once a group is done: *result is 0, or why none of it was kept, and the other group has been
 * forgotten, too. */
bool store_poll(struct store *s, int *result);
/* The same, waiting for it. One is being written. */
int store_wait(struct store *s);

/* Who reads the journal, and how far. The archive keeps its segments whatever they take, and what it keeps
 * counts in store_check_room; the others up to their `bytes` (journal_hold), which may exceed max_bytes. */
struct store_readers {
    bool has_archive;
    uint64_t archive; /* up to this record, all that it wants is safe without the journal */
    const struct journal_hold *others;
    size_t n_others; /* at most STORE_READERS_MAX */
};
enum { STORE_READERS_MAX = JOURNAL_HOLDS_MAX - 1 };
/* Now and then. The thread applies it soon, also when no group is written. Copied. */
void store_hold(struct store *s, const struct store_readers *readers);

enum store_room { ROOM_SAMPLES, ROOM_EVENTS, ROOM_RECORDS };
/* -EDQUOT: what the archive still needs, with what is in the two groups, leaves no room for that. */
int store_check_room(const struct store *s, enum store_room room);
/* The same as bytes; 0 without an archive. And the limit. */
uint64_t store_held(const struct store *s);
uint64_t store_max(const struct store *s);

/* As it was when the last group was done, or store_hold was applied. */
struct store_stats {
    uint64_t first, last;       /* numbers of the oldest record kept and of the newest */
    uint64_t bytes, segments;   /* of the journal */
    uint64_t forced;            /* records since open that went before every reader had passed them */
    uint64_t held;              /* bytes of the segments that the archive still needs */
    uint64_t archived;          /* store_readers.archive that held is for; UINT64_MAX = there is none */
    struct journal_hold others[STORE_READERS_MAX]; /* the same of store_readers.others, by their number */
    size_t n_others;
    uint64_t checkpoints;       /* completed since open */
    uint64_t checkpoint_faults; /* whose position could not be kept: the one before still counts */
};
void store_stats(const struct store *s, struct store_stats *out);

/* Reads a journal that may be in use by its gateway. */
int store_read(const char *dir, store_each each, void *arg);

#endif
