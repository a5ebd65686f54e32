/* SPDX-License-Identifier: Apache-2.0 */
/* mounts.h - the mounted filesystems, from /proc/self/mountinfo, read again only when it changed.
 *
 * Each filesystem comes once: mounted in several places (bind mounts, subvolumes) it is the first place that shows
 * its root, and of several at one place only the last one is seen. Those that hold no files of anybody (proc, cgroup,
 * ...) are left out. What is left is local, for which statvfs answers at once, or remote, for which it may wait for
 * ever: every type that is not known to be local counts as remote. */
#ifndef GRIDLINE_SENSOR_MOUNTS_H
#define GRIDLINE_SENSOR_MOUNTS_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "sensor/env.h"

enum mount_class { MOUNT_PSEUDO, MOUNT_LOCAL, MOUNT_REMOTE };
enum mount_class mounts_classify(struct slice type);

enum { MOUNTS_MAX = 16384 }; /* lines of mountinfo; thousands are seen on hosts of containers */

struct mount {
    const char *path;                /* where it is mounted, as the kernel has it; NUL-terminated */
    struct slice mount, type, device; /* as text; device is what was mounted: /dev/sda1, server:/export, tmpfs */
    uint32_t number[2];              /* of the device, major and minor: which filesystem it is */
    enum mount_class class;
    bool shows_root; /* the filesystem's own root is mounted here, not a part of it */
};

struct mounts {
    struct mount *v; /* in the order of mountinfo */
    size_t n;
    uint64_t version; /* changes when the list was made anew; 0 = it must be made */
    struct strbuf text; /* what it was made from */
    struct strbuf scratch;
    struct arena arena;
    int fd; /* of mountinfo, to ask whether it changed; -1 = not open */
};

void mounts_init(struct mounts *m);
void mounts_fini(struct mounts *m);
/* Brings the list up to date. One poll when nothing changed; a captured tree is read each time. E_NODATA: no such
 * file, or it is cut before its first line end; E_LIMIT: over MOUNTS_MAX; -errno. On failure the list is empty. */
int mounts_update(struct mounts *m, struct sensor_env *env);

/* The parser alone: fills m from the text of a mountinfo. 0, E_LIMIT, -ENOMEM; a line that is no mount is passed
 * over. */
int mounts_parse(struct mounts *m, struct slice text);

#endif
