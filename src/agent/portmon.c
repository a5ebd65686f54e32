/* SPDX-License-Identifier: Apache-2.0 */
/* TCP. Each look dumps the sockets of the ports (the kernel filters) in every state but LISTEN, and compares
 * with the last look: both lists are sorted by a hash of addresses, ports and the kernel's cookie. Traffic on
 * a port is
 *   - a socket that was not there. TIME_WAIT keeps what was shorter than the time between two looks;
 *   - other sums of bytes, or another state: the last packets of a connection move it on;
 *   - a socket that is gone, unless it only waited (TIME_WAIT ends by itself).
 * What leaves no trace, a connection reset between two looks, is seen by its first packet if there is a
 * packet socket.
 *
 * The dump is what a look costs: the kernel walks its whole table, some hundreds of µs even when it is empty.
 * A port that has no connection can't get one without a packet that the packet socket sees, so the dump is
 * left out (but for one in SKIP_MAX looks, to be safe) when the last one found none, no packet came since,
 * and no port was left out of the filter.
 *
 * Packets. An AF_PACKET socket for all interfaces, with a classic BPF filter: UDP on one of the ports, TCP
 * only with SYN (or all of it where the kernel has no sock_diag). The filter runs for every packet of the
 * host, so that is its cost; what passes it is one packet a port and MUTE_NS: a port that was seen is left
 * out of the filter for so long, which also leaves room in the small buffer for the others. Fragments after
 * the first and packets with IPv6 extension headers do not show their ports and are not seen.
 *
 * Alternatives: packets for everything cost too much on hosts with much traffic; reading /proc/net/tcp is
 * some ten times slower and has no byte counts; eBPF needs more rights. */
#include "agent/portmon.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "sensor/sockdiag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 64 << 10, /* for some 80 packets */
    READ_MAX = 1024,         /* packets of one call */
    SKIP_MAX = 20,           /* looks without a dump */
    SNAP = 128,              /* bytes of a packet: the headers */
    GROUP = 200,             /* comparisons that share one way out: a jump reaches 255 */
    CODE_HEAD = 25,
    CODE_MAX = CODE_HEAD + 2 * (2 + PORTMON_PORTS_MAX + 2 * (PORTMON_PORTS_MAX / GROUP + 1)) + 1,
    STATES = ((1 << SOCKDIAG_STATES) - 2) & ~(1 << SOCKDIAG_LISTEN) & ~(1 << SOCKDIAG_CLOSE)
};
#define MUTE_NS (INT64_C(1) * 1000 * 1000 * 1000)
_Static_assert(CODE_MAX <= BPF_MAXINSNS, "the kernel takes the longest filter");
_Static_assert(MUTE_NS + PORTMON_EVERY < PORTMON_HOLD_MIN,
               "a port that is left out for a while stays active");

struct port {
    uint16_t port;
    bool is_seen;  /* there was traffic, at last_ns */
    bool is_new;   /* its sockets were not looked at yet */
    bool is_armed; /* it is in the filter that is attached */
    int64_t last_ns;
    int64_t muted_until_ns; /* left out of the filter until then */
};

/* A socket as it was at a look. */
struct seen {
    uint64_t id;
    uint64_t bytes;    /* acknowledged + received */
    uint16_t ports[2]; /* local, remote */
    uint8_t state;
};

struct seen_list {
    struct seen *v;
    size_t n, room;
};

struct portmon {
    struct port ports[PORTMON_PORTS_MAX]; /* sorted */
    size_t n_ports;
    struct sockdiag *diag; /* NULL: not to be had */
    int packet_fd;         /* -1: not allowed */
    bool is_tcp_by_packet;
    int64_t next_ns;
    struct seen_list last, now;
    bool is_stirred; /* there may be something to dump */
    unsigned skipped;
    bool is_overfull; /* of the dump that runs: no memory for all */
    struct portmon_cost cost;
    char why_diag[96], why_packet[96], why[200];
    struct sock_filter code[CODE_MAX];
};

