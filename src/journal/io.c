/* SPDX-License-Identifier: Apache-2.0 */
/* The libc side of struct journal_io, and the three calls that everything else makes through helpers: a whole
 * write, a whole read, and an open that a signal can't fail. */
#include "journal/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int result(int r)
{
    return r < 0 ? -errno : r;
}

static int libc_open_dir(void *ctx, const char *path, bool create)
{
    (void)ctx;
    if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    return result(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int libc_open(void *ctx, int dir, const char *name, int flags)
{
    (void)ctx;
    return result(openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

static int libc_close(void *ctx, int fd)
{
    (void)ctx;
    return result(close(fd));
}

static int libc_lock(void *ctx, int fd)
{
    (void)ctx;
    return result(flock(fd, LOCK_EX | LOCK_NB));
}

static int libc_size(void *ctx, int fd, uint64_t *out)
{
    (void)ctx;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    *out = (uint64_t)st.st_size;
    return 0;
}

static ssize_t libc_pread(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    (void)ctx;
    ssize_t r = pread(fd, to, n, (off_t)offset);
    return r < 0 ? -errno : r;
}

static ssize_t libc_pwrite(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    (void)ctx;
    ssize_t r = pwrite(fd, from, n, (off_t)offset);
    return r < 0 ? -errno : r;
}

static int libc_sync_file(void *ctx, int fd)
{
    (void)ctx;
    return result(fdatasync(fd));
}

static int libc_sync_dir(void *ctx, int dir)
{
    (void)ctx;
    return result(fsync(dir));
}

static int libc_rename(void *ctx, int dir, const char *from, const char *to)
{
    (void)ctx;
    return result(renameat(dir, from, dir, to));
}

static int libc_unlink(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return result(unlinkat(dir, name, 0));
}

static int libc_list(void *ctx, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
    (void)ctx;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* own position; closedir closes it */
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int r = -errno;
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    int r = 0;
    const struct dirent *e;
    while (r >= 0 && (errno = 0, e = readdir(d)))
        r = fn(arg, e->d_name);
    if (r >= 0)
        r = -errno;
    (void)closedir(d);
    return r;
}

const struct journal_io journal_io_libc = {
    .open_dir = libc_open_dir,
    .open = libc_open,
    .close = libc_close,
    .lock = libc_lock,
    .size = libc_size,
    .pread = libc_pread,
    .pwrite = libc_pwrite,
    .sync_file = libc_sync_file,
    .sync_dir = libc_sync_dir,
    .rename = libc_rename,
    .unlink = libc_unlink,
    .list = libc_list,
};

int io_open(const struct journal *j, const char *name, int flags)
{
    int fd;
    do
        fd = j->io->open(j->io->ctx, j->dir, name, flags);
    while (fd == -EINTR);
    return fd;
}

void io_close(const struct journal *j, int fd)
{
    if (fd >= 0)
        (void)j->io->close(j->io->ctx, fd); /* what matters was synced before */
}

int io_write(const struct journal *j, int fd, const void *from, size_t n, uint64_t offset)
{
    const char *p = from;
    while (n) {
        ssize_t r = j->io->pwrite(j->io->ctx, fd, p, n, offset);
        if (r == -EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? (int)r : -EIO;
        p += r;
        offset += (uint64_t)r;
        n -= (size_t)r;
    }
    return 0;
}

ssize_t io_read(const struct journal *j, int fd, void *to, size_t n, uint64_t offset)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = j->io->pread(j->io->ctx, fd, (char *)to + got, n - got, offset + got);
        if (r == -EINTR)
            continue;
        if (r < 0)
            return r;
        if (r == 0)
            break;
        got += (size_t)r;
    }
    return (ssize_t)got;
}

int io_sync_file(struct journal *j, int fd)
{
    if (j->flags & JOURNAL_NOSYNC)
        return 0;
    j->stats.syncs++;
    return j->io->sync_file(j->io->ctx, fd);
}

int io_sync_dir(struct journal *j, int dir)
{
    if (j->flags & JOURNAL_NOSYNC)
        return 0;
    j->stats.syncs++;
    return j->io->sync_dir(j->io->ctx, dir);
}
