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

/* Partitions of the same time: raw rows, and tiers from the finest to the coarsest. A view knows when one
 * begins; when it ends only after it has opened it. */
enum { TIERS_MAX = 8 };
struct group {
    int64_t from_ns, to_ns;
    bool has_raw;
    int64_t tiers[TIERS_MAX]; /* their steps */
    size_t n_tiers;
};

static int compare_spans(const void *a, const void *b)
{
    const struct partition_span *x = a, *y = b;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    return (x->step_ns > y->step_ns) - (x->step_ns < y->step_ns);
}

bool bucket_has_tiers(const struct view *v, const struct bucket_spec *spec)
{
    for (size_t i = 0; i < view_partitions(v); i++) {
        struct partition_span p = view_partition_at(v, i);
        if (p.step_ns && p.from_ns < spec->to_ns && p.to_ns > spec->from_ns)
            return true;
    }
    return false;
}

/* Those that the range may touch, in order. */
static int list_spans(const struct view *v, const struct bucket_spec *spec, struct partition_span **out,
                      size_t *n)
{
    struct partition_span *spans = mem_try_alloc((view_partitions(v) + 1) * sizeof *spans);
    size_t count = 0;
    if (!spans)
        return -ENOMEM;
    for (size_t i = 0; i < view_partitions(v); i++) {
        struct partition_span p = view_partition_at(v, i);
        if (p.from_ns < spec->to_ns && p.to_ns > spec->from_ns)
            spans[count++] = p;
    }
    qsort(spans, count, sizeof *spans, compare_spans);
    *out = spans;
    *n = count;
    return 0;
}

/* The group that begins at spans[i]; returns where the next one does. */
static size_t take_group(const struct partition_span *spans, size_t n, size_t i, struct group *out)
{
    *out = (struct group){.from_ns = spans[i].from_ns, .to_ns = spans[i].to_ns};
    for (; i < n && spans[i].from_ns == out->from_ns; i++) {
        if (spans[i].step_ns == 0)
            out->has_raw = true;
        else if (out->n_tiers < TIERS_MAX)
            out->tiers[out->n_tiers++] = spans[i].step_ns;
    }
    return i;
}

/* Does that partition of the group have rows of the event name? 1, 0 or an error. Opens it: then its end is
 * known. */
static int has_name(struct view *v, struct slice name, struct group *g, int64_t step_ns)
{
    struct partition_span only = {g->from_ns, INT64_MAX, step_ns};
    struct scan_spec spec = {.name = name,
                             .from_ns = INT64_MIN,
                             .to_ns = INT64_MAX,
                             .step_ns = step_ns,
                             .only = &only,
                             .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    r = scan_next(scan, &chunk);
    scan_close(scan);
    for (size_t i = 0; i < view_partitions(v); i++) {
        struct partition_span p = view_partition_at(v, i);
        if (p.from_ns == g->from_ns && p.step_ns == step_ns)
            g->to_ns = p.to_ns;
    }
    return r;
}

/* Does another partition have raw rows of this time? */
static bool is_overlapped(const struct view *v, const struct group *g)
{
    for (size_t i = 0; i < view_partitions(v); i++) {
        struct partition_span p = view_partition_at(v, i);
        if (p.step_ns == 0 && p.from_ns != g->from_ns && p.from_ns < g->to_ns && p.to_ns > g->from_ns)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- which tier */

static struct bucket_part clip(const struct bucket_spec *spec, const struct group *g, int64_t tier_ns)
{
    struct bucket_part p = {.from_ns = spec->from_ns,
                            .to_ns = spec->to_ns,
                            .tier_ns = tier_ns,
                            .partition = {g->from_ns, g->to_ns, tier_ns}};
    p.from_ns = g->from_ns > p.from_ns ? g->from_ns : p.from_ns;
    p.to_ns = g->to_ns < p.to_ns ? g->to_ns : p.to_ns;
    return p;
}

static bool divides(const struct bucket_spec *spec, int64_t tier_ns)
{
    return spec->step_ns == 0 || spec->step_ns % tier_ns == 0;
}

static struct bucket_part choose_for_gone(const struct bucket_spec *spec, const struct group *g)
{
    for (size_t i = g->n_tiers; i-- > 0;) {
        struct bucket_part p = clip(spec, g, g->tiers[i]);
        if (divides(spec, p.tier_ns) && p.from_ns % p.tier_ns == 0 && p.to_ns % p.tier_ns == 0)
            return p;
    }
    return clip(spec, g, g->tiers[0]);
}

/* tier_ns 0: none. */
static struct bucket_part choose_accepted(const struct bucket_spec *spec, const struct group *g)
{
    for (size_t i = g->n_tiers; i-- > 0;) {
        struct bucket_part p = clip(spec, g, g->tiers[i]);
        if (p.tier_ns > spec->tier_ns || !divides(spec, p.tier_ns))
            continue;
        p.from_ns = round_up(p.from_ns, p.tier_ns);
        p.to_ns = round_down(p.to_ns, p.tier_ns);
        if (p.from_ns < p.to_ns)
            return p;
    }
    return (struct bucket_part){.tier_ns = 0};
}

/* Adds the tier that stands for rows that are gone. A condition can't be asked of one. */
static int plan_gone(struct view *v, const struct bucket_spec *spec, struct slice name, struct group *g,
                     struct bucket_plan *all, struct diag *why)
{
    int r = has_name(v, name, g, g->tiers[0]);
    if (r <= 0)
        return r;
    struct bucket_part p = choose_for_gone(spec, g);
    if (!spec->where || p.from_ns >= p.to_ns)
        return add(all, &p);
    return diag_set(why, E_PROTO, 0,
                    "a condition needs raw rows, and of a part of this time only tiers are left: leave the "
                    "condition out, or ask for a later time");
}

/* *raw_from: raw rows are asked for from there on. */
static int plan_group(struct view *v, const struct bucket_spec *spec, struct slice name, struct group *g,
                      struct bucket_plan *all, int64_t *raw_from, struct diag *why)
{
    int r = g->has_raw ? has_name(v, name, g, 0) : 0;
    if (r < 0)
        return r;
    if (r == 0)
        return plan_gone(v, spec, name, g, all, why);
    if (spec->where || spec->tier_ns == 0)
        return 0;
    struct bucket_part p = choose_accepted(spec, g);
    if (p.tier_ns == 0 || is_overlapped(v, g))
        return 0;
    if ((r = has_name(v, name, g, p.tier_ns)) <= 0)
        return r; /* it was made after the view was taken */
    struct bucket_part raw = {.from_ns = *raw_from, .to_ns = p.from_ns};
    *raw_from = p.to_ns;
    r = add(all, &raw);
    return r < 0 ? r : add(all, &p);
}

int bucket_plan(struct view *v, const struct bucket_spec *spec, struct slice name, struct bucket_plan *out,
                struct diag *why)
{
    struct bucket_part raw = {.from_ns = spec->from_ns, .to_ns = spec->to_ns};
    struct partition_span *spans = NULL;
    size_t n = 0;
    if (!bucket_has_tiers(v, spec))
        return add(out, &raw);
    int r = list_spans(v, spec, &spans, &n);
    for (size_t i = 0; r == 0 && i < n;) {
        struct group g;
        i = take_group(spans, n, i, &g);
        if (g.n_tiers)
            r = plan_group(v, spec, name, &g, out, &raw.from_ns, why);
    }
    mem_free(spans);
    return r < 0 ? r : add(out, &raw);
}
