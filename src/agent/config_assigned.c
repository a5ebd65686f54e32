/* SPDX-License-Identifier: Apache-2.0 */
/* What gateways set: which keys they may, and as the last layer. */
#include "agent/config_internal.h"

#include "base/text.h"

#include <errno.h>

int config_may_assign(struct slice key, const struct sensor_ops **sensor, struct slice *title, struct diag *why)
{
    static const char *const allowed[] = {"every", "refresh", "change", "mode", "ports", "hold", "priority"};
    struct config_name name;
    int shown = key.n > 80 ? 80 : (int)key.n;
    if (!text_is_name(key) || !config_split_name(&agent_schema, key, &name) || !scope_sensor(name.scope))
        return diag_set(why, -EPERM, 0, "%.*s is not a sensor's key", shown, key.p);
    if (name.scope.is_titled != (name.title.n > 0))
        return diag_set(why, -EINVAL, 0, "%.*s: %s", shown, key.p,
                        name.title.n ? "this sensor has no name of its own" : "the sensor's own name is missing");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (!slice_eq_str(name.key, allowed[i]))
            continue;
        *sensor = scope_sensor(name.scope);
        *title = name.title;
        return 0;
    }
    return diag_set(why, -EPERM, 0, "%.*s: a gateway sets every, refresh, change, mode, ports, hold and priority only", shown,
                    key.p);
}

void config_take_assigned(struct config_load *l, const char *const *assigned, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sensor_ops *sensor;
        struct slice title;
        struct diag why = {0};
        if (config_may_assign(slice_of(assigned[i], strcspn(assigned[i], "=")), &sensor, &title, &why) < 0)
            (void)config_problem(l, -EPERM, NULL, NULL, "%s", why.message); /* remembered in l */
        else
            given_setting(l, assigned[i], "gateway:");
    }
}

const struct sensor_config *config_sensor(const struct agent_config *c, const struct sensor_ops *sensor,
                                          struct slice title)
{
    for (size_t i = 0; i < c->n_sensors; i++)
        if (c->sensors[i].ops == sensor && (title.n == 0 || slice_eq_str(title, c->sensors[i].name)))
            return &c->sensors[i];
    return NULL;
}
