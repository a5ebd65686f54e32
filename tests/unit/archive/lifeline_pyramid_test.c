/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever zoom is asked: every hop is counted once in the bins that serve it, the bins are what plain
 * counting gives, and the outliers are the slowest and the errors that sorting finds. */
#include "unit/test.h"

#include "archive/lifeline_pyramid.h"
#include "base/err.h"
#include "event/level.h"

#include <errno.h>

enum { HOPS_MAX = 4000, BINS_MAX = 4000 };

struct got_bin {
    struct pyramid_bin b;
    struct latency_histogram h;
};
struct got {
    struct got_bin bins[BINS_MAX];
    size_t n_bins;
    struct pyramid_outlier outliers[HOPS_MAX];
    size_t n_outliers;
};

static void take_bin(void *arg, const struct pyramid_bin *b)
{
    struct got *g = arg;
    assert_true(g->n_bins < BINS_MAX);
    g->bins[g->n_bins++] = (struct got_bin){*b, *b->latency};
}

static void take_outlier(void *arg, const struct pyramid_outlier *o)
{
    struct got *g = arg;
    assert_true(g->n_outliers < HOPS_MAX);
    g->outliers[g->n_outliers++] = *o;
}

static int by_time(const void *a, const void *b)
{
    const struct pyramid_hop *x = a, *y = b;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Bins of a zoom by the book: a division each. */
static bool same_bin(int64_t a, int64_t b, unsigned zoom, int64_t partition)
{
    int64_t width = INT64_C(1) << (2 * zoom);
    return floor_div(a, width) == floor_div(b, width) && floor_div(a, partition) == floor_div(b, partition);
}

/* The zoom of the bins that serve `asked`, and whether they hold exactly the hops. */
static void check_zoom(const struct got *g, const struct pyramid_hop *hops, size_t n, unsigned asked,
                       int64_t partition)
{
    size_t i = 0;
    for (size_t b = 0; b < g->n_bins; b++) {
        const struct pyramid_bin *bin = &g->bins[b].b;
        if (asked < bin->serves_from || asked > bin->serves_to)
            continue;
        assert_true(i < n);
        struct latency_histogram h = {{0}};
        uint64_t count = 0, errors = 0;
        size_t first = i;
        for (; i < n && same_bin(hops[i].end_ns, hops[first].end_ns, bin->zoom, partition); i++) {
            count++;
            errors += hops[i].level <= LEVEL_ERROR;
            if (hops[i].latency_ns != LATENCY_NONE)
                h.n[latency_bin(hops[i].latency_ns)]++;
        }
        assert_int_equal(bin->count, count);
        assert_int_equal(bin->errors, errors);
        assert_memory_equal(&g->bins[b].h, &h, sizeof h);
        assert_true(bin->from_ns <= hops[first].end_ns);
        assert_true(same_bin(bin->from_ns, hops[first].end_ns, bin->zoom, partition));
    }
    assert_int_equal(i, n);
}

/* How many hops of h's bin are before it in the order of slowness (or of errors). */
static size_t rank_of(const struct pyramid_hop *hops, size_t n, size_t at, unsigned zoom, int64_t partition,
                      bool as_error)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (!same_bin(hops[i].end_ns, hops[at].end_ns, zoom, partition))
            continue;
        if (as_error)
            rank += hops[i].level < hops[at].level || (hops[i].level == hops[at].level && i < at);
        else
            rank +=
                hops[i].latency_ns != LATENCY_NONE && (hops[i].latency_ns > hops[at].latency_ns ||
                                                       (hops[i].latency_ns == hops[at].latency_ns && i < at));
    }
    return rank;
}

static void check_outliers(const struct got *g, const struct pyramid_hop *hops, size_t n, unsigned asked,
                           int64_t partition)
{
    unsigned zoom = 0;
    for (size_t b = 0; b < g->n_bins; b++)
        if (asked >= g->bins[b].b.serves_from && asked <= g->bins[b].b.serves_to)
            zoom = g->bins[b].b.zoom;
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_slow = hops[i].latency_ns != LATENCY_NONE &&
                       rank_of(hops, n, i, zoom, partition, false) < PYRAMID_SLOWEST;
        bool is_error =
            hops[i].level <= LEVEL_ERROR && rank_of(hops, n, i, zoom, partition, true) < PYRAMID_ERRORS;
        while (next < g->n_outliers && g->outliers[next].serves_to < asked)
            next++;
        bool is_there = next < g->n_outliers && g->outliers[next].hop == &hops[i];
        assert_int_equal(is_there, is_slow || is_error);
        if (is_there && is_slow)
            assert_true(g->outliers[next].is_slow);
        next += is_there;
    }
    while (next < g->n_outliers && g->outliers[next].serves_to < asked)
        next++;
    assert_int_equal(next, g->n_outliers);
}

static void check(const struct pyramid_hop *hops, size_t n, int64_t partition)
{
    static struct got g;
    static uint16_t scratch[HOPS_MAX];
    g.n_bins = g.n_outliers = 0;
    struct pyramid_out out = {take_bin, take_outlier, &g};
    pyramid_build(hops, n, partition, scratch, &out);
    size_t coarsest = 1; /* bins that nothing can merge, at most */
    for (size_t i = 1; i < n; i++)
        coarsest += !same_bin(hops[i].end_ns, hops[i - 1].end_ns, PYRAMID_ZOOM_MAX, partition);
    size_t least = n / PYRAMID_HOPS > coarsest ? n / PYRAMID_HOPS : coarsest;
    assert_true(g.n_bins <= 2 * least); /* what it may cost */
    for (unsigned z = 0; z <= PYRAMID_ZOOM_ALL; z++) {
        check_zoom(&g, hops, n, z, partition);
        if (z % 4 == 1)
            check_outliers(&g, hops, n, z, partition);
    }
}

