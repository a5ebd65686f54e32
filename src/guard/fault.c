/* SPDX-License-Identifier: Apache-2.0 */
/* Only two times carry the machine: counts_ns, which moves ahead by every stretch that does not count, so
 * that seen_ns - counts_ns is what has; and held_down_ns. Both move back with a clock that goes back. Times
 * come from clocks and from records of disks: sums saturate. */
#include "guard/fault.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {"none", "pending", "firing", "clearing", "cleared"};

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t minus(int64_t a, int64_t b)
{
    int64_t difference;
    if (!__builtin_sub_overflow(a, b, &difference))
        return difference;
    return b < 0 ? INT64_MAX : INT64_MIN;
}

/* What the sight is taken for: present, clear, between or held. */
static enum fault_sight taken_for(const struct fault_life *f, const struct fault_policy *p,
                                  enum fault_sight sight)
{
    if (sight != SIGHT_NO_DATA)
        return sight;
    if (p->no_data == NO_DATA_IGNORE)
        return SIGHT_CLEAR;
    bool is_there = f->state == FAULT_PENDING || fault_is_on(f);
    return p->no_data == NO_DATA_FAULT && is_there ? SIGHT_PRESENT : SIGHT_HELD;
}

/* Moves to now, and says by counts_ns what of the time since the last sight counts. */
static void pass_time(struct fault_life *f, bool is_held, int64_t now_ns)
{
    int64_t passed = minus(now_ns, f->seen_ns);
    if (passed < 0) {
        f->counts_ns = plus(f->counts_ns, passed);
        if (f->held_down_ns)
            f->held_down_ns = plus(f->held_down_ns, passed);
    } else if (is_held || f->is_held) {
        f->counts_ns = plus(f->counts_ns, passed);
    }
    f->seen_ns = now_ns;
    f->is_held = is_held;
}

static enum fault_turn fire_if_due(struct fault_life *f, const struct fault_policy *p,
                                   enum fault_turn otherwise)
{
    bool is_held_down = f->held_down_ns && f->seen_ns < f->held_down_ns;
    if (is_held_down || minus(f->seen_ns, f->counts_ns) < p->for_ns)
        return otherwise;
    f->state = FAULT_FIRING;
    f->fired_ns = f->seen_ns;
    f->held_down_ns = 0;
    f->episode++;
    return TURN_FIRES;
}

static enum fault_turn clear_if_due(struct fault_life *f, const struct fault_policy *p,
                                    enum fault_turn otherwise)
{
    if (minus(f->seen_ns, f->counts_ns) < p->clear_for_ns)
        return otherwise;
    f->state = FAULT_CLEARED;
    f->cleared_ns = f->seen_ns;
    f->held_down_ns = p->hold_down_ns > 0 ? plus(f->seen_ns, p->hold_down_ns) : 0;
    return TURN_CLEARS;
}

static enum fault_turn see_present(struct fault_life *f, const struct fault_policy *p)
{
    switch (f->state) {
    case FAULT_NONE:
    case FAULT_CLEARED:
        f->state = FAULT_PENDING;
        f->counts_ns = f->seen_ns;
        return fire_if_due(f, p, TURN_PENDS);
    case FAULT_PENDING:
        return fire_if_due(f, p, TURN_NONE);
    case FAULT_CLEARING:
        f->state = FAULT_FIRING;
        return TURN_RETURNS;
    case FAULT_FIRING:
        break;
    }
    return TURN_NONE;
}

static enum fault_turn see_clear(struct fault_life *f, const struct fault_policy *p)
{
    switch (f->state) {
    case FAULT_PENDING:
        f->state = f->episode ? FAULT_CLEARED : FAULT_NONE;
        return TURN_DROPPED;
    case FAULT_FIRING:
        f->state = FAULT_CLEARING;
        f->counts_ns = f->seen_ns;
        return clear_if_due(f, p, TURN_CLEARING);
    case FAULT_CLEARING:
        return clear_if_due(f, p, TURN_NONE);
    case FAULT_NONE:
    case FAULT_CLEARED:
        break;
    }
    return TURN_NONE;
}

static enum fault_turn see_between(struct fault_life *f)
{
    if (f->state == FAULT_PENDING) {
        f->state = f->episode ? FAULT_CLEARED : FAULT_NONE;
        return TURN_DROPPED;
    }
    if (f->state == FAULT_CLEARING) {
        f->state = FAULT_FIRING;
        return TURN_RETURNS;
    }
    return TURN_NONE;
}

enum fault_turn fault_see(struct fault_life *f, const struct fault_policy *p, enum fault_sight sight,
                          int64_t now_ns)
{
    enum fault_sight as = taken_for(f, p, sight);
    pass_time(f, as == SIGHT_HELD, now_ns);
    switch (as) {
    case SIGHT_PRESENT:
        return see_present(f, p);
    case SIGHT_CLEAR:
        return see_clear(f, p);
    case SIGHT_BETWEEN:
        return see_between(f);
    case SIGHT_NO_DATA:
    case SIGHT_HELD:
        break;
    }
    return TURN_NONE;
}

enum fault_turn fault_end(struct fault_life *f, int64_t now_ns)
{
    if (!fault_is_on(f))
        return TURN_NONE;
    pass_time(f, false, now_ns);
    const struct fault_policy at_once = {.clear_for_ns = INT64_MIN};
    return clear_if_due(f, &at_once, TURN_NONE);
}

int64_t fault_counted_ns(const struct fault_life *f)
{
    bool is_counting = f->state == FAULT_PENDING || f->state == FAULT_CLEARING;
    return is_counting ? minus(f->seen_ns, f->counts_ns) : 0;
}

const char *fault_state_name(enum fault_state s)
{
    return names[s];
}

bool fault_state_parse(const char *text, enum fault_state *out)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *out = (enum fault_state)i;
        return true;
    }
    return false;
}
