/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_cells.h - what a fold (bucket.h) has so far: a cell for each stream and step, with a summary for
 * each field, within a limit of memory.
 *
 * Chunks come in any order, but blob after blob has the same streams in the same order: the next one is asked
 * first whether it is meant.  A cell is looked for only at the end of its stream's list, where it nearly
 * always is; else a second one for the same step is made, and cells_settle puts them in order and together.
 */
#ifndef GRIDLINE_ARCHIVE_BUCKET_CELLS_H
#define GRIDLINE_ARCHIVE_BUCKET_CELLS_H

#include "archive/rows.h"
#include "base/arena.h"
#include "base/map.h"

struct cell {
    struct cell *next;
    int64_t step; /* its number */
    int64_t tier_ns;
    uint64_t rows;
    struct column_summary columns[];
};

struct cell_stream {
    struct cell_stream *next;
    struct slice key;
    void *of;           /* whatever its owner set */
    uint32_t n_columns; /* of each of its cells */
    struct cell *first, *last;
    struct cell *spare; /* that were put together with others */
    bool is_unsettled;  /* a step comes twice, or before an earlier one */
};

/* A zeroed struct with bytes_max is one without cells. */
struct cells {
    size_t bytes_max;
    size_t bytes; /* of cells, streams and texts */
    struct arena arena;
    struct map by_key;
    struct cell_stream *first, *last;
    struct cell_stream *at; /* the one that was asked for last */
};

void cells_fini(struct cells *c);
/* -ENOMEM, E_LIMIT. The key is copied; of and n_columns are set if it is new. */
int cells_stream(struct cells *c, struct slice key, void *of, uint32_t n_columns, struct cell_stream **out);
int cells_get(struct cells *c, struct cell_stream *s, int64_t step, struct cell **out);
/* A copy of text that lives as long as cells do; p NULL: no memory, or the limit. */
struct slice cells_copy(struct cells *c, struct slice text);
/* Every stream's cells by step, one each. */
void cells_settle(struct cells *c);

#endif
