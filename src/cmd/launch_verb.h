/* SPDX-License-Identifier: Apache-2.0 */
/* launch_verb.h - what the options of `gridline launch` and `gridline pinhole` are stored in. */
#ifndef GRIDLINE_CMD_LAUNCH_VERB_H
#define GRIDLINE_CMD_LAUNCH_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"

struct launch_main {
    const char *gateway, *token_file, *pinhole, *agent, *cgroup, *job;
    struct option_texts settings;
    int64_t timeout_ns;
    bool quiet;
};

struct pinhole_main {
    const char *socket, *gateway, *token_file, *agent, *cgroup, *ready_file;
    struct option_texts settings, users;
    int64_t timeout_ns;
    bool quiet;
};

#endif
