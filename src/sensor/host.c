/* SPDX-License-Identifier: Apache-2.0 */
/* What this host is: processors, memory, kernel, operating system, boot, and its network interfaces. Sampled now and
 * then and sent when something changed.
 *
 * Processors are counted where the kernel says how they hang together (/sys/devices/system/cpu): each processor has
 * the list of those in its core and in its socket, and a core or socket is counted at the first of its list. That and
 * /proc/cpuinfo, which is long and dear on large hosts, are read again only when the list of processors changed.
 *
 * /etc/machine-id is confidential by its manual: sent is a 64-bit hash of it, which 2^58 of its possible values
 * share, so that it names the host and leads back to none. The kernel computes the boot time from two clocks and may
 * be one second off from one reading to the next: that is no change. */
#include "base/hash.h"
#include "base/num.h"
#include "sensor/clean.h"
#include "sensor/interfaces.h"
#include "sensor/scan.h"

#include <sys/utsname.h>
#include <unistd.h>

enum { HOST_ALL, HOST_INTERFACE, CPUS_MAX = 65536 };

enum {
    HOST_CPU_MODEL,
    HOST_SOCKETS,
    HOST_CORES,
    HOST_THREADS,
    HOST_MEMORY,
    HOST_KERNEL,
    HOST_KERNEL_VERSION,
    HOST_ARCHITECTURE,
    HOST_OS,
    HOST_VENDOR,
    HOST_PRODUCT,
    HOST_VIRTUAL,
    HOST_CONTAINER,
    HOST_MACHINE,
    HOST_BOOT_ID,
    HOST_BOOT_TIME,
    HOST_INTERFACES,
    HOST_FIELDS
};

static const struct field host_fields[] = {
    [HOST_CPU_MODEL] = FIELD("cpu_model", TEXT, STATE, "", "the processors' name"),
    [HOST_SOCKETS] = FIELD("sockets", UINT, STATE, "", "processor packages"),
    [HOST_CORES] = FIELD("cores", UINT, STATE, "", "processor cores"),
    [HOST_THREADS] = FIELD("threads", UINT, STATE, "", "processors that the kernel uses"),
    [HOST_MEMORY] = FIELD("memory", UINT, STATE, "bytes", "that the kernel has"),
    [HOST_KERNEL] = FIELD("kernel", TEXT, STATE, "", "release of the kernel"),
    [HOST_KERNEL_VERSION] = FIELD("kernel_version", TEXT, STATE, "", "how and when it was built"),
    [HOST_ARCHITECTURE] = FIELD("architecture", TEXT, STATE, "", "`x86_64`, `aarch64`, ..."),
    [HOST_OS] = FIELD("os", TEXT, STATE, "", "name and version of the operating system"),
    [HOST_VENDOR] = FIELD("vendor", TEXT, STATE, "", "of the machine, real or virtual"),
    [HOST_PRODUCT] = FIELD("product", TEXT, STATE, "", "name of the machine, real or virtual"),
    [HOST_VIRTUAL] = FIELD("virtual", BOOL, STATE, "", "runs under a hypervisor"),
    [HOST_CONTAINER] = FIELD("container", TEXT, STATE, "", "the manager of the container that this is"),
    [HOST_MACHINE] = FIELD("machine", TEXT, STATE, "", "hash of the machine id"),
    [HOST_BOOT_ID] = FIELD("boot_id", TEXT, STATE, "", "another one after each boot"),
    [HOST_BOOT_TIME] = FIELD("boot_time", UINT, STATE, "s", "when it was booted, since 1970"),
    [HOST_INTERFACES] = FIELD("interfaces", UINT, STATE, "", "network interfaces"),
};
_Static_assert(sizeof host_fields / sizeof *host_fields == HOST_FIELDS, "a name a field");

static const struct sensor_schema host_schemas[] = {
    [HOST_ALL] = SCHEMA("host", host_fields),
    [HOST_INTERFACE] = SCHEMA("host.interface", interfaces_fields),
    {0},
};

struct host {
    struct sensor_env *env;
    struct source *online, *meminfo, *stat;
    struct strbuf text;                /* of the file being read */
    struct strbuf values[HOST_FIELDS]; /* the texts of the row */
    struct strbuf seen_online;         /* for which the processors were looked at */
    bool has_cpus;
    struct value cpus[HOST_THREADS + 1], is_virtual; /* from then */
    uint64_t boot_time;                             /* as last said; 0 = not yet */
    struct interfaces interfaces;
};

