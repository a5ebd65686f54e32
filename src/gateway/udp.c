/* SPDX-License-Identifier: Apache-2.0 */
/* A wake-up calls recvmmsg until the queue is empty or UDP_ROUND is reached. With UDP GRO the kernel gives
 * datagrams of one sender that have the same size (the last one may be shorter) as one message and says the
 * size beside it; split() cuts it. What is cut is not judged at once but in groups of AHEAD: first all heads
 * are read and the workers called into the cache, then their samplers, then each is judged. With many workers
 * all of that is cold, and so a group waits for it about once: 0.12 us a datagram at 12,000 workers in no
 * order, where one after the other takes 0.23 to 0.34, and 0.06 with 64, where all is warm
 * (bench/datagram.c).
 *
 * Every datagram has exactly one fate, the first of: malformed head; unknown worker; wrong level; another key
 * (unknown); replayed; forged; malformed packet; passed. Numbers are looked at before the seal is opened,
 * because that costs nothing; they are entered only after it. A copy is counted in its worker's window
 * without being opened: somebody without the key can make a worker's count of duplicates too high, never what
 * was received of it.
 *
 * Buffers: with GRO 16 messages of 64 KiB each, of which only pages that were once written cost memory (64
 * messages were slower: they do not fit in the cache); without it 64 of 1.2 KiB. The distance of two buffers
 * is not a power of two: beginnings of buffers that are a multiple of 4 KiB apart push each other out of the
 * cache, which cost up to 0.05 us a datagram. */
#include "gateway/udp.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/listen.h"
#include "net/seal.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MESSAGES = 64,
    MESSAGES_GRO = 16,
    BUFFER = 1280,                 /* more than DATAGRAM_MAX: what is cut off is still too long */
    BUFFER_GRO = (64 << 10) + 192, /* no UDP payload is larger than 64 KiB */
    AHEAD = 16
};
#define NOTE_EVERY_NS (60 * NS_PER_S)
#define LOOK_EVERY_NS NS_PER_S

_Static_assert(BUFFER > (int)DATAGRAM_MAX, "a datagram that is too long must be seen as such");

enum fate { PASSED, MALFORMED, UNKNOWN, LEVEL, FORGED, REPLAYED, FATES };

union peer {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
};

/* A datagram between being cut out and being judged. */
struct piece {
    unsigned char *p;
    size_t n;
    const union peer *from; /* NULL: not asked */
    struct worker *worker;  /* NULL: none has that id */
    struct datagram_head head;
    int r; /* of reading the head */
};

/* What has not been said yet of a fate: the first at once, then at most a line a minute. */
struct note {
    uint64_t n;
    int64_t next_ns; /* CLOCK_MONOTONIC */
    union peer from; /* who sent one of them; AF_UNSPEC: not known yet */
    int r;           /* what was wrong with the last; 0 = nothing more than its fate */
};

struct udp {
    struct workers *workers;
    struct seal *seal;
    struct event *readable;
    int fd;
    uint16_t port;
    struct strbuf address;
    void (*on_round)(void *arg);
    void *on_round_arg;
    bool (*is_crowded)(void *arg); /* NULL: never */
    void *is_crowded_arg;
    bool is_held; /* not waiting for the socket, until udp_go_on */

    uint64_t received, bytes, fates[FATES], overflow;
    struct note notes[FATES], errors, overflows;
    int64_t now_ns;           /* CLOCK_MONOTONIC at the end of the last wake-up */
    int64_t next_look_ns;     /* for overflow */
    int64_t senders_until_ns; /* until then who sent it is asked for with each datagram */

    struct piece pieces[AHEAD];
    size_t n_pieces;
    struct diag why; /* not on the stack, where it would be cleared for each datagram */

    unsigned n_messages;
    bool has_senders; /* peers are those of the messages */
    size_t buffer_size;
    unsigned char *buffers;
    struct mmsghdr messages[MESSAGES];
    struct iovec iov[MESSAGES];
    union peer peers[MESSAGES];
    _Alignas(struct cmsghdr) char controls[MESSAGES][CMSG_SPACE(sizeof(int))]; /* UDP_GRO's size */
};

static void note(struct note *n, const union peer *from, int r)
{
    n->n++;
    n->r = r;
    if (from)
        n->from = *from;
}

/* At most a line a minute. Senders are asked for only once there was something to say, so the first line may
 * name none; then they are asked for for a minute, and a line that can name one follows. */
