/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/order.h"

#include "base/num.h"
#include "cmd/say.h"

#include <inttypes.h>

static const int64_t ns_per_ms = 1000000;

static const struct table_column columns[] = {{"host", 0}, {"answer", 0}, {NULL, 0}};

static int add_words(struct order *o, struct operands words, bool takes_settings)
{
    size_t n = 0; /* patterns move to the front */
    for (size_t i = 0; i < words.n; i++) {
        if (strchr(words.v[i], '=') && takes_settings) {
            int code = question_add_setting(&o->question, words.v[i]);
            if (code != EXIT_OK)
                return code;
        } else {
            words.v[n++] = words.v[i];
        }
    }
    o->has_choice = n > 0 || o->options->question.where;
    return question_add_patterns(&o->question, words.v, n);
}

static int add_ceiling(struct order *o)
{
    double ceiling;
    if (!o->options->ceiling)
        return EXIT_OK;
    if (num_parse_float(slice_str(o->options->ceiling), &ceiling) < 0 || !(ceiling >= 0)) {
        say("--ceiling: '%.40s' is not microseconds a second, as in --ceiling 500", o->options->ceiling);
        return EXIT_USAGE;
    }
    args_add(&o->question.args, SLICE_LIT("ceiling"), value_float(ceiling));
    return EXIT_OK;
}

int order_open(struct order *o, const struct order_options *options, const char *prog, struct operands words,
               bool takes_settings)
{
    *o = (struct order){.options = options, .prog = prog};
    o->question.options = &options->question;
    o->question.table_options =
        (struct table_options){.event = "answer", .columns = columns, .has_rest = true, .shows_all = true};
    int code = add_words(o, words, takes_settings);
    if (code == EXIT_OK)
        code = add_ceiling(o);
    if (code != EXIT_OK)
        return code;
    question_add_where(&o->question);
    if (options->lease_ns)
        args_add_uint(&o->question.args, "lease_ms", (uint64_t)(options->lease_ns / ns_per_ms));
    return EXIT_OK;
}

void order_close(struct order *o)
{
    question_close(&o->question);
}

int order_check_choice(const struct order *o)
{
    if (o->has_choice && o->options->is_all) {
        say("--all and a choice of workers do not go together; leave one out");
        return EXIT_USAGE;
    }
    if (o->has_choice || o->options->is_all)
        return EXIT_OK;
    say("which workers? Give a PATTERN of host names, --where EXPR, or --all");
    return EXIT_USAGE;
}

/* How many are meant? The same question, dry. Leaves the question as it was. */
static int count_meant(struct order *o, const char *verb, uint64_t *n)
{
    struct question *q = &o->question;
    size_t length = q->args.list.n;
    uint32_t count = q->args.n;
    args_add(&q->args, SLICE_LIT("dry_run"), value_bool(true));
    q->is_silent = true;
    int code = question_workers(q, verb);
    q->is_silent = false;
    *n = q->asked;
    q->args.list.n = length;
    q->args.n = count;
    return q->asked ? EXIT_OK : code;
}

static int confirm(struct order *o, const char *verb, const char *what)
{
    uint64_t n = 0;
    int code = count_meant(o, verb, &n);
    if (code != EXIT_OK)
        return code;
    if (say_confirm("%s of %" PRIu64 " worker%s?", what, n, n == 1 ? "" : "s"))
        return EXIT_OK;
    say("not done: %s of %" PRIu64 " worker%s needs a yes at the terminal, or --yes", what, n,
        n == 1 ? "" : "s");
    return EXIT_FAILED;
}

int order_run(struct order *o, const char *verb, const char *what)
{
    struct question *q = &o->question;
    int code = question_open(q, &o->options->question, o->prog);
    if (code == EXIT_OK && what && !o->options->is_yes && !o->options->is_dry)
        code = confirm(o, verb, what);
    if (code != EXIT_OK)
        return code;
    if (o->options->is_dry)
        args_add(&q->args, SLICE_LIT("dry_run"), value_bool(true));
    return question_finish(q, question_workers(q, verb));
}
