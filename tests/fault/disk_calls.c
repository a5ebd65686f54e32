/* SPDX-License-Identifier: Apache-2.0 */
/* The functions below have, by their assembler names, the names of the C library's: the dynamic linker finds
 * those of the program first, for shared libraries as well. Each goes on to the next of its name: the C
 * library's, or that of a sanitizer. The headers' own declarations are not used for that, as they rename
 * (open is open64 where files are large). */
#include "fault/disk_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FDS_MAX = 1024, NAMES_MAX = 4096 };

struct watched_fd {
    bool is_on, is_dir, appends;
    uint64_t file;
    char *path;
};

struct watched_name {
    char *path;
    uint64_t file;
};

static struct {
    bool is_on;
    char root[PATH_MAX];
    size_t root_n;
    struct disk_watch watch;
    struct watched_fd fds[FDS_MAX];
    struct watched_name names[NAMES_MAX];
    size_t n_names;
    uint64_t last_file;
    bool is_inside; /* a hook runs: its own calls are not watched */
} calls;

/* The functions behind ours. */
struct next {
    bool is_loaded;
    int (*openat)(int, const char *, int, ...);
    int (*close)(int);
    ssize_t (*pread)(int, void *, size_t, off_t);
    ssize_t (*pwrite)(int, const void *, size_t, off_t);
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*write)(int, const void *, size_t);
    int (*ftruncate)(int, off_t);
    int (*fallocate)(int, int, off_t, off_t);
    int (*fsync)(int);
    int (*fdatasync)(int);
    int (*unlinkat)(int, const char *, int);
    int (*renameat2)(int, const char *, int, const char *, unsigned);
    int (*mkdirat)(int, const char *, mode_t);
};

/* POSIX has a function's address as data; so has dlsym. */
static void look_up(void *function, const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    if (!p)
        abort();
    memcpy(function, &p, sizeof p);
}

/* Looked up when first asked: others' constructors come before those of the program. */
static const struct next *next(void)
{
    static struct next n;
    if (n.is_loaded)
        return &n;
    look_up(&n.openat, "openat64");
    look_up(&n.close, "close");
    look_up(&n.pread, "pread64");
    look_up(&n.pwrite, "pwrite64");
    look_up(&n.read, "read");
    look_up(&n.write, "write");
    look_up(&n.ftruncate, "ftruncate64");
    look_up(&n.fallocate, "fallocate64");
    look_up(&n.fsync, "fsync");
    look_up(&n.fdatasync, "fdatasync");
    look_up(&n.unlinkat, "unlinkat");
    look_up(&n.renameat2, "renameat2");
    look_up(&n.mkdirat, "mkdirat");
    n.is_loaded = true;
    return &n;
}

const char *disk_call_name(enum disk_call call)
{
    static const char *const names[CALL_KINDS] = {
        [CALL_OPEN] = "open",     [CALL_CREATE] = "create",     [CALL_READ] = "read",
        [CALL_WRITE] = "write",   [CALL_TRUNCATE] = "truncate", [CALL_ALLOCATE] = "allocate",
        [CALL_SYNC] = "sync",     [CALL_SYNC_DIR] = "sync_dir", [CALL_UNLINK] = "unlink",
        [CALL_RENAME] = "rename", [CALL_MKDIR] = "mkdir",
    };
    return names[call];
}

/* ---------------------------------------------------------------- names and descriptors */

static char *copy_of(const char *s)
{
    char *p = strdup(s);
    if (!p)
        abort();
    return p;
}

static struct watched_name *find_name(const char *path)
{
    for (size_t i = 0; i < calls.n_names; i++)
        if (strcmp(calls.names[i].path, path) == 0)
            return &calls.names[i];
    return NULL;
}

static void forget_name(const char *path)
{
    struct watched_name *n = find_name(path);
    if (!n)
        return;
    free(n->path);
    *n = calls.names[--calls.n_names];
}

static uint64_t set_name(const char *path, uint64_t file)
{
    forget_name(path);
    if (calls.n_names == NAMES_MAX)
        abort();
    calls.names[calls.n_names++] = (struct watched_name){copy_of(path), file};
    return file;
}

