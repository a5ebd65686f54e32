/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: processor time, memory, disk, tasks and pressure of each group that a pattern names (`cgroup`), and
 * how many there were (`cgroup.total`).
 *
 * Three layouts under /sys/fs/cgroup. Version 2: one tree, all files of a group in its folder. Version 1: a tree a
 * controller (memory/GROUP/memory.stat), a group being in some of them. Hybrid: version 1, and in unified/ a tree of
 * version 2 without controllers, which still has the pressure. What a group has not is VALUE_NONE.
 *
 * files[] says for each file which fields it gives and in which unit. Groups are looked for in each sample, by
 * reading the folders that the patterns lead to; files of the first KEPT_GROUPS groups stay open, those of others
 * would use up the descriptors that a process may have. */
#include "base/mem.h"
#include "base/num.h"
#include "sensor/clean.h"
#include "sensor/distinct.h"
#include "sensor/psi.h"
#include "sensor/scan.h"
#include "sensor/sensor.h"

#include <errno.h>
#include <unistd.h>

enum { CGROUP_GROUP, CGROUP_TOTAL, KEPT_GROUPS = 8, GROUPS_MAX = 1024, DEPTH_MAX = 16 };
#define ROOT "/sys/fs/cgroup"

enum {
    GROUP,
    CPU_USAGE,
    CPU_USER,
    CPU_SYSTEM,
    CPU_PERIODS,
    CPU_THROTTLED,
    CPU_THROTTLED_TIME,
    MEMORY,
    MEMORY_PEAK,
    MEMORY_MAX,
    MEMORY_ANON,
    MEMORY_FILE,
    MEMORY_SWAP,
    MEMORY_FAULTS,
    MEMORY_MAJOR_FAULTS,
    MEMORY_LIMIT_HITS,
    MEMORY_OOM_KILLS,
    IO_READ_BYTES,
    IO_WRITE_BYTES,
    IO_READS,
    IO_WRITES,
    TASKS,
    TASKS_MAX,
    CPU_SOME,
    CPU_FULL,
    MEMORY_SOME,
    MEMORY_FULL,
    IO_SOME,
    IO_FULL,
    N_FIELDS
};

static const struct field cgroup_fields[] = {
    [GROUP] = KEY("group", "its path below the root of the tree"),
    [CPU_USAGE] = FIELD("cpu_usage", UINT, COUNTER, "us", "processor time"),
    [CPU_USER] = FIELD("cpu_user", UINT, COUNTER, "us", "of that, in programs"),
    [CPU_SYSTEM] = FIELD("cpu_system", UINT, COUNTER, "us", "of that, in the kernel"),
    [CPU_PERIODS] = FIELD("cpu_periods", UINT, COUNTER, "", "periods with a limit of processor time"),
    [CPU_THROTTLED] = FIELD("cpu_throttled", UINT, COUNTER, "", "of those, in which it was reached"),
    [CPU_THROTTLED_TIME] = FIELD("cpu_throttled_time", UINT, COUNTER, "us", "tasks were kept waiting by it"),
    [MEMORY] = FIELD("memory", UINT, GAUGE, "bytes", "used, file cache included"),
    [MEMORY_PEAK] = FIELD("memory_peak", UINT, GAUGE, "bytes", "the most there ever was"),
    [MEMORY_MAX] = FIELD("memory_max", UINT, GAUGE, "bytes", "limit; none if there is none"),
    [MEMORY_ANON] = FIELD("memory_anon", UINT, GAUGE, "bytes", "of the programs themselves"),
    [MEMORY_FILE] = FIELD("memory_file", UINT, GAUGE, "bytes", "file cache"),
    [MEMORY_SWAP] = FIELD("memory_swap", UINT, GAUGE, "bytes", "in swap space"),
    [MEMORY_FAULTS] = FIELD("memory_faults", UINT, COUNTER, "", "page faults"),
    [MEMORY_MAJOR_FAULTS] = FIELD("memory_major_faults", UINT, COUNTER, "", "of those, with a disk access"),
    [MEMORY_LIMIT_HITS] = FIELD("memory_limit_hits", UINT, COUNTER, "", "times the limit was reached"),
    [MEMORY_OOM_KILLS] = FIELD("memory_oom_kills", UINT, COUNTER, "", "processes killed for lack of memory"),
    [IO_READ_BYTES] = FIELD("io_read_bytes", UINT, COUNTER, "bytes", "read from disks; a stack of devices counts each"),
    [IO_WRITE_BYTES] = FIELD("io_write_bytes", UINT, COUNTER, "bytes", "written to disks"),
    [IO_READS] = FIELD("io_reads", UINT, COUNTER, "", "transfers from disks"),
    [IO_WRITES] = FIELD("io_writes", UINT, COUNTER, "", "transfers to disks"),
    [TASKS] = FIELD("tasks", UINT, GAUGE, "", "processes and threads"),
    [TASKS_MAX] = FIELD("tasks_max", UINT, GAUGE, "", "limit; none if there is none"),
    [CPU_SOME] = FIELD("cpu_some", UINT, COUNTER, "us", "a task waited for a processor"),
    [CPU_FULL] = FIELD("cpu_full", UINT, COUNTER, "us", "all tasks waited for a processor"),
    [MEMORY_SOME] = FIELD("memory_some", UINT, COUNTER, "us", "a task waited for memory"),
    [MEMORY_FULL] = FIELD("memory_full", UINT, COUNTER, "us", "all tasks waited for memory"),
    [IO_SOME] = FIELD("io_some", UINT, COUNTER, "us", "a task waited for a disk"),
    [IO_FULL] = FIELD("io_full", UINT, COUNTER, "us", "all tasks waited for a disk"),
};
_Static_assert(sizeof cgroup_fields / sizeof *cgroup_fields == N_FIELDS, "a name a field");

