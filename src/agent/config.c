/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: which files, in which order, and what the agent's own keys come to. */
#include "agent/config_internal.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { DROPINS_MAX = 256 };

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
    void *p = arena_alloc(&l->c->arena, n);
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

/* is_dropin: only a plain file, so that a pipe put there does not stop the agent. */
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

/* agent.d beside the file. */
static void load_dropins(struct config_load *l, const char *file)
{
    struct names names = {.n = 0};
    struct strbuf path = {0};
    const char *slash = strrchr(file, '/');
    strbuf_add(&path, file, slash ? (size_t)(slash - file) + 1 : 0);
    strbuf_add_str(&path, "agent.d");
    size_t folder = path.n;
    int r = strbuf_failed(&path) ? -ENOMEM : list_dropins(l, path.p, &names);
    for (size_t i = 0; r == 0 && i < names.n; i++) {
        path.n = folder;
        strbuf_printf(&path, "/%s", names.v[i]);
        (void)load_file(l, strbuf_slice(&path).p, true); /* told; the next may have problems to tell, too */
    }
    strbuf_fini(&path);
}

static void load_files(struct config_load *l)
{
    const char *file = l->flags->file ? l->flags->file : CONFIG_FILE;
    bool is_missing = !l->flags->file && access(file, F_OK) < 0 && errno == ENOENT;
    if (!is_missing)
        (void)load_file(l, file, false); /* told */
    load_dropins(l, file);
}

/* ---------------------------------------------------------------- the agent's own keys */

static const char *join(struct config_load *l, const char *a, const char *b)
{
    struct strbuf path = {0};
    strbuf_add_str(&path, a);
    strbuf_add_str(&path, b);
    const char *copy = strbuf_failed(&path) ? NULL : config_copy(l, strbuf_slice(&path));
    strbuf_fini(&path);
    return copy;
}

/* An absolute path; others are to be ignored, says the XDG specification. */
static const char *path_from_environment(const char *name)
{
    const char *path = getenv(name);
    return path && path[0] == '/' ? path : NULL;
}

static const char *default_state_dir(struct config_load *l)
{
    const char *xdg = path_from_environment("XDG_STATE_HOME"), *home = path_from_environment("HOME");
    if (geteuid() == 0)
        return "/var/lib/gridline/agent";
    if (xdg)
        return join(l, xdg, "/gridline/agent");
    if (home)
        return join(l, home, "/.local/state/gridline/agent");
    (void)config_problem(
        l, -EINVAL, NULL, "state_dir",
        "neither XDG_STATE_HOME nor HOME is set; give state_dir, or state_dir = \"\" for none");
    return NULL;
}

static const char *default_run_dir(struct config_load *l)
{
    const char *xdg = path_from_environment("XDG_RUNTIME_DIR");
    char uid[24];
    if (geteuid() == 0)
        return "/run/gridline";
    if (xdg)
        return join(l, xdg, "/gridline");
    (void)snprintf(uid, sizeof uid, "%lu", (unsigned long)geteuid()); /* fits */
    return join(l, "/tmp/gridline-", uid);
}

