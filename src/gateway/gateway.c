/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway.h"

#include "base/mem.h"
#include "net/listen.h"
#include "base/log.h"
#include "gateway/session.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

enum { LISTENERS_MAX = 16, SIGNALS = 3, STOP_TICK_MS = 10, STOP_TICKS = 100 };

struct gateway {
    struct gateway_options options;
    struct event_base *base;
    struct event *commit, *stop, *signals[SIGNALS];
    struct ledger ledger;
    struct store *store;
    struct ingest *ingest;
    struct sessions sessions;
    struct listener *listeners[LISTENERS_MAX];
    size_t n_listeners;
    struct encoder *print;
    struct strbuf printed;
    bool is_stopping;
    int stop_ticks; /* how often it was looked whether all sessions are gone */
};

static void on_commit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ingest_commit(((struct gateway *)arg)->ingest);
}

static void on_batch(void *arg, const struct batch *b)
{
    struct gateway *g = arg;
    strbuf_reset(&g->printed);
    int r = encoder_run(g->print, b, &g->printed);
    if (r < 0)
        log_error("can't print %zu events: %s", b->n, err_text(r));
    else if (fwrite(g->printed.p, 1, g->printed.n, stdout) != g->printed.n || fflush(stdout) != 0)
        log_error("can't print: %s", err_text(-errno));
}

static void on_store(void *arg, int r)
{
    const struct gateway *g = arg;
    if (r < 0)
        log_error("journal %s: %s: senders are told to wait", g->options.journal, err_text(r));
    else
        log_info("journal %s: takes events again", g->options.journal);
}

static void on_connection(void *arg, evutil_socket_t fd, const char *peer)
{
    sessions_accept(&((struct gateway *)arg)->sessions, fd, peer);
}

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

static void write_ledger(struct gateway *g)
{
    if (!g->options.ledger_file)
        return;
    struct strbuf out = {0};
    const struct sessions *all = &g->sessions;
    strbuf_printf(&out,
                  "{\"connections\":{\"open\":%zu,\"accepted\":%" PRIu64 ",\"turned_away\":%" PRIu64
                  ",\"bad_frames\":%" PRIu64 ",\"bad_lines\":%" PRIu64 "},\n\"ledger\":",
                  all->n, all->accepted, all->turned_away, all->bad_frames, all->bad_lines);
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
    for (size_t i = 0; i < g->n_listeners; i++)
        listener_destroy(g->listeners[i]);
    g->n_listeners = 0;
    ingest_commit(g->ingest);
    sessions_shut_down(&g->sessions);
    static const struct timeval often = {0, STOP_TICK_MS * 1000};
    if (event_add(g->stop, &often) < 0)
        (void)event_base_loopbreak(g->base);
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
    (void)what;
    struct gateway *g = arg;
    if (signo != SIGUSR1) {
        stop(g);
        return;
    }
    ingest_commit(g->ingest);
    write_ledger(g);
}

/* What the journal holds goes to the ledger; what it has lost, to the log. */
static int on_record(void *arg, const struct journal_item *item)
{
    struct gateway *g = arg;
    if (item->kind == JOURNAL_GAP)
        log_error("journal %s: records %" PRIu64 " to %" PRIu64 " are %s", g->options.journal, item->first,
                  item->last, item->reason == JOURNAL_GAP_DAMAGED ? "damaged" : "gone");
    return ingest_restore(&g->ledger, item);
}

