/* SPDX-License-Identifier: Apache-2.0 */
/* A step collects all wants anew (a subscription and a pattern each), and goes on with the workers where the
 * step before ended: first those that have registered, then, if subscriptions changed, round all ids once. A
 * change meanwhile makes it a whole round from where it is, so that nobody waits for ever behind changes.
 *
 * What a worker is asked for is made canonical (sorted, each pattern once), so that its hash tells whether it
 * is what the worker was told. Rejected: keeping the bytes for each worker (64 KiB of 10,000 workers for the
 * sake of collisions of 64 bits); following each subscription to its workers (work for every worker, again).
 */
#include "gateway/demand.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/config.h"

#include <errno.h>
#include <stdlib.h>

enum {
    STEP_COST = 200000, /* a step ends after that: */
    COST_OF_TEST = 1,   /* of a want for a worker; */
    COST_OF_WANT = 4,   /* of one that goes into a list; */
    COST_OF_FRAME = 200,
    SHARE = 20,         /* looking at changes takes a part in so many of the loop's time, */
    SHARE_OF_ROUND = 4, /* and going on with a round this one */
    REGISTERED_MAX = 4096
};

/* A pattern of a subscription. */
struct want {
    struct slice pattern;
    uint32_t period_ms;                /* 0 = the sensor's own */
    const struct selector *selector;   /* which hosts; NULL = all */
    const struct access_identity *who; /* where it may; NULL = everywhere */
};

struct wants {
    struct want *v;
    size_t n, cap;
};

/* What a worker knows. */
struct told {
    uint64_t hash;          /* of the list; 0 = nothing is asked for */
    uint32_t registrations; /* the worker's, then: another number, another connection, and it knows nothing */
};

struct demand {
    struct demand_options options;
    struct event *timer;
    struct told *told; /* by id - 1 */
    size_t n_told;
    uint32_t registered[REGISTERED_MAX]; /* ids; the last one is next */
    size_t n_registered;
    uint32_t next, left; /* of the round: this id, and so many from it on */
    int64_t idle_until_ns;
    uint32_t number;               /* of the last frame */
    bool is_coarse, has_no_memory; /* it was said */
    struct demand_counts counts;

    /* Of a step: */
    struct arena arena;            /* patterns */
    struct wants general, special; /* general: of every worker */
    bool has_failed;               /* no memory for all of them */
    const struct access_identity *last_who;
    int last_access;      /* 0 everything, 1 some, < 0 nothing */
    uint8_t *does_match;  /* each special: does it mean this worker? */
    uint8_t *has_matched; /* the same, of the worker that the list was made for */
    const struct want **picked;
    bool has_list;
    struct strbuf list;
    uint32_t list_n;
    uint64_t list_hash;
    bool list_is_coarse;
    int64_t cost;
};

/* ---------------------------------------------------------------- wants */

static void add(struct demand *d, struct wants *to, const struct want *w)
{
    if (to->n == to->cap) {
        size_t cap = to->cap ? to->cap * 2 : 64;
        struct want *v = mem_try_resize(to->v, cap * sizeof *v);
        if (!v) {
            d->has_failed = true;
            return;
        }
        to->v = v;
        to->cap = cap;
    }
    to->v[to->n++] = *w;
}

/* "cpu,disk*" is two wants: many subscriptions have some in common. */
static void add_patterns(struct demand *d, struct slice patterns, const struct want *like)
{
    bool is_general = !like->selector && !like->who;
    while (patterns.n) {
        const char *comma = memchr(patterns.p, ',', patterns.n);
        struct want w = *like;
        w.pattern = slice_of(patterns.p, comma ? (size_t)(comma - patterns.p) : patterns.n);
        if (w.pattern.n)
            add(d, is_general ? &d->general : &d->special, &w);
        patterns = slice_from(patterns, w.pattern.n + 1);
    }
}

static uint32_t period_ms(int64_t period_ns)
{
    int64_t ms = period_ns / 1000000;
    return period_ns <= 0 ? 0 : ms < 1 ? 1 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* Subscriptions of one subscriber follow each other. */
static int access_of(struct demand *d, const struct access_identity *who)
{
    struct access_view *view = NULL;
    if (who == d->last_who)
        return d->last_access;
    int r = access_view_create(who, ACCESS_SUBSCRIBE, &view);
    d->last_who = who;
    d->last_access = r == -EACCES ? r : r < 0 || view ? 1 : 0; /* without memory each host is asked about */
    if (r == 0)
        access_view_destroy(view);
    return d->last_access;
}

/* The selector and the identity live as long as their subscription, and nothing ends one within a step. */
static void add_subscription(void *arg, const struct subscription_info *i)
{
    struct demand *d = arg;
    if (i->events.n == 0)
        return;
    int access = access_of(d, i->subscriber->who);
    struct slice patterns = access < 0 ? SLICE_LIT("") : arena_copy(&d->arena, i->events);
    d->has_failed |= !patterns.p;
    add_patterns(d, patterns,
                 &(struct want){.period_ms = period_ms(i->period_ns),
                                .selector = i->hosts.n ? i->selector : NULL,
                                .who = access ? i->subscriber->who : NULL});
}

static void add_standing(struct demand *d)
{
    struct slice rest = slice_str(d->options.standing ? d->options.standing : "");
    while (rest.n) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct slice line = slice_of(rest.p, end ? (size_t)(end - rest.p) : rest.n);
        struct demand_request r;
        if (gateway_config_demand(line, &r)) /* configuration has looked at them */
            add_patterns(d, r.events, &(struct want){.period_ms = r.period_ms});
        rest = slice_from(rest, line.n + 1);
    }
}

