/* SPDX-License-Identifier: Apache-2.0 */
/* The host's certificate renews itself (docs/protocol.md, "Joining"): when a third of its life is left the
 * gateway is asked for the next one, by TLS and with the one that is good still; again every minute until
 * there is one. What is answered is used from the next connection on. */
#include "agent/upstream_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/join.h"

#include <errno.h>

#define AGAIN_NS (60 * NS_PER_S)

static void tell(struct upstream *u, int result, struct slice why)
{
    if (u->ops->on_certificate)
        u->ops->on_certificate(u->arg, result == 0, why);
}

void upstream_certificate_up(struct upstream *u)
{
    u->certify_ns = u->identity && u->has_tls ? u->secure->renew_at_ns(u->identity) : INT64_MAX;
}

void upstream_certificate_keep(struct upstream *u)
{
    struct slice request;
    struct diag why = {0};
    if (u->certify_ns == INT64_MAX || !u->lease.is_held)
        return;
    int64_t now = clock_utc_ns();
    if (now < u->certify_ns)
        return;
    u->certify_ns = now + AGAIN_NS;
    int r = u->secure->request(u->identity, &request, &why);
    if (r < 0) {
        tell(u, r, slice_str(why.message));
        return;
    }
    frame_put_certify(&u->frame, &(struct frame_certify){request});
    (void)upstream_send_frame(u); /* asked again in a minute */
}

int upstream_certified(struct upstream *u, struct slice payload)
{
    struct frame_certified c;
    struct diag why = {0};
    if (frame_get_certified(payload, &c) < 0 || u->certify_ns == INT64_MAX)
        return E_PROTO;
    if (c.status != 0) {
        tell(u, -EPERM, log_safe(c.text));
        return 0;
    }
    int r = u->secure->renewed(u->identity, c.chain, &why);
    if (r == 0)
        u->certify_ns = u->secure->renew_at_ns(u->identity);
    tell(u, r, slice_str(why.message));
    return 0;
}
