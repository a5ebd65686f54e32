/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/backup.h"

#include "archive/catalog.h"
#include "archive/db.h"
#include "base/directory.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_PAGES = 256, COPY_BYTES = 256 << 10 };

struct backup {
    const char *dir, *to;
    const struct backup_ops *ops;
    struct diag *why;
    uint64_t bytes; /* of the files that are done */
};

/* from: the file in dir; to: the same in the copy. */
struct paths {
    struct strbuf from, to;
};

static int paths_make(const struct backup *b, const char *name, struct paths *out)
{
    *out = (struct paths){{0}, {0}};
    strbuf_printf(&out->from, "%s/%s", b->dir, name);
    strbuf_printf(&out->to, "%s/%s", b->to, name);
    return strbuf_failed(&out->from) || strbuf_failed(&out->to) ? -ENOMEM : 0;
}

static void paths_fini(struct paths *p)
{
    strbuf_fini(&p->from);
    strbuf_fini(&p->to);
}

static void tell(const struct backup *b, uint64_t more)
{
    if (b->ops->progress)
        b->ops->progress(b->ops->arg, b->bytes + more);
}

/* ---------------------------------------------------------------- by SQLite */

static int step_all(const struct backup *b, sqlite3 *from, sqlite3 *to)
{
    sqlite3_backup *copy = sqlite3_backup_init(to, "main", from, "main");
    if (!copy)
        return db_error(to, sqlite3_errcode(to));
    int rc;
    do {
        rc = sqlite3_backup_step(copy, STEP_PAGES);
        tell(b, (uint64_t)(sqlite3_backup_pagecount(copy) - sqlite3_backup_remaining(copy)) * DB_PAGE_BYTES);
    } while (rc == SQLITE_OK);
    int finish = sqlite3_backup_finish(copy);
    if (rc == SQLITE_DONE)
        return db_error(to, finish);
    int r = db_error(to, rc); /* what is wrong is with one of both */
    return r == 0 || r == E_DAMAGE ? db_error(from, rc) : r;
}

/* Within one transaction of the reader, so that it is of one moment although it is done in pieces. */
static int copy_db(const struct backup *b, const char *from_path, const char *to_path)
{
    sqlite3 *from = NULL, *to = NULL;
    bool is_new = false;
    int64_t n = 0;
    int r = db_open(from_path, 0, &from, &is_new, NULL);
    if (r < 0)
        return r;
    r = db_error(NULL,
                 sqlite3_open_v2(to_path, &to,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL));
    if (r == 0)
        r = db_exec(from, "BEGIN");
    if (r == 0)
        r = db_number(from, "SELECT count(*) FROM sqlite_schema", &n); /* it begins with the first read */
    if (r == 0)
        r = step_all(b, from, to);
    db_close(to);
    db_close(from);
    return r;
}

/* ---------------------------------------------------------------- byte by byte */

static int copy_fd(int from, int to)
{
    char *buffer = mem_try_alloc(COPY_BYTES);
    ssize_t n = buffer ? 1 : -ENOMEM;
    while (n > 0) {
        n = read(from, buffer, COPY_BYTES);
        n = n < 0 ? -errno : n;
        for (ssize_t at = 0; n > 0 && at < n;) {
            ssize_t w = write(to, buffer + at, (size_t)(n - at));
            if (w < 0)
                n = -errno;
            else
                at += w;
        }
    }
    mem_free(buffer);
    return n < 0 ? (int)n : fsync(to) < 0 ? -errno : 0;
}

static int copy_bytes(const char *from_path, const char *to_path)
{
    int from = open(from_path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    int to = open(to_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r = to < 0 ? -errno : copy_fd(from, to);
    (void)close(from); /* only read */
    if (to >= 0 && close(to) < 0 && r == 0)
        r = -errno;
    return r;
}

/* A damaged file and its log; salvage finds in the copy what it would find here. */
static int copy_damaged(struct paths *p)
{
    int r = copy_bytes(p->from.p, p->to.p);
    strbuf_add_str(&p->from, "-wal");
    strbuf_add_str(&p->to, "-wal");
    if (strbuf_failed(&p->from) || strbuf_failed(&p->to))
        r = -ENOMEM;
    int log = r == 0 ? copy_bytes(p->from.p, p->to.p) : 0;
    return log < 0 && log != -ENOENT ? log : r;
}

/* ---------------------------------------------------------------- all */

static int done(struct backup *b, const char *name, const char *path, const char *what)
{
    struct stat st = {.st_size = 0};
    if (stat(path, &st) < 0)
        return -errno;
    b->bytes += (uint64_t)st.st_size;
    tell(b, 0);
    return b->ops->file && !b->ops->file(b->ops->arg, name, (uint64_t)st.st_size, what) ? -ECANCELED : 0;
}

static int back_up(struct backup *b, const char *name)
{
    struct paths p;
    int r = paths_make(b, name, &p);
    const char *what = "";
    if (r == 0)
        r = copy_db(b, p.from.p, p.to.p);
    size_t n = p.to.n;
    if (r == E_DAMAGE) {
        what = "damaged: copied as it is";
        r = copy_damaged(&p);
    }
    if (r == 0) {
        p.to.p[n] = '\0';
        r = done(b, name, p.to.p, what);
    }
    if (r < 0 && r != -ENOENT)
        (void)diag_set(b->why, r, 0, "%s/%s: %s", b->to, name, err_text(r));
    paths_fini(&p);
    return r;
}

static int back_up_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    (void)from_ns;
    (void)step_ns;
    int r = back_up(arg, name);
    return r == -ENOENT ? 0 : r; /* retention was quicker */
}

static int back_up_kept(struct backup *b)
{
    struct paths p;
    int r = paths_make(b, "kept", &p);
    if (r == 0)
        r = copy_bytes(p.from.p, p.to.p);
    if (r == 0)
        r = done(b, "kept", p.to.p, "");
    paths_fini(&p);
    return r == -ENOENT ? 0 : r;
}

static int make_folder(const char *path, struct diag *why)
{
    int r = directory_make(path, why);
    DIR *d = r < 0 ? NULL : opendir(path);
    if (!d)
        return r < 0 ? r : diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    const struct dirent *e;
    while (r == 0 && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = diag_set(why, -EEXIST, 0, "%s is not empty", path);
    (void)closedir(d); /* only read */
    return r;
}

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fsync(fd) < 0 ? -errno : 0;
    (void)close(fd); /* only a handle */
    return r;
}

int archive_backup(const char *dir, const char *to, const struct backup_ops *ops, struct diag *why)
{
    struct backup b = {.dir = dir, .to = to, .ops = ops, .why = why};
    if (access(dir, R_OK | X_OK) < 0)
        return diag_set(why, -errno, 0, "%s: %s", dir, err_text(-errno));
    int r = make_folder(to, why);
    if (r < 0)
        return r;
    r = back_up(&b, "catalog.db");
    if (r == -ENOENT)
        r = 0; /* it is made again from the partitions */
    if (r == 0)
        r = back_up_kept(&b);
    if (r == 0)
        r = catalog_partitions(dir, back_up_partition, &b);
    if (r == 0 && (r = sync_folder(to)) < 0)
        (void)diag_set(why, r, 0, "%s: %s", to, err_text(r));
    return r;
}
