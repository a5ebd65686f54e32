/* SPDX-License-Identifier: Apache-2.0 */
/* Reachability of other hosts and the round trip to them, by ICMP echo, or by opening a TCP connection where
 * ICMP is not allowed.
 *
 * A due sample sends one probe to each target and returns; its row is made when the answer comes, or when the
 * time for it is over, whichever is first: the descriptor to wait for (an epoll of everything that is open
 * here, and a timer) becomes readable for both. One probe a target is under way; when the next is due before
 * it is decided, a row without `reachable` says that. An answer that comes later counts for nothing.
 *
 * The round trip ends when the kernel has the answer (its time stamp, or for TCP its own measurement of the
 * handshake), not when the agent gets to read it. A refused connection is an answer.
 *
 * Names are resolved apart (ping_resolve.h), at the first probe and again every `resolve`; until a name has
 * an address there is nothing to probe. Costs a target and period: a send, a receive, and a share of one
 * wake-up. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/echo.h"
#include "sensor/ping_resolve.h"
#include "sensor/sensor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    TARGETS_MAX = 1024,
    READ_MAX = 4096, /* packets of one wake-up */
    RESOLVE_S = 10,  /* how long a name may take */
    RETRY_S = 60     /* how soon one without an address is tried again */
};

static const struct field ping_fields[] = {
    KEY("target", "who was asked, as configured"),
    KEY("ping", "the instance's name"),
    FIELD("address", TEXT, TEXT, "", "of a target that is a name"),
    FIELD("method", TEXT, STATE, "", "icmp or tcp"),
    FIELD("reachable", BOOL, STATE, "", "it answered in time"),
    FIELD("rtt", FLOAT, GAUGE, "ms", "round trip"),
    FIELD("sent", UINT, COUNTER, "", "probes sent"),
    FIELD("received", UINT, COUNTER, "", "answers in time"),
    FIELD("why", TEXT, TEXT, "", "what stands in the way"),
};

static const struct sensor_schema ping_schemas[] = {SCHEMA("ping", ping_fields), {0}};

struct target {
    const char *text;      /* as configured */
    union address address; /* its family is 0 while it has none */
    union address next;    /* a new one, for the next probe; family 0 = none */
    bool is_name;
    bool wants_probe;    /* a name that gets its address: to be asked then */
    int64_t resolved_ns; /* when its name was last looked up, found or not; 0 = never */
    int fd;              /* TCP: the connection that is tried, -1 = none */
    bool is_waiting;     /* a probe is under way */
    int64_t sent_ns;     /* monotonic */
    uint32_t probe;      /* its number */
    uint64_t sent, received;
};

enum { V4, V6, FAMILIES };

/* A socket for ICMP of one family. */
struct icmp {
    int fd; /* -1 = not allowed, or no such family */
    bool is_raw;
};

struct ping {
    /* Options. */
    struct parameter_list list;
    const char *method;
    int64_t tcp_port, timeout_ns, resolve_ns;

    struct sensor_env *env;
    struct slice instance;
    struct icmp icmp[FAMILIES];
    int epoll_fd, timer_fd;
    int64_t timer_ns; /* what the timer is set to; 0 = not */
    uint64_t cookie;
    struct target *targets;
    size_t n_targets;
    struct resolve resolve;
    size_t resolve_target; /* whose name it is about */
    int64_t resolve_until_ns;
    /* For one call of sample. */
    struct sensor_out *out;
    int64_t now_ns;
};

static const struct parameter ping_options[] = {
    {SETTING_LIST, "targets", NULL, offsetof(struct ping, list), "addresses or names of hosts", false, true},
    {SETTING_STRING, "method", "auto", offsetof(struct ping, method),
     "`icmp`, `tcp`, or `auto`: ICMP where it is allowed, else TCP if there is a `tcp_port`", false, false},
    {SETTING_INT, "tcp_port", "0", offsetof(struct ping, tcp_port),
     "port for TCP; a refused connection is an answer, too", false, false},
    {SETTING_DURATION, "timeout", "2s", offsetof(struct ping, timeout_ns), "how long an answer is waited for",
     false, false},
    {SETTING_DURATION, "resolve", "10m", offsetof(struct ping, resolve_ns),
     "how often names are resolved again", false, false},
    {0},
};

/* What became readable, in epoll's data: the kind in the upper half, the target in the lower. */
enum { AT_ICMP, AT_TCP, AT_RESOLVE, AT_TIMER };

