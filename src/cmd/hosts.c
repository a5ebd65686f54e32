/* SPDX-License-Identifier: Apache-2.0 */
/* gridline hosts: the workers of a gateway. */
#include "cmd/verbs.h"
#include "cmd/watch.h"

struct hosts_options {
    struct question_options question;
    bool is_long, is_watch;
};

static const struct table_column columns[] = {
    {"host", 0},
    {"state", 0},
    {"since", 19},
    {"mode", 0},
    {"worker", 0},
    {"lease_ms", 0},
    {"renewed_ms", 0},
    {"sensors", 0},
    {"missing", 0},
    {"samples", 0},
    {"datagrams_received", 0},
    {"datagrams_lost", 0},
    {NULL, 0},
};

static const char *const keys[] = {"host", NULL};
static const char *const changes[] = {"state",   "since",   "connected", "mode", "registrations",
                                      "samples", "sensors", "missing",   NULL};
static const struct watch_options watched = {keys, changes, "worker.state,directory.sensor", "target",
                                             "workers"};

static int hosts_run(void *state, struct operands patterns)
{
    const struct hosts_options *o = state;
    struct question q = {
        .table_options = {.event = "worker", .columns = columns, .has_rest = o->is_long, .shows_all = true}};
    int code = question_open(&q, &o->question, "gridline-hosts");
    if (code == EXIT_OK)
        code = question_add_patterns(&q, patterns.v, patterns.n);
    if (code == EXIT_OK) {
        question_add_where(&q);
        code = question_finish(&q, watch_run(&q, "hosts", o->is_watch, &watched, NULL, NULL, NULL));
    }
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    QUESTION_WHERE,
    {'l', "long", OPTION_FLAG, NULL, offsetof(struct hosts_options, is_long),
     "every column of the table: address, clock, counts of datagrams, static properties"},
    WATCH_OPTION(struct hosts_options, is_watch),
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline hosts", "All workers of this host's gateway"},
    {"gridline hosts 'node*' --where \"cpus >= 8 AND state <> 'live'\"", "Some of them"},
    {"gridline hosts --watch --format json", "Changes as they come"},
    {"gridline hosts --gateway tls://gate.example.org", "Of another gateway"},
    {NULL, NULL},
};

const struct verb verb_hosts = {
    .name = "hosts",
    .summary = "the workers: who is live, late, expired or gone",
    .operands = "[PATTERN...]",
    .description =
        "Lists the workers of a gateway whose host names match a PATTERN (`*`, `?`, `[a-z]`; none: all).\n"
        "A worker is `live` while it renews its lease, `late` when a renewal is overdue or its connection "
        "broke, `expired` "
        "when the lease ran out, `deregistered` when it said goodbye; `missing` is what the gateway is "
        "configured to "
        "`expect` and never came. `sensors` and `missing` count those of the host (`gridline sensors` lists "
        "them). "
        "Datagrams are counted since its "
        "samples began: what it "
        "sent, by its last renewal, and what came.\n"
        "Ends with 3 if there is no such worker.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct hosts_options),
    .run = hosts_run,
};
