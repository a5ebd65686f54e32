/* SPDX-License-Identifier: Apache-2.0 */
/* sql_print.h - rows of a query on standard output: a table for people, JSON, NDJSON, CSV, or events in an
 * encoding.
 *
 * As events: a result with columns `time` (nanoseconds, or ISO 8601) and `host`, and a name: a column `name`
 * or `event`, or the one that is given. `prog` and `level` are the event's own, too, if they are there; the
 * other columns are its fields, NULL is no field.
 *
 * Errors have been said when a call returns them; -EPIPE has not. */
#ifndef GRIDLINE_CMD_SQL_PRINT_H
#define GRIDLINE_CMD_SQL_PRINT_H

#include "event/notice.h"
#include "event/value.h"

#include <stddef.h>

enum sql_print_kind { SQL_PRINT_TABLE, SQL_PRINT_JSON, SQL_PRINT_NDJSON, SQL_PRINT_CSV, SQL_PRINT_EVENTS };

struct encoding;
struct sql_print_format {
    enum sql_print_kind kind;
    const struct encoding *encoding; /* EVENTS */
    const char *event;               /* EVENTS: the name of all; NULL = by a column */
};
/* A name as in --format; NULL: a table. false after having said what there is. */
bool sql_print_format(const char *name, struct sql_print_format *out);

struct sql_printer;
/* Of one result. names are borrowed for the call. */
int sql_printer_create(const struct sql_print_format *f, const struct slice *names, size_t n,
                       struct sql_printer **out);
int sql_printer_row(struct sql_printer *p, const struct value *values);
/* The end; of JSON with what went wrong. lost as in event/query.h. */
int sql_printer_end(struct sql_printer *p, int r, const char *why, uint64_t lost,
                    const struct notices *notices);
void sql_printer_destroy(struct sql_printer *p); /* NULL is fine */

#endif
