/* SPDX-License-Identifier: Apache-2.0 */
/* The filters that are installed: each makes of tests/fixtures/logs/NAME.log exactly the events of
 * NAME.ndjson, whether it runs through or is restarted between any two lines. GRIDLINE_UPDATE=1 writes
 * NAME.ndjson anew. */
#include "unit/test.h"

#include "base/clock.h"
#include "event/encodings.h"
#include "helper/logfilter.h"

#include <stdio.h>

struct run {
    struct registry *registry;
    struct batch_builder *builder;
    struct logfilter *filter;
    char path[300];
};

static int take_event(void *arg, const struct event_head *head, const struct named_value *values, size_t n)
{
    struct run *r = arg;
    struct diag why;
    int e = batch_builder_add(r->builder, head, values, n, &why);
    if (e < 0)
        fail_msg("%s", why.message);
    return e;
}

static void read_file(const char *path, struct strbuf *out)
{
    FILE *f = fopen(path, "re");
    if (!f)
        fail_msg("%s can't be opened", path);
    char bytes[4096];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0)
        strbuf_add(out, bytes, n);
    (void)fclose(f);
}

static void load(struct run *r)
{
    struct diag why;
    const struct logfilter_options o = {.zone = "utc"};
    if (logfilter_load(r->path, &o, &r->filter, &why) < 0)
        fail_msg("%s", why.message);
}

/* Stops and goes on: what is kept with a position is all that the new one knows. */
static void restart(struct run *r)
{
    struct strbuf saved = {0};
    logfilter_save(r->filter, &saved, 3000);
    logfilter_destroy(r->filter);
    load(r);
    assert_int_equal(logfilter_restore(r->filter, strbuf_slice(&saved)), 0);
    strbuf_fini(&saved);
}

static bool next_line(struct slice *rest, struct slice *line)
{
    const char *lf = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    if (!lf)
        return false;
    *line = slice_of(rest->p, (size_t)(lf - rest->p));
    *rest = slice_from(*rest, line->n + 1);
    return true;
}

static void run_log(const char *name, bool restarts, struct strbuf *out)
{
    struct run r = {.registry = registry_create()};
    struct logfilter_sink sink = {take_event, &r};
    struct strbuf log = {0};
    struct encoder *encoder;
    char path[300];
    int64_t now;
    r.builder = batch_builder_create(r.registry, 0);
    assert_int_equal(clock_parse_iso(SLICE_LIT("2026-11-16T03:00:00Z"), &now), 0);
    (void)snprintf(r.path, sizeof r.path, GRIDLINE_SOURCE "/share/filters/%s.conf", name);
    (void)snprintf(path, sizeof path, GRIDLINE_SOURCE "/tests/fixtures/logs/%s.log", name);
    read_file(path, &log);
    load(&r);
    struct slice rest = strbuf_slice(&log), held = {0}, line;
    while (next_line(&rest, &line)) {
        enum logfilter_held what = logfilter_line(r.filter, line, false, now, &sink);
        if (what != LOGFILTER_HELD)
            held = slice_of(line.p, what == LOGFILTER_STARTED);
        if (!restarts)
            continue;
        restart(&r);
        size_t count = batch_builder_count(r.builder);
        for (struct slice again = slice_of(held.p, held.n ? (size_t)(rest.p - held.p) : 0);
             next_line(&again, &line);)
            (void)logfilter_line(r.filter, line, false, now, &sink); /* held again */
        assert_int_equal(batch_builder_count(r.builder), count);
    }
    logfilter_flush(r.filter, now, &sink);
    struct batch *b = batch_builder_finish(r.builder, NULL);
    assert_non_null(b);
    assert_int_equal(encoder_create(&encoding_ndjson, &encoder), 0);
    assert_int_equal(encoder_run(encoder, b, out), 0);
    encoder_destroy(encoder);
    batch_unref(b);
    logfilter_destroy(r.filter);
    batch_builder_destroy(r.builder);
    registry_destroy(r.registry);
    strbuf_fini(&log);
}

static void check(const char *name)
{
    struct strbuf got = {0}, again = {0}, want = {0};
    char path[300];
    (void)snprintf(path, sizeof path, GRIDLINE_SOURCE "/tests/fixtures/logs/%s.ndjson", name);
    run_log(name, false, &got);
    if (getenv("GRIDLINE_UPDATE")) {
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fwrite(got.p, 1, got.n, f), got.n);
        assert_int_equal(fclose(f), 0);
    }
    read_file(path, &want);
    assert_string_equal(got.p, want.p);
    run_log(name, true, &again);
    assert_string_equal(again.p, want.p);
    strbuf_fini(&got);
    strbuf_fini(&again);
    strbuf_fini(&want);
}

#define FILTER(function, name)         \
    static void function(void **state) \
    {                                  \
        (void)state;                   \
        check(name);                   \
    }
FILTER(test_boinc, "boinc")
FILTER(test_netsolve, "netsolve")
FILTER(test_slurm_jobcomp, "slurm-jobcomp")
FILTER(test_slurmctld, "slurmctld")
FILTER(test_sshd, "sshd")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boinc),         cmocka_unit_test(test_netsolve),
        cmocka_unit_test(test_slurm_jobcomp), cmocka_unit_test(test_slurmctld),
        cmocka_unit_test(test_sshd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
