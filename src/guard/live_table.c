/* SPDX-License-Identifier: Apache-2.0 */
/* live_table.c - rows of a live table: by key, by host, in order.
 *
 * A row is a struct of its own only for its key, which maps borrow; everything that rules look at is in
 * arrays. Places grow by half, all arrays together, and go when the last row has gone. */
#include "guard/live_internal.h"

#include "base/mem.h"
#include "event/stream_key.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAP = 16 };

/* ---------------------------------------------------------------- places */

/* Bytes of a place in the arrays of the table itself. */
static size_t own_row_size(void)
{
    const struct live_table *t = NULL;
    return sizeof *t->rows + sizeof *t->hosts + sizeof *t->next + sizeof *t->prev + sizeof *t->time_ns +
           sizeof *t->heard_ns + sizeof *t->levels + LIVE_ORDERS * sizeof *t->orders[0].rows;
}

/* Grows *array (a pointer to some type) to n places of that size; false: it is as it was. */
static bool resize(void *array, size_t n, size_t size)
{
    void *before, *after;
    memcpy(&before, array, sizeof before);
    after = mem_try_resize(before, n * size);
    if (after)
        memcpy(array, &after, sizeof after);
    return after;
}

static bool resize_own(struct live_table *t, uint32_t cap)
{
    bool ok = resize(&t->rows, cap, sizeof *t->rows) && resize(&t->hosts, cap, sizeof *t->hosts) &&
              resize(&t->next, cap, sizeof *t->next) && resize(&t->prev, cap, sizeof *t->prev) &&
              resize(&t->time_ns, cap, sizeof *t->time_ns) &&
              resize(&t->heard_ns, cap, sizeof *t->heard_ns) && resize(&t->levels, cap, sizeof *t->levels);
    for (size_t i = 0; ok && i < LIVE_ORDERS; i++)
        ok = resize(&t->orders[i].rows, cap, sizeof *t->orders[i].rows);
    return ok;
}

static int need_place(struct live *l, struct live_table *t)
{
    if (t->n < t->cap)
        return 0;
    uint32_t cap = t->cap ? t->cap + t->cap / 2 : FIRST_CAP;
    size_t more = (cap - t->cap) * (own_row_size() + live_cells_row_size(t));
    if (!live_has_room(l, more))
        return E_LIMIT;
    if (!resize_own(t, cap) || live_cells_resize(t, cap) < 0)
        return -ENOMEM; /* some arrays are longer than cap now, which does no harm */
    t->cap = cap;
    live_charge(l, more);
    return 0;
}

static void free_own(struct live_table *t)
{
    mem_free(t->rows);
    mem_free(t->hosts);
    mem_free(t->next);
    mem_free(t->prev);
    mem_free(t->time_ns);
    mem_free(t->heard_ns);
    mem_free(t->levels);
    for (size_t i = 0; i < LIVE_ORDERS; i++)
        mem_free(t->orders[i].rows);
}

/* ---------------------------------------------------------------- maps */

static int put_charged(struct live *l, struct map *m, struct slice key, void *value)
{
    size_t before = live_map_size(m);
    int r = map_put(m, key, value);
    live_charge(l, live_map_size(m) - before);
    return r;
}

/* ---------------------------------------------------------------- hosts */

/* "10.1.2.3" and "fe80::1" have no domain. */
static struct slice domain_of(struct slice host)
{
    const char *dot = memchr(host.p, '.', host.n);
    bool is_address = true;
    for (size_t i = 0; i < host.n; i++)
        is_address &= (host.p[i] >= '0' && host.p[i] <= '9') || host.p[i] == '.';
    if (!dot || is_address || memchr(host.p, ':', host.n))
        return SLICE_LIT("");
    return slice_from(host, (size_t)(dot - host.p) + 1);
}

static int need_host(struct live *l, struct live_table *t, struct slice name, struct live_host **out)
{
    struct live_host *h = map_get(&t->by_host, name);
    if (h) {
        *out = h;
        return 0;
    }
    h = mem_try_alloc(sizeof *h + name.n);
    if (!h)
        return -ENOMEM;
    if (name.n)
        memcpy(h->p, name.p, name.n);
    h->name = slice_of(h->p, name.n);
    h->domain = domain_of(h->name);
    h->first = LIVE_NO_ROW;
    int r = put_charged(l, &t->by_host, h->name, h);
    if (r < 0) {
        mem_free(h);
        return r;
    }
    live_charge(l, sizeof *h + name.n);
    *out = h;
    return 0;
}

