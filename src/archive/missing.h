/* SPDX-License-Identifier: Apache-2.0 */
/* missing.h - what an answer lacks although it was stored: rows that retention has deleted, rows in the
 * memory of another process, rows that the archiver has not come to. Gathered while a query runs, one entry
 * an event name, and said once, as notices (event/notice.h):
 *
 *     retention   "cpu: data from 2026-11-18T09:00:00Z on; 3 h deleted by retention (size limit)"
 *     unflushed   "cpu: 120 rows since ... are only in the memory of the gateway that writes this archive;
 * ..." lag         "the archive is behind: events received after ... are not in the answer yet"
 *
 * Only the range that was asked for counts. One thread, that of the view. */
#ifndef GRIDLINE_ARCHIVE_MISSING_H
#define GRIDLINE_ARCHIVE_MISSING_H

#include "archive/view.h"
#include "event/notice.h"

enum { MISSING_NAMES = 64 }; /* those beyond are counted */

struct missing_name {
    char name[EVENT_NAME_MAX + 1];
    int64_t from_ns, to_ns; /* deleted of what was asked for; to_ns is not in. Equal: nothing is */
    uint8_t why;            /* enum gone_why */
    bool has_tier;          /* folded values of it are kept */
    uint64_t unflushed;     /* rows */
    int64_t since_ns;       /* the first of those */
};
struct missing {
    struct missing_name *names; /* NULL: none */
    size_t n, left_out;
    int64_t behind_ns; /* rows received later are not there yet; 0 = not so */
};

enum missing_of {
    MISSING_ROWS,
    MISSING_FOLDED, /* tiers are taken where raw rows are gone */
    MISSING_NEWEST  /* old rows are not asked for: none of them is missing */
};
/* The rows of the event name at from_ns to to_ns (both are in) are asked for. Cost where nothing is missing:
 * a look at what the view knows. */
void missing_see(struct missing *m, const struct view *v, struct slice name, int64_t from_ns, int64_t to_ns,
                 enum missing_of of);
void missing_say(const struct missing *m, struct notices *out);
void missing_fini(struct missing *m); /* zeroes it */

#endif
