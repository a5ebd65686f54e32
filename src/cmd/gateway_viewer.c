/* SPDX-License-Identifier: Apache-2.0 */
/* A folder's files are for who works on the viewer: they are read on the loop. A name is letters, digits,
 * '.',
 * '-' and '_', and does not begin with a dot, so that it names a file of the folder itself and none that is
 * hidden; links are not followed. */
#include "cmd/gateway_viewer.h"

#include "base/hash.h"
#include "viewer/viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 128, FILE_MAX = 16 << 20 };

static bool find_own(struct slice name, struct http_asset *out)
{
    const struct viewer_asset *a = viewer_find(name);
    if (!a)
        return false;
    *out = (struct http_asset){
        .type = a->type, .etag = a->etag, .raw = a->raw, .gz = a->gz, .is_immutable = a->is_immutable};
    return true;
}

static bool is_name(struct slice name)
{
    bool is_good = name.n > 0 && name.n <= NAME_MAX_BYTES && name.p[0] != '.';
    for (size_t i = 0; i < name.n && is_good; i++) {
        char c = name.p[i];
        is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '-' || c == '_';
    }
    return is_good;
}

/* false: it can't be had, whatever the reason. */
static bool read_file(int folder, struct slice name, struct strbuf *out)
{
    char path[NAME_MAX_BYTES + 1];
    struct stat st;
    (void)snprintf(path, sizeof path, "%.*s", SLICE_ARG(name)); /* fits */
    strbuf_reset(out);
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX;
    size_t left = is_good ? (size_t)st.st_size : 0;
    while (left && is_good) {
        char *room = strbuf_room(out, left);
        ssize_t n = room ? read(fd, room, left) : -1;
        is_good = n > 0;
        strbuf_advance(out, is_good ? (size_t)n : 0);
        left -= is_good ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return is_good;
}

static const char *type_of(struct slice name)
{
    static const struct {
        struct slice end;
        const char *type;
    } types[] = {{{".html", 5}, "text/html; charset=utf-8"},
                 {{".js", 3}, "text/javascript; charset=utf-8"},
                 {{".css", 4}, "text/css; charset=utf-8"},
                 {{".svg", 4}, "image/svg+xml"},
                 {{".png", 4}, "image/png"},
                 {{".json", 5}, "application/json"},
                 {{".map", 4}, "application/json"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (name.n > types[i].end.n && slice_eq(slice_from(name, name.n - types[i].end.n), types[i].end))
            return types[i].type;
    return "application/octet-stream";
}

static bool find(void *arg, struct slice name, struct http_asset *out)
{
    struct gateway_viewer *v = arg;
    if (name.n == 0)
        name = SLICE_LIT("index.html");
    if (v->folder < 0)
        return find_own(name, out);
    if (!is_name(name) || !read_file(v->folder, name, &v->file))
        return false;
    struct slice raw = strbuf_slice(&v->file);
    (void)snprintf(v->etag, sizeof v->etag, "\"%016" PRIx64 "\"", hash_bytes(raw)); /* fits */
    *out = (struct http_asset){.type = type_of(name), .etag = v->etag, .raw = raw};
    return true;
}

int gateway_viewer_open(struct gateway_viewer *v, const char *dir, struct diag *why)
{
    v->ops = (struct http_assets){.find = find, .arg = v};
    if (!*dir)
        return 0;
    v->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return v->folder < 0 ? diag_set(why, -errno, 0, "viewer_dir %s: %s", dir, err_text(-errno)) : 0;
}

void gateway_viewer_close(struct gateway_viewer *v)
{
    if (v->folder >= 0)
        (void)close(v->folder); /* only read */
    strbuf_fini(&v->file);
}
