/* SPDX-License-Identifier: Apache-2.0 */
/* gridline faults: what is wrong now, newest first. */
#include "base/clock.h"
#include "cmd/guard_ask.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "cmd/watch.h"

#include <inttypes.h>
#include <stdio.h>

struct faults_options {
    struct guard_options guard; /* first */
    const char *state, *rule, *host;
    bool is_all, is_long, is_watch;
};

static const char *const states[] = {"pending", "firing", "acknowledged", "clearing", "cleared", "all"};
enum { STATES = sizeof states / sizeof *states };

static const struct table_column columns[] = {
    {"fault", 16}, {"severity", 0}, {"state", 0},     {"since", 19}, {"rule", 0},
    {"host", 0},   {"summary", 80}, {"acked_by", 20}, {NULL, 0},
};

/* ---------------------------------------------------------------- how rows look */

/* Newest first; of one time by id, so that two rounds look alike. Times are ISO 8601 UTC: their order is that
 * of their bytes. */
static const struct table_order newest_first[] = {{"since", true}, {"fault", false}, {NULL, false}};

static const char *colour_of(const char *column, struct value v)
{
    static const struct {
        const char *word, *escape;
    } words[] = {{"critical", "\x1b[1;31m"}, {"error", "\x1b[31m"},   {"warning", "\x1b[33m"},
                 {"info", "\x1b[36m"},       {"cleared", "\x1b[32m"}, {"clearing", "\x1b[32m"}};
    bool is_it = strcmp(column, "severity") == 0 || strcmp(column, "state") == 0;
    for (size_t i = 0; is_it && i < sizeof words / sizeof *words; i++)
        if (value_is_text(v.type) && slice_eq_str(value_slice(v), words[i].word))
            return words[i].escape;
    return NULL;
}

/* ---------------------------------------------------------------- where there are none */

/* What is known of rules, for a word about an empty list. */
struct rules_seen {
    uint64_t n, failing;
    int64_t last_ns; /* how long ago the newest evaluation, or word of it, was; INT64_MAX = never */
};

/* A guard says when it will look again, a gateway when it was told. */
static int64_t ago_of(struct args row)
{
    struct value next = args_value(row, "next_ms");
    struct slice told = args_text(row, "told_at");
    uint64_t every_ms = args_uint(row, "every_ms", 0);
    int64_t at_ns, ago_ns = INT64_MAX;
    if (told.n && clock_parse_iso(told, &at_ns) == 0)
        ago_ns = clock_utc_ns() - at_ns;
    else if ((next.type == VALUE_INT || next.type == VALUE_UINT) && next.i < INT64_MAX / 1000000 / 2 &&
             args_uint(row, "evaluations", 0) && every_ms < INT64_MAX / 1000000 / 2 &&
             next.i > INT64_MIN / 1000000 / 2)
        ago_ns = ((int64_t)every_ms - next.i) * 1000000;
    return ago_ns < 0 ? 0 : ago_ns;
}

static bool note_rule(void *arg, const struct frame_answer *row)
{
    struct rules_seen *r = arg;
    struct slice why = args_text(row->args, "why");
    int64_t ago_ns = ago_of(row->args);
    r->n++;
    r->failing += why.n > 0;
    r->last_ns = ago_ns < r->last_ns ? ago_ns : r->last_ns;
    return false;
}

static void say_none(const struct faults_options *o, const struct rules_seen *r, bool is_guard)
{
    const char *what = o->state || o->is_all || o->rule || o->host ? "no such faults" : "no open faults";
    char ago[64] = "never evaluated";
    if (r->last_ns != INT64_MAX)
        (void)snprintf(ago, sizeof ago, "last %s %" PRId64 " s ago", is_guard ? "evaluated" : "heard of",
                       r->last_ns / NS_PER_S);
    say_plain("%s; %" PRIu64 " rule%s, %s", what, r->n, r->n == 1 ? "" : "s", ago);
    if (r->failing)
        say_plain("%" PRIu64 " of them can't be evaluated: `gridline rule list` says why", r->failing);
}

