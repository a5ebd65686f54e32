/* SPDX-License-Identifier: Apache-2.0 */
/* Space and inodes of filesystems that a network or another program serves (nfs, cifs, ceph, lustre, fuse, ...), and
 * whether they answer at all. Runs in gridline-helper: src/helper/filesystem_remote.c has the functions. */
#include "sensor/filesystem.h"

static const struct field remote_fields[] = {
    FILESYSTEM_COMMON_FIELDS,
    FIELD("answers", BOOL, STATE, "", "the server answered within `timeout`"),
};
_Static_assert(sizeof remote_fields / sizeof *remote_fields == FILESYSTEM_FIELDS, "the common fields and one more");

static const struct sensor_schema remote_schemas[] = {
    SCHEMA("filesystem.remote", remote_fields),
    {0},
};

static const struct parameter remote_options[] = {
    FILESYSTEM_COMMON_OPTIONS(struct filesystem_remote, options),
    {SETTING_DURATION, "timeout", "2s", offsetof(struct filesystem_remote, timeout_ns),
     "how long an answer may take; until it comes the filesystem is not asked again", false, false},
    {0},
};

const struct sensor_ops sensor_filesystem_remote = {
    .name = "filesystem.remote",
    .summary = "space and inodes of network filesystems, and whether they answer",
    .schemas = remote_schemas,
    .options = remote_options,
    .every = "30s",
    .refresh = "10m",
    .priority = 7,
    .is_helper = true,
    .state_size = sizeof(struct filesystem_remote),
};
