/* SPDX-License-Identifier: Apache-2.0 */
/* How much a read gives. The kernel makes most of /proc as records that it collects in a page: a read returns as many
 * whole records as fit, and only a read that returns 0 says that there is no more. That last call would double the cost
 * of small files, so it is left out when a read returned at least RECORD_MAX bytes less than a page: another record
 * would have fitted, since those that sensors read are all shorter. Files made as one record return everything at once. */
#include "sensor/env.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "sensor/netlink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { PAGE = 4096, RECORD_MAX = 1024 };

struct source {
    struct source *next;
    char *path; /* without the root */
    unsigned users;
    int fd;         /* -1 = not open */
    uint64_t round; /* in which it was read; 0 = never */
    int result;     /* of that */
    struct strbuf data;
};

void env_init(struct sensor_env *env, const char *root)
{
    *env = (struct sensor_env){.root = root, .round = 1, .utc_ns = clock_utc_ns, .mono_ns = clock_mono_ns};
}

static void source_free(struct source *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* opened for reading: nothing to lose */
    strbuf_fini(&s->data);
    mem_free(s->path);
    mem_free(s);
}

void env_fini(struct sensor_env *env)
{
    while (env->sources) {
        struct source *s = env->sources;
        env->sources = s->next;
        source_free(s);
    }
}

bool env_is_live(const struct sensor_env *env)
{
    return env->root[0] == '\0';
}

void env_next_round(struct sensor_env *env)
{
    env->round++;
}

void env_note(const struct sensor_env *env, const char *call, const char *what, size_t bytes)
{
    if (env->on_call)
        env->on_call(env->on_call_arg, call, what, bytes);
}

const char *env_path(const struct sensor_env *env, const char *path, struct strbuf *buffer)
{
    if (env_is_live(env))
        return path;
    strbuf_reset(buffer);
    strbuf_add_str(buffer, env->root);
    strbuf_add_str(buffer, path);
    return strbuf_failed(buffer) ? "" : buffer->p;
}

static int open_file(struct sensor_env *env, const char *path)
{
    struct strbuf full = {0};
    int fd = open(env_path(env, path, &full), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd >= 0 ? fd : errno == ENOENT || errno == ENOTDIR ? E_NODATA : -errno;
    strbuf_fini(&full);
    env_note(env, "open", path, 0);
    return r;
}

/* A file over the limit: without the line that is cut. */
static void cut_at_line(struct strbuf *data)
{
    const char *lf = memrchr(data->p, '\n', data->n);
    data->n = lf ? (size_t)(lf - data->p) + 1 : 0;
    data->p[data->n] = '\0';
}

static int read_whole(struct sensor_env *env, int fd, const char *path, struct strbuf *data)
{
    strbuf_reset(data);
    while (data->n < ENV_FILE_MAX) {
        size_t room = data->cap > data->n + PAGE ? data->cap - data->n - 1 : data->n + PAGE;
        char *to = strbuf_room(data, room);
        if (!to)
            return -ENOMEM;
        ssize_t n = pread(fd, to, room, (off_t)data->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        env_note(env, "pread", path, (size_t)n);
        if (n == 0)
            return data->n ? 0 : E_NODATA;
        strbuf_advance(data, (size_t)n);
        if (n <= PAGE - RECORD_MAX && data->p[data->n - 1] == '\n')
            return 0;
    }
    cut_at_line(data);
    return data->n ? 0 : E_NODATA;
}

struct source *env_source(struct sensor_env *env, const char *path)
{
    for (struct source *s = env->sources; s; s = s->next) {
        if (strcmp(s->path, path) == 0) {
            s->users++;
            return s;
        }
    }
    struct source *s = mem_alloc(sizeof *s);
    *s = (struct source){.next = env->sources, .users = 1, .fd = -1};
    s->path = mem_alloc(strlen(path) + 1);
    memcpy(s->path, path, strlen(path) + 1);
    env->sources = s;
    return s;
}

void source_close(struct sensor_env *env, struct source *s)
{
    if (!s || --s->users > 0)
        return;
    struct source **at = &env->sources;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    source_free(s);
}

static bool is_netlink(const struct sensor_env *env, const struct source *s)
{
    return env_is_live(env) && slice_starts(slice_str(s->path), SLICE_LIT(NETLINK_FOLDER));
}

static int source_open(struct sensor_env *env, const struct source *s)
{
    return is_netlink(env, s) ? netlink_open() : open_file(env, s->path);
}

static int source_get(struct sensor_env *env, struct source *s)
{
    if (!is_netlink(env, s))
        return read_whole(env, s->fd, s->path, &s->data);
    int r = netlink_dump(s->fd, slice_from(slice_str(s->path), strlen(NETLINK_FOLDER)), ENV_FILE_MAX, &s->data);
    env_note(env, "netlink", s->path, s->data.n);
    return r;
}

/* A file of a device or process that has gone keeps its descriptor and fails (ENODEV, ESRCH): it is opened anew. */
static int source_fill(struct sensor_env *env, struct source *s)
{
    for (int attempt = 0;; attempt++) {
        bool was_open = s->fd >= 0;
        if (!was_open) {
            int fd = source_open(env, s);
            if (fd < 0)
                return fd;
            s->fd = fd;
        }
        int r = source_get(env, s);
        if (r == 0)
            return 0;
        (void)close(s->fd); /* opened for reading */
        s->fd = -1;
        if (!was_open || attempt > 0 || r == -ENOMEM)
            return r == -ENODEV || r == -ESRCH ? E_NODATA : r;
    }
}

int source_read(struct sensor_env *env, struct source *s, struct slice *out)
{
    if (s->round != env->round) {
        s->round = env->round;
        s->result = source_fill(env, s);
    }
    if (s->result == 0)
        *out = strbuf_slice(&s->data);
    return s->result;
}

int env_read_file(struct sensor_env *env, const char *path, struct strbuf *out)
{
    strbuf_reset(out);
    int fd = open_file(env, path);
    if (fd < 0)
        return fd;
    int r = read_whole(env, fd, path, out);
    (void)close(fd); /* opened for reading */
    return r;
}

bool env_exists(struct sensor_env *env, const char *path)
{
    struct strbuf full = {0};
    bool exists = access(env_path(env, path, &full), F_OK) == 0;
    strbuf_fini(&full);
    env_note(env, "access", path, 0);
    return exists;
}

int env_list(struct sensor_env *env, const char *path, int (*fn)(void *arg, const char *name), void *arg)
{
    struct strbuf full = {0};
    DIR *dir = opendir(env_path(env, path, &full));
    int r = dir ? 0 : errno == ENOENT || errno == ENOTDIR ? E_NODATA : -errno;
    strbuf_fini(&full);
    if (!dir)
        return r;
    env_note(env, "readdir", path, 0);
    struct dirent *e;
    while (r == 0 && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = fn(arg, e->d_name);
    (void)closedir(dir); /* opened for reading */
    return r;
}
