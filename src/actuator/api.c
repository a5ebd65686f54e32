/* SPDX-License-Identifier: Apache-2.0 */
/* The installed API over the runner. Values become the texts that people would write. */
#include "gridline/actuator.h"

#include "actuator/actuator.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 30000, ATTEMPT_MAX = 64 };

/* What a call is made of. */
struct question {
    const struct actuator_ops *ops;
    struct arena arena;
    const struct parameter_setting *settings;
    size_t n_settings;
    struct actuator_env env;
    char attempt[ATTEMPT_MAX];
};

const char *gridline_actuator_name(size_t i)
{
    for (size_t k = 0; actuator_list[k]; k++)
        if (k == i)
            return actuator_list[k]->name;
    return NULL;
}

const char *gridline_actuator_summary(const char *actuator)
{
    const struct actuator_ops *ops = actuator_find(slice_str(actuator));
    return ops ? ops->summary : NULL;
}

int gridline_actuator_traits(const char *actuator)
{
    const struct actuator_ops *ops = actuator_find(slice_str(actuator));
    if (!ops)
        return -ENOENT;
    return (ops->is_repeatable ? GRIDLINE_ACTUATOR_REPEATABLE : 0) |
           (ops->is_groupable ? GRIDLINE_ACTUATOR_GROUPABLE : 0);
}

int gridline_actuator_options(const char *actuator, gridline_actuator_option_fn fn, void *arg)
{
    const struct actuator_ops *ops = actuator_find(slice_str(actuator));
    int r = ops ? 0 : -ENOENT;
    for (const struct parameter *o = ops ? ops->options : NULL; o && o->name && r == 0; o++)
        r = fn(arg, o->name, setting_type_name(o->type), o->default_text, o->is_needed, o->is_program,
               o->help);
    return r;
}

static int find(const char *actuator, const struct actuator_ops **out, struct diag *why)
{
    struct text_nearest near = text_nearest_of(slice_str(actuator));
    *out = actuator_find(slice_str(actuator));
    if (*out)
        return 0;
    for (size_t i = 0; actuator_list[i]; i++)
        text_nearest_try(&near, actuator_list[i]->name);
    return diag_set(why, -ENOENT, 0, "there is no actuator '%.60s'%s%s%s", actuator,
                    near.best ? "; did you mean " : "", near.best ? near.best : "", near.best ? "?" : "");
}

/* As num.h prints them; text and bytes as they are. */
static int to_text(const struct gridline_value *v, struct arena *arena, struct slice *out)
{
    char text[NUM_TEXT_MAX];
    switch (v->type) {
    case 'i':
        *out = slice_of(text, num_print_int(text, v->v.i));
        break;
    case 'u':
        *out = slice_of(text, num_print_uint(text, v->v.u));
        break;
    case 'f':
        *out = slice_of(text, num_print_float(text, v->v.f));
        break;
    case 'b':
        *out = v->v.u ? SLICE_LIT("true") : SLICE_LIT("false");
        return 0;
    case 't':
    case 'x':
        *out = v->n == (size_t)-1 ? slice_str(v->v.p) : slice_of(v->n ? v->v.p : "", v->n);
        return 0;
    default:
        return -EINVAL;
    }
    *out = arena_copy(arena, *out);
    return out->p ? 0 : -ENOMEM;
}

static int take_data(struct question *q, const struct gridline_value *data, size_t n, struct diag *why)
{
    struct act_datum *texts = arena_alloc(&q->arena, (n ? n : 1) * sizeof *texts);
    if (!texts)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = data[i].name ? to_text(&data[i], &q->arena, &texts[i].value) : -EINVAL;
        if (r < 0)
            return diag_set(why, r, 0, "value %zu: no name, or a type that is none of i u f b t x", i);
        texts[i].name = slice_str(data[i].name);
    }
    q->env.data = texts;
    q->env.n_data = n;
    return 0;
}

static int begin(struct question *q, const char *actuator, const char *const *options,
                 const struct gridline_value *data, size_t n, struct diag *why)
{
    static _Atomic unsigned number; /* tells attempts apart */
    *q = (struct question){.ops = NULL};
    (void)snprintf(q->attempt, sizeof q->attempt, "%lld.%u", (long long)clock_utc_ns(), ++number);
    q->env.attempt = q->attempt;
    q->env.deadline_ns = INT64_MAX;
    int r = find(actuator, &q->ops, why);
    if (r == 0)
        r = parameters_group(options, &q->arena, &q->settings, &q->n_settings, why);
    if (r == 0)
        r = take_data(q, data, n, why);
    return r;
}

static void tell(char *to, size_t size, const char *text)
{
    if (to && size)
        (void)snprintf(to, size, "%s", text); /* cut to fit */
}

static int finish(struct question *q, int r, const struct diag *why, char *to, size_t size)
{
    if (r < 0)
        tell(to, size, why->message[0] ? why->message : err_text(r));
    arena_fini(&q->arena);
    return r;
}

int gridline_actuator_check(const char *actuator, const char *const *options, char *why, size_t why_size)
{
    struct question q;
    struct diag d = {0};
    int r = begin(&q, actuator, options, NULL, 0, &d);
    if (r == 0)
        r = actuator_check(q.ops, q.settings, q.n_settings, &d);
    return finish(&q, r, &d, why, why_size);
}

int gridline_actuator_plan(const char *actuator, const char *const *options,
                           const struct gridline_value *data, size_t n, char **plan, char *why,
                           size_t why_size)
{
    struct question q;
    struct diag d = {0};
    struct strbuf out = {0};
    int r = begin(&q, actuator, options, data, n, &d);
    if (r == 0)
        r = actuator_plan(q.ops, q.settings, q.n_settings, &q.env, &out, &d);
    if (r == 0) {
        *plan = strndup(out.n ? out.p : "", out.n);
        r = *plan ? 0 : -ENOMEM;
    }
    strbuf_fini(&out);
    return finish(&q, r, &d, why, why_size);
}

static void give_output(const struct strbuf *s, char **output, size_t *size)
{
    *output = s->n ? malloc(s->n + 1) : NULL;
    *size = *output ? s->n : 0;
    if (*output)
        memcpy(*output, s->p, s->n + 1);
}

int gridline_actuator_run_output(const char *actuator, const char *const *options,
                                 const struct gridline_value *data, size_t n, int timeout_ms, char *said,
                                 size_t said_size, char **output, size_t *output_size)
{
    struct question q;
    struct diag d = {0};
    struct actuator_report report = {0};
    *output = NULL;
    *output_size = 0;
    int r = begin(&q, actuator, options, data, n, &d);
    if (r < 0)
        return finish(&q, r, &d, said, said_size);
    q.env.deadline_ns = clock_mono_ns() + (timeout_ms > 0 ? timeout_ms : TIMEOUT_MS) * INT64_C(1000000);
    r = actuator_run(q.ops, q.settings, q.n_settings, &q.env, &report);
    tell(said, said_size, report.text.n ? report.text.p : err_text(r));
    give_output(&report.output, output, output_size);
    actuator_report_fini(&report);
    arena_fini(&q.arena);
    return r;
}

int gridline_actuator_run(const char *actuator, const char *const *options, const struct gridline_value *data,
                          size_t n, int timeout_ms, char *said, size_t said_size)
{
    char *output;
    size_t size;
    int r =
        gridline_actuator_run_output(actuator, options, data, n, timeout_ms, said, said_size, &output, &size);
    free(output);
    return r;
}
