/* SPDX-License-Identifier: Apache-2.0 */
/* config_sensors.h - for tests of the configuration: sensors with every kind of option, in place of
 * sensor/list.c, so that what the real ones have does not matter; and a comparison of two configurations.
 * Included once a program. */
#ifndef GRIDLINE_TESTS_CONFIG_SENSORS_H
#define GRIDLINE_TESTS_CONFIG_SENSORS_H

#include "agent/config.h"

struct test_state {
    bool flag;
    int64_t number, duration;
    double ratio;
    uint64_t size;
    const char *text, *shell;
    struct parameter_list list, ports, command;
};

#define OPTION(t, n, d, member, ...)                                                                     \
    {                                                                                                    \
        .type = SETTING_##t, .name = n, .default_text = d, .offset = offsetof(struct test_state, member), \
        .help = "for tests", __VA_ARGS__                                                                 \
    }

static const struct field alpha_fields[] = {
    KEY("core", "which"),
    FIELD("user", FLOAT, GAUGE, "%", "user"),
    FIELD("idle", FLOAT, GAUGE, "%", "idle"),
};
static const struct sensor_schema alpha_schemas[] = {SCHEMA("alpha", alpha_fields), {0}};
static const struct parameter alpha_options[] = {
    OPTION(FLAG, "per_core", "true", flag, .is_needed = false),
    OPTION(DURATION, "window", "5s", duration, .is_needed = false),
    OPTION(LIST, "names", "eth* lo", list, .is_needed = false),
    {0},
};
/* Runs by default. */
static const struct sensor_ops sensor_alpha = {.name = "alpha",
                                               .summary = "a",
                                               .schemas = alpha_schemas,
                                               .options = alpha_options,
                                               .every = "1s",
                                               .refresh = "60s",
                                               .priority = 2,
                                               .is_default = true,
                                               .state_size = sizeof(struct test_state)};

/* Slower than the usual refresh; an option with the name of a key that every sensor has. */
static const struct parameter beta_options[] = {
    OPTION(LIST, "ports", NULL, ports, .is_needed = false),
    OPTION(SIZE, "size", NULL, size, .is_needed = false),
    OPTION(INT, "number", "-3", number, .is_needed = false),
    OPTION(FLOAT, "ratio", NULL, ratio, .is_needed = false),
    OPTION(STRING, "text", NULL, text, .is_needed = false),
    {0},
};
static const struct sensor_ops sensor_beta = {.name = "beta",
                                              .summary = "b",
                                              .options = beta_options,
                                              .every = "5m",
                                              .state_size = sizeof(struct test_state)};

/* Any number, each with a name; names programs. */
static const struct parameter run_options[] = {
    OPTION(LIST, "command", NULL, command, .is_program = true, .is_needed = true),
    OPTION(STRING, "shell", NULL, shell, .is_program = true),
    OPTION(STRING, "format", "ulm", text, .is_needed = false),
    {0},
};
static const struct sensor_ops sensor_run = {.name = "run",
                                             .summary = "r",
                                             .options = run_options,
                                             .every = "10s",
                                             .refresh = "10m",
                                             .is_multi = true,
                                             .is_helper = true,
                                             .state_size = sizeof(struct test_state)};

static const struct sensor_ops sensor_beat = {
    .name = "beat", .summary = "h", .every = "30s", .is_default = true};

/* Another sensor's name begins this one's. */
static const struct sensor_ops sensor_far = {.name = "alpha.far", .summary = "f", .every = "1m"};

const struct sensor_ops *const sensor_list[] = {&sensor_alpha, &sensor_far,  &sensor_beta,
                                                &sensor_run,   &sensor_beat, NULL};

const struct sensor_ops *sensor_find(struct slice name)
{
    for (size_t i = 0; sensor_list[i]; i++)
        if (slice_eq_str(name, sensor_list[i]->name))
            return sensor_list[i];
    return NULL;
}

static inline bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static inline bool same_list(const struct parameter_list *a, const struct parameter_list *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = same_text(a->v[i], b->v[i]);
    return same;
}

static inline bool same_agent(const struct agent_config *a, const struct agent_config *b)
{
    return same_text(a->host, b->host) && same_text(a->state_dir, b->state_dir) &&
           same_text(a->run_dir, b->run_dir) && same_text(a->socket, b->socket) &&
           same_text(a->gateways, b->gateways) && a->is_guest == b->is_guest &&
           a->runs_defaults == b->runs_defaults && a->spool_max == b->spool_max &&
           a->queue_max == b->queue_max && a->spool_samples == b->spool_samples && a->samples_max == b->samples_max &&
           a->has_global_time == b->has_global_time &&
           a->budget_cpu == b->budget_cpu && a->budget_memory == b->budget_memory &&
           same_text(a->config_url, b->config_url) && a->config_every_ns == b->config_every_ns &&
           same_text(a->config_ca, b->config_ca) && same_list(&a->allow_programs, &b->allow_programs);
}

/* All but the origins. */
static inline bool same_config(const struct agent_config *a, const struct agent_config *b)
{
    bool same = same_agent(a, b) && a->n_outputs == b->n_outputs && a->n_sensors == b->n_sensors;
    for (size_t i = 0; same && i < a->n_outputs; i++)
        same = same_text(a->outputs[i].name, b->outputs[i].name) &&
               same_text(a->outputs[i].path, b->outputs[i].path) &&
               same_text(a->outputs[i].encoding, b->outputs[i].encoding);
    for (size_t i = 0; same && i < a->n_sensors; i++)
        same = config_same_sensor(&a->sensors[i], &b->sensors[i]);
    return same;
}

#endif
