/* SPDX-License-Identifier: Apache-2.0 */
/* Events come as those of `gridline export` do. Rules that would be asked at the gateway are asked of the
 * archive's folder by an engine of this program, which is told what time it is and shows nothing after it; a
 * gateway can't do that for us. With both, events are the gateway's, also those that it has not sealed yet.
 */
#include "cmd/rule_test.h"

#include "archive/sql.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/process.h"
#include "cmd/export.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "cmd/table.h"
#include "guard/backtest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CACHE_BYTES = 64 << 20, ROWS_MAX = 200000, ANSWER_BYTES_MAX = 64 << 20, INPUT_MAX = 1 << 20 };
static const int64_t DAY_NS = 86400 * NS_PER_S;
static const int64_t QUIET_NS = NS_PER_S, DRAW_NS = NS_PER_S / 2;

/* An answer, until the one after the next: a rule has up to two texts. */
struct answer {
    struct arena arena;
    struct diag why;
};

struct rule_test {
    const struct rule_test_options *options;
    int64_t from_ns, to_ns;
    struct guard_config *config;
    struct backtest *backtest;
    const struct export_source_ops *ops;
    struct export_options source_options; /* the source borrows them */
    void *source;
    bool has_begun;             /* it was asked for events */
    struct view_reader *reader; /* of the folder; NULL: a gateway */
    struct sql_engine *engine;
    struct answer answers[2];
    unsigned asked;
    struct table *table;
    struct table_options table_options;
    struct args_writer row;
    uint64_t events, fires, clears, notices;
    int64_t start_ns, drawn_ns;
};

/* ---------------------------------------------------------------- rules that are asked at the gateway */

/* Texts are copied; false: no memory. */
static bool take_value(struct arena *arena, struct sql_value v, struct value *out)
{
    struct slice text;
    *out = value_none();
    switch (v.kind) {
    case SQL_NULL:
        break;
    case SQL_INT:
        *out = value_int(v.i);
        break;
    case SQL_FLOAT:
        *out = value_float(v.f);
        break;
    case SQL_TEXT:
    case SQL_BYTES:
        text = arena_copy(arena, v.text);
        *out = v.kind == SQL_TEXT ? value_text(text) : value_bytes(text);
        return text.p;
    }
    return true;
}

static int take_names(struct answer *a, const struct sql_statement *s, struct rule_answer *out)
{
    struct slice *names = arena_alloc(&a->arena, (sql_columns(s) + 1) * sizeof *names);
    if (!names)
        return -ENOMEM;
    out->n_columns = sql_columns(s);
    for (size_t i = 0; i < out->n_columns; i++)
        if (!(names[i] = arena_copy(&a->arena, slice_str(sql_column_name(s, i)))).p)
            return -ENOMEM;
    out->names = names;
    return 0;
}

static int take_rows(struct answer *a, struct sql_statement *s, struct rule_answer *out)
{
    size_t n = 0, cap = 0, columns = out->n_columns;
    struct value *values = NULL;
    int r;
    while ((r = sql_step(s, &a->why)) > 0) {
        if (n + columns > cap) {
            cap = cap ? 2 * cap : 16 * (columns + 1);
            struct value *more = arena_alloc(&a->arena, cap * sizeof *more);
            if (!more || a->arena.total > ANSWER_BYTES_MAX)
                return more ? E_LIMIT : -ENOMEM;
            if (n)
                memcpy(more, values, n * sizeof *more);
            values = more;
        }
        for (size_t i = 0; i < columns; i++)
            if (!take_value(&a->arena, sql_value(s, i), &values[n++]))
                return -ENOMEM;
    }
    out->values = values;
    out->n_rows = columns ? n / columns : 0;
    return r;
}

static void ask(void *arg, const char *text, int64_t now_ns, struct rule_answer *out)
{
    struct rule_test *t = arg;
    struct answer *a = &t->answers[t->asked++ % 2];
    const struct sql_limits limits = {.rows = ROWS_MAX};
    const struct sql_query query = {
        .text = slice_str(text), .limits = &limits, .now_ns = now_ns, .is_past = true};
    struct sql_statement *s = NULL;
    arena_reset(&a->arena);
    a->why = (struct diag){0};
    *out = (struct rule_answer){.why = a->why.message};
    int r = sql_prepare(t->engine, &query, &s, &a->why);
    if (r == 0)
        r = take_names(a, s, out);
    if (r == 0)
        r = take_rows(a, s, out);
    sql_finish(s);
    out->code = r;
}