static int host_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct host *h = state;
    (void)why; /* can't fail */
    h->env = env;
    h->online = env_source(env, "/sys/devices/system/cpu/online");
    h->meminfo = env_source(env, "/proc/meminfo");
    h->stat = env_source(env, "/proc/stat");
    return 0;
}

/* Keeps the text for the row that is being made. */
static struct value keep(struct host *h, unsigned field, struct slice text)
{
    strbuf_reset(&h->values[field]);
    clean_add(&h->values[field], text);
    return text.n && !strbuf_failed(&h->values[field]) ? value_text(strbuf_slice(&h->values[field])) : value_none();
}

static struct slice trim(struct slice s)
{
    while (s.n && (scan_is_blank(s.p[0]) || s.p[0] == '\n'))
        s = slice_from(s, 1);
    while (s.n && (scan_is_blank(s.p[s.n - 1]) || s.p[s.n - 1] == '\n'))
        s.n--;
    return s;
}

/* The first line of a file; VALUE_NONE when there is none or it is cut. */
static struct value read_line(struct host *h, unsigned field, const char *path)
{
    struct slice line;
    if (env_read_file(h->env, path, &h->text) < 0 || !scan_is_whole(strbuf_slice(&h->text)))
        return value_none();
    struct scan s = scan_of(strbuf_slice(&h->text));
    return scan_line(&s, &line) ? keep(h, field, trim(line)) : value_none();
}

/* The next line that is whole. */
static bool whole_line(struct scan *s, struct slice text, struct slice *line)
{
    return scan_line(s, line) && (s->p < s->end || scan_is_whole(text));
}

/* "name\t: value", as /proc/cpuinfo has it. */
static bool is_named(struct slice line, const char *name, struct slice *value)
{
    const char *colon = memchr(line.p, ':', line.n);
    if (!colon)
        return false;
    *value = trim(slice_from(line, (size_t)(colon - line.p) + 1));
    return slice_eq_str(trim(slice_of(line.p, (size_t)(colon - line.p))), name);
}

static bool has_word(struct slice text, const char *word)
{
    struct scan s = scan_of(text);
    struct slice w;
    while ((w = scan_word(&s)).n)
        if (slice_eq_str(w, word))
            return true;
    return false;
}

/* The model, and how many there are if the kernel does not say it elsewhere. Only x86 tells of a hypervisor. */
static void read_cpuinfo(struct host *h)
{
    struct slice line, value;
    uint64_t n = 0;
    if (env_read_file(h->env, "/proc/cpuinfo", &h->text) < 0)
        return;
    struct slice text = strbuf_slice(&h->text);
    struct scan s = scan_of(text);
    while (whole_line(&s, text, &line)) {
        if (h->cpus[HOST_CPU_MODEL].type == VALUE_NONE &&
            (is_named(line, "model name", &value) || is_named(line, "cpu", &value)))
            h->cpus[HOST_CPU_MODEL] = keep(h, HOST_CPU_MODEL, value);
        else if (h->is_virtual.type == VALUE_NONE && is_named(line, "flags", &value))
            h->is_virtual = value_bool(has_word(value, "hypervisor"));
        else
            n += is_named(line, "processor", &value);
    }
    if (h->cpus[HOST_THREADS].type == VALUE_NONE && n > 0 && scan_is_whole(text))
        h->cpus[HOST_THREADS] = value_uint(n);
}

/* "0-3,8\n": the next run of numbers; false at the end and for anything else. */
static bool next_range(struct slice *list, uint64_t *first, uint64_t *last)
{
    size_t n = 0;
    while (n < list->n && list->p[n] != ',' && list->p[n] != '\n')
        n++;
    struct slice range = slice_of(list->p, n);
    const char *dash = n ? memchr(range.p, '-', n) : NULL;
    struct slice low = dash ? slice_of(range.p, (size_t)(dash - range.p)) : range;
    struct slice high = dash ? slice_from(range, low.n + 1) : range;
    *list = slice_from(*list, n + 1);
    return num_parse_uint(low, first) == 0 && num_parse_uint(high, last) == 0 && *first <= *last && *last < CPUS_MAX;
}

/* Is this processor the first of the list in that file? -1 without the file. */
static int is_first(struct host *h, uint64_t cpu, const char *file)
{
    char path[128];
    uint64_t first, last;
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%llu/topology/%s", (unsigned long long)cpu, file);
    if (env_read_file(h->env, path, &h->text) < 0 || !scan_is_whole(strbuf_slice(&h->text)))
        return -1;
    struct slice list = strbuf_slice(&h->text);
    return next_range(&list, &first, &last) ? first == cpu : -1;
}

