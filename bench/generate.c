/* SPDX-License-Identifier: Apache-2.0 */
/* generate LINES SEED ordered|shuffled HOSTS: ULM lines on standard output, the same for the same arguments.
 * Eight kinds of events with three fields each (an id that counts, a size, a text), about 125 bytes a line.
 * HOSTS is how many hosts, with four programs each, take turns; 1: the log of one program on one host, named
 * by the seed. Ordered: 50 us apart on average, as a busy log is. Shuffled: each at any microsecond of one
 * hour. */
#include "base/clock.h"
#include "base/num.h"

#include <inttypes.h>

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const char *const names[] = {"transfer.start", "transfer.end", "queue.enter", "queue.leave",
                                    "disk.read",      "disk.write",   "cache.hit",   "cache.miss"};
static const char *const progs[] = {"mover", "stager", "catalog", "ev"};
static const char *const texts[] = {"transfer.end", "stage-in", "replica", "checksum"};

static int generate(uint64_t lines, uint64_t seed, bool ordered, uint64_t hosts)
{
    const int64_t start = INT64_C(1794777628) * NS_PER_S;
    int64_t t = start;
    unsigned own = (unsigned)seed % 64;
    for (uint64_t i = 0; i < lines; i++) {
        uint64_t r = next_random(&seed), size = next_random(&seed) >> (40 + r % 16);
        char date[CLOCK_TEXT_MAX];
        t = ordered ? t + (int64_t)(r >> 40) % 100 * 1000
                    : start + (int64_t)(next_random(&seed) % UINT64_C(3600000000)) * 1000;
        size_t n = clock_print_ulm(date, t);
        unsigned host = hosts == 1 ? own : (unsigned)((r >> 8) % hosts);
        const char *prog = progs[hosts == 1 ? own % 4 : (r >> 16) % 4];
        if (printf("DATE=%.*s HOST=node%u.cluster PROG=%s LVL=Info NL.EVNT=%s ID=%" PRIu64 " SIZE=%" PRIu64
                   " NAME=%s\n",
                   (int)n, date, host, prog, names[(r >> 20) % 8], i / 4, size, texts[(r >> 24) % 4]) < 0)
            return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint64_t lines, seed, hosts;
    if (argc != 5 || num_parse_uint(slice_str(argv[1]), &lines) < 0 ||
        num_parse_uint(slice_str(argv[2]), &seed) < 0 || num_parse_uint(slice_str(argv[4]), &hosts) < 0 ||
        hosts == 0) {
        (void)fputs("usage: generate LINES SEED ordered|shuffled HOSTS\n", stderr);
        return 2;
    }
    return generate(lines, seed, strcmp(argv[3], "ordered") == 0, hosts);
}
