/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts, lists of sensors, soft state. */
#include "unit/directory/known.h"

#include "base/mem.h"

#define HOUR (3600 * NS_PER_S)

static void a_list_is_what_a_host_has(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running", "exec/root - port idle");
    struct directory_entry e = known_find(&k, "a", "cpu");
    assert_slice(e.host, "a");
    assert_slice(e.domain, "example.org");
    assert_slice(e.events, "cpu");
    assert_slice(e.mode, "always");
    assert_int_equal(e.every_ms, 1000);
    assert_true(e.started_ns == k.utc_ns);
    assert_int_equal(e.status, DIRECTORY_RUNNING);
    assert_status(&k, "a", "exec/root", "idle");
    assert_heard(&k, "+a:unregistered>unregistered ~a:unregistered>live +a/cpu=running +a/exec/root=idle ");

    known_say(&k, "a", "cpu cpu always running", "exec/root - port idle");
    assert_heard(&k, ""); /* nothing is new */
    known_say(&k, "a", "cpu cpu off stopped", "disk disk,disk.io always failed");
    assert_heard(&k, "~a/cpu:running>stopped +a/disk=failed -a/exec/root ");
    assert_false(known_has(&k, "a", "exec/root"));
    struct directory_counts c;
    directory_counts(k.d, &c);
    assert_int_equal(c.hosts, 1);
    assert_int_equal(c.sensors, 2);
    assert_int_equal(c.missing, 0);
    known_close(&k);
}

static void a_sensor_is_as_its_host_lets_it_be(void **state)
{
    (void)state;
    static const struct {
        enum directory_state state;
        const char *status;
    } all[] = {{DIRECTORY_LATE, "unknown"},
               {DIRECTORY_LIVE, "running"},
               {DIRECTORY_EXPIRED, "missing"},
               {DIRECTORY_LIVE, "running"},
               {DIRECTORY_DEREGISTERED, "stopped"}};
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        known_host(&k, "a", all[i].state);
        assert_status(&k, "a", "cpu", all[i].status);
    }
    k.log[0] = '\0';
    known_host(&k, "a", DIRECTORY_DEREGISTERED);
    assert_heard(&k, ""); /* that it was already */
    known_close(&k);
}

/* What the gateway itself has on a host is beside the agent's list, and stays as it was said. */
static void services(void **state)
{
    (void)state;
    struct known k;
    struct directory_sensor s = {.sensor = SLICE_LIT("archive"),
                                 .events = SLICE_LIT("cpu,job.end"),
                                 .schemas = SLICE_LIT(""),
                                 .mode = SLICE_LIT("archive"),
                                 .why = SLICE_LIT(""),
                                 .status = DIRECTORY_RUNNING};
    known_open(&k, HOUR);
    assert_int_equal(directory_service(k.d, SLICE_LIT("a"), &s, k.utc_ns), 0);
    assert_heard(&k, "+a:unregistered>unregistered +a/archive=running ");
    assert_int_equal(directory_service(k.d, SLICE_LIT("a"), &s, k.utc_ns), 0);
    assert_heard(&k, ""); /* nothing is new */
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running",
              "archive - always idle"); /* a sensor may have that name, too */
    known_say(&k, "a", "cpu cpu always running");
    known_host(&k, "a", DIRECTORY_EXPIRED);
    assert_status(&k, "a", "cpu", "missing");
    assert_status(&k, "a", "archive", "running");
    struct directory_entry e = known_find(&k, "a", "archive");
    assert_slice(e.events, "cpu,job.end");
    assert_slice(e.mode, "archive");
    k.log[0] = '\0';
    s.status = DIRECTORY_FAILED;
    s.why = SLICE_LIT("no space");
    assert_int_equal(directory_service(k.d, SLICE_LIT("a"), &s, k.utc_ns), 0);
    assert_heard(&k, "~a/archive:running>failed ");
    known_pass(&k, 2 * HOUR);
    assert_false(known_has(&k, "a", "cpu"));
    assert_true(known_has(&k, "a", "archive"));
    struct directory_counts c;
    directory_counts(k.d, &c);
    assert_int_equal(c.sensors, 0);
    known_close(&k);
}

