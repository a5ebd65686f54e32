/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams, and whether they arrive (docs/protocol.md, "Datagrams").
 *
 * Nothing is answered by UDP. LEASE says how many came, so each renewal is a look:
 *
 *     way        since the look before                     then
 *     stream     something came                            datagrams
 *     stream     nothing came                              a probe; the first two times another renewal soon
 *     datagrams  nothing came of at least LOST_MIN sent    stream, and a probe
 *     datagrams  else                                      datagrams
 *
 * A refusal by ICMP (nobody listens there) is the stream at once. Probes are empty packets; they have numbers
 * as all datagrams have, and are counted as sent. A number whose datagram the kernel did not take is given
 * again: it was never on the network, so neither a loss nor a nonce used twice.
 *
 * Numbers start again with each SAMPLES_ORIGIN, and the gateway answers that with a LEASE (t0 and number 0)
 * that has a new key: until it comes nothing is sent, so a number is used once with a key and both ends count
 * the same. */
#include "agent/upstream_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

enum { LOST_MIN = 3, TRIES = 2 };
/* When to renew after the first probes, the last try first. */
static const int64_t try_after_ns[TRIES] = {INT64_C(1000) * 1000 * 1000, INT64_C(200) * 1000 * 1000};

void upstream_datagram_init(struct upstream *u)
{
    u->datagrams.fd = -1;
}

static void close_socket(struct datagrams *d)
{
    if (d->fd >= 0)
        (void)close(d->fd); /* nothing waits in it */
    d->fd = -1;
    d->port = 0;
}

void upstream_datagram_fini(struct upstream *u)
{
    struct datagrams *d = &u->datagrams;
    close_socket(d);
    if (d->seal)
        u->secure->seal_destroy(d->seal);
    d->seal = NULL;
    explicit_bzero(d->key, sizeof d->key);
}

static void set_way(struct upstream *u, enum upstream_way way, const char *why)
{
    if (u->datagrams.way == way)
        return;
    u->datagrams.way = way;
    if (u->ops->on_way)
        u->ops->on_way(u->arg, way, why);
}

void upstream_datagram_down(struct upstream *u)
{
    struct datagrams *d = &u->datagrams;
    close_socket(d);
    d->way = WAY_STREAM; /* silently: each connection begins like that */
    d->level = SEAL_NONE;
    d->has_key = d->is_counted = false;
}

void upstream_datagram_begin(struct upstream *u)
{
    struct datagrams *d = &u->datagrams;
    d->total += d->sent;
    d->sent = d->told = d->sent_before = d->received = 0;
    d->has_key = d->is_counted = false;
    d->origins_due++;
}

/* ---------------------------------------------------------------- sending */

size_t upstream_datagram_room(const struct upstream *u, size_t datagram, uint64_t first_seq)
{
    size_t tag = u->datagrams.level == SEAL_NONE ? 0 : DATAGRAM_TAG;
    return datagram - DATAGRAM_HEAD - tag - samples_head_size(first_seq, &u->packet_clock);
}

/* Puts head, packet and tag together; the length, or an error. */
static int64_t make_datagram(struct upstream *u, struct slice packet)
{
    struct datagrams *d = &u->datagrams;
    size_t tag = d->level == SEAL_NONE ? 0 : DATAGRAM_TAG;
    if (DATAGRAM_HEAD + packet.n + tag > sizeof d->buffer || d->sent >= DATAGRAM_NUMBER_MAX)
        return E_LIMIT;
    datagram_put_head(d->buffer, &(struct datagram_head){.level = d->level,
                                                         .key = (uint8_t)d->key_id,
                                                         .worker = u->lease.worker,
                                                         .number = d->sent + 1});
    if (packet.n)
        memcpy(d->buffer + DATAGRAM_HEAD, packet.p, packet.n);
    size_t n = DATAGRAM_HEAD + packet.n;
    return tag ? u->secure->seal_close(d->seal, d->key, d->key_id, d->buffer, n) : (int64_t)n;
}