/* Counts all that is known of every processor; VALUE_NONE once one is not known. */
static void count_cpus(struct host *h, struct slice online)
{
    uint64_t first, last, threads = 0, cores = 0, sockets = 0;
    bool knows_cores = true, knows_sockets = true;
    while (online.n) {
        if (!next_range(&online, &first, &last))
            return;
        for (uint64_t cpu = first; cpu <= last; cpu++, threads++) {
            int core = knows_cores ? is_first(h, cpu, "thread_siblings_list") : -1;
            int socket = knows_sockets ? is_first(h, cpu, "core_siblings_list") : -1;
            knows_cores = core >= 0;
            knows_sockets = socket >= 0;
            cores += core > 0;
            sockets += socket > 0;
        }
    }
    if (threads == 0)
        return; /* no list */
    h->cpus[HOST_THREADS] = value_uint(threads);
    h->cpus[HOST_CORES] = knows_cores ? value_uint(cores) : value_none();
    h->cpus[HOST_SOCKETS] = knows_sockets ? value_uint(sockets) : value_none();
}

static void look_at_cpus(struct host *h)
{
    struct slice online = {"", 0};
    int r = source_read(h->env, h->online, &online);
    if (r < 0 || !scan_is_whole(online))
        online = slice_of("", 0);
    if (h->has_cpus && slice_eq(online, strbuf_slice(&h->seen_online)))
        return;
    for (size_t i = 0; i <= HOST_THREADS; i++)
        h->cpus[i] = value_none();
    h->is_virtual = value_none();
    strbuf_reset(&h->seen_online);
    strbuf_add_slice(&h->seen_online, online);
    h->has_cpus = !strbuf_failed(&h->seen_online);
    count_cpus(h, online);
    read_cpuinfo(h);
}

static struct value take_memory(struct host *h)
{
    struct slice text, line;
    uint64_t kib;
    if (source_read(h->env, h->meminfo, &text) < 0)
        return value_none();
    struct scan s = scan_of(text);
    while (whole_line(&s, text, &line)) {
        struct scan l = scan_of(line);
        if (slice_eq_str(scan_word(&l), "MemTotal:"))
            return scan_uint(&l, &kib) && kib <= UINT64_MAX / 1024 ? value_uint(kib * 1024) : value_none();
    }
    return value_none();
}

static struct value take_boot_time(struct host *h)
{
    struct slice text, line;
    uint64_t t;
    if (source_read(h->env, h->stat, &text) < 0)
        return value_none();
    struct scan s = scan_of(text);
    while (whole_line(&s, text, &line)) {
        struct scan l = scan_of(line);
        if (!slice_eq_str(scan_word(&l), "btime"))
            continue;
        if (!scan_uint(&l, &t))
            return value_none();
        if (h->boot_time == 0 || t > h->boot_time + 1 || t + 1 < h->boot_time)
            h->boot_time = t;
        return value_uint(h->boot_time);
    }
    return value_none();
}

/* PRETTY_NAME of an os-release: a shell word, which may be quoted, with backslashes in front of " $ ` and \. */
static struct value take_os(struct host *h, const char *path)
{
    static const struct slice name = {"PRETTY_NAME=", 12};
    struct slice line;
    if (env_read_file(h->env, path, &h->text) < 0)
        return value_none();
    struct slice text = strbuf_slice(&h->text);
    struct scan s = scan_of(text);
    while (whole_line(&s, text, &line)) {
        if (!slice_starts(line, name))
            continue;
        struct slice value = trim(slice_from(line, name.n));
        if (value.n >= 2 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0])
            value = slice_of(value.p + 1, value.n - 2);
        char *to = h->text.p; /* what is read lies behind what is written */
        size_t n = 0;
        for (size_t i = 0; i < value.n; i++) {
            i += value.p[i] == '\\' && i + 1 < value.n;
            to[n++] = value.p[i];
        }
        return keep(h, HOST_OS, slice_of(to, n));
    }
    return value_none();
}

static struct value take_machine(struct host *h)
{
    enum { SEED = 0x67726964 }; /* so that it is not the hash that others may make of it */
    char hex[17];
    if (env_read_file(h->env, "/etc/machine-id", &h->text) < 0)
        return value_none();
    struct slice id = trim(strbuf_slice(&h->text));
    for (size_t i = 0; i < id.n; i++)
        if (text_hex_digit(id.p[i]) < 0)
            return value_none(); /* "uninitialized" while the host is set up */
    if (id.n != 32)
        return value_none();
    (void)snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash_seeded(id, SEED));
    return keep(h, HOST_MACHINE, slice_of(hex, 16));
}

