/* SPDX-License-Identifier: Apache-2.0 */
/* How the zooms are chosen: two hops that follow each other are in one bin of zoom z exactly when their times
 * differ in the lowest 2z bits only, and no partition ends between them. So one pass that counts the highest
 * differing bit of neighbours tells how many bins every zoom would have.
 *
 * How outliers nest: the first zoom takes the best few of all hops of a bin, each further one the best few of
 * those that the one before has taken. By a total order (latency, then place) that is the same as taking the
 * best of all hops of the coarser bin. */
#include "archive/lifeline_pyramid.h"

#include "base/cursor.h"
#include "base/err.h"
#include "event/level.h"

#include <math.h>

void latency_histogram_put(const struct latency_histogram *h, struct strbuf *out)
{
    unsigned next = 0;
    for (unsigned i = 0; i < LATENCY_BINS; i++) {
        if (!h->n[i])
            continue;
        strbuf_add_varint(out, i - next);
        strbuf_add_varint(out, h->n[i]);
        next = i + 1;
    }
}

int latency_histogram_add(struct slice bytes, struct latency_histogram *h)
{
    struct cursor c = cursor_of(bytes);
    for (uint64_t next = 0; cursor_left(&c); next++) {
        uint64_t gap = cursor_varint(&c), count = cursor_varint(&c);
        if (c.bad || gap >= LATENCY_BINS - next || !count)
            return E_PROTO;
        next += gap;
        if (__builtin_add_overflow(h->n[next], count, &h->n[next]))
            return E_PROTO;
    }
    return 0;
}

double latency_histogram_quantile(const struct latency_histogram *h, double q)
{
    double all = 0, below = 0;
    for (unsigned i = 0; i < LATENCY_BINS; i++)
        all += (double)h->n[i];
    for (unsigned i = 0; i < LATENCY_BINS; i++) {
        below += (double)h->n[i];
        if (h->n[i] && below >= q * all)
            return i < 8 ? (double)i : sqrt((double)latency_bin_from(i) * (double)latency_bin_from(i + 1));
    }
    return 0;
}

/* ---------------------------------------------------------------- bins */

/* The last ns of the bin of zoom that t is in; *from gets its first. Both within t's partition. */
static int64_t bin_of(int64_t t, unsigned zoom, int64_t partition_ns, int64_t *from)
{
    int64_t width = INT64_C(1) << (2 * zoom), into = t % partition_ns, start, last;
    if (into < 0)
        into += partition_ns;
    if (__builtin_sub_overflow(t, into, &start))
        start = INT64_MIN;
    if (__builtin_add_overflow(t, partition_ns - into - 1, &last))
        last = INT64_MAX;
    int64_t bin = t & -width;
    *from = bin > start ? bin : start;
    int64_t end = bin + (width - 1); /* sets the bits that bin has not: can't overflow */
    return end < last ? end : last;
}

/* The zooms that are kept, finest first. */
struct zooms {
    unsigned at[PYRAMID_ZOOM_MAX - PYRAMID_ZOOM_MIN + 1];
    unsigned n;
};

/* bins[z]: how many bins zoom z has. */
static void count_bins(const struct pyramid_hop *hops, size_t n, int64_t partition_ns,
                       size_t bins[PYRAMID_ZOOM_MAX + 1])
{
    size_t apart[34] = {0}; /* neighbours that are together from that zoom on; the last: never */
    int64_t from, partition_last = bin_of(hops[0].end_ns, 31, partition_ns, &from);
    for (size_t i = 1; i < n; i++) {
        if (hops[i].end_ns > partition_last) {
            partition_last = bin_of(hops[i].end_ns, 31, partition_ns, &from);
            apart[33]++;
            continue;
        }
        uint64_t bits = (uint64_t)hops[i].end_ns ^ (uint64_t)hops[i - 1].end_ns;
        apart[bits ? (63 - (unsigned)__builtin_clzll(bits)) / 2 + 1 : 0]++;
    }
    size_t more = 1 + apart[33];
    for (unsigned z = 32; z > PYRAMID_ZOOM_MAX; z--)
        more += apart[z];
    for (unsigned z = PYRAMID_ZOOM_MAX + 1; z-- > 0;) {
        bins[z] = more;
        more += apart[z];
    }
}

static void choose_zooms(const struct pyramid_hop *hops, size_t n, int64_t partition_ns, struct zooms *out)
{
    size_t bins[PYRAMID_ZOOM_MAX + 1];
    count_bins(hops, n, partition_ns, bins);
    unsigned z = PYRAMID_ZOOM_MIN;
    while (z < PYRAMID_ZOOM_MAX && bins[z] > n / PYRAMID_HOPS && bins[z] > bins[PYRAMID_ZOOM_MAX])
        z++;
    out->at[0] = z;
    out->n = 1;
    for (size_t last = bins[z]; z <= PYRAMID_ZOOM_MAX; z++) {
        if (bins[z] > last / 2)
            continue;
        out->at[out->n++] = z;
        last = bins[z];
    }
}