/* false: no memory. */
static bool collect(struct demand *d)
{
    arena_reset(&d->arena);
    d->general.n = d->special.n = 0;
    d->has_failed = d->has_list = false;
    d->last_who = NULL;
    add_standing(d);
    subscriptions_each(d->options.subscriptions, add_subscription, d);
    size_t n = d->special.n, all = d->general.n + n;
    mem_free(d->does_match);
    mem_free(d->has_matched);
    mem_free(d->picked);
    d->does_match = mem_try_alloc(n + 1);
    d->has_matched = mem_try_alloc(n + 1);
    d->picked = mem_try_alloc((all + 1) * sizeof *d->picked);
    return !d->has_failed && d->does_match && d->has_matched && d->picked;
}

/* ---------------------------------------------------------------- a worker's list */

/* Patterns as a name are asked about by it; of others it can't be told which events they mean. */
static bool means(const struct want *want, const struct worker *w)
{
    struct slice host = slice_str(w->host);
    struct slice event = text_is_name(want->pattern) ? want->pattern : SLICE_LIT("");
    return (!want->selector || selector_wants_host(want->selector, host)) &&
           (!want->who || access_allows_event(want->who, ACCESS_SUBSCRIBE, host, event));
}

static int by_pattern(const void *left, const void *right)
{
    const struct want *a = *(const struct want *const *)left, *b = *(const struct want *const *)right;
    size_t n = a->pattern.n < b->pattern.n ? a->pattern.n : b->pattern.n;
    int order = memcmp(a->pattern.p, b->pattern.p, n);
    if (order == 0)
        order = a->pattern.n < b->pattern.n ? -1 : a->pattern.n > b->pattern.n;
    if (order == 0)
        order = a->period_ms < b->period_ms ? -1 : a->period_ms > b->period_ms;
    return order;
}

static void put(struct demand *d, struct slice pattern, uint32_t period)
{
    demand_put(&d->list, &(struct demand_request){pattern, period});
    d->list_n++;
}

/* All of them in one: the sensors' own periods, if somebody leaves it to them, and the smallest other. */
static void put_coarse(struct demand *d, size_t n)
{
    uint32_t least = 0;
    bool has_own = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t period = d->picked[i]->period_ms;
        has_own |= period == 0;
        least = period && (least == 0 || period < least) ? period : least;
    }
    strbuf_reset(&d->list);
    d->list_n = 0;
    if (has_own)
        put(d, SLICE_LIT("*"), 0);
    if (least)
        put(d, SLICE_LIT("*"), least);
    d->list_is_coarse = true;
}

/* Sorted, so of each pattern 0 (the sensor's own period, which nobody knows here) comes first, then the
 * smallest other: the rest says nothing new. */
static void put_all(struct demand *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct want *w = d->picked[i], *before = i ? d->picked[i - 1] : NULL;
        bool is_same = before && slice_eq(w->pattern, before->pattern);
        if (is_same && (before->period_ms != 0 || w->period_ms == 0))
            continue;
        put(d, w->pattern, w->period_ms);
        if (d->list_n > DEMAND_MAX || d->list.n > DEMAND_BYTES_MAX) {
            put_coarse(d, n);
            return;
        }
    }
}

/* For the worker that does_match is about. */
static void make_list(struct demand *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->general.n; i++)
        d->picked[n++] = &d->general.v[i];
    for (size_t i = 0; i < d->special.n; i++)
        if (d->does_match[i])
            d->picked[n++] = &d->special.v[i];
    qsort(d->picked, n, sizeof *d->picked, by_pattern);
    strbuf_reset(&d->list);
    d->list_n = 0;
    d->list_is_coarse = false;
    put_all(d, n);
    uint64_t hash = hash_bytes(strbuf_slice(&d->list));
    d->list_hash = d->list_n == 0 ? 0 : hash ? hash : 1;
    d->has_list = true;
    memcpy(d->has_matched, d->does_match, d->special.n);
    d->cost += (int64_t)n * COST_OF_WANT;
}

static struct told *told_of(struct demand *d, uint32_t id)
{
    if (id > d->n_told) {
        size_t n = id > 2 * d->n_told ? id : 2 * d->n_told;
        struct told *told = mem_try_resize(d->told, n * sizeof *told);
        if (!told)
            return NULL;
        memset(told + d->n_told, 0, (n - d->n_told) * sizeof *told);
        d->told = told;
        d->n_told = n;
    }
    return &d->told[id - 1];
}

