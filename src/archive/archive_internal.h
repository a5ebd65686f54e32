/* SPDX-License-Identifier: Apache-2.0 */
/* archive_internal.h - what archive.c (appending), flush.c (sealing) and view.c (reading) share. */
#ifndef GRIDLINE_ARCHIVE_ARCHIVE_INTERNAL_H
#define GRIDLINE_ARCHIVE_ARCHIVE_INTERNAL_H

#include "archive/archive.h"
#include "archive/head.h"
#include "archive/lifeline_ids.h"
#include "archive/unflushed.h"
#include "base/map.h"

#include <pthread.h>

enum {
    ARCHIVE_HEAD_BYTES = 24 << 20,
    ARCHIVE_HEAD_FACTOR = 8, /* heads never hold more than so many times options.head_bytes */
    ARCHIVE_STREAMS_MAX = 10000,
    ARCHIVE_OPEN_MAX = 8, /* partitions that the writer keeps open */
    ARCHIVE_SCHEMAS_MAX = 8192,
    ARCHIVE_OLD_DAYS = 30,         /* partitions that ended so long ago may span more than a day, */
    ARCHIVE_SPARSE_ROWS = 2 << 20, /* and have about so many rows at most then */
    ARCHIVE_QUIET_FLUSHES = 3      /* a stream without rows in so many flushes is forgotten here */
};
#define ARCHIVE_FLUSH_NS     (INT64_C(600) * 1000000000)
#define ARCHIVE_RETRY_NS     (INT64_C(5) * 1000000000)
#define ARCHIVE_BEHIND_NS    (INT64_C(2) * 1000000000) /* a moment */
#define ARCHIVE_UNFLUSHED_NS INT64_C(1000000000)       /* DIR/unflushed is written no more often */

struct producer {
    uint8_t id[16];
    uint32_t streams;
    uint64_t overflow; /* rows */
};

/* What is needed of a schema for each of its events. */
struct schema_info {
    const struct schema *schema; /* owned */
    struct archive_table *table;
    uint16_t *ids;
    uint16_t *keys; /* places of its key fields */
    uint32_t n_keys;
    struct catalog_class **classes; /* of its fields; NULL: there is no column for it */
    uint32_t n_open;                /* of them are not decided yet: values are counted */
};

struct archive_stream {
    struct slice key; /* owned with it */
    struct stream_key_parts parts;
    struct archive_table *table;
    struct producer *producer;
    struct head head; /* the writer's; its buffer is changed under the lock */
    /* What views see, under the lock: whole records. */
    uint32_t n_seen, n_origins_seen;
    bool is_unsorted_seen;
    /* The writer's: */
    bool is_overflow, is_touched;
    bool was_fed;                   /* since the last flush */
    bool is_derived;                /* of rows made at a flush: nobody sees its head */
    uint8_t quiet;                  /* flushes without a row */
    int64_t keep_ns; /* rows of its head between the next two are to be kept until then; 0 = none */
    int64_t kept_from_ns, kept_to_ns;
    struct archive_stream *next;    /* who came behind it last time: a guess */
    struct schema_info *info;       /* of its last event; */
    struct value *keys;             /* and its key values in that order; of its key */
};

struct archive_table {
    struct slice name;
    const struct table_def *def; /* under the lock */
    struct archive_stream **streams;
    size_t n, max; /* under the lock */
    /* The writer's: rows in heads that are not derived, and their times. */
    uint64_t head_rows;
    int64_t head_from_ns, head_to_ns;
};

/* The tables and baselines there are at one moment, and what retention has deleted; shared by views. */
struct table_list {
    _Atomic uint32_t refs;
    struct arena arena; /* of the baselines and gone */
    struct baseline *baselines;
    size_t n_baselines;
    struct deleted *gone;
    size_t n_gone, max_gone;
    size_t n;
    const struct table_def *defs[]; /* by name */
};

