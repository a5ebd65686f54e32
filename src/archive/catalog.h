/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.h - catalog.db: what is known of an archive as a whole: its event names with all their columns, how
 * far each source has been read, what each partition must hold, baselines (NL-7), settings, what retention
 * has deleted. All of it is in memory. Everything but the last three can be made again from the partitions,
 * and is when the file is gone or damaged; those are in a file of their own as well (kept, replaced whole).
 *
 * Columns have their ids, which are places in their table, from the catalogue: good within one process.
 * Blobs have their own tables with their own ids; readers bring them together by name and type. So a
 * catalogue that was made again may give other ids than the one that was lost, and nothing is wrong.
 *
 * A writer holds a lock on the folder (DIR/lock): there is one. The writer's thread has its catalogue; any
 * other thread or process opens one of its own to read. */
#ifndef GRIDLINE_ARCHIVE_CATALOG_H
#define GRIDLINE_ARCHIVE_CATALOG_H

#include "archive/partition.h"

struct catalog;
/* A writer makes what is not there, sets a damaged file aside (catalog.db.damaged-N) and makes it again, and
 * compares the partitions with what is known of them (catalog_note_partition); catalog_trouble_at says what
 * was found. A reader of a folder without a good catalogue makes one in memory. -EBUSY: another process
 * writes this archive; -ENOENT (a reader: there is no folder), E_VERSION, -EIO, -ENOSPC, -ENOMEM. */
int catalog_open(const char *dir, bool is_writer, struct catalog **out, struct diag *why);
void catalog_close(struct catalog *c); /* NULL is fine; what is not committed is forgotten */
/* A reader's: what the writer has committed since. 1: there was something; 0: nothing. */
int catalog_refresh(struct catalog *c);
/* What was wrong when it was opened, and what has been found since, a line each; borrowed until the next. */
size_t catalog_troubles(const struct catalog *c);
const char *catalog_trouble_at(const struct catalog *c, size_t i);

/* ---------------------------------------------------------------- tables */
/* Columns are added, never taken away; ids are places. Pointers are good until the catalogue closes: a table
 * that grows is a new struct, and the old one stays as it was. A column has the role, kind, unit and help
 * that it came with first. */
const struct table_def *catalog_table(struct catalog *c, struct slice name); /* NULL: there is none */
size_t catalog_tables(struct catalog *c);
const struct table_def *catalog_table_at(struct catalog *c, size_t i);
/* The table that has all fields of s, grown where it must be; ids[i]: the column of s's field i, UINT16_MAX:
 * there is no room for it. In memory at once; on disk with catalog_commit. Cost: a look-up a field. */
int catalog_learn(struct catalog *c, const struct schema *s, const struct table_def **out, uint16_t *ids);

/* ---------------------------------------------------------------- classes of fields (catalog_class.c) */
/* What is known of the class of a field (event/class.h). Good until the catalogue closes. A table's def says it, too, as of
 * when the def was made: def->fields->states. */
struct catalog_class {
    struct slice table, field;
    struct class_state state;
    uint64_t unsealed[2]; /* values that were counted and are in heads only: numbers, texts */
    uint64_t sealed[2];   /* values that were sealed since the last catalog_settle_classes */
    bool is_known;        /* it is a fact, or has been counted; else it is an old archive's, and only its rows can tell */
};
/* Of a column of the table; of a field by its name. NULL: there is none. */
struct catalog_class *catalog_class_at(struct catalog *c, struct slice table, uint16_t column);
struct catalog_class *catalog_class(struct catalog *c, struct slice table, struct slice field);
/* Its state has another class or another by: a fact from now on, and the table is a new one. -ENOMEM. */
int catalog_class_changed(struct catalog *c, struct catalog_class *k);
/* By hand; kept like settings when the catalogue is lost. -ENOENT: no such event or field. */
int catalog_set_class(struct catalog *c, struct slice table, struct slice field, uint8_t class);
/* What was sealed takes the place of what was counted in heads. True: some table shows other counts now. */
bool catalog_settle_classes(struct catalog *c);
/* Is there a field that nothing is known of, as in an archive made before fields had classes? Its first rows tell:
 * catalog_count_column counts those of a stored column of it (is_old: blob_directory's), as long as
 * catalog_has_open_class; catalog_end_count decides. */
