/* SPDX-License-Identifier: Apache-2.0 */
/* Merging changes no row and no answer, whatever was late or in between, and leaves fewer chunks; doubles go,
 * event names that are kept no longer go, and a view that is in use sees what it saw. */
#include "unit/archive/model.h"

#include "archive/archive_internal.h"
#include "archive/merge.h"

static struct partition_span span_at(const struct model *m, int64_t time_ns)
{
    return archive_span_of(m->a, time_ns);
}

static struct merge_counts merge_all(struct model *m, struct merge_options o)
{
    struct merge_counts all = {0};
    for (int64_t t = m->base_ns - m->base_ns % m->partition_ns; t < m->base_ns + m->span_ns;
         t += m->partition_ns) {
        struct partition_span span = span_at(m, t);
        struct merge *merge;
        int r;
        assert_int_equal(merge_create(m->a, &span, &o, &merge), 0);
        while ((r = merge_step(merge)) > 0)
            ;
        assert_int_equal(r, 0);
        struct merge_counts c = merge_counts(merge);
        all.commits += c.commits;
        all.doubled += c.doubled;
        all.dropped += c.dropped;
        merge_destroy(merge);
    }
    return all;
}

/* Many small chunks: a flush every few rows. */
static void fill(struct model *m, unsigned records)
{
    for (unsigned i = 0; i < records; i++) {
        model_fill(m, 2);
        assert_int_equal(archive_flush(m->a), 0);
    }
}

static void changes_no_answer(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4 * test_scale(); round++) {
        struct model m;
        print_message("seed %u\n", round);
        model_init(&m, 100 + round);
        fill(&m, 24);
        (void)model_view(&m);
        size_t before = model_check_rows(&m);
        model_release(&m);
        struct merge_counts c = merge_all(&m, (struct merge_options){.is_closed = round % 2});
        assert_true(c.commits > 0);
        assert_int_equal(c.doubled, 0);
        (void)model_view(&m);
        size_t after = model_check_rows(&m);
        assert_true(after * 2 < before);
        for (int i = 0; i < 40; i++)
            model_check_random(&m, 0);
        model_fill(&m, 3); /* and it goes on */
        assert_int_equal(archive_flush(m.a), 0);
        (void)model_view(&m);
        (void)model_check_rows(&m);
        model_close_archive(&m);
        model_open_archive(&m);
        (void)model_view(&m);
        (void)model_check_rows(&m);
        model_fini(&m);
    }
}

static void a_view_in_use_stays(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 17);
    fill(&m, 10);
    (void)model_view(&m);
    model_check_random(&m, 0); /* some partitions are open, some are not */
    size_t n = m.n;
    fill(&m, 6);
    struct merge_counts c = merge_all(&m, (struct merge_options){.is_closed = true});
    assert_true(c.commits > 0);
    size_t all = m.n;
    m.n = n; /* what came since is not of that view */
    (void)model_check_rows(&m);
    for (int i = 0; i < 20; i++)
        model_check_random(&m, 0);
    m.n = all;
    (void)model_view(&m);
    (void)model_check_rows(&m);
    model_fini(&m);
}

static void leaves_doubles_out(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 23);
    m.span_ns = 300 * SECOND;
    size_t doubled = 0;
    for (int i = 0; i < 8; i++) {
        size_t n = 1 + model_random(&m, 40);
        model_add(&m, n, m.base_ns, m.base_ns + m.span_ns);
        if (i % 2) { /* the same events from another source */
            m.source.id[0]++;
            model_append_last(&m, n);
            m.source.id[0]--;
            doubled += n;
        }
        assert_int_equal(archive_flush(m.a), 0);
    }
    struct merge_counts c = merge_all(&m, (struct merge_options){.is_closed = true});
    (void)model_view(&m);
    (void)model_check_rows(&m);
    assert_int_equal(c.doubled, doubled);
    model_fini(&m);
}

static int64_t no_cpu(void *arg, struct slice name)
{
    (void)arg;
    return slice_eq_str(name, "cpu") ? INT64_MAX : INT64_MIN;
}

static void drops_names(void **state)
{
    (void)state;
    struct model m;
    uint64_t n = 0;
    model_init(&m, 29);
    fill(&m, 10);
    for (size_t i = 0; i < m.n; i++) {
        m.rows[i].is_gone = m.rows[i].name == 0;
        n += m.rows[i].is_gone;
    }
    struct merge_counts c = merge_all(&m, (struct merge_options){.is_closed = true, .floor = no_cpu});
    assert_int_equal(c.dropped, n);
    (void)model_view(&m);
    (void)model_check_rows(&m);
    for (int i = 0; i < 20; i++)
        model_check_random(&m, 0);
    model_fini(&m);
}

struct sides {
    uint64_t border, rows[2], blobs;
};

static bool see(void *arg, const struct partition_section *p)
{
    struct sides *s = arg;
    s->rows[p->gen > s->border] += p->s.rows;
    s->blobs++;
    return true;
}

static struct sides sides_of(struct model *m, const struct partition_span *span, uint64_t border)
{
    struct sides s = {.border = border};
    int r = 0;
    struct partition *p = archive_partition(m->a, span, &r);
    assert_int_equal(partition_sections(p, SLICE_LIT(""), INT64_MIN, INT64_MAX, see, &s), 0);
    return s;
}

/* Blobs of both sides of a border are not merged with each other: what is beyond it can still be told. */
static void keeps_borders(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 31);
    m.span_ns = 300 * SECOND;
    fill(&m, 6);
    struct partition_span span = span_at(&m, m.base_ns);
    int r = 0;
    uint64_t border = partition_gen(archive_partition(m.a, &span, &r));
    fill(&m, 6);
    struct sides before = sides_of(&m, &span, border);
    assert_true(merge_all(&m, (struct merge_options){.is_closed = true, .borders = &border, .n_borders = 1})
                    .commits >= 2);
    struct sides after = sides_of(&m, &span, border);
    assert_memory_equal(before.rows, after.rows, sizeof before.rows);
    assert_true(after.blobs < before.blobs);
    (void)model_view(&m);
    (void)model_check_rows(&m);
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_no_answer),  cmocka_unit_test(a_view_in_use_stays),
        cmocka_unit_test(leaves_doubles_out), cmocka_unit_test(drops_names),
        cmocka_unit_test(keeps_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