static const struct field total_fields[] = {
    FIELD("groups", UINT, GAUGE, "", "groups that the patterns name"),
    FIELD("left_out", UINT, GAUGE, "", "of those, without a row: over `max_groups`"),
};

static const struct sensor_schema cgroup_schemas[] = {
    [CGROUP_GROUP] = SCHEMA("cgroup", cgroup_fields),
    [CGROUP_TOTAL] = SCHEMA("cgroup.total", total_fields),
    {0},
};

/* A number and the field it is for. scale: times that, or divided by it when negative; 0: as it is. A name of NULL is
 * the file as a whole. */
struct number {
    const char *name;
    unsigned field;
    int scale;
};

enum file_kind {
    FILE_NUMBERS, /* "name value" lines, or one number */
    FILE_IO_V2,   /* "8:0 rbytes=1 wbytes=2 rios=3 wios=4 ..." */
    FILE_IO_V1,   /* "8:0 Read 1" lines, ended by "Total 5" */
    FILE_PRESSURE
};

struct file {
    bool is_v2;       /* of the layout with one tree */
    const char *tree; /* below ROOT; "" = ROOT itself */
    const char *name;
    enum file_kind kind;
    struct number numbers[8]; /* up to field 0. FILE_IO_V1: read, written. FILE_PRESSURE: some, full */
};

#define SINGLE(f) FILE_NUMBERS, {{NULL, f, 0}}
#define PRESSURE(some, full) FILE_PRESSURE, {{NULL, some, 0}, {NULL, full, 0}}

