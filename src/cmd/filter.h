/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - which events a command lets pass, and what it fills in. No event is copied: the result is a
 * view. */
#ifndef GRIDLINE_CMD_FILTER_H
#define GRIDLINE_CMD_FILTER_H

#include "cmd/options.h"
#include "event/batch.h"

struct filter;

struct filter_options {
    const char *where;       /* a predicate (event/predicate.h); NULL = all */
    struct option_time from; /* events at this time or later */
    struct option_time to;   /* events before this time */
    const char *host, *prog; /* for events that have none; NULL = stays empty */
};

/* E_PROTO or E_LIMIT with *why filled. */
int filter_create(const struct filter_options *options, int64_t now_ns, struct filter **out,
                  struct diag *why);
void filter_destroy(struct filter *f); /* NULL is fine */

/* The events of in that pass, in *out: a view, valid until the next call and as long as in is. It has in's
 * origin only if all passed: the numbers of its events follow from their places. */
void filter_run(struct filter *f, const struct batch *in, struct batch *out);

#endif
