/* SPDX-License-Identifier: Apache-2.0 */
/* gridline run: a gateway, an agent and a guard on this host, for whoever wants to look at it now. They are
 * the programs of a grid, with their defaults and without its configuration: loopback alone, state in one
 * folder.
 */
#include "base/clock.h"
#include "base/directory.h"
#include "cmd/part.h"
#include "cmd/say.h"
#include "cmd/site_folders.h"
#include "cmd/table.h"
#include "cmd/verbs.h"
#include "gateway/config.h"
#include "net/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { PORT = 14830, START_S = 30, LOOK_MS = 20, LIVE_S = 10, ADDRESS_BYTES = 4096, PARTS = 3 };

struct run_options {
    const char *dir, *format, *guard_config;
    uint64_t port;
    struct option_texts agent, gateway, guard;
    bool is_quiet, is_verbose;
};

struct here {
    const struct run_options *options;
    struct table_options table_options;
    struct strbuf dir, run_dir; /* absolute */
    struct strbuf socket;       /* the gateway's, "unix:..." */
    struct strbuf addresses;    /* the gateway's, a line each */
    int lock;                   /* -1 = not taken */
    struct part gateway, agent, guard;
};

/* ---------------------------------------------------------------- places */

/* Where the gateway would keep its state and its socket, by default: ours is beside it, and the socket is
 * there, where every command looks for it. */
static int default_places(struct here *h)
{
    const struct config_flags flags = {.file = "/dev/null"};
    struct gateway_config *c;
    struct diag why = {0};
    if (gateway_config_load(&flags, &c, &why) < 0) {
        say("%s", why.message);
        return EXIT_FAILED;
    }
    const char *slash = strrchr(c->state_dir, '/');
    strbuf_printf(&h->dir, "%.*s/run", (int)(slash - c->state_dir), c->state_dir);
    strbuf_add_str(&h->run_dir, c->run_dir);
    gateway_config_destroy(c);
    return EXIT_OK;
}

