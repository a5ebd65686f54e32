/* SPDX-License-Identifier: Apache-2.0 */
/* Single cases, and then thousands of simulated workers: whatever their clocks do, the true offset is within the bound
 * that is told.
 *
 *     test_base_timesync --report    runs 1,000 workers and prints the distribution of error and bound (bench/clock) */
#include "unit/test.h"

#include "base/timesync.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define MS INT64_C(1000000)
#define US INT64_C(1000)
#define START_UTC (INT64_C(1800000000) * NS_PER_S)

static uint64_t distance(int64_t a, int64_t b)
{
    return (uint64_t)(a > b ? a - b : b - a);
}

/* ---------------------------------------------------------------- single cases */

/* A host whose clocks run at the right rate; UTC is off by what the case says. */
struct host {
    struct timesync *t;
    int64_t true_ns; /* the gateway's time */
    struct clock_moment now;
    uint64_t maxerror_ns;
};

static struct host host_create(int64_t utc_off_ns, bool keeps_utc)
{
    struct host h = {.t = timesync_create(0, keeps_utc), .true_ns = START_UTC, .maxerror_ns = TIMESYNC_UNKNOWN};
    assert_non_null(h.t);
    h.now = (struct clock_moment){.boot_ns = 100 * NS_PER_S, .utc_ns = START_UTC + utc_off_ns, .mono_ns = 90 * NS_PER_S,
                                  .raw_ns = 90 * NS_PER_S};
    assert_int_equal(timesync_look(h.t, &h.now, h.maxerror_ns), TIMESYNC_SAME);
    return h;
}

static void pass(struct host *h, int64_t ns)
{
    h->true_ns += ns;
    h->now.boot_ns += ns;
    h->now.utc_ns += ns;
    h->now.mono_ns += ns;
    h->now.raw_ns += ns;
}

static enum timesync_change look(struct host *h)
{
    return timesync_look(h->t, &h->now, h->maxerror_ns);
}

static enum timesync_change exchange(struct host *h, int64_t there_ns, int64_t back_ns)
{
    struct timesync_exchange x = {.t0_ns = h->now.boot_ns};
    enum timesync_change change;
    uint64_t rtt;
    pass(h, there_ns);
    x.t1_ns = h->true_ns;
    pass(h, 3 * US);
    x.t2_ns = h->true_ns;
    pass(h, back_ns);
    x.t3_ns = h->now.boot_ns;
    assert_int_equal(look(h), TIMESYNC_SAME);
    assert_int_equal(timesync_add(h->t, &x, &h->now, &change, &rtt), 0);
    assert_int_equal(rtt, there_ns + back_ns);
    return change;
}

static struct timesync_state state_of(const struct host *h)
{
    struct timesync_state s;
    timesync_state(h->t, &h->now, &s);
    if (s.bound_ns != TIMESYNC_UNKNOWN)
        assert_true(distance(h->true_ns - h->now.utc_ns, s.offset_ns) <= s.bound_ns);
    assert_int_equal(h->now.boot_ns + s.base_ns, h->now.utc_ns + s.offset_ns);
    return s;
}

static void test_nothing_known(void **state)
{
    (void)state;
    struct host h = host_create(5 * NS_PER_S, false);
    struct timesync_state s = state_of(&h);
    assert_int_equal(s.offset_ns, 0);
    assert_true(s.bound_ns == TIMESYNC_UNKNOWN);
    assert_int_equal(timesync_global_ns(h.t, &h.now), h.now.utc_ns);
    h.now.utc_ns += 3600 * NS_PER_S; /* then local UTC is all there is */
    assert_int_equal(look(&h), TIMESYNC_STEPPED);
    s = state_of(&h);
    assert_int_equal(s.offset_ns, 0);
    assert_int_equal(s.generation, 1);
    timesync_destroy(h.t);
}

