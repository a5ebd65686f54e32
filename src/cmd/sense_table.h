/* SPDX-License-Identifier: Apache-2.0 */
/* sense_table.h - events for a person: one field a line, with unit, and for counters the rate since the last sample. */
#ifndef GRIDLINE_CMD_SENSE_TABLE_H
#define GRIDLINE_CMD_SENSE_TABLE_H

#include "event/batch.h"

struct sense_table;
/* has_rates: there will be more than one sample. */
struct sense_table *sense_table_create(bool has_rates);
void sense_table_destroy(struct sense_table *t); /* NULL is fine */
/* To standard output; -errno. */
int sense_table_print(struct sense_table *t, const struct batch *b);

#endif