int upstream_datagram_send(struct upstream *u, struct slice packet)
{
    struct datagrams *d = &u->datagrams;
    if (d->fd < 0 || !d->is_counted)
        return -ENOTCONN;
    int64_t n = make_datagram(u, packet);
    if (n < 0)
        return (int)n;
    ssize_t sent = send(d->fd, d->buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == ECONNREFUSED) { /* that was about an earlier one; this has not left */
        set_way(u, WAY_STREAM, "nobody listens for datagrams there");
        sent = send(d->fd, d->buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent < 0)
        return -errno;
    d->sent++;
    return 0;
}

static void send_probe(struct upstream *u)
{
    (void)upstream_datagram_send(
        u, (struct slice){"", 0}); /* one that can't leave does not arrive: that is its answer */
}

/* ---------------------------------------------------------------- the lease's word */

static void set_port(struct sockaddr_storage *sa, uint16_t port)
{
    if (sa->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)sa)->sin_port = htons(port);
}

static int open_socket(struct upstream *u, uint16_t port)
{
    struct datagrams *d = &u->datagrams;
    struct sockaddr_storage to = u->peer;
    socklen_t len = to.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (d->port == port)
        return 0;
    close_socket(d);
    set_port(&to, port);
    d->fd = socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0 || connect(d->fd, (const struct sockaddr *)&to, len) < 0) {
        int r = -errno;
        close_socket(d);
        return r;
    }
    d->port = port;
    return 0;
}

/* Key and level; false: datagrams can't be sealed as this lease wants them. */
static bool take_key(struct upstream *u, const struct frame_lease *l)
{
    struct datagrams *d = &u->datagrams;
    d->level = l->level;
    d->key_id = l->key_id;
    if (l->key.n == LEASE_KEY) {
        memcpy(d->key, l->key.p, LEASE_KEY);
        d->has_key = true;
    }
    if (d->level == SEAL_NONE)
        return true;
    if (!d->seal && u->secure)
        d->seal = u->secure->seal_create();
    return d->seal != NULL;
}

static bool can_use(struct upstream *u, const struct frame_lease *l)
{
    return l->udp_port && !u->is_unix && take_key(u, l) && open_socket(u, l->udp_port) == 0;
}

/* Looks at what has come since the look before. */
static void judge(struct upstream *u, uint64_t received_now)
{
    struct datagrams *d = &u->datagrams;
    uint64_t came = received_now > d->received ? received_now - d->received : 0;
    uint64_t sent = d->told - d->sent_before;
    d->received = received_now;
    d->sent_before = d->told;
    if (came) {
        set_way(u, WAY_DATAGRAMS, "datagrams arrive");
        d->tries = 0;
    } else if (sent >= LOST_MIN) {
        set_way(u, WAY_STREAM, "datagrams do not arrive");
    }
}

/* No datagrams: rolling packets over the connection take the least. */
static void go_without(struct upstream *u)
{
    struct datagrams *d = &u->datagrams;
    if (d->fd >= 0)
        set_way(u, WAY_STREAM, "the gateway takes no datagrams any more");
    close_socket(d);
    if (!u->is_rolling && upstream_set_rolling(u, true) == 0) /* without memory: as it is, which works, too */
        upstream_begin_samples(u);
}

/* Does the gateway count our datagrams under this origin from 1 on? Since the LEASE that answers it. */
static bool is_counted(struct datagrams *d, const struct frame_lease *l)
{
    bool answers_origin = l->number == 0 && l->t0_ns == 0;
    if (answers_origin && d->origins_due)
        d->origins_due--;
    return d->origins_due == 0;
}

void upstream_datagram_lease(struct upstream *u, const struct frame_lease *l, bool is_renewal)
{
    struct datagrams *d = &u->datagrams;
    bool was_counted = d->is_counted;
    bool counts_now = is_counted(d, l);
    if (!can_use(u, l)) {
        go_without(u);
        return;
    }
    if (u->is_rolling && upstream_set_rolling(u, false) == 0) {
        upstream_begin_samples(u);
        return;
    }
    d->is_counted = counts_now && (d->level == SEAL_NONE || d->has_key);
    if (!d->is_counted)
        return;
    if (is_renewal && was_counted)
        judge(u, l->datagrams);
    if (d->way == WAY_DATAGRAMS)
        return;
    if (!was_counted)
        d->tries = TRIES;
    send_probe(u);
    if (d->tries)
        upstream_lease_hasten(u, u->now_ns + try_after_ns[--d->tries]);
}
