/* SPDX-License-Identifier: Apache-2.0 */
/* Each host of the demo is a network namespace, with one interface, at a switch in a namespace of its own:
 *
 *     client   10.77.0.1 ──┐        ┌── RATE ── br2 ── 10.77.0.11  server1
 *     sched    10.77.0.2 ──┴── br0 ─┼── RATE ── br3 ── 10.77.0.12  server2
 *                                   └── RATE ── br4 ── 10.77.0.13  server3
 *
 * The narrow place is on the way, not at the sender, so that a queue builds up there as in a router, and with
 * it a round trip time.
 *
 * They have no names: a descriptor holds each until processes run in it, and with the last of these it is
 * gone, whatever ended them. Nothing of them is seen outside, so any number of demos can run beside each
 * other.
 *
 * The kernel is told not to hand on segments in lumps (gso_max_segs), so that a packet that is lost is a
 * segment. What is lost is lost where it is received: a sender would notice its own. Loss comes in bursts, as
 * of a queue that overflows: for BURST_MS nearly all packets from one server; an element of a set of nft's,
 * which the kernel itself takes away when its time is over. */
#include "base/clock.h"
#include "cmd/demo.h"
#include "cmd/program.h"
#include "cmd/say.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RATE "60mbit"

enum { BURST_MS = 900, BURST_EVERY_MS = 3000, LOSS_PERCENT = 96 };

/* ---------------------------------------------------------------- namespaces */

/* One that nothing is in but this descriptor; -errno. */
static int make_netns(void)
{
    char path[64];
    int made[2], fd = -EIO;
    char byte;
    if (pipe2(made, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        int r = unshare(CLONE_NEWNET) < 0 ? errno : 0;
        byte = (char)r;
        (void)!write(made[1], &byte, 1); /* who does not get it knows that it failed */
        (void)pause();
        _exit(0);
    }
    (void)close(made[1]);
    if (pid > 0 && read(made[0], &byte, 1) == 1 && byte) {
        fd = -byte;
    } else if (pid > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    (void)close(made[0]);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0); /* it is our child */
    }
    return fd;
}

/* As root of a name space of users a person who is not root may have namespaces of the other kinds, too,
 * where the system allows it. */
static bool become_root_of_own(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0)
        return true;
    if (unshare(CLONE_NEWUSER) < 0)
        return false;
    const struct {
        const char *path, *format;
        unsigned id;
    } files[] = {{"/proc/self/setgroups", "deny", 0},
                 {"/proc/self/uid_map", "0 %u 1", uid},
                 {"/proc/self/gid_map", "0 %u 1", gid}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int n = i == 0 ? snprintf(map, sizeof map, "deny") : snprintf(map, sizeof map, "0 %u 1", files[i].id);
        int fd = open(files[i].path, O_WRONLY | O_CLOEXEC);
        bool is_written = fd >= 0 && write(fd, map, (size_t)n) == n;
        if (fd >= 0)
            (void)close(fd);
        if (!is_written)
            return false;
    }
    return true;
}

static void print_enter(int netns, char out[64])
{
    (void)snprintf(out, 64, "--net=/proc/%d/fd/%d", (int)getpid(), netns);
}

void demo_net_enter(const struct demo *d, const struct demo_host *h, struct part *p, const char *program)
{
    struct strbuf path = {0};
    p->program = program;
    if (!d->has_net)
        return;
    char enter[64];
    print_enter(h->netns, enter);
    p->program = "nsenter";
    part_add(p, "%s", enter);
    part_add(p, "%s", program_find(program, &path) < 0 ? program : path.p);
    strbuf_fini(&path);
}

/* ---------------------------------------------------------------- the network */

static int run_in(struct demo *d, int netns, const char *const *words, const char *input)
{
    const char *argv[16] = {"nsenter"};
    char enter[64];
    size_t n = 2;
    print_enter(netns, enter);
    argv[1] = enter;
    while (*words)
        argv[n++] = *words++;
    return demo_command(d, argv, input);
}
#define RUN_IN(d, netns, input, ...) run_in(d, netns, (const char *const[]){__VA_ARGS__, NULL}, input)

/* A server's way to the switch, as a bridge of its own with a narrow link. */
static int make_way(struct demo *d, unsigned number)
{
    char batch[512], up[16];
    (void)snprintf(
        batch, sizeof batch,
        "link add br%u type bridge\nlink add up%u type veth peer name down%u\nlink set up%u master br%u up\n"
        "link set down%u master br0 up\nlink set br%u up\n",
        number, number, number, number, number, number, number);
    (void)snprintf(up, sizeof up, "up%u", number);
    int code = RUN_IN(d, d->switch_netns, batch, "ip", "-batch", "-");
    if (code != EXIT_OK)
        return code;
    return RUN_IN(d, d->switch_netns, NULL, "tc", "qdisc", "add", "dev", up, "root", "tbf", "rate", RATE,
                  "burst", "16kb", "latency", "200ms");
}

/* A cable from there to a host, with its end there. */
static int connect_host(struct demo *d, const struct demo_host *h, unsigned number)
{
    char batch[512];
    unsigned bridge = number < DEMO_SERVER ? 0 : number;
    int code = bridge ? make_way(d, number) : EXIT_OK;
    (void)snprintf(
        batch, sizeof batch,
        "link add port%u gso_max_segs 1 type veth peer name eth0 gso_max_segs 1 netns /proc/%d/fd/%d\n"
        "link set port%u master br%u up\n",
        number, (int)getpid(), h->netns, number, bridge);
    if (code == EXIT_OK)
        code = RUN_IN(d, d->switch_netns, batch, "ip", "-batch", "-");
    (void)snprintf(batch, sizeof batch, "link set lo up\nlink set eth0 up\naddress add %s/24 dev eth0\n",
                   h->address);
    if (code == EXIT_OK)
        code = RUN_IN(d, h->netns, batch, "ip", "-batch", "-");
    return code;
}

