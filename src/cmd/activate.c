/* SPDX-License-Identifier: Apache-2.0 */
/* gridline activate: which events programs write that use libgridline. */
#include "cmd/order.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "event/level.h"

static bool is_level(const char *word)
{
    uint8_t level;
    return strcmp(word, "off") == 0 || strcmp(word, "default") == 0 ||
           level_parse(slice_str(word), &level) == 0;
}

static int activate_run(void *state, struct operands words)
{
    struct order o;
    if (!is_level(words.v[1])) {
        say("'%.40s' is no level (error, warning, info, debug, ..., trace), nor off nor default", words.v[1]);
        return EXIT_USAGE;
    }
    int code = order_open(&o, state, "gridline-activate", (struct operands){words.v + 2, words.n - 2}, false);
    if (code == EXIT_OK) {
        args_add_text(&o.question.args, "pattern", slice_str(words.v[0]));
        args_add_text(&o.question.args, "level", slice_str(words.v[1]));
        code = order_run(&o, "activate", NULL);
    }
    order_close(&o);
    return code;
}

static const struct option_spec table[] = {
    QUESTION_WHERE, ORDER_CEILING, ORDER_DRY("only say what it would cost"), QUESTION_OPTIONS, {0},
};

static const struct example examples[] = {
    {"gridline activate 'transfer.*' debug 'node*'", "More detail from the programs on these hosts"},
    {"gridline activate 'transfer.*' default", "As the programs have it by themselves"},
    {"gridline activate '*' off node7", "Nothing at all from there"},
    {NULL, NULL},
};

const struct verb verb_activate = {
    .name = "activate",
    .summary = "which events instrumented programs write",
    .operands = "EVENTS LEVEL|off|default [PATTERN...]",
    .description =
        "Tells programs that use libgridline, on the hosts of workers that match a PATTERN and for which "
        "`--where` is true "
        "(none: on all), to write events whose names match EVENTS from LEVEL up; `off`: none of them; "
        "`default`: as if "
        "nobody had asked. What is asked for last counts.\n"
        "The agents say first what that is predicted to cost, and refuse where it is above `--ceiling`.\n"
        "Says n of m at the end, and ends with 4 if some did not answer or could not.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 2,
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct order_options),
    .run = activate_run,
};