static int poll_fd(struct ping *p, int fd, uint32_t events, unsigned kind, size_t index)
{
    struct epoll_event e = {.events = events, .data.u64 = (uint64_t)kind << 32 | index};
    return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

/* Opening. */

/* Raw sockets get every echo reply that comes to the host: only those with our id are to wake us. */
static int filter_raw(int fd, bool is_v6, uint16_t id)
{
    struct sock_filter v4[] = {
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), /* X = length of the IP header */
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 4),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, id, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),  BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_filter v6[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, id, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = is_v6 ? sizeof v6 / sizeof *v6 : sizeof v4 / sizeof *v4,
                                 .filter = is_v6 ? v6 : v4};
    struct icmp_filter no_v4 = {.data = ~(UINT32_C(1) << ICMP_ECHOREPLY)};
    struct icmp6_filter no_v6;
    ICMP6_FILTER_SETBLOCKALL(&no_v6);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &no_v6);
    int r = is_v6 ? setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &no_v6, sizeof no_v6)
                  : setsockopt(fd, SOL_RAW, ICMP_FILTER, &no_v4, sizeof no_v4);
    if (r == 0)
        r = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    return r < 0 ? -errno : 0;
}

/* The kernel's ping socket if this user may have one, else a raw one. Without either fd is -1. */
static int open_icmp(struct ping *p, unsigned family)
{
    bool is_v6 = family == V6;
    int domain = is_v6 ? AF_INET6 : AF_INET, protocol = is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, on = 1;
    struct icmp *icmp = &p->icmp[family];
    icmp->fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (icmp->fd < 0) {
        icmp->fd = socket(domain, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
        icmp->is_raw = true;
    }
    if (icmp->fd < 0)
        return 0;
    /* Without stamps the time of reading counts: the round trip is then a little long. */
    (void)setsockopt(icmp->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    int r = icmp->is_raw ? filter_raw(icmp->fd, is_v6, (uint16_t)p->cookie) : 0;
    return r < 0 ? r : poll_fd(p, icmp->fd, EPOLLIN, AT_ICMP, family);
}

static int take_targets(struct ping *p, struct diag *why)
{
    if (p->list.n == 0 || p->list.n > TARGETS_MAX)
        return diag_set(why, -EINVAL, 0, "targets: 1 to %d", TARGETS_MAX);
    p->targets = mem_alloc(p->list.n * sizeof *p->targets);
    for (size_t i = 0; i < p->list.n; i++) {
        struct target *t = &p->targets[i];
        *t = (struct target){.text = p->list.v[i], .fd = -1};
        p->n_targets++;
        if (address_parse(t->text, &t->address) == 0)
            continue;
        t->is_name = true;
        if (!address_is_name(t->text))
            return diag_set(why, -EINVAL, 0, "targets: \"%s\" is neither an address nor the name of a host",
                            t->text);
    }
    return 0;
}

static int check_options(const struct ping *p, struct diag *why)
{
    bool is_tcp = strcmp(p->method, "tcp") == 0;
    if (!is_tcp && strcmp(p->method, "auto") != 0 && strcmp(p->method, "icmp") != 0)
        return diag_set(why, -EINVAL, 0, "method: auto, icmp or tcp, not \"%s\"", p->method);
    if (p->tcp_port < 0 || p->tcp_port > UINT16_MAX || (is_tcp && p->tcp_port == 0))
        return diag_set(why, -EINVAL, 0, "tcp_port: 1 to 65535; TCP needs one");
    if (p->timeout_ns <= 0 || p->resolve_ns <= 0)
        return diag_set(why, -EINVAL, 0, "timeout and resolve are more than 0");
    return 0;
}

/* The descriptors; those of ICMP only where it may be the method. */
static int open_descriptors(struct ping *p)
{
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->epoll_fd < 0 || p->timer_fd < 0)
        return -errno;
    int r = poll_fd(p, p->timer_fd, EPOLLIN, AT_TIMER, 0);
    for (unsigned f = 0; r == 0 && f < FAMILIES && strcmp(p->method, "tcp") != 0; f++)
        r = open_icmp(p, f);
    return r;
}

static int ping_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct ping *p = state;
    p->epoll_fd = p->timer_fd = p->icmp[V4].fd = p->icmp[V6].fd = -1;
    resolve_init(&p->resolve);
    p->env = env;
    p->instance = slice_str(env->name);
    int r = check_options(p, why);
    if (r == 0)
        r = take_targets(p, why);
    if (r < 0 || !env_is_live(env))
        return r;
    if (getrandom(&p->cookie, sizeof p->cookie, GRND_NONBLOCK) != sizeof p->cookie)
        p->cookie = (uint64_t)clock_mono_ns() *
                    UINT64_C(0x9e3779b97f4a7c15); /* early at boot: not secret, but ours */
    r = open_descriptors(p);
    if (r < 0)
        return diag_set(why, r, 0, "ping: %s", err_text(r));
    if (p->icmp[V4].fd < 0 && p->icmp[V6].fd < 0 && p->tcp_port == 0)
        return diag_set(
            why, -EPERM, 0,
            "ICMP needs the group in net.ipv4.ping_group_range or CAP_NET_RAW; or give a tcp_port");
    return 0;
}

