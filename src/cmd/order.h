/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - what the commands share that have workers do something: worker, sensor, activate. */
#ifndef GRIDLINE_CMD_ORDER_H
#define GRIDLINE_CMD_ORDER_H

#include "cmd/question.h"

/* The struct of a command's options is this. */
struct order_options {
    struct question_options question; /* first */
    bool is_all, is_yes, is_dry;
    int64_t lease_ns;
    const char *ceiling;
};

/* clang-format off */
#define ORDER_OPTION(letter, name, type, metavar, member, help) \
    {letter, name, type, metavar, offsetof(struct order_options, member), help}
#define ORDER_ALL ORDER_OPTION('a', "all", OPTION_FLAG, NULL, is_all, "all workers")
#define ORDER_YES ORDER_OPTION('y', "yes", OPTION_FLAG, NULL, is_yes, "do not ask whether that is really meant")
#define ORDER_DRY(help) ORDER_OPTION('n', "dry-run", OPTION_FLAG, NULL, is_dry, help)
#define ORDER_CEILING ORDER_OPTION(0, "ceiling", OPTION_TEXT, "US_PER_S", ceiling, \
    "refuse where it would cost more than so many microseconds of CPU a second")
/* clang-format on */

struct order {
    const struct order_options *options;
    struct question question;
    const char *prog;
    bool has_choice; /* a pattern or a predicate */
};

/* Of the words, those with '=' are settings (if they may be), the others patterns of host names; with the
 * options they are added to the question. It is not connected yet. order_close in any case. An exit code. */
int order_open(struct order *o, const struct order_options *options, const char *prog, struct operands words,
               bool takes_settings);
/* EXIT_USAGE, said, unless a pattern, --where or --all says which workers. */
int order_check_choice(const struct order *o);
/* Connects, asks, prints; an exit code. what: asked for on the terminal first ("end 12 agents"), unless NULL,
 * --yes or
 * --dry-run; without a terminal it is an error. */
int order_run(struct order *o, const char *verb, const char *what);
void order_close(struct order *o);

#endif
