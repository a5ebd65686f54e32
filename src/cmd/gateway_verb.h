/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_verb.h - what the options of the gateway are stored in. */
#ifndef GRIDLINE_CMD_GATEWAY_VERB_H
#define GRIDLINE_CMD_GATEWAY_VERB_H

#include "cmd/options.h"
#include "cmd/verbs.h"
#include "gateway/gateway.h"

struct gateway_main {
    struct gateway_options gateway;
    const char *dump;
    bool quiet;
};

#endif
