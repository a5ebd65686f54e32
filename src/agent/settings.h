/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - what gateways have set of this agent's sensors, at run time: assigned with the lease, and
 * ordered by control. Both are the last layer of the configuration: "KEY=VALUE" each, later ones win. They
 * survive a reload and another gateway, not a restart.
 *
 * A list is changed as a whole or not at all: settings_try gives a copy with the change, the owner loads the
 * configuration with it, and keeps it only if that went well. Only keys that config_may_assign allows come
 * in. */
#ifndef GRIDLINE_AGENT_SETTINGS_H
#define GRIDLINE_AGENT_SETTINGS_H

#include "agent/config.h"
#include "net/args.h"

enum { SETTINGS_MAX = 256 };

struct settings {
    char *v[SETTINGS_MAX]; /* "KEY=VALUE", owned */
    size_t n;
    size_t n_assigned; /* the first ones are the lease's */
};

void settings_fini(struct settings *s);
void settings_copy(struct settings *to, const struct settings *from);
/* Of the lease: replaces those that it had assigned before. */
void settings_forget_assigned(struct settings *s);
/* One more, which replaces another of its key; an empty value takes it out. E_LIMIT: too many. */
int settings_put(struct settings *s, struct slice key, struct slice value, bool is_assigned);
/* A value of control or a lease as text; false: it can't be one. buffer is for numbers. */
bool settings_text(struct value v, char buffer[32], struct slice *out);

#endif
