/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "gateway/ledger.h"

#include <errno.h>

static struct frame_origin origin(uint64_t n)
{
    struct frame_origin o = {.epoch = 1};
    memcpy(o.producer, &n, sizeof n);
    return o;
}

static int set_counts(struct account *a, uint64_t taken, bool is_final)
{
    struct strbuf out = {0};
    struct frame_counts c = {.origin = a->origin, .taken = taken, .passed = taken, .is_final = is_final};
    frame_put_counts(&out, &c);
    int r = account_set_counts(a, slice_from(strbuf_slice(&out), FRAME_HEAD), &c);
    strbuf_fini(&out);
    return r;
}

static void test_accounts(void **state)
{
    (void)state;
    struct ledger l = {0};
    struct frame_origin one = origin(1), two = origin(2);
    struct account *a = ledger_account(&l, &one), *b = ledger_account(&l, &two);
    assert_true(a && b && a != b);
    assert_ptr_equal(ledger_account(&l, &one), a);
    assert_ptr_equal(l.newest, a);
    assert_ptr_equal(l.oldest, b);
    two.epoch = 2; /* another epoch is another account */
    assert_true(ledger_account(&l, &two) != b);
    ledger_fini(&l);
}

/* The one that was quiet longest goes, unless something of it waits. */
static void test_bounded(void **state)
{
    (void)state;
    enum { MAX = 1000 };
    struct ledger l = {.max = MAX};
    struct frame_origin first = origin(1);
    struct account *a = ledger_account(&l, &first);
    a->taken = a->queued = 1;
    for (uint64_t n = 2; n <= MAX + 10; n++) {
        struct frame_origin o = origin(n);
        assert_non_null(ledger_account(&l, &o));
    }
    assert_int_equal(l.accounts.n, MAX);
    assert_int_equal(l.forgotten, 10);
    assert_ptr_equal(ledger_account(&l, &first), a);
    struct frame_origin gone = origin(2);
    assert_null(map_get(&l.accounts, slice_of((const char *)&gone, sizeof gone)));
    ledger_fini(&l);
}

/* Cumulative: an older one that comes late does not count, nor anything behind the last. */
static void test_counts(void **state)
{
    (void)state;
    struct ledger l = {0};
    struct frame_origin o = origin(1);
    struct account *a = ledger_account(&l, &o);
    struct frame_counts c;
    assert_int_equal(set_counts(a, 10, false), 1);
    assert_int_equal(set_counts(a, 5, false), 0);
    assert_int_equal(frame_get_counts(account_counts(a), &c), 0);
    assert_int_equal(c.taken, 10);
    assert_false(a->is_closed);
    assert_int_equal(set_counts(a, 12, true), 1);
    assert_true(a->is_closed);
    assert_int_equal(set_counts(a, 13, false), 0);
    assert_int_equal(frame_get_counts(account_counts(a), &c), 0);
    assert_int_equal(c.taken, 12);
    ledger_fini(&l);
}

static void test_print(void **state)
{
    (void)state;
    struct ledger l = {0};
    struct frame_origin o = origin(0x0201);
    struct account *a = ledger_account(&l, &o);
    struct strbuf out = {0};
    a->taken = 6;
    a->passed = 3;
    a->duplicate = 2;
    a->refused = 1;
    assert_int_equal(seq_set_add(&a->held, 1, 3), 0);
    assert_true(account_check(a));
    assert_int_equal(set_counts(a, 3, true), 1);
    ledger_print(&l, &out);
    assert_string_equal(out.p, "{\"hop\":\"gateway\",\"forgotten\":0,\"forced\":0,\"accounts\":[{\"producer\":"
                               "\"01020000000000000000000000000000\",\"epoch\":1,\"class\":\"events\","
                               "\"state\":\"closed\",\"taken\":6,\"passed\":3,"
                               "\"duplicate\":2,\"refused\":1,\"too_old\":0,\"no_schema\":0,\"queued\":0,"
                               "\"lost\":0,\"highest_seq\":3,"
                               "\"ranges\":1,\"counts\":{\"taken\":"
                               "3,\"passed\":3,\"queued\":0,\"dropped\":{}}}]}\n");
    a->passed++;
    assert_false(account_check(a));
    strbuf_fini(&out);
    ledger_fini(&l);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct frame_origin o = origin(1);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct ledger l = {0};
        mem_fail_after(nth);
        assert_null(ledger_account(&l, &o));
        assert_null(l.newest);
        assert_non_null(ledger_account(&l, &o));
        ledger_fini(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accounts), cmocka_unit_test(test_bounded),   cmocka_unit_test(test_counts),
        cmocka_unit_test(test_print),    cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
