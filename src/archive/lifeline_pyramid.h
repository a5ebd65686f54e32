/* SPDX-License-Identifier: Apache-2.0 */
/* lifeline_pyramid.h - hops of one group (a pair of event names, or of hosts) in bins of time, at several
 * zooms. Pure: arrays in, calls out.
 *
 * Bins of zoom z are 4^z ns wide and begin at multiples of that, and end where a partition ends. Of one flush
 * only some zooms are kept: the finest is the one whose bins have PYRAMID_HOPS hops on the average, since
 * below that the rows themselves are as good and as quick; then each that has at most half as many bins as
 * the one before. So the number of bins is below 2/PYRAMID_HOPS of the hops (and at least 1), whatever the
 * rate: a bin costs 20 to 30 bytes at rest beside 64 events of 20 to 60. A kept bin says which zooms it
 * serves: those up to the next kept one, the first of them also all finer, the last also all coarser; so a
 * reader who wants one zoom takes the bins that serve it, and sees every hop once.
 *
 * Outliers are chosen so that those of a coarse bin are among those of its finer ones: each is kept once,
 * with the coarsest zoom that it serves. At most PYRAMID_SLOWEST and PYRAMID_ERRORS a bin. */
#ifndef GRIDLINE_ARCHIVE_LIFELINE_PYRAMID_H
#define GRIDLINE_ARCHIVE_LIFELINE_PYRAMID_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    PYRAMID_ZOOM_MIN = 8,  /* 65 us */
    PYRAMID_ZOOM_MAX = 25, /* 13 days */
    PYRAMID_ZOOM_ALL = 31, /* serves_to of the coarsest: 4^31 ns is all time */
    PYRAMID_HOPS = 64,     /* a bin, at the finest */
    PYRAMID_SLOWEST = 2,   /* a bin */
    PYRAMID_ERRORS = 8,    /* a bin */
    LATENCY_BINS = 252
};
#define LATENCY_NONE UINT64_MAX /* the first event of an id has none */

/* Four bins to a doubling: 0, 1, 2, 3, 4, 5, 6, 7, 8-9, 10-11, 12-13, 14-15, 16-19... ns. */
static inline unsigned latency_bin(uint64_t ns)
{
    if (ns < 4)
        return (unsigned)ns;
    unsigned e = 63 - (unsigned)__builtin_clzll(ns);
    return (e - 1) * 4 + (unsigned)(ns >> (e - 2) & 3);
}
/* The least latency of the bin; of LATENCY_BINS: UINT64_MAX. */
static inline uint64_t latency_bin_from(unsigned bin)
{
    if (bin < 4)
        return bin;
    return bin >= LATENCY_BINS ? UINT64_MAX : (uint64_t)(4 + (bin & 3)) << (bin / 4 - 1);
}

/* How many hops had a latency of each bin. As bytes: for each bin with any, ascending, varint bins since the
 * last (of the first: its number), varint count. */
struct latency_histogram {
    uint64_t n[LATENCY_BINS];
};
void latency_histogram_put(const struct latency_histogram *h, struct strbuf *out);
/* Adds what the bytes say to h. E_PROTO: they are not such; h may have got a part of it. */
int latency_histogram_add(struct slice bytes, struct latency_histogram *h);
/* The latency that a share of q (0 to 1) of the hops is below, to within a bin (geometric middle). 0: none.
 */
double latency_histogram_quantile(const struct latency_histogram *h, double q);

struct pyramid_hop {
    int64_t end_ns;
    uint64_t latency_ns; /* or LATENCY_NONE */
    uint32_t ref;        /* the caller's */
    uint8_t level;       /* of the event that ends it */
};

struct pyramid_bin {
    unsigned zoom, serves_from, serves_to;
    int64_t from_ns; /* when it begins: at the earliest where its partition does */
    uint64_t count, errors;
    const struct latency_histogram *latency;
};
struct pyramid_outlier {
    const struct pyramid_hop *hop;
    unsigned serves_to; /* and all finer */
    bool is_slow;       /* else it is here as an error only */
};
struct pyramid_out {
    void (*bin)(void *arg, const struct pyramid_bin *b);
    void (*outlier)(void *arg, const struct pyramid_outlier *o); /* NULL = not wanted */
    void *arg;
};

/* hops: in order of time. scratch: n of them, the caller's. Cost: a pass for each zoom that is kept. */
void pyramid_build(const struct pyramid_hop *hops, size_t n, int64_t partition_ns, uint16_t *scratch,
                   const struct pyramid_out *out);

#endif