bool catalog_has_unknown_class(struct catalog *c, struct slice table);
bool catalog_has_open_class(struct catalog *c, struct slice table);
void catalog_count_column(struct catalog *c, struct slice table, const struct column *column, uint32_t n_rows,
                          bool is_old, int64_t now_ns);
int catalog_end_count(struct catalog *c, struct slice table);

/* ---------------------------------------------------------------- sources */
/* Up to this record all partitions are complete; 0 = nothing read. At opening it is set back to the mark of a
 * partition whose last commits are gone, so that the source is read again from there. */
uint64_t catalog_cursor(struct catalog *c, const struct archive_source *s);
void catalog_set_cursor(struct catalog *c, const struct archive_source *s, uint64_t record);

/* ---------------------------------------------------------------- partitions */
/* What p has committed: its gen, its marks. Once after its commits, before catalog_commit. The next
 * catalog_open misses what is not there any more. SQLite drops everything behind a damaged place of a
 * write-ahead log without a word; and a partition can be lost, or put back from an old copy. */
void catalog_note_partition(struct catalog *c, struct partition *p);
/* Each that was noted, with the gen that it must have at least. fn must not change anything. */
void catalog_noted(struct catalog *c, void (*fn)(void *arg, const char *name, uint64_t gen), void *arg);
/* The writer can't use it (E_DAMAGE): a new file is made of what can be read (partition_salvage), and cursors
 * are set back to what is left of their sources in it. Nobody of this thread has it open. *lost: rows, those
 * that are known. Readers find the new file by themselves. */
int catalog_salvage(struct catalog *c, const char *name, uint64_t *lost);
/* It is to be unlinked: call this and catalog_commit, then do. */
void catalog_forget_partition(struct catalog *c, const char *name);

/* ---------------------------------------------------------------- baselines (NL-7), settings */
struct baseline {
    struct slice name, label;
    int64_t from_ns, to_ns;
    struct slice where; /* which events, a predicate; "" = all */
};
int catalog_set_baseline(struct catalog *c, const struct baseline *b); /* same name: replaced */
int catalog_remove_baseline(struct catalog *c, struct slice name);     /* -ENOENT */
size_t catalog_baselines(struct catalog *c);
struct baseline catalog_baseline_at(struct catalog *c, size_t i); /* good until one is set or removed */
/* "": there is none; borrowed until it is set. */
struct slice catalog_setting(struct catalog *c, struct slice name);
int catalog_set_setting(struct catalog *c, struct slice name, struct slice value);

/* ---------------------------------------------------------------- what retention has deleted */
enum gone_why { GONE_AGE, GONE_SIZE, GONE_FULL /* the disk was */ };
struct deleted {
    struct slice name;      /* event */
    int64_t step_ns;        /* 0: raw rows; else of that tier */
    int64_t from_ns, to_ns; /* the first row that went; up to here all have, to_ns is not in */
    uint64_t rows;          /* as far as they could be counted */
    int64_t at_ns;          /* when some went last, UTC */
    uint8_t why;            /* the last time */
};
/* Adds to what is known of (name, step_ns). On disk with catalog_commit: together with the partition's end.
 */
int catalog_note_gone(struct catalog *c, const struct deleted *g);
/* The next one: false at the end; *i starts at 0. The name is good until one is noted. */
bool catalog_next_gone(struct catalog *c, size_t *i, struct deleted *out);

/* Writes what has changed, on disk when it returns. */
int catalog_commit(struct catalog *c);

/* The partitions there are, by their names in the folder. Called for each, oldest first, the finest first;
 * what fn returns if it is not 0 ends it. */
int catalog_partitions(const char *dir,
                       int (*fn)(void *arg, const char *name, int64_t from_ns, int64_t step_ns), void *arg);
/* Makes the catalogue again from the partitions, whatever is wrong with it: as a writer, with the lock. */
int catalog_rebuild(const char *dir, struct diag *why);

#endif
