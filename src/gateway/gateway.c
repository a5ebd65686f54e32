/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "event/level.h"
#include "gateway/consumers.h"
#include "gateway/door.h"
#include "gateway/own.h"
#include "gateway/udp.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIGNALS = 4, STOP_TICK_MS = 10, STOP_TICKS = 100 };

struct gateway {
    struct gateway_options options;
    int64_t started_ns; /* utc */
    struct event_base *base;
    struct event *commit, *complete, *stop, *tick, *observe, *signals[SIGNALS];
    struct ledger ledger;
    struct store *store;
    struct ingest *ingest;
    struct own *own;
    struct access *access;
    struct workers *workers;
    struct cursors cursors; /* of durable subscriptions */
    struct control *control;
    struct udp *udp; /* NULL = no datagrams */
    struct stream_loop *streams;
    struct sessions sessions;
    struct args_writer assigned;
    struct strbuf record; /* of a worker, being written */
    int64_t ledger_at_ns; /* when the next `ledger` events are due, monotonic */
    struct door *door;
    struct observers *observers;
    struct consumers *consumers; /* NULL: not yet, or no longer */
    bool is_stopping;
    bool has_forced;    /* it was said */
    bool has_unwritten; /* the same, of leases that could not be written down */
    int stop_ticks;     /* how often it was looked whether all sessions are gone */
};

static void on_commit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ingest_commit(((struct gateway *)arg)->ingest);
}

/* What the journal had no room for. */
static void write_held(struct gateway *g)
{
    if (own_is_held(g->own))
        own_flush(g->own);
    if (!g->has_unwritten)
        return;
    workers_write(g->workers);
    if (workers_unwritten(g->workers) == 0) {
        g->has_unwritten = false;
        log_info("journal %s: all leases are written down again", g->options.journal);
    }
}

/* Before the end: each round writes a group at least, or there is no memory for it. */
static void write_rest(struct gateway *g)
{
    size_t before, left = workers_unwritten(g->workers) + own_waiting(g->own);
    do {
        before = left;
        own_flush(g->own);
        write_held(g);
        ingest_drain(g->ingest);
        left = workers_unwritten(g->workers) + own_waiting(g->own);
    } while (left && left < before);
}

static void on_complete(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct gateway *g = arg;
    ingest_complete(g->ingest);
    write_held(g);
    sessions_commit(&g->sessions);
}

static void on_batch(void *arg, const struct batch *b, struct position at)
{
    struct gateway *g = arg;
    if (g->observers)
        observers_batch(g->observers, b);
    if (g->consumers)
        consumers_batch(g->consumers, b, at);
}

static void tell_archive(struct gateway *g, uint64_t last)
{
    if (g->options.archive && g->cursors.journal)
        g->options.archive->settled(g->options.archive->arg, g->cursors.journal, last);
}

static uint64_t journal_hold(const struct gateway *g)
{
    return g->options.journal_hold ? g->options.journal_hold : store_max(g->store);
}

static void on_gone(void *arg, struct cursor_mark *m)
{
    const struct gateway *g = arg;
    if (m->gone_told)
        return;
    m->gone_told = true;
    log_error("durable subscription %s: the journal is larger than it may hold (%" PRIu64
              " bytes): records up to %" PRIu64 " gave way before it had read them, as will more; %s",
              m->name, m->hold ? m->hold : journal_hold(g), m->gone_to,
              g->options.archive ? "it gets their events from the archive" : "their events are lost to it");
}

/* Says who still needs which records of the journal. The archive is asked to flush when half of the journal
 * is not safe without it. */