/* Nothing is wrong, or nobody looks: which? */
static int explain_none(struct guard_question *g, const struct faults_options *o)
{
    struct question *q = &g->question;
    struct rules_seen seen = {.last_ns = INT64_MAX};
    args_writer_reset(&q->args);
    q->on_row = note_rule;
    q->arg = &seen;
    int code = question_pages(q, "rules");
    if (code != EXIT_OK)
        return code;
    if (seen.n || g->is_guard) {
        say_none(o, &seen, g->is_guard);
        return EXIT_OK;
    }
    say("no guard is heard here, so nobody looks for faults; `gridline guard` starts one on this host");
    return EXIT_NOT_FOUND;
}

/* ---------------------------------------------------------------- */

static const char *const keys[] = {"fault", "guard", NULL};
static const char *const changes[] = {"state", "episode", "severity", "silenced", "hidden", "acked_by", NULL};
static const struct watch_options watched = {.keys = keys, .changes = changes};

/* An empty screen could mean anything. */
static void say_round(void *arg)
{
    const struct question *q = arg;
    if (q->rows == 0)
        say_plain("no such faults now");
}

static int check_state(const struct faults_options *o)
{
    if (o->state && o->is_all) {
        say("--all and --state do not go together; leave one out");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < STATES; i++)
        if (!o->state || strcmp(o->state, states[i]) == 0)
            return EXIT_OK;
    say("--state: there is no '%.40s'; there are pending, firing, acknowledged, clearing, cleared and all",
        o->state);
    return EXIT_USAGE;
}

static void add_choice(struct question *q, const struct faults_options *o)
{
    args_add_text(&q->args, "state", slice_str(o->is_all ? "all" : o->state ? o->state : ""));
    if (o->rule)
        args_add_text(&q->args, "rule", slice_str(o->rule));
    if (o->host)
        args_add_text(&q->args, "host", slice_str(o->host));
}

static int faults_run(void *state, struct operands none)
{
    const struct faults_options *o = state;
    struct guard_question g = {.question = {.may_be_none = true,
                                            .table_options = {.event = "fault",
                                                              .columns = columns,
                                                              .has_rest = o->is_long,
                                                              .order = newest_first,
                                                              .colour = colour_of}}};
    struct question *q = &g.question;
    (void)none; /* it takes none */
    int code = check_state(o);
    if (code == EXIT_OK)
        code = guard_open(&g, &o->guard, "gridline-faults");
    if (code == EXIT_OK) {
        add_choice(q, o);
        code = watch_run(q, "faults", o->is_watch, &watched, NULL, o->is_watch ? say_round : NULL, q);
        uint64_t rows = q->rows;
        code = question_finish(q, code);
        if (code == EXIT_OK && rows == 0 && !o->is_watch)
            code = explain_none(&g, o);
    }
    guard_close(&g);
    return code;
}

#define AT(member) offsetof(struct faults_options, member)

static const struct option_spec table[] = {
    {'a', "all", OPTION_FLAG, NULL, AT(is_all), "those that pend and those that have cleared, too"},
    {0, "state", OPTION_TEXT, "STATE", AT(state),
     "those that are `pending`, `firing`, `acknowledged`, `clearing` or `cleared`"},
    {0, "rule", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(rule), "of these rules"},
    {0, "host", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(host), "about these hosts"},
    {'l', "long", OPTION_FLAG, NULL, AT(is_long),
     "every column of the table: when it fired and cleared, episodes, why nobody was told, notes"},
    WATCH_OPTION(struct faults_options, is_watch),
    GUARD_OPTION,
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline faults", "What is wrong now, newest first"},
    {"gridline faults --watch", "And go on looking"},
    {"gridline faults --all --rule 'disk*' --format json",
     "Also what has cleared, of some rules, for a program"},
    {"gridline faults --gateway tls://gate.example.org", "What all guards of a site have told of"},
    {NULL, NULL},
};

const struct verb verb_faults = {
    .name = "faults",
    .summary = "what is wrong now",
    .operands = "",
    .description =
        "Lists faults: the rows that rules found, newest first. Asks this host's guard, or, where none runs "
        "here, what this host's gateway has heard from guards.\n"
        "A fault is `pending` until it has lasted as long as its rule says, then `firing`; `acknowledged` "
        "when "
        "somebody has said so (`gridline ack`); `clearing` when it is no longer seen, and `cleared` when "
        "that "
        "has lasted. Without --all or --state those that fire, are acknowledged or are clearing are listed.\n"
        "Colours on a terminal; `NO_COLOR` takes them away. Ends with 0 also if there is none, and with 3 if "
        "no guard is heard at all: then nobody looks.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct faults_options),
    .run = faults_run,
};
