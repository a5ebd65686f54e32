/* SPDX-License-Identifier: Apache-2.0 */
/* diskstats.h - the lines of /proc/diskstats, and what kind of block device a name is. For `disk` and `vector`.
 *
 *     " 254       0 vda 258645 22054 9989378 1170553 592892 237377 143111888 1315260 0 150344 2552923 212149 48 ..."
 *
 * Major, minor, name, then 11 numbers; 15 since Linux 4.18 (discards), 17 since 5.5 (flushes). Before 2.6.25 a
 * partition's line had 4: reads, sectors read, writes, sectors written. */
#ifndef GRIDLINE_SENSOR_DISKSTATS_H
#define GRIDLINE_SENSOR_DISKSTATS_H

#include "sensor/env.h"
#include "sensor/scan.h"

/* In the file's order. Bytes are sectors of 512 (whatever the disk's own are), times are ms. */
enum {
    DISK_READS,
    DISK_READS_MERGED,
    DISK_READ_BYTES,
    DISK_READ_TIME,
    DISK_WRITES,
    DISK_WRITES_MERGED,
    DISK_WRITE_BYTES,
    DISK_WRITE_TIME,
    DISK_QUEUE, /* a gauge; all others are counters */
    DISK_BUSY_TIME,
    DISK_WEIGHTED_TIME,
    DISK_DISCARDS,
    DISK_DISCARDS_MERGED,
    DISK_DISCARD_BYTES,
    DISK_DISCARD_TIME,
    DISK_FLUSHES,
    DISK_FLUSH_TIME,
    DISK_FIELDS
};

/* The device's name; the numbers are next. Empty: not a device's line. */
struct slice diskstats_name(struct scan *line);
/* The numbers behind the name; VALUE_NONE where there is none. */
void diskstats_values(struct scan *line, struct value v[DISK_FIELDS]);

/* What /sys says of a device; it does not change while the device is there. */
enum diskstats_kind {
    DISKSTATS_UNKNOWN, /* nothing: a container, half a captured tree */
    DISKSTATS_WHOLE,
    DISKSTATS_PARTITION /* it has a file /sys/class/block/NAME/partition */
};
enum diskstats_kind diskstats_kind(struct sensor_env *env, struct slice name);
/* Where /sys says nothing, the name tells: a partition has that of its disk and a number (sda1, nvme0n1p2). disk is the
 * last whole disk that was listed before it. Cheap. */
bool diskstats_is_partition(enum diskstats_kind kind, struct slice name, struct slice disk);
/* Hardware, as far as this host can see: it has /sys/class/block/NAME/device. So neither partitions nor what is stacked
 * on other devices (dm, md), nor loop, ram, zram, nbd. With NVMe multipath both the namespace and its hidden paths are
 * listed; the paths are hardware and the namespace is stacked on them. */
bool diskstats_is_physical(struct sensor_env *env, struct slice name);

#endif
