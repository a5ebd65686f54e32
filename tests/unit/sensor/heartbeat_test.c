/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

static int64_t fixed_time(void)
{
    return INT64_C(1794790678191188500);
}

static void counts_up(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "heartbeat", FIXTURES "server", NULL), 0);
    s.env.utc_ns = fixed_time;
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "heartbeat sequence=1 uptime=350735.47 started=1794790678191188500\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "heartbeat sequence=2 uptime=350735.47 started=1794790678191188500\n");
    sense_close(&s);
}

/* The agent lives whatever can be read. */
static void without_files(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "heartbeat", FIXTURES "missing", NULL), 0);
    s.env.utc_ns = fixed_time;
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "heartbeat sequence=1 started=1794790678191188500\n");
    sense_close(&s);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    static const char whole[] = "350735.47 234388.90\n";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        struct tree t;
        struct sense s;
        tree_make(&t, NULL);
        tree_put_bytes(&t, "/proc/uptime", whole, n);
        assert_int_equal(sense_open(&s, "heartbeat", t.root, NULL), 0);
        assert_int_equal(sense_run(&s), 0);
        assert_null(strstr(s.text.p, "uptime="));
        sense_close(&s);
        tree_remove(&t);
    }
}

static void this_host(void **state)
{
    (void)state;
    struct sense s;
    struct timespec boot;
    double uptime;
    assert_int_equal(sense_open(&s, "heartbeat", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &boot), 0);
    const char *at = strstr(s.text.p, "uptime=");
    assert_non_null(at);
    struct scan scan = scan_of(slice_str(at + strlen("uptime=")));
    assert_int_equal(num_parse_float(scan_word(&scan), &uptime), 0);
    double now = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9;
    assert_true(uptime <= now && uptime > now - 60);
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_up),
        cmocka_unit_test(without_files),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