uint64_t disk_calls_file(const char *path)
{
    const struct watched_name *n = find_name(path);
    return n ? n->file : set_name(path, ++calls.last_file);
}

static void forget_fd(int fd)
{
    free(calls.fds[fd].path);
    calls.fds[fd] = (struct watched_fd){0};
}

void disk_calls_watch(const char *root, const struct disk_watch *w)
{
    for (int i = 0; i < FDS_MAX; i++)
        forget_fd(i);
    while (calls.n_names)
        forget_name(calls.names[0].path);
    calls.is_on = w != NULL;
    if (!w)
        return;
    calls.watch = *w;
    calls.root_n = strlen(root);
    if (calls.root_n >= sizeof calls.root)
        abort();
    memcpy(calls.root, root, calls.root_n + 1);
}

/* What path means below the folder, in `to`; NULL: it is elsewhere, or nobody watches. */
static const char *below(int dir, const char *path, char to[PATH_MAX])
{
    if (!calls.is_on || calls.is_inside || !path)
        return NULL;
    if (*path == '/') {
        (void)snprintf(to, PATH_MAX, "%s", path);
    } else {
        char link[64];
        (void)snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, to, PATH_MAX / 2);
        if (n < 0 || (size_t)n + strlen(path) + 2 > PATH_MAX)
            return NULL;
        to[n] = '/';
        memcpy(to + n + 1, path, strlen(path) + 1);
    }
    size_t n = strlen(to);
    while (n > 1 && (to[n - 1] == '/' || (to[n - 1] == '.' && to[n - 2] == '/')))
        to[--n] = '\0';
    if (strncmp(to, calls.root, calls.root_n) != 0)
        return NULL;
    if (to[calls.root_n] == '\0')
        return to + calls.root_n;
    return to[calls.root_n] == '/' ? to + calls.root_n + 1 : NULL;
}

static struct watched_fd *watched(int fd)
{
    if (!calls.is_on || calls.is_inside || fd < 0 || fd >= FDS_MAX || !calls.fds[fd].is_on)
        return NULL;
    return &calls.fds[fd];
}

/* ---------------------------------------------------------------- hooks */

/* false: it fails; errno is set. */
static bool may(const struct disk_op *op, size_t *n)
{
    size_t all = op->n;
    if (!calls.watch.before)
        return true;
    calls.is_inside = true;
    int r = calls.watch.before(calls.watch.arg, op, n ? n : &all);
    calls.is_inside = false;
    if (r == 0)
        return true;
    errno = -r;
    return false;
}

static void done(const struct disk_op *op)
{
    if (!calls.watch.after)
        return;
    int saved = errno;
    calls.is_inside = true;
    calls.watch.after(calls.watch.arg, op);
    calls.is_inside = false;
    errno = saved;
}

/* ---------------------------------------------------------------- open and close */

/* The folder's name below ours, whatever it was opened by ("x/.."); NULL: it is elsewhere. */
static const char *folder_of(int fd, char whole[PATH_MAX])
{
    char link[64], target[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0)
        abort();
    target[n] = '\0';
    return below(AT_FDCWD, target, whole);
}

/* name and flags as given; fd is what came of it. */
static void opened(int fd, const char *name, int flags, bool was_there)
{
    struct stat st;
    char whole[PATH_MAX];
    if (fd >= FDS_MAX || fstat(fd, &st) < 0)
        abort();
    bool is_dir = S_ISDIR(st.st_mode);
    if (is_dir)
        name = folder_of(fd, whole);
    if (!name)
        return;
    struct watched_fd *w = &calls.fds[fd];
    *w = (struct watched_fd){
        .is_on = true, .is_dir = is_dir, .appends = flags & O_APPEND, .path = copy_of(name)};
    if (is_dir)
        return;
    w->file = was_there ? disk_calls_file(name) : set_name(name, ++calls.last_file);
    if (!was_there)
        done(&(struct disk_op){.call = CALL_CREATE, .path = w->path, .file = w->file});
    else if (flags & O_TRUNC)
        done(&(struct disk_op){.call = CALL_TRUNCATE, .path = w->path, .file = w->file});
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char whole[PATH_MAX];
    const char *name = below(dir, path, whole);
    if (!name)
        return next()->openat(dir, path, flags, mode);
    struct stat st;
    bool was_there = fstatat(dir, path, &st, 0) == 0;
    struct disk_op op = {.call = !was_there && (flags & O_CREAT) ? CALL_CREATE : CALL_OPEN, .path = name};
    if (!may(&op, NULL))
        return -1;
    int fd = next()->openat(dir, path, flags, mode);
    if (fd >= 0 && !(flags & __O_TMPFILE & ~O_DIRECTORY))
        opened(fd, name, flags, was_there);
    return fd;
}

