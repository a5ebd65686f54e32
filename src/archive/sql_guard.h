/* SPDX-License-Identifier: Apache-2.0 */
/* sql_guard.h - what a text of SQL may do, and for how long. */
#ifndef GRIDLINE_ARCHIVE_SQL_GUARD_H
#define GRIDLINE_ARCHIVE_SQL_GUARD_H

#include "archive/sql_internal.h"

enum {
    SQL_TEXT_MAX = 64 << 10,   /* bytes of a statement */
    SQL_LENGTH_MAX = 1 << 20,  /* bytes of one value, and of one row that is sorted or grouped */
    SQL_PROGRESS_STEPS = 2000, /* of SQLite's machine between two looks at the clock: some 50 us */
};

/* Around what is compiled and run for an asker: by c->limits, c->deadline_ns and c->is_cancelled. */
void sql_guard_arm(struct sql_context *c);
/* For what the engine itself does: makes tables. */
void sql_guard_disarm(struct sql_context *c);

#endif
