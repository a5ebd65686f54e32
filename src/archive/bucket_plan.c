/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_plan.c - which parts of the range are answered by what.
 *
 * A partition's tiers stand for it in two cases:
 *   - its raw rows are gone, or those of this event name are: then the coarsest tier that divides the step
 * and whose steps do not stick out of the range, else the finest. Raw rows are asked for all the same: what
 *     there may be is not in the tier.
 *   - whoever asks accepts tiers: then the coarsest accepted that divides the step, from the first to the
 *     last of its steps that are wholly in the range; raw rows of that time are left out, and asked for on
 *     both sides. Not where another partition has raw rows of the same time (one that was made with another
 *     length). */
#include "archive/bucket_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

static int add(struct bucket_plan *all, const struct bucket_part *part)
{
    if (part->from_ns >= part->to_ns)
        return 0;
    if (all->n == all->max) {
        size_t max = all->max ? all->max * 2 : 8;
        struct bucket_part *p = mem_try_resize(all->parts, max * sizeof *p);
        if (!p)
            return -ENOMEM;
        all->parts = p;
        all->max = max;
    }
    all->parts[all->n++] = *part;
    return 0;
}

static int64_t round_up(int64_t t, int64_t step)
{
    int64_t over = t % step, by = over > 0 ? step - over : -over;
    return t > INT64_MAX - by ? INT64_MAX : t + by;
}

static int64_t round_down(int64_t t, int64_t step)
{
    int64_t over = t % step, by = over >= 0 ? over : step + over;
    return t < INT64_MIN + by ? INT64_MIN : t - by;
}

/* ---------------------------------------------------------------- partitions */

/* Partitions of the same time: raw rows, and tiers from the finest to the coarsest. */
struct group {
    const struct partition_span *raw; /* NULL: there is none */
    const struct partition_span *tiers;
    size_t n_tiers;
    bool is_overlapped;
};

static int compare_spans(const void *a, const void *b)
{
    const struct partition_span *x = a, *y = b;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    if (x->to_ns != y->to_ns)
        return x->to_ns < y->to_ns ? -1 : 1;
    return (x->step_ns > y->step_ns) - (x->step_ns < y->step_ns);
}

/* Those that the range touches, in order; NULL with *n 0 and r 0: no tier is among them. */
static struct partition_span *list_spans(const struct view *v, const struct bucket_spec *spec, size_t *n,
                                         int *r)
{
    size_t all = view_partitions(v), count = 0, tiers = 0;
    *n = 0;
    *r = 0;
    for (size_t i = 0; i < all; i++)
        tiers += view_partition_at(v, i).step_ns != 0;
    if (tiers == 0)
        return NULL;
    struct partition_span *spans = mem_try_alloc(all * sizeof *spans);
    if (!spans) {
        *r = -ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < all; i++) {
        struct partition_span p = view_partition_at(v, i);
        if (p.from_ns < spec->to_ns && p.to_ns > spec->from_ns)
            spans[count++] = p;
    }
    qsort(spans, count, sizeof *spans, compare_spans);
    *n = count;
    return spans;
}

/* The group that begins at spans[i]; returns where the next one does. raw_until: how far raw partitions of
 * groups before it reach. */
static size_t take_group(const struct partition_span *spans, size_t n, size_t i, int64_t raw_until,
                         struct group *out)
{
    const struct partition_span *first = &spans[i];
    *out = (struct group){.is_overlapped = raw_until > first->from_ns};
    for (; i < n && spans[i].from_ns == first->from_ns && spans[i].to_ns == first->to_ns; i++) {
        if (spans[i].step_ns == 0)
            out->raw = &spans[i];
        else if (out->n_tiers++ == 0)
            out->tiers = &spans[i];
    }
    for (size_t k = i; k < n && spans[k].from_ns < first->to_ns; k++)
        out->is_overlapped = out->is_overlapped || spans[k].step_ns == 0;
    return i;
}

