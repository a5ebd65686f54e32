/* SPDX-License-Identifier: Apache-2.0 */
/* The tour: the end-to-end example of the survey of grid monitoring (Tierney and others), step by step. Each
 * command that is shown is run, each figure is what it printed. */
#include "base/clock.h"
#include "cmd/demo.h"
#include "cmd/say.h"
#include "cmd/site_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { STREAMS = 3, WAIT_S = 60, LOOK_MS = 200, MARGIN_MS = 300 };

struct range_text {
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
};

static struct range_text text_of(struct demo_range r)
{
    struct range_text t;
    t.from[clock_print_iso(t.from, r.from_ns)] = 0;
    t.to[clock_print_iso(t.to, r.to_ns)] = 0;
    return t;
}

/* Whole microseconds: shorter to read. */
static int64_t now_ns(void)
{
    return clock_utc_ns() / 1000 * 1000;
}

static int64_t rows_seen;

static void take_rows(struct demo *d, const struct value *row)
{
    (void)d;
    rows_seen = (int64_t)demo_number(row[0]);
}

/* Until the query gives so much. */
static int wait_until(struct demo *d, int64_t least, const char *what, const char *query)
{
    int64_t until = clock_mono_ns() + WAIT_S * NS_PER_S;
    for (;;) {
        rows_seen = 0;
        int code = demo_ask(d, take_rows, 1, "%s", query);
        if (code != EXIT_OK || rows_seen >= least)
            return code;
        if (clock_mono_ns() > until) {
            say("%s: not within %d s", what, WAIT_S);
            return EXIT_FAILED;
        }
        code = demo_wait(d, LOOK_MS * INT64_C(1000000));
        if (code != EXIT_OK)
            return code;
    }
}

static int wait_for_hosts(struct demo *d)
{
    char query[200];
    (void)snprintf(query, sizeof query, "SELECT count(*) FROM workers WHERE state = 'live' AND sensors > 0");
    return wait_until(d, DEMO_HOSTS + 1, "the agents have no leases", query);
}

/* All servers and the client tell of blocks again: activation takes up to a second. */
static int wait_for_blocks(struct demo *d)
{
    char query[400];
    int code = wait_until(d, 2, "no events of blocks",
                          "SELECT count(*) FROM tables WHERE event IN ('block.send', 'block.write')");
    (void)snprintf(query, sizeof query,
                   "SELECT (SELECT count(DISTINCT host) FROM block_send WHERE time > %" PRId64
                   ") + (SELECT count(DISTINCT host) "
                   "FROM block_write WHERE time > %" PRId64 ")",
                   now_ns(), now_ns());
    return code == EXIT_OK ? wait_until(d, DEMO_SERVERS + 1, "not all tell of their blocks", query) : code;
}

/* A stretch of load. What was sent in it is to be there when it is asked for. */
static int pass(struct demo *d, int64_t ns, struct demo_range *out)
{
    out->from_ns = now_ns();
    int code = demo_wait(d, ns);
    out->to_ns = now_ns();
    if (code != EXIT_OK)
        return code;
    char query[160];
    (void)snprintf(query, sizeof query, "SELECT count(*) FROM transfer_request WHERE time > %" PRId64,
                   out->to_ns);
    return wait_until(d, 1, "no transfer begins", query);
}

/* ---------------------------------------------------------------- the steps */

/* A baseline, and from when to when. */
#define HOPS                                                                                                 \
    "SELECT event, next, base_count, run_count, round(base_mean * 1e3, 2) AS base_ms, round(run_mean * "     \
    "1e3, 2) AS now_ms,\n"                                                                                   \
    "  round(base_p95 * 1e3, 2) AS base_p95, round(run_p95 * 1e3, 2) AS now_p95, round(score, 1) AS score\n" \
    "  FROM deviations('%s', '%s', '%s', 0) WHERE kind = 'hop' ORDER BY score DESC"

