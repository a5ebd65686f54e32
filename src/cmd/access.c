/* SPDX-License-Identifier: Apache-2.0 */
/* gridline access: what an identity may do at a gateway. */
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

struct access_options {
    struct question_options question;
};

static const struct table_column columns[] = {
    {"action", 0}, {"may", 0}, {"hosts", 0}, {"events", 0}, {"targets", 0},
    {"hide", 0},   {"row", 0}, {"who", 0},   {"from", 0},   {NULL, 0},
};

static int access_run(void *state, struct operands who)
{
    const struct access_options *o = state;
    struct question q = {.table_options = {.event = "access", .columns = columns}};
    int code = question_open(&q, &o->question, "gridline-access");
    if (code == EXIT_OK) {
        if (who.n)
            args_add_text(&q.args, "who", slice_str(who.v[0]));
        code = question_finish(&q, question_pages(&q, "access"));
    }
    if (code == EXIT_OK && !q.table_options.encoding)
        say_plain("of each action the first row that fits decides; where none fits: no");
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline access", "What you may do at this host's gateway"},
    {"gridline access operator:ann", "What somebody else may, for those who may give orders"},
    {"gridline access token:dash --format json", "And by an HTTP token, as rows for a program"},
    {NULL, NULL},
};

const struct verb verb_access = {
    .name = "access",
    .summary = "who may do what at a gateway",
    .operands = "[WHO]",
    .description =
        "Lists what you may do at a gateway, or what WHO may: `owner`, `local`, `local:UID`, `insecure`, "
        "`agent:NAME`, `gateway:NAME`, `operator:NAME`, `token:NAME` or `nobody`. Only those who may give "
        "orders "
        "can ask about others, and see which row of the configuration says so.\n"
        "Of each action the rows are in the order in which they are looked at: the first that fits host, "
        "event and "
        "target decides, yes or no. Where none fits the answer is no. A row `see less` hides fields "
        "whichever row "
        "decides. docs/access.md has the rules.",
    .operands_max = 1,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct access_options),
    .run = access_run,
};
