/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - what the files of the guard's configuration share: tables (config_table.c), the kinds
 * of values that only it has (config_value.c), rules (config_rule.c) and actions (config_action.c). */
#ifndef GRIDLINE_GUARD_CONFIG_INTERNAL_H
#define GRIDLINE_GUARD_CONFIG_INTERNAL_H

#include "actuator/actuator.h"
#include "config/load.h"
#include "guard/config.h"

/* Scopes: the root (the guard's own keys), `rule NAME`, the family ACTION, and one for each actuator. */
extern const struct config_schema guard_schema;
extern const struct config_scope scope_rule;
struct config_scope scope_of_actuator(const struct actuator_ops *ops);
/* NULL: not an actuator's. */
static inline const struct actuator_ops *scope_actuator(struct config_scope scope)
{
    return scope.of;
}
static inline bool scope_is_rule(struct config_scope scope)
{
    return strcmp(scope.name, scope_rule.name) == 0;
}

/* Enums: the place in .words. */
extern const struct config_own guard_own_severity, guard_own_no_data, guard_own_place, guard_own_crash;
extern const struct config_own guard_own_host;      /* const char *; "" = what the system says */
extern const struct config_own guard_own_addresses; /* const char *, separated by commas */
extern const struct config_own guard_own_socket;    /* const char *: unix:PATH, or "" */
extern const struct config_own guard_own_texts;     /* struct config_texts */
extern const struct config_own guard_own_columns;   /* the same: names of columns */
extern const struct config_own guard_own_quiet;     /* the same: times that quiet.h can read */
extern const struct config_own guard_own_rate;      /* of struct action_config: two members */

/* Before anything is stored: the default rules, as if they had been given before everything else. */
void config_add_defaults(struct config_load *l);
void config_add_blind(struct config_load *l);
/* Actions first: rules name them. */
void config_make_actions(struct config_load *l, struct guard_config *c);
void config_make_rules(struct config_load *l, struct guard_config *c);
/* Names of actions to their places; told what is not one. key: whose list it is. */
void config_find_actions(struct config_load *l, const struct guard_config *c,
                         const struct given_section *section, const char *key, struct action_names *out);

#endif
