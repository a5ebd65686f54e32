/* SPDX-License-Identifier: Apache-2.0 */
/* The model: files by number, each with what a read gives (now), what is on the platter (safe), and which
 * changes lie between; names likewise, `now` and `safe`, and changes between, each of one folder. Moving
 * to a point applies recorded changes one by one. */
#include "fault/powerloss.h"

#include "fault/folder.h"
#include "unit/test.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, NAMES_MAX = 256 };

struct change {
    struct disk_op op; /* owns path, to, bytes */
    bool has_failed;   /* a sync that did */
};

struct bytes {
    unsigned char *p;
    size_t n, cap;
};

struct file {
    struct bytes now, safe;
    size_t *pending; /* changes since the last sync, by place in the recording */
    size_t n_pending, cap_pending;
};

struct name {
    const char *path; /* of a change, or of names_owned */
    uint64_t file;    /* 0 = a folder */
};

struct names {
    struct name of[NAMES_MAX];
    size_t n;
};

struct powerloss {
    char root[PATH_MAX];
    bool is_recording;
    int (*before)(void *arg, const struct disk_op *op, size_t *n);
    void *arg;
    struct change *changes;
    size_t n_changes, cap_changes;
    /* At the beginning. */
    struct names first;
    struct bytes *first_files; /* by number */
    uint64_t n_first;
    /* At `at`. */
    size_t at;
    struct file *files; /* by number */
    uint64_t n_files;
    struct names now, safe;
    size_t pending_names[4096];
    size_t n_pending_names;
};

/* ---------------------------------------------------------------- bytes */

static void set_size(struct bytes *b, size_t n)
{
    if (n > b->cap) {
        b->cap = n + n / 2 + 64;
        b->p = mem_try_resize(b->p, b->cap);
        if (!b->p)
            abort();
    }
    if (n > b->n)
        memset(b->p + b->n, 0, n - b->n);
    b->n = n;
}

static void store(struct bytes *b, uint64_t offset, const void *p, size_t n)
{
    if (offset + n > b->n)
        set_size(b, offset + n);
    if (n)
        memcpy(b->p + offset, p, n);
}

static void copy_bytes(struct bytes *to, const struct bytes *from)
{
    to->n = 0;
    store(to, 0, from->p, from->n);
}

static void apply(struct bytes *b, const struct disk_op *op)
{
    if (op->call == CALL_WRITE)
        store(b, op->offset, op->bytes, op->n);
    else if (op->call == CALL_TRUNCATE || op->offset > b->n)
        set_size(b, op->offset);
}

/* ---------------------------------------------------------------- names */

static struct name *find(struct names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->of[i].path, path) == 0)
            return &names->of[i];
    return NULL;
}

static void put_name(struct names *names, const char *path, uint64_t file)
{
    struct name *n = find(names, path);
    if (!n) {
        assert_true(names->n < NAMES_MAX);
        n = &names->of[names->n++];
    }
    *n = (struct name){path, file};
}

static void take_name(struct names *names, const char *path)
{
    struct name *n = find(names, path);
    if (n)
        *n = names->of[--names->n];
}

static void apply_name(struct names *names, const struct disk_op *op)
{
    if (op->call == CALL_CREATE || op->call == CALL_MKDIR)
        put_name(names, op->path, op->call == CALL_MKDIR ? 0 : op->file);
    else if (op->call == CALL_UNLINK)
        take_name(names, op->path);
    else {
        take_name(names, op->path);
        put_name(names, op->to, op->file);
    }
}

