/* SPDX-License-Identifier: Apache-2.0 */
/* action_order.h - an order: what one action is to do, about one fault or many. As a value, as a record of
 * state.h, and as the request that gridline-act gets. No I/O. For action.c and its tests.
 *
 * Record, version 1, little-endian; text = varint length, bytes:
 *     u8 version, u8 flags (1 = an attempt has started), u8 kind, u8 severity
 *     varint attempts, varint faults, varint left_out, u64 fault, u64 given_ns, u64 since_ns,
 *     u64 ready_ns, text action
 *     text rule, text summary, varint n { text name, text value }, lines: text, until it ends
 * The last row of it is the body, which only grows. */
#ifndef GRIDLINE_GUARD_ACTION_ORDER_H
#define GRIDLINE_GUARD_ACTION_ORDER_H

#include "guard/faults.h"

enum {
    ORDER_LINES = 50,       /* faults that are listed */
    ORDER_LINE_MAX = 300,   /* bytes of each */
    ORDER_MAX = 512 << 10,  /* bytes of a record */
    ORDER_FIELDS_MAX = 1000 /* of the row */
};

struct order {
    struct order *next;
    uint64_t id;
    uint64_t fault; /* the first */
    enum notice_kind kind;
    enum severity severity;
    uint32_t attempts; /* that have started */
    uint32_t faults;   /* how many it is about */
    uint32_t lines;
    bool is_started;  /* one of them is under way, or was when the guard died */
    int64_t given_ns; /* the first notice */
    int64_t since_ns; /* since when the fault is there */
    int64_t ready_ns; /* not before */
    int64_t started_ns;
    uint64_t left_out; /* notices that had no room before: its attempts tell of them */
    struct strbuf body;
    struct action *action; /* action.c's */
    struct runner *runner;
};

/* Fills in what the notice says; id, ready_ns are the caller's. E_LIMIT: the row is too large; -ENOMEM. */
int order_fill(struct order *o, const struct notice *n);
/* One fault more; of the first ORDER_LINES there is a line. -ENOMEM. */
int order_join(struct order *o, const struct notice *n);
void order_destroy(struct order *o); /* NULL is fine */

struct slice order_rule(const struct order *o);
struct slice order_summary(const struct order *o);

void order_pack(const struct order *o, const char *action, struct strbuf *out);
/* *action borrows from record. E_PROTO, E_VERSION, -ENOMEM. o is zeroed, and destroyed by the caller. */
int order_unpack(struct slice record, struct order *o, struct slice *action);

/* The data of its attempt under way (action.h): *out is to be freed with mem_free; values borrow from o,
 * text, config. */
struct guard_config;
int order_data(const struct order *o, const struct action_config *action, const struct guard_config *config,
               struct strbuf *text, struct act_datum **out, size_t *n);
/* Names the order wherever it leaves a trace: the same for all attempts, of no other order. */
void order_name(const struct order *o, const struct guard_config *config, struct strbuf *out);

#endif
