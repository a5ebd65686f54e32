/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/pinhole.h"

#include "base/clock.h"
#include "net/agent_name.h"

#include <errno.h>
#include <poll.h>

enum { LOOK_MS = 5 };

#define PINHOLE(name) extern const struct pinhole_ops pinhole_##name;
#include "launch/pinholes.def"
#undef PINHOLE

const struct pinhole_ops *const pinholes[] = {
#define PINHOLE(name) &pinhole_##name,
#include "launch/pinholes.def"
#undef PINHOLE
    NULL,
};

const struct pinhole_ops *pinhole_by_name(struct slice name)
{
    for (size_t i = 0; pinholes[i]; i++)
        if (slice_eq_str(name, pinholes[i]->name))
            return pinholes[i];
    return NULL;
}

static int try(const struct pinhole_ops *p, const struct pinhole_terms *t, int64_t until_ns, struct diag *why)
{
    struct diag said = {0};
    int r = p->is_here(t, &said) ? p->start(t, until_ns, &said) : -ENOENT;
    return r < 0 ? diag_set(why, r, 0, "%s: %s", p->name, said.message[0] ? said.message : err_text(r)) : 0;
}

int pinhole_open(const struct pinhole_ops *p, const struct pinhole_terms *t, int64_t until_ns,
                 const struct pinhole_ops **used, struct diag *why)
{
    int r = -ENOENT;
    for (size_t i = 0; r < 0 && pinholes[i]; i++) {
        const struct pinhole_ops *candidate = p ? p : pinholes[i];
        struct diag said = {0};
        if (!p && !candidate->is_here(t, &said)) /* what is not there is no reason, unless nothing is */
            continue;
        r = try(candidate, t, until_ns, why);
        if (r == 0)
            *used = candidate;
        if (p || pinhole_left_ms(until_ns) == 0) /* what is started now would come behind the job's back */
            return r;
    }
    if (r < 0 && !why->message[0])
        return diag_set(why, r, 0,
                        "no pinhole: no socket at %s, no service manager of this user, and processes can't leave this "
                        "sandbox by themselves",
                        t->socket);
    return r;
}

int pinhole_left_ms(int64_t until_ns)
{
    int64_t left = (until_ns - clock_mono_ns()) / 1000000;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

int pinhole_confirm(const struct pinhole_terms *t, int64_t until_ns, struct diag *why)
{
    int r = agent_name_ask(t->agent.gateways, pinhole_left_ms(until_ns));
    while (r == -ECONNREFUSED && pinhole_left_ms(until_ns) > 0) {
        (void)poll(NULL, 0, LOOK_MS);
        r = agent_name_ask(t->agent.gateways, pinhole_left_ms(until_ns));
    }
    if (r == -ECONNREFUSED || r == -ETIMEDOUT)
        return diag_set(why, -ETIMEDOUT, 0,
                        "the agent was started, but has not answered in time; `gridline agent --guest` says why");
    if (r == -EPERM)
        return diag_set(why, r, 0, "another user holds the agent's name on this host");
    return r < 0 ? diag_set(why, r, 0, "the agent can't be asked: %s", err_text(r)) : 0;
}

int pinhole_tell_agent(const struct pinhole_terms *t, const struct launch_request *r, int64_t until_ns)
{
    return agent_name_tell(t->agent.gateways, r, pinhole_left_ms(until_ns));
}