static void test_within_the_bound_is_not_applied(void **state)
{
    (void)state;
    struct host h = host_create(-300 * US, false);
    assert_int_equal(exchange(&h, 500 * US, 500 * US), TIMESYNC_SAME);
    struct timesync_state s = state_of(&h);
    assert_int_equal(s.offset_ns, 0);
    assert_true(s.bound_ns >= 300000 && s.bound_ns < 900000);
    assert_int_equal(exchange(&h, 50 * US, 50 * US), TIMESYNC_SAME); /* this one knows better; the bound had covered it */
    pass(&h, NS_PER_S);
    look(&h);
    s = state_of(&h);
    assert_true(distance(s.offset_ns, 300 * US) < 1000);
    assert_int_equal(s.generation, 0);
    timesync_destroy(h.t);
}

static void test_within_maxerror_is_not_applied(void **state)
{
    (void)state;
    struct host h = host_create(20 * MS, false);
    h.maxerror_ns = 25 * MS;
    assert_int_equal(exchange(&h, 50 * US, 50 * US), TIMESYNC_SAME);
    assert_int_equal(state_of(&h).offset_ns, 0);
    assert_true(state_of(&h).bound_ns >= 20000000); /* but the bound is honest */
    h.maxerror_ns = 15 * MS;
    (void)exchange(&h, 50 * US, 50 * US);
    assert_true(timesync_is_slewing(h.t, h.now.boot_ns));
    timesync_destroy(h.t);
}

static void test_slews(void **state)
{
    (void)state;
    struct host h = host_create(900 * MS, false); /* local UTC is ahead: global time must be slower for a while */
    assert_int_equal(exchange(&h, 100 * US, 100 * US), TIMESYNC_SLEWING);
    int64_t last = timesync_global_ns(h.t, &h.now);
    for (int i = 0; i < 1900; i++) {
        pass(&h, NS_PER_S);
        assert_int_equal(look(&h), TIMESYNC_SAME);
        int64_t now = timesync_global_ns(h.t, &h.now);
        assert_true(distance(now - last, NS_PER_S) <= 500 * US);
        assert_int_equal(state_of(&h).generation, 0);
        assert_int_equal(timesync_is_slewing(h.t, h.now.boot_ns), i < 1799);
        last = now;
        if (i % 10 == 9) /* more exchanges say the same: no other correction */
            assert_int_equal(exchange(&h, 100 * US, 100 * US), TIMESYNC_SAME);
        last += i % 10 == 9 ? timesync_global_ns(h.t, &h.now) - last : 0;
    }
    assert_true(distance(state_of(&h).offset_ns, -900 * MS) < 100000);
    timesync_destroy(h.t);
}

static void test_jumps(void **state)
{
    (void)state;
    struct host h = host_create(-3 * NS_PER_S, false);
    assert_int_equal(exchange(&h, 100 * US, 100 * US), TIMESYNC_JUMPED);
    struct timesync_state s = state_of(&h);
    assert_true(distance(s.offset_ns, 3 * NS_PER_S) < 1000);
    assert_true(s.bound_ns < 110000);
    assert_int_equal(s.generation, 1);
    timesync_destroy(h.t);
}

/* Global time goes on; whoever has only the line sees the same before the next look. */
static void test_local_clock_is_set(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct host h = host_create(i ? -3 * NS_PER_S : 0, false); /* corrected, and not */
        (void)exchange(&h, 100 * US, 100 * US);
        uint32_t generation = state_of(&h).generation;
        struct timesync_line line;
        timesync_line(h.t, &h.now, &line);
        int64_t before = timesync_global_ns(h.t, &h.now);
        h.now.utc_ns += (i ? -5 : 7) * 3600 * NS_PER_S;
        struct timesync_state seen;
        timesync_line_state(&line, &h.now, &seen);
        assert_int_equal(h.now.utc_ns + seen.offset_ns, before);
        assert_int_equal(seen.generation, generation + 1);
        assert_int_equal(look(&h), TIMESYNC_STEPPED);
        struct timesync_state s = state_of(&h);
        assert_int_equal(s.generation, generation + 1);
        assert_int_equal(s.offset_ns, seen.offset_ns);
        assert_int_equal(timesync_global_ns(h.t, &h.now), before);
        (void)exchange(&h, 100 * US, 100 * US);
        assert_int_equal(state_of(&h).generation, generation + 1);
        timesync_destroy(h.t);
    }
}

