/* SPDX-License-Identifier: Apache-2.0 */
/* What events tell: when a sensor was heard, how often, and what nobody announced. */
#include "unit/directory/known.h"

#include <math.h>

#define HOUR   (3600 * NS_PER_S)
#define MINUTE (60 * NS_PER_S)

static struct directory_activity activity(const struct known *k, const char *host, const char *sensor,
                                          const char *event)
{
    struct directory_activity a;
    struct directory_entry e = known_find(k, host, sensor);
    directory_activity(k->d, &e, slice_str(event), k->mono_ns, &a);
    return a;
}

static void an_announced_name_is_its_sensors(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running", "disk disk,disk.io always running");
    k.log[0] = '\0';
    assert_int_equal(activity(&k, "a", "disk", "disk").events, 0);
    assert_true(activity(&k, "a", "disk", "disk").last_ns == 0);
    for (int i = 0; i < 5; i++) {
        known_add(&k, "a", "gridline-agent", "disk", value_int(i));
        known_add(&k, "a", "gridline-agent", "cpu", value_int(i));
    }
    known_send(&k);
    assert_int_equal(activity(&k, "a", "disk", "disk").events, 5);
    assert_int_equal(activity(&k, "a", "disk", "disk.io").events, 0);
    assert_int_equal(activity(&k, "a", "cpu", "cpu").events, 5);
    assert_true(activity(&k, "a", "cpu", "cpu").last_ns == k.utc_ns);
    assert_heard(&k, "+schema:disk +schema:cpu "); /* events are no changes */
    known_close(&k);
}

static void a_time_to_come_is_not_believed(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    k.utc_ns += HOUR;
    known_add(&k, "a", "app", "note", value_int(1));
    k.utc_ns -= HOUR;
    known_send(&k);
    assert_true(activity(&k, "a", "app", "note").last_ns == k.utc_ns);
    k.utc_ns -= HOUR; /* an older one, sent again from a spool */
    known_add(&k, "a", "app", "note", value_int(1));
    k.utc_ns += HOUR;
    known_send(&k);
    assert_true(activity(&k, "a", "app", "note").last_ns == k.utc_ns);
    assert_int_equal(activity(&k, "a", "app", "note").events, 2);
    known_close(&k);
}

static void what_nobody_announced_is_its_programs(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_event(&k, "a", "app", "app.start"); /* a host without an agent */
    known_event(&k, "a", "app", "app.stop");
    known_event(&k, "a", "", "note");
    struct directory_entry e = known_find(&k, "a", "app");
    assert_slice(e.mode, "program");
    assert_slice(e.events, "app.start,app.stop");
    assert_int_equal(e.schemas.n, 33);
    assert_int_equal(e.host_state, DIRECTORY_UNREGISTERED);
    assert_status(&k, "a", "app", "running");
    assert_true(e.started_ns == k.utc_ns);
    assert_slice(known_find(&k, "a", "unknown").events, "note");
    assert_heard(&k, "+schema:app.start +a:unregistered>unregistered +a/app=running +schema:app.stop "
                     "~a/app(detail) +schema:note +a/unknown=running ");
    known_event(&k, "a", "app", "app.start");
    assert_heard(&k, "");
    assert_int_equal(activity(&k, "a", "app", "app.start").events, 2);
    known_close(&k);
}

/* While a worker's list is on its way, its sensors' events make no programs. */
static void a_list_may_come_after_the_events(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_event(&k, "a", "gridline-agent", "cpu");
    known_event(&k, "a", "gridline-agent", "agent.start");
    assert_false(known_has(&k, "a", "gridline-agent"));
    k.log[0] = '\0';
    known_say(&k, "a", "cpu cpu always running");
    assert_heard(&k, "+a/cpu=running +a/gridline-agent=running ");
    assert_slice(known_find(&k, "a", "gridline-agent").events, "agent.start");
    assert_int_equal(activity(&k, "a", "cpu", "cpu").events, 1); /* what was heard before counts */

    known_host(&k, "b", DIRECTORY_LIVE); /* an agent that announces nothing */
    known_event(&k, "b", "gridline-agent", "cpu");
    assert_false(known_has(&k, "b", "gridline-agent"));
    known_pass(&k, MINUTE);
    assert_slice(known_find(&k, "b", "gridline-agent").events, "cpu");
    known_say(&k, "b", "cpu cpu always running"); /* after all */
    assert_false(known_has(&k, "b", "gridline-agent"));
    known_close(&k);
}

static void a_list_that_is_shorter_gives_names_back(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running");
    known_event(&k, "a", "app", "cpu");
    assert_int_equal(activity(&k, "a", "cpu", "cpu").events, 1); /* the sensor's, whoever wrote it */
    known_say(&k, "a", "load load always running");
    known_event(&k, "a", "app", "cpu");
    assert_slice(known_find(&k, "a", "app").events, "cpu");
    known_close(&k);
}

