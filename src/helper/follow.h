/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - the lines of a log that grows, each once, through rotation, truncation and restarts.
 *
 *     follow_open(&options, position, &f, &why);
 *     follow_begin(f, mono_ns, utc_ns);
 *     while ((r = follow_next(f, &item, &why)) == 0) ... use item ...
 *     follow_position(f, FOLLOW_AFTER, &bytes);          keep these bytes with what was made of the lines
 *
 * A log is a chain of pieces: files that were the log once, oldest first, and the file that has its name now.
 * A piece is known by its inode and by its content: a hash of its first bytes and one of the bytes just
 * before the place reached. So it is found again under any name, a reused inode is not taken for it, and
 * neither is a file that was truncated and has grown again. What can't be read any more is an item of its
 * own, a gap; it is never passed over in silence.
 *
 * One file descriptor a piece (at most FOLLOW_PIECES_MAX), 128 KiB of buffer. With nothing new a round costs
 * two system calls. Never blocks but for the disk. For local file systems: NFS may show bytes as zeros before
 * they are there. */
#ifndef GRIDLINE_HELPER_FOLLOW_H
#define GRIDLINE_HELPER_FOLLOW_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    FOLLOW_LINE_MAX = 64 << 10, /* bytes of a line; of a longer one the rest is left out */
    FOLLOW_POSITION_MAX = 1024, /* bytes of a position, at most */
    FOLLOW_PIECES_MAX = 16,     /* open at a time */
    FOLLOW_SCAN_MAX = 4096      /* files of the log's folder that are looked at */
};

struct follow_options {
    const char *path; /* borrowed until follow_close */
    bool from_start;  /* without a position: from the file's start, not its end */
    int64_t grace_ns; /* how long a file must not grow after rotation before the next one is read */
};

enum follow_kind { FOLLOW_LINE, FOLLOW_GAP };

struct follow_item {
    enum follow_kind kind;
    struct slice line;  /* without its end; borrowed until the next call */
    bool is_cut;        /* it was longer than FOLLOW_LINE_MAX */
    const char *reason; /* of a gap: why it is there, borrowed until the next call */
    uint64_t lost;      /* of a gap: bytes that nobody will see */
    bool is_lost_known; /* false: lost says nothing */
};

struct follow_stats {
    uint64_t lines, bytes; /* given */
    uint64_t cut;          /* lines that were too long */
    uint64_t rotations, truncations, gaps;
};

struct follow;

/* position: what follow_position gave, or empty. The file need not be there. -ENOMEM; -EINVAL with *why: the
 * path is no file's. *out is untouched on failure. A position that can't be read is a gap. */
int follow_open(const struct follow_options *o, struct slice position, struct follow **out, struct diag *why);
void follow_close(struct follow *f); /* NULL is fine */

/* Starts a round: what was seen of the folder is looked at again. */
void follow_begin(struct follow *f, int64_t mono_ns, int64_t utc_ns);
/* 0 and the next item, E_NODATA when there is none now, or another negative code with *why (close it then).
 */
int follow_next(struct follow *f, struct follow_item *item, struct diag *why);

enum follow_when {
    FOLLOW_BEFORE, /* the item given last */
    FOLLOW_AFTER
};
/* Appends where that is: the bytes with which follow_open goes on there. */
void follow_position(const struct follow *f, enum follow_when when, struct strbuf *out);

/* Readable when something has changed (inotify); -1: there is no such thing here, ask again each period. */
int follow_wait_fd(const struct follow *f);
/* Is there no file yet, or none again? */
bool follow_is_waiting(const struct follow *f);
/* Bytes that are there and not yet given, as far as known. */
uint64_t follow_backlog(const struct follow *f);
const struct follow_stats *follow_stats(const struct follow *f);

#endif