static void hold_journal(struct gateway *g)
{
    const struct gateway_archive *a =
        g->options.archive && g->options.archive->safe ? g->options.archive : NULL;
    struct journal_hold holds[CURSORS_MAX];
    struct store_readers readers = {.has_archive = a != NULL,
                                    .archive = a ? a->safe(a->arg) : 0,
                                    .others = holds,
                                    .n_others = cursors_holds(&g->cursors, journal_hold(g), holds)};
    struct store_stats now;
    store_hold(g->store, &readers);
    store_stats(g->store, &now);
    cursors_set_bytes(&g->cursors, now.others, now.n_others);
    cursors_note_first(&g->cursors, now.first, on_gone, g);
    uint64_t lowest = UINT64_MAX;
    for (size_t i = 0; i < readers.n_others; i++)
        lowest = holds[i].number < lowest ? holds[i].number : lowest;
    if (a && a->keep)
        a->keep(a->arg, lowest);
    if (a && now.archived == readers.archive && store_held(g->store) > store_max(g->store) / 2)
        a->hurry(a->arg);
}

static void on_group(void *arg, uint64_t last)
{
    struct gateway *g = arg;
    if (g->consumers)
        consumers_flush(g->consumers, last);
    tell_archive(g, last);
    hold_journal(g);
}

static void on_observe(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    observers_tick(((struct gateway *)arg)->observers, clock_mono_ns());
}

static void on_store(void *arg, int r)
{
    const struct gateway *g = arg;
    if (r == -EDQUOT)
        log_error("journal %s: %s: senders are told to wait, samples are dropped and counted; look at the "
                  "archive (`gridline doctor`)",
                  g->options.journal, ingest_behind);
    else if (r < 0)
        log_error("journal %s: %s: senders are told to wait", g->options.journal, err_text(r));
    else
        log_info("journal %s: takes events again", g->options.journal);
}

static void on_room(void *arg)
{
    const struct gateway *g = arg;
    if (g->udp)
        udp_go_on(g->udp);
}

static void on_forced(void *arg, uint64_t records)
{
    struct gateway *g = arg;
    if (!g->has_forced)
        log_error("journal %s: full: %" PRIu64
                  " records gave way before every reader had passed them, as will more; the ledger "
                  "counts them",
                  g->options.journal, records);
    g->has_forced = true;
}

/* ---------------------------------------------------------------- workers and control */

static void on_worker_state(void *arg, struct worker *w, enum worker_state before, const char *why)
{
    struct gateway *g = arg;
    log_info("worker %s (%" PRIu32 ") is %s: %s", w->host, w->id,
             worker_state_name((enum worker_state)w->state), why);
    own_worker_state(g->own, w, before, why);
    if (g->consumers)
        consumers_worker(g->consumers, w, before);
}

static void on_worker_replaced(void *arg, struct worker *w, void *link)
{
    (void)w;
    sessions_replaced(&((struct gateway *)arg)->sessions, link);
}

static int on_worker_record(void *arg, const struct worker *w)
{
    struct gateway *g = arg;
    strbuf_reset(&g->record);
    worker_put_record(&g->record, w);
    int r = strbuf_failed(&g->record) ? -ENOMEM
                                      : ingest_record(g->ingest, STORE_WORKER, strbuf_slice(&g->record));
    if (r < 0 && !g->has_unwritten) {
        g->has_unwritten = true;
        log_error("journal %s: %s: leases of workers wait to be written down, that of %s first",
                  g->options.journal, err_text(r), w->host);
    }
    return r;
}

static const struct workers_ops worker_callbacks = {on_worker_state, on_worker_replaced, on_worker_record};

static int control_send(void *arg, struct worker *w, const struct frame_control *c)
{
    return sessions_control(&((struct gateway *)arg)->sessions, w, c);
}

static size_t control_activate(void *arg, struct slice host, struct slice list)
{
    return sessions_activate(&((struct gateway *)arg)->sessions, host, list);
}

