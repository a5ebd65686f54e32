/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of this folder share. Nobody else includes it (its unit tests do). */
#ifndef GRIDLINE_JOURNAL_INTERNAL_H
#define GRIDLINE_JOURNAL_INTERNAL_H

#include "base/strbuf.h"
#include "journal/format.h"
#include "journal/journal.h"

enum { SEGMENT_NAME_SIZE = 24 }; /* 16 hex digits, ".seg", NUL */

struct segment {
    uint64_t first;
    uint64_t size; /* of the file; an upper bound when a write to it failed */
};

struct journal_cursor {
    struct journal *journal;
    char name[JOURNAL_CURSOR_NAME_MAX + 1];
    struct cursor_slot slot; /* as it is durable */
    bool is_reset;
    bool is_pinned;
};

struct journal {
    const struct journal_io *io;
    unsigned flags;
    uint64_t max_bytes, segment_bytes, queue_bytes;
    int dir, lock; /* -1 = not open */

    struct segment *segments; /* by first number, ascending; files that exist under their final name */
    size_t n_segments, cap_segments;
    uint64_t bytes; /* of the segments, in blocks */

    /* The segment being written. fd -1: none, the next commit makes one. Until its first commit it has a
     * temporary name and is not in segments; after it, it is the last of segments. */
    int fd;
    bool is_temporary;
    struct segment_head head;
    uint64_t end; /* where the next group goes */

    struct strbuf queue; /* whole encoded records, stamped at commit */
    uint64_t queued;     /* their number */
    uint64_t last;       /* newest committed number */
    bool has_limit;      /* READONLY: last is what the writer says (journal_follow), not a guess */

    struct journal_cursor *cursors[JOURNAL_CURSORS_MAX];
    size_t n_cursors;
    struct journal_hold holds[JOURNAL_HOLDS_MAX];
    size_t n_holds;
    struct journal_stats stats; /* only the counters since open */
};

/* io.c. Retried when interrupted. io_read returns less than n only at the end of the file. A sync is never
 * retried; with JOURNAL_NOSYNC it does nothing. */
int io_open(const struct journal *j, const char *name, int flags);
void io_close(const struct journal *j, int fd);
int io_write(const struct journal *j, int fd, const void *from, size_t n, uint64_t offset);
ssize_t io_read(const struct journal *j, int fd, void *to, size_t n, uint64_t offset);
int io_sync_file(struct journal *j, int fd);
int io_sync_dir(struct journal *j, int dir);

/* segment.c: the list of segments and the one being written. */
void segment_name(char to[SEGMENT_NAME_SIZE], uint64_t first);
/* Brings the list up to date with the directory. Cursor files and left-over temporary ones go to on_other
 * (NULL is fine). On failure the list is as it was. */
int segment_list(struct journal *j, int (*on_other)(struct journal *j, const char *name));
/* First number of the segment behind the one that starts at first; 0 = it is the newest. */
uint64_t segment_after(const struct journal *j, uint64_t first);
/* The segment that has, or should have, this number: the last that does not start behind it. 0 = none. */
uint64_t segment_with(const struct journal *j, uint64_t number);
/* Stamps, writes and syncs the records that fill p[0..n): 0, or the first error, after which the segment must
 * be abandoned. */
int segment_commit(struct journal *j, unsigned char *p, size_t n);
/* n bytes of what failed may have been written. */
void segment_abandon(struct journal *j, size_t n);
/* Ends the segment being written: seal says that a clean end is to be marked in it. */
void segment_finish(struct journal *j, bool seal);
/* Deletes the oldest. */
int segment_delete(struct journal *j);

/* scan.c: the records of one segment, also behind damage. */
struct journal_scan {
    const struct journal *journal;
    int fd; /* -1 = not open */
    uint64_t first;
    uint64_t offset;  /* behind the last record given */
    uint64_t end;     /* of the file, as far as it was seen */
    uint64_t id;      /* 0 = the head is damaged */
    uint32_t marker;  /* of its records; 0 = not known yet */
    uint64_t guesses; /* bytes that may still be checked to find the marker of a segment without head */
    unsigned char *window;
    size_t window_cap, window_len;
    size_t ahead;       /* bytes to read at least, next time */
    uint64_t window_at; /* file offset of the window */
};

struct record {
    struct record_head head;
    uint64_t offset;
    struct slice payload; /* borrowed from the window */
};

/* Opens segment first; s was zeroed or closed (the window is kept). E_VERSION; a damaged head is no error. */
int journal_scan_open(struct journal_scan *s, const struct journal *j, uint64_t first);
void journal_scan_close(struct journal_scan *s);
void scan_fini(struct journal_scan *s);
/* The next valid record, or seal, with a number in [at_least, limit): 1; 0 when the segment has no more (the
 * offset is then unchanged, so that what is appended later is found by the next call); or an error. */
int journal_scan_next(struct journal_scan *s, uint64_t at_least, uint64_t limit, struct record *out);

/* cursor.c */
int cursor_load(struct journal *j, const char *file_name);
/* The smallest position of those that are not pinned; UINT64_MAX without any. */
uint64_t cursor_min(const struct journal *j);
/* The smallest position of those that are; UINT64_MAX without any. */
uint64_t cursor_pinned(const struct journal *j);
void cursor_destroy_all(struct journal *j);

/* What a file of that size takes on disk. */
static inline uint64_t in_blocks(uint64_t size)
{
    return (size + 4095) & ~UINT64_C(4095);
}

/* Oldest number kept; last + 1 when there is none. */
static inline uint64_t journal_oldest(const struct journal *j)
{
    return j->n_segments ? j->segments[0].first : j->last + 1;
}

#endif
