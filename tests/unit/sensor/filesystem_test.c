/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

static void assert_has(const struct sense *s, const char *format, const char *path)
{
    char expected[TREE_PATH_MAX];
    (void)snprintf(expected, sizeof expected, "filesystem mount=\"%s\" type=\"%s\"", path, format);
    if (!s->text.n || !strstr(s->text.p, expected))
        fail_msg("no %s in %s", expected, s->text.n ? s->text.p : "");
}

static bool has_mount(const struct sense *s, const char *path)
{
    char expected[TREE_PATH_MAX];
    (void)snprintf(expected, sizeof expected, "filesystem mount=\"%s\"", path);
    return s->text.n && strstr(s->text.p, expected);
}

/* A mount namespace of our own; false: not allowed here. */
static bool enter_namespace(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Exact figures: nobody else writes to this one. */
static void a_filesystem_of_ours(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    char expected[1024];
    struct statvfs st;
    if (!enter_namespace())
        skip(); /* may not mount here */
    tree_make(&t, NULL);
    assert_int_equal(sense_open(&s, "filesystem", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_false(has_mount(&s, t.root));
    assert_int_equal(mount("gridline test", t.root, "tmpfs", 0, "size=1m,nr_inodes=100"), 0);
    tree_put(&t, "/file", "some bytes");
    assert_int_equal(sense_run(&s), 0); /* the sensor sees that the mounts changed */
    assert_has(&s, "tmpfs", t.root);
    (void)snprintf(expected, sizeof expected,
                   "filesystem mount=\"%s\" type=\"tmpfs\" device=\"gridline test\" size=1048576 used=4096 "
                   "free=1044480 available=1044480 inodes=100 inodes_free=98 read_only=false\n",
                   t.root);
    if (sysconf(_SC_PAGESIZE) == 4096)
        assert_non_null(strstr(s.text.p, expected));
    assert_int_equal(mount(NULL, t.root, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(statvfs(t.root, &st), 0);
    const char *line = strstr(s.text.p, t.root);
    assert_non_null(line);
    const char *flag = strstr(line, "read_only=");
    assert_non_null(flag);
    assert_memory_equal(flag, "read_only=true\n", strlen("read_only=true\n"));
    assert_int_equal(umount(t.root), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_false(has_mount(&s, t.root));
    sense_close(&s);
    tree_remove(&t);
}

static void chosen_by_pattern(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    char pattern[ENV_PATH_MAX];
    if (!enter_namespace())
        skip(); /* may not mount here */
    tree_make(&t, NULL);
    /* Of this test alone: others mount in /tmp, too. */
    assert_in_range(snprintf(pattern, sizeof pattern, "%.*s*", (int)strlen(t.root) - 1, t.root), 2, sizeof pattern - 1);
    assert_int_equal(mount("none", t.root, "tmpfs", 0, "size=1m"), 0);
    assert_int_equal(sense_open(&s, "filesystem", "", (const char *[]){"mounts", pattern, NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    assert_true(has_mount(&s, t.root));
    sense_close(&s);
    assert_int_equal(sense_open(&s, "filesystem", "", (const char *[]){"ignore", pattern, NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_false(has_mount(&s, t.root));
    sense_close(&s);
    assert_int_equal(umount(t.root), 0);
    tree_remove(&t);
}

/* What a network serves is not touched in the agent. */
static void no_remote_ones(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "filesystem", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    static const char *const types[] = {"type=\"nfs", "type=\"fuse", "type=\"cifs", "type=\"9p", "type=\"proc"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_true(!s.text.n || !strstr(s.text.p, types[i]));
    sense_close(&s);
}

/* Another host's filesystems can't be asked. */
static void captured_tree(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/self/mountinfo", "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n");
    assert_int_equal(sense_open(&s, "filesystem", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    sense_close(&s);
    tree_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filesystem_of_ours),
        cmocka_unit_test(chosen_by_pattern),
        cmocka_unit_test(no_remote_ones),
        cmocka_unit_test(captured_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
