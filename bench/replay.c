/* SPDX-License-Identifier: Apache-2.0 */
/* The control of bench/agent: the system calls of one round of the agent's sensors, as `gridline sense --files` lists them,
 * again and again, with nothing done with what they give. usage: replay LIST ROUNDS INTERVAL_MS
 *
 * Files are opened once and read with pread; what is not a file is asked for in the same way as the sensors do. Prints the
 * CPU of a round in microseconds, and how many calls a round has. */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

enum { CALLS_MAX = 512, BUFFER = 1 << 20 };

struct call {
    char kind[16], what[256];
    int fd;
    off_t at; /* a file read in parts: where this part begins */
};

static char buffer[BUFFER];

static int prepare(struct call *c)
{
    if (strcmp(c->kind, "pread") == 0) {
        c->fd = open(c->what, O_RDONLY | O_CLOEXEC);
        return c->fd < 0 ? -errno : 0;
    }
    if (strcmp(c->kind, "netlink") == 0) {
        c->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        return c->fd < 0 ? -errno : 0;
    }
    if (strcmp(c->kind, "poll") == 0) {
        c->fd = open(c->what, O_RDONLY | O_CLOEXEC);
        return c->fd < 0 ? -errno : 0;
    }
    return strcmp(c->kind, "open") == 0 || strcmp(c->kind, "statvfs") == 0 || strcmp(c->kind, "adjtimex") == 0 || strcmp(c->kind, "getrusage") == 0
               ? 0
               : -ENOTSUP;
}

static void dump_qdiscs(int fd)
{
    const struct {
        struct nlmsghdr head;
        struct tcmsg body;
    } ask = {.head = {.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETQDISC, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    ssize_t n = send(fd, &ask, sizeof ask, 0);
    while (n > 0) {
        n = recv(fd, buffer, sizeof buffer, 0);
        for (struct nlmsghdr *h = (void *)buffer; n > 0 && NLMSG_OK(h, n); h = NLMSG_NEXT(h, n))
            if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
                return;
        n = 1;
    }
}

static void open_and_close(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        (void)close(fd);
}

static void replay(const struct call *c)
{
    struct statvfs fs;
    struct timex t = {.modes = 0};
    struct rusage u;
    if (strcmp(c->kind, "pread") == 0)
        (void)!pread(c->fd, buffer, sizeof buffer, c->at);
    else if (strcmp(c->kind, "netlink") == 0)
        dump_qdiscs(c->fd);
    else if (strcmp(c->kind, "open") == 0)
        open_and_close(c->what);
    else if (strcmp(c->kind, "poll") == 0)
        (void)poll(&(struct pollfd){.fd = c->fd, .events = POLLPRI}, 1, 0);
    else if (strcmp(c->kind, "statvfs") == 0)
        (void)statvfs(c->what, &fs);
    else if (strcmp(c->kind, "adjtimex") == 0)
        (void)adjtimex(&t);
    else
        (void)getrusage(RUSAGE_SELF, &u);
}

static double used_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static size_t read_list(const char *path, struct call *calls)
{
    FILE *f = fopen(path, "r");
    size_t n = 0, bytes;
    off_t at = 0;
    while (f && n < CALLS_MAX && fscanf(f, "%15s %255s %zu", calls[n].kind, calls[n].what, &bytes) == 3) {
        bool goes_on = n > 0 && strcmp(calls[n].kind, "pread") == 0 && strcmp(calls[n - 1].what, calls[n].what) == 0;
        calls[n].at = goes_on ? at : 0;
        at = calls[n].at + (off_t)bytes;
        n++;
    }
    if (f)
        (void)fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    static struct call calls[CALLS_MAX];
    size_t n = argc == 4 ? read_list(argv[1], calls) : 0, used = 0;
    if (n == 0) {
        (void)fprintf(stderr, "usage: replay LIST ROUNDS INTERVAL_MS; LIST is from `gridline sense --files`\n");
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        int r = prepare(&calls[i]);
        if (r < 0) {
            (void)fprintf(stderr, "replay: left out: %s %s: %s\n", calls[i].kind, calls[i].what, strerror(-r));
            continue;
        }
        calls[used++] = calls[i];
    }
    long rounds = strtol(argv[2], NULL, 10), ms = strtol(argv[3], NULL, 10);
    struct timespec next;
    (void)clock_gettime(CLOCK_MONOTONIC, &next);
    double before = used_us();
    for (long r = 0; r < rounds; r++) {
        for (size_t i = 0; i < used; i++)
            replay(&calls[i]);
        next.tv_nsec += ms % 1000 * 1000000;
        next.tv_sec += ms / 1000 + next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        if (ms)
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("%.1f %zu\n", (used_us() - before) / (double)rounds, used);
    return 0;
}
