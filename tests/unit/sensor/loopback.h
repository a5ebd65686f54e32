/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.h - for tests: a TCP connection between two sockets of this process. Include after unit/test.h; not together
 * with <netinet/tcp.h>. */
#ifndef GRIDLINE_TESTS_LOOPBACK_H
#define GRIDLINE_TESTS_LOOPBACK_H

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct loopback {
    int listener, client, server;
    uint16_t port;        /* the listener's and server's */
    uint16_t client_port;
};

union loopback_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static inline uint16_t loopback_port(int fd)
{
    union loopback_address a = {0};
    socklen_t n = sizeof a;
    assert_int_equal(getsockname(fd, &a.any, &n), 0);
    return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
}

/* False: this host does not have that family. */
static inline bool loopback_open(struct loopback *l, int family)
{
    union loopback_address a = {0};
    socklen_t n = family == AF_INET ? sizeof a.v4 : sizeof a.v6;
    *l = (struct loopback){-1, -1, -1, 0, 0};
    a.any.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        a.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        a.v6.sin6_addr = in6addr_loopback;
    l->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->listener < 0 || bind(l->listener, &a.any, n) < 0) {
        if (l->listener >= 0)
            assert_int_equal(close(l->listener), 0);
        return false;
    }
    assert_int_equal(listen(l->listener, 5), 0);
    l->port = loopback_port(l->listener);
    if (family == AF_INET)
        a.v4.sin_port = htons(l->port);
    else
        a.v6.sin6_port = htons(l->port);
    l->client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(l->client >= 0);
    assert_int_equal(connect(l->client, &a.any, n), 0);
    l->client_port = loopback_port(l->client);
    l->server = accept(l->listener, NULL, NULL);
    assert_true(l->server >= 0);
    return true;
}

/* n bytes from client to server, received and acknowledged. */
static inline void loopback_send(const struct loopback *l, size_t n)
{
    char bytes[1024] = {0};
    while (n) {
        size_t part = n < sizeof bytes ? n : sizeof bytes;
        assert_int_equal(send(l->client, bytes, part, 0), part);
        assert_int_equal(recv(l->server, bytes, part, MSG_WAITALL), part);
        n -= part;
    }
    int queued = 1; /* the peer may wait before it acknowledges */
    for (int i = 0; i < 10000 && queued; i++) {
        assert_int_equal(ioctl(l->client, SIOCOUTQ, &queued), 0);
        (void)poll(NULL, 0, queued ? 1 : 0); /* a pause */
    }
    assert_int_equal(queued, 0);
}

static inline void loopback_close(struct loopback *l)
{
    assert_int_equal(close(l->client), 0);
    assert_int_equal(close(l->server), 0);
    assert_int_equal(close(l->listener), 0);
}

#endif