static void add_datagram_counts(const struct gateway *g, struct args_writer *out)
{
    struct udp_counts c;
    if (!g->udp)
        return;
    udp_counts(g->udp, &c);
    args_add_uint(out, "datagrams.received", c.received);
    args_add_uint(out, "datagrams.bytes", c.bytes);
    args_add_uint(out, "datagrams.passed", c.passed);
    args_add_uint(out, "datagrams.malformed", c.malformed);
    args_add_uint(out, "datagrams.unknown", c.unknown);
    args_add_uint(out, "datagrams.level", c.level);
    args_add_uint(out, "datagrams.forged", c.forged);
    args_add_uint(out, "datagrams.replayed", c.replayed);
    args_add_uint(out, "datagrams.overflow", c.overflow);
}

static void add_observer_counts(const struct gateway *g, struct args_writer *out)
{
    struct observer_counts c;
    const char *name;
    for (size_t i = 0; observers_counts(g->observers, i, &name, &c); i++) {
        const struct {
            const char *what;
            uint64_t n;
        } all[] = {{"taken", c.taken},
                   {"passed", c.passed},
                   {"filtered", c.filtered},
                   {"dropped", c.dropped},
                   {"queued", c.queued}};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            char key[ARGS_NAME_MAX + 1];
            (void)snprintf(key, sizeof key, "observer.%.100s.%s", name, all[k].what); /* cut to fit is fine */
            args_add_uint(out, key, all[k].n);
        }
    }
}

static void add_journal_counts(const struct gateway *g, struct args_writer *out)
{
    struct store_stats s;
    store_stats(g->store, &s);
    args_add_uint(out, "journal.bytes", s.bytes);
    args_add_uint(out, "journal.max", g->options.journal_max ? g->options.journal_max : UINT64_C(1) << 30);
    args_add_uint(out, "journal.segments", s.segments);
    args_add_uint(out, "journal.held", store_held(g->store));
    args_add_uint(out, "journal.forced", g->ledger.forced);
    args_add_uint(out, "journal.checkpoints", s.checkpoints);
    args_add_uint(out, "journal.checkpoint_faults", s.checkpoint_faults);
}

static void add_time(struct args_writer *out, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    if (at_ns)
        args_add_text(out, name, slice_of(text, clock_print_iso(text, at_ns)));
}

/* The number behind that word of /proc/self/status. */
static void add_line(struct args_writer *out, const char *name, const char *status, const char *word,
                     int64_t unit)
{
    const char *at = strstr(status, word);
    long long n = at ? strtoll(at + strlen(word), NULL, 10) : -1;
    if (n >= 0)
        args_add(out, slice_str(name), value_int(n * unit));
}

/* What it is. As texts and signed numbers: /metrics has those of the process by their usual names, and takes
 * unsigned ones alone. */
static void add_facts(const struct gateway *g, struct args_writer *out)
{
    struct strbuf status = {0};
    if (g->options.version)
        args_add_text(out, "version", slice_str(g->options.version));
    add_time(out, "started", g->started_ns);
    add_time(out, "certificate.until", door_certificate_until(g->door));
    if (process_read(getpid(), "status", &status)) { /* without /proc it is not known */
        add_line(out, "process.memory", status.p, "\nVmRSS:", 1024);
        add_line(out, "process.threads", status.p, "\nThreads:", 1);
    }
    strbuf_fini(&status);
}

static void control_status(void *arg, struct args_writer *out)
{
    const struct gateway *g = arg;
    const struct sessions *all = &g->sessions;
    add_facts(g, out);
    args_add_uint(out, "connections.open", all->n);
    args_add_uint(out, "connections.accepted", all->accepted);
    args_add_uint(out, "connections.turned_away", all->turned_away);
    args_add_uint(out, "connections.silent", all->silent);
    args_add_uint(out, "connections.not_allowed", all->not_allowed);
    args_add_uint(out, "connections.bad_frames", all->bad_frames);
    args_add_uint(out, "connections.bad_lines", all->bad_lines);
    args_add_uint(out, "connections.trimmed_events", g->ledger.trimmed.events);
    args_add_uint(out, "connections.trimmed_fields", g->ledger.trimmed.fields);
    args_add_uint(out, "connections.failed_handshakes", all->failed_handshakes);
    args_add_uint(out, "workers.unwritten", workers_unwritten(g->workers));
    args_add_uint(out, "joined", all->joined);
    args_add_uint(out, "join_refused", all->join_refused);
    add_journal_counts(g, out);
    add_datagram_counts(g, out);
    add_observer_counts(g, out);
    if (g->consumers)
        consumers_status(g->consumers, out);
    if (g->options.archive)
        g->options.archive->status(g->options.archive->arg, out);
}

