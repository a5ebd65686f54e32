/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of IPv4 and UDP since boot, from /proc/net/snmp and /proc/net/netstat. */
#include "sensor/netstat.h"
#include "sensor/sensor.h"

enum { IP_HOST, IP_UDP };

/* Field, the kernel's name, unit, help; under Ip: and Udp: in snmp, and under IpExt: in netstat. */
#define IP_COUNTERS(X)                                                                                       \
    X("in_packets", "InReceives", "", "packets received, bad ones included")                                 \
    X("in_header_errors", "InHdrErrors", "", "dropped: bad header, time to live at its end")                 \
    X("in_address_errors", "InAddrErrors", "", "dropped: not for this host")                                 \
    X("forwarded", "ForwDatagrams", "", "passed on to another host")                                         \
    X("in_unknown", "InUnknownProtos", "", "dropped: no such protocol here")                                 \
    X("in_discards", "InDiscards", "", "dropped on the way in for lack of memory and the like")              \
    X("in_delivers", "InDelivers", "", "given to TCP, UDP, ...")                                             \
    X("out_packets", "OutRequests", "", "packets that TCP, UDP, ... asked to send")                          \
    X("out_discards", "OutDiscards", "", "dropped on the way out for lack of memory and the like")           \
    X("out_no_routes", "OutNoRoutes", "", "dropped: no route")                                               \
    X("reassembly_timeouts", "ReasmTimeout", "", "reassemblies given up: a fragment did not come in time")   \
    X("reassembly_fragments", "ReasmReqds", "", "fragments received")                                        \
    X("reassembled", "ReasmOKs", "", "packets made from them")                                               \
    X("reassembly_failures", "ReasmFails", "", "reassemblies that failed for any reason")                    \
    X("fragmented", "FragOKs", "", "packets sent in fragments")                                              \
    X("fragment_failures", "FragFails", "", "packets that must not be fragmented and were too large")        \
    X("fragments", "FragCreates", "", "fragments sent")

#define IP_EXTENDED(X)                                                                                       \
    X("in_no_routes", "InNoRoutes", "", "dropped on the way in: no route")                                   \
    X("in_truncated", "InTruncatedPkts", "", "dropped: shorter than the header says")                        \
    X("in_multicast", "InMcastPkts", "", "multicast packets received")                                       \
    X("out_multicast", "OutMcastPkts", "", "multicast packets sent")                                         \
    X("in_broadcast", "InBcastPkts", "", "broadcast packets received")                                       \
    X("out_broadcast", "OutBcastPkts", "", "broadcast packets sent")                                         \
    X("in_bytes", "InOctets", "bytes", "bytes received")                                                     \
    X("out_bytes", "OutOctets", "bytes", "bytes sent")                                                       \
    X("in_multicast_bytes", "InMcastOctets", "bytes", "multicast bytes received")                            \
    X("out_multicast_bytes", "OutMcastOctets", "bytes", "multicast bytes sent")                              \
    X("in_checksum_errors", "InCsumErrors", "", "packets with a wrong checksum")                             \
    X("in_marked", "InCEPkts", "", "packets marked as congested on the way (ECN)")

#define UDP_COUNTERS(X)                                                                                      \
    X("in_datagrams", "InDatagrams", "", "datagrams given to programs")                                      \
    X("no_ports", "NoPorts", "", "datagrams for a port that nobody uses")                                    \
    X("in_errors", "InErrors", "", "datagrams dropped for any other reason")                                 \
    X("out_datagrams", "OutDatagrams", "", "datagrams sent")                                                 \
    X("receive_buffer_errors", "RcvbufErrors", "", "dropped: the program did not read fast enough")          \
    X("send_buffer_errors", "SndbufErrors", "", "not sent: send buffer full")                                \
    X("in_checksum_errors", "InCsumErrors", "", "dropped: wrong checksum")                                   \
    X("ignored_multicast", "IgnoredMulti", "", "multicast datagrams that nobody wanted")                     \
    X("memory_errors", "MemErrors", "", "dropped: UDP's memory is used up")

#define IP_FIELD(field, kernel, unit, help) FIELD(field, UINT, COUNTER, unit, help),
#define IP_NAME(field, kernel, unit, help)  kernel,
static const struct field ip_fields[] = {IP_COUNTERS(IP_FIELD) IP_EXTENDED(IP_FIELD)};
static const struct field udp_fields[] = {UDP_COUNTERS(IP_FIELD)};
static const char *const ip_names[] = {IP_COUNTERS(IP_NAME)};
static const char *const extended_names[] = {IP_EXTENDED(IP_NAME)};
static const char *const udp_names[] = {UDP_COUNTERS(IP_NAME)};

enum {
    N_IP = sizeof ip_names / sizeof *ip_names,
    N_EXTENDED = sizeof extended_names / sizeof *extended_names,
    N_UDP = sizeof udp_names / sizeof *udp_names
};

static const struct sensor_schema ip_schemas[] = {
    [IP_HOST] = SCHEMA("ip", ip_fields),
    [IP_UDP] = SCHEMA("udp", udp_fields),
    {0},
};

struct ip {
    struct sensor_env *env;
    struct source *snmp, *netstat;
    struct netstat_group counters, extended, udp;
};

static int ip_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct ip *s = state;
    (void)why; /* can't fail */
    s->env = env;
    s->counters = (struct netstat_group){.prefix = "Ip:", .names = ip_names, .n = N_IP};
    s->extended = (struct netstat_group){.prefix = "IpExt:", .names = extended_names, .n = N_EXTENDED};
    s->udp = (struct netstat_group){.prefix = "Udp:", .names = udp_names, .n = N_UDP};
    s->snmp = env_source(env, "/proc/net/snmp");
    s->netstat = env_source(env, "/proc/net/netstat");
    return 0;
}

static int ip_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct ip *s = state;
    struct slice text;
    struct value ip[N_IP + N_EXTENDED] = {0}, udp[N_UDP] = {0};
    int r = source_read(env, s->snmp, &text);
    if (r == 0) { /* what is not there stays without value */
        (void)netstat_take(&s->counters, text, ip);
        (void)netstat_take(&s->udp, text, udp);
    }
    int r2 = source_read(env, s->netstat, &text);
    if (r2 == 0)
        (void)netstat_take(&s->extended, text, ip + N_IP);
    if (r < 0 && r2 < 0)
        return diag_set(out->why, r, 0, "/proc/net/snmp: %s", err_text(r));
    sensor_row(out, IP_HOST, ip);
    sensor_row(out, IP_UDP, udp);
    return 0;
}

static void ip_close(void *state)
{
    struct ip *s = state;
    netstat_fini(&s->counters);
    netstat_fini(&s->extended);
    netstat_fini(&s->udp);
    if (!s->env)
        return;
    source_close(s->env, s->snmp);
    source_close(s->env, s->netstat);
}

const struct sensor_ops sensor_ip = {
    .name = "ip",
    .summary = "counters of IPv4 and UDP",
    .schemas = ip_schemas,
    .every = "1s",
    .refresh = "60s",
    .priority = 5,
    .is_default = true,
    .state_size = sizeof(struct ip),
    .open = ip_open,
    .sample = ip_sample,
    .close = ip_close,
};
