/* SPDX-License-Identifier: Apache-2.0 */
/* gridline ack: somebody has seen it and takes care: no more repeats and escalations of these faults. */
#include "cmd/guard_ask.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

struct ack_options {
    struct guard_options guard; /* first */
    const char *note;
    bool is_undo;
};

static const struct table_column columns[] = {
    {"fault", 16}, {"rule", 0}, {"host", 0}, {"order", 0}, {NULL, 0}};

/* With --format: a row for each that was ordered, for a program. */
static void print_done(struct guard_question *g, const struct ack_options *o, const struct guard_fault *f)
{
    struct args_writer row = {0};
    args_add_text(&row, "fault", slice_str(f->id));
    args_add_text(&row, "rule", slice_str(f->rule));
    args_add_text(&row, "host", slice_str(f->host));
    args_add_text(&row, "order", slice_str(o->is_undo ? "unack" : "ack"));
    table_add(g->question.table, args_of(&row), SLICE_LIT(""));
    args_writer_fini(&row);
}

static int ack_one(struct guard_question *g, const struct ack_options *o, const struct guard_fault *f)
{
    args_add_text(&g->question.args, "fault", slice_str(f->id));
    guard_add_by(g);
    if (o->note && !o->is_undo)
        args_add_text(&g->question.args, "note", slice_str(o->note));
    int code = guard_order(g, o->is_undo ? "unack" : "ack", NULL);
    if (code == EXIT_OK && o->guard.question.format)
        print_done(g, o, f);
    else if (code == EXIT_OK)
        say_plain("%s  %s:%s %s", f->id, f->rule, f->host,
                  o->is_undo ? "is no longer acknowledged" : "is acknowledged");
    return code;
}

/* Each word by itself: what is wrong with one does not keep the others from it. */
static int ack_all(struct guard_question *g, const struct ack_options *o, const struct guard_faults *faults,
                   struct operands words)
{
    size_t done = 0;
    int worst = EXIT_OK;
    for (size_t i = 0; i < words.n; i++) {
        int code;
        const struct guard_fault *f = guard_faults_find(faults, words.v[i], &code);
        if (f)
            code = ack_one(g, o, f);
        done += code == EXIT_OK;
        worst = code == EXIT_OK ? worst : code;
    }
    return done && worst != EXIT_OK ? EXIT_PARTLY : worst;
}

static int ack_run(void *state, struct operands words)
{
    const struct ack_options *o = state;
    struct guard_question g = {.question = {.table_options = {.event = "fault", .columns = columns}}};
    struct guard_faults faults = {0};
    int code = guard_open(&g, &o->guard, "gridline-ack");
    if (code == EXIT_OK)
        code = guard_faults_ask(&g, "", &faults);
    if (code == EXIT_OK)
        code = question_finish(&g.question, ack_all(&g, o, &faults, words));
    guard_faults_fini(&faults);
    guard_close(&g);
    return code;
}

static const struct option_spec table[] = {
    {'n', "note", OPTION_TEXT, "TEXT", offsetof(struct ack_options, note), "why, or what is being done"},
    {0, "undo", OPTION_FLAG, NULL, offsetof(struct ack_options, is_undo), "take it back"},
    GUARD_OPTION,
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline ack disk-full:node7 --note 'ordered a disk'", "By rule and host"},
    {"gridline ack 4f2a", "By the first digits of its id, if no other begins so"},
    {"gridline ack 4f2a --undo", "Not yet, after all"},
    {NULL, NULL},
};

const struct verb verb_ack = {
    .name = "ack",
    .summary = "say that somebody takes care of a fault",
    .operands = "FAULT...",
    .description =
        "Acknowledges faults that fire: they are not repeated and not escalated any more; that they clear is "
        "still told. A FAULT is an id of `gridline faults`, at least 4 digits of one, or RULE:HOST.\n"
        "Asks this host's guard. Where none runs here, or with --gateway, the gateway gives the order to all "
        "guards that it reaches, in your name as it knows you; what became of it is to be seen by "
        "`gridline faults`. With --format a row is printed for each that was ordered.\n"
        "Ends with 3 if there is no such fault, 4 if some of several could be acknowledged, 5 if you may "
        "not.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct ack_options),
    .run = ack_run,
};
