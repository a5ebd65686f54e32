/* SPDX-License-Identifier: Apache-2.0 */
#include "base/directory.h"

#include "base/strbuf.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int directory_make(const char *path, struct diag *why)
{
    struct strbuf part = {0};
    int r = 0;
    for (const char *p = path; r == 0 && *p; p++) {
        strbuf_add_char(&part, *p);
        bool is_last = p[1] == '\0';
        mode_t mode = is_last && geteuid() != 0 ? 0700 : 0755;
        if (strbuf_failed(&part))
            r = diag_set(why, -ENOMEM, 0, "%s: %s", path, err_text(-ENOMEM));
        else if ((p[1] == '/' || is_last) && mkdir(part.p, mode) < 0 && errno != EEXIST)
            r = diag_set(why, -errno, 0, "%s: %s", part.p, err_text(-errno));
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
