/* SPDX-License-Identifier: Apache-2.0 */
#include "event/table.h"

#include "base/mem.h"

#include <errno.h>

const char *const table_gateway_names[] = {"workers",       "sensors", "subscriptions", "ledger", "schemas",
                                           "schema_fields", "domains", "faults",        "rules",  NULL};

void table_rows_fini(struct table_rows *t)
{
    if (t->end_filling && t->filling)
        t->end_filling(t->filling);
    for (size_t i = 0; i < t->n; i++)
        batch_unref(t->batches[i]);
    mem_free(t->batches);
    schema_unref(t->schema);
    *t = (struct table_rows){0};
}

/* Room doubles: whether n is a power of two says that it is used up. */
int table_rows_add(struct table_rows *t, struct batch *b)
{
    if ((t->n & (t->n - 1)) == 0) {
        struct batch **batches = mem_try_resize(t->batches, (t->n ? t->n * 2 : 1) * sizeof(struct batch *));
        if (!batches) {
            batch_unref(b);
            return -ENOMEM;
        }
        t->batches = batches;
    }
    t->batches[t->n++] = b;
    return 0;
}

size_t table_rows_size(const struct table_rows *t)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->n; i++)
        bytes += t->batches[i]->size_bytes;
    return bytes;
}
