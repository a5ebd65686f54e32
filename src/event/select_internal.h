/* SPDX-License-Identifier: Apache-2.0 */
/* select_internal.h - what select.c and select_options.c share: the options as they are understood. */
#ifndef GRIDLINE_EVENT_SELECT_INTERNAL_H
#define GRIDLINE_EVENT_SELECT_INTERNAL_H

#include "base/arena.h"
#include "event/predicate.h"
#include "event/select.h"

/* A long double holds every int64, uint64 and double as it is, on x86-64 and aarch64. */
struct select_cross {
    struct slice field;   /* "" = not asked for, as in all of these */
    long double up, down; /* >= up is above; < down is below again */
};

struct select_delta {
    struct slice field;
    long double amount; /* > 0; of one that is relative, a part of the value given last: 0.1 is 10 % */
    bool is_relative;
};

struct select_options {
    struct slice events, hosts;    /* patterns; "" = all */
    struct predicate *where;       /* NULL = all */
    const struct slice *on_change; /* fields */
    size_t n_on_change;
    bool is_any_change; /* on_change = "*" */
    struct select_cross cross;
    struct select_delta delta;
    uint64_t every_ns; /* 0 = not asked for */
};

/* Everything but the predicate is in the arena, which the caller ends, also on failure; so it does with
 * out->where. */
int select_options_parse(const struct select_spec *spec, int64_t now_ns, struct arena *arena,
                         struct select_options *out, struct diag *why);

#endif
