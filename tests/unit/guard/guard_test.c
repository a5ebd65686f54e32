/* SPDX-License-Identifier: Apache-2.0 */
/* A guard on its loop. While the system's clock is set (by this program's own clock_gettime) rules go on
 * being evaluated, what was heard is as old as it is, and nobody is called for it. What people order is in
 * the audit. */
#include "unit/test.h"

#include "base/clock.h"
#include "event/batch.h"
#include "guard/audit_line.h"
#include "guard/guard_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int64_t set_by_s; /* of the clock */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    long r = syscall(SYS_clock_gettime, clock, t);
    if (r == 0 && clock == CLOCK_REALTIME)
        t->tv_sec += set_by_s;
    return (int)r;
}

struct world {
    char folder[64];
    struct guard_config *config;
    struct event_base *base;
    struct guard *guard;
    struct registry *registry;
    struct batch_builder *builder;
};

static void load(struct world *w)
{
    static const char text[] =
        "rule hot { query = \"SELECT host FROM heat_latest WHERE degrees > 80\" every = "
        "100ms fresh = 2s }\n";
    char path[100], state_dir[100], run_dir[100], gateway[100];
    (void)snprintf(path, sizeof path, "%s/guard.conf", w->folder);
    (void)snprintf(state_dir, sizeof state_dir, "state_dir=%s/state", w->folder);
    (void)snprintf(run_dir, sizeof run_dir, "run_dir=%s", w->folder);
    (void)snprintf(gateway, sizeof gateway, "gateway=unix:%s/none.sock", w->folder);
    const char *settings[] = {state_dir, run_dir, gateway, "socket=", "agent=", "default_rules=false",
                              "blind=1m"};
    const struct config_flags flags = {
        .file = path, .settings = settings, .n_settings = sizeof settings / sizeof *settings};
    struct diag why = {0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    if (guard_config_load(&flags, &w->config, &why) < 0)
        fail_msg("%s", why.message);
}

static int setup(void **state)
{
    static struct world w;
    struct diag why = {0};
    w = (struct world){.folder = "/tmp/gridline-guard-XXXXXX", .base = event_base_new()};
    set_by_s = 0;
    assert_non_null(mkdtemp(w.folder));
    load(&w);
    w.registry = registry_create();
    w.builder = batch_builder_create(w.registry, 0);
    if (guard_create(w.config, "/nonexistent", w.base, &w.guard, &why) < 0)
        fail_msg("%s", why.message);
    *state = &w;
    return 0;
}

static void open_guard(struct world *w)
{
    struct diag why = {0};
    if (guard_create(w->config, "/nonexistent", w->base, &w->guard, &why) < 0)
        fail_msg("%s", why.message);
}

static void restart(struct world *w)
{
    guard_destroy(w->guard);
    open_guard(w);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st, (void)kind, (void)place;
    return remove(path);
}

static int teardown(void **state)
{
    struct world *w = *state;
    guard_destroy(w->guard);
    event_base_free(w->base);
    batch_builder_destroy(w->builder);
    registry_destroy(w->registry);
    guard_config_destroy(w->config);
    return nftw(w->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void heat(struct world *w, int64_t degrees)
{
    const struct event_head head = {
        .time_ns = clock_utc_ns(), .name = SLICE_LIT("heat"), .host = SLICE_LIT("a")};
    const struct named_value value = {SLICE_LIT("degrees"), value_int(degrees)};
    assert_int_equal(batch_builder_add(w->builder, &head, &value, 1, NULL), 0);
    struct batch *b = batch_builder_finish(w->builder, NULL);
    guard_take(w->guard, &b->events[0], true);
    batch_unref(b);
}

static struct faults_counts counts_of(const struct world *w, const char *rule)
{
    struct faults_counts n = {0};
    for (unsigned i = 0; i < w->config->n_rules; i++)
        if (strcmp(w->config->rules[i].name, rule) == 0)
            faults_count(w->guard->faults, i, &n);
    return n;
}

static bool is_hot(const struct world *w)
{
    return counts_of(w, "hot").firing == 1;
}

static bool is_well(const struct world *w)
{
    return counts_of(w, "hot").cleared == 1;
}

static int is_held(void *arg, const struct fault *f)
{
    (void)arg;
    return f->life.state == FAULT_FIRING && f->life.is_held ? -EALREADY : 0;
}

static bool has_held(const struct world *w)
{
    return faults_each(w->guard->faults, is_held, NULL) == -EALREADY;
}

/* Runs the loop until it is so; a minute is long enough for any machine. */
static void run_until(struct world *w, bool (*is_so)(const struct world *w))
{
    const int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    while (!is_so(w)) {
        assert_true(clock_mono_ns() < until);
        (void)event_base_loop(w->base, EVLOOP_ONCE);
    }
}

static void test_set_back(void **state)
{
    struct world *w = *state;
    heat(w, 90);
    run_until(w, is_hot);
    set_by_s = -86400;
    heat(w, 10); /* younger than what is there only by the new clock */
    run_until(w, is_well);
    heat(w, 90);
    run_until(w, is_hot);
}

/* What is not heard any more is not fresh for a day because the clock is. */
static void test_silent_after_set_back(void **state)
{
    struct world *w = *state;
    heat(w, 90);
    run_until(w, is_hot);
    set_by_s = -86400;
    run_until(w, has_held);
    assert_true(is_hot(w));
}

static uint64_t evaluations_of_all(const struct world *w)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < w->config->n_rules; i++) {
        uint64_t n = rule_stats(w->guard->rules[i].rule)->evaluations;
        least = n < least ? n : least;
    }
    return least;
}

static uint64_t evaluations_wanted;

static bool has_evaluated(const struct world *w)
{
    return evaluations_of_all(w) >= evaluations_wanted;
}

static void test_set_ahead(void **state)
{
    struct world *w = *state;
    heat(w, 90);
    run_until(w, is_hot);
    set_by_s = 86400;
    evaluations_wanted = evaluations_of_all(w) + 2;
    run_until(w, has_evaluated);
    assert_int_equal(counts_of(w, "guard.blind").firing, 0);
    assert_true(is_hot(w));
    heat(w, 10);
    run_until(w, is_well);
}

/* ---------------------------------------------------------------- orders */

static void order(struct world *w, const struct named_value *values, size_t n)
{
    const struct event_head head = {
        .time_ns = clock_utc_ns(), .name = SLICE_LIT("fault.order"), .host = SLICE_LIT("gate")};
    assert_int_equal(batch_builder_add(w->builder, &head, values, n, NULL), 0);
    struct batch *b = batch_builder_finish(w->builder, NULL);
    guard_take(w->guard, &b->events[0], true);
    batch_unref(b);
}

static int list_line(void *arg, const struct audit_line *l)
{
    struct strbuf value = {0};
    struct slice name;
    strbuf_printf(arg, "%.*s", SLICE_ARG(l->what));
    for (size_t at = 0; audit_line_datum(l, &at, &name, &value) > 0;)
        if (value.n)
            strbuf_printf(arg, " %.*s=%s", SLICE_ARG(name), value.p);
    strbuf_add_char(arg, '\n');
    strbuf_fini(&value);
    return 0;
}

/* Who did what to what, and for how long. */
static void test_orders_are_audited(void **state)
{
    struct world *w = *state;
    char audit[100];
    struct strbuf lines = {0};
    const struct named_value silence[] = {{SLICE_LIT("order"), value_text(SLICE_LIT("silence"))},
                                          {SLICE_LIT("by"), value_text(SLICE_LIT("ann"))},
                                          {SLICE_LIT("rule"), value_text(SLICE_LIT("hot"))},
                                          {SLICE_LIT("note"), value_text(SLICE_LIT("new fan"))},
                                          {SLICE_LIT("until"), value_int(INT64_C(4102444800) * NS_PER_S)}};
    const struct named_value unsilence[] = {{SLICE_LIT("order"), value_text(SLICE_LIT("unsilence"))},
                                            {SLICE_LIT("by"), value_text(SLICE_LIT("bob"))},
                                            {SLICE_LIT("id"), value_uint(1)}};
    order(w, silence, sizeof silence / sizeof *silence);
    order(w, unsilence, sizeof unsilence / sizeof *unsilence);
    restart(w); /* a number is not given twice */
    order(w, silence, sizeof silence / sizeof *silence);
    (void)snprintf(audit, sizeof audit, "%s/state/audit", w->folder);
    assert_int_equal(audit_each(audit, list_line, &lines, NULL), 0);
    assert_string_equal(lines.p,
                        "start\n"
                        "silence by=ann silence=1 rule=hot until=2100-01-01T00:00:00.000000Z note=new fan\n"
                        "unsilence by=bob silence=1\n"
                        "end\nstart\n"
                        "silence by=ann silence=2 rule=hot until=2100-01-01T00:00:00.000000Z note=new fan\n");
    strbuf_fini(&lines);
}

/* The last line goes, and what is left is whole: the next guard sees it all the same. */
static void test_cut_audit_is_found(void **state)
{
    struct world *w = *state;
    char audit[100], file[120], last[65];
    struct strbuf lines = {0}, expected = {0};
    struct audit_result result;
    struct diag why;
    struct stat st;
    (void)snprintf(audit, sizeof audit, "%s/state/audit", w->folder);
    (void)snprintf(file, sizeof file, "%s/audit-000001.log", audit);
    assert_int_equal(stat(file, &st), 0); /* "start" */
    guard_destroy(w->guard);              /* "end" */
    assert_int_equal(audit_verify(audit, &result, &why), 0);
    memcpy(last, result.head, sizeof last);
    assert_int_equal(truncate(file, st.st_size), 0);
    open_guard(w);
    assert_int_equal(audit_each(audit, list_line, &lines, NULL), 0);
    strbuf_printf(&expected, "start\naudit.cut missing=%s\nstart\n", last);
    assert_string_equal(lines.p, expected.p);
    restart(w); /* it is said once */
    assert_int_equal(audit_verify(audit, &result, &why), 0);
    assert_int_equal(result.cut, 1);
    strbuf_fini(&lines);
    strbuf_fini(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_after_set_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_set_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orders_are_audited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_audit_is_found, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
