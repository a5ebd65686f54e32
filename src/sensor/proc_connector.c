/* SPDX-License-Identifier: Apache-2.0 */
/* A message, in the host's byte order, without padding:
 *
 *     0   nlmsghdr    len u32, type u16, flags u16, seq u32, pid u32
 *     16  cn_msg      idx u32 = 1, val u32 = 1, seq u32, ack u32, len u16, flags u16
 *     36  proc_event  what u32, cpu u32, time u64 (ns, monotonic)
 *     52              FORK: parent thread, parent, thread, process; EXEC, COMM: thread, process;
 *                     EXIT: thread, process, status, signal to the parent; u32 each
 *
 * To listen is a message with the operation in the place of proc_event. The kernel answers it before sendto
 * returns, with what = 0 and ack = ours + 1 to everyone who listens; in a pid or user namespace of its own it
 * does not answer at all.
 *
 * Each instance of a sensor has its own socket. When something happens all of them become readable at once,
 * so the agent still wakes once; what a second instance costs is one more copy of each message, and sharing
 * would make instances depend on each other. */
#include "sensor/proc_connector.h"

#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    AT_CN = NLMSG_HDRLEN,
    AT_WHAT = AT_CN + sizeof(struct cn_msg),
    AT_TIME = AT_WHAT + 8,
    AT_DATA = AT_WHAT + 16,
    BATCH = 32,             /* messages a system call */
    MESSAGE_MAX = 128,      /* 76 bytes; later kernels may add some */
    BUFFER_BYTES = 4 << 20, /* the kernel gives twice as much; used only when the reader is late */
    MESSAGE_BYTES = 768     /* of the buffer, for each message with what the kernel keeps about it */
};
_Static_assert(AT_WHAT == 36 && AT_DATA == 52, "as the head comment says");

struct proc_connector {
    int fd;
    unsigned room;
    char data[BATCH][MESSAGE_MAX];
};

static uint32_t u32_at(struct slice s, size_t at)
{
    uint32_t v;
    memcpy(&v, s.p + at, sizeof v);
    return v;
}

/* One proc_event, checked to be n bytes of payload behind AT_WHAT. */
static int parse_event(struct slice d, size_t n, struct proc_change *out)
{
    uint32_t what = u32_at(d, AT_WHAT);
    size_t words = what == PROC_EVENT_FORK ? 4 : what == PROC_EVENT_EXIT ? 3 : 2; /* needed behind AT_DATA */
    struct proc_change c = {.status = 0};
    if (what != PROC_EVENT_FORK && what != PROC_EVENT_EXEC && what != PROC_EVENT_COMM &&
        what != PROC_EVENT_EXIT)
        return 0;
    if (n < 16 + 4 * words)
        return E_PROTO;
    memcpy(&c.mono_ns, d.p + AT_TIME, sizeof c.mono_ns);
    size_t at = what == PROC_EVENT_FORK ? AT_DATA + 8 : AT_DATA;
    c.pid = u32_at(d, at + 4);
    if (u32_at(d, at) != c.pid)
        return 0; /* a thread */
    c.what = what == PROC_EVENT_FORK   ? PROC_FORKED
             : what == PROC_EVENT_EXEC ? PROC_EXECED
             : what == PROC_EVENT_COMM ? PROC_NAMED
                                       : PROC_EXITED;
    if (what == PROC_EVENT_FORK)
        c.parent = u32_at(d, AT_DATA + 4);
    if (what == PROC_EVENT_EXIT)
        c.status = (int)(u32_at(d, AT_DATA + 8) & 0xffff);
    *out = c;
    return 1;
}

/* The connector's message in a datagram: the length behind AT_WHAT, or E_PROTO. */
static int64_t payload_length(struct slice d)
{
    struct nlmsghdr head;
    struct cn_msg cn;
    if (d.n < AT_WHAT + 4)
        return E_PROTO;
    memcpy(&head, d.p, sizeof head);
    memcpy(&cn, d.p + AT_CN, sizeof cn);
    if (head.nlmsg_len > d.n || head.nlmsg_len < AT_WHAT + 4 || cn.len < 4 ||
        cn.len > head.nlmsg_len - AT_WHAT)
        return E_PROTO;
    return cn.id.idx == CN_IDX_PROC && cn.id.val == CN_VAL_PROC ? cn.len : E_PROTO;
}

int proc_connector_parse(struct slice datagram, struct proc_change *out)
{
    int64_t n = payload_length(datagram);
    return n < 0 ? (int)n : parse_event(datagram, (size_t)n, out);
}

static int send_operation(int fd, uint32_t operation, uint32_t ack)
{
    static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    char message[AT_WHAT + sizeof operation];
    struct nlmsghdr head = {.nlmsg_len = sizeof message, .nlmsg_type = NLMSG_DONE};
    struct cn_msg cn = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .ack = ack, .len = sizeof operation};
    memcpy(message, &head, sizeof head);
    memcpy(message + AT_CN, &cn, sizeof cn);
    memcpy(message + AT_WHAT, &operation, sizeof operation);
    ssize_t n =
        sendto(fd, message, sizeof message, MSG_DONTWAIT, (const struct sockaddr *)&kernel, sizeof kernel);
    return n < 0 ? -errno : 0;
}