static mode_t mode_of(int flags, va_list list)
{
    return flags & (O_CREAT | (__O_TMPFILE & ~O_DIRECTORY)) ? va_arg(list, mode_t) : 0;
}

#define OPEN(function, name)                                      \
    int function(const char *path, int flags, ...) __asm__(name); \
    int function(const char *path, int flags, ...)                \
    {                                                             \
        va_list list;                                             \
        va_start(list, flags);                                    \
        mode_t mode = mode_of(flags, list);                       \
        va_end(list);                                             \
        return open_at(AT_FDCWD, path, flags, mode);              \
    }
#define OPENAT(function, name)                                             \
    int function(int dir, const char *path, int flags, ...) __asm__(name); \
    int function(int dir, const char *path, int flags, ...)                \
    {                                                                      \
        va_list list;                                                      \
        va_start(list, flags);                                             \
        mode_t mode = mode_of(flags, list);                                \
        va_end(list);                                                      \
        return open_at(dir, path, flags, mode);                            \
    }
OPEN(calls_open, "open")
OPEN(calls_open64, "open64")
OPEN(calls_open_2, "__open_2")
OPEN(calls_open64_2, "__open64_2")
OPENAT(calls_openat, "openat")
OPENAT(calls_openat64, "openat64")
OPENAT(calls_openat_2, "__openat_2")
OPENAT(calls_openat64_2, "__openat64_2")

int calls_close(int fd) __asm__("close");
int calls_close(int fd)
{
    if (watched(fd))
        forget_fd(fd);
    return next()->close(fd);
}

/* ---------------------------------------------------------------- read and write */

static ssize_t pread_at(int fd, void *to, size_t n, off_t offset)
{
    const struct watched_fd *w = watched(fd);
    struct disk_op op = {.call = CALL_READ, .n = n, .offset = (uint64_t)offset};
    if (w) {
        op.path = w->path, op.file = w->file;
        if (!may(&op, &n))
            return -1;
    }
    return next()->pread(fd, to, n, offset);
}

static ssize_t pwrite_at(int fd, const void *from, size_t n, off_t offset)
{
    const struct watched_fd *w = watched(fd);
    if (!w)
        return next()->pwrite(fd, from, n, offset);
    struct disk_op op = {.call = CALL_WRITE,
                         .path = w->path,
                         .file = w->file,
                         .offset = (uint64_t)offset,
                         .bytes = from,
                         .n = n};
    if (!may(&op, &n))
        return -1;
    ssize_t r = next()->pwrite(fd, from, n, offset);
    if (r > 0) {
        op.n = (size_t)r;
        done(&op);
    }
    return r;
}

ssize_t calls_pread(int fd, void *to, size_t n, off_t offset) __asm__("pread");
ssize_t calls_pread(int fd, void *to, size_t n, off_t offset)
{
    return pread_at(fd, to, n, offset);
}
ssize_t calls_pread64(int fd, void *to, size_t n, off_t offset) __asm__("pread64");
ssize_t calls_pread64(int fd, void *to, size_t n, off_t offset)
{
    return pread_at(fd, to, n, offset);
}
ssize_t calls_pwrite(int fd, const void *from, size_t n, off_t offset) __asm__("pwrite");
ssize_t calls_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    return pwrite_at(fd, from, n, offset);
}
ssize_t calls_pwrite64(int fd, const void *from, size_t n, off_t offset) __asm__("pwrite64");
ssize_t calls_pwrite64(int fd, const void *from, size_t n, off_t offset)
{
    return pwrite_at(fd, from, n, offset);
}

