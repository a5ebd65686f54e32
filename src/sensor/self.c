/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's own use of the host: CPU, memory, bytes, drops, and the predicted and observed cost of every
 * sensor (SV-5). Run by another program than the agent, it is that program's use. Memory is what only this
 * process holds: resident less shared, from /proc/self/statm, which costs a microsecond where a sum over its
 * mappings costs a hundred. */
#include "sensor/self.h"

#include "sensor/scan.h"
#include "sensor/sensor.h"

#include <sys/resource.h>
#include <unistd.h>

enum { SELF, SELF_SENSOR };

static const struct field self_fields[] = {
    FIELD("cpu_user", UINT, COUNTER, "us", "CPU time in the agent's own code"),
    FIELD("cpu_system", UINT, COUNTER, "us", "CPU time in the kernel for it"),
    FIELD("children_cpu", UINT, COUNTER, "us", "CPU time of helpers and programs that have ended"),
    FIELD("resident", UINT, GAUGE, "bytes", "memory, shared parts included"),
    FIELD("private", UINT, GAUGE, "bytes", "memory that only the agent holds"),
    FIELD("samples_taken", UINT, COUNTER, "", "samples that passed their thresholds"),
    FIELD("samples_passed", UINT, COUNTER, "", "of them, handed to the gateway's connection"),
    FIELD("samples_dropped", UINT, COUNTER, "", "of them, dropped: no gateway, or over a limit"),
    FIELD("events_taken", UINT, COUNTER, "", "events"),
    FIELD("events_passed", UINT, COUNTER, "", "of them, acknowledged by the gateway"),
    FIELD("events_queued", UINT, GAUGE, "", "of them, in the spool, in memory or on the way"),
    FIELD("events_dropped", UINT, COUNTER, "", "of them, dropped"),
    FIELD("local_passed", UINT, COUNTER, "", "events given to consumers on this host"),
    FIELD("local_dropped", UINT, COUNTER, "", "events that those were too slow for"),
    FIELD("output_passed", UINT, COUNTER, "", "events taken for files and standard output"),
    FIELD("output_dropped", UINT, COUNTER, "", "events that those could not be written to"),
    FIELD("bytes_sent", UINT, COUNTER, "bytes", "to the gateway"),
    FIELD("bytes_received", UINT, COUNTER, "bytes", "from the gateway"),
    FIELD("streams", UINT, GAUGE, "", "streams known"),
    FIELD("consumers", UINT, GAUGE, "", "consumers on this host"),
    FIELD("sensors", UINT, GAUGE, "", "sensors that run"),
    FIELD("slowed", UINT, GAUGE, "", "sensors slowed to keep the budget"),
    FIELD("port_looks", UINT, COUNTER, "", "times the port monitor looked for traffic"),
    FIELD("port_time", UINT, COUNTER, "us", "time it took for that"),
};

static const struct field sensor_fields[] = {
    KEY("sensor", "its name"),
    FIELD("state", TEXT, STATE, "", "running, idle (not asked for), or failed"),
    FIELD("why", TEXT, TEXT, "", "what the last failure said"),
    FIELD("runs", UINT, COUNTER, "", "samples"),
    FIELD("failures", UINT, COUNTER, "", "samples that failed"),
    FIELD("no_data", UINT, COUNTER, "", "samples that found nothing to read"),
    FIELD("rows", UINT, COUNTER, "", "rows and events it made"),
    FIELD("wall", UINT, COUNTER, "us", "time its samples took"),
    FIELD("every", FLOAT, GAUGE, "s", "its period now"),
    FIELD("cost_predicted", FLOAT, GAUGE, "us/s", "CPU a second, by its first run"),
    FIELD("cost_observed", FLOAT, GAUGE, "us/s", "CPU a second, by the runs that were measured"),
};

static const struct sensor_schema self_schemas[] = {
    [SELF] = SCHEMA("self", self_fields),
    [SELF_SENSOR] = SCHEMA("self.sensor", sensor_fields),
    {0},
};

struct self {
    struct sensor_env *env;
    struct source *statm;
};

static int self_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct self *s = state;
    if (!env_is_live(env))
        return diag_set(why, E_NODATA, 0, "a captured tree has no agent that runs");
    s->env = env;
    s->statm = env_source(env, "/proc/self/statm");
    return 0;
}

static uint64_t micros(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static void add_memory(struct self *s, struct value *row)
{
    struct slice text;
    uint64_t size, resident, shared, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (source_read(s->env, s->statm, &text) < 0)
        return;
    struct scan l = scan_of(text);
    if (!scan_uint(&l, &size) || !scan_uint(&l, &resident) || !scan_uint(&l, &shared))
        return;
    row[3] = value_uint(resident * page);
    row[4] = value_uint((resident - shared) * page);
}

/* In the order of the fields from samples_taken on. */
static void add_counts(const struct sensor_self *self, struct value *row)
{
    struct self_counts c = {0};
    self->counts(self->arg, &c);
    const uint64_t all[] = {c.samples_taken,  c.samples_passed, c.samples_dropped, c.events_taken, c.events_passed,
                            c.events_queued,  c.events_dropped, c.local_passed,    c.local_dropped, c.output_passed, c.output_dropped, c.bytes_sent,
                            c.bytes_received, c.streams,        c.consumers,       c.sensors,       c.slowed,
                            c.port_looks,     c.port_ns / 1000};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        row[5 + i] = value_uint(all[i]);
}

/* Two decimals: more is noise, and they travel as a decimal. */
static struct value rounded(double v)
{
    return value_float(round(v * 100) / 100);
}

static void emit_cost(void *arg, const struct self_cost *c)
{
    const struct value row[] = {
        value_text(slice_str(c->sensor)),
        value_text(slice_str(c->state)),
        c->why[0] ? value_text(slice_str(c->why)) : value_none(),
        value_uint(c->runs),
        value_uint(c->failures),
        value_uint(c->no_data),
        value_uint(c->rows),
        value_uint(c->wall_ns / 1000),
        rounded(c->every_s),
        rounded(c->predicted),
        c->observed < 0 ? value_none() : rounded(c->observed),
    };
    sensor_row(arg, SELF_SENSOR, row);
}

static int self_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct self *s = state;
    struct value row[sizeof self_fields / sizeof *self_fields] = {0};
    struct rusage own, children;
    if (getrusage(RUSAGE_SELF, &own) == 0 && getrusage(RUSAGE_CHILDREN, &children) == 0) {
        row[0] = value_uint(micros(own.ru_utime));
        row[1] = value_uint(micros(own.ru_stime));
        row[2] = value_uint(micros(children.ru_utime) + micros(children.ru_stime));
    }
    add_memory(s, row);
    if (env->self)
        add_counts(env->self, row);
    sensor_row(out, SELF, row);
    if (env->self)
        env->self->each(env->self->arg, emit_cost, out);
    return 0;
}

static void self_close(void *state)
{
    struct self *s = state;
    if (s->env)
        source_close(s->env, s->statm);
}

const struct sensor_ops sensor_self = {
    .name = "self",
    .summary = "what the agent itself uses, and what each sensor costs",
    .schemas = self_schemas,
    .every = "10s",
    .refresh = "60s",
    .priority = 0,
    .is_default = true,
    .state_size = sizeof(struct self),
    .open = self_open,
    .sample = self_sample,
    .close = self_close,
};
