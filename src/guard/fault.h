/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - the life of one fault: a state machine without I/O or clock of its own.
 *
 *     none ──present──► pending ──present, for──► firing ──clear──► clearing ──clear, clear_for──► cleared
 *       ▲                  │                        ▲                  │
 *       └──clear, between──┘                        └─present, between─┘
 *
 * Each evaluation of its rule is a sight of it:
 *     present   the query gave its row
 *     clear     it did not; with a clear query: that one did
 *     between   neither, where there is a clear query (hysteresis)
 *     no data   nothing fresh is known of what it is about. By the rule's policy: held; ignored (taken for
 *               clear); or taken for present, where there is a fault already (pending, firing, clearing).
 *     held      nothing is known: no data, or the evaluation failed, whatever the policy. Nothing changes.
 *
 * A true episode begins with the sight that makes it fire and ends with the one that makes it cleared; there
 * is exactly one turn of each (TURN_FIRES, TURN_CLEARS), one after the other.
 *
 * `for` is over when the present sights of an unbroken run have counted for so long, clear_for when the clear
 * sights have. A run begins with its first sight; clear and between break a run of presents, present and
 * between one of clears; held sights break none. The time between two sights counts if neither of them was
 * held. So a time without data never counts, nor does the time from the last sight before to the first one
 * after it. A restart of the guard is such a time. for = 0 fires at the first present, clear_for = 0 clears
 * at the first clear.
 *
 * A fault that has cleared and is seen again within hold_down of that pends until it is over (and for `for`).
 * A cleared fault that pended and did not fire is cleared again, as of its last episode.
 *
 * A clock that goes back: the time between the two sights is 0, and everything goes on by the new clock (what
 * counts moves with it; fired_ns and cleared_ns stay what the clock said then). One that jumps ahead counts.
 */
#ifndef GRIDLINE_GUARD_FAULT_H
#define GRIDLINE_GUARD_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* In records (faults_record.c): never change the numbers. */
enum fault_state { FAULT_NONE, FAULT_PENDING, FAULT_FIRING, FAULT_CLEARING, FAULT_CLEARED };
enum fault_sight { SIGHT_PRESENT, SIGHT_CLEAR, SIGHT_BETWEEN, SIGHT_NO_DATA, SIGHT_HELD };
enum no_data { NO_DATA_HOLD, NO_DATA_FAULT, NO_DATA_IGNORE };

struct fault_policy {
    int64_t for_ns, clear_for_ns, hold_down_ns;
    enum no_data no_data;
};

/* Plain, so that it can be written down as it is. Zeroed: none. Who reads one back sets is_held: what passed
 * since it was written does not count. */
struct fault_life {
    enum fault_state state;
    bool is_held;         /* the last sight was held */
    int64_t seen_ns;      /* the last sight, of any kind */
    int64_t counts_ns;    /* pending, clearing: seen_ns - counts_ns has counted of the run */
    int64_t fired_ns;     /* of this episode, or of the last; 0 = never */
    int64_t cleared_ns;   /* of the last one; 0 = never */
    int64_t held_down_ns; /* does not fire before; 0 = no hold-down */
    uint64_t episode;     /* counts fires: the number of this episode, or of the last */
};

/* What a sight changed. */
enum fault_turn { TURN_NONE, TURN_PENDS, TURN_DROPPED, TURN_FIRES, TURN_CLEARING, TURN_RETURNS, TURN_CLEARS };

enum fault_turn fault_see(struct fault_life *f, const struct fault_policy *p, enum fault_sight sight,
                          int64_t now_ns);
/* Ends the episode of one that fires or is clearing, whatever is seen: its rule is gone. */
enum fault_turn fault_end(struct fault_life *f, int64_t now_ns);

/* An episode is under way: firing or clearing. */
static inline bool fault_is_on(const struct fault_life *f)
{
    return f->state == FAULT_FIRING || f->state == FAULT_CLEARING;
}
/* What has counted of the run that pends or clears; 0 in other states. */
int64_t fault_counted_ns(const struct fault_life *f);
/* "pending", ...; "none". And back: false = no such state. */
const char *fault_state_name(enum fault_state s);
bool fault_state_parse(const char *text, enum fault_state *out);

#endif
