/* SPDX-License-Identifier: Apache-2.0 */
/* What the tour finds, asked from the gateway's archive with the SQL that anybody has. */
#include "base/clock.h"
#include "cmd/demo.h"
#include "cmd/say.h"
#include "cmd/table.h"
#include "net/ask_query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the times of block.receive, a server and stream each: longer than this many times the longest silence of
 * nearly all (99.5 %) in the baseline is a pause, within limits: TCP's first time-out is 200 ms, so that all
 * that come of one are found on a busy machine, too. */
enum { PAUSE_TIMES = 3, PAUSE_MIN_MS = 150, PAUSE_MAX_MS = 250 };

#define WITHIN         "time BETWEEN %" PRId64 " AND %" PRId64
#define WITHIN_ARGS(r) (r).from_ns, (r).to_ns

double demo_number(struct value v)
{
    return v.type == VALUE_FLOAT  ? v.f
           : v.type == VALUE_INT  ? (double)v.i
           : v.type == VALUE_UINT ? (double)v.u
                                  : 0;
}

static void copy_text(char *to, size_t size, struct value v)
{
    size_t n = v.type == VALUE_TEXT && v.n < size ? v.n : 0;
    memcpy(to, n ? v.p : "", n);
    to[n] = 0;
}

static bool on_wait(void *arg)
{
    struct demo *d = arg;
    return demo_tick(d) != EXIT_OK;
}

