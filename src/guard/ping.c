/* SPDX-License-Identifier: Apache-2.0 */
/* Two lanes: addresses, and names. In each at most one batch is out; what is asked meanwhile waits in the
 * lane, and a timer of a few ms lets those that are asked in one turn go together.
 *
 * A batch belongs to its thread while it runs. An answer to any of its probes counts until it is over, also
 * that of an earlier one: a host that takes 1.5 s is there. */
#include "guard/ping.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/echo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/icmp.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROBES = 3, PROBE_MS = 1000, BATCH_MAX = 1024, NAMES_MAX = 16, GATHER_MS = 10, AGAIN_MS = 100 };
enum { LOOK_MS = 200 };                    /* how often a thread looks whether it is to end */
enum { READ_MAX = 4096, READ_EVERY = 32 }; /* packets of one wake-up; probes between two */

union ip {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct target {
    struct target *next;
    union ip to; /* its family is 0 while it has none */
    int code;    /* -EINPROGRESS until it is decided */
    int64_t sent_ns[PROBES], rtt_ns;
    const char *where; /* what is asked: behind the host's name, in text */
    size_t host_n;
    char text[]; /* the host's name, NUL, where, NUL */
};

enum { V4, V6, FAMILIES };
struct icmp {
    int fd; /* -1 = not open, for `error` */
    int error;
    bool is_raw;
};

struct batch {
    struct errand errand; /* first: the callbacks get it */
    struct lane *lane;    /* NULL = nobody waits for it */
    struct errands *errands;
    struct target *targets[BATCH_MAX];
    size_t n;
    struct icmp icmp[FAMILIES];
    uint64_t cookie;
};

struct lane {
    struct pings *pings;
    struct target *first, **last;
    struct batch *out; /* NULL = none */
    size_t batch_max;
    struct event *timer;
};

struct pings {
    struct errands *errands;
    pings_fn fn;
    void *arg;
    struct lane addresses, names;
    size_t waiting;
    bool is_denied; /* and that has been said */
};

/* ---------------------------------------------------------------- on a thread */

/* Only replies are to wake us; where it can't be set, more does. */
static void filter_replies(int fd, unsigned family)
{
    struct icmp_filter no_v4 = {.data = ~(UINT32_C(1) << ICMP_ECHOREPLY)};
    struct icmp6_filter no_v6;
    ICMP6_FILTER_SETBLOCKALL(&no_v6);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &no_v6);
    if (family == V6)
        (void)setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &no_v6, sizeof no_v6);
    else
        (void)setsockopt(fd, SOL_RAW, ICMP_FILTER, &no_v4, sizeof no_v4);
}