static int open_store(struct gateway *g, struct diag *why)
{
    const struct ingest_options options = {
        .on_batch = g->print ? on_batch : NULL, .on_store = on_store, .arg = g};
    int r = store_open(g->options.journal, g->options.journal_max, on_record, g, &g->store);
    if (r < 0)
        return diag_set(why, r, 0, "journal %s: %s", g->options.journal,
                        r == -EBUSY ? "another gateway has it open" : err_text(r));
    g->ingest = ingest_create(&g->ledger, g->store, &options);
    return g->ingest ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static int open_loop(struct gateway *g, struct diag *why)
{
    static const int signals[SIGNALS] = {SIGTERM, SIGINT, SIGUSR1};
    g->base = event_base_new();
    bool is_good = g->base != NULL;
    for (size_t i = 0; i < SIGNALS && is_good; i++) {
        g->signals[i] = evsignal_new(g->base, signals[i], on_signal, g);
        is_good = g->signals[i] && evsignal_add(g->signals[i], NULL) == 0;
    }
    if (is_good) {
        g->commit = evtimer_new(g->base, on_commit, g);
        g->stop = event_new(g->base, -1, EV_PERSIST, on_stop_timer, g);
    }
    if (!is_good || !g->commit || !g->stop)
        return diag_set(why, -ENOMEM, 0, "can't make an event loop");
    g->sessions = (struct sessions){.base = g->base, .ingest = g->ingest, .commit = g->commit};
    return 0;
}

static int open_listeners(struct gateway *g, struct diag *why)
{
    struct slice list = slice_str(g->options.listen);
    for (size_t at = 0; at < list.n;) {
        size_t n = strcspn(list.p + at, ", ");
        struct slice address = slice_of(list.p + at, n);
        at += n + 1;
        if (n == 0)
            continue;
        if (g->n_listeners == LISTENERS_MAX)
            return diag_set(why, -EINVAL, 0, "at most %d listen addresses", LISTENERS_MAX);
        int r = listener_create(g->base, address, on_connection, g, &g->listeners[g->n_listeners], why);
        if (r < 0)
            return r;
        log_info("listening on %s", listener_address(g->listeners[g->n_listeners++]));
    }
    return g->n_listeners ? 0 : diag_set(why, -EINVAL, 0, "no address to listen on");
}

static int write_ready(const struct gateway *g, struct diag *why)
{
    struct strbuf out = {0};
    if (!g->options.ready_file)
        return 0;
    for (size_t i = 0; i < g->n_listeners; i++)
        strbuf_printf(&out, "%s\n", listener_address(g->listeners[i]));
    int r = strbuf_failed(&out) ? -ENOMEM : write_file(g->options.ready_file, strbuf_slice(&out));
    strbuf_fini(&out);
    return r < 0 ? diag_set(why, r, 0, "ready file %s: %s", g->options.ready_file, err_text(r)) : 0;
}

int gateway_create(const struct gateway_options *options, struct gateway **out, struct diag *why)
{
    struct gateway *g = mem_alloc(sizeof *g);
    g->options = *options;
    int r = options->print ? encoder_create(options->print, &g->print) : 0;
    if (r < 0)
        (void)diag_set(why, r, 0, "can't print %s: %s", options->print->name, err_text(r));
    if (r == 0)
        r = open_store(g, why);
    if (r == 0)
        r = open_loop(g, why);
    if (r == 0)
        r = open_listeners(g, why);
    if (r == 0)
        r = write_ready(g, why);
    if (r < 0) {
        gateway_destroy(g);
        return r;
    }
    *out = g;
    return 0;
}

void gateway_destroy(struct gateway *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_listeners; i++)
        listener_destroy(g->listeners[i]);
    sessions_destroy_all(&g->sessions);
    ingest_destroy(g->ingest);
    store_close(g->store);
    ledger_fini(&g->ledger);
    for (size_t i = 0; i < SIGNALS; i++)
        if (g->signals[i])
            event_free(g->signals[i]);
    if (g->commit)
        event_free(g->commit);
    if (g->stop)
        event_free(g->stop);
    if (g->base)
        event_base_free(g->base);
    encoder_destroy(g->print);
    strbuf_fini(&g->printed);
    mem_free(g);
}

int gateway_run(struct gateway *g)
{
    if (event_base_dispatch(g->base) < 0)
        return -EIO;
    ingest_commit(g->ingest);
    write_ledger(g);
    return 0;
}
