/* SPDX-License-Identifier: Apache-2.0 */
/* A whole host in 18 numbers (the seed's vector): one row, rates over the time since the last sample. It is the one
 * sensor that gives rates; `cpu`, `paging`, `disk` and `network` give the counters they come from.
 *
 * What counts. Each byte counts once: hardware disks (diskstats_is_physical), so neither partitions nor dm, md and loop
 * on top of them; hardware interfaces (netdev_is_physical), so neither lo nor bridges, bonds and veth. Where no device
 * is hardware, as in a container, the whole disks that are not stacked by their names, and all interfaces but lo.
 *
 * No spikes. Rates need two samples: the first has none. A device that was not there in both samples is left out of
 * this one's sums. If a counter of a device went back (a reset, a wrap at 32 bits, another device under its name within
 * one interval), all rates of its group (disk_, network_) are missing in this sample: without it the sum would be too
 * small, and with it anything. The same holds for a processor or paging counter and the fields made from it.
 *
 * Rates are rounded to two decimals (rate.h). */
#include "event/rate.h"
#include "sensor/diskstats.h"
#include "sensor/globs.h"
#include "sensor/keyed.h"
#include "sensor/loadavg.h"
#include "sensor/netdev.h"
#include "sensor/roster.h"
#include "sensor/sensor.h"

enum {
    VECTOR_CPU_IDLE,
    VECTOR_CPU_USER,
    VECTOR_CPU_SYSTEM,
    VECTOR_PROCESSES,
    VECTOR_RUN_QUEUE,
    VECTOR_MEMORY_AVAILABLE,
    VECTOR_MEMORY_CACHE,
    VECTOR_CACHE_FAULTS,
    VECTOR_PAGE_FAULTS,
    VECTOR_PAGES_TRANSFERRED,
    VECTOR_DISK_TIME,
    VECTOR_DISK_TRANSFERS,
    VECTOR_DISK_QUEUE,
    VECTOR_DISK_BYTES_PER_TRANSFER,
    VECTOR_NETWORK_BANDWIDTH,
    VECTOR_NETWORK_OUT_QUEUE,
    VECTOR_NETWORK_PACKETS,
    VECTOR_NETWORK_DROPPED,
    VECTOR_FIELDS
};

static const struct field vector_fields[VECTOR_FIELDS] = {
    FIELD("cpu_idle", FLOAT, GAUGE, "%", "of all processors' time: nothing to do, or only disks to wait for"),
    FIELD("cpu_user", FLOAT, GAUGE, "%", "of it in programs, nice ones and guests included"),
    FIELD("cpu_system", FLOAT, GAUGE, "%", "of it in the kernel, interrupts included"),
    FIELD("processes", UINT, GAUGE, "", "threads of all processes and the kernel"),
    FIELD("run_queue", UINT, GAUGE, "", "threads that run or could"),
    FIELD("memory_available", UINT, GAUGE, "bytes", "what programs could get without swapping"),
    FIELD("memory_cache", UINT, GAUGE, "bytes", "caches of files and block devices"),
    FIELD("cache_faults", FLOAT, GAUGE, "1/s", "page faults that had to read from disk"),
    FIELD("page_faults", FLOAT, GAUGE, "1/s", "page faults"),
    FIELD("pages_transferred", FLOAT, GAUGE, "1/s", "pages of 4 KiB read from and written to block devices"),
    FIELD("disk_time", FLOAT, GAUGE, "ms/s", "disks at work, summed over them"),
    FIELD("disk_transfers", FLOAT, GAUGE, "1/s", "reads and writes"),
    FIELD("disk_queue", FLOAT, GAUGE, "", "reads and writes begun and not done, average of the interval"),
    FIELD("disk_bytes_per_transfer", FLOAT, GAUGE, "bytes", "average of the interval; missing when there was none"),
    FIELD("network_bandwidth", FLOAT, GAUGE, "bytes/s", "received and sent"),
    FIELD("network_out_queue", UINT, GAUGE, "", "packets that wait to be sent"),
    FIELD("network_packets", FLOAT, GAUGE, "1/s", "packets received and sent"),
    FIELD("network_dropped", FLOAT, GAUGE, "1/s", "packets dropped in both directions"),
};

