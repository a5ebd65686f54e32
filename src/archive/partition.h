/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h - one SQLite file of blobs: what happened from one time to another (a day, as a rule), at one
 * resolution (raw, or a tier: tier.h).
 *
 * Blobs are found by (event name, time). A commit puts blobs in, takes merged ones out, and moves the marks,
 * in one transaction that is on disk when it returns (WAL, synchronous=FULL). A mark says up to which record
 * of a source (the gateway's journal, an imported file) everything of this partition is in: reading the
 * source again from an older place is harmless. Every row has a CRC over all of its columns, beside what
 * blobs have of their own, as SQLite's pages have none. What does not pass it is reported and skipped, never
 * deleted. The schema of the file is in partition.c.
 *
 * One writer (a connection that writes) and any number of readers (each a connection and thread of its own).
 */
#ifndef GRIDLINE_ARCHIVE_PARTITION_H
#define GRIDLINE_ARCHIVE_PARTITION_H

#include "archive/blob.h"
#include "base/strbuf.h"

struct archive_source {
    uint8_t id[16]; /* of the journal; of a file: the hash of its content */
};

struct partition_span {
    int64_t from_ns, to_ns; /* events in [from, to) */
    int64_t step_ns;        /* 0: raw; else a tier's */
};
/* "20261115T000000Z.db", "20261115T000000Z-60s.db": begins and resolution; the rest is in the file. */
enum { PARTITION_NAME_MAX = 64 };
void partition_name(const struct partition_span *span, char *to, size_t n);
/* false: that is no partition's name. */
bool partition_parse_name(const char *name, int64_t *from_ns, int64_t *step_ns);

enum { PARTITION_WRITE = 1, PARTITION_CREATE = 2 };

/* Somewhere in the file something is wrong; borrowed for the call. */
struct partition_damage {
    const char *file;
    uint64_t blob; /* 0 = not of one blob */
    const char *what;
    const struct blob_chunk
        *chunk; /* what is lost, where that is known: stream, time, producers and numbers */
};
typedef void partition_damage_fn(void *arg, const struct partition_damage *d);

struct partition;
/* span: read from the file where it exists; with PARTITION_CREATE it is made. *why says what is wrong.
 * -ENOENT, E_DAMAGE (no SQLite file any more: partition_salvage), E_VERSION, -ENOSPC, -EIO, -ENOMEM. What is
 * wrong with the structure of a file that can be opened is found before the first write: partition_put and
 * the like give E_DAMAGE then; close it, partition_salvage, open it again. */
int partition_open(const char *dir, const char *name, unsigned flags, const struct partition_span *span,
                   struct partition **out, struct diag *why);
void partition_close(struct partition *p); /* NULL is fine; what is not committed is forgotten */
/* It and what SQLite keeps beside it. -ENOENT. */
int partition_unlink(const char *dir, const char *name);
const struct partition_span *partition_span(const struct partition *p);
void partition_on_damage(struct partition *p, partition_damage_fn *fn,
                         void *arg); /* else it is only counted */

/* ---------------------------------------------------------------- writing */

/* A transaction begins by itself with the first of these. gen counts the archive's commits: whoever reads by
 * an older snapshot leaves newer blobs out. *id: the blob's number in this file; never given again. What
 * fails within a transaction fails all of it: partition_rollback (or partition_commit, which then says why).
 * -ESTALE: a commit that failed with -EIO has turned out to be on disk; ask for the marks again. */
int partition_put(struct partition *p, const struct blob_bytes *b, uint64_t gen, uint64_t *id);
int partition_remove(struct partition *p, uint64_t blob); /* it was merged into another; happens at commit */
int partition_set_mark(struct partition *p, const struct archive_source *s, uint64_t record);
/* Up to that record of the source all partitions are complete: the catalogue's cursor, now. Where a catalogue
 * has to be made again, its cursor is the greatest of these. */
int partition_set_floor(struct partition *p, const struct archive_source *s, uint64_t record);
/* Rows of that event name stay in it until then, whatever rules say (import --keep); the latest counts. */
int partition_keep(struct partition *p, struct slice name, int64_t until_ns);
/* 0: as rules say. What is committed; a writer's. */
int64_t partition_kept_until(const struct partition *p, struct slice name);
enum { PARTITION_LOG_MAX = 16 << 20 }; /* bytes: a larger write-ahead log is moved into the file after a commit */
/* 0, or nothing has changed: -ENOSPC, -EIO, -ENOMEM, E_DAMAGE. After -EIO the file has been opened again, as
 * after a crash; after -ENOSPC it works as soon as there is room. */
int partition_commit(struct partition *p);
void partition_rollback(struct partition *p);
/* Moves what is in the write-ahead log into the file; not while ingest is busy. -EBUSY: a reader still needs
 * the rest of it, or a transaction is open: later. */
int partition_checkpoint(struct partition *p);

/* ---------------------------------------------------------------- reading */

/* 0 = nothing of that source. What is committed; of a reader, as of partition_begin_read. */
uint64_t partition_mark(struct partition *p, const struct archive_source *s);
struct partition_mark {
    struct archive_source source;
    uint64_t record, floor;
};
int partition_marks(struct partition *p, void (*fn)(void *arg, const struct partition_mark *m), void *arg);
uint64_t partition_gen(struct partition *p); /* the newest of any of its commits; as partition_mark */
/* From here on to partition_end_read all reading is of one state of the file. */
int partition_begin_read(struct partition *p);
void partition_end_read(struct partition *p);

struct partition_section {
    uint64_t blob, gen;
    struct blob_section s; /* name borrowed for the call */
};
/* Those of the event name ("" = of all) with rows in [from, to], by blob; fn returns false: no more. It may
 * read directories and bodies, but not begin or end anything. From memory: 5 ns each. What is damaged of the
 * index is made again from the blobs' directories; what is left out is reported. */
int partition_sections(struct partition *p, struct slice name, int64_t from_ns, int64_t to_ns,
                       bool (*fn)(void *arg, const struct partition_section *s), void *arg);
/* What is counted of the rows of that event name in that blob (blob_counts.h): replaces what is in out; "":
 * it has no counts. -ENOENT, E_DAMAGE: nobody knows. */
int partition_counts(struct partition *p, uint64_t blob, struct slice name, struct strbuf *out);
/* Blobs that must be there and of which nothing can be found, not even what they held. */
uint64_t partition_missing(struct partition *p);
/* The directory of a blob: replaces what is in out. -ENOENT, E_DAMAGE (reported). The body the same; whether
 * its chunks are what was written is seen when they are decoded. */
int partition_directory(struct partition *p, uint64_t blob, struct strbuf *out);
int partition_body(struct partition *p, uint64_t blob, struct strbuf *out);
/* How long the body is, without reading it. */
int partition_body_bytes(struct partition *p, uint64_t blob, uint64_t *out);

/* ---------------------------------------------------------------- damage */

/* Every row of the file, its CRC, every chunk decoded: how many chunks are fine, how many not; each damage to
 * fn. Reads only. */
struct partition_health {
    uint64_t blobs, chunks, rows, bytes;      /* that are fine */
    uint64_t bad_blobs, bad_chunks, bad_rows; /* bad_rows: those of chunks whose directory can be read */
    bool is_broken;                           /* SQLite itself can't read all of it */
    bool has_lost_marks;                      /* salvaged: not all marks were there, or how many there were */
};
int partition_check(const char *dir, const char *name, partition_damage_fn *fn, void *arg,
                    struct partition_health *out, struct diag *why);
/* What can be read of a broken file (and its write-ahead log), by the marks of blobs, into a new partition
 * beside it; the broken one gets the ending .damaged and stays. */
int partition_salvage(const char *dir, const char *name, partition_damage_fn *fn, void *arg,
                      struct partition_health *out, struct diag *why);

#endif
