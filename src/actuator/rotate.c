/* SPDX-License-Identifier: Apache-2.0 */
/* rotate: old logs of a folder go to another one, where there is room, compressed if so wanted. Three ways:
 *
 *   - as they are: logs that nobody has open for writing any more. One that somebody has is left where it is.
 *   - `reopen`: each log is renamed in its folder (NAME.gridline-rotate), the server is sent a signal and
 *     opens its log anew, and when nobody has the renamed one open any more it is moved. One that a run could
 *     not finish is found by the next.
 *   - `copytruncate`: for servers that keep their log open whatever comes.
 *
 * rotate_log.c has what makes it safe. Only one run at a time works on a folder. */
#include "actuator/actuator.h"
#include "actuator/quote.h"
#include "actuator/rotate_log.h"
#include "actuator/target.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOGS_MAX = 10000 };

#define ASIDE ".gridline-rotate" /* the end of a log's name that was renamed for `reopen` */

struct rotate {
    const char *path, *to, *compress, *reopen, *pid_file;
    int64_t older_ns, keep;
    uint64_t min_free;
    bool copytruncate;
};

static const struct parameter rotate_options[] = {
    {SETTING_STRING, "path", NULL, offsetof(struct rotate, path),
     "the logs: `/var/log/slapd/slapd.log*`; a pattern only behind the last `/`", .is_program = true,
     .is_needed = true},
    {SETTING_STRING, "to", NULL, offsetof(struct rotate, to), "the folder they go to", .is_program = true,
     .is_needed = true},
    {SETTING_DURATION, "older", "0s", offsetof(struct rotate, older_ns),
     "only those that were not changed for so long", .is_program = true},
    {SETTING_INT, "keep", "0", offsetof(struct rotate, keep), "the newest so many stay", .is_program = true},
    {SETTING_STRING, "compress", "none", offsetof(struct rotate, compress), "`none`, `gzip` or `zstd`",
     .is_program = true},
    {SETTING_SIZE, "min_free", "0", offsetof(struct rotate, min_free),
     "bytes that stay free where they go to", .is_program = true},
    {SETTING_STRING, "reopen", NULL, offsetof(struct rotate, reopen),
     "signal that makes the server open its log anew: `HUP`, `USR1`, ...", .is_program = true},
    {SETTING_STRING, "pid_file", NULL, offsetof(struct rotate, pid_file), "of the server, for `reopen`",
     .is_program = true},
    {SETTING_FLAG, "copytruncate", "false", offsetof(struct rotate, copytruncate),
     "the server keeps its log open: copy it and cut it to nothing; lines written in the microseconds "
     "between "
     "are lost",
     .is_program = true},
    {0},
};

/* ---------------------------------------------------------------- options */

static int form_of(const char *name)
{
    return strcmp(name, "none") == 0   ? COPY_PLAIN
           : strcmp(name, "gzip") == 0 ? COPY_GZIP
           : strcmp(name, "zstd") == 0 ? COPY_ZSTD
                                       : -1;
}

static int signal_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"INT", SIGINT}, {"TERM", SIGTERM}};
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcasecmp(name, signals[i].name) == 0)
            return signals[i].number;
    return -1;
}

/* The folder, as a copy, and the pattern behind the last slash. */
static int split(const char *path, char folder[PATH_MAX], const char **pattern)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (path[0] != '/' || !slash[1] || n >= PATH_MAX)
        return -EINVAL;
    (void)snprintf(folder, PATH_MAX, "%.*s", n ? (int)n : 1, n ? path : "/"); /* it fits */
    *pattern = slash + 1;
    return 0;
}

