/* SPDX-License-Identifier: Apache-2.0 */
/* schemas.h - the schemas a command has met: each once, kept alive; and the names of all their fields. */
#ifndef GRIDLINE_CMD_SCHEMAS_H
#define GRIDLINE_CMD_SCHEMAS_H

#include "base/map.h"
#include "event/schema.h"

/* A zeroed struct is empty. */
struct schemas {
    struct map seen;           /* address (in the holder) -> holder */
    const struct schema *last; /* the one met last */
    struct map by_name;        /* field names, to have each once */
    struct slice *names;       /* in the order they were met; borrowed from the schemas */
    size_t n_names, cap_names;
};

void schemas_fini(struct schemas *s);
/* Keeps a reference to one that is new. Ends the program when out of memory, as mem_alloc does. */
void schemas_add_new(struct schemas *s, const struct schema *schema);
static inline void schemas_add(struct schemas *s, const struct schema *schema)
{
    if (s->last != schema)
        schemas_add_new(s, schema);
}

#endif
