// SPDX-License-Identifier: Apache-2.0
// The public header in C++, strictly: compiled only.
#include <gridline/gridline.h>

#include <string>

void log_something(gridline *g, const std::string &name)
{
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "cpp.event", (u64, "id", 1), (i64, "n", -1), (f64, "f", 0.5), (b, "ok", true),
                   (text, "t", name.c_str()), (textn, "tn", name.data(), name.size()));
    GRIDLINE_POINT(g, GRIDLINE_DEBUG, "cpp.point");
    if (name.empty())
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "cpp.nested", (u64, "id", 2));
    else
        gridline_write(g, GRIDLINE_INFO, "cpp.write", "n=%d", 1);
}
