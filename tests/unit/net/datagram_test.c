/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "net/datagram.h"
#include "net/lease.h"

static void test_head(void **state)
{
    (void)state;
    /* The layout of docs/protocol.md, byte by byte. */
    const unsigned char want[DATAGRAM_HEAD] = {0x12, 0xab, 0x04, 0x03, 0x02, 0x01,
                                               0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    const struct datagram_head h = {
        .level = SEAL_PRIVATE, .key = 0xab, .worker = 0x01020304, .number = UINT64_C(0x010203040506)};
    unsigned char bytes[DATAGRAM_HEAD + DATAGRAM_TAG] = {0};
    datagram_put_head(bytes, &h);
    assert_memory_equal(bytes, want, sizeof want);
    struct datagram_head got;
    assert_int_equal(datagram_get_head(slice_of((const char *)bytes, sizeof bytes), &got), 0);
    assert_int_equal(got.level, h.level);
    assert_int_equal(got.key, h.key);
    assert_int_equal(got.worker, h.worker);
    assert_int_equal(got.number, h.number);
}

static int get(unsigned char first, uint64_t number, size_t n)
{
    unsigned char bytes[DATAGRAM_MAX + 1] = {0};
    struct datagram_head got;
    datagram_put_head(bytes, &(struct datagram_head){.worker = 1, .number = number});
    bytes[0] = first;
    return datagram_get_head(slice_of((const char *)bytes, n), &got);
}

static void test_heads_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n <= DATAGRAM_MAX + 1; n++)
        for (unsigned char level = SEAL_NONE; level <= SEAL_PRIVATE; level++) {
            size_t least = DATAGRAM_HEAD + (level == SEAL_NONE ? 0 : DATAGRAM_TAG);
            assert_int_equal(get(0x10 | level, 1, n), n >= least && n <= DATAGRAM_MAX ? 0 : E_PROTO);
        }
    for (unsigned first = 0; first < 256; first++) {
        int want = first >> 4 != DATAGRAM_VERSION ? E_VERSION : (first & 15) > SEAL_PRIVATE ? E_PROTO : 0;
        assert_int_equal(get((unsigned char)first, 1, 100), want);
    }
    assert_int_equal(get(0x10, 0, 100), E_PROTO); /* numbers start at 1 */
    assert_int_equal(get(0x10, DATAGRAM_NUMBER_MAX, 100), 0);
}

static void test_window_edges(void **state)
{
    (void)state;
    struct datagram_window w = {0};
    assert_int_equal(datagram_window_look(&w, 1), DATAGRAM_NEW);
    assert_int_equal(datagram_window_enter(&w, 2000), DATAGRAM_NEW);
    assert_int_equal(datagram_window_enter(&w, 2000), DATAGRAM_DUPLICATE);
    assert_int_equal(datagram_window_enter(&w, 2000 - DATAGRAM_WINDOW), DATAGRAM_NEW); /* as far as it goes */
    assert_int_equal(datagram_window_enter(&w, 2000 - DATAGRAM_WINDOW), DATAGRAM_DUPLICATE);
    assert_int_equal(datagram_window_enter(&w, 2000 - DATAGRAM_WINDOW - 1), DATAGRAM_TOO_OLD);
    assert_int_equal(datagram_window_enter(&w, 2000 + DATAGRAM_WINDOW), DATAGRAM_NEW);
    assert_int_equal(datagram_window_enter(&w, 2000), DATAGRAM_DUPLICATE);
    assert_int_equal(datagram_window_enter(&w, 2001), DATAGRAM_NEW);
    assert_int_equal(datagram_window_enter(&w, DATAGRAM_NUMBER_MAX),
                     DATAGRAM_NEW); /* a jump past everything */
    assert_int_equal(datagram_window_enter(&w, DATAGRAM_NUMBER_MAX), DATAGRAM_DUPLICATE);
    assert_int_equal(datagram_window_enter(&w, DATAGRAM_NUMBER_MAX - DATAGRAM_WINDOW), DATAGRAM_NEW);
    assert_int_equal(datagram_window_enter(&w, 2002), DATAGRAM_TOO_OLD);
    assert_int_equal(w.received, 6);
    assert_int_equal(w.reordered, 3);
    assert_int_equal(w.duplicate, 4);
    assert_int_equal(w.too_old, 2);
    assert_int_equal(w.highest, DATAGRAM_NUMBER_MAX);
}

static void test_look_changes_nothing(void **state)
{
    (void)state;
    struct datagram_window w = {0}, before;
    for (uint64_t n = 1; n < 3000; n += 3)
        (void)datagram_window_enter(&w, n);
    before = w;
    for (uint64_t n = 1; n < 5000; n++)
        (void)datagram_window_look(&w, n);
    assert_memory_equal(&w, &before, sizeof w);
}

/* The naive model: a flag for every number there ever was. */
enum { NUMBERS = 40000 };

struct model {
    bool has_come[NUMBERS];
    uint64_t highest, received, duplicate, reordered, too_old;
};

static enum datagram_verdict model_enter(struct model *m, uint64_t number)
{
    if (number + DATAGRAM_WINDOW < m->highest) {
        m->too_old++;
        return DATAGRAM_TOO_OLD;
    }
    if (m->has_come[number]) {
        m->duplicate++;
        return DATAGRAM_DUPLICATE;
    }
    m->has_come[number] = true;
    m->received++;
    m->reordered += number < m->highest;
    m->highest = number > m->highest ? number : m->highest;
    return DATAGRAM_NEW;
}

/* Numbers as a bad network gives them: lost, doubled, late by a few or by more than the window, and now and
 * then a gap as of an outage. base: where the numbers begin. */
static void run_network(uint64_t seed, uint64_t base)
{
    static struct model m;
    struct datagram_window w = {0};
    m = (struct model){0};
    const uint64_t loss = test_random(&seed) % 60, doubled = test_random(&seed) % 30,
                   late = test_random(&seed) % 50;
    const uint64_t far = 1 + test_random(&seed) % (test_random(&seed) % 2 ? 2500 : 20);
    for (uint64_t sent = 1; sent < NUMBERS;) {
        uint64_t number = sent;
        if (test_random(&seed) % 100 < late)
            number -= test_random(&seed) % far % sent;
        unsigned copies = test_random(&seed) % 100 < doubled ? 2 : 1;
        if (test_random(&seed) % 100 >= loss)
            for (unsigned i = 0; i < copies; i++) {
                enum datagram_verdict look = datagram_window_look(&w, base + number);
                enum datagram_verdict want = model_enter(&m, number);
                assert_int_equal(look, want);
                assert_int_equal(datagram_window_enter(&w, base + number), want);
            }
        sent += test_random(&seed) % 500 == 0 ? 1 + test_random(&seed) % 3000 : 1;
    }
    assert_int_equal(w.highest, base + m.highest);
    assert_int_equal(w.received, m.received);
    assert_int_equal(w.duplicate, m.duplicate);
    assert_int_equal(w.reordered, m.reordered);
    assert_int_equal(w.too_old, m.too_old);
    assert_true(m.received > 1000);
}

static void test_window_against_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100 * (uint64_t)test_scale(); seed++) {
        run_network(seed, 0);
        run_network(seed, DATAGRAM_NUMBER_MAX - NUMBERS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_heads_refused),
        cmocka_unit_test(test_window_edges),
        cmocka_unit_test(test_look_changes_nothing),
        cmocka_unit_test(test_window_against_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