static int check(const struct rotate *o, struct diag *why)
{
    char folder[PATH_MAX];
    const char *pattern;
    if (split(o->path, folder, &pattern) < 0 || strpbrk(folder, "*?[") ||
        !text_glob_is_closed(slice_str(pattern)))
        return diag_set(why, -EINVAL, 0, "rotate: path \"%.80s\" is not /FOLDER/PATTERN", o->path);
    if (o->to[0] != '/')
        return diag_set(why, -EINVAL, 0, "rotate: to \"%.80s\" does not begin with /", o->to);
    if (form_of(o->compress) < 0)
        return diag_set(why, -EINVAL, 0, "rotate: compress is one of none, gzip, zstd");
    if (o->keep < 0 || o->older_ns < 0)
        return diag_set(why, -EINVAL, 0, "rotate: keep and older are not less than 0");
    if (!o->reopen != !o->pid_file)
        return diag_set(why, -EINVAL, 0, "rotate: `reopen` and `pid_file` go together");
    if (o->reopen && signal_of(o->reopen) < 0)
        return diag_set(why, -EINVAL, 0, "rotate: reopen is one of HUP, USR1, USR2, INT, TERM");
    if (o->reopen && o->copytruncate)
        return diag_set(why, -EINVAL, 0, "rotate: give `reopen` or `copytruncate`, not both");
    return 0;
}

/* ---------------------------------------------------------------- which logs */

struct log {
    char name[NAME_MAX + 1];
    int64_t changed_ns;
    uint64_t size;
};

/* A run. */
struct rotation {
    const struct rotate *o;
    const struct actuator_env *env;
    struct rotate_place place;
    const char *pattern;
    struct log *logs; /* newest first; of those that matched, what is to go */
    size_t n, matched, asides;
    bool is_in_place; /* both folders are the same */
    size_t moved, in_use, linked;
    struct rotate_done done;
};

static bool is_aside(const char *name)
{
    return slice_ends(slice_str(name), SLICE_LIT(ASIDE));
}

static bool is_wanted(const struct rotation *t, const char *name)
{
    if (name[0] == '.' && t->pattern[0] != '.')
        return false;
    if (t->is_in_place && rotate_is_packed(name))
        return false; /* it is where it goes to */
    return !is_aside(name) && text_glob(slice_str(t->pattern), slice_str(name));
}

