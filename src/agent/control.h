/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the receiving end of control (DG-10; docs/protocol.md, "Control"): verbs that a gateway asks of
 * this agent.
 *
 *     worker.suspend, worker.resume   no sensor runs; the lease goes on
 *     worker.kill                     answers, then the agent ends
 *     worker.set    set.KEY           settings, as those that a lease assigns; empty = no longer set
 *     sensor.start, sensor.stop, sensor.set    sensor, set.KEY, ceiling, dry_run
 *     sensor.list   sensor = a pattern
 *     activate      pattern, level, ceiling, dry_run
 *
 * sensor.start and sensor.set say first what the sensor will cost (CONTROL_MORE, cost_predicted), refuse what
 * is above the ceiling, and report what it did cost: the last answer comes after three runs, or five seconds.
 * If that is above the ceiling, what was set is taken back and the answer is CONTROL_FAILED. Costs are
 * microseconds of CPU a second, in this process. Of sensors whose cost is not known before (programs, hosts,
 * helpers) only the second half holds.
 *
 * activate: what instrumentation costs is spent in the programs that write, and depends on how often they do:
 * the agent knows neither. It says what an event costs (CONTROL_NS_AN_EVENT), and refuses if there is a
 * ceiling, since it could not keep it.
 *
 * Whether the gateway may give orders was looked at before (upstream.h). On the loop; at most CONTROL_WATCHED
 * costs are being observed at a time, further ones are answered without. */
#ifndef GRIDLINE_AGENT_CONTROL_H
#define GRIDLINE_AGENT_CONTROL_H

#include "agent/manager.h"
#include "agent/settings.h"
#include "net/control.h"

enum {
    CONTROL_WATCHED = 8,
    CONTROL_RUNS = 3,
    CONTROL_NS_AN_EVENT =
        86 /* `script/bench instrument`: writing an event and taking it out of the ring, one core each */
};
#define CONTROL_WATCH_NS (INT64_C(5) * 1000 * 1000 * 1000)

struct control_ops {
    /* The configuration with those settings as its last layer, checked. */
    int (*load)(void *arg, const struct settings *s, struct agent_config **out, struct diag *why);
    /* Takes both: they are in force from now on. */
    void (*apply)(void *arg, struct agent_config *config, struct settings *s);
    void (*suspend)(void *arg, bool is_suspended);
    void (*kill)(void *arg);
    /* The folder of the activation file is to be there. */
    int (*make_run_dir)(void *arg, struct diag *why);
    /* To the gateway that asked; -ENOTCONN: it is gone. */
    int (*answer)(void *arg, const struct frame_answer *a);
};

struct control;
/* Everything is borrowed, but run_dir, where the activation file goes: the configuration it is of will be
 * replaced. */
struct control *control_create(struct manager *manager, const struct settings *settings, const char *run_dir,
                               const struct control_ops *ops, void *arg);
void control_destroy(struct control *c); /* NULL is fine; takes activations back */

void control_ask(struct control *c, const struct frame_control *question);
/* The connection is another one, or none: nobody waits for answers any more. */
void control_forget(struct control *c);
/* After each round: answers whose time has come. */
void control_look(struct control *c, int64_t now_ns);
int64_t control_next_ns(const struct control *c); /* INT64_MAX: nothing is observed */

/* What a lease assigns, all of it, in place of what it assigned before. Each bad one is told by on_bad and
 * left out. */
void control_assign(struct control *c, struct args settings,
                    void (*on_bad)(void *arg, struct slice key, const char *why), void *arg);

#endif
