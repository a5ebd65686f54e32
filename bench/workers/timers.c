/* SPDX-License-Identifier: Apache-2.0 */
#include "timers.h"

#include <stddef.h>

static int64_t tick_of(int64_t ns)
{
    return ns / TIMERS_TICK_NS;
}

void timers_init(struct timers *ts, int64_t now_ns, void *arg)
{
    for (size_t i = 0; i < TIMERS_SLOTS; i++)
        ts->slots[i].next = ts->slots[i].previous = &ts->slots[i];
    ts->done_tick = tick_of(now_ns) - 1;
    ts->arg = arg;
}

void timer_stop(struct timer *t)
{
    if (!t->next)
        return;
    t->next->previous = t->previous;
    t->previous->next = t->next;
    t->next = t->previous = NULL;
}

void timer_set(struct timers *ts, struct timer *t, int64_t at_ns, timer_fn fire)
{
    timer_stop(t);
    int64_t tick = tick_of(at_ns) + 1; /* rounded up: never early */
    if (tick <= ts->done_tick)
        tick = ts->done_tick + 1;
    struct timer *head = &ts->slots[tick % TIMERS_SLOTS];
    t->at_ns = at_ns;
    t->fire = fire;
    t->next = head;
    t->previous = head->previous;
    head->previous->next = t;
    head->previous = t;
}

/* A slot holds timers of several rounds of the wheel: those that are not due stay. What fires may set and
 * stop any timer, so the slot's ring is taken out first and walked from its front. */
static void run_slot(struct timers *ts, struct timer *head, int64_t now_ns)
{
    struct timer ring = {&ring, &ring, 0, NULL};
    if (head->next == head)
        return;
    ring.next = head->next;
    ring.previous = head->previous;
    ring.next->previous = ring.previous->next = &ring;
    head->next = head->previous = head;
    while (ring.next != &ring) {
        struct timer *t = ring.next;
        timer_stop(t);
        if (t->at_ns > now_ns)
            timer_set(ts, t, t->at_ns, t->fire);
        else
            t->fire(ts->arg, t);
    }
}

void timers_run(struct timers *ts, int64_t now_ns)
{
    int64_t now_tick = tick_of(now_ns);
    if (now_tick - ts->done_tick > TIMERS_SLOTS)
        ts->done_tick = now_tick - TIMERS_SLOTS; /* a stop of seconds: every slot once */
    while (ts->done_tick < now_tick) {
        ts->done_tick++; /* first, so that what is set for now goes to a later slot */
        run_slot(ts, &ts->slots[ts->done_tick % TIMERS_SLOTS], now_ns);
    }
}