static const struct file files[] = {
    {true, "", "cpu.stat", FILE_NUMBERS,
     {{"usage_usec", CPU_USAGE, 0}, {"user_usec", CPU_USER, 0}, {"system_usec", CPU_SYSTEM, 0},
      {"nr_periods", CPU_PERIODS, 0}, {"nr_throttled", CPU_THROTTLED, 0}, {"throttled_usec", CPU_THROTTLED_TIME, 0}}},
    {true, "", "memory.current", SINGLE(MEMORY)},
    {true, "", "memory.peak", SINGLE(MEMORY_PEAK)},
    {true, "", "memory.max", SINGLE(MEMORY_MAX)},
    {true, "", "memory.stat", FILE_NUMBERS,
     {{"anon", MEMORY_ANON, 0}, {"file", MEMORY_FILE, 0}, {"pgfault", MEMORY_FAULTS, 0},
      {"pgmajfault", MEMORY_MAJOR_FAULTS, 0}}},
    {true, "", "memory.swap.current", SINGLE(MEMORY_SWAP)},
    {true, "", "memory.events", FILE_NUMBERS, {{"max", MEMORY_LIMIT_HITS, 0}, {"oom_kill", MEMORY_OOM_KILLS, 0}}},
    {true, "", "io.stat", FILE_IO_V2,
     {{"rbytes=", IO_READ_BYTES, 0}, {"wbytes=", IO_WRITE_BYTES, 0}, {"rios=", IO_READS, 0}, {"wios=", IO_WRITES, 0}}},
    {true, "", "pids.current", SINGLE(TASKS)},
    {true, "", "pids.max", SINGLE(TASKS_MAX)},
    {true, "", "cpu.pressure", PRESSURE(CPU_SOME, CPU_FULL)},
    {true, "", "memory.pressure", PRESSURE(MEMORY_SOME, MEMORY_FULL)},
    {true, "", "io.pressure", PRESSURE(IO_SOME, IO_FULL)},

    {false, "cpuacct", "cpuacct.usage", FILE_NUMBERS, {{NULL, CPU_USAGE, -1000}}},
    {false, "cpuacct", "cpuacct.stat", FILE_NUMBERS, {{"user", CPU_USER, 10000}, {"system", CPU_SYSTEM, 10000}}},
    {false, "cpu", "cpu.stat", FILE_NUMBERS,
     {{"nr_periods", CPU_PERIODS, 0}, {"nr_throttled", CPU_THROTTLED, 0},
      {"throttled_time", CPU_THROTTLED_TIME, -1000}}},
    {false, "memory", "memory.usage_in_bytes", SINGLE(MEMORY)},
    {false, "memory", "memory.max_usage_in_bytes", SINGLE(MEMORY_PEAK)},
    {false, "memory", "memory.limit_in_bytes", SINGLE(MEMORY_MAX)},
    {false, "memory", "memory.stat", FILE_NUMBERS,
     {{"total_rss", MEMORY_ANON, 0}, {"total_cache", MEMORY_FILE, 0}, {"total_swap", MEMORY_SWAP, 0},
      {"total_pgfault", MEMORY_FAULTS, 0}, {"total_pgmajfault", MEMORY_MAJOR_FAULTS, 0}}},
    {false, "memory", "memory.failcnt", SINGLE(MEMORY_LIMIT_HITS)},
    {false, "memory", "memory.oom_control", FILE_NUMBERS, {{"oom_kill", MEMORY_OOM_KILLS, 0}}},
    {false, "blkio", "blkio.throttle.io_service_bytes_recursive", FILE_IO_V1,
     {{"Read", IO_READ_BYTES, 0}, {"Write", IO_WRITE_BYTES, 0}}},
    {false, "blkio", "blkio.throttle.io_serviced_recursive", FILE_IO_V1,
     {{"Read", IO_READS, 0}, {"Write", IO_WRITES, 0}}},
    {false, "pids", "pids.current", SINGLE(TASKS)},
    {false, "pids", "pids.max", SINGLE(TASKS_MAX)},
    {false, "unified", "cpu.pressure", PRESSURE(CPU_SOME, CPU_FULL)},
    {false, "unified", "memory.pressure", PRESSURE(MEMORY_SOME, MEMORY_FULL)},
    {false, "unified", "io.pressure", PRESSURE(IO_SOME, IO_FULL)},
};
enum { N_FILES = sizeof files / sizeof *files };

/* Where groups of the version 1 and hybrid layouts may be. */
static const char *const v1_trees[] = {"cpuacct", "cpu", "memory", "blkio", "pids", "unified"};

struct group {
    char *path; /* below the root of the tree */
    bool is_seen; /* in the walk of this sample */
    struct source *sources[N_FILES]; /* NULL = not kept open */
    bool is_kept;
};

struct cgroup {
    struct parameter_list patterns;
    int64_t max_groups;
    struct sensor_env *env;
    bool is_v2;
    struct group **groups; /* max_groups of them, the first n used; owned */
    size_t n, n_kept;
    struct strbuf left_out;    /* groups over the limit, see distinct.h */
    char folder[ENV_PATH_MAX]; /* where the walk is */
    struct strbuf path, full, text, key;
};

