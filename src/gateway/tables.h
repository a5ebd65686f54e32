/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - the gateway's system tables for SQL (event/table.h): what the questions of control.h answer, as
 * rows. So columns, and what each may see, are those of the questions, in one place:
 *
 *     workers            hosts                      ledger           ledger
 *     sensors            sensors                    schemas          schemas
 *     subscriptions      subscriptions              schema_fields    schemas with fields=1
 *     domains            hosts, counted by domain   NAME_latest      latest
 *     faults             faults with state=all      rules            rules
 *
 * A column of a question that no row has at the moment is there all the same, and NULL: the columns that docs
 * name are declared in tables.c; further ones (properties of hosts) come with the rows. A page of the
 * question is a call of fill. On the loop. */
#ifndef GRIDLINE_GATEWAY_TABLES_H
#define GRIDLINE_GATEWAY_TABLES_H

#include "event/table.h"
#include "gateway/control.h"

struct tables;
struct tables *tables_create(struct control *c); /* borrowed; NULL: no memory */
void tables_destroy(struct tables *t);           /* NULL is fine */
/* For as long as t lives; their `who` is a struct access_identity. */
const struct table_ops *tables_ops(const struct tables *t, size_t *n);

#endif
