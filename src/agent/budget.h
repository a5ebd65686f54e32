/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h - the ceiling of what the agent may use (SV-5): looked at every BUDGET_WINDOW, kept by feedback.
 *
 * Over the CPU or memory budget in a window: one sensor, the least important, is slowed to half its rate.
 * Under half the budget in BUDGET_CALM windows one after the other: the most important slowed one is made
 * faster again. The gap between the two keeps it from swinging. Programs and helpers count when they have
 * ended. */
#ifndef GRIDLINE_AGENT_BUDGET_H
#define GRIDLINE_AGENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_WINDOW (INT64_C(10) * 1000 * 1000 * 1000)
enum { BUDGET_CALM = 3 };

struct budget {
    double cpu_max;      /* fraction of one core */
    uint64_t memory_max; /* bytes, private */
    /* The last window: */
    int64_t at_ns;
    uint64_t cpu_ns;
    unsigned calm;
    double cpu; /* used in it */
    uint64_t memory;
};

enum budget_verdict { BUDGET_KEEP, BUDGET_SLOW, BUDGET_HASTEN };

void budget_init(struct budget *b, double cpu_max, uint64_t memory_max, int64_t now_ns, uint64_t cpu_ns);
/* cpu_ns: CPU time used since start; memory: private bytes now. Call when BUDGET_WINDOW is over. */
enum budget_verdict budget_judge(struct budget *b, int64_t now_ns, uint64_t cpu_ns, uint64_t memory);
static inline int64_t budget_next_ns(const struct budget *b)
{
    return b->at_ns + BUDGET_WINDOW;
}

/* This process's own. */
uint64_t budget_own_cpu_ns(void);
uint64_t budget_own_memory(void);

#endif
