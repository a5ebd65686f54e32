/* SPDX-License-Identifier: Apache-2.0 */
/* workers: an emulator of gridline's workers for tests and benches. Thousands from one process, each by the
 * real protocol.
 *
 * Phases: register (until every worker is ready) -> load (for --time, or until --count datagrams are sent, or
 * a signal) -> settle (everything is acknowledged and the gateway has counted what was sent, or nothing came
 * for --settle) -> leave (each deregisters). After each a line of JSON with the counts so far is printed:
 * registered, load, settled, cut (with --cut-last), done; and back, when during the load most workers had
 * lost their leases' connections and all are ready again. With --step the load and the settling begin when a
 * line comes on standard input, and so do, with --cut-last, the cut and the leaving.
 *
 * Exit code 0: every answer was right, every worker got its lease and every event of those that did not die
 * was acknowledged (what came of the datagrams is in the counts); 1: not so; 2: usage. */
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/manual.h"
#include "cmd/options.h"
#include "emulator.h"
#include "net/sensors.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    EVENTS = 512,
    BURST = 4096,
    SETTLE_MIN_MS = 200,
    WORKERS_LIMIT = 1 << 20,
    RELAY_LIMIT = 1 << 16,
    GSO_LIMIT = 64
};

#define AT(member) offsetof(struct options, member)

