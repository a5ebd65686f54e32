/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway itself in OpenMetrics text (https://openmetrics.io, 1.0): a table says what each number of the
 * verb `status` is; what is not in the table is there all the same, of type unknown. Families are written
 * whole, one behind the other.
 *
 * Sums over the ledger and the subscriptions are gauges: accounts and subscriptions come and go. Those of a
 * large ledger are kept for LEDGER_KEEP_NS, as a walk over half a million accounts takes tens of
 * milliseconds. */
#include "gateway/api.h"

#include "base/clock.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum kind { COUNTER, GAUGE };

static const struct number {
    const char *status, *name;
    enum kind kind;
    const char *help;
} numbers[] = {
    {"workers", "gridline_workers", GAUGE, "Workers that the gateway knows, in any state."},
    {"accounts", "gridline_ledger_accounts", GAUGE, "Accounts of the ledger."},
    {"accounts_forgotten", "gridline_ledger_accounts_forgotten", COUNTER, "Accounts that were forgotten."},
    {"requests", "gridline_control_requests", GAUGE, "Orders to workers that wait for answers."},
    {"connections.open", "gridline_connections", GAUGE, "Connections of agents, programs and commands."},
    {"connections.accepted", "gridline_connections_accepted", COUNTER, "Connections that were taken."},
    {"connections.turned_away", "gridline_connections_turned_away", COUNTER,
     "Connections that were too many and closed at once."},
    {"connections.silent", "gridline_connections_silent", COUNTER,
     "Connections closed for not saying in time who they are."},
    {"connections.not_allowed", "gridline_connections_not_allowed", COUNTER,
     "Connections closed for what their identity may not do."},
    {"connections.bad_frames", "gridline_connections_bad_frames", COUNTER,
     "Connections closed for a frame that can't be read."},
    {"connections.bad_lines", "gridline_connections_bad_lines", COUNTER, "Lines that could not be read."},
    {"connections.trimmed_events", "gridline_connections_trimmed_events", COUNTER,
     "Events of texts that were taken without fields over a limit."},
    {"connections.trimmed_fields", "gridline_connections_trimmed_fields", COUNTER, "Those fields."},
    {"connections.failed_handshakes", "gridline_connections_failed_handshakes", COUNTER,
     "TLS handshakes that failed."},
    {"workers.unwritten", "gridline_workers_unwritten", GAUGE,
     "Workers whose lease waits to be written to the journal."},
    {"joined", "gridline_joined", COUNTER, "Certificates that were given."},
    {"join_refused", "gridline_join_refused", COUNTER, "Requests for certificates that were refused."},
    {"journal.bytes", "gridline_journal_bytes", GAUGE, "Size of the journal."},
    {"journal.max", "gridline_journal_max_bytes", GAUGE, "Size that the journal may have."},
    {"journal.held", "gridline_journal_held_bytes", GAUGE,
     "Bytes of the journal that the archive has not written yet."},
    {"journal.segments", "gridline_journal_segments", GAUGE, "Files of the journal."},
    {"journal.forced", "gridline_journal_forced_records", COUNTER,
     "Records that gave way before every reader had passed them."},
    {"journal.checkpoints", "gridline_journal_checkpoints", COUNTER, "Checkpoints that were completed."},
    {"journal.checkpoint_faults", "gridline_journal_checkpoint_faults", COUNTER,
     "Checkpoints whose place could not be kept."},
    {"datagrams.received", "gridline_datagrams_received", COUNTER, "Datagrams that came."},
    {"datagrams.bytes", "gridline_datagrams_received_bytes", COUNTER, "Bytes of datagrams that came."},
    {"datagrams.passed", "gridline_datagrams_passed", COUNTER, "Datagrams that were taken."},
    {"datagrams.malformed", "gridline_datagrams_malformed", COUNTER, "Datagrams that can't be read."},
    {"datagrams.unknown", "gridline_datagrams_unknown", COUNTER, "Datagrams of no worker of this gateway."},
    {"datagrams.level", "gridline_datagrams_level", COUNTER, "Datagrams less protected than agreed."},
    {"datagrams.forged", "gridline_datagrams_forged", COUNTER, "Datagrams whose seal is wrong."},
    {"datagrams.replayed", "gridline_datagrams_replayed", COUNTER, "Datagrams that came before."},
    {"datagrams.overflow", "gridline_datagrams_overflow", COUNTER,
     "Datagrams that the kernel had no room for."},
};

/* ---------------------------------------------------------------- families and samples */

static void put_family(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_printf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void put_uint(struct strbuf *out, const char *name, enum kind kind, const char *help, uint64_t n)
{
    put_family(out, name, kind == COUNTER ? "counter" : "gauge", help);
    strbuf_printf(out, "%s%s %" PRIu64 "\n", name, kind == COUNTER ? "_total" : "", n);
}

static void put_float(struct strbuf *out, const char *name, enum kind kind, const char *help, double f)
{
    char text[NUM_TEXT_MAX];
    put_family(out, name, kind == COUNTER ? "counter" : "gauge", help);
    strbuf_printf(out, "%s%s %.*s\n", name, kind == COUNTER ? "_total" : "", (int)num_print_float(text, f),
                  text);
}

/* ---------------------------------------------------------------- status */

struct status {
    struct control_asker asker;
    struct strbuf *out;
    struct strbuf observers; /* samples of one family, put behind the others */
    uint16_t status;
    char text[200];
};

/* observer.NAME.OUTCOME; names are as in text_is_name: nothing to escape but the dots. */
static void put_observer(struct status *s, struct slice name, uint64_t n)
{
    const char *dot = memrchr(name.p, '.', name.n);
    struct slice title = slice_of(name.p + 9, (size_t)(dot - name.p) - 9);
    strbuf_printf(&s->observers, "gridline_observer_events{observer=\"%.*s\",outcome=\"%.*s\"} %" PRIu64 "\n",
                  SLICE_ARG(title), SLICE_ARG(slice_from(name, (size_t)(dot - name.p) + 1)), n);
}

static void put_unknown(struct strbuf *out, struct slice name, uint64_t n)
{
    char metric[ARGS_NAME_MAX + 16];
    int length = snprintf(metric, sizeof metric, "gridline_%.*s", SLICE_ARG(name));
    for (int i = 0; i < length; i++)
        if (!((metric[i] >= 'a' && metric[i] <= 'z') || (metric[i] >= '0' && metric[i] <= '9')))
            metric[i] = '_';
    put_family(out, metric, "unknown", "A number of the verb status.");
    strbuf_printf(out, "%s %" PRIu64 "\n", metric, n);
}

static void put_status(struct status *s, const struct arg *a)
{
    const struct slice observer = SLICE_LIT("observer.");
    if (slice_starts(a->name, observer) && memchr(a->name.p + observer.n, '.', a->name.n - observer.n)) {
        put_observer(s, a->name, a->value.u);
        return;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (slice_eq_str(a->name, numbers[i].status)) {
            put_uint(s->out, numbers[i].name, numbers[i].kind, numbers[i].help, a->value.u);
            return;
        }
    put_unknown(s->out, a->name, a->value.u);
}

static void on_status(struct control_asker *asker, const struct frame_answer *answer)
{
    struct status *s = (struct status *)(void *)asker;
    struct args rest = answer->args;
    struct arg a;
    s->status = answer->status;
    (void)snprintf(s->text, sizeof s->text, "%.*s", SLICE_ARG(answer->text)); /* cut to fit is fine */
    while (answer->status == CONTROL_DONE && args_next(&rest, &a))
        if (a.value.type == VALUE_UINT)
            put_status(s, &a);
    if (s->observers.n == 0)
        return;
    put_family(s->out, "gridline_observer_events", "gauge",
               "Events at each observer, by what became of them.");
    strbuf_add_slice(s->out, strbuf_slice(&s->observers));
}

/* ---------------------------------------------------------------- ledger and subscriptions */

enum { LEDGER_LARGE = 10000 };
#define LEDGER_KEEP_NS (15 * NS_PER_S)

static const char *const outcomes[] = {"taken",   "passed",    "duplicate", "refused", "too_old",
                                       "too_new", "no_schema", "queued",    "lost"};
enum { OUTCOMES = sizeof outcomes / sizeof *outcomes, CLASSES = 2 };

static void sum_ledger(const struct ledger *l, uint64_t sums[CLASSES][OUTCOMES])
{
    memset(sums, 0, CLASSES * sizeof *sums);
    for (const struct account *a = l->newest; a; a = a->older) {
        uint64_t *s = sums[a->class == CLASS_SAMPLES];
        s[0] += a->taken;
        s[1] += a->passed;
        s[2] += a->duplicate;
        s[3] += a->refused;
        s[4] += a->too_old;
        s[5] += a->too_new;
        s[6] += a->no_schema;
        s[7] += a->queued;
        s[8] += a->class == CLASS_SAMPLES ? account_lost(a) : 0; /* of events the sender's own counts tell */
    }
}

static void put_ledger(struct strbuf *out, const struct ledger *l, struct http_sums *kept)
{
    static const char *const classes[CLASSES] = {"events", "samples"};
    _Static_assert(sizeof kept->ledger == sizeof(uint64_t[CLASSES][OUTCOMES]), "a number each");
    int64_t now = clock_mono_ns();
    if (l->accounts.n <= LEDGER_LARGE || now - kept->at_ns > LEDGER_KEEP_NS) {
        sum_ledger(l, kept->ledger);
        kept->at_ns = now;
    }
    put_family(out, "gridline_ledger_events", "gauge",
               "Events and samples of the accounts that are kept, by what became of them.");
    for (size_t c = 0; c < CLASSES; c++)
        for (size_t i = 0; i < OUTCOMES; i++)
            strbuf_printf(out, "gridline_ledger_events{class=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                          classes[c], outcomes[i], kept->ledger[c][i]);
}

struct subscribed {
    uint64_t n, durable, given, filtered, lost, queued_bytes;
};

static void sum_subscription(void *arg, const struct subscription_info *i)
{
    struct subscribed *s = arg;
    s->n++;
    s->durable += i->durable.n > 0;
    s->given += i->given;
    s->filtered += i->filtered;
    s->lost += i->lost;
    s->queued_bytes += i->queued_bytes;
}

static void put_subscriptions(struct strbuf *out, struct subscriptions *all)
{
    struct subscribed s = {0};
    subscriptions_each(all, sum_subscription, &s);
    put_uint(out, "gridline_subscriptions", GAUGE, "Subscriptions of all interfaces.", s.n);
    put_uint(out, "gridline_subscriptions_durable", GAUGE, "Subscriptions that have a cursor in the journal.",
             s.durable);
    put_uint(out, "gridline_subscription_queued_bytes", GAUGE, "Bytes that wait for consumers.",
             s.queued_bytes);
    put_family(out, "gridline_subscription_events", "gauge",
               "Events of the subscriptions there are, by what became of them.");
    strbuf_printf(out,
                  "gridline_subscription_events{outcome=\"given\"} %" PRIu64
                  "\ngridline_subscription_events{outcome=\"filtered\"} %" PRIu64
                  "\ngridline_subscription_events{outcome=\"lost\"} %" PRIu64 "\n",
                  s.given, s.filtered, s.lost);
}

/* ---------------------------------------------------------------- HTTP and the process */

static void put_http(struct strbuf *out, const struct http_counts *c)
{
    put_uint(out, "gridline_http_connections", GAUGE, "HTTP connections.", c->connections);
    put_uint(out, "gridline_http_streams", GAUGE, "HTTP connections that are streams.", c->streams);
    put_uint(out, "gridline_http_connections_accepted", COUNTER, "HTTP connections that were taken.",
             c->accepted);
    put_uint(out, "gridline_http_connections_turned_away", COUNTER,
             "HTTP connections that were too many, of all or of one address.", c->turned_away);
    put_uint(out, "gridline_http_connections_timed_out", COUNTER,
             "HTTP connections closed for a request or answer that took too long.", c->timed_out);
    put_uint(out, "gridline_http_requests", COUNTER, "HTTP requests.", c->requests);
    put_uint(out, "gridline_http_requests_refused", COUNTER,
             "HTTP requests refused for their Host, Origin or token.", c->refused);
    put_uint(out, "gridline_http_events_given", COUNTER, "Events given to HTTP streams.", c->events_given);
    put_uint(out, "gridline_http_events_lost", COUNTER, "Events that HTTP streams were too slow for.",
             c->events_lost);
    put_family(out, "gridline_http_replies", "counter", "HTTP answers, by the first digit of their status.");
    for (int i = 2; i <= 5; i++)
        strbuf_printf(out, "gridline_http_replies_total{status=\"%dxx\"} %" PRIu64 "\n", i, c->replies[i]);
}

static void put_process(struct strbuf *out)
{
    struct rusage u;
    unsigned long size, resident;
    if (getrusage(RUSAGE_SELF, &u) == 0)
        put_float(out, "process_cpu_seconds", COUNTER, "CPU time of the gateway, user and system.",
                  (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu %lu", &size, &resident) == 2) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        put_uint(out, "process_resident_memory_bytes", GAUGE, "Memory of the gateway that is in RAM.",
                 resident * page);
        put_uint(out, "process_virtual_memory_bytes", GAUGE, "Addresses that the gateway uses.", size * page);
    }
    if (f)
        (void)fclose(f); /* nothing was written */
}

void api_metrics(struct http_request *r)
{
    struct strbuf out = {0};
    struct status s = {.asker = {.answer = on_status, .who = r->who}, .out = &out, .status = CONTROL_FAILED};
    const struct http_options *o = r->options;
    struct http_counts counts;
    control_ask(o->control, &s.asker, &(struct frame_control){.request = 1, .verb = SLICE_LIT("status")});
    if (s.status == CONTROL_DONE) {
        put_ledger(&out, o->ledger, http_sums(r->http));
        if (o->subscriptions)
            put_subscriptions(&out, o->subscriptions);
        http_counts(r->http, &counts);
        put_http(&out, &counts);
        put_process(&out);
        strbuf_add_str(&out, "# EOF\n");
    }
    if (s.status != CONTROL_DONE)
        http_problem_control(r, s.status, slice_str(s.text));
    else if (strbuf_failed(&out))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply(r, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", strbuf_slice(&out));
    strbuf_fini(&s.observers);
    strbuf_fini(&out);
}
