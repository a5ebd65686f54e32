/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_mode(int fd, const char *path, struct diag *why)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    if (!S_ISREG(st.st_mode))
        return diag_set(why, E_PROTO, 0, "%s: is no plain file", path);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return diag_set(why, -EACCES, 0, "%s: is not only for its owner (mode %03o): chmod 600", path,
                        (unsigned)st.st_mode & 0777u);
    return 0;
}

/* The first line of the n bytes in out->text. */
static int take_line(struct secret *out, size_t n, const char *path, struct diag *why)
{
    const char *end = memchr(out->text, '\n', n);
    out->n = end ? (size_t)(end - out->text) : n;
    if (out->n && out->text[out->n - 1] == '\r')
        out->n--;
    if (out->n == 0)
        return diag_set(why, E_PROTO, 0, "%s: is empty", path);
    if (!end && n > SECRET_MAX)
        return diag_set(why, E_PROTO, 0, "%s: its line has more than %d bytes", path, SECRET_MAX);
    if (memchr(out->text, '\0', out->n))
        return diag_set(why, E_PROTO, 0, "%s: has a NUL byte", path);
    out->text[out->n] = '\0';
    return 0;
}

int secret_read(const char *path, struct secret *out, struct diag *why)
{
    size_t n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
    if (fd < 0)
        return diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    int r = check_mode(fd, path, why);
    while (r == 0 && got != 0 && n < sizeof out->text) {
        got = read(fd, out->text + n, sizeof out->text - n);
        if (got < 0 && errno != EINTR)
            r = diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
        n += got > 0 ? (size_t)got : 0;
    }
    if (r == 0)
        r = take_line(out, n, path, why);
    (void)close(fd); /* only read */
    if (r < 0)
        secret_wipe(out);
    return r;
}

void secret_wipe(struct secret *s)
{
    explicit_bzero(s, sizeof *s);
}
