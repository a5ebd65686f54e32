/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/launch_program.h"

#include <stdlib.h>
#include <unistd.h>

static bool try(struct strbuf *out, struct slice folder, const char *name)
{
    strbuf_reset(out);
    strbuf_printf(out, "%.*s/%s", SLICE_ARG(folder), name);
    return !strbuf_failed(out) && access(out->p, X_OK) == 0;
}

static bool try_both(struct strbuf *out, struct slice folder)
{
    return try(out, folder, "gridline-agent") || try(out, folder, "gridline-agent-static");
}

char *launch_path(const char *given)
{
    char *path = given ? realpath(given, NULL) : NULL;
    return path || !given ? path : strdup(given); /* without memory there is none, and whoever needs it says so */
}

void launch_program(const char *given, struct strbuf *out, bool *is_carried)
{
    const struct slice installed = SLICE_LIT(GRIDLINE_BINDIR);
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    const char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    if (given) {
        char *path = launch_path(given);
        strbuf_reset(out);
        strbuf_add_str(out, path ? path : given);
        free(path); /* libc's own */
    } else if (!(slash && try_both(out, slice_of(self, (size_t)(slash - self)))) && !try_both(out, installed)) {
        strbuf_reset(out);
    }
    *is_carried = !slice_starts(strbuf_slice(out), SLICE_LIT(GRIDLINE_BINDIR "/"));
}
