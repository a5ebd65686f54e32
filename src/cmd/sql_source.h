/* SPDX-License-Identifier: Apache-2.0 */
/* sql_source.h - where the rows of `gridline sql` come from: a gateway (net/ask_query.h), or the folder of an
 * archive that is read by this program (archive/query.h). One query at a time. While it waits it shows
 * progress, and looks whether it is to stop (stop.h). */
#ifndef GRIDLINE_CMD_SQL_SOURCE_H
#define GRIDLINE_CMD_SQL_SOURCE_H

#include "base/err.h"
#include "event/notice.h"
#include "event/value.h"

struct sql_source_options {
    const char *gateway, *identity; /* NULL: as net/ask.h */
    const char *archive;            /* folder; NULL: a gateway */
    int64_t timeout_ns;             /* of connecting; 0 = 10 s */
    int64_t time_ns;                /* limits of a query; 0 = the default */
    uint64_t rows;
};

struct sql_source;
/* Borrows what the options name. */
int sql_source_open(const struct sql_source_options *o, struct sql_source **out, struct diag *why);
void sql_source_close(struct sql_source *s); /* NULL is fine */

/* Asks; the one before is over. *why has what is wrong, and where in the text (col). */
int sql_source_ask(struct sql_source *s, struct slice text, struct diag *why);
/* 1: a row; 0: there are no more. -ECANCELED: stop_asked(); others: it failed, *why says it. */
int sql_source_next(struct sql_source *s, struct diag *why);
/* Known with the first row, or at the end. */
size_t sql_source_columns(const struct sql_source *s);
struct slice sql_source_column(const struct sql_source *s, size_t i);
const struct value *sql_source_row(const struct sql_source *s); /* borrowed until the next call */
/* At the end: rows that damage kept out, and facts beside the rows. */
void sql_source_end(const struct sql_source *s, uint64_t *lost, struct notices *notices);

#endif