static int open_engine(struct rule_test *t, const char *dir)
{
    struct diag why = {0};
    int r = view_reader_create(NULL, dir, CACHE_BYTES, &t->reader, &why);
    if (r == 0)
        r = sql_engine_create(t->reader, &t->engine);
    if (r < 0)
        say("%s: %s", dir, why.message[0] ? why.message : err_text(r));
    return r;
}

/* ---------------------------------------------------------------- what it prints */

static const struct table_column deed_columns[] = {
    {"at", 19}, {"rule", 0}, {"what", 0}, {"lasted_s", 0}, {"actions", 0}, {"summary", 80}, {NULL, 0}};
static const struct table_column rule_columns[] = {
    {"rule", 0},    {"tested", 0},      {"fires", 0},    {"clears", 0}, {"firing", 0}, {"firing_s", 0},
    {"notices", 0}, {"evaluations", 0}, {"failures", 0}, {"why", 60},   {NULL, 0}};

static void add_float(struct rule_test *t, const char *name, double v)
{
    args_add(&t->row, slice_str(name), value_float(v));
}

static const char *what_of(const struct backtest_deed *d)
{
    if (d->kind == BACKTEST_FIRE)
        return "fires";
    return d->kind == BACKTEST_CLEAR ? "clears" : notice_name(d->notice);
}

static void add_actions(struct rule_test *t, const struct action_names *names)
{
    struct strbuf all = {0};
    for (size_t i = 0; i < names->n; i++)
        strbuf_printf(&all, "%s%s", i ? "," : "", t->config->actions[names->v[i]].name);
    args_add_text(&t->row, "actions", strbuf_slice(&all));
    strbuf_fini(&all);
}

static void print_deed(struct rule_test *t, const struct backtest_deed *d)
{
    char at[CLOCK_TEXT_MAX], id[17];
    struct strbuf summary = {0};
    fault_summary(d->fault, d->rule, &summary);
    fault_id_print(d->fault->id, id);
    args_writer_reset(&t->row);
    args_add_text(&t->row, "at", slice_of(at, clock_print_iso(at, d->at_ns)));
    args_add_text(&t->row, "rule", slice_str(d->rule->name));
    args_add_text(&t->row, "what", slice_str(what_of(d)));
    args_add_text(&t->row, "severity", slice_str(severity_name(d->rule->severity)));
    args_add_text(&t->row, "fault", slice_str(id));
    args_add_uint(&t->row, "episode", d->fault->life.episode);
    if (d->kind == BACKTEST_CLEAR)
        add_float(t, "lasted_s", (double)(d->fault->life.cleared_ns - d->fault->life.fired_ns) / 1e9);
    if (d->kind == BACKTEST_NOTICE)
        add_actions(t, d->actions);
    args_add_text(&t->row, "summary", strbuf_slice(&summary));
    table_add(t->table, args_of(&t->row), SLICE_LIT(""));
    strbuf_fini(&summary);
}

static void on_deed(void *arg, const struct backtest_deed *d)
{
    struct rule_test *t = arg;
    t->fires += d->kind == BACKTEST_FIRE;
    t->clears += d->kind == BACKTEST_CLEAR;
    t->notices += d->kind == BACKTEST_NOTICE;
    if (!t->options->is_summary)
        print_deed(t, d);
}

static void print_rule(struct rule_test *t, const struct backtest_result *r)
{
    args_writer_reset(&t->row);
    args_add_text(&t->row, "rule", slice_str(r->rule->name));
    args_add(&t->row, SLICE_LIT("tested"), value_bool(r->is_tested));
    args_add_uint(&t->row, "fires", r->fires);
    args_add_uint(&t->row, "clears", r->clears);
    args_add_uint(&t->row, "firing", r->firing);
    add_float(t, "firing_s", (double)r->firing_ns / 1e9);
    args_add_uint(&t->row, "notices", r->notices);
    args_add_uint(&t->row, "evaluations", r->evaluations);
    args_add_uint(&t->row, "failures", r->failures);
    args_add_uint(&t->row, "left_out", r->left_out);
    args_add_text(&t->row, "why", slice_str(r->why));
    table_add(t->table, args_of(&t->row), SLICE_LIT(""));
}

