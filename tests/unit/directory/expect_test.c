/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be there. */
#include "unit/directory/known.h"

#define HOUR (3600 * NS_PER_S)

static void expect(struct known *k, const char *text)
{
    struct diag why = {0};
    assert_int_equal(directory_expect(k->d, slice_str(text), &why), 0);
}

static void a_named_host_is_missing_until_it_comes(void **state)
{
    (void)state;
    struct known k;
    struct directory_host_entry h;
    struct directory_counts c;
    known_open(&k, HOUR);
    expect(&k, "node1");
    expect(&k, "  node2\tcpu  memory ");
    assert_heard(&k, "+node1:unregistered>unregistered +node1/*=missing +node2:unregistered>unregistered "
                     "+node2/cpu=missing +node2/memory=missing ");
    directory_counts(k.d, &c);
    assert_int_equal(c.missing, 3);
    known_host(&k, "node1", DIRECTORY_LIVE);
    assert_status(&k, "node1", "*", "unknown"); /* its list is on its way */
    known_say(&k, "node1", "load load always running");
    assert_false(known_has(&k, "node1", "*"));
    known_host(&k, "node2", DIRECTORY_LIVE);
    known_say(&k, "node2", "cpu cpu always running");
    assert_status(&k, "node2", "cpu", "running");
    assert_true(known_find(&k, "node2", "cpu").is_expected);
    assert_status(&k, "node2", "memory", "missing");
    directory_counts(k.d, &c);
    assert_int_equal(c.missing, 1);
    assert_true(directory_find_host(k.d, SLICE_LIT("node2"), &h));
    assert_true(h.is_expected);
    assert_int_equal(h.missing, 1);
    assert_int_equal(h.sensors, 1);
    known_close(&k);
}

static void what_is_expected_never_goes(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    expect(&k, "node2 cpu");
    known_host(&k, "node2", DIRECTORY_LIVE);
    known_say(&k, "node2", "cpu cpu always running", "load load always running");
    known_say(&k, "node2", "load load always running");
    assert_status(&k, "node2", "cpu", "missing"); /* it was taken out of the configuration */
    known_say(&k, "node2", "cpu cpu always running", "load load always running");
    known_host(&k, "node2", DIRECTORY_DEREGISTERED);
    assert_status(&k, "node2", "cpu", "missing");
    assert_status(&k, "node2", "load", "stopped");
    known_pass(&k, 3 * HOUR);
    known_pass(&k, 3 * HOUR);
    assert_status(&k, "node2", "cpu", "missing");
    assert_false(known_has(&k, "node2", "load"));
    known_close(&k);
}

static void a_pattern_means_hosts_that_are_known(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "db1", DIRECTORY_LIVE);
    known_say(&k, "db1", "cpu cpu always running");
    expect(&k, "db* heartbeat");
    assert_status(&k, "db1", "heartbeat", "missing");
    known_host(&k, "db2", DIRECTORY_LIVE);
    known_say(&k, "db2", "heartbeat heartbeat always running");
    assert_status(&k, "db2", "heartbeat", "running");
    known_host(&k, "web1", DIRECTORY_LIVE);
    assert_false(known_has(&k, "web1", "heartbeat"));
    known_host(&k, "db1", DIRECTORY_EXPIRED);
    known_pass(&k, 2 * HOUR);
    struct directory_host_entry h;
    assert_false(directory_find_host(k.d, SLICE_LIT("db1"), &h)); /* only its name was known */
    known_close(&k);
}

static void a_program_may_be_expected(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    expect(&k, "node1 sshd");
    assert_status(&k, "node1", "sshd", "missing");
    known_event(&k, "node1", "sshd", "login");
    assert_status(&k, "node1", "sshd", "running");
    assert_slice(known_find(&k, "node1", "sshd").mode, "program");
    known_pass(&k, 2 * HOUR);
    assert_status(&k, "node1", "sshd", "missing");
    known_close(&k);
}

static void what_is_not_understood_is_said(void **state)
{
    (void)state;
    struct known k;
    struct diag why = {0};
    known_open(&k, HOUR);
    assert_int_equal(directory_expect(k.d, SLICE_LIT("   "), &why), E_PROTO);
    assert_non_null(strstr(why.message, "HOST"));
    assert_int_equal(directory_expect(k.d, SLICE_LIT("node1 exec/*"), &why), E_PROTO);
    assert_non_null(strstr(why.message, "exec/*"));
    assert_heard(&k, "");
    known_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_host_is_missing_until_it_comes),
        cmocka_unit_test(what_is_expected_never_goes),
        cmocka_unit_test(a_pattern_means_hosts_that_are_known),
        cmocka_unit_test(a_program_may_be_expected),
        cmocka_unit_test(what_is_not_understood_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
