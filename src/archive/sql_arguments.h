/* SPDX-License-Identifier: Apache-2.0 */
/* sql_arguments.h - arguments of a table function, which for SQLite are hidden columns behind the visible
 * ones: f(a, b) and f WHERE a = ... AND b = ... are the same. */
#ifndef GRIDLINE_ARCHIVE_SQL_ARGUMENTS_H
#define GRIDLINE_ARCHIVE_SQL_ARGUMENTS_H

#include "archive/sql_internal.h"

enum { SQL_ARGUMENTS_MAX = 8 };

/* For xBestIndex: `first` is the column of the first of n arguments, the first `required` of which must be
 * given; usage: what is said if they are not. */
int sql_arguments_plan(struct sql_context *c, sqlite3_index_info *info, int first, int required, int n,
                       const char *usage);
/* For xFilter: out[i], n of them, NULL where it was not given (or is NULL). */
void sql_arguments_take(int plan, int argc, sqlite3_value **argv, sqlite3_value **out, int n);
/* Text of an argument; "" for NULL. Good as long as argv is. */
struct slice sql_argument_text(sqlite3_value *v);

#endif
