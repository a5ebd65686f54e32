/* SPDX-License-Identifier: Apache-2.0 */
/* follow_internal.h - what follow.c (reading a piece) and follow_chain.c (finding the pieces) share. */
#ifndef GRIDLINE_HELPER_FOLLOW_INTERNAL_H
#define GRIDLINE_HELPER_FOLLOW_INTERNAL_H

#include "helper/follow.h"
#include "helper/follow_mark.h"
#include "helper/follow_scan.h"

/* What is lost before a piece. */
struct gap {
    const char *reason; /* static text; NULL = no gap */
    uint64_t lost;
    bool is_known;
};

struct piece {
    int fd;
    struct found is; /* as last seen; the name may be old */
    struct fingerprint head;
    uint64_t offset; /* of the first byte not given */
    uint64_t line;
    bool is_skipping; /* offset is within a line that was too long */
    bool is_copy;     /* nobody writes to it: no grace */
    bool is_late;     /* it was read before, and has grown since */
    struct gap gap;
};

struct follow {
    struct follow_options options;
    char *dir_path;
    const char *name;        /* the last part of options.path */
    struct follow_mark mark; /* where to go on while no piece is open; its done list is the one in force */
    bool has_mark;
    struct gap gap;                         /* for the next piece that is appended */
    int64_t before_changed_ns;              /* last write of what was read before pieces[0] */
    struct piece pieces[FOLLOW_PIECES_MAX]; /* oldest first; the first is being read */
    size_t n_pieces;
    struct follow_scan scan;
    uint64_t passed_ino; /* the log, when copies of it were passed over because it was about to be truncated: */
    struct fingerprint passed_head;

    /* Bytes [at, at + n) of pieces[0]: given up to `used`, of which the last MARK_ANCHOR_MAX stay; no line
     * end in [used, used + looked). */
    char *buf;
    uint64_t at;
    size_t n, used, looked;
    size_t given; /* bytes of the item given last, its line end included: FOLLOW_BEFORE is so far back */

    int64_t mono_ns, utc_ns; /* of this round */
    int64_t grew_ns;         /* monotonic: when pieces[0] was last seen to grow, or was begun */
    bool has_looked;         /* at the path, in this round */
    bool has_changes;        /* the last look at pieces[0] may have missed some */
    int notify_fd;           /* inotify; -1 = none */
    int dir_watch, file_watch;
    struct follow_stats stats;
};

/* The place reached in pieces[0], `back` bytes before the end of what was given. */
struct known_place follow_place(const struct follow *f, size_t back);
/* Reads the anchor of pieces[0] into the buffer. 0; E_NODATA: the file is shorter; -errno. */
int follow_prime(struct follow *f);
void piece_close(struct piece *p);

/* Makes pieces[0] when there is none. E_NODATA: nothing to read yet. */
int chain_locate(struct follow *f, struct diag *why);
/* The path is another file than the last piece: appends what came after that one, as far as there is room. */
int chain_extend(struct follow *f, struct diag *why);
/* The first bytes of pieces[0] were seen, read into the buffer, and nothing was known of it before: it may
 * have been truncated already. Puts what was copied from it before it. 1: there is such a file, and pieces[0]
 * is another now; -EAGAIN: try in the next round. */
int chain_first(struct follow *f, struct diag *why);
/* pieces[0] was truncated: puts the file that holds the rest of its old content before it, or notes a gap. 1:
 * there is no such file and the buffer has the start of a line, which must be given first; -EAGAIN: try in
 * the next round. */
int chain_truncated(struct follow *f, struct diag *why);

#endif
