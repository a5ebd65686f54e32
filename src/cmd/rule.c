/* SPDX-License-Identifier: Apache-2.0 */
/* gridline rule: the rules of a guard. */
#include "cmd/file.h"
#include "cmd/guard_ask.h"
#include "cmd/program.h"
#include "cmd/rule_test.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

struct rule_options {
    struct guard_options guard; /* first */
    bool is_long;
    struct rule_test_options test; /* those of its own */
};

static const struct table_column columns[] = {
    {"rule", 0},        {"severity", 0}, {"firing", 0},   {"pending", 0}, {"every_ms", 0}, {"place", 0},
    {"evaluations", 0}, {"failures", 0}, {"left_out", 0}, {"why", 60},    {NULL, 0},
};

static const struct table_order by_name[] = {{"rule", false}, {"guard", false}, {NULL, false}};

static int check_heard(const struct guard_question *g, int code)
{
    if (code != EXIT_OK || g->question.rows)
        return code;
    if (g->is_guard)
        say("this guard has no rules");
    else
        say("no guard is heard here; `gridline guard` starts one on this host");
    return EXIT_NOT_FOUND;
}

static int list(const struct rule_options *o)
{
    struct guard_question g = {
        .question = {.may_be_none = true,
                     .table_options = {
                         .event = "rule", .columns = columns, .has_rest = o->is_long, .order = by_name}}};
    int code = guard_open(&g, &o->guard, "gridline-rule");
    if (code == EXIT_OK)
        code = check_heard(&g, question_finish(&g.question, question_pages(&g.question, "rules")));
    guard_close(&g);
    return code;
}

/* ---------------------------------------------------------------- show */

struct shown {
    const char *name;
    struct strbuf text;
    size_t n;
};

/* "name      value", a line each; of a value with several lines the others below the first. */
static void add_line(struct strbuf *out, struct slice name, struct value v)
{
    enum { WIDTH = 14 };
    struct strbuf text = {0};
    struct slice rest = value_is_text(v.type) ? value_slice(v) : SLICE_LIT("");
    strbuf_printf(out, "%-*.*s", WIDTH, SLICE_ARG(name));
    do {
        const char *end = rest.n ? memchr(rest.p, '\n', rest.n) : NULL;
        struct slice line = end ? slice_of(rest.p, (size_t)(end - rest.p)) : rest;
        strbuf_reset(&text);
        table_add_value(&text, value_is_text(v.type) ? value_text(line) : v);
        strbuf_printf(out, "%s\n", text.p ? text.p : "");
        rest = slice_from(rest, end ? line.n + 1 : line.n);
        if (rest.n)
            strbuf_printf(out, "%*s", WIDTH, "");
    } while (rest.n);
    strbuf_fini(&text);
}

static bool show_row(void *arg, const struct frame_answer *row)
{
    struct shown *s = arg;
    struct args args = row->args;
    struct arg a;
    if (!slice_eq_str(args_text(args, "rule"), s->name))
        return false;
    if (s->n++)
        strbuf_add_char(&s->text, '\n');
    while (args_next(&args, &a))
        add_line(&s->text, a.name, a.value);
    return false;
}

/* A row as a person reads it; with --format as a row. */
static bool pick_row(void *arg, const struct frame_answer *row)
{
    struct shown *s = arg;
    bool is_it = slice_eq_str(args_text(row->args, "rule"), s->name);
    s->n += is_it;
    return is_it;
}

static int show(const struct rule_options *o, const char *name)
{
    struct guard_question g = {
        .question = {.may_be_none = true,
                     .table_options = {.event = "rule", .columns = columns, .has_rest = true}}};
    struct shown s = {.name = name};
    int code = guard_open(&g, &o->guard, "gridline-rule");
    if (code == EXIT_OK) {
        g.question.on_row = g.question.table_options.encoding ? pick_row : show_row;
        g.question.arg = &s;
        code = check_heard(&g, question_finish(&g.question, question_pages(&g.question, "rules")));
    }
    if (code == EXIT_OK && s.n == 0) {
        say("there is no rule '%.60s'; `gridline rule list` has all", name);
        code = EXIT_NOT_FOUND;
    } else if (code == EXIT_OK && s.text.n)
        code = file_print(&s.text);
    else
        strbuf_fini(&s.text);
    guard_close(&g);
    return code;
}

