/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - asking an archive, for stages that do not know one: HTTP, frames and XML-RPC of the gateway. cmd
 * gives the gateway the ops. A query runs on a thread of the archive's; everything here is called on the
 * asker's loop, and its callbacks come there: from query_ops.turn, which the loop calls when query_ops.fd is
 * readable, and from nowhere else.
 *
 * Results flow by demand: `piece` comes with up to about QUERY_PAGE bytes as one encoded piece; then nothing
 * until query_ops.more. So a slow reader holds up its own query alone (whose time limit goes on). */
#ifndef GRIDLINE_EVENT_QUERY_H
#define GRIDLINE_EVENT_QUERY_H

#include "base/err.h"
#include "base/slice.h"
#include "event/notice.h"

#include <stdbool.h>
#include <stdint.h>

/* The answer to a tile begins with QUERY_TILE_HEAD bytes that are not part of it: u8 1 = final, u8 what it is
 * (0 GLT1, 1 JSON, 2 CSV), 6 bytes 0, u64 a hash of the rest. */
enum { QUERY_TILE_HEAD = 16 };

enum { QUERY_PAGE = 64 << 10, QUERY_TEXT_MAX = 64 << 10 };

enum query_format { QUERY_JSON, QUERY_NDJSON, QUERY_CSV, QUERY_BINARY /* docs/protocol.md, "Queries" */ };

/* What an asker may see of events. Made on the asker's loop for one query, asked on that query's thread
 * alone, destroyed on the loop when the thread is done with it. NULL functions: everything. */
struct query_access {
    bool (*may_table)(void *arg, struct slice event); /* of some host, at least */
    bool (*may_stream)(void *arg, struct slice event, struct slice host);
    bool (*may_field)(void *arg, struct slice event, struct slice host, struct slice field);
    void (*destroy)(void *arg); /* NULL = nothing to do */
    void *arg;
};

/* How a query ended. An error before the first piece came: there are no rows, whatever `rows` says. */
struct query_end {
    int r; /* 0, or an error, with what is wrong in *why */
    const struct diag *why;
    uint64_t rows; /* of the result */
    uint64_t lost; /* rows that damage kept out of it */
    const struct notices *notices;
};

struct query_asker {
    /* Bytes of the result, in order; borrowed for the call. */
    void (*piece)(struct query_asker *a, struct slice bytes);
    void (*end)(struct query_asker *a, const struct query_end *end); /* once, the last; borrowed */
    /* Now and then while it takes long; NULL = not asked. */
    void (*progress)(struct query_asker *a, uint64_t rows_seen, int64_t elapsed_ns);
    const void *who; /* an identity of the asker's stage, copied: who_size bytes. For table_ops (table.h) */
    size_t who_size;
    struct query_access access; /* taken by ask, also if that fails */
};

struct query_text {
    enum { QUERY_SQL, QUERY_TILE } kind; /* of a tile: as tile.h has it */
    struct slice text;
    enum query_format format;
    int64_t time_ns; /* limits; 0 = the default */
    uint64_t rows;
};

struct query; /* one that runs */
struct query_ops {
    /* NULL: *why says it, *error has the code: -EAGAIN, too many at a time; E_LIMIT, the text is too long or
     * asks for too much; -ENOMEM. */
    struct query *(*ask)(void *arg, struct query_asker *a, const struct query_text *q, int *error,
                         struct diag *why);
    /* The next piece, please; once for each piece. */
    void (*more)(struct query *q);
    /* The asker is gone; no callback comes any more. Also after end: it frees the query. */
    void (*close)(struct query *q);
    /* Readable when turn has something to do; the same for life. */
    int (*fd)(void *arg);
    void (*turn)(void *arg);
    /* Waits until no thread has a query that was closed: what its access names may go then. */
    void (*settle)(void *arg);
    /* What has become of queries, for the gateway's numbers: fn for each. */
    void (*counts)(void *arg, void (*fn)(void *to, const char *name, uint64_t n), void *to);
    void *arg;
};

#endif
