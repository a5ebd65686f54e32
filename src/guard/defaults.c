/* SPDX-License-Identifier: Apache-2.0 */
/* Chosen so that they hold for any host and say little: whoever knows better writes a rule of the same name,
 * or gives only what is to be otherwise (rule disk-full { for = "10m" }).
 *
 * Freshness: agents send what has changed, and what has not once in a `refresh` (10 min for file systems, 1
 * min for most). A rule has to take rows for fresh for longer than that, or it would go without data on a
 * quiet host.
 *
 * Rules with a clear query have two limits, so that a value that swings around one is one fault.
 *
 * What is about a host is hidden while the host itself is found to be in trouble: DOWN are the parents. */
#include "guard/defaults.h"

#define DOWN "host-late agent-dead host-unreachable"

/* Not what can't be written to, and not what is so small that somebody made it full on purpose. Percent are
 * of what users can have, as df prints them: a file system keeps some for root. On a very large one 5% is
 * much room. */
#define DISK                                                                              \
    "SELECT host, mount, device, available, size, "                                       \
    "round(100.0 * available / (used + available), 1) AS percent FROM filesystem_latest " \
    "WHERE read_only = 0 AND size >= 67108864 AND "
#define INODES                                                                                            \
    "SELECT host, mount, device, inodes_free, inodes, round(100.0 * inodes_free / inodes, 1) AS percent " \
    "FROM filesystem_latest WHERE read_only = 0 AND inodes >= 1000 AND "
#define MEMORY                                                                                          \
    "SELECT host, available, total, round(100.0 * available / total, 1) AS percent FROM memory_latest " \
    "WHERE "
#define PRESSURE "SELECT host, full_avg60, some_avg60 FROM pressure_latest WHERE resource = 'memory' AND "
#define HEALTH   "SELECT host, lease, round(age_s) AS age_s, address FROM host_health WHERE state = "
#define CLOCK                                                                                    \
    "SELECT host, round(offset_ns / 1e6, 1) AS offset_ms, round(bound_ns / 1e6, 1) AS bound_ms " \
    "FROM clock_latest WHERE "

