/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - asking an archive, for stages that do not know one: HTTP, frames and XML-RPC of the gateway. cmd
 * gives the gateway the ops. A query runs on a thread of the archive's; everything here is called on the
 * asker's loop, and its callbacks come there.
 *
 * Results flow by demand: `rows` comes with up to about QUERY_PAGE bytes as one encoded piece; then nothing
 * until query_ops.more. So a slow reader holds up its own query alone (whose time limit goes on). */
#ifndef GRIDLINE_EVENT_QUERY_H
#define GRIDLINE_EVENT_QUERY_H

#include "base/err.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum { QUERY_PAGE = 64 << 10, QUERY_TEXT_MAX = 64 << 10 };

enum query_format { QUERY_JSON, QUERY_NDJSON, QUERY_CSV, QUERY_BINARY /* docs/protocol.md, ROWS */ };

struct query_asker {
    /* Bytes of the result, in order; borrowed for the call. */
    void (*piece)(struct query_asker *a, struct slice bytes);
    /* Once, the last: 0, or an error with what is wrong. lost: rows that damage kept out of the result. */
    void (*end)(struct query_asker *a, int r, const struct diag *why, uint64_t rows, uint64_t lost);
    /* Now and then while it takes long; NULL = not asked. */
    void (*progress)(struct query_asker *a, uint64_t rows_seen, int64_t elapsed_ns);
    const void *who; /* an identity of the asker's stage, copied: who_size bytes */
    size_t who_size;
};

struct query_text {
    enum { QUERY_SQL, QUERY_TILE } kind; /* of a tile: text is the request's path and query */
    struct slice text;
    enum query_format format;
    int64_t time_ns; /* limits; 0 = the default */
    uint64_t rows;
};

struct query; /* one that runs */
struct query_ops {
    /* NULL: *why says it (too many at a time, no memory). */
    struct query *(*ask)(void *arg, struct query_asker *a, const struct query_text *q, struct diag *why);
    void (*more)(struct query *q);
    /* The asker is gone; no callback comes any more. Also after end: it frees the query. */
    void (*close)(struct query *q);
    void *arg;
};

#endif
