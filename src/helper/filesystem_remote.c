/* SPDX-License-Identifier: Apache-2.0 */
/* The sensor filesystem.remote: statvfs on filesystems whose servers may be dead.
 *
 * Each filesystem has a worker, a thread that does nothing but statvfs when asked and say what came of it. sample
 * asks all that are idle, waits until all have answered or the time is over, and makes the rows. One that did not
 * answer stays busy, is not asked again, and gets a row with answers=false and nothing else, until the kernel lets it
 * go: a dead server costs one sleeping thread and hides no other filesystem.
 *
 * A worker whose filesystem is gone or whose sensor closes is told to end and let go; a busy one ends when its call
 * does, and frees itself then, whoever let go last. Each thread has a small stack, and there are at most
 * FILESYSTEM_ROWS_MAX. */
#include "helper/helper.h"
#include "sensor/filesystem.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { STACK_BYTES = 64 << 10 };

/* lock guards everything below it. */
struct filesystem_worker {
    char *path; /* set before the thread starts, never changed */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_asked; /* by sample; the thread clears it with its answer */
    bool is_ended; /* sample has let go: whoever sees it last frees */
    int result;    /* of the last statvfs: 0 or -errno */
    struct statvfs st;
};

static void worker_free(struct filesystem_worker *w)
{
    (void)pthread_mutex_destroy(&w->lock);    /* nobody has it */
    (void)pthread_cond_destroy(&w->changed); /* nobody waits */
    mem_free(w->path);
    mem_free(w);
}

/* The thread. */
static void *work(void *arg)
{
    struct filesystem_worker *w = arg;
    (void)pthread_mutex_lock(&w->lock); /* a plain mutex that this thread does not hold: can't fail */
    while (!w->is_ended) {
        if (!w->is_asked) {
            (void)pthread_cond_wait(&w->changed, &w->lock); /* as above */
            continue;
        }
        struct statvfs st;
        (void)pthread_mutex_unlock(&w->lock);
        int r = statvfs(w->path, &st) < 0 ? -errno : 0;
        (void)pthread_mutex_lock(&w->lock);
        w->result = r;
        w->st = st;
        w->is_asked = false;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    worker_free(w);
    return NULL;
}

static int start_thread(struct filesystem_worker *w)
{
    pthread_attr_t attr;
    pthread_t thread;
    int r = pthread_attr_init(&attr);
    if (r != 0)
        return -r;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES); /* refused: the default size will do */
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid value: can't fail */
    r = pthread_create(&thread, &attr, work, w);
    (void)pthread_attr_destroy(&attr); /* nothing in it */
    return -r;
}

static int worker_create(const char *path, struct filesystem_worker **out)
{
    struct filesystem_worker *w = mem_alloc(sizeof *w);
    pthread_condattr_t attr;
    w->path = mem_alloc(strlen(path) + 1);
    memcpy(w->path, path, strlen(path) + 1);
    (void)pthread_mutex_init(&w->lock, NULL); /* Linux: these can't fail */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    int r = start_thread(w);
    if (r < 0) {
        worker_free(w);
        return r;
    }
    *out = w;
    return 0;
}

/* Lets go of it: it frees itself, at once or when its call ends. */
static void worker_end(struct filesystem_worker *w)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->is_ended = true;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

static void worker_ask(struct filesystem_worker *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->is_asked = true;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

/* Waits for the answer; -ETIMEDOUT: it has not come. Else statvfs's result, and *st. */
static int worker_wait(struct filesystem_worker *w, const struct timespec *until, struct statvfs *st)
{
    int r = 0;
    (void)pthread_mutex_lock(&w->lock);
    while (w->is_asked && r == 0)
        r = pthread_cond_timedwait(&w->changed, &w->lock, until);
    r = w->is_asked ? -ETIMEDOUT : w->result;
    *st = w->st;
    (void)pthread_mutex_unlock(&w->lock);
    return r;
}

int filesystem_remote_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct filesystem_remote *f = state;
    (void)env;
    mounts_init(&f->mounts);
    f->is_open = true;
    if (f->timeout_ns <= 0)
        return diag_set(why, -EINVAL, 0, "filesystem.remote.timeout: more than 0");
    return 0;
}

