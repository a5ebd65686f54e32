/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - an append-only, crash-safe log of numbered records in a directory of segment files.
 *
 * Records are numbered from 1 without holes over the life of the journal. journal_append queues a record in
 * memory; journal_commit writes all queued ones with one write and one fdatasync. When journal_commit returns
 * 0, everything appended before survives kill -9 and power loss: it may be acknowledged. Readers follow from
 * any number and go on behind damage, which they are told as an exact range of numbers. Cursors are named
 * durable positions; a segment is deleted when all cursors have passed it, or when the size limit forces it,
 * which is counted. Nothing is ever deleted, cut or overwritten because it is damaged.
 *
 *     struct journal *j;
 *     int r = journal_open("/var/lib/gridline/spool", NULL, &j);
 *     uint64_t number;
 *     r = journal_append(j, 1, SLICE_LIT("hello"), &number);
 *     r = journal_commit(j);                  (0: acknowledge up to number)
 *     journal_close(j);
 *
 * Ownership: the journal owns its cursors; readers are the caller's and are closed before the journal.
 * Threads: a journal with its readers and cursors belongs to one thread at a time; no locks, no threads of
 * its own. One process writes (an advisory lock says so); others may open it JOURNAL_READONLY meanwhile.
 * After fork the child may only journal_abandon.
 *
 * Errors are negative codes of base/err.h. Nothing here logs or aborts, also without memory. */
#ifndef GRIDLINE_JOURNAL_JOURNAL_H
#define GRIDLINE_JOURNAL_JOURNAL_H

#include "base/slice.h"

#include <stdint.h>
#include <sys/types.h>

enum {
    JOURNAL_RECORD_MAX = (1024 + 64) * 1024, /* bytes of one record's payload */
    JOURNAL_CURSORS_MAX = 64,
    JOURNAL_HOLDS_MAX = 64,
    JOURNAL_CURSOR_NAME_MAX = 64
};

enum journal_flags {
    JOURNAL_NOSYNC = 1,   /* commit only writes: survives the death of the process, not of the machine */
    JOURNAL_REFUSE = 2,   /* at max_bytes refuse new records instead of forcing out the oldest */
    /* No lock, nothing written. Sees also what is written and not yet committed, which its writer may take
     * back: after a failed commit the same numbers are given to other records. journal_follow limits it. */
    JOURNAL_READONLY = 4,
    /* A segment ends only where journal_cut says so, and a commit that fails is not repeated in a new one:
     * for records that need others of their segment. After a failed commit the next one starts a segment. */
    JOURNAL_OWN_SEGMENTS = 8
};

/* The file calls, so that tests can inject faults and simulate a disk. Each returns >= 0 or -errno. dir is
 * what open_dir returned. Names are plain file names inside dir, or ".." (opened to be synced, no more). */
struct journal_io {
    void *ctx;
    /* Opens a directory; with create makes it first (its parent must exist). */
    int (*open_dir)(void *ctx, const char *path, bool create);
    int (*open)(void *ctx, int dir, const char *name, int flags); /* mode 0600, close-on-exec */
    int (*close)(void *ctx, int fd);                              /* files and directories */
    int (*lock)(void *ctx, int fd);                               /* exclusive, -EWOULDBLOCK when taken */
    int (*size)(void *ctx, int fd, uint64_t *out);
    ssize_t (*pread)(void *ctx, int fd, void *to, size_t n, uint64_t offset);
    ssize_t (*pwrite)(void *ctx, int fd, const void *from, size_t n, uint64_t offset);
    int (*sync_file)(void *ctx, int fd); /* fdatasync */
    int (*sync_dir)(void *ctx, int dir); /* fsync */
    int (*rename)(void *ctx, int dir, const char *from, const char *to);
    int (*unlink)(void *ctx, int dir, const char *name);
    /* Calls fn for each name; stops at its first negative result and returns it. */
    int (*list)(void *ctx, int dir, int (*fn)(void *arg, const char *name), void *arg);
};

extern const struct journal_io journal_io_libc;

