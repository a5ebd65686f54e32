/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of durable subscriptions: their records, also those of earlier versions, and what they hold. */
#include "unit/test.h"

#include "base/strbuf.h"
#include "gateway/cursors.h"

static int keep(void *arg, struct slice record)
{
    struct strbuf *out = arg;
    strbuf_reset(out);
    strbuf_add_slice(out, record);
    return 0;
}

static const struct position at = {.record = 7, .part = UINT32_MAX, .event = UINT32_MAX};

static void test_record(void **state)
{
    (void)state;
    static struct cursors c, again;
    struct strbuf record = {0};
    struct cursor_mark *m = cursors_open(&c, SLICE_LIT("nightly"), at, 5);
    m->who = 9;
    memcpy(m->holder, "user ann", sizeof "user ann");
    m->hold = 10, m->gone = 11, m->gone_to = 12, m->refilled = 13, m->lost = 14, m->lost_records = 15,
    m->read_to = 16;
    assert_true(cursors_write(&c, keep, &record));
    assert_int_equal(cursors_restore(&again, strbuf_slice(&record)), 0);
    const struct cursor_mark *r = cursors_find(&again, SLICE_LIT("nightly"));
    assert_non_null(r);
    assert_string_equal(r->holder, "user ann");
    assert_true(r->who == 9 && r->hold == 10 && r->gone == 11 && r->gone_to == 12 && r->refilled == 13 &&
                r->lost == 14 && r->lost_records == 15 && r->read_to == 16);
    /* As earlier versions wrote it: it ends behind `who`, or before. */
    size_t old = 1 + 7 + 8 + 4 + 4 + 8 + 1;
    for (size_t n = old; n <= old + 8; n += 8) {
        static struct cursors early;
        early = (struct cursors){0};
        assert_int_equal(cursors_restore(&early, slice_of(record.p, n)), 0);
        r = cursors_find(&early, SLICE_LIT("nightly"));
        assert_true(r && r->position.record == 7 && r->who == (n > old ? 9 : 0) && r->hold == 0 &&
                    !r->holder[0]);
    }
    strbuf_fini(&record);
}

static void count(void *arg, struct cursor_mark *m)
{
    (void)m;
    ++*(int *)arg;
}

static void test_holds_and_gaps(void **state)
{
    (void)state;
    static struct cursors c;
    struct journal_hold holds[CURSORS_MAX];
    int told = 0;
    struct cursor_mark *a = cursors_open(&c, SLICE_LIT("a"), at, 5);
    struct cursor_mark *b = cursors_open(&c, SLICE_LIT("b"), (struct position){.record = 9, .part = 1}, 5);
    b->hold = 77;
    assert_int_equal(cursors_holds(&c, 1000, holds), 2);
    assert_true(holds[0].number == 7 && holds[0].bytes == 1000);
    assert_true(holds[1].number == 8 && holds[1].bytes == 77); /* record 9 is not done with */
    cursors_note_first(&c, 8, count, &told);
    assert_int_equal(told, 0);
    cursors_note_first(&c, 12, count, &told);
    assert_true(told == 2 && a->gone == 4 && b->gone == 3 && a->gone_to == 11);
    cursors_note_first(&c, 12, count, &told);
    assert_int_equal(told, 2); /* each record once */
    cursors_move(a, (struct position){20, UINT32_MAX, UINT32_MAX}, 6);
    cursors_note_first(&c, 15, count, &told);
    assert_true(told == 3 && a->gone == 4 && b->gone == 6);
    cursors_remove(b);
    assert_int_equal(cursors_holds(&c, 1000, holds), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_record), cmocka_unit_test(test_holds_and_gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
