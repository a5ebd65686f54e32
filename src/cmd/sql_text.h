/* SPDX-License-Identifier: Apache-2.0 */
/* sql_text.h - SQL as it is typed: where a statement ends, and where in it something is wrong. Pure
 * functions. */
#ifndef GRIDLINE_CMD_SQL_TEXT_H
#define GRIDLINE_CMD_SQL_TEXT_H

#include "base/strbuf.h"

/* How many bytes the first statement of text takes, its `;` included; 0: it has none that is whole. What is
 * in quotes and comments ends nothing. */
size_t sql_text_end(struct slice text);
/* Is there nothing in it but blanks, comments and `;`? */
bool sql_text_is_empty(struct slice text);
/* The line of text that has the column-th byte (from 1), and a line with a ^ below it; nothing if there is
 * none. */
void sql_text_point(struct strbuf *out, struct slice text, uint32_t column);

#endif
