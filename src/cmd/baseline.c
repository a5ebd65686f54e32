/* SPDX-License-Identifier: Apache-2.0 */
/* gridline baseline: named stretches of time that runs are compared with (NL-7). At a gateway they are set by
 * control, and are there once its SQL says so; in a folder they are set directly. */
#include "archive/view.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "event/predicate.h"
#include "net/ask_query.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>

enum { LOOK_AGAIN_MS = 100, PATIENCE_MS = 10000, COLUMNS = 5 };

struct baseline_options {
    struct question_options question; /* first */
    const char *archive, *label;
    struct option_time from, to;
};

struct baseline_run {
    const struct baseline_options *options;
    const char *name; /* NULL: all are listed */
    struct table_options report;
    struct table *table;
    struct args_writer row;
    uint64_t rows;
};

/* ---------------------------------------------------------------- rows */

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

static void add_row(struct baseline_run *b, const struct baseline *one)
{
    args_writer_reset(&b->row);
    args_add_text(&b->row, "baseline", one->name);
    add_time(&b->row, "from", one->from_ns);
    add_time(&b->row, "to", one->to_ns);
    args_add_text(&b->row, "where", one->where);
    args_add_text(&b->row, "label", one->label);
    table_add(b->table, args_of(&b->row), SLICE_LIT(""));
    b->rows++;
}

/* ---------------------------------------------------------------- of a gateway */

static bool on_wait(void *arg)
{
    (void)arg; /* stopping is of the process */
    return stop_asked();
}

/* Calls fn with each that there is now. */
static int each_of_gateway(struct baseline_run *b,
                           void (*fn)(struct baseline_run *b, const struct baseline *one))
{
    const struct question_options *o = &b->options->question;
    const struct ask_options ask = {.gateway = o->gateway,
                                    .identity = o->identity,
                                    .prog = "gridline-baseline",
                                    .timeout_ns = o->timeout_ns,
                                    .on_wait = on_wait};
    const struct ask_query_options query = {
        .text = SLICE_LIT("SELECT name, label, condition, from_time, to_time FROM baselines ORDER BY name")};
    struct ask_query *q = NULL;
    struct diag why = {0};
    int r = ask_query_open(&ask, &query, &q, &why);
    while (r == 0 && (r = ask_query_next(q, INT64_MAX, &why)) > 0) {
        const struct value *v = ask_query_row(q);
        if (ask_query_columns(q) != COLUMNS || v[3].type != VALUE_INT || v[4].type != VALUE_INT) {
            r = diag_set(&why, E_PROTO, 0, "the gateway does not answer as one of this version does");
            break;
        }
        const struct baseline one = {.name = value_slice(v[0]),
                                     .label = value_slice(v[1]),
                                     .where = value_slice(v[2]),
                                     .from_ns = v[3].i,
                                     .to_ns = v[4].i};
        fn(b, &one);
        r = 0;
    }
    ask_query_close(q);
    if (r < 0 && r != -EINTR)
        say("%s", why.message[0] ? why.message : err_text(r));
    return r;
}

static void note_same(struct baseline_run *b, const struct baseline *one)
{
    const struct baseline_options *o = b->options;
    if (!slice_eq_str(one->name, b->name))
        return;
    bool is_same = one->from_ns == o->from.at_ns && one->to_ns == o->to.at_ns &&
                   slice_eq_str(one->label, o->label ? o->label : "") &&
                   slice_eq_str(one->where, o->question.where ? o->question.where : "");
    b->rows += is_same || !o->from.is_set;
}

/* Until it is as it was asked for: on the archive's disk. */
static int wait_for_gateway(struct baseline_run *b, bool is_removal)
{
    int64_t patience_ns =
        b->options->question.timeout_ns ? b->options->question.timeout_ns : PATIENCE_MS * INT64_C(1000000);
    int64_t until = clock_mono_ns() + patience_ns;
    for (;;) {
        b->rows = 0;
        int r = each_of_gateway(b, note_same);
        if (r < 0)
            return r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
        if ((b->rows == 0) == is_removal)
            return EXIT_OK;
        if (clock_mono_ns() > until || stop_asked())
            break;
        (void)poll(NULL, 0, LOOK_AGAIN_MS); /* the time is looked at again */
    }
    say("the archive has not taken it yet; the gateway's log may say why");
    return EXIT_FAILED;
}