static int show_grid(struct demo *d)
{
    if (!d->is_quiet)
        (void)printf("gridline demo: a bulk transfer service that gets slow, and how one finds out why\n");
    demo_say(d,
             "A client asks a scheduler for files, and is sent to one of %d servers, which sends the file "
             "over three "
             "streams at once. They are real processes that read real files and speak TCP, %s. Each host has "
             "an agent; a "
             "gateway takes their events into its archive; a guard looks on. What follows can be typed in "
             "another terminal, "
             "with",
             DEMO_SERVERS,
             d->has_net ? "each host in a network namespace of its own" : "all in this host's network");
    if (!d->is_quiet)
        (void)printf("\n%*sG=%s\n", 5, "", d->socket.p);
    return DEMO_RUN(d, 12, "hosts");
}

/* Where the time of a block goes, stream by stream. The names sort in the order of its life. */
static int show_streams(struct demo *d, struct demo_range r)
{
    struct range_text t = text_of(r);
    return demo_sql(
        d, 8,
        "WITH life AS (SELECT id, stream, time, '0 read' AS until FROM block_read\n"
        "  UNION ALL SELECT id, stream, time, '1 sent' FROM block_send\n"
        "  UNION ALL SELECT id, stream, time, '2 first bytes there' FROM block_header\n"
        "  UNION ALL SELECT id, stream, time, '3 received' FROM block_receive\n"
        "  UNION ALL SELECT id, stream, time, '4 written' FROM block_write),\n"
        "hop AS (SELECT until, stream, (time - lag(time) OVER (PARTITION BY id ORDER BY until)) / 1e6 AS ms\n"
        "  FROM life WHERE time BETWEEN at('%s') AND at('%s'))\n"
        "SELECT until, count(ms) AS blocks, round(percentile(ms, 95) FILTER (WHERE stream = 0), 2) AS "
        "stream_0_ms,\n"
        "  round(percentile(ms, 95) FILTER (WHERE stream = 1), 2) AS stream_1_ms,\n"
        "  round(percentile(ms, 95) FILTER (WHERE stream = 2), 2) AS stream_2_ms FROM hop WHERE ms IS NOT "
        "NULL GROUP BY until",
        t.from, t.to);
}

static int debug_streams(struct demo *d)
{
    struct demo_findings *f = &d->found;
    int code = demo_step(d, 1, "Three parallel streams, debugged by their lifelines");
    demo_say(d, "The client is new. Its three streams should be equally fast. Events of single blocks are "
                "thousands a second and "
                "off by default; now they are wanted:");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 12, "activate", "block.*", "debug");
    if (code == EXIT_OK)
        code = demo_grid_load(d, 1, STREAMS, true);
    if (code == EXIT_OK)
        code = wait_for_blocks(d);
    if (code == EXIT_OK)
        code = pass(d, d->options->duration_ns / 2, &f->debug);
    if (code == EXIT_OK)
        code = demo_find_stream(d);
    if (code != EXIT_OK)
        return code;
    demo_say(d, "Each block leaves five events with its id: before it is read, when it is sent, when its "
                "first bytes arrive, when "
                "all of it has, when it is written. The times between them, stream by stream (95 of 100 "
                "blocks take no longer):");
    code = show_streams(d, f->debug);
    demo_say(d,
             "All three should always be active. But stream %" PRId64
             " stands still while the others run: from send to receive it needs up to "
             "%.0f ms for a block, they need %.0f ms. (It was given a receive buffer of 2048 bytes instead "
             "of 262144: with a queue on the "
             "way it gets next to nothing.) The client is started again with that corrected.",
             f->slow_stream, f->slow_ms, f->other_ms);
    return code;
}

static int show_transfers(struct demo *d, struct demo_range r)
{
    struct range_text t = text_of(r);
    return demo_sql(d, 8,
                    "SELECT server, count(*) AS transfers, round(avg(seconds), 2) AS seconds, "
                    "round(max(seconds), 2) AS slowest,\n"
                    "  round(avg(mbit_s), 1) AS mbit_s FROM transfer_end WHERE time BETWEEN at('%s') AND "
                    "at('%s') GROUP BY server",
                    t.from, t.to);
}