/* 0 means the default. There is no "unlimited". */
struct journal_options {
    unsigned flags;
    uint64_t max_bytes; /* 1 GiB; of all segments, in blocks of 4 KiB. Exceeded by at most one commit */
    uint64_t
        segment_bytes;    /* 16 MiB, at most a quarter of max_bytes; a larger commit makes a larger segment */
    uint64_t queue_bytes; /* 4 MiB; appended and not yet committed. Room for one largest record at least */
    const struct journal_io *io; /* journal_io_libc; borrowed until close */
};

struct journal;

/* Makes the directory if need be. Reads the newest segment only, so the time does not grow with the journal.
 * -EBUSY: another process (or this one) writes it. E_VERSION: written by a later gridline. *out is untouched
 * on failure. options may be NULL. */
int journal_open(const char *path, const struct journal_options *options, struct journal **out);
/* What is queued and not committed is forgotten. NULL is fine. */
void journal_close(struct journal *j);
/* Frees memory and closes descriptors but touches no file: for a forked child. NULL is fine. */
void journal_abandon(struct journal *j);

/* Queues one record; *number (NULL is fine) is final once committed. type is the caller's, UINT32_MAX is
 * taken. The payload is copied. Fails without effect:
 *   E_LIMIT  payload over JOURNAL_RECORD_MAX          -ENOBUFS  queue full: commit, or drop
 *   -ENOSPC  at max_bytes with JOURNAL_REFUSE         -ENOMEM, -EROFS, -EINVAL (type) */
int journal_append(struct journal *j, uint32_t type, struct slice payload, uint64_t *number);
/* Makes all queued records durable. A write or sync error closes the segment for good and the records go to a
 * new one; only if that fails too, its error is returned (-ENOSPC, -EIO, ...). Then the records stay queued:
 * the caller may commit again later, or drop. What was committed earlier is not affected. After a failure
 * some of the queued records may still be found when the journal is opened after a crash. */
int journal_commit(struct journal *j);
/* A group that the caller lays out itself, so that its bytes are copied only into the file: records one after
 * the other, each JOURNAL_LAID_HEAD bytes, the payload, and zeros up to a multiple of JOURNAL_LAID_ALIGN.
 * journal_lay_head fills in what the caller knows of the head, whose limits are those of journal_append. */
enum { JOURNAL_LAID_HEAD = 24, JOURNAL_LAID_ALIGN = 8 };
void journal_lay_head(char to[JOURNAL_LAID_HEAD], uint32_t type, size_t length);
/* Makes such a group durable as journal_commit does those that are queued; none is. What is at records is
 * overwritten (the rest of the heads), also on failure: it may be given again then. queue_bytes and
 * JOURNAL_REFUSE are not looked at. */
int journal_commit_laid(struct journal *j, char *records, size_t n);
/* Forgets what is queued; returns how many records. Their numbers are given again. */
uint64_t journal_drop(struct journal *j);
/* What is committed next starts a new segment. */
void journal_cut(struct journal *j);
/* First number of the segment that has this record, or would have it; 0 = none that is kept. */
uint64_t journal_segment_of(const struct journal *j, uint64_t number);

/* Deletes the segments that all cursors have passed; never the newest. Without cursors none is. Returns how
 * many. Called by itself when max_bytes is reached. */
int journal_trim(struct journal *j);

/* READONLY, told by the writer that everything up to last is committed: from now on readers give nothing
 * beyond it, so that no record is read that a failed commit takes back. Called again as it grows; a smaller
 * number than before changes nothing. On an error the limit is as before. */
int journal_follow(struct journal *j, uint64_t last);
/* A reader outside of the journal whose position is kept elsewhere: it still needs the records above number.
 * At max_bytes their segments stay while the journal has no more than `bytes`; UINT64_MAX: in any case. */
struct journal_hold {
    uint64_t number, bytes;
};
/* Replaces the holds (none at open, not on disk) and deletes what they no longer keep at max_bytes. At most
 * JOURNAL_HOLDS_MAX. */
