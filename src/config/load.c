/* SPDX-License-Identifier: Apache-2.0 */
/* What every load needs: telling problems, memory, the files in their order, and the folders that depend on
 * who runs the daemon. */
#include "config/load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { DROPINS_MAX = 256 };

void config_load_init(struct config_load *l, const struct config_schema *schema,
                      const struct config_flags *flags, struct arena *arena, struct diag *why)
{
    *l = (struct config_load){.schema = schema,
                              .flags = flags,
                              .arena = arena,
                              .root = {.scope = config_root(schema), .title = ""},
                              .why = why};
    l->last = &l->sections;
}

/* ---------------------------------------------------------------- problems, memory */

static void add_origin(struct strbuf *text, const struct config_origin *at)
{
    if (!at || !at->where)
        return;
    strbuf_add_str(text, at->where);
    if (at->line)
        strbuf_printf(text, ":%u", at->line);
    strbuf_add_str(text, ": ");
}

int config_problem(struct config_load *l, int code, const struct config_origin *at, const char *key,
                   const char *format, ...)
{
    char message[600];
    struct strbuf text = {0};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args); /* cut to fit is fine for a message */
    va_end(args);
    add_origin(&text, at);
    if (key)
        strbuf_printf(&text, "%s: ", key);
    strbuf_add_str(&text, message);
    const char *line = strbuf_failed(&text) ? message : text.p;
    if (l->problems++ == 0) {
        l->code = code;
        (void)diag_set(l->why, code, 0, "%s", line); /* the code is known */
        if (l->why)
            l->why->line = at ? at->line : 0;
    }
    if (l->flags->on_problem && l->problems <= CONFIG_PROBLEMS_MAX)
        l->flags->on_problem(l->flags->arg, line);
    strbuf_fini(&text);
    return code;
}

void *config_alloc(struct config_load *l, size_t n)
{
    void *p = arena_alloc(l->arena, n);
    if (!p)
        (void)config_problem(l, -ENOMEM, NULL, NULL, "out of memory"); /* remembered in l */
    else
        memset(p, 0, n);
    return p;
}

const char *config_copy(struct config_load *l, struct slice text)
{
    char *copy = config_alloc(l, text.n + 1);
    if (copy && text.n)
        memcpy(copy, text.p, text.n);
    return copy;
}

const char *config_join(struct config_load *l, const char *a, const char *b)
{
    struct strbuf path = {0};
    strbuf_add_str(&path, a);
    strbuf_add_str(&path, b);
    const char *copy = strbuf_failed(&path) ? NULL : config_copy(l, strbuf_slice(&path));
    strbuf_fini(&path);
    return copy;
}

/* ---------------------------------------------------------------- files */

/* At most one byte more than is allowed, so that config_text_check sees that. */
static int read_all(int fd, struct strbuf *out)
{
    while (out->n <= CONFIG_FILE_MAX) {
        size_t room = CONFIG_FILE_MAX + 1 - out->n < 16384 ? CONFIG_FILE_MAX + 1 - out->n : 16384;
        char *to = strbuf_room(out, room);
        if (!to)
            return -ENOMEM;
        ssize_t n = read(fd, to, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        strbuf_advance(out, (size_t)n);
    }
    return 0;
}

/* is_dropin: only a plain file, so that a pipe put there does not stop the daemon. */
static int read_file(const char *path, bool is_dropin, struct strbuf *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_dropin ? O_NONBLOCK : 0));
    if (fd < 0)
        return -errno;
    int r = fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && is_dropin && !S_ISREG(st.st_mode))
        r = -EINVAL;
    if (r == 0)
        r = read_all(fd, out);
    (void)close(fd); /* it was only read */
    return r;
}

static int load_file(struct config_load *l, const char *path, bool is_dropin)
{
    struct strbuf text = {0};
    struct config_origin at = {path, 0};
    int r = read_file(path, is_dropin, &text);
    if (r < 0)
        r = config_problem(l, r, &at, NULL, "can't read it: %s",
                           r == -EINVAL ? "not a plain file" : err_text(r));
    else
        r = config_parse(l, strbuf_slice(&text), path, false);
    strbuf_fini(&text);
    return r;
}