static const struct option_spec table[] = {
    {'g', "gateway", OPTION_TEXT, "ADDRESS", AT(gateway),
     "`tcp://HOST:PORT` or `tls://HOST:PORT`, an address of IPv4"},
    {'n', "workers", OPTION_SIZE, "N", AT(workers), "how many (default 1)"},
    {0, "relay", OPTION_SIZE, "K", AT(relay), "so many on one relay connection (default: each has its own)"},
    {0, "name", OPTION_TEXT, "NAME", AT(name), "hosts are NAME-000001 and so on (default worker)"},
    {0, "first", OPTION_SIZE, "N", AT(first), "the number of the first host (default 1)"},
    {0, "identity", OPTION_FILE, "DIR", AT(identity),
     "key.pem, cert.pem, ca.pem for TLS; `%` in it stands for the host"},
    {0, "resume", OPTION_FLAG, NULL, AT(resumes), "TLS: use the ticket of the connection before"},
    {0, "guest", OPTION_FLAG, NULL, AT(is_guest), "register as guests"},
    {0, "dials", OPTION_SIZE, "N", AT(dials), "open so many connections at once (default 256)"},
    {0, "sources", OPTION_SIZE, "N", AT(sources),
     "dial from N addresses in turn, 127.0.0.1 on (default: as it comes)"},
    {0, "time", OPTION_DURATION, "TIME", AT(time_ns),
     "how long the load lasts (default: until SIGTERM or --count)"},
    {0, "settle", OPTION_DURATION, "TIME", AT(settle_ns),
     "at the end wait for what has not arrived until nothing came for TIME (default 3s)"},
    {0, "renew", OPTION_DURATION, "TIME", AT(renew_ns), "renew so often (default: as the lease says)"},
    {0, "busy", OPTION_FLAG, NULL, AT(is_busy), "renew again as soon as a renewal is answered"},
    {0, "reconnect", OPTION_FLAG, NULL, AT(reconnects), "register, close, dial again, over and over"},
    {0, "bare", OPTION_FLAG, NULL, AT(is_bare), "64 bytes each way with rtt_control instead of the protocol"},
    {0, "sink", OPTION_TEXT, "LEVEL", AT(sink),
     "datagrams only, as if each had a lease (its number is id and key): `none`, `authentic` or `private`"},
    {0, "datagrams", OPTION_SIZE, "N", AT(datagrams),
     "send N datagrams a second in all, a worker after the other"},
    {0, "flat-out", OPTION_FLAG, NULL, AT(is_flat_out), "send as many datagrams as can be"},
    {0, "count", OPTION_SIZE, "N", AT(count), "end the load after N datagrams"},
    {0, "gso", OPTION_SIZE, "N", AT(gso),
     "N datagrams of N workers in one message (UDP_SEGMENT; at most 64)"},
    {0, "size", OPTION_SIZE, "N", AT(size), "bytes of a datagram, all included (default 128)"},
    {0, "lose", OPTION_TEXT, "K/N", AT(lose), "do not send K of every N datagrams"},
    {0, "twice", OPTION_TEXT, "K/N", AT(twice), "send K of every N datagrams twice"},
    {0, "behind", OPTION_TEXT, "K/N", AT(behind),
     "send K of every N datagrams behind the next one of the worker"},
    {0, "events", OPTION_SIZE, "N", AT(events),
     "write N events a second in all, and replay what is not acknowledged"},
    {0, "block", OPTION_SIZE, "N", AT(block), "events of a block (default 10)"},
    {0, "sensors", OPTION_SIZE, "N", AT(sensors), "each announces N sensors (default: none, at most 1024)"},
    {0, "leave", OPTION_SIZE, "N", AT(leave), "N workers a second deregister and come back"},
    {0, "cut", OPTION_SIZE, "N", AT(cut), "N connections a second are cut; their workers go on"},
    {0, "kill", OPTION_SIZE, "N", AT(kill),
     "N connections a second are cut; their workers begin a new epoch"},
    {0, "session", OPTION_DURATION, "TIME", AT(session_ns),
     "workers come and go (sessions.c): sessions last TIME in the mean"},
    {0, "gap", OPTION_DURATION, "TIME", AT(gap_ns), "and the time between them (default: as a session)"},
    {0, "day", OPTION_DURATION, "TIME", AT(day_ns), "and follow the hours of a day that takes TIME"},
    {0, "vanish", OPTION_TEXT, "K/N", AT(vanish), "K of every N sessions end without a word"},
    {0, "cut-last", OPTION_SIZE, "N", AT(cut_last),
     "after settling N connections are closed without a word, and not dialled again"},
    {0, "standing", OPTION_FILE, "FILE", AT(standing),
     "where each worker stands, after settling and again after --cut-last"},
    {0, "away", OPTION_DURATION, "TIME", AT(away_ns), "they come back after TIME (default 200ms)"},
    {0, "seed", OPTION_SIZE, "N", AT(seed), "of everything that is random but the producers (default 1)"},
    {0, "report", OPTION_FILE, "FILE", AT(report), "a line of JSON for each epoch of each worker"},
    {0, "step", OPTION_FLAG, NULL, AT(steps),
     "wait for a line on standard input before the load and before settling"},
    {0, "abandon", OPTION_FLAG, NULL, AT(abandons), "at the end just close the connections"},
    {0},
};

static const struct example examples[] = {
    {"workers -g tcp://127.0.0.1:14830 -n 200 --datagrams 2000 --lose 1/20 --time 10s",
     "5% of the datagrams are lost"},
    {"workers -g tcp://127.0.0.1:14830 -n 100000 --relay 1000 --renew 10s --time 60s",
     "100,000 workers on 100 connections"},
    {NULL, NULL},
};

static const struct options defaults = {.name = "worker",
                                        .workers = 1,
                                        .first = 1,
                                        .dials = 256,
                                        .settle_ns = 3 * NS_PER_S,
                                        .gso = 1,
                                        .size = 128,
                                        .block = 10,
                                        .away_ns = NS_PER_S / 5,
                                        .seed = 1};

static const struct verb verb_workers = {
    .name = "workers",
    .summary = "emulate workers",
    .operands = "",
    .description = "Emulates workers of a gateway.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct options),
    .defaults = &defaults,
};

static volatile sig_atomic_t is_stopped;

static void on_signal(int signo)
{
    (void)signo;
    is_stopped = 1;
}

/* ---------------------------------------------------------------- what all files use */

