/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/subscription_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>

static void put_key(struct strbuf *out, const struct select_spec *spec)
{
    strbuf_add_text(out, spec->events);
    strbuf_add_text(out, spec->hosts);
    strbuf_add_text(out, spec->where);
}

static struct selection *find_same(struct subscriptions *all, struct slice key,
                                   const struct access_view *view)
{
    for (struct selection *s = all->selections; s; s = s->next)
        if (s->key && slice_eq(slice_of(s->key, s->key_n), key) && access_view_same(s->view, view))
            return s;
    return NULL;
}

static void selection_free(struct selection *s)
{
    selector_destroy(s->selector);
    access_view_destroy(s->view);
    mem_free(s->key);
    mem_free(s);
}

/* The selector says whether it can be shared. */
static struct selection *make(struct subscriptions *all, const struct select_spec *spec, struct strbuf *key,
                              int *error, struct diag *why)
{
    struct selection *s = mem_try_alloc(sizeof *s);
    *error = s ? selector_create(spec, clock_utc_ns(), &s->selector, why) : -ENOMEM;
    if (*error < 0) {
        mem_free(s);
        return NULL;
    }
    if (!selector_remembers(s->selector)) {
        s->key = key->p;
        s->key_n = key->n;
        *key = (struct strbuf){0};
    }
    s->next = all->selections;
    s->at = &all->selections;
    if (s->next)
        s->next->at = &s->next;
    all->selections = s;
    return s;
}

struct selection *selection_acquire(struct subscriptions *all, const struct select_spec *spec,
                                    struct access_view *view, int *error, struct diag *why)
{
    bool may_share = spec->on_change.n + spec->cross.n + spec->delta.n + spec->every.n == 0;
    struct strbuf key = {0};
    put_key(&key, spec);
    struct selection *s = may_share && !strbuf_failed(&key) ? find_same(all, strbuf_slice(&key), view) : NULL;
    *error = 0;
    if (s) {
        access_view_destroy(view);
    } else if (strbuf_failed(&key)) {
        access_view_destroy(view);
        *error = -ENOMEM;
    } else {
        s = make(all, spec, &key, error, why);
        if (s)
            s->view = view;
        else
            access_view_destroy(view);
    }
    strbuf_fini(&key);
    return s;
}

void selection_release(struct subscriptions *all, struct selection *s)
{
    (void)all;
    if (s->first)
        return;
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    selection_free(s);
}

static bool make_room(struct subscriptions *all, size_t n)
{
    if (n <= all->room)
        return true;
    uint32_t *index = mem_try_resize(all->index, n * sizeof *index);
    if (index)
        all->index = index;
    uint32_t *places = index ? mem_try_resize(all->places, n * sizeof *places) : NULL;
    if (places)
        all->places = places;
    struct event *views = places ? mem_try_resize(all->views, n * sizeof *views) : NULL;
    if (!views)
        return false;
    all->views = views;
    all->room = n;
    return true;
}

/* The event as it may be seen, with its values in all->hidden if they are not its own. */
static bool see(struct subscriptions *all, struct selection *s, const struct event *e, struct event *out)
{
    struct value room[EVENT_FIELDS_MAX];
    if (!access_view_event(s->view, e, out, room))
        return false;
    if (out->values != room)
        return true;
    size_t n = e->schema->n_fields * sizeof *room;
    struct value *values = arena_alloc(&all->hidden, n ? n : 1);
    if (!values)
        return false; /* rather nothing than what may not be seen */
    memcpy(values, room, n);
    out->values = values;
    return true;
}

/* Through the view, then the filter: what is hidden can't be asked for. */
static size_t run_through_view(struct subscriptions *all, struct selection *s, const struct batch *b,
                               const struct event **views)
{
    size_t n = 0;
    arena_reset(&all->hidden);
    for (size_t i = 0; i < b->n; i++)
        if (see(all, s, &b->events[i], &all->views[n]))
            all->places[n++] = (uint32_t)i;
    n = selector_run(s->selector, all->views, n, all->index);
    for (size_t i = 0; i < n; i++) { /* index[i] >= i: none is read after it was written */
        all->views[i] = all->views[all->index[i]];
        all->places[i] = all->places[all->index[i]];
    }
    *views = all->views;
    return n;
}

size_t selection_run(struct subscriptions *all, struct selection *s, const struct batch *b,
                     const struct event **views)
{
    *views = NULL;
    if (!make_room(all, b->n))
        return 0;
    if (s->view)
        return run_through_view(all, s, b, views);
    if (!selector_is_all(s->selector))
        return selector_run(s->selector, b->events, b->n, all->places);
    for (uint32_t i = 0; i < b->n; i++)
        all->places[i] = i;
    return b->n;
}