/* Rows. */

static const char *print_address(const union address *a, char *to, socklen_t room)
{
    const void *bytes =
        a->any.sa_family == AF_INET ? (const void *)&a->v4.sin_addr : (const void *)&a->v6.sin6_addr;
    return a->any.sa_family ? inet_ntop(a->any.sa_family, bytes, to, room) : NULL;
}

static bool uses_icmp(const struct ping *p, const struct target *t)
{
    unsigned family = t->address.any.sa_family == AF_INET6 ? V6 : V4;
    return p->icmp[family].fd >= 0;
}

/* reachable and rtt may be VALUE_NONE, why NULL. */
static void tell(struct ping *p, const struct target *t, struct value reachable, struct value rtt,
                 const char *why)
{
    char address[INET6_ADDRSTRLEN];
    const char *printed = t->is_name ? print_address(&t->address, address, sizeof address) : NULL;
    bool has_address = t->address.any.sa_family != 0;
    struct value row[] = {
        value_text(slice_str(t->text)),
        value_text(p->instance),
        printed ? value_text(slice_str(printed)) : value_none(),
        has_address ? value_text(uses_icmp(p, t) ? SLICE_LIT("icmp") : SLICE_LIT("tcp")) : value_none(),
        reachable,
        rtt,
        value_uint(t->sent),
        value_uint(t->received),
        why ? value_text(slice_str(why)) : value_none(),
    };
    sensor_row(p->out, 0, row);
}

/* The probe under way is decided. */
static void settle(struct target *t)
{
    t->is_waiting = false;
    if (t->fd >= 0)
        (void)close(t->fd); /* nothing was sent on it; this also takes it out of the epoll */
    t->fd = -1;
}

static void answered(struct ping *p, struct target *t, int64_t rtt_ns)
{
    settle(t);
    t->received++;
    tell(p, t, value_bool(true), value_float((double)(rtt_ns > 0 ? rtt_ns : 0) / 1e6), NULL);
}

static void lost(struct ping *p, struct target *t, const char *why)
{
    settle(t);
    tell(p, t, value_bool(false), value_none(), why);
}

/* Answers. */

/* How long ago the kernel got it: between 0 and since_ns, the time since the request. */
static int64_t age_of(struct msghdr *m, int64_t since_ns)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        struct timespec at;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&at, CMSG_DATA(c), sizeof at);
        int64_t age = clock_utc_ns() - (at.tv_sec * NS_PER_S + at.tv_nsec);
        return age < 0 || age > since_ns ? 0 : age; /* the clock was set meanwhile: as if just now */
    }
    return 0;
}

static void take_reply(struct ping *p, unsigned family, struct slice packet, const union address *from,
                       struct msghdr *m)
{
    struct echo e;
    if (echo_parse(packet, family == V6, family == V4 && p->icmp[family].is_raw, &e) < 0 ||
        e.cookie != p->cookie || e.target >= p->n_targets)
        return;
    struct target *t = &p->targets[e.target];
    if (!t->is_waiting || t->fd >= 0 || e.probe != t->probe || !address_same(from, &t->address))
        return;
    int64_t since = p->env->mono_ns() - t->sent_ns;
    int64_t rtt = since - age_of(m, since);
    if (rtt <= p->timeout_ns)
        answered(p, t, rtt);
    else
        lost(p, t, "no answer in time");
}

static void read_icmp(struct ping *p, unsigned family)
{
    for (int i = 0; i < READ_MAX; i++) {
        char data[512];
        _Alignas(struct cmsghdr) char control[256];
        union address from = {.v6 = {0}};
        struct iovec part = {data, sizeof data};
        struct msghdr m = {.msg_name = &from,
                           .msg_namelen = sizeof from,
                           .msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        ssize_t n = recvmsg(p->icmp[family].fd, &m, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0) /* errors of the socket are of single packets; their probes time out */
            take_reply(p, family, slice_of(data, (size_t)n), &from, &m);
    }
}

/* The kernel's own measurement of the handshake, in µs; 0 where there was none. */
static int64_t handshake_ns(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? (int64_t)info.tcpi_rtt * 1000 : 0;
}

static void read_tcp(struct ping *p, struct target *t)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        error = errno;
    int64_t since = p->env->mono_ns() - t->sent_ns;
    int64_t measured = error == 0 ? handshake_ns(t->fd) : 0;
    if (error == 0 || error == ECONNREFUSED)
        answered(p, t, measured > 0 && measured < since ? measured : since);
    else
        lost(p, t, err_text(-error));
}

