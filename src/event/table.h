/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - tables by which stages describe themselves in SQL: sensors, workers, ledger, subscriptions,
 * schemas, NAME_latest. A stage offers table_ops; cmd wires them to whoever runs SQL, which asks for the rows
 * of the tables that a text names, on the stage's own thread, and then reads them elsewhere: rows are a batch
 * of events, immutable, so nothing is shared. */
#ifndef GRIDLINE_EVENT_TABLE_H
#define GRIDLINE_EVENT_TABLE_H

#include "event/batch.h"

/* Columns are the fields of the batch's events (all of one name); none: also the heads. rows NULL: no row,
 * then columns say what there would be. */
struct table_rows {
    const char *name;            /* of the SQL table; for events' own (NAME_latest) the whole name */
    const struct schema *schema; /* what columns there are; owned */
    bool has_heads;              /* time, host, prog, level are columns, too */
    struct batch **batches;      /* n of them, owned */
    size_t n;
    /* Of who fills it, between two calls; NULL when it is whole: */
    void *filling;
    void (*end_filling)(void *filling);
};
void table_rows_fini(struct table_rows *t);
/* Takes b, also on failure: -ENOMEM. */
int table_rows_add(struct table_rows *t, struct batch *b);
/* Memory of the rows, about. */
size_t table_rows_size(const struct table_rows *t);

/* The names of those that a gateway has, but for NAME_latest: who runs SQL without one can say so. NULL
 * behind the last. */
extern const char *const table_gateway_names[];

struct table_ops {
    const char *name; /* "*_latest": of every event name */
    const char *summary;
    /* On the stage's thread. who: whom to show it to, as the stage knows people (opaque); it must live until
     * the rows are whole. name is borrowed for as long as out. 0: *out is whole. 1: a part is there, and the
     * stage's loop has other things to do; call again with the same *out on another turn. -EACCES, -ENOENT
     * (no such table here), -ENOMEM, E_LIMIT: *out is to be ended by table_rows_fini all the same. */
    int (*fill)(void *arg, const void *who, const char *name, struct table_rows *out);
    void *arg;
};

#endif
