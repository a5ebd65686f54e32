/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/diskstats.h"

enum { SECTOR = 512 };

struct slice diskstats_name(struct scan *line)
{
    uint64_t number;
    if (!scan_uint(line, &number) || !scan_uint(line, &number))
        return slice_of(line->p, 0);
    return scan_word(line);
}

static struct value bytes_of(struct value sectors)
{
    if (sectors.type == VALUE_NONE || sectors.u > UINT64_MAX / SECTOR)
        return value_none();
    return value_uint(sectors.u * SECTOR);
}

/* A line of 4 numbers: an old kernel's partition. */
static void spread_short(struct value v[DISK_FIELDS])
{
    struct value four[] = {v[0], v[1], v[2], v[3]};
    v[DISK_READS] = four[0];
    v[DISK_READS_MERGED] = value_none();
    v[DISK_READ_BYTES] = four[1];
    v[DISK_READ_TIME] = value_none();
    v[DISK_WRITES] = four[2];
    v[DISK_WRITE_BYTES] = four[3];
}

void diskstats_values(struct scan *line, struct value v[DISK_FIELDS])
{
    size_t n = 0;
    for (; n < DISK_FIELDS; n++) {
        scan_blanks(line);
        if (line->p >= line->end)
            break;
        v[n] = scan_value(line);
    }
    for (size_t i = n; i < DISK_FIELDS; i++)
        v[i] = value_none();
    if (n == 4)
        spread_short(v);
    v[DISK_READ_BYTES] = bytes_of(v[DISK_READ_BYTES]);
    v[DISK_WRITE_BYTES] = bytes_of(v[DISK_WRITE_BYTES]);
    v[DISK_DISCARD_BYTES] = bytes_of(v[DISK_DISCARD_BYTES]);
}

/* Is there /sys/class/block/NAME and then below? sysfs writes the slash of names such as cciss/c0d0 as '!'. */
static bool has_file(struct sensor_env *env, struct slice name, const char *below)
{
    struct strbuf path = {0};
    strbuf_add_str(&path, "/sys/class/block/");
    for (size_t i = 0; i < name.n; i++)
        strbuf_add_char(&path, name.p[i] == '/' ? '!' : name.p[i]);
    strbuf_add_str(&path, below);
    bool has = !strbuf_failed(&path) && env_exists(env, path.p);
    strbuf_fini(&path);
    return has;
}

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

enum diskstats_kind diskstats_kind(struct sensor_env *env, struct slice name)
{
    if (!has_file(env, name, ""))
        return DISKSTATS_UNKNOWN;
    return has_file(env, name, "/partition") ? DISKSTATS_PARTITION : DISKSTATS_WHOLE;
}

bool diskstats_is_partition(enum diskstats_kind kind, struct slice name, struct slice disk)
{
    if (kind != DISKSTATS_UNKNOWN)
        return kind == DISKSTATS_PARTITION;
    if (disk.n == 0 || name.n <= disk.n || !slice_starts(name, disk))
        return false;
    struct slice number = slice_from(name, disk.n);
    if (is_digit(disk.p[disk.n - 1])) {
        if (number.p[0] != 'p')
            return false; /* sda1 and sda10: two partitions, neither is the other's */
        number = slice_from(number, 1);
    }
    for (size_t i = 0; i < number.n; i++)
        if (!is_digit(number.p[i]))
            return false;
    return number.n > 0;
}

bool diskstats_is_physical(struct sensor_env *env, struct slice name)
{
    /* The device of a namespace with several paths is the subsystem, which alone has a policy for choosing one. */
    return has_file(env, name, "/device") && !has_file(env, name, "/device/iopolicy");
}
