/* SPDX-License-Identifier: Apache-2.0 */
/* Why the bound holds. Let B be CLOCK_BOOTTIME here, G the gateway's time, and rho the most by which their
 * rates differ. An exchange was sent at t0 and its answer came at t3, so that
 *
 *     t2 <= G(t3) <= t1 + (t3 - t0)(1 + rho)        the answer left before it came, the question came after
 * it left
 *
 * With rtt = (t3 - t0) - (t2 - t1) that is t2 + rtt/2 ± (rtt/2 + rho (t3 - t0)): the bound of rtt/2 has its
 * age counted from t0, not from t3. From there on G - B moves by at most rho a second. All bounds grow alike,
 * so the exchange that is best now stays the best until a better one comes, and it is the only one kept. (Two
 * exchanges far apart would tell the drift between them, but not what it will be: temperature and daemons
 * change it. So a measured drift gives no bound that holds, and rho stays.)
 *
 * Three things break "at most rho a second", and are seen:
 *
 *   a daemon slews    all clocks of the kernel but CLOCK_MONOTONIC_RAW follow (chronyd: up to 10 %). By how
 * much CLOCK_MONOTONIC moved against it since the exchange is added to the bound. a suspend CLOCK_BOOTTIME
 * has the time slept from a clock of seconds: TIMESYNC_RESUME_NS more. the gateway's own clock is set, or a
 * virtual machine stood still: a new exchange contradicts the one kept. The new one counts then, whatever its
 * bound.
 *
 * Applied is the line base -> goal at TIMESYNC_SLEW_PPM; goal is the base of the exchange, or that of local
 * UTC if that is as good. UTC - CLOCK_BOOTTIME changes only when somebody sets the clock (slewing moves
 * both), so local UTC is a constant base as well, and a step is any change of it. It is decided with each
 * exchange, when the bound is smallest, and not in between, where the growing bound would soon cover any
 * offset. */
#include "base/timesync.h"

#include "base/mem.h"

#include <errno.h>

enum {
    NOISE_NS = 1000,
    LOOKS = 8,
    SLEPT_NS = 1000000 /* CLOCK_BOOTTIME moved by more against CLOCK_MONOTONIC: a suspend */
};
#define LOOK_APART_NS NS_PER_S
#define LAST_NS       (INT64_C(9000000000) * NS_PER_S) /* in 2255: differences of times still fit */

/* What an old exchange needs to know of the time before it was answered. */
struct look {
    int64_t boot_ns, slew_ns;
    uint32_t error_ns;
};

struct timesync {
    uint32_t drift_ppm;
    bool keeps_utc;
    uint32_t generation;
    uint64_t maxerror_ns;

    struct clock_moment last; /* look */
    bool has_looked;
    int64_t utc_base_ns;
    uint32_t utc_error_ns;    /* how well that was read */
    struct look looks[LOOKS]; /* at least LOOK_APART_NS apart, the newest first */
    size_t n_looks;
    uint64_t resumes_ns; /* TIMESYNC_RESUME_NS for each suspend */

    /* Applied: base_ns at at_ns, from there to goal_ns. */
    int64_t at_ns, base_ns, goal_ns;
    bool is_utc;   /* as in the line */
    bool is_local; /* the goal is local UTC */

    /* The exchange that counts: */
    bool has_best;
    int64_t best_t0_ns, best_base_ns, best_slew_ns;
    uint64_t best_half_ns, best_resumes_ns;
};

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Rounded up. */
static uint64_t of_ppm(int64_t ns, uint32_t ppm)
{
    uint64_t n = ns > 0 ? (uint64_t)ns : 0;
    return n / 1000000 * ppm + (n % 1000000 * ppm + 999999) / 1000000;
}

static int64_t slew_of(const struct clock_moment *m)
{
    return m->mono_ns - m->raw_ns;
}

static int64_t slept_of(const struct clock_moment *m)
{
    return m->boot_ns - m->mono_ns;
}

static bool was_suspended(int64_t slept_before_ns, const struct clock_moment *now)
{
    return distance(slept_of(now), slept_before_ns) > SLEPT_NS + 2 * (uint64_t)now->error_ns;
}

static int64_t utc_base_of(const struct clock_moment *m)
{
    return m->utc_ns - m->boot_ns;
}