/* Its place in ports, or PORTMON_PORTS_MAX. */
static size_t place_of(const struct portmon *m, uint16_t port)
{
    size_t low = 0, high = m->n_ports;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->ports[middle].port == port)
            return middle;
        if (m->ports[middle].port < port)
            low = middle + 1;
        else
            high = middle;
    }
    return PORTMON_PORTS_MAX;
}

static struct port *find(struct portmon *m, uint16_t port)
{
    size_t place = place_of(m, port);
    return place < PORTMON_PORTS_MAX ? &m->ports[place] : NULL;
}

static void mark(struct port *p, int64_t now_ns)
{
    p->is_seen = true;
    p->last_ns = now_ns;
}

/* Packets. */

static struct sock_filter *put(struct sock_filter *at, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
    *at = (struct sock_filter){code, yes, no, k};
    return at + 1;
}

/* X gets the ports of a packet that may count, source << 16 | destination, all else leaves; then comes the
 * comparison. Jumps are counted from the next line; the IPv4 part drops at 15, the IPv6 part at 24. (Not by
 * way of the memory M: the kernel's checker takes what stands behind a return for what comes after it.) */
static struct sock_filter *put_head(struct sock_filter *c, bool is_all_tcp)
{
    const uint16_t load = BPF_LD | BPF_ABS, at_x = BPF_LD | BPF_IND, is = BPF_JMP | BPF_JEQ | BPF_K;
    const uint16_t has_syn = is_all_tcp ? BPF_JMP | BPF_JGE | BPF_K : BPF_JMP | BPF_JSET | BPF_K;
    const uint32_t syn = is_all_tcp ? 0 : 2; /* anything is at least 0 */
    c = put(c, load | BPF_W, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL));
    c = put(c, is, 2, 0, ETH_P_IP);
    c = put(c, is, 13, 0, ETH_P_IPV6);
    c = put(c, BPF_RET | BPF_K, 0, 0, 0);
    c = put(c, load | BPF_H, 0, 0, 6); /* 4: IPv4; not the first fragment? */
    c = put(c, BPF_JMP | BPF_JSET | BPF_K, 9, 0, 0x1fff);
    c = put(c, BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0); /* X = length of the header */
    c = put(c, load | BPF_B, 0, 0, 9);
    c = put(c, is, 3, 0, IPPROTO_UDP);
    c = put(c, is, 0, 5, IPPROTO_TCP);
    c = put(c, at_x | BPF_B, 0, 0, 13);
    c = put(c, has_syn, 0, 3, syn);
    c = put(c, at_x | BPF_W, 0, 0, 0); /* 12 */
    c = put(c, BPF_MISC | BPF_TAX, 0, 0, 0);
    c = put(c, BPF_JMP | BPF_JA, 0, 0, 10);
    c = put(c, BPF_RET | BPF_K, 0, 0, 0); /* 15 */
    c = put(c, load | BPF_B, 0, 0, 6);    /* 16: IPv6 */
    c = put(c, is, 3, 0, IPPROTO_UDP);
    c = put(c, is, 0, 5, IPPROTO_TCP);
    c = put(c, load | BPF_B, 0, 0, 40 + 13);
    c = put(c, has_syn, 0, 3, syn);
    c = put(c, load | BPF_W, 0, 0, 40); /* 21 */
    c = put(c, BPF_MISC | BPF_TAX, 0, 0, 0);
    c = put(c, BPF_JMP | BPF_JA, 0, 0, 1);
    return put(c, BPF_RET | BPF_K, 0, 0, 0); /* 24 */
}

/* The upper or the lower half of X against all ports that are to be armed. */
static struct sock_filter *put_comparisons(const struct portmon *m, struct sock_filter *c, bool is_upper)
{
    c = put(c, BPF_MISC | BPF_TXA, 0, 0, 0);
    c = is_upper ? put(c, BPF_ALU | BPF_RSH | BPF_K, 0, 0, 16)
                 : put(c, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xffff);
    for (size_t i = 0; i < m->n_ports;) {
        struct sock_filter *group = c;
        for (; i < m->n_ports && c - group < GROUP; i++)
            if (m->ports[i].is_armed)
                c = put(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, m->ports[i].port);
        for (struct sock_filter *f = group; f < c; f++)
            f->jt = (uint8_t)(c - f); /* over the jump, to the way out */
        c = put(c, BPF_JMP | BPF_JA, 0, 0, 1);
        c = put(c, BPF_RET | BPF_K, 0, 0, SNAP);
    }
    return c;
}

