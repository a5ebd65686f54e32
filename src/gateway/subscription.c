/* SPDX-License-Identifier: Apache-2.0 */
/* A subscription is live (its selection gives it what comes) or replaying (its reader gives it what is in the
 * journal). It goes from replaying to live on the loop, at a moment when everything up to the last settled
 * record has been read: nothing lies between. */
#include "gateway/subscription_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"

#include <errno.h>
#include <inttypes.h>

enum { TELL_S = 5 };
static const int64_t ns_per_s = 1000000000;

bool subscription_option(struct subscription_options *o, struct slice name, struct slice text)
{
    const struct {
        const char *name;
        struct slice *to;
    } all[] = {{"event", &o->select.events}, {"host", &o->select.hosts},
               {"where", &o->select.where},  {"on_change", &o->select.on_change},
               {"cross", &o->select.cross},  {"delta", &o->select.delta},
               {"every", &o->select.every},  {"period", &o->period},
               {"format", &o->format},       {"from", &o->from},
               {"durable", &o->durable},     {"hold", &o->hold},
               {"queue", &o->queue}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (slice_eq_str(name, all[i].name)) {
            *all[i].to = text;
            return true;
        }
    return false;
}

struct subscriptions *subscriptions_create(const struct subscriptions_options *o)
{
    struct subscriptions *all = mem_try_alloc(sizeof *all);
    if (!all)
        return NULL;
    all->options = *o;
    all->settled = all->eventful = o->settled;
    all->maker = chunk_maker_create();
    if (o->journal)
        all->replay = replay_create(o->base, o->journal, o->refill);
    if (!all->maker || (o->journal && !all->replay)) {
        subscriptions_destroy(all);
        return NULL;
    }
    return all;
}

void subscriptions_destroy(struct subscriptions *all)
{
    if (!all)
        return;
    chunk_maker_destroy(all->maker);
    replay_destroy(all->replay);
    arena_fini(&all->hidden);
    mem_free(all->index);
    mem_free(all->places);
    mem_free(all->views);
    mem_free(all);
}

/* ---------------------------------------------------------------- live and replaying */

static void set_live(struct subscription *s, bool is_live)
{
    struct selection *k = s->selection;
    uint32_t by = is_live ? 1 : UINT32_MAX; /* one more, or one less */
    k->live[s->format] += by;
    k->n_live += by;
    if (is_live) {
        s->seen_from = k->seen;
        s->passed_from = k->passed;
    } else {
        s->seen += k->seen - s->seen_from;
        s->passed += k->passed - s->passed_from;
    }
}

static void give_chunk(void *arg, struct chunk *c)
{
    queue_chunk(arg, c);
}

/* What replay reads, for this one alone. */
static void replay_batch(struct subscription *s, const struct batch *b, struct position at)
{
    struct subscriptions *all = s->all;
    struct position before = s->from;
    bool is_in_it = before.record == at.record && before.part == at.part;
    at.event = UINT32_MAX;
    if (position_compare(at, before) <= 0)
        return;
    uint32_t skip = is_in_it ? before.event : 0;
    if (skip >= b->n)
        return;
    const struct event *views;
    s->seen += b->n - skip;
    size_t n = selection_run(all, s->selection, b, &views);
    size_t first = 0;
    while (first < n && all->places[first] < skip)
        first++;
    if (first == n)
        return;
    uint64_t lost = 0;
    s->passed += n - first;
    chunk_maker_begin(all->maker, b, at);
    if (!chunk_maker_run(all->maker, s->format, all->places + first, views ? views + first : NULL, n - first,
                         give_chunk, s, &lost))
        queue_lose(s, lost, at);
    chunk_maker_end(all->maker);
}

static void replay_lost(struct subscription *s, const struct replay_item *item)
{
    if (item->last < s->from.record || (item->last == s->from.record && s->from.part == UINT32_MAX))
        return;
    struct subscription_gap gap = {.lost = item->count,
                                   .reason = GAP_GONE,
                                   .from = {item->first ? item->first - 1 : 0, UINT32_MAX, UINT32_MAX},
                                   .to = {item->last, UINT32_MAX, UINT32_MAX}};
    queue_gap(s, &gap);
}

static void end_replay(struct subscription *s)
{
    replay_close(s->reader);
    s->reader = NULL;
    s->is_asked = false;
    set_live(s, true);
}

/* The cursor's part of the ledger: what became of records that were deleted before it had passed them. Each
 * record once, however often it is read. */
static void count_gone(struct cursor_mark *m, const struct replay_piece *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct replay_item *item = &p->items[i];
        if (!item->is_gone || item->last <= m->read_to)
            continue;
        m->is_dirty = true;
        if (item->batch)
            m->refilled += item->batch->n;
        else if (item->count)
            m->lost += item->count;
        else
            m->lost_records += item->last - (item->first > m->read_to ? item->first - 1 : m->read_to);
    }
    m->read_to = p->done > m->read_to ? p->done : m->read_to;
}

