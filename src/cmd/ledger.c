/* SPDX-License-Identifier: Apache-2.0 */
/* gridline ledger: what a gateway took, and where it went. */
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
    if (s->has_table) {
        strbuf_add_char(&text, '\n');
        (void)file_write_all(STDOUT_FILENO, strbuf_slice(&text)); /* the table before failed the same way */
    } else {
        say_plain("%s", text.p ? text.p : "");
    }
    strbuf_fini(&text);
    bool has_table = s->has_table;
    *s = (struct sums){.has_table = has_table, .wrong = s->wrong};
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
        code = watch_run(&q, "ledger", o->is_watch, &watched, add_account, print_sums, &sums);
        code = question_finish(&q, code);
    }
    question_close(&q);
    return code == EXIT_OK && sums.wrong ? EXIT_FAILED : code;
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
                   "The last line has the sums. Ends with 1 if an account does not add up.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct ledger_options),
    .run = ledger_run,
};
