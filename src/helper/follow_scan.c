/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/follow_scan.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "helper/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SCAN_TRIES = 20 };

static bool has_digit(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] >= '0' && s.p[i] <= '9')
            return true;
    return false;
}

/* What rotation adds behind a separator. Names without a digit are other programs' notes about the log more
 * often than not (log.offset, log.lock). */
static bool is_suffix(struct slice s)
{
    static const char *const words[] = {"old", "prev", "last", "bak"};
    static const char *const never[] = {".tmp", ".swp", ".lock", ".offset", ".pos", "~"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_eq_str(s, words[i]))
            return true;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (slice_ends(s, slice_str(never[i])))
            return false;
    return has_digit(s);
}

static bool is_separator(char c)
{
    return c == '.' || c == '-' || c == '_';
}

/* The middle of STEM?middle.EXT or the end of NAME?end; empty when name is not rotated from log. */
static struct slice suffix_of(struct slice log, struct slice name)
{
    if (slice_starts(name, log) && name.n > log.n + 1 && is_separator(name.p[log.n]))
        return slice_from(name, log.n + 1);
    const char *dot = memrchr(log.p, '.', log.n);
    if (!dot || dot == log.p)
        return slice_of("", 0);
    struct slice stem = slice_of(log.p, (size_t)(dot - log.p)), ext = slice_of(dot, log.n - stem.n);
    if (!slice_starts(name, stem) || !slice_ends(name, ext) || name.n < log.n + 2 ||
        !is_separator(name.p[stem.n]))
        return slice_of("", 0);
    return slice_of(name.p + stem.n + 1, name.n - log.n - 1);
}

/* Without .gz and the like; the same length when it has none. */
static struct slice without_packing(struct slice name)
{
    static const char *const packed[] = {".gz", ".xz", ".bz2", ".zst", ".lz4", ".lzo", ".Z"};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (slice_ends(name, slice_str(packed[i])))
            return slice_of(name.p, name.n - strlen(packed[i]));
    return name;
}

enum found_kind follow_scan_kind(const char *log, const char *name)
{
    struct slice l = slice_str(log), whole = slice_str(name), plain = without_packing(whole);
    if (slice_eq(l, whole))
        return FOUND_LOG;
    bool is_rotated = is_suffix(suffix_of(l, plain));
    if (plain.n < whole.n)
        return is_rotated || slice_eq(plain, l) ? FOUND_PACKED : FOUND_OTHER;
    return is_rotated ? FOUND_ROTATED : FOUND_OTHER;
}

static int64_t ns_of(struct statx_timestamp t)
{
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int follow_stat(int dir, const char *name, int flags, struct found *out)
{
    struct statx x;
    if (statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
        return -errno;
    if (!S_ISREG(x.stx_mode))
        return -EINVAL;
    out->dev = makedev(x.stx_dev_major, x.stx_dev_minor);
    out->ino = x.stx_ino;
    out->size = x.stx_size;
    out->changed_ns = ns_of(x.stx_mtime);
    out->born_ns = x.stx_mask & STATX_BTIME ? ns_of(x.stx_btime) : 0;
    return 0;
}

static struct found *scan_add(struct follow_scan *s)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 32;
        struct found *v = mem_try_resize(s->v, cap * sizeof *v);
        if (!v)
            return NULL;
        s->v = v;
        s->cap = cap;
    }
    return &s->v[s->n++];
}

/* One entry. Hard links are one file: the log's own name counts, then a rotated one. */
static int scan_entry(struct follow_scan *s, int dir, const char *log, const char *name, bool all)
{
    enum found_kind kind = follow_scan_kind(log, name);
    if ((kind == FOUND_OTHER && !all) || strlen(name) > NAME_MAX)
        return 0;
    struct found now = {.kind = kind};
    memcpy(now.name, name, strlen(name) + 1);
    int r = follow_stat(dir, name, kind == FOUND_LOG ? 0 : AT_SYMLINK_NOFOLLOW, &now);
    if (r < 0)
        return r == -ENOENT || r == -EINVAL || r == -EACCES || r == -ELOOP ? 0 : r;
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].ino != now.ino || s->v[i].dev != now.dev)
            continue;
        if (s->v[i].kind == FOUND_OTHER || kind == FOUND_LOG)
            s->v[i] = now;
        return 0;
    }
    if (s->n >= FOLLOW_SCAN_MAX)
        return E_LIMIT;
    struct found *f = scan_add(s);
    if (!f)
        return -ENOMEM;
    *f = now;
    return 0;
}

/* *sum is the same for the same files under the same names, in any order. */
static int scan_once(struct follow_scan *s, int dir, const char *log, bool all, uint64_t *sum)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int r = -errno;
        if (fd >= 0)
            (void)close(fd); /* opened for reading */
        return r;
    }
    int r = 0;
    s->n = 0;
    for (struct dirent *e; r == 0 && (e = readdir(d));)
        if (e->d_type == DT_REG || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN)
            r = scan_entry(s, dir, log, e->d_name, all);
    (void)closedir(d); /* opened for reading */
    *sum = s->n;
    for (size_t i = 0; i < s->n; i++)
        *sum += hash_seeded(slice_str(s->v[i].name), s->v[i].ino);
    return r;
}

int follow_scan_run(struct follow_scan *s, int dir, const char *log, bool all)
{
    uint64_t before, now;
    int r = scan_once(s, dir, log, all, &before);
    for (int i = 0; r == 0 && i < SCAN_TRIES; i++, before = now) {
        r = scan_once(s, dir, log, all, &now);
        if (r == 0 && now == before) {
            s->sum = now;
            s->all = all;
            return 0;
        }
    }
    return r < 0 ? r : -EAGAIN;
}

void follow_scan_fini(struct follow_scan *s)
{
    mem_free(s->v);
    *s = (struct follow_scan){0};
}

/* NAME.7 and the like: its number; -1 for any other. */
static int small_number(const char *name)
{
    struct slice s = without_packing(slice_str(name));
    size_t n = 0;
    int v = 0, scale = 1;
    for (; n < s.n && n < 5 && s.p[s.n - 1 - n] >= '0' && s.p[s.n - 1 - n] <= '9'; n++, scale *= 10)
        v += scale * (s.p[s.n - 1 - n] - '0');
    return n >= 1 && n <= 4 && n < s.n && s.p[s.n - 1 - n] == '.' ? v : -1;
}

int follow_scan_order(const struct found *a, const struct found *b)
{
    if (a->changed_ns != b->changed_ns)
        return a->changed_ns < b->changed_ns ? -1 : 1;
    int i = small_number(a->name), j = small_number(b->name);
    if (i >= 0 && j >= 0 && i != j)
        return j - i;
    if (a->born_ns != b->born_ns)
        return a->born_ns < b->born_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

bool follow_scan_unpacked(int dir, const struct found *f, uint64_t *out)
{
    unsigned char end[4];
    if (!slice_ends(slice_str(f->name), SLICE_LIT(".gz")) || f->size < 18)
        return false;
    int fd = openat(dir, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, end, sizeof end, (off_t)f->size - 4);
    (void)close(fd); /* opened for reading */
    struct cursor c = cursor_of(slice_of((const char *)end, sizeof end));
    *out = cursor_u32(&c);
    return n == sizeof end;
}
