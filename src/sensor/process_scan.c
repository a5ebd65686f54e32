/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/process_scan.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>

enum { PIDS_MAX = 1 << 22 }; /* the kernel's own limit */

void process_scan_fini(struct process_scan *s)
{
    mem_free(s->pids[0]);
    mem_free(s->pids[1]);
    *s = (struct process_scan){0};
}

struct filling {
    struct process_scan *scan;
    unsigned to; /* which of the two lists */
    bool is_sorted;
};

static int add_pid(void *arg, const char *name)
{
    struct filling *f = arg;
    struct process_scan *s = f->scan;
    uint64_t pid;
    if (name[0] < '1' || name[0] > '9' || num_parse_uint(slice_str(name), &pid) < 0 || pid > PIDS_MAX)
        return 0;
    size_t n = s->n[f->to];
    if (n == s->room[f->to]) {
        size_t room = n ? 2 * n : 256;
        struct scan_pid *p = n < PIDS_MAX ? mem_try_resize(s->pids[f->to], room * sizeof *p) : NULL;
        if (!p)
            return -ENOMEM;
        s->pids[f->to] = p;
        s->room[f->to] = room;
    }
    f->is_sorted = f->is_sorted && (n == 0 || s->pids[f->to][n - 1].pid < pid);
    s->pids[f->to][n] = (struct scan_pid){.pid = (uint32_t)pid};
    s->n[f->to] = n + 1;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    uint32_t x = ((const struct scan_pid *)a)->pid, y = ((const struct scan_pid *)b)->pid;
    return (x > y) - (x < y);
}

int process_scan_run(struct process_scan *s, struct sensor_env *env, bool is_whole,
                     void (*fn)(void *arg, uint32_t pid), void *arg)
{
    struct filling f = {s, 1 - s->last, true};
    s->n[f.to] = 0;
    int r = env_list(env, "/proc", add_pid, &f);
    if (r < 0)
        return r;
    if (!f.is_sorted) /* the kernel lists them in order; a captured tree has none */
        qsort(s->pids[f.to], s->n[f.to], sizeof **s->pids, by_pid);
    const struct scan_pid *was = s->pids[s->last];
    s->turn++;
    for (size_t i = 0, k = 0; i < s->n[f.to]; i++) {
        struct scan_pid *p = &s->pids[f.to][i];
        while (k < s->n[s->last] && was[k].pid < p->pid)
            k++;
        if (k < s->n[s->last] && was[k].pid == p->pid)
            p->age = was[k].age < SCAN_NEW ? was[k].age + 1 : SCAN_NEW;
        if (is_whole || p->age < SCAN_NEW || (p->pid + s->turn) % SCAN_TURNS == 0)
            fn(arg, p->pid);
    }
    s->last = f.to;
    return 0;
}
