/* SPDX-License-Identifier: Apache-2.0 */
/* The public header in C, strictly, as early as C99: compiled only. */
#include <gridline/gridline.h>

void log_something(gridline *g, const char *name);

void log_something(gridline *g, const char *name)
{
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "c.event", (u64, "id", 1), (i64, "n", -1), (f64, "f", 0.5), (b, "ok", 1),
                   (text, "t", name), (textn, "tn", name, strlen(name)));
    GRIDLINE_POINT(g, GRIDLINE_DEBUG, "c.point");
    if (*name)
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "c.nested", (u64, "id", 2));
    else
        gridline_write(g, GRIDLINE_INFO, "c.write", "n=%d", 1);
}
