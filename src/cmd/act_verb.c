/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manual of `gridline act`. gridline-act does it: the libraries that actuators need stay
 * out of this program. */
#include "cmd/act_verb.h"

#define AT(member) offsetof(struct act_options, member)

static const struct option_spec table[] = {
    {'l', "list", OPTION_FLAG, NULL, AT(list), "list the actuators, or the options of the named ones"},
    {0, "check", OPTION_FLAG, NULL, AT(check),
     "only look whether the options can be used, whatever the data will be"},
    {'n', "dry-run", OPTION_FLAG, NULL, AT(dry_run), "print what would be done, exactly, and do nothing"},
    {'d', "data", OPTION_TEXTS, "NAME=VALUE", AT(data), "the value that `{NAME}` in options stands for"},
    {0, "timeout", OPTION_DURATION, "TIME", AT(timeout_ns), "by then it has to be over (default 30s)"},
    {'t', "format", OPTION_TEXT, "FORMAT", AT(format),
     "print the list as a table (default) or as events in this encoding; what was or would be done as one, "
     "too"},
    {0},
};

static const struct example examples[] = {
    {"gridline act --list", "What there is"},
    {"gridline act --list kill", "The options of one"},
    {"gridline act log file=/tmp/x 'text={host} is full' -d host=c0-0", "A line in a file"},
    {"gridline act --dry-run exec program=/usr/bin/logger args=-t args=gridline args={summary} -d summary='a "
     "b'",
     "The exact arguments; a list takes its name several times"},
    {"gridline act restart command=/usr/sbin/nginx pid_file=/run/nginx.pid forks=true", "A server"},
    {NULL, NULL},
};

const struct verb verb_act = {
    .name = "act",
    .summary = "run an actuator, or say what it would do",
    .operands = "ACTUATOR [OPTION=VALUE...]",
    .description =
        "Runs the actuator once, as this user, here. In its options `{NAME}` stands for a value given with "
        "`--data`, as it is, within that one text; `{NAME?default}` has a default, `{{` is a brace. Options "
        "that name a program, a script or a file are used as they stand.\n"
        "What a program prints goes to standard output (the first 16 KiB), and what was done to standard "
        "error. With --format a row on standard output has both: actuator, done, text, output; of --dry-run: "
        "actuator, plan.\n"
        "Ends with 3 if there is no such actuator, or nothing to act on; with 5 if it is not allowed.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = SIZE_MAX,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct act_options),
    .program = "gridline-act",
};
