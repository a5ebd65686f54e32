/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks are allocated, not written: by fallocate where the file system has it, else by posix_fallocate,
 * which writes zeros. Releasing truncates the file, which needs no room itself on the file systems that we
 * know. */
#include "archive/reserve.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct reserve {
    int fd;
    uint64_t bytes;
    bool is_held;
};

/* -ENOSPC leaves the file empty. */
static int allocate(struct reserve *r)
{
    int e = fallocate(r->fd, 0, 0, (off_t)r->bytes) < 0 ? errno : 0;
    if (e == EOPNOTSUPP || e == ENOSYS)
        e = posix_fallocate(r->fd, 0, (off_t)r->bytes);
    if (e == 0 && fsync(r->fd) < 0)
        e = errno;
    if (e == 0) {
        r->is_held = true;
        return 0;
    }
    if (ftruncate(r->fd, 0) < 0)
        return -errno;
    return e == EDQUOT ? -ENOSPC : -e;
}

int reserve_refill(struct reserve *r)
{
    struct statvfs st;
    if (r->is_held)
        return 0;
    if (fstatvfs(r->fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.f_bavail * st.f_frsize < 2 * r->bytes)
        return -ENOSPC;
    return allocate(r);
}

bool reserve_release(struct reserve *r)
{
    if (!r->is_held || ftruncate(r->fd, 0) < 0)
        return false;
    r->is_held = false;
    return true;
}

bool reserve_is_held(const struct reserve *r)
{
    return r->is_held;
}

/* What an earlier run has left: held if all of it is allocated. */
static int take_over(struct reserve *r)
{
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return -errno;
    r->is_held = (uint64_t)st.st_size == r->bytes && (uint64_t)st.st_blocks * 512 >= r->bytes;
    if (!r->is_held && st.st_size > 0 && ftruncate(r->fd, 0) < 0)
        return -errno;
    int e = reserve_refill(r);
    return e == -ENOSPC ? 0 : e;
}

int reserve_open(const char *dir, uint64_t bytes, struct reserve **out, struct diag *why)
{
    struct strbuf path = {0};
    struct reserve *r = mem_try_alloc(sizeof *r);
    strbuf_printf(&path, "%s/reserve", dir);
    int e = r && !strbuf_failed(&path) ? 0 : -ENOMEM;
    if (r)
        *r = (struct reserve){.fd = -1, .bytes = bytes ? bytes : RESERVE_BYTES};
    if (e == 0) {
        r->fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        e = r->fd < 0 ? -errno : take_over(r);
    }
    strbuf_fini(&path);
    if (e < 0) {
        reserve_close(r);
        return diag_set(why, e, 0, "%s/reserve: %s", dir, err_text(e));
    }
    *out = r;
    return 0;
}

void reserve_close(struct reserve *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        (void)close(r->fd); /* what is in it is nothing */
    mem_free(r);
}
