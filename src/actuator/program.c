/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/program.h"

#include "actuator/quote.h"
#include "actuator/template.h"
#include "base/child.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#define PREFIX "GRIDLINE_"

enum { FIXED_MAX = 4, NAME_MAX_BYTES = 128, LOOK_MS = 200 };

/* Variables that gridline's own programs read, and that a mark is kept in (base/strays.h): without PREFIX. */
static const char *const reserved[] = {"CHILD", "CLOCK",   "CONTROL", "DEST", "HELPER", "IDENTITY",
                                       "LEVEL", "MODULES", "QUEUE",   "RING", "SYSLOG", "ACT"};

static bool is_reserved(struct slice name)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (slice_eq_str(name, reserved[i]))
            return true;
    return false;
}

static void add_name(struct strbuf *out, struct slice name)
{
    size_t at = out->n;
    for (size_t i = 0; i < name.n && i < NAME_MAX_BYTES; i++) {
        char c = name.p[i], l = slice_lower(c);
        bool is_letter = l >= 'a' && l <= 'z';
        strbuf_add_char(out, is_letter ? (char)(l - 'a' + 'A') : c >= '0' && c <= '9' ? c : '_');
    }
    if (!strbuf_failed(out) && is_reserved(slice_of(out->p + at, out->n - at)))
        strbuf_add_char(out, '_');
}

static bool is_there(const char *const *all, size_t n, struct slice variable)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(all[i], variable.p, variable.n) == 0)
            return true;
    return false;
}

static int keep(const char **all, size_t *n, struct slice variable, struct arena *arena)
{
    const char *copy;
    int r = setting_parse(SETTING_STRING, variable, arena, &copy);
    if (r == 0)
        all[(*n)++] = copy;
    return r;
}

static int add_ours(const char **all, size_t *n, const char *name, const char *otherwise, struct arena *arena)
{
    struct strbuf s = {0};
    const char *value = getenv(name);
    value = value && value[0] ? value : otherwise;
    if (!value)
        return 0;
    strbuf_printf(&s, "%s=%s", name, value);
    int r = strbuf_failed(&s) ? -ENOMEM : keep(all, n, strbuf_slice(&s), arena);
    strbuf_fini(&s);
    return r;
}

/* As long as a variable may be. */
static void add_value(struct strbuf *s, struct slice value, size_t value_max)
{
    size_t before = s->n;
    template_add_value(s, value, value_max);
    while (s->n > TEMPLATE_TEXT_MAX && value_max > 0) {
        value_max /= 2;
        s->n = before;
        template_add_value(s, value, value_max);
    }
}

/* Those of the data; E_LIMIT: with values of that length it is too much. */
static int add_data(const char **all, size_t *n, const struct actuator_env *env, size_t value_max,
                    struct arena *arena)
{
    struct strbuf s = {0};
    size_t first = *n, sum = 0;
    int r = 0;
    for (size_t i = 0; i < env->n_data && r == 0; i++) {
        strbuf_reset(&s);
        strbuf_add_str(&s, PREFIX);
        add_name(&s, env->data[i].name);
        strbuf_add_char(&s, '=');
        if (env->data[i].name.n == 0 || is_there(all + first, *n - first, strbuf_slice(&s)))
            continue;
        add_value(&s, env->data[i].value, value_max);
        sum += s.n + sizeof(char *);
        r = sum > TEMPLATE_ALL_MAX ? E_LIMIT : 0;
        if (r == 0)
            r = strbuf_failed(&s) ? -ENOMEM : keep(all, n, strbuf_slice(&s), arena);
    }
    strbuf_fini(&s);
    return r;
}

