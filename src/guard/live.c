/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h, and live_internal.h for how it lies in memory.
 *
 * A stream whose clock was ahead and was set back would be deaf until it is that late again: so a row whose
 * time is more than AHEAD_NS ahead of the time of hearing gives way to any event.
 *
 * Tables are few and stay, with their columns, when all their rows have gone: a rule that names them stays
 * right. Only where another name needs the place (limits.tables) does one without rows go. */
#include "guard/live.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/stream_key.h"
#include "guard/live_internal.h"

#include <errno.h>

#define AHEAD_NS (60 * NS_PER_S)

enum { FORGET_ROWS = 20000 }; /* that one call of live_forget looks at */

int live_create(const struct live_limits *limits, struct live **out)
{
    static const struct live_limits none;
    const struct live_limits *from = limits ? limits : &none;
    struct live *l = mem_try_alloc(sizeof *l);
    if (!l)
        return -ENOMEM;
    l->limits = (struct live_limits){
        .rows = from->rows ? from->rows : 1000000,
        .tables = from->tables ? from->tables : 1000,
        .bytes = from->bytes ? from->bytes : (size_t)256 << 20,
        .forget_ns = from->forget_ns ? from->forget_ns : 24 * 3600 * NS_PER_S,
    };
    *out = l;
    return 0;
}

void live_destroy(struct live *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->stats.tables; i++)
        live_table_destroy(l, l->tables[i]);
    mem_free(l->tables);
    map_fini(&l->by_name);
    map_fini(&l->by_sql);
    strbuf_fini(&l->key);
    mem_free(l);
}

/* ---------------------------------------------------------------- tables */

static void remove_table(struct live *l, size_t i)
{
    struct live_table *t = l->tables[i];
    (void)map_remove(&l->by_name, t->name); /* both are t */
    (void)map_remove(&l->by_sql, slice_str(t->sql));
    l->tables[i] = l->tables[--l->stats.tables];
    l->tables_gone++;
    l->forget_table = 0;
    l->forget_row = 0;
    live_table_destroy(l, t);
}

static bool remove_an_empty_one(struct live *l)
{
    for (size_t i = 0; i < l->stats.tables; i++) {
        if (l->tables[i]->n)
            continue;
        remove_table(l, i);
        return true;
    }
    return false;
}

static int put_table(struct live *l, struct live_table *t)
{
    struct live_table **tables =
        mem_try_resize(l->tables, (l->stats.tables + 1) * sizeof(struct live_table *));
    if (!tables)
        return -ENOMEM;
    l->tables = tables;
    int r = map_put(&l->by_name, t->name, t);
    if (r < 0)
        return r;
    r = map_put(&l->by_sql, slice_str(t->sql), t);
    if (r < 0) {
        (void)map_remove(&l->by_name, t->name); /* it is t */
        return r;
    }
    l->tables[l->stats.tables++] = t;
    return 0;
}

static int need_table(struct live *l, struct slice name, struct live_table **out)
{
    struct live_table *t = map_get(&l->by_name, name);
    if (t) {
        *out = t;
        return 0;
    }
    if (l->stats.tables >= l->limits.tables && !remove_an_empty_one(l))
        return E_LIMIT;
    int r = live_table_create(l, name, &t);
    if (r < 0)
        return r;
    r = put_table(l, t);
    if (r < 0)
        live_table_destroy(l, t);
    else
        *out = t;
    return r;
}

/* ---------------------------------------------------------------- events */

static bool is_old(const struct live_table *t, uint32_t row, const struct event *e, int64_t now_ns)
{
    int64_t there = t->time_ns[row];
    bool is_ahead = now_ns < INT64_MAX - AHEAD_NS && there > now_ns + AHEAD_NS;
    return e->time_ns < there && !is_ahead;
}

static void heard(struct live_table *t, uint32_t row, int64_t now_ns)
{
    struct live_host *h = t->hosts[row];
    t->heard_ns[row] = now_ns;
    if (h->heard_ns < now_ns)
        h->heard_ns = now_ns;
    if (t->heard_ns_max < now_ns)
        t->heard_ns_max = now_ns;
}