static const struct parameter cgroup_options[] = {
    {SETTING_LIST, "groups", "*", offsetof(struct cgroup, patterns),
     "patterns of groups, part by part: `system.slice/*.service`, `slurm/uid_*/job_*`; `/` is the root", false, false},
    {SETTING_INT, "max_groups", "64", offsetof(struct cgroup, max_groups),
     "most groups with a row, 1 to 1024", false, false},
    {0},
};

static int cgroup_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct cgroup *c = state;
    c->env = env;
    if (c->max_groups < 1 || c->max_groups > GROUPS_MAX)
        return diag_set(why, -EINVAL, 0, "cgroup.max_groups: 1 to %d", GROUPS_MAX);
    c->groups = mem_alloc((size_t)c->max_groups * sizeof(struct group *));
    return 0;
}

static const char *file_path(struct cgroup *c, const struct file *f, const struct group *g)
{
    strbuf_reset(&c->path);
    strbuf_add_str(&c->path, ROOT);
    const char *const parts[] = {f->tree, g->path, f->name};
    for (size_t i = 0; i < 3; i++) {
        if (parts[i][0])
            strbuf_add_char(&c->path, '/');
        strbuf_add_str(&c->path, parts[i]);
    }
    return strbuf_failed(&c->path) ? "" : c->path.p;
}

static void group_destroy(struct cgroup *c, struct group *g)
{
    for (size_t i = 0; i < N_FILES; i++)
        source_close(c->env, g->sources[i]);
    c->n_kept -= g->is_kept;
    mem_free(g->path);
    mem_free(g);
}

/* Marks the group as there, and makes it if it is new and there is room. */
static void see_group(struct cgroup *c, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->groups[i]->path, path) == 0) {
            c->groups[i]->is_seen = true;
            return;
        }
    }
    if (c->n == (size_t)c->max_groups) {
        distinct_add(&c->left_out, slice_of(path, n)); /* version 1 has it in several trees */
        return;
    }
    struct group *g = mem_alloc(sizeof *g);
    g->path = mem_alloc(n + 1); /* less than ENV_PATH_MAX */
    memcpy(g->path, path, n + 1);
    g->is_seen = true;
    c->groups[c->n++] = g;
}

/* Is there a group in that folder? Every one has this file, in all versions. */
static bool is_group(struct cgroup *c, const char *folder)
{
    strbuf_reset(&c->path);
    strbuf_printf(&c->path, "%s/cgroup.procs", folder);
    if (strbuf_failed(&c->path))
        return false;
    strbuf_reset(&c->full);
    env_note(c->env, "access", c->path.p, 0);
    return access(env_path(c->env, c->path.p, &c->full), F_OK) == 0;
}

/* One part of a pattern on its way down a tree. */
struct walk {
    struct cgroup *cgroup;
    size_t root_len;   /* of cgroup->folder: what lies behind it is the group */
    size_t folder_len; /* where this part is looked for */
    struct slice part, rest;
    unsigned depth;
};

static void descend(struct cgroup *c, size_t root_len, struct slice pattern, unsigned depth);

static int on_entry(void *arg, const char *name)
{
    const struct walk *w = arg;
    struct cgroup *c = w->cgroup;
    size_t n = strlen(name);
    if (!text_glob(w->part, slice_of(name, n)) || w->folder_len + 1 + n >= sizeof c->folder)
        return 0;
    c->folder[w->folder_len] = '/';
    memcpy(c->folder + w->folder_len + 1, name, n + 1);
    if (is_group(c, c->folder))
        descend(c, w->root_len, w->rest, w->depth + 1);
    c->folder[w->folder_len] = '\0';
    return 0;
}

static void descend(struct cgroup *c, size_t root_len, struct slice pattern, unsigned depth)
{
    while (pattern.n && pattern.p[0] == '/')
        pattern = slice_from(pattern, 1);
    if (pattern.n == 0) {
        see_group(c, c->folder[root_len] ? c->folder + root_len + 1 : "");
        return;
    }
    if (depth == DEPTH_MAX)
        return;
    const char *slash = memchr(pattern.p, '/', pattern.n);
    size_t n = slash ? (size_t)(slash - pattern.p) : pattern.n;
    struct walk w = {.cgroup = c, .root_len = root_len, .folder_len = strlen(c->folder), .depth = depth,
                     .part = slice_of(pattern.p, n), .rest = slice_from(pattern, n)};
    (void)env_list(c->env, c->folder, on_entry, &w); /* no such folder: no such group */
}

