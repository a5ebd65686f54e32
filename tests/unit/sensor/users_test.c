/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

#include <utmp.h>

static struct utmp record(short type, const char *user, const char *host, pid_t pid)
{
    struct utmp u = {.ut_type = type, .ut_pid = pid};
    memcpy(u.ut_user, user, strlen(user) < sizeof u.ut_user ? strlen(user) : sizeof u.ut_user);
    memcpy(u.ut_host, host, strlen(host) < sizeof u.ut_host ? strlen(host) : sizeof u.ut_host);
    return u;
}

static void put_utmp(const struct tree *t, const char *path, const struct utmp *records, size_t n)
{
    tree_put_bytes(t, path, (const char *)records, n * sizeof *records);
}

static void from_utmp(void **state)
{
    (void)state;
    static const char longest[] = "a-name-of-thirty-two-bytes-12345";
    const struct utmp records[] = {
        record(BOOT_TIME, "reboot", "6.1.0", 0),      record(RUN_LVL, "runlevel", "6.1.0", 53),
        record(LOGIN_PROCESS, "LOGIN", "", 700),      record(USER_PROCESS, "anna", "192.0.2.7", 800),
        record(USER_PROCESS, "anna", ":0", 801),      record(USER_PROCESS, "bert", "", 802),
        record(DEAD_PROCESS, "carl", "", 803),        record(USER_PROCESS, longest, "host.example", 804),
        record(USER_PROCESS, "", "", 805),
    };
    struct tree t;
    tree_make(&t, NULL);
    put_utmp(&t, "/run/utmp", records, sizeof records / sizeof *records);
    tree_assert_text("users", t.root, NULL, "users sessions=4 remote=2 users=3\n");
    /* Nobody there is a number, too. */
    put_utmp(&t, "/run/utmp", records, 3);
    tree_assert_text("users", t.root, NULL, "users sessions=0 remote=0 users=0\n");
    tree_remove(&t);
    tree_make(&t, NULL);
    put_utmp(&t, "/var/run/utmp", records, 4);
    tree_assert_text("users", t.root, NULL, "users sessions=1 remote=1 users=1\n");
    tree_remove(&t);
}

/* Whole records count; half of one never does. */
static void cut_at_every_byte(void **state)
{
    (void)state;
    const struct utmp records[] = {record(BOOT_TIME, "reboot", "", 0), record(USER_PROCESS, "anna", "", 800),
                                   record(USER_PROCESS, "bert", "", 801)};
    struct tree t;
    tree_make(&t, NULL);
    for (size_t n = 0; n <= sizeof records; n++) {
        struct sense s;
        char expected[64];
        size_t whole = n / sizeof *records, sessions = whole > 1 ? whole - 1 : 0;
        tree_put_bytes(&t, "/run/utmp", (const char *)records, n);
        assert_int_equal(sense_open(&s, "users", t.root, NULL), 0);
        assert_int_equal(sense_run(&s), whole ? 0 : E_NODATA);
        (void)snprintf(expected, sizeof expected, "users sessions=%zu remote=0 users=%zu\n", sessions, sessions);
        if (whole)
            assert_string_equal(s.text.p, expected);
        sense_close(&s);
    }
    tree_remove(&t);
}

static void from_logind(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/run/systemd/sessions/1", "# made\nUID=1000\nUSER=anna\nREMOTE=0\nCLASS=user\n");
    tree_put(&t, "/run/systemd/sessions/3", "UID=1000\nUSER=anna\nREMOTE=1\nCLASS=user\n");
    tree_put(&t, "/run/systemd/sessions/c1", "UID=110\nUSER=gdm\nREMOTE=0\nCLASS=greeter\n");
    tree_put(&t, "/run/systemd/sessions/4", "UID=1001\nUSER=bert\nREMOTE=1\nCLASS=user\n");
    tree_put(&t, "/run/systemd/sessions/4.ref", "UID=1002\nCLASS=user\n");
    tree_assert_text("users", t.root, NULL, "users sessions=3 remote=2 users=2\n");
    tree_remove(&t);
    tree_make(&t, NULL);
    tree_put(&t, "/run/systemd/sessions/c1", "UID=110\nUSER=gdm\nREMOTE=0\nCLASS=greeter\n");
    struct sense s; /* without a seat logind does not run */
    assert_int_equal(sense_open(&s, "users", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    tree_put(&t, "/run/systemd/seats/seat0", "IS_SEAT0=1\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "users sessions=0 remote=0 users=0\n");
    sense_close(&s);
    tree_remove(&t);
    tree_assert_no_data("users", NULL);
}

/* A cut file of a session is no session, or the one it was. */
static void cut_session(void **state)
{
    (void)state;
    static const char whole[] = "UID=1000\nUSER=anna\nREMOTE=1\nCLASS=user\n";
    for (size_t n = 0; n < sizeof whole; n++) {
        struct tree t;
        struct sense s;
        tree_make(&t, NULL);
        tree_put(&t, "/run/systemd/seats/seat0", "IS_SEAT0=1\n");
        tree_put_bytes(&t, "/run/systemd/sessions/1", whole, n);
        assert_int_equal(sense_open(&s, "users", t.root, NULL), 0);
        assert_int_equal(sense_run(&s), 0);
        assert_string_equal(s.text.p, n == sizeof whole - 1 ? "users sessions=1 remote=1 users=1\n"
                                                            : "users sessions=0 remote=0 users=0\n");
        sense_close(&s);
        tree_remove(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_utmp),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(from_logind),
        cmocka_unit_test(cut_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
