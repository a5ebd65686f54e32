/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "guard/live_internal.h"

#include <assert.h>

static void check_column(const struct live_table *t, const struct live_column *c)
{
    assert(map_get(&t->by_field, c->field) == c);
    for (uint32_t i = 0; i < t->n; i++) {
        uint8_t tag = c->tags[i];
        assert(tag < VALUE_TYPES && (tag == VALUE_NONE || (c->seen & 1 << tag)));
        assert(!value_is_text(tag) || (c->texts && c->texts[i] && c->texts[i]->n <= c->texts[i]->cap));
        assert(tag != VALUE_UINT || c->bits[i].u <= INT64_MAX || (c->seen & LIVE_SEEN_HUGE));
    }
    for (uint32_t i = t->n; c->texts && i < t->cap; i++)
        assert(!c->texts[i]);
}

static void check_row(const struct live_table *t, uint32_t i)
{
    const struct live_row *row = t->rows[i];
    const struct live_host *h = t->hosts[i];
    assert(row->at == i);
    assert(map_get(&t->by_key, slice_of(row->key, row->n_key)) == row);
    assert(map_get(&t->by_host, h->name) == h);
    assert(t->prev[i] == LIVE_NO_ROW ? h->first == i : t->next[t->prev[i]] == i);
    assert(t->next[i] == LIVE_NO_ROW || t->prev[t->next[i]] == i);
    assert(t->heard_ns[i] <= h->heard_ns && h->heard_ns <= t->heard_ns_max);
}

static void check_hosts(const struct live_table *t)
{
    uint32_t rows = 0;
    void *v;
    for (size_t i = 0; map_next(&t->by_host, &i, &v);) {
        const struct live_host *h = v;
        uint32_t n = 0;
        for (uint32_t row = h->first; row != LIVE_NO_ROW; row = t->next[row], n++)
            assert(row < t->n && t->hosts[row] == h && n < h->n);
        assert(n == h->n && n > 0);
        rows += n;
    }
    assert(rows == t->n);
}

static void check_table(const struct live *l, const struct live_table *t)
{
    assert(map_get(&l->by_name, t->name) == t && map_get(&l->by_sql, slice_str(t->sql)) == t);
    assert(t->n <= t->cap && t->by_key.n == t->n && t->by_field.n == t->n_columns);
    assert(t->n_columns <= LIVE_COLUMNS_MAX && t->version <= l->versions);
    for (uint32_t i = 0; i < t->n_columns; i++)
        check_column(t, t->columns[i]);
    for (uint32_t i = 0; i < t->n; i++)
        check_row(t, i);
    check_hosts(t);
}

void live_check(const struct live *l)
{
    size_t rows = 0, bytes = 0;
    for (size_t i = 0; i < l->stats.tables; i++) {
        check_table(l, l->tables[i]);
        rows += l->tables[i]->n;
        bytes += live_table_size(l->tables[i]) + live_columns_size(l->tables[i]);
    }
    assert(l->by_name.n == l->stats.tables && l->by_sql.n == l->stats.tables);
    assert(rows == l->stats.rows && bytes == l->stats.bytes);
    assert(l->stats.rows <= l->limits.rows && l->stats.tables <= l->limits.tables);
    assert(l->stats.bytes <= l->limits.bytes);
}
