/* SPDX-License-Identifier: Apache-2.0 */
/* properties.h - what a worker tells when it registers (DG-9): what this host is, and how its sensors would
 * run.
 *
 * Static properties are those of one sample of the sensor `host` (cpu_model, sockets, cores, memory, kernel,
 * architecture, os, vendor, product, virtual, container, machine, boot_id, boot_time), where its processors
 * are `cpus`; `swap` of one sample of `memory`; and `version`, gridline's.
 *
 * Proposed settings are `every`, `refresh` and `change` of the sensors that run by themselves. They are the
 * configured ones but for this: on a host of one processor or less than 1 GiB of memory, an `every` that
 * nobody configured is proposed twice as long, for the same reading is a larger part of what such a host has.
 * The gateway assigns what it likes; without that the configuration stays in force. */
#ifndef GRIDLINE_AGENT_PROPERTIES_H
#define GRIDLINE_AGENT_PROPERTIES_H

#include "agent/config.h"
#include "net/args.h"
#include "sensor/env.h"

enum { PROPERTIES_SETTINGS_MAX = 200 }; /* proposed, at most */

void properties_add(struct sensor_env *env, struct args_writer *out);
void properties_propose(const struct agent_config *c, struct args properties, struct args_writer *out);

#endif
