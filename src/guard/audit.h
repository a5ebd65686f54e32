/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - who did what, in a file that shows when it was changed: lines of JSON, each with the hash
 * (SHA-256) of the line before and its own. Nothing is ever rewritten. A file that is full is followed by the
 * next, whose first line has the last hash of the one before. audit_line.h has the format. One thread. */
#ifndef GRIDLINE_GUARD_AUDIT_H
#define GRIDLINE_GUARD_AUDIT_H

#include "base/err.h"
#include "net/act.h"

struct audit;
/* Goes on behind the last line; a torn last line (a crash) is followed by a line that says so. Its folder is
 * path, made if need be; files audit-000001.log, ... of mode 0600. file_max 0 = 16 MiB. -EBUSY: another
 * writes it. */
int audit_open(const char *path, uint64_t file_max, struct audit **out, struct diag *why);
void audit_close(struct audit *a); /* NULL is fine */
/* what: "action.start", "action.end", "ack", "silence", "start", "config"... Values may have any bytes: they
 * are written as JSON, bytes that are not UTF-8 as in ndjson.
 * Kept in memory until it is committed. -ENOMEM, E_LIMIT (a line of over 256 KiB), and errors of the disk:
 * then it is not added. */
int audit_add(struct audit *a, int64_t now_ns, const char *what, const struct act_datum *data, size_t n);
int audit_commit(struct audit *a); /* fdatasync */
/* The hash of the last line that is committed; borrowed. Whoever keeps it elsewhere can tell when lines were
 * cut off at the end. */
const char *audit_head(const struct audit *a);
/* Is the line with this hash there? It is looked for from the newest file back. 1; 0; an error of the disk.
 */
int audit_has(const struct audit *a, const char *hash);

struct audit_result {
    uint64_t lines, files;
    uint64_t torn;   /* ends that a crash had left, as lines behind them say */
    uint64_t cut;    /* lines that say that others are missing before them */
    char head[65];   /* the last hash, to be compared with one kept elsewhere */
    char where[300]; /* of the first line that is wrong: "audit-000002.log:17" */
};
/* 0: whole. E_DAMAGE: *result says where, *why what. -ENOENT: there is none. */
int audit_verify(const char *path, struct audit_result *result, struct diag *why);

/* fn for each line whose own hash is right, in order, whatever is around it: for showing; verify judges. A
 * result of fn that is not 0 ends it and is returned. bad (may be NULL) counts lines that are not shown. */
struct audit_line;
int audit_each(const char *path, int (*fn)(void *arg, const struct audit_line *line), void *arg,
               uint64_t *bad);

#endif
