/* SPDX-License-Identifier: Apache-2.0 */
/* journal_disk.h - a simulated disk behind struct journal_io, with faults and power loss.
 *
 * Each file has two contents: now (what a read gives: the page cache) and safe (what is on the platter), and
 * the list of writes that are in the first but not in the second. The directory likewise. disk_crash builds
 * what a machine could find after losing power: each unsynced write and directory change is kept, dropped or
 * (writes) torn at 512-byte sectors, in any order; holes are filled with stale bytes. A sync that fails
 * forgets the unsynced writes, as Linux does: syncing again succeeds and proves nothing. */
#ifndef GRIDLINE_TESTS_JOURNAL_DISK_H
#define GRIDLINE_TESTS_JOURNAL_DISK_H

#include "unit/test.h"

#include "journal/journal.h"

#include <errno.h>
#include <fcntl.h>

enum { DISK_FILES = 256, DISK_NAMES = 128, DISK_FDS = 16, DISK_OPS = 512, DISK_DIR = -2 };

struct disk_bytes {
    unsigned char *p;
    size_t n;
};

struct disk_write {
    bool truncates;
    size_t offset;
    struct disk_bytes data;
};

struct disk_file {
    struct disk_bytes now, safe;
    struct disk_write *writes;
    size_t n_writes;
    bool is_segment; /* made with O_TRUNC: new.tmp */
    bool has_failed; /* a write or sync of it failed: then a segment is not to be written again */
};

struct disk_entry {
    char name[80];
    int file; /* -1 in a pending change: the name is taken away */
};

struct disk_dir {
    struct disk_entry entries[DISK_NAMES];
    size_t n;
};

/* One directory change: both parts happen, or none (rename). */
struct disk_change {
    struct disk_entry parts[2];
    size_t n;
};

enum disk_fault { DISK_NONE, DISK_ERROR, DISK_SHORT };

struct disk {
    struct disk_file files[DISK_FILES];
    size_t n_files;
    struct disk_dir now, safe;
    struct disk_change changes[DISK_OPS];
    size_t n_changes;
    int fds[DISK_FDS]; /* file + 1, 0 = free */
    int n_open;
    bool is_locked;
    int lock_fd;

    uint64_t calls;   /* made so far */
    uint64_t fail_at; /* the call that fails, once */
    enum disk_fault fault;
    int fail_code;
    bool fails_on;                       /* also all later calls of any kind fail */
    void (*before_call)(struct disk *d); /* NULL is fine */
    struct journal_io io;
};

static inline void disk_store(struct disk_bytes *b, size_t offset, const void *p, size_t n)
{
    if (offset + n > b->n) {
        b->p = realloc(b->p, offset + n);
        assert_non_null(b->p);
        memset(b->p + b->n, 0, offset + n - b->n);
        b->n = offset + n;
    }
    if (n)
        memcpy(b->p + offset, p, n);
}

static inline void disk_apply(struct disk_bytes *b, const struct disk_write *w)
{
    if (w->truncates)
        b->n = 0;
    else
        disk_store(b, w->offset, w->data.p, w->data.n);
}

static inline struct disk_entry *disk_find(struct disk_dir *dir, const char *name)
{
    for (size_t i = 0; i < dir->n; i++)
        if (strcmp(dir->entries[i].name, name) == 0)
            return &dir->entries[i];
    return NULL;
}

static inline void disk_link(struct disk_dir *dir, const struct disk_entry *e)
{
    struct disk_entry *old = disk_find(dir, e->name);
    if (e->file < 0) {
        if (old)
            *old = dir->entries[--dir->n];
    } else if (old) {
        old->file = e->file;
    } else {
        assert_true(dir->n < DISK_NAMES);
        dir->entries[dir->n++] = *e;
    }
}

static inline void disk_change(struct disk *d, const struct disk_change *c)
{
    for (size_t i = 0; i < c->n; i++)
        disk_link(&d->now, &c->parts[i]);
    assert_true(d->n_changes < DISK_OPS);
    d->changes[d->n_changes++] = *c;
}

