/* SPDX-License-Identifier: Apache-2.0 */
/* row.h - an event as one run of bytes, for a sorter: quick to make and to read back, exact, and of no
 * meaning outside this process (it holds the schema's address). */
#ifndef GRIDLINE_CMD_ROW_H
#define GRIDLINE_CMD_ROW_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "event/event.h"

/* Appends e, without its time. The caller keeps e->schema alive as long as the row (schemas.h). */
void row_write(struct strbuf *out, const struct event *e);
/* What row_write wrote; copied to the arena. -ENOMEM. */
int row_read(struct slice row, int64_t time_ns, struct arena *arena, struct event *out);

#endif