/* A smaller change of that is how well it can be read. */
static uint64_t utc_noise(uint32_t error_before_ns, const struct clock_moment *now)
{
    return NOISE_NS + (uint64_t)error_before_ns + now->error_ns;
}

/* Where a line is at that time: never past its goal, never faster than TIMESYNC_SLEW_PPM. */
static int64_t base_at(int64_t at_ns, int64_t base_ns, int64_t goal_ns, int64_t boot_ns)
{
    int64_t age = boot_ns > at_ns ? boot_ns - at_ns : 0;
    int64_t moved = age / 1000000 * TIMESYNC_SLEW_PPM + age % 1000000 * TIMESYNC_SLEW_PPM / 1000000;
    if (distance(base_ns, goal_ns) <= (uint64_t)moved)
        return goal_ns;
    return goal_ns > base_ns ? base_ns + moved : base_ns - moved;
}

static int64_t applied_base(const struct timesync *t, int64_t boot_ns)
{
    return base_at(t->at_ns, t->base_ns, t->goal_ns, boot_ns);
}

/* ---------------------------------------------------------------- life */

struct timesync *timesync_create(uint32_t drift_ppm, bool keeps_utc)
{
    struct timesync *t = mem_try_alloc(sizeof *t);
    if (!t)
        return NULL;
    *t = (struct timesync){.drift_ppm = drift_ppm ? drift_ppm : TIMESYNC_DRIFT_PPM,
                           .keeps_utc = keeps_utc,
                           .maxerror_ns = TIMESYNC_UNKNOWN,
                           .is_utc = true,
                           .is_local = true};
    return t;
}

void timesync_destroy(struct timesync *t)
{
    mem_free(t);
}

void timesync_set_generation(struct timesync *t, uint32_t generation)
{
    t->generation = generation;
}

void timesync_forget(struct timesync *t)
{
    t->has_best = false;
}

/* ---------------------------------------------------------------- looking at the clocks */

/* From now on the goal is this one; true: so far away that time jumps. */
static bool aim(struct timesync *t, int64_t boot_ns, int64_t goal_ns)
{
    int64_t base = applied_base(t, boot_ns);
    bool is_jump = distance(base, goal_ns) > TIMESYNC_JUMP_NS;
    t->at_ns = boot_ns;
    t->base_ns = is_jump ? goal_ns : base;
    t->goal_ns = goal_ns;
    return is_jump;
}

static void remember_look(struct timesync *t, const struct clock_moment *now)
{
    if (t->n_looks && now->boot_ns - t->looks[0].boot_ns < LOOK_APART_NS)
        return;
    for (size_t i = t->n_looks < LOOKS ? t->n_looks++ : LOOKS - 1; i > 0; i--)
        t->looks[i] = t->looks[i - 1];
    t->looks[0] = (struct look){now->boot_ns, slew_of(now), now->error_ns};
}

static bool see_suspend(struct timesync *t, const struct clock_moment *now)
{
    if (!was_suspended(slept_of(&t->last), now))
        return false;
    t->resumes_ns += TIMESYNC_RESUME_NS;
    return true;
}

/* The same UTC, read much better than before: stamped time, which is UTC + base - utc_base, must not move. */
static void read_better(struct timesync *t, const struct clock_moment *now)
{
    int64_t base = applied_base(t, now->boot_ns) + (utc_base_of(now) - t->utc_base_ns);
    t->utc_base_ns = utc_base_of(now);
    t->utc_error_ns = now->error_ns;
    t->at_ns = now->boot_ns;
    t->base_ns = base;
    if (t->is_local)
        t->goal_ns = t->utc_base_ns;
}

/* Local UTC was moved, by whatever little: global time goes on, unless it is local UTC. True: that was a
 * step. */
static bool see_step(struct timesync *t, const struct clock_moment *now)
{
    uint64_t change = distance(utc_base_of(now), t->utc_base_ns);
    uint64_t noise = utc_noise(t->utc_error_ns, now);
    if (change <= noise) {
        if (now->error_ns < t->utc_error_ns / 2)
            read_better(t, now);
        return false;
    }
    bool is_step = change > TIMESYNC_STEP_NS + noise;
    t->utc_base_ns = utc_base_of(now);
    t->utc_error_ns = now->error_ns;
    if (t->is_utc)
        t->base_ns = t->goal_ns = t->utc_base_ns;
    else if (t->is_local) /* no jump: it is close */
        (void)aim(t, now->boot_ns, is_step ? applied_base(t, now->boot_ns) : t->utc_base_ns);
    if (!is_step)
        return false;
    t->is_local = t->is_utc;
    t->generation++;
    return true;
}

