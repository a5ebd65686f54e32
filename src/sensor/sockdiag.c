/* SPDX-License-Identifier: Apache-2.0 */
/* The request is the older of the kernel's two forms, TCPDIAG_GETSOCK: it gives IPv4 and IPv6 in one walk over the
 * table of connections, where SOCK_DIAG_BY_FAMILY needs one walk a family, and every kernel has it.
 *
 *     nlmsghdr | inet_diag_req | nlattr INET_DIAG_REQ_BYTECODE | bytecode
 *
 * The bytecode is a list of tests, two a port (local, remote), 20 bytes each; S is the side:
 *
 *     S_GE port   yes: next op   no: next test        8 bytes: the op, and an op whose `no` holds the port
 *     S_LE port   yes: next op   no: next test        8 bytes
 *     JMP         to the end                          4 bytes
 *
 * Ending exactly behind the last op accepts the socket; 4 bytes further refuses it, which is where the last test's
 * `no` leads. The kernel accepts only jumps to ops that the chain of `yes` reaches, so JMP has a `yes` of its own
 * length. Ports are compared with two ops because the one for "equal" is newer (5.11).
 *
 * The answer is datagrams of messages, one a socket: nlmsghdr | inet_diag_msg | attributes, of which INET_DIAG_INFO
 * holds a tcp_info as long as the kernel's. NLMSG_DONE ends it. A dump that is not read to its end is ended by
 * closing the socket: the next dump opens another. */
#include "sensor/sockdiag.h"

#include "base/err.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEST_BYTES = 20,
    FILTER_MAX = 2 * SOCKDIAG_PORTS_MAX * TEST_BYTES,
    DATAGRAM_MAX = 32 << 10 /* the kernel makes them as large as the reader's buffer, at most 32 KiB */
};

struct request {
    struct nlmsghdr head;
    struct inet_diag_req diag;
    struct nlattr attr;
    unsigned char filter[FILTER_MAX];
};
_Static_assert(offsetof(struct request, filter) == NLMSG_HDRLEN + sizeof(struct inet_diag_req) + NLA_HDRLEN,
               "the request has no holes");

struct sockdiag {
    int fd; /* -1 = not open */
    uint32_t seq;
    size_t last_bytes;
    struct request request;
    _Alignas(struct nlmsghdr) char datagram[DATAGRAM_MAX];
};

const char *sockdiag_state_name(unsigned state)
{
    static const char *const names[SOCKDIAG_STATES] = {
        [SOCKDIAG_ESTABLISHED] = "established", [SOCKDIAG_SYN_SENT] = "syn-sent",   [SOCKDIAG_SYN_RECV] = "syn-recv",
        [SOCKDIAG_FIN_WAIT1] = "fin-wait-1",    [SOCKDIAG_FIN_WAIT2] = "fin-wait-2", [SOCKDIAG_TIME_WAIT] = "time-wait",
        [SOCKDIAG_CLOSE] = "close",             [SOCKDIAG_CLOSE_WAIT] = "close-wait", [SOCKDIAG_LAST_ACK] = "last-ack",
        [SOCKDIAG_LISTEN] = "listen",           [SOCKDIAG_CLOSING] = "closing",
    };
    return state < SOCKDIAG_STATES && names[state] ? names[state] : "unknown";
}

static int open_socket(struct sockdiag *d)
{
    if (d->fd >= 0)
        return 0;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return -errno;
    d->fd = fd;
    return 0;
}

static void close_socket(struct sockdiag *d)
{
    if (d->fd >= 0)
        (void)close(d->fd); /* nothing of ours is in it */
    d->fd = -1;
}

int sockdiag_open(struct sockdiag **out)
{
    struct sockdiag *d = mem_alloc(sizeof *d);
    d->fd = -1;
    int r = open_socket(d);
    if (r < 0) {
        sockdiag_close(d);
        return r;
    }
    *out = d;
    return 0;
}

void sockdiag_close(struct sockdiag *d)
{
    if (!d)
        return;
    close_socket(d);
    mem_free(d);
}

size_t sockdiag_last_bytes(const struct sockdiag *d)
{
    return d->last_bytes;
}

static unsigned char *put_op(unsigned char *to, unsigned char code, size_t yes, size_t no)
{
    struct inet_diag_bc_op op = {.code = code, .yes = (unsigned char)yes, .no = (unsigned short)no};
    memcpy(to, &op, sizeof op);
    return to + sizeof op;
}

/* One test of one side; left counts the bytes of the filter from here to its end. */
static unsigned char *put_test(unsigned char *to, unsigned char ge, unsigned char le, uint16_t port, size_t left)
{
    size_t next = left == TEST_BYTES ? left + 4 : TEST_BYTES; /* behind the last: refused */
    to = put_op(to, ge, 8, next);
    to = put_op(to, 0, 0, port);
    to = put_op(to, le, 8, next - 8);
    to = put_op(to, 0, 0, port);
    return put_op(to, INET_DIAG_BC_JMP, 4, left - 16);
}

static void fill_request(struct request *q, const struct sockdiag_query *query, uint32_t seq)
{
    size_t filter = 2 * query->n_ports * TEST_BYTES, left = filter;
    unsigned char *to = q->filter;
    for (size_t i = 0; i < query->n_ports; i++, left -= 2 * TEST_BYTES) {
        to = put_test(to, INET_DIAG_BC_S_GE, INET_DIAG_BC_S_LE, query->ports[i], left);
        to = put_test(to, INET_DIAG_BC_D_GE, INET_DIAG_BC_D_LE, query->ports[i], left - TEST_BYTES);
    }
    q->diag = (struct inet_diag_req){.idiag_ext = 1 << (INET_DIAG_INFO - 1), .idiag_states = query->states};
    q->attr = (struct nlattr){(uint16_t)(NLA_HDRLEN + filter), INET_DIAG_REQ_BYTECODE};
    q->head = (struct nlmsghdr){.nlmsg_len = (uint32_t)(offsetof(struct request, filter) + filter),
                                .nlmsg_type = TCPDIAG_GETSOCK,
                                .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                                .nlmsg_seq = seq};
}