static void control_done(void *arg, const struct control_done *d)
{
    own_control(((struct gateway *)arg)->own, d);
}

static const struct control_ops control_callbacks = {control_send, control_activate, control_status,
                                                     control_done};

/* ---------------------------------------------------------------- time */

static void tell_ledger(struct gateway *g)
{
    for (struct account *a = g->ledger.newest; a && a->taken != a->told; a = a->older) {
        own_ledger(g->own, a, SLICE_LIT(""));
        a->told = a->taken;
    }
}

static int write_cursor(void *arg, struct slice record);

static void start_tick(struct gateway *g, int64_t next_boot_ns)
{
    int64_t us = (next_boot_ns - clock_boot_ns()) / 1000;
    us = us < 1000 ? 1000 : us;
    const struct timeval after = {us / 1000000, us % 1000000};
    (void)evtimer_add(g->tick,
                      &after); /* fails only without memory; then leases are not watched until the next one */
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct gateway *g = arg;
    (void)fd, (void)what;
    int64_t next = workers_tick(g->workers, clock_boot_ns(), clock_utc_ns());
    if (clock_mono_ns() >= g->ledger_at_ns) {
        g->ledger_at_ns = clock_mono_ns() + g->options.ledger_every_ns;
        tell_ledger(g);
    }
    door_tick(g->door, clock_utc_ns());
    consumers_tick(g->consumers, clock_mono_ns());
    hold_journal(g);
    (void)cursors_write(&g->cursors, write_cursor, g); /* what there is no room for waits for the next tick */
    own_denials_rest(g->own);
    own_flush(g->own);
    write_held(g);
    sessions_commit(&g->sessions);
    start_tick(g, next);
}

static void on_datagrams(void *arg)
{
    sessions_commit(&((struct gateway *)arg)->sessions);
}

static bool is_crowded(void *arg)
{
    return ingest_is_crowded(((struct gateway *)arg)->ingest);
}

static void drain_datagrams(void *arg)
{
    const struct gateway *g = arg;
    if (g->udp)
        udp_drain(g->udp);
}

/* ---------------------------------------------------------------- the ledger as a file */

/* Replaces the file as a whole, so that whoever reads it sees one state. */
static int write_file(const char *path, struct slice content)
{
    struct strbuf temporary = {0};
    strbuf_printf(&temporary, "%s.new", path);
    FILE *f = strbuf_failed(&temporary) ? NULL : fopen(temporary.p, "we");
    int r = f ? 0 : -errno;
    if (f && fwrite(content.p, 1, content.n, f) != content.n)
        r = -EIO;
    if (f && fclose(f) != 0)
        r = -errno;
    if (r == 0 && rename(temporary.p, path) < 0)
        r = -errno;
    strbuf_fini(&temporary);
    return r;
}

static void print_observers(const struct gateway *g, struct strbuf *out)
{
    struct observer_counts c;
    const char *name; /* as in text_is_name: nothing to escape */
    for (size_t i = 0; observers_counts(g->observers, i, &name, &c); i++)
        strbuf_printf(out,
                      "%s{\"name\":\"%s\",\"taken\":%" PRIu64 ",\"passed\":%" PRIu64 ",\"filtered\":%" PRIu64
                      ",\"dropped\":%" PRIu64 ",\"queued\":%" PRIu64 "}",
                      i ? "," : "", name, c.taken, c.passed, c.filtered, c.dropped, c.queued);
}

