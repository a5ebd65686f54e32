/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_verb.h - what the options of the gateway are stored in. */
#ifndef GRIDLINE_CMD_GATEWAY_VERB_H
#define GRIDLINE_CMD_GATEWAY_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"
#include "event/encoding.h"

struct gateway_main {
    const char *config;
    /* Short ways to say -s KEY=VALUE; NULL = not given. */
    const char *listen, *socket, *udp, *lease, *renew, *state_dir, *journal, *journal_max, *ledger,
        *ready_file, *identity;
    const struct encoding *print;
    struct option_texts settings;
    const char *dump;
    bool is_insecure, is_check, quiet;
};

#endif
