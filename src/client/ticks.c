/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ticks.h"

#include "base/slice.h"

#include <fcntl.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    ANCHOR_TRIES = 3,
    ANCHOR_TRIES_MAX = 20,
    ANCHOR_WIDE_NS = 1000, /* read less tightly than this, it is tried again */
    MEASURE_NS = 50 * 1000,
    OFFSET_SLACK_NS = 1000,     /* a smaller change of the UTC offset is how well it can be read */
    RATE_CHECK_NS = 1000 * 1000 /* anchors closer than this tell nothing about the rate */
};

bool ticks_are_tsc;
static uint64_t per_ms = 1000 * 1000;

#if defined(__x86_64__)
/* The kernel trusts the counter: it runs at one rate, in every sleep state, the same on all processors. */
static bool kernel_uses_tsc(void)
{
    char name[32];
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, name, sizeof name);
    (void)close(fd); /* only read */
    return n > 0 && slice_eq_str(slice_of(name, (size_t)n), "tsc\n");
}

static bool tsc_is_invariant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}
#endif

/* The tightest of a few: being interrupted between the readings shows as a wide one. */
static struct tick_anchor read_anchor(void)
{
    struct tick_anchor best = {0};
    uint64_t narrowest = UINT64_MAX, wide = ANCHOR_WIDE_NS * per_ms / (1000 * 1000);
    for (int i = 0; i < ANCHOR_TRIES || (i < ANCHOR_TRIES_MAX && narrowest > wide); i++) {
        uint64_t before = ticks_now(true);
        int64_t mono = clock_mono_ns();
        uint64_t width = ticks_now(true) - before;
        if (width >= narrowest)
            continue;
        narrowest = width;
        best = (struct tick_anchor){before + width / 2, mono};
    }
    return best;
}

/* Once, to a percent or so. */
static uint64_t measure_per_ms(void)
{
    struct tick_anchor from = read_anchor(), to;
    do
        to = read_anchor();
    while (to.mono_ns - from.mono_ns < MEASURE_NS);
    return (to.ticks - from.ticks) * 1000 * 1000 / (uint64_t)(to.mono_ns - from.mono_ns);
}

__attribute__((constructor)) static void choose_ticks(void)
{
#if defined(__x86_64__)
    ticks_are_tsc = tsc_is_invariant() && kernel_uses_tsc();
#endif
    if (ticks_are_tsc)
        per_ms = measure_per_ms();
}

uint64_t ticks_per_ms(void)
{
    return per_ms;
}

/* CLOCK_REALTIME - CLOCK_MONOTONIC, and how far it may be off. Both run at the same slewed rate, so it is
 * constant until the clock is set. */
struct utc_offset {
    int64_t ns, error_ns;
};

static struct utc_offset read_utc_offset(void)
{
    struct utc_offset best = {0, INT64_MAX};
    for (int i = 0; i < ANCHOR_TRIES || (i < ANCHOR_TRIES_MAX && best.error_ns > ANCHOR_WIDE_NS); i++) {
        int64_t before = clock_mono_ns(), utc = clock_utc_ns(), width = clock_mono_ns() - before;
        if (width < best.error_ns)
            best = (struct utc_offset){utc - before - width / 2, width};
    }
    return best;
}

static uint64_t rate_between(struct tick_anchor a, struct tick_anchor b)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)(b.mono_ns - a.mono_ns) << 48) / (b.ticks - a.ticks));
}

void tick_map_init(struct tick_map *m)
{
    *m = (struct tick_map){.rate = (uint64_t)1 << 48};
    if (!ticks_are_tsc)
        return; /* ticks are UTC already: the map is the identity */
    m->first = m->last = read_anchor();
    m->nominal = ((uint64_t)1 << 48) / per_ms * 1000 * 1000;
    m->utc_offset = read_utc_offset().ns;
    m->base_ticks = m->last.ticks;
    m->base_ns = m->last.mono_ns + m->utc_offset;
    m->rate = m->nominal;
    m->is_new = true;
}

/* Something other than slewing came between the anchors: a suspended or migrated machine. */
static bool is_break(const struct tick_map *m, struct tick_anchor now)
{
    if (now.ticks <= m->last.ticks || now.mono_ns < m->last.mono_ns)
        return true;
    if (m->is_new || now.mono_ns - m->last.mono_ns < RATE_CHECK_NS)
        return false;
    uint64_t rate = rate_between(m->last, now), slack = m->nominal / 16;
    return rate > m->nominal + slack || rate < m->nominal - slack;
}

void tick_map_update(struct tick_map *m)
{
    m->base_ns = 0; /* as it was made, whatever the caller added to it */
    if (!ticks_are_tsc)
        return;
    struct tick_anchor now = read_anchor();
    struct utc_offset offset = read_utc_offset();
    int64_t change = offset.ns - m->utc_offset, slack = OFFSET_SLACK_NS + offset.error_ns;
    if (change > slack || change < -slack)
        m->utc_offset = offset.ns;
    if (is_break(m, now)) {
        m->base_ticks = now.ticks;
        m->base_ns = now.mono_ns + m->utc_offset;
        m->rate = m->nominal;
        m->first = m->last = now;
        m->is_new = true; /* if it was the nominal rate that was wrong, the next round finds out */
        return;
    }
    m->base_ticks = m->last.ticks;
    m->base_ns = m->last.mono_ns + m->utc_offset;
    m->rate = rate_between(m->last, now);
    m->last = now;
    if (now.mono_ns - m->first.mono_ns < RATE_CHECK_NS)
        return;
    m->nominal = rate_between(m->first, now);
    m->is_new = false;
}
