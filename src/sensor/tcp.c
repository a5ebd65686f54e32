/* SPDX-License-Identifier: Apache-2.0 */
/* TCP of this host, from /proc/net/snmp and /proc/net/netstat: one row of counters since boot (`tcp`). With the
 * option `ports`, also each connection that uses one of them (`tcp.connection`) and a summary a port (`tcp.ports`),
 * from sock_diag; on a captured tree there are none.
 *
 * Rows of connections are bounded by `max_connections`, the first ones in the kernel's order, which is that of a
 * hash: a connection stays among them as long as it lives. What is left out is counted in the summary, whose sums are
 * over all.
 *
 * When the kernel refuses sock_diag, the counters still come, and the summary says why there are no connections. */
#include "base/num.h"
#include "sensor/netstat.h"
#include "sensor/sensor.h"
#include "sensor/sockdiag.h"

#include <arpa/inet.h>
#include <errno.h>

enum { TCP_HOST, TCP_CONNECTION, TCP_PORTS };

/* Field, the kernel's name, kind, unit, help. The first list stands under Tcp: in snmp, the second under TcpExt: in
 * netstat. */
#define TCP_COUNTERS(X)                                                                                      \
    X("active_opens", "ActiveOpens", COUNTER, "", "connections begun here")                                  \
    X("passive_opens", "PassiveOpens", COUNTER, "", "connections begun by a peer")                           \
    X("attempt_fails", "AttemptFails", COUNTER, "", "connections that did not come about")                   \
    X("resets", "EstabResets", COUNTER, "", "connections that ended by a reset")                             \
    X("established", "CurrEstab", GAUGE, "", "connections there are now")                                    \
    X("in_segments", "InSegs", COUNTER, "", "segments received, bad ones included")                          \
    X("out_segments", "OutSegs", COUNTER, "", "segments sent, but for retransmits")                          \
    X("retransmits", "RetransSegs", COUNTER, "", "segments sent again")                                      \
    X("in_errors", "InErrs", COUNTER, "", "bad segments received")                                           \
    X("out_resets", "OutRsts", COUNTER, "", "resets sent")                                                   \
    X("in_checksum_errors", "InCsumErrors", COUNTER, "", "segments with a wrong checksum")