static const struct sensor_schema vector_schemas[] = {
    SCHEMA("vector", vector_fields),
    {0},
};

enum { MEMINFO_AVAILABLE, MEMINFO_BUFFERS, MEMINFO_CACHED, MEMINFO_FIELDS };
static const struct keyed_name meminfo_names[MEMINFO_FIELDS] = {
    {SENSOR_TEXT_("MemAvailable"), KEYED_KB},
    {SENSOR_TEXT_("Buffers"), KEYED_KB},
    {SENSOR_TEXT_("Cached"), KEYED_KB},
};

enum { VMSTAT_MAJOR, VMSTAT_FAULTS, VMSTAT_IN, VMSTAT_OUT, VMSTAT_FIELDS };
static const struct keyed_name vmstat_names[VMSTAT_FIELDS] = {
    {SENSOR_TEXT_("pgmajfault"), KEYED_PLAIN},
    {SENSOR_TEXT_("pgfault"), KEYED_PLAIN},
    {SENSOR_TEXT_("pgpgin"), KEYED_PLAIN}, /* KiB */
    {SENSOR_TEXT_("pgpgout"), KEYED_PLAIN},
};

enum { CPU_IDLE, CPU_USER, CPU_SYSTEM, CPU_OTHERS, CPU_SUMS }; /* others: stolen by the hypervisor */

enum { COUNTED_MAX = 6 };

/* A disk or an interface. */
struct counted {
    struct roster_entry entry;
    bool is_physical;
    bool is_second_best;     /* counts when nothing is physical */
    uint8_t kind;            /* disks: enum diskstats_kind */
    bool is_stacked;         /* disks: by the name */
    struct netdev_link link; /* interfaces */
    bool had, has;           /* before and now hold readings */
    uint64_t before[COUNTED_MAX], now[COUNTED_MAX];
};

struct vector {
    struct sensor_env *env;
    struct source *stat, *loadavg, *meminfo, *vmstat, *diskstats, *dev, *qdisc;
    struct keyed memory, paging;
    struct roster disks, interfaces; /* of struct counted */
    bool has_last;
    int64_t last_ns;                                   /* when the sample before was taken */
    struct value cpu[CPU_SUMS], faults[VMSTAT_FIELDS]; /* what was read then */
};

/* A sample being made. */
struct making {
    struct sensor_env *env;
    int64_t interval_ns; /* 0: there was no sample before */
    unsigned n_read;     /* files that could be read */
    struct value row[VECTOR_FIELDS];
};

static int vector_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct vector *v = state;
    (void)why; /* can't fail */
    v->env = env;
    v->stat = env_source(env, "/proc/stat");
    v->loadavg = env_source(env, "/proc/loadavg");
    v->meminfo = env_source(env, "/proc/meminfo");
    v->vmstat = env_source(env, "/proc/vmstat");
    v->diskstats = env_source(env, "/proc/diskstats");
    v->dev = env_source(env, "/proc/net/dev");
    v->qdisc = env_source(env, QDISC_SOURCE);
    keyed_init(&v->memory, meminfo_names, MEMINFO_FIELDS);
    keyed_init(&v->paging, vmstat_names, VMSTAT_FIELDS);
    roster_init(&v->disks, sizeof(struct counted));
    roster_init(&v->interfaces, sizeof(struct counted));
    return 0;
}

/* What can't be read is empty: its fields stay missing. */
static struct slice read_text(struct making *m, struct source *s)
{
    struct slice text = {"", 0};
    m->n_read += source_read(m->env, s, &text) == 0;
    return text;
}

/* The line of all processors, the first: "cpu  user nice system idle iowait irq softirq steal ...". Guests' time is in
 * user's and nice's already. Sums, because the kernel now and then takes a tick of iowait back and gives it to idle. */
