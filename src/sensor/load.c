/* SPDX-License-Identifier: Apache-2.0 */
/* The run queue and its averages, from /proc/loadavg. The number of processes is not in it. Counting them means
 * listing /proc, which costs a microsecond a process: only when asked for. */
#include "sensor/loadavg.h"
#include "sensor/sensor.h"

enum { LOAD_RUNNING = LOADAVG_AVERAGES, LOAD_THREADS, LOAD_PROCESSES, LOAD_FIELDS };

static const struct field load_fields[] = {
    FIELD("load1", FLOAT, GAUGE, "", "threads that run or wait for a disk, average of the last minute"),
    FIELD("load5", FLOAT, GAUGE, "", "the same of 5 minutes"),
    FIELD("load15", FLOAT, GAUGE, "", "the same of 15 minutes"),
    FIELD("running", UINT, GAUGE, "", "run queue: threads that run or could"),
    FIELD("threads", UINT, GAUGE, "", "all threads, the kernel's included"),
    FIELD("processes", UINT, GAUGE, "", "all processes, if asked for"),
};

static const struct sensor_schema load_schemas[] = {
    SCHEMA("load", load_fields),
    {0},
};

struct load {
    bool processes;
    struct sensor_env *env;
    struct source *loadavg;
};

static const struct parameter load_options[] = {
    {SETTING_FLAG, "processes", "false", offsetof(struct load, processes), "count the processes: lists `/proc`", false,
     false},
    {0},
};

static int load_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct load *l = state;
    (void)why; /* can't fail */
    l->env = env;
    l->loadavg = env_source(env, "/proc/loadavg");
    return 0;
}

static int count_process(void *arg, const char *name)
{
    uint64_t *n = arg, pid;
    *n += num_parse_uint(slice_str(name), &pid) == 0;
    return 0;
}

static int load_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct load *l = state;
    struct slice text;
    struct value row[LOAD_FIELDS] = {0};
    uint64_t processes = 0;
    int r = source_read(env, l->loadavg, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/loadavg: %s", err_text(r));
    struct loadavg now = loadavg_read(text);
    if (now.averages[0].type == VALUE_NONE)
        return diag_set(out->why, E_NODATA, 0, "/proc/loadavg: no whole line");
    memcpy(row, now.averages, sizeof now.averages);
    row[LOAD_RUNNING] = now.running;
    row[LOAD_THREADS] = now.threads;
    if (l->processes && env_list(env, "/proc", count_process, &processes) == 0)
        row[LOAD_PROCESSES] = value_uint(processes);
    sensor_row(out, 0, row);
    return 0;
}

static void load_close(void *state)
{
    struct load *l = state;
    if (l->env)
        source_close(l->env, l->loadavg);
}

const struct sensor_ops sensor_load = {
    .name = "load",
    .summary = "load averages, run queue, threads",
    .schemas = load_schemas,
    .options = load_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 2,
    .is_default = true,
    .state_size = sizeof(struct load),
    .open = load_open,
    .sample = load_sample,
    .close = load_close,
};