static void no_packets(struct portmon *m, int error)
{
    if (m->packet_fd >= 0)
        (void)close(m->packet_fd); /* nothing of ours is in it */
    m->packet_fd = -1;
    (void)snprintf(m->why_packet, sizeof m->why_packet,
                   "UDP and reset TCP connections are not seen: packet socket: %s",
                   err_text(error)); /* cut to fit */
}

/* Attaches the filter for the ports that are not muted now. */
static void arm(struct portmon *m, int64_t now_ns)
{
    if (m->packet_fd < 0)
        return;
    for (size_t i = 0; i < m->n_ports; i++)
        m->ports[i].is_armed = m->ports[i].muted_until_ns <= now_ns;
    struct sock_filter *c = put_head(m->code, m->is_tcp_by_packet);
    c = put_comparisons(m, c, true);
    c = put_comparisons(m, c, false);
    c = put(c, BPF_RET | BPF_K, 0, 0, 0);
    struct sock_fprog program = {.len = (unsigned short)(c - m->code), .filter = m->code};
    if (setsockopt(m->packet_fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
        no_packets(m, -errno);
}

/* Arms when the ports that are to be in the filter are not those that are. */
static void arm_anew(struct portmon *m, int64_t now_ns)
{
    for (size_t i = 0; i < m->n_ports; i++) {
        if (m->ports[i].is_armed != (m->ports[i].muted_until_ns <= now_ns)) {
            arm(m, now_ns);
            return;
        }
    }
}

static void open_packets(struct portmon *m)
{
    int size = BUFFER_BYTES;
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    m->packet_fd =
        socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); /* 0: nothing before bind */
    if (m->packet_fd < 0) {
        no_packets(m, -errno);
        return;
    }
    (void)setsockopt(m->packet_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* any size will do */
    arm(m, 0);
    if (m->packet_fd >= 0 && bind(m->packet_fd, (const struct sockaddr *)&all, sizeof all) < 0)
        no_packets(m, -errno);
}

bool portmon_packet_ports(struct slice packet, uint16_t ports[2])
{
    const unsigned char *p = (const unsigned char *)packet.p;
    size_t header;
    if (packet.n < 20)
        return false;
    if (p[0] >> 4 == 4) {
        header = (size_t)(p[0] & 15) * 4;
        if (header < 20 || (p[6] & 0x1f) || p[7] || (p[9] != IPPROTO_UDP && p[9] != IPPROTO_TCP))
            return false;
    } else if (p[0] >> 4 == 6) {
        header = 40;
        if (p[6] != IPPROTO_UDP && p[6] != IPPROTO_TCP)
            return false;
    } else {
        return false;
    }
    if (packet.n < header + 4)
        return false;
    for (size_t i = 0; i < 2; i++)
        ports[i] = (uint16_t)(p[header + 2 * i] << 8 | p[header + 2 * i + 1]);
    return true;
}

static void read_packets(struct portmon *m, int64_t now_ns)
{
    for (int i = 0; i < READ_MAX && m->packet_fd >= 0; i++) {
        char data[SNAP];
        uint16_t ports[2];
        ssize_t n = recv(m->packet_fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) /* an interface went down, a signal: said once, then it goes on */
            continue;
        m->cost.packets++;
        m->is_stirred = true;
        if (!portmon_packet_ports(slice_of(data, (size_t)n), ports))
            continue;
        for (size_t k = 0; k < 2; k++) {
            struct port *p = find(m, ports[k]);
            if (!p)
                continue;
            mark(p, now_ns);
            p->muted_until_ns = now_ns + MUTE_NS;
        }
    }
    arm_anew(m, now_ns);
}

/* Sockets. */

static uint64_t id_of(const struct inet_diag_msg *msg)
{
    struct inet_diag_sockid id = msg->id;
    id.idiag_if = 0; /* a socket may be bound to a device at any time */
    return hash_seeded(slice_of((const char *)&id, sizeof id), msg->idiag_family);
}

static int note_socket(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info,
                       size_t info_len)
{
    struct portmon *m = arg;
    struct seen_list *l = &m->now;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct seen *v = mem_try_resize(l->v, room * sizeof *v);
        if (!v) {
            m->is_overfull = true;
            return 1;
        }
        l->v = v;
        l->room = room;
    }
    bool has_bytes = SOCKDIAG_HAS(info_len, tcpi_bytes_received);
    l->v[l->n++] = (struct seen){
        .id = id_of(msg),
        .bytes = has_bytes ? info->tcpi_bytes_acked + info->tcpi_bytes_received : 0,
        .ports = {ntohs(msg->id.idiag_sport), ntohs(msg->id.idiag_dport)},
        .state = msg->idiag_state,
    };
    return 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct seen *)a)->id, y = ((const struct seen *)b)->id;
    return (x > y) - (x < y);
}