static void on_piece(void *arg, const struct replay_piece *p)
{
    struct subscription *s = arg;
    s->is_asked = false;
    if (s->durable)
        count_gone(s->durable, p);
    for (size_t i = 0; i < p->n; i++) {
        if (p->items[i].batch)
            replay_batch(s, p->items[i].batch, p->items[i].at);
        else
            replay_lost(s, &p->items[i]);
    }
    if (p->error < 0) { /* the journal can't be read: what comes is all there is */
        struct subscription_gap gap = {.reason = GAP_GONE,
                                       .from = {p->done, UINT32_MAX, UINT32_MAX},
                                       .to = {s->all->settled, UINT32_MAX, UINT32_MAX}};
        queue_gap(s, &gap);
        end_replay(s);
    } else if (p->done >= s->all->settled) {
        s->told = s->told < p->done ? s->told : p->done;
        end_replay(s);
    }
    queue_push(s);
}

void subscription_ask_more(struct subscription *s)
{
    if (s->is_asked || s->bytes > s->max_bytes / 2)
        return;
    s->is_asked = true;
    replay_ask(s->reader, s->all->settled);
}

/* From behind that position on. */
static int start_replay(struct subscription *s, struct position from)
{
    s->from = from;
    s->reader = replay_open(s->all->replay, from, on_piece, s);
    if (!s->reader)
        return -ENOMEM;
    subscription_ask_more(s);
    return 0;
}

void subscription_fall_back(struct subscription *s)
{
    set_live(s, false);
    if (start_replay(s, s->position) < 0) { /* then it is told what it lost */
        set_live(s, true);
        queue_gap(s, &(struct subscription_gap){.reason = GAP_SLOW,
                                                .from = s->position,
                                                .to = {s->all->settled, UINT32_MAX, UINT32_MAX}});
    }
}

/* ---------------------------------------------------------------- coming */

/* What is asked for, understood. */
struct wish {
    enum chunk_format format;
    int64_t period_ns;
    size_t queue;
    uint64_t hold;        /* 0 = not asked for */
    struct position from; /* record 0 and is_now: what comes */
    bool is_now;
};

static int read_from(struct slice text, struct wish *w, struct diag *why)
{
    w->is_now = text.n == 0 || slice_eq_str(text, "now");
    if (w->is_now || slice_eq_str(text, "oldest"))
        return 0;
    if (!position_parse(text, &w->from))
        return diag_set(why, E_PROTO, 0, "from: a position that was given with events, 'oldest' or 'now'");
    return 0;
}

static int read_wish(const struct subscription_options *o, struct wish *w, struct diag *why)
{
    uint64_t queue = SUBSCRIPTION_QUEUE;
    *w = (struct wish){0};
    if (!chunk_format_parse(o->format, &w->format))
        return diag_set(why, E_PROTO, 0, "format: binary, ndjson, ulm, bp or xml");
    if (o->period.n && (num_parse_duration(o->period, &w->period_ns) < 0 || w->period_ns <= 0))
        return diag_set(why, E_PROTO, 0, "period: a time, as 500ms or 10s");
    if (o->period.n && w->period_ns < SUBSCRIPTION_PERIOD_MIN_NS) {
        (void)diag_set(why, 0, 0, "period: asked for %" PRIi64 " ns, given 1 ms: the least is that",
                       w->period_ns);
        w->period_ns = SUBSCRIPTION_PERIOD_MIN_NS;
    }
    if (o->queue.n && (num_parse_size(o->queue, &queue) < 0 || queue < SUBSCRIPTION_QUEUE_MIN ||
                       queue > SUBSCRIPTION_QUEUE_MAX))
        return diag_set(why, E_PROTO, 0, "queue: a size from 64KiB to 64MiB");
    w->queue = (size_t)queue;
    if (o->hold.n && (num_parse_size(o->hold, &w->hold) < 0 || w->hold == 0 || !o->durable.n))
        return diag_set(why, E_PROTO, 0, "hold: a size, as 64MiB, for a durable subscription");
    return read_from(o->from, w, why);
}

