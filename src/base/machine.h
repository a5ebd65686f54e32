/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - what a process can see of the machine it runs on: in a sandbox that is another machine than outside
 * of it. Read from /proc and the kernel; 0 where it can't be seen. */
#ifndef GRIDLINE_BASE_MACHINE_H
#define GRIDLINE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine_view {
    uint64_t memory;       /* bytes, as /proc/meminfo has it */
    uint64_t memory_limit; /* bytes: the least of RLIMIT_AS and the cgroups'; 0 = none */
    uint32_t processes;    /* that /proc lists */
    uint32_t mounts;
    uint32_t cpus; /* that it may run on */
};

void machine_view(struct machine_view *out);
/* Are the pid and the user namespace the host's own? No process can leave another; who has made a user namespace has it to
 * make mount and network namespaces, whose numbers say nothing. */
bool machine_is_the_host(void);

#endif