const char *const *program_environment(const struct actuator_env *env, struct arena *arena)
{
    const char **all = arena_alloc(arena, (env->n_data + FIXED_MAX + 1) * sizeof *all);
    size_t n = 0;
    if (!all)
        return NULL;
    all[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    all[n++] = "LANG=C.UTF-8";
    if (add_ours(all, &n, "HOME", "/", arena) < 0 || add_ours(all, &n, "TZ", NULL, arena) < 0)
        return NULL;
    size_t fixed = n, max = TEMPLATE_TEXT_MAX;
    int r;
    while ((r = add_data(all, &n, env, max, arena)) == E_LIMIT && max > 0) {
        n = fixed;
        max /= 2;
    }
    all[n] = NULL; /* with values of no length a limit leaves out the last of thousands */
    return r < 0 && r != E_LIMIT ? NULL : all;
}

const char *const *program_argv(const struct parameter_list *first, const struct parameter_list *more,
                                struct arena *arena)
{
    size_t n = 0;
    const char **argv = arena_alloc(arena, (first->n + more->n + 1) * sizeof *argv);
    if (!argv)
        return NULL;
    for (size_t i = 0; i < first->n; i++)
        argv[n++] = first->v[i];
    for (size_t i = 0; i < more->n; i++)
        argv[n++] = more->v[i];
    argv[n] = NULL;
    return argv;
}

int program_plan(const struct program *p, const struct actuator_env *env, struct strbuf *out)
{
    struct arena arena = {0};
    const char *const *variables = program_environment(env, &arena);
    strbuf_add_str(out, "run ");
    quote_argv(out, p->argv);
    strbuf_add_str(out, "\n");
    for (size_t i = 0; variables && variables[i]; i++) {
        strbuf_add_str(out, "env ");
        quote_word(out, slice_str(variables[i]));
        strbuf_add_str(out, "\n");
    }
    if (p->has_input) {
        strbuf_add_str(out, "input ");
        quote_word(out, p->input);
        strbuf_add_str(out, "\n");
    }
    arena_fini(&arena);
    return variables ? 0 : -ENOMEM;
}

/* How it may end by itself, and how long it has then, so that all is over at the deadline. */
static int set_times(struct child_options *o, const struct actuator_env *env, int64_t now_ns)
{
    if (env->deadline_ns == INT64_MAX)
        return 0;
    int64_t left = env->deadline_ns - now_ns;
    if (left <= 0)
        return -ETIMEDOUT;
    o->grace_ns = left / 4 < CHILD_GRACE ? left / 4 + 1 : CHILD_GRACE;
    o->max_run_ns = left > o->grace_ns ? left - o->grace_ns : 1;
    return 0;
}

static void take_output(struct child *c, struct actuator_report *report)
{
    struct slice s = child_output(c);
    size_t room = ACTUATOR_OUTPUT_MAX - report->output.n;
    strbuf_add(&report->output, s.p, s.n < room ? s.n : room);
    child_consume(c, s.n);
}

static bool is_cancelled(const struct actuator_env *env)
{
    return env->is_cancelled && env->is_cancelled(env->arg);
}

static void run_to_end(struct child *c, const struct actuator_env *env, struct actuator_report *report)
{
    while (child_pump(c, clock_mono_ns())) {
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        take_output(c, report);
        if (is_cancelled(env))
            child_stop(c, clock_mono_ns());
        (void)poll(&p, 1, LOOK_MS); /* interrupted or not: we look again */
    }
    take_output(c, report);
}

static int judge(struct child *c, struct actuator_report *report)
{
    const struct child_end *end = child_end(c);
    struct diag why = {0};
    report->exit_code = end->code;
    if (end->reason == CHILD_BY_ITSELF && end->code == 0 && !end->has_left) {
        strbuf_add_str(&report->text, "ended with code 0");
        return 0;
    }
    int r = child_explain(c, &why);
    strbuf_add_str(&report->text, why.message);
    if (end->reason == CHILD_STOPPED)
        return -ECANCELED;
    return end->reason == CHILD_BY_ITSELF && end->code == PROGRAM_AGAIN ? -EAGAIN : r;
}

static int start(const struct program *p, const struct actuator_env *env, struct child **out,
                 struct diag *why)
{
    struct arena arena = {0};
    const int64_t now = clock_mono_ns();
    struct child_options o = {.argv = p->argv,
                              .env = program_environment(env, &arena),
                              .env_is_all = true,
                              .has_input = p->has_input};
    int r = o.env ? set_times(&o, env, now) : -ENOMEM;
    if (r == 0)
        r = child_start(&o, now, out, why);
    arena_fini(&arena);
    return r;
}

int program_run(const struct program *p, const struct actuator_env *env, struct actuator_report *report)
{
    struct child *c = NULL;
    struct diag why = {0};
    if (p->has_input && p->input.n > CHILD_INPUT_MAX)
        return E_LIMIT;
    int r = is_cancelled(env) ? -ECANCELED : start(p, env, &c, &why);
    if (r < 0) {
        strbuf_add_str(&report->text, why.message[0] ? why.message : err_text(r));
        return r;
    }
    if (p->has_input) {
        r = child_write(c, p->input);
        child_end_input(c);
    }
    if (r == -ENOMEM)
        child_stop(c, clock_mono_ns());
    run_to_end(c, env, report); /* one that does not read (-EPIPE) says by its code how it went */
    r = r == -ENOMEM ? r : judge(c, report);
    child_destroy(c);
    (void)child_settle(CHILD_GRACE); /* what could not be killed has been told */
    return r;
}