/* As `status` is answered; all of it is numbers. */
static void print_status(struct gateway *g, struct strbuf *out)
{
    struct args_writer numbers = {0};
    struct arg a;
    control_status(g, &numbers);
    struct args list = args_of(&numbers);
    const char *comma = "";
    while (args_next(&list, &a)) {
        if (a.value.type != VALUE_UINT)
            continue; /* it is a file of counts */
        strbuf_printf(out, "%s\"%.*s\":%" PRIu64, comma, SLICE_ARG(a.name), a.value.u);
        comma = ",";
    }
    args_writer_fini(&numbers);
}

static void write_ledger(struct gateway *g)
{
    if (!g->options.ledger_file)
        return;
    struct strbuf out = {0};
    strbuf_add_str(&out, "{\"status\":{");
    print_status(g, &out);
    strbuf_add_str(&out, "},\n\"observers\":[");
    print_observers(g, &out);
    strbuf_add_str(&out, "],\n\"ledger\":");
    ledger_print(&g->ledger, &out);
    strbuf_add_str(&out, "}\n");
    int r = strbuf_failed(&out) ? -ENOMEM : write_file(g->options.ledger_file, strbuf_slice(&out));
    if (r < 0)
        log_error("can't write the ledger to %s: %s", g->options.ledger_file, err_text(r));
    strbuf_fini(&out);
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct gateway *g = arg;
    if (g->sessions.n == 0 || ++g->stop_ticks >= STOP_TICKS)
        (void)event_base_loopbreak(g->base);
}

static void stop(struct gateway *g)
{
    if (g->is_stopping)
        return;
    g->is_stopping = true;
    log_info("stopping");
    door_close(g->door);
    sessions_drain_lines(&g->sessions); /* who sends lines has no acknowledgement, and does not send again */
    udp_destroy(g->udp);
    g->udp = NULL;
    own_denials_rest(g->own);
    own_gateway_state(g->own, LEVEL_NOTICE, "stopping", "");
    (void)cursors_write(&g->cursors, write_cursor,
                        g); /* of those that there is no room for some comes again */
    ingest_drain(g->ingest);
    write_rest(g);
    own_end(g->own);
    ingest_drain(g->ingest);
    consumers_shut_down(g->consumers);
    sessions_shut_down(&g->sessions);
    static const struct timeval often = {0, STOP_TICK_MS * 1000};
    if (event_add(g->stop, &often) < 0)
        (void)event_base_loopbreak(g->base);
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
    (void)what;
    struct gateway *g = arg;
    if (signo == SIGHUP) {
        observers_reopen(g->observers);
    } else if (signo == SIGUSR1) {
        ingest_drain(g->ingest);
        observers_tick(g->observers, clock_mono_ns());
        write_ledger(g);
    } else {
        stop(g);
    }
}

/* At start: the workers as they were; what the journal has lost goes to the log. */
static int on_restore(void *arg, const struct journal_item *item)
{
    struct gateway *g = arg;
    if (item->kind == JOURNAL_GAP)
        log_error("journal %s: records %" PRIu64 " to %" PRIu64 " are %s", g->options.journal, item->first,
                  item->last, item->reason == JOURNAL_GAP_DAMAGED ? "damaged" : "gone");
    if (item->kind == JOURNAL_RECORD && item->type == STORE_CURSOR)
        (void)cursors_restore(&g->cursors, item->payload); /* of a later version: it begins anew */
    if (item->kind != JOURNAL_RECORD || item->type != STORE_WORKER)
        return 0;
    int r = workers_restore(g->workers, item->payload, clock_boot_ns(), clock_utc_ns());
    return r == E_PROTO ? 0 : r; /* of a later version: that worker registers anew */
}

static int write_cursor(void *arg, struct slice record)
{
    return ingest_record(((struct gateway *)arg)->ingest, STORE_CURSOR, record);
}

