/* SPDX-License-Identifier: Apache-2.0 */
/* faults_model.h - the definition of fault.h once more, as a reader of it would say it: over the whole signal
 * of a fault, looking back from each sight. Slow, without any state that is carried along. For
 * faults_property_test.c. */
#ifndef GRIDLINE_TESTS_FAULTS_MODEL_H
#define GRIDLINE_TESTS_FAULTS_MODEL_H

#include "guard/fault.h"

#include <stddef.h>

/* One evaluation of its rule. */
struct sight {
    enum fault_sight what;
    int64_t at_ns;
    bool is_after_gap; /* the guard was restarted between the sight before and this one */
    uint64_t run;      /* which start of the guard, */
    uint64_t seq;      /* and which evaluation since then */
};

struct signal {
    const struct sight *v;
    size_t n;
    struct fault_policy policy;
};

/* What a signal has made of the fault at its end. */
struct verdict {
    enum fault_state state;
    uint64_t episode;
    size_t seen_at, fired_at, cleared_at; /* sights; of this episode or run, or of the last */
    enum fault_turn turn;                 /* of the last sight, but TURN_PENDS, _CLEARING and _RETURNS */
};

/* Time as it passes: a clock that goes back stands still. */
static int64_t model_passed(const struct signal *s, size_t from, size_t to)
{
    int64_t passed = 0;
    for (size_t i = from + 1; i <= to; i++)
        if (s->v[i].at_ns > s->v[i - 1].at_ns)
            passed += s->v[i].at_ns - s->v[i - 1].at_ns;
    return passed;
}

/* What the sights of [from, i] are taken for, given that no episode is under way (is_on false) or one is
 * since before `from`. No data as a fault needs one that is there: the last one that was not held was
 * present. */
static enum fault_sight model_taken(const struct signal *s, size_t from, size_t i, bool is_on)
{
    enum fault_sight what = s->v[i].what;
    if (what != SIGHT_NO_DATA)
        return what;
    if (s->policy.no_data == NO_DATA_HOLD)
        return SIGHT_HELD;
    if (s->policy.no_data == NO_DATA_IGNORE)
        return SIGHT_CLEAR;
    if (is_on)
        return SIGHT_PRESENT;
    while (i-- > from)
        if (s->v[i].what != SIGHT_NO_DATA && s->v[i].what != SIGHT_HELD)
            return s->v[i].what == SIGHT_PRESENT ? SIGHT_PRESENT : SIGHT_HELD;
    return SIGHT_HELD;
}

/* The unbroken run of `what` that ends with sight `to`: where it begins, and how long it has counted. False:
 * there is none, or `to` is held. */
static bool model_run(const struct signal *s, size_t from, size_t to, enum fault_sight what, bool is_on,
                      size_t *begins, int64_t *counted)
{
    if (model_taken(s, from, to, is_on) != what)
        return false;
    *begins = to;
    for (size_t i = to; i-- > from;) {
        enum fault_sight as = model_taken(s, from, i, is_on);
        if (as == what)
            *begins = i;
        else if (as != SIGHT_HELD)
            break;
    }
    *counted = 0;
    for (size_t i = *begins + 1; i <= to; i++) {
        bool is_held = model_taken(s, from, i, is_on) == SIGHT_HELD ||
                       model_taken(s, from, i - 1, is_on) == SIGHT_HELD || s->v[i].is_after_gap;
        if (!is_held)
            *counted += model_passed(s, i - 1, i);
    }
    return true;
}

/* Is it in the middle of a run at the end of [from, to]? One that holds on goes on. */
static bool model_is_in_run(const struct signal *s, size_t from, size_t to, enum fault_sight what, bool is_on,
                            size_t *begins)
{
    int64_t counted;
    for (size_t i = to + 1; i-- > from;) {
        if (model_taken(s, from, i, is_on) == SIGHT_HELD)
            continue;
        return model_run(s, from, i, what, is_on, begins, &counted);
    }
    return false;
}

static struct verdict model_judge(const struct signal *s)
{
    struct verdict v = {0};
    bool is_on = false;
    size_t from = 0, begins; /* the first sight that matters for what is next: fire, or clear */
    int64_t counted;
    for (size_t i = 0; i < s->n; i++) {
        v.turn = TURN_NONE;
        if (!is_on && model_run(s, from, i, SIGHT_PRESENT, false, &begins, &counted) &&
            counted >= s->policy.for_ns &&
            (!v.episode || model_passed(s, v.cleared_at, i) >= s->policy.hold_down_ns)) {
            v.episode++;
            v.seen_at = begins;
            v.fired_at = i;
            v.turn = TURN_FIRES;
            is_on = true;
            from = i;
        } else if (is_on && model_run(s, from, i, SIGHT_CLEAR, true, &begins, &counted) &&
                   counted >= s->policy.clear_for_ns) {
            v.cleared_at = i;
            v.turn = TURN_CLEARS;
            is_on = false;
            from = i + 1;
        }
    }
    if (s->n && is_on)
        v.state =
            model_is_in_run(s, from, s->n - 1, SIGHT_CLEAR, true, &begins) ? FAULT_CLEARING : FAULT_FIRING;
    else if (s->n > from && model_is_in_run(s, from, s->n - 1, SIGHT_PRESENT, false, &v.seen_at))
        v.state = FAULT_PENDING;
    else
        v.state = v.episode ? FAULT_CLEARED : FAULT_NONE;
    return v;
}

#endif
