/* SPDX-License-Identifier: Apache-2.0 */
/* row_filter.h - WHERE over rows of named values: the same language as over events (event/predicate.h). A row
 * is an event of its host with its columns as fields, so a predicate sees what the asker is shown and nothing
 * else. For one question; about a microsecond a row. */
#ifndef GRIDLINE_GATEWAY_ROW_FILTER_H
#define GRIDLINE_GATEWAY_ROW_FILTER_H

#include "base/err.h"
#include "event/schema.h"
#include "net/args.h"

struct predicate;

struct row_filter {
    const char *name;        /* of the rows */
    struct predicate *where; /* NULL = all pass */
    struct registry *registry;
    int failed; /* -ENOMEM: a row could not be looked at, so the answer does not count */
};

/* name is borrowed. E_PROTO, E_LIMIT: *why says what is wrong with the predicate ("" = none); -ENOMEM.
 * row_filter_fini in any case. */
int row_filter_init(struct row_filter *f, const char *name, struct slice where, int64_t now_ns,
                    struct diag *why);
void row_filter_fini(struct row_filter *f);
/* The column `host` is the event's host, too. */
bool row_filter_passes(struct row_filter *f, struct args row);

#endif
