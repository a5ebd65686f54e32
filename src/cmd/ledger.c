/* SPDX-License-Identifier: Apache-2.0 */
/* gridline ledger: what a gateway took, and where it went. */
#include "base/clock.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "cmd/watch.h"

#include <inttypes.h>
#include <unistd.h>

struct ledger_options {
    struct question_options question;
    bool is_long, is_watch;
};

/* Of all accounts; taken = passed + duplicate + dropped + queued. A gateway filters nothing when it takes
 * events. */
struct sums {
    uint64_t taken, passed, filtered, duplicate, dropped, queued, lost;
    uint64_t accounts, wrong; /* wrong: their own counts do not add up */
    uint64_t open, at_least;  /* epochs that have not ended, and what they had at least */
    bool has_table;
    struct ask *ask; /* for what is not an account's */
    bool has_gap;    /* some of what was passed is not in the archive */
};

static uint64_t number(const struct frame_answer *row, const char *name)
{
    return args_uint(row->args, name, 0);
}

static void add_account(void *arg, const struct frame_answer *row)
{
    struct sums *s = arg;
    uint64_t dropped =
        number(row, "refused") + number(row, "too_old") + number(row, "too_new") + number(row, "no_schema");
    s->accounts++;
    s->taken += number(row, "taken");
    s->passed += number(row, "passed");
    s->duplicate += number(row, "duplicate");
    s->dropped += dropped;
    s->queued += number(row, "queued");
    s->lost += number(row, "lost");
    s->wrong += number(row, "taken") !=
                number(row, "passed") + number(row, "duplicate") + dropped + number(row, "queued");
    if (slice_eq_str(args_text(row->args, "state"), "open")) {
        s->open++;
        s->at_least += number(row, "at_least");
    }
}

static bool adds_up(const struct sums *s)
{
    return s->wrong == 0 && s->taken == s->passed + s->filtered + s->duplicate + s->dropped + s->queued;
}

static int take_nothing(void *arg, const struct frame_answer *row)
{
    (void)arg, (void)row; /* status has no rows */
    return 0;
}

/* What was passed and then could not be read from the journal by the archive. Only those who may see
 * everything are told; for others the line is left out. */
static void add_archive(struct sums *s, struct strbuf *text)
{
    const struct ask_question q = {.verb = SLICE_LIT("status"), .silence_ns = 10 * NS_PER_S};
    struct ask_end end;
    struct diag why;
    if (ask_run(s->ask, &q, take_nothing, NULL, &end, &why) < 0 || end.status != CONTROL_DONE)
        return;
    uint64_t events = args_uint(end.args, "archive.lost_events", 0);
    uint64_t records = args_uint(end.args, "archive.lost_records", 0);
    s->has_gap = events || records;
    if (s->has_gap)
        strbuf_printf(
            text,
            "\npassed, but NOT in the archive: %" PRIu64 " events and %" PRIu64
            " whole records that can't be read from the journal; SELECT * FROM archive_lost says which",
            events, records);
}

/* Behind a table it belongs to it; other formats have rows only, so people read it on standard error. */
static void print_sums(void *arg)
{
    struct sums *s = arg;
    struct strbuf text = {0};
    strbuf_printf(&text,
                  "%" PRIu64 " taken = %" PRIu64 " passed + %" PRIu64 " filtered + %" PRIu64
                  " duplicate + %" PRIu64 " dropped + %" PRIu64 " queued; adds up: %s; %" PRIu64
                  " lost on the way",
                  s->taken, s->passed, s->filtered, s->duplicate, s->dropped, s->queued,
                  adds_up(s) ? "yes" : "NO", s->lost);
    if (s->open)
        strbuf_printf(&text, "; %" PRIu64 " of %" PRIu64 " epochs open: at least %" PRIu64, s->open,
                      s->accounts, s->at_least);
    add_archive(s, &text);
    if (s->has_table) {
        strbuf_add_char(&text, '\n');
        (void)file_write_all(STDOUT_FILENO, strbuf_slice(&text)); /* the table before failed the same way */
    } else {
        say_plain("%s", text.p ? text.p : "");
    }
    strbuf_fini(&text);
    *s = (struct sums){.has_table = s->has_table, .ask = s->ask, .has_gap = s->has_gap, .wrong = s->wrong};
}

static const struct table_column columns[] = {
    {"host", 0},   {"producer", 8},  {"epoch", 0},          {"class", 0},   {"state", 0},   {"taken", 0},
    {"passed", 0}, {"duplicate", 0}, {"refused", 0},        {"too_old", 0}, {"too_new", 0}, {"no_schema", 0},
    {"queued", 0}, {"lost", 0},      {"sender_dropped", 0}, {"tail", 0},    {NULL, 0},
};

static const char *const keys[] = {"producer", "epoch", NULL};
static const struct watch_options watched = {.keys = keys};

static int ledger_run(void *state, struct operands patterns)
{
    const struct ledger_options *o = state;
    struct question q = {
        .table_options = {.event = "ledger", .columns = columns, .has_rest = o->is_long, .shows_all = true}};
    struct sums sums = {0};
    int code = question_open(&q, &o->question, "gridline-ledger");
    if (code == EXIT_OK)
        code = question_add_patterns(&q, patterns.v, patterns.n);
    if (code == EXIT_OK) {
        sums.has_table = !q.table_options.encoding;
        sums.ask = q.ask;
        code = watch_run(&q, "ledger", o->is_watch, &watched, add_account, print_sums, &sums);
        code = question_finish(&q, code);
    }
    question_close(&q);
    return code == EXIT_OK && (sums.wrong || sums.has_gap) ? EXIT_FAILED : code;
}

static const struct option_spec table[] = {
    {'l', "long", OPTION_FLAG, NULL, offsetof(struct ledger_options, is_long),
     "every column of the table: the highest number, and the sender's own counts by reason"},
    {0, "watch", OPTION_FLAG, NULL, offsetof(struct ledger_options, is_watch),
     "go on until stopped: on a terminal the table is drawn anew every two seconds, elsewhere rows are "
     "printed when they "
     "change"},
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline ledger", "Everything that was taken, and whether it adds up"},
    {"gridline ledger 'node*' --long", "Of some workers, with what they say themselves"},
    {"gridline ledger --format csv", "For a spreadsheet; the summary is on standard error"},
    {NULL, NULL},
};

const struct verb verb_ledger = {
    .name = "ledger",
    .summary = "what was taken, passed, dropped, and lost on the way",
    .operands = "[PATTERN...]",
    .description = "Lists the accounts of a gateway: one for each producer and epoch, for events and for "
                   "samples. With PATTERN only those "
                   "of workers whose host name matches.\n"
                   "`taken` is what came, counted each time; it is passed (in the journal), duplicate, "
                   "dropped (refused, too_old, too_new, or no_schema: "
                   "samples of an unknown stream) or queued. `lost` was sent and did not come. `sender "
                   "dropped` is what the sender "
                   "says that it had to drop itself. An epoch that did not end with a goodbye is `open`: how "
                   "much it had is not known, "
                   "only that it was at least so much.\n"
                   "Behind the rows are the sums, and what was passed and is not in the archive because the "
                   "journal could not be read. Ends with 1 if there is such, or if an account does not add "
                   "up.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct ledger_options),
    .run = ledger_run,
};