/* ---------------------------------------------------------------- check */

/* The guard itself reads the file as it would at its start, and says what is wrong. */
static int check(char *file)
{
    char *argv[] = {(char[]){"gridline-guard"}, (char[]){"--config"}, file, (char[]){"--check"}, NULL};
    say("can't run gridline-guard: %s", strerror(-program_become(argv[0], argv)));
    return EXIT_FAILED;
}

static int test(const struct rule_options *o, const char *file)
{
    struct rule_test_options t = o->test;
    t.file = file;
    t.gateway = o->guard.question.gateway;
    t.identity = o->guard.question.identity;
    t.timeout_ns = o->guard.question.timeout_ns;
    t.format = o->guard.question.format;
    return rule_test_run(&t);
}

/* ---------------------------------------------------------------- */

static int rule_run(void *state, struct operands words)
{
    const struct rule_options *o = state;
    const char *action = words.n ? words.v[0] : "list";
    if (strcmp(action, "list") == 0 && words.n <= 1)
        return list(o);
    if (strcmp(action, "show") == 0 && words.n == 2)
        return show(o, words.v[1]);
    if (strcmp(action, "check") == 0 && words.n == 2)
        return check(words.v[1]);
    if (strcmp(action, "test") == 0 && words.n == 2)
        return test(o, words.v[1]);
    say("write `rule list`, `rule show NAME`, `rule check FILE` or `rule test FILE`");
    return EXIT_USAGE;
}

static const struct option_spec table[] = {
    {'l', "long", OPTION_FLAG, NULL, offsetof(struct rule_options, is_long), "every column of the table"},
    {0, "from", OPTION_TIME, "TIME", offsetof(struct rule_options, test.from),
     "of `test`: from TIME on (default: a day before `--to`)"},
    {0, "to", OPTION_TIME, "TIME", offsetof(struct rule_options, test.to),
     "of `test`: to TIME (default: now)"},
    {0, "archive", OPTION_FILE, "DIR", offsetof(struct rule_options, test.archive),
     "of `test`: with the archive in this folder, whoever writes it (default: a gateway's). With "
     "`--gateway`, too: events are "
     "the gateway's, and what rules ask of it is asked of this folder"},
    {0, "summary", OPTION_FLAG, NULL, offsetof(struct rule_options, test.is_summary),
     "of `test`: a row for each rule in place of what it does"},
    {0, "all", OPTION_FLAG, NULL, offsetof(struct rule_options, test.is_all),
     "of `test`: a row for each rule behind what it does"},
    {0, "memory", OPTION_SIZE, "SIZE", offsetof(struct rule_options, test.memory),
     "of `test`: end rather than use more memory than that"},
    {0, "default-rules", OPTION_FLAG, NULL, offsetof(struct rule_options, test.with_defaults),
     "of `test`: the rules that a guard has by itself, too"},
    GUARD_OPTION,
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline rule list", "The rules of this host's guard, and how they do"},
    {"gridline rule show disk-full", "One of them, with its query"},
    {"gridline rule check guard.conf", "Is it in order, before a guard has it?"},
    {"gridline rule test guard.conf --from now-7d", "What would it have done in the last week?"},
    {NULL, NULL},
};

const struct verb verb_rule = {
    .name = "rule",
    .summary = "the rules of a guard",
    .operands = "list | show NAME | check FILE | test FILE",
    .description =
        "`list` has a row for each rule: how many faults of it fire and pend, how often it was evaluated and "
        "how often that failed, and why; `left_out` faults were too many. `show` prints all that is known of "
        "one, with its query. `check` reads a configuration of the guard as the guard would at its start: "
        "are all "
        "rules and actions of it in order? It runs nothing. `test` evaluates its rules over events of an "
        "archive as a guard would have done at that time, and prints what would have come of it: when a "
        "fault "
        "fires and clears, how long it lasted, and which actions would have been told (fire, repeat, "
        "escalate, clear). No action is run, whatever it is. Rules that are asked at the gateway are tested "
        "with `--archive`; those about the guard's or the gateway's own tables (host_health, workers) can't "
        "be. FILE `-` is standard input. Exit 4: a rule was not tested.\n"
        "Asks this host's guard, or, where none runs here, what this host's gateway has heard from guards.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct rule_options),
    .run = rule_run,
};