static int send_request(struct sockdiag *d, const struct sockdiag_query *query)
{
    static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    fill_request(&d->request, query, ++d->seq);
    ssize_t n = sendto(d->fd, &d->request, d->request.head.nlmsg_len, MSG_DONTWAIT, (const struct sockaddr *)&kernel,
                       sizeof kernel);
    return n < 0 ? -errno : 0;
}

/* The attributes behind an inet_diag_msg: finds the tcp_info. */
static int find_info(struct slice attributes, struct slice *info)
{
    *info = slice_of("", 0);
    while (attributes.n >= NLA_HDRLEN) {
        struct nlattr a;
        memcpy(&a, attributes.p, sizeof a);
        if (a.nla_len < NLA_HDRLEN || a.nla_len > attributes.n)
            return E_PROTO;
        if ((a.nla_type & NLA_TYPE_MASK) == INET_DIAG_INFO)
            *info = slice_of(attributes.p + NLA_HDRLEN, (size_t)a.nla_len - NLA_HDRLEN);
        attributes = slice_from(attributes, NLA_ALIGN(a.nla_len));
    }
    return 0;
}

static int parse_socket(struct slice payload, sockdiag_fn fn, void *arg)
{
    struct inet_diag_msg msg;
    struct tcp_info info = {0};
    struct slice found;
    if (payload.n < sizeof msg)
        return E_PROTO;
    memcpy(&msg, payload.p, sizeof msg);
    int r = find_info(slice_from(payload, NLMSG_ALIGN(sizeof msg)), &found);
    if (r < 0)
        return r;
    size_t info_len = found.n < sizeof info ? found.n : sizeof info;
    memcpy(&info, found.p, info_len);
    return fn(arg, &msg, &info, info_len);
}

/* NLMSG_ERROR holds an errno, negative; NLMSG_DONE may hold one. */
static int parse_code(struct slice payload)
{
    int code = 0;
    if (payload.n < sizeof code)
        return E_PROTO;
    memcpy(&code, payload.p, sizeof code);
    return code < 0 && code > -4096 ? code : 0;
}

int sockdiag_parse(struct slice datagram, uint32_t seq, sockdiag_fn fn, void *arg)
{
    while (datagram.n >= NLMSG_HDRLEN) {
        struct nlmsghdr head;
        memcpy(&head, datagram.p, sizeof head);
        if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > datagram.n)
            return E_PROTO;
        struct slice payload = slice_of(datagram.p + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN);
        datagram = slice_from(datagram, NLMSG_ALIGN((size_t)head.nlmsg_len));
        if (head.nlmsg_seq != seq)
            return E_PROTO;
        int r = 0;
        if (head.nlmsg_type == NLMSG_DONE)
            return payload.n >= sizeof(int) && (r = parse_code(payload)) < 0 ? r : 1;
        if (head.nlmsg_type == NLMSG_ERROR)
            return (r = parse_code(payload)) < 0 ? r : E_PROTO;
        if (head.nlmsg_type == TCPDIAG_GETSOCK)
            r = parse_socket(payload, fn, arg);
        if (r != 0)
            return r;
    }
    return datagram.n ? E_PROTO : 0;
}

struct counted {
    sockdiag_fn fn;
    void *arg;
    size_t n;
    int result; /* of fn, when it ended the dump: kept apart from what the answer itself says */
};

static int count_socket(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info, size_t info_len)
{
    struct counted *c = arg;
    if (++c->n > SOCKDIAG_SOCKETS_MAX)
        return E_LIMIT;
    c->result = c->fn(c->arg, msg, info, info_len);
    return c->result == 0 ? 0 : E_LIMIT;
}

static int read_answer(struct sockdiag *d, struct counted *c)
{
    for (;;) {
        ssize_t n = recv(d->fd, d->datagram, sizeof d->datagram, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if ((size_t)n > sizeof d->datagram || n == 0)
            return E_PROTO;
        d->last_bytes += (size_t)n;
        int r = sockdiag_parse(slice_of(d->datagram, (size_t)n), d->seq, count_socket, c);
        if (r != 0)
            return r < 0 ? r : 0;
    }
}

int sockdiag_dump(struct sockdiag *d, const struct sockdiag_query *query, sockdiag_fn fn, void *arg)
{
    struct counted c = {.fn = fn, .arg = arg};
    d->last_bytes = 0;
    if (query->n_ports == 0 || query->n_ports > SOCKDIAG_PORTS_MAX)
        return E_LIMIT;
    int r = open_socket(d);
    if (r == 0)
        r = send_request(d, query);
    if (r == 0)
        r = read_answer(d, &c);
    if (r != 0)
        close_socket(d); /* what is left of the answer goes with it */
    return c.result ? c.result : r;
}

void sockdiag_add_address(struct strbuf *out, uint8_t family, const uint32_t address[4], uint16_t port_be)
{
    char text[INET6_ADDRSTRLEN];
    bool is_v4 = family == AF_INET;
    const uint32_t *v4 = address;
    if (family == AF_INET6 && address[0] == 0 && address[1] == 0 && address[2] == htonl(0xffff)) {
        is_v4 = true;
        v4 = address + 3;
    }
    if (!inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? v4 : address, text, sizeof text))
        return; /* can't be: the family is one of two and there is room */
    strbuf_printf(out, is_v4 ? "%s:%u" : "[%s]:%u", text, ntohs(port_be));
}
