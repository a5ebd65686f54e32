/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the agent's configuration: a file in libconfuse's syntax, drop-ins, the environment, flags; or a
 * document from a URL in place of the sensors. One table (config.c) gives parser, ranges, defaults and help
 * of the agent's own keys; the sensors' come from their option tables. A configuration is parsed and checked
 * as a whole before anything uses it, and is immutable then: reloading makes a new one and compares.
 *
 *     host = "node7"
 *     gateway = {"tcp://127.0.0.1:14830"}
 *     budget { cpu = "1%"  memory = 16MiB }
 *     cpu { every = 1s }
 *     vector { every = 1s  refresh = 10s  change = {"cpu_idle 5", "memory_available 10%"} }
 *     disk { every = 5s  mode = on-request }
 *     tcp { mode = port  ports = {5001, 2811}  hold = 10s }
 *     exec root-disk { command = {"/usr/lib/nagios/plugins/check_disk", "-w", "10%"}  format = nagios }
 *
 * Every value knows where it came from (origin), for `gridline config show --effective` and for messages. */
#ifndef GRIDLINE_AGENT_CONFIG_H
#define GRIDLINE_AGENT_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "sensor/instance.h"

enum sensor_mode {
    MODE_ALWAYS,
    MODE_ON_REQUEST, /* while a consumer asks for it */
    MODE_PORT,       /* while a listed port has traffic, and hold_ns after */
    MODE_OFF
};

/* δr of one field: "cpu_idle 5" (absolute) or "free 10%" (of the value last sent). */
struct change_limit {
    const char *field; /* "*": every field that is not named */
    double limit;
    bool is_percent;
};

/* One sensor that is to run. */
struct sensor_config {
    const struct sensor_ops *ops;
    const char *name; /* of the instance; the sensor's own unless it is multi */
    const char *file; /* where it was configured; NULL: by default */
    unsigned line;
    enum sensor_mode mode;
    int64_t every_ns;       /* δt */
    int64_t refresh_ns;     /* Δt */
    bool compares_previous; /* the seed's rule: with the previous sample, not the one last sent */
    uint8_t priority;
    const struct change_limit *changes;
    size_t n_changes;
    const uint16_t *ports; /* MODE_PORT */
    size_t n_ports;
    int64_t hold_ns;
    const struct sensor_setting *settings; /* its own options, as given */
    size_t n_settings;
};

/* Where the agent's events go besides the gateway: one `output NAME { ... }` each. */
struct output_config {
    const char *path;     /* "-" = standard output */
    const char *encoding; /* "ulm", ... */
};

struct agent_config {
    const char *host;      /* NULL: gethostname */
    const char *state_dir; /* spool and positions; NULL = none: events wait in memory */
    const char *run_dir;   /* socket */
    const char *socket;    /* local subscriptions; "" = none */
    const char *gateways;  /* addresses separated by commas, in order; "" = none */
    bool is_guest;
    uint64_t spool_max;                /* bytes */
    uint64_t queue_max;                /* bytes of memory for events that wait */
    bool spool_samples;                /* samples go to the spool, too, while the gateway is away */
    double budget_cpu;                 /* fraction of one core: 0.01 */
    uint64_t budget_memory;            /* bytes, private */
    const char *config_url;            /* sensors from there; NULL = none */
    int64_t config_every_ns;           /* how often it is asked for */
    const char *config_ca;             /* PEM file: a document signed by it may name programs */
    struct sensor_list allow_programs; /* what an unsigned document may name */
    const struct output_config *outputs;
    size_t n_outputs;
    const struct sensor_config *sensors;
    size_t n_sensors;

    struct arena arena; /* holds everything above */
};

/* What was given on the command line: `key=value`, later wins. */
struct config_flags {
    const char *file; /* NULL: /etc/gridline/agent.conf if it is there */
    const char *const *settings;
    size_t n_settings;
};

/* Files, drop-ins (FILE's folder + agent.d/[name].conf, in order), environment (GRIDLINE_AGENT_KEY), flags.
 * On failure *why->message is "file:line: what; what next". */
int config_load(const struct config_flags *flags, struct agent_config **out, struct diag *why);
/* The local configuration with its sensors replaced by those of the document. Programs are refused unless
 * is_signed or on local's allow_programs. name is for messages. */
int config_load_remote(const struct config_flags *flags, struct slice document, const char *name,
                       bool is_signed, struct agent_config **out, struct diag *why);
void config_destroy(struct agent_config *c); /* NULL is fine */

/* Do both describe the same sensor, to the last option? */
bool config_same_sensor(const struct sensor_config *a, const struct sensor_config *b);

/* `config show`: what is in force; with origins: "  # file:line" or default, environment, flag behind each.
 */
void config_show(const struct agent_config *c, bool with_origins, struct strbuf *out);
/* `config explain KEY`: help, type, default, range of "budget.cpu" or "disk.devices"; E_NODATA: no such key,
 * *why has the nearest. KEY NULL: all. */
int config_explain(const char *key, struct strbuf *out, struct diag *why);

#endif
