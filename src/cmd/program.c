/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/program.h"

#include "base/strbuf.h"

#include <errno.h>
#include <unistd.h>

int program_become(const char *name, char **argv)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    struct strbuf beside = {0};
    while (n > 0 && path[n - 1] != '/')
        n--;
    strbuf_add(&beside, path, n > 0 ? (size_t)n : 0);
    strbuf_add_str(&beside, name);
    argv[0] = (char *)name;
    if (!strbuf_failed(&beside))
        (void)execv(beside.p, argv); /* returns only if it failed */
    strbuf_fini(&beside);
    (void)execvp(name, argv); /* the same */
    return -errno;
}
