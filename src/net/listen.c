/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listen.h"

#include "base/mem.h"
#include "base/log.h"

#include <errno.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 }; /* a gateway that starts again is called by all its workers at once */

struct listener {
    struct evconnlistener *socket;
    int reserve; /* a descriptor to give up when there are no others */
    listen_accept accept;
    void *arg;
    struct strbuf address;
    char *path; /* of a socket file that is ours; NULL = none */
    bool is_tls;
};

void listen_print(const struct sockaddr *sa, socklen_t len, struct strbuf *out)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(sa, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    strbuf_printf(out, sa->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

bool listen_is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
    if (sa->sa_family != AF_INET6)
        return false;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

static void on_accept(struct evconnlistener *socket, evutil_socket_t fd, struct sockaddr *sa, int len,
                      void *arg)
{
    (void)socket;
    struct listener *l = arg;
    struct strbuf name = {0};
    struct listen_peer peer = {.is_unix = l->path != NULL, .is_tls = l->is_tls};
    peer.is_local = peer.is_unix || listen_is_loopback(sa);
    if (l->path) {
        strbuf_add_str(&name, "unix");
    } else {
        /* An answer behind a ticket would wait for the ticket's acknowledgement: 40 ms. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1},
                         sizeof(int)); /* slower without, not wrong */
        listen_print(sa, (socklen_t)len, &name);
    }
    peer.name = name.n ? name.p : "peer";
    l->accept(l->arg, fd, &peer);
    strbuf_fini(&name);
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* evconnlistener calls this when accept failed. */
static void on_error(struct evconnlistener *socket, void *arg)
{
    struct listener *l = arg;
    int error = EVUTIL_SOCKET_ERROR();
    if ((error != EMFILE && error != ENFILE) || l->reserve < 0) {
        log_error("%s: %s", l->address.p, err_text(-error));
        return;
    }
    log_error("%s: out of descriptors: a caller is turned away", l->address.p);
    (void)close(l->reserve);
    int fd = accept4(evconnlistener_get_fd(socket), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        (void)close(fd);
    l->reserve = open_reserve();
}

static int start(struct listener *l, struct event_base *base, const struct sockaddr *sa, socklen_t len)
{
    const unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    errno = 0;
    l->socket = evconnlistener_new_bind(base, on_accept, l, flags, BACKLOG, sa, (int)len);
    if (!l->socket)
        return errno ? -errno : -ENOMEM;
    evconnlistener_set_error_cb(l->socket, on_error);
    return 0;
}

int listen_resolve(struct slice address, int socktype, struct addrinfo **out, struct diag *why)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    const char *colon = address.n ? memrchr(address.p, ':', address.n) : NULL;
    struct slice h = slice_of(address.p, colon ? (size_t)(colon - address.p) : address.n);
    struct slice p = colon ? slice_from(address, h.n + 1) : SLICE_LIT("14830");
    if (h.n >= 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
        h = slice_of(h.p + 1, h.n - 2);
    if (h.n == 0 || h.n >= sizeof host || p.n == 0 || p.n >= sizeof port)
        return diag_set(why, -EINVAL, 0, "listen address %.*s is not HOST:PORT", SLICE_ARG(address));
    (void)snprintf(host, sizeof host, "%.*s", SLICE_ARG(slice_eq_str(h, "*") ? SLICE_LIT("::") : h));
    (void)snprintf(port, sizeof port, "%.*s", SLICE_ARG(p));
    const struct addrinfo hints = {.ai_socktype = socktype, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    int g = getaddrinfo(host, port, &hints, out);
    return g == 0 ? 0 : diag_set(why, -EINVAL, 0, "listen address %s:%s: %s", host, port, gai_strerror(g));
}

/* Every address of this host. Without IPv6 (a kernel may have none) it is IPv4's. */
static int start_any(struct listener *l, struct event_base *base, const struct sockaddr *sa, socklen_t len)
{
    int r = start(l, base, sa, len);
    if (r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL)
        return r;
    const struct sockaddr_in v4 = {.sin_family = AF_INET,
                                   .sin_port = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port};
    return start(l, base, (const struct sockaddr *)&v4, sizeof v4);
}

static int start_tcp(struct listener *l, struct event_base *base, struct slice rest, unsigned flags,
                     struct diag *why)
{
    struct addrinfo *found;
    int r = listen_resolve(rest, SOCK_STREAM, &found, why);
    if (r < 0)
        return r;
    bool is_any = rest.n && rest.p[0] == '*',
         may = l->is_tls || (flags & LISTEN_INSECURE) || listen_is_loopback(found->ai_addr);
    if (may)
        r = is_any ? start_any(l, base, found->ai_addr, found->ai_addrlen)
                   : start(l, base, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (!may)
        return diag_set(
            why, -EACCES, 0,
            "listen address %.*s is not a loopback address: other hosts need TLS (tls://%.*s), or "
            "`insecure = true`",
            SLICE_ARG(rest), SLICE_ARG(rest));
    if (r < 0)
        return diag_set(why, r, 0, "listen address %.*s: %s", SLICE_ARG(rest), err_text(r));
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    strbuf_add_str(&l->address, l->is_tls ? "tls://" : "tcp://");
    if (getsockname(evconnlistener_get_fd(l->socket), (struct sockaddr *)&bound, &len) == 0)
        listen_print((const struct sockaddr *)&bound, len, &l->address);
    return 0;
}

/* A socket file that nobody listens on any more is in the way. */
static void remove_stale(const struct sockaddr_un *un)
{
    struct stat st;
    if (lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)un, sizeof *un) < 0 && errno == ECONNREFUSED)
        (void)unlink(un->sun_path); /* bind says why if it could not be removed */
    (void)close(fd);
}

static int start_unix(struct listener *l, struct event_base *base, struct slice path, struct diag *why)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (path.n == 0 || path.n >= sizeof un.sun_path)
        return diag_set(why, -EINVAL, 0, "a socket's path has 1 to %zu bytes: unix:%.*s",
                        sizeof un.sun_path - 1, SLICE_ARG(path));
    memcpy(un.sun_path, path.p, path.n);
    remove_stale(&un);
    mode_t mask = umask(0177); /* for its owner only; before any thread is started */
    int r = start(l, base, (const struct sockaddr *)&un, sizeof un);
    (void)umask(mask);
    if (r < 0)
        return diag_set(why, r, 0, "listen address unix:%s: %s", un.sun_path, err_text(r));
    l->path = mem_alloc(path.n + 1);
    memcpy(l->path, path.p, path.n);
    strbuf_printf(&l->address, "unix:%s", l->path);
    return 0;
}

int listener_create(struct event_base *base, struct slice address, unsigned flags, listen_accept accept,
                    void *arg, struct listener **out, struct diag *why)
{
    const struct slice is_unix = SLICE_LIT("unix:"), is_tcp = SLICE_LIT("tcp://"),
                       is_tls = SLICE_LIT("tls://");
    struct listener *l = mem_alloc(sizeof *l);
    l->accept = accept;
    l->arg = arg;
    l->reserve = open_reserve();
    l->is_tls = slice_starts(address, is_tls);
    size_t scheme = l->is_tls || slice_starts(address, is_tcp) ? is_tcp.n : 0;
    int r = slice_starts(address, is_unix) ? start_unix(l, base, slice_from(address, is_unix.n), why)
                                           : start_tcp(l, base, slice_from(address, scheme), flags, why);
    if (r == 0 && strbuf_failed(&l->address))
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r < 0) {
        listener_destroy(l);
        return r;
    }
    *out = l;
    return 0;
}

void listener_destroy(struct listener *l)
{
    if (!l)
        return;
    if (l->path)
        (void)unlink(l->path); /* the next start would find it stale */
    if (l->socket)
        evconnlistener_free(l->socket);
    if (l->reserve >= 0)
        (void)close(l->reserve);
    strbuf_fini(&l->address);
    mem_free(l->path);
    mem_free(l);
}

const char *listener_address(const struct listener *l)
{
    return l->address.p;
}

bool listener_is_tls(const struct listener *l)
{
    return l->is_tls;
}