static int record_baseline(struct demo *d)
{
    struct demo_findings *f = &d->found;
    int code = demo_step(d, 2, "A baseline");
    demo_say(d, "What is it like when all is well? For that TCP is to be watched too, ten times a second. "
                "What that costs is "
                "said before:");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 12, "sensor", "start", "tcp", "server*", "every=100ms");
    if (code == EXIT_OK)
        code = demo_grid_unload(d);
    if (code == EXIT_OK)
        code = demo_grid_load(d, 100001, STREAMS, false);
    if (code == EXIT_OK)
        code = wait_for_blocks(d);
    if (code == EXIT_OK)
        code = pass(d, d->options->duration_ns, &f->base);
    if (code == EXIT_OK)
        code = demo_find_speed(d, f->base, &f->base_transfers, &f->base_seconds);
    if (code != EXIT_OK)
        return code;
    struct range_text t = text_of(f->base);
    demo_say(d, "The last %.0f seconds get a name:", (double)(f->base.to_ns - f->base.from_ns) / 1e9);
    code = DEMO_RUN(d, 6, "baseline", "add", "good", "--from", t.from, "--to", t.to, "--label",
                    "the streams are debugged");
    if (code == EXIT_OK)
        code = show_transfers(d, f->base);
    demo_say(d, "And the streams, asked for as before:");
    d->hides_commands = true;
    if (code == EXIT_OK)
        code = show_streams(d, f->base);
    d->hides_commands = false;
    return code;
}

static int degrade(struct demo *d)
{
    struct demo_range r;
    int code = demo_step(d, 3, "In production, the service gets slow");
    demo_say(
        d,
        "The service goes on; events of blocks and the TCP sensors are switched off, as nobody needs them.");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 0, "activate", "block.*", "default");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 0, "sensor", "stop", "tcp", "server*");
    if (code == EXIT_OK)
        code = demo_net_degrade(d);
    if (code == EXIT_OK)
        code = pass(d, d->options->duration_ns, &r);
    if (code != EXIT_OK)
        return code;
    demo_say(d,
             "Users complain. What every transfer tells all the time says that they are right, and no more:");
    return show_transfers(d, r);
}

static int find_sensors(struct demo *d)
{
    int code = demo_step(d, 4, "Sensors found, missing ones started, instrumentation activated");
    demo_say(d, "What is there that could tell more? The directory knows:");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 8, "sensors", "--event", "tcp", "--host", "server*");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 12, "sensor", "start", "tcp", "server*", "every=100ms");
    if (code == EXIT_OK)
        code = DEMO_RUN(d, 0, "activate", "block.*", "debug");
    if (code == EXIT_OK)
        code = wait_for_blocks(d);
    if (code == EXIT_OK)
        code = pass(d, d->options->duration_ns * 3 / 2, &d->found.run);
    return code;
}

/* A baseline of its own for what has to do with one server, of the same time. */
static int compare_server(struct demo *d, struct range_text run)
{
    struct demo_findings *f = &d->found;
    struct range_text base = text_of(f->base);
    char name[64], where[64];
    (void)snprintf(name, sizeof name, "good-%s", f->bad_server);
    (void)snprintf(where, sizeof where, "server = '%s'", f->bad_server);
    if (f->hop.from[0])
        demo_say(d, "What deviates most in the life of a transfer is the time from %s to %s.", f->hop.from,
                 f->hop.to);
    demo_say(d,
             "It is not the same for all servers: transfers from %s took %.2f s, and take %.2f s now. So "
             "once more, for "
             "its blocks alone:",
             f->bad_server, f->bad_base_seconds, f->bad_run_seconds);
    int code =
        DEMO_RUN(d, 2, "baseline", "add", name, "--from", base.from, "--to", base.to, "--where", where);
    if (code == EXIT_OK)
        code = demo_find_hop(d, name, true, &f->block_hop);
    if (code == EXIT_OK)
        code = demo_sql(d, 10, HOPS, name, run.from, run.to);
    return code;
}

