/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http_host.h"

#include <arpa/inet.h>
#include <stdio.h>

/* Without a port, and without brackets. "" = malformed. */
static struct slice name_of(struct slice host, bool *has_brackets)
{
    *has_brackets = host.n && host.p[0] == '[';
    const char *stop = host.n ? memchr(host.p, *has_brackets ? ']' : ':', host.n) : NULL;
    if (*has_brackets && !stop)
        return SLICE_LIT("");
    struct slice name =
        slice_of(host.p + *has_brackets, (stop ? (size_t)(stop - host.p) : host.n) - *has_brackets);
    struct slice rest = slice_from(host, name.n + (*has_brackets ? 2 : 0));
    bool is_port = rest.n == 0 || rest.p[0] == ':';
    for (size_t i = 1; i < rest.n && is_port; i++)
        is_port = rest.p[i] >= '0' && rest.p[i] <= '9';
    return is_port ? name : SLICE_LIT("");
}

static bool is_number(struct slice name, bool has_brackets)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];
    if (name.n >= sizeof text || memchr(name.p, '\0', name.n))
        return false;
    (void)snprintf(text, sizeof text, "%.*s", SLICE_ARG(name)); /* fits */
    return inet_pton(has_brackets ? AF_INET6 : AF_INET, text, address) == 1;
}

static bool is_listed(struct slice name, const char *list)
{
    struct slice rest = slice_str(list);
    while (rest.n) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice one = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        if (slice_eq_nocase(one, name))
            return true;
        rest = slice_from(rest, one.n + 1);
    }
    return false;
}

bool http_host_is_ours(struct slice host, const char *const *names, size_t n)
{
    bool has_brackets;
    struct slice name = name_of(host, &has_brackets);
    if (name.n == 0)
        return false;
    if (is_number(name, has_brackets))
        return true;
    if (has_brackets)
        return false;
    if (slice_eq_nocase(name, SLICE_LIT("localhost")))
        return true;
    for (size_t i = 0; i < n; i++)
        if (names[i] && is_listed(name, names[i]))
            return true;
    return false;
}

bool http_origin_is_ours(struct slice origin, struct slice host)
{
    const struct slice http = SLICE_LIT("http://"), https = SLICE_LIT("https://");
    if (origin.n == 0)
        return true;
    if (!slice_starts(origin, http) && !slice_starts(origin, https))
        return false;
    return slice_eq_nocase(slice_from(origin, slice_starts(origin, http) ? http.n : https.n), host);
}
