/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

#include <sys/utsname.h>

static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text("host", FIXTURES "server", NULL,
                     "host cpu_model=\"Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz\" sockets=2 cores=4 threads=8 "
                     "memory=134217728000 kernel=\"5.14.0-427.13.1.el9_4.x86_64\" kernel_version=\"#1 SMP "
                     "PREEMPT_DYNAMIC Wed May 1 19:11:28 UTC 2024\" architecture=\"x86_64\" os=\"Rocky Linux "
                     "9.4 (Blue \"Onyx\")\" vendor=\"Dell Inc.\" product=\"PowerEdge R650\" virtual=false "
                     "machine=\"5f18d211b5c9e62b\" boot_id=\"f82180b2-5248-4897-86f0-caedd423e173\" "
                     "boot_time=1794777572 interfaces=3\n"
                     "host.interface interface=\"eno1\" mac=\"b0:7b:25:00:00:01\" mtu=9000 speed=25000 "
                     "state=\"up\" driver=\"ice\" up=true\n"
                     "host.interface interface=\"eno2\" mac=\"b0:7b:25:00:00:02\" mtu=1500 state=\"down\" "
                     "up=false\n"
                     "host.interface interface=\"lo\" mac=\"00:00:00:00:00:00\" mtu=65536 state=\"unknown\" "
                     "up=true\n");
}

