/* SPDX-License-Identifier: Apache-2.0 */
/* psi.h - the kernel's pressure files, of the host and of control groups:
 *
 *     some avg10=1.28 avg60=1.08 avg300=1.16 total=6025876566
 *     full avg10=0.00 avg60=0.00 avg300=0.00 total=0
 *
 * `some` is the share of time in which at least one task waited for the resource, `full` that in which all did. */
#ifndef GRIDLINE_SENSOR_PSI_H
#define GRIDLINE_SENSOR_PSI_H

#include "base/slice.h"
#include "event/value.h"

enum psi_value {
    PSI_SOME_AVG10,
    PSI_SOME_AVG60,
    PSI_SOME_AVG300,
    PSI_SOME_TOTAL,
    PSI_FULL_AVG10,
    PSI_FULL_AVG60,
    PSI_FULL_AVG300,
    PSI_FULL_TOTAL,
    PSI_VALUES
};

/* Averages are floats in percent, totals uints in microseconds; what is not there is VALUE_NONE (a kernel may have
 * one line without the other). Lines that are cut count as not there. */
void psi_take(struct slice text, struct value values[PSI_VALUES]);

#endif
