/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a blob's rows (blob_counts.h). A chunk that is given has as many rows as its bins, which are
 * within its time, one behind the other, each with its worst inside. */
#include "archive/blob_counts.h"
#include "archive/rows.h"

#include <stdlib.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_chunk(const struct counts_chunk *c)
{
    struct cursor in = cursor_of(c->bins);
    struct counts_bin bin = {0};
    uint64_t rows = 0, width = UINT64_C(1) << (2 * c->zoom);
    int64_t last = c->from_ns;
    check(c->rows <= ROWS_CHUNK_MAX && c->from_ns <= c->last_ns);
    while (counts_next_bin(c, &in, &bin)) {
        check(bin.count > 0 && bin.from_ns >= last && bin.from_ns <= c->last_ns);
        check((uint64_t)bin.worst_ns - (uint64_t)bin.from_ns < width);
        rows += bin.count;
        last = bin.from_ns;
    }
    check(!in.bad && rows == c->rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct counts_reader r;
    struct counts_chunk c;
    uint32_t n = counts_open(&r, slice_of((const char *)data, size)), given = 0;
    for (; counts_next(&r, &c) > 0; given++)
        if (c.rows)
            check_chunk(&c);
    check(given <= n);
    counts_close(&r);
    return 0;
}