static bool find_in_tree(struct cgroup *c, const char *tree)
{
    int n = snprintf(c->folder, sizeof c->folder, "%s%s%s", ROOT, tree[0] ? "/" : "", tree);
    if (!is_group(c, c->folder))
        return false;
    for (size_t i = 0; i < c->patterns.n; i++)
        descend(c, (size_t)n, slice_str(c->patterns.v[i]), 0);
    return true;
}

/* False: there are no control groups here. Cost: the folders that patterns lead to, and a call for each name that
 * matches. */
static bool find_groups(struct cgroup *c)
{
    bool is_any = false;
    if (is_group(c, ROOT) != c->is_v2) { /* the files are others */
        c->is_v2 = !c->is_v2;
        while (c->n)
            group_destroy(c, c->groups[--c->n]);
    }
    if (c->is_v2)
        return find_in_tree(c, "");
    for (size_t i = 0; i < sizeof v1_trees / sizeof *v1_trees; i++)
        is_any |= find_in_tree(c, v1_trees[i]);
    return is_any;
}

static int compare_groups(const void *a, const void *b)
{
    return strcmp((*(struct group *const *)a)->path, (*(struct group *const *)b)->path);
}

/* And puts the others in order. */
static void drop_unseen(struct cgroup *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->groups[i]->is_seen)
            c->groups[kept++] = c->groups[i];
        else
            group_destroy(c, c->groups[i]);
    }
    c->n = kept;
    qsort(c->groups, c->n, sizeof *c->groups, compare_groups);
}

static bool read_file(struct cgroup *c, struct group *g, size_t i, struct slice *text)
{
    if (!g->is_kept && c->n_kept < KEPT_GROUPS) {
        g->is_kept = true;
        c->n_kept++;
    }
    if (!g->is_kept) {
        if (env_read_file(c->env, file_path(c, &files[i], g), &c->text) < 0)
            return false;
        *text = strbuf_slice(&c->text);
        return true;
    }
    if (!g->sources[i])
        g->sources[i] = env_source(c->env, file_path(c, &files[i], g));
    return source_read(c->env, g->sources[i], text) == 0;
}

/* Version 1 writes "no limit" as the largest multiple of a page; nobody has 2^62 bytes. */
static void set_number(struct value *row, const struct number *to, uint64_t v)
{
    static const uint64_t unlimited = UINT64_C(1) << 62;
    if (to->field == MEMORY_MAX && v >= unlimited)
        return;
    if (to->scale > 0 && v > UINT64_MAX / (uint64_t)to->scale)
        return;
    row[to->field] = value_uint(to->scale > 0   ? v * (uint64_t)to->scale
                                : to->scale < 0 ? v / (uint64_t)-to->scale
                                                : v);
}

static void add_number(struct value *row, const struct number *to, uint64_t v)
{
    uint64_t sum = row[to->field].type == VALUE_UINT ? row[to->field].u : 0;
    row[to->field] = value_uint(sum + v);
}

static void take_numbers(const struct file *f, struct slice line, struct value *row)
{
    struct scan s = scan_of(line);
    struct slice name = f->numbers[0].name ? scan_word(&s) : slice_of("", 0);
    uint64_t v;
    for (const struct number *n = f->numbers; n->field; n++)
        if ((!n->name || slice_eq_str(name, n->name)) && scan_uint(&s, &v)) {
            set_number(row, n, v);
            return;
        }
}

static void take_io_v2(const struct file *f, struct slice line, struct value *row)
{
    struct scan s = scan_of(line);
    struct slice word;
    uint64_t v;
    (void)scan_word(&s); /* the device */
    while ((word = scan_word(&s)).n)
        for (const struct number *n = f->numbers; n->field; n++)
            if (slice_starts(word, slice_str(n->name)) && num_parse_uint(slice_from(word, strlen(n->name)), &v) == 0)
                add_number(row, n, v);
}