/* Local UTC that is moved by less than a step: global time follows slowly, or not at all. */
static void test_local_clock_is_nudged(void **state)
{
    (void)state;
    struct host h = host_create(0, false);
    (void)exchange(&h, MS, MS);
    h.now.utc_ns += 200 * US;
    assert_int_equal(look(&h), TIMESYNC_SAME);
    assert_int_equal(state_of(&h).offset_ns, -200 * US);
    pass(&h, NS_PER_S);
    (void)look(&h);
    assert_int_equal(state_of(&h).offset_ns, 0);
    assert_int_equal(state_of(&h).generation, 0);
    timesync_destroy(h.t);
}

static void test_suspend(void **state)
{
    (void)state;
    struct host h = host_create(0, false);
    (void)exchange(&h, 100 * US, 100 * US);
    h.true_ns += 600 * NS_PER_S;
    h.now.boot_ns += 601 * NS_PER_S; /* the kernel can only guess */
    h.now.utc_ns += 601 * NS_PER_S;
    assert_int_equal(look(&h), TIMESYNC_RESUMED);
    assert_true(state_of(&h).bound_ns >= (uint64_t)TIMESYNC_RESUME_NS);
    assert_int_equal(state_of(&h).generation, 0);
    assert_int_equal(look(&h), TIMESYNC_SAME);
    /* A second off, and known better now. */
    assert_int_equal(exchange(&h, 100 * US, 100 * US), TIMESYNC_SAME);
    assert_true(state_of(&h).bound_ns < (uint64_t)NS_PER_S + 1000000);
    timesync_destroy(h.t);
}

/* chronyd may slew by a tenth: the bound has to know. */
static void test_daemon_slews(void **state)
{
    (void)state;
    struct host h = host_create(0, false);
    (void)exchange(&h, 100 * US, 100 * US);
    for (int i = 0; i < 10; i++) {
        pass(&h, NS_PER_S);
        h.now.boot_ns += 80 * MS;
        h.now.utc_ns += 80 * MS;
        h.now.mono_ns += 80 * MS;
        assert_int_equal(look(&h), TIMESYNC_SAME);
        struct timesync_state s = state_of(&h);
        assert_true(s.bound_ns >= (uint64_t)(i + 1) * 80000000 && s.bound_ns < (uint64_t)(i + 1) * 80000000 + 5000000);
    }
    timesync_destroy(h.t);
}

static void test_impossible_exchanges(void **state)
{
    (void)state;
    struct host h = host_create(0, false);
    pass(&h, 20 * NS_PER_S);
    (void)look(&h);
    int64_t b = h.now.boot_ns, g = h.true_ns;
    const struct timesync_exchange bad[] = {
        {b, g, g, b - 1},                                           /* answered before it was asked */
        {b - 100, g, g - 1, b},                                     /* sent before it came */
        {b - 100, g, g + 200, b},                                   /* took longer there than here */
        {b - 100, g, g, b + 1},                                     /* comes from the future */
        {b - 9 * NS_PER_S, g, g, b},                                /* too slow */
        {b - 100, -5, g, b},     {b - 100, g, INT64_MAX, b},        /* no such times */
        {b - 100, INT64_MIN, INT64_MAX, b}, {INT64_MIN, g, g, b},
    };
    enum timesync_change change = TIMESYNC_JUMPED;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(timesync_add(h.t, &bad[i], &h.now, &change, NULL), -ERANGE);
    assert_int_equal(change, TIMESYNC_JUMPED);
    assert_true(state_of(&h).bound_ns == TIMESYNC_UNKNOWN);
    timesync_destroy(h.t);
}

static void test_another_gateway(void **state)
{
    (void)state;
    struct host h = host_create(-3 * NS_PER_S, false);
    (void)exchange(&h, 100 * US, 100 * US);
    int64_t offset = state_of(&h).offset_ns;
    timesync_forget(h.t);
    struct timesync_state s = state_of(&h);
    assert_int_equal(s.offset_ns, offset);
    assert_true(s.bound_ns == TIMESYNC_UNKNOWN);
    h.now.utc_ns += 3600 * NS_PER_S; /* the correction stays, even so */
    assert_int_equal(look(&h), TIMESYNC_STEPPED);
    assert_int_equal(state_of(&h).offset_ns, offset - 3600 * NS_PER_S);
    (void)exchange(&h, 10 * MS, 10 * MS);
    assert_true(state_of(&h).bound_ns < 50000000);
    timesync_destroy(h.t);
}

