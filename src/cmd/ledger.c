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

enum { REASONS_MAX = 32, WRONG_MAX = 5 };

struct reason {
    char name[32];
    uint64_t n;
};

/* One hop: taken = passed + filtered + duplicate + the sum of dropped + queued. The line that is printed and
 * the check whether it adds up are made of these numbers, and of nothing else. */
struct hop {
    const char *name;
    uint64_t accounts, taken, passed, filtered, duplicate, queued;
    struct reason dropped[REASONS_MAX];
    size_t n_reasons;
    uint64_t n_wrong;    /* accounts that do not add up */
    struct strbuf wrong; /* the first WRONG_MAX of them */
};

struct sums {
    struct hop senders, gateway;
    uint64_t lost, retried;
    uint64_t accounts, open, at_least; /* open: without a goodbye; what these had at least */
    bool has_table;
    struct ask *ask; /* for what is not an account's */
    bool has_gap;    /* some of what was passed is not in the archive */
    bool is_wrong; /* of this round or an earlier one */
};

static uint64_t number(const struct frame_answer *row, const char *name)
{
    return args_uint(row->args, name, 0);
}

/* Columns of a row that are drops at the gateway. */
static const char *const gateway_reasons[] = {"refused", "too_old", "too_new", "no_schema"};
/* Columns sender_X that are no reason of a drop. */
static const char *const sender_sums[] = {"taken", "passed", "queued", "dropped", "filtered"};

static bool is_one_of(struct slice name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq_str(name, names[i]))
            return true;
    return false;
}

/* Past REASONS_MAX they are all in the last. */
static void add_reason(struct hop *h, struct slice name, uint64_t n)
{
    size_t i = 0;
    while (i < h->n_reasons && !slice_eq_str(name, h->dropped[i].name))
        i++;
    if (i == REASONS_MAX)
        i--;
    if (i == h->n_reasons) {
        h->n_reasons++;
        (void)snprintf(h->dropped[i].name, sizeof h->dropped[i].name, "%.*s",
                       SLICE_ARG(name)); /* cut short */
    }
    h->dropped[i].n += n;
}

/* Numbers for people: 14,046. */
static void put_number(struct strbuf *out, uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            strbuf_add_char(out, ',');
        strbuf_add_char(out, digits[i]);
    }
}

static void put_difference(struct strbuf *out, uint64_t taken, uint64_t known)
{
    put_number(out, taken > known ? taken - known : known - taken);
    strbuf_add_str(out, taken > known ? " taken are nowhere" : " more than were taken");
}

/* Adds an account to a hop, whose columns have that prefix. */
static void add_to_hop(struct hop *h, const struct frame_answer *row, const char *prefix, uint64_t dropped)
{
    char name[64];
    const char *const parts[] = {"passed", "filtered", "duplicate", "queued"};
    uint64_t *sums[] = {&h->passed, &h->filtered, &h->duplicate, &h->queued};
    uint64_t known = dropped;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, parts[i]);
        *sums[i] += number(row, name);
        known += number(row, name);
    }
    (void)snprintf(name, sizeof name, "%staken", prefix);
    uint64_t taken = number(row, name);
    h->taken += taken;
    h->accounts++;
    if (taken == known || h->n_wrong++ >= WRONG_MAX)
        return;
    struct slice host = args_text(row->args, "host"), producer = args_text(row->args, "producer");
    strbuf_printf(&h->wrong, "\n    %.*s%sproducer %.*s, epoch %" PRIu64 ", %.*s: ", SLICE_ARG(host),
                  host.n ? ", " : "", (int)(producer.n < 8 ? producer.n : 8), producer.p,
                  number(row, "epoch"), SLICE_ARG(args_text(row->args, "class")));
    put_difference(&h->wrong, taken, known);
}

static void add_account(void *arg, const struct frame_answer *row)
{
    struct sums *s = arg;
    uint64_t dropped = 0, sender_dropped = 0;
    struct args rest = row->args;
    struct arg a;
    while (args_next(&rest, &a)) {
        bool is_sender = slice_starts(a.name, SLICE_LIT("sender_"));
        struct slice name = is_sender ? slice_from(a.name, 7) : a.name;
        bool is_reason =
            is_sender ? !is_one_of(name, sender_sums, sizeof sender_sums / sizeof *sender_sums)
                      : is_one_of(name, gateway_reasons, sizeof gateway_reasons / sizeof *gateway_reasons);
        uint64_t n = is_reason && (a.value.type == VALUE_UINT || a.value.type == VALUE_INT) ? a.value.u : 0;
        if (n == 0)
            continue;
        *(is_sender ? &sender_dropped : &dropped) += n;
        add_reason(is_sender ? &s->senders : &s->gateway, name, n);
    }
    add_to_hop(&s->gateway, row, "", dropped);
    if (args_value(row->args, "sender_taken").type != VALUE_NONE)
        add_to_hop(&s->senders, row, "sender_", sender_dropped);
    s->accounts++;
    s->lost += number(row, "lost");
    s->retried += number(row, "retried");
    if (slice_eq_str(args_text(row->args, "state"), "open")) {
        s->open++;
        s->at_least += number(row, "at_least");
    }
}

