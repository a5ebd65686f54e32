/* SPDX-License-Identifier: Apache-2.0 */
/* logfilter_table.h - an entry from the inside, for the table and for saving it. */
#ifndef GRIDLINE_HELPER_LOGFILTER_TABLE_H
#define GRIDLINE_HELPER_LOGFILTER_TABLE_H

#include "base/slice.h"

#include <stdint.h>

struct table_entry {
    struct table_entry *newer, *older;
    struct table_entry *next_same, *last_same; /* of a queue: of the same key, oldest first; last_same: of the first */
    struct slice key, fields; /* in bytes */
    int64_t time_ns;
    char bytes[];
};

#endif
