/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include "base/num.h"
#include "net/frame.h"

#include <errno.h>

int address_split(struct slice address, char host[ADDRESS_HOST_MAX], char port[ADDRESS_PORT_MAX])
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
    if (h.n == 0 || h.n >= ADDRESS_HOST_MAX || (colon && num_parse_uint(p, &number) < 0) || number == 0 ||
        number > UINT16_MAX)
        return -EINVAL;
    (void)snprintf(host, ADDRESS_HOST_MAX, "%.*s", SLICE_ARG(h)); /* fits, as checked */
    (void)snprintf(port, ADDRESS_PORT_MAX, "%u", (unsigned)number);
    return 0;
}

bool address_next(struct slice *list, struct slice *out)
{
    if (!list->p)
        return false;
    const char *comma = list->n == 0 ? NULL : memchr(list->p, ',', list->n);
    *out = comma ? slice_of(list->p, (size_t)(comma - list->p)) : *list;
    *list = comma ? slice_from(*list, out->n + 1) : (struct slice){0};
    while (out->n && out->p[0] == ' ')
        *out = slice_from(*out, 1);
    while (out->n && out->p[out->n - 1] == ' ')
        out->n--;
    return true;
}
