/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the module with everything that needs OpenSSL. */
#include "net/secure.h"

#include "base/strbuf.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MODULE "gridline-secure.so"

/* A path with a slash in it: dlopen then looks nowhere else. */
static void *open_in(struct slice folder, struct strbuf *path)
{
    strbuf_reset(path);
    strbuf_printf(path, "%.*s/%s", SLICE_ARG(folder), MODULE);
    return strbuf_failed(path) ? NULL : dlopen(path->p, RTLD_NOW | RTLD_LOCAL);
}

static void *open_beside_program(struct strbuf *path)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program);
    const char *slash = n > 0 ? memrchr(program, '/', (size_t)n) : NULL;
    return slash ? open_in(slice_of(program, (size_t)(slash - program)), path) : NULL;
}

static void *open_module(struct diag *why)
{
    struct strbuf path = {0};
    const char *folder = getenv("GRIDLINE_MODULES");
    void *module = folder && folder[0] ? open_in(slice_str(folder), &path) : open_beside_program(&path);
    if (!module && !(folder && folder[0]))
        module = open_in(SLICE_LIT(GRIDLINE_MODULE_DIR), &path);
    if (!module)
        (void)diag_set(why, -ENOENT, 0, "TLS needs the module %s: %s", MODULE, dlerror());
    strbuf_fini(&path);
    return module;
}

/* The table of that name: every one begins with version and size. Loaded once. */
static const void *load(const char *symbol, size_t size, struct diag *why)
{
    static void *_Atomic loaded; /* the second of two threads at the same time gets the same one */
    void *module = loaded;
    if (!module) {
        module = open_module(why);
        loaded = module;
    }
    const uint32_t *head = module ? dlsym(module, symbol) : NULL;
    if (module && (!head || head[0] != SECURE_VERSION || head[1] != size)) {
        (void)diag_set(why, E_VERSION, 0, "the module %s is of another version of gridline", MODULE);
        return NULL;
    }
    return head;
}

const struct secure_ops *secure_load(struct diag *why)
{
    return load(SECURE_SYMBOL, sizeof(struct secure_ops), why);
}

const struct secure_site_ops *secure_load_site(struct diag *why)
{
    return load(SECURE_SITE_SYMBOL, sizeof(struct secure_site_ops), why);
}