static int compare(struct demo *d)
{
    struct demo_findings *f = &d->found;
    struct range_text t = text_of(f->run);
    int code = demo_step(d, 5, "Compared with the baseline");
    if (code == EXIT_OK)
        code = demo_find_speed(d, f->run, &f->run_transfers, &f->run_seconds);
    if (code == EXIT_OK)
        code = demo_find_server(d);
    if (code == EXIT_OK)
        code = demo_find_hardware(d);
    if (code == EXIT_OK)
        code = demo_find_hop(d, "good", false, &f->hop);
    if (code != EXIT_OK)
        return code;
    demo_say(d, "Hardware and system first: is any host another than it was?");
    code = demo_sql(d, 8,
                    "SELECT host, count(DISTINCT printf('%%s %%s %%s %%s %%s', cpu_model, threads, memory, "
                    "kernel, boot_id)) AS "
                    "variants,\n"
                    "  cpu_model, threads, memory >> 20 AS mib, kernel FROM host\n"
                    "  WHERE time >= (SELECT from_time FROM baselines WHERE name = 'good') GROUP BY host");
    demo_say(d, "Then what the machine does (it is one machine, so one host is enough):");
    if (code == EXIT_OK)
        code = demo_sql(
            d, 6,
            "SELECT event, field, round(base_mean, 2) AS base, round(run_mean, 2) AS now, unit, round(score, "
            "1) AS score\n"
            "  FROM deviations('good', '%s', '%s', 0) WHERE host = '%s'\n"
            "  AND event = 'vector' AND field IN ('cpu_user', 'cpu_system', 'run_queue', 'memory_available', "
            "'disk_time')",
            t.from, t.to, host_name());
    demo_say(d, "Then the hops of all lifelines, of transfers and of blocks:");
    if (code == EXIT_OK)
        code = demo_sql(d, 10, HOPS, "good", t.from, t.to);
    if (code == EXIT_OK)
        code = compare_server(d, t);
    demo_say(d, "And what TCP says on each server:");
    if (code == EXIT_OK)
        code = demo_sql(d, 10,
                        "SELECT host, field, round(base_mean, 2) AS base_per_s, round(run_mean, 2) AS "
                        "now_per_s, round(score, 1) AS "
                        "score\n"
                        "  FROM deviations('good', '%s', '%s') WHERE event = 'tcp'\n"
                        "  AND field IN ('retransmits', 'timeouts', 'lost_retransmits', 'out_segments') "
                        "ORDER BY host, field",
                        t.from, t.to);
    return code;
}

/* MATISSE's question: there, four sockets got 30 Mbit/s and one got 140. */
static int compare_sockets(struct demo *d)
{
    struct demo_range r;
    demo_say(d, "Or is it the number of sockets? (So it was in the MATISSE project: 30 Mbit/s by four, 140 "
                "by one.) The same over one stream:");
    int code = demo_grid_unload(d);
    if (code == EXIT_OK)
        code = demo_grid_load(d, 200001, 1, false);
    if (code == EXIT_OK)
        code = pass(d, d->options->duration_ns, &r);
    if (code == EXIT_OK)
        code = demo_find_sockets(d, r);
    if (code != EXIT_OK)
        return code;
    struct range_text t = text_of((struct demo_range){d->found.run.from_ns, r.to_ns});
    return demo_sql(d, 8,
                    "SELECT server, streams, count(*) AS transfers, round(avg(mbit_s), 1) AS mbit_s, "
                    "round(max(seconds), 2) AS slowest\n"
                    "  FROM transfer_end WHERE time BETWEEN at('%s') AND at('%s') GROUP BY server, streams",
                    t.from, t.to);
}

