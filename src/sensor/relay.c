/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/relay.h"

int relay_event(struct sensor_out *out, const struct event *e, struct diag *why)
{
    struct named_value values[EVENT_FIELDS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < e->schema->n_fields; i++)
        if (e->values[i].type != VALUE_NONE)
            values[n++] = (struct named_value){e->schema->fields[i].name, e->values[i]};
    const struct event_head head = {
        .time_ns = e->time_ns, .name = e->schema->name, .host = e->host, .prog = e->prog, .level = e->level};
    return sensor_event(out, &head, values, n, why);
}
