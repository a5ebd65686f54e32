/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/actuator.h"

#define ACTUATOR(name) extern const struct actuator_ops actuator_##name;
#include "actuator/list.def"
#undef ACTUATOR

#define ACTUATOR(name) &actuator_##name,
const struct actuator_ops *const actuator_list[] = {
#include "actuator/list.def"
    NULL};
#undef ACTUATOR

const struct actuator_ops *actuator_find(struct slice name)
{
    for (size_t i = 0; actuator_list[i]; i++)
        if (slice_eq_str(name, actuator_list[i]->name))
            return actuator_list[i];
    return NULL;
}