#define TCP_EXTENDED(X)                                                                                      \
    X("syncookies_sent", "SyncookiesSent", COUNTER, "", "SYN cookies sent: too many half-open ones")         \
    X("syncookies_received", "SyncookiesRecv", COUNTER, "", "SYN cookies that came back")                    \
    X("syncookies_failed", "SyncookiesFailed", COUNTER, "", "SYN cookies that came back wrong")              \
    X("embryonic_resets", "EmbryonicRsts", COUNTER, "", "half-open connections reset by the peer")           \
    X("listen_overflows", "ListenOverflows", COUNTER, "", "connections lost: not accepted in time")          \
    X("listen_drops", "ListenDrops", COUNTER, "", "connections lost at a listening socket for any reason")   \
    X("request_queue_cookies", "TCPReqQFullDoCookies", COUNTER, "", "too many half-open ones: cookie sent")  \
    X("request_queue_drops", "TCPReqQFullDrop", COUNTER, "", "too many half-open ones: SYN dropped")         \
    X("time_waits", "TW", COUNTER, "", "sockets that went through TIME_WAIT")                                \
    X("time_wait_overflows", "TCPTimeWaitOverflow", COUNTER, "", "sockets with no room in TIME_WAIT")        \
    X("paws_rejects", "PAWSEstab", COUNTER, "", "segments with an old timestamp")                            \
    X("prunes", "PruneCalled", COUNTER, "", "receive queues pruned for lack of memory")                      \
    X("receive_prunes", "RcvPruned", COUNTER, "", "segments dropped by that")                                \
    X("out_of_order_prunes", "OfoPruned", COUNTER, "", "out-of-order queues dropped by that")                \
    X("receive_collapses", "TCPRcvCollapsed", COUNTER, "", "segments merged for lack of memory")             \
    X("receive_merges", "TCPRcvCoalesce", COUNTER, "", "segments merged on arrival")                         \
    X("receive_queue_drops", "TCPRcvQDrop", COUNTER, "", "segments dropped: receive queue full")             \
    X("backlog_drops", "TCPBacklogDrop", COUNTER, "", "segments dropped: socket busy and backlog full")      \
    X("backlog_merges", "TCPBacklogCoalesce", COUNTER, "", "segments merged in the backlog")                 \
    X("memory_drops", "PFMemallocDrop", COUNTER, "", "segments dropped: memory reserved for swapping")       \
    X("memory_pressures", "TCPMemoryPressures", COUNTER, "", "times TCP came under memory pressure")         \
    X("memory_pressure_time", "TCPMemoryPressuresChrono", COUNTER, "ms", "time under memory pressure")       \
    X("out_of_order", "TCPOFOQueue", COUNTER, "", "segments that came out of order")                         \
    X("out_of_order_drops", "TCPOFODrop", COUNTER, "", "of those, dropped for lack of memory")               \
    X("out_of_order_merges", "TCPOFOMerge", COUNTER, "", "of those, already received")                       \
    X("delayed_acks", "DelayedACKs", COUNTER, "", "acknowledgements sent after a delay")                     \
    X("delayed_acks_locked", "DelayedACKLocked", COUNTER, "", "of those, later still: socket busy")          \
    X("delayed_acks_lost", "DelayedACKLost", COUNTER, "", "acknowledgements sent for a duplicate")           \
    X("compressed_acks", "TCPAckCompressed", COUNTER, "", "acknowledgements saved by compression")           \
    X("pure_acks", "TCPPureAcks", COUNTER, "", "acknowledgements received without data")                     \
    X("predicted_hits", "TCPHPHits", COUNTER, "", "segments on the fast path")                               \
    X("predicted_acks", "TCPHPAcks", COUNTER, "", "acknowledgements on the fast path")                       \
    X("timeouts", "TCPTimeouts", COUNTER, "", "retransmission timers that ran out")                          \
    X("spurious_timeouts", "TCPSpuriousRTOs", COUNTER, "", "of those, without need")                         \
    X("syn_retransmits", "TCPSynRetrans", COUNTER, "", "SYNs and SYN-ACKs sent again")                       \
    X("fast_retransmits", "TCPFastRetrans", COUNTER, "", "segments sent again by fast retransmit")           \
    X("slow_start_retransmits", "TCPSlowStartRetrans", COUNTER, "", "segments sent again in slow start")     \
    X("lost_retransmits", "TCPLostRetransmit", COUNTER, "", "segments sent again that were lost again")      \
    X("retransmit_failures", "TCPRetransFail", COUNTER, "", "segments that could not be sent again")         \
    X("loss_probes", "TCPLossProbes", COUNTER, "", "tail loss probes sent")                                  \
    X("loss_probe_recoveries", "TCPLossProbeRecovery", COUNTER, "", "losses that a probe repaired")          \
    X("loss_failures", "TCPLossFailures", COUNTER, "", "timers that ran out while in loss")                  \
    X("reno_recoveries", "TCPRenoRecovery", COUNTER, "", "fast recoveries without SACK")                     \
    X("reno_recovery_failures", "TCPRenoRecoveryFail", COUNTER, "", "timers that ran out in those")          \
    X("sack_recoveries", "TCPSackRecovery", COUNTER, "", "fast recoveries with SACK")                        \
    X("sack_recovery_failures", "TCPSackRecoveryFail", COUNTER, "", "timers that ran out in those")          \
    X("sack_reneges", "TCPSACKReneging", COUNTER, "", "peers that took back a SACK")                         \
    X("sack_reorders", "TCPSACKReorder", COUNTER, "", "reorderings seen by SACK")                            \
    X("reno_reorders", "TCPRenoReorder", COUNTER, "", "reorderings seen without SACK")                       \
    X("timestamp_reorders", "TCPTSReorder", COUNTER, "", "reorderings seen by timestamps")                   \
    X("full_undos", "TCPFullUndo", COUNTER, "", "window reductions undone: nothing was lost")                \
    X("partial_undos", "TCPPartialUndo", COUNTER, "", "window reductions undone in part")                    \
    X("dsack_undos", "TCPDSACKUndo", COUNTER, "", "window reductions undone by DSACK")                       \
    X("loss_undos", "TCPLossUndo", COUNTER, "", "window reductions undone after a loss")                     \
    X("dsack_old_sent", "TCPDSACKOldSent", COUNTER, "", "DSACKs sent for old data")                          \
    X("dsack_out_of_order_sent", "TCPDSACKOfoSent", COUNTER, "", "DSACKs sent for data out of order")        \
    X("dsack_received", "TCPDSACKRecv", COUNTER, "", "DSACKs received: what was sent again had arrived")     \
    X("dsack_out_of_order_received", "TCPDSACKOfoRecv", COUNTER, "", "DSACKs received for data out of order")\
    X("aborts_on_data", "TCPAbortOnData", COUNTER, "", "connections reset: data after the program closed")   \
    X("aborts_on_close", "TCPAbortOnClose", COUNTER, "", "connections reset: closed with unread data")       \
    X("aborts_on_memory", "TCPAbortOnMemory", COUNTER, "", "connections reset for lack of memory")           \
    X("aborts_on_timeout", "TCPAbortOnTimeout", COUNTER, "", "connections given up after timers ran out")    \
    X("aborts_on_linger", "TCPAbortOnLinger", COUNTER, "", "connections given up while lingering")           \
    X("abort_failures", "TCPAbortFailed", COUNTER, "", "resets that could not be sent for lack of memory")   \
    X("challenge_acks", "TCPChallengeACK", COUNTER, "", "challenges sent: a segment looked forged")          \
    X("syn_challenges", "TCPSYNChallenge", COUNTER, "", "of those, for a SYN")                               \
    X("fastopen_active", "TCPFastOpenActive", COUNTER, "", "fast opens by this host")                        \
    X("fastopen_active_failures", "TCPFastOpenActiveFail", COUNTER, "", "of those, refused or lost")         \
    X("fastopen_passive", "TCPFastOpenPassive", COUNTER, "", "fast opens by peers")                          \
    X("fastopen_passive_failures", "TCPFastOpenPassiveFail", COUNTER, "", "of those, refused")               \
    X("auto_corks", "TCPAutoCorking", COUNTER, "", "small writes held back to be merged")                    \
    X("zero_window_left", "TCPFromZeroWindowAdv", COUNTER, "", "times the offered window opened again")      \
    X("zero_window_entered", "TCPToZeroWindowAdv", COUNTER, "", "times the offered window closed")           \
    X("zero_window_wanted", "TCPWantZeroWindowAdv", COUNTER, "", "times it should have closed and could not")\
    X("zero_window_drops", "TCPZeroWindowDrop", COUNTER, "", "segments dropped: beyond a closed window")     \
    X("window_probes", "TCPWinProbe", COUNTER, "", "probes sent to a closed window")                         \
    X("keepalives", "TCPKeepAlive", COUNTER, "", "keep-alive probes sent")                                   \
    X("mtu_probe_failures", "TCPMTUPFail", COUNTER, "", "MTU probes lost")                                   \
    X("mtu_probe_successes", "TCPMTUPSuccess", COUNTER, "", "MTU probes that arrived")                       \
    X("data_segments_sent", "TCPOrigDataSent", COUNTER, "", "segments with data sent, but for retransmits")  \
    X("delivered", "TCPDelivered", COUNTER, "", "segments acknowledged")                                     \
    X("delivered_marked", "TCPDeliveredCE", COUNTER, "", "of those, marked as congested on the way (ECN)")

