/* SPDX-License-Identifier: Apache-2.0 */
/* From configured texts to a call: templates are filled in (defaults may be templates, too), then the option
 * table's parser makes them what the actuator wants. Each run has an arena, in which all texts live. */
#include "actuator/actuator.h"

#include "actuator/quote.h"
#include "actuator/template.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

enum { REPORT_TEXT_MAX = 4 << 10, DEFAULTS_MAX = 64 };

/* The settings as the parser gets them. */
struct filled {
    struct arena arena;
    struct parameter_setting *settings;
    size_t n;
    size_t bytes; /* of the texts that were filled in */
};

struct call {
    struct filled filled;
    void *state;
};

static bool is_given(const char *name, const struct parameter_setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(settings[i].name, name) == 0)
            return true;
    return false;
}

/* A default that is a template is set like a configured one. Lists have none. */
static bool is_template_default(const struct parameter *o)
{
    return o->type != SETTING_LIST && !o->is_program && o->default_text &&
           !template_is_plain(o->default_text);
}

/* E_LIMIT: with values of this length all texts together are too long. */
static int fill_text(struct filled *f, const char *text, struct template_values values, const char **out)
{
    struct strbuf s = {0};
    template_fill(&s, text, &values);
    while (s.n > TEMPLATE_TEXT_MAX && values.value_max > 0) {
        values.value_max /= 2; /* of this text alone */
        strbuf_reset(&s);
        template_fill(&s, text, &values);
    }
    f->bytes += s.n;
    int r = s.n > TEMPLATE_TEXT_MAX || f->bytes > TEMPLATE_ALL_MAX ? E_LIMIT : 0;
    if (r == 0 && strbuf_failed(&s))
        r = -ENOMEM;
    if (r == 0)
        r = setting_parse(SETTING_STRING, strbuf_slice(&s), &f->arena, out);
    strbuf_fini(&s);
    return r;
}

static int check_texts(const struct actuator_ops *ops, const struct parameter *o,
                       const struct parameter_setting *s, struct diag *why)
{
    struct diag inner = {0};
    for (size_t i = 0; o && !o->is_program && i < s->n; i++)
        if (template_check(s->texts[i], &inner) < 0)
            return diag_set(why, -EINVAL, inner.col, "%s.%s: %s", ops->name, s->name, inner.message);
    return 0;
}

static int fill_setting(struct filled *f, const struct actuator_ops *ops, const struct parameter_setting *s,
                        const struct template_values *values, struct diag *why)
{
    const struct parameter *o = parameter_find(ops->options, s->name);
    struct parameter_setting *to = &f->settings[f->n];
    struct template_values own = *values;
    own.escape = ops->escape ? ops->escape(s->name) : NULL;
    *to = *s; /* what is fixed stays as it is; what is unknown is the parser's to refuse */
    int r = check_texts(ops, o, s, why);
    const char **texts = r == 0 ? arena_alloc(&f->arena, (s->n ? s->n : 1) * sizeof *texts) : NULL;
    if (r == 0 && !texts)
        r = -ENOMEM;
    for (size_t i = 0; i < s->n && r == 0; i++) {
        if (o && !o->is_program)
            r = fill_text(f, s->texts[i], own, &texts[i]);
        else
            texts[i] = s->texts[i];
    }
    if (r < 0)
        return r;
    to->texts = texts;
    f->n++;
    return 0;
}

static int fill_all(struct filled *f, const struct actuator_ops *ops,
                    const struct parameter_setting *settings, size_t n, const struct template_values *values,
                    struct diag *why)
{
    arena_reset(&f->arena);
    f->n = f->bytes = 0;
    f->settings = arena_alloc(&f->arena, (n + DEFAULTS_MAX) * sizeof *f->settings);
    int r = f->settings ? 0 : -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = fill_setting(f, ops, &settings[i], values, why);
    for (const struct parameter *o = ops->options; o && o->name && r == 0; o++) {
        const struct parameter_setting s = {o->name, &o->default_text, 1};
        if (is_template_default(o) && !is_given(o->name, settings, n) && f->n < n + DEFAULTS_MAX)
            r = fill_setting(f, ops, &s, values, why);
    }
    return r;
}