static void drop_host(struct live *l, struct live_table *t, struct live_host *h)
{
    if (!h || h->n)
        return;
    (void)map_remove(&t->by_host, h->name); /* it is h */
    live_discharge(l, sizeof *h + h->name.n);
    mem_free(h);
}

static void link_row(struct live_table *t, uint32_t at, struct live_host *h)
{
    t->hosts[at] = h;
    t->prev[at] = LIVE_NO_ROW;
    t->next[at] = h->first;
    if (h->first != LIVE_NO_ROW)
        t->prev[h->first] = at;
    h->first = at;
    h->n++;
}

/* Whoever pointed at `from` points at `to`; LIVE_NO_ROW: leaves the row out. */
static void relink(struct live_table *t, uint32_t from, uint32_t prev_to, uint32_t next_to)
{
    if (t->prev[from] == LIVE_NO_ROW)
        t->hosts[from]->first = next_to;
    else
        t->next[t->prev[from]] = next_to;
    if (t->next[from] != LIVE_NO_ROW)
        t->prev[t->next[from]] = prev_to;
}

/* ---------------------------------------------------------------- rows */

static struct live_row *create_row(struct slice key)
{
    struct live_row *row = mem_try_alloc(sizeof *row + key.n);
    if (!row)
        return NULL;
    memcpy(row->key, key.p, key.n);
    row->n_key = (uint32_t)key.n;
    row->prog = stream_key_split(slice_of(row->key, key.n)).prog;
    return row;
}

int live_row_add(struct live *l, struct live_table *t, const struct event *e, struct live_row **out)
{
    struct slice key = strbuf_slice(&l->key);
    struct live_host *h = NULL;
    size_t most = sizeof(struct live_row) + key.n + live_map_more(&t->by_key) + live_map_more(&t->by_host) +
                  sizeof *h + e->host.n;
    if (l->stats.rows >= l->limits.rows || t->n >= LIVE_NO_ROW - 1)
        return E_LIMIT;
    int r = need_place(l, t);
    if (r == 0 && !live_has_room(l, most))
        r = E_LIMIT;
    struct live_row *row = r < 0 ? NULL : create_row(key);
    if (!row)
        return r < 0 ? r : -ENOMEM;
    r = need_host(l, t, e->host, &h);
    if (r == 0)
        r = put_charged(l, &t->by_key, slice_of(row->key, key.n), row);
    if (r < 0) {
        drop_host(l, t, h);
        mem_free(row);
        return r;
    }
    live_charge(l, sizeof *row + key.n);
    row->at = t->n++;
    t->rows[row->at] = row;
    t->time_ns[row->at] = t->heard_ns[row->at] = 0;
    link_row(t, row->at, h);
    l->stats.rows++;
    t->rows_version++;
    *out = row;
    return 0;
}

/* The row at `from` is at `to` from now on, where there is none. */
static void move_row(struct live_table *t, uint32_t from, uint32_t to)
{
    relink(t, from, to, to);
    t->rows[to] = t->rows[from];
    t->rows[to]->at = to;
    t->hosts[to] = t->hosts[from];
    t->next[to] = t->next[from];
    t->prev[to] = t->prev[from];
    t->time_ns[to] = t->time_ns[from];
    t->heard_ns[to] = t->heard_ns[from];
    t->levels[to] = t->levels[from];
    live_cells_move(t, from, to);
}

/* Columns stay: a rule that names them goes on to be one that is right. */
static void free_places(struct live *l, struct live_table *t)
{
    live_discharge(l, t->cap * (own_row_size() + live_cells_row_size(t)));
    t->cap = 0;
    live_cells_free(t);
    free_own(t);
    t->rows = NULL;
    t->hosts = NULL;
    t->next = t->prev = NULL;
    t->time_ns = t->heard_ns = NULL;
    t->levels = NULL;
    for (size_t i = 0; i < LIVE_ORDERS; i++)
        t->orders[i] = (struct live_order){0};
}

void live_row_remove(struct live *l, struct live_table *t, uint32_t at)
{
    struct live_row *row = t->rows[at];
    struct live_host *h = t->hosts[at];
    assert(row->at == at && at < t->n);
    live_cells_clear(l, t, at);
    relink(t, at, t->prev[at], t->next[at]);
    h->n--;
    drop_host(l, t, h);
    (void)map_remove(&t->by_key, slice_of(row->key, row->n_key)); /* it is row */
    live_discharge(l, sizeof *row + row->n_key);
    mem_free(row);
    if (--t->n != at)
        move_row(t, t->n, at);
    l->stats.rows--;
    t->rows_version++;
    if (t->n == 0)
        free_places(l, t);
}

