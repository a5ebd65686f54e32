/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: all that parser, check, show, explain and docs know of a key is here or in a sensor's options.
 */
#include "agent/config_internal.h"

#define AGENT(member)  offsetof(struct agent_config, member)
#define OUTPUT(member) offsetof(struct output_config, member)
#define SENSOR(member) offsetof(struct sensor_config, member)

static const struct config_key agent_keys[] = {
    {.name = "hostname",
     .type = CONFIG_OWN,
     .own = &config_own_host,
     .offset = AGENT(host),
     .default_text = "",
     .help = "this host's name in every event; empty: what the system says"},
    {.name = "state_dir",
     .type = CONFIG_PATH,
     .offset = AGENT(state_dir),
     .help =
         "keeps the spool and the positions of followed files; empty: none, events wait in memory. Default: "
         "`/var/lib/gridline/agent` for root, else `gridline/agent` in $XDG_STATE_HOME or ~/.local/state; "
         "none for a guest"},
    {.name = "run_dir",
     .type = CONFIG_PATH,
     .offset = AGENT(run_dir),
     .help = "has the socket and the page with global time. Default: `/run/gridline` for root, else "
             "`gridline` in $XDG_RUNTIME_DIR, else "
             "/tmp/gridline-UID"},
    {.name = "socket",
     .type = CONFIG_PATH,
     .offset = AGENT(socket),
     .help = "serves subscriptions on this host; empty: none. Default: `agent.sock` in run_dir; none for a "
             "guest"},
    {.name = "gateway",
     .type = CONFIG_OWN,
     .own = &config_own_addresses,
     .offset = AGENT(gateways),
     .default_text = "",
     .help = "where events go, tried in this order: `tls://HOST:PORT`, `tcp://HOST:PORT`, `unix:PATH`"},
    {.name = "gateway_names",
     .type = CONFIG_OWN,
     .own = &config_own_names,
     .offset = AGENT(gateway_names),
     .default_text = "",
     .help = "gateways that a `tls://` address may lead to, by the names in their certificates; empty: any "
             "of the site"},
    {.name = "identity",
     .type = CONFIG_PATH,
     .offset = AGENT(identity),
     .help = "folder with this host's key and certificates, for `tls://`. Default: "
             "`/var/lib/gridline/identity` for root, "
             "else `gridline/identity` in $XDG_STATE_HOME or ~/.local/state"},
    {.name = "insecure",
     .type = CONFIG_FLAG,
     .offset = AGENT(is_insecure),
     .default_text = "false",
     .help = "allows `tcp://` to other hosts: anybody on the way can read and change everything"},
    {.name = "insecure_control",
     .type = CONFIG_FLAG,
     .offset = AGENT(takes_insecure_control),
     .default_text = "false",
     .help = "takes orders over `tcp://` from other hosts, too"},
    {.name = "lease",
     .type = CONFIG_DURATION,
     .offset = AGENT(lease_ns),
     .default_text = "30s",
     .min = "1s",
     .max = "1h",
     .help = "how long the gateway is to wait for a renewal; not given, a resident leaves it to the gateway. "
             "A guest ends "
             "itself when it has no lease for that long"},
    {.name = "guest",
     .type = CONFIG_FLAG,
     .offset = AGENT(is_guest),
     .default_text = "false",
     .help = "ends with the lease and leaves nothing on disk"},
    {.name = "spool_max",
     .type = CONFIG_SIZE,
     .offset = AGENT(spool_max),
     .default_text = "64MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "how large the spool may grow; then events are dropped and counted"},
    {.name = "queue_max",
     .type = CONFIG_SIZE,
     .offset = AGENT(queue_max),
     .default_text = "1MiB",
     .min = "64KiB",
     .max = "1GiB",
     .help = "memory for events that wait"},
    {.name = "spool_samples",
     .type = CONFIG_FLAG,
     .offset = AGENT(spool_samples),
     .default_text = "true",
     .help =
         "samples wait on disk while the gateway is away, and are sent with their own times when it is back; "
         "false, and where there is no state_dir: they are dropped and counted"},
    {.name = "samples_max",
     .type = CONFIG_SIZE,
     .offset = AGENT(samples_max),
     .default_text = "16MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "how much of the disk these may take; then the oldest give way and are counted. An hour of the "
             "default sensors takes 2 to 3 MiB"},
    {.name = "newest_first",
     .type = CONFIG_FLAG,
     .offset = AGENT(newest_first),
     .default_text = "true",
     .help = "with spool_samples, when the gateway is back: new samples are sent at once and those that "
             "waited beside them; false: in order, new ones wait behind the old"},
    {.name = "global_time",
     .type = CONFIG_FLAG,
     .offset = AGENT(has_global_time),
     .default_text = "true",
     .help = "stamp with the gateway's time; false: with local UTC, and only tell how far it may be off"},
    {.name = "budget.cpu",
     .type = CONFIG_SHARE,
     .offset = AGENT(budget_cpu),
     .default_text = "1%",
     .min = "0.01%",
     .max = "100%",
     .help = "how much of one core the agent may use; over it, sensors are slowed by priority"},
    {.name = "budget.memory",
     .type = CONFIG_SIZE,
     .offset = AGENT(budget_memory),
     .default_text = "16MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "how much private memory the agent may use"},
    {.name = "config_url",
     .type = CONFIG_OWN,
     .own = &config_own_url,
     .offset = AGENT(config_url),
     .default_text = "",
     .help = "take the sensors from this `http://` or `https://` address; empty: from the files"},
    {.name = "config_every",
     .type = CONFIG_DURATION,
     .offset = AGENT(config_every_ns),
     .default_text = "5m",
     .min = "1s",
     .max = "366d",
     .help = "how often config_url is asked"},
    {.name = "config_ca",
     .type = CONFIG_PATH,
     .offset = AGENT(config_ca),
     .default_text = "",
     .help = "file of certificates (PEM): a document signed by one of them may name programs"},
    {.name = "allow_programs",
     .type = CONFIG_OWN,
     .own = &config_own_programs,
     .offset = AGENT(allow_programs),
     .default_text = "",
     .help = "programs that an unsigned document may name"},
    {.name = "defaults",
     .type = CONFIG_FLAG,
     .offset = AGENT(runs_defaults),
     .default_text = "true",
     .help = "run the usual sensors; false: only those that are listed",
     .is_document = true},
    {0},
};

static const struct config_key output_keys[] = {
    {.name = "path",
     .type = CONFIG_STRING,
     .offset = OUTPUT(path),
     .is_needed = true,
     .help = "file that gets a copy of every event; `-`: standard output"},
    {.name = "encoding",
     .type = CONFIG_WORD,
     .offset = OUTPUT(encoding),
     .default_text = "ulm",
     .words = "ulm|bp|ndjson|xml|binary",
     .help = "how it is written"},
    {0},
};

/* Every sensor has them. Default NULL: it is in the sensor's table. */
static const struct config_key sensor_keys[] = {
    {.name = "mode",
     .type = CONFIG_OWN,
     .own = &config_own_mode,
     .offset = SENSOR(mode),
     .default_text = "always",
     .words = "always|on-request|port|off",
     .help = "when it runs: `always`; `on-request`: while a consumer asks for it; `port`: while one of "
             "`ports` has traffic; `off`: never"},
    {.name = "every",
     .type = CONFIG_DURATION,
     .offset = SENSOR(every_ns),
     .min = "10ms",
     .max = "366d",
     .help = "time from one sample to the next"},
    {.name = "fastest",
     .type = CONFIG_DURATION,
     .offset = SENSOR(fastest_ns),
     .default_text = "100ms",
     .min = "100ms",
     .max = "366d",
     .help = "of `mode = on-request`: consumers may ask for other times from one sample to the next than "
             "`every`, "
             "but for none below this, or below `every` where that is less"},
    {.name = "refresh",
     .type = CONFIG_DURATION,
     .offset = SENSOR(refresh_ns),
     .min = "10ms",
     .max = "366d",
     .help = "longest silence: a sample is sent at least this often, changed or not; not less than `every`"},
    {.name = "change",
     .type = CONFIG_OWN,
     .own = &config_own_changes,
     .default_text = "",
     .help =
         "how far a field has to move before a sample is sent: `\"FIELD LIMIT\"` or `\"FIELD N%\"`; `*`: all "
         "other fields. Without any limit every change counts; with some, only the fields that have one"},
    {.name = "compare",
     .type = CONFIG_OWN,
     .own = &config_own_compare,
     .offset = SENSOR(compares_previous),
     .default_text = "sent",
     .words = "sent|previous",
     .help = "move since when: since the sample last sent, or since the previous one (slow drift is then not "
             "seen)"},
    {.name = "ports",
     .type = CONFIG_OWN,
     .own = &config_own_ports,
     .default_text = "",
     .help = "TCP ports for `mode = port`"},
    {.name = "hold",
     .type = CONFIG_DURATION,
     .offset = SENSOR(hold_ns),
     .default_text = "10s",
     .min = "0s",
     .max = "366d",
     .help = "how long it goes on after the last traffic on its ports"},
    {.name = "priority",
     .type = CONFIG_DIGIT,
     .offset = SENSOR(priority),
     .min = "0",
     .max = "9",
     .help = "when the agent is over its budget: 9 is slowed first, 0 last"},
    {0},
};

enum { SENSOR_KEYS = sizeof sensor_keys / sizeof *sensor_keys - 1, PRIORITY_DEFAULT = 5 };

/* A key that every sensor has, with this sensor's default. */
static struct config_key common_key(const struct sensor_ops *ops, size_t i)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct config_key key = sensor_keys[i];
    key.is_common = true;
    if (!ops || key.default_text)
        return key;
    if (strcmp(key.name, "every") == 0)
        key.default_text = ops->every ? ops->every : "1s";
    else if (strcmp(key.name, "refresh") == 0)
        key.default_text = ops->refresh ? ops->refresh : "60s";
    else if (strcmp(key.name, "priority") == 0)
        key.default_text = digits[ops->priority && ops->priority <= 9 ? ops->priority : PRIORITY_DEFAULT];
    return key;
}

static bool is_common(const char *name)
{
    for (size_t i = 0; i < SENSOR_KEYS; i++)
        if (strcmp(sensor_keys[i].name, name) == 0)
            return true;
    return false;
}

static struct config_key key_of_option(const struct parameter *o)
{
    return (struct config_key){.name = o->name,
                               .type = (enum config_type)o->type,
                               .default_text = o->default_text,
                               .help = o->help,
                               .note = o->is_program
                                           ? "names a program or file: in a document from config_url only "
                                             "if it is signed or allowed"
                                           : NULL,
                               .is_needed = o->is_needed};
}

/* An option of the same name as a key that every sensor has is that key, and the sensor gets its texts, too.
 */
static bool sensor_key_at(const struct sensor_ops *ops, size_t i, struct config_key *out)
{
    if (i < SENSOR_KEYS) {
        *out = common_key(ops, i);
        return true;
    }
    i -= SENSOR_KEYS;
    for (const struct parameter *o = ops ? ops->options : NULL; o && o->name; o++) {
        if (is_common(o->name) || i-- > 0)
            continue;
        *out = key_of_option(o);
        return true;
    }
    return false;
}

static bool key_at(struct config_scope scope, size_t i, struct config_key *out)
{
    if (scope.is_family || scope_sensor(scope))
        return sensor_key_at(scope_sensor(scope), i, out);
    return config_table_at(scope_is_output(scope) ? output_keys : agent_keys, i, out);
}

/* ---------------------------------------------------------------- scopes */

const struct config_scope scope_output = {.name = "output", .is_titled = true};

struct config_scope scope_of_sensor(const struct sensor_ops *ops)
{
    return (struct config_scope){.name = ops->name,
                                 .summary = ops->summary,
                                 .of = ops,
                                 .is_titled = ops->is_multi,
                                 .is_document = true};
}

static bool scope_at(size_t i, struct config_scope *out)
{
    static const struct config_scope root = {.name = ""}, family = {.name = "SENSOR", .is_family = true};
    const struct config_scope *const first[] = {&root, &scope_output, &family};
    enum { FIRST = sizeof first / sizeof *first };
    if (i < FIRST)
        *out = *first[i];
    else if (sensor_list[i - FIRST])
        *out = scope_of_sensor(sensor_list[i - FIRST]);
    else
        return false;
    return true;
}

const struct config_schema agent_schema = {.program = "agent",
                                           .environment = "GRIDLINE_AGENT_",
                                           .explain = "gridline config explain",
                                           .section = "sensor",
                                           .example = "SENSOR { ... }",
                                           .inner = (const char *const[]){"budget", NULL},
                                           .scope_at = scope_at,
                                           .key_at = key_at};

int config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why)
{
    return config_explain_schema(&agent_schema, key, form, out, why);
}