/* ---------------------------------------------------------------- outliers */

/* The best few of a bin, best first. */
struct best {
    uint32_t at[PYRAMID_ERRORS];
    unsigned n, max;
};

/* Is a, which comes later, better than b? Of those that are equal the first is. */
static bool is_slower(const struct pyramid_hop *a, const struct pyramid_hop *b)
{
    return a->latency_ns > b->latency_ns;
}
static bool is_worse(const struct pyramid_hop *a, const struct pyramid_hop *b)
{
    return a->level < b->level;
}

static void best_add(struct best *b, const struct pyramid_hop *hops, uint32_t i,
                     bool (*is_better)(const struct pyramid_hop *, const struct pyramid_hop *))
{
    if (b->n == b->max && !is_better(&hops[i], &hops[b->at[b->n - 1]]))
        return;
    unsigned at = b->n < b->max ? b->n++ : b->n - 1;
    for (; at > 0 && is_better(&hops[i], &hops[b->at[at - 1]]); at--)
        b->at[at] = b->at[at - 1];
    b->at[at] = i;
}

/* Marks: the number (from 1) of the last zoom that has taken the hop, as slow in the low byte, as an error in
 * the high one. */
static void mark_best(const struct pyramid_hop *hops, size_t from, size_t to, unsigned zoom_number,
                      uint16_t *marks)
{
    struct best slow = {.max = PYRAMID_SLOWEST}, errors = {.max = PYRAMID_ERRORS};
    for (size_t i = from; i < to; i++) {
        if ((marks[i] & 255) == zoom_number - 1 && hops[i].latency_ns != LATENCY_NONE)
            best_add(&slow, hops, (uint32_t)i, is_slower);
        if (marks[i] >> 8 == (int)zoom_number - 1 && hops[i].level <= LEVEL_ERROR)
            best_add(&errors, hops, (uint32_t)i, is_worse);
    }
    for (unsigned i = 0; i < slow.n; i++)
        marks[slow.at[i]] = (uint16_t)((marks[slow.at[i]] & 0xff00) | zoom_number);
    for (unsigned i = 0; i < errors.n; i++)
        marks[errors.at[i]] = (uint16_t)((marks[errors.at[i]] & 255) | zoom_number << 8);
}

/* ---------------------------------------------------------------- all of it */

static unsigned zoom_serves_to(const struct zooms *zooms, unsigned i)
{
    return i + 1 < zooms->n ? zooms->at[i + 1] - 1 : PYRAMID_ZOOM_ALL;
}

static void build_zoom(const struct pyramid_hop *hops, size_t n, int64_t partition_ns,
                       const struct zooms *zooms, unsigned number, uint16_t *marks,
                       const struct pyramid_out *out)
{
    for (size_t i = 0, to; i < n; i = to) {
        struct latency_histogram h = {{0}};
        struct pyramid_bin b = {.zoom = zooms->at[number],
                                .serves_from = number ? zooms->at[number] : 0,
                                .serves_to = zoom_serves_to(zooms, number),
                                .latency = &h};
        int64_t last = bin_of(hops[i].end_ns, b.zoom, partition_ns, &b.from_ns);
        for (to = i; to < n && hops[to].end_ns <= last; to++) {
            b.count++;
            b.errors += hops[to].level <= LEVEL_ERROR;
            if (hops[to].latency_ns != LATENCY_NONE)
                h.n[latency_bin(hops[to].latency_ns)]++;
        }
        out->bin(out->arg, &b);
        if (out->outlier)
            mark_best(hops, i, to, number + 1, marks);
    }
}

void pyramid_build(const struct pyramid_hop *hops, size_t n, int64_t partition_ns, uint16_t *scratch,
                   const struct pyramid_out *out)
{
    if (n == 0)
        return;
    struct zooms zooms;
    choose_zooms(hops, n, partition_ns, &zooms);
    memset(scratch, 0, n * sizeof *scratch);
    for (unsigned i = 0; i < zooms.n; i++)
        build_zoom(hops, n, partition_ns, &zooms, i, scratch, out);
    for (size_t i = 0; out->outlier && i < n; i++) {
        unsigned slow = scratch[i] & 255, error = scratch[i] >> 8, most = slow > error ? slow : error;
        if (!most)
            continue;
        struct pyramid_outlier o = {
            .hop = &hops[i], .serves_to = zoom_serves_to(&zooms, most - 1), .is_slow = slow > 0};
        out->outlier(out->arg, &o);
    }
}
