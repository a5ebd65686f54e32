/* SPDX-License-Identifier: Apache-2.0 */
/* forecast.h - what a stream of numbers will be at a time ahead, and how far off that may be.
 *
 * As the Network Weather Service does it: many simple predictors run over the same history, and the one that
 * would have been the nearest so far is believed. What is known of each is measured, not assumed: of every
 * point of the history it is asked what it would have said of it a horizon before, with only what was known
 * then, and the mean of these errors is its error. So the choice is the stream's and the horizon's: of the
 * next second the last value may know most, of the next two hours the trend.
 *
 * Times need not be regular: sensors send what has changed, and things are lost. Lines are fitted to times,
 * and what smoothing forgets between two points goes by the time between them.
 *
 * Every predictor gives a number from the first point on; where its figures overflow it is the last value.
 * Pure: no I/O, no clock, no allocation. Cost: points x predictors, 0.4 us a point. */
#ifndef GRIDLINE_ARCHIVE_FORECAST_H
#define GRIDLINE_ARCHIVE_FORECAST_H

#include "base/slice.h"

#include <stdint.h>

enum { FORECAST_LEAST = 10 }; /* points that must be known before it counts what a predictor says */

struct forecast_point {
    int64_t at_ns;
    double value; /* finite */
};

struct forecast_spec {
    int64_t now_ns;       /* no point is after it */
    int64_t horizon_ns;   /* above 0 */
    int64_t half_life_ns; /* an error that is older by this counts half; 0 = all count the same */
    struct slice method;  /* a predictor ("trend_100") or a family of them ("trend"); "" = any */
};

struct forecast {
    int64_t at_ns;         /* now + horizon */
    double value;          /* finite */
    double error, rmse;    /* mean absolute and root mean square error so far; NaN: nothing is known of it */
    const char *predictor; /* whose value it is */
    size_t points, tests;  /* of the history; those of them by which errors were measured */
    double last;           /* the newest value, */
    int64_t last_ns;       /* and its time */
};

/* Is it a predictor, or a family of them? */
bool forecast_knows(struct slice method);
/* The i-th predictor's name; NULL after the last. */
const char *forecast_predictor(size_t i);

/* Points in order of time; spec->method is known. E_NODATA: there is no point. */
int forecast_make(const struct forecast_point *points, size_t n, const struct forecast_spec *spec,
                  struct forecast *out);

#endif