#define TCP_FIELD(field, kernel, kind, unit, help) FIELD(field, UINT, kind, unit, help),
#define TCP_NAME(field, kernel, kind, unit, help)  kernel,
static const struct field tcp_fields[] = {TCP_COUNTERS(TCP_FIELD) TCP_EXTENDED(TCP_FIELD)};
static const char *const counter_names[] = {TCP_COUNTERS(TCP_NAME)};
static const char *const extended_names[] = {TCP_EXTENDED(TCP_NAME)};

enum {
    N_COUNTERS = sizeof counter_names / sizeof *counter_names,
    N_EXTENDED = sizeof extended_names / sizeof *extended_names
};

static const struct field connection_fields[] = {
    KEY("local", "address and port here"),
    KEY("remote", "address and port of the peer"),
    FIELD("state", TEXT, STATE, "", "`established`, `close-wait`, ..."),
    FIELD("receive_queue", UINT, GAUGE, "bytes", "received, not read by the program"),
    FIELD("send_queue", UINT, GAUGE, "bytes", "written by the program, not acknowledged"),
    FIELD("rtt", UINT, GAUGE, "us", "round trip time, smoothed"),
    FIELD("rttvar", UINT, GAUGE, "us", "its mean deviation"),
    FIELD("min_rtt", UINT, GAUGE, "us", "the smallest round trip time of the last minutes"),
    FIELD("rto", UINT, GAUGE, "us", "retransmission timer"),
    FIELD("mss", UINT, GAUGE, "bytes", "largest segment that is sent"),
    FIELD("pmtu", UINT, GAUGE, "bytes", "largest packet of the path"),
    FIELD("cwnd", UINT, GAUGE, "", "congestion window in segments"),
    FIELD("ssthresh", UINT, GAUGE, "", "slow start threshold in segments; none before the first loss"),
    FIELD("send_window", UINT, GAUGE, "bytes", "what the peer offers to receive"),
    FIELD("unacked", UINT, GAUGE, "", "segments sent, not acknowledged"),
    FIELD("lost", UINT, GAUGE, "", "of those, thought to be lost"),
    FIELD("reordering", UINT, GAUGE, "", "segments by which the path reorders"),
    FIELD("retransmits", UINT, COUNTER, "", "segments sent again"),
    FIELD("bytes_sent", UINT, COUNTER, "bytes", "data sent, retransmits included"),
    FIELD("bytes_retransmitted", UINT, COUNTER, "bytes", "data sent again"),
    FIELD("bytes_acked", UINT, COUNTER, "bytes", "data that the peer acknowledged"),
    FIELD("bytes_received", UINT, COUNTER, "bytes", "data received in order"),
    FIELD("pacing_rate", UINT, GAUGE, "bytes/s", "at most this is sent now; none if not paced"),
    FIELD("delivery_rate", UINT, GAUGE, "bytes/s", "what the peer acknowledged lately"),
    FIELD("busy_time", UINT, COUNTER, "us", "time with data to send"),
    FIELD("window_limited", UINT, COUNTER, "us", "of that, held up by the peer's window"),
    FIELD("buffer_limited", UINT, COUNTER, "us", "of that, held up by the send buffer"),
};
enum { N_CONNECTION = sizeof connection_fields / sizeof *connection_fields };