/* The events of `exec` are not known before: what has its name as prog is its. */
static void a_sensor_whose_events_are_not_known_learns_them(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "exec/root - always running");
    known_event(&k, "a", "root", "space");
    known_event(&k, "a", "root", "inodes");
    assert_slice(known_find(&k, "a", "exec/root").events, "space,inodes");
    assert_false(known_has(&k, "a", "root"));
    assert_int_equal(activity(&k, "a", "exec/root", "space").events, 1);
    k.log[0] = '\0';
    known_say(&k, "a", "exec/root - always running");
    assert_heard(&k, ""); /* it keeps them */
    known_say(&k, "a", "exec/root check,perf always running");
    assert_heard(&k, "~a/exec/root(detail) ");
    assert_true(slice_starts(known_find(&k, "a", "exec/root").schemas, SLICE_LIT(",,")));
    assert_int_equal(known_find(&k, "a", "exec/root").schemas.n, 2 + 16 + 1 + 16);
    assert_slice(known_find(&k, "a", "exec/root").events,
                 "check,perf,space,inodes"); /* said, and heard besides */
    known_event(&k, "a", "root", "check");
    assert_int_equal(activity(&k, "a", "exec/root", "check").events, 1);
    assert_int_equal(activity(&k, "a", "exec/root", "space").events, 1);
    k.log[0] = '\0';
    known_say(&k, "a", "cpu cpu always running");
    assert_heard(&k, "+a/cpu=running -a/exec/root ");
    known_close(&k);
}

static void rates_are_those_of_the_last_minute(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, 24 * HOUR);
    for (int i = 0; i < 300; i++) { /* two a second for five minutes */
        known_add(&k, "a", "app", "note", value_int(i));
        known_add(&k, "a", "app", "note", value_int(i));
        known_send(&k);
        known_pass(&k, NS_PER_S);
        double rate = activity(&k, "a", "app", "note").rate;
        assert_true(fabs(rate - 2) < 0.07);
    }
    known_pass(&k, 30 * NS_PER_S);
    double rate = activity(&k, "a", "app", "note").rate;
    assert_true(rate > 0.9 && rate < 1.1); /* half of the minute was silent */
    known_pass(&k, 2 * MINUTE);
    assert_true(activity(&k, "a", "app", "note").rate == 0);
    known_event(&k, "a", "app", "note");
    rate = activity(&k, "a", "app", "note").rate;
    assert_true(rate > 0 && rate < 0.02);
    known_close(&k);
}

static void silent_programs_go(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, 10 * NS_PER_S);
    known_host(&k, "a", DIRECTORY_LIVE);
    known_say(&k, "a", "cpu cpu always running");
    for (int i = 0; i < 30; i++) { /* one of them goes on */
        known_add(&k, "a", "app", "note", value_int(i));
        if (i == 0) {
            known_add(&k, "a", "short", "note", value_int(i));
            known_add(&k, "b", "alone", "note", value_int(i));
        }
        known_send(&k);
        known_pass(&k, NS_PER_S);
    }
    assert_true(known_has(&k, "a", "app"));
    assert_true(known_has(&k, "a", "cpu"));
    assert_false(known_has(&k, "a", "short"));
    struct directory_host_entry h;
    assert_false(directory_find_host(k.d, SLICE_LIT("b"), &h)); /* nothing else held it */
    assert_true(directory_find_host(k.d, SLICE_LIT("a"), &h));
    assert_int_equal(h.programs, 1);
    known_close(&k);
}

static void too_many_names_are_counted(void **state)
{
    (void)state;
    struct known k;
    struct directory_counts c;
    char name[32];
    known_open(&k, HOUR);
    for (int i = 0; i < DIRECTORY_PROGRAMS_MAX + 5; i++) {
        (void)snprintf(name, sizeof name, "p%d", i);
        known_event(&k, "a", name, "note");
        known_pass(&k, NS_PER_S);
        k.log[0] = '\0';
    }
    directory_counts(k.d, &c);
    assert_int_equal(c.programs, DIRECTORY_PROGRAMS_MAX);
    assert_int_equal(c.evicted_programs, 5);
    assert_false(known_has(&k, "a", "p4")); /* those silent longest */
    assert_true(known_has(&k, "a", "p5"));
    for (int i = 0; i < DIRECTORY_EVENTS_MAX + 7; i++) {
        (void)snprintf(name, sizeof name, "note.%d", i);
        known_event(&k, "b", "app", name);
        k.log[0] = '\0';
    }
    directory_counts(k.d, &c);
    assert_int_equal(c.refused_events, 7);
    known_close(&k);
}

/* Two writers of one name whose schemas differ take turns: observers hear of each schema once. */
static void taking_turns_is_no_news(void **state)
{
    (void)state;
    struct known k, other;
    known_open(&k, HOUR);
    known_open(&other, HOUR);
    known_event(&k, "a", "app", "note");
    k.log[0] = '\0';
    for (int i = 0; i < 10; i++) {
        known_add(&other, "a", "app", "note", value_text(SLICE_LIT("t")));
        struct batch *b = batch_builder_finish(other.builder, NULL);
        directory_batch(k.d, b, k.mono_ns, k.utc_ns);
        batch_unref(b);
        known_event(&k, "a", "app", "note");
    }
    assert_heard(&k, "+schema:note!x ~a/app(detail) ");
    known_close(&other);
    known_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_announced_name_is_its_sensors),
        cmocka_unit_test(a_time_to_come_is_not_believed),
        cmocka_unit_test(what_nobody_announced_is_its_programs),
        cmocka_unit_test(a_list_may_come_after_the_events),
        cmocka_unit_test(a_list_that_is_shorter_gives_names_back),
        cmocka_unit_test(a_sensor_whose_events_are_not_known_learns_them),
        cmocka_unit_test(rates_are_those_of_the_last_minute),
        cmocka_unit_test(silent_programs_go),
        cmocka_unit_test(too_many_names_are_counted),
        cmocka_unit_test(taking_turns_is_no_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