static int keep_texts(struct subscription *s, const struct select_spec *spec)
{
    size_t n = spec->events.n + spec->hosts.n + spec->where.n;
    s->texts = mem_try_alloc(n ? n : 1);
    if (!s->texts)
        return -ENOMEM;
    char *to = s->texts;
    const struct slice from[] = {spec->events, spec->hosts, spec->where};
    struct slice *const kept[] = {&s->events, &s->hosts, &s->where};
    for (size_t i = 0; i < 3; i++) {
        if (from[i].n)
            memcpy(to, from[i].p, from[i].n);
        *kept[i] = slice_of(to, from[i].n);
        to += from[i].n;
    }
    return 0;
}

static void link_same(struct subscription *s)
{
    s->next_same = s->selection->first;
    if (s->next_same)
        s->next_same->previous_same = s;
    s->selection->first = s;
}

static void unlink_same(struct subscription *s)
{
    *(s->previous_same ? &s->previous_same->next_same : &s->selection->first) = s->next_same;
    if (s->next_same)
        s->next_same->previous_same = s->previous_same;
}

static void unlink_ready(struct subscription *s)
{
    struct subscription **at = &s->all->ready;
    if (!s->is_ready)
        return;
    while (*at != s)
        at = &(*at)->next_ready;
    *at = s->next_ready;
}

/* All but the lists of its subscriber. */
static void subscription_free(struct subscription *s)
{
    if (s->selection) {
        if (!s->reader)
            set_live(s, false);
        unlink_same(s);
        selection_release(s->all, s->selection);
    }
    unlink_ready(s);
    replay_close(s->reader);
    if (s->durable)
        s->durable->owner = NULL;
    queue_fini(s);
    mem_free(s->texts);
    s->all->n--;
    mem_free(s);
}

static struct subscription *detach(struct subscriber *s, uint32_t id)
{
    for (struct subscription **at = &s->first; *at; at = &(*at)->next) {
        struct subscription *found = *at;
        if (found->id != id)
            continue;
        *at = found->next;
        s->n--;
        return found;
    }
    return NULL;
}

static void tell_demand(struct subscriptions *all)
{
    if (all->options.on_demand)
        all->options.on_demand(all->options.arg);
}

/* Another consumer with the same durable name: the newer one has it. */
static void oust(struct subscription *s)
{
    struct subscriber *of = s->subscriber;
    uint32_t id = s->id;
    (void)detach(of, id);
    subscription_free(s);
    of->ops->ended(of, id, "another consumer has taken over this durable name");
}

static uint64_t hash_of(const struct access_identity *who)
{
    char text[ACCESS_NAME_MAX + 64];
    return hash_bytes(slice_of(text, access_print(text, sizeof text, who)));
}

/* A durable name is that of who made it; the gateway's owner may have them all. */
static bool may_use(const struct cursor_mark *m, const struct access_identity *who)
{
    return who->kind == ACCESS_OWNER || m->who == 0 || m->who == hash_of(who);
}

static void set_hold(const struct subscriptions *all, struct cursor_mark *m, uint64_t asked, struct diag *why)
{
    uint64_t max = all->options.hold_max, given = asked > max ? max : asked;
    if (given != asked)
        (void)diag_set(why, 0, 0,
                       "hold: asked for %" PRIu64 " bytes, given %" PRIu64
                       ": the most is journal_hold of the gateway",
                       asked, given);
    m->is_dirty = m->is_dirty || (asked && m->hold != given);
    m->hold = asked ? given : m->hold;
}

static int open_durable(struct subscription *s, struct slice name, struct wish *w, struct diag *why)
{
    struct subscriptions *all = s->all;
    const struct position now = {all->settled, UINT32_MAX, UINT32_MAX};
    if (!all->options.cursors || !all->replay)
        return diag_set(why, E_PROTO, 0, "durable: this gateway keeps no journal");
    struct cursor_mark *m = cursors_find(all->options.cursors, name);
    if (m && !may_use(m, s->subscriber->who))
        return diag_set(why, -EACCES, 0,
                        "durable: somebody else has a subscription of that name; take another");
    if (!m) {
        m = cursors_open(all->options.cursors, name, w->is_now ? now : w->from, clock_utc_ns());
        if (m) {
            m->who = hash_of(s->subscriber->who);
            (void)access_print(m->holder, sizeof m->holder, s->subscriber->who); /* cut to fit is fine */
        }
    }
    if (!m)
        return diag_set(
            why, E_LIMIT, 0,
            "durable: a name of up to %d letters, digits, '.', '_', ':' and '-'; at most %d of them "
            "at a gateway",
            CURSOR_NAME_MAX, CURSORS_MAX);
    if (m->owner)
        oust(m->owner);
    m->owner = s;
    m->used_ns = clock_utc_ns();
    set_hold(all, m, w->hold, why);
    s->durable = m;
    w->from = m->position;
    w->is_now = false;
    return 0;
}

