/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - what the guard must not forget: faults, silences, actions under way. Records by (kind, id) in a
 * journal (journal.h): a put replaces the one before, a drop ends it. state_commit makes everything put so
 * far durable at once, all or nothing; it survives kill -9 and loss of power. Now and then all records that
 * live are written again behind a mark, and what is before goes. One thread; the journal's rules for errors
 * hold. */
#ifndef GRIDLINE_GUARD_STATE_H
#define GRIDLINE_GUARD_STATE_H

#include "base/slice.h"

#include <stdint.h>

enum state_kind { STATE_FAULT = 1, STATE_SILENCE = 2, STATE_ACTION = 3, STATE_COUNTER = 4 };

struct journal_io;
struct state;
/* Reads what is there: fn for each record that lives, kind by kind in this order. damaged (may be NULL) says
 * how many records could not be read. -EBUSY: another guard has it. io NULL = libc. */
int state_open(const char *path, const struct journal_io *io,
               void (*fn)(void *arg, enum state_kind kind, uint64_t id, struct slice record), void *arg,
               uint64_t *damaged, struct state **out);
void state_close(struct state *s); /* what is not committed is forgotten; NULL is fine */

int state_put(struct state *s, enum state_kind kind, uint64_t id, struct slice record); /* -ENOMEM, E_LIMIT */
int state_drop(struct state *s, enum state_kind kind, uint64_t id);
/* 0, or a negative code: nothing of it counts as done; it may be called again. */
int state_commit(struct state *s);
bool state_is_dirty(const struct state *s);

struct state_stats {
    size_t records;
    uint64_t bytes;      /* of the journal */
    uint64_t live_bytes; /* about what the records that live take of it */
};
void state_stats(const struct state *s, struct state_stats *out);
/* For tests, which take less: how many bytes of the journal besides what lives (three times that) are not
 * worth a snapshot (4 MiB), and how many bytes of a group are in one record of the journal (1 MiB). */
void state_sizes(struct state *s, uint64_t slack, size_t part_max);

#endif