static size_t parent_n(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Is the folder the one that path is a name of? */
static bool is_in(const char *folder, const char *path)
{
    return strlen(folder) == parent_n(path) && strncmp(folder, path, parent_n(path)) == 0;
}

/* Not durable, and made anew by whoever comes first. */
static bool is_volatile(const char *path)
{
    return slice_ends(slice_str(path), SLICE_LIT("-shm"));
}

/* ---------------------------------------------------------------- recording */

static char *copy_of(const char *s)
{
    char *p = s ? strdup(s) : NULL;
    assert_true(p || !s);
    return p;
}

static void record(struct powerloss *p, const struct disk_op *op, bool has_failed)
{
    if (p->n_changes == p->cap_changes) {
        p->cap_changes = p->cap_changes * 2 + 256;
        p->changes = mem_try_resize(p->changes, p->cap_changes * sizeof *p->changes);
        assert_non_null(p->changes);
    }
    struct change *c = &p->changes[p->n_changes++];
    *c = (struct change){.op = *op, .has_failed = has_failed};
    c->op.path = copy_of(op->path);
    c->op.to = copy_of(op->to);
    if (op->bytes) {
        void *bytes = mem_alloc(op->n);
        memcpy(bytes, op->bytes, op->n);
        c->op.bytes = bytes;
    }
    if (op->file >= p->n_files)
        p->n_files = op->file + 1;
}

/* Nothing is in it, and it may have any size: 16 MiB that need not be written thousands of times. */
static bool is_filler(const char *path)
{
    return slice_ends(slice_str(path), SLICE_LIT("/reserve"));
}

static int watch_before(void *arg, const struct disk_op *op, size_t *n)
{
    struct powerloss *p = arg;
    int r = p->before && !is_volatile(op->path) ? p->before(p->arg, op, n) : 0;
    if (r < 0 && op->call == CALL_SYNC && !is_filler(op->path))
        record(p, op, true);
    return r;
}

static void watch_after(void *arg, const struct disk_op *op)
{
    if (!is_volatile(op->path) && !is_filler(op->path))
        record(arg, op, false);
}

static void read_bytes(const char *path, struct bytes *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    set_size(to, (size_t)st.st_size);
    for (size_t at = 0; at < to->n;) {
        ssize_t r = pread(fd, to->p + at, to->n - at, (off_t)at);
        assert_true(r > 0);
        at += (size_t)r;
    }
    (void)close(fd);
}

static struct powerloss *walked; /* nftw has no argument */

static int walk_first(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    struct powerloss *p = walked;
    (void)ftw;
    if (strcmp(path, p->root) == 0 || is_volatile(path) || is_filler(path))
        return 0;
    const char *name = copy_of(path + strlen(p->root) + 1);
    uint64_t file = 0;
    if (kind == FTW_F) {
        assert_true(S_ISREG(st->st_mode));
        file = disk_calls_file(name);
        p->first_files = mem_try_resize(p->first_files, (file + 1) * sizeof *p->first_files);
        assert_non_null(p->first_files);
        memset(p->first_files + p->n_first, 0, (file + 1 - p->n_first) * sizeof *p->first_files);
        p->n_first = file + 1;
        read_bytes(path, &p->first_files[file]);
    }
    put_name(&p->first, name, file);
    return 0;
}

static struct powerloss *create(const char *root,
                                int (*before)(void *arg, const struct disk_op *op, size_t *n), void *arg)
{
    struct powerloss *p = mem_alloc(sizeof *p);
    p->before = before;
    p->arg = arg;
    p->at = SIZE_MAX;
    p->is_recording = true;
    assert_non_null(realpath(root, p->root));
    struct disk_watch w = {.before = watch_before, .after = watch_after, .arg = p};
    disk_calls_watch(p->root, &w);
    return p;
}

struct powerloss *powerloss_begin(const char *root,
                                  int (*before)(void *arg, const struct disk_op *op, size_t *n), void *arg)
{
    struct powerloss *p = create(root, before, arg);
    walked = p;
    assert_int_equal(nftw(p->root, walk_first, 16, FTW_PHYS), 0);
    p->n_files = p->n_first;
    return p;
}

/* ---------------------------------------------------------------- after kill -9 */

/* The other recording's files by their numbers here. */
struct killed {
    struct powerloss *p, *of;
    uint64_t *number; /* by the other's; 0 = it has none yet */
};

static uint64_t number_of(struct killed *k, uint64_t file)
{
    char name[40];
    if (k->number[file])
        return k->number[file];
    (void)snprintf(name, sizeof name, "gone %llu", (unsigned long long)file); /* there is no such path */
    return k->number[file] = disk_calls_file(name);
}

/* What was synced is what this recording begins with. */
static void begin_with_safe(struct killed *k)
{
    struct powerloss *p = k->p;
    for (size_t i = 0; i < k->of->now.n; i++)
        if (k->of->now.of[i].file)
            k->number[k->of->now.of[i].file] = disk_calls_file(k->of->now.of[i].path);
    p->n_first = 1;
    for (uint64_t i = 1; i < k->of->n_files; i++)
        if (number_of(k, i) >= p->n_first)
            p->n_first = number_of(k, i) + 1;
    p->first_files = mem_alloc(p->n_first * sizeof *p->first_files);
    for (uint64_t i = 1; i < k->of->n_files; i++)
        copy_bytes(&p->first_files[number_of(k, i)], &k->of->files[i].safe);
    for (size_t i = 0; i < k->of->safe.n; i++) {
        const struct name *n = &k->of->safe.of[i];
        put_name(&p->first, copy_of(n->path), n->file ? number_of(k, n->file) : 0);
    }
    p->n_files = p->n_first;
}

static bool is_same_name(struct names *names, const struct name *n)
{
    const struct name *found = find(names, n->path);
    return found && found->file == n->file;
}

/* And what was not synced is what happens first. */
static void record_the_rest(struct killed *k)
{
    struct powerloss *of = k->of;
    for (size_t i = 0; i < of->safe.n; i++)
        if (!is_same_name(&of->now, &of->safe.of[i]))
            record(k->p, &(struct disk_op){.call = CALL_UNLINK, .path = of->safe.of[i].path}, false);
    for (size_t i = 0; i < of->now.n; i++) {
        const struct name *n = &of->now.of[i];
        struct disk_op op = {.call = n->file ? CALL_CREATE : CALL_MKDIR, .path = n->path};
        op.file = n->file ? number_of(k, n->file) : 0;
        if (!is_same_name(&of->safe, n))
            record(k->p, &op, false);
        const struct file *f = &of->files[n->file];
        if (!n->file || f->n_pending == 0)
            continue;
        op.call = CALL_TRUNCATE;
        op.offset = f->now.n;
        record(k->p, &op, false);
        op = (struct disk_op){
            .call = CALL_WRITE, .path = n->path, .file = op.file, .bytes = f->now.p, .n = f->now.n};
        if (f->now.n)
            record(k->p, &op, false);
    }
}

struct powerloss *powerloss_begin_killed(struct powerloss *of, size_t point, const char *root)
{
    powerloss_make(of, point, POWERLOSS_ALL, 0, root);
    struct powerloss *p = create(root, NULL, NULL);
    struct killed k = {p, of, mem_alloc((of->n_files + 1) * sizeof *k.number)};
    begin_with_safe(&k);
    record_the_rest(&k);
    mem_free(k.number);
    return p;
}

void powerloss_end(struct powerloss *p)
{
    if (p->is_recording)
        disk_calls_watch(NULL, NULL);
    p->is_recording = false;
}

/* ---------------------------------------------------------------- points */

static void free_files(struct powerloss *p)
{
    for (uint64_t i = 0; p->files && i < p->n_files; i++) {
        mem_free(p->files[i].now.p);
        mem_free(p->files[i].safe.p);
        mem_free(p->files[i].pending);
    }
    mem_free(p->files);
    p->files = NULL;
}

void powerloss_free(struct powerloss *p)
{
    if (!p)
        return;
    powerloss_end(p);
    free_files(p);
    for (size_t i = 0; i < p->n_changes; i++) {
        free((char *)p->changes[i].op.path);
        free((char *)p->changes[i].op.to);
        mem_free((void *)p->changes[i].op.bytes);
    }
    for (size_t i = 0; i < p->first.n; i++)
        free((char *)p->first.of[i].path);
    for (uint64_t i = 0; i < p->n_first; i++)
        mem_free(p->first_files[i].p);
    mem_free(p->first_files);
    mem_free(p->changes);
    mem_free(p);
}

size_t powerloss_points(const struct powerloss *p)
{
    return p->n_changes;
}

const char *powerloss_describe(const struct powerloss *p, size_t point)
{
    static char text[PATH_MAX + 128];
    if (point >= p->n_changes)
        return "the end";
    const struct disk_op *op = &p->changes[point].op;
    (void)snprintf(text, sizeof text, "%s %s %llu+%zu", disk_call_name(op->call), op->path,
                   (unsigned long long)op->offset, op->n);
    return text;
}

static void rewind_all(struct powerloss *p)
{
    free_files(p);
    p->files = mem_alloc((p->n_files + 1) * sizeof *p->files);
    for (uint64_t i = 0; i < p->n_first; i++) {
        copy_bytes(&p->files[i].now, &p->first_files[i]);
        copy_bytes(&p->files[i].safe, &p->first_files[i]);
    }
    p->now = p->safe = p->first;
    p->n_pending_names = 0;
    p->at = 0;
}

static void pend(struct file *f, size_t change)
{
    if (f->n_pending == f->cap_pending) {
        f->cap_pending = f->cap_pending * 2 + 16;
        f->pending = mem_try_resize(f->pending, f->cap_pending * sizeof *f->pending);
        assert_non_null(f->pending);
    }
    f->pending[f->n_pending++] = change;
}

static void sync_names(struct powerloss *p, const char *folder)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n_pending_names; i++) {
        const struct disk_op *op = &p->changes[p->pending_names[i]].op;
        if (is_in(folder, op->path))
            apply_name(&p->safe, op);
        else
            p->pending_names[kept++] = p->pending_names[i];
    }
    p->n_pending_names = kept;
}

