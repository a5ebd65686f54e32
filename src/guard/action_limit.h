/* SPDX-License-Identifier: Apache-2.0 */
/* action_limit.h - when an action may run again: its rate and its breaker. Times are UTC, so that they mean
 * the same after a restart; a clock that was set back makes nothing wait longer than the limit itself. No
 * I/O. */
#ifndef GRIDLINE_GUARD_ACTION_LIMIT_H
#define GRIDLINE_GUARD_ACTION_LIMIT_H

#include "guard/config.h"

#include "base/strbuf.h"

struct action_limit {
    const struct action_config *config; /* borrowed */
    int64_t *starts;                    /* the last ones, as many as the rate allows; a ring */
    size_t n, at;                       /* how many, and the place of the next */
    uint32_t failures;                  /* in a row */
    int64_t broken_ns; /* until then nothing is tried, and then one; 0 = the breaker is closed */
    uint64_t left_out; /* notices left out that no run has told of */
};

int action_limit_init(struct action_limit *l, const struct action_config *config); /* -ENOMEM */
void action_limit_fini(struct action_limit *l);

/* When the next may start, with so many under way: now_ns or later; INT64_MAX = when one has ended. */
int64_t action_limit_next(struct action_limit *l, size_t running, int64_t now_ns);
void action_limit_start(struct action_limit *l, int64_t now_ns);
void action_limit_unstart(struct action_limit *l); /* the last start did not take place */
void action_limit_end(struct action_limit *l, bool is_done, int64_t now_ns);
/* The pause after the attempt-th failure: retry_ns, doubled each time up to retry_max_ns, and up to a quarter
 * more by chance, so that what failed together is not tried again together. */
int64_t action_limit_pause(const struct action_config *c, uint32_t attempt, uint64_t chance);

/* As a record of state.h: u8 version, 1; text name; varints left_out, failures; u64 broken_ns; u64s starts
 * that still count, the oldest first. Of more than 1,000: version 2, with a varint before them for how many
 * starts each of the u64s stands for. */
void action_limit_pack(const struct action_limit *l, struct strbuf *out);
/* The action's name, and the rest into l if that is not NULL. E_PROTO, E_VERSION. */
int action_limit_unpack(struct slice record, struct slice *name, struct action_limit *l);

#endif