static int newest_first(const void *a, const void *b)
{
    const struct log *x = a, *y = b;
    if (x->changed_ns != y->changed_ns)
        return x->changed_ns < y->changed_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

static int add_log(struct rotation *t, const char *name)
{
    struct stat st;
    if (fstatat(t->place.from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    if (t->n == LOGS_MAX)
        return E_LIMIT;
    if ((t->n & (t->n - 1)) == 0) { /* the room doubles */
        struct log *more = mem_try_resize(t->logs, (t->n ? 2 * t->n : 1) * sizeof *more);
        if (!more)
            return -ENOMEM;
        t->logs = more;
    }
    struct log *l = &t->logs[t->n++];
    l->changed_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    l->size = (uint64_t)st.st_size;
    (void)snprintf(l->name, sizeof l->name, "%s", name); /* the kernel's names are no longer */
    return 0;
}

/* Calls take for each name of the folder; its first negative result ends it. */
static int each_name(struct rotation *t, int (*take)(struct rotation *t, const char *name))
{
    int fd = openat(t->place.from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : -errno;
    if (!dir && fd >= 0)
        (void)close(fd); /* only opened */
    while (r == 0) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e) {
            r = -errno;
            break;
        }
        r = take(t, e->d_name);
    }
    if (dir)
        (void)closedir(dir); /* only read */
    return r;
}

static int take_log(struct rotation *t, const char *name)
{
    return is_wanted(t, name) ? add_log(t, name) : 0;
}

/* The newest `keep` stay, and those that are not old enough. */
static int choose(struct rotation *t)
{
    int r = each_name(t, take_log);
    int64_t before_ns = clock_utc_ns() - t->o->older_ns;
    size_t n = 0;
    if (r < 0)
        return r;
    if (t->n)
        qsort(t->logs, t->n, sizeof *t->logs, newest_first);
    t->matched = t->n;
    for (size_t i = (size_t)t->o->keep < t->n ? (size_t)t->o->keep : t->n; i < t->n; i++)
        if (t->o->older_ns == 0 || t->logs[i].changed_ns < before_ns)
            t->logs[n++] = t->logs[i];
    t->n = n;
    return 0;
}

/* ---------------------------------------------------------------- moving them */

/* What one log's end means for the run: those in use are left, a full disk or the end of our time ends it. */
static int count_one(struct rotation *t, int r)
{
    t->moved += r == 0;
    t->in_use += r == -EBUSY;
    t->linked += r == -EMLINK;
    return r == -EBUSY || r == -ENOENT || r == -ENODATA || r == -ELOOP || r == -EMLINK ? 0 : r;
}

static int move_all(struct rotation *t)
{
    int r = 0;
    for (size_t i = t->n; i-- > 0 && r == 0;) { /* the oldest first: they are the ones that can be missed */
        const char *name = t->logs[i].name;
        r = count_one(t, t->o->copytruncate ? rotate_copy_and_cut(&t->place, name, &t->done)
                                            : rotate_move(&t->place, name, name, &t->done));
    }
    return r;
}

static int set_aside(struct rotation *t)
{
    for (size_t i = 0; i < t->n; i++) {
        char aside[NAME_MAX + 1];
        int n = snprintf(aside, sizeof aside, "%s" ASIDE, t->logs[i].name);
        if (n < 0 || (size_t)n >= sizeof aside)
            return -ENAMETOOLONG;
        /* EEXIST: one of an earlier run is there, and is moved first; this one waits for the next run. */
        if (renameat2(t->place.from, t->logs[i].name, t->place.from, aside, RENAME_NOREPLACE) < 0 &&
            errno != EEXIST && errno != ENOENT)
            return -errno;
    }
    return 0;
}

static int take_aside(struct rotation *t, const char *name)
{
    char title[NAME_MAX + 1];
    if (!is_aside(name))
        return 0;
    (void)snprintf(title, sizeof title, "%.*s", (int)(strlen(name) - strlen(ASIDE)),
                   name); /* it is shorter */
    return text_glob(slice_str(t->pattern), slice_str(title)) ? add_log(t, name) : 0;
}

/* -ENOENT: the server does not run. */
static int tell_server(const struct rotate *o, const struct actuator_env *env, struct diag *why)
{
    struct target server;
    int r = target_of_file(o->pid_file, &server, why);
    if (r < 0)
        return r;
    r = targets_end(&server, 1, signal_of(o->reopen), 0, env);
    target_close(&server);
    return r < 0 ? diag_set(why, r, 0, "%.120s: %s", o->pid_file, err_text(r)) : 0;
}

/* Waits until nobody writes to it any more. */
static int move_aside(struct rotation *t, const char *name)
{
    static const int look_ms = 20;
    char title[NAME_MAX + 1];
    int r;
    (void)snprintf(title, sizeof title, "%.*s", (int)(strlen(name) - strlen(ASIDE)),
                   name); /* it is shorter */
    while ((r = rotate_move(&t->place, name, title, &t->done)) == -EBUSY) {
        if (t->env->is_cancelled && t->env->is_cancelled(t->env->arg))
            return -ECANCELED;
        /* Half of a second before the end, so that there is time to say so. */
        if (clock_mono_ns() + NS_PER_S / 2 >= t->env->deadline_ns)
            break;
        (void)poll(NULL, 0, look_ms); /* woken early, it only looks again */
    }
    return r;
}

static int reopen_and_move(struct rotation *t, struct diag *why)
{
    int r = set_aside(t);
    t->n = 0;
    if (r == 0)
        r = each_name(t, take_aside);
    t->asides = t->n;
    if (r < 0 || t->n == 0)
        return r;
    r = tell_server(t->o, t->env, why);
    if (r < 0 && r != -ENOENT)
        return r;
    why->message[0] = '\0'; /* who does not run has nothing open */
    r = 0;
    for (size_t i = 0; i < t->n && r == 0; i++)
        r = count_one(t, move_aside(t, t->logs[i].name));
    return r;
}

/* ---------------------------------------------------------------- a run */

static void close_rotation(struct rotation *t)
{
    mem_free(t->logs);
    if (t->place.from >= 0)
        (void)close(t->place.from); /* and gives back the lock */
    if (t->place.to >= 0)
        (void)close(t->place.to); /* only a folder */
}

static int open_folder(const char *path, int *fd, struct stat *st, struct diag *why)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 || fstat(*fd, st) < 0 ? diag_set(why, -errno, 0, "%.120s: %s", path, err_text(-errno)) : 0;
}

static int open_rotation(struct rotation *t, const struct rotate *o, const struct actuator_env *env,
                         struct diag *why)
{
    char folder[PATH_MAX];
    struct stat from, to;
    *t = (struct rotation){.o = o, .env = env, .place = {.from = -1, .to = -1}};
    int r = check(o, why);
    if (r < 0)
        return r;
    t->place.form = (enum copy_form)form_of(o->compress);
    t->place.limits = (struct copy_limits){.env = env, .min_free = o->min_free};
    (void)split(o->path, folder, &t->pattern); /* check has seen it */
    r = open_folder(folder, &t->place.from, &from, why);
    if (r == 0)
        r = open_folder(o->to, &t->place.to, &to, why);
    if (r < 0)
        return r;
    t->is_in_place = from.st_dev == to.st_dev && from.st_ino == to.st_ino;
    if (t->is_in_place && t->place.form == COPY_PLAIN)
        return diag_set(why, -EINVAL, 0, "rotate: `to` is the folder of the logs, and nothing is compressed");
    return 0;
}

static int rotate_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct rotate *o = state;
    struct rotation t;
    int r = check(o, why);
    if (r < 0)
        return r;
    strbuf_add_str(out, "move ");
    quote_word(out, slice_str(o->path));
    strbuf_add_str(out, " to ");
    quote_word(out, slice_str(o->to));
    strbuf_printf(out, ", compress %s, keep %" PRId64 "%s%s\n", o->compress, o->keep,
                  o->copytruncate ? ", by copying and cutting"
                  : o->reopen     ? ", with signal "
                                  : "",
                  o->reopen ? o->reopen : "");
    /* Which they would be, where that can be seen; a configuration may be older than the folders. */
    if (open_rotation(&t, o, env, NULL) == 0 && choose(&t) == 0)
        for (size_t i = 0; i < t.n; i++) {
            quote_word(out, slice_str(t.logs[i].name)); /* whoever may write there has chosen it */
            strbuf_printf(out, ", %" PRIu64 " bytes\n", t.logs[i].size);
        }
    close_rotation(&t);
    return 0;
}

