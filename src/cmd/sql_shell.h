/* SPDX-License-Identifier: Apache-2.0 */
/* sql_shell.h - `gridline sql` at a terminal: statements over several lines up to a `;`, commands that begin
 * with a dot, history, completion of keywords, tables and columns. Ctrl-C cancels the query that runs, or
 * drops what was typed; Ctrl-D ends. */
#ifndef GRIDLINE_CMD_SQL_SHELL_H
#define GRIDLINE_CMD_SQL_SHELL_H

#include "cmd/sql_source.h"

struct sql_shell_options {
    struct sql_source *source;
    /* Runs a statement and prints its rows; what is wrong has been said. An exit code. */
    int (*run)(void *arg, struct slice statement);
    void *arg;
};
/* An exit code. */
int sql_shell_run(const struct sql_shell_options *o);

#endif
