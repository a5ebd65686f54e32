/* SPDX-License-Identifier: Apache-2.0 */
/* guard_verb.h - what the options of the guard are stored in. */
#ifndef GRIDLINE_CMD_GUARD_VERB_H
#define GRIDLINE_CMD_GUARD_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"

struct guard_main {
    const char *config, *gateway, *ready_file;
    struct option_texts settings;
    bool is_check, quiet;
};

#endif