const struct default_rule default_rules[] = {
    {
        .name = "disk-full",
        .help = "A file system has less than 5% and less than 50 GB left. Find what grew (du -x), remove or "
                "move it, or "
                "make it larger. Clears at 8% or 60 GB.",
        .query = DISK "available < 0.05 * (used + available) AND available < 50000000000",
        .clear_query = DISK "(available >= 0.08 * (used + available) OR available >= 60000000000)",
        .key = "host mount",
        .summary = "{host}: {mount} has {percent}% left",
        .every = "10s",
        .for_ = "1m",
        .clear_for = "1m",
        .fresh = "25m",
        .severity = "error",
        .parents = DOWN,
    },
    {
        .name = "inodes-full",
        .help = "A file system has less than 5% of its inodes left: there are too many small files. Clears "
                "at 8%.",
        .query = INODES "inodes_free < 0.05 * inodes",
        .clear_query = INODES "inodes_free >= 0.08 * inodes",
        .key = "host mount",
        .summary = "{host}: {mount} has {percent}% of its inodes left",
        .every = "10s",
        .for_ = "1m",
        .clear_for = "1m",
        .fresh = "25m",
        .severity = "error",
        .parents = DOWN,
    },
    {
        .name = "disk-full-soon",
        .help = "A file system will be full within 2 hours if it goes on like this, even if the forecast is "
                "off by as "
                "much as it usually is. Asked at the gateway, which needs an archive.",
        .query = "SELECT host, mount, round(last / 1e9, 1) AS available_gb, predictor FROM "
                 "filesystem_forecast('available', '2h') WHERE last > 0 AND value + error < 0",
        .key = "host mount",
        .summary = "{host}: {mount} has {available_gb} GB left and will be full within 2 hours",
        .every = "10m",
        .for_ = "10m",
        .clear_for = "10m",
        .severity = "warning",
        .parents = DOWN " disk-full",
        .place = "gateway",
    },
    {
        .name = "memory-low",
        .help = "Less than 5% of the memory is available; soon the kernel kills processes. Clears at 10%.",
        .query = MEMORY "available < 0.05 * total",
        .clear_query = MEMORY "available >= 0.1 * total",
        .key = "host",
        .summary = "{host}: {percent}% of the memory is available",
        .every = "5s",
        .for_ = "30s",
        .clear_for = "30s",
        .fresh = "3m",
        .severity = "warning",
        .parents = DOWN,
    },
    {
        .name = "memory-pressure",
        .help = "In a tenth of the last minute nothing ran because all processes waited for memory (PSI): "
                "the host is "
                "thrashing. Clears at a twentieth.",
        .query = PRESSURE "full_avg60 >= 10",
        .clear_query = PRESSURE "full_avg60 < 5",
        .key = "host",
        .summary = "{host}: all processes wait for memory {full_avg60}% of the time",
        .every = "5s",
        .for_ = "30s",
        .clear_for = "30s",
        .fresh = "3m",
        .severity = "error",
        .parents = DOWN,
    },
    {
        .name = "host-late",
        .help = "Its heartbeats are missing, but the gateway has its lease renewed, or nobody can be asked: "
                "the host "
                "and its agent are there. Look at its agent's log, and whether the sensor heartbeat runs.",
        .query = HEALTH "'late'",
        .key = "host",
        .summary = "{host}: no heartbeat for {age_s} s",
        .every = "5s",
        .for_ = "30s",
        .clear_for = "20s",
        .severity = "warning",
        .parents = "agent-dead host-unreachable",
        .place = "here",
    },
    {
        .name = "agent-dead",
        .help = "Neither heartbeats nor renewals of its lease come, and the host answers pings (or can't be "
                "pinged): "
                "its agent has ended. Start it; its log says why it ended.",
        .query = HEALTH "'agent_dead'",
        .key = "host",
        .summary = "{host}: the agent is gone, the host is there",
        .every = "5s",
        .for_ = "10s",
        .clear_for = "20s",
        .severity = "error",
        .parents = "host-unreachable",
        .place = "here",
    },
    {
        .name = "host-unreachable",
        .help = "No heartbeat, no renewal, no answer to pings: the host is down, or the network between.",
        .query = HEALTH "'unreachable'",
        .key = "host",
        .summary = "{host}: unreachable",
        .every = "5s",
        .for_ = "10s",
        .clear_for = "20s",
        .severity = "critical",
        .place = "here",
    },
    {
        .name = "agent-restarts",
        .help = "An agent was started more than 3 times within an hour: something ends it. Asked at the "
                "gateway, which "
                "needs an archive.",
        .query = "SELECT host, count(*) AS starts FROM agent_state WHERE time > at('now-1h') AND state = "
                 "'started' "
                 "GROUP BY host HAVING count(*) > 3",
        .key = "host",
        .summary = "{host}: the agent was started {starts} times within an hour",
        .every = "1m",
        .clear_for = "5m",
        .severity = "warning",
        .parents = DOWN,
        .place = "gateway",
    },
    {
        .name = "clock-skew",
        .help = "The host's clock is off from the gateway's by more than 100 ms, beyond doubt. Times in "
                "events are "
                "corrected for it, those in its logs are not. Start an NTP service. Clears at 50 ms.",
        .query = CLOCK "abs(offset_ns) - bound_ns > 100000000",
        .clear_query = CLOCK "abs(offset_ns) <= 50000000",
        .key = "host",
        .summary = "{host}: the clock is off by {offset_ms} ms",
        .every = "10s",
        .for_ = "1m",
        .clear_for = "1m",
        .fresh = "3m",
        .severity = "warning",
        .parents = DOWN,
    },
    {
        .name = "archive-failing",
        .help = "The gateway can't write to its archive: the disk is full, or has failed. What comes is kept "
                "in its "
                "journal, until that is full. The gateway's log names the file.",
        .query = "SELECT host, why FROM sensors WHERE sensor = 'archive' AND mode = 'archive' AND status = "
                 "'failed'",
        .key = "host",
        .summary = "the archive on {host} can't be written: {why}",
        .every = "10s",
        .for_ = "20s",
        .clear_for = "1m",
        .severity = "critical",
        .place = "gateway",
    },
    {
        .name = "archive-behind",
        .help = "The gateway's archive is more than a minute behind what comes in: its disk is too slow, or "
                "it does not "
                "write at all.",
        .query = "WITH kept AS (SELECT max(time) AS time FROM heartbeat WHERE time > at('now-5m')), "
                 "came AS (SELECT max(time) AS time FROM heartbeat_latest) "
                 "SELECT 'archive' AS what, (came.time - coalesce(kept.time, (SELECT at('now-5m') FROM "
                 "heartbeat LIMIT 1))) "
                 "/ 1000000000 AS behind_s FROM kept, came WHERE behind_s > 60 AND came.time > at('now-5m')",
        .key = "what",
        .summary = "the archive is at least {behind_s} s behind",
        .every = "30s",
        .for_ = "1m",
        .clear_for = "1m",
        .severity = "error",
        .parents = "archive-failing",
        .place = "gateway",
    },
    {
        .name = "events-dropped",
        .help = "An agent has dropped events or samples within the last 15 minutes: its spool is full, or it "
                "is over a "
                "limit, or samples came while there was no gateway. Asked at the gateway, which needs an "
                "archive.",
        .query =
            "SELECT host, counter_increase(time, events_dropped) AS events, counter_increase(time, "
            "samples_dropped) AS "
            "samples FROM self WHERE time > at('now-15m') GROUP BY host HAVING events > 0 OR samples > 100",
        .key = "host",
        .summary = "{host}: {events} events and {samples} samples were dropped",
        .every = "1m",
        .clear_for = "5m",
        .severity = "warning",
        .parents = DOWN,
        .place = "gateway",
    },
    {
        .name = "samples-lost",
        .help = "Of a host's samples, which go as datagrams, more than 1% did not arrive, by the gateway's "
                "ledger: the "
                "network between drops them, or the gateway's socket buffer is too small.",
        .query = "SELECT host, sum(lost) AS lost, sum(taken) AS taken, round(100.0 * sum(lost) / (sum(lost) "
                 "+ sum(taken)), "
                 "1) AS percent FROM ledger WHERE class = 'samples' AND state = 'open' GROUP BY host HAVING "
                 "sum(lost) > 100 AND sum(lost) > 0.01 * (sum(lost) + sum(taken))",
        .key = "host",
        .summary = "{host}: {percent}% of the samples are lost on the way",
        .every = "1m",
        .for_ = "2m",
        .clear_for = "5m",
        .severity = "warning",
        .parents = DOWN,
        .place = "gateway",
    },
};

const size_t default_rules_n = sizeof default_rules / sizeof *default_rules;
