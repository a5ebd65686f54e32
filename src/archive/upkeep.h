/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.h - what an archive needs besides rows: small chunks are merged (merge.h), tiers are made (tier.h),
 * what is too old or too much goes (retain.h). On the writer's thread, in small steps, whenever that has
 * nothing else to do.
 *
 * A partition of raw rows is closed when its end is past by options.late_ns: then it is merged, its tiers are
 * made of it one by one, and each is merged. Late rows that come after that are merged and added to the tiers
 * in their turn. Rows whose age is past, by event name and day, are left out when it is merged; when all are,
 * the file goes. Event names that are kept (partition_keep) stay until then, and do not give way to a full
 * disk or the size limit. Tiers have ages of their own. When the archive is larger than it may be, the oldest
 * rows give way first, the newest partition never; then the finest tiers. What gives way for want of room is
 * counted (archive_counts.shed); nothing is taken away by age or size before its tiers were made, unless they
 * can't be. */
#ifndef GRIDLINE_ARCHIVE_UPKEEP_H
#define GRIDLINE_ARCHIVE_UPKEEP_H

#include "archive/archive.h"
#include "archive/tier.h"

/* The catalogue's setting that has options.keep, for who writes the archive when no gateway has it. */
#define UPKEEP_KEEP_SETTING "keep"

struct upkeep_options {
    const char *keep;            /* raw rows, by event name: "cpu*=30d, *=7d". NULL = all 7 days */
    int64_t keep_tier_ns[TIERS]; /* 0 = 30 days, 180 days, 5 years */
    uint64_t size_bytes;         /* of the folder with all that is in it; 0 = 10 GiB */
    int64_t late_ns;             /* 0 = an hour */
    /* A partition goes: `what` says why, in words for a log. NULL = nobody asks. */
    void (*gone)(void *arg, const char *name, uint64_t rows, const char *what);
    void *arg;
};

struct upkeep_counts {
    uint64_t merges, tiers, doubled, dropped, damaged; /* commits; rows */
    uint64_t removed, removed_rows;                    /* partitions; whatever for */
    uint64_t size_bytes;                               /* of the folder, when it was looked at last */
};

struct upkeep;
/* Borrows a. E_PROTO: options.keep is wrong, *why. */
int upkeep_create(struct archive *a, const struct upkeep_options *o, struct upkeep **out, struct diag *why);
void upkeep_destroy(struct upkeep *u); /* NULL is fine; before the archive is closed */
/* A step of what is due; utc_ns: now. 1: there is more to do at once; 0: nothing for a while (call again in a
 * second or so). Errors are of one partition, which is left alone for a while: say it, and go on. */
int upkeep_step(struct upkeep *u, int64_t utc_ns);
/* A flush has failed for want of room: gives up the reserve, then the oldest partition, ... 1: there is more
 * room, try again; 0: there is nothing to give but the newest rows: they stay in the heads and in their
 * source. */
int upkeep_make_room(struct upkeep *u);
struct upkeep_counts upkeep_counts(const struct upkeep *u);

#endif
