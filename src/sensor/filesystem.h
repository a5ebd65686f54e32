/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.h - space and inodes of mounted filesystems: what the sensors `filesystem` (local ones, in the agent) and
 * `filesystem.remote` (all others, in gridline-helper, because statvfs on a dead server waits for ever) share. */
#ifndef GRIDLINE_SENSOR_FILESYSTEM_H
#define GRIDLINE_SENSOR_FILESYSTEM_H

#include "sensor/mounts.h"
#include "sensor/sensor.h"

#include <sys/statvfs.h>

enum { FILESYSTEM_ROWS_MAX = 1024 };

/* The fields of both; `filesystem.remote` has one more, FILESYSTEM_ANSWERS. */
enum {
    FILESYSTEM_MOUNT,
    FILESYSTEM_TYPE,
    FILESYSTEM_DEVICE,
    FILESYSTEM_SIZE,
    FILESYSTEM_USED,
    FILESYSTEM_FREE,
    FILESYSTEM_AVAILABLE,
    FILESYSTEM_INODES,
    FILESYSTEM_INODES_FREE,
    FILESYSTEM_READ_ONLY,
    FILESYSTEM_ANSWERS,
    FILESYSTEM_FIELDS
};
#define FILESYSTEM_COMMON_FIELDS                                                                             \
    KEY("mount", "where it is mounted"), KEY("type", "`ext4`, `nfs4`, ..."),                                 \
        KEY("device", "what is mounted there: a device, `server:/path`"),                                    \
        FIELD("size", UINT, GAUGE, "bytes", "of the whole filesystem"),                                      \
        FIELD("used", UINT, GAUGE, "bytes", "by files and their administration"),                            \
        FIELD("free", UINT, GAUGE, "bytes", "for the administrator"),                                        \
        FIELD("available", UINT, GAUGE, "bytes", "for everybody"),                                           \
        FIELD("inodes", UINT, GAUGE, "", "files that there can be; none if there is no limit"),              \
        FIELD("inodes_free", UINT, GAUGE, "", "files that can still be made"),                               \
        FIELD("read_only", BOOL, STATE, "", "nothing can be written")

/* The options, at the beginning of both states. */
struct filesystem_options {
    struct parameter_list mounts, ignore;
};
#define FILESYSTEM_COMMON_OPTIONS(type, member)                                                              \
    {SETTING_LIST, "mounts", "*", offsetof(type, member.mounts), "patterns of mount points to look at", false, \
     false},                                                                                                 \
    {                                                                                                        \
        SETTING_LIST, "ignore", "/snap/* /var/lib/docker/* /var/lib/containers/* /var/lib/kubelet/*",         \
            offsetof(type, member.ignore), "patterns of mount points to leave out", false, false             \
    }

struct filesystem {
    struct filesystem_options options;
    struct mounts mounts;
    bool is_open;
};

/* State of filesystem.remote; its functions are in src/helper/filesystem_remote.c. */
struct filesystem_worker;
struct filesystem_remote {
    struct filesystem_options options;
    int64_t timeout_ns;
    struct mounts mounts;
    bool is_open;
    uint64_t version; /* of the mounts that the workers are for */
    struct filesystem_worker **workers; /* n of them, owned together with their threads */
    size_t n_workers;
};
int filesystem_remote_open(void *state, struct sensor_env *env, struct diag *why);
int filesystem_remote_sample(void *state, struct sensor_env *env, struct sensor_out *out);
void filesystem_remote_close(void *state);

/* Is it one to look at? */
bool filesystem_is_wanted(const struct filesystem_options *options, const struct mount *mount);
/* The keys, and the values of what statvfs said. */
void filesystem_keys(const struct mount *mount, struct value *row);
void filesystem_values(const struct statvfs *st, struct value *row);

#endif