static void say(struct udp *u, struct note *n, bool has_sender, const char *what)
{
    if (n->n == 0 || u->now_ns < n->next_ns)
        return;
    struct strbuf from = {0};
    const bool is_named = n->from.any.sa_family != AF_UNSPEC;
    if (is_named) {
        strbuf_add_str(&from, ", one from ");
        listen_print(&n->from.any, sizeof n->from, &from);
    }
    log_info("%s: %s: %" PRIu64 "%s%s%s", u->address.p, what, n->n, from.n ? from.p : "",
             n->r < 0 ? ": " : "", n->r < 0 ? err_text(n->r) : "");
    strbuf_fini(&from);
    if (has_sender && !is_named)
        u->senders_until_ns = u->now_ns + NOTE_EVERY_NS;
    else
        n->next_ns = u->now_ns + NOTE_EVERY_NS;
    n->n = 0;
    n->from.any.sa_family = AF_UNSPEC;
}

static void say_all(struct udp *u)
{
    static const char *const what[FATES] = {
        [MALFORMED] = "datagrams that could not be read",
        [UNKNOWN] = "datagrams of workers without a lease, or with another key",
        [LEVEL] = "datagrams not protected as their lease says",
        [FORGED] = "forged datagrams",
        [REPLAYED] = "datagrams that had come before, or too late",
    };
    for (int i = PASSED + 1; i < FATES; i++)
        say(u, &u->notes[i], true, what[i]);
    say(u, &u->errors, false, "failures to receive");
    say(u, &u->overflows, false, "datagrams lost: they came faster than they were taken");
}

/* Asking who sent them would cost 0.1 us a datagram. */
static bool wants_senders(const struct udp *u)
{
    if (u->now_ns < u->senders_until_ns)
        return true;
    for (int i = PASSED + 1; i < FATES; i++)
        if (u->notes[i].n && u->notes[i].from.any.sa_family == AF_UNSPEC)
            return true;
    return false;
}

/* What the kernel has dropped so far. Its counter has 32 bits: the difference to what is known is right as
 * long as it is asked for before that many are dropped. */
static uint64_t overflow_now(const struct udp *u)
{
    uint32_t info[SK_MEMINFO_VARS];
    socklen_t n = sizeof info;
    if (getsockopt(u->fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0 || n < (SK_MEMINFO_DROPS + 1) * sizeof *info)
        return u->overflow;
    return u->overflow + (uint32_t)(info[SK_MEMINFO_DROPS] - (uint32_t)u->overflow);
}

static void look_for_overflow(struct udp *u)
{
    if (u->now_ns < u->next_look_ns)
        return;
    u->next_look_ns = u->now_ns + LOOK_EVERY_NS;
    uint64_t overflow = overflow_now(u);
    u->overflows.n += overflow - u->overflow;
    u->overflow = overflow;
}

/* Which fate has the datagram of a worker? *r says more of one that is malformed. */
static enum fate judge(struct udp *u, const struct piece *d, int *r)
{
    struct worker *w = d->worker;
    struct slice packet;
    if (!w || !w->sampler || (w->state != WORKER_LIVE && w->state != WORKER_LATE))
        return UNKNOWN;
    if (d->head.level != w->level)
        return LEVEL;
    if (d->head.key != (uint8_t)w->key_id)
        return UNKNOWN;
    if (datagram_window_look(&w->window, d->head.number) != DATAGRAM_NEW) {
        (void)datagram_window_enter(&w->window, d->head.number); /* counts it; the verdict is known */
        return REPLAYED;
    }
    if (seal_open(u->seal, w->key, w->key_id, &d->head, d->p, d->n, &packet) < 0)
        return FORGED;
    (void)datagram_window_enter(&w->window, d->head.number); /* new, as was seen */
    if (packet.n == 0)
        return PASSED;
    *r = sampler_packet(w->sampler, packet, &u->why);
    return *r < 0 ? MALFORMED : PASSED;
}

/* Reads the head, and calls what judge() needs of the worker into the cache. */
static void prepare(struct udp *u, struct piece *d)
{
    d->worker = NULL;
    d->r = datagram_get_head(slice_of((const char *)d->p, d->n), &d->head);
    if (d->r < 0)
        return;
    d->worker = workers_by_id(u->workers, d->head.worker);
    if (!d->worker)
        return;
    __builtin_prefetch(d->worker);
    __builtin_prefetch(&d->worker->window.received);
    __builtin_prefetch(&d->worker->window.bits[d->head.number % DATAGRAM_WINDOW / 64]);
}

static void settle(struct udp *u, const struct piece *d)
{
    int r = d->r;
    enum fate fate = r < 0 ? MALFORMED : judge(u, d, &r);
    u->received++;
    u->bytes += d->n;
    u->fates[fate]++;
    if (fate != PASSED)
        note(&u->notes[fate], d->from, r);
}

static void settle_all(struct udp *u)
{
    for (size_t i = 0; i < u->n_pieces; i++)
        prepare(u, &u->pieces[i]);
    for (size_t i = 0; i < u->n_pieces; i++)
        if (u->pieces[i].worker)
            __builtin_prefetch(u->pieces[i].worker->sampler);
    for (size_t i = 0; i < u->n_pieces; i++)
        settle(u, &u->pieces[i]);
    u->n_pieces = 0;
}

static void add_piece(struct udp *u, unsigned char *p, size_t n, const union peer *from)
{
    u->pieces[u->n_pieces++] = (struct piece){.p = p, .n = n, .from = from};
    if (u->n_pieces == AHEAD)
        settle_all(u);
}

/* The size of the message's datagrams but the last; all of it when it is one. */
static size_t piece_size(struct msghdr *m, size_t n)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        int size;
        if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
            continue;
        memcpy(&size, CMSG_DATA(c), sizeof size);
        if (size > 0)
            return (size_t)size;
    }
    return n;
}

