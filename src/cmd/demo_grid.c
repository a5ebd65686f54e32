/* SPDX-License-Identifier: Apache-2.0 */
/* The processes. `gridline run` is the grid: gateway, guard, and an agent for the machine as a whole.
 * Besides, each host of the demo has its agent, with its name, in its namespace, and its part of the service.
 * All speak to the gateway by its socket, which all namespaces see, so that what is watched and the watching
 * don't share a network. */
#include "base/clock.h"
#include "base/directory.h"
#include "cmd/demo.h"
#include "cmd/say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    START_S = 60,
    LOOK_MS = 20,
    FILES = 4,
    FILE_BLOCKS = 48,
    BLOCK_BYTES = 64 << 10,
    WORKERS = DEMO_SERVERS + 1, /* one more than there are servers: somebody waits in the queue */
    GOOD_BUFFER = 262144,
    BAD_BUFFER = 2048
};

static int start(struct demo *d, struct part *p)
{
    int64_t until = clock_mono_ns() + START_S * NS_PER_S;
    int r = part_start(p);
    if (r < 0) {
        say("%s can't be started: %s", p->name, strerror(-r));
        return EXIT_FAILED;
    }
    demo_folder_note(d, p->pid);
    for (int code = EXIT_OK; p->ready.n && !part_is_ready(p);) {
        code = demo_wait(d, LOOK_MS * INT64_C(1000000));
        if (code != EXIT_OK)
            return code;
        if (clock_mono_ns() > until) {
            say("%s is not ready after %d s", p->name, START_S);
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

static void set_key(struct part *p, const char *key, const char *value)
{
    part_add(p, "--set");
    part_add(p, "%s=%s", key, value);
}

/* ---------------------------------------------------------------- the grid */

static int start_grid(struct demo *d)
{
    struct part *p = &d->grid;
    p->name = "gridline run";
    p->program = "gridline";
    strbuf_printf(&p->ready, "%s/guard.ready", d->grid_dir.p); /* which it starts last */
    part_add(p, "run");
    part_add(p, "--quiet");
    part_add(p, "--dir");
    part_add(p, "%s", d->grid_dir.p);
    part_add(p, "--port");
    part_add(p, "0");
    return start(d, p);
}

/* Hardware and system are told often enough to be compared, TCP ten times a second, but only when somebody
 * asks. */
static int start_agent(struct demo *d, struct demo_host *h)
{
    static const char *const settings[][2] = {
        {"tcp.mode", "on-request"}, {"tcp.every", "100ms"}, {"host.every", "2s"},     {"host.refresh", "2s"},
        {"filesystem.mode", "off"}, {"users.mode", "off"},  {"pressure.mode", "off"}, {"disk.mode", "off"},
        {"paging.mode", "off"},     {"vector.mode", "off"},
    };
    struct part *p = &h->agent;
    p->name = "an agent";
    demo_net_enter(d, h, p, "gridline-agent");
    strbuf_printf(&p->ready, "%s/%s/agent.ready", d->dir.p, h->name);
    part_add(p, "--config");
    part_add(p, "/dev/null");
    part_add(p, "--ready-file");
    part_add(p, "%s", p->ready.p);
    part_add(p, "--quiet");
    part_add(p, "--gateway"); /* spelled another way for each: a network has one agent for an address */
    part_add(p, "unix:%s/%s/../grid/run/gateway.sock", d->dir.p, h->name);
    set_key(p, "hostname", h->name);
    part_add(p, "--set");
    part_add(p, "state_dir=%s/%s/state", d->dir.p, h->name);
    part_add(p, "--set");
    part_add(p, "run_dir=%s/%s/run", d->dir.p, h->name);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        set_key(p, settings[i][0], settings[i][1]);
    return start(d, p);
}

/* ---------------------------------------------------------------- the service */

/* Real bytes, from the system's own pool. */
static int make_file(const struct demo *d, const char *host, unsigned number)
{
    static char block[BLOCK_BYTES];
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s/files/file-%u", d->dir.p, host, number);
    int from = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    int fd = open(path.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_done = from >= 0 && fd >= 0;
    for (unsigned i = 0; i < FILE_BLOCKS && is_done; i++)
        is_done =
            read(from, block, sizeof block) == BLOCK_BYTES && write(fd, block, sizeof block) == BLOCK_BYTES;
    is_done = is_done && fdatasync(fd) == 0; /* so that it can be read from the disk */
    if (!is_done)
        say("%s: %s", path.p, strerror(errno));
    if (from >= 0)
        (void)close(from);
    if (fd >= 0)
        (void)close(fd);
    strbuf_fini(&path);
    return is_done ? EXIT_OK : EXIT_FAILED;
}

static int make_folder(const struct demo *d, const char *host, const char *name)
{
    struct strbuf path = {0};
    struct diag why = {0};
    strbuf_printf(&path, "%s/%s/%s", d->dir.p, host, name);
    int r = directory_make(path.p, &why);
    if (r < 0)
        say("%s", why.message);
    strbuf_fini(&path);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

/* Where its events go, in whose name, and who says which. */
static void add_events(const struct demo *d, const struct demo_host *h, struct part *p)
{
    part_add(p, "--to");
    part_add(p, "%s", d->socket.p);
    part_add(p, "--host");
    part_add(p, "%s", h->name);
    part_add(p, "--control");
    part_add(p, "%s/%s/run/activate", d->dir.p, h->name); /* which its agent writes */
}

/* The address that it listens at, as it wrote it. */
static int read_address(const struct demo_host *h, char out[64])
{
    int fd = open(h->role.ready.p, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 63);
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0)
        say("%s: %s", h->role.ready.p, n < 0 ? strerror(errno) : "it is empty");
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    return n > 0 ? EXIT_OK : EXIT_FAILED;
}

static void begin_role(const struct demo *d, struct demo_host *h, const char *role)
{
    struct part *p = &h->role;
    p->name = role;
    demo_net_enter(d, h, p, "gridline-transfer");
    strbuf_printf(&p->ready, "%s/%s/address", d->dir.p, h->name);
    part_add(p, "%s", role);
    part_add(p, "--listen");
    part_add(p, "%s:0", h->address);
    part_add(p, "--ready");
    part_add(p, "%s", p->ready.p);
    add_events(d, h, p);
}

static int start_server(struct demo *d, struct demo_host *h)
{
    int code = make_folder(d, h->name, "files");
    for (unsigned i = 0; i < FILES && code == EXIT_OK; i++)
        code = make_file(d, h->name, i);
    if (code != EXIT_OK)
        return code;
    begin_role(d, h, "server");
    part_add(&h->role, "--folder");
    part_add(&h->role, "%s/%s/files", d->dir.p, h->name);
    return start(d, &h->role);
}

static int start_scheduler(struct demo *d)
{
    struct demo_host *h = &d->hosts[DEMO_SCHEDULER];
    char address[64];
    begin_role(d, h, "scheduler");
    for (unsigned i = DEMO_SERVER; i < DEMO_HOSTS; i++) {
        int code = read_address(&d->hosts[i], address);
        if (code != EXIT_OK)
            return code;
        part_add(&h->role, "--server");
        part_add(&h->role, "%s=%s", d->hosts[i].name, address);
    }
    return start(d, &h->role);
}

int demo_grid_start(struct demo *d)
{
    int code = start_grid(d);
    for (unsigned i = 0; i < DEMO_HOSTS && code == EXIT_OK; i++) {
        code = make_folder(d, d->hosts[i].name, "run");
        if (code == EXIT_OK)
            code = start_agent(d, &d->hosts[i]);
    }
    for (unsigned i = DEMO_SERVER; i < DEMO_HOSTS && code == EXIT_OK; i++)
        code = start_server(d, &d->hosts[i]);
    return code == EXIT_OK ? start_scheduler(d) : code;
}

int demo_grid_load(struct demo *d, unsigned long first, unsigned streams, bool has_bug)
{
    const struct demo_host *h = &d->hosts[DEMO_CLIENT];
    struct part *p = &d->client;
    char address[64];
    int code = make_folder(d, h->name, "files");
    if (code == EXIT_OK)
        code = read_address(&d->hosts[DEMO_SCHEDULER], address);
    if (code != EXIT_OK)
        return code;
    p->name = "the client";
    demo_net_enter(d, h, p, "gridline-transfer");
    part_add(p, "client");
    part_add(p, "--scheduler");
    part_add(p, "%s", address);
    part_add(p, "--folder");
    part_add(p, "%s/%s/files", d->dir.p, h->name);
    part_add(p, "--first");
    part_add(p, "%lu", first);
    part_add(p, "--workers");
    part_add(p, "%d", WORKERS);
    part_add(p, "--files");
    part_add(p, "%d", FILES);
    part_add(p, "--streams");
    part_add(p, "%u", streams);
    part_add(p, "--buffers");
    part_add(p, "%d,%d,%d", GOOD_BUFFER, GOOD_BUFFER, has_bug ? BAD_BUFFER : GOOD_BUFFER);
    add_events(d, h, p);
    return start(d, p);
}

int demo_grid_unload(struct demo *d)
{
    demo_net_end_burst(d); /* or the client would wait for a server that nobody wakes meanwhile */
    bool has_ended = part_stop(&d->client);
    part_fini(&d->client);
    d->client = (struct part){0};
    if (!has_ended)
        say("the client did not end by itself and was killed");
    return has_ended ? EXIT_OK : EXIT_FAILED;
}

/* ---------------------------------------------------------------- looking after them */

static int look(struct part *p)
{
    struct strbuf end = {0};
    if (!part_look(p))
        return EXIT_OK;
    part_print_end(p, &end);
    say("%s %s in the middle of it", p->name, strbuf_slice(&end).p);
    strbuf_fini(&end);
    return EXIT_FAILED;
}

int demo_grid_look(struct demo *d)
{
    int code = look(&d->grid);
    for (unsigned i = 0; i < DEMO_HOSTS && code == EXIT_OK; i++) {
        code = look(&d->hosts[i].agent);
        if (code == EXIT_OK)
            code = look(&d->hosts[i].role);
    }
    return code == EXIT_OK ? look(&d->client) : code;
}

static void stop(struct part *p)
{
    (void)part_stop(p); /* one that had to be killed is gone, too */
    part_fini(p);
    *p = (struct part){0};
}

/* From the load to the gateway: what each still has to say is taken. */
void demo_grid_end(struct demo *d)
{
    demo_net_mend(d); /* or one might stand still */
    stop(&d->client);
    for (unsigned i = 0; i < DEMO_HOSTS; i++)
        stop(&d->hosts[i].role);
    for (unsigned i = 0; i < DEMO_HOSTS; i++)
        stop(&d->hosts[i].agent);
    stop(&d->grid);
}
