/* SPDX-License-Identifier: Apache-2.0 */
/* gridline config: the configuration of the agent, of the gateway or of the guard, checked, shown and
 * explained. */
#include "agent/config.h"
#include "gateway/config.h"
#include "guard/guard.h"

#include "cmd/file.h"
#include "cmd/guard_actions.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

struct config_options {
    bool effective, is_gateway, is_guard;
    const char *format;
    struct option_texts settings;
};

/* One of them. */
struct loaded {
    struct agent_config *agent;
    struct gateway_config *gateway;
    struct guard_config *guard;
};

static void say_problem(void *arg, const char *message)
{
    size_t *n = arg;
    ++*n;
    say_plain("%s", message);
}

/* False after having said every problem. */
static bool load(const struct config_options *o, const char *file, struct loaded *out)
{
    size_t problems = 0;
    struct config_flags flags = {.file = file,
                                 .settings = o->settings.v,
                                 .n_settings = o->settings.n,
                                 .on_problem = say_problem,
                                 .arg = &problems};
    struct diag why = {0};
    *out = (struct loaded){.agent = NULL};
    int r = o->is_gateway ? gateway_config_load(&flags, &out->gateway, &why)
            : o->is_guard ? guard_config_load(&flags, &out->guard, &why)
                          : config_load(&flags, &out->agent, &why);
    if (r < 0 && problems == CONFIG_PROBLEMS_MAX)
        say("there may be more than these %d", CONFIG_PROBLEMS_MAX);
    return r == 0;
}

static void unload(struct loaded *l)
{
    config_destroy(l->agent);
    gateway_config_destroy(l->gateway);
    guard_config_destroy(l->guard);
}

/* How many there are of what matters most, and what it is called. */
static size_t count(const struct loaded *l, const char **what)
{
    size_t n = 0;
    if (l->gateway) {
        *what = "observer";
        return l->gateway->n_observers;
    }
    if (l->guard) {
        *what = "rule";
        return l->guard->n_rules;
    }
    *what = "sensor";
    for (size_t i = 0; i < l->agent->n_sensors; i++)
        n += l->agent->sensors[i].mode != MODE_OFF;
    return n;
}

static const char *usual_file(const struct config_options *o)
{
    return o->is_gateway ? GATEWAY_CONFIG_FILE : o->is_guard ? GUARD_CONFIG_FILE : CONFIG_FILE;
}

static int check(const struct config_options *o, enum config_form form, const char *file)
{
    (void)form; /* it prints no data */
    struct loaded l;
    if (!load(o, file, &l))
        return EXIT_FAILED;
    const char *what;
    struct diag why = {0};
    size_t n = count(&l, &what);
    if (l.guard && guard_check_all(l.guard, &why) < 0) {
        say("%s", why.message);
        unload(&l);
        return EXIT_FAILED;
    }
    say_plain("%s: no problem, %zu %s%s", file ? file : usual_file(o), n, what, n == 1 ? "" : "s");
    unload(&l);
    return EXIT_OK;
}

static int show(const struct config_options *o, enum config_form form, const char *file)
{
    struct strbuf text = {0};
    struct loaded l;
    if (!load(o, file, &l))
        return EXIT_FAILED;
    if (l.gateway)
        gateway_config_show(l.gateway, form, o->effective, &text);
    else if (l.guard)
        guard_config_show(l.guard, form, o->effective, &text);
    else
        config_show(l.agent, form, o->effective, &text);
    unload(&l);
    return file_print(&text);
}

static int explain(const struct config_options *o, enum config_form form, const char *key)
{
    struct strbuf text = {0};
    struct diag why = {0};
    int r = o->is_gateway ? gateway_config_explain(key, form, &text, &why)
            : o->is_guard ? guard_config_explain(key, form, &text, &why)
                          : config_explain(key, form, &text, &why);
    if (r < 0) {
        strbuf_fini(&text);
        say("%s", why.message);
        return EXIT_NOT_FOUND;
    }
    return file_print(&text);
}

static const struct {
    const char *name;
    int (*run)(const struct config_options *o, enum config_form form, const char *operand);
} actions[] = {{"check", check}, {"show", show}, {"explain", explain}};