static void split(struct udp *u, unsigned message)
{
    unsigned char *p = u->iov[message].iov_base;
    size_t left = u->messages[message].msg_len;
    const size_t size = piece_size(&u->messages[message].msg_hdr, left);
    do { /* an empty datagram is one, too */
        size_t n = left < size ? left : size;
        add_piece(u, p, n, u->has_senders ? &u->peers[message] : NULL);
        p += n;
        left -= n;
    } while (left > 0);
}

/* How many messages came. */
static unsigned receive(struct udp *u)
{
    u->has_senders = wants_senders(u);
    for (unsigned i = 0; i < u->n_messages; i++) {
        struct msghdr *m = &u->messages[i].msg_hdr;
        m->msg_name = u->has_senders ? &u->peers[i] : NULL;
        m->msg_namelen = u->has_senders ? sizeof u->peers[i] : 0;
        m->msg_controllen = sizeof u->controls[i];
    }
    int n = recvmmsg(u->fd, u->messages, u->n_messages, MSG_DONTWAIT, NULL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        note(&u->errors, NULL, -errno);
    return n < 0 ? 0 : (unsigned)n;
}

static bool is_crowded(const struct udp *u)
{
    return u->is_crowded && u->is_crowded(u->is_crowded_arg);
}

/* Until the queue is empty, with the batch that makes max datagrams, or, unless it takes them all, until
 * there is a crowd. */
static void take_queue(struct udp *u, uint64_t max, bool takes_all)
{
    const uint64_t received = u->received, passed = u->fates[PASSED];
    unsigned n;
    do {
        n = receive(u);
        for (unsigned i = 0; i < n; i++)
            split(u, i);
        settle_all(u);
    } while (n == u->n_messages && u->received - received < max && (takes_all || !is_crowded(u)));
    if (u->received == received && u->errors.n == 0)
        return;
    u->now_ns = clock_mono_ns();
    look_for_overflow(u);
    say_all(u);
    if (u->on_round && u->fates[PASSED] != passed)
        u->on_round(u->on_round_arg);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct udp *u = arg;
    if (!is_crowded(u))
        take_queue(u, UDP_ROUND, false);
    if (is_crowded(u) && event_del(u->readable) == 0)
        u->is_held = true; /* it stays readable: waiting for that would only spin */
}

/* As much as may be had: the kernel cuts SO_RCVBUF to net.core.rmem_max. */
static void set_buffer(const struct udp *u)
{
    int size = UDP_BUFFER;
    if (setsockopt(u->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) == 0)
        return;
    (void)setsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* what it is then is looked at */
    socklen_t n = sizeof size;
    if (getsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &size, &n) == 0 && size / 2 < UDP_BUFFER)
        log_info("%s: receives into %d KiB; net.core.rmem_max = %d would give it what it wants", u->address.p,
                 size / 2 >> 10, UDP_BUFFER);
}

