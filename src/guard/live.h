/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - the newest event of every stream, in columns: what rules look at.
 *
 * A table for each event name, a row for each stream (host, prog, key values), a column for each field, with
 * a type for each value of it. The event with the newest time counts; one that is older than what is there is
 * left out, and is no news of the stream. (A row that is more than a minute ahead of the time of hearing
 * gives way to any event: its clock was wrong.) Columns are arrays, so that `column op constant` over ten
 * thousand hosts is a loop over one array, and rows have an index by host. Rows of one host are found without
 * looking at others, and a scan can go by host.
 *
 * Everything is bounded: rows of a table and of all, columns, bytes of text. What does not fit is left out
 * and counted; a row that is there already is always brought up to date, but where its text has grown, or it
 * has a field that no event before had, and there is no room for that: then it is left out as well, and since
 * it was not heard then, no rule takes the old values for new ones. Rows that have not been heard of for
 * `forget` go; an event name stays, unless another needs its place and it has no row.
 *
 * One thread. Cost of an event whose stream is known: a hash of its key and a store a field, no allocation
 * but for text that grows. */
#ifndef GRIDLINE_GUARD_LIVE_H
#define GRIDLINE_GUARD_LIVE_H

#include "event/event.h"

struct live_limits {   /* 0 = the default */
    size_t rows;       /* of all tables; 1,000,000 */
    size_t tables;     /* 1,000 */
    size_t bytes;      /* of everything; 256 MiB */
    int64_t forget_ns; /* 24 h */
};

struct live_stats {
    uint64_t events, old; /* taken; left out because a newer one was there */
    uint64_t refused;     /* left out for want of room */
    uint64_t forgotten;   /* rows */
    size_t rows, tables, bytes;
    int64_t
        newest_ns; /* when anything was last heard (the time of hearing, now_ns of live_take); 0 = never */
};

struct live;
struct live_table;

int live_create(const struct live_limits *limits, struct live **out);
void live_destroy(struct live *l); /* NULL is fine */

/* now_ns: when it was heard, by the clock that rules see (UTC; a back-test's own). 0; 1: older than what is
 * there; E_LIMIT, -ENOMEM: left out and counted. Key fields are those of the schema's role. */
int live_take(struct live *l, const struct event *e, int64_t now_ns);
/* Lets go what has not been heard of for `forget`. Bounded work: some rows a call. */
void live_forget(struct live *l, int64_t now_ns);
/* The clock that now_ns is of was set by so much: what was heard is as long ago as it was before. Costs a
 * look at each row. */
void live_shift(struct live *l, int64_t by_ns);
void live_stats(const struct live *l, struct live_stats *out);

/* By the name in SQL ("job_state" for job.state) or the event's own; NULL. Good until the next live_take. */
struct live_table *live_find(struct live *l, struct slice name);
/* Has the host (any, if it is empty) been heard of in this table at or after since_ns? One look-up. */
bool live_is_fresh(const struct live_table *t, struct slice host, int64_t since_ns);
/* Calls fn for each host of the table with when it was last heard; a negative result ends it and is returned.
 */
int live_hosts(const struct live_table *t, int (*fn)(void *arg, struct slice host, int64_t heard_ns),
               void *arg);

#endif
