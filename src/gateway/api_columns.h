/* SPDX-License-Identifier: Apache-2.0 */
/* api_columns.h - rows of named values (net/args.h) as columns, a block of rows at a time: for answers of
 * very many rows, in which names are always the same and values mostly (the directory of 100,000 sensors is
 * 3 MB so, and 36 as ndjson). Pure but for memory.
 *
 *     {"rows":3,"columns":{"host":["a","b","c"],"sensor":{"of":["cpu","disk"],"at":[0,1,0]},
 *                          "status":{"all":"running"}}}
 *
 * A column is an array of values; or the few different ones and which of them each row has; or the one that
 * all rows have. null: the row has none. Values are as in api_rows.h. */
#ifndef GRIDLINE_GATEWAY_API_COLUMNS_H
#define GRIDLINE_GATEWAY_API_COLUMNS_H

#include "base/err.h"
#include "net/args.h"

enum {
    COLUMNS_MAX = 512,      /* different names in an answer */
    COLUMNS_FEW = 64,       /* different values that are told by their numbers */
    COLUMNS_FIRST = 256,    /* rows of the first block, so that there is something to see, */
    COLUMNS_ROWS = 4096,    /* of the others, */
    COLUMNS_BYTES = 1 << 20 /* or so much text */
};

struct columns;
/* wanted: names by commas, "" = all; borrowed for the call. NULL: no memory. */
struct columns *columns_create(struct slice wanted);
void columns_destroy(struct columns *c); /* NULL is fine */

/* Of a name that comes twice the last counts. text, for a person, is column `text` if not "" and the row has
 * none. E_LIMIT: there are too many names; -ENOMEM. */
int columns_add(struct columns *c, struct args row, struct slice text);
/* Is the block complete? */
bool columns_full(const struct columns *c);
/* A line with the block, if it has rows; the next one begins. -ENOMEM. */
int columns_put(struct columns *c, struct strbuf *out);

#endif