/* ---------------------------------------------------------------- orders */

static int compare(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int by_host(const void *a, const void *b)
{
    return compare((*(struct live_host *const *)a)->name, (*(struct live_host *const *)b)->name);
}

static int by_domain(const void *a, const void *b)
{
    int c = compare((*(struct live_host *const *)a)->domain, (*(struct live_host *const *)b)->domain);
    return c ? c : by_host(a, b);
}

static void list_rows(const struct live_table *t, struct live_host *const *hosts, size_t n, uint32_t *out)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t row = hosts[i]->first; row != LIVE_NO_ROW; row = t->next[row])
            out[at++] = row;
    assert(at == t->n);
}

const uint32_t *live_order(struct live_table *t, enum live_by by)
{
    static int (*const compares[LIVE_ORDERS])(const void *, const void *) = {by_host, by_domain};
    static const uint32_t none[1];
    struct live_order *o = &t->orders[by];
    if (t->n == 0)
        return none;
    if (o->version == t->rows_version)
        return o->rows;
    struct live_host **hosts = mem_try_alloc(t->by_host.n * sizeof(struct live_host *));
    if (!hosts)
        return NULL;
    size_t n = 0;
    void *h;
    for (size_t i = 0; map_next(&t->by_host, &i, &h);)
        hosts[n++] = h;
    qsort(hosts, n, sizeof *hosts, compares[by]);
    list_rows(t, hosts, n, o->rows);
    mem_free(hosts);
    o->version = t->rows_version;
    return o->rows;
}

/* ---------------------------------------------------------------- tables */

static char folded(char c)
{
    char low = slice_lower(c);
    return (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9') ? low : '_';
}

/* The SQL name: lower case, _ for everything but letters and digits, and before a digit at the beginning; the
 * second and third that would be called so are NAME_2, NAME_3. */
static void put_sql_name(struct strbuf *out, const struct live *l, struct slice event)
{
    if (event.n && event.p[0] >= '0' && event.p[0] <= '9')
        strbuf_add_char(out, '_');
    for (size_t i = 0; i < event.n; i++)
        strbuf_add_char(out, folded(event.p[i]));
    size_t n = out->n;
    for (unsigned i = 2; map_get(&l->by_sql, strbuf_slice(out)); i++) {
        out->n = n;
        strbuf_printf(out, "_%u", i);
    }
}

static size_t fixed_size(const struct live_table *t)
{
    return sizeof *t + t->name.n + strlen(t->sql) + 1;
}

size_t live_table_size(const struct live_table *t)
{
    size_t size =
        fixed_size(t) + t->cap * own_row_size() + live_map_size(&t->by_key) + live_map_size(&t->by_host);
    for (uint32_t i = 0; i < t->n; i++)
        size += sizeof *t->rows[i] + t->rows[i]->n_key;
    void *h;
    for (size_t i = 0; map_next(&t->by_host, &i, &h);)
        size += sizeof(struct live_host) + ((struct live_host *)h)->name.n;
    return size;
}

int live_table_create(struct live *l, struct slice name, struct live_table **out)
{
    struct strbuf sql = {0};
    put_sql_name(&sql, l, name);
    struct live_table *t = mem_try_alloc(sizeof *t);
    char *text = strbuf_failed(&sql) ? NULL : mem_try_alloc(sql.n + 1 + name.n);
    int r = t && text ? 0 : -ENOMEM;
    if (r == 0 && !live_has_room(l, sizeof *t + sql.n + 1 + name.n))
        r = E_LIMIT;
    if (r < 0) {
        mem_free(t);
        mem_free(text);
        strbuf_fini(&sql);
        return r;
    }
    memcpy(text, sql.p, sql.n);
    memcpy(text + sql.n + 1, name.p, name.n);
    t->sql = text;
    t->name = slice_of(text + sql.n + 1, name.n);
    t->version = ++l->versions;
    t->rows_version = 1;
    live_charge(l, fixed_size(t));
    strbuf_fini(&sql);
    *out = t;
    return 0;
}

void live_table_destroy(struct live *l, struct live_table *t)
{
    if (!t)
        return;
    while (t->n)
        live_row_remove(l, t, t->n - 1);
    live_columns_fini(l, t);
    live_discharge(l, fixed_size(t) + live_map_size(&t->by_key) + live_map_size(&t->by_host));
    map_fini(&t->by_key);
    map_fini(&t->by_host);
    free_own(t);
    mem_free((void *)t->sql);
    mem_free(t);
}
