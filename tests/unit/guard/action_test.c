/* SPDX-License-Identifier: Apache-2.0 */
/* Actions with real processes: each limit, attempts and pauses, the breaker, grouping, restarts, a disk that
 * does not take what is written. After every step the ledger of the action adds up. */
#include "unit/guard/action_bench.h"

#include "guard/action_limit.h"
#include "guard/audit_line.h"
#include "guard/action_order.h"

#include <ftw.h>

#define WAIT_NS (60 * NS_PER_S) /* for what has to come */
#define HOUR_NS (3600 * NS_PER_S)

static struct strbuf ends; /* "done 1 of 1 last|": result, attempt, faults */
static size_t n_ends, most;
static bool is_full;

static void on_end(void *arg, const struct action_end *e)
{
    (void)arg;
    strbuf_printf(&ends, "%s %u of %u%s|", action_result_name(e->result), e->attempt, e->faults,
                  e->is_last ? " last" : "");
    n_ends++;
}

static ssize_t write_unless_full(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    return is_full ? -ENOSPC : journal_io_libc.pwrite(ctx, fd, from, n, offset);
}

static struct bench *make_bench(void)
{
    struct bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    (void)snprintf(b->dir, sizeof b->dir, "/tmp/action_test.XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    bench_init(b);
    b->on_end = on_end;
    b->io.pwrite = write_unless_full;
    strbuf_reset(&ends);
    n_ends = most = 0;
    return b;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void destroy_bench(struct bench *b)
{
    struct audit_result result;
    struct diag why = {0};
    bench_close(b);
    assert_int_equal(child_settle(WAIT_NS), 0);
    if (audit_verify(b->audit_dir, &result, &why) < 0)
        fail_msg("%s", why.message);
    event_base_free(b->base);
    (void)nftw(b->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(b);
    strbuf_fini(&ends);
}

static struct action_counts counts(const struct bench *b)
{
    struct action_counts n;
    actions_count(b->actions, 0, &n);
    assert_int_equal(n.given + n.restored, n.joined + n.waiting + n.running + n.done + n.failed + n.unknown +
                                               n.left_out_queue + n.left_out_memory);
    most = n.running > most ? n.running : most;
    return n;
}

static void turn_at(struct bench *b, int64_t after_ns)
{
    assert_int_equal(state_commit(b->state), 0);
    actions_turn(b->actions, clock_utc_ns() + after_ns);
    (void)counts(b);
}

/* Until so many ends were told; two may come at once. */
static void wait_ends(struct bench *b, size_t n)
{
    const int64_t until = clock_mono_ns() + WAIT_NS;
    while (n_ends < n && clock_mono_ns() < until) {
        (void)event_base_loop(b->base, EVLOOP_ONCE);
        (void)counts(b);
    }
    assert_true(n_ends >= n);
}

static void assert_ends(const char *want)
{
    assert_string_equal(ends.p ? ends.p : "", want);
}

static size_t lines(const struct bench *b)
{
    struct strbuf log = bench_log(b);
    size_t n = 0;
    for (size_t i = 0; i < log.n; i++)
        n += log.p[i] == '\n';
    strbuf_fini(&log);
    return n;
}

/* The text that `show` has given for the i-th datum of the line-th run. */
static struct strbuf shown(const struct bench *b, size_t line, size_t i)
{
    struct strbuf log = bench_log(b), out = {0};
    const char *p = log.p;
    assert_non_null(p);
    for (; line > 0; line--) {
        p = strchr(p, '\n');
        assert_non_null(p);
        p++;
    }
    for (size_t k = 0; k <= i; k++) {
        p = strpbrk(p, "\t\n");
        assert_true(p && *p == '\t');
        p++;
    }
    for (; *p != '\t' && *p != '\n'; p += 2) {
        unsigned v;
        assert_int_equal(sscanf(p, "%2x", &v), 1);
        strbuf_add_char(&out, (char)v);
    }
    strbuf_fini(&log);
    return out;
}

static void assert_shown(const struct bench *b, size_t line, size_t i, struct slice want)
{
    struct strbuf got = shown(b, line, i);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(strbuf_slice(&got).p, want.p, want.n);
    strbuf_fini(&got);
}

static void show(struct bench *b, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->show_texts[i] = names[i];
    b->settings[2].n = n;
}

/* ---------------------------------------------------------------- */

static void test_data(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    const struct slice host = SLICE_LIT("a\nb'\"$(id)`id`;\0\xff {summary}");
    show(b, (const char *const[]){"host", "kind", "list", "guard", "help", "count"}, 6);
    bench_open(b);
    assert_int_equal(bench_give_value(b, NOTICE_ESCALATE, host), 0);
    turn_at(b, 0);
    wait_ends(b, 1);
    assert_ends("done 1 of 1 last|");
    assert_shown(b, 0, 0, host);
    assert_shown(b, 0, 1, SLICE_LIT("escalate"));
    struct strbuf list = shown(b, 0, 2);
    for (size_t i = 0; i + 1 < list.n; i++) /* one line, whatever is in the fault */
        assert_true((unsigned char)list.p[i] >= ' ');
    assert_int_equal(list.p[list.n - 1], '\n');
    strbuf_fini(&list);
    assert_shown(b, 0, 3, SLICE_LIT("guardhost"));
    assert_shown(b, 0, 4, SLICE_LIT("make room"));
    assert_shown(b, 0, 5, SLICE_LIT("1"));
    assert_int_equal(counts(b).done, 1);
    assert_int_equal(actions_next(b->actions), INT64_MAX);
    destroy_bench(b);
}

static void open_gate(const struct bench *b)
{
    int fd = open(b->gate, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void test_concurrency(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.concurrency = 2;
    b->action.n_settings = 4; /* with the gate */
    bench_open(b);
    for (int i = 0; i < 5; i++)
        assert_int_equal(bench_give(b), 0);
    turn_at(b, 0);
    struct action_counts n = counts(b);
    assert_int_equal(n.running, 2);
    assert_int_equal(n.waiting, 3);
    assert_int_equal(actions_next(b->actions), INT64_MAX); /* nothing waits for time */
    turn_at(b, HOUR_NS);
    assert_int_equal(counts(b).running, 2);
    open_gate(b);
    for (size_t i = 1; i <= 5; i++) {
        wait_ends(b, i);
        turn_at(b, 0);
    }
    assert_int_equal(counts(b).done, 5);
    assert_int_equal(most, 2);
    assert_int_equal(lines(b), 5);
    destroy_bench(b);
}

static void test_rate(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.rate_count = 2;
    b->action.rate_ns = HOUR_NS;
    bench_open(b);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bench_give(b), 0);
    const int64_t before = clock_utc_ns();
    turn_at(b, 0);
    wait_ends(b, 2);
    turn_at(b, 0);
    assert_int_equal(counts(b).waiting, 1);
    assert_in_range(actions_next(b->actions), before + HOUR_NS, clock_utc_ns() + HOUR_NS);
    bench_close(b); /* and a restart does not help */
    bench_open(b);
    turn_at(b, 0);
    assert_int_equal(counts(b).running, 0);
    assert_in_range(actions_next(b->actions), before + HOUR_NS, clock_utc_ns() + HOUR_NS);
    turn_at(b, HOUR_NS);
    wait_ends(b, 3);
    assert_int_equal(lines(b), 3);
    destroy_bench(b);
}

static void test_queue(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.queue = 3;
    b->action.concurrency = 1;
    show(b, (const char *const[]){"left_out"}, 1);
    bench_open(b);
    for (int i = 0; i < 5; i++)
        assert_int_equal(bench_give(b), i < 3 ? 0 : E_LIMIT);
    turn_at(b, 0);
    assert_ends("left_out 0 of 2 last|");
    struct action_counts n = counts(b);
    assert_int_equal(n.left_out_queue, 2);
    assert_int_equal(n.given, 5);
    for (size_t i = 2; i <= 4; i++) {
        wait_ends(b, i);
        turn_at(b, 0);
    }
    assert_shown(b, 0, 0, SLICE_LIT("2"));
    assert_shown(b, 1, 0, SLICE_LIT("0"));
    assert_int_equal(bench_give(b), 0); /* there is room again */
    turn_at(b, 0);
    wait_ends(b, 5);
    assert_int_equal(counts(b).done, 4);
    destroy_bench(b);
}

/* What was left out is told until somebody has heard it, also over a restart. */
static void test_left_out_is_told(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.queue = 1;
    b->action.attempts = 2;
    b->mode_text = "fail";
    show(b, (const char *const[]){"left_out"}, 1);
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    assert_int_equal(bench_give(b), E_LIMIT);
    turn_at(b, 0);
    wait_ends(b, 2);
    turn_at(b, 10 * NS_PER_S);
    wait_ends(b, 3);
    assert_ends("left_out 0 of 1 last|failed 1 of 1|failed 2 of 1 last|");
    turn_at(b, 0);
    bench_close(b);
    b->mode_text = "done";
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    turn_at(b, 10 * NS_PER_S);
    wait_ends(b, 4);
    for (size_t i = 0; i < 3; i++)
        assert_shown(b, i, 0, SLICE_LIT("1"));
    destroy_bench(b);
}

static void test_attempts(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 3;
    b->mode_text = "fail";
    show(b, (const char *const[]){"attempt"}, 1);
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    int64_t pause_ns = NS_PER_S;
    for (size_t i = 1; i <= 3; i++) {
        int64_t before = clock_utc_ns();
        turn_at(b, i > 1 ? 10 * NS_PER_S : 0);
        wait_ends(b, i);
        if (i == 3)
            break;
        int64_t next_ns = actions_next(b->actions);
        assert_in_range(next_ns, before + pause_ns, clock_utc_ns() + pause_ns + pause_ns / 4);
        turn_at(b, 0); /* not yet */
        assert_int_equal(counts(b).running, 0);
        pause_ns *= 2;
    }
    assert_ends("failed 1 of 1|failed 2 of 1|failed 3 of 1 last|");
    struct action_counts n = counts(b);
    assert_int_equal(n.started, 3);
    assert_int_equal(n.repeated, 2);
    assert_int_equal(n.failed, 1);
    turn_at(b, HOUR_NS);
    assert_int_equal(counts(b).started, 3);
    struct strbuf log = bench_log(b); /* all attempts have one name */
    size_t n_name = strcspn(log.p, "\t");
    for (const char *p = log.p; *p; p = strchr(p, '\n') + 1)
        assert_memory_equal(p, log.p, n_name + 1);
    strbuf_fini(&log);
    destroy_bench(b);
}

/* Options that do not fit together will not the next time. */
static void test_invalid_is_not_repeated(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 3;
    b->mode_text = "invalid";
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    turn_at(b, 0);
    wait_ends(b, 1);
    assert_ends("failed 1 of 1 last|");
    destroy_bench(b);
}

static void test_breaker(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.breaker = 2;
    b->action.breaker_ns = HOUR_NS;
    b->action.concurrency = 1;
    b->mode_text = "fail";
    bench_open(b);
    for (int i = 0; i < 6; i++)
        assert_int_equal(bench_give(b), 0);
    for (size_t i = 1; i <= 2; i++) {
        assert_false(counts(b).is_broken);
        turn_at(b, 0);
        wait_ends(b, i);
    }
    assert_true(counts(b).is_broken);
    turn_at(b, HOUR_NS / 2);
    assert_int_equal(counts(b).running, 0);
    assert_in_range(actions_next(b->actions), clock_utc_ns() + HOUR_NS / 2, clock_utc_ns() + HOUR_NS);

    b->action.concurrency = 4; /* one is tried, not all */
    turn_at(b, HOUR_NS);
    assert_int_equal(counts(b).running, 1);
    wait_ends(b, 3);
    turn_at(b, 0);
    assert_int_equal(counts(b).running, 0); /* it failed: open again */

    b->mode_text = "done";
    turn_at(b, HOUR_NS);
    assert_int_equal(counts(b).running, 1);
    wait_ends(b, 4);
    assert_false(counts(b).is_broken);
    turn_at(b, 0);
    assert_int_equal(counts(b).running, 2);
    wait_ends(b, 6);
    destroy_bench(b);
}

static void test_groups(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.is_groupable = true;
    b->action.group_ns = 30 * NS_PER_S;
    b->action.queue = 2;
    show(b, (const char *const[]){"count", "list", "kind", "host"}, 4);
    bench_open(b);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(bench_give(b), 0);
    assert_int_equal(bench_give_value(b, NOTICE_CLEAR, SLICE_LIT("x")), 0);
    turn_at(b, 0);
    struct action_counts n = counts(b);
    assert_int_equal(n.waiting, 2);
    assert_int_equal(n.joined, 999);
    assert_int_equal(n.running, 0); /* it collects */
    assert_in_range(actions_next(b->actions), clock_utc_ns() + 20 * NS_PER_S, clock_utc_ns() + 30 * NS_PER_S);
    bench_close(b); /* it is put down as it is */
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    turn_at(b, 31 * NS_PER_S);
    wait_ends(b, 2);
    assert_non_null(strstr(ends.p, "done 1 of 1001 last|"));
    struct strbuf kind = shown(b, 0, 2);
    const size_t fires = slice_eq_str(strbuf_slice(&kind), "fire") ? 0 : 1; /* both ran at once */
    strbuf_fini(&kind);
    assert_shown(b, fires, 0, SLICE_LIT("1001"));
    assert_shown(b, fires, 3, SLICE_LIT("c0-0"));
    struct strbuf list = shown(b, fires, 1);
    size_t listed = 0;
    for (size_t i = 0; i < list.n; i++)
        listed += list.p[i] == '\n';
    assert_int_equal(listed, ORDER_LINES);
    assert_true(slice_starts(strbuf_slice(&list), SLICE_LIT("disk-full: ")));
    strbuf_fini(&list);
    destroy_bench(b);
}

/* 100,000 faults at once: one order that says how many, or as many as may wait and a count of the rest. */
static void test_storm(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    for (int is_groupable = 0; is_groupable < 2; is_groupable++) {
        struct bench *b = make_bench();
        struct state_stats stats;
        b->action.is_groupable = is_groupable;
        b->action.group_ns = 30 * NS_PER_S;
        show(b, (const char *const[]){"count", "left_out"}, 2);
        bench_open(b);
        int64_t at = clock_mono_ns();
        for (int i = 0; i < MANY; i++)
            assert_int_equal(bench_give(b), is_groupable || i < 1000 ? 0 : E_LIMIT);
        double given = (double)(clock_mono_ns() - at) / 1e6;
        at = clock_mono_ns();
        assert_int_equal(state_commit(b->state), 0);
        double committed = (double)(clock_mono_ns() - at) / 1e6;
        state_stats(b->state, &stats);
        print_message("%d faults, %s: given in %.0f ms, committed in %.0f ms, %zu records, %llu bytes\n",
                      MANY, is_groupable ? "one run" : "each alone", given, committed, stats.records,
                      (unsigned long long)stats.live_bytes);
        assert_true(stats.live_bytes < 1 << 20);
        turn_at(b, 31 * NS_PER_S);
        wait_ends(b, is_groupable ? 1 : 2); /* the first is about those left out */
        assert_shown(b, 0, 0, is_groupable ? SLICE_LIT("100000") : SLICE_LIT("1"));
        assert_int_equal(counts(b).left_out_queue, is_groupable ? 0 : MANY - 1000);
        destroy_bench(b);
    }
}

static void test_no_reply(void **state)
{
    (void)state;
    static const char *const modes[] = {"crash", "mute"};
    for (size_t i = 0; i < 2; i++) {
        struct bench *b = make_bench();
        b->action.attempts = 2;
        b->mode_text = modes[i];
        b->action.after_crash = CRASH_FORGET;
        bench_open(b);
        assert_int_equal(bench_give(b), 0);
        turn_at(b, 0);
        wait_ends(b, 1);
        assert_ends("unknown 1 of 1 last|");
        bench_close(b);
        b->action.after_crash = CRASH_REPEAT;
        bench_open(b);
        assert_int_equal(bench_give(b), 0);
        turn_at(b, 0);
        wait_ends(b, 2);
        turn_at(b, 10 * NS_PER_S);
        wait_ends(b, 3);
        assert_ends("unknown 1 of 1 last|failed 1 of 1|failed 2 of 1 last|");
        destroy_bench(b);
    }
}

/* It does not end: it is ended, with what it started. */
static void test_deadline(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.timeout_ns = 1;
    b->mode_text = "hang";
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    turn_at(b, 0);
    wait_ends(b, 1);
    assert_ends("unknown 1 of 1 last|");
    assert_int_equal(child_settle(0), 0);
    destroy_bench(b);
}

static void test_no_program(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 2;
    (void)snprintf(b->act, sizeof b->act, "/nonexistent/gridline-act");
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    turn_at(b, 0);
    assert_ends("failed 1 of 1|");
    turn_at(b, 10 * NS_PER_S);
    assert_ends("failed 1 of 1|failed 2 of 1 last|");
    destroy_bench(b);
}

/* ---------------------------------------------------------------- restarts */

static void test_restart_while_waiting(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    assert_int_equal(bench_give(b), 0);
    assert_int_equal(state_commit(b->state), 0);
    assert_int_equal(bench_give(b), 0); /* not committed: nobody was promised anything */
    bench_close(b);
    bench_open(b);
    assert_int_equal(counts(b).restored, 2);
    turn_at(b, 0);
    wait_ends(b, 2);
    assert_int_equal(lines(b), 2);
    destroy_bench(b);
}

static void start_one_and_die(struct bench *b)
{
    bench_open(b);
    if (b->faults == 0)
        assert_int_equal(bench_give(b), 0);
    turn_at(b, 0);
    assert_int_equal(counts(b).running, 1);
    bench_close(b);
    assert_int_equal(child_settle(WAIT_NS), 0);
}

static void test_restart_while_running(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 3;
    b->action.n_settings = 4; /* with the gate */
    b->action.after_crash = CRASH_BY_ACTUATOR;
    b->action.is_repeatable = true;
    start_one_and_die(b);
    start_one_and_die(b);
    open_gate(b);
    bench_open(b);
    turn_at(b, 0);
    wait_ends(b, 1);
    assert_ends("done 3 of 1 last|");
    bench_close(b);
    bench_open(b); /* it is over */
    assert_int_equal(counts(b).restored, 0);
    destroy_bench(b);
}

static void test_restart_not_repeatable(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 3;
    b->action.n_settings = 4;
    start_one_and_die(b);
    bench_open(b);
    turn_at(b, 0);
    assert_ends("unknown 1 of 1 last|");
    assert_int_equal(counts(b).unknown, 1);
    assert_int_equal(counts(b).started, 0);
    destroy_bench(b);
}

static void test_restart_no_attempts_left(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.attempts = 2;
    b->action.n_settings = 4;
    b->action.after_crash = CRASH_REPEAT;
    start_one_and_die(b);
    start_one_and_die(b);
    bench_open(b);
    turn_at(b, 0);
    assert_ends("unknown 2 of 1 last|");
    destroy_bench(b);
}

static void test_restart_action_gone(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    assert_int_equal(state_commit(b->state), 0);
    bench_close(b);
    b->action.name = "another";
    bench_open(b);
    turn_at(b, 0);
    assert_ends("left_out 0 of 1 last|");
    bench_close(b);
    bench_open(b);
    turn_at(b, 0);
    assert_int_equal(n_ends, 1); /* once */
    destroy_bench(b);
}

/* A clock that was ahead and has been set right makes nothing wait for it. */
static void test_clock_set_back(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    b->action.is_groupable = true;
    b->action.group_ns = 30 * NS_PER_S;
    bench_open(b);
    const struct fault f = {.id = 1, .of = &b->rule, .life = {.state = FAULT_FIRING}};
    const struct notice n = {
        .fault = &f, .rule = &b->rule, .now_ns = clock_utc_ns() + 24 * HOUR_NS}; /* tomorrow */
    assert_int_equal(actions_give(b->actions, 0, &n), 0);
    turn_at(b, 0);
    assert_in_range(actions_next(b->actions), clock_utc_ns(), clock_utc_ns() + 31 * NS_PER_S);
    turn_at(b, 31 * NS_PER_S);
    wait_ends(b, 1);
    destroy_bench(b);
}

/* No two orders have one name, whatever happens between them. */
static void test_names(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    for (size_t i = 1; i <= 4; i++) {
        bench_open(b);
        assert_int_equal(bench_give(b), 0);
        turn_at(b, 0);
        wait_ends(b, i);
        bench_close(b);
    }
    struct strbuf log = bench_log(b);
    for (const char *p = log.p; *p; p = strchr(p, '\n') + 1) {
        size_t n = strcspn(p, "\n") + 1;
        for (const char *q = p + n; *q; q = strchr(q, '\n') + 1)
            assert_int_not_equal(strncmp(p, q, n), 0);
    }
    strbuf_fini(&log);
    bench_open(b);
    destroy_bench(b);
}

/* "WHAT ATTEMPT|" for each line of the audit. */
static int list_attempt(void *arg, const struct audit_line *l)
{
    struct strbuf value = {0};
    struct slice name;
    size_t at = 0;
    while (audit_line_datum(l, &at, &name, &value) > 0)
        if (slice_eq_str(name, "attempt"))
            strbuf_printf(arg, "%.*s %s|", SLICE_ARG(l->what), value.p);
    strbuf_fini(&value);
    return 0;
}

static void test_disk_full(void **state)
{
    (void)state;
    struct bench *b = make_bench();
    bench_open(b);
    assert_int_equal(bench_give(b), 0);
    assert_int_equal(state_commit(b->state), 0);
    is_full = true;
    const int64_t now_ns = clock_utc_ns();
    actions_turn(b->actions, now_ns);
    struct action_counts n = counts(b);
    assert_int_equal(n.running, 0);
    assert_int_equal(n.waiting, 1);
    assert_int_equal(n.started, 0);
    assert_in_range(actions_next(b->actions), now_ns, now_ns + NS_PER_S);
    assert_int_equal(lines(b), 0);
    is_full = false;
    actions_turn(b->actions, now_ns + NS_PER_S);
    wait_ends(b, 1);
    assert_ends("done 1 of 1 last|");
    struct strbuf audit = {0};
    assert_int_equal(audit_each(b->audit_dir, list_attempt, &audit, NULL), 0);
    assert_string_equal(audit.p, "action.start 1|action.not_started 1|action.start 1|action.end 1|");
    strbuf_fini(&audit);
    destroy_bench(b);
}

/* ---------------------------------------------------------------- limits and records alone */

/* However many the rate allows, a restart forgets none of them: at most it counts some for later than they
 * were. */
static void test_rate_after_restart(void **state)
{
    (void)state;
    enum { RATE = 4321 };
    const struct action_config c = {.name = "x", .rate_count = RATE, .rate_ns = 1000000, .concurrency = 1};
    struct action_limit l;
    struct strbuf record = {0};
    struct slice name;
    assert_int_equal(action_limit_init(&l, &c), 0);
    for (int64_t i = 0; i < RATE; i++)
        action_limit_start(&l, 1000 + i);
    action_limit_pack(&l, &record);
    assert_true(record.n < 10000);
    action_limit_fini(&l);
    assert_int_equal(action_limit_init(&l, &c), 0);
    assert_int_equal(action_limit_unpack(strbuf_slice(&record), &name, &l), 0);
    assert_slice(name, "x");
    assert_int_equal(l.n, RATE);
    assert_in_range(action_limit_next(&l, 0, 1000 + RATE), 1001000, 1001010);
    strbuf_fini(&record);
    action_limit_fini(&l);
}

static void test_rate_is_exact(void **state)
{
    (void)state;
    const struct action_config c = {.name = "x", .rate_count = 7, .rate_ns = 1000, .concurrency = 1};
    struct action_limit l;
    int64_t starts[2000];
    size_t n = 0;
    uint64_t seed = 3;
    assert_int_equal(action_limit_init(&l, &c), 0);
    for (int64_t now = 1; n < 2000; now += 1 + (int64_t)(test_random(&seed) % 90)) {
        if (action_limit_next(&l, 0, now) > now)
            continue;
        action_limit_start(&l, now);
        starts[n++] = now;
        if (n % 50 == 0) { /* over a restart */
            struct strbuf record = {0};
            struct slice name;
            action_limit_pack(&l, &record);
            action_limit_fini(&l);
            assert_int_equal(action_limit_init(&l, &c), 0);
            assert_int_equal(action_limit_unpack(strbuf_slice(&record), &name, &l), 0);
            strbuf_fini(&record);
        }
    }
    bool is_used = false;
    for (size_t i = 7; i < n; i++) {
        assert_true(starts[i] - starts[i - 7] >= 1000);
        is_used |= starts[i] - starts[i - 7] < 1100;
    }
    assert_true(is_used);
    /* A clock that goes back makes nobody wait for more than the limit itself. */
    assert_true(action_limit_next(&l, 0, 5) <= 1005);
    action_limit_fini(&l);
}

static void test_pauses(void **state)
{
    (void)state;
    const struct action_config c = {.retry_ns = 100, .retry_max_ns = 1000};
    static const int64_t want[] = {100, 200, 400, 800, 1000, 1000};
    for (uint32_t i = 0; i < 6; i++)
        for (uint64_t chance = 0; chance < 100; chance++)
            assert_in_range(action_limit_pause(&c, i + 1, chance), want[i], want[i] + want[i] / 4);
    assert_in_range(action_limit_pause(&c, UINT32_MAX, 0), 1000, 1000);
}

/* Records that are cut, or of a later version, are refused. */
static void test_records(void **state)
{
    (void)state;
    struct strbuf record = {0};
    struct bench *b = make_bench();
    const struct act_datum fields[] = {{SLICE_LIT("host"), SLICE_LIT("h")}};
    const struct fault f = {.id = 9, .of = &b->rule, .fields = fields, .n_fields = 1, .n_key = 1};
    const struct notice n = {.kind = NOTICE_CLEAR, .fault = &f, .rule = &b->rule, .now_ns = 77};
    struct order *o = calloc(1, sizeof *o), *got = NULL;
    struct slice action;
    size_t accepted = 0;
    assert_int_equal(order_fill(o, &n), 0);
    o->attempts = 3;
    o->is_started = true;
    o->left_out = 5;
    order_pack(o, "operators", &record);
    for (size_t i = 0; i <= record.n; i++) {
        got = calloc(1, sizeof *got);
        int r = order_unpack(slice_of(record.p, i), got, &action);
        if (i == record.n) {
            assert_int_equal(r, 0);
            assert_slice(action, "operators");
            assert_int_equal(got->attempts, 3);
            assert_int_equal(got->left_out, 5);
            assert_int_equal(got->kind, NOTICE_CLEAR);
            assert_true(got->is_started);
            assert_slice(order_rule(got), "disk-full");
        } else if (r == 0) {
            accepted++;
        } else {
            assert_int_equal(r, E_PROTO);
        }
        strbuf_fini(&got->body);
        free(got);
    }
    assert_int_equal(accepted, 1); /* without its one line it is whole, too */
    record.p[0] = 2;
    got = calloc(1, sizeof *got);
    assert_int_equal(order_unpack(strbuf_slice(&record), got, &action), E_VERSION);
    free(got);
    strbuf_fini(&o->body);
    free(o);
    strbuf_fini(&record);
    bench_open(b);
    destroy_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_concurrency),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_left_out_is_told),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_invalid_is_not_repeated),
        cmocka_unit_test(test_breaker),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_no_reply),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_restart_while_waiting),
        cmocka_unit_test(test_restart_while_running),
        cmocka_unit_test(test_restart_not_repeatable),
        cmocka_unit_test(test_restart_no_attempts_left),
        cmocka_unit_test(test_restart_action_gone),
        cmocka_unit_test(test_clock_set_back),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_rate_is_exact),
        cmocka_unit_test(test_rate_after_restart),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
