/* SPDX-License-Identifier: Apache-2.0 */
/* A fold is what a loop over all rows gives: of rows in blobs and in heads, late ones, missing values, NaN;
 * any step, range, condition and choice of columns. */
#include "unit/archive/model.h"

#include <errno.h>

static void folds_as_a_loop_does(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 6 * test_scale(); round++) {
        struct model m;
        print_message("seed %u\n", round);
        model_init(&m, round);
        model_fill(&m, 20 + round * 10);
        for (int i = 0; i < 3; i++) {
            (void)model_view(&m);
            for (int k = 0; k < 40; k++)
                model_check_random(&m, 0);
            model_fill(&m, 5);
            if (i == 1)
                assert_int_equal(archive_flush(m.a), 0);
        }
        model_fini(&m);
    }
}

/* Every chunk is in a step, so that nothing is decoded: the answer is the same from summaries. */
static void answers_by_summaries(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 7);
    m.span_ns = 500 * SECOND;
    model_fill(&m, 40);
    assert_int_equal(archive_flush(m.a), 0);
    (void)model_view(&m);
    for (unsigned name = 0; name < M_NAMES; name++) {
        struct bucket_spec spec = {.from_ns = m.base_ns, .to_ns = m.base_ns + m.span_ns};
        model_check_fold(&m, name, &spec, -1, UINT64_MAX);
        model_check_fold(&m, name, &spec, -1, UINT64_MAX ^ UINT64_C(1) << 32); /* text isn't read */
    }
    model_fini(&m);
}

static void folds_many_names_at_once(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 11);
    model_fill(&m, 60);
    struct view *v = model_view(&m);
    struct bucket_column columns[M_NAMES][M_FIELDS];
    struct bucket_table tables[M_NAMES];
    uint64_t want[M_NAMES] = {0}, got[M_NAMES] = {0};
    for (unsigned i = 0; i < M_NAMES; i++) {
        tables[i] =
            (struct bucket_table){.def = view_table(v, slice_str(model_names[i])), .columns = columns[i]};
        for (uint32_t k = 0; k < tables[i].def->n_columns; k++)
            if (tables[i].def->columns[k].role != ROLE_KEY)
                columns[i][tables[i].n_columns++] = (struct bucket_column){.id = (uint16_t)k};
    }
    for (size_t i = 0; i < m.n; i++)
        for (int f = 0; f < M_FIELDS; f++)
            want[m.rows[i].name] += m.rows[i].v[f].type != VALUE_NONE;
    struct bucket_spec spec = {.tables = tables,
                               .n_tables = M_NAMES,
                               .from_ns = INT64_MIN,
                               .to_ns = INT64_MAX,
                               .step_ns = 60 * SECOND};
    struct bucket *b;
    struct bucket_row row;
    assert_int_equal(bucket_fold(v, &spec, &b, NULL), 0);
    while (bucket_next(b, &row))
        for (uint32_t k = 0; k < row.table->n_columns; k++)
            got[row.table - tables] += row.columns[k].count;
    bucket_destroy(b);
    assert_memory_equal(got, want, sizeof got);
    model_fini(&m);
}

static int stop(void *arg, uint64_t rows)
{
    *(uint64_t *)arg += rows;
    return -ECANCELED;
}

static void knows_limits(void **state)
{
    (void)state;
    struct model m;
    struct diag why = {0};
    struct bucket *b;
    uint64_t seen = 0;
    model_init(&m, 13);
    model_fill(&m, 30);
    struct view *v = model_view(&m);
    struct bucket_column column = {.id = 0};
    struct bucket_table table = {.def = view_table(v, SLICE_LIT("cpu")), .columns = &column, .n_columns = 1};
    struct bucket_spec spec = {.tables = &table,
                               .n_tables = 1,
                               .from_ns = m.base_ns,
                               .to_ns = m.base_ns + m.span_ns,
                               .step_ns = SECOND / 10,
                               .bytes_max = 20000};
    assert_int_equal(bucket_fold(v, &spec, &b, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "fewer fields"));
    spec.bytes_max = 0;
    spec.go_on = stop;
    spec.arg = &seen;
    assert_int_equal(bucket_fold(v, &spec, &b, &why), -ECANCELED);
    assert_true(seen > 0);
    struct bucket_where where = {.field = SLICE_LIT("s"), .op = WHERE_GT, .than = value_int(1)};
    spec.go_on = NULL;
    spec.where = &where;
    assert_int_equal(bucket_fold(v, &spec, &b, &why), E_PROTO);
    assert_non_null(strstr(why.message, "no field s with numbers"));
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_as_a_loop_does),
        cmocka_unit_test(answers_by_summaries),
        cmocka_unit_test(folds_many_names_at_once),
        cmocka_unit_test(knows_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
