/* SPDX-License-Identifier: Apache-2.0 */
#include "base/directory.h"

#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int directory_sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct strbuf parent = {0};
    strbuf_add(&parent, path, slash ? (size_t)(slash - path) : 0);
    strbuf_add_str(&parent, slash ? "/" : ".");
    int fd = strbuf_failed(&parent) ? -1 : open(parent.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = strbuf_failed(&parent) ? -ENOMEM : fd < 0 || fsync(fd) < 0 ? -errno : 0;
    if (fd >= 0)
        (void)close(fd); /* nothing was written by it */
    strbuf_fini(&parent);
    return r == -EACCES || r == -EINVAL || r == -EROFS ? 0 : r;
}

/* The last one is synced also where it was there: who made it may have been killed before that. */
static int make_one(const struct strbuf *path, bool is_last)
{
    mode_t mode = is_last && geteuid() != 0 ? 0700 : 0755;
    int r = mkdir(path->p, mode) < 0 ? -errno : 0;
    if (r < 0 && r != -EEXIST)
        return r;
    return r == 0 || is_last ? directory_sync_parent(path->p) : 0;
}

int directory_make(const char *path, struct diag *why)
{
    struct strbuf part = {0};
    int r = 0;
    for (const char *p = path; r == 0 && *p; p++) {
        strbuf_add_char(&part, *p);
        if (strbuf_failed(&part))
            r = -ENOMEM;
        else if (p[1] == '/' || p[1] == '\0')
            r = make_one(&part, p[1] == '\0');
        if (r < 0)
            (void)diag_set(why, r, 0, "%s: %s", strbuf_failed(&part) ? path : part.p, err_text(r));
    }
    strbuf_fini(&part);
    return r;
}

int directory_make_own(const char *path, struct diag *why)
{
    struct stat st;
    int r = directory_make(path, why);
    if (r < 0)
        return r;
    if (lstat(path, &st) < 0)
        return diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return diag_set(why, -EPERM, 0, "%s is not a folder of this user's; set run_dir to one", path);
    return 0;
}