/* Where it begins, and what from. */
static int begin(struct subscription *s, const struct wish *w)
{
    struct subscriptions *all = s->all;
    const struct position now = {all->settled, UINT32_MAX, UINT32_MAX};
    bool is_beyond = !w->is_now && w->from.record > all->settled;
    s->position = w->is_now || is_beyond ? now : w->from;
    s->told = all->settled;
    if (is_beyond) /* of another journal, or of one that was lost */
        queue_gap(s, &(struct subscription_gap){.reason = GAP_GONE, .from = w->from, .to = now});
    if (w->is_now || is_beyond || !all->replay || position_compare(w->from, now) == 0) {
        set_live(s, true);
        return 0;
    }
    return start_replay(s, w->from);
}

/* *view is taken. */
static int make(struct subscriptions *all, struct subscriber *to, const struct subscription_options *o,
                struct wish *w, struct access_view *view, struct subscription **out, struct diag *why)
{
    struct subscription *s = mem_try_alloc(sizeof *s);
    if (!s) {
        access_view_destroy(view);
        return -ENOMEM;
    }
    *s = (struct subscription){.all = all, .subscriber = to, .format = w->format, .period_ns = w->period_ns};
    all->n++;
    queue_init(s, w->queue);
    int r;
    struct select_spec spec = o->select;
    spec.classes = all->options.classes;
    struct selection *k = selection_acquire(all, &spec, view, &r, why);
    if (k) {
        s->selection = k;
        link_same(s);
        s->reader = NULL;
        k->live[s->format]++; /* as subscription_free expects it; begin decides */
        k->n_live++;
        r = keep_texts(s, &o->select);
    }
    if (r == 0 && o->durable.n)
        r = open_durable(s, o->durable, w, why);
    if (r < 0) {
        subscription_free(s);
        return r;
    }
    k->live[s->format]--;
    k->n_live--;
    *out = s;
    return 0;
}

int subscriptions_add(struct subscriptions *all, struct subscriber *to, uint32_t id,
                      const struct subscription_options *o, struct position *at, struct diag *why)
{
    struct wish w;
    struct access_view *view = NULL;
    struct subscription *s = NULL;
    subscriptions_remove(all, to, id);
    if (all->n >= SUBSCRIPTIONS_MAX || to->n >= SUBSCRIPTIONS_OF_ONE)
        return diag_set(why, E_LIMIT, 0, "there are %zu subscriptions, %" PRIu32 " of this consumer: no more",
                        all->n, to->n);
    int r = read_wish(o, &w, why);
    if (r == 0)
        r = access_view_create(to->who, ACCESS_SUBSCRIBE, &view);
    if (r == -EACCES) {
        access_tell_denied(to->who, ACCESS_SUBSCRIBE, SLICE_LIT(""), SLICE_LIT(""));
        return diag_set(why, r, 0, "you may not subscribe here");
    }
    if (r == 0)
        r = make(all, to, o, &w, view, &s, why);
    if (r == 0)
        r = begin(s, &w);
    if (r < 0) {
        if (s) {
            set_live(s, true); /* as subscription_free expects it */
            subscription_free(s);
        }
        return why->message[0] ? r : diag_set(why, r, 0, "%s", err_text(r));
    }
    s->id = id;
    s->next = to->first;
    to->first = s;
    to->n++;
    if (at)
        *at = s->position;
    (void)selector_notice(s->selection->selector, why); /* a notice, or nothing */
    tell_demand(all);
    return 0;
}

/* ---------------------------------------------------------------- going */

void subscriptions_remove(struct subscriptions *all, struct subscriber *of, uint32_t id)
{
    struct subscription *s = detach(of, id);
    if (!s)
        return;
    subscription_free(s);
    tell_demand(all);
}

