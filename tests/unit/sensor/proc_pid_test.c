/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/text.h"
#include "sensor/proc_pid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXTURES GRIDLINE_SOURCE "/tests/fixtures/hosts/"
#define REST                                                                                                \
    " S 7 2 3 0 -1 4194560 1 0 0 0 11 12 5 6 20 -5 4 0 99 4096 3 1 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 " \
    "0 0 0 0 "                                                                                              \
    "0 0 0 139\n"

static void all_fields(void **state)
{
    (void)state;
    struct proc_stat s;
    assert_int_equal(proc_stat_parse(slice_str("5 (a)" REST), &s), 0);
    assert_slice(s.comm, "a");
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.ppid, 7);
    assert_int_equal(s.utime, 11);
    assert_int_equal(s.stime, 12);
    assert_int_equal(s.threads, 4);
    assert_int_equal(s.start, 99);
    assert_int_equal(s.vsize, 4096);
    assert_int_equal(s.rss, 3);
    assert_int_equal(s.exit_code, 139);
}

/* A process chooses its name, and may try to look like another. */
static void names_with_tricks(void **state)
{
    (void)state;
    static const char *const names[] = {"", " ", ")", "(", ") (", "a) R 1 (b", "))", "a\nb", ") S 1 1 1 1 1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[512];
        struct proc_stat s;
        (void)snprintf(text, sizeof text, "5 (%s)" REST, names[i]);
        assert_int_equal(proc_stat_parse(slice_str(text), &s), 0);
        assert_slice(s.comm, names[i]);
        assert_int_equal(s.ppid, 7);
        assert_int_equal(s.start, 99);
    }
}

/* Whatever is cut off, what is read is right or refused: never a number that lost digits. */
static void cut_stat(void **state)
{
    (void)state;
    const char *text = "5 (a b)" REST;
    struct proc_stat whole, s;
    assert_int_equal(proc_stat_parse(slice_str(text), &whole), 0);
    size_t taken = 0;
    for (size_t n = 0; n < strlen(text); n++) {
        if (proc_stat_parse(slice_of(text, n), &s) < 0)
            continue;
        taken++;
        assert_true(s.rss == whole.rss && s.vsize == whole.vsize && s.start == whole.start);
        assert_true(s.exit_code == 0);
    }
    assert_true(taken > 0);
    static const char *const bad[] = {"",       "5",          "5 a S 1",   ") (",         "5 (a)",
                                      "5 (a) ", "5 (a) SS 1", "5 (a) S x", "5 (a) \x01 7"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(proc_stat_parse(slice_str(bad[i]), &s), E_PROTO);
}

static void dead_or_not(void **state)
{
    (void)state;
    assert_true(proc_stat_is_dead(&(struct proc_stat){.state = 'Z', .threads = 1}));
    assert_true(proc_stat_is_dead(&(struct proc_stat){.state = 'X', .threads = 0}));
    assert_false(proc_stat_is_dead(&(struct proc_stat){.state = 'Z', .threads = 2}));
    assert_false(proc_stat_is_dead(&(struct proc_stat){.state = 'S', .threads = 1}));
}

static void uid(void **state)
{
    (void)state;
    uint64_t id = 7;
    assert_int_equal(proc_status_uid(slice_str("Name:\tx\nUid:\t1\t2\t3\t4\n"), &id), 0);
    assert_int_equal(id, 2);
    assert_int_equal(proc_status_uid(slice_str("Name:\tx\nUid:\t1\t23"), &id), E_NODATA); /* cut */
    assert_int_equal(proc_status_uid(slice_str("Name:\tUid: 1 2\n"), &id), E_NODATA);
    assert_int_equal(proc_status_uid(slice_str(""), &id), E_NODATA);
    assert_int_equal(id, 2);
}

static void check_command(const char *in, size_t n, const char *expected)
{
    char text[64];
    memcpy(text, in, n);
    n = proc_command_text(text, n);
    assert_slice(slice_of(text, n), expected);
    assert_true(text_is_utf8(slice_of(text, n)));
}

static void commands(void **state)
{
    (void)state;
    check_command("", 0, "");
    check_command("\0\0", 2, "");
    check_command("a\0b c\0", 6, "a b c");
    check_command("a\0\0b\0\0\0", 7, "a  b");
    check_command("caf\xc3\xa9\0x", 7, "caf\xc3\xa9 x");
    check_command("caf\xc3", 4, "caf");     /* cut in a character of two bytes */
    check_command("a\xf0\x9f\x98", 4, "a"); /* of four */
    check_command("\xe2\x82", 2, "");
    check_command("caf\xe9 x\xc3\xa9", 8, "caf? x??"); /* Latin-1 somewhere */
    check_command("\x80\x80\x80\x80\x80", 5, "?????");
}

static void of_a_tree(void **state)
{
    (void)state;
    struct sensor_env env;
    char text[PROC_STAT_MAX];
    env_init(&env, FIXTURES "processes");
    assert_int_equal(proc_count_files(&env, 812), 5);
    assert_int_equal(proc_count_files(&env, 4001), E_NODATA);
    assert_int_equal(proc_read(&env, 4001, "stat", text, sizeof text), E_NODATA);
    assert_int_equal(proc_read(&env, 4002, "stat", text, sizeof text), E_NODATA);
    assert_true(proc_read(&env, 812, "stat", text, sizeof text) > 50);
    assert_int_equal(proc_read(&env, 812, "stat", text, 10), 10);
    env_fini(&env);
}

static void of_this_process(void **state)
{
    (void)state;
    struct sensor_env env;
    struct proc_stat s;
    char text[PROC_STAT_MAX];
    env_init(&env, "");
    int64_t n = proc_read(&env, (uint32_t)getpid(), "stat", text, sizeof text);
    assert_true(n > 0);
    assert_int_equal(proc_stat_parse(slice_of(text, (size_t)n), &s), 0);
    assert_int_equal(s.ppid, getppid());
    assert_true(s.rss > 0 && s.threads >= 1);
    int64_t files = proc_count_files(&env, (uint32_t)getpid());
    assert_true(files >= 3);
    int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(proc_count_files(&env, (uint32_t)getpid()), files + 1);
    assert_int_equal(close(fd), 0);
    env_fini(&env);
}

/* A descriptor that stays open knows that its process has gone, whoever has the pid now. */
static void gone_while_open(void **state)
{
    (void)state;
    struct sensor_env env;
    char text[PROC_STAT_MAX];
    int hold[2];
    env_init(&env, "");
    assert_int_equal(pipe(hold), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        (void)close(hold[1]);
        _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    assert_true(pid > 0);
    int fd = proc_open(&env, (uint32_t)pid, "stat");
    assert_true(fd >= 0);
    assert_true(proc_pread(&env, fd, (uint32_t)pid, "stat", text, sizeof text) > 0);
    assert_int_equal(close(hold[0]) | close(hold[1]), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(proc_pread(&env, fd, (uint32_t)pid, "stat", text, sizeof text), E_NODATA);
    assert_int_equal(close(fd), 0);
    env_fini(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields),
        cmocka_unit_test(names_with_tricks),
        cmocka_unit_test(cut_stat),
        cmocka_unit_test(dead_or_not),
        cmocka_unit_test(uid),
        cmocka_unit_test(commands),
        cmocka_unit_test(of_a_tree),
        cmocka_unit_test(of_this_process),
        cmocka_unit_test(gone_while_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
