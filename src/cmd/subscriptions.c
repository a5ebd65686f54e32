/* SPDX-License-Identifier: Apache-2.0 */
/* gridline subscriptions: who has asked a gateway for what. */
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "cmd/watch.h"

#include <string.h>

struct subscriptions_options {
    struct question_options question;
    bool is_long, is_watch;
};

static const struct table_column columns[] = {
    {"consumer", 40},   {"event", 30},    {"host", 20},    {"where", 30}, {"state", 0},
    {"durable", 0},     {"given", 0},     {"filtered", 0}, {"lost", 0},   {"lag_records", 0},
    {"lag_seconds", 0}, {"last_seen", 0}, {NULL, 0},
};

static const char *const keys[] = {"consumer", "id", "durable", NULL};
static const char *const changes[] = {"state", "lost", "event", "where", NULL};
static const struct watch_options watched = {.keys = keys, .changes = changes};

/* NAME of `show` and `delete`; NULL of `list`. */
static bool read_words(struct operands words, const char **verb, const char **name)
{
    const char *action = words.n ? words.v[0] : "list";
    *name = words.n > 1 ? words.v[1] : NULL;
    *verb = strcmp(action, "delete") == 0 ? "subscription.remove" : "subscriptions";
    if (strcmp(action, "list") == 0)
        return words.n <= 1;
    return words.n == 2 && (strcmp(action, "show") == 0 || strcmp(action, "delete") == 0);
}

static int subscriptions_run(void *state, struct operands words)
{
    const struct subscriptions_options *o = state;
    const char *verb, *name;
    if (!read_words(words, &verb, &name)) {
        say("write `subscriptions list`, `subscriptions show NAME` or `subscriptions delete NAME`");
        return EXIT_USAGE;
    }
    struct question q = {
        .table_options = {
            .event = "subscription", .columns = columns, .has_rest = o->is_long || name, .shows_all = true}};
    int code = question_open(&q, &o->question, "gridline-subscriptions");
    if (code == EXIT_OK && name)
        args_add_text(&q.args, "durable", slice_str(name));
    if (code == EXIT_OK && name)
        code = question_finish(&q, question_pages(&q, verb));
    else if (code == EXIT_OK)
        code = question_finish(&q, watch_run(&q, verb, o->is_watch, &watched, NULL, NULL, NULL));
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    {'l', "long", OPTION_FLAG, NULL, offsetof(struct subscriptions_options, is_long),
     "every column of the table"},
    {0, "watch", OPTION_FLAG, NULL, offsetof(struct subscriptions_options, is_watch),
     "of `list`: go on until stopped: on a terminal the table is drawn anew every two seconds, elsewhere "
     "rows "
     "are printed when they change"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline subscriptions", "Everybody who gets events from this host's gateway"},
    {"gridline subscriptions --format json", "With positions and bytes that wait"},
    {"gridline subscriptions show nightly-report", "How far a durable one is behind, and whose it is"},
    {"gridline subscriptions delete nightly-report", "A durable one that nobody comes back for"},
    {NULL, NULL},
};

const struct verb verb_subscriptions = {
    .name = "subscriptions",
    .summary = "who gets which events, and what was lost on the way",
    .operands = "[list | show NAME | delete NAME]",
    .description =
        "`list` has the subscriptions of a gateway: `given` events went to the consumer, `filtered` ones did "
        "not pass, `lost` ones had to give way because it did not read. `replaying` means that it reads what "
        "is in the journal and has not caught up; a durable one does that instead of losing any. A durable "
        "one whose consumer is not there is `away`.\n"
        "`show` prints everything about the durable subscription NAME: how far it is behind (`lag_records`, "
        "`lag_bytes` of the journal, `lag_seconds`), when its consumer was seen last, its `holder`, and how "
        "large the journal may grow for it (`hold`). `gone_records` of the journal gave way before they were "
        "read; of their events `refilled` ones came from the archive, `gap_events` did not, and of "
        "`gap_records` nobody knows how many events they had.\n"
        "`delete` forgets NAME, which nobody reads by now. That is for its holder and for those who may "
        "control. Without control, `list` and `show` have your own only.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct subscriptions_options),
    .run = subscriptions_run,
};
