/* SPDX-License-Identifier: Apache-2.0 */
/* gridline silence: no actions about some faults for a time. */
#include "base/clock.h"
#include "base/num.h"
#include "cmd/guard_ask.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

#include <inttypes.h>

struct silence_options {
    struct guard_options guard; /* first; question.where is what else they are like */
    const char *rule, *host, *note, *end;
    int64_t for_ns;
    struct option_time until;
    bool is_list, is_all;
};

static const struct table_column columns[] = {
    {"id", 0},     {"rule", 40}, {"host", 40}, {"where", 40}, {"from", 19},
    {"until", 19}, {"by", 20},   {"note", 60}, {NULL, 0},
};

static int list(struct guard_question *g)
{
    if (!g->is_guard) {
        say("a gateway does not know silences; ask the guard that has them: --guard unix:PATH on its host");
        return EXIT_NOT_FOUND;
    }
    g->question.may_be_none = true;
    return question_finish(&g->question, question_pages(&g->question, "silences"));
}

/* "12", and for a gateway "12@HOST": guards count for themselves. */
static int end(struct guard_question *g, const char *which)
{
    const char *at = strchr(which, '@');
    uint64_t id;
    struct slice number = at ? slice_of(which, (size_t)(at - which)) : slice_str(which);
    if (num_parse_uint(number, &id) < 0 || id == 0 || (at && !at[1])) {
        say("--end: '%.40s' is no silence; `gridline silence --list` has their numbers", which);
        return EXIT_USAGE;
    }
    if (!g->is_guard && !at) {
        say("--end: by a gateway a silence is NUMBER@HOST, of the guard on that host");
        return EXIT_USAGE;
    }
    args_add_uint(&g->question.args, "id", id);
    if (!g->is_guard)
        args_add_text(&g->question.args, "guard", slice_str(at + 1));
    guard_add_by(g);
    return guard_order(g, "unsilence", NULL);
}

static void add_text(struct args_writer *w, const char *name, const char *text)
{
    if (text)
        args_add_text(w, name, slice_str(text));
}

/* With --format: the number that --end wants, for a program. */
static int print_begun(struct guard_question *g, uint64_t id, struct slice until)
{
    struct args_writer row = {0};
    if (id)
        args_add_uint(&row, "id", id);
    args_add_text(&row, "until", until);
    table_add(g->question.table, args_of(&row), SLICE_LIT(""));
    args_writer_fini(&row);
    return question_finish(&g->question, EXIT_OK);
}

static int begin(struct guard_question *g, const struct silence_options *o, int64_t until_ns)
{
    struct args_writer *args = &g->question.args;
    char until[CLOCK_TEXT_MAX];
    uint64_t id = 0;
    add_text(args, "rule", o->rule);
    add_text(args, "host", o->host);
    add_text(args, "where", o->guard.question.where);
    add_text(args, "note", o->note);
    args_add(args, SLICE_LIT("until"), value_int(until_ns));
    guard_add_by(g);
    int code = guard_order(g, "silence", &id);
    size_t n = clock_print_iso(until, until_ns);
    if (code == EXIT_OK && o->guard.question.format)
        return print_begun(g, id, slice_of(until, n));
    if (code == EXIT_OK && id)
        say_plain("silence %" PRIu64 " until %.*s", id, (int)n, until);
    else if (code == EXIT_OK)
        say_plain("guards are told: silence until %.*s", (int)n, until);
    return code;
}

/* What is wrong with the words; *until_ns if nothing is. */
static int check(const struct silence_options *o, int64_t *until_ns)
{
    bool has_choice = o->rule || o->host || o->guard.question.where;
    if ((o->is_list || o->end) && (has_choice || o->is_all || o->for_ns || o->until.is_set || o->note)) {
        say("--list and --end go with nothing else");
        return EXIT_USAGE;
    }
    if (o->is_list || o->end)
        return o->is_list && o->end ? EXIT_USAGE : EXIT_OK;
    if (has_choice == o->is_all) {
        say("what is to be silent? Give --rule, --host or --where, or --all for everything");
        return EXIT_USAGE;
    }
    if ((o->for_ns != 0) == o->until.is_set) {
        say("how long? Give --for TIME, as in 2h, or --until TIME");
        return EXIT_USAGE;
    }
    *until_ns = o->until.is_set ? o->until.at_ns : clock_utc_ns() + o->for_ns;
    if (*until_ns <= clock_utc_ns()) {
        say("that time is over");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int silence_run(void *state, struct operands none)
{
    const struct silence_options *o = state;
    struct guard_question g = {
        .question = {.table_options = {.event = "silence", .columns = columns, .shows_all = true}}};
    int64_t until_ns = 0;
    (void)none; /* it takes none */
    int code = check(o, &until_ns);
    if (code == EXIT_OK)
        code = guard_open(&g, &o->guard, "gridline-silence");
    if (code == EXIT_OK)
        code = o->is_list ? list(&g) : o->end ? end(&g, o->end) : begin(&g, o, until_ns);
    guard_close(&g);
    return code;
}

#define AT(member) offsetof(struct silence_options, member)

static const struct option_spec table[] = {
    {0, "rule", OPTION_TEXT, "PATTERN", AT(rule), "faults of these rules"},
    {0, "host", OPTION_TEXT, "PATTERN", AT(host), "faults about these hosts"},
    {'w', "where", OPTION_TEXT, "NAME=VALUE...", AT(guard.question.where),
     "faults that have these values, by blanks: `mount=/scratch device=sdb`"},
    {'a', "all", OPTION_FLAG, NULL, AT(is_all), "all faults"},
    {0, "for", OPTION_DURATION, "TIME", AT(for_ns), "so long, from now on: `2h`"},
    {0, "until", OPTION_TIME, "TIME", AT(until), "until then"},
    {'n', "note", OPTION_TEXT, "TEXT", AT(note), "why"},
    {'l', "list", OPTION_FLAG, NULL, AT(is_list), "those that there are, with their numbers"},
    {0, "end", OPTION_TEXT, "NUMBER[@HOST]", AT(end), "end that one now; by a gateway: of the guard on HOST"},
    GUARD_OPTION,
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline silence --host 'rack3-*' --for 2h --note 'new switch'", "Nobody is called about these"},
    {"gridline silence --rule disk-full --where mount=/scratch --until 2026-12-24T18:00",
     "One rule, one place"},
    {"gridline silence --list", "What is silent, by whom and why"},
    {"gridline silence --end 3", "Enough"},
    {NULL, NULL},
};

const struct verb verb_silence = {
    .name = "silence",
    .summary = "no actions about some faults, for a time",
    .operands = "",
    .description =
        "Holds back the actions of faults, not the watching: they are listed, and marked as silenced. A "
        "fault "
        "that still fires when the silence ends is told then; one that was told before is still called off "
        "when "
        "it clears.\n"
        "Asks this host's guard. Where none runs here, or with --gateway, the gateway gives the order to all "
        "guards that it reaches, in your name as it knows you. With --format its number is printed, and "
        "until "
        "when it lasts.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct silence_options),
    .run = silence_run,
};