/* The gateway's clock is set by 10 s: an exchange with a worse bound says so, and is believed. */
static void test_contradiction(void **state)
{
    (void)state;
    struct host h = host_create(0, false);
    (void)exchange(&h, 100 * US, 100 * US);
    h.true_ns += 10 * NS_PER_S;
    assert_int_equal(exchange(&h, 300 * MS, 300 * MS), TIMESYNC_JUMPED);
    assert_int_equal(state_of(&h).generation, 1);
    timesync_destroy(h.t);
}

static void test_keeps_utc(void **state)
{
    (void)state;
    struct host h = host_create(2 * NS_PER_S, true);
    assert_int_equal(exchange(&h, 100 * US, 100 * US), TIMESYNC_SAME);
    struct timesync_state s = state_of(&h);
    assert_int_equal(s.offset_ns, 0);
    assert_true(s.bound_ns >= 2 * (uint64_t)NS_PER_S);
    h.now.utc_ns -= 7 * NS_PER_S;
    struct timesync_state early = state_of(&h); /* before the look: seen all the same */
    assert_int_equal(early.generation, 1);
    assert_int_equal(look(&h), TIMESYNC_STEPPED);
    s = state_of(&h);
    assert_int_equal(s.offset_ns, 0);
    assert_int_equal(s.generation, 1);
    assert_true(s.bound_ns >= 5 * (uint64_t)NS_PER_S);
    timesync_destroy(h.t);
}

/* ---------------------------------------------------------------- the simulation */

/* True time and this worker's clocks. */
struct worker {
    struct timesync *t;
    uint64_t random;
    long double true_ns, raw_ns, mono_ns, boot_ns, utc_ns;
    double drift, slew; /* of the hardware; of a daemon, on top */
    uint64_t maxerror_ns;
    uint32_t generation;
    int64_t last_global;
    int64_t back_ns; /* when local UTC is moved by little, time may follow by the error of reading it */
    struct timesync_line line; /* as on the page */
};

struct samples {
    double *error, *bound, *share;
    size_t n, max;
};

static double uniform(struct worker *w, double from, double to)
{
    return from + (to - from) * ((double)(test_random(&w->random) >> 11) / 9007199254740992.0);
}

static bool chance(struct worker *w, double p)
{
    return uniform(w, 0, 1) < p;
}

static void advance(struct worker *w, double ns)
{
    long double raw = (long double)ns * (1 + (long double)w->drift), mono = raw * (1 + (long double)w->slew);
    w->true_ns += (long double)ns;
    w->raw_ns += raw;
    w->mono_ns += mono;
    w->boot_ns += mono;
    w->utc_ns += mono;
}

/* Read one after the other, as a program has to; less than the error, as all may be slewed by a tenth meanwhile. */
static struct clock_moment read_clocks(struct worker *w)
{
    uint32_t error = chance(w, 0.05) ? (uint32_t)uniform(w, 1000, 200000) : (uint32_t)uniform(w, 50, 200);
    struct clock_moment m = {.error_ns = error};
    m.boot_ns = (int64_t)(w->boot_ns + uniform(w, 0, 0.85 * error));
    m.utc_ns = (int64_t)(w->utc_ns + uniform(w, 0, 0.85 * error));
    m.mono_ns = (int64_t)(w->mono_ns + uniform(w, 0, 0.85 * error));
    m.raw_ns = (int64_t)(w->raw_ns + uniform(w, 0, 0.85 * error));
    advance(w, error);
    return m;
}

static void check_state(struct worker *w, const struct timesync_state *s)
{
    if (s->bound_ns == TIMESYNC_UNKNOWN)
        return;
    long double error = fabsl(w->true_ns - w->utc_ns - (long double)s->offset_ns);
    if (error > (long double)s->bound_ns + 2) /* the simulation's own rounding */
        fail_msg("error %.0Lf ns, bound %llu ns", error, (unsigned long long)s->bound_ns);
}

