/* SPDX-License-Identifier: Apache-2.0 */
/* threshold.h - is a sample worth sending? (DG-7)
 *
 * A sensor is sampled every δt. A sample is sent if a field moved by more than its δr, and anyway when
 * nothing was sent for Δt. Moved from what? The seed compares with the sample before: a value that creeps by
 * less than δr each time then never counts, however far it gets. So the default is the value last sent; the
 * seed's rule is there for who wants it
 * (`compare = previous`).
 *
 * Without any δr every change counts (δr = 0). With some, fields that are not named do not count, unless "*"
 * gives their δr. Text, bools, and a value that comes or goes, count as moved whenever they change and their
 * field counts at all. Cost: a compare a field. */
#ifndef GRIDLINE_AGENT_THRESHOLD_H
#define GRIDLINE_AGENT_THRESHOLD_H

#include "agent/config.h"

enum limit_kind { LIMIT_ABSOLUTE, LIMIT_PERCENT, LIMIT_NEVER };

struct limit {
    double by;
    enum limit_kind kind;
};

/* Fills one limit a field of the schema. */
void limits_resolve(const struct change_limit *changes, size_t n, const struct sensor_schema *schema,
                    struct limit *out);
/* Did any field move by more than its limit from before to now? Key fields are not looked at. */
bool limits_passed(const struct limit *limits, const struct schema *schema, const struct value *before,
                   const struct value *now);

#endif