enum { ACTIONS = sizeof actions / sizeof *actions };

static int config_run(void *state, struct operands words)
{
    const struct config_options *o = state;
    enum config_form form = CONFIG_FORM_TEXT;
    if (o->is_gateway && o->is_guard) {
        say("--gateway or --guard, not both");
        return EXIT_USAGE;
    }
    if (o->format && strcmp(o->format, "json") == 0) {
        form = CONFIG_FORM_JSON;
    } else if (o->format && strcmp(o->format, "text") != 0) {
        say("--format: '%.40s' is neither text nor json", o->format);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(words.v[0], actions[i].name) == 0)
            return actions[i].run(o, form, words.n > 1 ? words.v[1] : NULL);
    const char *near = options_nearest(slice_str(words.v[0]), &actions[0].name, ACTIONS, sizeof *actions);
    if (near)
        say("'%.60s' is none of check, show, explain; did you mean %s?", words.v[0], near);
    else
        say("'%.60s' is none of check, show, explain", words.v[0]);
    return EXIT_USAGE;
}

#define AT(member) offsetof(struct config_options, member)

static const struct option_spec table[] = {
    {0, "gateway", OPTION_FLAG, NULL, AT(is_gateway), "the gateway's configuration, not the agent's"},
    {0, "guard", OPTION_FLAG, NULL, AT(is_guard), "the guard's"},
    {'e', "effective", OPTION_FLAG, NULL, AT(effective), "show where each value came from"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings),
     "set a key as the daemon's own flag does; a list is separated by commas; can be given again"},
    {0, "format", OPTION_TEXT, "FORMAT", AT(format), "`text` (default) or `json`"},
    {0},
};

static const struct example examples[] = {
    {"gridline config check", "Is " CONFIG_FILE " in order?"},
    {"gridline config check ./agent.conf", "Another file, and the agent.d folder beside it"},
    {"gridline config show --effective", "Every value in force, and where it came from"},
    {"gridline config show -s disk.every=10s -s budget.cpu=2%", "What it would be with these flags"},
    {"gridline config explain disk.every", "One key"},
    {"gridline config explain sensor", "The keys that every sensor has"},
    {"gridline config check --gateway", "Is " GATEWAY_CONFIG_FILE " in order?"},
    {"gridline config explain --gateway observer", "What the gateway can do with events"},
    {"gridline config check --guard ./guard.conf", "Can every rule and action be used?"},
    {"gridline config explain --guard rule", "What a rule can be told"},
    {NULL, NULL},
};

const struct verb verb_config = {
    .name = "config",
    .summary = "check, show and explain configuration",
    .operands = "check|show|explain [FILE|KEY]",
    .description =
        "`check` reads FILE (default " CONFIG_FILE
        "), the drop-ins `agent.d/*.conf` beside it, the environment "
        "(`GRIDLINE_AGENT_` and the key in capitals, `_` for `.`) and `--set`, in this order, later values "
        "in place of earlier ones. It says everything that is wrong, as `file:line: what; what next`, and "
        "ends with 1 if anything is.\n"
        "`show` prints the configuration in force, every value, as a file that means the same.\n"
        "`explain` prints help, kind, range and default of a key (`budget.cpu`, `disk.every`), of a section "
        "(`budget`, `output`, `disk`), of the agent's own keys (`agent`), of the keys that every sensor has "
        "(`sensor`), or of all. It ends with 3 if there is no such key.\n"
        "With `--gateway` the same for the gateway: " GATEWAY_CONFIG_FILE
        ", `gateway.d/*.conf`, `GRIDLINE_GATEWAY_`; sections are `lease`, `ledger` and `observer`, its own "
        "keys "
        "`gateway`.\n"
        "With `--guard` for the guard: " GUARD_CONFIG_FILE
        ", `guard.d/*.conf`, `GRIDLINE_GUARD_`; sections are `rule NAME` and, for each action, `ACTUATOR "
        "NAME` (`gridline act "
        "--list`); its own keys are `guard`, those of every action `action`. `check` compiles every rule.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct config_options),
    .run = config_run,
};
