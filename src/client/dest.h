/* SPDX-License-Identifier: Apache-2.0 */
/* dest.h - where a handle's events go. The drainer empties the rings into blocks (event/block.h) and gives each
 * block to every destination in sequence order; a destination that writes text decodes it again. All calls come
 * under the handle's lock, from one thread at a time, and none may wait, log, or touch a signal mask.
 *
 * Ledger: a destination answers for every event it was given: given = passed + queued + dropped[reason]. */
#ifndef GRIDLINE_CLIENT_DEST_H
#define GRIDLINE_CLIENT_DEST_H

#include "base/slice.h"
#include "event/batch.h"
#include "event/drop.h"

#include <stdint.h>

struct dest_counts {
    uint64_t given;
    uint64_t passed; /* file: written; stream: acknowledged; memory: held or dumped */
    uint64_t queued; /* in memory, on the way, or in the backup */
    uint64_t dropped[DROP_REASONS];
};

/* What a destination knows of its handle; fixed while it is open, except after a fork. */
struct dest_env {
    const char *host, *prog;
    struct batch_origin origin; /* producer and epoch */
};

struct dest;

struct dest_ops {
    const char *scheme; /* "file", "mem", "syslog", "unix", "tcp" */
    /* url is what follows "scheme:" (and "//"), without the query, which is "format=ulm&…" or empty. *out is
     * untouched on failure. Opening never waits for the other side. */
    int (*open)(struct slice url, struct slice query, const struct dest_env *env, struct dest **out);
    /* A whole block, borrowed for the call, of n events from first_seq on. Whatever happens is in the counts. */
    void (*put)(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq);
    /* Moves things along: connects, sends, reads acknowledgements, replays, retries. Returns after how many ms it
     * wants to be called again if its descriptor stays quiet; -1 = has nothing to do. NULL = nothing ever. */
    int (*pump)(struct dest *d, int64_t now_mono_ns);
    /* A descriptor to poll and the events to poll for; -1 = none. NULL = none ever. */
    int (*wait_fd)(const struct dest *d, short *events);
    void (*counts)(const struct dest *d, struct dest_counts *out);
    /* In the child: forgets what the parent had queued (it is the parent's), closes inherited descriptors without
     * a goodbye, starts with a new origin and zero counts. NULL = nothing to do. */
    void (*after_fork)(struct dest *d, const struct dest_env *env);
    /* The program's own counts for the goodbye (COUNTS, BYE): called once, right before close. NULL = not told. */
    void (*goodbye)(struct dest *d, uint64_t taken, const uint64_t dropped_before[DROP_REASONS]);
    void (*close)(struct dest *d); /* frees; whatever is still queued must already be safe or counted */
    /* Sets the backup directory. NULL = this kind has none (-ENOTSUP). */
    int (*backup)(struct dest *d, const char *dir, uint64_t max_bytes);
    /* Sets who hears of ACTIVATE frames. NULL = none come. */
    void (*on_activate)(struct dest *d, void (*call)(void *arg, struct slice list), void *arg);
};

struct dest {
    const struct dest_ops *ops;
};

extern const struct dest_ops dest_file, dest_mem, dest_syslog, dest_unix, dest_tcp;

#endif
