/* SPDX-License-Identifier: Apache-2.0 */
/* The list of addresses: tcp://HOST[:PORT], HOST[:PORT], tls://HOST[:PORT], unix:PATH, by commas. Each becomes one
 * socket address, or for a name as many as the resolver gives, up to UPLINK_PER_NAME_MAX. Here and nowhere
 * else names are resolved. */
#include "net/uplink_internal.h"

#include "base/mem.h"
#include "net/address.h"

#include <errno.h>
#include <netdb.h>
#include <sys/un.h>

/* Where the next socket address goes: peers has room for all that the list can give. */
static void add_peer(struct uplink *u, const void *sa, socklen_t len, size_t listed, const char *text)
{
    struct uplink_peer *p = &u->peers[u->n_peers++];
    memcpy(&p->sa, sa, len);
    p->len = len;
    p->listed = listed;
    p->text = text;
}

static int add_unix(struct uplink *u, struct slice path, size_t listed, const char *text)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (path.n == 0)
        return -EINVAL;
    if (path.n >= sizeof un.sun_path)
        return -ENAMETOOLONG;
    memcpy(un.sun_path, path.p, path.n);
    add_peer(u, &un, sizeof un, listed, text);
    return 0;
}

static int add_tcp(struct uplink *u, struct slice url, size_t listed, const char *text)
{
    char host[ADDRESS_HOST_MAX], port[ADDRESS_PORT_MAX];
    int r = address_split(url, host, port);
    if (r < 0)
        return r;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int g = getaddrinfo(host, port, &hints, &found);
    if (g == EAI_MEMORY)
        return -ENOMEM;
    if (g == EAI_SERVICE)
        return -EINVAL;
    if (g != 0)
        return -EHOSTUNREACH;
    size_t n = 0;
    for (const struct addrinfo *a = found; a && n < UPLINK_PER_NAME_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof u->peers[0].sa)
            continue;
        add_peer(u, a->ai_addr, a->ai_addrlen, listed, text);
        n++;
    }
    freeaddrinfo(found);
    return n ? 0 : -EHOSTUNREACH;
}

static int add_address(struct uplink *u, struct slice address, size_t listed, const char *text)
{
    const struct slice is_unix = SLICE_LIT("unix:"), is_tcp = SLICE_LIT("tcp://"), is_tls = SLICE_LIT("tls://");
    if (slice_starts(address, is_unix)) {
        struct slice path = slice_from(address, is_unix.n);
        return add_unix(u, slice_starts(path, SLICE_LIT("//")) ? slice_from(path, 2) : path, listed, text);
    }
    if (!slice_starts(address, is_tls))
        return add_tcp(u, slice_from(address, slice_starts(address, is_tcp) ? is_tcp.n : 0), listed, text);
    if (!u->options.transport)
        return -EPROTONOSUPPORT;
    size_t first = u->n_peers;
    int r = add_tcp(u, slice_from(address, is_tls.n), listed, text);
    for (size_t i = first; i < u->n_peers; i++)
        u->peers[i].is_tls = true;
    return r;
}

/* The next of the list; or all of it, if it is one. */
static bool next(struct slice *list, bool is_one, struct slice *out)
{
    if (!is_one)
        return address_next(list, out);
    *out = *list;
    *list = (struct slice){0};
    return out->p != NULL;
}

static int refuse(struct diag *why, int r, uint32_t col, struct slice address)
{
    if (r == -EPROTONOSUPPORT)
        return diag_set(why, r, col, "address '%.*s': no TLS here: it takes an identity (`gridline join`), and a "
                                     "program sends to its agent, which has one",
                        SLICE_ARG(address));
    return diag_set(why, r, col, "address '%.*s': %s", SLICE_ARG(address), err_text(r));
}

int uplink_address_parse(struct uplink *u, struct slice addresses, struct diag *why)
{
    const bool is_one = u->options.flags & UPLINK_ONE_ADDRESS;
    size_t most = 1;
    for (size_t i = 0; i < addresses.n && !is_one; i++)
        most += addresses.p[i] == ',';
    if (most > UPLINK_LISTED_MAX)
        return diag_set(why, E_LIMIT, 0, "more than %d addresses", UPLINK_LISTED_MAX);
    u->address_text = mem_try_alloc(addresses.n + most);
    u->peers = mem_try_alloc(most * UPLINK_PER_NAME_MAX * sizeof *u->peers);
    if (!u->address_text || !u->peers)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));

    char *text = u->address_text;
    const char *start = addresses.p ? addresses.p : "";
    struct slice rest = slice_of(start, addresses.n), one;
    for (size_t listed = 0; next(&rest, is_one, &one); listed++) {
        if (one.n)
            memcpy(text, one.p, one.n);
        int r = one.n ? add_address(u, one, listed, text) : -EINVAL;
        if (r < 0)
            return refuse(why, r, (uint32_t)(one.p - start) + 1, one);
        text += one.n + 1; /* zeroed */
    }
    struct uplink_peer *fitting = mem_try_resize(u->peers, u->n_peers * sizeof *fitting);
    u->peers = fitting ? fitting : u->peers;
    return 0;
}
