/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - what the files of the agent's configuration share: its tables (config_table.c), the kinds of
 * values that only it has (config_value.c), and its sensors (config_sensor.c). The rest is in src/config. */
#ifndef GRIDLINE_AGENT_CONFIG_INTERNAL_H
#define GRIDLINE_AGENT_CONFIG_INTERNAL_H

#include "agent/config.h"
#include "config/load.h"

/* Scopes: the root (the agent's own keys), `output NAME`, the family SENSOR, and one for each sensor. */
extern const struct config_schema agent_schema;
extern const struct config_scope scope_output;
struct config_scope scope_of_sensor(const struct sensor_ops *ops);
/* NULL: not a sensor's. */
static inline const struct sensor_ops *scope_sensor(struct config_scope scope)
{
    return scope.of;
}
static inline bool scope_is_output(struct config_scope scope)
{
    return strcmp(scope.name, scope_output.name) == 0;
}

/* enum sensor_mode, and bool: the place in .words. */
extern const struct config_own config_own_mode, config_own_compare;
extern const struct config_own config_own_host, config_own_url; /* const char *; "" is NULL */
extern const struct config_own config_own_addresses;            /* const char *, separated by commas */
extern const struct config_own config_own_programs;             /* struct parameter_list of absolute paths */
extern const struct config_own config_own_ports, config_own_changes; /* of struct sensor_config: two members each */

extern const struct config_own config_own_names; /* const char *, separated by commas */

/* What gateways set, as if it had been given last. */
void config_take_assigned(struct config_load *l, const char *const *assigned, size_t n);
/* c->sensors from what was given. */
void config_make_sensors(struct config_load *l, struct agent_config *c);
/* Refuses the programs that the document names and c->allow_programs does not. */
void config_check_programs(struct config_load *l, const struct agent_config *c);

#endif
