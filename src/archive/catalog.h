/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.h - catalog.db: what is known of an archive as a whole: its event names with all their columns, its
 * partitions, how far each source has been read, baselines (NL-7), settings. Everything but baselines and
 * settings can be made again from the partitions (catalog_rebuild), and is when the file is gone or damaged;
 * those two are kept in the newest partition's file as well.
 *
 * The writer's thread has the one that writes. */
#ifndef GRIDLINE_ARCHIVE_CATALOG_H
#define GRIDLINE_ARCHIVE_CATALOG_H

#include "archive/partition.h"

struct catalog;
/* Makes the file where there is none. A damaged one is set aside (catalog.db.damaged-N) and made again. */
int catalog_open(const char *dir, bool is_writer, struct catalog **out, struct diag *why);
void catalog_close(struct catalog *c); /* NULL is fine */

/* ---------------------------------------------------------------- tables */
/* Columns are added, never taken away; ids are places. Pointers are good until the catalogue closes. */
const struct table_def *catalog_table(struct catalog *c, struct slice name); /* NULL: there is none */
size_t catalog_tables(struct catalog *c);
const struct table_def *catalog_table_at(struct catalog *c, size_t i);
/* The table that has all fields of s, grown where it must be; ids[i]: the column of s's field i, UINT16_MAX:
 * there is no room for it. In memory at once; on disk with catalog_commit. */
int catalog_learn(struct catalog *c, const struct schema *s, const struct table_def **out, uint16_t *ids);

/* ---------------------------------------------------------------- sources */
uint64_t catalog_cursor(struct catalog *c, const struct archive_source *s); /* 0 = nothing read */
void catalog_set_cursor(struct catalog *c, const struct archive_source *s, uint64_t record);

/* ---------------------------------------------------------------- baselines (NL-7) */
struct baseline {
    struct slice name, label;
    int64_t from_ns, to_ns;
    struct slice where; /* which events, a predicate; "" = all */
};
int catalog_set_baseline(struct catalog *c, const struct baseline *b); /* same name: replaced */
int catalog_remove_baseline(struct catalog *c, struct slice name);     /* -ENOENT */
size_t catalog_baselines(struct catalog *c);
struct baseline catalog_baseline_at(struct catalog *c, size_t i);

/* Writes what has changed, on disk when it returns. */
int catalog_commit(struct catalog *c);

/* The partitions there are, by their names in the folder: what is in the catalogue about them is only how
 * large they are and what they hold. Called for each, oldest first. */
int catalog_partitions(const char *dir,
                       int (*fn)(void *arg, const char *name, int64_t from_ns, int64_t step_ns), void *arg);
int catalog_rebuild(const char *dir, struct diag *why);

#endif