static void read_cpu(struct slice text, struct value sums[CPU_SUMS])
{
    static const uint8_t sum_of[] = {CPU_USER, CPU_USER,   CPU_SYSTEM, CPU_IDLE,
                                     CPU_IDLE, CPU_SYSTEM, CPU_SYSTEM, CPU_OTHERS};
    struct scan s = scan_of(text);
    struct slice line;
    uint64_t ticks, sum[CPU_SUMS] = {0};
    size_t n = 0;
    if (!scan_whole_line(&s, &line))
        return;
    s = scan_of(line);
    if (!slice_eq_str(scan_word(&s), "cpu"))
        return;
    for (; n < sizeof sum_of && scan_uint(&s, &ticks); n++)
        sum[sum_of[n]] += ticks;
    for (size_t i = 0; i < CPU_SUMS && n >= 4; i++) /* old kernels have the first four only */
        sums[i] = value_uint(sum[i]);
}

static void add_cpu(struct vector *v, struct making *m)
{
    struct value now[CPU_SUMS] = {0};
    uint64_t gain[CPU_SUMS];
    double total = 0;
    bool has = m->interval_ns > 0;
    read_cpu(read_text(m, v->stat), now);
    for (size_t i = 0; i < CPU_SUMS && has; i++) {
        has = rate_gain_of(v->cpu[i], now[i], &gain[i]);
        total += has ? (double)gain[i] : 0;
    }
    for (size_t i = 0; i < CPU_OTHERS && has && total > 0; i++)
        m->row[VECTOR_CPU_IDLE + i] = rate_rounded((double)gain[i] * 100 / total);
    memcpy(v->cpu, now, sizeof now);
}

static void add_load(struct vector *v, struct making *m)
{
    struct loadavg now = loadavg_read(read_text(m, v->loadavg));
    m->row[VECTOR_RUN_QUEUE] = now.running;
    m->row[VECTOR_PROCESSES] = now.threads;
}

static void add_memory(struct vector *v, struct making *m)
{
    struct value now[MEMINFO_FIELDS] = {0};
    (void)keyed_read(&v->memory, read_text(m, v->meminfo), now); /* each is looked at below */
    m->row[VECTOR_MEMORY_AVAILABLE] = now[MEMINFO_AVAILABLE];
    if (now[MEMINFO_BUFFERS].type != VALUE_NONE && now[MEMINFO_CACHED].type != VALUE_NONE)
        m->row[VECTOR_MEMORY_CACHE] = value_uint(now[MEMINFO_BUFFERS].u + now[MEMINFO_CACHED].u);
}

static void add_paging(struct vector *v, struct making *m)
{
    struct value now[VMSTAT_FIELDS] = {0};
    const struct value *before = v->faults;
    uint64_t in, out;
    (void)keyed_read(&v->paging, read_text(m, v->vmstat), now); /* each is looked at below */
    m->row[VECTOR_CACHE_FAULTS] = rate_of(before[VMSTAT_MAJOR], now[VMSTAT_MAJOR], 1, m->interval_ns);
    m->row[VECTOR_PAGE_FAULTS] = rate_of(before[VMSTAT_FAULTS], now[VMSTAT_FAULTS], 1, m->interval_ns);
    if (rate_gain_of(before[VMSTAT_IN], now[VMSTAT_IN], &in) &&
        rate_gain_of(before[VMSTAT_OUT], now[VMSTAT_OUT], &out))
        m->row[VECTOR_PAGES_TRANSFERRED] = rate_per_second(in + out, 0.25, m->interval_ns); /* KiB to pages of 4 */
    memcpy(v->faults, now, sizeof now);
}

/* Moves a device on to its next reading, which is complete or none. */
static void take_reading(struct counted *c, const struct value *values, const uint8_t *which)
{
    c->had = c->has; /* false for one that is new */
    memcpy(c->before, c->now, sizeof c->before);
    c->has = true;
    for (size_t i = 0; i < COUNTED_MAX; i++) {
        struct value v = values[which[i]];
        c->has = c->has && v.type != VALUE_NONE;
        c->now[i] = v.u;
    }
}

