/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/file.h"

#include "cmd/options.h"
#include "cmd/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int file_write_all(int fd, struct slice s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR && !stop_asked())
            continue;
        if (n < 0)
            return -errno;
        s = slice_from(s, (size_t)n);
    }
    return 0;
}

int file_print(struct strbuf *text)
{
    int r = strbuf_failed(text) ? -ENOMEM : file_write_all(STDOUT_FILENO, strbuf_slice(text));
    strbuf_fini(text);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static ssize_t read_once(int fd, char *to, size_t n, const uint64_t *offset)
{
    for (;;) {
        ssize_t got = offset ? pread(fd, to, n, (off_t)*offset) : read(fd, to, n);
        if (got >= 0)
            return got;
        if (errno != EINTR || stop_asked())
            return -errno;
    }
}

ssize_t file_read(int fd, char *to, size_t n)
{
    return read_once(fd, to, n, NULL);
}

ssize_t file_read_at(int fd, char *to, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        uint64_t at = offset + done;
        ssize_t got = read_once(fd, to + done, n - done, &at);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

const char *file_temp_dir(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

int file_open_temp(void)
{
    const char *dir = file_temp_dir();
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -errno;
    char path[4096]; /* file systems without O_TMPFILE */
    int n = snprintf(path, sizeof path, "%s/gridline.XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)unlink(path); /* a name left behind is all that failing could mean */
    return fd;
}
