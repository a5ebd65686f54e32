/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3: said, or the kernel complains; unknown to those before */
#endif

enum { SIZE_MAX_BYTES = 256 << 20 };

static int open_program(const char *path, struct stat *st, struct diag *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, st) < 0) {
        int r = diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    if (S_ISREG(st->st_mode) && (st->st_mode & 0111) && st->st_size <= SIZE_MAX_BYTES)
        return fd;
    (void)close(fd);
    return diag_set(why, -EACCES, 0, "%s: no program", path);
}

int image_open(const char *path, int *fd, struct diag *why)
{
    struct stat st;
    int file = open_program(path, &st, why);
    if (file < 0)
        return file;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022)) {
        (void)close(file);
        return diag_set(why, -EPERM, 0, "%s: others than root and this user may change it", path);
    }
    *fd = file;
    return 0;
}

static int copy(int from, int to, off_t size)
{
    off_t at = 0;
    while (at < size) {
        ssize_t n = sendfile(to, from, &at, (size_t)(size - at));
        if (n == 0)
            return -EIO; /* it has become shorter */
        if (n < 0 && errno != EINTR)
            return -errno;
    }
    return fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ? -errno : 0;
}

int image_carry(const char *path, int *fd, struct diag *why)
{
    struct stat st;
    int file = open_program(path, &st, why);
    if (file < 0)
        return file;
    int memory = memfd_create("gridline-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (memory < 0 && errno == EINVAL)
        memory = memfd_create("gridline-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = memory < 0 ? -errno : fchmod(memory, 0700) < 0 ? -errno : copy(file, memory, st.st_size);
    (void)close(file);
    if (r < 0) {
        if (memory >= 0)
            (void)close(memory);
        return diag_set(why, r, 0, "%s can't be taken into memory: %s", path, err_text(r));
    }
    *fd = memory;
    return 0;
}
