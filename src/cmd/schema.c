/* SPDX-License-Identifier: Apache-2.0 */
/* gridline schema: the class of a field, number or text: shown, and set by hand. */
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "event/class.h"

struct schema_options {
    struct question_options question;
};

static const struct table_column columns[] = {
    {"field", 0}, {"class", 0}, {"by", 0}, {"numbers", 0}, {"texts", 0}, {"quoted", 0}, {"type", 0}, {"hash", 8}, {NULL, 0},
};

static int ask(const struct question_options *o, char *const *words, const char *class)
{
    struct question q = {.table_options = {.event = "schema.field", .columns = columns}, .is_order = class != NULL};
    int code = question_open(&q, o, "gridline-schema");
    args_add_text(&q.args, "event", slice_str(words[0]));
    if (class) {
        args_add_text(&q.args, "field", slice_str(words[1]));
        args_add_text(&q.args, "class", slice_str(class));
    } else {
        args_add_uint(&q.args, "fields", 1);
    }
    if (code == EXIT_OK)
        code = question_finish(&q, question_pages(&q, class ? "schema.set" : "schemas"));
    question_close(&q);
    return code;
}

static int schema_run(void *state, struct operands words)
{
    const struct schema_options *o = state;
    uint8_t class;
    if (strcmp(words.v[0], "show") == 0 && words.n == 2)
        return ask(&o->question, words.v + 1, NULL);
    if (strcmp(words.v[0], "set") != 0 || words.n != 4) {
        say("%s", "write gridline schema set EVENT FIELD number|text, or gridline schema show EVENT");
        return EXIT_USAGE;
    }
    if (class_parse(slice_str(words.v[3]), &class) < 0) {
        say("'%.60s' is no class; write number or text", words.v[3]);
        return EXIT_USAGE;
    }
    return ask(&o->question, words.v + 1, words.v[3]);
}

static const struct option_spec table[] = {QUESTION_OPTIONS, {0}};

static const struct example examples[] = {
    {"gridline schema show rpc.call", "Which columns of its table hold numbers, which text, and why"},
    {"gridline schema set rpc.call latency number", "The column latency holds numbers, for old data too"},
    {NULL, NULL},
};

const struct verb verb_schema = {
    .name = "schema",
    .summary = "show and set which columns hold numbers and which text",
    .operands = "show EVENT | set EVENT FIELD number|text",
    .description =
        "A field of an event name has a class. Class number: its column holds numbers or NULL, and `\"FIELD:text\"` the text "
        "of every value. Class text: its column holds the text of every value, and `\"FIELD:number\"` the number or NULL. The "
        "class is declared by a sensor, given by the field's name (ids and versions are text), or decided once after the first "
        "1,000 values or the first hour, and never changes by itself.\n"
        "`show` prints the class of each field of EVENT, who says so (`by`), and how many values were numbers, text, and quoted "
        "numbers. `set` sets it by hand, for old data too; it takes the right to control. `classes` in the gateway's "
        "configuration does the same.\n"
        "Ends with 3 if there is no such event or field.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 4,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct schema_options),
    .run = schema_run,
};
