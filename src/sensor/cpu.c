/* SPDX-License-Identifier: Apache-2.0 */
/* Time of the processors by what it was spent on, from /proc/stat: one row for all of them (cpu = "all") and one for
 * each, and `cpu.system`, the kernel's counts of interrupts, context switches and forks.
 *
 * The kernel counts in ticks (1/100 s here and nearly everywhere) and says so to user space; the counters stay in its
 * ticks, so that they are exact, with their unit in the schema. user includes guest, nice includes guest_nice, as the
 * kernel has it. */
#include "sensor/scan.h"
#include "sensor/sensor.h"

enum { CPU_TIMES = 10, CPU_ALL = 0, CPU_SYSTEM = 1 };

static const struct field cpu_fields[] = {
    KEY("cpu", "the processor's number, or all"),
    FIELD("user", UINT, COUNTER, "1/100 s", "in programs, guests included"),
    FIELD("nice", UINT, COUNTER, "1/100 s", "in programs of low priority"),
    FIELD("system", UINT, COUNTER, "1/100 s", "in the kernel"),
    FIELD("idle", UINT, COUNTER, "1/100 s", "with nothing to do"),
    FIELD("iowait", UINT, COUNTER, "1/100 s", "with nothing to do while a disk works"),
    FIELD("irq", UINT, COUNTER, "1/100 s", "in interrupt handlers"),
    FIELD("softirq", UINT, COUNTER, "1/100 s", "in what they left for later"),
    FIELD("steal", UINT, COUNTER, "1/100 s", "wanted, but the hypervisor ran others"),
    FIELD("guest", UINT, COUNTER, "1/100 s", "running guests"),
    FIELD("guest_nice", UINT, COUNTER, "1/100 s", "running guests of low priority"),
};

static const struct field system_fields[] = {
    FIELD("interrupts", UINT, COUNTER, "", "hardware interrupts"),
    FIELD("softirqs", UINT, COUNTER, "", "soft interrupts"),
    FIELD("switches", UINT, COUNTER, "", "context switches"),
    FIELD("forks", UINT, COUNTER, "", "processes and threads made since boot"),
    FIELD("running", UINT, GAUGE, "", "threads that can run"),
    FIELD("blocked", UINT, GAUGE, "", "processes that wait for a disk"),
    FIELD("softirq_hi", UINT, COUNTER, "", "soft interrupts of high priority"),
    FIELD("softirq_timer", UINT, COUNTER, "", "for timers"),
    FIELD("softirq_net_out", UINT, COUNTER, "", "for packets sent"),
    FIELD("softirq_net_in", UINT, COUNTER, "", "for packets received"),
    FIELD("softirq_block", UINT, COUNTER, "", "for disks"),
    FIELD("softirq_poll", UINT, COUNTER, "", "for disks that are polled"),
    FIELD("softirq_tasklet", UINT, COUNTER, "", "for drivers' tasklets"),
    FIELD("softirq_schedule", UINT, COUNTER, "", "for the scheduler"),
    FIELD("softirq_hrtimer", UINT, COUNTER, "", "for timers of high resolution"),
    FIELD("softirq_rcu", UINT, COUNTER, "", "for what waits until nobody reads it"),
};
enum { SYSTEM_TOTALS = 6, SYSTEM_SOFTIRQ = 1 };

static const struct sensor_schema cpu_schemas[] = {
    [CPU_ALL] = SCHEMA("cpu", cpu_fields),
    [CPU_SYSTEM] = SCHEMA("cpu.system", system_fields),
    {0},
};

struct cpu {
    bool per_core;
    struct sensor_env *env;
    struct source *stat;
};

static const struct parameter cpu_options[] = {
    {SETTING_FLAG, "per_core", "true", offsetof(struct cpu, per_core), "a row for each processor, too", false, false},
    {0},
};

static int cpu_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct cpu *c = state;
    (void)why; /* can't fail */
    c->env = env;
    c->stat = env_source(env, "/proc/stat");
    return 0;
}

/* "cpu" or "cpu7": the key of its row; false when the word is neither. */
static bool cpu_key(struct slice word, struct value *out)
{
    if (!slice_starts(word, SLICE_LIT("cpu")))
        return false;
    struct slice number = slice_from(word, 3);
    for (size_t i = 0; i < number.n; i++)
        if ((unsigned char)(number.p[i] - '0') > 9)
            return false;
    *out = value_text(number.n == 0 ? SLICE_LIT("all") : number);
    return true;
}

static void emit_cpu(struct cpu *c, struct sensor_out *out, struct value key, struct scan *line)
{
    struct value row[1 + CPU_TIMES] = {key};
    for (size_t i = 1; i <= CPU_TIMES; i++)
        row[i] = scan_value(line); /* older kernels have fewer */
    if (row[1].type == VALUE_NONE || (!c->per_core && !slice_eq_str(value_slice(key), "all")))
        return;
    sensor_row(out, CPU_ALL, row);
}

/* The lines behind the processors, by name; each has its total first. */
static void take_system(struct slice name, struct scan *line, struct value *row)
{
    static const char *const names[SYSTEM_TOTALS] = {"intr",          "softirq",      "ctxt", "processes",
                                                     "procs_running", "procs_blocked"};
    for (size_t i = 0; i < SYSTEM_TOTALS; i++) {
        if (!slice_eq_str(name, names[i]))
            continue;
        row[i] = scan_value(line);
        for (size_t k = SYSTEM_TOTALS; i == SYSTEM_SOFTIRQ && k < sizeof system_fields / sizeof *system_fields; k++)
            row[k] = scan_value(line); /* behind the total: one of each kind, in the kernel's order */
    }
}

static int cpu_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct cpu *c = state;
    struct slice text, line;
    struct value system[sizeof system_fields / sizeof *system_fields] = {0};
    int r = source_read(env, c->stat, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/stat: %s", err_text(r));
    struct scan s = scan_of(text);
    while (scan_line(&s, &line)) {
        if (s.p >= s.end && !scan_is_whole(text))
            break; /* cut in the middle */
        struct scan l = scan_of(line);
        struct value key;
        struct slice word = scan_word(&l);
        if (cpu_key(word, &key))
            emit_cpu(c, out, key, &l);
        else
            take_system(word, &l, system);
    }
    sensor_row(out, CPU_SYSTEM, system);
    return 0;
}

static void cpu_close(void *state)
{
    struct cpu *c = state;
    if (c->env)
        source_close(c->env, c->stat);
}

const struct sensor_ops sensor_cpu = {
    .name = "cpu",
    .summary = "time of the processors, interrupts, context switches",
    .schemas = cpu_schemas,
    .options = cpu_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 2,
    .is_default = true,
    .state_size = sizeof(struct cpu),
    .open = cpu_open,
    .sample = cpu_sample,
    .close = cpu_close,
};
