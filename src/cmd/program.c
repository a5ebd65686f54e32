/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/program.h"

#include "base/strbuf.h"

#include <errno.h>
#include <unistd.h>

/* Beside this one; empty where that is not known. */
static void beside(const char *name, struct strbuf *out)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    while (n > 0 && path[n - 1] != '/')
        n--;
    strbuf_reset(out);
    strbuf_add(out, path, n > 0 ? (size_t)n : 0);
    strbuf_add_str(out, name);
}

static void installed(const char *name, struct strbuf *out)
{
    strbuf_reset(out);
    strbuf_printf(out, "%s/%s", GRIDLINE_LIBEXECDIR, name);
}

int program_find(const char *name, struct strbuf *out)
{
    beside(name, out);
    if (!strbuf_failed(out) && access(out->p, X_OK) == 0)
        return 0;
    installed(name, out);
    return strbuf_failed(out) ? -ENOMEM : access(out->p, X_OK) == 0 ? 0 : -errno;
}

int program_become(const char *name, char **argv)
{
    struct strbuf path = {0};
    argv[0] = (char *)name;
    beside(name, &path);
    if (!strbuf_failed(&path))
        (void)execv(path.p, argv); /* returns only if it failed */
    installed(name, &path);
    if (!strbuf_failed(&path))
        (void)execv(path.p, argv); /* the same */
    strbuf_fini(&path);
    (void)execvp(name, argv); /* the same */
    return -errno;
}
