/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a temporary folder of a test, and what is in it. One at a time. */
#ifndef GRIDLINE_TESTS_PKI_FOLDER_H
#define GRIDLINE_TESTS_PKI_FOLDER_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static inline const char *test_folder_open(void)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "/tmp/gridline-pki-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline int test_folder_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void test_folder_close(const char *path)
{
    assert_int_equal(nftw(path, test_folder_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Files in it, hidden ones too. */
static inline int test_folder_count(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(d);
    return n;
}

/* Does a file's name or content hold these bytes? */
static inline bool test_folder_contains(const char *path, const void *bytes, size_t n)
{
    DIR *d = opendir(path);
    bool found = false;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        char name[512], content[4096];
        (void)snprintf(name, sizeof name, "%s/%.400s", path, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(name, "r");
        size_t got = f ? fread(content, 1, sizeof content, f) : 0;
        found = found || memmem(content, got, bytes, n) || memmem(e->d_name, strlen(e->d_name), bytes, n);
        if (f)
            (void)fclose(f);
    }
    (void)closedir(d);
    return found;
}

#endif