/* The kernel's answer to the message with this ack: 0, its error, or E_NODATA when there is none. What is
 * read on the way happened before anyone knew of this listener. */
static int read_answer(int fd, uint32_t ack)
{
    char data[MESSAGE_MAX];
    for (int i = 0; i < PROC_CONNECTOR_READ_MAX; i++) {
        ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? E_NODATA : -errno;
        struct slice d = slice_of(data, (size_t)n);
        if (payload_length(d) < 20 || u32_at(d, AT_WHAT) != PROC_EVENT_NONE ||
            u32_at(d, AT_CN + 12) != ack + 1)
            continue;
        uint32_t error = u32_at(d, AT_DATA);
        return error < 4096 ? -(int)error : E_PROTO;
    }
    return E_NODATA;
}

/* Passes what parse_event takes, so that nothing else fills the buffer or wakes the reader. A filter's loads
 * are in network byte order; that two words are equal is true in any. */
static int attach_filter(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_WHAT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_FORK), 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXEC), 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_COMM), 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXIT), 5, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DATA + 8), /* fork */
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DATA + 12),
        BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DATA), /* exec, comm, exit */
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DATA + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1), /* thread = process? */
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ? -errno : 0;
}

static int open_socket(struct diag *why)
{
    struct sockaddr_nl me = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    int size = BUFFER_BYTES;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
    if (fd < 0)
        return diag_set(why, -errno, 0, "proc connector: %s", err_text(-errno));
    /* Without the right to more, the system's limit: then a burst of fewer processes is lost, and looked for.
     */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (bind(fd, (const struct sockaddr *)&me, sizeof me) < 0) {
        int r = -errno;
        (void)close(fd); /* nothing of ours is in it */
        return diag_set(why, r, 0, "proc connector: %s (it needs CAP_NET_ADMIN)", err_text(r));
    }
    return fd;
}

int proc_connector_open(struct proc_connector **out, struct diag *why)
{
    int fd = open_socket(why);
    if (fd < 0)
        return fd;
    uint32_t ack = (uint32_t)clock_mono_ns(); /* tells our answer from those to others */
    int r = send_operation(fd, PROC_CN_MCAST_LISTEN, ack);
    if (r == 0)
        r = read_answer(fd, ack);
    if (r == 0)
        r = attach_filter(fd);
    if (r < 0) {
        (void)close(fd); /* nothing of ours is in it */
        return r == E_NODATA || r == -ECONNREFUSED
                   ? diag_set(why, E_NODATA, 0,
                              "proc connector: the kernel tells only the initial namespaces")
                   : diag_set(why, r, 0, "proc connector: %s", err_text(r));
    }
    struct proc_connector *c = mem_alloc(sizeof *c);
    c->fd = fd;
    int size = 0;
    socklen_t n = sizeof size;
    (void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &n); /* 0 is a safe answer */
    c->room = (unsigned)size / MESSAGE_BYTES;
    *out = c;
    return 0;
}

void proc_connector_close(struct proc_connector *c)
{
    if (!c)
        return;
    /* Kernels before 6.6 count listeners by these messages and not by sockets. Should it fail, they go on
     * making messages that nobody gets. */
    (void)send_operation(c->fd, PROC_CN_MCAST_IGNORE, 0);
    (void)close(c->fd); /* nothing of ours is in it */
    mem_free(c);
}

int proc_connector_fd(const struct proc_connector *c)
{
    return c->fd;
}

unsigned proc_connector_room(const struct proc_connector *c)
{
    return c->room;
}

int proc_connector_read(struct proc_connector *c, void (*fn)(void *arg, const struct proc_change *change),
                        void *arg)
{
    struct sockaddr_nl from[BATCH];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    int total = 0;
    bool is_lost = false;
    for (size_t i = 0; i < BATCH; i++)
        parts[i] = (struct iovec){c->data[i], MESSAGE_MAX};
    while (total < PROC_CONNECTOR_READ_MAX) {
        for (size_t i = 0; i < BATCH; i++)
            messages[i].msg_hdr = (struct msghdr){
                .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &parts[i], .msg_iovlen = 1};
        int n = recvmmsg(c->fd, messages, BATCH, MSG_DONTWAIT, NULL);
        if (n < 0 && (errno == EINTR || errno == ENOBUFS)) {
            is_lost = is_lost || errno == ENOBUFS;
            total++; /* it can't go on for ever */
            continue;
        }
        if (n < 0 && errno != EAGAIN)
            return -errno;
        struct proc_change change;
        for (int i = 0; i < n; i++)
            if (from[i].nl_pid == 0 && /* the kernel */
                proc_connector_parse(slice_of(c->data[i], messages[i].msg_len), &change) == 1)
                fn(arg, &change);
        total += n > 0 ? n : 0;
        if (n < BATCH)
            break;
    }
    return is_lost ? -ENOBUFS : total;
}