struct source_state {
    struct archive_source id;
    uint64_t done;        /* the last record that was appended whole */
    uint64_t before;      /* the cursor, while it is moved */
    uint64_t again_until; /* up to here a partition's mark may know better */
};

struct open_partition {
    struct partition_span span;
    struct partition *p;
    uint64_t used;
};

struct view_gen { /* of a view that is in use */
    uint64_t gen;
    struct view_gen *next, *before;
};

struct archive {
    struct archive_options o;
    char *dir;
    struct catalog *catalog;
    struct map streams;   /* by key */
    struct map tables;    /* by name; changed under the lock */
    struct map producers; /* by id */
    struct map infos;     /* by the schema's address */
    struct source_state *sources;
    size_t n_sources;
    struct partition_span *spans; /* of the partitions of raw rows there are: no two of them overlap */
    size_t n_spans, max_spans;
    struct open_partition open[ARCHIVE_OPEN_MAX];
    uint64_t uses;
    size_t n_begun; /* events of the batch that is to be given again, which have been taken */
    struct archive_counts counts;
    struct archive_stream **touched; /* since the last whole record */
    size_t n_touched, max_touched;
    struct archive_stream *last; /* of the event before */
    struct schema_info *last_info;
    struct strbuf key;
    bool are_tables_dirty;
    int64_t utc_ns;    /* of the last tick; 0 = not known */
    int64_t oldest_ns; /* monotonic, of the oldest row in heads; 0 = none, or not known yet */
    bool is_hurried;   /* flush at the next tick */
    int64_t retry_ns;  /* monotonic: no flush before, after one that failed */
    int64_t floor_ns;  /* older rows are too old, */
    const struct retain_rules *rules; /* and those older than these say; NULL = none does */
    struct archive_derive_ops derive;
    struct id_set ids;       /* options.ids */
    int unflushed_fd;        /* DIR/unflushed; -1: none */
    uint64_t unflushed_rows; /* as it says */
    int64_t unflushed_ns;    /* monotonic: when it was written */

    pthread_mutex_t lock; /* heads' buffers and n_seen, tables, gen, views: never held over I/O */
    uint64_t gen;         /* of the last flush */
    int64_t caught_up_ns; /* archive_set_caught_up; 0 = never */
    struct table_list *list;
    uint64_t published;    /* lists so far */
    struct view_gen views; /* a ring */
};

struct source_state *archive_source_state(struct archive *a, const struct archive_source *s);
/* The partition that has that time, or the one of options.partition_ns that would. */
struct partition_span archive_span_of(const struct archive *a, int64_t time_ns);
/* Writes DIR/unflushed, if it is not as it should be and was not written a moment ago. */
void archive_note_unflushed(struct archive *a, int64_t now_ns);
bool archive_has_span(const struct archive *a,
                      const struct partition_span *span); /* a partition, or part of one */
/* There is this one now. */
int archive_note_span(struct archive *a, const struct partition_span *span);
/* Looks into the folder: retention may have taken some. */
int archive_list_spans(struct archive *a);
/* The newest that any partition has: what is on disk is seen from now on. */
int archive_find_gen(struct archive *a);
/* An event of a deriver's: into a head of its own. */
int archive_append_derived(struct archive *a, const struct batch *b);
void archive_stream_destroy(struct archive *a, struct archive_stream *s);
/* Tables of the catalogue, for views from now on. */
void archive_publish_tables(struct archive *a);
int table_name_order(struct slice a, struct slice b);    /* <0, 0, >0 by bytes */
struct table_list *table_list_create(struct catalog *c); /* by name */
const struct table_def *table_list_find(const struct table_list *l, struct slice name); /* NULL: none */
/* Fields of an archive that was made before fields had classes: decided by the first rows that it has. */
int archive_decide_classes(struct archive *a);
struct table_list *table_list_ref(struct table_list *l);
void table_list_unref(struct table_list *l); /* NULL is fine */

#endif