static void first_look(struct timesync *t, const struct clock_moment *now)
{
    t->has_looked = true;
    t->utc_base_ns = t->base_ns = t->goal_ns = utc_base_of(now);
    t->utc_error_ns = now->error_ns;
    t->at_ns = now->boot_ns;
}

enum timesync_change timesync_look(struct timesync *t, const struct clock_moment *now, uint64_t maxerror_ns)
{
    enum timesync_change change = TIMESYNC_SAME;
    t->maxerror_ns = maxerror_ns;
    if (!t->has_looked) {
        first_look(t, now);
    } else {
        if (see_suspend(t, now))
            change = TIMESYNC_RESUMED;
        if (see_step(t, now))
            change = TIMESYNC_STEPPED;
    }
    remember_look(t, now);
    t->last = *now;
    return change;
}

/* ---------------------------------------------------------------- exchanges */

static uint64_t best_bound(const struct timesync *t, const struct clock_moment *now)
{
    return t->best_half_ns + of_ppm(now->boot_ns - t->best_t0_ns, t->drift_ppm) +
           distance(slew_of(now), t->best_slew_ns) + now->error_ns + (t->resumes_ns - t->best_resumes_ns);
}

/* How far the clocks were slewed while the exchange was under way, counted from the look before it. -ERANGE:
 * that is not known any more. */
static int slewed_since(const struct timesync *t, int64_t t0_ns, uint64_t *out)
{
    for (size_t i = 0; i < t->n_looks; i++)
        if (t->looks[i].boot_ns <= t0_ns) {
            *out = distance(slew_of(&t->last), t->looks[i].slew_ns) + t->looks[i].error_ns;
            return 0;
        }
    return -ERANGE;
}

/* Its round trip, and how far the clocks were slewed meanwhile. -ERANGE: it can't be. */
static int check_exchange(const struct timesync *t, const struct timesync_exchange *x, int64_t boot_ns,
                          uint64_t *rtt_ns, uint64_t *slewed_ns)
{
    if (x->t0_ns < 0 || x->t3_ns < x->t0_ns || x->t3_ns > boot_ns ||
        x->t3_ns - x->t0_ns > TIMESYNC_RTT_MAX_NS)
        return -ERANGE;
    if (x->t1_ns < 0 || x->t2_ns < x->t1_ns || x->t2_ns > LAST_NS || slewed_since(t, x->t0_ns, slewed_ns) < 0)
        return -ERANGE;
    int64_t here = x->t3_ns - x->t0_ns, there = x->t2_ns - x->t1_ns;
    *rtt_ns = here > there ? (uint64_t)(here - there) : 0;
    /* Longer there than here can be the drift, where the gateway took its time. */
    return there <= here || (uint64_t)(there - here) <= of_ppm(here, t->drift_ppm) + *slewed_ns ? 0 : -ERANGE;
}

/* With all that is known now: local UTC, if it is as good as the exchange. */
static enum timesync_change settle(struct timesync *t, const struct clock_moment *now,
                                   uint64_t bound_before_ns)
{
    uint64_t offset = distance(t->best_base_ns, t->utc_base_ns), good = best_bound(t, now);
    if (t->maxerror_ns != TIMESYNC_UNKNOWN && t->maxerror_ns > good)
        good = t->maxerror_ns;
    t->is_utc = t->keeps_utc;
    t->is_local = t->keeps_utc || offset <= good;
    int64_t goal = t->is_local ? t->utc_base_ns : t->best_base_ns;
    uint64_t correction = distance(applied_base(t, now->boot_ns), goal);
    if (aim(t, now->boot_ns, goal)) {
        t->generation++;
        return TIMESYNC_JUMPED;
    }
    uint64_t expected = bound_before_ns == TIMESYNC_UNKNOWN ? 0 : bound_before_ns;
    return correction > expected ? TIMESYNC_SLEWING : TIMESYNC_SAME;
}

