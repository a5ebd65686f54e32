/* SPDX-License-Identifier: Apache-2.0 */
/* decode FILE: how fast one core decodes binary events that are in memory. Every block of the file is checked
 * and decoded, again and again for at least two seconds of CPU time; prints events per CPU second. */
#include "base/mem.h"
#include "event/block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* can't fail for this clock */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The events of all blocks, or -1. sum keeps the compiler from leaving the work out. */
static int64_t decode_all(struct slice data, struct batch_builder *builder, uint64_t *sum)
{
    int64_t events = 0;
    while (data.n) {
        int64_t n = block_check(data);
        if (n <= 0 || block_decode(slice_of(data.p, (size_t)n), builder, NULL) < 0)
            return -1;
        struct batch *b = batch_builder_finish(builder, NULL);
        if (!b)
            return -1;
        for (size_t i = 0; i < b->n; i++)
            *sum += (uint64_t)b->events[i].time_ns + b->events[i].values[0].u;
        events += (int64_t)b->n;
        batch_unref(b);
        data = slice_from(data, (size_t)n);
    }
    return events;
}

int main(int argc, char **argv)
{
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
        return 2;
    char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, BUILDER_BORROW) : NULL;
    if (p == MAP_FAILED || !builder)
        return 1;
    uint64_t sum = 0;
    int64_t events = 0, once = 0;
    double start = cpu_seconds(), spent = 0;
    while (spent < 2 && (once = decode_all(slice_of(p, (size_t)st.st_size), builder, &sum)) > 0) {
        events += once;
        spent = cpu_seconds() - start;
    }
    if (once <= 0)
        return 1;
    (void)printf("%.0f\n", (double)events / spent);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return sum == 1; /* it is used */
}