static void same_as_plain_counting(void **state)
{
    (void)state;
    static struct pyramid_hop hops[HOPS_MAX];
    for (uint64_t seed = 1; seed <= 40 * test_scale(); seed++) {
        uint64_t s = seed;
        size_t n = 1 + test_random(&s) % (seed % 4 ? 300 : 1500);
        unsigned spread = 10 + (unsigned)(test_random(&s) % 46); /* from a microsecond to two years */
        int64_t base =
            (int64_t)(test_random(&s) % 3) * INT64_C(600000000000000000) - INT64_C(600000000000000000);
        bool is_bursty = test_random(&s) % 2;
        for (size_t i = 0; i < n; i++) {
            int64_t t = (int64_t)(test_random(&s) & ((UINT64_C(1) << spread) - 1));
            if (is_bursty && test_random(&s) % 8)
                t = (t >> (spread - 3) << (spread - 3)) + (t & 0xffff);
            hops[i] = (struct pyramid_hop){
                .end_ns = base + t,
                .latency_ns =
                    test_random(&s) % 10 ? test_random(&s) % (1u << (test_random(&s) % 31)) : LATENCY_NONE,
                .level = test_random(&s) % 20 ? LEVEL_INFO : (uint8_t)(test_random(&s) % 5)};
        }
        qsort(hops, n, sizeof *hops, by_time);
        int64_t partition = test_random(&s) % 2 ? INT64_C(86400000000000) : INT64_C(777777777777);
        if (spread > 48)
            partition = INT64_C(86400000000000) * 400;
        check(hops, n, partition);
    }
}

static void ends_of_time(void **state)
{
    (void)state;
    const struct pyramid_hop hops[] = {
        {.end_ns = INT64_MIN, .latency_ns = LATENCY_NONE, .level = LEVEL_INFO},
        {.end_ns = -1, .latency_ns = 5, .level = LEVEL_INFO},
        {.end_ns = 0, .latency_ns = UINT64_MAX - 1, .level = LEVEL_ERROR},
        {.end_ns = INT64_MAX, .latency_ns = 0, .level = LEVEL_INFO},
    };
    check(hops, 4, INT64_C(86400000000000));
}

static void bins_of_latency(void **state)
{
    (void)state;
    unsigned last = 0;
    for (unsigned e = 0; e < 64; e++)
        for (int d = -1; d <= 1; d++) {
            uint64_t v = (UINT64_C(1) << e) + (uint64_t)(int64_t)d;
            unsigned b = latency_bin(v);
            assert_true(b < LATENCY_BINS && (b >= last || (e < 2 && d < 0)));
            assert_true(latency_bin_from(b) <= v);
            assert_true(v < latency_bin_from(b + 1) || b + 1 == LATENCY_BINS);
            last = b;
        }
    assert_int_equal(latency_bin(UINT64_MAX), LATENCY_BINS - 1);
    for (unsigned b = 0; b < LATENCY_BINS; b++)
        assert_int_equal(latency_bin(latency_bin_from(b)), b);
}

static void histogram_as_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t s = seed;
        struct latency_histogram h = {{0}}, back = {{0}};
        for (size_t i = test_random(&s) % 300; i > 0; i--)
            h.n[test_random(&s) % LATENCY_BINS] += test_random(&s) % 1000;
        struct strbuf out = {0};
        latency_histogram_put(&h, &out);
        assert_int_equal(latency_histogram_add(strbuf_slice(&out), &back), 0);
        assert_memory_equal(&h, &back, sizeof h);
        strbuf_fini(&out);
    }
    struct latency_histogram h = {{0}};
    const char *const wrong[] = {"\x01", "\xfc\x01\x01", "\x05\x00", "\xfb\x01\x01\x00\x01", "\x80"};
    const size_t lengths[] = {1, 3, 2, 5, 1};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(latency_histogram_add(slice_of(wrong[i], lengths[i]), &h), E_PROTO);
    assert_int_equal(latency_histogram_add(slice_of("\xfb\x01\x01", 3), &h), 0);
}

static void quantiles(void **state)
{
    (void)state;
    struct latency_histogram h = {{0}};
    assert_true(latency_histogram_quantile(&h, 0.5) == 0);
    for (uint64_t v = 1; v <= 1000; v++)
        h.n[latency_bin(v * 1000000)]++;
    double p50 = latency_histogram_quantile(&h, 0.5), p99 = latency_histogram_quantile(&h, 0.99);
    assert_true(p50 > 500e6 / 1.25 && p50 < 500e6 * 1.25);
    assert_true(p99 > 990e6 / 1.25 && p99 < 990e6 * 1.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_plain_counting),
        cmocka_unit_test(ends_of_time),
        cmocka_unit_test(bins_of_latency),
        cmocka_unit_test(histogram_as_bytes),
        cmocka_unit_test(quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
