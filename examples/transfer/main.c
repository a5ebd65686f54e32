/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-transfer - a bulk transfer service, small but real: what `gridline demo` watches, and an example
 * of a program instrumented with libgridline. docs/demo.md has its story.
 *
 *     client ──GET──────► scheduler          a server that is free, or a place in the queue
 *        ◄───FROM server2─
 *        ◄═══ blocks ═══► server2            over several streams at once
 *
 * What happens is told where it happens, in one line each, with an id; events of one id, over all programs,
 * are its lifeline:
 *
 *     of a transfer   transfer.request ► sched.queue ► sched.dispatch ► server.open ► transfer.end
 *     of a block      block.read ► block.send ► block.header ► block.receive ► block.write
 *
 * Those of a block are thousands a second: their level is debug, so that they are off until somebody wants
 * them
 * (`gridline activate 'block.*' debug`), and cost nothing till then. */
#include "transfer.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t ending;
static sigset_t usual; /* the signals that are blocked while nobody waits */

static void on_end(int signo)
{
    (void)signo;
    ending = 1;
}

bool is_ending(void)
{
    return ending;
}

int wait_readable(struct pollfd *fds, unsigned n)
{
    return ppoll(fds, n, NULL, &usual);
}

/* Blocked in all threads but while one waits, so that none comes between looking and waiting. Workers that
 * never wait so look often enough. */
static void take_signals(bool waits)
{
    struct sigaction action = {.sa_handler = on_end};
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(waits ? SIG_BLOCK : SIG_UNBLOCK, &ends, &usual);
    action.sa_flags = waits ? 0 : SA_RESTART;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
}

static _Noreturn void usage(void)
{
    (void)fputs(
        "usage: gridline-transfer server    --listen ADDRESS:PORT --folder DIR [--ready FILE] EVENTS\n"
        "       gridline-transfer scheduler --listen ADDRESS:PORT --server NAME=ADDRESS:PORT... [--ready "
        "FILE] EVENTS\n"
        "       gridline-transfer client    --scheduler ADDRESS:PORT --folder DIR [--transfers N] [--first "
        "N]\n"
        "                                   [--workers N] [--streams N] [--buffers BYTES,...] [--files N] "
        "EVENTS\n"
        "EVENTS: --to URL, where they go (gridline.h; else $GRIDLINE_DEST); --host NAME, in whose name;\n"
        "        --control FILE that says which (else the one of this host's agent)\n",
        stderr);
    exit(2);
}

static unsigned long number(const char *text, unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || *end || end == text || n > most)
        usage();
    return n;
}

static void read_buffers(struct transfer *t, const char *text)
{
    for (unsigned i = 0; i < STREAMS_MAX && *text; i++) {
        char *end;
        t->buffers[i] = (int)strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || t->buffers[i] < 0)
            usage();
        text = *end ? end + 1 : end;
    }
}

struct events {
    const char *to, *control;
};

static void read_options(int argc, char **argv, struct transfer *t, struct events *e)
{
    static const struct option table[] = {
        {"listen", 1, NULL, 'l'},    {"ready", 1, NULL, 'r'},   {"folder", 1, NULL, 'd'},
        {"scheduler", 1, NULL, 's'}, {"server", 1, NULL, 'v'},  {"transfers", 1, NULL, 'n'},
        {"first", 1, NULL, 'i'},     {"workers", 1, NULL, 'w'}, {"streams", 1, NULL, 'm'},
        {"buffers", 1, NULL, 'b'},   {"files", 1, NULL, 'f'},   {"to", 1, NULL, 't'},
        {"host", 1, NULL, 'h'},      {"control", 1, NULL, 'c'}, {NULL, 0, NULL, 0},
    };
    for (int o; (o = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (o) {
        case 'l':
            t->listen = optarg;
            break;
        case 'r':
            t->ready = optarg;
            break;
        case 'd':
            t->folder = optarg;
            break;
        case 's':
            t->scheduler = optarg;
            break;
        case 'v':
            if (t->n_servers == SERVERS_MAX || !strchr(optarg, '='))
                usage();
            t->servers[t->n_servers++] = optarg;
            break;
        case 'n':
            t->transfers = number(optarg, 1000000000);
            break;
        case 'i':
            t->first = number(optarg, 1000000000);
            break;
        case 'w':
            t->workers = (unsigned)number(optarg, 32);
            break;
        case 'm':
            t->streams = (unsigned)number(optarg, STREAMS_MAX);
            break;
        case 'b':
            read_buffers(t, optarg);
            break;
        case 'f':
            t->files = (unsigned)number(optarg, 1000);
            break;
        case 't':
            e->to = optarg;
            break;
        case 'h':
            t->host = optarg;
            break;
        case 'c':
            e->control = optarg;
            break;
        default:
            usage();
        }
    }
    if (optind + 1 != argc || t->workers == 0 || t->streams == 0 || t->files == 0)
        usage();
}

static gridline *open_log(const char *role, const char *host, const struct events *e)
{
    char prog[64];
    (void)snprintf(prog, sizeof prog, "transfer-%s", role);
    gridline *log = gridline_open(prog, e->to, GRIDLINE_THREAD | (e->to ? 0 : GRIDLINE_ENV));
    if (host)
        (void)gridline_set_host(log, host);
    if (e->control)
        (void)gridline_watch(log, e->control); /* it need not be there yet */
    return log;
}

int main(int argc, char **argv)
{
    struct transfer t = {.workers = 1, .streams = 3, .files = 1, .first = 1};
    struct events e = {0};
    read_options(argc, argv, &t, &e);
    const char *role = argv[optind];
    bool is_server = strcmp(role, "server") == 0, is_scheduler = strcmp(role, "scheduler") == 0;
    if (is_server      ? !t.listen || !t.folder
        : is_scheduler ? !t.listen || !t.n_servers
                       : strcmp(role, "client") != 0 || !t.scheduler || !t.folder)
        usage();
    take_signals(is_server || is_scheduler);
    t.log = open_log(role, t.host, &e);
    int code = is_server ? run_server(&t) : is_scheduler ? run_scheduler(&t) : run_client(&t);
    gridline_self(t.log);
    gridline_close(t.log);
    return code;
}
