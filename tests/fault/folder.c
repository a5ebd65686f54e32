/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/folder.h"

#include "unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void folder_make(char path[FOLDER_PATH])
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(path, FOLDER_PATH, "%s/gridline_fault.XXXXXX", base);
    assert_non_null(mkdtemp(path));
}

void folder_empty(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return;
    assert_int_equal(errno, EEXIST);
    DIR *d = opendir(path);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) == 0)
            continue;
        char sub[PATH_MAX];
        assert_true(snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) < (int)sizeof sub);
        folder_remove(sub);
    }
    (void)closedir(d);
}

void folder_remove(const char *path)
{
    folder_empty(path);
    assert_int_equal(rmdir(path), 0);
}