static void tell(struct demand *d, struct worker *w, struct told *told)
{
    const struct frame_demand f = {++d->number, d->list_n, strbuf_slice(&d->list)};
    d->cost += COST_OF_FRAME;
    if (d->options.send(d->options.arg, w, &f) < 0)
        return;
    *told = (struct told){d->list_hash, w->registrations};
    d->counts.sent++;
    d->counts.coarse += d->list_is_coarse;
    if (d->list_is_coarse && !d->is_coarse)
        log_error(
            "%s is asked for more different patterns of events than fit into a demand: it is asked for all "
            "events instead, as are others like it",
            w->host);
    d->is_coarse |= d->list_is_coarse;
}

/* false: no memory. */
static bool look_at(struct demand *d, struct worker *w)
{
    d->cost += COST_OF_TEST;
    if (!w || !w->link)
        return true;
    for (size_t i = 0; i < d->special.n; i++)
        d->does_match[i] = means(&d->special.v[i], w);
    d->cost += (int64_t)d->special.n * COST_OF_TEST;
    if (!d->has_list || memcmp(d->does_match, d->has_matched, d->special.n) != 0)
        make_list(d);
    struct told *told = told_of(d, w->id);
    if (!told || strbuf_failed(&d->list))
        return false;
    uint64_t known = told->registrations == w->registrations ? told->hash : 0;
    if (known != d->list_hash)
        tell(d, w, told);
    return true;
}

/* ---------------------------------------------------------------- steps */

static void start_timer(struct demand *d, int ms)
{
    const struct timeval after = {ms / 1000, ms % 1000 * 1000};
    if (!evtimer_pending(d->timer, NULL))
        (void)evtimer_add(d->timer, &after); /* fails only without memory; the next change tries again */
}

static void wait_for_more(struct demand *d)
{
    int64_t ms = (d->idle_until_ns - clock_mono_ns()) / 1000000 + 1;
    start_timer(d, ms < DEMAND_DELAY_MS       ? DEMAND_DELAY_MS
                   : ms > DEMAND_DELAY_MAX_MS ? DEMAND_DELAY_MAX_MS
                                              : (int)ms);
}

/* One more worker of those to be looked at; NULL with *is_done: that was the last. */
static struct worker *next_worker(struct demand *d, bool *is_done)
{
    struct workers *all = d->options.workers;
    *is_done = d->n_registered == 0 && d->left == 0;
    if (d->n_registered)
        return workers_by_id(all, d->registered[--d->n_registered]);
    if (d->left == 0)
        return NULL;
    d->left--;
    if (d->next == 0 || d->next > workers_last_id(all))
        d->next = 1;
    return workers_by_id(all, d->next++);
}

/* Everybody is looked at again, from where the round is. */
static void start_round(struct demand *d)
{
    d->left = workers_last_id(d->options.workers);
}

static void try_again(struct demand *d)
{
    if (!d->has_no_memory)
        log_error("what consumers ask of workers can't be told them now: no memory; it is tried again");
    start_round(d);
    d->n_registered = 0; /* they are in the round */
    start_timer(d, DEMAND_DELAY_MAX_MS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct demand *d = arg;
    (void)fd, (void)what;
    int64_t began_ns = clock_mono_ns();
    bool is_good = collect(d), is_done = false;
    d->cost = (int64_t)(d->general.n + d->special.n) * COST_OF_WANT;
    while (is_good && !is_done && d->cost < STEP_COST) {
        struct worker *w = next_worker(d, &is_done);
        is_good = is_done || look_at(d, w);
    }
    int64_t ended_ns = clock_mono_ns();
    d->idle_until_ns = ended_ns + (ended_ns - began_ns) * ((is_done ? SHARE : SHARE_OF_ROUND) - 1);
    if (!is_good)
        try_again(d);
    else if (!is_done)
        wait_for_more(d);
    d->has_no_memory = !is_good;
}

void demand_changed(struct demand *d)
{
    start_round(d);
    wait_for_more(d);
}

void demand_registered(struct demand *d, const struct worker *w)
{
    if (d->n_registered == REGISTERED_MAX) {
        demand_changed(d); /* the round comes to it, too */
        return;
    }
    d->registered[d->n_registered++] = w->id;
    wait_for_more(d);
}

/* ---------------------------------------------------------------- life */

struct demand *demand_create(const struct demand_options *o)
{
    struct demand *d = mem_try_alloc(sizeof *d);
    if (!d)
        return NULL;
    d->options = *o;
    d->timer = evtimer_new(o->base, on_timer, d);
    if (!d->timer) {
        demand_destroy(d);
        return NULL;
    }
    return d;
}

void demand_destroy(struct demand *d)
{
    if (!d)
        return;
    if (d->timer)
        event_free(d->timer);
    mem_free(d->told);
    mem_free(d->general.v);
    mem_free(d->special.v);
    mem_free(d->does_match);
    mem_free(d->has_matched);
    mem_free(d->picked);
    strbuf_fini(&d->list);
    arena_fini(&d->arena);
    mem_free(d);
}

void demand_counts(const struct demand *d, struct demand_counts *out)
{
    *out = d->counts;
}