/* Where the next read or write of the descriptor goes. */
static off_t place_of(int fd, bool at_end)
{
    return lseek(fd, 0, at_end ? SEEK_END : SEEK_CUR);
}

ssize_t calls_read(int fd, void *to, size_t n) __asm__("read");
ssize_t calls_read(int fd, void *to, size_t n)
{
    const struct watched_fd *w = watched(fd);
    if (w) {
        struct disk_op op = {.call = CALL_READ, .path = w->path, .file = w->file, .n = n};
        op.offset = (uint64_t)place_of(fd, false);
        if (!may(&op, &n))
            return -1;
    }
    return next()->read(fd, to, n);
}

ssize_t calls_write(int fd, const void *from, size_t n) __asm__("write");
ssize_t calls_write(int fd, const void *from, size_t n)
{
    const struct watched_fd *w = watched(fd);
    if (!w)
        return next()->write(fd, from, n);
    struct disk_op op = {.call = CALL_WRITE, .path = w->path, .file = w->file, .bytes = from, .n = n};
    op.offset = (uint64_t)place_of(fd, w->appends);
    if (!may(&op, &n))
        return -1;
    ssize_t r = next()->write(fd, from, n);
    if (r > 0) {
        op.n = (size_t)r;
        done(&op);
    }
    return r;
}

/* ---------------------------------------------------------------- sizes and syncs */

/* Asks before: NULL where the descriptor is not watched; *fails where the call may not be made. */
static const struct watched_fd *before_fd(int fd, enum disk_call call, uint64_t offset, struct disk_op *op,
                                          bool *fails)
{
    const struct watched_fd *w = watched(fd);
    *fails = false;
    if (!w)
        return NULL;
    *op = (struct disk_op){.call = call, .path = w->path, .file = w->file, .offset = offset};
    *fails = !may(op, NULL);
    return w;
}

static int resize(int fd, off_t size)
{
    struct disk_op op;
    bool fails;
    const struct watched_fd *w = before_fd(fd, CALL_TRUNCATE, (uint64_t)size, &op, &fails);
    if (fails)
        return -1;
    int r = next()->ftruncate(fd, size);
    if (w && r == 0)
        done(&op);
    return r;
}

int calls_ftruncate(int fd, off_t size) __asm__("ftruncate");
int calls_ftruncate(int fd, off_t size)
{
    return resize(fd, size);
}
int calls_ftruncate64(int fd, off_t size) __asm__("ftruncate64");
int calls_ftruncate64(int fd, off_t size)
{
    return resize(fd, size);
}

/* Only what makes a file larger: punching holes and the like is nothing that anybody here does. */
static int allocate(int fd, int mode, off_t offset, off_t n)
{
    struct disk_op op;
    bool fails;
    const struct watched_fd *w = before_fd(fd, CALL_ALLOCATE, (uint64_t)(offset + n), &op, &fails);
    if (fails)
        return -1;
    if (w && mode != 0 && mode != FALLOC_FL_KEEP_SIZE)
        abort();
    int r = next()->fallocate(fd, mode, offset, n);
    if (w && r == 0 && mode == 0)
        done(&op);
    return r;
}

int calls_fallocate(int fd, int mode, off_t offset, off_t n) __asm__("fallocate");
int calls_fallocate(int fd, int mode, off_t offset, off_t n)
{
    return allocate(fd, mode, offset, n);
}
int calls_fallocate64(int fd, int mode, off_t offset, off_t n) __asm__("fallocate64");
int calls_fallocate64(int fd, int mode, off_t offset, off_t n)
{
    return allocate(fd, mode, offset, n);
}
int calls_posix_fallocate(int fd, off_t offset, off_t n) __asm__("posix_fallocate");
int calls_posix_fallocate(int fd, off_t offset, off_t n)
{
    return allocate(fd, 0, offset, n) < 0 ? errno : 0;
}
int calls_posix_fallocate64(int fd, off_t offset, off_t n) __asm__("posix_fallocate64");
int calls_posix_fallocate64(int fd, off_t offset, off_t n)
{
    return allocate(fd, 0, offset, n) < 0 ? errno : 0;
}