/* A socket that moved; the first look at a port has nothing to compare with. */
static void mark_socket(struct portmon *m, const struct seen *s, int64_t now_ns)
{
    for (size_t k = 0; k < 2; k++) {
        struct port *p = find(m, s->ports[k]);
        if (p && !p->is_new)
            mark(p, now_ns);
    }
}

static void compare(struct portmon *m, int64_t now_ns)
{
    const struct seen_list *was = &m->last, *is = &m->now;
    for (size_t i = 0, k = 0; i < was->n || k < is->n;) {
        if (k == is->n || (i < was->n && was->v[i].id < is->v[k].id)) { /* gone */
            if (was->v[i].state != SOCKDIAG_TIME_WAIT)
                mark_socket(m, &was->v[i], now_ns);
            i++;
        } else if (i == was->n || is->v[k].id < was->v[i].id) { /* new */
            mark_socket(m, &is->v[k++], now_ns);
        } else {
            if (was->v[i].bytes != is->v[k].bytes || was->v[i].state != is->v[k].state)
                mark_socket(m, &is->v[k], now_ns);
            i++;
            k++;
        }
    }
}

/* All sockets of all ports, so many ports at a time as the kernel's filter takes. */
static int dump(struct portmon *m)
{
    uint16_t ports[SOCKDIAG_PORTS_MAX];
    m->now.n = 0;
    m->is_overfull = false;
    for (size_t at = 0; at < m->n_ports;) {
        size_t n = 0;
        while (at < m->n_ports && n < SOCKDIAG_PORTS_MAX)
            ports[n++] = m->ports[at++].port;
        int r = sockdiag_dump(m->diag, &(struct sockdiag_query){ports, n, STATES}, note_socket, m);
        if (r != 0)
            return r;
    }
    return 0;
}

static void look_at_sockets(struct portmon *m, int64_t now_ns)
{
    int r = dump(m);
    m->why_diag[0] = '\0';
    if (r == E_LIMIT || m->is_overfull) { /* too many to tell apart: that is traffic */
        (void)snprintf(m->why_diag, sizeof m->why_diag,
                       "more TCP sockets than can be compared: counted as traffic");
        for (size_t i = 0; i < m->n_ports; i++)
            mark(&m->ports[i], now_ns);
    } else if (r != 0) {
        (void)snprintf(m->why_diag, sizeof m->why_diag, "TCP is not seen now: sock_diag: %s", err_text(r));
    }
    if (r != 0)
        return;
    m->cost.sockets += m->now.n;
    if (m->now.n > 1)
        qsort(m->now.v, m->now.n, sizeof *m->now.v, by_id);
    compare(m, now_ns);
    struct seen_list old = m->last;
    m->last = m->now;
    m->now = old;
    m->is_stirred = false;
    for (size_t i = 0; i < m->n_ports; i++) {
        m->ports[i].is_new = false;
        m->is_stirred |= m->ports[i].muted_until_ns > now_ns;
    }
    for (size_t i = 0; i < m->last.n; i++)
        m->is_stirred |= m->last.v[i].state != SOCKDIAG_TIME_WAIT;
}