static int tell_gateway(struct baseline_run *b, bool is_removal)
{
    const struct baseline_options *o = b->options;
    struct question q = {.table_options = b->report, .may_be_none = true};
    int code = question_open(&q, &o->question, "gridline-baseline");
    args_add_text(&q.args, "name", slice_str(b->name));
    if (!is_removal) {
        args_add_text(&q.args, "label", slice_str(o->label ? o->label : ""));
        args_add_text(&q.args, "where", slice_str(o->question.where ? o->question.where : ""));
        args_add(&q.args, SLICE_LIT("from"), value_int(o->from.at_ns));
        args_add(&q.args, SLICE_LIT("to"), value_int(o->to.at_ns));
    }
    if (code == EXIT_OK)
        code = question_pages(&q, is_removal ? "baseline.remove" : "baseline.set");
    question_close(&q);
    return code == EXIT_OK ? wait_for_gateway(b, is_removal) : code;
}

static int remove_of_gateway(struct baseline_run *b)
{
    b->rows = 0;
    int r = each_of_gateway(b, note_same);
    if (r < 0)
        return r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
    if (b->rows)
        return tell_gateway(b, true);
    say("there is no baseline '%s'", b->name);
    return EXIT_NOT_FOUND;
}

/* ---------------------------------------------------------------- in a folder */

static int report_folder(const char *dir, int r, const struct diag *why)
{
    if (r == -EBUSY)
        say("%s is written by another process: ask its gateway (--gateway), or stop that first", dir);
    else if (r < 0)
        say("%s: %s", dir, why->message[0] ? why->message : err_text(r));
    return r == 0 ? EXIT_OK : r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
}

static int list_folder(struct baseline_run *b)
{
    struct view_reader *reader = NULL;
    struct view *v = NULL;
    struct diag why = {0};
    int r = view_reader_create(NULL, b->options->archive, 1 << 20, &reader, &why);
    if (r == 0)
        r = view_take(reader, &v);
    for (size_t i = 0; r == 0 && i < view_baselines(v); i++) {
        struct baseline one = view_baseline_at(v, i);
        add_row(b, &one);
    }
    view_release(v);
    view_reader_destroy(reader);
    return report_folder(b->options->archive, r, &why);
}

static int change_folder(struct baseline_run *b, bool is_removal)
{
    const struct baseline_options *o = b->options;
    struct archive *a = NULL;
    struct diag why = {0};
    const struct baseline one = {.name = slice_str(b->name),
                                 .label = slice_str(o->label ? o->label : ""),
                                 .where = slice_str(o->question.where ? o->question.where : ""),
                                 .from_ns = o->from.at_ns,
                                 .to_ns = o->to.at_ns};
    int r = archive_open(&(struct archive_options){.dir = o->archive}, &a, &why);
    if (r == 0)
        r = is_removal ? archive_remove_baseline(a, one.name) : archive_set_baseline(a, &one);
    archive_close(a);
    if (r == -ENOENT && is_removal && a) {
        say("there is no baseline '%s'", b->name);
        return EXIT_NOT_FOUND;
    }
    return report_folder(o->archive, r, &why);
}

/* ---------------------------------------------------------------- the verb */

static int check_where(const char *where)
{
    struct predicate *p = NULL;
    struct diag why = {0};
    int r = where ? predicate_compile(slice_str(where), clock_utc_ns(), &p, &why) : 0;
    predicate_destroy(p);
    if (r < 0)
        say("--where, column %u: %s", (unsigned)why.col, why.message);
    return r;
}

