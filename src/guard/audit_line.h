/* SPDX-License-Identifier: Apache-2.0 */
/* audit_line.h - one line of the audit: its text and its hash. No I/O.
 *
 *     {"n":17,"prev":"HASH","time":"2026-11-16T14:08:52.000001Z","what":"action.start","data":{...},"hash":"HASH"}
 *
 * n counts from 1 over all files. prev is the hash of the line before (64 zeros before the first). hash is
 * the SHA-256, in lower-case hexadecimal, of the bytes of the line in front of `,"hash"`. data has a string
 * for each value; those that are not UTF-8 are in base64, and the member "@" of data says so as in ndjson:
 * {"raw":"/w==","@":{"raw":"bytes"}}. */
#ifndef GRIDLINE_GUARD_AUDIT_LINE_H
#define GRIDLINE_GUARD_AUDIT_LINE_H

#include "base/err.h"
#include "net/act.h"

enum { AUDIT_HASH = 64, AUDIT_LINE_MAX = 256 << 10 };
#define AUDIT_NO_HASH "0000000000000000000000000000000000000000000000000000000000000000"
/* A line of a guard that found at its start that lines are missing before it: `missing` is the hash of the
 * last. */
#define AUDIT_CUT "audit.cut"

struct audit_line {
    uint64_t n;
    struct slice prev, hash;
    struct slice time, what; /* as between the quotes */
    struct slice data;       /* the object, with its braces */
};

/* Of any bytes, as text. -ENOMEM: libcrypto has none. */
int audit_hash(struct slice bytes, char to[AUDIT_HASH + 1]);
/* Appends the line with its newline, and its hash to hash. prev is a hash. E_LIMIT, -ENOMEM, -EINVAL (a name
 * that is not UTF-8): then out is as it was. */
int audit_line_put(struct strbuf *out, uint64_t n, const char *prev, int64_t time_ns, const char *what,
                   const struct act_datum *data, size_t n_data, char hash[AUDIT_HASH + 1]);
/* Looks at a line without its newline: E_DAMAGE when its hash is not right, E_PROTO when it is and the line
 * is not one of ours all the same. Borrows. */
int audit_line_get(struct slice line, struct audit_line *out);
/* The next member of a line's data: 1; 0 at the end; E_PROTO. The value is decoded into value. *at starts as
 * 0. */
int audit_line_datum(const struct audit_line *l, size_t *at, struct slice *name, struct strbuf *value);

#endif
