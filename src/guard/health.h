/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - which hosts are well. Late is not dead: a host whose heartbeat is missing for its time-out is
 * `late`; then two questions are asked, and only their answers say more:
 *
 *                        lease renewed   not renewed, over or none   the gateway can't be asked
 *     ping answered      late            agent_dead                  late; agent_dead stays
 *     ping unanswered    late (1)        unreachable                 unreachable
 *     can't ping         late            agent_dead (2)              as it was
 *
 * (1) a firewall eats pings. (2) without pings the lease alone can say agent_dead, never unreachable; and
 * one that was unreachable stays so. Any event of the host that is heard while the questions are out answers
 * the ping as well: the host is up. A lease that was given back (deregistered) makes it `gone`, on purpose:
 * no fault. Heard again: live at once. Asked again while it lasts, every heartbeat period, so that agent_dead
 * becomes unreachable and back. What was asked before a host came back says nothing any more.
 *
 * Only hosts that have sent a heartbeat, or are expected to (health_expect), are watched. Those that are
 * expected and of which nothing is known yet are not in the table: no data is neither a fault nor well.
 *
 * Time: callers give UTC, which the table shows, but only the small steps between calls count. A clock that
 * is set changes nobody's age; and neither does a pause of the guard itself (SIGSTOP, a suspended machine,
 * one that is too busy): after it, as after being blind, every host has its whole time-out to be heard again.
 *
 * Rules see it as the table host_health (host, state, since, heard, age_s, ping_ms, lease, address): since
 * and heard in ns UTC; heard and age_s are of the last heartbeat; ping_ms, lease and address are NULL where
 * they are not known. No I/O here: questions go out by health_options, answers come back, not from within the
 * call. One thread. Bounded by hosts_max; over it new hosts are left out, counted. */
#ifndef GRIDLINE_GUARD_HEALTH_H
#define GRIDLINE_GUARD_HEALTH_H

#include "base/slice.h"
#include "guard/judge.h"

enum health_state {
    HEALTH_LIVE,
    HEALTH_LATE,
    HEALTH_AGENT_DEAD,
    HEALTH_UNREACHABLE,
    HEALTH_GONE,
    HEALTH_EXPECTED, /* nothing is known yet */
    HEALTH_STATES
};
const char *health_state_name(enum health_state s);

enum lease_state { LEASE_UNKNOWN, LEASE_LIVE, LEASE_LATE, LEASE_EXPIRED, LEASE_DEREGISTERED, LEASE_NONE };
/* Of the column workers.state; what is none of them: LEASE_UNKNOWN. */
enum lease_state lease_state_parse(struct slice text);

struct health_options {
    int64_t every_ns, timeout_ns; /* of heartbeats: 10 s, 12 s */
    bool is_pinging;
    size_t hosts_max; /* 0 = 100,000 */
    /* Each is asked at most once at a time for a host; answered by health_pinged, health_leased. address "" =
     * the host's name. A call that can't ask returns a negative code: taken as no answer; but E_LIMIT: not
     * now, tried again soon. */
    int (*ping)(void *arg, struct slice host, struct slice address);
    int (*lease)(void *arg, struct slice host);
    void *arg;
};

struct health;
int health_create(const struct health_options *o, struct health **out);
void health_destroy(struct health *h); /* NULL is fine */

/* Something of the host was heard: a heartbeat or not. every_ns: the period of its heartbeats, if it says one
 * (0 = it does not). now_ns is UTC, here and below. */
void health_heard(struct health *h, struct slice host, bool is_heartbeat, int64_t every_ns, int64_t now_ns);
/* Somebody (the gateway's table of workers, a fault from before a restart) knows of a host that should be
 * heard: it has its time-out for that. Nothing changes for one that is known. */
void health_expect(struct health *h, struct slice host, struct slice address, int64_t now_ns);
/* code 0: answered. -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH and the like: unanswered. Others: could not be
 * asked. */
void health_pinged(struct health *h, struct slice host, int code, int64_t rtt_ns, int64_t now_ns);
/* An answer, or news that nobody asked for (the event worker.state): of these only `deregistered` counts. */
void health_leased(struct health *h, struct slice host, enum lease_state lease, struct slice address,
                   int64_t now_ns);
/* The guard itself hears nothing (its gateway is away): nobody is judged late for it until it is back. */
void health_blind(struct health *h, bool is_blind, int64_t now_ns);
/* Judges. Called again at the time it returns (UTC ns), or earlier: after result - now_ns, that is, however
 * the clock is set meanwhile. */
int64_t health_turn(struct health *h, int64_t now_ns);
/* host_health for judge_create. */
void health_table(struct health *h, struct judge_table *out);
/* Has the table a row of it? If not, nothing is known: no data. */
bool health_knows(const struct health *h, struct slice host);
uint64_t health_left_out(const struct health *h);
size_t health_count(const struct health *h, enum health_state s);

#endif
