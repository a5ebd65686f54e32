/* SPDX-License-Identifier: Apache-2.0 */
/* agent_args.h - the one command line that a launched agent has: a guest of these gateways, with no configuration of
 * the host's. */
#ifndef GRIDLINE_LAUNCH_AGENT_ARGS_H
#define GRIDLINE_LAUNCH_AGENT_ARGS_H

#include <stddef.h>

enum { AGENT_SETTINGS_MAX = 64, AGENT_ARGS_MAX = 16 + 2 * AGENT_SETTINGS_MAX };

struct agent_terms {
    const char *gateways;
    const char *token_file; /* NULL = none */
    const char *const *settings; /* "KEY=VALUE" */
    size_t n_settings;
};

/* program is argv[0]. Everything is borrowed. */
void agent_args(const struct agent_terms *t, const char *program, const char *out[AGENT_ARGS_MAX]);

#endif
