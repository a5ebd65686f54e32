/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers answer as raw rows do: beside them for whoever accepts it, in their place when they are gone; late
 * rows come into them, and merging them changes nothing. */
#include "unit/archive/model.h"

#include "archive/archive_internal.h"
#include "archive/merge.h"
#include "archive/tier.h"

static struct tier_counts all_counts;

static void make(struct model *m, const struct partition_span *from, int64_t step_ns)
{
    struct tier *t;
    int r;
    assert_int_equal(tier_create(m->a, from, step_ns, &t), 0);
    while ((r = tier_step(t)) > 0)
        ;
    assert_int_equal(r, 0);
    struct tier_counts c = tier_counts(t);
    assert_int_equal(c.damaged, 0);
    assert_int_equal(c.left_out, 0);
    all_counts.chunks += c.chunks;
    all_counts.rows_out += c.rows_out;
    tier_destroy(t);
}

static void merge(struct model *m, const struct partition_span *span)
{
    uint64_t borders[TIERS];
    struct merge_options o = {.is_closed = true, .borders = borders};
    for (int i = 0; i < TIERS; i++) {
        struct partition_span tier = *span;
        tier.step_ns = tier_steps[i];
        if (tier.step_ns > span->step_ns)
            assert_int_equal(tier_mark(m->a, &tier, &borders[o.n_borders++]), 0);
    }
    struct merge *g;
    int r;
    assert_int_equal(merge_create(m->a, span, &o, &g), 0);
    while ((r = merge_step(g)) > 0)
        ;
    assert_int_equal(r, 0);
    merge_destroy(g);
}

static struct partition_span span_at(const struct model *m, int64_t t)
{
    return archive_span_of(m->a, t);
}

/* All tiers of all partitions, each of the finer one. */
static void make_all(struct model *m, bool is_merged)
{
    for (int64_t t = m->base_ns; t < m->base_ns + m->span_ns; t += m->partition_ns) {
        struct partition_span span = span_at(m, t);
        for (int i = 0; i < TIERS; i++) {
            if (is_merged)
                merge(m, &span);
            make(m, &span, tier_steps[i]);
            span.step_ns = tier_steps[i];
        }
        if (is_merged)
            merge(m, &span);
    }
}

static void init(struct model *m, uint64_t seed)
{
    model_init(m, seed);
    model_close_archive(m);
    m->partition_ns = 3600 * SECOND;
    m->base_ns -= m->base_ns % m->partition_ns;
    m->span_ns = 3 * m->partition_ns;
    model_open_archive(m);
}

static void check(struct model *m, int n)
{
    (void)model_view(m);
    for (int i = 0; i < n; i++)
        model_check_random(m, tier_steps[model_random(m, TIERS)]);
    model_release(m);
}

/* Did a tier answer at all? */
static uint64_t tiers_used(struct model *m, int64_t tier_ns)
{
    struct view *v = model_view(m);
    struct bucket_table table = {.def = view_table(v, SLICE_LIT("cpu"))};
    struct bucket_spec spec = {.tables = &table,
                               .n_tables = 1,
                               .from_ns = m->base_ns,
                               .to_ns = m->base_ns + m->span_ns,
                               .step_ns = 3600 * SECOND,
                               .tier_ns = tier_ns};
    struct bucket *b;
    struct bucket_row row;
    uint64_t n = 0;
    assert_int_equal(bucket_fold(v, &spec, &b, NULL), 0);
    while (bucket_next(b, &row))
        n += row.tier_ns == tier_steps[2];
    bucket_destroy(b);
    model_release(m);
    return n;
}

static void answer_as_rows_do(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4 * test_scale(); round++) {
        struct model m;
        print_message("seed %u\n", round);
        init(&m, 200 + round);
        model_fill(&m, 60);
        assert_int_equal(archive_flush(m.a), 0);
        assert_int_equal(tiers_used(&m, 3600 * SECOND), 0);
        make_all(&m, round % 2);
        assert_true(tiers_used(&m, 3600 * SECOND) >= 3 * M_HOSTS);
        assert_int_equal(tiers_used(&m, 0), 0);
        check(&m, 40);
        /* Late rows, in the same steps as others. */
        for (int i = 0; i < 4; i++)
            model_add(&m, 30, m.base_ns, m.base_ns + m.span_ns - SECOND);
        assert_int_equal(archive_flush(m.a), 0);
        make_all(&m, round % 2);
        check(&m, 40);
        all_counts = (struct tier_counts){0};
        make_all(&m, true); /* there is nothing more to add */
        assert_int_equal(all_counts.chunks, 0);
        check(&m, 20);
        model_fini(&m);
    }
}

