/* SPDX-License-Identifier: Apache-2.0 */
/* forecast.c - the predictors, and how they are tried.
 *
 * A walk over the points in order of time, with two places in it: the point that is to be predicted, and
 * behind it by a horizon the last one that is known. Each predictor learns a point once and is asked once for
 * each, so it is points x predictors.
 *
 *     last           the newest value
 *     mean_W         of the newest W values; _all: of all
 *     median_W       the same
 *     smooth_A       level += A' (value - level)
 *     trend_W        the line of least squares through the newest W points
 *     holt_A_B       level and slope, both smoothed (Holt 1957; for irregular times as Wright 1986 has it)
 *
 * A' is 1 - (1 - A)^(dt / typical dt): what A would have forgotten had there been points in between. Typical
 * is the geometric mean of the intervals so far, which a few long gaps hardly move.
 *
 * Nobody is tested before FORECAST_LEAST points are known: a line through one or two would be off by so much
 * that it would not be believed for long.
 *
 * Sums over windows are kept by adding what comes and taking away what goes, relative to a point of the
 * window (anchor), and are made anew every W points: what rounding leaves behind, also of a spike of 1e19
 * among values of 1, is gone after that.
 *
 * Of predictors that are as good as each other (to 1e-9 of the largest value) the first of the table is
 * taken: the simpler one, and of one family the one that looks at more points. */
#include "archive/forecast.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum kind { KIND_LAST, KIND_MEAN, KIND_MEDIAN, KIND_SMOOTH, KIND_TREND, KIND_HOLT };
enum { GAIN_05, GAIN_10, GAIN_20, GAIN_50, GAIN_80, GAINS };
enum { ALL = 0, MEDIAN_MAX = 31 };
static const double gains[GAINS] = {0.05, 0.1, 0.2, 0.5, 0.8};

struct predictor {
    const char *name;
    enum kind kind;
    uint16_t window; /* points; ALL */
    uint8_t level_gain, slope_gain;
};

static const struct predictor predictors[] = {
    {.name = "last", .kind = KIND_LAST},
    {.name = "mean_all", .kind = KIND_MEAN, .window = ALL},
    {.name = "mean_50", .kind = KIND_MEAN, .window = 50},
    {.name = "mean_20", .kind = KIND_MEAN, .window = 20},
    {.name = "mean_10", .kind = KIND_MEAN, .window = 10},
    {.name = "mean_5", .kind = KIND_MEAN, .window = 5},
    {.name = "median_31", .kind = KIND_MEDIAN, .window = 31},
    {.name = "median_11", .kind = KIND_MEDIAN, .window = 11},
    {.name = "median_5", .kind = KIND_MEDIAN, .window = 5},
    {.name = "smooth_0.05", .kind = KIND_SMOOTH, .level_gain = GAIN_05},
    {.name = "smooth_0.1", .kind = KIND_SMOOTH, .level_gain = GAIN_10},
    {.name = "smooth_0.2", .kind = KIND_SMOOTH, .level_gain = GAIN_20},
    {.name = "smooth_0.5", .kind = KIND_SMOOTH, .level_gain = GAIN_50},
    {.name = "smooth_0.8", .kind = KIND_SMOOTH, .level_gain = GAIN_80},
    {.name = "trend_all", .kind = KIND_TREND, .window = ALL},
    {.name = "trend_300", .kind = KIND_TREND, .window = 300},
    {.name = "trend_100", .kind = KIND_TREND, .window = 100},
    {.name = "trend_30", .kind = KIND_TREND, .window = 30},
    {.name = "trend_10", .kind = KIND_TREND, .window = 10},
    {.name = "holt_0.1_0.05", .kind = KIND_HOLT, .level_gain = GAIN_10, .slope_gain = GAIN_05},
    {.name = "holt_0.2_0.1", .kind = KIND_HOLT, .level_gain = GAIN_20, .slope_gain = GAIN_10},
    {.name = "holt_0.5_0.1", .kind = KIND_HOLT, .level_gain = GAIN_50, .slope_gain = GAIN_10},
    {.name = "holt_0.5_0.5", .kind = KIND_HOLT, .level_gain = GAIN_50, .slope_gain = GAIN_50},
    {.name = "holt_0.8_0.2", .kind = KIND_HOLT, .level_gain = GAIN_80, .slope_gain = GAIN_20},
};
enum { PREDICTORS = sizeof predictors / sizeof *predictors };

/* Of the points from `first` on, relative to the anchor: x in seconds, y the value. */
struct sums {
    size_t first, anchor;
    double x, y, xx, xy;
};

/* What one predictor has learnt, by its kind. */
struct learnt {
    union {
        struct sums sums;
        double sorted[MEDIAN_MAX]; /* the window's values */
        struct {
            double level, slope; /* slope per second */
        };
    };
    double error, square; /* weighted sums of what was measured */
};

