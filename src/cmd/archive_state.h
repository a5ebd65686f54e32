/* SPDX-License-Identifier: Apache-2.0 */
/* archive_state.h - what an archive holds, for the directory of the gateway beside it; and baselines, which
 * people set there. Found out on the archiver's thread, every few seconds, and read on the loop. */
#ifndef GRIDLINE_CMD_ARCHIVE_STATE_H
#define GRIDLINE_CMD_ARCHIVE_STATE_H

#include "archive/archive.h"
#include "base/strbuf.h"
#include "event/archived.h"

#include <pthread.h>

struct archive_state {
    pthread_mutex_t lock;
    struct archived_state seen; /* with the lock, as the next two */
    struct strbuf names;
    struct archived_overflow overflow[ARCHIVED_OVERFLOW_MAX];
    /* The archiver's: */
    struct archived_state found; /* being found out */
    struct archived_overflow found_overflow[ARCHIVED_OVERFLOW_MAX];
    int64_t newest_ns, oldest_ns; /* of the events appended in this run; 0 = none */
    int64_t looked_ns;            /* monotonic; 0 = never */
    /* The loop's: */
    struct strbuf given;
    struct archived_overflow given_overflow[ARCHIVED_OVERFLOW_MAX];
};

void archive_state_init(struct archive_state *s);
void archive_state_fini(struct archive_state *s);

/* On the archiver's thread: events that were appended; and a look, if it is time for one. trouble: the error
 * that the archive has now. */
void archive_state_batch(struct archive_state *s, const struct batch *b);
void archive_state_look(struct archive_state *s, struct archive *a, int trouble);
/* On the loop; all but lag and dir. */
void archive_state_get(struct archive_state *s, struct archived_state *out);

/* The order as one allocation, for archive_state_order, which frees it: on the archiver's thread. */
void *archive_state_keep(const struct baseline_order *o);
void archive_state_order(void *kept, struct archive *a);

#endif