/* What depends on who runs it and on other keys. */
static void derive(struct config_load *l)
{
    struct agent_config *c = l->c;
    const struct config_entry *state_dir = given_find(&l->agent, "state_dir");
    const struct config_entry *run_dir = given_find(&l->agent, "run_dir"),
                              *socket = given_find(&l->agent, "socket");
    if (state_dir && *c->state_dir && c->is_guest)
        (void)config_problem(l, -EINVAL, &state_dir->from, "state_dir",
                             "a guest leaves nothing on disk; leave out state_dir or guest");
    if (!state_dir && !c->is_guest)
        c->state_dir = default_state_dir(l);
    if (c->state_dir && !*c->state_dir)
        c->state_dir = NULL;
    if (c->config_ca && !*c->config_ca)
        c->config_ca = NULL;
    if (run_dir && !*c->run_dir)
        (void)config_problem(l, -EINVAL, &run_dir->from, "run_dir", "it can't be empty");
    if (!run_dir)
        c->run_dir = default_run_dir(l);
    if (!socket)
        c->socket = c->is_guest || !c->run_dir ? "" : join(l, c->run_dir, "/agent.sock");
    if (c->socket && strlen(c->socket) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        (void)config_problem(
            l, -EINVAL, socket ? &socket->from : NULL, "socket",
            "its path is longer than the %zu bytes of a socket; give a shorter socket or run_dir",
            sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
}

static void make_agent(struct config_load *l)
{
    struct config_key key;
    size_t problems = l->problems;
    for (size_t i = 0; config_key_at(l->agent.scope, i, &key); i++) {
        const struct config_entry *entry = given_find(&l->agent, key.name);
        if (entry || key.default_text)
            (void)config_store(l, &key, entry, key.name, l->c); /* remembered in l */
    }
    if (l->problems == problems)
        derive(l);
    (void)given_entries(l, &l->agent, &l->c->given, &l->c->n_given); /* remembered in l */
}

static void make_output(struct config_load *l, const struct given_section *section, struct output_config *out)
{
    struct config_key key;
    struct strbuf name = {0};
    out->name = section->title;
    for (size_t i = 0; config_key_at(section->scope, i, &key); i++) {
        const struct config_entry *entry = given_find(section, key.name);
        strbuf_reset(&name);
        config_full_name(section->scope, section->title, key.name, &name);
        if (key.is_needed && (!entry || entry->setting.n != 1 || !*entry->setting.texts[0]))
            (void)config_problem(l, -EINVAL, &section->from, strbuf_slice(&name).p, "it is missing: %s",
                                 key.help);
        else
            (void)config_store(l, &key, entry, strbuf_slice(&name).p, out); /* remembered in l */
    }
    strbuf_fini(&name);
    (void)given_entries(l, section, &out->given, &out->n_given); /* remembered in l */
}

static void make_outputs(struct config_load *l)
{
    struct output_config *outputs = config_alloc(l, (l->n_sections + 1) * sizeof *outputs);
    l->c->outputs = outputs;
    for (const struct given_section *s = l->sections; outputs && s; s = s->next)
        if (s->scope.kind == SCOPE_OUTPUT)
            make_output(l, s, &outputs[l->c->n_outputs++]);
}

/* ---------------------------------------------------------------- loading */

/* A document is to replace them. */
static void forget_sensors(struct config_load *l)
{
    l->n_sections = 0;
    for (struct given_section **s = &l->sections; *s;) {
        if ((*s)->scope.kind == SCOPE_SENSOR) {
            *s = (*s)->next;
            continue;
        }
        s = &(*s)->next;
        l->n_sections++;
    }
    l->last = &l->sections;
    while (*l->last)
        l->last = &(*l->last)->next;
}

static void make_all(struct config_load *l, bool is_signed)
{
    make_agent(l);
    make_outputs(l);
    if (l->document && !is_signed)
        config_check_programs(l);
    config_make_sensors(l);
}

static int load(const struct config_flags *flags, const struct slice *document, const char *name,
                bool is_signed, struct agent_config **out, struct diag *why)
{
    struct config_load l = {.flags = flags, .why = why, .agent = {.title = ""}};
    l.last = &l.sections;
    l.c = mem_try_alloc(sizeof *l.c);
    if (!l.c)
        return config_problem(&l, -ENOMEM, NULL, NULL, "out of memory");
    load_files(&l);
    if (document) {
        forget_sensors(&l);
        (void)config_parse(&l, *document, name, true); /* told */
    }
    given_from_environment(&l);
    given_from_flags(&l);
    if (l.code == 0)
        make_all(&l, is_signed);
    if (l.code < 0) {
        config_destroy(l.c);
        return l.code;
    }
    *out = l.c;
    return 0;
}

int config_load(const struct config_flags *flags, struct agent_config **out, struct diag *why)
{
    return load(flags, NULL, NULL, false, out, why);
}

int config_load_remote(const struct config_flags *flags, struct slice document, const char *name,
                       bool is_signed, struct agent_config **out, struct diag *why)
{
    return load(flags, &document, name, is_signed, out, why);
}

void config_destroy(struct agent_config *c)
{
    if (!c)
        return;
    arena_fini(&c->arena);
    mem_free(c);
}