int demo_ask(struct demo *d, demo_row *fn, size_t columns, const char *format, ...)
{
    va_list ap;
    char *text;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        abort(); /* as mem_alloc does without memory */
    va_end(ap);
    const struct ask_options options = {.gateway = d->socket.p,
                                        .prog = "gridline-demo",
                                        .timeout_ns = 30 * NS_PER_S,
                                        .on_wait = on_wait,
                                        .arg = d};
    const struct ask_query_options query = {.text = slice_str(text)};
    struct ask_query *q = NULL;
    struct diag why = {0};
    int r = ask_query_open(&options, &query, &q, &why);
    while (r == 0 && (r = ask_query_next(q, INT64_MAX, &why)) > 0) {
        r = ask_query_columns(q) == columns ? 0 : E_PROTO;
        if (r == 0)
            fn(d, ask_query_row(q));
    }
    ask_query_close(q);
    if (r < 0 && r != -EINTR)
        say("%s (%s)", why.message[0] ? why.message : err_text(r), text);
    free(text); /* vasprintf's own */
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

/* ---------------------------------------------------------------- streams and transfers */

static void take_stream(struct demo *d, const struct value *row)
{
    struct demo_findings *f = &d->found;
    f->slow_stream = row[0].i;
    f->slow_ms = demo_number(row[1]);
    f->other_ms = demo_number(row[2]);
}

int demo_find_stream(struct demo *d)
{
    struct demo_range r = d->found.debug;
    return demo_ask(d, take_stream, 3,
                    "WITH hop AS (SELECT stream, max(time) - min(time) AS ns FROM (SELECT id, stream, time "
                    "FROM block_send WHERE " WITHIN
                    " UNION ALL SELECT id, stream, time FROM block_receive WHERE " WITHIN
                    ") GROUP BY id HAVING count(*) = 2), most AS (SELECT stream, percentile(ns, 95) / 1e6 AS "
                    "ms FROM hop GROUP BY stream) "
                    "SELECT stream, ms, (SELECT max(ms) FROM most AS o WHERE o.stream <> most.stream) FROM "
                    "most ORDER BY ms "
                    "DESC LIMIT 1",
                    WITHIN_ARGS(r), WITHIN_ARGS(r));
}

struct speed {
    uint64_t transfers;
    double seconds;
};
static struct speed speed;

static void take_speed(struct demo *d, const struct value *row)
{
    (void)d;
    speed = (struct speed){(uint64_t)demo_number(row[0]), demo_number(row[1])};
}

int demo_find_speed(struct demo *d, struct demo_range r, uint64_t *transfers, double *seconds)
{
    speed = (struct speed){0};
    int code = demo_ask(d, take_speed, 2, "SELECT count(*), avg(seconds) FROM transfer_end WHERE " WITHIN,
                        WITHIN_ARGS(r));
    *transfers = speed.transfers;
    *seconds = speed.seconds;
    return code;
}

static void take_server(struct demo *d, const struct value *row)
{
    copy_text(d->found.bad_server, sizeof d->found.bad_server, row[0]);
    d->found.bad_base_seconds = demo_number(row[1]);
    d->found.bad_run_seconds = demo_number(row[2]);
}

/* Whose transfers take longest now, beside what they took. */
int demo_find_server(struct demo *d)
{
    struct demo_range b = d->found.base, r = d->found.run;
    return demo_ask(
        d, take_server, 3,
        "WITH b AS (SELECT server, avg(seconds) AS s FROM transfer_end WHERE " WITHIN
        " GROUP BY 1), r AS (SELECT server, avg(seconds) AS s FROM transfer_end WHERE " WITHIN
        " GROUP BY 1) SELECT server, b.s, r.s FROM b JOIN r USING (server) ORDER BY r.s / b.s DESC LIMIT 1",
        WITHIN_ARGS(b), WITHIN_ARGS(r));
}

/* ---------------------------------------------------------------- deviations */

static void take_hardware(struct demo *d, const struct value *row)
{
    d->found.changed_hosts = (uint64_t)demo_number(row[0]);
}

static void take_cpu(struct demo *d, const struct value *row)
{
    d->found.cpu_base = demo_number(row[0]);
    d->found.cpu_run = demo_number(row[1]);
}

int demo_find_hardware(struct demo *d)
{
    struct demo_range b = d->found.base, r = d->found.run;
    int code = demo_ask(
        d, take_hardware, 1,
        "SELECT count(*) FROM (SELECT host FROM host WHERE time BETWEEN %" PRId64 " AND %" PRId64
        " GROUP BY host HAVING count(DISTINCT printf('%%s %%s %%s %%s %%s', cpu_model, threads, memory, "
        "kernel, boot_id)) > 1)",
        b.from_ns, r.to_ns);
    if (code != EXIT_OK)
        return code;
    return demo_ask(d, take_cpu, 2,
                    "SELECT (SELECT avg(cpu_user + cpu_system) FROM vector WHERE " WITHIN
                    "), (SELECT avg(cpu_user + cpu_system) FROM vector WHERE " WITHIN ")",
                    WITHIN_ARGS(b), WITHIN_ARGS(r));
}

static struct demo_hop hop;

static void take_hop(struct demo *d, const struct value *row)
{
    (void)d;
    copy_text(hop.from, sizeof hop.from, row[0]);
    copy_text(hop.to, sizeof hop.to, row[1]);
    hop.base_ms = demo_number(row[2]);
    hop.run_ms = demo_number(row[3]);
    hop.score = demo_number(row[4]);
}

/* Among those that take longer than they did: of transfers the one with the highest score, of blocks the one
 * that most of the time is lost in (they are many, and some so short that any other work of the machine
 * shows). */
int demo_find_hop(struct demo *d, const char *baseline, bool of_blocks, struct demo_hop *out)
{
    struct demo_range r = d->found.run;
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
    from[clock_print_iso(from, r.from_ns)] = 0;
    to[clock_print_iso(to, r.to_ns)] = 0;
    hop = (struct demo_hop){0};
    int code = demo_ask(
        d, take_hop, 5,
        "SELECT event, next, base_mean * 1e3, run_mean * 1e3, score FROM deviations('%s', '%s', '%s', 0) "
        "WHERE kind = 'hop' AND event %s 'block.*' AND run_mean > base_mean AND score IS NOT NULL ORDER BY "
        "%s "
        "DESC LIMIT 1",
        baseline, from, to, of_blocks ? "GLOB" : "NOT GLOB",
        of_blocks ? "(run_mean - base_mean) * run_count" : "score");
    *out = hop;
    return code;
}

/* ---------------------------------------------------------------- pauses */

static void take_limit(struct demo *d, const struct value *row)
{
    double ms = demo_number(row[0]) / 1e6 * PAUSE_TIMES;
    d->found.pause_ms = ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : (uint64_t)ms;
}

static void take_share(struct demo *d, const struct value *row)
{
    struct demo_findings *f = &d->found;
    bool is_paused = demo_number(row[0]) != 0;
    *(is_paused ? &f->paused_s : &f->other_s) = demo_number(row[1]);
    *(is_paused ? &f->paused_retransmits : &f->other_retransmits) = (uint64_t)demo_number(row[2]);
}

static void take_longest(struct demo *d, const struct value *row)
{
    d->found.pauses = (uint64_t)demo_number(row[0]);
    d->found.pause = (struct demo_range){row[1].i, row[2].i};
}

/* The silences of each stream of the worst server. */
static void add_pauses(const struct demo *d, struct strbuf *out)
{
    struct demo_range r = d->found.run;
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
    from[clock_print_iso(from, r.from_ns)] = 0;
    to[clock_print_iso(to, r.to_ns)] = 0;
    strbuf_printf(out,
                  "WITH silence AS (SELECT stream, time AS till, lag(time) OVER (PARTITION BY stream ORDER "
                  "BY time) AS since\n"
                  "  FROM block_receive WHERE server = '%s' AND time BETWEEN at('%s') AND at('%s')),\n"
                  "pause AS MATERIALIZED (SELECT * FROM silence WHERE till - since > duration('%" PRIu64
                  "ms'))",
                  d->found.bad_server, from, to, d->found.pause_ms);
}

void demo_pause_query(const struct demo *d, struct strbuf *out)
{
    struct demo_range r = d->found.run;
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
    from[clock_print_iso(from, r.from_ns)] = 0;
    to[clock_print_iso(to, r.to_ns)] = 0;
    add_pauses(d, out);
    strbuf_printf(
        out,
        ",\nsample AS (SELECT time AS till, lag(time) OVER (ORDER BY time) AS since,\n"
        "    retransmits - lag(retransmits) OVER (ORDER BY time) AS again\n"
        "  FROM tcp WHERE host = '%s' AND time BETWEEN at('%s') AND at('%s'))\n"
        "SELECT EXISTS (SELECT 1 FROM pause AS p WHERE p.since < s.till AND p.till > s.since) AS in_pause,\n"
        "  round(sum(till - since) / 1e9, 2) AS seconds, sum(again) AS retransmits,\n"
        "  round(sum(again) * 1e9 / sum(till - since), 1) AS per_second\n"
        "FROM sample AS s WHERE since IS NOT NULL GROUP BY in_pause",
        d->found.bad_server, from, to);
}

int demo_find_pauses(struct demo *d)
{
    struct demo_range b = d->found.base;
    struct strbuf query = {0};
    int code = demo_ask(d, take_limit, 1,
                        "SELECT percentile(till - since, 99.5) FROM (SELECT time AS till, lag(time) OVER "
                        "(PARTITION BY server, "
                        "stream ORDER BY time) AS since FROM block_receive WHERE " WITHIN
                        ") WHERE since IS NOT NULL",
                        WITHIN_ARGS(b));
    demo_pause_query(d, &query);
    if (code == EXIT_OK)
        code = demo_ask(d, take_share, 4, "%s", query.p);
    strbuf_reset(&query);
    add_pauses(d, &query);
    strbuf_add_str(&query,
                   " SELECT count(*) OVER (), since, till FROM pause ORDER BY till - since DESC LIMIT 1");
    if (code == EXIT_OK)
        code = demo_ask(d, take_longest, 3, "%s", query.p);
    strbuf_fini(&query);
    return code;
}

static void take_sockets(struct demo *d, const struct value *row)
{
    d->found.one_mbit = demo_number(row[0]);
    d->found.three_mbit = demo_number(row[1]);
}

int demo_find_sockets(struct demo *d, struct demo_range one)
{
    const char *server = d->found.bad_server;
    return demo_ask(
        d, take_sockets, 2,
        "SELECT (SELECT avg(mbit_s) FROM transfer_end WHERE streams = 1 AND server = '%s' AND " WITHIN
        "), (SELECT avg(mbit_s) FROM transfer_end WHERE streams = 3 AND server = '%s' AND " WITHIN ")",
        server, WITHIN_ARGS(one), server, WITHIN_ARGS(d->found.run));
}

static void take_counts(struct demo *d, const struct value *row)
{
    d->found.events = (uint64_t)demo_number(row[0]);
    d->found.lost = (uint64_t)demo_number(row[1]);
}

int demo_find_counts(struct demo *d)
{
    return demo_ask(d, take_counts, 2, "SELECT sum(passed), sum(lost) FROM ledger");
}

double demo_rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

enum demo_cause demo_cause(const struct demo_findings *f)
{
    double in = demo_rate(f->paused_retransmits, f->paused_s),
           out = demo_rate(f->other_retransmits, f->other_s);
    return f->pauses == 0 ? DEMO_NO_PAUSE : in > 1 && in > 2 * out ? DEMO_NETWORK : DEMO_STANDSTILL;
}

/* ---------------------------------------------------------------- for a program */

static void add_float(struct args_writer *row, const char *name, double v)
{
    args_add(row, slice_str(name), value_float(v));
}

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

static void add_hop(struct args_writer *row, const char *prefix, const struct demo_hop *h)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%shop_from", prefix);
    args_add_text(row, name, slice_str(h->from));
    (void)snprintf(name, sizeof name, "%shop_to", prefix);
    args_add_text(row, name, slice_str(h->to));
    (void)snprintf(name, sizeof name, "%shop_baseline_ms", prefix);
    add_float(row, name, h->base_ms);
    (void)snprintf(name, sizeof name, "%shop_ms", prefix);
    add_float(row, name, h->run_ms);
    (void)snprintf(name, sizeof name, "%shop_score", prefix);
    add_float(row, name, h->score);
}

