/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the agent's configuration (config/config.h); or a document from a URL in place of the sensors.
 * One table (config_table.c) gives parser, ranges, defaults and help of the agent's own keys; the sensors'
 * come from their option tables. Reloading makes a new one and compares.
 *
 *     hostname = "node7"
 *     gateway = {"tcp://127.0.0.1:14830"}
 *     budget { cpu = "1%"  memory = 16MiB }
 *     cpu { every = 1s }
 *     vector { every = 1s  refresh = 10s  change = {"cpu_idle 5", "memory_available 10%"} }
 *     disk { every = 5s  mode = on-request }
 *     tcp { mode = port  ports = {5001, 2811}  hold = 10s }
 *     exec root-disk { command = {"/usr/lib/nagios/plugins/check_disk", "-w", "10%"}  format = nagios }
 *
 * Sensors with .is_default run unless their mode is off; `defaults = false` runs only what is listed. */
#ifndef GRIDLINE_AGENT_CONFIG_H
#define GRIDLINE_AGENT_CONFIG_H

#include "config/config.h"
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

/* One sensor that is to run; or MODE_OFF: one that is not, but was configured. */
struct sensor_config {
    const struct sensor_ops *ops;
    const char *name;          /* of the instance; the sensor's own unless it is multi */
    struct config_origin from; /* where it was first named: the line of the first key in it */
    enum sensor_mode mode;
    int64_t every_ns;       /* δt */
    int64_t fastest_ns;     /* on request: no more often than that, whoever asks */
    int64_t refresh_ns;     /* Δt */
    bool compares_previous; /* the seed's rule: with the previous sample, not the one last sent */
    uint8_t priority;
    const struct change_limit *changes;
    size_t n_changes;
    const uint16_t *ports; /* MODE_PORT */
    size_t n_ports;
    int64_t hold_ns;
    const struct parameter_setting *settings; /* its own options: given, or their default where they have one */
    size_t n_settings;
    const struct config_entry *given; /* every key that was given, in the order of the tables */
    size_t n_given;
};

/* Where the agent's events go besides the gateway: one `output NAME { ... }` each. */
struct output_config {
    const char *name;
    const char *path;     /* "-" = standard output */
    const char *encoding; /* "ulm", ... */
    const struct config_entry *given;
    size_t n_given;
};

struct agent_config {
    const char *host;          /* NULL: gethostname */
    const char *state_dir;     /* spool and positions; NULL = none: events wait in memory */
    const char *run_dir;       /* socket, clock page */
    const char *socket;        /* local subscriptions; "" = none */
    const char *gateways;      /* addresses separated by commas, in order; "" = none */
    const char *gateway_names; /* who may be at their other end, separated by commas; "" = any of the site */
    const char *identity;      /* folder with key and certificates; NULL = no address needs one */
    bool is_insecure;          /* other hosts may be spoken to without TLS */
    bool takes_insecure_control;       /* and may give orders then */
    int64_t lease_ns;                  /* wanted; a guest ends after that without one */
    bool is_guest;                     /* no state_dir, no socket by default: nothing is left behind */
    bool runs_defaults;                /* sensors that are not listed run if they are .is_default */
    uint64_t spool_max;                /* bytes */
    uint64_t queue_max;                /* bytes of memory for events that wait */
    bool spool_samples;                /* samples wait on disk, too, while the gateway is away */
    uint64_t samples_max;              /* bytes of these */
    bool newest_first;                 /* and when it is back, new ones do not wait for them */
    bool has_global_time;              /* false: events keep local UTC */
    double budget_cpu;                 /* fraction of one core: 0.01 */
    uint64_t budget_memory;            /* bytes, private */
    const char *config_url;            /* sensors from there; NULL = none */
    int64_t config_every_ns;           /* how often it is asked for */
    const char *config_ca;             /* PEM file: a document signed by it may name programs */
    struct parameter_list allow_programs; /* what an unsigned document may name */
    const struct output_config *outputs;
    size_t n_outputs;
    const struct sensor_config *sensors; /* in the order of sensor_list, instances as they were named */
    size_t n_sensors;
    const struct config_entry *given; /* the agent's own keys that were given, "budget.cpu" */
    size_t n_given;

    struct arena arena; /* holds everything above */
};

#define CONFIG_FILE "/etc/gridline/agent.conf"

/* Files, drop-ins (FILE's folder + agent.d/[name].conf, in order), environment (GRIDLINE_AGENT_KEY), flags.
 * On failure *why->message is "file:line: what; what next": -EINVAL, -ENOMEM, or that of a file that can't be
 * read. *out is untouched on failure. */
int config_load(const struct config_flags *flags, struct agent_config **out, struct diag *why);
/* The local configuration with the sensors of its files replaced by those of the document; environment and
 * flags still apply. The document has nothing but sensors and `defaults`. Programs in it are refused unless
 * is_signed or on local's allow_programs. name is for messages. */
int config_load_remote(const struct config_flags *flags, struct slice document, const char *name,
                       bool is_signed, struct agent_config **out, struct diag *why);
/* Either of the two, with what gateways set as the last layer: "KEY=VALUE" each, of keys that
 * config_may_assign allows. */
struct config_layers {
    const struct config_flags *flags;
    const struct slice *document; /* NULL = none */
    const char *name;             /* its; */
    bool is_signed;               /* and whether it is */
    const char *const *assigned;
    size_t n_assigned;
};
int config_load_layers(const struct config_layers *layers, struct agent_config **out, struct diag *why);
void config_destroy(struct agent_config *c); /* NULL is fine */

/* May a gateway set that key ("disk.every", "exec.root-disk.mode")? Only when and how often sensors run, and
 * what of their samples is sent: every, refresh, change, mode, ports, hold, priority. *sensor and *title are whose
 * it is, the latter a part of key and "" for a sensor that can be there only once. Else -EPERM or -EINVAL,
 * and *why. */
int config_may_assign(struct slice key, const struct sensor_ops **sensor, struct slice *title,
                      struct diag *why);
/* The sensor as it is configured; NULL: it is not. */
const struct sensor_config *config_sensor(const struct agent_config *c, const struct sensor_ops *sensor,
                                          struct slice title);

/* Do both describe the same sensor, to the last option? Where it was configured does not matter. */
bool config_same_sensor(const struct sensor_config *a, const struct sensor_config *b);

/* `config show`: what is in force, every value; as text it is a file that means the same again. With origins:
 * behind each value "  # file:line", "  # default", ...; as JSON "origin". */
void config_show(const struct agent_config *c, enum config_form form, bool with_origins, struct strbuf *out);
/* `config explain KEY`: help, type, default, range of "budget.cpu" or "disk.devices"; or of all keys of a
 * section
 * ("budget", "output", "disk"), of the agent's own ("agent") or of those that every sensor has ("sensor").
 * E_NODATA: no such key, *why has the nearest. KEY NULL: all. */
int config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why);

#endif
