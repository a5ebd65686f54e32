/* SPDX-License-Identifier: Apache-2.0 */
/* sql_latest.h - where the newest row of each stream is. */
#ifndef GRIDLINE_ARCHIVE_SQL_LATEST_H
#define GRIDLINE_ARCHIVE_SQL_LATEST_H

#include "archive/sql_filter.h"

#include "base/map.h"

struct sql_latest {
    struct sql_context *context;
    struct map streams; /* by key */
    struct arena arena;
    size_t charged; /* bytes, to the statement's account */
};

/* Looks at all chunks that spec asks for, reading none. 0, E_LIMIT (memory), -ENOMEM, -ETIMEDOUT... */
int sql_latest_find(struct sql_latest *l, const struct scan_spec *spec, struct scan_loss *counted);
/* Is it the one that has the newest row of its stream? */
bool sql_latest_is(const struct sql_latest *l, const struct scan_chunk *c);
void sql_latest_fini(struct sql_latest *l); /* a zeroed one is fine */

#endif