static void sync_file(struct powerloss *p, struct file *f, bool has_failed)
{
    for (size_t i = 0; !has_failed && i < f->n_pending; i++)
        apply(&f->safe, &p->changes[f->pending[i]].op);
    f->n_pending = 0;
}

static void step(struct powerloss *p)
{
    size_t at = p->at++;
    const struct change *c = &p->changes[at];
    switch (c->op.call) {
    case CALL_WRITE:
    case CALL_TRUNCATE:
    case CALL_ALLOCATE:
        apply(&p->files[c->op.file].now, &c->op);
        pend(&p->files[c->op.file], at);
        break;
    case CALL_SYNC:
        sync_file(p, &p->files[c->op.file], c->has_failed);
        break;
    case CALL_SYNC_DIR:
        sync_names(p, c->op.path);
        break;
    default:
        apply_name(&p->now, &c->op);
        assert_true(p->n_pending_names < sizeof p->pending_names / sizeof *p->pending_names);
        p->pending_names[p->n_pending_names++] = at;
    }
}

static void move_to(struct powerloss *p, size_t point)
{
    assert_true(point <= p->n_changes);
    if (!p->files || p->at > point)
        rewind_all(p);
    while (p->at < point)
        step(p);
}

/* ---------------------------------------------------------------- states */