/* A checkpoint has every worker, some in each group, and behind them the cursors. */
static uint64_t on_checkpoint(void *arg, uint64_t from)
{
    enum { WORKERS_A_STEP = 512 };
    const uint64_t cursors_left = UINT64_MAX;
    struct gateway *g = arg;
    if (from != cursors_left) {
        uint32_t next = workers_write_all(g->workers, (uint32_t)from, WORKERS_A_STEP);
        if (next)
            return next;
        cursors_dirty_all(&g->cursors);
    }
    return cursors_write(&g->cursors, write_cursor, g) ? 0 : cursors_left;
}

static enum archived_verdict judge(void *arg, const struct event *e, int64_t now_ns)
{
    const struct gateway_archive *a = ((struct gateway *)arg)->options.archive;
    return a->judge(a->arg, e, now_ns);
}

static int open_store(struct gateway *g, struct diag *why)
{
    const struct ingest_options options = {.on_batch = on_batch,
                                           .on_group = on_group,
                                           .judge =
                                               g->options.archive && g->options.archive->judge ? judge : NULL,
                                           .on_store = on_store,
                                           .on_forced = on_forced,
                                           .on_room = on_room,
                                           .on_restore = on_restore,
                                           .on_checkpoint = on_checkpoint,
                                           .arg = g};
    const struct store_options limits = {.max_bytes = g->options.journal_max};
    int r = store_open(g->options.journal, &limits, &g->store);
    if (r == 0) {
        g->ingest = ingest_create(&g->ledger, g->store, &options);
        r = g->ingest ? ingest_restore(g->ingest) : -ENOMEM;
        cursors_name_journal(&g->cursors);
    }
    if (r == 0) { /* nothing gives way before the archive has said how far it is */
        tell_archive(g, ingest_settled(g->ingest));
        hold_journal(g);
    }
    if (r == 0) {
        g->own = own_create(g->ingest);
        r = g->own ? 0 : -ENOMEM;
    }
    if (r < 0)
        return diag_set(why, r, 0, "journal %s: %s", g->options.journal,
                        r == -EBUSY ? "another gateway has it open" : err_text(r));
    return 0;
}

static void on_denied(void *arg, const struct access_denial *d)
{
    own_denied(((struct gateway *)arg)->own, d);
}

static int open_access(struct gateway *g, struct diag *why)
{
    const struct gateway_options *o = &g->options;
    int r = access_create(o->access, o->n_access, o->tokens, o->n_tokens, &g->access, why);
    if (r == 0)
        access_on_denied(g->access, on_denied, g);
    return r;
}