/* Cuts the longest values, to half and half again, until everything fits: see template.h. */
static int fill(struct filled *f, const struct actuator_ops *ops, const struct parameter_setting *settings,
                size_t n, struct template_values values, struct diag *why)
{
    int r = E_LIMIT;
    for (size_t max = TEMPLATE_TEXT_MAX; r == E_LIMIT; max /= 2) {
        values.value_max = max;
        r = fill_all(f, ops, settings, n, &values, why);
        if (max == 0)
            break;
    }
    return r == E_LIMIT ? diag_set(why, r, 0, "%s: its options are longer than %d bytes, even without data",
                                   ops->name, TEMPLATE_ALL_MAX)
                        : r;
}

static void end_call(struct call *c)
{
    mem_free(c->state);
    arena_fini(&c->filled.arena);
}

static int begin_call(struct call *c, const struct actuator_ops *ops,
                      const struct parameter_setting *settings, size_t n, struct template_values values,
                      struct diag *why)
{
    const struct parameter_owner owner = {ops->name, "gridline act --list"};
    *c = (struct call){.state = mem_try_alloc(ops->state_size ? ops->state_size : 1)};
    int r = c->state ? 0 : -ENOMEM;
    if (r == 0)
        r = fill(&c->filled, ops, settings, n, values, why);
    if (r == 0)
        r = parameters_apply(&owner, ops->options, c->filled.settings, c->filled.n, &c->filled.arena,
                             c->state, why);
    if (r < 0)
        end_call(c);
    return r;
}

static int plan(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                const struct actuator_env *env, bool is_sample, struct strbuf *out, struct diag *why)
{
    struct call c;
    const struct template_values values = {.data = env->data, .n = env->n_data, .is_sample = is_sample};
    int r = begin_call(&c, ops, settings, n, values, why);
    if (r < 0)
        return r;
    r = ops->plan ? ops->plan(c.state, env, out, why) : 0;
    if (r == 0 && strbuf_failed(out))
        r = -ENOMEM;
    end_call(&c);
    return r;
}

int actuator_check(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                   struct diag *why)
{
    struct strbuf out = {0};
    const struct actuator_env env = {.deadline_ns = INT64_MAX, .attempt = "check"};
    int r = plan(ops, settings, n, &env, true, &out, why);
    strbuf_fini(&out);
    return r;
}

int actuator_plan(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                  const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    return plan(ops, settings, n, env, false, out, why);
}

/* One line, whatever was in it. */
static void clean_text(struct actuator_report *report, int code)
{
    struct strbuf line = {0};
    struct slice said = strbuf_slice(&report->text);
    if (said.n == 0)
        said = code < 0 ? slice_str(err_text(code)) : SLICE_LIT("done");
    quote_line(&line, said.n > REPORT_TEXT_MAX ? slice_of(said.p, REPORT_TEXT_MAX) : said);
    strbuf_fini(&report->text);
    report->text = line;
}

int actuator_run(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                 const struct actuator_env *env, struct actuator_report *report)
{
    struct call c;
    struct diag why = {0};
    report->exit_code = -1;
    int r =
        begin_call(&c, ops, settings, n, (struct template_values){.data = env->data, .n = env->n_data}, &why);
    if (r < 0) {
        strbuf_add_str(&report->text, why.message);
    } else {
        r = ops->run(c.state, env, report);
        end_call(&c);
    }
    clean_text(report, r);
    return r;
}

void actuator_report_fini(struct actuator_report *report)
{
    strbuf_fini(&report->text);
    strbuf_fini(&report->output);
}