static int list(struct baseline_run *b)
{
    b->table =
        table_format(b->options->question.format, &b->report.encoding) ? table_create(&b->report) : NULL;
    if (!b->table)
        return EXIT_USAGE;
    int code = EXIT_OK;
    if (b->options->archive)
        code = list_folder(b);
    else {
        int r = each_of_gateway(b, add_row);
        code = r == 0 ? EXIT_OK : r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
    }
    if (code == EXIT_OK && table_finish(b->table) < 0)
        code = EXIT_FAILED;
    return code;
}

static int add(struct baseline_run *b)
{
    const struct baseline_options *o = b->options;
    if (!o->from.is_set || !o->to.is_set || o->from.at_ns >= o->to.at_ns) {
        say("from when to when? --from TIME --to TIME, as in --from now-1h --to now");
        return EXIT_USAGE;
    }
    if (check_where(o->question.where) < 0)
        return EXIT_USAGE;
    return o->archive ? change_folder(b, false) : tell_gateway(b, false);
}

static int choose(struct baseline_run *b, struct operands words)
{
    const char *action = words.n ? words.v[0] : "list";
    bool is_list = strcmp(action, "list") == 0, is_add = strcmp(action, "add") == 0;
    if (is_list && words.n <= 1)
        return list(b);
    if (words.n != 2 || (!is_add && strcmp(action, "remove") != 0)) {
        say("write `baseline add NAME`, `baseline list` or `baseline remove NAME`");
        return EXIT_USAGE;
    }
    b->name = words.v[1];
    if (is_add)
        return add(b);
    return b->options->archive ? change_folder(b, true) : remove_of_gateway(b);
}

static const struct table_column columns[] = {{"baseline", 0}, {"from", 19},  {"to", 19},
                                              {"where", 40},   {"label", 60}, {NULL, 0}};

static int baseline_run(void *state, struct operands words)
{
    struct baseline_run b = {.options = state,
                             .report = {.event = "baseline", .columns = columns, .shows_all = true}};
    if (b.options->archive && b.options->question.gateway) {
        say("--archive and --gateway do not go together; leave one out");
        return EXIT_USAGE;
    }
    int code = choose(&b, words);
    table_destroy(b.table);
    args_writer_fini(&b.row);
    return code;
}

static const struct option_spec table[] = {
    {0, "from", OPTION_TIME, "TIME", offsetof(struct baseline_options, from), "of add: it begins then"},
    {0, "to", OPTION_TIME, "TIME", offsetof(struct baseline_options, to), "of add: it ends then"},
    {'w', "where", OPTION_TEXT, "EXPR", offsetof(struct baseline_options, question.where),
     "of add: only events for which EXPR is true, in the baseline and in what is compared with it"},
    {0, "label", OPTION_TEXT, "TEXT", offsetof(struct baseline_options, label), "of add: what it is"},
    {0, "archive", OPTION_FILE, "DIR", offsetof(struct baseline_options, archive),
     "of the archive in this folder, which no gateway may have for add and remove"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline baseline add friday --from 2026-11-13T08:00 --to 2026-11-13T18:00 --label 'before the "
     "upgrade'",
     "A day that was good"},
    {"gridline baseline list", "Those there are"},
    {"gridline sql \"SELECT * FROM deviations('friday', 'now-1h', 'now')\"",
     "The hops and metrics of the last hour that are not as they were then"},
    {NULL, NULL},
};

const struct verb verb_baseline = {
    .name = "baseline",
    .summary = "named times that others are compared with",
    .operands = "add NAME | list | remove NAME",
    .description = "A baseline is a stretch of time under a name, kept in the archive's catalogue, with a "
                   "label and perhaps a "
                   "condition. `add` with a name that there is takes its place.\n"
                   "In SQL the table `baselines` has them, and `deviations(NAME, FROM, TO)` lists what "
                   "deviates from one: hops "
                   "(two events of one id that follow each other) and metrics whose mean or 95th percentile "
                   "is more than three "
                   "standard deviations away, with both values and the ratio.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct baseline_options),
    .run = baseline_run,
};