static void say(const struct rotation *t, int r, const struct diag *why, struct strbuf *out)
{
    strbuf_printf(out, "moved %zu log%s to %s", t->moved, t->moved == 1 ? "" : "s", t->o->to);
    if (t->moved)
        strbuf_printf(out, ", %" PRIu64 " bytes, %" PRIu64 " there", t->done.bytes, t->done.stored);
    if (t->in_use)
        strbuf_printf(out, "; %zu in use%s", t->in_use,
                      t->o->reopen || t->o->copytruncate ? "" : ": give `reopen` or `copytruncate`");
    if (t->linked)
        strbuf_printf(out, "; %zu with other names (hard links) left as %s", t->linked,
                      t->linked == 1 ? "it is" : "they are");
    if (r == 0 && t->moved == 0 && t->in_use == 0 && t->linked == 0)
        strbuf_printf(out, "; of %zu none is to go", t->matched);
    if (r < 0)
        strbuf_printf(out, "; then: %s", why->message[0] ? why->message : err_text(r));
}

static int rotate_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct rotate *o = state;
    struct diag why = {0};
    struct rotation t;
    int r = open_rotation(&t, o, env, &why);
    if (r == 0 && flock(t.place.from, LOCK_EX | LOCK_NB) < 0)
        r = errno == EWOULDBLOCK ? diag_set(&why, -EAGAIN, 0, "another run works on this folder") : -errno;
    if (r == 0)
        r = choose(&t);
    if (r == 0)
        r = o->reopen ? reopen_and_move(&t, &why) : move_all(&t);
    if (r == 0 && t.matched + t.asides == 0)
        r = diag_set(&why, -ENOENT, 0, "no log is %.150s", o->path);
    if (r == 0 && t.in_use && t.moved == 0)
        r = -EAGAIN;
    say(&t, r, &why, &report->text);
    close_rotation(&t);
    return r;
}

const struct actuator_ops actuator_rotate = {
    .name = "rotate",
    .summary = "moves or compresses old logs to a place with room",
    .options = rotate_options,
    .is_repeatable = true,
    .state_size = sizeof(struct rotate),
    .plan = rotate_plan,
    .run = rotate_run,
};