static int line_up(struct demo *d)
{
    struct strbuf query = {0};
    int code = demo_step(d, 6, "The pauses, and what they line up with");
    if (code == EXIT_OK)
        code = demo_find_pauses(d);
    demo_say(
        d,
        "%s has the slow transfers. A stream from which nothing comes for %" PRIu64
        " ms pauses (three times what is "
        "usual in the baseline, within 150 and 250 ms). Are TCP's retransmits in the pauses, or anywhere?",
        d->found.bad_server, d->found.pause_ms);
    demo_pause_query(d, &query);
    if (code == EXIT_OK)
        code = demo_sql(d, 4, "%s", query.p);
    strbuf_fini(&query);
    if (code == EXIT_OK)
        code = demo_show_link(d);
    return code == EXIT_OK ? compare_sockets(d) : code;
}

/* The one paragraph that all was for. */
static void add_conclusion(const struct demo_findings *f, struct strbuf *out)
{
    static const char *const causes[] = {
        [DEMO_NO_PAUSE] = "There was no pause.",
        [DEMO_NETWORK] = "The pauses are where TCP had to send again: its way to the client loses packets.",
        [DEMO_STANDSTILL] = "The pauses are not where TCP had to send again: it is the server itself.",
    };
    strbuf_printf(out,
                  "Transfers took %.2f s on average in the baseline and take %.2f s now; those from %s %.2f "
                  "s and %.2f s. ",
                  f->base_seconds, f->run_seconds, f->bad_server, f->bad_base_seconds, f->bad_run_seconds);
    strbuf_printf(out, "%s. The processor was %.0f %% busy and is %.0f %% busy now. ",
                  f->changed_hosts ? "Hardware or system of a host has changed"
                                   : "Hardware and system are what they were",
                  f->cpu_base, f->cpu_run);
    if (f->hop.from[0]) /* none, if all transfers together are no slower */
        strbuf_printf(
            out,
            "What deviates most in the life of a transfer is the time from %s to %s (%.0f ms, %.0f ms now). ",
            f->hop.from, f->hop.to, f->hop.base_ms, f->hop.run_ms);
    if (f->block_hop.from[0])
        strbuf_printf(out, "A block from %s loses most from %s to %s (%.1f ms, %.1f ms now). ", f->bad_server,
                      f->block_hop.from, f->block_hop.to, f->block_hop.base_ms, f->block_hop.run_ms);
    strbuf_printf(out,
                  "In %.1f s of pauses (%" PRIu64 ", the longest %.2f s) it sent %" PRIu64
                  " segments again, %.1f a second; ",
                  f->paused_s, f->pauses, (double)(f->pause.to_ns - f->pause.from_ns) / 1e9,
                  f->paused_retransmits, demo_rate(f->paused_retransmits, f->paused_s));
    strbuf_printf(out, "in the other %.1f s %" PRIu64 ", %.1f a second. ", f->other_s, f->other_retransmits,
                  demo_rate(f->other_retransmits, f->other_s));
    strbuf_printf(out, "By one stream instead of three it sends %.0f Mbit/s instead of %.0f. %s", f->one_mbit,
                  f->three_mbit, causes[demo_cause(f)]);
}

static int conclude(struct demo *d)
{
    struct strbuf text = {0};
    int code = demo_step(d, 7, "What it found");
    if (code == EXIT_OK)
        code = demo_find_counts(d);
    add_conclusion(&d->found, &text);
    demo_say(d, "%s", strbuf_slice(&text).p);
    demo_say(d,
             "All of this came from %" PRIu64 " events in the archive; %" PRIu64
             " were lost on their way there.",
             d->found.events, d->found.lost);
    strbuf_fini(&text);
    return code;
}

int demo_tell(struct demo *d)
{
    static int (*const steps[])(struct demo * d) = {
        show_grid, debug_streams, record_baseline, degrade, find_sensors, compare, line_up, conclude,
    };
    int code = wait_for_hosts(d);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && code == EXIT_OK; i++)
        code = steps[i](d);
    return code;
}
