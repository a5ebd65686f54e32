/* SPDX-License-Identifier: Apache-2.0 */
/* act_verb.h - what the options of `gridline act` are stored in. */
#ifndef GRIDLINE_CMD_ACT_VERB_H
#define GRIDLINE_CMD_ACT_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"

struct act_options {
    bool list, check, dry_run;
    const char *format;
    struct option_texts data;
    int64_t timeout_ns;
};

/* An exit code. In gridline-act alone. */
int act_run(const struct act_options *o, struct operands words);

#endif
