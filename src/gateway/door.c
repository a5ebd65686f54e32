/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/door.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/listen.h"
#include "net/tls.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENERS_MAX = 16 };
#define RENEW_EVERY_NS (3600 * NS_PER_S)

struct door {
    struct sessions *sessions;
    struct listener *listeners[LISTENERS_MAX];
    size_t n;
    struct tls_server *tls; /* NULL = no TLS, as the next */
    struct enrol *enrol;
    int64_t renew_at_ns; /* when to look at our own certificate again */
};

/* ---------------------------------------------------------------- who it is */

/* Without TLS: as far as the socket tells. */
static struct access_identity identity_of(evutil_socket_t fd, const struct listen_peer *peer)
{
    struct access_identity who = {.kind = peer->is_local ? ACCESS_LOCAL : ACCESS_INSECURE,
                                  .uid = UINT32_MAX,
                                  .interface = peer->is_unix ? "unix" : "tcp"};
    struct ucred user;
    socklen_t len = sizeof user;
    if (!peer->is_unix || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) < 0)
        return who;
    who.uid = user.uid;
    if (user.uid == geteuid() || user.uid == 0)
        who.kind = ACCESS_OWNER;
    return who;
}

/* With TLS: as its certificate says. */
static int identify(struct transport *t, struct access_identity *out)
{
    static const enum access_kind kinds[] = {[TLS_NOBODY] = ACCESS_NOBODY,
                                             [TLS_AGENT] = ACCESS_AGENT,
                                             [TLS_GATEWAY] = ACCESS_GATEWAY,
                                             [TLS_OPERATOR] = ACCESS_OPERATOR};
    struct tls_identity who;
    int r = tls_identify(t, &who);
    if (r < 0)
        return r;
    *out = (struct access_identity){
        .kind = kinds[who.role], .uid = UINT32_MAX, .not_after_ns = who.not_after_ns, .interface = "tls"};
    _Static_assert(sizeof out->name >= sizeof who.name, "a name fits");
    memcpy(out->name, who.name, sizeof who.name);
    return 0;
}

static void on_connection(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    struct door *d = arg;
    struct session_way way = {.who = {.kind = ACCESS_NOBODY, .uid = UINT32_MAX, .interface = "tls"}};
    if (peer->is_tls) {
        way.transport = &tls_server_transport;
        way.transport_ctx = d->tls;
    } else {
        way.who = identity_of(fd, peer);
    }
    sessions_accept(d->sessions, fd, peer->name, &way);
}

/* ---------------------------------------------------------------- listening */

static int add_listener(struct door *d, struct event_base *base, struct slice address, bool is_insecure,
                        struct diag *why)
{
    const struct slice is_tls = SLICE_LIT("tls://");
    if (d->n == LISTENERS_MAX)
        return diag_set(why, -EINVAL, 0, "at most %d listen addresses", LISTENERS_MAX);
    if (slice_starts(address, is_tls) && !d->tls)
        return diag_set(
            why, -EINVAL, 0,
            "listen address %.*s needs an identity: `gridline init` makes one, `identity` names its folder",
            SLICE_ARG(address));
    int r = listener_create(base, address, is_insecure ? LISTEN_INSECURE : 0, on_connection, d,
                            &d->listeners[d->n], why);
    if (r == 0)
        log_info("listening on %s", listener_address(d->listeners[d->n++]));
    return r;
}

static int open_listeners(struct door *d, struct event_base *base, const struct door_options *o,
                          struct diag *why)
{
    struct slice list = slice_str(o->listen);
    for (size_t at = 0; at < list.n;) {
        size_t n = strcspn(list.p + at, ", ");
        int r = n ? add_listener(d, base, slice_of(list.p + at, n), o->is_insecure, why) : 0;
        if (r < 0)
            return r;
        at += n + 1;
    }
    struct strbuf socket = {0};
    strbuf_printf(&socket, "unix:%s", o->socket ? o->socket : "");
    int r = o->socket && o->socket[0] ? add_listener(d, base, strbuf_slice(&socket), false, why) : 0;
    strbuf_fini(&socket);
    if (r < 0)
        return r;
    return d->n ? 0 : diag_set(why, -EINVAL, 0, "no address to listen on");
}

/* ---------------------------------------------------------------- certificates */

/* A folder without the CA's key is fine: hosts join at another gateway of the site. */
static int open_identity(struct door *d, const char *dir, struct diag *why)
{
    struct diag no_signing = {0};
    int r = enrol_create(dir, &d->enrol, &no_signing);
    if (r < 0)
        log_info("nobody can join here: %s", no_signing.message);
    else if (enrol_renew_own(d->enrol, clock_utc_ns(), &no_signing) < 0)
        log_error("our own certificate: %s", no_signing.message);
    r = tls_server_create(dir, &d->tls, why);
    if (r < 0)
        return r;
    d->sessions->identify = identify;
    d->sessions->enrol = d->enrol;
    d->renew_at_ns = clock_utc_ns() + RENEW_EVERY_NS;
    return 0;
}

void door_tick(struct door *d, int64_t now_ns)
{
    struct diag why = {0};
    if (!d->tls || now_ns < d->renew_at_ns)
        return;
    d->renew_at_ns = now_ns + RENEW_EVERY_NS;
    int r = d->enrol ? enrol_renew_own(d->enrol, now_ns, &why)
                     : 1; /* somebody else may have renewed it on disk */
    if (r > 0)
        r = tls_server_reload(d->tls, &why);
    if (r < 0)
        log_error("our own certificate: %s", why.message);
}

/* ---------------------------------------------------------------- life */

int door_create(struct event_base *base, struct sessions *sessions, const struct door_options *o,
                struct door **out, struct diag *why)
{
    struct door *d = mem_alloc(sizeof *d);
    d->sessions = sessions;
    int r = o->identity && o->identity[0] ? open_identity(d, o->identity, why) : 0;
    if (r == 0)
        r = open_listeners(d, base, o, why);
    if (r < 0) {
        door_destroy(d);
        return r;
    }
    *out = d;
    return 0;
}

void door_close(struct door *d)
{
    for (size_t i = 0; i < d->n; i++)
        listener_destroy(d->listeners[i]);
    d->n = 0;
}

void door_destroy(struct door *d)
{
    if (!d)
        return;
    door_close(d);
    tls_server_destroy(d->tls);
    enrol_destroy(d->enrol);
    mem_free(d);
}

const char *door_address(const struct door *d, size_t i)
{
    return i < d->n ? listener_address(d->listeners[i]) : NULL;
}

const char *door_first_host(const struct door *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const char *address = listener_address(d->listeners[i]);
        const char *slashes = strstr(address, "://");
        if (slashes)
            return slashes + 3;
    }
    return "";
}

int64_t door_certificate_until(const struct door *d)
{
    return d && d->tls ? tls_server_not_after_ns(d->tls) : 0;
}