struct walk {
    const struct forecast_point *points;
    size_t known;       /* so many of them were learnt */
    double log_sum;     /* of the intervals between them, in seconds, */
    size_t log_n;       /* those above 0 */
    double gain[GAINS]; /* for the interval before the newest */
    struct learnt learnt[PREDICTORS];
    int64_t tested_ns;
    double weight; /* of all errors */
    size_t tests;
};

/* a is not before b. */
static double seconds_from(int64_t b, int64_t a)
{
    return (double)((uint64_t)a - (uint64_t)b) * 1e-9;
}

/* ---------------------------------------------------------------- learning */

static void set_gains(struct walk *w, double dt)
{
    double ratio = 1;
    if (dt > 0) {
        w->log_sum += log(dt);
        w->log_n++;
        ratio = dt / exp(w->log_sum / (double)w->log_n);
    }
    for (size_t i = 0; i < GAINS; i++)
        w->gain[i] = dt > 0 ? -expm1(log1p(-gains[i]) * ratio) : gains[i];
}

static void add_to_sums(struct sums *s, const struct forecast_point *points, size_t at, double sign)
{
    double y = points[at].value - points[s->anchor].value;
    double x = at >= s->anchor ? seconds_from(points[s->anchor].at_ns, points[at].at_ns)
                               : -seconds_from(points[at].at_ns, points[s->anchor].at_ns);
    s->x += sign * x;
    s->y += sign * y;
    s->xx += sign * x * x;
    s->xy += sign * x * y;
}

static void learn_sums(struct sums *s, const struct forecast_point *points, size_t at, size_t window)
{
    add_to_sums(s, points, at, 1);
    if (window == ALL || at < window)
        return;
    if (at % window) {
        add_to_sums(s, points, s->first++, -1);
        return;
    }
    *s = (struct sums){.first = at + 1 - window, .anchor = at + 1 - window};
    for (size_t i = s->first; i <= at; i++)
        add_to_sums(s, points, i, 1);
}

/* Where the value is in the sorted array, or belongs. */
static size_t place_of(const double *sorted, size_t n, double v)
{
    size_t i = 0;
    while (i < n && sorted[i] < v)
        i++;
    return i;
}

static void learn_median(double *sorted, const struct forecast_point *points, size_t at, size_t window)
{
    size_t n = at < window ? at : window;
    if (at >= window) {
        size_t old = place_of(sorted, n, points[at - window].value);
        n--;
        memmove(&sorted[old], &sorted[old + 1], (n - old) * sizeof *sorted);
    }
    size_t new = place_of(sorted, n, points[at].value);
    memmove(&sorted[new + 1], &sorted[new], (n - new) * sizeof *sorted);
    sorted[new] = points[at].value;
}

static void learn_holt(const struct walk *w, const struct predictor *p, struct learnt *l, double v, double dt)
{
    if (w->known == 0 || dt <= 0) {
        l->level = v;
        return;
    }
    double before = l->level;
    if (w->known == 1) {
        l->level = v;
        l->slope = (v - before) / dt;
        return;
    }
    double expected = before + l->slope * dt;
    l->level = expected + w->gain[p->level_gain] * (v - expected);
    l->slope += w->gain[p->slope_gain] * ((l->level - before) / dt - l->slope);
}

static void learn(struct walk *w)
{
    size_t at = w->known;
    double v = w->points[at].value, dt = at ? seconds_from(w->points[at - 1].at_ns, w->points[at].at_ns) : 0;
    set_gains(w, dt);
    for (size_t i = 0; i < PREDICTORS; i++) {
        const struct predictor *p = &predictors[i];
        struct learnt *l = &w->learnt[i];
        if (p->kind == KIND_MEAN || p->kind == KIND_TREND)
            learn_sums(&l->sums, w->points, at, p->window);
        else if (p->kind == KIND_MEDIAN)
            learn_median(l->sorted, w->points, at, p->window);
        else if (p->kind == KIND_SMOOTH)
            l->level = at ? l->level + w->gain[p->level_gain] * (v - l->level) : v;
        else if (p->kind == KIND_HOLT)
            learn_holt(w, p, l, v, dt);
    }
    w->known++;
}

/* ---------------------------------------------------------------- predicting */

static double predict_line(const struct walk *w, const struct sums *s, int64_t at_ns)
{
    double n = (double)(w->known - s->first), mean_x = s->x / n, mean_y = s->y / n;
    double spread = s->xx - s->x * mean_x, anchor = w->points[s->anchor].value;
    if (!(spread > 1e-12 * s->xx)) /* one time only, as far as can be told */
        return w->points[w->known - 1].value;
    double slope = (s->xy - s->x * mean_y) / spread;
    return anchor + mean_y + slope * (seconds_from(w->points[s->anchor].at_ns, at_ns) - mean_x);
}

