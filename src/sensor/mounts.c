/* SPDX-License-Identifier: Apache-2.0 */
/* A line of mountinfo (proc(5)); in paths and devices, blank, tab, LF and backslash are written \040 \011 \012 \134:
 *
 *     36 35 98:0 /sub /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *     id parent device root place options [optional ...] - type source options-of-the-filesystem
 *
 * Change: the kernel marks an open mountinfo with POLLPRI when the mounts changed since it was last asked. */
#include "sensor/mounts.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "sensor/clean.h"
#include "sensor/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/* Sorted: looked up by halving. */
static const char *const pseudo_types[] = {
    "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nfsd", "none", "nsfs", "pipefs", "proc", "pstore",
    "ramfs", "resctrl", "rootfs", "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sockfs", "sysfs", "tracefs",
    "usbfs",
};
static const char *const local_types[] = {
    "adfs", "affs", "aufs", "bcachefs", "btrfs", "cramfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs",
    "hfsplus", "iso9660", "jffs2", "jfs", "minix", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "reiserfs",
    "squashfs", "tmpfs", "ubifs", "udf", "ufs", "vfat", "xfs", "zfs",
};

static int compare_type(const void *key, const void *element)
{
    const struct slice *type = key;
    const char *name = *(const char *const *)element;
    size_t n = strlen(name), least = n < type->n ? n : type->n;
    int order = memcmp(type->p, name, least);
    return order ? order : (type->n > n) - (type->n < n);
}

static bool is_in(const char *const *types, size_t n, struct slice type)
{
    return bsearch(&type, types, n, sizeof *types, compare_type) != NULL;
}

enum mount_class mounts_classify(struct slice type)
{
    if (is_in(pseudo_types, sizeof pseudo_types / sizeof *pseudo_types, type))
        return MOUNT_PSEUDO;
    if (is_in(local_types, sizeof local_types / sizeof *local_types, type))
        return MOUNT_LOCAL;
    return MOUNT_REMOTE;
}

void mounts_init(struct mounts *m)
{
    *m = (struct mounts){.fd = -1};
}

void mounts_fini(struct mounts *m)
{
    if (m->fd >= 0)
        (void)close(m->fd); /* opened for reading */
    strbuf_fini(&m->text);
    strbuf_fini(&m->scratch);
    arena_fini(&m->arena);
    mem_free(m->v);
    mounts_init(m);
}

static bool is_octal(const char *p)
{
    return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' && p[2] <= '7';
}

static void add_unescaped(struct strbuf *out, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' && s.n - i > 3 && is_octal(s.p + i + 1)) {
            strbuf_add_char(out, (char)((s.p[i + 1] - '0') << 6 | (s.p[i + 2] - '0') << 3 | (s.p[i + 3] - '0')));
            i += 3;
        } else {
            strbuf_add_char(out, s.p[i]);
        }
    }
}

/* The word unescaped, NUL behind it, in the arena; p is NULL without memory. */
static struct slice keep_raw(struct mounts *m, struct slice word)
{
    strbuf_reset(&m->scratch);
    add_unescaped(&m->scratch, word);
    strbuf_add_char(&m->scratch, '\0');
    if (strbuf_failed(&m->scratch))
        return (struct slice){NULL, 0};
    struct slice kept = arena_copy(&m->arena, strbuf_slice(&m->scratch));
    return (struct slice){kept.p, kept.p ? kept.n - 1 : 0};
}

/* The same as text. */
static struct slice keep_clean(struct mounts *m, struct slice raw)
{
    strbuf_reset(&m->scratch);
    clean_add(&m->scratch, raw);
    return strbuf_failed(&m->scratch) ? (struct slice){NULL, 0} : arena_copy(&m->arena, strbuf_slice(&m->scratch));
}

static bool take_device(struct slice word, struct mount *out)
{
    uint64_t major, minor;
    const char *colon = memchr(word.p, ':', word.n);
    if (!colon || num_parse_uint(slice_of(word.p, (size_t)(colon - word.p)), &major) < 0 ||
        num_parse_uint(slice_from(word, (size_t)(colon - word.p) + 1), &minor) < 0 || major > UINT32_MAX ||
        minor > UINT32_MAX)
        return false;
    out->number[0] = (uint32_t)major;
    out->number[1] = (uint32_t)minor;
    return true;
}