static int open_workers(struct gateway *g, struct diag *why)
{
    const struct workers_options options = {.lease_ms = (uint32_t)(g->options.lease_ns / 1000000),
                                            .renew_ms = (uint32_t)(g->options.renew_ns / 1000000),
                                            .level = g->options.level,
                                            .ops = &worker_callbacks,
                                            .arg = g};
    g->workers = workers_create(&options);
    return g->workers ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static int open_loop(struct gateway *g, struct diag *why)
{
    static const int signals[SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    g->base = event_base_new();
    bool is_good = g->base != NULL;
    for (size_t i = 0; i < SIGNALS && is_good; i++) {
        g->signals[i] = evsignal_new(g->base, signals[i], on_signal, g);
        is_good = g->signals[i] && evsignal_add(g->signals[i], NULL) == 0;
    }
    if (is_good) {
        g->commit = evtimer_new(g->base, on_commit, g);
        g->complete = event_new(g->base, ingest_fd(g->ingest), EV_READ | EV_PERSIST, on_complete, g);
        g->stop = event_new(g->base, -1, EV_PERSIST, on_stop_timer, g);
        g->tick = evtimer_new(g->base, on_tick, g);
        g->observe = event_new(g->base, -1, EV_PERSIST, on_observe, g);
        g->streams = stream_loop_create(g->base);
        g->control = control_create(g->base, g->workers, &g->ledger, &control_callbacks, g);
    }
    if (g->control)
        control_set_cursors(g->control, &g->cursors);
    bool is_made =
        is_good && g->commit && g->complete && g->stop && g->tick && g->observe && g->streams && g->control;
    if (!is_made || event_add(g->complete, NULL) < 0)
        return diag_set(why, -ENOMEM, 0, "can't make an event loop");
    g->sessions = (struct sessions){.base = g->base,
                                    .loop = g->streams,
                                    .ingest = g->ingest,
                                    .commit = g->commit,
                                    .workers = g->workers,
                                    .control = g->control,
                                    .access = g->access,
                                    .max = g->options.connections_max,
                                    .escapes = g->options.escapes};
    return 0;
}

/* Port 0 is that of the first TCP or TLS address, which is known by now. */
static int open_udp(struct gateway *g, struct diag *why)
{
    const char *address = g->options.udp ? g->options.udp : door_first_host(g->door);
    if (!address[0])
        return 0;
    if (slice_ends(slice_str(address), SLICE_LIT(":0")) && door_first_host(g->door)[0])
        address = door_first_host(g->door);
    int r = udp_create(g->base, slice_str(address), g->workers, &g->udp, why);
    if (r < 0)
        return r;
    udp_on_round(g->udp, on_datagrams, g);
    udp_hold_while(g->udp, is_crowded, g);
    g->sessions.udp_port = udp_port(g->udp);
    g->sessions.drain = drain_datagrams;
    g->sessions.drain_arg = g;
    log_info("datagrams on %s", udp_address(g->udp));
    return 0;
}

/* "vector.every=2s" lines as named values. Configuration has checked them. */
static void read_assigned(struct gateway *g)
{
    struct slice rest = slice_str(g->options.assign ? g->options.assign : "");
    while (rest.n) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct slice line = slice_of(rest.p, end ? (size_t)(end - rest.p) : rest.n);
        const char *equals = line.n ? memchr(line.p, '=', line.n) : NULL;
        if (equals) {
            struct slice key = slice_of(line.p, (size_t)(equals - line.p));
            args_add(&g->assigned, key, value_text(slice_from(line, key.n + 1)));
        }
        rest = slice_from(rest, end ? line.n + 1 : line.n);
    }
    g->sessions.assigned = args_of(&g->assigned);
}

static int open_door(struct gateway *g, struct diag *why)
{
    const struct door_options options = {.listen = g->options.listen,
                                         .socket = g->options.socket,
                                         .identity = g->options.identity,
                                         .is_insecure = g->options.is_insecure};
    return door_create(g->base, &g->sessions, &options, &g->door, why);
}

static int open_consumers(struct gateway *g, struct diag *why)
{
    const struct consumers_options options = {.base = g->base,
                                              .ingest = g->ingest,
                                              .workers = g->workers,
                                              .control = g->control,
                                              .sessions = &g->sessions,
                                              .own = g->own,
                                              .access = g->access,
                                              .journal = g->options.journal,
                                              .refill =
                                                  g->options.archive ? g->options.archive->refill : NULL,
                                              .demand = g->options.demand,
                                              .last_record = ingest_settled(g->ingest),
                                              .cursors = &g->cursors,
                                              .hold_max = journal_hold(g),
                                              .ledger = &g->ledger,
                                              .latest = &g->options.latest,
                                              .summary = &g->options.summary,
                                              .domain = g->options.domain,
                                              .expect = g->options.expect,
                                              .directory_keep_ns = g->options.directory_keep_ns,
                                              .ldap = &g->options.ldap,
                                              .archive = g->options.archive,
                                              .classes = g->options.classes,
                                              .class_settings = g->options.class_settings,
                                              .query = g->options.archive ? g->options.archive->query : NULL,
                                              .http = g->options.http,
                                              .http_names = g->options.http_names,
                                              .http_token = g->options.http_token,
                                              .http_sessions = g->options.http_sessions,
                                              .http_log = g->options.http_log,
                                              .identity = g->options.identity,
                                              .is_insecure = g->options.is_insecure,
                                              .assets = g->options.assets,
                                              .version = g->options.version,
                                              .rule_test = g->options.rule_test};
    return consumers_create(&options, &g->consumers, why);
}

static int write_ready(const struct gateway *g, struct diag *why)
{
    struct strbuf out = {0};
    if (!g->options.ready_file)
        return 0;
    const char *address;
    for (size_t i = 0; (address = door_address(g->door, i)); i++)
        strbuf_printf(&out, "%s\n", address);
    if (consumers_http(g->consumers))
        strbuf_printf(&out, "%s\n", consumers_http(g->consumers));
    int r = strbuf_failed(&out) ? -ENOMEM : write_file(g->options.ready_file, strbuf_slice(&out));
    strbuf_fini(&out);
    return r < 0 ? diag_set(why, r, 0, "ready file %s: %s", g->options.ready_file, err_text(r)) : 0;
}

/* Each connection is a descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections then */
    }
}