/* Counts the call; says whether it must fail now. */
static inline bool disk_fails(struct disk *d)
{
    if (d->before_call)
        d->before_call(d);
    d->calls++;
    return d->fault != DISK_NONE && d->fail_at &&
           (d->calls == d->fail_at || (d->fails_on && d->calls > d->fail_at));
}

static inline int disk_error(const struct disk *d)
{
    return d->fault == DISK_ERROR ? d->fail_code : -EIO;
}

static inline int disk_new_fd(struct disk *d, int file)
{
    for (int i = 0; i < DISK_FDS; i++)
        if (d->fds[i] == 0) {
            d->fds[i] = file + 1;
            d->n_open++;
            return i;
        }
    return -EMFILE;
}

static inline int disk_open_dir(void *ctx, const char *path, bool create)
{
    (void)path, (void)create;
    struct disk *d = ctx;
    return disk_fails(d) ? disk_error(d) : disk_new_fd(d, DISK_DIR);
}

static inline void disk_remember(struct disk_file *f, struct disk_write w)
{
    f->writes = realloc(f->writes, (f->n_writes + 1) * sizeof *f->writes);
    assert_non_null(f->writes);
    f->writes[f->n_writes++] = w;
}

static inline int disk_open(void *ctx, int dir, const char *name, int flags)
{
    (void)dir;
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    if (strcmp(name, "..") == 0)
        return disk_new_fd(d, DISK_DIR);
    struct disk_entry *e = disk_find(&d->now, name);
    if (!e && !(flags & O_CREAT))
        return -ENOENT;
    if (!e) {
        assert_true(d->n_files < DISK_FILES);
        struct disk_change c = {.n = 1};
        (void)snprintf(c.parts[0].name, sizeof c.parts[0].name, "%s", name);
        c.parts[0].file = (int)d->n_files++;
        d->files[c.parts[0].file].is_segment = flags & O_TRUNC;
        disk_change(d, &c);
        return disk_new_fd(d, c.parts[0].file);
    }
    struct disk_file *f = &d->files[e->file];
    if (flags & O_TRUNC) {
        struct disk_write w = {.truncates = true};
        disk_apply(&f->now, &w);
        disk_remember(f, w);
        f->has_failed = false;
    }
    return disk_new_fd(d, e->file);
}

/* Never fails to close, whatever it returns. */
static inline int disk_close(void *ctx, int fd)
{
    struct disk *d = ctx;
    assert_true(fd >= 0 && fd < DISK_FDS && d->fds[fd] != 0);
    d->fds[fd] = 0;
    d->n_open--;
    if (d->is_locked && d->lock_fd == fd)
        d->is_locked = false;
    return disk_fails(d) ? disk_error(d) : 0;
}

static inline int disk_lock(void *ctx, int fd)
{
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    if (d->is_locked)
        return -EWOULDBLOCK;
    d->is_locked = true;
    d->lock_fd = fd;
    return 0;
}

static inline struct disk_file *disk_file(struct disk *d, int fd)
{
    assert_true(fd >= 0 && fd < DISK_FDS && d->fds[fd] > 0);
    return &d->files[d->fds[fd] - 1];
}

static inline int disk_size(void *ctx, int fd, uint64_t *out)
{
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    *out = disk_file(d, fd)->now.n;
    return 0;
}

static inline ssize_t disk_pread(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    struct disk *d = ctx;
    if (disk_fails(d)) {
        if (d->fault == DISK_ERROR)
            return d->fail_code;
        n = n / 2 + 1;
    }
    const struct disk_bytes *b = &disk_file(d, fd)->now;
    if (offset >= b->n)
        return 0;
    n = n < b->n - offset ? n : b->n - (size_t)offset;
    memcpy(to, b->p + offset, n);
    return (ssize_t)n;
}