/* 1: a mount (of which those of class MOUNT_PSEUDO only have a path, since they can hide others), 0: none, -ENOMEM. */
static int parse_line(struct mounts *m, struct slice line, struct mount *out)
{
    struct scan s = scan_of(line);
    uint64_t number;
    struct slice word;
    if (!scan_uint(&s, &number) || !scan_uint(&s, &number) || !take_device(scan_word(&s), out))
        return 0;
    struct slice root = scan_word(&s), place = scan_word(&s);
    do
        word = scan_word(&s);
    while (word.n && !slice_eq_str(word, "-"));
    struct slice type = scan_word(&s), source = scan_word(&s);
    if (place.n == 0 || type.n == 0 || source.n == 0 || scan_word(&s).n == 0)
        return 0;
    struct slice path = keep_raw(m, place);
    out->path = path.p;
    out->shows_root = slice_eq_str(root, "/");
    out->class = mounts_classify(type);
    if (out->class == MOUNT_PSEUDO || !path.p)
        return path.p ? 1 : -ENOMEM;
    struct slice device = keep_raw(m, source);
    if (!device.p)
        return -ENOMEM;
    out->mount = keep_clean(m, path);
    out->type = keep_clean(m, type);
    out->device = keep_clean(m, device);
    return out->mount.p && out->type.p && out->device.p ? 1 : -ENOMEM;
}

/* Of several at one place the last hides the others. */
static int hide_covered(struct mount *v, size_t n)
{
    struct map places = {0};
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        struct slice place = slice_str(v[i].path);
        struct mount *before = map_get(&places, place);
        if (before)
            before->class = MOUNT_PSEUDO;
        r = map_put(&places, place, &v[i]);
    }
    map_fini(&places);
    return r;
}

/* Of several mounts of one filesystem the first one that shows its root stays, else the first. */
static int drop_doubles(struct mount *v, size_t n)
{
    struct map devices = {0};
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        struct slice device = {(const char *)v[i].number, sizeof v[i].number};
        if (v[i].class == MOUNT_PSEUDO)
            continue;
        struct mount *before = map_get(&devices, device);
        if (before && (before->shows_root || !v[i].shows_root)) {
            v[i].class = MOUNT_PSEUDO;
            continue;
        }
        if (before)
            before->class = MOUNT_PSEUDO;
        r = map_put(&devices, device, &v[i]);
    }
    map_fini(&devices);
    return r;
}

static int grow(struct mounts *m, size_t *cap)
{
    if (m->n < *cap)
        return 0;
    if (m->n == MOUNTS_MAX)
        return E_LIMIT;
    size_t more = *cap ? 2 * *cap : 32;
    struct mount *v = mem_try_resize(m->v, more * sizeof *v);
    if (!v)
        return -ENOMEM;
    m->v = v;
    *cap = more;
    return 0;
}

static int parse_lines(struct mounts *m, struct slice text)
{
    struct scan s = scan_of(text);
    struct slice line;
    size_t cap = 0;
    while (scan_line(&s, &line)) {
        if (s.p >= s.end && !scan_is_whole(text))
            break; /* cut in the middle */
        int r = grow(m, &cap);
        if (r < 0)
            return r;
        m->v[m->n] = (struct mount){0};
        r = parse_line(m, line, &m->v[m->n]);
        if (r < 0)
            return r;
        m->n += (size_t)r;
    }
    return 0;
}

int mounts_parse(struct mounts *m, struct slice text)
{
    mem_free(m->v);
    m->v = NULL;
    m->n = 0;
    arena_reset(&m->arena);
    int r = parse_lines(m, text);
    if (r == 0)
        r = hide_covered(m->v, m->n);
    if (r == 0)
        r = drop_doubles(m->v, m->n);
    size_t kept = 0;
    for (size_t i = 0; r == 0 && i < m->n; i++)
        if (m->v[i].class != MOUNT_PSEUDO)
            m->v[kept++] = m->v[i];
    m->n = kept;
    m->version = r == 0 ? m->version + 1 : 0;
    return r;
}

/* Has the kernel's list changed since it was last read? Also true when nobody knows. */
static bool is_changed(struct mounts *m, struct sensor_env *env)
{
    if (m->version == 0 || !env_is_live(env))
        return true;
    struct pollfd p = {.fd = m->fd, .events = POLLPRI};
    env_note(env, "poll", "/proc/self/mountinfo", 0);
    return m->fd < 0 || poll(&p, 1, 0) < 0 || (p.revents & (POLLPRI | POLLERR));
}

/* Before the first reading: what changes from then on is marked. */
static void watch(struct mounts *m, const struct sensor_env *env)
{
    if (m->fd < 0 && env_is_live(env))
        m->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
}

int mounts_update(struct mounts *m, struct sensor_env *env)
{
    if (!is_changed(m, env))
        return 0;
    watch(m, env);
    int r = env_read_file(env, "/proc/self/mountinfo", &m->text);
    if (r == 0 && !memchr(m->text.p, '\n', m->text.n))
        r = E_NODATA;
    if (r < 0) {
        m->n = 0;
        m->version = 0;
        return r;
    }
    return mounts_parse(m, strbuf_slice(&m->text));
}