static void take_io_v1(const struct file *f, struct slice line, struct value *row)
{
    struct scan s = scan_of(line);
    uint64_t v;
    (void)scan_word(&s); /* the device; the line "Total 5" has no third word */
    struct slice name = scan_word(&s);
    for (const struct number *n = f->numbers; n->field; n++)
        if (slice_eq_str(name, n->name) && scan_uint(&s, &v))
            add_number(row, n, v);
}

static void take_pressure(const struct file *f, struct slice text, struct value *row)
{
    struct value values[PSI_VALUES];
    psi_take(text, values);
    row[f->numbers[0].field] = values[PSI_SOME_TOTAL];
    row[f->numbers[1].field] = values[PSI_FULL_TOTAL];
}

/* Version 1 ends the list of devices by a line of its own. */
static bool is_complete(const struct file *f, struct slice text)
{
    if (!scan_is_whole(text))
        return false;
    const char *before = memrchr(text.p, '\n', text.n - 1);
    const char *last = before ? before + 1 : text.p;
    return f->kind != FILE_IO_V1 || slice_starts(slice_of(last, (size_t)(text.p + text.n - last)), SLICE_LIT("Total "));
}

static void take_file(const struct file *f, struct slice text, struct value *row)
{
    struct scan s = scan_of(text);
    struct slice line;
    if (f->kind == FILE_PRESSURE) {
        take_pressure(f, text, row);
        return;
    }
    if (f->kind != FILE_NUMBERS && !is_complete(f, text))
        return; /* a sum over a part of the devices is no sum */
    while (scan_line(&s, &line) && (s.p < s.end || scan_is_whole(text))) {
        if (f->kind == FILE_NUMBERS)
            take_numbers(f, line, row);
        else if (f->kind == FILE_IO_V2)
            take_io_v2(f, line, row);
        else
            take_io_v1(f, line, row);
    }
}

static void emit_group(struct cgroup *c, struct group *g, struct sensor_out *out)
{
    struct value row[N_FIELDS] = {0};
    struct slice text;
    for (size_t i = 0; i < N_FILES; i++)
        if (files[i].is_v2 == c->is_v2 && read_file(c, g, i, &text))
            take_file(&files[i], text, row);
    strbuf_reset(&c->key);
    clean_add(&c->key, g->path[0] ? slice_str(g->path) : SLICE_LIT("/"));
    row[GROUP] = value_text(strbuf_slice(&c->key));
    sensor_row(out, CGROUP_GROUP, row);
}

static int cgroup_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct cgroup *c = state;
    (void)env; /* the same as at open */
    strbuf_reset(&c->left_out);
    for (size_t i = 0; i < c->n; i++)
        c->groups[i]->is_seen = false;
    if (!find_groups(c))
        return diag_set(out->why, E_NODATA, 0, "no control groups in " ROOT);
    drop_unseen(c);
    for (size_t i = 0; i < c->n; i++)
        emit_group(c, c->groups[i], out);
    if (strbuf_failed(&c->left_out))
        return -ENOMEM;
    size_t left_out = distinct_count(&c->left_out);
    const struct value total[] = {value_uint(c->n + left_out), value_uint(left_out)};
    sensor_row(out, CGROUP_TOTAL, total);
    return 0;
}

static void cgroup_close(void *state)
{
    struct cgroup *c = state;
    for (size_t i = 0; i < c->n; i++)
        group_destroy(c, c->groups[i]);
    mem_free(c->groups);
    strbuf_fini(&c->left_out);
    strbuf_fini(&c->path);
    strbuf_fini(&c->full);
    strbuf_fini(&c->text);
    strbuf_fini(&c->key);
}

const struct sensor_ops sensor_cgroup = {
    .name = "cgroup",
    .summary = "processor time, memory, disk and pressure of control groups",
    .schemas = cgroup_schemas,
    .options = cgroup_options,
    .every = "10s",
    .refresh = "10m",
    .priority = 6,
    .state_size = sizeof(struct cgroup),
    .open = cgroup_open,
    .sample = cgroup_sample,
    .close = cgroup_close,
};
