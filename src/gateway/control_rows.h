/* SPDX-License-Identifier: Apache-2.0 */
/* control_rows.h - what the gateway itself knows, as rows of named values: its workers, and the accounts of
 * its ledger.
 *
 * In pages: rows come until ROWS_PAGE bytes of them are out, then the asker goes on behind the last one. So
 * an answer fits into a session's output, a look at 100,000 workers holds the loop for a page at a time, and
 * nothing has to be kept between two pages. */
#ifndef GRIDLINE_GATEWAY_CONTROL_ROWS_H
#define GRIDLINE_GATEWAY_CONTROL_ROWS_H

#include "gateway/control_choose.h"
#include "gateway/ledger.h"

enum { ROWS_PAGE = 96 << 10 };

struct rows_out {
    void *arg;
    /* false: nobody listens any more, stop. row is borrowed for the call. */
    bool (*take)(void *arg, struct args row);
};

struct rows_end {
    size_t rows;
    bool has_more;
    uint32_t worker;             /* the last one given, for `after` */
    struct frame_origin account; /* the same of the ledger */
};

/* Workers of the choice with ids above `after`, in the order of ids. boot_ns: now, for ages. choice->failed
 * says whether all could be looked at. -ENOMEM. */
int rows_of_workers(struct workers *ws, struct choice *choice, uint32_t after, int64_t boot_ns,
                    const struct rows_out *out, struct rows_end *end);
/* Accounts behind `after` (NULL: from the first), in the order of producer and epoch. With patterns: only
 * those of workers that match. -ENOMEM. */
int rows_of_accounts(const struct ledger *l, struct workers *ws, struct slice patterns,
                     const struct frame_origin *after, const struct rows_out *out, struct rows_end *end);

#endif
