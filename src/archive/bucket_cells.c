/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/bucket_cells.h"

#include "base/err.h"

#include <errno.h>

static size_t cell_size(const struct cell_stream *s)
{
    return sizeof(struct cell) + s->n_columns * sizeof(struct column_summary);
}

void cells_fini(struct cells *c)
{
    map_fini(&c->by_key);
    arena_fini(&c->arena);
}

/* A guess, or the map. NULL: it is new. */
static struct cell_stream *find(struct cells *c, struct slice key)
{
    if (c->at && slice_eq(c->at->key, key))
        return c->at;
    struct cell_stream *next = c->at && c->at->next ? c->at->next : c->first;
    if (next && slice_eq(next->key, key))
        return next;
    return map_get(&c->by_key, key);
}

static int add_stream(struct cells *c, struct slice key, void *of, uint32_t n_columns,
                      struct cell_stream **out)
{
    size_t size = sizeof(struct cell_stream) + key.n;
    if (c->bytes + size > c->bytes_max)
        return E_LIMIT;
    struct cell_stream *s = arena_alloc(&c->arena, size);
    if (!s)
        return -ENOMEM;
    *s = (struct cell_stream){.key = slice_of((char *)(s + 1), key.n), .of = of, .n_columns = n_columns};
    memcpy(s + 1, key.p, key.n);
    if (map_put(&c->by_key, s->key, s) < 0)
        return -ENOMEM;
    c->bytes += size;
    if (c->last)
        c->last->next = s;
    else
        c->first = s;
    c->last = s;
    *out = s;
    return 0;
}

int cells_stream(struct cells *c, struct slice key, void *of, uint32_t n_columns, struct cell_stream **out)
{
    struct cell_stream *s = find(c, key);
    int r = s ? 0 : add_stream(c, key, of, n_columns, &s);
    if (r == 0)
        c->at = *out = s;
    return r;
}

/* ---------------------------------------------------------------- order */

/* Both in order; of equal ones those of a come first, as they did. */
static struct cell *join(struct cell *a, struct cell *b)
{
    struct cell *head = NULL, **end = &head;
    while (a && b) {
        struct cell **from = b->step < a->step ? &b : &a;
        *end = *from;
        end = &(*end)->next;
        *from = *end;
    }
    *end = a ? a : b;
    return head;
}

/* Cuts the first run of ascending cells off the list. */
static struct cell *take_run(struct cell **list)
{
    struct cell *head = *list, *last = head;
    while (last->next && last->next->step >= last->step)
        last = last->next;
    *list = last->next;
    last->next = NULL;
    return head;
}

/* By runs, as chunks make them: runs[i] is of 2^i of those, so the work is n log(runs). */
static struct cell *sort(struct cell *list)
{
    struct cell *runs[64] = {NULL};
    while (list) {
        struct cell *run = take_run(&list);
        size_t i = 0;
        for (; runs[i]; i++) {
            run = join(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    struct cell *all = NULL;
    for (size_t i = 0; i < 64; i++)
        all = runs[i] ? join(runs[i], all) : all;
    return all;
}

static void merge(struct cell *to, const struct cell *from, uint32_t n)
{
    to->rows += from->rows;
    if (from->tier_ns > to->tier_ns)
        to->tier_ns = from->tier_ns;
    for (uint32_t i = 0; i < n; i++)
        column_summary_merge(&to->columns[i], &from->columns[i]);
}

static void settle_stream(struct cells *c, struct cell_stream *s)
{
    s->first = sort(s->first);
    struct cell *at = s->first;
    while (at->next) {
        struct cell *next = at->next;
        if (next->step != at->step) {
            at = next;
            continue;
        }
        merge(at, next, s->n_columns);
        at->next = next->next;
        next->next = s->spare;
        s->spare = next;
        c->bytes -= cell_size(s);
    }
    s->last = at;
    s->is_unsettled = false;
}

void cells_settle(struct cells *c)
{
    for (struct cell_stream *s = c->first; s; s = s->next)
        if (s->is_unsettled)
            settle_stream(c, s);
}

/* ---------------------------------------------------------------- cells */

/* At the limit: cells that are there twice give room, if it is worth the work. */
static bool make_room(struct cells *c)
{
    size_t before = c->bytes;
    cells_settle(c);
    return before - c->bytes > c->bytes_max / 8;
}

int cells_get(struct cells *c, struct cell_stream *s, int64_t step, struct cell **out)
{
    if (s->last && s->last->step == step) {
        *out = s->last;
        return 0;
    }
    size_t size = cell_size(s);
    if ((c->bytes + size > c->bytes_max && !make_room(c)) || c->arena.total / 2 > c->bytes_max)
        return E_LIMIT;
    struct cell *new = s->spare;
    if (new)
        s->spare = new->next;
    else
        new = arena_alloc(&c->arena, size);
    if (!new)
        return -ENOMEM;
    c->bytes += size;
    memset(new, 0, size);
    new->step = step;
    if (s->last) {
        s->is_unsettled = s->is_unsettled || step <= s->last->step;
        s->last->next = new;
    } else {
        s->first = new;
    }
    s->last = new;
    *out = new;
    return 0;
}

struct slice cells_copy(struct cells *c, struct slice text)
{
    if (c->bytes + text.n > c->bytes_max)
        return (struct slice){NULL, 0};
    c->bytes += text.n;
    return arena_copy(&c->arena, text);
}