struct names {
    char *v[DROPINS_MAX];
    size_t n;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_dropins(struct config_load *l, const char *folder, struct names *names)
{
    struct config_origin at = {folder, 0};
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : config_problem(l, -errno, &at, NULL, "can't read it: %s", err_text(-errno));
    int r = 0;
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        struct slice name = slice_str(e->d_name);
        if (name.p[0] == '.' || !slice_ends(name, SLICE_LIT(".conf")))
            continue;
        if (names->n == DROPINS_MAX)
            r = config_problem(l, -EINVAL, &at, NULL, "more than %d files", DROPINS_MAX);
        else if (!(names->v[names->n++] = (char *)(uintptr_t)config_copy(l, name)))
            r = -ENOMEM;
    }
    (void)closedir(dir); /* it was only read */
    qsort(names->v, names->n, sizeof *names->v, compare_names);
    return r;
}

/* PROGRAM.d beside the file. */
static void load_dropins(struct config_load *l, const char *file)
{
    struct names names = {.n = 0};
    struct strbuf path = {0};
    const char *slash = strrchr(file, '/');
    strbuf_add(&path, file, slash ? (size_t)(slash - file) + 1 : 0);
    strbuf_printf(&path, "%s.d", l->schema->program);
    size_t folder = path.n;
    int r = strbuf_failed(&path) ? -ENOMEM : list_dropins(l, path.p, &names);
    for (size_t i = 0; r == 0 && i < names.n; i++) {
        path.n = folder;
        strbuf_printf(&path, "/%s", names.v[i]);
        (void)load_file(l, strbuf_slice(&path).p, true); /* told; the next may have problems to tell, too */
    }
    strbuf_fini(&path);
}

void config_load_files(struct config_load *l, const char *usual_file)
{
    const char *file = l->flags->file ? l->flags->file : usual_file;
    bool is_missing = !l->flags->file && access(file, F_OK) < 0 && errno == ENOENT;
    if (!is_missing)
        (void)load_file(l, file, false); /* told */
    load_dropins(l, file);
}

/* ---------------------------------------------------------------- folders */

/* An absolute path; others are to be ignored, says the XDG specification. */
static const char *path_from_environment(const char *name)
{
    const char *path = getenv(name);
    return path && path[0] == '/' ? path : NULL;
}

static const char *in_folder(struct config_load *l, const char *folder, const char *below)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s%s/%s", folder, below, l->schema->program);
    const char *copy = strbuf_failed(&path) ? NULL : config_copy(l, strbuf_slice(&path));
    strbuf_fini(&path);
    return copy;
}

const char *config_default_state_dir(struct config_load *l)
{
    const char *xdg = path_from_environment("XDG_STATE_HOME"), *home = path_from_environment("HOME");
    if (geteuid() == 0)
        return in_folder(l, "/var/lib", "/gridline");
    if (xdg)
        return in_folder(l, xdg, "/gridline");
    return home ? in_folder(l, home, "/.local/state/gridline") : NULL;
}

const char *config_state_place(struct config_load *l, const char *path)
{
    const char *xdg = path_from_environment("XDG_STATE_HOME"), *home = path_from_environment("HOME");
    if (geteuid() == 0)
        return config_join(l, "/var/lib", path);
    if (xdg)
        return config_join(l, xdg, path);
    const char *state = home ? config_join(l, home, "/.local/state") : NULL;
    return state ? config_join(l, state, path) : NULL;
}

const char *config_default_run_dir(struct config_load *l)
{
    const char *xdg = path_from_environment("XDG_RUNTIME_DIR");
    char uid[24];
    if (geteuid() == 0)
        return "/run/gridline";
    if (xdg)
        return config_join(l, xdg, "/gridline");
    (void)snprintf(uid, sizeof uid, "%lu", (unsigned long)geteuid()); /* fits */
    return config_join(l, "/tmp/gridline-", uid);
}

void config_check_socket(struct config_load *l, const char *path, const struct config_entry *entry)
{
    enum { ROOM = sizeof((struct sockaddr_un *)NULL)->sun_path };
    if (path && strlen(path) >= ROOM)
        (void)config_problem(
            l, -EINVAL, entry ? &entry->from : NULL, "socket",
            "its path is longer than the %d bytes of a socket; give a shorter socket or run_dir",
            ROOM - 1); /* remembered in l */
}