/* Of each rule what is to be known; how many were not tested. */
static size_t sum_up(struct rule_test *t)
{
    struct backtest_result r;
    size_t untested = 0;
    for (size_t i = 0; backtest_rule(t->backtest, i, &r); i++) {
        if (!r.rule->is_enabled || (!r.rule->is_given && !t->options->with_defaults))
            continue;
        if (t->options->is_summary || t->options->is_all)
            print_rule(t, &r);
        untested += !r.is_tested;
        if (!r.is_tested)
            say("rule %s was not tested: %s", r.rule->name, *r.why ? r.why : "there was no data for it");
        else if (r.failures)
            say("rule %s had no answer in %" PRIu64 " of %" PRIu64 " evaluations%s%s", r.rule->name,
                r.failures, r.evaluations, *r.why ? ": " : "", r.why);
        if (r.left_out)
            say("rule %s had %" PRIu64 " faults more than can be kept", r.rule->name, r.left_out);
    }
    return untested;
}

/* ---------------------------------------------------------------- the run */

/* What comes by standard input, as a file, which the reader of configurations takes: its descriptor, or
 * -errno. */
static int keep_input(void)
{
    char part[4096];
    size_t all = 0;
    ssize_t n;
    int fd = file_open_temp(), r = fd < 0 ? fd : 0;
    while (r == 0 && (n = file_read(STDIN_FILENO, part, sizeof part)) != 0) {
        r = n < 0 ? (int)n : file_write_all(fd, slice_of(part, (size_t)n));
        all += n > 0 ? (size_t)n : 0;
        if (all > INPUT_MAX)
            r = E_LIMIT;
    }
    if (r < 0 && fd >= 0)
        (void)close(fd); /* nothing of value is in it */
    return r < 0 ? r : fd;
}

static int load_config(struct rule_test *t, const char *file)
{
    /* Ours are there in any case, as far as the file changes them. */
    const char *settings[] = {"default_rules=true"};
    const struct config_flags flags = {
        .file = file, .settings = settings, .n_settings = t->options->with_defaults ? 1 : 0};
    struct diag why = {0};
    int r = guard_config_load(&flags, &t->config, &why);
    if (r < 0)
        say_plain("%s", why.message[0] ? why.message : err_text(r));
    return r == 0 ? EXIT_OK : r == -ENOENT ? EXIT_NOT_FOUND : EXIT_USAGE;
}

static int load(struct rule_test *t)
{
    char path[32];
    if (strcmp(t->options->file, "-") != 0)
        return load_config(t, t->options->file);
    int fd = keep_input();
    if (fd < 0) {
        say("standard input: %s", err_text(fd));
        return EXIT_FAILED;
    }
    (void)snprintf(path, sizeof path, "/dev/fd/%d", fd); /* fits */
    int code = load_config(t, path);
    (void)close(fd);
    return code;
}

static void draw(struct rule_test *t)
{
    int64_t now_ns = clock_mono_ns();
    char at[CLOCK_TEXT_MAX];
    if (now_ns - t->start_ns < QUIET_NS || now_ns - t->drawn_ns < DRAW_NS)
        return;
    t->drawn_ns = now_ns;
    (void)clock_print_iso(at, backtest_now(t->backtest)); /* its length is known */
    say_status("%" PRIu64 " events, at %.19s; Ctrl-C ends it", t->events, at);
}

static bool is_stopped(void *arg)
{
    draw(arg);
    return stop_asked();
}

static int open_backtest(struct rule_test *t)
{
    struct diag why = {0};
    const struct backtest_options o = {.config = t->config,
                                       .from_ns = t->from_ns,
                                       .to_ns = t->to_ns,
                                       .with_defaults = t->options->with_defaults,
                                       .ask = t->engine ? ask : NULL,
                                       .on_deed = on_deed,
                                       .is_stopped = is_stopped,
                                       .arg = t};
    int r = backtest_create(&o, &t->backtest, &why);
    if (r < 0)
        say("%s", why.message);
    return r == 0 ? EXIT_OK : r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_USAGE;
}

static int exit_of(int r)
{
    return r == 0 ? EXIT_OK : r == -EACCES ? EXIT_NOT_ALLOWED : r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
}

static int open_source(struct rule_test *t)
{
    const struct rule_test_options *o = t->options;
    int r = o->archive && access(o->archive, R_OK | X_OK) < 0 ? -errno : 0;
    if (r < 0) { /* a reader makes no archive where there is none */
        say("%s: %s", o->archive, err_text(r));
        return exit_of(r);
    }
    t->source_options = (struct export_options){
        .gateway = o->gateway, .identity = o->identity, .archive = o->archive, .timeout_ns = o->timeout_ns};
    t->ops = o->archive && !o->gateway ? &export_archive : &export_gateway;
    r = t->ops->open(&t->source_options, &t->source);
    if (r == 0 && o->archive)
        r = open_engine(t, o->archive);
    return exit_of(r);
}