/* A failing write leaves half of it. */
static inline ssize_t disk_pwrite(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    struct disk *d = ctx;
    bool fails = disk_fails(d);
    struct disk_file *f = disk_file(d, fd);
    assert_false(f->is_segment && f->has_failed);
    f->has_failed |= fails && d->fault == DISK_ERROR && d->fail_code != -EINTR;
    if (fails)
        n /= 2;
    if (fails && d->fault == DISK_SHORT && n == 0)
        n = 1;
    struct disk_write w = {.offset = (size_t)offset};
    disk_store(&w.data, 0, from, n);
    disk_apply(&f->now, &w);
    disk_remember(f, w);
    return fails && d->fault == DISK_ERROR ? d->fail_code : (ssize_t)n;
}

static inline void disk_forget_writes(struct disk_file *f, bool keep)
{
    for (size_t i = 0; i < f->n_writes; i++) {
        if (keep)
            disk_apply(&f->safe, &f->writes[i]);
        free(f->writes[i].data.p);
    }
    free(f->writes);
    f->writes = NULL;
    f->n_writes = 0;
}

static inline int disk_sync_file(void *ctx, int fd)
{
    struct disk *d = ctx;
    bool fails = disk_fails(d);
    disk_file(d, fd)->has_failed |= fails;
    disk_forget_writes(disk_file(d, fd), !fails);
    return fails ? disk_error(d) : 0;
}

static inline int disk_sync_dir(void *ctx, int dir)
{
    struct disk *d = ctx;
    assert_true(d->fds[dir] == DISK_DIR + 1);
    if (disk_fails(d))
        return disk_error(d);
    d->safe = d->now;
    d->n_changes = 0;
    return 0;
}

static inline int disk_rename(void *ctx, int dir, const char *from, const char *to)
{
    (void)dir;
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    struct disk_entry *e = disk_find(&d->now, from);
    if (!e)
        return -ENOENT;
    struct disk_change c = {.n = 2};
    c.parts[0].file = e->file;
    (void)snprintf(c.parts[0].name, sizeof c.parts[0].name, "%s", to);
    c.parts[1].file = -1;
    (void)snprintf(c.parts[1].name, sizeof c.parts[1].name, "%s", from);
    disk_change(d, &c);
    return 0;
}

static inline int disk_unlink(void *ctx, int dir, const char *name)
{
    (void)dir;
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    if (!disk_find(&d->now, name))
        return -ENOENT;
    struct disk_change c = {.n = 1};
    c.parts[0].file = -1;
    (void)snprintf(c.parts[0].name, sizeof c.parts[0].name, "%s", name);
    disk_change(d, &c);
    return 0;
}

static inline int disk_list(void *ctx, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
    (void)dir;
    struct disk *d = ctx;
    if (disk_fails(d))
        return disk_error(d);
    int r = 0;
    for (size_t i = 0; r >= 0 && i < d->now.n; i++)
        r = fn(arg, d->now.entries[i].name);
    return r;
}

static inline struct disk *disk_create(void)
{
    struct disk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->io = (struct journal_io){.ctx = d,
                                .open_dir = disk_open_dir,
                                .open = disk_open,
                                .close = disk_close,
                                .lock = disk_lock,
                                .size = disk_size,
                                .pread = disk_pread,
                                .pwrite = disk_pwrite,
                                .sync_file = disk_sync_file,
                                .sync_dir = disk_sync_dir,
                                .rename = disk_rename,
                                .unlink = disk_unlink,
                                .list = disk_list};
    return d;
}

static inline void disk_destroy(struct disk *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        disk_forget_writes(&d->files[i], false);
        free(d->files[i].now.p);
        free(d->files[i].safe.p);
    }
    free(d);
}

/* Keeps a random part of the write, by whole sectors: some here and there, or all up to one, or all from one
 * on. Large writes lose whole records only in the latter ways. */
