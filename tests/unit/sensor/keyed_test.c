/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "sensor/keyed.h"

enum { FREE, ACTIVE, ACTIVE_FILE, HUGE, IN, FIELDS };

static const struct keyed_name names[FIELDS] = {
    {{"MemFree", 7}, KEYED_KB},       {{"Active", 6}, KEYED_KB},
    {{"Active(file)", 12}, KEYED_KB}, {{"HugePages_Free", 14}, KEYED_PLAIN},
    {{"pgpgin", 6}, KEYED_BARE_KB},
};

static const char meminfo[] =
    "MemTotal:       24682416 kB\nMemFree:        23991632 kB\nActive:           252176 kB\n"
    "Active(file):     250604 kB\nHugePages_Free:        7\n";

static size_t read_text(struct keyed *k, const char *text, struct value row[FIELDS])
{
    memset(row, 0, FIELDS * sizeof *row);
    return keyed_read(k, slice_str(text), row);
}

static void by_name(void **state)
{
    (void)state;
    struct keyed k;
    struct value row[FIELDS];
    keyed_init(&k, names, FIELDS);
    for (int i = 0; i < 3; i++) { /* cold, then by what it remembers */
        assert_int_equal(read_text(&k, meminfo, row), 4);
        assert_int_equal(row[FREE].u, UINT64_C(23991632) * 1024);
        assert_int_equal(row[ACTIVE].u, 252176 * 1024);
        assert_int_equal(row[ACTIVE_FILE].u, 250604 * 1024);
        assert_int_equal(row[HUGE].u, 7);
        assert_int_equal(row[IN].type, VALUE_NONE);
    }
    keyed_fini(&k);
}

/* The lines move, one more comes, one goes: the numbers stay with their names. */
static void lines_change(void **state)
{
    (void)state;
    struct keyed k;
    struct value row[FIELDS];
    keyed_init(&k, names, FIELDS);
    assert_int_equal(read_text(&k, meminfo, row), 4);
    assert_int_equal(read_text(&k, "Active(file): 1 kB\nActive: 2 kB\nMemFree: 3 kB\n", row), 3);
    assert_int_equal(row[ACTIVE_FILE].u, 1024);
    assert_int_equal(row[ACTIVE].u, 2048);
    assert_int_equal(row[FREE].u, 3072);
    assert_int_equal(read_text(&k, "New: 9 kB\nActive: 2 kB\npgpgin 5\n", row), 2);
    assert_int_equal(row[ACTIVE].u, 2048);
    assert_int_equal(row[IN].u, 5120);
    assert_int_equal(read_text(&k, meminfo, row), 4);
    assert_int_equal(row[HUGE].u, 7);
    /* What is remembered is the last text's five lines, no more. */
    assert_int_equal(k.n_lines, 5);
    assert_int_equal(k.text.n, strlen("MemTotalMemFreeActiveActive(file)HugePages_Free"));
    keyed_fini(&k);
}

static void what_is_no_number(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "MemFree: kB\n",
        "MemFree: 5\n",
        "MemFree: 5 MB\n",
        "MemFree: 5 kBs\n",
        "MemFree: -5 kB\n",
        "MemFree: 5x kB\n",
        "MemFree\n",
        "MemFree:\n",
        "MemFree: 5 kB",
        "MemFree: 5 k",
        "MemFree: 5",
        "MemFree: ",
        "MemFre",
        "memfree: 5 kB\n",
        "MemFreee: 5 kB\n",
        " MemFree: 5 kB\n",
        "HugePages_Free: 5",
        "HugePages_Free: 5 kB\n",
        "\n\n\n",
        "",
        "MemFree: 18014398509481984 kB\n", /* 2^54 * 1024 is 2^64 */
        "MemFree: 99999999999999999999 kB\n",
    };
    struct keyed k;
    struct value row[FIELDS];
    keyed_init(&k, names, FIELDS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int warm = 0; warm < 2; warm++) {
            assert_int_equal(read_text(&k, bad[i], row), 0);
            for (size_t f = 0; f < FIELDS; f++)
                assert_int_equal(row[f].type, VALUE_NONE);
        }
    }
    assert_int_equal(read_text(&k, "MemFree: 18014398509481983 kB\n", row), 1);
    assert_true(row[FREE].u == UINT64_C(18014398509481983) * 1024);
    keyed_fini(&k);
}

/* More lines than are remembered, and names too long to be. */
static void beyond_its_memory(void **state)
{
    (void)state;
    struct keyed k;
    struct value row[FIELDS];
    struct strbuf text = {0};
    keyed_init(&k, names, FIELDS);
    for (int i = 0; i < KEYED_LINES_MAX + 50; i++)
        strbuf_printf(&text, "line%d %d\n", i, i);
    strbuf_add_str(&text, "HugePages_Free: 8\n");
    for (int i = 0; i < 400; i++)
        strbuf_add_char(&text, 'x');
    strbuf_add_str(&text, " 5\npgpgin 3\n");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_text(&k, text.p, row), 2);
        assert_int_equal(row[HUGE].u, 8);
        assert_int_equal(row[IN].u, 3072);
    }
    strbuf_fini(&text);
    keyed_fini(&k);
}

static void without_memory(void **state)
{
    (void)state;
    struct keyed k;
    struct value row[FIELDS];
    keyed_init(&k, names, FIELDS);
    mem_fail_after(1);
    assert_int_equal(read_text(&k, meminfo, row), 4);
    mem_fail_after(0);
    assert_int_equal(row[HUGE].u, 7);
    assert_int_equal(read_text(&k, meminfo, row), 4);
    keyed_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),           cmocka_unit_test(lines_change),   cmocka_unit_test(what_is_no_number),
        cmocka_unit_test(beyond_its_memory), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