static void keep_sample(struct worker *w, const struct timesync_state *s, struct samples *out)
{
    if (!out || s->bound_ns == TIMESYNC_UNKNOWN || out->n == out->max)
        return;
    double error = (double)fabsl(w->true_ns - w->utc_ns - (long double)s->offset_ns);
    out->error[out->n] = error / 1e3;
    out->bound[out->n] = (double)s->bound_ns / 1e3;
    out->share[out->n++] = error / (double)s->bound_ns;
}

static void check_global(struct worker *w, const struct clock_moment *now, uint32_t generation)
{
    int64_t global = timesync_global_ns(w->t, now);
    if (generation == w->generation && global < w->last_global - w->back_ns)
        fail_msg("time went back by %lld ns", (long long)(w->last_global - global));
    w->generation = generation;
    w->last_global = global;
}

static void look_and_check(struct worker *w, struct samples *out)
{
    struct clock_moment now = read_clocks(w);
    struct timesync_state s;
    (void)timesync_look(w->t, &now, w->maxerror_ns);
    timesync_state(w->t, &now, &s);
    check_state(w, &s);
    keep_sample(w, &s, out);
    check_global(w, &now, s.generation);
    timesync_line(w->t, &now, &w->line);
}

/* A program that reads the page at any time in between. */
static void read_line(struct worker *w)
{
    struct timesync_state s;
    struct clock_moment now = read_clocks(w);
    timesync_line_state(&w->line, &now, &s);
    check_state(w, &s);
}

static double asymmetry(struct worker *w)
{
    return chance(w, 0.25) ? 0 : chance(w, 0.33) ? 1 : uniform(w, 0, 1);
}

static void exchange_once(struct worker *w, struct samples *out)
{
    struct timesync_exchange x;
    enum timesync_change change;
    double rtt = pow(10, uniform(w, 4.7, chance(w, 0.1) ? 9.8 : 8.5)); /* 50 us to 0.3 s, some to 6 s */
    double there = rtt * asymmetry(w);
    x.t0_ns = (int64_t)w->boot_ns;
    advance(w, there);
    x.t1_ns = (int64_t)w->true_ns;
    advance(w, uniform(w, 1e3, chance(w, 0.1) ? 1e8 : 1e5));
    x.t2_ns = (int64_t)w->true_ns;
    if (chance(w, 0.3))
        look_and_check(w, NULL);
    advance(w, rtt - there);
    x.t3_ns = (int64_t)w->boot_ns;
    look_and_check(w, NULL);
    if (chance(w, 0.1))
        return; /* the answer was lost */
    struct clock_moment now = read_clocks(w);
    (void)timesync_look(w->t, &now, w->maxerror_ns);
    int r = timesync_add(w->t, &x, &now, &change, NULL);
    assert_true(r == 0 || x.t3_ns - x.t0_ns > TIMESYNC_RTT_MAX_NS * 3 / 4); /* so slow that the looks before are gone */
    look_and_check(w, out);
}

/* What happens to the clocks of hosts. */
static void disturb(struct worker *w)
{
    if (chance(w, 0.02)) { /* set by hours, minutes or milliseconds */
        double size = pow(10, uniform(w, 2, 13.5));
        w->utc_ns += (long double)(chance(w, 0.5) ? size : -size);
        if (size < 2e6)
            w->back_ns = 400 * US;
        w->maxerror_ns = TIMESYNC_UNKNOWN;
    }
    if (chance(w, 0.01)) { /* a suspend of minutes, and a clock of seconds to measure it with */
        long double slept = uniform(w, 1e9, 1.8e12), error = uniform(w, -1e9, 1e9);
        w->true_ns += slept;
        w->boot_ns += slept + error;
        w->utc_ns += slept + error;
    }
    if (chance(w, 0.02) || w->slew != 0) { /* a daemon slews for a while */
        w->slew = w->slew != 0 || w->maxerror_ns == TIMESYNC_UNKNOWN ? 0 : uniform(w, -0.1, 0.1);
    }
    if (chance(w, 0.02))
        w->drift = uniform(w, -200e-6, 200e-6); /* it became warmer */
}