static void set_messages(struct udp *u)
{
    const int yes = 1;
    bool has_gro = setsockopt(u->fd, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes) == 0;
    u->n_messages = has_gro ? MESSAGES_GRO : MESSAGES;
    u->buffer_size = has_gro ? BUFFER_GRO : BUFFER;
    u->buffers = mem_alloc(u->n_messages * u->buffer_size);
    for (unsigned i = 0; i < u->n_messages; i++) {
        u->iov[i] = (struct iovec){u->buffers + i * u->buffer_size, u->buffer_size};
        u->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &u->peers[i], .msg_iov = &u->iov[i], .msg_iovlen = 1, .msg_control = u->controls[i]};
    }
}

static int open_socket(struct udp *u, struct slice address, struct diag *why)
{
    struct addrinfo *found;
    union peer bound;
    socklen_t len = sizeof bound;
    int r = listen_resolve(address, SOCK_DGRAM, &found, why);
    if (r < 0)
        return r;
    u->fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->fd < 0 || bind(u->fd, found->ai_addr, found->ai_addrlen) < 0 ||
        getsockname(u->fd, &bound.any, &len) < 0)
        r = diag_set(why, -errno, 0, "datagrams at %.*s: %s", SLICE_ARG(address), err_text(-errno));
    freeaddrinfo(found);
    if (r < 0)
        return r;
    u->port = ntohs(bound.any.sa_family == AF_INET ? bound.ip4.sin_port : bound.ip6.sin6_port);
    strbuf_add_str(&u->address, "udp://");
    listen_print(&bound.any, len, &u->address);
    return strbuf_failed(&u->address) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)) : 0;
}

int udp_create(struct event_base *base, struct slice address, struct workers *workers, struct udp **out,
               struct diag *why)
{
    const struct slice scheme = SLICE_LIT("udp://");
    struct udp *u = mem_alloc(sizeof *u);
    u->fd = -1;
    u->workers = workers;
    int r = open_socket(u, slice_from(address, slice_starts(address, scheme) ? scheme.n : 0), why);
    if (r < 0)
        goto failed;
    set_buffer(u);
    set_messages(u);
    u->seal = seal_create();
    u->readable = event_new(base, u->fd, EV_READ | EV_PERSIST, on_readable, u);
    if (!u->seal || !u->readable || event_add(u->readable, NULL) < 0) {
        r = diag_set(why, -ENOMEM, 0, "datagrams at %s: %s", u->address.p,
                     u->seal ? err_text(-ENOMEM) : "OpenSSL has no AES-128-GCM here");
        goto failed;
    }
    *out = u;
    return 0;
failed:
    udp_destroy(u);
    return r;
}

void udp_destroy(struct udp *u)
{
    if (!u)
        return;
    u->now_ns = INT64_MAX - NOTE_EVERY_NS;
    say_all(u);
    if (u->readable)
        event_free(u->readable);
    if (u->fd >= 0)
        (void)close(u->fd);
    seal_destroy(u->seal);
    mem_free(u->buffers);
    strbuf_fini(&u->address);
    mem_free(u);
}

uint16_t udp_port(const struct udp *u)
{
    return u->port;
}

const char *udp_address(const struct udp *u)
{
    return u->address.p;
}

void udp_counts(const struct udp *u, struct udp_counts *out)
{
    *out = (struct udp_counts){
        .received = u->received,
        .bytes = u->bytes,
        .passed = u->fates[PASSED],
        .malformed = u->fates[MALFORMED],
        .unknown = u->fates[UNKNOWN],
        .level = u->fates[LEVEL],
        .forged = u->fates[FORGED],
        .replayed = u->fates[REPLAYED],
        .overflow = overflow_now(u),
    };
}

void udp_on_round(struct udp *u, void (*fn)(void *arg), void *arg)
{
    u->on_round = fn;
    u->on_round_arg = arg;
}

void udp_hold_while(struct udp *u, bool (*fn)(void *arg), void *arg)
{
    u->is_crowded = fn;
    u->is_crowded_arg = arg;
}

void udp_go_on(struct udp *u)
{
    if (u->is_held && event_add(u->readable, NULL) == 0) /* without memory the next call tries again */
        u->is_held = false;
}

void udp_drain(struct udp *u)
{
    take_queue(u, UDP_DRAIN, true);
}

void udp_take(struct udp *u, unsigned char *datagram, size_t n)
{
    add_piece(u, datagram, n, NULL);
    settle_all(u);
}
