/* SPDX-License-Identifier: Apache-2.0 */
/* page: any program that tells somebody. It has the data on its standard input, and in its environment
 * (program.h). As JSON, one object in one line:
 *
 *     {"host":"c0-0","summary":"disk full",...}
 *
 * Every value is a string. What is no UTF-8 in it becomes U+FFFD, and then "NAME.base64" has the bytes. Of
 * values with the same name the first counts. */
#include "actuator/program.h"
#include "actuator/quote.h"
#include "actuator/template.h"
#include "base/text.h"

#include <errno.h>

enum { JSON_MAX = 3 << 20 }; /* within CHILD_INPUT_MAX */

enum input { INPUT_JSON, INPUT_TEXT, INPUT_NONE, INPUTS };
static const char *const input_names[INPUTS] = {"json", "text", "none"};

struct page {
    const char *program, *input, *text;
    struct parameter_list args;
};

static const struct parameter page_options[] = {
    {SETTING_STRING, "program", NULL, offsetof(struct page, program), "the program to run; no shell is used",
     true, true},
    {SETTING_LIST, "args", NULL, offsetof(struct page, args), "the arguments, each one as it is", false,
     false},
    {SETTING_STRING, "input", "json", offsetof(struct page, input),
     "what it reads: `json` (all data), `text`, or `none`", true, false},
    {SETTING_STRING, "text", "{severity} {kind} {rule}: {summary}\n", offsetof(struct page, text),
     "what it reads with `input=text`", false, false},
    {0},
};

/* "NAME.base64":"..." */
static void add_bytes(struct strbuf *out, struct slice name, struct slice value)
{
    struct strbuf longer = {0};
    strbuf_add_slice(&longer, name);
    strbuf_add_str(&longer, ".base64");
    strbuf_add_char(out, ',');
    quote_json(out, strbuf_slice(&longer));
    strbuf_add_str(out, ":\"");
    text_add_base64(out, value);
    strbuf_add_char(out, '"');
    out->failed = out->failed || strbuf_failed(&longer);
    strbuf_fini(&longer);
}

static void add_member(struct strbuf *out, struct slice name, struct slice value, size_t value_max)
{
    struct strbuf cut = {0};
    bool is_whole = value.n <= value_max;
    if (!is_whole) {
        strbuf_add(&cut, value.p, value_max);
        strbuf_printf(&cut, "[... %zu bytes more]", value.n - value_max);
    }
    quote_json(out, name);
    strbuf_add_char(out, ':');
    quote_json(out, is_whole ? value : strbuf_slice(&cut));
    if (is_whole && !text_is_utf8(value))
        add_bytes(out, name, value);
    out->failed = out->failed || strbuf_failed(&cut);
    strbuf_fini(&cut);
}

/* Cuts the longest values until it fits, as texts do (template.h). */
static void make_json(const struct actuator_env *env, struct strbuf *out)
{
    for (size_t max = JSON_MAX;; max /= 2) {
        const struct act_datum *d = env->data;
        const char *before = "{";
        strbuf_reset(out);
        for (size_t i = 0; i < env->n_data; i++) {
            if (template_find(d, env->n_data, d[i].name) != &d[i])
                continue;
            strbuf_add_str(out, before);
            add_member(out, d[i].name, d[i].value, max);
            before = ",";
        }
        strbuf_add_str(out, before[0] == '{' ? "{}\n" : "}\n");
        if (out->n <= JSON_MAX || max == 0)
            return;
    }
}

static int prepare(const struct page *g, const struct actuator_env *env, struct strbuf *json,
                   struct arena *arena, struct program *p, struct diag *why)
{
    unsigned input = 0;
    while (input < INPUTS && strcmp(g->input, input_names[input]) != 0)
        input++;
    if (input == INPUTS)
        return diag_set(why, -EINVAL, 0, "page: `input` is `json`, `text` or `none`, not \"%s\"", g->input);
    if (!g->program[0])
        return diag_set(why, -EINVAL, 0, "page: `program` is empty");
    if (input == INPUT_JSON)
        make_json(env, json);
    p->argv = program_argv(&(struct parameter_list){&g->program, 1}, &g->args, arena);
    p->has_input = input != INPUT_NONE;
    p->input = input == INPUT_JSON ? strbuf_slice(json) : slice_str(g->text);
    return p->argv && !strbuf_failed(json) ? 0 : -ENOMEM;
}

static int page_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    struct strbuf json = {0};
    struct arena arena = {0};
    struct program p = {0};
    int r = prepare(state, env, &json, &arena, &p, why);
    if (r == 0)
        r = program_plan(&p, env, out);
    strbuf_fini(&json);
    arena_fini(&arena);
    return r;
}

static int page_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    struct strbuf json = {0};
    struct arena arena = {0};
    struct program p = {0};
    struct diag why = {0};
    int r = prepare(state, env, &json, &arena, &p, &why);
    if (r < 0)
        strbuf_add_str(&report->text, why.message);
    else
        r = program_run(&p, env, report);
    strbuf_fini(&json);
    arena_fini(&arena);
    return r;
}

const struct actuator_ops actuator_page = {
    .name = "page",
    .summary = "any program that tells somebody, with the data on its input",
    .options = page_options,
    .is_groupable = true,
    .state_size = sizeof(struct page),
    .plan = page_plan,
    .run = page_run,
};
