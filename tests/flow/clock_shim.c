/* SPDX-License-Identifier: Apache-2.0 */
/* Another host's clocks, for clock_test.py: preloaded into an agent or a program, it answers clock_gettime and adjtimex by
 * a file that the test maps, too, and may change at any time. CLOCK_SHIM names it; integers in the host's order:
 *
 *     at 0  i64 real CLOCK_MONOTONIC of the anchor    8  i64 real UTC then     16  i64 rate in ppb by which all clocks are fast
 *       24  i64 by how much UTC is ahead    32  i64 time slept since           40  i64 the kernel's maxerror, us; -1 unsynchronised
 *
 * Without the variable nothing changes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { ANCHOR_MONO, ANCHOR_UTC, RATE_PPB, UTC_AHEAD, SLEPT, MAXERROR_US, WORDS, PAGE_BYTES = 4096 };

static _Atomic int64_t *words; /* NULL: the real clocks */
static int (*real_gettime)(clockid_t id, struct timespec *t);
static int64_t boot_before; /* slept before the anchor */

static int64_t real_ns(clockid_t id)
{
    struct timespec t = {0};
    (void)real_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCK_SHIM");
    __builtin_memcpy(&real_gettime, &found, sizeof found); /* ISO C has no cast for it */
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (!path)
        return;
    void *map = fd >= 0 ? mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        abort(); /* a test that goes on with the real clocks tests nothing */
    (void)close(fd);
    boot_before = real_ns(CLOCK_BOOTTIME) - real_ns(CLOCK_MONOTONIC);
    words = map;
}

static int64_t word(int i)
{
    return atomic_load_explicit(&words[i], memory_order_relaxed);
}

static int64_t shimmed_ns(clockid_t id)
{
    int64_t passed = real_ns(CLOCK_MONOTONIC) - word(ANCHOR_MONO);
    passed += (int64_t)((__extension__ (__int128)passed) * word(RATE_PPB) / 1000000000);
    switch (id) {
    case CLOCK_REALTIME:
        return word(ANCHOR_UTC) + passed + word(UTC_AHEAD) + word(SLEPT);
    case CLOCK_BOOTTIME:
        return word(ANCHOR_MONO) + passed + boot_before + word(SLEPT);
    default:
        return word(ANCHOR_MONO) + passed;
    }
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    if (!real_gettime) { /* somebody's constructor before ours */
        void *found = dlsym(RTLD_NEXT, "clock_gettime");
        __builtin_memcpy(&real_gettime, &found, sizeof found);
    }
    if (!words || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME && id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_RAW))
        return real_gettime(id, t);
    int64_t ns = shimmed_ns(id);
    *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int adjtimex(struct timex *t)
{
    if (t->modes) {
        errno = EPERM;
        return -1;
    }
    int64_t maxerror = words ? word(MAXERROR_US) : -1;
    *t = (struct timex){.status = maxerror < 0 ? STA_UNSYNC : 0, .maxerror = maxerror < 0 ? 16000000 : maxerror};
    return maxerror < 0 ? TIME_ERROR : TIME_OK;
}
