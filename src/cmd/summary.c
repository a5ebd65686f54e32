/* SPDX-License-Identifier: Apache-2.0 */
/* gridline summary: averages, minima and maxima of streams, as a gateway keeps them. */
#include "base/num.h"
#include "cmd/question.h"
#include "cmd/verbs.h"

#include <math.h>
#include <stdio.h>

struct summary_options {
    struct question_options question;
    const char *events, *hosts, *fields, *windows;
    bool is_long;
};

struct summary_run {
    struct question question;
    struct args_writer row; /* as the table has it */
};

static const struct table_column columns[] = {
    {"host", 0}, {"event", 0}, {"keys", 0}, {"field", 0}, {"unit", 0}, {"window", 0}, {"count", 0},
    {"min", 0},  {"mean", 0},  {"max", 0},  {"last", 0},  {"rate", 0}, {NULL, 0},
};

static void add_text(struct question *q, const char *name, const char *text)
{
    if (text)
        args_add_text(&q->args, name, slice_str(text));
}

/* As many digits as people read, but none before the point is lost: a mean lies between minimum and maximum.
 */
static struct value shortened(struct value v)
{
    char text[64];
    bool is_large = fabs(v.f) >= 1e4 && fabs(v.f) < 1e15;
    int n = snprintf(text, sizeof text, is_large ? "%.2f" : "%.6g", v.f);
    double shorter;
    return num_parse_float(slice_of(text, (size_t)n), &shorter) == 0 ? value_float(shorter) : v;
}

/* Of a table; the other formats have them as they are. */
static bool on_row(void *arg, const struct frame_answer *row)
{
    struct summary_run *r = arg;
    struct args args = row->args;
    struct arg a;
    if (r->question.table_options.encoding)
        return true;
    args_writer_reset(&r->row);
    while (args_next(&args, &a)) {
        bool is_computed = slice_eq_str(a.name, "mean") || slice_eq_str(a.name, "sum");
        args_add(&r->row, a.name, is_computed ? shortened(a.value) : a.value);
    }
    table_add(r->question.table, args_of(&r->row), row->text);
    return false;
}

static int summary_run(void *state, struct operands none)
{
    const struct summary_options *o = state;
    struct summary_run r = {.question = {.table_options = {.event = "summary",
                                                           .columns = columns,
                                                           .has_rest = o->is_long,
                                                           .shows_all = true},
                                         .on_row = on_row,
                                         .arg = &r}};
    struct question *q = &r.question;
    (void)none; /* it takes none */
    int code = question_open(q, &o->question, "gridline-summary");
    if (code == EXIT_OK) {
        add_text(q, "event", o->events);
        add_text(q, "host", o->hosts);
        add_text(q, "field", o->fields);
        add_text(q, "window", o->windows);
        question_add_where(q);
        code = question_finish(q, question_pages(q, "summary"));
    }
    question_close(q);
    args_writer_fini(&r.row);
    return code;
}

#define AT(member) offsetof(struct summary_options, member)

static const struct option_spec table[] = {
    {'e', "event", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(events), "of events of these names"},
    {0, "host", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(hosts),
     "of these hosts; of events about another one (`target`), of that"},
    {'f', "field", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(fields), "only these fields"},
    {0, "window", OPTION_TEXT, "TIME[,TIME...]", AT(windows),
     "over these times, as `1m,1h`, of those that the gateway keeps (default: all)"},
    QUESTION_OPTION(
        'w', "where", OPTION_TEXT, "EXPR", where,
        "only where EXPR is true: a WHERE clause of SQL on `host`, `prog`, `name`, the key fields, "
        "`field` and `window`, as in `device = 'sda'`"),
    {'l', "long", OPTION_FLAG, NULL, AT(is_long),
     "every column of the table: from and to, sum, first, age of the last event"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline summary --event load --window 10m", "The load of all hosts over ten minutes"},
    {"gridline summary --event disk --host 'node*' --where \"device = 'sda'\" --long",
     "One disk of some hosts"},
    {"gridline summary --event network --field 'rx*' --window 1m --format json",
     "Rates of counters, for a program"},
    {NULL, NULL},
};

const struct verb verb_summary = {
    .name = "summary",
    .summary = "averages, minima and maxima of the last minutes",
    .operands = "",
    .description =
        "Lists what a gateway keeps of each stream (host, program, event, key fields), numeric field and "
        "window: "
        "count, min, mean, max, sum, first, last, and of counters the rate a second. Nothing is read from an "
        "archive.\n"
        "A window goes in six steps: a row is about exactly the events with `from` <= time < `to`, where "
        "`to` is the "
        "end of the step that is running (of `1m`: 10 seconds) and `from` is the window's length before. "
        "Events "
        "that come late count where they belong. A counter that went back is a gap, not a rate. What has no "
        "event in "
        "a window has no row. After its start a gateway knows only what has come since.\n"
        "`late` and `ahead` are events of that stream that were outside of the window when they came.\n"
        "Ends with 3 if there is none of that.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct summary_options),
    .run = summary_run,
};
