/* SPDX-License-Identifier: Apache-2.0 */
/* gridline doctor: what is wrong here, and what to do about it. Each check looks at one thing with what there
 * is, gives one finding or several, and goes on: nothing that is missing ends the others. */
#include "agent/config.h"
#include "base/clock.h"
#include "base/map.h"
#include "cmd/file.h"
#include "cmd/question.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "gateway/config.h"
#include "net/dial.h"
#include "net/secure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

enum {
    DESCRIPTORS_LOW = 1024,
    LOSS_PERCENT = 1,     /* of datagrams */
    FREE_LOW_PERCENT = 5, /* of a file system */
    ACCOUNTS_MAX = 50000, /* of a larger ledger not every account is looked at */
    NAMED_MAX = 5         /* hosts named in one finding */
};

enum result { RESULT_OK, RESULT_WARNING, RESULT_PROBLEM, RESULT_SKIPPED };

struct doctor_options {
    struct question_options question;
    const char *config;
};

/* Hosts that have something in common: how many, and the first few by name. */
struct group {
    uint64_t n;
    struct strbuf names;
};

struct doctor {
    const struct doctor_options *options;
    struct table_options table_options;
    struct table *table;                   /* NULL: lines for a person */
    struct agent_config *config;           /* NULL: it can't be used */
    struct gateway_config *gateway_config; /* NULL: none is to run here, or it can't be used */
    struct strbuf gateway;                 /* the address that is asked */
    struct ask *ask;                       /* NULL: none answers */
    size_t results[RESULT_SKIPPED + 1];
    /* Of the rows of hosts and sensors: */
    uint64_t workers, sent, lost;
    struct group late, expired, streaming, failing, crowded;
    uint64_t sensors, dropped_streams;
    struct strbuf mixed; /* "EVENT FIELD" of each that was told of, a line each: versions of a schema have the same */
};

/* For a person: what is found, and on a line of its own what to do. */
static void print_finding(const char *result, const char *check, const char *text, const char *next)
{
    struct strbuf out = {0};
    strbuf_printf(&out, "%-7s  %s: ", result, check);
    table_add_value(&out, value_text(slice_str(text)));
    strbuf_printf(&out, "%s%s\n", next[0] ? "\n         next: " : "", next);
    (void)file_write_all(STDOUT_FILENO, strbuf_slice(&out)); /* the exit code says the same */
    strbuf_fini(&out);
}

static void find(struct doctor *d, enum result result, const char *check, const char *next,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
static void find(struct doctor *d, enum result result, const char *check, const char *next,
                 const char *format, ...)
{
    static const char *const words[] = {"ok", "warning", "problem", "skipped"};
    struct args_writer row = {0};
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    d->results[result]++;
    if (!d->table) {
        print_finding(words[result], check, text, next);
        return;
    }
    args_add_text(&row, "result", slice_str(words[result]));
    args_add_text(&row, "check", slice_str(check));
    args_add_text(&row, "finding", slice_of(text, length));
    if (next[0])
        args_add_text(&row, "next", slice_str(next));
    table_add(d->table, args_of(&row), (struct slice){"", 0});
    args_writer_fini(&row);
}

static void group_add(struct group *g, struct slice host)
{
    g->n++;
    if (g->n <= NAMED_MAX)
        strbuf_printf(&g->names, "%s%.*s", g->n > 1 ? ", " : "", SLICE_ARG(host));
    else if (g->n == NAMED_MAX + 1)
        strbuf_add_str(&g->names, ", ...");
}

/* ---------------------------------------------------------------- this host */

static void check_config(struct doctor *d)
{
    const char *file = d->options->config ? d->options->config : CONFIG_FILE;
    struct config_flags flags = {.file = d->options->config};
    struct diag why = {0};
    if (config_load(&flags, &d->config, &why) < 0) {
        find(d, RESULT_PROBLEM, "configuration", "`gridline config check` lists everything that is wrong",
             "%s", why.message);
        return;
    }
    size_t running = 0;
    for (size_t i = 0; i < d->config->n_sensors; i++)
        running += d->config->sensors[i].mode != MODE_OFF;
    find(d, RESULT_OK, "configuration", "", "%s%s; %zu sensors", file,
         access(file, F_OK) == 0 ? ": no problem" : " is not there: defaults", running);
}

/* Where there is a file for a gateway, one is meant to run here. */
static void check_gateway_config(struct doctor *d)
{
    struct config_flags flags = {0};
    struct diag why = {0};
    if (access(GATEWAY_CONFIG_FILE, F_OK) < 0)
        return;
    if (gateway_config_load(&flags, &d->gateway_config, &why) < 0)
        find(d, RESULT_PROBLEM, "gateway configuration", "put it right and restart the gateway", "%s",
             why.message);
    else
        find(d, RESULT_OK, "gateway configuration", "", "%s: no problem", GATEWAY_CONFIG_FILE);
}

static void check_descriptors(struct doctor *d)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        find(d, RESULT_SKIPPED, "descriptors", "", "%s", err_text(-errno));
    else if (limit.rlim_max < DESCRIPTORS_LOW)
        find(d, RESULT_WARNING, "descriptors",
             "raise it (ulimit -Hn, LimitNOFILE=): a gateway needs one a worker",
             "programs started from here may open at most %" PRIu64 " files", (uint64_t)limit.rlim_max);
    else
        find(d, RESULT_OK, "descriptors", "", "up to %" PRIu64 " open files", (uint64_t)limit.rlim_max);
}

