/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - one event. A plain value that borrows everything from its batch. */
#ifndef GRIDLINE_EVENT_EVENT_H
#define GRIDLINE_EVENT_EVENT_H

#include "base/slice.h"
#include "event/level.h"
#include "event/schema.h"
#include "event/value.h"

#include <stdint.h>

struct event {
    int64_t time_ns;             /* global time, UTC */
    struct slice host;           /* where it was measured; "" = not known */
    struct slice prog;           /* "" = not known */
    const struct schema *schema; /* schema->name is the event's name */
    const struct value *values;  /* schema->n_fields of them; VALUE_NONE = this event has no such field */
    uint8_t level;
};

/* Same time, host, prog, level, name, and the same set of (field, type, value): order and the schema version
 * behind them do not matter. */
bool event_eq(const struct event *a, const struct event *b);

/* The event's value of that name, of whatever type; VALUE_NONE when it has none. */
struct value event_get(const struct event *e, struct slice name);

#endif
