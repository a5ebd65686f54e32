/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rebuild_fit.h"

#include <math.h>

static double weight(double x, double reach)
{
    double u = fabs(x) / reach;
    double v = 1 - u * u * u;
    return v * v * v;
}

struct fit fit_line(const struct fit_point *points, size_t n)
{
    double reach = 0, sw = 0, sx = 0, sy = 0, sww = 0;
    for (size_t i = 0; i < n; i++)
        reach = fmax(reach, fabs(points[i].x));
    reach = reach > 0 ? reach * 1.25 : 1;
    for (size_t i = 0; i < n; i++) {
        double w = weight(points[i].x, reach);
        sw += w;
        sww += w * w;
        sx += w * points[i].x;
        sy += w * points[i].y;
    }
    double mx = sx / sw, my = sy / sw, sxx = 0, sxy = 0, rest = 0;
    for (size_t i = 0; i < n; i++) {
        double w = weight(points[i].x, reach), dx = points[i].x - mx;
        sxx += w * dx * dx;
        sxy += w * dx * (points[i].y - my);
    }
    double slope = sxx > 0 ? sxy / sxx : 0;
    for (size_t i = 0; i < n; i++) {
        double off = points[i].y - (my + slope * (points[i].x - mx));
        rest += weight(points[i].x, reach) * off * off;
    }
    struct fit f = {my - slope * mx, (double)NAN};
    if (n < 3)
        return f;
    /* As many points as the weights are worth, less the two that the line takes. */
    double worth = sw * sw / sww, freedom = worth - 2 > 1 ? worth - 2 : 1;
    double variance = rest / sw * worth / freedom;
    f.error = sqrt(variance * (1 + 1 / worth + mx * mx * sw / (sxx > 0 ? sxx : 1) / worth));
    return f;
}
