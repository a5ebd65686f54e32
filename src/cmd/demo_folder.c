/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a demo is TMPDIR/gridline-demo.PID.XXXXXX, unless one is given. It has a lock that goes with
 * its process, and a list of the processes that it started, each with its start time. Namespaces have no
 * names: they go with their last process. So all that a killed demo can leave is its folder, and for a moment
 * its processes, which the kernel tells of its end; the next one removes both, if the lock is free. */
#include "base/clock.h"
#include "base/directory.h"
#include "base/num.h"
#include "base/process.h"
#include "cmd/demo.h"
#include "cmd/say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define PREFIX "gridline-demo."

enum { OPEN_FOLDERS = 16 };

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    (void)remove(path); /* what can't be removed stays, and so does its folder */
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS); /* the same */
}

/* ---------------------------------------------------------------- of others */

/* "PID START" a line: only if that pid is still that process. */
static void end_processes(const char *folder)
{
    struct strbuf path = {0}, buffer = {0};
    struct process_stat s;
    int pid;
    uint64_t start;
    strbuf_printf(&path, "%s/processes", folder);
    FILE *f = strbuf_failed(&path) ? NULL : fopen(path.p, "re");
    while (f && fscanf(f, "%d %" SCNu64, &pid, &start) == 2) {
        if (!process_stat(pid, &buffer, &s) || s.start != start)
            continue;
        (void)kill(pid, SIGCONT); /* or one that stands still would not end */
        (void)kill(pid, SIGTERM);
    }
    if (f)
        (void)fclose(f);
    strbuf_fini(&path);
    strbuf_fini(&buffer);
}

/* Its process is gone, and nobody has the lock, if it got that far. */
static bool is_left(const char *folder, const char *name)
{
    struct strbuf path = {0};
    char *end;
    long pid = strtol(name + strlen(PREFIX), &end, 10);
    strbuf_printf(&path, "%s/lock", folder);
    int fd = strbuf_failed(&path) ? -1 : open(path.p, O_RDWR | O_CLOEXEC);
    bool is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        (void)close(fd);
    strbuf_fini(&path);
    bool is_gone = pid > 0 && *end == '.' && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    return fd >= 0 ? is_free : is_gone;
}

static void remove_left(const char *above)
{
    DIR *all = opendir(above);
    struct strbuf path = {0};
    struct stat s;
    for (struct dirent *e; all && (e = readdir(all));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        strbuf_reset(&path);
        strbuf_printf(&path, "%s/%s", above, e->d_name);
        if (strbuf_failed(&path) || lstat(path.p, &s) < 0 || !S_ISDIR(s.st_mode) || s.st_uid != geteuid() ||
            !is_left(path.p, e->d_name))
            continue;
        say("removing what a demo that was killed has left: %s", path.p);
        end_processes(path.p);
        remove_tree(path.p);
    }
    if (all)
        (void)closedir(all);
    strbuf_fini(&path);
}

/* ---------------------------------------------------------------- its own */

static int make_temporary(struct demo *d)
{
    const char *above = getenv("TMPDIR");
    if (!above || above[0] != '/')
        above = "/tmp";
    remove_left(above);
    strbuf_printf(&d->dir, "%s/" PREFIX "%d.XXXXXX", above, (int)getpid());
    if (strbuf_failed(&d->dir) || !mkdtemp(d->dir.p)) {
        say("no folder can be made in %s: %s", above, strerror(errno));
        strbuf_reset(&d->dir); /* nothing is to be removed */
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

static int make_given(struct demo *d)
{
    struct diag why = {0};
    char *path = directory_make_own(d->options->dir, &why) < 0 ? NULL : realpath(d->options->dir, NULL);
    if (!path) {
        say("%s", why.message[0] ? why.message : strerror(errno));
        return EXIT_FAILED;
    }
    strbuf_add_str(&d->dir, path);
    free(path); /* realpath's own */
    end_processes(d->dir.p);
    return EXIT_OK;
}

int demo_folder_make(struct demo *d)
{
    struct strbuf path = {0};
    int code = d->options->dir ? make_given(d) : make_temporary(d);
    if (code != EXIT_OK)
        return code;
    strbuf_printf(&path, "%s/lock", d->dir.p);
    d->lock = strbuf_failed(&path) ? -1 : open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock < 0 || flock(d->lock, LOCK_EX | LOCK_NB) < 0) {
        say("%s: %s", strbuf_slice(&path).p,
            errno == EWOULDBLOCK ? "another demo uses this folder" : strerror(errno));
        code = EXIT_FAILED;
    }
    strbuf_reset(&path);
    strbuf_printf(&path, "%s/processes", d->dir.p);
    if (code == EXIT_OK)
        (void)unlink(path.p); /* those of an earlier demo in this folder */
    strbuf_fini(&path);
    strbuf_printf(&d->grid_dir, "%s/grid", d->dir.p);
    strbuf_printf(&d->socket, "unix:%s/run/gateway.sock", d->grid_dir.p);
    return code;
}

void demo_folder_note(const struct demo *d, pid_t pid)
{
    struct strbuf path = {0}, buffer = {0};
    struct process_stat s;
    strbuf_printf(&path, "%s/processes", d->dir.p);
    FILE *f = process_stat(pid, &buffer, &s) && !strbuf_failed(&path) ? fopen(path.p, "ae") : NULL;
    if (f) {
        (void)fprintf(f, "%d %" PRIu64 "\n", (int)pid, s.start); /* only of use if we are killed */
        (void)fclose(f);
    }
    strbuf_fini(&path);
    strbuf_fini(&buffer);
}

void demo_folder_remove(struct demo *d)
{
    if (d->dir.n && !d->options->dir)
        remove_tree(d->dir.p);
    if (d->lock >= 0)
        (void)close(d->lock);
    strbuf_fini(&d->dir);
    strbuf_fini(&d->grid_dir);
    strbuf_fini(&d->socket);
}