/* Has nothing happened that a dump would show? */
static bool is_quiet(struct portmon *m)
{
    if (m->packet_fd < 0 || m->is_stirred || m->skipped >= SKIP_MAX) {
        m->skipped = 0;
        return false;
    }
    m->skipped++;
    return true;
}

/* Can it be had at all? An answer to a question about any port shows it. */
static void open_diag(struct portmon *m)
{
    static const uint16_t any = 1;
    int r = sockdiag_open(&m->diag);
    if (r == 0)
        r = sockdiag_dump(m->diag, &(struct sockdiag_query){&any, 1, STATES}, note_socket, m);
    m->now.n = 0;
    if (r == 0)
        return;
    sockdiag_close(m->diag);
    m->diag = NULL;
    m->is_tcp_by_packet = true;
    (void)snprintf(m->why_diag, sizeof m->why_diag, "TCP only by packets: sock_diag: %s", err_text(r));
}

/* The interface. */

struct portmon *portmon_create(void)
{
    struct portmon *m = mem_alloc(sizeof *m);
    open_diag(m);
    open_packets(m);
    return m;
}

void portmon_destroy(struct portmon *m)
{
    if (!m)
        return;
    sockdiag_close(m->diag);
    if (m->packet_fd >= 0)
        (void)close(m->packet_fd); /* nothing of ours is in it */
    mem_free(m->last.v);
    mem_free(m->now.v);
    mem_free(m);
}

static int by_port(const void *a, const void *b)
{
    return (int)((const struct port *)a)->port - (int)((const struct port *)b)->port;
}

int portmon_set(struct portmon *m, const uint16_t *ports, size_t n)
{
    if (n > PORTMON_PORTS_MAX)
        return E_LIMIT;
    struct port *next = mem_alloc((n ? n : 1) * sizeof *next);
    for (size_t i = 0; i < n; i++) {
        const struct port *known = find(m, ports[i]);
        next[i] = known ? *known : (struct port){.port = ports[i], .is_new = true};
    }
    if (n > 1)
        qsort(next, n, sizeof *next, by_port);
    m->n_ports = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || next[i].port != next[i - 1].port)
            m->ports[m->n_ports++] = next[i];
    mem_free(next);
    m->is_stirred = true;
    arm(m, m->next_ns ? m->next_ns - PORTMON_EVERY : 0);
    return 0;
}

void portmon_look(struct portmon *m, int64_t now_ns)
{
    int64_t began = clock_mono_ns();
    read_packets(m, now_ns);
    if (m->diag && m->n_ports && !is_quiet(m))
        look_at_sockets(m, now_ns);
    m->next_ns = (now_ns / PORTMON_EVERY + 1) * PORTMON_EVERY;
    m->cost.looks++;
    m->cost.ns += (uint64_t)(clock_mono_ns() - began);
}

int64_t portmon_next_ns(const struct portmon *m)
{
    return m->next_ns;
}

int portmon_wait_fd(const struct portmon *m)
{
    return m->packet_fd;
}

void portmon_read(struct portmon *m, int64_t now_ns)
{
    int64_t began = clock_mono_ns();
    read_packets(m, now_ns);
    m->cost.ns += (uint64_t)(clock_mono_ns() - began);
}

bool portmon_is_active(const struct portmon *m, uint16_t port, int64_t now_ns, int64_t hold_ns)
{
    size_t place = place_of(m, port);
    int64_t hold = hold_ns > PORTMON_HOLD_MIN ? hold_ns : PORTMON_HOLD_MIN;
    return place < PORTMON_PORTS_MAX && m->ports[place].is_seen && now_ns - m->ports[place].last_ns < hold;
}

struct portmon_cost portmon_cost(const struct portmon *m)
{
    return m->cost;
}

const char *portmon_why(struct portmon *m)
{
    const char *between = m->why_diag[0] && m->why_packet[0] ? "; " : "";
    (void)snprintf(m->why, sizeof m->why, "%s%s%s", m->why_diag, between, m->why_packet); /* there is room */
    return m->why;
}