/* Probes. */

static int send_icmp(struct ping *p, struct target *t, size_t index)
{
    unsigned char message[ECHO_BYTES];
    bool is_v6 = t->address.any.sa_family == AF_INET6;
    struct echo e = {.id = (uint16_t)p->cookie,
                     .seq = (uint16_t)t->probe,
                     .cookie = p->cookie,
                     .target = (uint32_t)index,
                     .probe = t->probe};
    echo_build(&e, is_v6, message);
    ssize_t n = sendto(p->icmp[is_v6 ? V6 : V4].fd, message, sizeof message, MSG_DONTWAIT, &t->address.any,
                       is_v6 ? sizeof t->address.v6 : sizeof t->address.v4);
    return n < 0 ? -errno : 0;
}

static int send_tcp(struct ping *p, struct target *t, size_t index)
{
    union address to = t->address;
    bool is_v6 = to.any.sa_family == AF_INET6;
    *(is_v6 ? &to.v6.sin6_port : &to.v4.sin_port) = htons((uint16_t)p->tcp_port);
    t->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (t->fd < 0)
        return -errno;
    if (connect(t->fd, &to.any, is_v6 ? sizeof to.v6 : sizeof to.v4) < 0 && errno != EINPROGRESS)
        return -errno;
    return poll_fd(p, t->fd, EPOLLOUT, AT_TCP, index); /* readable at once if it is decided already */
}

static void send_probe(struct ping *p, struct target *t)
{
    size_t index = (size_t)(t - p->targets);
    t->wants_probe = false;
    if (t->next.any.sa_family) {
        t->address = t->next;
        t->next.any.sa_family = 0;
    }
    if (!uses_icmp(p, t) && p->tcp_port == 0) {
        tell(p, t, value_none(), value_none(),
             "ICMP is not allowed for this family, and there is no tcp_port");
        return;
    }
    t->probe++;
    t->sent++;
    t->is_waiting = true;
    t->sent_ns = p->env->mono_ns();
    int r = uses_icmp(p, t) ? send_icmp(p, t, index) : send_tcp(p, t, index);
    if (r == -ECONNREFUSED) /* of a connection to this host */
        answered(p, t, p->env->mono_ns() - t->sent_ns);
    else if (r < 0)
        lost(p, t, err_text(r));
}

/* Names. */

static void resolved(struct ping *p, int result, const union address *address)
{
    struct target *t = &p->targets[p->resolve_target];
    t->resolved_ns = p->now_ns;
    if (result == 1) /* an old address stays when there is no new one, and for the probe that is under way */
        *(t->is_waiting ? &t->next : &t->address) = *address;
    if (t->address.any.sa_family == 0)
        tell(p, t, value_bool(false), value_none(),
             result == -ENOENT ? "no getent to resolve names with" : "the name has no address");
    else if (t->wants_probe && !t->is_waiting)
        send_probe(p, t);
    t->wants_probe = false;
}

static void read_name(struct ping *p)
{
    union address address;
    int r = resolve_read(&p->resolve, &address);
    if (r != 0)
        resolved(p, r, &address);
}

/* The next name that is due, one at a time. */
static void resolve_next(struct ping *p)
{
    for (size_t i = 0; i < p->n_targets && p->resolve.pid == 0; i++) {
        struct target *t = &p->targets[i];
        if (!t->is_name || (t->resolved_ns && p->now_ns - t->resolved_ns < p->resolve_ns && !t->wants_probe))
            continue;
        p->resolve_target = i;
        p->resolve_until_ns = p->now_ns + RESOLVE_S * NS_PER_S;
        int r = resolve_start(&p->resolve, t->text);
        env_note(p->env, "spawn", "/usr/bin/getent", 0);
        if (r == 0 && poll_fd(p, p->resolve.fd, EPOLLIN, AT_RESOLVE, 0) < 0)
            r = E_NODATA;
        if (r < 0) {
            resolve_stop(&p->resolve);
            resolved(p, r, NULL);
        }
    }
}

/* Sampling. */