struct chooser {
    enum powerloss_choice choice;
    uint64_t seed;
    size_t until; /* of a prefix: changes before this one */
};

static bool keeps(struct chooser *c, size_t change)
{
    switch (c->choice) {
    case POWERLOSS_NONE:
        return false;
    case POWERLOSS_ALL:
        return true;
    case POWERLOSS_PREFIX:
        return change < c->until;
    default:
        return test_random(&c->seed) % 2;
    }
}

/* Sectors [from, to) in bytes, as they are in `run` now. */
static void keep_sectors(struct chooser *c, size_t change, const struct bytes *run, uint64_t from,
                         uint64_t to, struct bytes *out)
{
    bool all = keeps(c, change);
    for (uint64_t at = from / SECTOR * SECTOR; at < to; at += SECTOR) {
        if (c->choice == POWERLOSS_TORN)
            all = keeps(c, change);
        uint64_t end = at + SECTOR < run->n ? at + SECTOR : run->n;
        if (all && at < end)
            store(out, at, run->p + at, (size_t)(end - at));
    }
}

/* What the file could hold, in out: the size is chosen apart from the sectors. */
static void outcome(struct powerloss *p, const struct file *f, struct chooser *c, struct bytes *run,
                    struct bytes *out)
{
    copy_bytes(run, &f->safe);
    copy_bytes(out, &f->safe);
    size_t size = f->safe.n;
    for (size_t i = 0; i < f->n_pending; i++) {
        const struct disk_op *op = &p->changes[f->pending[i]].op;
        size_t before = run->n;
        apply(run, op);
        if (run->n < before && keeps(c, f->pending[i]) && out->n > run->n)
            set_size(out, run->n); /* what is cut off is zeros if it comes back */
        if (op->call == CALL_WRITE)
            keep_sectors(c, f->pending[i], run, op->offset, op->offset + op->n, out);
        if (run->n != before && keeps(c, f->pending[i]))
            size = run->n;
    }
    set_size(out, size);
}