void subscriptions_forget(struct subscriptions *all, struct subscriber *of)
{
    bool had_any = of->first != NULL;
    while (of->first) {
        struct subscription *s = of->first;
        of->first = s->next;
        subscription_free(s);
    }
    of->n = 0;
    if (had_any)
        tell_demand(all);
}

uint64_t subscriptions_journal(const struct subscriptions *all)
{
    return all->options.cursors ? all->options.cursors->journal : 0;
}

int subscriptions_remove_durable(struct subscriptions *all, struct slice name,
                                 const struct access_identity *who)
{
    struct cursor_mark *m = all->options.cursors ? cursors_find(all->options.cursors, name) : NULL;
    if (!m)
        return E_NODATA;
    if (!may_use(m, who) && !access_check(who, ACCESS_CONTROL, SLICE_LIT(""), SLICE_LIT("")))
        return -EACCES;
    if (m->owner)
        return -EBUSY;
    cursors_remove(m);
    return 0;
}

/* ---------------------------------------------------------------- events */

/* Chunks of one format of a selection go to all of it that are live. */
struct outlet {
    struct selection *selection;
    enum chunk_format format;
};

static void give_all(void *arg, struct chunk *c)
{
    const struct outlet *o = arg;
    for (struct subscription *s = o->selection->first, *next; s; s = next) {
        next = s->next_same; /* a durable one may stop being live in the call */
        if (s->format == o->format && !s->reader)
            queue_chunk(s, chunk_ref(c));
    }
    chunk_unref(c);
}

static void lose_all(const struct outlet *o, uint64_t n, struct position at)
{
    for (struct subscription *s = o->selection->first; s; s = s->next_same)
        if (s->format == o->format && !s->reader)
            queue_lose(s, n, at);
}

static void give_selection(struct subscriptions *all, struct selection *k, const struct batch *b,
                           struct position at)
{
    const struct event *views;
    size_t n = selection_run(all, k, b, &views);
    k->seen += b->n;
    k->passed += n;
    for (int f = 0; f < CHUNK_FORMATS && n; f++) {
        struct outlet o = {k, (enum chunk_format)f};
        uint64_t lost;
        if (k->live[f] && !chunk_maker_run(all->maker, o.format, all->places, views, n, give_all, &o, &lost))
            lose_all(&o, lost, at);
    }
}

void subscriptions_batch(struct subscriptions *all, const struct batch *b, struct position at)
{
    all->eventful = at.record;
    if (!all->selections)
        return;
    chunk_maker_begin(all->maker, b, at);
    for (struct selection *k = all->selections; k; k = k->next)
        if (k->n_live)
            give_selection(all, k, b, at);
    chunk_maker_end(all->maker);
}

void subscriptions_flush(struct subscriptions *all, uint64_t last)
{
    all->settled = last;
    while (all->ready) {
        struct subscription *s = all->ready;
        all->ready = s->next_ready;
        s->is_ready = false;
        queue_push(s);
    }
}

void subscriptions_writable(struct subscriptions *all, struct subscriber *of)
{
    (void)all;
    struct subscription **last = &of->first;
    for (struct subscription *s = of->first; s && of->ops->is_writable(of); s = s->next)
        queue_push(s);
    /* Next time another one is first, so that none of several starves. */
    struct subscription *first = of->first;
    if (!first || !first->next)
        return;
    of->first = first->next;
    while (*last)
        last = &(*last)->next;
    *last = first;
    first->next = NULL;
}

void subscriptions_consumed(struct subscriptions *all, struct subscriber *of, uint32_t id, struct position p)
{
    (void)all;
    for (struct subscription *s = of->first; s; s = s->next)
        if (s->id == id && s->durable && position_compare(p, s->position) <= 0)
            cursors_move(s->durable, p, clock_utc_ns());
}

int subscriptions_consumed_durable(struct subscriptions *all, struct slice name, struct position p,
                                   const struct access_identity *who)
{
    struct cursor_mark *m = all->options.cursors ? cursors_find(all->options.cursors, name) : NULL;
    const struct subscription *reader = m ? m->owner : NULL;
    const struct position last =
        reader ? reader->position : (struct position){all->settled, UINT32_MAX, UINT32_MAX};
    if (!m || !may_use(m, who))
        return E_NODATA;
    if (position_compare(p, last) > 0)
        return E_PROTO;
    cursors_move(m, p, clock_utc_ns());
    return 0;
}

