/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

#define CORES FIXTURES "many-cores"

/* The out-queue is the root's, which has the sum of its children; what comes in through "ingress" is no out-queue. */
static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text(
        "network", CORES, (const char *[]){"interfaces", "eth*", NULL},
        "network interface=\"eth0\" in_bytes=9000000 in_packets=60000 in_errors=0 in_dropped=12 in_fifo=0 "
        "in_frame=0 in_compressed=0 in_multicast=400 out_bytes=4000000 out_packets=50000 out_errors=0 "
        "out_dropped=3 out_fifo=0 out_collisions=0 out_carrier=0 out_compressed=0 out_queue=5 "
        "out_queue_bytes=7570 out_queue_dropped=2 out_queue_requeued=1 out_queue_over_limit=0\n"
        "network interface=\"eth1\" in_bytes=8000000 in_packets=55000 in_errors=1 in_dropped=0 in_fifo=0 "
        "in_frame=1 in_compressed=0 in_multicast=300 out_bytes=5000000 out_packets=52000 out_errors=0 "
        "out_dropped=0 out_fifo=0 out_collisions=0 out_carrier=0 out_compressed=0 out_queue=1 "
        "out_queue_bytes=66 out_queue_dropped=0 out_queue_requeued=0 out_queue_over_limit=0\n");
}

static void without_queues(void **state)
{
    (void)state;
    tree_assert_text(
        "network", CORES, (const char *[]){"interfaces", "eth*", "skip", "eth1", "out_queue", "no", NULL},
        "network interface=\"eth0\" in_bytes=9000000 in_packets=60000 in_errors=0 in_dropped=12 in_fifo=0 "
        "in_frame=0 in_compressed=0 in_multicast=400 out_bytes=4000000 out_packets=50000 out_errors=0 "
        "out_dropped=3 out_fifo=0 out_collisions=0 out_carrier=0 out_compressed=0\n");
    struct sense s;
    assert_int_equal(sense_open(&s, "network", FIXTURES "container", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 2);
    assert_null(strstr(s.text.p, "out_queue"));
    sense_close(&s);
}

/* "eth0:4294960000": no blank between name and number. */
static void old_kernel(void **state)
{
    (void)state;
    tree_assert_text(
        "network", FIXTURES "old-kernel", (const char *[]){"skip", "lo", NULL},
        "network interface=\"eth0\" in_bytes=4294960000 in_packets=300 in_errors=0 in_dropped=0 in_fifo=0 "
        "in_frame=0 in_compressed=0 in_multicast=0 out_bytes=5000 out_packets=200 out_errors=0 "
        "out_dropped=0 out_fifo=0 out_collisions=7 out_carrier=0 out_compressed=0\n");
}

/* An interface is reset: its counters start again, as the kernel has it, and it is the same stream. */
static void reset(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/net/dev", "eth0: 900 9 0 0 0 0 0 0 800 8 0 0 0 0 0 0\n");
    assert_int_equal(sense_open(&s, "network", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "in_bytes=900 "));
    tree_put(&t, "/proc/net/dev", "eth0: 5 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    assert_non_null(strstr(s.text.p, "network interface=\"eth0\" in_bytes=5 in_packets=1 "));
    tree_put(&t, "/proc/net/dev", "heading | only\n");
    assert_int_equal(sense_run(&s), E_NODATA);
    sense_close(&s);
    tree_remove(&t);
}

/* eth0 is made anew under its name with another number: after some samples the queue is that of the new one. */
static void made_anew(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, CORES);
    assert_int_equal(sense_open(&s, "network", t.root, (const char *[]){"interfaces", "eth0", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "out_queue=5 "));
    struct strbuf dump = {0};
    tree_read(CORES "/netlink/qdisc", &dump);
    for (size_t at = 0; at < dump.n;) { /* number 2 becomes 9 */
        uint32_t length, two = 2, nine = 9;
        memcpy(&length, dump.p + at, 4);
        if (memcmp(dump.p + at + 20, &two, 4) == 0)
            memcpy(dump.p + at + 20, &nine, 4);
        at += length;
    }
    tree_put_bytes(&t, "/netlink/qdisc", dump.p, dump.n);
    tree_put(&t, "/sys/class/net/eth0/ifindex", "9\n");
    assert_int_equal(sense_run(&s), 0);
    assert_null(strstr(s.text.p, "out_queue"));
    for (int i = 0; i < 64; i++)
        assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "out_queue=5 "));
    strbuf_fini(&dump);
    sense_close(&s);
    tree_remove(&t);
}

static void count_opens(void *arg, const char *call, const char *what, size_t bytes)
{
    unsigned *opens = arg;
    (void)bytes; /* of no interest */
    *opens += strcmp(call, "open") == 0 && strcmp(what, "/sys/class/net/eth0/ifindex") == 0;
}

/* As long as there is a queue under its number, an interface's number is not looked up again. */
static void looked_up_once(void **state)
{
    (void)state;
    struct sense s;
    unsigned opens = 0;
    assert_int_equal(sense_open(&s, "network", CORES, NULL), 0);
    s.env.on_call = count_opens;
    s.env.on_call_arg = &opens;
    for (int i = 0; i < 200; i++)
        assert_int_equal(sense_run(&s), 0);
    assert_int_equal(opens, 1);
    sense_close(&s);
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("network", NULL);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("network", FIXTURES "old-kernel", "/proc/net/dev", NULL);
    tree_assert_cuts("network", CORES, "/proc/net/dev", NULL);
    tree_assert_cuts("network", CORES, "/netlink/qdisc", NULL);
}

static void note(void *arg, const char *call, const char *what, size_t bytes)
{
    unsigned *dumps = arg;
    (void)bytes; /* how many depends on the host */
    *dumps += strcmp(call, "netlink") == 0 && strcmp(what, "/netlink/qdisc") == 0;
}

/* This host: lo is there and has a queue ("noqueue" is one), by one dump a sample. */
static void here(void **state)
{
    (void)state;
    struct sense s;
    unsigned dumps = 0;
    if (access("/sys/class/net/lo/ifindex", R_OK) != 0)
        skip();
    assert_int_equal(sense_open(&s, "network", "", (const char *[]){"interfaces", "lo", NULL}), 0);
    s.env.on_call = note;
    s.env.on_call_arg = &dumps;
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(dumps, i);
    }
    assert_int_equal(s.rows, 1);
    assert_non_null(strstr(s.text.p, "network interface=\"lo\" in_bytes="));
    struct slice dump = {"", 0};
    struct source *q = env_source(&s.env, "/netlink/qdisc");
    int r = source_read(&s.env, q, &dump);
    assert_true(r == 0 || r == E_NODATA); /* a namespace whose lo is down has no queue at all */
    assert_true(r != 0 || dump.n >= 36);
    source_close(&s.env, q);
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),
        cmocka_unit_test(without_queues),
        cmocka_unit_test(old_kernel),
        cmocka_unit_test(reset),
        cmocka_unit_test(made_anew),
        cmocka_unit_test(looked_up_once),
        cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
