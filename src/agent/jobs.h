/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the jobs of this host, as launchers tell of them (net/launch.h): events `job.state`, so that what sensors
 * measured can be joined with jobs, and `sandbox.view`, how the machine looks from inside a job's sandbox beside how
 * it is. What is told is believed as far as its sender's uid, which is in the event; how often is limited. */
#ifndef GRIDLINE_AGENT_JOBS_H
#define GRIDLINE_AGENT_JOBS_H

#include "agent/flow.h"
#include "net/launch.h"

enum { JOBS_BURST = 60, JOBS_PER_S = 20 };

struct jobs;
struct jobs *jobs_create(struct flow *flow); /* NULL: no memory */
void jobs_destroy(struct jobs *j);           /* NULL is fine */
/* false: too many in this time. The caller ends the round. */
bool jobs_take(struct jobs *j, const struct launch_request *r, int64_t now_ns);

#endif
