/* SPDX-License-Identifier: Apache-2.0 */
/* The observers of a gateway: which events each gets, what it made of them, and when it fails. An observer
 * sees a view of the batch with the events that pass its filter; nothing is copied but the small struct
 * event, and not even that when all pass. */
#include "gateway/observer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/predicate.h"

#include <errno.h>
#include <inttypes.h>

static const struct observer_ops *const kinds[] = {&observer_text, &observer_file};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct observer {
    const struct observer_ops *ops;
    void *self;
    char *name, *events;
    struct predicate *where; /* NULL = all */
    bool is_failing;
    uint64_t taken, filtered, dropped;
    /* Whether the event name seen last matches `events`; holds no reference, see select_events. */
    const struct schema *last;
    bool last_matches;
};

struct observers {
    struct observer *all;
    size_t n;
    struct event *view; /* room for the events of a batch that pass */
    size_t view_max;
};

const struct observer_ops *observer_at(size_t i)
{
    return i < KINDS ? kinds[i] : NULL;
}

static char *copy_text(const char *text)
{
    size_t n = strlen(text ? text : "") + 1;
    char *copy = mem_alloc(n);
    memcpy(copy, text ? text : "", n);
    return copy;
}

static int make(struct observer *o, const struct observer_config *c, struct diag *why)
{
    struct diag inner = {0};
    o->name = copy_text(c->name);
    o->events = copy_text(c->events);
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->type, c->type) == 0)
            o->ops = kinds[i];
    if (!o->ops)
        return diag_set(why, -EINVAL, 0, "observer %s: there is no type '%s'", c->name, c->type);
    int r =
        c->where && *c->where ? predicate_compile(slice_str(c->where), clock_utc_ns(), &o->where, &inner) : 0;
    if (r == 0)
        r = o->ops->create(c, &o->self, &inner);
    if (r < 0)
        (void)diag_set(why, r, 0, "observer %s: %s", c->name, inner.message[0] ? inner.message : err_text(r));
    return r;
}

int observers_create(const struct observer_config *configs, size_t n, struct observers **out,
                     struct diag *why)
{
    struct observers *o = mem_alloc(sizeof *o);
    int r = 0;
    o->all = mem_alloc((n ? n : 1) * sizeof *o->all);
    for (; r == 0 && o->n < n; o->n++)
        r = make(&o->all[o->n], &configs[o->n], why);
    if (r < 0) {
        observers_destroy(o);
        return r;
    }
    *out = o;
    return 0;
}

/* The change of state is logged, not each failure. */
static void set_failing(struct observer *o, int error)
{
    if (error < 0 && !o->is_failing)
        log_error("observer %s: %s; events wait for it, then they are dropped and counted", o->name,
                  err_text(error));
    else if (error == 0 && o->is_failing)
        log_info("observer %s: works again; %" PRIu64 " events were dropped so far", o->name, o->dropped);
    o->is_failing = error < 0;
}

static void fini(struct observer *o)
{
    if (o->self) {
        set_failing(o, o->ops->tick(o->self, clock_mono_ns()));
        uint64_t lost = o->ops->queued(o->self);
        if (lost)
            log_error("observer %s: %" PRIu64 " events could not be written", o->name, lost);
        o->ops->destroy(o->self);
    }
    predicate_destroy(o->where);
    mem_free(o->name);
    mem_free(o->events);
}

void observers_use_classes(struct observers *o, const struct class_source *classes)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->all[i].where)
            predicate_use_classes(o->all[i].where, classes);
}

void observers_destroy(struct observers *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++)
        fini(&o->all[i]);
    mem_free(o->all);
    mem_free(o->view);
    mem_free(o);
}

bool observers_has_any(const struct observers *o)
{
    return o && o->n > 0;
}

static bool passes(struct observer *o, const struct event *e)
{
    if (e->schema != o->last) {
        o->last = e->schema;
        o->last_matches = text_glob_any(slice_str(o->events), e->schema->name);
    }
    return o->last_matches && (!o->where || predicate_test(o->where, e));
}

/* Events of b that pass, in o->view: how many. o->last is an address only, good as long as the batch holds
 * its schema. */
static size_t select_events(struct observers *all, struct observer *o, const struct batch *b)
{
    size_t n = 0;
    o->last = NULL;
    for (size_t i = 0; i < b->n; i++)
        if (passes(o, &b->events[i]))
            all->view[n++] = b->events[i];
    return n;
}

/* A batch is at most as large as a block on the wire allows. */
static bool make_room(struct observers *o, size_t n)
{
    if (n <= o->view_max)
        return true;
    struct event *view = mem_try_resize(o->view, n * sizeof *view);
    if (!view)
        return false;
    o->view = view;
    o->view_max = n;
    return true;
}

static void give(struct observers *all, struct observer *o, const struct batch *b)
{
    struct batch view = {.origin = b->origin, .events = b->events, .raw = b->raw, .n = b->n};
    o->taken += b->n;
    if (*o->events || o->where) {
        if (!make_room(all, b->n)) {
            o->dropped += b->n;
            set_failing(o, -ENOMEM);
            return;
        }
        view.n = select_events(all, o, b);
    }
    if (view.n < b->n) { /* the numbers of its events no longer follow from their places */
        view.events = all->view;
        view.raw = NULL;
        view.origin = (struct batch_origin){.clock = b->origin.clock};
    }
    o->filtered += b->n - view.n;
    int r = view.n ? o->ops->take(o->self, &view) : 0;
    if (r < 0) {
        o->dropped += view.n;
        set_failing(o, r);
    }
}

void observers_batch(struct observers *o, const struct batch *b)
{
    for (size_t i = 0; i < o->n; i++)
        give(o, &o->all[i], b);
}

void observers_tick(struct observers *o, int64_t now_ns)
{
    for (size_t i = 0; i < o->n; i++)
        set_failing(&o->all[i], o->all[i].ops->tick(o->all[i].self, now_ns));
}

void observers_reopen(struct observers *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->all[i].ops->reopen)
            o->all[i].ops->reopen(o->all[i].self);
}

bool observers_counts(const struct observers *o, size_t i, const char **name, struct observer_counts *out)
{
    if (!o || i >= o->n)
        return false;
    const struct observer *one = &o->all[i];
    *name = one->name;
    *out = (struct observer_counts){.taken = one->taken,
                                    .filtered = one->filtered,
                                    .dropped = one->dropped,
                                    .queued = one->ops->queued(one->self)};
    out->passed = out->taken - out->filtered - out->dropped - out->queued;
    return true;
}