static int given_places(struct here *h)
{
    const char *dir = h->options->dir;
    char *here = dir[0] == '/' ? NULL : getcwd(NULL, 0);
    if (dir[0] != '/' && !here) {
        say("the current folder can't be found: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (here)
        strbuf_printf(&h->dir, "%s/", here);
    strbuf_add_str(&h->dir, dir);
    strbuf_printf(&h->run_dir, "%s/run", h->dir.p ? h->dir.p : "");
    free(here); /* getcwd's own */
    return EXIT_OK;
}

/* One at a time in a folder. The lock goes with the process, whatever ends it; who has it is written there
 * for people. */
static int take_lock(struct here *h)
{
    struct strbuf path = {0};
    char pid[24] = "";
    strbuf_printf(&path, "%s/lock", h->dir.p);
    h->lock = strbuf_failed(&path) ? -1 : open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool is_open = h->lock >= 0, is_taken = is_open && flock(h->lock, LOCK_EX | LOCK_NB) < 0;
    if (!is_open)
        say("%s: %s", strbuf_slice(&path).p, strerror(errno));
    if (is_taken && pread(h->lock, pid, sizeof pid - 1, 0) > 0)
        say("another gridline run uses %s: process %.*s; end it, or give another folder with --dir", h->dir.p,
            (int)strcspn(pid, "\n"), pid);
    else if (is_taken)
        say("another gridline run uses %s; end it, or give another folder with --dir", h->dir.p);
    else if (is_open)
        is_taken = ftruncate(h->lock, 0) < 0 || dprintf(h->lock, "%d\n", (int)getpid()) < 0;
    strbuf_fini(&path);
    return is_open && !is_taken ? EXIT_OK : EXIT_FAILED;
}

static int make_places(struct here *h)
{
    struct diag why = {0};
    int code = h->options->dir ? given_places(h) : default_places(h);
    if (code != EXIT_OK)
        return code;
    strbuf_printf(&h->socket, "unix:%s/gateway.sock", h->run_dir.p);
    if (directory_make_own(h->dir.p, &why) < 0) {
        say("%s", why.message);
        return EXIT_FAILED;
    }
    return take_lock(h);
}

/* ---------------------------------------------------------------- parts */

static void prepare(struct here *h, struct part *p, const char *name, const char *program, const char *config)
{
    p->name = name;
    p->program = program;
    strbuf_printf(&p->ready, "%s/%s.ready", h->dir.p, name);
    part_add(p, "--config");
    part_add(p, "%s", config);
    part_add(p, "--ready-file");
    part_add(p, "%s", p->ready.p);
    part_add(p, "--set");
    part_add(p, "state_dir=%s/%s", h->dir.p, name);
    part_add(p, "--set");
    part_add(p, "run_dir=%s", h->run_dir.p);
    if (!h->options->is_verbose)
        part_add(p, "--quiet");
}

/* They come last and win. */
static void add_settings(struct part *p, const struct option_texts *settings)
{
    for (size_t i = 0; i < settings->n; i++) {
        part_add(p, "--set");
        part_add(p, "%s", settings->v[i]);
    }
}

static void say_end(const struct part *p, const char *before, const char *behind)
{
    struct strbuf end = {0};
    part_print_end(p, &end);
    say("the %s %s%s%s", p->name, before, end.p ? end.p : "", behind);
    strbuf_fini(&end);
}

/* Its first start: that it fails is told, and the end. EXIT_OK, EXIT_FAILED, or *signo says that it is to
 * end. */
static int start_first(struct part *p, int *signo)
{
    int64_t until = clock_mono_ns() + START_S * NS_PER_S;
    int r = part_start(p);
    if (r < 0) {
        say("the %s can't be started: %s", p->name, strerror(-r));
        return EXIT_FAILED;
    }
    while (!part_is_ready(p)) {
        int what = part_wait(LOOK_MS * INT64_C(1000000));
        if (what && what != SIGCHLD) {
            *signo = what;
            return EXIT_OK;
        }
        if (part_look(p)) {
            say_end(p, "did not start: it ", "");
            return EXIT_FAILED;
        }
        if (clock_mono_ns() > until) {
            say("the %s is not ready after %d s", p->name, START_S);
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

/* The addresses that the gateway has written. */
static int read_addresses(struct here *h)
{
    int fd = open(h->gateway.ready.p, O_RDONLY | O_CLOEXEC);
    char *room = strbuf_room(&h->addresses, ADDRESS_BYTES);
    ssize_t n = fd < 0 || !room ? -1 : read(fd, room, ADDRESS_BYTES);
    if (n > 0)
        strbuf_advance(&h->addresses, (size_t)n);
    else
        say("%s: %s", h->gateway.ready.p, n < 0 ? strerror(errno) : "it is empty");
    if (fd >= 0)
        (void)close(fd);
    return n > 0 ? EXIT_OK : EXIT_FAILED;
}

/* The next line. */
static bool next_address(struct slice *rest, struct slice *out)
{
    const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    if (!end)
        return false;
    *out = slice_of(rest->p, (size_t)(end - rest->p));
    *rest = slice_from(*rest, out->n + 1);
    return true;
}

static int count_live(void *arg, const struct frame_answer *row)
{
    *(bool *)arg |= slice_eq(args_text(row->args, "state"), SLICE_LIT("live"));
    return 0;
}

static bool is_live(const struct here *h)
{
    const struct ask_options options = {
        .gateway = h->socket.p, .prog = "gridline-run", .timeout_ns = 2 * NS_PER_S};
    const struct ask_question q = {.verb = SLICE_LIT("hosts")};
    struct ask_end end;
    struct ask *a;
    bool is_found = false;
    if (ask_open(&options, &a, NULL) < 0)
        return false;
    if (ask_run(a, &q, count_live, &is_found, &end, NULL) < 0)
        is_found = false;
    ask_close(a);
    return is_found;
}

/* The agent has its lease: what a person asks next finds it. Not in time is no failure: it goes on trying. */
static void wait_until_live(const struct here *h, int *signo)
{
    int64_t until = clock_mono_ns() + LIVE_S * NS_PER_S;
    while (!is_live(h)) {
        int what = part_wait(LOOK_MS * INT64_C(1000000));
        if (what && what != SIGCHLD)
            *signo = what;
        if (what)
            return; /* who ended, if it was that, is looked at soon */
        if (clock_mono_ns() > until) {
            say("the agent has no lease yet; `gridline doctor` may know why");
            return;
        }
    }
}

static int start_gateway(struct here *h, int *signo)
{
    struct part *p = &h->gateway;
    uint64_t port = h->options->port;
    prepare(h, p, "gateway", "gridline-gateway", "/dev/null");
    part_add(p, "--set");
    part_add(p, "http=127.0.0.1:%" PRIu64, port ? port + 1 : 0);
    add_settings(p, &h->options->gateway);
    part_add(p, "--listen");
    part_add(p, "tcp://127.0.0.1:%" PRIu64, port);
    int code = start_first(p, signo);
    return code == EXIT_OK && !*signo ? read_addresses(h) : code;
}

/* If it is started again it is to have the same addresses: the agent and others know them. */
static void keep_addresses(struct here *h, struct slice first)
{
    struct slice rest = strbuf_slice(&h->addresses), address;
    part_drop(&h->gateway); /* that of --listen, which was added last */
    part_add(&h->gateway, "%.*s", SLICE_ARG(first));
    while (next_address(&rest, &address)) {
        if (!slice_starts(address, SLICE_LIT("http")))
            continue;
        part_add(&h->gateway, "--set");
        part_add(&h->gateway, "http=%.*s", SLICE_ARG(address));
    }
}

/* Its sockets are those of this run: the gateway's and the agent's are in run_dir. */
static int start_guard(struct here *h, int *signo)
{
    const char *config = h->options->guard_config ? h->options->guard_config : "/dev/null";
    prepare(h, &h->guard, "guard", "gridline-guard", config);
    add_settings(&h->guard, &h->options->guard);
    return start_first(&h->guard, signo);
}

static int start_all(struct here *h, int *signo)
{
    int code = start_gateway(h, signo);
    struct slice rest = strbuf_slice(&h->addresses), first;
    if (code != EXIT_OK || *signo || !next_address(&rest, &first))
        return code;
    keep_addresses(h, first);
    prepare(h, &h->agent, "agent", "gridline-agent", "/dev/null");
    add_settings(&h->agent, &h->options->agent);
    part_add(&h->agent, "--gateway");
    part_add(&h->agent, "%.*s", SLICE_ARG(first));
    code = start_first(&h->agent, signo);
    if (code == EXIT_OK && !*signo)
        wait_until_live(h, signo);
    return code == EXIT_OK && !*signo ? start_guard(h, signo) : code;
}

/* ---------------------------------------------------------------- telling */

static void add_row(struct table *t, const char *part, pid_t pid, struct slice address)
{
    struct args_writer row = {0};
    args_add_text(&row, "part", slice_str(part));
    args_add_uint(&row, "process", (uint64_t)pid);
    args_add_text(&row, "address", address);
    table_add(t, args_of(&row), SLICE_LIT(""));
    args_writer_fini(&row);
}

static int tell_where(const struct here *h)
{
    struct table *t = table_create(&h->table_options);
    struct slice rest = strbuf_slice(&h->addresses), address;
    struct strbuf socket = {0};
    if (!t)
        return EXIT_FAILED;
    while (next_address(&rest, &address))
        add_row(t, "gateway", h->gateway.pid, address);
    strbuf_printf(&socket, "unix:%s/agent.sock", h->run_dir.p);
    add_row(t, "agent", h->agent.pid, strbuf_slice(&socket));
    strbuf_reset(&socket);
    strbuf_printf(&socket, "unix:%s/guard.sock", h->run_dir.p);
    add_row(t, "guard", h->guard.pid, strbuf_slice(&socket));
    strbuf_fini(&socket);
    int r = table_finish(t);
    table_destroy(t);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int take_address(void *arg, const struct frame_answer *row)
{
    strbuf_add_slice(arg, args_text(row->args, "address"));
    return 0;
}

/* Where the viewer is, with a key that signs in; nothing where there is none. */
static void tell_viewer(const struct here *h)
{
    const struct ask_options options = {
        .gateway = h->socket.p, .prog = "gridline-run", .timeout_ns = 2 * NS_PER_S};
    const struct ask_question q = {.verb = SLICE_LIT("viewer.key")};
    struct strbuf address = {0};
    struct ask_end end;
    struct ask *a;
    if (ask_open(&options, &a, NULL) < 0)
        return;
    if (ask_run(a, &q, take_address, &address, &end, NULL) == 0 && address.n)
        say_plain(
            "\nSee it in a browser (the address works once; `gridline viewer%s%s` prints another):\n    %s",
            h->options->dir ? " --gateway " : "", h->options->dir ? h->socket.p : "", address.p);
    ask_close(a);
    strbuf_fini(&address);
}

/* With a folder of one's own, commands have to be told where. */
static void tell_next(const struct here *h)
{
    struct strbuf gateway = {0}, socket = {0};
    if (h->options->dir) {
        strbuf_printf(&gateway, " --gateway %s", h->socket.p);
        strbuf_printf(&socket, " --guard unix:%s/guard.sock", h->run_dir.p);
    }
    const char *where = strbuf_slice(&gateway).p, *guard = strbuf_slice(&socket).p;
    say_plain(
        "\nThis is host %s; the events and all else are kept in %s. Ctrl-C ends it.\nFrom another terminal:\n"
        "    gridline hosts%s\n    gridline tail -e vector%s\n    gridline sensor list --all%s\n"
        "    gridline ledger%s\n    gridline faults%s",
        host_name(), h->dir.p, where, where, where, where, guard);
    strbuf_fini(&gateway);
    strbuf_fini(&socket);
}

/* ---------------------------------------------------------------- running */

static void restart(struct part *p, int64_t now_ns)
{
    if (!p->again_ns || p->again_ns > now_ns)
        return;
    int r = part_start(p);
    if (r < 0) {
        p->again_ns = now_ns + NS_PER_S;
        say("the %s can't be started: %s; tried again", p->name, strerror(-r));
    } else {
        say("the %s starts again, as process %d", p->name, (int)p->pid);
    }
}

static int64_t until_next_ns(struct part *const parts[PARTS], int64_t now_ns)
{
    int64_t next_ns = 3600 * NS_PER_S;
    for (size_t i = 0; i < PARTS; i++) {
        int64_t left = parts[i]->again_ns ? parts[i]->again_ns - now_ns : next_ns;
        next_ns = left < next_ns ? left : next_ns;
    }
    return next_ns > 0 ? next_ns : 0;
}

/* Until a signal comes. */
static void keep(struct here *h)
{
    struct part *const parts[PARTS] = {&h->gateway, &h->agent, &h->guard};
    for (int signo = SIGCHLD; signo == 0 || signo == SIGCHLD;) {
        int64_t now = clock_mono_ns();
        for (size_t i = 0; i < PARTS; i++) {
            if (part_look(parts[i]))
                say_end(parts[i], "", "; it is started again");
            restart(parts[i], now);
        }
        signo = part_wait(until_next_ns(parts, now));
    }
}

/* The gateway last: the others' last events and goodbyes are taken. */
static int end_all(struct here *h)
{
    struct part *const parts[PARTS] = {&h->guard, &h->agent, &h->gateway};
    int code = EXIT_OK;
    for (size_t i = 0; i < PARTS; i++) {
        if (!part_stop(parts[i])) {
            say("the %s did not end by itself and was killed", parts[i]->name);
            code = EXIT_FAILED;
        }
        part_fini(parts[i]);
    }
    return code;
}

static int run_here(struct here *h)
{
    int signo = 0;
    int code = make_places(h);
    if (code == EXIT_OK)
        code = start_all(h, &signo);
    if (code == EXIT_OK && !signo && !h->options->is_quiet)
        code = tell_where(h);
    if (code == EXIT_OK && !signo) {
        if (!h->options->is_quiet) {
            tell_viewer(h);
            tell_next(h);
        }
        keep(h);
    }
    int end = end_all(h);
    return code == EXIT_OK ? end : code;
}

static int run_run(void *state, struct operands unused)
{
    static const struct table_column columns[] = {{"part", 0}, {"process", 0}, {"address", 0}, {NULL, 0}};
    const struct run_options *o = state;
    struct here h = {.options = o, .lock = -1, .table_options = {.event = "run", .columns = columns}};
    (void)unused;                /* it has none */
    if (o->port >= UINT16_MAX) { /* HTTP's is one more */
        say("--port: %" PRIu64 " is no port", o->port);
        return EXIT_USAGE;
    }
    if (!table_format(o->format, &h.table_options.encoding))
        return EXIT_USAGE;
    part_block_signals();
    int code = run_here(&h);
    if (h.lock >= 0)
        (void)close(h.lock);
    strbuf_fini(&h.dir);
    strbuf_fini(&h.run_dir);
    strbuf_fini(&h.socket);
    strbuf_fini(&h.addresses);
    return code;
}

#define AT(member) offsetof(struct run_options, member)

static const struct option_spec table[] = {
    {'d', "dir", OPTION_FILE, "DIR", AT(dir),
     "keep everything in DIR, sockets too (default: `gridline/run` in $XDG_STATE_HOME or ~/.local/state, "
     "root's in "
     "/var/lib; the sockets are where commands look for them)"},
    {'p', "port", OPTION_SIZE, "PORT", AT(port),
     "listen on this port of 127.0.0.1, and for HTTP on the next (default 14830; 0: any that are free)"},
    {0, "set-agent", OPTION_TEXTS, "KEY=VALUE", AT(agent),
     "change a configuration key of the agent, e.g. `disk.every=5s`"},
    {0, "set-gateway", OPTION_TEXTS, "KEY=VALUE", AT(gateway),
     "change one of the gateway, e.g. `journal_max=100MiB`"},
    {0, "set-guard", OPTION_TEXTS, "KEY=VALUE", AT(guard),
     "change one of the guard, e.g. `heartbeat.timeout=30s`"},
    {0, "guard-config", OPTION_FILE, "FILE", AT(guard_config),
     "rules and actions of the guard, besides the default rules"},
    {'t', "format", OPTION_TEXT, "FORMAT", AT(format),
     "say what is where as `table` (default), `json`, `csv`, `ulm`, `xml`, or another of the formats"},
    {'v', "verbose", OPTION_FLAG, NULL, AT(is_verbose),
     "show everything that they have to say, not errors alone"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(is_quiet), "say nothing but errors"},
    {0},
};

static const struct run_options defaults = {.port = PORT};

static const struct example examples[] = {
    {"gridline run", "Watch this host, now"},
    {"gridline run --dir /tmp/try --port 0", "The same, apart from all else on this host"},
    {"gridline run --set-agent vector.every=100ms --set-agent disk.mode=on-request",
     "Sensors as you want them"},
    {NULL, NULL},
};

const struct verb verb_run = {
    .name = "run",
    .summary = "agent, gateway and guard here, now",
    .operands = "",
    .description =
        "Starts a gateway, an agent and a guard on this host that need no configuration and use "
        "none: the gateway listens on loopback alone, the agent runs its default sensors, the guard "
        "judges by its default rules and does nothing but say so. When all are ready it says where "
        "they are, and then keeps "
        "them running: one that dies is started again, after a while if it dies again.\n"
        "In the foreground, until SIGINT (Ctrl-C), SIGTERM or SIGHUP; then they end, the gateway "
        "last, and nothing is left "
        "but the events. A second signal kills them. If it is killed itself, they end, too.\n"
        "As root or as any user. One runs in a folder at a time.\n"
        "Ends with 1 if a part does not start, or had to be killed.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct run_options),
    .defaults = &defaults,
    .run = run_run,
};
