/* SPDX-License-Identifier: Apache-2.0 */
/* agent_verb.h - what the options of the agent are stored in. */
#ifndef GRIDLINE_CMD_AGENT_VERB_H
#define GRIDLINE_CMD_AGENT_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"

struct agent_main {
    const char *config, *gateway, *output, *ready_file, *token_file;
    struct option_texts settings;
    bool is_guest, quiet;
};

#endif
