/* SPDX-License-Identifier: Apache-2.0 */
/* rule_test.h - `gridline rule test FILE`: what the rules of a guard's configuration would have done
 * (guard/backtest.h), with events from an archive's folder or from a gateway. */
#ifndef GRIDLINE_CMD_RULE_TEST_H
#define GRIDLINE_CMD_RULE_TEST_H

#include "cmd/options.h"

struct rule_test_options {
    const char *file;
    const char *gateway, *identity, *archive;
    const char *format;
    struct option_time from, to; /* not set: a day before to; now */
    int64_t timeout_ns;
    bool is_summary; /* a row for each rule */
    bool is_all;     /* what it does, and these behind it */
    uint64_t memory; /* bytes that it may use; 0 = no limit of its own */
    bool with_defaults;
};

/* An exit code; everything that is wrong has been said. EXIT_PARTLY: a rule was not tested, or events are
 * missing. */
int rule_test_run(const struct rule_test_options *o);

#endif
