/* SPDX-License-Identifier: Apache-2.0 */
/* The list of addresses: tcp://HOST[:PORT], HOST[:PORT], unix:PATH, separated by commas. Each becomes one
 * socket address, or for a name as many as the resolver gives, up to UPLINK_PER_NAME_MAX. Here and nowhere
 * else names are resolved. */
#include "net/uplink_internal.h"

#include "base/mem.h"
#include "base/num.h"

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

/* HOST, HOST:PORT, [V6] or [V6]:PORT, as C strings. */
static int split_host(struct slice url, char host[NI_MAXHOST], char port[NI_MAXSERV])
{
    struct slice h = url, p = {"", 0};
    const char *bracket = url.n && url.p[0] == '[' ? memchr(url.p, ']', url.n) : NULL;
    struct slice rest = bracket ? slice_from(url, (size_t)(bracket - url.p) + 1) : url;
    const char *colon = rest.n ? memchr(rest.p, ':', rest.n) : NULL;
    if (bracket && rest.n && colon != rest.p)
        return -EINVAL;
    if (bracket)
        h = slice_of(url.p + 1, (size_t)(bracket - url.p) - 1);
    else if (colon)
        h.n = (size_t)(colon - url.p);
    if (colon)
        p = slice_from(rest, (size_t)(colon - rest.p) + 1);
    uint64_t number = FRAME_PORT;
    if (h.n == 0 || h.n >= NI_MAXHOST || (colon && num_parse_uint(p, &number) < 0) || number == 0 ||
        number > UINT16_MAX)
        return -EINVAL;
    (void)snprintf(host, NI_MAXHOST, "%.*s", SLICE_ARG(h)); /* fits, as checked */
    (void)snprintf(port, NI_MAXSERV, "%u", (unsigned)number);
    return 0;
}

static int add_tcp(struct uplink *u, struct slice url, size_t listed, const char *text)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int r = split_host(url, host, port);
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
    if (!slice_starts(address, SLICE_LIT("unix:")))
        return add_tcp(u, slice_from(address, slice_starts(address, SLICE_LIT("tcp://")) ? 6 : 0), listed,
                       text);
    struct slice path = slice_from(address, 5);
    return add_unix(u, slice_starts(path, SLICE_LIT("//")) ? slice_from(path, 2) : path, listed, text);
}

/* Takes the address at the front of *list, without blanks around it. false: there is no more. */
static bool next_address(struct slice *list, bool is_one, struct slice *out)
{
    if (!list->p)
        return false;
    const char *comma = is_one || list->n == 0 ? NULL : memchr(list->p, ',', list->n);
    *out = comma ? slice_of(list->p, (size_t)(comma - list->p)) : *list;
    *list = comma ? slice_from(*list, out->n + 1) : (struct slice){0};
    while (!is_one && out->n && out->p[0] == ' ')
        *out = slice_from(*out, 1);
    while (!is_one && out->n && out->p[out->n - 1] == ' ')
        out->n--;
    return true;
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
    for (size_t listed = 0; next_address(&rest, is_one, &one); listed++) {
        if (one.n)
            memcpy(text, one.p, one.n);
        int r = one.n ? add_address(u, one, listed, text) : -EINVAL;
        if (r < 0)
            return diag_set(why, r, (uint32_t)(one.p - start) + 1, "address '%.*s': %s", SLICE_ARG(one),
                            err_text(r));
        text += one.n + 1; /* zeroed */
    }
    struct uplink_peer *fitting = mem_try_resize(u->peers, u->n_peers * sizeof *fitting);
    u->peers = fitting ? fitting : u->peers;
    return 0;
}
