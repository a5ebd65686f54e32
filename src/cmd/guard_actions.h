/* SPDX-License-Identifier: Apache-2.0 */
/* guard_actions.h - the actions of a guard's configuration, looked at by who will do them. The guard knows
 * the tables of actuators; whether options fit together only gridline-act can say, which has their code (and
 * links what they need). */
#ifndef GRIDLINE_CMD_GUARD_ACTIONS_H
#define GRIDLINE_CMD_GUARD_ACTIONS_H

#include "base/strbuf.h"
#include "guard/config.h"

/* Where gridline-act is, by the configuration, or beside this program or where it is installed. A guard
 * without actions needs none: then it may be empty. */
int guard_actions_find(const struct guard_config *c, struct strbuf *act, struct diag *why);
/* Asks gridline-act about each action: a process each, ended after 10 s. -EINVAL: *why has the first that
 * can't be used. */
int guard_actions_check(const struct guard_config *c, const char *act, struct diag *why);

/* All of a configuration: its rules are compiled, its actions looked at. */
int guard_check_all(const struct guard_config *c, struct diag *why);

#endif
