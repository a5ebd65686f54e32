/* SPDX-License-Identifier: Apache-2.0 */
/* Directly: for sandboxes that only track process groups, sessions or parents (BOINC's client, Slurm's
 * proctrack/linuxproc and pgid). In a pid namespace of the sandbox's own the agent would see that one and end with
 * it, in a user namespace it would keep the sandbox's mounts and network: this is not tried there. */
#include "base/machine.h"
#include "launch/image.h"
#include "launch/pinhole.h"
#include "launch/starter.h"
#include "net/agent_name.h"

#include <errno.h>
#include <unistd.h>

static bool spawn_is_here(const struct pinhole_terms *t, struct diag *why)
{
    if (!machine_is_the_host())
        (void)diag_set(why, -EPERM, 0, "this is a pid or user namespace of its own: no process can leave it");
    else if (!t->program)
        (void)diag_set(why, -ENOENT, 0, "there is no gridline-agent, here or beside this program: give --agent");
    else
        return true;
    return false;
}

static int spawn_start(const struct pinhole_terms *t, int64_t until_ns, struct diag *why)
{
    const char *argv[AGENT_ARGS_MAX];
    int image;
    int r = agent_name_ask(t->agent.gateways, pinhole_left_ms(until_ns));
    if (r == 0)
        return 0;
    if (r != -ECONNREFUSED) /* somebody is there, and does not answer */
        return pinhole_confirm(t, until_ns, why);
    r = t->is_carried ? image_carry(t->program, &image, why) : image_open(t->program, &image, why);
    if (r == 0 && pinhole_left_ms(until_ns) == 0) {
        (void)close(image);
        r = diag_set(why, -ETIMEDOUT, 0, "the agent's program could not be read in time");
    }
    if (r < 0)
        return r;
    agent_args(&t->agent, "gridline-agent", argv);
    const struct starter s = {.image = image, .argv = argv, .cgroup = t->cgroup};
    r = starter_run(&s, pinhole_left_ms(until_ns), why);
    (void)close(image);
    return r < 0 ? r : pinhole_confirm(t, until_ns, why);
}

const struct pinhole_ops pinhole_spawn = {
    .name = "spawn",
    .summary = "a process of our own that leaves the job's",
    .is_here = spawn_is_here,
    .start = spawn_start,
    .tell = pinhole_tell_agent,
};