static void write_file(const char *to, const char *name, const struct bytes *b)
{
    char path[PATH_MAX * 2];
    (void)snprintf(path, sizeof path, "%s/%s", to, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    for (size_t at = 0; at < b->n;) {
        ssize_t r = write(fd, b->p + at, b->n - at);
        assert_true(r > 0);
        at += (size_t)r;
    }
    (void)close(fd);
}

/* Some other process's leftovers, of which nobody may believe a byte. */
static void write_garbage_shm(const char *to, const char *name, struct chooser *c, struct bytes *b)
{
    char path[PATH_MAX];
    if (!slice_ends(slice_str(name), SLICE_LIT("-wal")))
        return;
    (void)snprintf(path, sizeof path, "%.*s-shm", (int)(strlen(name) - 4), name);
    set_size(b, 32768);
    for (size_t i = 0; i < b->n; i += 8)
        memcpy(b->p + i, &(uint64_t){test_random(&c->seed)}, 8);
    write_file(to, path, b);
}

static bool folder_is_there(struct names *names, const char *path)
{
    char folder[PATH_MAX];
    if (parent_n(path) == 0)
        return true;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)parent_n(path), path);
    return find(names, folder) && folder_is_there(names, folder);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->path, ((const struct name *)b)->path);
}

void powerloss_make(struct powerloss *p, size_t point, enum powerloss_choice choice, uint64_t seed,
                    const char *to)
{
    move_to(p, point);
    folder_empty(to);
    struct chooser c = {.choice = choice, .seed = seed};
    c.until = (size_t)(test_random(&c.seed) % (point + 1));
    if (point > 50) /* near enough for something to be left out */
        c.until = point - (size_t)(test_random(&c.seed) % 50);
    struct names names = p->safe;
    for (size_t i = 0; i < p->n_pending_names; i++)
        if (keeps(&c, p->pending_names[i]))
            apply_name(&names, &p->changes[p->pending_names[i]].op);
    qsort(names.of, names.n, sizeof *names.of, by_path); /* folders before what is in them */
    struct bytes run = {0}, out = {0};
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.of[i].path;
        if (!folder_is_there(&names, name))
            continue;
        if (names.of[i].file == 0) {
            char path[PATH_MAX * 2];
            (void)snprintf(path, sizeof path, "%s/%s", to, name);
            assert_int_equal(mkdir(path, 0777), 0);
            continue;
        }
        outcome(p, &p->files[names.of[i].file], &c, &run, &out);
        write_file(to, name, &out);
        if (choice == POWERLOSS_TORN)
            write_garbage_shm(to, name, &c, &out);
    }
    mem_free(run.p);
    mem_free(out.p);
}

static const char *differs(struct powerloss *p, const struct name *n)
{
    char path[PATH_MAX * 2];
    (void)snprintf(path, sizeof path, "%s/%s", p->root, n->path);
    struct stat st;
    if (stat(path, &st) < 0 || S_ISDIR(st.st_mode) != (n->file == 0))
        return n->path;
    if (n->file == 0)
        return NULL;
    struct bytes b = {0};
    read_bytes(path, &b);
    const struct bytes *want = &p->files[n->file].now;
    bool is_same = b.n == want->n && (b.n == 0 || memcmp(b.p, want->p, b.n) == 0);
    mem_free(b.p);
    return is_same ? NULL : n->path;
}

static const char *unseen;

static int walk_unseen(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    const char *name = path + strlen(walked->root);
    if (*name == '\0' || is_volatile(path) || is_filler(path) || find(&walked->now, name + 1))
        return 0;
    static char kept[PATH_MAX];
    (void)snprintf(kept, sizeof kept, "%s", name + 1);
    unseen = kept;
    return 1;
}

const char *powerloss_missed(struct powerloss *p)
{
    move_to(p, p->n_changes);
    for (size_t i = 0; i < p->now.n; i++)
        if (differs(p, &p->now.of[i]))
            return p->now.of[i].path;
    walked = p;
    unseen = NULL;
    (void)nftw(p->root, walk_unseen, 16, FTW_PHYS);
    return unseen;
}