static void check_kernel_clock(struct doctor *d)
{
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);
    if (state < 0)
        find(d, RESULT_SKIPPED, "kernel clock", "", "%s", err_text(-errno));
    else if (state == TIME_ERROR || (t.status & STA_UNSYNC))
        find(d, RESULT_WARNING, "kernel clock",
             "run chrony or another NTP client; agents of a gateway correct their times anyway",
             "nobody synchronises this host's clock");
    else
        find(d, RESULT_OK, "kernel clock", "", "synchronised within %ld ms", t.maxerror / 1000);
}

/* The folder that is there, of path or above it. */
static bool nearest_folder(const char *path, struct strbuf *out)
{
    strbuf_reset(out);
    strbuf_add_str(out, path);
    while (!strbuf_failed(out) && out->n > 1 && access(out->p, F_OK) < 0 && errno == ENOENT) {
        while (out->n > 1 && out->p[out->n - 1] != '/')
            out->n--;
        while (out->n > 1 && out->p[out->n - 1] == '/')
            out->n--;
        out->p[out->n] = '\0';
    }
    return !strbuf_failed(out) && out->n > 0;
}

static void check_folder(struct doctor *d, const char *check, const char *path, uint64_t wanted)
{
    struct strbuf folder = {0};
    struct statvfs fs;
    struct stat st;
    if (!path || !path[0]) {
        find(d, RESULT_OK, check, "", "none is configured");
        return;
    }
    if (!nearest_folder(path, &folder) || stat(folder.p, &st) < 0 || statvfs(folder.p, &fs) < 0) {
        find(d, RESULT_PROBLEM, check, "make the folder, or name another one", "%s: %s", path,
             err_text(-errno));
        strbuf_fini(&folder);
        return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize, all = (uint64_t)fs.f_blocks * fs.f_frsize;
    bool is_low = free_bytes < wanted || free_bytes < all / 100 * FREE_LOW_PERCENT;
    if (access(folder.p, W_OK) < 0 && st.st_uid != geteuid())
        find(d, RESULT_SKIPPED, check, "run this as the user whose agent it is", "%s belongs to user %u",
             folder.p, (unsigned)st.st_uid);
    else if (access(folder.p, W_OK) < 0)
        find(d, RESULT_PROBLEM, check, "give it back its rights, or name another folder", "%s: %s", folder.p,
             err_text(-errno));
    else if (is_low)
        find(d, RESULT_WARNING, check, "make room: events that wait for a gateway are kept there",
             "%s: %" PRIu64 " MiB free, %" PRIu64 " MiB may be needed", folder.p, free_bytes >> 20,
             wanted >> 20);
    else
        find(d, RESULT_OK, check, "", "%s: writable, %" PRIu64 " MiB free", folder.p, free_bytes >> 20);
    strbuf_fini(&folder);
}

/* An identity folder: is the certificate there, and is there time to renew it? Renewing begins at two thirds
 * of its life, so one that is older was not renewed. */
static void check_certificate(struct doctor *d, const char *dir)
{
    struct diag why = {0};
    struct strbuf file = {0};
    struct secure *identity;
    strbuf_printf(&file, "%s/cert.pem", dir);
    int missing = strbuf_failed(&file) ? ENOMEM : access(file.p, R_OK) < 0 ? errno : 0;
    strbuf_fini(&file);
    if (missing) {
        bool is_none = missing == ENOENT || missing == ENOTDIR;
        find(d, is_none ? RESULT_OK : RESULT_SKIPPED, "certificate", "", "%s: %s", dir,
             is_none ? "none; only connections on this host work without" : err_text(-missing));
        return;
    }
    const struct secure_ops *ops = secure_load(&why);
    if (!ops || ops->open(dir, "", &identity, &why) < 0) {
        find(d, RESULT_PROBLEM, "certificate", "`gridline join` gets a new one with a token", "%s: %s", dir,
             why.message);
        return;
    }
    char at[CLOCK_TEXT_MAX];
    int64_t renew_at_ns = ops->renew_at_ns(identity);
    size_t n = clock_print_iso(at, renew_at_ns);
    if (renew_at_ns <= clock_utc_ns())
        find(d, RESULT_WARNING, "certificate",
             "is the agent running and connected? It renews its certificate by itself",
             "%s: should have been renewed at %.*s: less than a third of its life is left", dir, (int)n, at);
    else
        find(d, RESULT_OK, "certificate", "", "%s: good, will be renewed at %.*s", dir, (int)n, at);
    ops->close(identity);
}

static void check_identities(struct doctor *d)
{
    struct strbuf own = {0};
    if (d->options->question.identity)
        strbuf_add_str(&own, d->options->question.identity);
    else
        dial_default_identity(&own);
    if (own.n)
        check_certificate(d, own.p);
    strbuf_fini(&own);
    if (d->config && d->config->identity && d->config->identity[0])
        check_certificate(d, d->config->identity);
    if (d->gateway_config && d->gateway_config->identity && d->gateway_config->identity[0])
        check_certificate(d, d->gateway_config->identity);
}

/* ---------------------------------------------------------------- the gateway */

/* --gateway; else this host's own if its socket is there; else the first that the agent is configured with.
 */
static void choose_gateway(struct doctor *d)
{
    if (d->options->question.gateway) {
        strbuf_add_str(&d->gateway, d->options->question.gateway);
        return;
    }
    dial_default_gateway(&d->gateway);
    const char *list = d->config ? d->config->gateways : "";
    if (!list[0] || access(d->gateway.p + sizeof "unix:" - 1, F_OK) == 0)
        return;
    strbuf_reset(&d->gateway);
    strbuf_add(&d->gateway, list, strcspn(list, ","));
}

static bool on_wait(void *arg)
{
    (void)arg; /* nothing to show */
    return stop_asked();
}

static void check_gateway(struct doctor *d)
{
    struct diag why = {0};
    struct ask_clock clock;
    choose_gateway(d);
    const struct ask_options o = {.gateway = d->gateway.p,
                                  .identity = d->options->question.identity,
                                  .prog = "gridline-doctor",
                                  .timeout_ns = d->options->question.timeout_ns,
                                  .on_wait = on_wait};
    if (ask_open(&o, &d->ask, &why) < 0) {
        find(d, RESULT_PROBLEM, "gateway", "start one (`gridline gateway`), or name one with --gateway", "%s",
             why.message);
        return;
    }
    ask_clock(d->ask, &clock);
    find(d, RESULT_OK, "gateway", "", "%s answers within %.3f ms", ask_address(d->ask),
         (double)clock.rtt_ns / 1e6);
    int64_t away = clock.offset_ns < 0 ? -clock.offset_ns : clock.offset_ns;
    if (away - clock.bound_ns > NS_PER_S)
        find(d, RESULT_WARNING, "clock",
             "synchronise both hosts' clocks; agents correct their times by the gateway's",
             "this host's clock is %.3f s %s the gateway's, within %.3f ms", (double)away / 1e9,
             clock.offset_ns < 0 ? "before" : "behind", (double)clock.bound_ns / 1e6);
    else
        find(d, RESULT_OK, "clock", "", "%+.3f ms to the gateway's, within %.3f ms",
             (double)clock.offset_ns / 1e6, (double)clock.bound_ns / 1e6);
}

/* All pages of a verb; has_fields: of its fields. false: said why not. */
static bool ask_all(struct doctor *d, const char *verb, bool has_fields, ask_row row, struct ask_end *end)
{
    struct diag why = {0};
    struct args_writer args = {0};
    struct value after = value_none();
    int r;
    bool is_done;
    do {
        args_writer_reset(&args);
        args_add(&args, SLICE_LIT("after"), after);
        args_add_uint(&args, "timeout_ms", 5000);
        if (has_fields)
            args_add_uint(&args, "fields", 1);
        const struct ask_question q = {
            .verb = slice_str(verb), .args = args_of(&args), .silence_ns = 10 * NS_PER_S};
        r = ask_run(d->ask, &q, row, d, end, &why);
        is_done = r == 0 && (end->status == CONTROL_DONE || end->status == CONTROL_PARTLY);
        after = is_done ? args_value(end->args, "after") : value_none();
    } while (after.type != VALUE_NONE);
    args_writer_fini(&args);
    if (is_done)
        return true;
    find(d, RESULT_SKIPPED, verb,
         r == 0 && end->status == CONTROL_NOT_ALLOWED ? "ask as the gateway's owner or an operator" : "",
         "%.*s", r < 0 ? (int)strlen(why.message) : (int)end->text.n, r < 0 ? why.message : end->text.p);
    return false;
}

static int take_worker(void *arg, const struct frame_answer *row)
{
    struct doctor *d = arg;
    struct slice host = args_text(row->args, "host"), state = args_text(row->args, "state");
    uint64_t sent = args_uint(row->args, "datagrams_sent", 0);
    d->workers++;
    d->sent += sent;
    d->lost += args_uint(row->args, "datagrams_lost", 0);
    if (slice_eq_str(state, "late"))
        group_add(&d->late, host);
    if (slice_eq_str(state, "expired"))
        group_add(&d->expired, host);
    if (sent && slice_eq_str(args_text(row->args, "samples"), "stream"))
        group_add(&d->streaming, host);
    return 0;
}

static void find_loss(struct doctor *d)
{
    if (d->streaming.n)
        find(d, RESULT_WARNING, "datagrams",
             "let UDP to the gateway's port pass; until then samples go over the connection",
             "datagrams of %" PRIu64 " workers do not arrive: %s", d->streaming.n, d->streaming.names.p);
    else if (d->sent == 0)
        find(d, RESULT_OK, "datagrams", "", "no worker has sent any yet");
    else
        find(d, RESULT_OK, "datagrams", "", "they pass from all workers that send any");
    double percent = d->sent ? 100.0 * (double)d->lost / (double)d->sent : 0;
    if (percent > LOSS_PERCENT)
        find(d, RESULT_WARNING, "loss",
             "`gridline hosts --long` has it by worker; look at the network on the way",
             "%" PRIu64 " of %" PRIu64 " datagrams were lost (%.2f%%) since each worker's samples began",
             d->lost, d->sent, percent);
    else
        find(d, RESULT_OK, "loss", "", "%" PRIu64 " of %" PRIu64 " datagrams were lost (%.2f%%)", d->lost,
             d->sent, percent);
}

static void check_workers(struct doctor *d)
{
    struct ask_end end;
    if (!ask_all(d, "hosts", false, take_worker, &end))
        return;
    if (d->late.n)
        find(d, RESULT_WARNING, "workers", "they may be on their way back; `gridline hosts` shows since when",
             "%" PRIu64 " of %" PRIu64 " are late: %s", d->late.n, d->workers, d->late.names.p);
    if (d->expired.n)
        find(d, RESULT_WARNING, "workers",
             "look at these hosts; one that is gone for good is forgotten after a week",
             "%" PRIu64 " of %" PRIu64 " have expired: %s", d->expired.n, d->workers, d->expired.names.p);
    if (d->workers == 0)
        find(d, RESULT_WARNING, "workers", "name this gateway in the agents' configuration (`gateway`)",
             "there are none");
    else if (!d->late.n && !d->expired.n)
        find(d, RESULT_OK, "workers", "", "%" PRIu64 ", none late or expired", d->workers);
    find_loss(d);
}

static int take_nothing(void *arg, const struct frame_answer *row)
{
    (void)arg, (void)row; /* status has no rows */
    return 0;
}

static int take_account(void *arg, const struct frame_answer *row)
{
    struct doctor *d = arg;
    struct slice host = args_text(row->args, "host");
    uint64_t n = args_uint(row->args, "sender_streams", 0) + args_uint(row->args, "archive_overflow", 0);
    if (n == 0)
        return 0;
    d->dropped_streams += args_uint(row->args, "sender_streams", 0);
    group_add(&d->crowded, host.n ? host : args_text(row->args, "producer"));
    return 0;
}

/* Streams above a limit: at agents, in the archive and in the summaries. */
static void check_streams(struct doctor *d, uint64_t accounts, uint64_t left_out)
{
    struct ask_end end;
    if (accounts > ACCOUNTS_MAX || !ask_all(d, "ledger", false, take_account, &end))
        return;
    if (d->crowded.n)
        find(d, RESULT_WARNING, "streams",
             "`gridline ledger --long` says whose (sender_streams, archive_overflow): a key field with ever "
             "new "
             "values, or raise archive.streams",
             "%" PRIu64 " producers have more streams than a limit, %" PRIu64 " samples were dropped: %s",
             d->crowded.n, d->dropped_streams, d->crowded.names.p);
    if (left_out)
        find(d, RESULT_WARNING, "summaries",
             "raise `summary.memory` and `summary.streams`, or choose events by `summary.events`",
             "%" PRIu64 " events are in no summary: there are too many streams", left_out);
    if (!d->crowded.n && !left_out)
        find(d, RESULT_OK, "streams", "", "all are within the limits");
}

/* What the gateway says of itself; numbers that it does not have are not checked. */
static void check_status(struct doctor *d)
{
    struct ask_end end;
    if (!ask_all(d, "status", false, take_nothing, &end))
        return;
    uint64_t bytes = args_uint(end.args, "journal.bytes", 0), max = args_uint(end.args, "journal.max", 0);
    uint64_t forced = args_uint(end.args, "journal.forced", 0);
    uint64_t overflow = args_uint(end.args, "datagrams.overflow", 0);
    uint64_t held = args_uint(end.args, "journal.held", 0);
    if (max && held >= max / 4 * 3)
        find(d, RESULT_PROBLEM, "journal",
             "see why the archive can't write: its log, its disk (`gridline archive stat`)",
             "the archive has not written %" PRIu64 " of its %" PRIu64
             " MiB: samples are dropped, and at the limit events are refused and wait at their senders",
             held >> 20, max >> 20);
    else if (forced)
        find(d, RESULT_WARNING, "journal", "raise its limit (`journal_max`), or look at who reads it",
             "%" PRIu64 " records gave way before everybody had read them", forced);
    else if (max)
        find(d, RESULT_OK, "journal", "", "%" PRIu64 " of %" PRIu64 " MiB are used", bytes >> 20, max >> 20);
    uint64_t lost = args_uint(end.args, "archive.lost_events", 0);
    uint64_t records = args_uint(end.args, "archive.lost_records", 0);
    if (lost || records)
        find(d, RESULT_WARNING, "archive",
             "`gridline sql 'SELECT * FROM archive_lost'` says which and why; they go with its retention",
             "%" PRIu64 " events and %" PRIu64
             " whole records of the journal could not be read: not archived",
             lost, records);
    if (overflow)
        find(d, RESULT_WARNING, "receiving", "raise net.core.rmem_max on the gateway's host",
             "the kernel had no room for %" PRIu64 " datagrams", overflow);
    check_streams(d, args_uint(end.args, "accounts", 0), args_uint(end.args, "summary.left_out", 0));
}

static int take_sensor(void *arg, const struct frame_answer *row)
{
    struct doctor *d = arg;
    struct slice sensor = args_text(row->args, "sensor");
    struct strbuf name = {0};
    if (sensor.n == 0)
        return 0; /* the end of a worker's answer, or how many are asked */
    d->sensors++;
    if (slice_eq_str(args_text(row->args, "state"), "failed")) {
        strbuf_printf(&name, "%.*s on %.*s", SLICE_ARG(sensor), SLICE_ARG(args_text(row->args, "host")));
        group_add(&d->failing, strbuf_slice(&name));
    }
    strbuf_fini(&name);
    return 0;
}

static void check_sensors(struct doctor *d)
{
    struct ask_end end;
    if (d->workers == 0 || !ask_all(d, "sensor.list", false, take_sensor, &end))
        return;
    if (d->failing.n)
        find(d, RESULT_WARNING, "sensors",
             "`gridline sensor list` shows them; the log of each agent says why",
             "%" PRIu64 " of %" PRIu64 " fail: %s", d->failing.n, d->sensors, d->failing.names.p);
    else
        find(d, RESULT_OK, "sensors", "", "%" PRIu64 " answered for, none fails", d->sensors);
}

/* A field that has values of the other class: they are in the column beside it. */
static int take_field(void *arg, const struct frame_answer *row)
{
    struct doctor *d = arg;
    struct slice event = args_text(row->args, "event"), field = args_text(row->args, "field");
    bool is_number = slice_eq_str(args_text(row->args, "class"), "number");
    uint64_t numbers = args_uint(row->args, "numbers", 0);
    uint64_t texts = args_uint(row->args, "texts", 0) + args_uint(row->args, "quoted", 0);
    struct strbuf line = {0};
    if (!is_number || texts == 0 || slice_eq_str(args_text(row->args, "by"), "provisional"))
        return 0; /* a text column has every value */
    strbuf_printf(&line, "%.*s %.*s\n", SLICE_ARG(event), SLICE_ARG(field));
    bool is_told = d->mixed.n && strstr(d->mixed.p, line.p);
    strbuf_add_slice(&d->mixed, strbuf_slice(&line));
    strbuf_fini(&line);
    if (!is_told)
        find(d, RESULT_OK, "classes", "", "%.*s of %.*s: %" PRIu64 " text among %" PRIu64 " numbers; see \"%.*s:text\"",
             SLICE_ARG(field), SLICE_ARG(event), texts, numbers, SLICE_ARG(field));
    return 0;
}

static void check_classes(struct doctor *d)
{
    struct ask_end end;
    if (ask_all(d, "schemas", true, take_field, &end) && d->mixed.n == 0)
        find(d, RESULT_OK, "classes", "", "no number column has text beside it");
}

/* ---------------------------------------------------------------- */

static void doctor_fini(struct doctor *d)
{
    struct group *groups[] = {&d->late, &d->expired, &d->streaming, &d->failing, &d->crowded};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        strbuf_fini(&groups[i]->names);
    strbuf_fini(&d->mixed);
    strbuf_fini(&d->gateway);
    ask_close(d->ask);
    config_destroy(d->config);
    gateway_config_destroy(d->gateway_config);
    table_destroy(d->table);
}

static int doctor_run(void *state, struct operands none)
{
    struct doctor d = {.options = state, .table_options = {.event = "doctor"}};
    (void)none; /* it takes none */
    if (!table_format(d.options->question.format, &d.table_options.encoding))
        return EXIT_USAGE;
    if (d.table_options.encoding) {
        d.table = table_create(&d.table_options);
        if (!d.table)
            return EXIT_FAILED;
    }
    check_config(&d);
    check_gateway_config(&d);
    check_descriptors(&d);
    check_kernel_clock(&d);
    if (d.config)
        check_folder(&d, "state folder", d.config->state_dir, d.config->spool_max);
    if (d.gateway_config)
        check_folder(&d, "journal folder", d.gateway_config->journal, d.gateway_config->journal_max);
    check_identities(&d);
    check_gateway(&d);
    if (d.ask) {
        check_workers(&d);
        check_status(&d);
        check_sensors(&d);
        check_classes(&d);
    }
    int code = d.results[RESULT_PROBLEM] ? EXIT_FAILED : d.results[RESULT_WARNING] ? EXIT_PARTLY : EXIT_OK;
    int r = d.table ? table_finish(d.table) : 0;
    if (r < 0 && r != -EPIPE)
        code = EXIT_FAILED;
    doctor_fini(&d);
    return code;
}

static const struct option_spec table[] = {
    {'c', "config", OPTION_FILE, "FILE", offsetof(struct doctor_options, config),
     "the agent's configuration (default " CONFIG_FILE ")"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline doctor", "What is wrong here?"},
    {"gridline doctor --gateway tls://gate.example.org --format json", "Of another gateway, for a program"},
    {NULL, NULL},
};

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "what is wrong here, and what to do about it",
    .operands = "",
    .description =
        "Looks at the agent's configuration, the limit of open files, the clock, the state folder and its "
        "free space, "
        "certificates, and the gateway: how long it takes to answer, how far its clock is away, its workers, "
        "whether datagrams "
        "arrive, its journal, sensors that fail. Each finding is ok, a warning, a problem, or skipped "
        "because it can't be "
        "seen from here, with what to do next.\n"
        "Without `--gateway` it asks the one on this host, or the first that the agent is configured with.\n"
        "Ends with 1 if there is a problem, with 4 if there are only warnings.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct doctor_options),
    .run = doctor_run,
};