static struct value take_architecture(struct host *h)
{
    struct utsname u;
    struct value v = read_line(h, HOST_ARCHITECTURE, "/proc/sys/kernel/arch"); /* Linux 6.1 and later */
    if (v.type != VALUE_NONE || !env_is_live(h->env) || uname(&u) < 0)
        return v;
    return keep(h, HOST_ARCHITECTURE, slice_str(u.machine));
}

/* systemd writes the name of the manager; the others leave an empty file. */
static struct value take_container(struct host *h)
{
    static const struct {
        const char *path, *manager;
    } marks[] = {{"/run/.containerenv", "podman"}, {"/.dockerenv", "docker"}};
    struct value v = read_line(h, HOST_CONTAINER, "/run/systemd/container");
    for (size_t i = 0; i < sizeof marks / sizeof *marks && v.type == VALUE_NONE; i++) {
        strbuf_reset(&h->text);
        if (access(env_path(h->env, marks[i].path, &h->text), F_OK) == 0)
            v = keep(h, HOST_CONTAINER, slice_str(marks[i].manager));
    }
    return v;
}

static struct value take_virtual(struct host *h)
{
    strbuf_reset(&h->text);
    if (access(env_path(h->env, "/sys/hypervisor/type", &h->text), F_OK) == 0)
        return value_bool(true);
    return h->is_virtual;
}

static int host_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct host *h = state;
    struct value row[HOST_FIELDS] = {0};
    look_at_cpus(h);
    memcpy(row, h->cpus, sizeof h->cpus);
    row[HOST_MEMORY] = take_memory(h);
    row[HOST_KERNEL] = read_line(h, HOST_KERNEL, "/proc/sys/kernel/osrelease");
    row[HOST_KERNEL_VERSION] = read_line(h, HOST_KERNEL_VERSION, "/proc/sys/kernel/version");
    row[HOST_ARCHITECTURE] = take_architecture(h);
    row[HOST_OS] = take_os(h, "/etc/os-release");
    if (row[HOST_OS].type == VALUE_NONE)
        row[HOST_OS] = take_os(h, "/usr/lib/os-release");
    row[HOST_VENDOR] = read_line(h, HOST_VENDOR, "/sys/class/dmi/id/sys_vendor");
    row[HOST_PRODUCT] = read_line(h, HOST_PRODUCT, "/sys/class/dmi/id/product_name");
    row[HOST_VIRTUAL] = take_virtual(h);
    row[HOST_CONTAINER] = take_container(h);
    row[HOST_MACHINE] = take_machine(h);
    row[HOST_BOOT_ID] = read_line(h, HOST_BOOT_ID, "/proc/sys/kernel/random/boot_id");
    row[HOST_BOOT_TIME] = take_boot_time(h);
    int r = interfaces_list(&h->interfaces, env);
    row[HOST_INTERFACES] = r == 0 ? value_uint(h->interfaces.total) : value_none();
    bool is_empty = true;
    for (size_t i = 0; i < HOST_FIELDS; i++)
        is_empty &= row[i].type == VALUE_NONE;
    if (is_empty)
        return diag_set(out->why, E_NODATA, 0, "neither /proc nor /sys");
    sensor_row(out, HOST_ALL, row);
    interfaces_emit(&h->interfaces, env, out, HOST_INTERFACE);
    return 0;
}

static void host_close(void *state)
{
    struct host *h = state;
    for (size_t i = 0; i < HOST_FIELDS; i++)
        strbuf_fini(&h->values[i]);
    strbuf_fini(&h->text);
    strbuf_fini(&h->seen_online);
    interfaces_fini(&h->interfaces);
    if (!h->env)
        return;
    source_close(h->env, h->online);
    source_close(h->env, h->meminfo);
    source_close(h->env, h->stat);
}

const struct sensor_ops sensor_host = {
    .name = "host",
    .summary = "what this host is: processors, memory, system, interfaces",
    .schemas = host_schemas,
    .every = "60s",
    .refresh = "1h",
    .priority = 8,
    .is_default = true,
    .state_size = sizeof(struct host),
    .open = host_open,
    .sample = host_sample,
    .close = host_close,
};