int timesync_add(struct timesync *t, const struct timesync_exchange *x, const struct clock_moment *now,
                 enum timesync_change *change, uint64_t *rtt_ns)
{
    uint64_t rtt, slewed;
    struct timesync_state before;
    if (check_exchange(t, x, now->boot_ns, &rtt, &slewed) < 0)
        return -ERANGE;
    timesync_state(t, now, &before);
    uint64_t half = (rtt + 1) / 2 + slewed + 2 * (uint64_t)now->error_ns;
    int64_t base = x->t2_ns + (int64_t)(rtt / 2) - x->t3_ns;
    uint64_t bound = half + of_ppm(now->boot_ns - x->t0_ns, t->drift_ppm);
    uint64_t old = t->has_best ? best_bound(t, now) : TIMESYNC_UNKNOWN;
    bool is_contradiction = t->has_best && distance(base, t->best_base_ns) > bound + old;
    if (bound <= old || is_contradiction) {
        t->has_best = true;
        t->best_t0_ns = x->t0_ns;
        t->best_base_ns = base;
        t->best_half_ns = half;
        t->best_slew_ns = slew_of(now);
        t->best_resumes_ns = t->resumes_ns;
    }
    if (rtt_ns)
        *rtt_ns = rtt;
    *change = settle(t, now, before.bound_ns);
    return 0;
}

/* ---------------------------------------------------------------- telling */

void timesync_line(const struct timesync *t, const struct clock_moment *now, struct timesync_line *out)
{
    int64_t base = applied_base(t, now->boot_ns);
    *out = (struct timesync_line){.at_ns = now->boot_ns,
                                  .base_ns = base,
                                  .goal_ns = t->goal_ns,
                                  .utc_base_ns = t->utc_base_ns,
                                  .bound_ns = TIMESYNC_UNKNOWN,
                                  .utc_error_ns = t->utc_error_ns,
                                  .slew_ns = slew_of(now),
                                  .slept_ns = slept_of(now),
                                  .drift_ppm = t->drift_ppm,
                                  .generation = t->generation,
                                  .is_utc = t->is_utc};
    if (!t->has_best)
        return;
    uint64_t here = distance(base, t->best_base_ns), there = distance(t->goal_ns, t->best_base_ns);
    out->bound_ns = best_bound(t, now) + (here > there ? here : there) + t->utc_error_ns;
    if (was_suspended(slept_of(&t->last), now))
        out->bound_ns += TIMESYNC_RESUME_NS; /* the next look will count it */
}

void timesync_line_state(const struct timesync_line *l, const struct clock_moment *now,
                         struct timesync_state *out)
{
    int64_t utc_base = utc_base_of(now), base = base_at(l->at_ns, l->base_ns, l->goal_ns, now->boot_ns);
    uint64_t change = distance(utc_base, l->utc_base_ns), noise = utc_noise(l->utc_error_ns, now);
    uint64_t more =
        of_ppm(now->boot_ns - l->at_ns, l->drift_ppm) + distance(slew_of(now), l->slew_ns) + now->error_ns;
    if (was_suspended(l->slept_ns, now))
        more += TIMESYNC_RESUME_NS;
    if (change <= noise || l->is_utc)
        more += change;
    if (l->is_utc)
        base = utc_base;
    else if (change <= noise)
        utc_base = l->utc_base_ns;
    *out = (struct timesync_state){.offset_ns = base - utc_base,
                                   .base_ns = base,
                                   .bound_ns = l->bound_ns,
                                   .generation = l->generation + (change > TIMESYNC_STEP_NS + noise)};
    if (l->bound_ns != TIMESYNC_UNKNOWN)
        out->bound_ns = more < TIMESYNC_UNKNOWN - l->bound_ns ? l->bound_ns + more : TIMESYNC_UNKNOWN;
}

void timesync_state(const struct timesync *t, const struct clock_moment *now, struct timesync_state *out)
{
    struct timesync_line line;
    timesync_line(t, now, &line);
    timesync_line_state(&line, now, out);
}

bool timesync_is_slewing(const struct timesync *t, int64_t boot_ns)
{
    return applied_base(t, boot_ns) != t->goal_ns;
}

int64_t timesync_global_ns(const struct timesync *t, const struct clock_moment *now)
{
    struct timesync_state s;
    timesync_state(t, now, &s);
    return now->utc_ns + s.offset_ns;
}
