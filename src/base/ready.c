/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int ready_write(const char *path)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (!path)
        return 0;
    if (fd < 0)
        return -errno;
    int r = write(fd, "ready\n", 6) == 6 ? 0 : -errno;
    if (close(fd) < 0 && r == 0)
        r = -errno;
    return r;
}
