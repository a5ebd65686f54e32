/* SPDX-License-Identifier: Apache-2.0 */
/* gridline sensor: start, stop, set and list sensors of workers. */
#include "cmd/order.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

static const struct action {
    const char *name, *verb;
    bool takes_settings;
    bool needs_choice;
} actions[] = {
    {"start", "sensor.start", true, true},
    {"stop", "sensor.stop", false, true},
    {"set", "sensor.set", true, true},
    {"list", "sensor.list", false, false},
};

enum { ACTIONS = sizeof actions / sizeof *actions };

static const struct action *find_action(const char *word)
{
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(word, actions[i].name) == 0)
            return &actions[i];
    const char *near = options_nearest(slice_str(word), &actions[0].name, ACTIONS, sizeof *actions);
    say("'%.60s' is none of start, stop, set, list%s%s%s", word, near ? "; did you mean " : "",
        near ? near : "", near ? "?" : "");
    return NULL;
}

static int sensor_run(void *state, struct operands words)
{
    struct order o;
    const struct action *a = find_action(words.v[0]);
    if (!a)
        return EXIT_USAGE;
    if (words.n < 2 && a->needs_choice) {
        say("which sensor? gridline sensor %s SENSOR PATTERN...; `gridline sensor list` lists them", a->name);
        return EXIT_USAGE;
    }
    size_t used = words.n < 2 ? 1 : 2;
    int code = order_open(&o, state, "gridline-sensor", (struct operands){words.v + used, words.n - used},
                          a->takes_settings);
    if (code == EXIT_OK && a->needs_choice)
        code = order_check_choice(&o);
    if (code == EXIT_OK) {
        args_add_text(&o.question.args, "sensor", slice_str(words.n < 2 ? "*" : words.v[1]));
        code = order_run(&o, a->verb, NULL);
    }
    order_close(&o);
    return code;
}

static const struct option_spec table[] = {
    QUESTION_WHERE, ORDER_ALL, ORDER_CEILING, ORDER_DRY("only say what it would cost"), QUESTION_OPTIONS, {0},
};

static const struct example examples[] = {
    {"gridline sensor list", "Every sensor of every worker, with what it costs"},
    {"gridline sensor start disk 'node*' every=5s --dry-run", "What would it cost?"},
    {"gridline sensor start disk 'node*' every=5s --ceiling 200", "Start it where it costs at most 200 us/s"},
    {"gridline sensor stop process --where \"cpus < 4\"", "Stop it on small hosts"},
    {NULL, NULL},
};

const struct verb verb_sensor = {
    .name = "sensor",
    .summary = "start, stop, set and list sensors of workers",
    .operands = "start|stop|set|list [SENSOR] [PATTERN...] [KEY=VALUE...]",
    .description = "Asks the agents of workers, over the connection that they opened, and prints what each "
                   "answers. The workers are "
                   "those whose host name matches a PATTERN and for which `--where` is true; or `--all`. For "
                   "`list` SENSOR is a "
                   "pattern, and without one of workers it is all of them.\n"
                   "`start` says first what the sensor is predicted to cost, in microseconds of CPU a "
                   "second, does not start it where "
                   "that is above `--ceiling`, and says then what it was seen to cost. KEY=VALUE are options "
                   "of the sensor, as in the "
                   "agent's configuration. What is started, stopped or set this way holds until the agent is "
                   "restarted.\n"
                   "Says n of m at the end, and ends with 4 if some did not answer or could not.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct order_options),
    .run = sensor_run,
};