static const struct field ports_fields[] = {
    KEY("port", "one of the listed ports"),
    FIELD("connections", UINT, GAUGE, "", "sockets whose local or remote port it is"),
    FIELD("left_out", UINT, GAUGE, "", "of those, without a row in tcp.connection: over `max_connections`"),
    FIELD("bytes_acked", UINT, GAUGE, "bytes", "sent and acknowledged by those that are open now"),
    FIELD("bytes_received", UINT, GAUGE, "bytes", "received by those that are open now"),
    FIELD("retransmits", UINT, GAUGE, "", "segments sent again by those that are open now"),
    FIELD("error", TEXT, STATE, "", "why connections can't be seen"),
};

static const struct sensor_schema tcp_schemas[] = {
    [TCP_HOST] = SCHEMA("tcp", tcp_fields),
    [TCP_CONNECTION] = SCHEMA("tcp.connection", connection_fields),
    [TCP_PORTS] = SCHEMA("tcp.ports", ports_fields),
    {0},
};

/* Sums of one listed port. */
struct port {
    uint64_t connections, left_out, acked, received, retransmits;
    bool has_bytes; /* the kernel told them of every connection */
};

struct tcp {
    struct parameter_list port_list;
    int64_t max_connections;
    struct sensor_env *env;
    struct source *snmp, *netstat;
    struct netstat_group counters, extended;
    struct sockdiag *diag; /* NULL = not open */
    uint16_t ports[SOCKDIAG_PORTS_MAX];
    struct port sums[SOCKDIAG_PORTS_MAX];
    size_t n_ports;
    /* Of the sample that runs. */
    struct sensor_out *out;
    int64_t rows;
    struct strbuf local, remote;
};

static const struct parameter tcp_options[] = {
    {SETTING_LIST, "ports", NULL, offsetof(struct tcp, port_list),
     "ports whose connections are listed, as `5001` or `5000-5010`; at most 256", false, false},
    {SETTING_INT, "max_connections", "256", offsetof(struct tcp, max_connections),
     "most rows of connections in one sample, 0 to 65536", false, false},
    {0},
};