static void add_findings(struct demo *d, struct args_writer *row)
{
    static const char *const causes[] = {
        [DEMO_NO_PAUSE] = "none", [DEMO_NETWORK] = "network", [DEMO_STANDSTILL] = "server"};
    const struct demo_findings *f = &d->found;
    args_add(row, SLICE_LIT("namespaces"), value_bool(d->has_net));
    args_add_uint(row, "bursts", d->bursts);
    args_add_uint(row, "slow_stream", (uint64_t)f->slow_stream);
    add_float(row, "slow_stream_ms", f->slow_ms);
    add_float(row, "other_streams_ms", f->other_ms);
    add_time(row, "baseline_from", f->base.from_ns);
    add_time(row, "baseline_to", f->base.to_ns);
    args_add_uint(row, "baseline_transfers", f->base_transfers);
    add_float(row, "baseline_seconds", f->base_seconds);
    add_time(row, "run_from", f->run.from_ns);
    add_time(row, "run_to", f->run.to_ns);
    args_add_uint(row, "run_transfers", f->run_transfers);
    add_float(row, "run_seconds", f->run_seconds);
    args_add_text(row, "server", slice_str(f->bad_server));
    add_float(row, "server_baseline_seconds", f->bad_base_seconds);
    add_float(row, "server_seconds", f->bad_run_seconds);
    args_add_uint(row, "changed_hosts", f->changed_hosts);
    add_float(row, "cpu_baseline", f->cpu_base);
    add_float(row, "cpu", f->cpu_run);
    add_hop(row, "", &f->hop);
    add_hop(row, "block_", &f->block_hop);
    args_add_uint(row, "pause_limit_ms", f->pause_ms);
    args_add_uint(row, "pauses", f->pauses);
    add_time(row, "longest_pause_from", f->pause.from_ns);
    add_time(row, "longest_pause_to", f->pause.to_ns);
    add_float(row, "paused_seconds", f->paused_s);
    add_float(row, "other_seconds", f->other_s);
    args_add_uint(row, "paused_retransmits", f->paused_retransmits);
    args_add_uint(row, "other_retransmits", f->other_retransmits);
    args_add_text(row, "cause", slice_str(causes[demo_cause(f)]));
    add_float(row, "one_stream_mbit_s", f->one_mbit);
    add_float(row, "three_streams_mbit_s", f->three_mbit);
    args_add_uint(row, "events", f->events);
    args_add_uint(row, "lost", f->lost);
    struct strbuf link = {0}, key = {0};
    demo_link(d, &link, &key);
    if (link.n)
        args_add_text(row, "link", strbuf_slice(&link));
    strbuf_fini(&link);
    strbuf_fini(&key);
}

int demo_print_findings(struct demo *d)
{
    struct table_options options = {.event = "demo.findings"};
    struct args_writer row = {0};
    if (!table_format(d->options->format, &options.encoding))
        return EXIT_USAGE;
    struct table *t = table_create(&options);
    if (!t)
        return EXIT_FAILED;
    add_findings(d, &row);
    table_add(t, args_of(&row), SLICE_LIT(""));
    int r = table_finish(t);
    table_destroy(t);
    args_writer_fini(&row);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}