static void end_workers(struct filesystem_worker **workers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        worker_end(workers[i]);
    mem_free(workers);
}

/* The worker of that path among the old ones, taken out of their list. */
static struct filesystem_worker *take_worker(struct filesystem_remote *f, const char *path)
{
    for (size_t i = 0; i < f->n_workers; i++) {
        struct filesystem_worker *w = f->workers[i];
        if (w && strcmp(w->path, path) == 0) {
            f->workers[i] = NULL;
            return w;
        }
    }
    return NULL;
}

static bool is_ours(const struct filesystem_remote *f, const struct mount *mount)
{
    return mount->class == MOUNT_REMOTE && filesystem_is_wanted(&f->options, mount);
}

/* A worker for each filesystem of the new list; those whose path stays are kept, with a call that still waits. */
static int renew_workers(struct filesystem_remote *f)
{
    size_t n = 0;
    int r = 0;
    for (size_t i = 0; i < f->mounts.n; i++)
        n += is_ours(f, &f->mounts.v[i]);
    if (n > FILESYSTEM_ROWS_MAX)
        return E_LIMIT;
    struct filesystem_worker **workers = mem_alloc((n ? n : 1) * sizeof(struct filesystem_worker *));
    n = 0;
    for (size_t i = 0; i < f->mounts.n && r == 0; i++) {
        if (!is_ours(f, &f->mounts.v[i]))
            continue;
        workers[n] = take_worker(f, f->mounts.v[i].path);
        if (!workers[n])
            r = worker_create(f->mounts.v[i].path, &workers[n]);
        n += r == 0;
    }
    end_workers(f->workers, f->n_workers);
    f->workers = workers;
    f->n_workers = n;
    f->version = r == 0 ? f->mounts.version : 0;
    return r;
}

static struct timespec deadline(int64_t timeout_ns)
{
    int64_t at = clock_mono_ns() + timeout_ns;
    return (struct timespec){.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
}

static void emit(const struct mount *mount, struct filesystem_worker *w, const struct timespec *until,
                 struct sensor_out *out)
{
    struct value row[FILESYSTEM_FIELDS] = {0};
    struct statvfs st;
    int r = worker_wait(w, until, &st);
    if (r == -EACCES || r == -EPERM || r == -ENOENT)
        return; /* an answer, but not ours to see (a user's FUSE), or unmounted meanwhile */
    if (r == 0 && st.f_blocks == 0)
        return; /* holds no files: a pseudo filesystem of a type that we do not know */
    filesystem_keys(mount, row);
    if (r == 0)
        filesystem_values(&st, row);
    row[FILESYSTEM_ANSWERS] = value_bool(r == 0);
    sensor_row(out, 0, row);
}

int filesystem_remote_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct filesystem_remote *f = state;
    int r = env_is_live(env) ? mounts_update(&f->mounts, env) : E_NODATA;
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/self/mountinfo: %s", err_text(r));
    if (f->version != f->mounts.version)
        r = renew_workers(f);
    if (r == E_LIMIT)
        return diag_set(out->why, r, 0, "more than %d filesystems: choose with `mounts` and `ignore`",
                        FILESYSTEM_ROWS_MAX);
    if (r < 0)
        return diag_set(out->why, r, 0, "thread: %s", err_text(r));
    struct timespec until = deadline(f->timeout_ns);
    for (size_t i = 0; i < f->n_workers; i++)
        worker_ask(f->workers[i]);
    for (size_t i = 0, w = 0; i < f->mounts.n; i++)
        if (is_ours(f, &f->mounts.v[i]))
            emit(&f->mounts.v[i], f->workers[w++], &until, out);
    return 0;
}

void filesystem_remote_close(void *state)
{
    struct filesystem_remote *f = state;
    end_workers(f->workers, f->n_workers);
    if (f->is_open)
        mounts_fini(&f->mounts);
}

const struct helper_ops helper_filesystem_remote = {
    .name = "filesystem.remote",
    .open = filesystem_remote_open,
    .sample = filesystem_remote_sample,
    .close = filesystem_remote_close,
};
