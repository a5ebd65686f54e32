/* SPDX-License-Identifier: Apache-2.0 */
/* retain.h - how long what is kept: rules by event name, the files there are, and taking one away. When is
 * upkeep.h's. */
#ifndef GRIDLINE_ARCHIVE_RETAIN_H
#define GRIDLINE_ARCHIVE_RETAIN_H

#include "archive/archive.h"

#define RETAIN_AGE_NS (INT64_C(7) * 86400 * 1000000000) /* of names that no rule fits */

/* ---------------------------------------------------------------- rules */

/* "cpu*=30d, *=7d": PATTERN=AGE by commas; the first that fits a name counts. */
struct retain_rule {
    struct slice pattern;
    int64_t age_ns;
};
struct retain_rules {
    char *text; /* owned; patterns are in it */
    struct retain_rule *rules;
    size_t n;
};
/* NULL or "": none, so that all are kept for RETAIN_AGE_NS. E_PROTO: *why says which is wrong. */
int retain_rules_init(struct retain_rules *r, const char *text, struct diag *why);
void retain_rules_fini(struct retain_rules *r);
int64_t retain_rules_age(const struct retain_rules *r, struct slice name);
int64_t retain_rules_longest(const struct retain_rules *r);
int64_t retain_rules_shortest(const struct retain_rules *r);

/* ---------------------------------------------------------------- files */

struct retain_file {
    char name[PARTITION_NAME_MAX];
    int64_t from_ns, step_ns; /* as its name says */
    uint64_t size_bytes;      /* with its write-ahead log */
};
struct retain_files {
    struct retain_file *files; /* oldest first, of one time the finest first */
    size_t n, max;
    uint64_t size_bytes; /* of the whole folder: logs, catalogue, reserve and all */
};
/* What is in the archive's folder now. *out has what it had before, or nothing, on failure. */
int retain_files_list(const char *dir, struct retain_files *out);
void retain_files_fini(struct retain_files *f);

/* Notes in the catalogue that rows of these event names go (drops NULL: of all) with the partition p, or from
 * it; catalog_commit is the caller's. *rows: how many, as far as that can be told. */
struct retain_reason {
    enum gone_why why;
    int64_t utc_ns; /* now */
};
int retain_note(struct archive *a, struct partition *p, const struct retain_reason *reason,
                bool (*drops)(void *arg, struct slice name), void *arg, uint64_t *rows);
/* Takes the partition away: from the catalogue, which remembers what was in it, then from the folder. Who
 * reads it goes on reading it. *rows: as retain_note. */
int retain_remove(struct archive *a, const struct retain_file *f, const struct retain_reason *reason,
                  uint64_t *rows);
/* Write-ahead logs without a partition, which a reader may leave that came at the wrong moment. At start. */
void retain_sweep(const char *dir);

#endif
