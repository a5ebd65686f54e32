/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/budget.h"

#include "base/clock.h"
#include "base/slice.h"
#include "sensor/scan.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

void budget_init(struct budget *b, double cpu_max, uint64_t memory_max, int64_t now_ns, uint64_t cpu_ns)
{
    *b = (struct budget){.cpu_max = cpu_max, .memory_max = memory_max, .at_ns = now_ns, .cpu_ns = cpu_ns};
}

enum budget_verdict budget_judge(struct budget *b, int64_t now_ns, uint64_t cpu_ns, uint64_t memory)
{
    int64_t window = now_ns - b->at_ns;
    b->cpu = window > 0 ? (double)(cpu_ns - b->cpu_ns) / (double)window : 0;
    b->memory = memory;
    b->at_ns = now_ns;
    b->cpu_ns = cpu_ns;
    if (b->cpu > b->cpu_max || memory > b->memory_max) {
        b->calm = 0;
        return BUDGET_SLOW;
    }
    bool is_calm = b->cpu < b->cpu_max / 2 && memory < b->memory_max / 10 * 9;
    b->calm = is_calm ? b->calm + 1 : 0;
    if (b->calm < BUDGET_CALM)
        return BUDGET_KEEP;
    b->calm = 0;
    return BUDGET_HASTEN;
}

static uint64_t used_ns(int who)
{
    struct rusage u;
    if (getrusage(who, &u) < 0)
        return 0;
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

uint64_t budget_own_cpu_ns(void)
{
    return used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN);
}

uint64_t budget_own_memory(void)
{
    char text[128];
    uint64_t size, resident, shared;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0)
        (void)close(fd); /* opened for reading */
    if (n <= 0)
        return 0;
    struct scan s = scan_of(slice_of(text, (size_t)n));
    if (!scan_uint(&s, &size) || !scan_uint(&s, &resident) || !scan_uint(&s, &shared) || shared > resident)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}
