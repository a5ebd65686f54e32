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
    assert_string_equal(out.p,
                        "{\"hop\":\"gateway\",\"forgotten\":0,\"forced\":0,\"trimmed_events\":0,\"trimmed_fields\":0,\"accounts\":[{\"producer\":"
                        "\"01020000000000000000000000000000\",\"epoch\":1,\"class\":\"events\","
                        "\"state\":\"closed\",\"taken\":6,\"passed\":3,"
                        "\"duplicate\":2,\"refused\":1,\"too_old\":0,\"too_new\":0,\"no_schema\":0,\"queued\":0,"
                        "\"retried\":0,\"lost\":0,\"highest_seq\":3,"
                        "\"ranges\":1,\"counts\":{\"taken\":"
                        "3,\"passed\":3,\"queued\":0,\"dropped\":{}}}]}\n");
    a->passed++;
    assert_false(account_check(a));
    strbuf_fini(&out);
    ledger_fini(&l);
}

/* An account as bytes and back, of both classes; what is queued is counted as passed. */
static void test_bytes(void **state)
{
    (void)state;
    struct ledger l = {.now_s = 1000}, again = {0};
    struct frame_origin events = origin(1), samples = origin(2);
    struct account *a = ledger_account(&l, &events), *b = ledger_account(&l, &samples);
    struct strbuf out = {0};
    assert_int_equal(seq_set_add(&a->held, 1, 10), 0);
    assert_int_equal(seq_set_add(&a->held, 20, UINT64_MAX), 0);
    assert_int_equal(seq_set_add(&a->pending[1], 12, 13), 0);
    a->passed = seq_set_count(&a->held);
    a->queued = 3; /* one of these is not new */
    a->duplicate = 7;
    a->refused = 5;
    a->too_old = 6;
    a->too_new = 4;
    a->bridged = 2;
    a->passed -= a->bridged;
    a->taken = a->passed + 3 + 7 + 5 + 6 + 4;
    assert_int_equal(set_counts(a, 30, true), 1);
    assert_true(account_check(a));
    assert_true(account_set_class(b, CLASS_SAMPLES));
    b->taken = 50;
    b->passed = 30;
    b->queued = b->pending_rows[0] = 15;
    b->no_schema = 5;
    b->highest = 60;
    assert_true(account_check(b));
    assert_int_equal(account_lost(b), 10);
    account_put(&out, a);
    account_put(&out, b);
    again.now_s = 2000;
    (void)ledger_account(&again, &events); /* is replaced */
    assert_int_equal(seq_set_add(&ledger_account(&again, &events)->held, 15, 15), 0);
    struct cursor c = cursor_of(strbuf_slice(&out));
    assert_int_equal(ledger_get_account(&again, &c), 1);
    assert_int_equal(ledger_get_account(&again, &c), 1);
    assert_int_equal(ledger_get_account(&again, &c), 0);
    const struct account *x = ledger_find(&again, &events), *y = ledger_find(&again, &samples);
    assert_true(account_check(x) && account_check(y));
    assert_int_equal(x->passed, a->passed + 2);
    assert_int_equal(x->held.n, 3);
    assert_true(x->duplicate == 7 && x->refused == 5 && x->too_old == 6 && x->too_new == 4 &&
                x->bridged == 2 && x->is_closed && x->active_s == 1000);
    assert_true(slice_eq(account_counts(x), account_counts(a)));
    assert_true(y->class == CLASS_SAMPLES && y->passed == 45 && y->taken == 50 && y->highest == 60);
    for (size_t n = 1; n < out.n; n++) { /* cut short anywhere */
        struct ledger cut = {0};
        struct cursor part = cursor_of(slice_of(out.p, n));
        int r;
        while ((r = ledger_get_account(&cut, &part)) > 0)
            ;
        struct strbuf first = {0};
        account_put(&first, a);
        assert_int_equal(r, n == first.n ? 0 : E_PROTO);
        for (const struct account *k = cut.oldest; k; k = k->newer)
            assert_true(account_check(k));
        strbuf_fini(&first);
        ledger_fini(&cut);
    }
    strbuf_fini(&out);
    ledger_fini(&l);
    ledger_fini(&again);
}

/* Everything that was there is visited once, whatever comes, goes or moves meanwhile. */
static void test_walk(void **state)
{
    (void)state;
    struct ledger l = {.max = 100};
    bool seen[300] = {false};
    for (uint64_t n = 0; n < 100; n++) {
        struct frame_origin o = origin(n + 1);
        ledger_account(&l, &o)->counted_s = (uint32_t)n;
    }
    assert_int_equal(ledger_walk(&l), 0);
    uint64_t visited = 0, next = 100;
    for (struct account *a; (a = ledger_walk_next(&l)); visited++) {
        assert_false(seen[a->counted_s]);
        seen[a->counted_s] = true;
        assert_true(a->counted_s < 100);
        struct frame_origin moved = origin(1 + (visited * 37) % 100), fresh = origin(next + 1);
        if (ledger_find(&l, &moved))
            (void)ledger_account(&l, &moved);
        if (visited % 2)
            ledger_account(&l, &fresh)->counted_s = (uint32_t)next++; /* the quietest goes */
    }
    assert_true(visited < 100 && visited + l.forgotten >= 100);
    for (const struct account *a = l.oldest; a; a = a->newer)
        assert_true(a->counted_s >= 100 || seen[a->counted_s]);
    ledger_walk_end(&l);
    assert_null(ledger_walk_next(&l));
    ledger_fini(&l);
}

static void test_expire(void **state)
{
    (void)state;
    struct ledger l = {.now_s = 100};
    for (uint64_t n = 1; n <= 5; n++) {
        struct frame_origin o = origin(n);
        l.now_s = 100 * (uint32_t)n;
        struct account *a = ledger_account(&l, &o);
        a->pins = n == 1;
        assert_true(account_set_class(a, n == 2 ? CLASS_SAMPLES : CLASS_EVENTS));
    }
    l.now_s = 450;
    ledger_expire(&l, 120); /* of the first three only two may go */
    assert_int_equal(l.forgotten, 2);
    assert_int_equal(l.forgotten_s, 300);
    assert_int_equal(l.accounts.n, 3);
    l.now_s = 10; /* the clock went back */
    ledger_expire(&l, 120);
    assert_int_equal(l.forgotten, 2);
    ledger_fini(&l);
}

/* Held, or in one of the two groups. */
static void test_missing(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < 300; round++) {
        struct account a = {0};
        bool in[64] = {false};
        for (int i = 0; i < 6; i++) {
            uint64_t first = 1 + test_random(&seed) % 60, last = first + test_random(&seed) % 3;
            struct seq_set *s = i % 3 == 0 ? &a.held : &a.pending[i % 3 - 1];
            assert_int_equal(seq_set_add(s, first, last), 0);
            for (uint64_t n = first; n <= last; n++)
                in[n] = true;
        }
        uint64_t n = 1;
        struct seq_range gap;
        while (n <= 63 && account_missing(&a, n, 63, &gap)) {
            for (; n < gap.first; n++)
                assert_true(in[n]);
            for (; n <= gap.last; n++)
                assert_false(in[n]);
        }
        for (; n <= 63; n++)
            assert_true(in[n]);
        seq_set_fini(&a.held);
        seq_set_fini(&a.pending[0]);
        seq_set_fini(&a.pending[1]);
    }
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
        cmocka_unit_test(test_print),    cmocka_unit_test(test_no_memory), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_walk),     cmocka_unit_test(test_expire),    cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
