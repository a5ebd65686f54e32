/* SPDX-License-Identifier: Apache-2.0 */
/* reserved.h - names of events that not everybody may publish (docs/access.md, "Reserved names"): those that
 * sensors and guards say, because others rely on them. A unit test holds the list against the sensors' schemas. */
#ifndef GRIDLINE_EVENT_RESERVED_H
#define GRIDLINE_EVENT_RESERVED_H

/* X(pattern) for each: first what sensors say, by name, then what guards say. */
/* clang-format off */
#define RESERVED_EVENTS(X) \
    X("cgroup") X("cgroup.total") X("check") X("check.perf") X("clocksync") X("clocksync.chrony") X("cpu") \
    X("cpu.system") X("disk") X("exec.skipped") X("filesystem") X("filesystem.remote") X("heartbeat") X("host") \
    X("host.interface") X("ip") X("job.state") X("load") X("logfile") X("logfile.gap") X("memory") X("network") \
    X("paging") X("ping") X("pressure") X("process") X("process.end") X("process.group") X("process.limit") \
    X("process.start") X("queue") X("self") X("self.sensor") X("snmp.host") X("snmp.interface") X("snmp.storage") \
    X("snmp.system") X("snmp.value") X("tcp") X("tcp.connection") X("tcp.ports") X("udp") X("users") X("vector") \
    X("fault.*") X("guard.*") X("rule.*")
/* clang-format on */

/* What a gateway orders guards to do: its own word, nobody's else. */
#define RESERVED_ORDER "fault.order"

#endif