static void unlink_raw(struct model *m, int64_t t)
{
    struct partition_span span = span_at(m, t);
    char name[PARTITION_NAME_MAX], path[200];
    partition_name(&span, name, sizeof name);
    archive_forget(m->a, &span);
    catalog_forget_partition(archive_catalog(m->a), name);
    (void)snprintf(path, sizeof path, "%s/%s", m->dir, name);
    assert_int_equal(unlink(path), 0);
}

/* Rows of the second partition are gone: whole steps of any tier are answered as before. */
static void stand_for_rows_that_are_gone(void **state)
{
    (void)state;
    static const int64_t steps[] = {0, 10 * SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND, 7200 * SECOND};
    struct model m;
    init(&m, 300);
    model_fill(&m, 80);
    assert_int_equal(archive_flush(m.a), 0);
    make_all(&m, true);
    unlink_raw(&m, m.base_ns + m.partition_ns);
    (void)model_view(&m);
    for (int i = 0; i < 60; i++) {
        int64_t align = tier_steps[model_random(&m, TIERS)];
        struct bucket_spec spec = {.step_ns = steps[model_random(&m, 6)]};
        int64_t a = m.base_ns + (int64_t)model_random(&m, (uint64_t)m.span_ns), b = m.base_ns + m.span_ns;
        spec.from_ns = a - a % align;
        spec.to_ns = model_random(&m, 2) ? b : spec.from_ns + (int64_t)model_random(&m, 600) * align;
        model_check_fold(&m, (unsigned)model_random(&m, M_NAMES), &spec, -1, UINT64_MAX);
    }
    /* A step that no tier divides: nothing is lost, it only counts where its tier's step begins. */
    struct bucket_table table = {.def = view_table(m.view, SLICE_LIT("cpu"))};
    struct bucket_spec spec = {.tables = &table,
                               .n_tables = 1,
                               .from_ns = m.base_ns,
                               .to_ns = m.base_ns + m.span_ns,
                               .step_ns = 7 * SECOND};
    struct bucket *b;
    struct bucket_row row;
    uint64_t rows = 0, want = 0;
    assert_int_equal(bucket_fold(m.view, &spec, &b, NULL), 0);
    while (bucket_next(b, &row))
        rows += row.rows;
    bucket_destroy(b);
    for (size_t i = 0; i < m.n; i++)
        want += m.rows[i].name == 0;
    assert_int_equal(rows, want);
    /* A condition can't be asked of tiers. */
    struct bucket_where where = {.field = SLICE_LIT("i"), .op = WHERE_GT};
    struct diag why = {0};
    where.than = value_int(3);
    spec.where = &where;
    assert_int_equal(bucket_fold(m.view, &spec, &b, &why), E_PROTO);
    assert_non_null(strstr(why.message, "only tiers are left"));
    spec.from_ns += 2 * m.partition_ns;
    assert_int_equal(bucket_fold(m.view, &spec, &b, &why), 0);
    bucket_destroy(b);
    model_fini(&m);
}

/* A step on the way is as if it never was. */
static void is_whole_or_nothing(void **state)
{
    (void)state;
    struct model m;
    struct tier *t;
    init(&m, 400);
    model_fill(&m, 40);
    assert_int_equal(archive_flush(m.a), 0);
    struct partition_span span = span_at(&m, m.base_ns);
    assert_int_equal(tier_create(m.a, &span, tier_steps[0], &t), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tier_step(t), 1);
    tier_destroy(t);
    check(&m, 10);
    make_all(&m, false);
    check(&m, 20);
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_as_rows_do),
        cmocka_unit_test(stand_for_rows_that_are_gone),
        cmocka_unit_test(is_whole_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
