/* SPDX-License-Identifier: Apache-2.0 */
#include "client/global.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PATH_BYTES = 1024,
    APART_NS = 1000000, /* another offset than the block's by more than this: another block */
    UTC_SLACK_NS = 1000 /* tick_map follows UTC to this */
};

static const struct batch_clock local_clock = {.bound_ns = CLOCK_BOUND_UNKNOWN};

void global_init(struct global *g)
{
    *g = (struct global){.clock = local_clock};
    clock_read_moment(&g->last);
}

void global_fini(struct global *g)
{
    clockpage_close(g->page);
    g->page = NULL;
}

/* ---------------------------------------------------------------- finding the page */

/* In the order in which they are tried; false: there are no more. What does not fit is no path. Where the agent's run_dir is
 * by default: src/config/load.c. */
static bool page_path(int i, char path[PATH_BYTES])
{
    const char *given = secure_getenv("GRIDLINE_CLOCK"), *xdg = secure_getenv("XDG_RUNTIME_DIR");
    int n = 0;
    path[0] = '\0';
    if (given)
        n = i == 0 ? snprintf(path, PATH_BYTES, "%s", given) : -1;
    else if (i == 0)
        n = snprintf(path, PATH_BYTES, "/run/gridline/clock");
    else if (geteuid() == 0 || i > 2)
        n = -1;
    else if (i == 1 && xdg && xdg[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/gridline/clock", xdg);
    else if (i == 2)
        n = snprintf(path, PATH_BYTES, "/tmp/gridline-%lu/clock", (unsigned long)geteuid());
    if (n >= PATH_BYTES)
        path[0] = '\0';
    return n >= 0;
}

static bool search(struct global *g, const struct clock_moment *now, struct timesync_state *out)
{
    char path[PATH_BYTES];
    if (now->mono_ns < g->search_at_ns)
        return false;
    g->search_at_ns = now->mono_ns + NS_PER_S;
    for (int i = 0; page_path(i, path); i++) {
        if (path[0] == '\0' || clockpage_open(path, &g->page) < 0)
            continue; /* none there, or not one for us */
        if (clockpage_read(g->page, now, out))
            return true;
        global_fini(g);
    }
    return false;
}

/* ---------------------------------------------------------------- reading it */

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* The events were written since the last look. What the clocks may have done meanwhile. */
static uint64_t moved_since(const struct clock_moment *last, const struct clock_moment *now)
{
    uint64_t age = distance(now->mono_ns, last->mono_ns);
    return age / 1000000 * TIMESYNC_DRIFT_PPM + TIMESYNC_DRIFT_PPM +
           distance(now->mono_ns - now->raw_ns, last->mono_ns - last->raw_ns) + last->error_ns;
}

bool global_look(struct global *g, const struct tick_map *m, struct batch_clock *out)
{
    struct clock_moment now, last = g->last;
    struct timesync_state s;
    clock_read_moment(&now);
    if (ticks_are_tsc) { /* the very UTC that ticks become: a step is in both or in neither */
        now.utc_ns = now.mono_ns + m->utc_offset;
        now.error_ns = now.error_ns < UINT32_MAX - UTC_SLACK_NS ? now.error_ns + UTC_SLACK_NS : UINT32_MAX;
    }
    g->last = now;
    *out = local_clock;
    bool is_read = g->page && clockpage_read(g->page, &now, &s);
    if (!is_read) {
        global_fini(g);
        is_read = search(g, &now, &s);
    }
    if (is_read)
        *out = (struct batch_clock){s.offset_ns, CLOCK_BOUND_UNKNOWN, s.generation};
    bool is_other = out->generation != g->clock.generation;
    if (is_read && s.bound_ns != TIMESYNC_UNKNOWN && (ticks_are_tsc || !is_other)) /* else: stamped before or after a step? */
        out->bound_ns = s.bound_ns + moved_since(&last, &now);
    return is_other || distance(out->offset_ns, g->clock.offset_ns) > APART_NS ||
           (out->bound_ns == CLOCK_BOUND_UNKNOWN) != (g->clock.bound_ns == CLOCK_BOUND_UNKNOWN);
}

void global_begin(struct global *g, const struct batch_clock *now, bool has_block)
{
    if (!has_block || now->bound_ns == CLOCK_BOUND_UNKNOWN) {
        g->clock = *now;
        return;
    }
    uint64_t bound = now->bound_ns + distance(now->offset_ns, g->clock.offset_ns);
    if (bound > g->clock.bound_ns)
        g->clock.bound_ns = bound;
}
