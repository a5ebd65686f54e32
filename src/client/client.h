/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - what the parts of libgridline that sit on top of a handle (points, self, signals) may ask of it.
 *
 * They write events like any user: GRIDLINE_EVENT with a static site where it must be signal-safe
 * (gridline_on_signal), gridline_write_values everywhere else. Neither waits, takes the handle's lock or
 * calls back into a point. */
#ifndef GRIDLINE_CLIENT_CLIENT_H
#define GRIDLINE_CLIENT_CLIENT_H

#include "client/dest.h"
#include "gridline/gridline.h"

#include <stdbool.h>
#include <stdint.h>

/* Host, prog and origin of the handle. Borrowed, valid while it is open. Host changes only by
 * gridline_set_host, the origin in a child after fork. */
const struct dest_env *client_env(const struct gridline *g);

struct point;

/* What a kind of point does. None may be NULL. */
struct point_ops {
    /* Writes the last report. Called once, from gridline_close, before the rings are emptied for the last
     * time. */
    void (*report_on_close)(struct point *p);
    /* Writes a report if its interval is over. Called about every 20 ms by the writer thread; without one, by
     * calls that write out (flush, poll, a ring half full or a second old), never from a signal handler. No
     * lock is held; one thread at a time a handle. */
    void (*report_if_due)(struct point *p, int64_t now_mono_ns);
    void (*destroy)(struct point *p); /* frees p and its name */
    /* In the child after fork: what was counted so far is the parent's, whose report will have it. Called by
     * the one thread there is. */
    void (*after_fork)(struct point *p);
};

/* The head of a counter, timer, summary or histogram. Points belong to their handle and live as long. */
struct point {
    const struct point_ops *ops;
    struct gridline *g;         /* set by client_add_point */
    struct point *_Atomic next; /* the handle's */
    char *name;                 /* owned */
};

/* The lock of the list of points: held for find and add only, never while anything is written out, so it is
 * short.
 *
 *     client_points_lock(g);
 *     struct point *p = client_find_point(g, &counter_ops, name);
 *     if (!p && (p = counter_create(name)))
 *         client_add_point(g, p);
 *     client_points_unlock(g);
 */
void client_points_lock(struct gridline *g);
void client_points_unlock(struct gridline *g);
/* NULL when there is none of that kind and name. The lock is held. */
struct point *client_find_point(struct gridline *g, const struct point_ops *ops, const char *name);
/* Takes p; can't fail. The lock is held. */
void client_add_point(struct gridline *g, struct point *p);

/* Would an event of this name and level be written now? Signal-safe: no lock. Lets a point skip work. */
bool client_is_on(struct gridline *g, int level, const char *event);

#endif