int gateway_create(const struct gateway_options *options, struct gateway **out, struct diag *why)
{
    struct gateway *g = mem_alloc(sizeof *g);
    g->options = *options;
    g->started_ns = clock_utc_ns();
    raise_descriptor_limit();
    int r = observers_create(options->observers, options->n_observers, &g->observers, why);
    if (r == 0)
        observers_use_classes(g->observers, options->classes);
    if (r == 0)
        r = open_workers(g, why);
    if (r == 0)
        r = open_store(g, why);
    if (r == 0)
        r = open_access(g, why);
    if (r == 0)
        r = open_loop(g, why);
    if (r == 0) {
        read_assigned(g);
        r = open_consumers(g, why);
    }
    if (r == 0)
        r = open_door(g, why);
    if (r == 0)
        r = open_udp(g, why);
    if (r == 0)
        r = write_ready(g, why);
    if (r < 0) {
        gateway_destroy(g);
        return r;
    }
    *out = g;
    return 0;
}

const struct table_ops *gateway_tables(const struct gateway *g, size_t *n)
{
    return consumers_tables(g->consumers, n);
}

void gateway_destroy(struct gateway *g)
{
    if (!g)
        return;
    if (g->door)
        door_close(g->door);
    udp_destroy(g->udp);
    sessions_destroy_all(&g->sessions);
    consumers_destroy(g->consumers);
    g->consumers = NULL;
    door_destroy(g->door);
    control_destroy(g->control);
    access_destroy(g->access);
    own_destroy(g->own);
    workers_destroy(g->workers);
    ingest_destroy(g->ingest);
    store_close(g->store);
    ledger_fini(&g->ledger);
    for (size_t i = 0; i < SIGNALS; i++)
        if (g->signals[i])
            event_free(g->signals[i]);
    if (g->commit)
        event_free(g->commit);
    if (g->complete)
        event_free(g->complete);
    if (g->stop)
        event_free(g->stop);
    if (g->tick)
        event_free(g->tick);
    if (g->observe)
        event_free(g->observe);
    args_writer_fini(&g->assigned);
    strbuf_fini(&g->record);
    stream_loop_destroy(g->streams);
    if (g->base)
        event_base_free(g->base);
    observers_destroy(g->observers);
    mem_free(g);
}

int gateway_run(struct gateway *g)
{
    static const struct timeval each_second = {1, 0};
    if (observers_has_any(g->observers) && event_add(g->observe, &each_second) < 0)
        return -ENOMEM;
    own_gateway_state(g->own, LEVEL_NOTICE, "started", "");
    hold_journal(g);
    g->ledger_at_ns = clock_mono_ns() + g->options.ledger_every_ns;
    start_tick(g, clock_boot_ns());
    if (event_base_dispatch(g->base) < 0)
        return -EIO;
    ingest_drain(g->ingest);
    observers_tick(g->observers, clock_mono_ns());
    write_ledger(g);
    return 0;
}
