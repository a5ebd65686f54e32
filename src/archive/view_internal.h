/* SPDX-License-Identifier: Apache-2.0 */
/* view_internal.h - what view.c (taking) and scan.c (reading) share. */
#ifndef GRIDLINE_ARCHIVE_VIEW_INTERNAL_H
#define GRIDLINE_ARCHIVE_VIEW_INTERNAL_H

#include "archive/archive_internal.h"
#include "archive/directories.h"
#include "archive/view.h"

#include <time.h>

/* A partition as a reader has it. */
struct reader_partition {
    char name[PARTITION_NAME_MAX];
    struct partition_span span;
    uint64_t number; /* of blob_place: another file has another */
    uint64_t inode;
    struct partition *p; /* NULL: not open */
    bool is_reading;     /* of one state, for the view that is taken */
    bool is_bad;         /* it can't be opened: said once a view */
    uint64_t damaged;    /* rows of ours in it that did not pass their check, since it is open */
};

struct view_reader {
    struct archive *a; /* NULL: of a folder */
    char *dir;
    struct catalog *catalog; /* of a folder */
    struct table_list *list; /* of a folder */
    struct reader_partition *partitions;
    size_t n_partitions, max_partitions;
    size_t n_open;
    struct timespec listed; /* the folder's time of change when it was read last */
    uint64_t last_number;
    struct directories directories;
    struct blob_cache *cache;
    bool is_taken; /* one view at a time */
    bool is_deciding; /* classes of an old archive's fields, of a folder */
};

/* The newest rows of one stream, as a view has them. */
struct view_head {
    struct slice key;
    const struct table_def *table;
    struct head_buffer *buffer; /* a reference */
    uint32_t n, n_origins;
    bool is_unsorted;
};

struct view {
    struct view_reader *reader;
    struct table_list *list;
    uint64_t gen; /* blobs beyond it are not seen; UINT64_MAX: all are */
    struct view_gen in_use;
    struct arena arena;
    struct view_head *heads;
    size_t n_heads, max_heads;
    struct unflushed *unflushed; /* of a folder; in the arena */
    size_t n_unflushed;
    int64_t behind_ns;
};

/* Opens it and begins to read one state of it. 0, or why not. */
int view_open_partition(struct view *v, struct reader_partition *p);
/* Is the chunk given last of a blob without numbers as written? */
bool scan_is_old(const struct scan *s);

#endif
