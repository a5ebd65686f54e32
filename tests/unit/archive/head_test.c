/* SPDX-License-Identifier: Apache-2.0 */
/* A head gives back every value that was put in, in order of time, whatever comes when; and what a reader
 * holds does not change. */
#include "unit/archive/events.h"

#include "archive/head.h"

#include <errno.h>

enum { FIELDS = 8 };

static void put(struct head *h, const struct event *e, const uint16_t *ids, const struct batch_origin *o,
                uint64_t seq)
{
    const struct head_row row = {.event = e, .ids = ids, .origin = o, .seq = seq};
    struct head_buffer *new = NULL;
    int r = head_reserve(h, &row, &new);
    assert_true(r >= 0);
    if (r > 0)
        head_buffer_unref(head_replace(h, new));
    head_append(h, &row);
}

static const struct column *find(const struct rows *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->n_columns; i++)
        if (r->columns[i].id == id)
            return &r->columns[i];
    return NULL;
}

/* The row of that seq has these values. */
static void check_row(const struct rows *r, uint64_t seq, const struct event *e, const uint16_t *ids)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->seq[i] != seq)
            continue;
        assert_int_equal(r->time_ns[i], e->time_ns);
        assert_int_equal(r->level[i], e->level);
        assert_int_equal(r->origins[r->origin[i]].epoch, 7);
        for (uint32_t f = 0; f < e->schema->n_fields; f++) {
            const struct column *c = find(r, ids[f]);
            assert_true(value_eq(c ? column_value(c, i) : value_none(), e->values[f]));
        }
        return;
    }
    fail_msg("row %u is not there", (unsigned)seq);
}

/* Every (name, type) of any schema its own column. */
static void number_fields(const struct schema *s, uint16_t *ids)
{
    for (uint32_t i = 0; i < s->n_fields; i++)
        ids[i] = (uint16_t)((s->fields[i].name.p[0] & 31) * VALUE_TYPES + s->fields[i].type +
                            (s->fields[i].name.n > 1) * 300);
}

static void keeps_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct events_maker m;
        struct head h = {0};
        struct arena arena = {0};
        events_init(&m, seed, 1000000000);
        m.late_ns = seed % 2 ? INT64_C(50000000000) : 0;
        struct batch *b = events_make(&m, 1 + seed * 13 % 700);
        uint16_t ids[EVENT_FIELDS_MAX];
        for (size_t i = 0; i < b->n; i++) {
            number_fields(b->events[i].schema, ids);
            put(&h, &b->events[i], ids, &b->origin, i + 1);
        }
        struct rows r;
        assert_int_equal(head_rows(h.buffer, h.n, h.n_origins, h.is_unsorted, NULL, 0, &arena, &r), 0);
        assert_int_equal(r.n, b->n);
        for (uint32_t i = 1; i < r.n; i++)
            assert_true(r.time_ns[i - 1] <= r.time_ns[i]);
        for (size_t i = 0; i < b->n; i++) {
            number_fields(b->events[i].schema, ids);
            check_row(&r, i + 1, &b->events[i], ids);
        }
        struct rows part;
        uint32_t from = r.n / 3, to = r.n - r.n / 5;
        assert_int_equal(rows_slice(&r, from, to, &arena, &part), 0);
        assert_int_equal(part.n, to - from);
        for (uint32_t i = 0; i < part.n; i++)
            for (uint32_t c = 0; c < r.n_columns; c++) {
                const struct column *mine = find(&part, r.columns[c].id);
                assert_true(value_eq(mine ? column_value(mine, i) : value_none(),
                                     column_value(&r.columns[c], from + i)));
            }
        head_fini(&h);
        arena_fini(&arena);
        batch_unref(b);
        events_fini(&m);
    }
}

static void readers_hold(void **state)
{
    (void)state;
    struct events_maker m;
    struct head h = {0};
    struct arena arena = {0};
    events_init(&m, 99, 1000000000);
    struct batch *b = events_make(&m, 2000);
    uint16_t ids[EVENT_FIELDS_MAX];
    struct head_buffer *held = NULL;
    for (size_t i = 0; i < b->n; i++) {
        number_fields(b->events[i].schema, ids);
        put(&h, &b->events[i], ids, &b->origin, i + 1);
        if (i == 99)
            held = head_buffer_ref(h.buffer);
    }
    struct rows r;
    assert_int_equal(head_rows(held, 100, 1, false, NULL, 0, &arena, &r), 0);
    for (size_t i = 0; i < 100; i++) {
        number_fields(b->events[i].schema, ids);
        check_row(&r, i + 1, &b->events[i], ids);
    }
    head_buffer_unref(held);
    head_fini(&h);
    arena_fini(&arena);
    batch_unref(b);
    events_fini(&m);
}

static void takes_out(void **state)
{
    (void)state;
    struct events_maker m;
    struct head h = {0}, left;
    struct arena arena = {0};
    events_init(&m, 5, 1000000000);
    m.late_ns = INT64_C(90000000000);
    struct batch *b = events_make(&m, 500);
    uint16_t ids[EVENT_FIELDS_MAX];
    for (size_t i = 0; i < b->n; i++) {
        number_fields(b->events[i].schema, ids);
        put(&h, &b->events[i], ids, &b->origin, i + 1);
    }
    int64_t from = b->events[100].time_ns, to = b->events[300].time_ns;
    head_without(&h, from, to, &left);
    struct head_buffer *old = head_replace(&h, left.buffer);
    struct rows r;
    uint32_t n = 0;
    assert_int_equal(head_rows(left.buffer, left.n, left.n_origins, left.is_unsorted, NULL, 0, &arena, &r),
                     0);
    for (size_t i = 0; i < b->n; i++) {
        if (b->events[i].time_ns >= from && b->events[i].time_ns < to)
            continue;
        n++;
        number_fields(b->events[i].schema, ids);
        check_row(&r, i + 1, &b->events[i], ids);
    }
    assert_int_equal(n, left.n);
    assert_true(n > 0 && n < 500);
    head_buffer_unref(old);
    head_fini(&h);
    arena_fini(&arena);
    batch_unref(b);
    events_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_all),
        cmocka_unit_test(readers_hold),
        cmocka_unit_test(takes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