static int connect_all(struct demo *d)
{
    char rules[256];
    int code = RUN_IN(d, d->switch_netns, "link add br0 type bridge\nlink set br0 up\n", "ip", "-batch", "-");
    for (unsigned i = 0; i < DEMO_HOSTS && code == EXIT_OK; i++)
        code = connect_host(d, &d->hosts[i], i);
    (void)snprintf(rules, sizeof rules,
                   "table ip demo {\n"
                   "    set lossy { type ipv4_addr; flags timeout; }\n"
                   "    chain input { type filter hook input priority 0;\n"
                   "        ip saddr @lossy numgen random mod 100 < %d counter drop; }\n"
                   "}\n",
                   LOSS_PERCENT);
    return code == EXIT_OK ? RUN_IN(d, d->hosts[DEMO_CLIENT].netns, rules, "nft", "-f", "-") : code;
}

static int make_all(struct demo *d)
{
    if (!become_root_of_own())
        return -EPERM;
    int fd = d->switch_netns = make_netns();
    for (unsigned i = 0; i < DEMO_HOSTS && fd >= 0; i++)
        fd = d->hosts[i].netns = make_netns();
    return fd < 0 ? fd : 0;
}

int demo_net_make(struct demo *d)
{
    int r = d->options->has_no_net ? -ECANCELED : make_all(d);
    d->has_net = r == 0 && connect_all(d) == EXIT_OK;
    if (d->signo)
        return EXIT_FAILED;
    for (unsigned i = 0; i < DEMO_HOSTS && !d->has_net; i++)
        (void)snprintf(d->hosts[i].address, sizeof d->hosts[i].address, "127.0.0.1");
    if (!d->has_net)
        demo_net_remove(d);
    if (r < 0 && r != -ECANCELED)
        say("no network namespaces: %s; the hosts share this one, and nothing is lost on the way: a server "
            "is stopped "
            "now and then instead",
            strerror(-r));
    else if (!d->has_net && r == 0)
        say("without them (ip, tc, nft and nsenter are needed) a server is stopped now and then instead");
    return EXIT_OK;
}

void demo_net_remove(struct demo *d)
{
    for (unsigned i = 0; i < DEMO_HOSTS; i++) {
        if (d->hosts[i].netns >= 0)
            (void)close(d->hosts[i].netns);
        d->hosts[i].netns = -1;
    }
    if (d->switch_netns >= 0)
        (void)close(d->switch_netns);
    d->switch_netns = -1;
}

/* ---------------------------------------------------------------- the weather */

static const struct demo_host *bad_host(const struct demo *d)
{
    return &d->hosts[DEMO_SERVER + DEMO_BAD_SERVER - 1];
}

static int begin_burst(struct demo *d)
{
    char rule[128];
    if (d->has_net) {
        (void)snprintf(rule, sizeof rule, "add element ip demo lossy { %s timeout %dms }\n",
                       bad_host(d)->address, BURST_MS);
        return RUN_IN(d, d->hosts[DEMO_CLIENT].netns, rule, "nft", "-f", "-");
    }
    if (bad_host(d)->role.pid)
        (void)kill(bad_host(d)->role.pid, SIGSTOP);
    d->is_stopped = true;
    return EXIT_OK;
}

void demo_net_end_burst(struct demo *d)
{
    if (d->is_stopped && bad_host(d)->role.pid)
        (void)kill(bad_host(d)->role.pid, SIGCONT);
    d->is_stopped = false;
}

int demo_net_weather(struct demo *d)
{
    int64_t now = clock_mono_ns();
    if (d->is_stopped && now >= d->burst_end_ns)
        demo_net_end_burst(d);
    if (!d->is_degraded || now < d->burst_ns)
        return EXIT_OK;
    d->burst_ns =
        now + BURST_EVERY_MS * INT64_C(1000000); /* before it: the command looks at the weather, too */
    d->burst_end_ns = now + BURST_MS * INT64_C(1000000);
    d->bursts++;
    return begin_burst(d);
}

int demo_net_degrade(struct demo *d)
{
    d->is_degraded = true;
    d->burst_ns = clock_mono_ns();
    if (d->has_net)
        demo_say(d,
                 "From now on the way from server2 to the client loses packets: %d of 100 for %d ms, every "
                 "%d ms, as "
                 "if a queue on it overflowed. (In the client's namespace: nft add element ip demo lossy { "
                 "%s timeout "
                 "%dms }.) TCP is to mend that, and it will.",
                 LOSS_PERCENT, BURST_MS, BURST_EVERY_MS, bad_host(d)->address, BURST_MS);
    else
        demo_say(d,
                 "From now on server2 stands still (SIGSTOP) for %d ms, every %d ms. This is no fault of the "
                 "network, as "
                 "the story has it: namespaces can't be had here.",
                 BURST_MS, BURST_EVERY_MS);
    return EXIT_OK;
}

void demo_net_mend(struct demo *d)
{
    demo_net_end_burst(d);
    d->is_degraded = false;
}