static void run_worker(uint64_t seed, unsigned rounds, bool calm, struct samples *out)
{
    struct worker w = {.random = seed, .true_ns = START_UTC, .maxerror_ns = TIMESYNC_UNKNOWN};
    w.back_ns = 200; /* 500 ppm of the two widest moments: clocks are not read at once */
    double offset = uniform(&w, -3e9, 3e9);
    w.drift = uniform(&w, -200e-6, 200e-6);
    if (!calm && chance(&w, 0.3)) {
        offset = uniform(&w, -2e7, 2e7);
        w.maxerror_ns = 20000000;
    }
    w.raw_ns = w.mono_ns = uniform(&w, 1e9, 1e15);
    w.boot_ns = w.mono_ns + uniform(&w, 0, 1e15);
    w.utc_ns = w.true_ns - (long double)offset;
    w.t = timesync_create(0, false);
    assert_non_null(w.t);
    look_and_check(&w, NULL);
    double every = pow(10, uniform(&w, 9, 10.5)); /* renewals: 1 to 30 s */
    for (unsigned i = 0; i < rounds; i++) {
        exchange_once(&w, out);
        for (double left = every; left > 0;) {
            double step = uniform(&w, 1e6, chance(&w, 0.05) ? 3e10 : 2e9);
            advance(&w, step);
            read_line(&w);
            left -= step;
            if (!calm)
                disturb(&w);
            read_line(&w);
            look_and_check(&w, out);
        }
        if (chance(&w, 0.02))
            timesync_forget(w.t);
    }
    timesync_destroy(w.t);
}

static void test_workers(void **state)
{
    (void)state;
    unsigned workers = 3000 * test_scale();
    for (unsigned i = 0; i < workers; i++) {
        uint64_t seed = 0x67726964 + i;
        if (i % 500 == 0)
            print_message("workers from seed %llu\n", (unsigned long long)seed);
        run_worker(seed, 40, false, NULL);
    }
}

/* ---------------------------------------------------------------- the report */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_row(const char *what, double *values, size_t n)
{
    static const double at[] = {0.5, 0.9, 0.99, 0.999, 1};
    qsort(values, n, sizeof *values, ascending);
    printf("%-14s", what);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        printf(" %12.4g", values[(size_t)(at[i] * (double)(n - 1))]);
    printf("\n");
}

static int report(void)
{
    enum { WORKERS = 1000, ROUNDS = 100, MAX = 4000000 };
    struct samples s = {.max = MAX};
    s.error = calloc(MAX, sizeof *s.error);
    s.bound = calloc(MAX, sizeof *s.bound);
    s.share = calloc(MAX, sizeof *s.share);
    if (!s.error || !s.bound || !s.share)
        return 1;
    for (unsigned i = 0; i < WORKERS; i++)
        run_worker(1 + i, ROUNDS, true, &s);
    size_t outside = 0;
    for (size_t i = 0; i < s.n; i++)
        outside += s.share[i] > 1;
    printf("%d workers, offsets ±3 s, drift ±200 ppm, round trips 50 us to 0.3 s and some to 6 s, one direction up to all of\n"
           "it, renewals every 1 to 30 s, one answer in ten lost; %zu readings\n", WORKERS, s.n);
    printf("%-14s %12s %12s %12s %12s %12s\n", "", "median", "90%", "99%", "99.9%", "worst");
    print_row("error, us", s.error, s.n);
    print_row("bound, us", s.bound, s.n);
    print_row("error / bound", s.share, s.n);
    printf("figure: clock.outside_bound %zu (goal <= 0) %s\n", outside, outside == 0 && s.n ? "ok" : "short");
    printf("figure: clock.worst_error_by_bound %.4f (goal <= 1) %s\n", s.share[s.n - 1], s.share[s.n - 1] <= 1 ? "ok" : "short");
    free(s.error);
    free(s.bound);
    free(s.share);
    return outside != 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--report") == 0)
        return report();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_within_the_bound_is_not_applied),
        cmocka_unit_test(test_within_maxerror_is_not_applied),
        cmocka_unit_test(test_slews),
        cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_local_clock_is_set),
        cmocka_unit_test(test_local_clock_is_nudged),
        cmocka_unit_test(test_suspend),
        cmocka_unit_test(test_daemon_slews),
        cmocka_unit_test(test_impossible_exchanges),
        cmocka_unit_test(test_another_gateway),
        cmocka_unit_test(test_contradiction),
        cmocka_unit_test(test_keeps_utc),
        cmocka_unit_test(test_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
