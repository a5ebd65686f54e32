/* SPDX-License-Identifier: Apache-2.0 */
/* action_bench.h - one action with its state and audit in a folder of its own, and action_probe (beside the
 * test program) in the place of gridline-act. */
#ifndef GRIDLINE_TESTS_ACTION_BENCH_H
#define GRIDLINE_TESTS_ACTION_BENCH_H

#include "unit/test.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "guard/action.h"
#include "journal/journal.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BENCH_SHOWN = 6, BENCH_KEPT = 4096 };

struct bench {
    char dir[64], log[96], gate[96], state_dir[96], audit_dir[96], act[512];
    const char *log_text, *mode_text, *gate_text, *show_texts[BENCH_SHOWN];
    struct parameter_setting settings[4];
    struct rule_config rule;
    struct action_config action;
    struct guard_config config;
    struct journal_io io;
    struct event_base *base;
    struct state *state;
    struct audit *audit;
    struct actions *actions;
    void (*on_end)(void *arg, const struct action_end *e);
    uint64_t faults; /* given so far: their ids */
    struct {
        uint64_t id;
        struct strbuf record;
    } kept[BENCH_KEPT];
    size_t n_kept;
};

static inline void bench_paths(struct bench *b)
{
    char self[400];
    (void)snprintf(b->log, sizeof b->log, "%s/log", b->dir);
    (void)snprintf(b->gate, sizeof b->gate, "%s/gate", b->dir);
    (void)snprintf(b->state_dir, sizeof b->state_dir, "%s/state", b->dir);
    (void)snprintf(b->audit_dir, sizeof b->audit_dir, "%s/audit", b->dir);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    (void)snprintf(b->act, sizeof b->act, "%s/action_probe", self);
}

/* An action that is done at once, with limits so wide that they limit nothing. b->dir is there. */
static inline void bench_init(struct bench *b)
{
    bench_paths(b);
    b->log_text = b->log;
    b->mode_text = "done";
    b->gate_text = b->gate;
    b->settings[0] = (struct parameter_setting){"log", &b->log_text, 1};
    b->settings[1] = (struct parameter_setting){"mode", &b->mode_text, 1};
    b->settings[2] = (struct parameter_setting){"show", b->show_texts, 0};
    b->settings[3] = (struct parameter_setting){"gate", &b->gate_text, 1};
    b->rule = (struct rule_config){.name = "disk-full",
                                   .help = "make room",
                                   .query = "",
                                   .clear_query = "",
                                   .summary = "",
                                   .severity = SEVERITY_ERROR};
    b->action = (struct action_config){.name = "operators",
                                       .actuator = "probe",
                                       .settings = b->settings,
                                       .n_settings = 3,
                                       .rate_count = 1000,
                                       .rate_ns = NS_PER_S,
                                       .concurrency = 4,
                                       .attempts = 1,
                                       .retry_ns = NS_PER_S,
                                       .retry_max_ns = 8 * NS_PER_S,
                                       .timeout_ns = 60 * NS_PER_S,
                                       .queue = 1000};
    b->config = (struct guard_config){
        .host = "guardhost", .rules = &b->rule, .n_rules = 1, .actions = &b->action, .n_actions = 1};
    b->io = journal_io_libc;
    b->base = event_base_new();
    assert_non_null(b->base);
}

static inline void bench_keep(void *arg, enum state_kind kind, uint64_t id, struct slice record)
{
    struct bench *b = arg;
    assert_int_equal(kind, STATE_ACTION);
    assert_true(b->n_kept < BENCH_KEPT);
    strbuf_add_slice(&b->kept[b->n_kept].record, record);
    b->kept[b->n_kept++].id = id;
}

/* As the guard does: the state's records are kept until there are actions to give them to. */
static inline void bench_open(struct bench *b)
{
    struct diag why;
    uint64_t damaged;
    b->n_kept = 0;
    assert_int_equal(state_open(b->state_dir, &b->io, bench_keep, b, &damaged, &b->state), 0);
    assert_int_equal(damaged, 0);
    assert_int_equal(audit_open(b->audit_dir, 0, &b->audit, &why), 0);
    const struct actions_options o = {.config = &b->config,
                                      .state = b->state,
                                      .audit = b->audit,
                                      .base = b->base,
                                      .act = b->act,
                                      .on_end = b->on_end,
                                      .arg = b};
    assert_int_equal(actions_create(&o, &b->actions), 0);
    for (size_t i = b->n_kept; i-- > 0;) { /* in any order */
        int r = actions_restore(b->actions, b->kept[i].id, strbuf_slice(&b->kept[i].record));
        assert_true(r == 0 || r == -ENOENT);
        strbuf_fini(&b->kept[i].record);
    }
}

static inline void bench_close(struct bench *b)
{
    actions_destroy(b->actions);
    state_close(b->state);
    audit_close(b->audit);
    b->actions = NULL;
    (void)child_settle(0);
}

/* A fault more; as the guard does, it counts when it is committed. */
static inline int bench_give_value(struct bench *b, enum notice_kind kind, struct slice host)
{
    const struct act_datum fields[] = {{SLICE_LIT("host"), host}, {SLICE_LIT("free"), SLICE_LIT("12")}};
    const struct fault f = {.id = ++b->faults,
                            .of = &b->rule,
                            .fields = fields,
                            .n_fields = 2,
                            .n_key = 1,
                            .life = {.state = FAULT_FIRING, .fired_ns = 1}};
    const struct notice n = {.kind = kind, .fault = &f, .rule = &b->rule, .now_ns = clock_utc_ns()};
    return actions_give(b->actions, 0, &n);
}

static inline int bench_give(struct bench *b)
{
    char host[32];
    (void)snprintf(host, sizeof host, "c0-%llu", (unsigned long long)b->faults);
    return bench_give_value(b, NOTICE_FIRE, slice_str(host));
}

static inline struct strbuf bench_log(const struct bench *b)
{
    struct strbuf s = {0};
    char bytes[4096];
    ssize_t n;
    int fd = open(b->log, O_RDONLY);
    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
        strbuf_add(&s, bytes, (size_t)n);
    if (fd >= 0)
        (void)close(fd);
    return s;
}

#endif
