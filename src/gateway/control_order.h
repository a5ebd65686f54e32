/* SPDX-License-Identifier: Apache-2.0 */
/* control_order.h - orders: questions that go to workers, and their answers back to who asked. Part of
 * control.c, which has the contract; nobody else includes this. */
#ifndef GRIDLINE_GATEWAY_CONTROL_ORDER_H
#define GRIDLINE_GATEWAY_CONTROL_ORDER_H

#include "gateway/control.h"
#include "gateway/control_programs.h"

enum order_kind { ORDER_WORKER, ORDER_SET, ORDER_SENSOR, ORDER_LIST, ORDER_ACTIVATE };

struct order;

struct orders {
    struct event_base *base; /* borrowed, as the next three */
    struct workers *workers;
    const struct control_ops *ops;
    void *arg;
    struct order *first;
    size_t n;
    uint64_t last_number;
    struct programs programs;
    struct args_writer row; /* scratch */
};

void orders_fini(struct orders *all);
/* verb is borrowed for good: the verb's name in a table. */
void orders_ask(struct orders *all, struct control_asker *asker, const struct frame_control *q,
                const char *verb, enum order_kind kind);
void orders_forget(struct orders *all, const struct control_asker *asker);
void orders_answered(struct orders *all, struct worker *w, const struct frame_answer *a);
void orders_disconnected(struct orders *all, struct worker *w);

/* To an asker that may have gone (NULL). */
void control_reply(struct control_asker *to, uint64_t request, enum control_status status, struct args args,
                   struct slice text);
void control_reply_text(struct control_asker *to, uint64_t request, enum control_status status,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
