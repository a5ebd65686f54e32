/* SPDX-License-Identifier: Apache-2.0 */
/* What each block device did since it appeared, from /proc/diskstats: one row a device, the kernel's counters as they
 * are but for sectors, which become bytes.
 *
 * Whole disks only, unless partitions are asked for; stacked devices (dm, md) are devices of their own, so sums over
 * all rows count bytes twice (`vector` does not). Loop and RAM disks, which most hosts have a handful of for nothing,
 * are left out until they have done something: rows of zeros from devices that nobody uses are no data. */
#include "sensor/diskstats.h"
#include "sensor/globs.h"
#include "sensor/roster.h"
#include "sensor/sensor.h"

static const struct field disk_fields[] = {
    KEY("device", "the disk's name"),
    FIELD("reads", UINT, COUNTER, "", "reads done"),
    FIELD("reads_merged", UINT, COUNTER, "", "reads that became part of another"),
    FIELD("read_bytes", UINT, COUNTER, "bytes", "read"),
    FIELD("read_time", UINT, COUNTER, "ms", "spent by all reads"),
    FIELD("writes", UINT, COUNTER, "", "writes done"),
    FIELD("writes_merged", UINT, COUNTER, "", "writes that became part of another"),
    FIELD("write_bytes", UINT, COUNTER, "bytes", "written"),
    FIELD("write_time", UINT, COUNTER, "ms", "spent by all writes"),
    FIELD("queue", UINT, GAUGE, "", "queue length: transfers begun and not done"),
    FIELD("busy_time", UINT, COUNTER, "ms", "with at least one transfer under way"),
    FIELD("weighted_time", UINT, COUNTER, "ms", "the same, times the queue length"),
    FIELD("discards", UINT, COUNTER, "", "discards done"),
    FIELD("discards_merged", UINT, COUNTER, "", "discards that became part of another"),
    FIELD("discard_bytes", UINT, COUNTER, "bytes", "discarded"),
    FIELD("discard_time", UINT, COUNTER, "ms", "spent by all discards"),
    FIELD("flushes", UINT, COUNTER, "", "flushes done"),
    FIELD("flush_time", UINT, COUNTER, "ms", "spent by all flushes"),
};
_Static_assert(sizeof disk_fields / sizeof *disk_fields == 1 + DISK_FIELDS, "one field for each number of a line");

static const struct sensor_schema disk_schemas[] = {
    SCHEMA("disk", disk_fields),
    {0},
};

struct disk {
    struct parameter_list devices, skip;
    bool partitions;
    struct sensor_env *env;
    struct source *diskstats;
    struct roster roster; /* of struct device */
};

struct device {
    struct roster_entry entry;
    enum diskstats_kind kind;
    bool is_wanted; /* by the patterns */
    bool is_spare;  /* a loop or RAM disk */
};

static const struct parameter disk_options[] = {
    {SETTING_LIST, "devices", "*", offsetof(struct disk, devices), "patterns of the devices to watch", false, false},
    {SETTING_LIST, "skip", NULL, offsetof(struct disk, skip), "patterns of those to leave out", false, false},
    {SETTING_FLAG, "partitions", "false", offsetof(struct disk, partitions), "a row for each partition, too", false,
     false},
    {0},
};

static int disk_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct disk *d = state;
    (void)why; /* can't fail */
    d->env = env;
    d->diskstats = env_source(env, "/proc/diskstats");
    roster_init(&d->roster, sizeof(struct device));
    return 0;
}

static void look_at(const struct disk *d, struct sensor_env *env, struct device *device)
{
    struct slice name = device->entry.name;
    device->kind = diskstats_kind(env, name);
    device->is_wanted = globs_match(&d->devices, name) && !globs_match(&d->skip, name);
    device->is_spare = slice_starts(name, SLICE_LIT("loop")) || slice_starts(name, SLICE_LIT("ram"));
}

static bool has_worked(const struct value v[DISK_FIELDS])
{
    for (size_t i = 0; i < DISK_FIELDS; i++)
        if (v[i].type != VALUE_NONE && v[i].u > 0)
            return true;
    return false;
}

/* Returns the number of rows. *disk is the last whole disk before this line. */
static int take_line(struct disk *d, struct sensor_env *env, struct sensor_out *out, struct slice text,
                     struct slice *disk)
{
    struct scan line = scan_of(text);
    struct slice name = diskstats_name(&line);
    struct roster_entry *entry;
    struct value row[1 + DISK_FIELDS];
    int r = roster_see(&d->roster, name, &entry);
    if (r == E_PROTO)
        return 0; /* not a device's line */
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/diskstats: %s, at %zu devices", err_text(r), d->roster.n);
    struct device *device = (struct device *)entry;
    if (r > 0)
        look_at(d, env, device);
    bool is_partition = diskstats_is_partition(device->kind, entry->name, *disk);
    if (!is_partition)
        *disk = entry->name;
    if (!device->is_wanted || (is_partition && !d->partitions))
        return 0;
    row[0] = value_text(entry->label);
    diskstats_values(&line, row + 1);
    if (device->is_spare && !has_worked(row + 1))
        return 0;
    sensor_row(out, 0, row);
    return 1;
}

static int disk_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct disk *d = state;
    struct slice text, line, disk = {"", 0};
    int r = source_read(env, d->diskstats, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/diskstats: %s", err_text(r));
    int rows = 0;
    struct scan s = scan_of(text);
    roster_begin(&d->roster);
    while (r >= 0 && scan_whole_line(&s, &line)) {
        r = take_line(d, env, out, line, &disk);
        rows += r > 0;
    }
    roster_end(&d->roster);
    if (r >= 0 && rows == 0)
        return diag_set(out->why, E_NODATA, 0, "/proc/diskstats lists no device that is wanted");
    return r < 0 ? r : 0;
}

static void disk_close(void *state)
{
    struct disk *d = state;
    if (d->env)
        source_close(d->env, d->diskstats);
    roster_fini(&d->roster);
}

const struct sensor_ops sensor_disk = {
    .name = "disk",
    .summary = "transfers, bytes, times and queue of each disk",
    .schemas = disk_schemas,
    .options = disk_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 3,
    .is_default = true,
    .state_size = sizeof(struct disk),
    .open = disk_open,
    .sample = disk_sample,
    .close = disk_close,
};
