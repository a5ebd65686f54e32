/* SPDX-License-Identifier: Apache-2.0 */
/* sensor: starts, stops or sets a sensor of hosts, through their gateway: what `gridline sensor` does. To
 * look closer while a fault lasts, and less when a host is loaded. What is changed this way holds until the
 * agent is restarted; doing it twice is the same as once.
 *
 * `host` is one name, and data may be put into it: it matches only itself, whatever it is. `hosts` are
 * patterns, and fixed. */
#include "actuator/actuator.h"
#include "actuator/escape.h"
#include "actuator/quote.h"
#include "base/clock.h"
#include "net/ask.h"

#include <errno.h>
#include <inttypes.h>

struct sensor_act {
    const char *gateway, *identity, *what, *sensor, *host;
    struct parameter_list hosts, set;
};

static const struct parameter sensor_options[] = {
    {SETTING_STRING, "do", NULL, offsetof(struct sensor_act, what), "`start`, `stop` or `set`",
     .is_program = true, .is_needed = true},
    {SETTING_STRING, "sensor", NULL, offsetof(struct sensor_act, sensor), "which, as in `gridline sensor`",
     .is_program = true, .is_needed = true},
    {SETTING_STRING, "host", NULL, offsetof(struct sensor_act, host), "of which host, `{host}` for instance",
     .is_program = false},
    {SETTING_LIST, "hosts", NULL, offsetof(struct sensor_act, hosts),
     "in place of `host`: patterns of host names", .is_program = true},
    {SETTING_LIST, "set", NULL, offsetof(struct sensor_act, set), "options of the sensor, `every=5s`",
     .is_program = false},
    {SETTING_STRING, "gateway", NULL, offsetof(struct sensor_act, gateway),
     "its address; without it: that of this host", .is_program = true},
    {SETTING_STRING, "identity", NULL, offsetof(struct sensor_act, identity),
     "folder of the certificate and key for `tls://`", .is_program = true},
    {0},
};

static const char *verb_of(const struct sensor_act *s)
{
    return strcmp(s->what, "start") == 0  ? "sensor.start"
           : strcmp(s->what, "stop") == 0 ? "sensor.stop"
           : strcmp(s->what, "set") == 0  ? "sensor.set"
                                          : NULL;
}

/* A gateway takes a list of patterns by commas, with blanks around them: neither can be in a name. */
static bool is_pattern(const char *text)
{
    return text[0] && !strchr(text, ',') && text[0] != ' ' && text[strlen(text) - 1] != ' ';
}

static int check(const struct sensor_act *s, struct diag *why)
{
    if (!verb_of(s))
        return diag_set(why, -EINVAL, 0, "sensor: do is one of start, stop, set");
    if (!s->host == !s->hosts.n)
        return diag_set(why, -EINVAL, 0, "sensor: give `host` or `hosts`");
    if (s->host && !is_pattern(s->host))
        return diag_set(why, -EINVAL, 0, "sensor: \"%.80s\" is not the name of a host", s->host);
    for (size_t i = 0; i < s->hosts.n; i++)
        if (!is_pattern(s->hosts.v[i]))
            return diag_set(why, -EINVAL, 0, "sensor: \"%.80s\" is not a pattern of host names",
                            s->hosts.v[i]);
    if (s->set.n && strcmp(s->what, "stop") == 0)
        return diag_set(why, -EINVAL, 0, "sensor: `set` and stop do not go together");
    if (s->set.n == 0 && strcmp(s->what, "set") == 0)
        return diag_set(why, -EINVAL, 0, "sensor: nothing to set; give `set`, as in every=5s");
    for (size_t i = 0; i < s->set.n; i++) {
        size_t n = strcspn(s->set.v[i], "=");
        if (n == 0 || s->set.v[i][n] != '=' || n + 4 > ARGS_NAME_MAX || i >= ARGS_MAX - 8)
            return diag_set(why, -EINVAL, 0, "sensor: \"%.60s\" is no option; write key=value", s->set.v[i]);
    }
    return 0;
}

static void add_workers(const struct sensor_act *s, struct args_writer *args)
{
    struct strbuf list = {0};
    if (s->host)
        escape_glob(&list, slice_str(s->host));
    for (size_t i = 0; i < s->hosts.n; i++)
        strbuf_printf(&list, "%s%s", i ? "," : "", s->hosts.v[i]);
    args_add_text(args, "workers", strbuf_slice(&list));
    args->list.failed = args->list.failed || strbuf_failed(&list);
    strbuf_fini(&list);
}

static void add_settings(const struct sensor_act *s, struct args_writer *args)
{
    for (size_t i = 0; i < s->set.n; i++) {
        char name[ARGS_NAME_MAX + 1];
        size_t n = strcspn(s->set.v[i], "=");
        int length = snprintf(name, sizeof name, "set.%.*s", (int)n, s->set.v[i]); /* it fits: check */
        args_add(args, slice_of(name, (size_t)length), value_text(slice_str(s->set.v[i] + n + 1)));
    }
}

static void say_what(const struct sensor_act *s, struct strbuf *out)
{
    strbuf_printf(out, "%s %s of ", s->what, s->sensor);
    if (s->host)
        quote_line(out, slice_str(s->host));
    for (size_t i = 0; i < s->hosts.n; i++)
        strbuf_printf(out, "%s%s", i ? ", " : "", s->hosts.v[i]);
    for (size_t i = 0; i < s->set.n; i++) {
        strbuf_add_str(out, i ? ", " : " with ");
        quote_line(out, slice_str(s->set.v[i]));
    }
}

