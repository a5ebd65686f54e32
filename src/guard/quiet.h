/* SPDX-License-Identifier: Apache-2.0 */
/* quiet.h - times of the day and of the week, as the clock on the wall shows them:
 *
 *     22:00-06:00            each night, across midnight
 *     sat,sun                whole days
 *     mon-fri 18:00-08:00    from 18:00 of each of these days to 08:00 of the next: of Friday to Saturday's
 *     00:00-24:00 utc        by UTC, not by the guard's time zone (TZ)
 *
 * It is quiet at a time if what the wall clock shows then lies in one of them; the end is outside. So on the
 * day when clocks go back an hour both 02:30 count, and when they go ahead the hour that is left out can't.
 */
#ifndef GRIDLINE_GUARD_QUIET_H
#define GRIDLINE_GUARD_QUIET_H

#include "base/err.h"
#include "base/slice.h"

struct quiet {
    uint8_t days;         /* bit 0 = Sunday: the days on which it begins */
    uint16_t from, until; /* minutes of the day; until <= from: of the next day */
    bool is_utc;
};

/* E_PROTO: *why with the column. */
int quiet_parse(struct slice text, struct quiet *out, struct diag *why);
bool quiet_is(const struct quiet *q, size_t n, int64_t now_ns);
/* When that may change: at the latest a quarter of an hour from now, as zones change their clocks by those.
 * INT64_MAX without any. */
int64_t quiet_next(const struct quiet *q, size_t n, int64_t now_ns);

#endif
