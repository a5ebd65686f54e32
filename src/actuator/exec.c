/* SPDX-License-Identifier: Apache-2.0 */
/* exec: a program, or a script that is fixed in the configuration. Data reaches it as arguments and in its
 * environment (program.h), never in the program's name or in the script's text.
 *
 * A script is run as INTERPRETER... SCRIPT "gridline" ARGS...: with /bin/sh -c it has the arguments as $1, $2
 * and so on, however they look, for the word before them ends the interpreter's options. */
#include "actuator/program.h"

#include <errno.h>

struct exec {
    const char *program, *script;
    struct parameter_list interpreter, args;
};

static const struct parameter exec_options[] = {
    {SETTING_STRING, "program", NULL, offsetof(struct exec, program), "the program to run; no shell is used",
     true, false},
    {SETTING_STRING, "script", NULL, offsetof(struct exec, script),
     "in place of `program`: a script; data is in its arguments (`$1`, ...) and environment", true, false},
    {SETTING_LIST, "interpreter", "/bin/sh -c", offsetof(struct exec, interpreter), "what runs `script`",
     true, false},
    {SETTING_LIST, "args", NULL, offsetof(struct exec, args), "the arguments, each one as it is", false,
     false},
    {0},
};

static int make_argv(const struct exec *e, struct arena *arena, const char *const **out)
{
    const char *words[2 + 32];
    size_t n = 0;
    for (size_t i = 0; e->script && i < e->interpreter.n && n < 32; i++)
        words[n++] = e->interpreter.v[i];
    words[n++] = e->script ? e->script : e->program;
    if (e->script)
        words[n++] = "gridline";
    *out = program_argv(&(struct parameter_list){words, n}, &e->args, arena);
    return *out ? 0 : -ENOMEM;
}

static int check(const struct exec *e, struct diag *why)
{
    if (!e->program == !e->script)
        return diag_set(why, -EINVAL, 0, "exec: give `program` or `script`, %s",
                        e->program ? "not both" : "one of them");
    if (e->program && !e->program[0])
        return diag_set(why, -EINVAL, 0, "exec: `program` is empty");
    if (e->script && (e->interpreter.n == 0 || e->interpreter.n > 32))
        return diag_set(why, -EINVAL, 0, "exec: `interpreter` has 1 to 32 words");
    return 0;
}

static int exec_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct exec *e = state;
    struct arena arena = {0};
    struct program p = {0};
    int r = check(e, why);
    if (r == 0)
        r = make_argv(e, &arena, &p.argv);
    if (r == 0)
        r = program_plan(&p, env, out);
    arena_fini(&arena);
    return r;
}

static int exec_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct exec *e = state;
    struct arena arena = {0};
    struct program p = {0};
    struct diag why = {0};
    int r = check(e, &why);
    if (r < 0)
        strbuf_add_str(&report->text, why.message);
    if (r == 0)
        r = make_argv(e, &arena, &p.argv);
    if (r == 0)
        r = program_run(&p, env, report);
    arena_fini(&arena);
    return r;
}

const struct actuator_ops actuator_exec = {
    .name = "exec",
    .summary = "a program, or a script fixed in the configuration",
    .options = exec_options,
    .state_size = sizeof(struct exec),
    .plan = exec_plan,
    .run = exec_run,
};