/* 0, or what the source has said. */
static int feed(struct rule_test *t, struct slice events)
{
    const struct export_request request = {.from_ns = backtest_begins(t->backtest),
                                           .to_ns = t->to_ns - 1,
                                           .events = events,
                                           .hosts = SLICE_LIT(""),
                                           .where = SLICE_LIT("")};
    const struct batch *b;
    int r = t->ops->begin(t->source, &request);
    t->has_begun = r == 0;
    while (r == 0 && (r = t->ops->next(t->source, &b)) > 0) {
        for (size_t i = 0; i < b->n; i++)
            backtest_take(t->backtest, &b->events[i]);
        t->events += b->n;
        r = stop_asked() ? -EINTR : table_flush(t->table);
        draw(t);
    }
    return r;
}

static int run(struct rule_test *t)
{
    struct strbuf events = {0};
    backtest_events(t->backtest, &events);
    int r = strbuf_failed(&events) ? -ENOMEM : events.n ? feed(t, strbuf_slice(&events)) : 0;
    if (r == 0)
        backtest_finish(t->backtest);
    say_progress_end();
    strbuf_fini(&events);
    return r == 0 && stop_asked() ? -EINTR : r;
}

static int report(struct rule_test *t, int r)
{
    if (r < 0)
        return r == -EPIPE ? EXIT_OK : exit_of(r); /* it was said */
    size_t untested = sum_up(t);
    uint64_t lost = t->has_begun ? t->ops->lost(t->source) : 0;
    r = table_finish(t->table);
    if (lost)
        say("%" PRIu64 " events are damaged and were left out; `gridline archive check` says which", lost);
    say("%" PRIu64 " events, %" PRIu64 " fires, %" PRIu64 " clears, %" PRIu64
        " notices to actions, none of which was run; %.1f s",
        t->events, t->fires, t->clears, t->notices, (double)(clock_mono_ns() - t->start_ns) / 1e9);
    if (r < 0)
        return r == -EPIPE ? EXIT_OK : EXIT_FAILED;
    return untested || lost ? EXIT_PARTLY : EXIT_OK;
}

static void close_all(struct rule_test *t)
{
    backtest_destroy(t->backtest);
    guard_config_destroy(t->config);
    if (t->ops)
        t->ops->close(t->source);
    sql_engine_destroy(t->engine);
    view_reader_destroy(t->reader);
    for (size_t i = 0; i < 2; i++)
        arena_fini(&t->answers[i].arena);
    table_destroy(t->table);
    args_writer_fini(&t->row);
}

static int open_table(struct rule_test *t)
{
    bool is_summary = t->options->is_summary;
    t->table_options = (struct table_options){.event = is_summary ? "rule.result" : "rule.test",
                                              .columns = is_summary ? rule_columns : deed_columns};
    if (!table_format(t->options->format, &t->table_options.encoding))
        return EXIT_USAGE;
    t->table = table_create(&t->table_options);
    return t->table ? EXIT_OK : EXIT_FAILED;
}

/* The address space that the process has already: its libraries, and what a sanitizer lays out. */
static uint64_t address_space(void)
{
    struct strbuf text = {0};
    uint64_t pages = 0;
    if (process_read(getpid(), "statm", &text)) {
        struct slice all = strbuf_slice(&text);
        const char *end = memchr(all.p, ' ', all.n);
        (void)num_parse_uint(slice_of(all.p, end ? (size_t)(end - all.p) : 0),
                             &pages); /* else 0: less room */
    }
    strbuf_fini(&text);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* For who runs it on behalf of others: the process ends when it wants more than that. */
static void limit_memory(uint64_t bytes)
{
    uint64_t most = bytes ? address_space() + bytes : 0;
    const struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
    if (bytes && setrlimit(RLIMIT_AS, &limit) < 0)
        say("memory can't be limited: %s", strerror(errno));
}

int rule_test_run(const struct rule_test_options *o)
{
    struct rule_test t = {.options = o, .start_ns = clock_mono_ns()};
    limit_memory(o->memory);
    t.drawn_ns = t.start_ns;
    t.to_ns = o->to.is_set ? o->to.at_ns : clock_utc_ns();
    t.from_ns = o->from.is_set ? o->from.at_ns : t.to_ns - DAY_NS;
    int code = open_table(&t);
    if (code == EXIT_OK)
        code = load(&t);
    if (code == EXIT_OK)
        code = open_source(&t);
    if (code == EXIT_OK)
        code = open_backtest(&t);
    if (code == EXIT_OK)
        code = report(&t, run(&t));
    close_all(&t);
    return code;
}