/* Does the partition have rows of the event name? 1, 0 or an error. */
static int has_name(struct view *v, const struct bucket_spec *spec, const struct partition_span *span)
{
    struct scan_spec all = {.name = spec->name,
                            .from_ns = INT64_MIN,
                            .to_ns = INT64_MAX,
                            .step_ns = span->step_ns,
                            .only = span,
                            .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    int r = scan_open(v, &all, &scan);
    if (r < 0)
        return r;
    r = scan_next(scan, &chunk);
    scan_close(scan);
    return r;
}

/* ---------------------------------------------------------------- which tier */

static struct bucket_part clip(const struct bucket_spec *spec, const struct partition_span *span)
{
    struct bucket_part p = {spec->from_ns, spec->to_ns, span->step_ns};
    p.from_ns = span->from_ns > p.from_ns ? span->from_ns : p.from_ns;
    p.to_ns = span->to_ns < p.to_ns ? span->to_ns : p.to_ns;
    return p;
}

static bool divides(const struct bucket_spec *spec, int64_t tier_ns)
{
    return spec->step_ns == 0 || spec->step_ns % tier_ns == 0;
}

static struct bucket_part choose_for_gone(const struct bucket_spec *spec, const struct group *g)
{
    for (size_t i = g->n_tiers; i-- > 0;) {
        struct bucket_part p = clip(spec, &g->tiers[i]);
        if (divides(spec, p.tier_ns) && p.from_ns % p.tier_ns == 0 && p.to_ns % p.tier_ns == 0)
            return p;
    }
    return clip(spec, &g->tiers[0]);
}

/* tier_ns 0: none. */
static struct bucket_part choose_accepted(const struct bucket_spec *spec, const struct group *g)
{
    for (size_t i = g->n_tiers; i-- > 0;) {
        struct bucket_part p = clip(spec, &g->tiers[i]);
        if (p.tier_ns > spec->tier_ns || !divides(spec, p.tier_ns))
            continue;
        p.from_ns = round_up(p.from_ns, p.tier_ns);
        p.to_ns = round_down(p.to_ns, p.tier_ns);
        if (p.from_ns < p.to_ns)
            return p;
    }
    return (struct bucket_part){.tier_ns = 0};
}

/* A condition can't be asked of a tier that has something to say. */
static int refuse(struct view *v, const struct bucket_spec *spec, const struct group *g, struct diag *why)
{
    int r = has_name(v, spec, &g->tiers[0]);
    if (r <= 0)
        return r;
    return diag_set(why, E_PROTO, 0,
                    "a condition needs raw rows, and of a part of this time only tiers are left: leave the "
                    "condition out, or ask for a later time");
}

/* Adds the tier that stands for the partition's rows; *raw_from: raw rows are asked for from there on. */
static int plan_group(struct view *v, const struct bucket_spec *spec, const struct group *g,
                      struct bucket_plan *all, int64_t *raw_from, struct diag *why)
{
    int r = g->raw ? has_name(v, spec, g->raw) : 0;
    if (r < 0)
        return r;
    if (r == 0 && spec->where)
        return refuse(v, spec, g, why);
    struct bucket_part p = r == 0 ? choose_for_gone(spec, g) : choose_accepted(spec, g);
    if (r == 0)
        return add(all, &p);
    if (p.tier_ns == 0 || spec->where || g->is_overlapped)
        return 0;
    struct bucket_part raw = {*raw_from, p.from_ns, 0};
    *raw_from = p.to_ns;
    r = add(all, &raw);
    return r < 0 ? r : add(all, &p);
}

int bucket_plan(struct view *v, const struct bucket_spec *spec, struct bucket_plan *out, struct diag *why)
{
    int64_t raw_from = spec->from_ns, raw_until = INT64_MIN;
    size_t n;
    int r;
    struct partition_span *spans = list_spans(v, spec, &n, &r);
    for (size_t i = 0; r == 0 && i < n;) {
        struct group g;
        i = take_group(spans, n, i, raw_until, &g);
        if (g.n_tiers)
            r = plan_group(v, spec, &g, out, &raw_from, why);
        if (g.raw && g.raw->to_ns > raw_until)
            raw_until = g.raw->to_ns;
    }
    mem_free(spans);
    struct bucket_part rest = {raw_from, spec->to_ns, 0};
    return r < 0 ? r : add(out, &rest);
}