static bool has_physical(const struct roster *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (((const struct counted *)r->v[i])->is_physical)
            return true;
    return false;
}

static bool counts(const struct counted *c, bool only_physical)
{
    return only_physical ? c->is_physical : c->is_second_best;
}

/* What all devices that count gained in the interval; false: there are none, or one of them went back. */
static bool sum_gains(const struct roster *r, uint64_t sums[COUNTED_MAX])
{
    bool only_physical = has_physical(r), any = false;
    for (size_t i = 0; i < r->n; i++) {
        const struct counted *c = (const struct counted *)r->v[i];
        if (!counts(c, only_physical) || !c->had || !c->has)
            continue;
        for (size_t k = 0; k < COUNTED_MAX; k++) {
            uint64_t gain;
            if (!rate_gain(c->before[k], c->now[k], &gain))
                return false;
            sums[k] += gain;
        }
        any = true;
    }
    return any;
}

/* What roster_see returned: a line that is no device's is passed over, the rest ends the sample. */
static bool is_fatal(int r)
{
    return r < 0 && r != E_PROTO;
}

static void look_at_disk(struct counted *c, struct sensor_env *env)
{
    static const char *const names[] = {"loop*", "ram*", "zram*", "dm-*", "md*", "drbd*", "bcache*"};
    static const struct parameter_list stacked = {names, sizeof names / sizeof *names};
    c->kind = (uint8_t)diskstats_kind(env, c->entry.name);
    c->is_physical = c->kind == DISKSTATS_WHOLE && diskstats_is_physical(env, c->entry.name);
    c->is_stacked = globs_match(&stacked, c->entry.name);
}

/* 0; E_LIMIT or -ENOMEM. */
static int read_disks(struct vector *v, struct making *m)
{
    static const uint8_t which[COUNTED_MAX] = {DISK_READS,       DISK_WRITES,    DISK_READ_BYTES,
                                               DISK_WRITE_BYTES, DISK_BUSY_TIME, DISK_WEIGHTED_TIME};
    struct slice text = read_text(m, v->diskstats), line, disk = {"", 0};
    struct scan s = scan_of(text);
    int r = 0;
    roster_begin(&v->disks);
    while (!is_fatal(r) && scan_whole_line(&s, &line)) {
        struct scan l = scan_of(line);
        struct roster_entry *entry;
        struct value values[DISK_FIELDS];
        r = roster_see(&v->disks, diskstats_name(&l), &entry);
        if (r < 0)
            continue;
        struct counted *c = (struct counted *)entry;
        if (r > 0)
            look_at_disk(c, m->env);
        bool is_partition = diskstats_is_partition(c->kind, entry->name, disk);
        if (!is_partition)
            disk = entry->name;
        c->is_second_best = !is_partition && !c->is_stacked;
        if (!c->is_physical && !c->is_second_best)
            continue;
        diskstats_values(&l, values);
        take_reading(c, values, which);
    }
    roster_end(&v->disks);
    return is_fatal(r) ? r : 0;
}

static void add_disks(struct vector *v, struct making *m)
{
    uint64_t g[COUNTED_MAX] = {0};
    if (m->interval_ns <= 0 || !sum_gains(&v->disks, g))
        return;
    uint64_t transfers = g[0] + g[1];
    m->row[VECTOR_DISK_TRANSFERS] = rate_per_second(transfers, 1, m->interval_ns);
    m->row[VECTOR_DISK_TIME] = rate_per_second(g[4], 1, m->interval_ns);
    m->row[VECTOR_DISK_QUEUE] = rate_per_second(g[5], 1e-3, m->interval_ns); /* ms of transfers in a ms */
    if (transfers > 0)
        m->row[VECTOR_DISK_BYTES_PER_TRANSFER] = rate_rounded((double)(g[2] + g[3]) / (double)transfers);
}

