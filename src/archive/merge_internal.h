/* SPDX-License-Identifier: Apache-2.0 */
/* merge_internal.h - what merge.c (which blobs, the commit) and merge_write.c (their chunks) share. */
#ifndef GRIDLINE_ARCHIVE_MERGE_INTERNAL_H
#define GRIDLINE_ARCHIVE_MERGE_INTERNAL_H

#include "archive/merge.h"
#include "archive/tier_columns.h"

struct merge_blob {
    uint64_t id, gen, rows, streams;
    unsigned side;            /* how many borders are below it */
    bool has_dropped;         /* rows that are kept no longer */
    bool is_left;             /* alone: it can't be read whole */
    bool is_seed;             /* a set was looked for around it */
    bool is_old;              /* blob_directory's: only blobs of one kind become one */
    struct slice first, last; /* of its streams; of small ones */
};

/* A blob of the set. */
struct merge_input {
    struct merge_blob *blob;
    struct arena arena;
    const struct blob_directory *directory; /* in arena */
    struct strbuf body;
    uint16_t **ids; /* in arena: of each section the number in the result of each column; NULL: not yet */
};

/* One that takes their place. */
struct merge_output {
    struct strbuf directory, body, counts;
    struct blob_section *sections; /* in arena, with their names */
    size_t n_sections;
    struct arena arena;
};

/* A chunk to be written again. */
struct merge_chunk {
    struct slice name, key;
    int64_t min_ns;
    uint32_t input, chunk;
};

struct merge {
    struct archive *a;
    struct partition_span span;
    struct merge_options o;
    uint64_t *borders;
    enum { MERGE_LIST, MERGE_KEYS, MERGE_PICK, MERGE_LOAD, MERGE_WRITE, MERGE_COMMIT, MERGE_DONE } state;
    uint64_t limit; /* blobs of later generations are not looked at */
    struct merge_blob *blobs;
    size_t n_blobs, max_blobs, next_key;
    bool is_short;      /* of memory, while listing */
    struct arena names; /* of blobs' first and last streams */
    /* The set: */
    struct merge_input inputs[MERGE_BLOBS_MAX];
    size_t n_inputs;
    struct merge_chunk *chunks; /* by name, key and time */
    size_t n_chunks, at;        /* at: the next; of loading: of the inputs */
    struct tier_table **tables; /* of a tier's partition, one an event name */
    size_t n_tables;
    struct blob_cache *cache;
    struct blob_writer *writer;
    struct merge_output *outputs;
    size_t n_outputs;
    struct arena scratch; /* of one stream */
    struct merge_counts counts;
};

static inline int64_t merge_floor(const struct merge *m, struct slice name)
{
    return m->o.floor ? m->o.floor(m->o.arg, name) : INT64_MIN;
}
void merge_forget_set(struct merge *m);
/* Reads one more blob of the set; the last one: what is to be written is in order. */
int merge_load(struct merge *m, struct partition *p);
/* Writes one more stream, or a part of it. */
int merge_write(struct merge *m);

#endif