static void what_is_gone_stays_for_a_while(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_host(&k, "b", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running");
    known_say(&k, "b", "cpu cpu always running");
    known_host(&k, "a", DIRECTORY_EXPIRED);
    k.log[0] = '\0';
    known_pass(&k, HOUR - 1);
    assert_heard(&k, "");
    known_pass(&k, 2);
    assert_heard(&k, "-a/cpu ~a:expired>unregistered -a:unregistered>unregistered ");
    assert_false(known_has(&k, "a", "cpu"));
    known_pass(&k, 10 * HOUR);
    assert_status(&k, "b", "cpu", "running"); /* it is live, however long nothing came */
    known_host(&k, "c", DIRECTORY_LIVE);      /* has the place of a */
    known_say(&k, "c", "cpu cpu always running");
    struct directory_host_entry h;
    size_t n = 0;
    for (uint32_t at = 0; directory_next_host(k.d, &at, &h); n++)
        assert_int_equal(h.sensors, 1);
    assert_int_equal(n, 2);
    known_close(&k);
}

/* Pages: whatever goes or comes between them, what stays is given exactly once. */
static void listing_goes_on_behind_an_id(void **state)
{
    (void)state;
    enum { HOSTS = 40 };
    struct known k;
    char name[16];
    unsigned seen[HOSTS] = {0};
    known_open(&k, HOUR);
    for (unsigned i = 0; i < HOSTS; i++) {
        (void)snprintf(name, sizeof name, "h%u", i);
        known_host(&k, name, DIRECTORY_LIVE);
        known_say(&k, name, "one - always running", "two - always running");
    }
    struct directory_entry e;
    size_t n = 0;
    for (uint64_t id = 0; directory_next(k.d, &id, &e); n++) {
        unsigned host = (unsigned)strtoul(e.host.p + 1, NULL, 10);
        seen[host] += slice_eq_str(e.sensor, "two");
        if (n == 20)
            known_say(&k, "h10", "three - always running"); /* the one it stands on goes */
    }
    assert_int_equal(n, 2 * HOSTS); /* h10: one, and then three */
    for (unsigned i = 0; i < HOSTS; i++)
        assert_int_equal(seen[i], i != 10);
    n = 0;
    for (uint64_t id = 0; directory_next_of(k.d, SLICE_LIT("h7"), &id, &e); n++)
        assert_slice(e.host, "h7");
    assert_int_equal(n, 2);
    known_close(&k);
}

static void limits_hold_and_are_counted(void **state)
{
    (void)state;
    struct known k;
    struct directory_sensor s = {
        .mode = SLICE_LIT("always"), .events = {"", 0}, .schemas = {"", 0}, .why = {"", 0}};
    struct directory_counts c;
    char name[DIRECTORY_TEXT_MAX + 2];
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    assert_int_equal(directory_list_begin(k.d, SLICE_LIT("a"), k.utc_ns), 0);
    for (unsigned i = 0; i < DIRECTORY_SENSORS_MAX + 3; i++) {
        (void)snprintf(name, sizeof name, "exec/s%u", i);
        s.sensor = slice_str(name);
        int r = directory_list_sensor(k.d, SLICE_LIT("a"), &s);
        assert_int_equal(r, i < DIRECTORY_SENSORS_MAX ? 0 : E_LIMIT);
        k.log[0] = '\0';
    }
    memset(name, 'x', sizeof name);
    s.sensor = SLICE_LIT("exec/s0");
    s.why = slice_of(name, sizeof name - 1);
    assert_int_equal(directory_list_sensor(k.d, SLICE_LIT("a"), &s), E_LIMIT);
    assert_int_equal(directory_list_sensor(k.d, SLICE_LIT("nobody"), &s), E_LIMIT);
    directory_list_end(k.d, SLICE_LIT("a"), k.utc_ns);
    assert_int_equal(directory_host(k.d, slice_of(name, 300), DIRECTORY_LIVE, k.utc_ns), E_LIMIT);
    directory_counts(k.d, &c);
    assert_int_equal(c.sensors, DIRECTORY_SENSORS_MAX);
    assert_int_equal(c.refused_sensors, 5);
    assert_int_equal(c.refused_hosts, 1);
    known_close(&k);
}

/* A life with everything in it, while the n-th allocation fails: no crash, nothing leaks, and what was not
 * taken is counted or returned. */
static void live_through(struct known *k, const struct batch *b)
{
    struct diag why;
    struct directory_entry e;
    (void)directory_expect(k->d, SLICE_LIT("a cpu ghost"), &why);
    (void)directory_expect(k->d, SLICE_LIT("* heartbeat"), &why);
    (void)directory_host(k->d, SLICE_LIT("a"), DIRECTORY_LIVE, k->utc_ns);
    (void)directory_list_begin(k->d, SLICE_LIT("a"), k->utc_ns);
    const struct directory_sensor s = {.sensor = SLICE_LIT("cpu"),
                                       .events = SLICE_LIT("cpu,load"),
                                       .schemas = SLICE_LIT("0123456789abcdef,"),
                                       .mode = SLICE_LIT("always"),
                                       .why = SLICE_LIT("why")};
    (void)directory_list_sensor(k->d, SLICE_LIT("a"), &s);
    directory_list_end(k->d, SLICE_LIT("a"), k->utc_ns);
    directory_batch(k->d, b, k->mono_ns, k->utc_ns);
    (void)directory_host(k->d, SLICE_LIT("a"), DIRECTORY_EXPIRED, k->utc_ns);
    known_pass(k, 2 * HOUR);
    for (uint64_t id = 0; directory_next(k->d, &id, &e);)
        assert_true(e.sensor.n > 0);
}

static void no_memory_is_no_end(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n++) {
        struct known k;
        known_open(&k, HOUR);
        known_add(&k, "a", "gridline-agent", "cpu", value_int(1));
        known_add(&k, "a", "app", "app.start", value_int(1));
        known_add(&k, "b", "app", "app.start", value_text(SLICE_LIT("x")));
        struct batch *b = batch_builder_finish(k.builder, NULL);
        assert_non_null(b);
        mem_fail_after(n);
        live_through(&k, b);
        mem_fail_after(0);
        batch_unref(b);
        known_close(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_what_a_host_has),
        cmocka_unit_test(a_sensor_is_as_its_host_lets_it_be),
        cmocka_unit_test(services),
        cmocka_unit_test(what_is_gone_stays_for_a_while),
        cmocka_unit_test(listing_goes_on_behind_an_id),
        cmocka_unit_test(limits_hold_and_are_counted),
        cmocka_unit_test(no_memory_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
