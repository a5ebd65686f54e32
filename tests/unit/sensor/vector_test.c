/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

#define S INT64_C(1000000000)

static int64_t now_ns;

static int64_t fake_clock(void)
{
    return now_ns;
}

/* A host with two disks and two interfaces of hardware, and things on top of them that must not count again. */
static void make_host(struct tree *t)
{
    tree_make(t, NULL);
    tree_put(t, "/proc/stat", "cpu  1000 100 500 8000 300 50 50 0 70 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    tree_put(t, "/proc/loadavg", "0.50 0.40 0.30 3/456 7890\n");
    tree_put(t, "/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 60 kB\nBuffers: 3 kB\nCached: 7 kB\n");
    tree_put(t, "/proc/vmstat", "pgpgin 4000\npgpgout 8000\npgfault 10000\npgmajfault 50\n");
    tree_put(t, "/proc/diskstats",
             "8 0 sda 100 0 800 40 200 0 1600 80 0 100 120\n"
             "8 1 sda1 100 0 800 40 200 0 1600 80 0 100 120\n"
             "8 16 sdb 10 0 80 4 20 0 160 8 0 10 12\n"
             "253 0 dm-0 100 0 800 40 200 0 1600 80 0 100 120\n");
    tree_put(t, "/sys/class/block/sda/device/type", "0\n");
    tree_put(t, "/sys/class/block/sda1/partition", "1\n");
    tree_put(t, "/sys/class/block/sdb/device/type", "0\n");
    tree_put(t, "/sys/class/block/dm-0/size", "1\n");
    tree_put(t, "/proc/net/dev",
             "  lo: 900 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n"
             "eth0: 10000 100 0 5 0 0 0 0 20000 200 0 1 0 0 0 0\n"
             "eth1: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"
             " br0: 10000 100 0 5 0 0 0 0 20000 200 0 1 0 0 0 0\n");
    tree_put(t, "/sys/class/net/eth0/device/vendor", "1\n");
    tree_put(t, "/sys/class/net/eth1/device/vendor", "1\n");
}

/* The first sample, then the clock stands at 2 s later. */
static void start(struct sense *s, const char *root)
{
    now_ns = 5 * S;
    assert_int_equal(sense_open(s, "vector", root, NULL), 0);
    s->env.mono_ns = fake_clock;
    assert_int_equal(sense_run(s), 0);
    now_ns += 2 * S;
}

static void expect(struct sense *s, const char *text)
{
    assert_int_equal(sense_run(s), 0);
    assert_string_equal(s->text.p, text);
    now_ns += 2 * S;
}

#define GAUGES "processes=456 run_queue=3 memory_available=61440 memory_cache=10240"

static void first_has_no_rates(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_host(&t);
    start(&s, t.root);
    assert_string_equal(s.text.p, "vector " GAUGES "\n");
    sense_close(&s);
    tree_remove(&t);
}

static void rates(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_host(&t);
    start(&s, t.root);
    /* 400 ticks: 180 user and nice, 90 system and interrupts, 120 idle and iowait, 10 steal */
    tree_put(&t, "/proc/stat", "cpu  1170 110 560 8100 320 60 70 10 99 0\n");
    tree_put(&t, "/proc/vmstat", "pgpgin 4400\npgpgout 8800\npgfault 11001\npgmajfault 57\n");
    /* sda: 30 reads of 4 KiB, 10 writes of 8 KiB; sdb: one read; partition and dm have the same again */
    tree_put(&t, "/proc/diskstats",
             "8 0 sda 130 0 1040 90 210 0 1760 99 3 600 1120\n"
             "8 1 sda1 130 0 1040 90 210 0 1760 99 3 600 1120\n"
             "8 16 sdb 11 0 88 9 20 0 160 8 0 20 22\n"
             "253 0 dm-0 130 0 1040 90 210 0 1760 99 3 600 1120\n");
    tree_put(&t, "/proc/net/dev",
             "  lo: 9000 90 0 0 0 0 0 0 9000 90 0 0 0 0 0 0\n"
             "eth0: 11000 110 0 8 0 0 0 0 20000 200 0 2 0 0 0 0\n"
             "eth1: 1000 10 0 0 0 0 0 0 3000 31 0 0 0 0 0 0\n"
             " br0: 90000 900 0 5 0 0 0 0 20000 200 0 1 0 0 0 0\n");
    expect(&s, "vector cpu_idle=30.0 cpu_user=45.0 cpu_system=22.5 " GAUGES
               " cache_faults=3.5 page_faults=500.5 pages_transferred=150.0 disk_time=255.0 disk_transfers=20.5 "
               "disk_queue=0.51 disk_bytes_per_transfer=5095.02 network_bandwidth=1000.0 network_packets=10.5 "
               "network_dropped=2.0\n");
    /* Nothing happened: rates are 0, and there is no such thing as the size of no transfer, nor a share of no time. */
    expect(&s, "vector " GAUGES " cache_faults=0.0 page_faults=0.0 pages_transferred=0.0 disk_time=0.0 "
               "disk_transfers=0.0 disk_queue=0.0 network_bandwidth=0.0 network_packets=0.0 network_dropped=0.0\n");
    now_ns -= 2 * S; /* no time has passed: no rates */
    expect(&s, "vector " GAUGES "\n");
    sense_close(&s);
    tree_remove(&t);
}

/* Counters that went back are gaps, of their own group only, and for one interval. */
static void counters_go_back(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_host(&t);
    start(&s, t.root);
    tree_put(&t, "/proc/stat", "cpu  1000 100 400 9000 300 50 50 0 70 0\n"); /* system */
    tree_put(&t, "/proc/vmstat", "pgpgin 3999\npgpgout 8800\npgfault 10100\npgmajfault 49\n");
    tree_put(&t, "/proc/diskstats",
             "8 0 sda 130 0 1040 90 210 0 1760 99 3 600 1120\n"
             "8 16 sdb 10 0 80 4 20 0 160 8 0 10 11\n"); /* weighted time wrapped */
    tree_put(&t, "/proc/net/dev",
             "eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n" /* reset */
             "eth1: 5000 50 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n");
    expect(&s, "vector " GAUGES " page_faults=50.0\n");
    tree_put(&t, "/proc/stat", "cpu  1000 100 600 9000 300 50 50 0 70 0\n");
    tree_put(&t, "/proc/vmstat", "pgpgin 4003\npgpgout 8804\npgfault 10100\npgmajfault 51\n");
    tree_put(&t, "/proc/diskstats",
             "8 0 sda 132 0 1056 90 210 0 1760 99 3 600 1120\n"
             "8 16 sdb 10 0 80 4 20 0 160 8 0 10 21\n");
    tree_put(&t, "/proc/net/dev",
             "eth0: 500 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
             "eth1: 5000 50 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n");
    expect(&s, "vector cpu_idle=0.0 cpu_user=0.0 cpu_system=100.0 " GAUGES
               " cache_faults=1.0 page_faults=0.0 pages_transferred=1.0 disk_time=0.0 disk_transfers=1.0 "
               "disk_queue=0.01 disk_bytes_per_transfer=4096.0 network_bandwidth=250.0 network_packets=2.5 "
               "network_dropped=0.0\n");
    sense_close(&s);
    tree_remove(&t);
}

/* The kernel gives a tick of iowait back to idle: no gap. */
static void ticks_go_back(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_host(&t);
    start(&s, t.root);
    tree_put(&t, "/proc/stat", "cpu  1000 100 600 8110 290 50 50 0 70 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "vector cpu_idle=50.0 cpu_user=0.0 cpu_system=50.0 "));
    /* Stolen time that goes back is a gap: without it the shares would be of too little. */
    now_ns += 2 * S;
    tree_put(&t, "/proc/stat", "cpu  1100 100 600 8110 290 50 50 90 70 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "vector cpu_idle=0.0 cpu_user=52.63 cpu_system=0.0 "));
    now_ns += 2 * S;
    tree_put(&t, "/proc/stat", "cpu  1200 100 600 8110 290 50 50 10 70 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_null(strstr(s.text.p, "cpu_"));
    sense_close(&s);
    tree_remove(&t);
}

#define SDA(reads, sectors) "8 0 sda " reads " 0 " sectors " 40 200 0 1600 80 0 100 120\n"
#define SDB(reads, sectors) "8 16 sdb " reads " 0 " sectors " 4 20 0 160 8 0 10 12\n"

static bool has(const struct sense *s, const char *field)
{
    return strstr(s->text.p, field) != NULL;
}

/* A disk that comes or goes is left out of the interval; the others count. It comes back with a history: no spike. */
static void device_is_replugged(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_host(&t);
    start(&s, t.root);
    tree_put(&t, "/proc/diskstats", SDA("104", "832")); /* sdb has gone */
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=2.0 ") && has(&s, "disk_bytes_per_transfer=4096.0"));
    now_ns += 2 * S;
    tree_put(&t, "/proc/diskstats", SDA("104", "832") SDB("5000000", "40000000"));
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=0.0 "));
    now_ns += 2 * S;
    tree_put(&t, "/proc/diskstats", SDA("104", "832") SDB("5000006", "40000048"));
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=3.0 ") && has(&s, "disk_bytes_per_transfer=4096.0"));
    now_ns += 2 * S;
    tree_put(&t, "/proc/diskstats", SDA("204", "1632") SDB("1", "8")); /* within one interval: it is reset */
    assert_int_equal(sense_run(&s), 0);
    assert_false(has(&s, "disk_"));
    now_ns += 2 * S;
    tree_put(&t, "/proc/diskstats", SDB("1", "8")); /* only sdb is left, and did nothing */
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=0.0 "));
    now_ns += 2 * S;
    tree_put(&t, "/proc/diskstats", SDA("204", "1632")); /* swapped: none was there in both */
    assert_int_equal(sense_run(&s), 0);
    assert_false(has(&s, "disk_"));
    sense_close(&s);
    tree_remove(&t);
}

/* A file that can't be read for a sample leaves a gap of two: there is nothing to compare with after it. */
static void file_is_away(void **state)
{
    (void)state;
    static const struct {
        const char *path, *field;
    } files[] = {{"/proc/stat", "cpu_idle="},
                 {"/proc/vmstat", "page_faults="},
                 {"/proc/diskstats", "disk_transfers="},
                 {"/proc/net/dev", "network_packets="}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tree t;
        struct sense s;
        struct strbuf content = {0};
        char full[128];
        make_host(&t);
        start(&s, t.root);
        (void)snprintf(full, sizeof full, "%s%s", t.root, files[i].path);
        tree_read(full, &content);
        assert_true(i == 0 || (sense_run(&s) == 0 && has(&s, files[i].field)));
        now_ns += 2 * S;
        tree_put(&t, files[i].path, "");
        assert_int_equal(sense_run(&s), 0);
        assert_false(has(&s, files[i].field));
        now_ns += 2 * S;
        tree_put_bytes(&t, files[i].path, content.p, content.n);
        assert_int_equal(sense_run(&s), 0);
        assert_false(has(&s, files[i].field));
        strbuf_fini(&content);
        sense_close(&s);
        tree_remove(&t);
    }
}

/* No hardware to be seen: the whole disk and not what lies on it, and all interfaces but lo. No vmstat: no rates of it. */
static void container(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, FIXTURES "container");
    start(&s, t.root);
    assert_string_equal(s.text.p,
                        "vector processes=35 run_queue=2 memory_available=409600000 memory_cache=134217728\n");
    tree_put(&t, "/proc/diskstats",
             "252 0 vda 110 0 8160 60 200 0 16000 150 0 100 220 0 0 0 0 0 0\n"
             "252 1 vda1 190 0 7000 45 200 0 16000 150 0 85 195 0 0 0 0 0 0\n"
             "253 0 dm-0 190 0 7000 45 200 0 16000 150 0 85 195 0 0 0 0 0 0\n");
    tree_put(&t, "/proc/net/dev",
             "lo: 2000 20 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"
             "eth0: 5100 51 0 1 0 0 0 0 3000 30 0 0 0 0 0 0\n");
    expect(&s, "vector processes=35 run_queue=2 memory_available=409600000 memory_cache=134217728 disk_time=5.0 "
               "disk_transfers=5.0 disk_queue=0.01 disk_bytes_per_transfer=8192.0 network_bandwidth=50.0 "
               "network_packets=0.5 network_dropped=0.0\n");
    sense_close(&s);
    tree_remove(&t);
}

/* Both paths of a drive count, the namespace on them and its partition do not; and the queues of the hardware. */
static void many_cores(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, FIXTURES "many-cores");
    start(&s, t.root);
    assert_string_equal(s.text.p, "vector processes=2467 run_queue=97 memory_available=491646418944 "
                                  "memory_cache=174206418944 network_out_queue=6\n");
    tree_put(&t, "/proc/diskstats",
             "259 0 nvme0c0n1 5010 10 400080 900 7000 20 800000 1800 2 2500 2700 0 0 0 0 40 8\n"
             "259 1 nvme0c1n1 5030 10 400240 900 7000 20 800000 1800 0 2500 2700 0 0 0 0 40 8\n"
             "259 2 nvme0n1 10040 20 800320 1800 14000 40 1600000 3600 2 5000 5400 0 0 0 0 80 16\n"
             "259 3 nvme0n1p1 9040 20 700320 1700 14000 40 1600000 3600 2 4900 5300 0 0 0 0 0 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=20.0 ") && has(&s, "disk_bytes_per_transfer=4096.0"));
    sense_close(&s);
    tree_remove(&t);
}

/* 60 disks, each with 10 reads of 4 KiB more; partitions, md and dm too, which must not show. */
static void many_disks(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    struct strbuf before = {0}, after = {0};
    tree_make(&t, FIXTURES "many-disks");
    tree_put(&t, "/proc/loadavg", "0.50 0.40 0.30 3/456 7890\n");
    tree_read(FIXTURES "many-disks/proc/diskstats", &before);
    for (char *line = before.p; *line;) {
        unsigned major, minor;
        char name[32];
        unsigned long reads, merged, sectors;
        int used = 0;
        assert_int_equal(
            sscanf(line, "%u %u %31s %lu %lu %lu%n", &major, &minor, name, &reads, &merged, &sectors, &used), 6);
        char *end = strchr(line, '\n');
        assert_non_null(end);
        strbuf_printf(&after, "%u %u %s %lu %lu %lu%.*s\n", major, minor, name, reads + 10, merged, sectors + 80,
                      (int)(end - line) - used, line + used);
        line = end + 1;
    }
    start(&s, t.root);
    tree_put_bytes(&t, "/proc/diskstats", after.p, after.n);
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "disk_transfers=315.0 ")); /* (60 + nvme0n1 + cciss/c0d0 + sr0) * 10 in 2 s */
    assert_true(has(&s, "disk_bytes_per_transfer=4096.0"));
    strbuf_fini(&before);
    strbuf_fini(&after);
    sense_close(&s);
    tree_remove(&t);
}

