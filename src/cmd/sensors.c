/* SPDX-License-Identifier: Apache-2.0 */
/* gridline sensors: the sensors that a gateway's directory knows. */
#include "cmd/verbs.h"
#include "cmd/watch.h"

struct sensors_options {
    struct question_options question;
    const char *host, *event;
    bool is_long, is_watch;
};

static const struct table_column columns[] = {
    {"host", 0},   {"sensor", 0},    {"status", 0},  {"mode", 0}, {"every_ms", 0}, {"rate", 6},
    {"age_ms", 0}, {"consumers", 0}, {"events", 40}, {"why", 0},  {NULL, 0},
};

static const char *const keys[] = {"host", "sensor", NULL};
static const char *const changes[] = {"status", "host_state", "mode",    "every_ms",
                                      "why",    "events",     "started", NULL};
static const struct watch_options watched = {keys, changes, "worker.state,directory.sensor", "target",
                                             "host"};

static int sensors_run(void *state, struct operands patterns)
{
    const struct sensors_options *o = state;
    struct question q = {
        .table_options = {.event = "sensor", .columns = columns, .has_rest = o->is_long, .shows_all = false}};
    int code = question_open(&q, &o->question, "gridline-sensors");
    if (code == EXIT_OK)
        code = question_add_list(&q, "sensor", "sensors", patterns.v, patterns.n);
    if (code == EXIT_OK) {
        if (o->host)
            args_add_text(&q.args, "host", slice_str(o->host));
        if (o->event)
            args_add_text(&q.args, "event", slice_str(o->event));
        question_add_where(&q);
        code = question_finish(&q, watch_run(&q, "sensors", o->is_watch, &watched, NULL, NULL, NULL));
    }
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    {0, "host", OPTION_TEXT, "PATTERN[,PATTERN...]", offsetof(struct sensors_options, host),
     "of these hosts"},
    {'e', "event", OPTION_TEXT, "PATTERN[,PATTERN...]", offsetof(struct sensors_options, event),
     "that make events of these names"},
    QUESTION_OPTION('w', "where", OPTION_TEXT, "EXPR", where,
                    "only those for which EXPR is true: a WHERE clause of SQL on the columns, as in "
                    "`status = 'missing' OR age_ms > 60000`"),
    {'l', "long", OPTION_FLAG, NULL, offsetof(struct sensors_options, is_long),
     "every column of the table: domain, last event, start, schemas"},
    WATCH_OPTION(struct sensors_options, is_watch),
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline sensors", "All sensors of all hosts"},
    {"gridline sensors --where \"status NOT IN ('running', 'idle')\"", "What does not run as it should"},
    {"gridline sensors 'exec/*' --host 'node*'", "Programs that are run as sensors"},
    {"gridline sensors --watch --format json", "All, and then changes as they come"},
    {NULL, NULL},
};

const struct verb verb_sensors = {
    .name = "sensors",
    .summary = "which sensors there are, where, and what they are doing",
    .operands = "[PATTERN...]",
    .description =
        "Lists the sensors that a gateway knows, on all its hosts, or those whose names match a PATTERN "
        "(`*`, `?`, "
        "`[a-z]`). Agents announce them; programs that write events by themselves are there, too, with mode "
        "`program`.\n"
        "A sensor is `running`; `idle` while it waits for a request or for traffic; `suspended`; `failed`, "
        "with why; "
        "`stopped`; `unknown` while its host is late; `missing` when the host's lease has run out, or when "
        "the gateway "
        "is configured to `expect` it and it is not there. `rate` is events a second over the last minute, "
        "`age_ms` the "
        "time since the last event, `consumers` the subscriptions that ask for what it makes.\n"
        "Ends with 3 if there is no such sensor.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct sensors_options),
    .run = sensors_run,
};