static bool has_port(const struct tcp *t, uint64_t port)
{
    for (size_t i = 0; i < t->n_ports; i++)
        if (t->ports[i] == port)
            return true;
    return false;
}

/* `5001` or `5000-5010`. */
static int add_ports(struct tcp *t, struct slice text, struct diag *why)
{
    uint64_t first, last;
    const char *dash = memchr(text.p, '-', text.n);
    struct slice low = dash ? slice_of(text.p, (size_t)(dash - text.p)) : text;
    struct slice high = dash ? slice_from(text, low.n + 1) : text;
    if (num_parse_uint(low, &first) < 0 || num_parse_uint(high, &last) < 0 || first == 0 || first > last ||
        last > UINT16_MAX)
        return diag_set(why, -EINVAL, 0, "tcp.ports: \"%.*s\" is not a port; write 5001 or 5000-5010", SLICE_ARG(text));
    for (uint64_t p = first; p <= last; p++) {
        if (has_port(t, p))
            continue;
        if (t->n_ports == SOCKDIAG_PORTS_MAX)
            return diag_set(why, -EINVAL, 0, "tcp.ports: more than %d ports", SOCKDIAG_PORTS_MAX);
        t->ports[t->n_ports++] = (uint16_t)p;
    }
    return 0;
}

static int tcp_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct tcp *t = state;
    t->env = env;
    t->counters = (struct netstat_group){.prefix = "Tcp:", .names = counter_names, .n = N_COUNTERS};
    t->extended = (struct netstat_group){.prefix = "TcpExt:", .names = extended_names, .n = N_EXTENDED};
    t->snmp = env_source(env, "/proc/net/snmp");
    t->netstat = env_source(env, "/proc/net/netstat");
    if (t->max_connections < 0 || t->max_connections > SOCKDIAG_SOCKETS_MAX)
        return diag_set(why, -EINVAL, 0, "tcp.max_connections: 0 to %d", SOCKDIAG_SOCKETS_MAX);
    for (size_t i = 0; i < t->port_list.n; i++) {
        int r = add_ports(t, slice_str(t->port_list.v[i]), why);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct value uint_if(bool is_known, uint64_t v)
{
    return is_known ? value_uint(v) : value_none();
}

/* VALUE_NONE where the kernel is too old to know. */
#define INFO(field) uint_if(SOCKDIAG_HAS(info_len, field), info->field)

static void emit_connection(struct tcp *t, const struct inet_diag_msg *msg, const struct tcp_info *info,
                            size_t info_len)
{
    enum { SSTHRESH_NONE = 0x7fffffff }; /* the kernel's TCP_INFINITE_SSTHRESH */
    strbuf_reset(&t->local);
    strbuf_reset(&t->remote);
    sockdiag_add_address(&t->local, msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport);
    sockdiag_add_address(&t->remote, msg->idiag_family, msg->id.idiag_dst, msg->id.idiag_dport);
    const struct value row[N_CONNECTION] = {
        value_text(strbuf_slice(&t->local)),
        value_text(strbuf_slice(&t->remote)),
        value_text(slice_str(sockdiag_state_name(msg->idiag_state))),
        value_uint(msg->idiag_rqueue),
        value_uint(msg->idiag_wqueue),
        INFO(tcpi_rtt),
        INFO(tcpi_rttvar),
        uint_if(SOCKDIAG_HAS(info_len, tcpi_min_rtt) && info->tcpi_min_rtt != UINT32_MAX, info->tcpi_min_rtt),
        INFO(tcpi_rto),
        INFO(tcpi_snd_mss),
        INFO(tcpi_pmtu),
        INFO(tcpi_snd_cwnd),
        uint_if(SOCKDIAG_HAS(info_len, tcpi_snd_ssthresh) && info->tcpi_snd_ssthresh < SSTHRESH_NONE,
                info->tcpi_snd_ssthresh),
        INFO(tcpi_snd_wnd),
        INFO(tcpi_unacked),
        INFO(tcpi_lost),
        INFO(tcpi_reordering),
        INFO(tcpi_total_retrans),
        INFO(tcpi_bytes_sent),
        INFO(tcpi_bytes_retrans),
        INFO(tcpi_bytes_acked),
        INFO(tcpi_bytes_received),
        uint_if(SOCKDIAG_HAS(info_len, tcpi_pacing_rate) && info->tcpi_pacing_rate != UINT64_MAX,
                info->tcpi_pacing_rate),
        INFO(tcpi_delivery_rate),
        INFO(tcpi_busy_time),
        INFO(tcpi_rwnd_limited),
        INFO(tcpi_sndbuf_limited),
    };
    sensor_row(t->out, TCP_CONNECTION, row);
}

static void add_to_port(struct port *p, bool has_row, const struct tcp_info *info, size_t info_len)
{
    p->connections++;
    p->left_out += !has_row;
    p->acked += info->tcpi_bytes_acked;
    p->received += info->tcpi_bytes_received;
    p->retransmits += info->tcpi_total_retrans;
    if (!SOCKDIAG_HAS(info_len, tcpi_bytes_received))
        p->has_bytes = false;
}

static int on_socket(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info, size_t info_len)
{
    struct tcp *t = arg;
    uint16_t local = ntohs(msg->id.idiag_sport), remote = ntohs(msg->id.idiag_dport);
    bool has_row = t->rows < t->max_connections;
    for (size_t i = 0; i < t->n_ports; i++)
        if (t->ports[i] == local || t->ports[i] == remote)
            add_to_port(&t->sums[i], has_row, info, info_len);
    if (has_row)
        emit_connection(t, msg, info, info_len);
    t->rows += has_row;
    return 0;
}

/* On failure only the reason. */
static void emit_ports(struct tcp *t, int r)
{
    char number[NUM_TEXT_MAX];
    for (size_t i = 0; i < t->n_ports; i++) {
        const struct port *p = &t->sums[i];
        struct value row[sizeof ports_fields / sizeof *ports_fields] = {
            value_text(slice_of(number, num_print_uint(number, t->ports[i]))),
            uint_if(r == 0, p->connections),
            uint_if(r == 0, p->left_out),
            uint_if(r == 0 && p->has_bytes, p->acked),
            uint_if(r == 0 && p->has_bytes, p->received),
            uint_if(r == 0, p->retransmits),
            r < 0 ? value_text(slice_str(err_text(r))) : value_none(),
        };
        sensor_row(t->out, TCP_PORTS, row);
    }
}

static void sample_ports(struct tcp *t)
{
    struct sockdiag_query q = {.ports = t->ports, .n_ports = t->n_ports, .states = SOCKDIAG_CONNECTED};
    t->rows = 0;
    for (size_t i = 0; i < t->n_ports; i++)
        t->sums[i] = (struct port){.has_bytes = true};
    int r = t->diag ? 0 : sockdiag_open(&t->diag);
    if (r == 0) {
        r = sockdiag_dump(t->diag, &q, on_socket, t);
        env_note(t->env, "netlink", "sock_diag", sockdiag_last_bytes(t->diag));
    }
    emit_ports(t, r);
}

static int tcp_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct tcp *t = state;
    struct slice text;
    struct value row[N_COUNTERS + N_EXTENDED] = {0};
    bool is_live = env_is_live(env) && t->n_ports > 0;
    int r = source_read(env, t->snmp, &text);
    if (r == 0)
        (void)netstat_take(&t->counters, text, row); /* what is not there stays without value */
    int r2 = source_read(env, t->netstat, &text);
    if (r2 == 0)
        (void)netstat_take(&t->extended, text, row + N_COUNTERS);
    sensor_row(out, TCP_HOST, row);
    t->out = out;
    if (is_live)
        sample_ports(t);
    if (r < 0 && r2 < 0 && !is_live)
        return diag_set(out->why, r, 0, "/proc/net/snmp: %s", err_text(r));
    return 0;
}

static void tcp_close(void *state)
{
    struct tcp *t = state;
    sockdiag_close(t->diag);
    netstat_fini(&t->counters);
    netstat_fini(&t->extended);
    strbuf_fini(&t->local);
    strbuf_fini(&t->remote);
    if (!t->env)
        return;
    source_close(t->env, t->snmp);
    source_close(t->env, t->netstat);
}

const struct sensor_ops sensor_tcp = {
    .name = "tcp",
    .summary = "TCP counters; with `ports`, their connections",
    .schemas = tcp_schemas,
    .options = tcp_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 4,
    .is_default = true,
    .state_size = sizeof(struct tcp),
    .open = tcp_open,
    .sample = tcp_sample,
    .close = tcp_close,
};