static inline void disk_tear(struct disk_bytes *b, const struct disk_write *w, uint64_t *seed)
{
    size_t end = w->offset + w->data.n;
    size_t cut = w->offset + test_random(seed) % (w->data.n + 1);
    uint64_t way = test_random(seed) % 3;
    for (size_t at = w->offset; at < end;) {
        size_t next = (at / 512 + 1) * 512;
        next = next < end ? next : end;
        if (way == 0 ? test_random(seed) % 2 : way == 1 ? next <= cut : at >= cut)
            disk_store(b, at, w->data.p + (at - w->offset), next - at);
        at = next;
    }
}

/* Zeros that a lost write left are sometimes what was in those blocks before: bytes of another file. */
static inline void disk_fill_holes(struct disk_bytes *b, const struct disk_bytes *stale, uint64_t *seed)
{
    if (test_random(seed) % 2 || stale->n == 0)
        return;
    for (size_t sector = 0; sector + 512 <= b->n; sector += 512) {
        bool is_hole = true;
        for (size_t i = 0; is_hole && i < 512; i++)
            is_hole = b->p[sector + i] == 0;
        for (size_t i = 0; is_hole && i < 512 && sector + i < stale->n; i++)
            b->p[sector + i] = stale->p[sector + i];
    }
}

/* The numbers below n, half of the time as they are, else shuffled. */
static inline void disk_order(size_t order[DISK_OPS], size_t n, uint64_t *seed)
{
    assert_true(n <= DISK_OPS);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    bool shuffles = test_random(seed) % 2;
    for (size_t i = n; shuffles && i > 1; i--) {
        size_t k = test_random(seed) % i, t = order[k];
        order[k] = order[i - 1];
        order[i - 1] = t;
    }
}

static inline struct disk_bytes disk_outcome(const struct disk_file *f, uint64_t *seed)
{
    struct disk_bytes b = {0};
    disk_store(&b, 0, f->safe.p, f->safe.n);
    size_t order[DISK_OPS];
    disk_order(order, f->n_writes, seed);
    for (size_t i = 0; i < f->n_writes; i++) {
        const struct disk_write *w = &f->writes[order[i]];
        uint64_t fate = test_random(seed) % 4;
        if (fate == 1 || (fate > 1 && w->truncates))
            disk_apply(&b, w);
        else if (fate > 1)
            disk_tear(&b, w, seed);
    }
    return b;
}

/* A new disk as it could be found after power loss now. */
static inline struct disk *disk_crash(const struct disk *from, uint64_t *seed)
{
    struct disk *to = disk_create();
    to->n_files = from->n_files;
    for (size_t i = 0; i < from->n_files; i++) {
        struct disk_bytes b = disk_outcome(&from->files[i], seed);
        if (from->files[i].n_writes)
            disk_fill_holes(&b, &from->files[test_random(seed) % from->n_files].safe, seed);
        to->files[i].safe = b;
        disk_store(&to->files[i].now, 0, b.p, b.n);
    }
    to->safe = from->safe;
    size_t order[DISK_OPS];
    disk_order(order, from->n_changes, seed);
    for (size_t i = 0; i < from->n_changes; i++) {
        const struct disk_change *c = &from->changes[order[i]];
        if (test_random(seed) % 2)
            for (size_t k = 0; k < c->n; k++)
                disk_link(&to->safe, &c->parts[k]);
    }
    to->now = to->safe;
    return to;
}

/* The content of record number n, the same wherever it is needed: 0 to about 600 bytes, a few larger. */
static inline struct slice disk_payload(uint64_t number)
{
    static char bytes[20000];
    uint64_t seed = number * 77;
    size_t n = test_random(&seed) % 600;
    if (number % 23 == 0)
        n *= 30;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)test_random(&seed);
    return slice_of(bytes, n);
}

static inline uint32_t disk_type(uint64_t number)
{
    return (uint32_t)(number * 2654435761u) / 2;
}

#endif
