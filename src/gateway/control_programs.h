/* SPDX-License-Identifier: Apache-2.0 */
/* control_programs.h - what is on in the programs of each host: lists as ACTIVATE has them
 * (docs/protocol.md), changed a pattern at a time. A list replaces the one before in a program, so it has to
 * be kept here. One thread. */
#ifndef GRIDLINE_GATEWAY_CONTROL_PROGRAMS_H
#define GRIDLINE_GATEWAY_CONTROL_PROGRAMS_H

#include "base/map.h"

enum { PROGRAMS_PATTERNS_MAX = 64 }; /* of a host */

/* Zeroed: nothing is on or off anywhere. */
struct programs {
    struct map hosts; /* host -> struct activations */
};

void programs_fini(struct programs *p);
/* A level's name, "off", or "default": as if nobody had asked. */
bool programs_is_level(struct slice word);
/* Puts pattern at the end of the host's list, with this level (programs_is_level), or takes it out. The whole
 * list, borrowed until the next call, is in *list. E_LIMIT: too many patterns; -ENOMEM. */
int programs_set(struct programs *p, struct slice host, struct slice pattern, struct slice level,
                 struct slice *list);

#endif