/* Old kernels say neither what is available nor what was stolen. */
static void old_kernel(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, FIXTURES "old-kernel");
    start(&s, t.root);
    assert_string_equal(s.text.p, "vector processes=77 run_queue=1 memory_cache=709660672\n");
    tree_put(&t, "/proc/stat", "cpu  1050 20 320 5025 45 5 6\n");
    assert_int_equal(sense_run(&s), 0);
    assert_true(has(&s, "vector cpu_idle=30.0 cpu_user=50.0 cpu_system=20.0 "));
    sense_close(&s);
    tree_remove(&t);
}

static void no_files_are_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("vector", NULL);
}

/* The second sample sees a file cut at any byte: what it then says it also says of the whole file. There is one disk and
 * one interface that count, so that sums are whole or missing, too. */
static void cut_at_every_byte(void **state)
{
    (void)state;
    static const char *const paths[] = {"/proc/stat",   "/proc/loadavg",   "/proc/meminfo",
                                        "/proc/vmstat", "/proc/diskstats", "/proc/net/dev"};
    static const char *const later[] = {
        "cpu  1170 110 560 8100 320 60 70 10 99 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
        "0.50 0.40 0.30 13/456 7890\n",
        "MemTotal: 100 kB\nMemAvailable: 60 kB\nBuffers: 3 kB\nCached: 7 kB\n",
        "pgpgin 4400\npgpgout 8800\npgfault 11001\npgmajfault 57\n",
        "8 0 sda 130 0 1040 90 210 0 1760 99 3 600 1120\n8 1 sda1 130 0 1040 90 210 0 1760 99 3 600 1120\n",
        "lo: 1900 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\neth0: 11000 110 0 8 0 0 0 0 20000 200 0 2 0 0 0 0\n",
    };
    static const char *const fields[] = {"cpu_idle=",         "run_queue=13",        "memory_cache=",
                                         "page_faults=500.5", "disk_transfers=20.0", "network_packets=5.0"};
    struct tree t;
    struct sense s;
    struct strbuf first = {0}, whole = {0};
    char full[128];
    make_host(&t);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        (void)snprintf(full, sizeof full, "%s%s", t.root, paths[i]);
        tree_read(full, &first);
        strbuf_reset(&whole);
        for (size_t n = strlen(later[i]) + 1; n-- > 0;) {
            tree_put_bytes(&t, paths[i], first.p, first.n);
            start(&s, t.root);
            tree_put_bytes(&t, paths[i], later[i], n);
            assert_int_equal(sense_run(&s), 0);
            struct slice row = slice_of(s.text.p, s.text.n - 1);
            if (whole.n == 0) {
                assert_true(has(&s, fields[i]));
                strbuf_add_slice(&whole, row);
            }
            if (!tree_line_of(row, strbuf_slice(&whole)))
                fail_msg("%s cut at %zu: %s", paths[i], n, s.text.p);
            sense_close(&s);
        }
        tree_put_bytes(&t, paths[i], first.p, first.n);
    }
    tree_remove(&t);
    strbuf_fini(&first);
    strbuf_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_has_no_rates),
        cmocka_unit_test(rates),
        cmocka_unit_test(counters_go_back),
        cmocka_unit_test(ticks_go_back),
        cmocka_unit_test(device_is_replugged),
        cmocka_unit_test(file_is_away),
        cmocka_unit_test(container),
        cmocka_unit_test(many_cores),
        cmocka_unit_test(many_disks),
        cmocka_unit_test(old_kernel),
        cmocka_unit_test(no_files_are_no_data),
        cmocka_unit_test(cut_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