static double predict_median(const struct walk *w, const struct learnt *l, size_t window)
{
    size_t n = w->known < window ? w->known : window;
    double low = l->sorted[(n - 1) / 2], high = l->sorted[n / 2];
    return low + (high - low) / 2;
}

/* At least one point is known, and at_ns is not before the newest of them. */
static double predict(const struct walk *w, size_t i, int64_t at_ns)
{
    const struct predictor *p = &predictors[i];
    const struct learnt *l = &w->learnt[i];
    const struct forecast_point *last = &w->points[w->known - 1];
    double v = last->value;
    switch (p->kind) {
    case KIND_LAST:
        break;
    case KIND_MEAN:
        v = w->points[l->sums.anchor].value + l->sums.y / (double)(w->known - l->sums.first);
        break;
    case KIND_MEDIAN:
        v = predict_median(w, l, p->window);
        break;
    case KIND_SMOOTH:
        v = l->level;
        break;
    case KIND_TREND:
        v = predict_line(w, &l->sums, at_ns);
        break;
    case KIND_HOLT:
        v = l->level + l->slope * seconds_from(last->at_ns, at_ns);
        break;
    }
    return isfinite(v) ? v : last->value;
}

/* What would each have said of the point? */
static void test(struct walk *w, const struct forecast_point *p, int64_t half_life_ns)
{
    double fade = half_life_ns && w->tests
                      ? exp2(-seconds_from(w->tested_ns, p->at_ns) / ((double)half_life_ns * 1e-9))
                      : 1;
    for (size_t i = 0; i < PREDICTORS; i++) {
        double off = fabs(predict(w, i, p->at_ns) - p->value);
        w->learnt[i].error = w->learnt[i].error * fade + off;
        w->learnt[i].square = w->learnt[i].square * fade + off * off;
    }
    w->weight = w->weight * fade + 1;
    w->tested_ns = p->at_ns;
    w->tests++;
}

/* ---------------------------------------------------------------- the choice */

static bool is_family(const char *name, struct slice method)
{
    size_t n = strcspn(name, "_");
    return slice_eq(method, slice_of(name, n));
}

static bool is_meant(size_t i, struct slice method)
{
    return method.n == 0 || slice_eq(method, slice_str(predictors[i].name)) ||
           is_family(predictors[i].name, method);
}

bool forecast_knows(struct slice method)
{
    for (size_t i = 0; i < PREDICTORS; i++)
        if (is_meant(i, method))
            return true;
    return false;
}

const char *forecast_predictor(size_t i)
{
    return i < PREDICTORS ? predictors[i].name : NULL;
}

static double largest(const struct forecast_point *points, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(points[i].value));
    return most;
}

static size_t choose(const struct walk *w, struct slice method)
{
    size_t best = PREDICTORS;
    double same = 1e-9 * largest(w->points, w->known) * w->weight;
    for (size_t i = 0; i < PREDICTORS; i++)
        if (is_meant(i, method) && (best == PREDICTORS || w->learnt[i].error + same < w->learnt[best].error))
            best = i;
    assert(best < PREDICTORS); /* the caller has asked forecast_knows */
    return best;
}

static double or_nan(double v)
{
    return isfinite(v) ? v : (double)NAN;
}

int forecast_make(const struct forecast_point *points, size_t n, const struct forecast_spec *spec,
                  struct forecast *out)
{
    struct walk w = {.points = points};
    uint64_t horizon = (uint64_t)spec->horizon_ns;
    if (n == 0)
        return E_NODATA;
    for (size_t i = 0; i < n; i++) {
        while (w.known < i && (uint64_t)points[i].at_ns - (uint64_t)points[w.known].at_ns >= horizon)
            learn(&w);
        if (w.known >= FORECAST_LEAST)
            test(&w, &points[i], spec->half_life_ns);
    }
    while (w.known < n)
        learn(&w);
    size_t best = choose(&w, spec->method);
    int64_t at_ns = spec->now_ns > INT64_MAX - spec->horizon_ns ? INT64_MAX : spec->now_ns + spec->horizon_ns;
    *out = (struct forecast){.at_ns = at_ns,
                             .value = predict(&w, best, at_ns),
                             .error = or_nan(w.learnt[best].error / w.weight), /* without tests 0 / 0 */
                             .rmse = or_nan(sqrt(w.learnt[best].square / w.weight)),
                             .predictor = predictors[best].name,
                             .points = n,
                             .tests = w.tests,
                             .last = points[n - 1].value,
                             .last_ns = points[n - 1].at_ns};
    return 0;
}
