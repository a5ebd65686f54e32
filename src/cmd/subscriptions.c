/* SPDX-License-Identifier: Apache-2.0 */
/* gridline subscriptions: who has asked a gateway for what. */
#include "cmd/verbs.h"
#include "cmd/watch.h"

#include <string.h>

struct subscriptions_options {
    struct question_options question;
    const char *remove;
    bool is_watch;
};

static const struct table_column columns[] = {
    {"consumer", 40}, {"event", 30}, {"host", 20},    {"where", 30}, {"state", 0},
    {"durable", 0},   {"given", 0},  {"filtered", 0}, {"lost", 0},   {NULL, 0},
};

static const char *const keys[] = {"consumer", "id", NULL};
static const char *const changes[] = {"state", "lost", "event", "where", NULL};
static const struct watch_options watched = {.keys = keys, .changes = changes};

static int subscriptions_run(void *state, struct operands none)
{
    const struct subscriptions_options *o = state;
    struct question q = {
        .table_options = {.event = "subscription", .columns = columns, .has_rest = false, .shows_all = true}};
    (void)none; /* it takes none */
    int code = question_open(&q, &o->question, "gridline-subscriptions");
    if (code == EXIT_OK && o->remove) {
        args_add_text(&q.args, "durable", slice_str(o->remove));
        code = question_pages(&q, "subscription.remove");
    } else if (code == EXIT_OK) {
        code = question_finish(&q, watch_run(&q, "subscriptions", o->is_watch, &watched, NULL, NULL, NULL));
    }
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    {0, "watch", OPTION_FLAG, NULL, offsetof(struct subscriptions_options, is_watch),
     "go on until stopped: on a terminal the table is drawn anew every two seconds, elsewhere rows are "
     "printed when they change"},
    {0, "remove", OPTION_TEXT, "NAME", offsetof(struct subscriptions_options, remove),
     "forget the durable subscription NAME, which nobody reads by now"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline subscriptions", "Everybody who gets events from this host's gateway"},
    {"gridline subscriptions --format json", "With positions and bytes that wait"},
    {"gridline subscriptions --remove nightly-report", "A durable one that nobody comes back for"},
    {NULL, NULL},
};

const struct verb verb_subscriptions = {
    .name = "subscriptions",
    .summary = "who gets which events, and what was lost on the way",
    .operands = "",
    .description =
        "Lists the subscriptions of a gateway: `given` events went to the consumer, `filtered` ones did not "
        "pass, "
        "`lost` ones had to give way because it did not read. `replaying` means that it reads what is in the "
        "journal and has not caught up; a durable one does that instead of losing any.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct subscriptions_options),
    .run = subscriptions_run,
};
