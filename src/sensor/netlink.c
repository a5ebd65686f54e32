/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/netlink.h"

#include "base/err.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel fills buffers of at most a page, 8 KiB, or as much as recv was given before, whichever is most: no
 * datagram is longer than this. */
enum { DATAGRAM_MAX = 16384 };

static const struct {
    const char *name;
    uint16_t type;
} dumps[] = {
    {"qdisc", RTM_GETQDISC},
};

int netlink_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    return fd >= 0 ? fd : -errno;
}

static int ask(int fd, uint16_t type)
{
    struct {
        struct nlmsghdr head;
        struct tcmsg body; /* the longest that a dump wants here: all zero is "everything" */
    } request = {{sizeof request, type, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {.tcm_family = AF_UNSPEC}};
    ssize_t n = send(fd, &request, sizeof request, 0);
    return n == (ssize_t)sizeof request ? 0 : n < 0 ? -errno : -EIO;
}

/* Looks through the datagram that begins at from: 1 when the dump ends in it (its end is cut off), 0: more follows. */
static int end_of_dump(struct strbuf *out, size_t from)
{
    for (size_t at = from; out->n - at >= sizeof(struct nlmsghdr);) {
        struct nlmsghdr head;
        memcpy(&head, out->p + at, sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > out->n - at)
            return E_PROTO;
        if (head.nlmsg_type == NLMSG_DONE) {
            out->n = at;
            out->p[at] = '\0';
            return 1;
        }
        if (head.nlmsg_type == NLMSG_ERROR) {
            struct nlmsgerr e = {.error = -EIO};
            if (head.nlmsg_len >= sizeof head + sizeof e.error)
                memcpy(&e.error, out->p + at + sizeof head, sizeof e.error);
            return e.error < 0 ? e.error : E_PROTO;
        }
        size_t step = NLMSG_ALIGN(head.nlmsg_len);
        at = step < out->n - at ? at + step : out->n;
    }
    return 0;
}

int netlink_dump(int fd, struct slice name, size_t max, struct strbuf *out)
{
    uint16_t type = 0;
    strbuf_reset(out);
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++)
        if (slice_eq_str(name, dumps[i].name))
            type = dumps[i].type;
    int r = type ? ask(fd, type) : E_NODATA;
    while (r == 0) {
        size_t from = out->n;
        char *to = strbuf_room(out, DATAGRAM_MAX);
        if (!to)
            return -ENOMEM;
        ssize_t n = recv(fd, to, DATAGRAM_MAX, MSG_TRUNC | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n > DATAGRAM_MAX || from + (size_t)n > max)
            return E_LIMIT;
        strbuf_advance(out, (size_t)n);
        r = end_of_dump(out, from);
    }
    return r < 0 ? r : out->n ? 0 : E_NODATA;
}
