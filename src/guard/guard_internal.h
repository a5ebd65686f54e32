/* SPDX-License-Identifier: Apache-2.0 */
/* guard_internal.h - what guard.c (the turn), guard_tables.c (what it says of itself in SQL) and
 * guard_verbs.c (what people ask) share. */
#ifndef GRIDLINE_GUARD_GUARD_INTERNAL_H
#define GRIDLINE_GUARD_GUARD_INTERNAL_H

#include "guard/announce.h"
#include "guard/errand.h"
#include "guard/guard.h"
#include "guard/health.h"
#include "guard/remote.h"
#include "guard/serve.h"

struct running_rule {
    struct guard *guard;
    struct rule *rule;
    unsigned index;
    int64_t next_boot; /* when it is evaluated again; by clock_boot_ns, here and below */
    bool is_asked;     /* at the gateway, and has not been answered */
    int told_code;     /* of the last evaluation that was logged: only changes are */
    uint64_t told_left_out;
};

struct guard {
    const struct guard_config *config;
    const char *act;
    struct event_base *base;
    struct event *timer;
    struct audit *audit;
    struct state *state;
    struct live *live;
    struct judge *judge;
    struct faults *faults;
    struct actions *actions;
    struct health *health;
    struct errands *questions, *pingers;
    struct pings *pings;
    struct remote *remote;
    struct announce *announce;
    struct serve *serve;
    struct running_rule *rules;
    size_t feeds; /* that are connected */
    int64_t started_ns;
    int64_t told_ns;     /* rule.state and guard.state were last announced */
    int64_t health_boot; /* when health wants its turn */
    int64_t turn_boot;   /* the last turn */
    int64_t heard_boot;  /* the last event, or since when it can hear: its start, a pause of its own */
    int64_t offset_ns;   /* of UTC to clock_boot_ns, at the last look */
    bool is_in_turn;
    bool is_failing;           /* the last commit failed; told once */
    struct lease_wait *leases; /* hosts that wait for the one question about them all */
    struct kept_record *kept;  /* of actions, while the state is read */
    char kept_head[65];        /* of the audit, as the state has it; "" = it has none */
    uint64_t uncertain;        /* records of the state that could not be read */
};

/* Everything that changed is put down; then actions begin and events go out. From outside of a turn. */
void guard_settle(struct guard *g);
/* Sees to it that the next turn comes when it has to. */
void guard_plan(struct guard *g);
void guard_audit(struct guard *g, const char *what, const struct act_datum *data, size_t n);

enum { GUARD_TABLES = 3 };
/* guard_health, faults, rules. */
void guard_tables(struct guard *g, struct judge_table out[GUARD_TABLES]);
void guard_sum_up(const struct guard *g, struct guard_totals *out);

uint16_t guard_answer(void *arg, const struct frame_control *q, struct serve_reply *to, struct strbuf *text,
                      struct args_writer *values);
/* An order that came as an event (fault.order) from a gateway, which knows who gave it. */
void guard_obey(struct guard *g, const struct event *e);

#endif
