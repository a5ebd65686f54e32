/* SPDX-License-Identifier: Apache-2.0 */
/* point.h - what counters, timers, summaries and histograms share: being found or made by name, and writing
 * their event. */
#ifndef GRIDLINE_CLIENT_POINT_H
#define GRIDLINE_CLIENT_POINT_H

#include "client/client.h"

/* Makes a point, zeroed but for what it is itself: ops, g, name and next are filled in by point_get. args are
 * those of the caller of point_get. NULL: no memory, or an argument is out of range. */
typedef struct point *(*point_create_fn)(const void *args);

/* The handle's point of that kind and name, made if there is none. NULL for a NULL handle, a name the event
 * model does not allow, or no memory. Leaves errno alone. */
struct point *point_get(gridline *g, const struct point_ops *ops, const char *name, point_create_fn create,
                        const void *args);

/* Writes the point's event. What can't be written is in the handle's counts. */
void point_write(const struct point *p, int level, const struct gridline_value *values, size_t n);

/* Frees the name; for the destroy function of a kind. */
void point_fini(struct point *p);

/* For kinds that have no interval. */
void point_never_due(struct point *p, int64_t now_mono_ns);

#define POINT_INT(key, value) ((struct gridline_value){.name = (key), .type = 'i', .v.i = (value)})
/* A number that is never negative nor near 2^63. Int all the same: it is what every text format writes as it
 * is. */
#define POINT_COUNT(key, value) ((struct gridline_value){.name = (key), .type = 'i', .v.i = (int64_t)(value)})
#define POINT_FLOAT(key, value) ((struct gridline_value){.name = (key), .type = 'f', .v.f = (value)})
#define POINT_TEXT(key, text, length) \
    ((struct gridline_value){.name = (key), .type = 't', .v.p = (text), .n = (length)})

#endif
