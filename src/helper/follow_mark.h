/* SPDX-License-Identifier: Apache-2.0 */
/* follow_mark.h - the place reached in a log, as a value and as bytes. For follow*.c and its fuzz target. */
#ifndef GRIDLINE_HELPER_FOLLOW_MARK_H
#define GRIDLINE_HELPER_FOLLOW_MARK_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    MARK_HEAD_MAX = 256,  /* bytes of a file's start that its identity covers */
    MARK_ANCHOR_MAX = 64, /* bytes before the place reached */
    MARK_DONE_MAX = 8     /* pieces read to their end that are remembered */
};

/* A hash of len bytes; len 0 says nothing. */
struct fingerprint {
    uint16_t len;
    uint64_t hash;
};

/* A place in some file's content that can be recognised. */
struct known_place {
    uint64_t ino;
    uint64_t offset;
    struct fingerprint head;   /* of the first bytes */
    struct fingerprint anchor; /* of those that end at offset */
};

enum mark_flags {
    /* Nothing of what comes next has been read. at is the start of that file, ino 0 if there was none yet;
     * changed is that of what was read before it. */
    MARK_BETWEEN = 1,
    MARK_SKIPPING = 2 /* offset is within a line that was too long: what is left of it is skipped */
};

struct follow_mark {
    uint8_t flags;
    uint64_t dev;
    struct known_place at;
    uint64_t line;      /* lines before offset */
    int64_t changed_ns; /* the file's last write, when it was read */
    uint8_t n_done;
    struct known_place done[MARK_DONE_MAX]; /* newest last */
};

struct fingerprint fingerprint_of(struct slice bytes);

/* Adds a place where a file ends that has been read; the oldest one makes room. */
void follow_mark_done(struct follow_mark *m, const struct known_place *end);

/* Appends at most FOLLOW_POSITION_MAX bytes. */
void follow_mark_encode(const struct follow_mark *m, struct strbuf *out);
/* Reads one from the front of bytes; *used says how long it was. E_PROTO, E_VERSION. */
int follow_mark_decode(struct slice bytes, struct follow_mark *out, size_t *used);

#endif