static int read_interfaces(struct vector *v, struct making *m)
{
    static const uint8_t which[COUNTED_MAX] = {NET_IN_BYTES,    NET_OUT_BYTES,  NET_IN_PACKETS,
                                               NET_OUT_PACKETS, NET_IN_DROPPED, NET_OUT_DROPPED};
    struct slice text = read_text(m, v->dev), line;
    struct scan s = scan_of(text);
    int r = 0;
    roster_begin(&v->interfaces);
    while (!is_fatal(r) && scan_whole_line(&s, &line)) {
        struct scan l = scan_of(line);
        struct roster_entry *entry;
        struct value values[NET_FIELDS];
        r = roster_see(&v->interfaces, netdev_name(&l), &entry);
        if (r < 0)
            continue;
        struct counted *c = (struct counted *)entry;
        if (r > 0) {
            c->is_physical = netdev_is_physical(m->env, entry->name);
            c->is_second_best = !slice_eq_str(entry->name, "lo");
        }
        netdev_values(&l, values);
        take_reading(c, values, which);
    }
    roster_end(&v->interfaces);
    return is_fatal(r) ? r : 0;
}

/* The queues of the interfaces that count; none when not one of them has one. */
static struct value out_queue(struct vector *v, struct sensor_env *env)
{
    struct slice dump = {"", 0};
    size_t at = 0;
    uint64_t packets = 0;
    bool only_physical = has_physical(&v->interfaces), any = false;
    (void)source_read(env, v->qdisc, &dump); /* without it there is none */
    for (size_t i = 0; i < v->interfaces.n; i++) {
        struct counted *c = (struct counted *)v->interfaces.v[i];
        struct qdisc q;
        if (!counts(c, only_physical) || !netdev_queue(env, c->entry.name, &c->link, dump, &at, &q))
            continue;
        packets += q.packets;
        any = true;
    }
    return any ? value_uint(packets) : value_none();
}

static void add_interfaces(struct vector *v, struct making *m)
{
    uint64_t g[COUNTED_MAX] = {0};
    m->row[VECTOR_NETWORK_OUT_QUEUE] = out_queue(v, m->env);
    if (m->interval_ns <= 0 || !sum_gains(&v->interfaces, g))
        return;
    m->row[VECTOR_NETWORK_BANDWIDTH] = rate_per_second(g[0] + g[1], 1, m->interval_ns);
    m->row[VECTOR_NETWORK_PACKETS] = rate_per_second(g[2] + g[3], 1, m->interval_ns);
    m->row[VECTOR_NETWORK_DROPPED] = rate_per_second(g[4] + g[5], 1, m->interval_ns);
}

static int vector_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct vector *v = state;
    int64_t now_ns = env->mono_ns();
    struct making m = {.env = env, .interval_ns = v->has_last ? now_ns - v->last_ns : 0};
    v->has_last = true;
    v->last_ns = now_ns;
    add_cpu(v, &m);
    add_load(v, &m);
    add_memory(v, &m);
    add_paging(v, &m);
    int r = read_disks(v, &m);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/diskstats: %s, at %zu devices", err_text(r), v->disks.n);
    add_disks(v, &m);
    r = read_interfaces(v, &m);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/net/dev: %s, at %zu interfaces", err_text(r), v->interfaces.n);
    add_interfaces(v, &m);
    if (m.n_read == 0)
        return diag_set(out->why, E_NODATA, 0, "none of the files in /proc that it is made from can be read");
    sensor_row(out, 0, m.row);
    return 0;
}

static void vector_close(void *state)
{
    struct vector *v = state;
    if (!v->env)
        return;
    struct source *sources[] = {v->stat, v->loadavg, v->meminfo, v->vmstat, v->diskstats, v->dev, v->qdisc};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        source_close(v->env, sources[i]);
    keyed_fini(&v->memory);
    keyed_fini(&v->paging);
    roster_fini(&v->disks);
    roster_fini(&v->interfaces);
}

const struct sensor_ops sensor_vector = {
    .name = "vector",
    .summary = "the whole host in 18 numbers, rates included",
    .schemas = vector_schemas,
    .every = "1s",
    .refresh = "60s",
    .priority = 0,
    .is_default = true,
    .state_size = sizeof(struct vector),
    .open = vector_open,
    .sample = vector_sample,
    .close = vector_close,
};
