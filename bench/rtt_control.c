/* SPDX-License-Identifier: Apache-2.0 */
/* rtt_control [--tls DIR] [--tickets]: the least that a server of leases could do, as the control of
 * bench/lease: one epoll loop that answers 64 bytes with 64 bytes. Listens on a free port of 127.0.0.1,
 * prints it, and serves until SIGTERM.
 *
 * --tls: TLS 1.3 with the identity in DIR (key.pem, cert.pem, ca.pem); clients must have a certificate of
 * that CA, which is verified in every full handshake. --tickets: one a connection, for resumption. The client
 * is `workers --bare`. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE = 64, EVENTS = 256, BACKLOG = 4096 };

struct peer {
    int fd;
    int have; /* bytes of the question */
    SSL *tls;
    char bytes[MESSAGE];
};

static volatile sig_atomic_t is_stopped;

static void on_signal(int signo)
{
    (void)signo;
    is_stopped = 1;
}

static SSL_CTX *make_context(const char *dir, bool has_tickets)
{
    char ca[512], cert[512], key[512];
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", dir);
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
        SSL_CTX_load_verify_locations(c, ca, NULL) != 1 || SSL_CTX_use_certificate_chain_file(c, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1) {
        ERR_print_errors_fp(stderr);
        exit(1);
    }
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    (void)SSL_CTX_set_num_tickets(c, has_tickets ? 1 : 0);
    (void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(c, (const unsigned char *)"rtt", 3);
    return c;
}

static int listen_anywhere(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
        perror("rtt_control");
        exit(1);
    }
    (void)printf("%u\n", ntohs(a.sin_port));
    (void)fflush(stdout); /* whoever started it waits for this */
    return fd;
}

static void drop(struct peer *p)
{
    if (p->tls)
        SSL_free(p->tls);
    close(p->fd);
    free(p);
}

static void accept_all(int epoll, int listener, SSL_CTX *context)
{
    const int one = 1;
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct peer *p = calloc(1, sizeof *p);
        if (!p)
            abort();
        p->fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (context) {
            p->tls = SSL_new(context);
            if (!p->tls || SSL_set_fd(p->tls, fd) != 1)
                abort();
            SSL_set_accept_state(p->tls);
        }
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
            drop(p);
    }
}

/* As read; -1 with EAGAIN when there is nothing now. */
static int read_some(struct peer *p)
{
    if (!p->tls)
        return (int)read(p->fd, p->bytes + p->have, (size_t)(MESSAGE - p->have));
    int n = SSL_read(p->tls, p->bytes + p->have, MESSAGE - p->have);
    if (n > 0)
        return n;
    errno = SSL_get_error(p->tls, n) == SSL_ERROR_WANT_READ ? EAGAIN : EIO;
    ERR_clear_error();
    return -1;
}

static bool answer(struct peer *p)
{
    p->have = 0;
    return (p->tls ? SSL_write(p->tls, p->bytes, MESSAGE)
                   : (int)send(p->fd, p->bytes, MESSAGE, MSG_NOSIGNAL)) == MESSAGE;
}

static void serve(struct peer *p)
{
    for (;;) {
        int n = read_some(p);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        p->have += n;
        if (p->have == MESSAGE && !answer(p))
            break;
        if (!p->tls)
            return; /* one question at a time: there is no more */
    }
    drop(p);
}

int main(int argc, char **argv)
{
    const char *dir = NULL;
    bool has_tickets = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tls") == 0 && i + 1 < argc)
            dir = argv[++i];
        else if (strcmp(argv[i], "--tickets") == 0)
            has_tickets = true;
        else
            return fprintf(stderr, "usage: rtt_control [--tls DIR] [--tickets]\n"), 2;
    }
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l); /* then it serves fewer */
    }
    struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    SSL_CTX *context = dir ? make_context(dir, has_tickets) : NULL;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_anywhere();
    struct epoll_event e = {.events = EPOLLIN}, events[EVENTS];
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) < 0)
        return perror("rtt_control"), 1;
    while (!is_stopped) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                serve(events[i].data.ptr);
            else
                accept_all(epoll, listener, context);
        }
    }
    return 0;
}