uint64_t emulator_random(struct emulator *e)
{
    uint64_t z = (e->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

bool emulator_strikes(struct emulator *e, struct fault *f)
{
    if (f->k == 0)
        return false;
    if (f->n_left == 0) {
        f->n_left = f->n;
        f->k_left = f->k;
    }
    bool strikes = emulator_random(e) % f->n_left-- < f->k_left;
    f->k_left -= strikes;
    return strikes;
}

int fault_parse(const char *name, const char *text, struct fault *out, struct diag *why)
{
    unsigned k, n;
    char behind;
    if (!text)
        return 0;
    if (sscanf(text, "%9u/%9u%c", &k, &n, &behind) != 2 || n == 0 || k > n)
        return diag_set(why, -EINVAL, 0, "--%s: '%s' is not K/N", name, text);
    *out = (struct fault){.k = k, .n = n};
    return 0;
}

void emulator_host(const struct emulator *e, uint32_t worker, char to[64])
{
    (void)snprintf(to, 64, "%.40s-%06" PRIu64, e->o.name, e->o.first + worker);
}

void emulator_wrong(struct emulator *e, const struct worker *w, const char *format, ...)
{
    char host[64] = "";
    va_list list;
    if (e->tally.protocol_errors++ || e->why[0])
        return;
    if (w)
        emulator_host(e, w->index, host);
    int n = snprintf(e->why, sizeof e->why, "%s%s", host, w ? ": " : "");
    va_start(list, format);
    (void)vsnprintf(e->why + n, sizeof e->why - (size_t)n, format, list);
    va_end(list);
    for (char *p = e->why; *p; p++)
        if (*p == '"' || *p == '\\' || *p < ' ')
            *p = '\''; /* it is printed as JSON */
}

/* ---------------------------------------------------------------- what is printed */

static void print(const struct emulator *e, const char *phase)
{
    const struct tally *t = &e->tally;
    double run = (double)(clock_mono_ns() - e->began_ns) / 1e9;
    double load = e->load_ns ? (double)(clock_mono_ns() - e->load_ns) / 1e9 : 0;
    (void)printf("{\"phase\":\"%s\",\"seconds\":%.6f,\"load_seconds\":%.6f,\"workers\":%" PRIu64
                 ",\"ready\":%u,\"over\":%u",
                 phase, run, load, e->o.workers, e->n_ready, e->n_over);
#define TALLY_PRINT(name) (void)printf(",\"%s\":%" PRIu64, #name, t->name);
    TALLY(TALLY_PRINT)
    (void)printf(",\"why\":\"%s\"}\n", e->why);
    (void)fflush(stdout); /* whoever reads it sees what is missing */
}

/* ---------------------------------------------------------------- phases */

static void enter(struct emulator *e, enum phase phase)
{
    e->phase = phase;
    e->phase_ns = e->now_ns;
    for (uint32_t i = 0; phase == PHASE_SETTLE && i < e->o.workers; i++)
        e->workers[i].is_settled = e->workers[i].has_told =
            false; /* what was told during the load does not count */
}

/* --reconnect and --sink: there is nothing to wait for before the load, nor to settle after it. */
static bool has_load_only(const struct options *o)
{
    return o->reconnects || o->sink;
}

static void begin_load(struct emulator *e)
{
    enter(e, PHASE_LOAD);
    e->load_ns = e->now_ns;
    for (uint32_t i = 0; e->o.reconnects && i < e->n_conns; i++)
        conn_enqueue(e, &e->conns[i]);
    for (uint32_t i = 0; e->o.is_bare && !e->o.reconnects && i < e->n_conns; i++)
        conn_ask_bare(e, &e->conns[i]);
    if (sessions_wanted(e))
        sessions_start(e);
    for (uint32_t i = 0; e->o.is_busy && i < e->n_ready; i++)
        if (!e->ready[i]->is_renewing)
            worker_renew(e, e->ready[i], 0);
}

static void end_load(struct emulator *e)
{
    bool has_workers = !e->o.is_bare && !has_load_only(&e->o);
    print(e, "load");
    sessions_stop(e);
    enter(e, e->o.steps ? PHASE_WAIT_SETTLE : has_workers ? PHASE_SETTLE : PHASE_DONE);
}

/* Where everybody stands, and the phase's line; the file is there before the line. */
static void tell_standing(struct emulator *e, const char *phase)
{
    int r = e->o.standing ? sessions_print(e, e->o.standing) : 0;
    if (r < 0)
        emulator_wrong(e, NULL, "%s: %s", e->o.standing, err_text(r));
    print(e, phase);
}

static void cut_last(struct emulator *e)
{
    sessions_cut(e, e->o.cut_last);
    tell_standing(e, "cut");
    enter(e, e->o.steps ? PHASE_WAIT_LEAVE : e->o.abandons ? PHASE_DONE : PHASE_LEAVE);
}

static void end_settling(struct emulator *e)
{
    tell_standing(e, "settled");
    if (e->o.cut_last && e->o.steps)
        enter(e, PHASE_WAIT_CUT);
    else if (e->o.cut_last)
        cut_last(e);
    else
        enter(e, e->o.abandons ? PHASE_DONE : PHASE_LEAVE);
}

/* A line came, or a phase needs none. */
static void go_on(struct emulator *e)
{
    if (e->phase == PHASE_WAIT_LOAD)
        begin_load(e);
    else if (e->phase == PHASE_WAIT_SETTLE)
        enter(e, e->o.is_bare || has_load_only(&e->o) ? PHASE_DONE : PHASE_SETTLE);
    else if (e->phase == PHASE_WAIT_CUT)
        cut_last(e);
    else if (e->phase == PHASE_WAIT_LEAVE)
        enter(e, e->o.abandons ? PHASE_DONE : PHASE_LEAVE);
}

static bool all_registered(const struct emulator *e)
{
    return e->o.is_bare ? e->tally.answers >= e->n_conns
                        : e->n_ready + e->n_over + e->n_absent >= e->o.workers;
}

/* How many more of a rate are due; what could not be done stays due, up to a second's worth. */
static uint64_t due(struct emulator *e, uint64_t rate, uint64_t *done)
{
    double target = (double)rate * (double)(e->now_ns - e->load_ns) / 1e9;
    uint64_t all = (uint64_t)target;
    if (all > *done + rate)
        *done = all - rate;
    return all > *done ? all - *done : 0;
}

/* Most were gone, and all are ready again: the gateway has come back. */
static void look_back(struct emulator *e)
{
    if (sessions_wanted(e))
        return;
    if (e->n_ready < e->o.workers / 2)
        e->were_gone = true;
    if (!e->were_gone || !all_registered(e))
        return;
    e->were_gone = false;
    print(e, "back");
}

static void do_load(struct emulator *e)
{
    static const struct {
        size_t rate;
        enum churn what;
    } churns[] = {{AT(leave), CHURN_LEAVE}, {AT(cut), CHURN_CUT}, {AT(kill), CHURN_KILL}};
    const struct options *o = &e->o;
    uint64_t n = o->is_flat_out ? BURST : due(e, o->datagrams, &e->done[0]);
    n = n < BURST ? n : BURST;
    if (o->count)
        n = n < o->count - e->tally.datagrams ? n : o->count - e->tally.datagrams;
    if (n)
        e->done[0] += datagrams_send(e, n);
    n = due(e, o->events, &e->done[1]);
    if (n >= o->block)
        e->done[1] += workers_write(e, n);
    for (size_t i = 0; i < sizeof churns / sizeof *churns; i++) {
        uint64_t rate;
        memcpy(&rate, (const char *)o + churns[i].rate, sizeof rate);
        n = due(e, rate, &e->done[2 + i]);
        if (n)
            e->done[2 + i] += churn(e, churns[i].what, n);
    }
    if (!o->is_bare && !has_load_only(o))
        look_back(e);
    bool is_over =
        (o->time_ns && e->now_ns - e->load_ns >= o->time_ns) || (o->count && e->tally.datagrams >= o->count);
    if (is_over || is_stopped)
        end_load(e);
}

/* Asks those again of whom something has not arrived. True when all have settled. */
static bool settle(struct emulator *e)
{
    uint32_t n_settled = 0;
    bool asks = e->now_ns >= e->settle_at_ns;
    if (asks) /* less and less often: what is lost does not come */
        e->settle_at_ns = e->now_ns + (int64_t)SETTLE_MIN_MS * 1000000 + (e->now_ns - e->phase_ns);
    for (uint32_t i = 0; i < e->n_ready; i++) {
        struct worker *w = e->ready[i];
        datagrams_release(e, w);
        worker_pump(e, w);
        n_settled += w->is_settled;
        if (asks && !w->is_settled && !w->is_renewing)
            worker_renew(e, w, 0);
    }
    return n_settled + e->n_over + e->n_absent == e->o.workers;
}

static bool leave_all(struct emulator *e)
{
    for (uint32_t i = 0; i < e->n_ready;) {
        struct worker *w = e->ready[i];
        if (w->is_renewing)
            i++;
        else
            worker_renew(e, w, RENEW_LEAVING); /* another one is in its place now */
    }
    for (uint32_t i = 0; i < e->n_conns; i++)
        if (e->conns[i].state != CONN_OVER)
            return false;
    return true;
}

static void step(struct emulator *e)
{
    int64_t last_ns = e->phase_ns > e->progress_ns ? e->phase_ns : e->progress_ns;
    bool is_late = e->now_ns - last_ns > e->o.settle_ns;
    switch (e->phase) {
    case PHASE_REGISTER:
        if (is_stopped) {
            enter(e, PHASE_DONE);
        } else if (all_registered(e)) {
            print(e, "registered");
            enter(e, PHASE_WAIT_LOAD);
            if (!e->o.steps)
                begin_load(e);
        }
        break;
    case PHASE_WAIT_LOAD:
    case PHASE_WAIT_SETTLE:
    case PHASE_WAIT_CUT:
    case PHASE_WAIT_LEAVE:
        if (is_stopped)
            go_on(e);
        break;
    case PHASE_LOAD:
        do_load(e);
        break;
    case PHASE_SETTLE:
        if (settle(e) || is_late)
            end_settling(e);
        break;
    case PHASE_LEAVE:
        if (leave_all(e) || is_late)
            enter(e, PHASE_DONE);
        break;
    case PHASE_DONE:
        break;
    }
}

/* ---------------------------------------------------------------- the loop */

static int64_t wait_ns(const struct emulator *e)
{
    const struct options *o = &e->o;
    if (e->phase != PHASE_LOAD)
        return TIMERS_TICK_NS;
    if (o->is_flat_out)
        return 0;
    return o->datagrams || o->events ? TIMERS_TICK_NS / 8 : TIMERS_TICK_NS;
}

static void read_stdin(struct emulator *e)
{
    char line[64];
    ssize_t n = read(STDIN_FILENO, line, sizeof line);
    if (n <= 0) { /* nobody is there to wait for */
        (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
        e->o.steps = false;
    }
    go_on(e);
}

static int run(struct emulator *e)
{
    struct epoll_event events[EVENTS];
    while (e->phase != PHASE_DONE) {
        e->now_ns = clock_mono_ns();
        timers_run(&e->timers, e->now_ns);
        step(e);
        conns_dial(e);
        conns_flush(e);
        int64_t ns = wait_ns(e);
        int n = epoll_pwait2(e->epoll, events, EVENTS, &(struct timespec){0, ns}, NULL);
        if (n < 0 && errno != EINTR)
            return -errno;
        e->now_ns = clock_mono_ns();
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                conn_event(e, events[i].data.ptr, events[i].events);
            else
                read_stdin(e);
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- life */

static int level_of(const char *name)
{
    static const char *const names[] = {
        [SEAL_NONE] = "none", [SEAL_AUTHENTIC] = "authentic", [SEAL_PRIVATE] = "private"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static int check(const struct options *o, struct diag *why)
{
    if (!o->gateway)
        return diag_set(why, -EINVAL, 0, "--gateway is needed");
    if (o->workers < 1 || o->workers > WORKERS_LIMIT || o->relay > RELAY_LIMIT || o->dials < 1)
        return diag_set(why, -EINVAL, 0, "at least 1 and at most %d workers, %d on a connection",
                        WORKERS_LIMIT, RELAY_LIMIT);
    if (o->gso < 1 || o->gso > GSO_LIMIT || o->size > 1200 || o->block < 1 || o->block > 1000)
        return diag_set(why, -EINVAL, 0, "--gso is 1 to %d, --size at most 1200, --block 1 to 1000",
                        GSO_LIMIT);
    if (o->sensors > SENSORS_MAX)
        return diag_set(why, -EINVAL, 0, "--sensors is at most %d", SENSORS_MAX);
    if (o->sink && level_of(o->sink) < 0)
        return diag_set(why, -EINVAL, 0, "--sink: '%s' is not none, authentic or private", o->sink);
    if (o->session_ns && (o->leave || o->cut || o->kill || o->reconnects || o->is_bare || o->sink))
        return diag_set(why, -EINVAL, 0, "--session is a churn of its own, and of workers with leases");
    if (o->session_ns && !o->abandons)
        return diag_set(why, -EINVAL, 0, "--session needs --abandon: where everybody stands is its end");
    if (o->relay && (o->reconnects || o->is_bare))
        return diag_set(why, -EINVAL, 0, "--reconnect and --bare are for connections of one worker");
    return 0;
}

static int raise_descriptors(uint64_t needed, struct diag *why)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return diag_set(why, -errno, 0, "getrlimit: %s", err_text(-errno));
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur < needed)
        return diag_set(why, -EMFILE, 0,
                        "%" PRIu64 " connections need more than the %" PRIu64 " descriptors there may be",
                        needed, (uint64_t)l.rlim_cur);
    return 0;
}

/* An identity of its own for the connection of a host, or the one that all share. */
static int load_identity(struct emulator *e, struct conn *c, struct diag *why)
{
    const char *mark = strchr(e->o.identity, '%');
    struct strbuf path = {0};
    char host[64];
    if (!mark)
        return e->target.identity ? 0 : link_identity_load(e->o.identity, &e->target.identity, why);
    emulator_host(e, c->first, host);
    strbuf_printf(&path, "%.*s%s%s", (int)(mark - e->o.identity), e->o.identity, host, mark + 1);
    int r = strbuf_failed(&path) ? -ENOMEM : link_identity_load(path.p, &c->identity, why);
    strbuf_fini(&path);
    return r;
}

static int make_workers(struct emulator *e, struct diag *why)
{
    uint32_t each = e->o.relay ? (uint32_t)e->o.relay : 1, n = (uint32_t)e->o.workers;
    e->n_conns = e->o.sink ? 0 : (n + each - 1) / each;
    int r = raise_descriptors(e->n_conns + 64, why);
    e->workers = mem_alloc(n * sizeof *e->workers);
    e->ready = mem_alloc(n * sizeof *e->ready);
    e->conns = mem_alloc((e->n_conns + 1) * sizeof *e->conns);
    for (uint32_t i = 0; i < n; i++) {
        e->workers[i].index = i;
        worker_begin_epoch(&e->workers[i]);
    }
    for (uint32_t i = 0; i < e->n_conns; i++) {
        struct conn *c = &e->conns[i];
        *c = (struct conn){.link.fd = -1, .index = i, .first = i * each};
        c->n_workers = n - c->first < each ? n - c->first : each;
        if (r == 0 && e->target.is_tls)
            r = load_identity(e, c, why);
    }
    return r;
}

/* The first sensor makes the events that --events writes. */
static void make_sensors(struct emulator *e)
{
    static const char *const names[] = {"emulator", "cpu",  "memory",  "disk",      "network", "load",
                                        "tcp",      "vmem", "process", "heartbeat", "clock",   "mount"};
    struct sensors_writer w;
    char name[32];
    sensors_begin(&w, &e->sensors);
    for (size_t i = 0; i < e->o.sensors; i++) {
        if (i < sizeof names / sizeof *names)
            (void)snprintf(name, sizeof name, "%s", names[i]);
        else
            (void)snprintf(name, sizeof name, "exec/check-%zu", i);
        (void)sensors_add(
            &w, &(struct sensors_one){.sensor = slice_str(name), /* check has looked at how many */
                                      .events = i ? slice_str(name) : SLICE_LIT("emulator.event"),
                                      .schemas = SLICE_LIT(""),
                                      .mode = i % 8 == 7 ? SLICE_LIT("on-request") : SLICE_LIT("always"),
                                      .status = i % 8 == 7 ? SLICE_LIT("idle") : SLICE_LIT("running"),
                                      .why = SLICE_LIT(""),
                                      .every_ms = 1000 * (1 + i % 5),
                                      .since_ns = e->base_ns});
    }
    sensors_end(&w);
}

/* What a host of today says of itself. */
static int make_frames(struct emulator *e)
{
    static const struct field fields[] = {
        {.name = {"worker", 6}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_UINT, .kind = KIND_STATE},
        {.name = {"life", 4}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_UINT, .kind = KIND_STATE},
        {.name = {"number", 6}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_UINT, .kind = KIND_COUNTER},
    };
    args_add_uint(&e->properties, "cpus", 8);
    args_add_uint(&e->properties, "memory", UINT64_C(34359738368));
    args_add_text(&e->properties, "kernel", SLICE_LIT("6.1.0-18-amd64"));
    args_add_text(&e->properties, "machine", SLICE_LIT("x86_64"));
    args_add_text(&e->properties, "os", SLICE_LIT("Debian GNU/Linux 12"));
    args_add_text(&e->settings, "vector.every", SLICE_LIT("1s"));
    if (e->o.sensors)
        make_sensors(e);
    if (strbuf_failed(&e->sensors))
        return -ENOMEM;
    e->block = block_writer_create();
    int r = e->block ? schema_create(SLICE_LIT("emulator.event"), fields, 3, &e->event_schema) : -ENOMEM;
    return r == 0 && getrandom(e->run, sizeof e->run, 0) != sizeof e->run ? -EIO : r;
}

static int open_loop(struct emulator *e, struct diag *why)
{
    struct epoll_event in = {.events = EPOLLIN};
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0)
        return diag_set(why, -errno, 0, "epoll: %s", err_text(-errno));
    if (e->o.steps && epoll_ctl(e->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &in) < 0)
        return diag_set(why, -errno, 0, "--step: standard input can't be waited for: %s", err_text(-errno));
    struct sigaction a = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGINT, &a, NULL);
    return 0;
}

static int create(struct emulator *e, struct diag *why)
{
    e->began_ns = e->now_ns = clock_mono_ns();
    e->base_ns = clock_utc_ns();
    e->random = e->o.seed;
    e->queue_end = &e->queue;
    e->epoll = -1;
    e->sink_level = e->o.sink ? (uint8_t)level_of(e->o.sink) : SEAL_NONE; /* check has looked at it */
    e->o.gap_ns = e->o.gap_ns ? e->o.gap_ns : e->o.session_ns;
    e->target.resumes = e->o.resumes;
    e->target.sources = (uint32_t)e->o.sources;
    timers_init(&e->timers, e->now_ns, e);
    int r = check(&e->o, why);
    if (r == 0)
        r = link_target_parse(&e->target, e->o.gateway, why);
    if (r == 0 && e->target.is_tls && !e->o.identity)
        r = diag_set(why, -EINVAL, 0, "tls:// needs --identity");
    if (r == 0)
        r = fault_parse("vanish", e->o.vanish, &e->vanish, why);
    if (r == 0)
        r = make_workers(e, why);
    if (r == 0 && (r = make_frames(e)) < 0)
        (void)diag_set(why, r, 0, "%s", err_text(r));
    if (r == 0)
        r = datagrams_create(e, why);
    if (r == 0 && e->o.report && !(e->report = fopen(e->o.report, "we")))
        r = diag_set(why, -errno, 0, "%s: %s", e->o.report, err_text(-errno));
    return r == 0 ? open_loop(e, why) : r;
}

static void destroy(struct emulator *e)
{
    for (uint32_t i = 0; e->conns && i < e->n_conns; i++) {
        link_fini(&e->conns[i].link);
        strbuf_fini(&e->conns[i].in);
        SSL_CTX_free(e->conns[i].identity);
    }
    for (uint32_t i = 0; e->workers && i < e->o.workers; i++)
        datagrams_forget(&e->workers[i]);
    SSL_CTX_free(e->target.identity);
    datagrams_destroy(e);
    args_writer_fini(&e->properties);
    args_writer_fini(&e->settings);
    block_writer_destroy(e->block);
    schema_unref(e->event_schema);
    strbuf_fini(&e->payload);
    strbuf_fini(&e->sensors);
    mem_free(e->workers);
    mem_free(e->ready);
    mem_free(e->conns);
    if (e->epoll >= 0)
        close(e->epoll);
}

/* The epochs that no one has ended, and the verdict. */
static int conclude(struct emulator *e)
{
    bool has_workers = !e->o.is_bare && !has_load_only(&e->o), is_good = e->load_ns != 0;
    for (uint32_t i = 0; has_workers && i < e->o.workers; i++) {
        struct worker *w = &e->workers[i];
        if (w->state == WORKER_OVER)
            continue;
        if (w->standing != STANDING_LIVE && w->standing != STANDING_CUT)
            continue; /* its last epoch has ended */
        is_good = is_good && (w->state == WORKER_READY || w->standing == STANDING_CUT) && e->o.abandons;
        worker_end_epoch(e, w, "open");
    }
    is_good = is_good && e->tally.protocol_errors == 0 && !e->is_incomplete;
    if (e->report && fclose(e->report) != 0)
        is_good = false;
    print(e, "done");
    return is_good ? EXIT_OK : EXIT_FAILED;
}

static void start(struct emulator *e)
{
    for (uint32_t i = 0; e->o.sink && i < e->o.workers; i++)
        worker_sink(e, &e->workers[i]);
    if (sessions_wanted(e))
        sessions_begin(e);
    for (uint32_t i = 0; !has_load_only(&e->o) && i < e->n_conns; i++)
        if (conn_is_relay(e) || e->workers[e->conns[i].first].standing == STANDING_LIVE)
            conn_enqueue(e, &e->conns[i]);
    if (!has_load_only(&e->o))
        return;
    enter(e, PHASE_WAIT_LOAD);
    if (!e->o.steps)
        begin_load(e);
}

static int run_all(const struct options *o)
{
    struct emulator *e = mem_alloc(sizeof *e);
    struct diag why = {0};
    int exit_code = EXIT_USAGE;
    e->o = *o;
    int r = create(e, &why);
    if (r == 0) {
        start(e);
        r = run(e);
        if (r < 0)
            (void)diag_set(&why, r, 0, "the loop failed: %s", err_text(r));
        exit_code = r < 0 ? EXIT_FAILED : conclude(e);
    }
    if (r < 0)
        (void)fprintf(stderr, "workers: %s\n", why.message);
    destroy(e);
    mem_free(e);
    return exit_code;
}

int main(int argc, char **argv)
{
    struct options o = defaults;
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    switch (options_parse(&verb_workers, argc - 1, argv + 1, clock_utc_ns(), &o, &operands, &why)) {
    case OPTIONS_OK:
        return run_all(&o);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_workers);
        (void)fputs(usage.p ? usage.p : "", stdout);
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    (void)fprintf(stderr, "workers: %s\n", why.message);
    return EXIT_USAGE;
}
