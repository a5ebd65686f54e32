/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "journal/format.h"

/* The bytes themselves, so that a change of the format is noticed: version 1 is forever. The CRCs were
 * computed by another program from the table in journal.c. */
static void test_layout(void **state)
{
    (void)state;
    unsigned char head[HEAD_SIZE];
    format_put_head(head, &(struct segment_head){0x0102, 0x0304, 0x1122334455667788});
    const unsigned char want_head[40] = {
        'g', 'l', 'j', 'o', 'u', 'r', 'n', '\n', 1, 0, 0, 0, 0,    0,    0,    0,    2,    1,    0,    0,
        0,   0,   0,   0,   4,   3,   0,   0,    0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    assert_memory_equal(head, want_head, sizeof want_head);
    const unsigned char want_rest[24] = {[20] = 0xdb, 0xdb, 0x89, 0x2e};
    assert_memory_equal(head + 40, want_rest, sizeof want_rest);

    unsigned char record[RECORD_HEAD + 8] = {0};
    format_put_record(record, 3, 0x0a0b, 7);
    memcpy(record + RECORD_HEAD, "abc", 3);
    format_stamp(record, sizeof record, 0x55667788);
    const unsigned char want[32] = {0x88, 0x77, 0x66, 0x55, 3, 0, 0,    0,    0x0b, 0x0a, 0,   0,   0,  0,
                                    0,    0,    7,    0,    0, 0, 0xf9, 0x98, 0x11, 0xcd, 'a', 'b', 'c'};
    assert_memory_equal(record, want, sizeof want);

    unsigned char slot[SLOT_SIZE];
    format_put_slot(slot, &(struct cursor_slot){5, 6, 7});
    const unsigned char want_slot[SLOT_SIZE] = {
        'g', 'l', 'c', 'u', 1, [8] = 5, [16] = 6, [24] = 7, [36] = 0x7f, 0xb6, 0xc5, 0x99};
    assert_memory_equal(slot, want_slot, sizeof want_slot);
}

static void test_round_trip(void **state)
{
    (void)state;
    const struct segment_head h = {INT64_MAX, -5, UINT64_MAX};
    struct segment_head h2;
    unsigned char b[HEAD_SIZE];
    format_put_head(b, &h);
    assert_int_equal(format_get_head(b, &h2), 0);
    assert_memory_equal(&h, &h2, sizeof h);

    const struct cursor_slot s = {UINT64_MAX, 2, 3};
    struct cursor_slot s2;
    format_put_slot(b, &s);
    assert_int_equal(format_get_slot(b, &s2), 0);
    assert_memory_equal(&s, &s2, sizeof s);

    format_put_record(b, UINT32_MAX, UINT64_MAX - 1, 9);
    struct record_head r = format_get_record(b);
    assert_int_equal(r.length, UINT32_MAX);
    assert_int_equal(r.number, UINT64_MAX - 1);
    assert_int_equal(r.type, 9);
}

/* Any changed bit is noticed, and a refused head or slot leaves the output alone. */
static void test_flips(void **state)
{
    (void)state;
    unsigned char head[HEAD_SIZE], slot[SLOT_SIZE];
    struct segment_head h = {.first = 99};
    struct cursor_slot s = {.position = 99};
    format_put_head(head, &(struct segment_head){1, 2, 3});
    format_put_slot(slot, &(struct cursor_slot){1, 2, 3});
    for (size_t bit = 0; bit < sizeof head * 8; bit++) {
        head[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(format_get_head(head, &h), E_DAMAGE);
        head[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < sizeof slot * 8; bit++) {
        slot[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(format_get_slot(slot, &s), E_DAMAGE);
        slot[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(h.first, 99);
    assert_int_equal(s.position, 99);
    assert_int_equal(format_get_head(head, &h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout), cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_flips)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
