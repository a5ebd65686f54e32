/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include "base/num.h"
#include "net/frame.h"

#include <errno.h>
#include <stdio.h>

int address_split(struct slice address, char host[NI_MAXHOST], char port[NI_MAXSERV])
{
    struct slice h = address, p = {"", 0};
    const char *bracket = address.n && address.p[0] == '[' ? memchr(address.p, ']', address.n) : NULL;
    struct slice rest = bracket ? slice_from(address, (size_t)(bracket - address.p) + 1) : address;
    const char *colon = rest.n ? memchr(rest.p, ':', rest.n) : NULL;
    if (bracket && rest.n && colon != rest.p)
        return -EINVAL;
    if (bracket)
        h = slice_of(address.p + 1, (size_t)(bracket - address.p) - 1);
    else if (colon)
        h.n = (size_t)(colon - address.p);
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
