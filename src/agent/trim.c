/* SPDX-License-Identifier: Apache-2.0 */
/* Only mappings that can be executed and not written are dropped: they are never changed (there are no relocations in
 * code), so the file has all of them. Data, also that which the linker made read-only after relocating it, is left alone. */
#include "agent/trim.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>

void trim_after_start(void)
{
    char line[512], mode[5], path;
    uintptr_t from, to;
    (void)malloc_trim(0); /* whether there was anything to give back does not matter */
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return;
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %c", &from, &to, mode, &path) == 4 && path == '/' &&
            mode[0] == 'r' && mode[1] == '-' && mode[2] == 'x' && mode[3] == 'p')
            (void)madvise((void *)from, to - from, MADV_DONTNEED); /* only thrift */
    (void)fclose(maps);
}
