/* SPDX-License-Identifier: Apache-2.0 */
/* Space and inodes of the local filesystems, one statvfs each. Filesystems that a network or another program serves
 * are not touched here: see filesystem_remote.c. */
#include "sensor/filesystem.h"

#include "sensor/globs.h"

#include <errno.h>

static const struct field filesystem_fields[] = {FILESYSTEM_COMMON_FIELDS};
_Static_assert(sizeof filesystem_fields / sizeof *filesystem_fields == FILESYSTEM_ANSWERS, "the common fields");

static const struct sensor_schema filesystem_schemas[] = {
    SCHEMA("filesystem", filesystem_fields),
    {0},
};

static const struct parameter filesystem_sensor_options[] = {
    FILESYSTEM_COMMON_OPTIONS(struct filesystem, options),
    {0},
};

bool filesystem_is_wanted(const struct filesystem_options *options, const struct mount *mount)
{
    return globs_match(&options->mounts, mount->mount) && !globs_match(&options->ignore, mount->mount);
}

void filesystem_keys(const struct mount *mount, struct value *row)
{
    row[FILESYSTEM_MOUNT] = value_text(mount->mount);
    row[FILESYSTEM_TYPE] = value_text(mount->type);
    row[FILESYSTEM_DEVICE] = value_text(mount->device);
}

void filesystem_values(const struct statvfs *st, struct value *row)
{
    uint64_t unit = st->f_frsize;
    row[FILESYSTEM_SIZE] = value_uint(st->f_blocks * unit);
    row[FILESYSTEM_USED] = st->f_bfree <= st->f_blocks ? value_uint((st->f_blocks - st->f_bfree) * unit) : value_none();
    row[FILESYSTEM_FREE] = value_uint(st->f_bfree * unit);
    row[FILESYSTEM_AVAILABLE] = value_uint(st->f_bavail * unit);
    row[FILESYSTEM_INODES] = st->f_files ? value_uint(st->f_files) : value_none();
    row[FILESYSTEM_INODES_FREE] = st->f_files ? value_uint(st->f_ffree) : value_none();
    row[FILESYSTEM_READ_ONLY] = value_bool(st->f_flag & ST_RDONLY);
}

static int filesystem_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct filesystem *f = state;
    (void)env, (void)why; /* can't fail */
    mounts_init(&f->mounts);
    f->is_open = true;
    return 0;
}

/* Unmounted meanwhile, not ours to see, or without blocks (a pseudo filesystem of a type that we do not know): no
 * row. */
static void emit(const struct sensor_env *env, const struct mount *mount, struct sensor_out *out)
{
    struct value row[FILESYSTEM_ANSWERS] = {0};
    struct statvfs st;
    env_note(env, "statvfs", mount->path, 0);
    if (statvfs(mount->path, &st) < 0 || st.f_blocks == 0)
        return;
    filesystem_keys(mount, row);
    filesystem_values(&st, row);
    sensor_row(out, 0, row);
}

static int filesystem_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct filesystem *f = state;
    size_t rows = 0;
    int r = env_is_live(env) ? mounts_update(&f->mounts, env) : E_NODATA;
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/self/mountinfo: %s", err_text(r));
    for (size_t i = 0; i < f->mounts.n; i++) {
        const struct mount *mount = &f->mounts.v[i];
        if (mount->class != MOUNT_LOCAL || !filesystem_is_wanted(&f->options, mount))
            continue;
        if (rows++ == FILESYSTEM_ROWS_MAX)
            return diag_set(out->why, E_LIMIT, 0, "more than %d filesystems: choose with `mounts` and `ignore`",
                            FILESYSTEM_ROWS_MAX);
        emit(env, mount, out);
    }
    return 0;
}

static void filesystem_close(void *state)
{
    struct filesystem *f = state;
    if (f->is_open)
        mounts_fini(&f->mounts);
}

const struct sensor_ops sensor_filesystem = {
    .name = "filesystem",
    .summary = "space and inodes of local filesystems",
    .schemas = filesystem_schemas,
    .options = filesystem_sensor_options,
    .every = "10s",
    .refresh = "10m",
    .priority = 6,
    .is_default = true,
    .state_size = sizeof(struct filesystem),
    .open = filesystem_open,
    .sample = filesystem_sample,
    .close = filesystem_close,
};