static void missing_and_cut(void **state)
{
    (void)state;
    static const char *const files[] = {
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/stat",
        "/proc/sys/kernel/osrelease",
        "/proc/sys/kernel/version",
        "/proc/sys/kernel/random/boot_id",
        "/etc/os-release",
        "/etc/machine-id",
        "/sys/class/dmi/id/product_name",
        "/sys/class/net/eno1/address",
        "/sys/class/net/eno1/mtu",
        "/sys/class/net/eno1/speed",
        "/sys/class/net/eno1/flags",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
        "/sys/devices/system/cpu/cpu1/topology/core_siblings_list",
    };
    tree_assert_no_data("host", NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tree_assert_cuts("host", FIXTURES "server", files[i], NULL);
}

/* The machine id itself is never sent, and what is no id gives nothing. */
static void machine_id(void **state)
{
    (void)state;
    static const char *const others[] = {"uninitialized\n", "0123456789abcdef\n", "0123456789abcdef0123456789abcdeg\n",
                                         "0123456789abcdef0123456789abcdef0\n"};
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    tree_assert_text("host", t.root, NULL, "host machine=\"5f18d211b5c9e62b\"\n");
    tree_put(&t, "/etc/machine-id", "0123456789abcdef0123456789abcdee\n");
    assert_int_equal(sense_open(&s, "host", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_null(strstr(s.text.p, "5f18d211b5c9e62b"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tree_put(&t, "/etc/machine-id", others[i]);
        assert_int_equal(sense_run(&s), E_NODATA);
    }
    sense_close(&s);
    tree_remove(&t);
}

/* One second off is the kernel's rounding; more is another boot, or a clock that was set. */
static void boot_time(void **state)
{
    (void)state;
    static const struct {
        const char *file, *row;
    } steps[] = {
        {"btime 1000\n", "host boot_time=1000\n"}, {"btime 1001\n", "host boot_time=1000\n"},
        {"btime 999\n", "host boot_time=1000\n"},  {"btime 1002\n", "host boot_time=1002\n"},
        {"btime 1001\n", "host boot_time=1002\n"}, {"btime 5\n", "host boot_time=5\n"},
    };
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    assert_int_equal(sense_open(&s, "host", t.root, NULL), 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        tree_put(&t, "/proc/stat", steps[i].file);
        assert_int_equal(sense_run(&s), 0);
        assert_string_equal(s.text.p, steps[i].row);
    }
    sense_close(&s);
    tree_remove(&t);
}

/* A processor goes offline: they are counted again. */
static void processors_change(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    for (unsigned i = 0; i < 2; i++) {
        char path[128], list[16];
        (void)snprintf(list, sizeof list, "%u\n", i);
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", i);
        tree_put(&t, path, list);
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/core_siblings_list", i);
        tree_put(&t, path, "0-1\n");
    }
    tree_put(&t, "/sys/devices/system/cpu/online", "0-1\n");
    assert_int_equal(sense_open(&s, "host", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "host sockets=1 cores=2 threads=2\n");
    tree_put(&t, "/sys/devices/system/cpu/online", "0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "host sockets=1 cores=1 threads=1\n");
    tree_put(&t, "/sys/devices/system/cpu/online", "0,2\n"); /* of 2 nothing is known but that it is there */
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "host threads=2\n");
    static const char *const nonsense[] = {"", "x\n", "1-0\n", "0-99999999\n", "0-\n", "-\n"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        tree_put(&t, "/sys/devices/system/cpu/online", nonsense[i]);
        assert_int_equal(sense_run(&s), E_NODATA);
    }
    /* Without the list the processors of cpuinfo count; x86 says that there is a hypervisor. */
    tree_put(&t, "/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lm\n\nprocessor\t: 1\nflags\t\t: fpu\n\n");
    sense_close(&s);
    tree_assert_text("host", t.root, NULL, "host threads=2 virtual=true\n");
    tree_remove(&t);
}

static void containers(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/.dockerenv", "");
    tree_assert_text("host", t.root, NULL, "host container=\"docker\"\n");
    tree_put(&t, "/run/.containerenv", "");
    tree_assert_text("host", t.root, NULL, "host container=\"podman\"\n");
    tree_put(&t, "/run/systemd/container", "lxc\n");
    tree_put(&t, "/sys/hypervisor/type", "xen\n");
    tree_assert_text("host", t.root, NULL, "host virtual=true container=\"lxc\"\n");
    tree_remove(&t);
}

static void os_names(void **state)
{
    (void)state;
    static const struct {
        const char *file, *row;
    } all[] = {
        {"PRETTY_NAME=Plain\n", "host os=\"Plain\"\n"},
        {"PRETTY_NAME='Single quotes'\n", "host os=\"Single quotes\"\n"},
        {"X=1\nPRETTY_NAME=\"A \\$5 \\\\ B\"\nY=2\n", "host os=\"A $5 \\ B\"\n"},
        {"PRETTY_NAME=\"caf\xe9\"\n", "host os=\"caf\\351\"\n"},
        {"PRETTY_NAME=\"half\n", "host os=\"\"half\"\n"},
    };
    struct tree t;
    tree_make(&t, NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tree_put(&t, "/usr/lib/os-release", all[i].file);
        tree_assert_text("host", t.root, NULL, all[i].row);
    }
    tree_remove(&t);
}

static void this_host(void **state)
{
    (void)state;
    struct sense s;
    struct utsname u;
    char expected[512];
    assert_int_equal(uname(&u), 0);
    assert_int_equal(sense_open(&s, "host", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    (void)snprintf(expected, sizeof expected, " threads=%ld ", sysconf(_SC_NPROCESSORS_ONLN));
    assert_non_null(strstr(s.text.p, expected));
    (void)snprintf(expected, sizeof expected, " kernel=\"%s\"", u.release);
    assert_non_null(strstr(s.text.p, expected));
    (void)snprintf(expected, sizeof expected, " architecture=\"%s\"", u.machine);
    assert_non_null(strstr(s.text.p, expected));
    const char *lo = strstr(s.text.p, "host.interface interface=\"lo\"");
    if (lo)
        assert_non_null(strstr(lo, "127.0.0.1/8"));
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),         cmocka_unit_test(missing_and_cut), cmocka_unit_test(machine_id),
        cmocka_unit_test(boot_time),         cmocka_unit_test(processors_change), cmocka_unit_test(containers),
        cmocka_unit_test(os_names),          cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