static int take(struct live *l, const struct event *e, int64_t now_ns)
{
    struct live_table *t = NULL;
    const struct live_shape *shape = NULL;
    strbuf_reset(&l->key);
    stream_key_put(&l->key, e);
    int r = strbuf_failed(&l->key) ? -ENOMEM : need_table(l, e->schema->name, &t);
    if (r < 0)
        return r;
    struct live_row *row = map_get(&t->by_key, strbuf_slice(&l->key));
    bool is_new = !row;
    if (row && is_old(t, row->at, e, now_ns))
        return 1;
    r = live_shape_of(l, t, e->schema, &shape);
    if (r == 0 && is_new)
        r = live_row_add(l, t, e, &row);
    if (r < 0)
        return r;
    r = live_cells_reserve(l, t, shape, row->at, e);
    if (r < 0) {
        if (is_new)
            live_row_remove(l, t, row->at);
        return r;
    }
    live_cells_store(l, t, shape, row->at, e);
    t->time_ns[row->at] = e->time_ns;
    t->levels[row->at] = e->level;
    heard(t, row->at, now_ns);
    return 0;
}

int live_take(struct live *l, const struct event *e, int64_t now_ns)
{
    int r = take(l, e, now_ns);
    if (l->stats.newest_ns < now_ns)
        l->stats.newest_ns = now_ns;
    l->stats.events += r == 0;
    l->stats.old += r == 1;
    l->stats.refused += r < 0;
    return r;
}

/* Some rows of the table it is at; *left gets less. */
static void forget_some(struct live *l, int64_t before_ns, uint32_t *left)
{
    struct live_table *t = l->tables[l->forget_table];
    for (; *left && l->forget_row < t->n; --*left) {
        if (t->heard_ns[l->forget_row] >= before_ns) {
            l->forget_row++;
            continue;
        }
        live_row_remove(l, t, l->forget_row); /* the last is at its place now */
        l->stats.forgotten++;
    }
}

void live_forget(struct live *l, int64_t now_ns)
{
    uint32_t left = FORGET_ROWS;
    int64_t before_ns = now_ns > INT64_MIN + l->limits.forget_ns ? now_ns - l->limits.forget_ns : INT64_MIN;
    for (size_t i = 0; i < l->stats.tables && left; i++) {
        if (l->forget_table >= l->stats.tables)
            l->forget_table = 0;
        forget_some(l, before_ns, &left);
        if (l->forget_row < l->tables[l->forget_table]->n)
            return;
        l->forget_table++;
        l->forget_row = 0;
    }
}

static int64_t shifted(int64_t at_ns, int64_t by_ns)
{
    int64_t sum;
    return __builtin_add_overflow(at_ns, by_ns, &sum) ? at_ns : sum;
}

static void shift_table(struct live_table *t, int64_t by_ns)
{
    void *host;
    for (uint32_t i = 0; i < t->n; i++)
        t->heard_ns[i] = shifted(t->heard_ns[i], by_ns);
    for (size_t i = 0; map_next(&t->by_host, &i, &host);)
        ((struct live_host *)host)->heard_ns = shifted(((struct live_host *)host)->heard_ns, by_ns);
    t->heard_ns_max = shifted(t->heard_ns_max, by_ns);
}

void live_shift(struct live *l, int64_t by_ns)
{
    for (size_t i = 0; i < l->stats.tables; i++)
        shift_table(l->tables[i], by_ns);
    if (l->stats.newest_ns)
        l->stats.newest_ns = shifted(l->stats.newest_ns, by_ns);
}

void live_stats(const struct live *l, struct live_stats *out)
{
    *out = l->stats;
}

/* ---------------------------------------------------------------- questions */

/* An event's own name goes before another's in SQL. */
struct live_table *live_find(struct live *l, struct slice name)
{
    char low[EVENT_NAME_MAX + 16];
    struct live_table *t = map_get(&l->by_name, name);
    if (t || name.n > sizeof low)
        return t;
    for (size_t i = 0; i < name.n; i++)
        low[i] = slice_lower(name.p[i]);
    return map_get(&l->by_sql, slice_of(low, name.n));
}

bool live_is_fresh(const struct live_table *t, struct slice host, int64_t since_ns)
{
    if (host.n == 0)
        return t->n && t->heard_ns_max >= since_ns;
    const struct live_host *h = map_get(&t->by_host, host);
    return h && h->heard_ns >= since_ns;
}

int live_hosts(const struct live_table *t, int (*fn)(void *arg, struct slice host, int64_t heard_ns),
               void *arg)
{
    void *v;
    for (size_t i = 0; map_next(&t->by_host, &i, &v);) {
        const struct live_host *h = v;
        int r = fn(arg, h->name, h->heard_ns);
        if (r < 0)
            return r;
    }
    return 0;
}
