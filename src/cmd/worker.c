/* SPDX-License-Identifier: Apache-2.0 */
/* gridline worker: suspend, resume, kill, set; one worker, a group, or all. */
#include "cmd/order.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

static const struct action {
    const char *name;
    const char *verb;
    const char *always; /* what is asked for first, however many are meant; NULL: nothing */
    const char *of_all; /* the same, of all workers */
} actions[] = {
    {"suspend", "worker.suspend", NULL, "suspend the sensors"},
    {"resume", "worker.resume", NULL, "resume the sensors"},
    {"kill", "worker.kill", "end the agents", "end the agents"},
    {"set", "worker.set", NULL, "change the settings"},
};

enum { ACTIONS = sizeof actions / sizeof *actions };

static const struct action *find_action(const char *word)
{
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(word, actions[i].name) == 0)
            return &actions[i];
    const char *near = options_nearest(slice_str(word), &actions[0].name, ACTIONS, sizeof *actions);
    say("'%.60s' is none of suspend, resume, kill, set%s%s%s", word, near ? "; did you mean " : "",
        near ? near : "", near ? "?" : "");
    return NULL;
}

static int worker_run(void *state, struct operands words)
{
    const struct order_options *options = state;
    struct order o;
    const struct action *a = find_action(words.v[0]);
    if (!a)
        return EXIT_USAGE;
    bool is_set = strcmp(a->name, "set") == 0;
    if (!is_set && options->lease_ns) {
        say("--lease is for `gridline worker set`");
        return EXIT_USAGE;
    }
    int code =
        order_open(&o, options, "gridline-worker", (struct operands){words.v + 1, words.n - 1}, is_set);
    if (code == EXIT_OK)
        code = order_check_choice(&o);
    if (code == EXIT_OK)
        code = order_run(&o, a->verb, o.has_choice ? a->always : a->of_all);
    order_close(&o);
    return code;
}

static const struct option_spec table[] = {
    QUESTION_WHERE,
    ORDER_ALL,
    ORDER_OPTION(0, "lease", OPTION_DURATION, "TIME", lease_ns,
                 "with `set`: the time of the lease, as in `60s`"),
    ORDER_DRY("only say which workers would be asked"),
    ORDER_YES,
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline worker suspend 'node*'", "No more samples of these, until they are resumed"},
    {"gridline worker resume --where \"cpus >= 8\"", "By a static property"},
    {"gridline worker set node7 vector.every=5s --lease 60s", "Thresholds and the lease"},
    {"gridline worker set node7 vector.every=", "Back to its own configuration"},
    {"gridline worker kill node7 --yes", "End its agent"},
    {NULL, NULL},
};

const struct verb verb_worker = {
    .name = "worker",
    .summary = "suspend, resume, end or set workers: one, a group, all",
    .operands = "suspend|resume|kill|set [PATTERN...] [KEY=VALUE...]",
    .description =
        "Asks the agents of workers, over the connection that they opened, and prints what each answers. The "
        "workers are "
        "those whose host name matches a PATTERN and for which `--where` is true; or `--all`.\n"
        "`suspend` stops their sensors and `resume` starts them again; the lease is kept. `kill` ends the "
        "agent. `set` gives "
        "settings (as in the agent's configuration: `vector.every=5s`, `disk.mode=off`; an empty value takes "
        "a setting "
        "back) and a lease; they are kept by the gateway and hold after a restart of the worker, too.\n"
        "`kill`, and anything with `--all`, asks first at the terminal, or needs `--yes`.\n"
        "Says n of m at the end, and ends with 4 if some did not answer or could not.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct order_options),
    .run = worker_run,
};