static void handle(struct ping *p, const struct epoll_event *e)
{
    size_t index = (size_t)(e->data.u64 & UINT32_MAX);
    uint64_t ticks;
    switch (e->data.u64 >> 32) {
    case AT_ICMP:
        read_icmp(p, (unsigned)index);
        break;
    case AT_TCP:
        if (p->targets[index].fd >= 0)
            read_tcp(p, &p->targets[index]);
        break;
    case AT_RESOLVE:
        if (p->resolve.fd >= 0)
            read_name(p);
        break;
    default:
        if (read(p->timer_fd, &ticks, sizeof ticks) == sizeof ticks)
            p->timer_ns = 0;
        break;
    }
}

static int read_all(struct ping *p)
{
    struct epoll_event events[64];
    for (size_t rounds = 0; rounds <= TARGETS_MAX / 64; rounds++) {
        int n = epoll_wait(p->epoll_fd, events, 64, 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        for (int i = 0; i < n; i++)
            handle(p, &events[i]);
        if (n >= 0 && n < 64)
            break;
    }
    return 0;
}

static void expire(struct ping *p)
{
    for (size_t i = 0; i < p->n_targets; i++)
        if (p->targets[i].is_waiting && p->now_ns - p->targets[i].sent_ns >= p->timeout_ns)
            lost(p, &p->targets[i], "no answer in time");
    if (p->resolve.pid && p->now_ns >= p->resolve_until_ns) {
        resolve_stop(&p->resolve);
        resolved(p, E_NODATA, NULL);
    }
}

static void begin_probe(struct ping *p, struct target *t)
{
    if (t->is_waiting) {
        tell(p, t, value_none(), value_none(), "waits for an answer");
    } else if (t->address.any.sa_family) {
        send_probe(p, t);
    } else if (t->wants_probe) {
        tell(p, t, value_none(), value_none(), "the name is being resolved");
    } else if (t->resolved_ns && p->now_ns - t->resolved_ns < RETRY_S * NS_PER_S) {
        tell(p, t, value_bool(false), value_none(), "the name has no address");
    } else {
        t->wants_probe = true;
    }
}

/* Sets the timer to the first thing that can be too late. */
static int set_timer(struct ping *p)
{
    int64_t first = p->resolve.pid ? p->resolve_until_ns : INT64_MAX;
    for (size_t i = 0; i < p->n_targets; i++) {
        int64_t end = p->targets[i].is_waiting ? p->targets[i].sent_ns + p->timeout_ns : INT64_MAX;
        first = end < first ? end : first;
    }
    first = first == INT64_MAX ? 0 : first;
    if (first == p->timer_ns)
        return 0;
    struct itimerspec t = {.it_value = {first / NS_PER_S, first % NS_PER_S}};
    if (timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &t, NULL) < 0)
        return -errno;
    p->timer_ns = first;
    return 0;
}

static int ping_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct ping *p = state;
    if (!env_is_live(env))
        return diag_set(out->why, E_NODATA, 0, "a captured tree answers no probe");
    p->out = out;
    p->now_ns = env->mono_ns();
    int r = read_all(p);
    expire(p);
    for (size_t i = 0; r == 0 && out->is_due && i < p->n_targets; i++)
        begin_probe(p, &p->targets[i]);
    resolve_next(p);
    if (r == 0)
        r = set_timer(p);
    return r < 0 ? diag_set(out->why, r, 0, "ping: %s", err_text(r)) : 0;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd); /* nothing of ours is in it */
}

static void ping_close(void *state)
{
    struct ping *p = state;
    if (!p->env)
        return; /* never opened: its descriptors are 0, not -1 */
    for (size_t i = 0; i < p->n_targets; i++)
        close_fd(p->targets[i].fd);
    resolve_stop(&p->resolve);
    close_fd(p->icmp[V4].fd);
    close_fd(p->icmp[V6].fd);
    close_fd(p->timer_fd);
    close_fd(p->epoll_fd);
    mem_free(p->targets);
}

static int ping_wait_fd(void *state)
{
    struct ping *p = state;
    return p->timer_ns ? p->epoll_fd : -1; /* without a deadline nothing is under way */
}

const struct sensor_ops sensor_ping = {
    .name = "ping",
    .summary = "reachability of other hosts and the round trip to them",
    .schemas = ping_schemas,
    .options = ping_options,
    .every = "10s",
    .refresh = "60s",
    .priority = 6,
    .is_multi = true,
    .state_size = sizeof(struct ping),
    .open = ping_open,
    .sample = ping_sample,
    .close = ping_close,
    .wait_fd = ping_wait_fd,
};
