/* SPDX-License-Identifier: Apache-2.0 */
/* only.h - one agent a host and gateway (DG-3). The name is an abstract Unix socket made of the gateways'
 * addresses: it belongs to the process, is seen by all users of the host (of its network namespace), and
 * leaves no file behind.
 *
 * A second agent finds the first, learns who it is, and leaves. A guest that finds a resident leaves to it; a
 * resident that finds a guest asks it to go and takes its place. A stranger who takes the name first can keep
 * an agent away, not do more: what it says is not believed beyond the message. (net/agent_name.h has the name and
 * what is said.) */
#ifndef GRIDLINE_AGENT_ONLY_H
#define GRIDLINE_AGENT_ONLY_H

#include "base/err.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct only;
struct launch_request;

struct only_other {
    pid_t pid;
    uid_t uid;
    bool is_guest;
};

struct only_ops {
    void (*on_replaced)(void *arg); /* a resident asks this guest to go */
    /* A launcher of this user's or root's, or a broker, tells of a job; its uid is filled in. false: it is not
     * taken. NULL: none are. */
    bool (*on_job)(void *arg, const struct launch_request *r);
};

/* Results: 0; -EEXIST: there is another, *other says who; other negative codes with *why. base may be NULL: only
 * looks and holds the name, nobody is answered. */
int only_take(struct event_base *base, const char *gateways, bool is_guest, const struct only_ops *ops, void *arg,
              struct only **out, struct only_other *other, struct diag *why);
void only_release(struct only *o); /* NULL is fine */

#endif