static int sensor_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct sensor_act *s = state;
    (void)env; /* the options have what it needs */
    int r = check(s, why);
    if (r < 0)
        return r;
    strbuf_printf(out, "ask %s to ", s->gateway ? s->gateway : "this host's gateway");
    say_what(s, out);
    strbuf_add_char(out, '\n');
    return 0;
}

/* ---------------------------------------------------------------- asking */

struct answers {
    struct strbuf *output;
    size_t n;
};

/* A row of each host that answered. */
static int take_row(void *arg, const struct frame_answer *row)
{
    struct answers *a = arg;
    struct slice host = args_text(row->args, "host");
    if (args_value(row->args, "answer").type == VALUE_NONE || host.n == 0)
        return 0;
    a->n++;
    if (a->output->n + host.n + row->text.n + 3 > ACTUATOR_OUTPUT_MAX)
        return 0;
    quote_line(a->output, host);
    strbuf_add_str(a->output, ": ");
    quote_line(a->output, row->text.n ? row->text : args_text(row->args, "answer"));
    strbuf_add_char(a->output, '\n');
    return 0;
}

static int code_of(uint16_t status)
{
    switch (status) {
    case CONTROL_DONE:
        return 0;
    case CONTROL_NOT_FOUND:
        return -ENOENT;
    case CONTROL_NOT_ALLOWED:
        return -EACCES;
    case CONTROL_USAGE:
        return -EINVAL;
    case CONTROL_PARTLY:
        return -EAGAIN; /* doing it again does no harm to those that have done it */
    default:
        return -EREMOTEIO;
    }
}

static int ask_gateway(const struct sensor_act *s, struct ask *ask, int64_t left_ns,
                       struct actuator_report *report, struct strbuf *said, struct diag *why)
{
    static const int64_t ns_per_ms = 1000000;
    struct args_writer args = {0};
    struct answers answers = {.output = &report->output};
    struct ask_end end;
    int64_t margin_ns = left_ns / 10; /* the gateway is to answer before our own time is over */
    add_workers(s, &args);
    args_add_text(&args, "sensor", slice_str(s->sensor));
    add_settings(s, &args);
    args_add_uint(&args, "timeout_ms", (uint64_t)((left_ns - margin_ns) / ns_per_ms) + 1);
    const struct ask_question q = {
        .verb = slice_str(verb_of(s)), .args = args_of(&args), .silence_ns = left_ns};
    int r = strbuf_failed(&args.list) ? -ENOMEM : ask_run(ask, &q, take_row, &answers, &end, why);
    if (r == 0) {
        quote_line(said, end.text);
        r = code_of(end.status);
        if (r == 0 && answers.n == 0)
            r = -ENOENT;
    }
    args_writer_fini(&args);
    return r;
}

static bool on_wait(void *arg)
{
    const struct actuator_env *env = arg;
    return clock_mono_ns() >= env->deadline_ns || (env->is_cancelled && env->is_cancelled(env->arg));
}

/* -EINTR is what on_wait makes of either. */
static int explain_stop(const struct actuator_env *env, int r)
{
    if (r != -EINTR)
        return r;
    return clock_mono_ns() >= env->deadline_ns ? -ETIMEDOUT : -ECANCELED;
}

/* A gateway that can't be reached may be back soon. */
static int explain_open(const struct actuator_env *env, int r)
{
    r = explain_stop(env, r);
    bool is_final =
        r == 0 || r == -EACCES || r == -EINVAL || r == -ENOMEM || r == -ECANCELED || r == -ETIMEDOUT;
    return is_final ? r : -EAGAIN;
}

static int sensor_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct sensor_act *s = state;
    struct diag why = {0};
    struct strbuf said = {0};
    struct ask *ask = NULL;
    int64_t left_ns = env->deadline_ns - clock_mono_ns();
    const struct ask_options o = {.gateway = s->gateway,
                                  .identity = s->identity,
                                  .prog = "gridline-act",
                                  .timeout_ns = left_ns > 0 ? left_ns : 1,
                                  .on_wait = on_wait,
                                  .arg = (void *)(uintptr_t)env}; /* on_wait only reads */
    int r = check(s, &why);
    if (r == 0)
        r = explain_open(env, ask_open(&o, &ask, &why));
    if (r == 0)
        r = explain_stop(env, ask_gateway(s, ask, o.timeout_ns, report, &said, &why));
    ask_close(ask);
    say_what(s, &report->text);
    struct slice words = said.n ? strbuf_slice(&said) : slice_str(why.message[0] ? why.message : err_text(r));
    if (r < 0 || said.n)
        strbuf_printf(&report->text, ": %.*s", SLICE_ARG(words));
    strbuf_fini(&said);
    return r;
}

const struct actuator_ops actuator_sensor = {
    .name = "sensor",
    .summary = "starts, stops or sets a sensor of hosts",
    .options = sensor_options,
    .is_repeatable = true,
    .state_size = sizeof(struct sensor_act),
    .plan = sensor_plan,
    .run = sensor_run,
};
