/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in with call sites, for library_test.c. */
#include "gridline/gridline.h"

GRIDLINE_API void plugin_run(gridline *g);

void plugin_run(gridline *g)
{
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "plugin.info", (u64, "n", 1), (text, "t", "text"));
    GRIDLINE_POINT(g, GRIDLINE_DEBUG, "plugin.debug");
}