/* The kernel's ping socket if we may have one, else a raw one. */
static void open_icmp(struct icmp *icmp, unsigned family)
{
    int domain = family == V6 ? AF_INET6 : AF_INET, protocol = family == V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    icmp->fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (icmp->fd >= 0)
        return;
    icmp->is_raw = true;
    icmp->fd = socket(domain, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (icmp->fd < 0)
        icmp->error = errno == EPERM ? -EACCES : -errno;
    else
        filter_replies(icmp->fd, family);
}

static unsigned family_of(const struct target *t)
{
    return t->to.any.sa_family == AF_INET6 ? V6 : V4;
}

static void resolve(struct target *t)
{
    struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (getaddrinfo(t->where, NULL, &hints, &found) != 0 || !found || found->ai_addrlen > sizeof t->to) {
        t->code = -ENOENT;
    } else {
        memcpy(&t->to, found->ai_addr, found->ai_addrlen);
    }
    if (found)
        freeaddrinfo(found);
}

static void prepare(struct batch *b)
{
    for (size_t i = 0; i < b->n && !errands_is_ending(b->errands); i++) {
        struct target *t = b->targets[i];
        if (!t->to.any.sa_family)
            resolve(t);
        if (t->code != -EINPROGRESS)
            continue;
        struct icmp *icmp = &b->icmp[family_of(t)];
        if (icmp->fd < 0 && !icmp->error)
            open_icmp(icmp, family_of(t));
        t->code = icmp->fd < 0 ? icmp->error : t->code;
    }
}

static int send_probe(const struct batch *b, uint32_t index, uint32_t probe)
{
    const struct target *t = b->targets[index];
    const struct echo e = {.id = (uint16_t)b->cookie,
                           .seq = (uint16_t)(index * PROBES + probe),
                           .cookie = b->cookie,
                           .target = index,
                           .probe = probe};
    bool is_v6 = family_of(t) == V6;
    unsigned char message[ECHO_BYTES];
    echo_build(&e, is_v6, message);
    ssize_t n = sendto(b->icmp[family_of(t)].fd, message, sizeof message, MSG_DONTWAIT, &t->to.any,
                       is_v6 ? sizeof t->to.v6 : sizeof t->to.v4);
    return n < 0 ? -errno : 0;
}

static void take_reply(struct batch *b, unsigned family, struct slice packet, size_t *open)
{
    struct echo e;
    if (echo_parse(packet, family == V6, family == V4 && b->icmp[family].is_raw, &e) < 0 ||
        e.cookie != b->cookie || e.target >= b->n || e.probe >= PROBES)
        return;
    struct target *t = b->targets[e.target];
    if (t->code != -EINPROGRESS || !t->sent_ns[e.probe])
        return;
    t->code = 0;
    t->rtt_ns = clock_mono_ns() - t->sent_ns[e.probe];
    --*open;
}

static void read_replies(struct batch *b, unsigned family, size_t *open)
{
    for (int i = 0; i<READ_MAX && * open> 0 && b->icmp[family].fd >= 0; i++) {
        char data[512];
        ssize_t n = recv(b->icmp[family].fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0) /* errors of the socket are of single packets; reading takes them off */
            take_reply(b, family, slice_of(data, (size_t)n), open);
    }
}

/* To all that are not decided; how many there are then. One that can't be sent to has failed with the last
 * probe, if none before went out. Answers are read in between: the socket holds a few hundred only. */
static size_t send_all(struct batch *b, uint32_t probe)
{
    size_t open = 0;
    for (size_t i = 0; i < b->n; i++)
        open += b->targets[i]->code == -EINPROGRESS;
    for (uint32_t i = 0; i < b->n; i++) {
        struct target *t = b->targets[i];
        if (i % READ_EVERY == READ_EVERY - 1) {
            read_replies(b, V4, &open);
            read_replies(b, V6, &open);
        }
        if (t->code != -EINPROGRESS)
            continue;
        int64_t now_ns = clock_mono_ns();
        int r = send_probe(b, i, probe);
        t->sent_ns[probe] = r == 0 ? now_ns : 0;
        bool went_out = t->sent_ns[0] || t->sent_ns[1] || t->sent_ns[2];
        if (r == 0 || probe < PROBES - 1 || went_out)
            continue;
        t->code = r == -EPERM ? -EACCES : r;
        open--;
    }
    return open;
}

/* Reads once more when time is up: an answer that lies there while we were stopped is one. */
static void wait_replies(struct batch *b, size_t open)
{
    int64_t until_ns = clock_mono_ns() + (int64_t)PROBE_MS * 1000000, left_ns;
    do {
        left_ns = until_ns - clock_mono_ns();
        int ms = left_ns > (int64_t)LOOK_MS * 1000000 ? LOOK_MS : (int)(left_ns / 1000000) + 1;
        struct pollfd p[FAMILIES] = {{b->icmp[V4].fd, POLLIN, 0}, {b->icmp[V6].fd, POLLIN, 0}};
        (void)poll(p, FAMILIES, left_ns > 0 ? ms : 0); /* whatever it says, there is a limit */
        read_replies(b, V4, &open);
        read_replies(b, V6, &open);
    } while (open > 0 && left_ns > 0 && !errands_is_ending(b->errands));
}

static void run(struct errand *e)
{
    struct batch *b = (struct batch *)e;
    size_t open = 1;
    prepare(b);
    for (uint32_t probe = 0; probe < PROBES && open > 0 && !errands_is_ending(b->errands); probe++) {
        open = send_all(b, probe);
        if (open > 0)
            wait_replies(b, open);
    }
    for (size_t i = 0; i < b->n; i++)
        if (b->targets[i]->code == -EINPROGRESS)
            b->targets[i]->code = errands_is_ending(b->errands) ? -ECANCELED : -ETIMEDOUT;
    for (unsigned f = 0; f < FAMILIES; f++)
        if (b->icmp[f].fd >= 0)
            (void)close(b->icmp[f].fd); /* nothing of ours is in it */
}

/* ---------------------------------------------------------------- on the loop */

static void start_batch(struct lane *lane);

static void free_batch(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        mem_free(b->targets[i]);
    mem_free(b);
}

static void say_rights(struct pings *p, int code)
{
    if (code == -EACCES && !p->is_denied)
        log_error(
            "hosts can't be pinged: that needs a group in net.ipv4.ping_group_range, or CAP_NET_RAW; late "
            "hosts are judged by their leases alone");
    if (code == 0 && p->is_denied)
        log_info("hosts can be pinged");
    p->is_denied = code == -EACCES || (p->is_denied && code != 0);
}

static void done(struct errand *e)
{
    struct batch *b = (struct batch *)e;
    struct lane *lane = b->lane;
    struct pings *p = lane ? lane->pings : NULL;
    bool is_ending = !p || e->is_dropped;
    if (p) {
        lane->out = NULL;
        p->waiting -= b->n;
    }
    for (size_t i = 0; !is_ending && i < b->n; i++) {
        const struct target *t = b->targets[i];
        say_rights(p, t->code);
        p->fn(p->arg, slice_of(t->text, t->host_n), t->code, t->rtt_ns);
    }
    free_batch(b);
    if (!is_ending && lane->first)
        start_batch(lane);
}

static void wait_a_moment(struct lane *lane, int ms)
{
    const struct timeval moment = {.tv_usec = ms * 1000};
    (void)event_add(lane->timer,
                    &moment); /* fails for want of memory only, and the next that is asked tries again */
}

static void put_back(struct lane *lane, struct batch *b)
{
    for (size_t i = b->n; i-- > 0;) {
        if (!lane->first)
            lane->last = &b->targets[i]->next;
        b->targets[i]->next = lane->first;
        lane->first = b->targets[i];
    }
    b->n = 0;
    free_batch(b);
    wait_a_moment(lane, AGAIN_MS);
}

static void start_batch(struct lane *lane)
{
    struct batch *b = mem_try_alloc(sizeof *b);
    if (!b || getrandom(&b->cookie, sizeof b->cookie, GRND_NONBLOCK) != sizeof b->cookie) {
        mem_free(b);
        wait_a_moment(lane, AGAIN_MS);
        return;
    }
    b->errand = (struct errand){.run = run, .done = done};
    b->lane = lane;
    b->errands = lane->pings->errands;
    b->icmp[V4].fd = b->icmp[V6].fd = -1;
    while (lane->first && b->n < lane->batch_max) {
        b->targets[b->n++] = lane->first;
        lane->first = lane->first->next;
    }
    if (!lane->first)
        lane->last = &lane->first;
    if (errands_send(b->errands, &b->errand) < 0)
        put_back(lane, b);
    else
        lane->out = b;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;
    (void)fd;
    (void)what;
    if (lane->first && !lane->out)
        start_batch(lane);
}

static int init_lane(struct lane *lane, struct pings *p, struct event_base *base, size_t batch_max)
{
    *lane = (struct lane){.pings = p, .last = &lane->first, .batch_max = batch_max};
    lane->timer = evtimer_new(base, on_timer, lane);
    return lane->timer ? 0 : -ENOMEM;
}

static void fini_lane(struct lane *lane)
{
    struct target *t;
    while ((t = lane->first)) {
        lane->first = t->next;
        mem_free(t);
    }
    if (lane->out)
        lane->out->lane = NULL;
    if (lane->timer)
        event_free(lane->timer);
}

int pings_create(struct event_base *base, struct errands *errands, pings_fn fn, void *arg, struct pings **out)
{
    struct pings *p = mem_alloc(sizeof *p);
    p->errands = errands;
    p->fn = fn;
    p->arg = arg;
    int r = init_lane(&p->addresses, p, base, BATCH_MAX);
    if (r == 0)
        r = init_lane(&p->names, p, base, NAMES_MAX);
    if (r < 0) {
        pings_destroy(p);
        return r;
    }
    *out = p;
    return 0;
}

void pings_destroy(struct pings *p)
{
    if (!p)
        return;
    fini_lane(&p->addresses);
    fini_lane(&p->names);
    mem_free(p);
}

static bool parse_ip(const char *text, union ip *out)
{
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1)
        out->v4.sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1)
        out->v6.sin6_family = AF_INET6;
    else
        return false;
    return true;
}

int pings_ask(struct pings *p, struct slice host, struct slice address)
{
    char where[ADDRESS_HOST_MAX], port[ADDRESS_PORT_MAX];
    if (p->waiting >= PINGS_MAX)
        return E_LIMIT;
    if (host.n == 0 || (address_split(address, where, port) < 0 && address_split(host, where, port) < 0))
        return -EINVAL;
    struct target *t = mem_try_alloc(sizeof *t + host.n + 1 + strlen(where) + 1);
    if (!t)
        return -ENOMEM;
    memcpy(t->text, host.p, host.n);
    memcpy(t->text + host.n + 1, where, strlen(where) + 1);
    t->where = t->text + host.n + 1;
    t->host_n = host.n;
    t->code = -EINPROGRESS;
    struct lane *lane = parse_ip(where, &t->to) ? &p->addresses : &p->names;
    *lane->last = t;
    lane->last = &t->next;
    p->waiting++;
    if (!lane->out)
        wait_a_moment(lane, GATHER_MS);
    return 0;
}
