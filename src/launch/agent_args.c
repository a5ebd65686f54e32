/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/agent_args.h"

#include <assert.h>

void agent_args(const struct agent_terms *t, const char *program, const char *out[AGENT_ARGS_MAX])
{
    size_t n = 0;
    assert(t->n_settings <= AGENT_SETTINGS_MAX);
    out[n++] = program;
    out[n++] = "--guest";
    out[n++] = "--quiet";
    out[n++] = "--config";
    out[n++] = "/dev/null"; /* a resident's is not a guest's */
    out[n++] = "--gateway";
    out[n++] = t->gateways;
    if (t->token_file) {
        out[n++] = "--token-file";
        out[n++] = t->token_file;
    }
    for (size_t i = 0; i < t->n_settings; i++) {
        out[n++] = "--set";
        out[n++] = t->settings[i];
    }
    out[n] = NULL;
}