void journal_set_holds(struct journal *j, const struct journal_hold *holds, size_t n);
/* Bytes of the segments that have records above number, as journal_stats counts them. */
uint64_t journal_bytes_above(const struct journal *j, uint64_t number);

struct journal_stats {
    uint64_t first;    /* oldest number kept (last + 1 when nothing is) */
    uint64_t last;     /* newest committed number, 0 = none; READONLY: as of open or journal_follow */
    uint64_t queued;   /* records appended and not committed */
    uint64_t bytes;    /* of all segments, in 4 KiB blocks */
    uint64_t segments; /* files */
    uint64_t newest;   /* number of the first record of the newest segment; 0 = there is none */
    /* Since open: */
    uint64_t records; /* committed */
    uint64_t syncs;   /* fdatasync and directory fsync calls */
    uint64_t faults;  /* segments closed because of an error */
    uint64_t forced;  /* records deleted by max_bytes before all cursors and holds had passed them */
    uint64_t refused; /* appends refused by max_bytes */
};
void journal_stats(const struct journal *j, struct journal_stats *out);

/* A named durable position: the number of the last record its owner is done with. */
struct journal_cursor;

struct journal_cursor_info {
    uint64_t position;
    /* Records that were forced out before this cursor passed them: those it has skipped since by moving
     * (durable, over the life of the cursor), and the range it has yet to skip (0, 0 = none). */
    uint64_t lost;
    uint64_t lost_first, lost_last;
    bool is_reset; /* its file was damaged: it was set back to the oldest record kept; since open */
};

/* Finds the cursor, or makes it, before the oldest record kept. name: [A-Za-z0-9._:-]{1,64}. *out belongs to
 * the journal, valid until it is closed or the cursor removed. */
int journal_cursor_open(struct journal *j, const char *name, struct journal_cursor **out);
/* Durable when it returns 0; on failure the position is as before. Only forward (-EINVAL), and not beyond
 * what is committed (-EINVAL). */
int journal_cursor_move(struct journal_cursor *c, uint64_t position);
void journal_cursor_info(const struct journal_cursor *c, struct journal_cursor_info *out);
/* Deletes it with its file; it no longer holds back trimming. */
int journal_cursor_remove(struct journal_cursor *c);
/* Until close, nothing behind its position is deleted, not even at max_bytes, which may be exceeded then. It
 * is no consumer: records that it has passed and no other cursor has still count as forced. */
void journal_cursor_pin(struct journal_cursor *c);

enum journal_item_kind { JOURNAL_RECORD, JOURNAL_GAP };
enum journal_gap_reason {
    JOURNAL_GAP_DAMAGED, /* bytes are there but are not what was written, or could not be read */
    JOURNAL_GAP_GONE     /* no bytes are there: deleted (trimmed, forced) or a file is missing */
};

/* What a reader gives: a record, or the range of numbers that is lost. */
struct journal_item {
    enum journal_item_kind kind;
    uint64_t first, last; /* numbers; equal for a record */
    /* Record: */
    uint32_t type;
    struct slice payload; /* borrowed until the next call on this reader */
    uint64_t segment;     /* named by its first number; of a gap 0 = none */
    /* Gap: the bytes in that segment, [from_byte, to_byte). */
    enum journal_gap_reason reason;
    uint64_t from_byte, to_byte;
};

struct journal_reader;

/* Starts at record number from; 0 = the oldest kept. from may lie ahead of the end. */
int journal_reader_open(struct journal *j, uint64_t from, struct journal_reader **out);
void journal_reader_close(struct journal_reader *r); /* NULL is fine */
/* The next record or gap, in the order of numbers: items follow each other without a hole. E_NODATA at the
 * end of what is committed: call again after the next commit. In the newest segment of a READONLY journal,
 * or of one whose writer died, an incomplete tail is the end, not damage. On any other error the position is
 * unchanged. Segments deleted meanwhile are a gap. */
int journal_reader_next(struct journal_reader *r, struct journal_item *out);

#endif
