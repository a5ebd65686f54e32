/* SPDX-License-Identifier: Apache-2.0 */
/* partition_internal.h - what the files of a partition share. The schema and its rules are in partition.c. */
#ifndef GRIDLINE_ARCHIVE_PARTITION_INTERNAL_H
#define GRIDLINE_ARCHIVE_PARTITION_INTERNAL_H

#include "archive/db.h"
#include "archive/partition.h"
#include "base/map.h"

enum { PARTITION_VERSION = 2 }; /* partition.c says what was new in it */

/* Rows of meta, and of meta_copy. */
enum { META_STATE = 1, META_GONE = 2, META_KEPT = 3, META_MARKS = 16 /* and those after it */ };

struct partition_state {
    struct partition_span span;
    uint64_t commits;   /* so many there were */
    uint64_t gen;       /* the newest of any put */
    uint64_t next_blob; /* numbers from it on have never been used */
    uint64_t gone_at;   /* the commit that last took blobs out */
    uint64_t n_marks;
};

/* Numbers of blobs that were taken out, first to last, ascending. */
struct gone_range {
    uint64_t first, last;
};
struct gone {
    struct gone_range *v;
    size_t n, cap;
};

struct mark {
    struct archive_source source;
    uint64_t row; /* of meta; 0: it is not there yet */
    uint64_t record, floor;
    uint64_t saved_record, saved_floor; /* what is on disk */
};

enum statement {
    ST_BEGIN_WRITE,
    ST_BEGIN_READ,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_GET_META,
    ST_GET_COPY,
    ST_ALL_META,
    ST_ALL_COPY,
    ST_PUT_META,
    ST_PUT_COPY,
    ST_PUT_BLOB,
    ST_PUT_SECTIONS,
    ST_DROP_BLOB,
    ST_DROP_SECTIONS,
    ST_SECTIONS,
    ST_COUNTS,
    ST_DIRECTORY,
    ST_BODY,
    STATEMENTS
};

/* What the section table says, in memory: every connection loads it once and then what is new. */
struct index_blob {
    uint64_t id, gen;
};
struct index_entry {
    int64_t min_ns, max_ns;
    uint64_t rows;
    uint32_t streams;
    uint32_t blob; /* of index.blobs */
    uint32_t next; /* of the same name; 0 = none */
    struct index_name *name;
};
struct index_name {
    struct slice name;
    uint32_t first, last; /* of entries, which begin at 1 */
};
struct partition_index {
    struct index_blob *blobs;
    size_t n_blobs, blobs_cap;
    struct index_entry *entries;
    size_t n_entries, entries_cap;
    struct map names;
    struct arena arena; /* of names */
    bool is_loaded;
    uint64_t commits, next_blob, gone_at; /* as of which state */
    uint64_t n_missing;                   /* blobs of which nothing is left */
};

/* What is reported once a connection. */
enum { SAID_STATE = 1, SAID_GONE = 2, SAID_MARKS = 4, SAID_SECTIONS = 8, SAID_MAX = 4 };

struct partition {
    char *file; /* path */
    unsigned flags;
    sqlite3 *db;
    struct db_statement st[STATEMENTS];
    struct partition_state state; /* on disk, as it was last seen */
    struct partition_state next;  /* what the transaction makes of it */
    bool is_writing, is_reading;
    bool is_checked;  /* before the first write */
    bool has_names;   /* of the file and its log: the folder was synced since they were opened */
    bool must_reopen; /* a commit failed with -EIO */
    int failed;       /* the transaction can only be rolled back; why */
    struct gone gone;
    uint64_t *removing; /* of the transaction */
    size_t n_removing, removing_cap;
    struct mark **marks;
    size_t n_marks, marks_cap;
    struct map marks_by_source;
    bool has_marks;
    uint64_t marks_commits; /* as of which state */
    struct strbuf kept,
        next_kept;    /* a writer's: the row META_KEPT, and what the transaction makes of it; "" = none */
    bool is_all_kept; /* what is kept was lost by damage */
    struct partition_index index;
    struct strbuf row; /* being made */
    partition_damage_fn *damage;
    void *damage_arg;
    uint64_t n_damages;
    const char *said[SAID_MAX]; /* damages of the file as a whole that have been reported */
};

/* ------------------------------------------------ partition.c */
int partition_begin_write(struct partition *p); /* unless a transaction is open */
sqlite3_stmt *partition_use(struct partition *p, enum statement s, int *r);
void partition_report(struct partition *p, uint64_t blob, const char *what, const struct blob_chunk *chunk);
/* The same, but each `bit` once a connection. */
void partition_report_once(struct partition *p, unsigned bit, const char *what);

/* ------------------------------------------------ partition_meta.c */
/* The row of meta, or its copy; bytes without the checksum, in out. E_DAMAGE: neither is right; -ENOENT:
 * neither is there. is_whole: both are there and the same. */
int meta_get(struct partition *p, uint64_t id, struct strbuf *out, bool *is_whole);
int meta_put(struct partition *p, uint64_t id, struct slice value);
int meta_get_state(struct partition *p, struct partition_state *out);
int meta_put_state(struct partition *p, const struct partition_state *s);
int meta_get_gone(struct partition *p, struct gone *out);
int meta_put_gone(struct partition *p);
int meta_put_marks(struct partition *p); /* the dirty ones */
int meta_get_kept(struct partition *p);
/* Of bytes as META_KEPT has them: until when the event name is kept, 0 = it is not; and for longer, perhaps.
 * E_PROTO, -ENOMEM. */
int64_t kept_until(struct slice bytes, struct slice name);
int kept_raise(struct strbuf *bytes, struct slice name, int64_t until_ns);
int kept_join(struct strbuf *bytes, struct slice more);
/* A writer's marks are in memory from opening on; a reader's are read again when the state has moved. */
int marks_refresh(struct partition *p);
void marks_forget(struct partition *p);
struct mark *mark_find(const struct partition *p, const struct archive_source *s);
struct mark *mark_make(struct partition *p, const struct archive_source *s); /* NULL: no memory */
void mark_drop(struct partition *p, struct mark *m); /* but for its place in p->marks */
uint32_t meta_crc(uint64_t id, struct slice value);
int state_decode(struct slice value, struct partition_state *out);
int mark_decode(struct slice value, struct mark *out);
int gone_decode(struct slice value, struct gone *out);
int gone_add(struct gone *g, uint64_t id);
bool gone_has(const struct gone *g, uint64_t id);

/* ------------------------------------------------ partition_read.c */
/* The number that both halves of a blob carry; and as its section row has it. */
uint64_t directory_number(struct slice directory);
uint64_t sections_number(struct slice bytes);
void sections_encode(struct strbuf *out, const struct blob_bytes *b);
/* fn for each; E_PROTO. */
int sections_decode(struct slice bytes, int (*fn)(void *arg, const struct blob_section *s), void *arg);
uint32_t sections_crc(uint64_t blob, uint64_t gen, struct slice bytes);
uint32_t blob_row_crc(uint64_t id, uint64_t gen, uint64_t directory_bytes, uint32_t directory_crc,
                      uint64_t body_bytes, uint32_t body_crc);
void index_fini(struct partition_index *x);
/* As of the state on disk: what is new is read. Within a transaction. */
int index_load(struct partition *p);
int partition_look(struct partition *p); /* reads the state */

#endif