static bool put_hop(struct strbuf *out, const struct hop *h)
{
    uint64_t dropped = 0;
    for (size_t i = 0; i < h->n_reasons; i++)
        dropped += h->dropped[i].n;
    const struct {
        const char *before, *name;
        uint64_t n;
    } parts[] = {{"", "taken", h->taken},          {" = ", "passed", h->passed},
                 {" + ", "filtered", h->filtered}, {" + ", "duplicate", h->duplicate},
                 {" + ", "dropped", dropped},      {" + ", "queued", h->queued}};
    strbuf_printf(out, "%s: ", h->name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        strbuf_add_str(out, parts[i].before);
        put_number(out, parts[i].n);
        strbuf_printf(out, " %s", parts[i].name);
        for (size_t k = 0;
             parts[i].n && slice_eq_str(slice_str(parts[i].name), "dropped") && k < h->n_reasons; k++) {
            strbuf_printf(out, "%s%s ", k ? ", " : " (", h->dropped[k].name);
            put_number(out, h->dropped[k].n);
            strbuf_add_str(out, k + 1 == h->n_reasons ? ")" : "");
        }
    }
    uint64_t known = h->passed + h->filtered + h->duplicate + dropped + h->queued;
    bool adds_up = h->n_wrong == 0 && h->taken == known;
    strbuf_add_str(out, adds_up ? "; adds up: yes\n" : "; adds up: NO");
    if (adds_up)
        return true;
    if (h->taken != known) {
        strbuf_add_str(out, ", ");
        put_difference(out, h->taken, known);
    }
    strbuf_printf(out, ", in %" PRIu64 " of %" PRIu64 " accounts:", h->n_wrong, h->accounts);
    strbuf_add_slice(out, strbuf_slice(&h->wrong));
    strbuf_printf(out, "%s\n", h->n_wrong > WRONG_MAX ? "\n    ..." : "");
    return false;
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
    bool adds_up = true;
    if (s->senders.accounts)
        adds_up = put_hop(&text, &s->senders);
    adds_up = put_hop(&text, &s->gateway) && adds_up;
    put_number(&text, s->lost);
    strbuf_add_str(&text, " lost between sender and gateway");
    if (s->retried) {
        strbuf_add_str(&text, "; ");
        put_number(&text, s->retried);
        strbuf_add_str(&text, " turned back for now and sent again");
    }
    if (s->open) {
        strbuf_printf(&text,
                      "\n%" PRIu64 " of %" PRIu64 " producers %s still connected or ended without a goodbye; "
                      "totals may grow (",
                      s->open, s->accounts, s->open == 1 ? "is" : "are");
        put_number(&text, s->at_least);
        strbuf_add_str(&text, " so far)");
    }
    add_archive(s, &text);
    if (s->has_table) {
        strbuf_add_char(&text, '\n');
        (void)file_write_all(STDOUT_FILENO, strbuf_slice(&text)); /* the table before failed the same way */
    } else {
        say_plain("%s", text.p ? text.p : "");
    }
    strbuf_fini(&text);
    strbuf_fini(&s->senders.wrong);
    strbuf_fini(&s->gateway.wrong);
    *s = (struct sums){.senders.name = s->senders.name,
                       .gateway.name = s->gateway.name,
                       .has_table = s->has_table,
                       .ask = s->ask,
                       .has_gap = s->has_gap,
                       .is_wrong = s->is_wrong || !adds_up};
}

static const struct table_column columns[] = {
    {"host", 0},    {"producer", 8},  {"epoch", 0},          {"class", 0},   {"state", 0},     {"taken", 0},
    {"passed", 0},  {"duplicate", 0}, {"refused", 0},        {"too_old", 0}, {"too_new", 0},   {"no_schema", 0},
    {"queued", 0},  {"retried", 0},   {"lost", 0},           {"sender_dropped", 0}, {"tail", 0}, {NULL, 0},
};

static const char *const keys[] = {"producer", "epoch", NULL};
static const struct watch_options watched = {.keys = keys};

static int ledger_run(void *state, struct operands patterns)
{
    const struct ledger_options *o = state;
    struct question q = {
        .table_options = {.event = "ledger", .columns = columns, .has_rest = o->is_long, .shows_all = true}};
    struct sums sums = {.senders.name = "at the senders", .gateway.name = "at the gateway"};
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
    return code == EXIT_OK && (sums.is_wrong || sums.has_gap) ? EXIT_FAILED : code;
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
    .description =
        "Lists the accounts of a gateway: one for each producer and epoch, for events and for "
        "samples. With PATTERN only those of workers whose host name matches.\n"
        "`taken` is what came, counted each time; it is passed (in the journal), duplicate, "
        "dropped (refused, too_old, too_new, or no_schema: samples of an unknown stream) or queued. "
        "`retried` was turned back for now (a full or busy disk) and is sent again by its sender: "
        "it is not dropped, and in no sum. `lost` was sent and did not come. `sender dropped` is "
        "what the sender says that it had to drop itself; the sums below the table and --long "
        "have its reasons. A producer that did not end with a goodbye is `open`: how much it had "
        "is not known, only that it was at least so much.\n"
        "Below the table are the sums of what is in it, of each hop: at the senders, as they "
        "report it, and at the gateway. If a sum does not add up, the line says by how much and in "
        "which accounts, and the command ends with 1; so it does if something was passed and is not in the archive because "
        "the journal could not be read.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct ledger_options),
    .run = ledger_run,
};