/* To those that are up to date and have had nothing for a while. */
static void tell_positions(struct subscriptions *all, const struct selection *k)
{
    const struct position at = {all->settled, UINT32_MAX, UINT32_MAX};
    for (struct subscription *s = k->first; s; s = s->next_same) {
        const struct subscriber_ops *ops = s->subscriber->ops;
        if (s->reader || s->n || s->told >= all->eventful || !ops->position ||
            !ops->is_writable(s->subscriber))
            continue;
        s->position = at;
        s->told = all->settled;
        ops->position(s->subscriber, s->id, at);
        if (ops->flush)
            ops->flush(s->subscriber);
    }
}

/* Remembers when the newest record came. */
static void note_time(struct subscriptions *all)
{
    const size_t max = sizeof all->came / sizeof *all->came;
    if (all->n_came == max) {
        for (size_t i = 0; i < max / 2; i++)
            all->came[i] = all->came[2 * i];
        all->n_came = max / 2;
        all->came_every = all->came_every ? all->came_every * 2 : 2;
    }
    if (++all->came_skipped < all->came_every)
        return;
    all->came_skipped = 0;
    all->came[all->n_came].record = all->settled;
    all->came[all->n_came++].utc_ns = clock_utc_ns();
}

void subscriptions_tick(struct subscriptions *all, int64_t now_ns)
{
    note_time(all);
    if (now_ns - all->told_ns < TELL_S * ns_per_s)
        return;
    all->told_ns = now_ns;
    for (const struct selection *k = all->selections; k; k = k->next)
        tell_positions(all, k);
}

/* ---------------------------------------------------------------- lists */

/* When the record behind `passed` came: not before the last moment at which the journal ended at it. */
static int64_t came_ns(const struct subscriptions *all, uint64_t passed, int64_t used_ns)
{
    size_t i = all->n_came;
    while (i && all->came[i - 1].record > passed)
        i--;
    return i ? all->came[i - 1].utc_ns : used_ns;
}

static struct subscription_lag lag_of(const struct subscriptions *all, const struct cursor_mark *m)
{
    uint64_t passed = cursors_passed(m);
    struct subscription_lag lag = {.mark = m, .hold = m->hold ? m->hold : all->options.hold_max};
    if (all->eventful <= passed)
        return lag;
    lag.records = all->settled - passed;
    lag.bytes = m->lag_bytes;
    lag.ns = clock_utc_ns() - came_ns(all, passed, m->used_ns);
    return lag;
}

void subscriptions_each_durable(struct subscriptions *all, const struct access_identity *who,
                                void (*fn)(void *arg, const struct subscription_lag *lag), void *arg)
{
    for (size_t i = 0; all->options.cursors && i < all->options.cursors->n; i++) {
        const struct cursor_mark *m = &all->options.cursors->all[i];
        struct subscription_lag lag = lag_of(all, m);
        lag.is_own = may_use(m, who);
        if (!m->is_removed)
            fn(arg, &lag);
    }
}

static void describe(const struct subscription *s, struct subscription_info *i)
{
    const struct selection *k = s->selection;
    uint64_t seen = s->seen + (s->reader ? 0 : k->seen - s->seen_from);
    uint64_t passed = s->passed + (s->reader ? 0 : k->passed - s->passed_from);
    *i = (struct subscription_info){.id = s->id,
                                    .subscriber = s->subscriber,
                                    .selector = k->selector,
                                    .events = s->events,
                                    .hosts = s->hosts,
                                    .where = s->where,
                                    .durable = slice_str(s->durable ? s->durable->name : ""),
                                    .period_ns = s->period_ns,
                                    .given = s->given,
                                    .filtered = seen - passed,
                                    .lost = s->lost,
                                    .queued_bytes = s->bytes,
                                    .lag = s->durable ? lag_of(s->all, s->durable)
                                                      : (struct subscription_lag){.mark = NULL},
                                    .position = s->position,
                                    .is_replaying = s->reader != NULL};
}

void subscriptions_each(struct subscriptions *all, void (*fn)(void *arg, const struct subscription_info *i),
                        void *arg)
{
    struct subscription_info info;
    for (const struct selection *k = all->selections; k; k = k->next)
        for (const struct subscription *s = k->first; s; s = s->next_same) {
            describe(s, &info);
            fn(arg, &info);
        }
}

size_t subscriptions_count(const struct subscriptions *all)
{
    return all->n;
}
