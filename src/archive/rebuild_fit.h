/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_fit.h - a straight line through a few weighted points. */
#ifndef GRIDLINE_ARCHIVE_REBUILD_FIT_H
#define GRIDLINE_ARCHIVE_REBUILD_FIT_H

#include <stddef.h>

struct fit_point {
    double x, y;
};
struct fit {
    double y, error; /* error NaN: two points tell nothing about it */
};

/* The line's value at x = 0 by least squares, points weighted by (1 - |x / reach|^3)^3 with a reach just
 * beyond the farthest; its error is that of a prediction: of the line, and of a point around it. Two points
 * at least, not all at one x. */
struct fit fit_line(const struct fit_point *points, size_t n);

#endif