static int sync_fd(int fd, int (*sync)(int))
{
    struct disk_op op;
    bool fails;
    const struct watched_fd *w = watched(fd);
    w = before_fd(fd, w && w->is_dir ? CALL_SYNC_DIR : CALL_SYNC, 0, &op, &fails);
    if (fails)
        return -1;
    if (!w)
        return sync(fd);
    done(&op); /* power is lost in a model of the disk: the real one may rest */
    return 0;
}

int calls_fsync(int fd) __asm__("fsync");
int calls_fsync(int fd)
{
    return sync_fd(fd, next()->fsync);
}
int calls_fdatasync(int fd) __asm__("fdatasync");
int calls_fdatasync(int fd)
{
    return sync_fd(fd, next()->fdatasync);
}

/* ---------------------------------------------------------------- names */

static int unlink_at(int dir, const char *path, int flags)
{
    char whole[PATH_MAX];
    const char *name = below(dir, path, whole);
    struct disk_op op = {.call = CALL_UNLINK, .path = name};
    if (name && !may(&op, NULL))
        return -1;
    int r = next()->unlinkat(dir, path, flags);
    if (name && r == 0) {
        done(&op);
        forget_name(name);
    }
    return r;
}

int calls_unlink(const char *path) __asm__("unlink");
int calls_unlink(const char *path)
{
    return unlink_at(AT_FDCWD, path, 0);
}
int calls_unlinkat(int dir, const char *path, int flags) __asm__("unlinkat");
int calls_unlinkat(int dir, const char *path, int flags)
{
    return unlink_at(dir, path, flags);
}
int calls_rmdir(const char *path) __asm__("rmdir");
int calls_rmdir(const char *path)
{
    return unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}

static int rename_at(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    char from_whole[PATH_MAX], to_whole[PATH_MAX];
    const char *a = below(from_dir, from, from_whole), *b = below(to_dir, to, to_whole);
    if ((a == NULL) != (b == NULL))
        abort(); /* into or out of the folder: nobody does */
    struct disk_op op = {.call = CALL_RENAME, .path = a, .to = b, .file = a ? disk_calls_file(a) : 0};
    if (a && !may(&op, NULL))
        return -1;
    int r = next()->renameat2(from_dir, from, to_dir, to, flags);
    if (a && r == 0) {
        done(&op);
        (void)set_name(b, op.file);
        forget_name(a);
    }
    return r;
}

int calls_rename(const char *from, const char *to) __asm__("rename");
int calls_rename(const char *from, const char *to)
{
    return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int calls_renameat(int from_dir, const char *from, int to_dir, const char *to) __asm__("renameat");
int calls_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return rename_at(from_dir, from, to_dir, to, 0);
}
int calls_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                    unsigned flags) __asm__("renameat2");
int calls_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return rename_at(from_dir, from, to_dir, to, flags);
}

static int mkdir_at(int dir, const char *path, mode_t mode)
{
    char whole[PATH_MAX];
    const char *name = below(dir, path, whole);
    struct disk_op op = {.call = CALL_MKDIR, .path = name};
    if (name && !may(&op, NULL))
        return -1;
    int r = next()->mkdirat(dir, path, mode);
    if (name && r == 0)
        done(&op);
    return r;
}

int calls_mkdir(const char *path, mode_t mode) __asm__("mkdir");
int calls_mkdir(const char *path, mode_t mode)
{
    return mkdir_at(AT_FDCWD, path, mode);
}
int calls_mkdirat(int dir, const char *path, mode_t mode) __asm__("mkdirat");
int calls_mkdirat(int dir, const char *path, mode_t mode)
{
    return mkdir_at(dir, path, mode);
}
