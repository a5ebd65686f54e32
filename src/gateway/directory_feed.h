/* SPDX-License-Identifier: Apache-2.0 */
/* directory_feed.h - what the gateway tells its directory, and what it says of that itself: the states of
 * workers, their SENSORS, every batch; and of the changes the events `directory.sensor` and
 * `directory.schema`, by which they can be watched.
 *
 * Sensors that nobody knows of because their host is late are no events: `worker.state` has said it. Nor are
 * those that a worker announces anew after a restart of the gateway, for they were there before. On the loop.
 */
#ifndef GRIDLINE_GATEWAY_DIRECTORY_FEED_H
#define GRIDLINE_GATEWAY_DIRECTORY_FEED_H

#include "directory/directory.h"
#include "event/archived.h"
#include "gateway/own.h"
#include "gateway/session.h"
#include "gateway/worker.h"

struct directory_feed_options {
    const char *domain;      /* NULL or "": that of this host, or "local" */
    const char *expect;      /* a line each (directory_expect); NULL = none */
    int64_t keep_ns;         /* 0 = a day */
    struct workers *workers; /* borrowed, as the next two */
    struct sessions *sessions;
    struct own *own;
};

struct directory_feed;
/* Has the workers that there are from the start. *why says what is wrong with `expect`. */
int directory_feed_create(const struct directory_feed_options *o, struct directory_feed **out,
                          struct diag *why);
void directory_feed_destroy(struct directory_feed *f); /* NULL is fine */
struct directory *directory_feed_directory(struct directory_feed *f);

void directory_feed_worker(struct directory_feed *f, const struct worker *w);
void directory_feed_batch(struct directory_feed *f, const struct batch *b);
/* The archive beside the gateway, as an entry `archive` of this host. */
void directory_feed_archive(struct directory_feed *f, const struct archived_state *a);
void directory_feed_tick(struct directory_feed *f, int64_t mono_ns);
/* Named numbers, for `status`. */
void directory_feed_status(const struct directory_feed *f, struct args_writer *out);

#endif
