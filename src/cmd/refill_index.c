/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/refill_index.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRY = 68, VERSION = 1, WRITE_BYTES = 64 << 10 };

struct index_file {
    uint64_t begin; /* the first record it covers */
    uint64_t n;     /* entries that are in it */
};

struct refill_index {
    char *dir;
    pthread_mutex_t lock;
    /* Under the lock: */
    struct index_file files[REFILL_FILES]; /* oldest first */
    size_t n_files;
    uint64_t keep;
    /* The archiver's: */
    int fd; /* of the newest file; -1 = none */
    struct strbuf out;
    uint64_t journal, last; /* last: the record added last */
};

static void path_of(const struct refill_index *x, uint64_t begin, struct strbuf *out)
{
    strbuf_reset(out);
    strbuf_printf(out, "%s/%016" PRIx64 ".idx", x->dir, begin);
}

struct refill_index *refill_index_create(const char *dir)
{
    struct refill_index *x = mem_try_alloc(sizeof *x);
    if (!x)
        return NULL;
    x->fd = -1;
    x->keep = UINT64_MAX;
    x->dir = strdup(dir);
    (void)pthread_mutex_init(&x->lock, NULL); /* can't fail on Linux */
    return x;
}

void refill_index_destroy(struct refill_index *x)
{
    if (!x)
        return;
    if (x->fd >= 0)
        (void)close(x->fd);
    strbuf_fini(&x->out);
    (void)pthread_mutex_destroy(&x->lock); /* nobody has it */
    free(x->dir);
    mem_free(x);
}

/* ---------------------------------------------------------------- bytes */

static void end_entry(struct strbuf *out, size_t at)
{
    while (out->n - at < ENTRY - 4)
        strbuf_add_char(out, 0);
    if (!strbuf_failed(out))
        strbuf_add_u32(out, crc32c(0, slice_of(out->p + at, ENTRY - 4)));
}

static void put_head(struct strbuf *out, uint64_t journal, uint64_t begin)
{
    size_t at = out->n;
    strbuf_add_str(out, "glrefill");
    strbuf_add_u32(out, VERSION);
    strbuf_add_u32(out, 0);
    strbuf_add_u64(out, journal);
    strbuf_add_u64(out, begin);
    end_entry(out, at);
}

static void put_entry(struct strbuf *out, const struct refill_entry *e)
{
    size_t at = out->n;
    strbuf_add_u64(out, e->record);
    strbuf_add_u32(out, e->part);
    strbuf_add_u32(out, e->count);
    strbuf_add_slice(out, slice_of((const char *)e->producer, sizeof e->producer));
    strbuf_add_u64(out, e->epoch);
    strbuf_add_u64(out, e->first_seq);
    strbuf_add_u64(out, (uint64_t)e->min_ns);
    strbuf_add_u64(out, (uint64_t)e->max_ns);
    end_entry(out, at);
}

static bool is_whole(const char bytes[ENTRY])
{
    struct cursor c = cursor_of(slice_of(bytes + ENTRY - 4, 4));
    return cursor_u32(&c) == crc32c(0, slice_of(bytes, ENTRY - 4));
}

static bool get_entry(const char bytes[ENTRY], struct refill_entry *e)
{
    struct cursor c = cursor_of(slice_of(bytes, ENTRY));
    e->record = cursor_u64(&c);
    e->part = cursor_u32(&c);
    e->count = cursor_u32(&c);
    memcpy(e->producer, cursor_bytes(&c, sizeof e->producer).p, sizeof e->producer);
    e->epoch = cursor_u64(&c);
    e->first_seq = cursor_u64(&c);
    e->min_ns = (int64_t)cursor_u64(&c);
    e->max_ns = (int64_t)cursor_u64(&c);
    return is_whole(bytes);
}

/* Entry i of an open file: 1; 0: it is not there, or not whole. */
static int read_entry(int fd, uint64_t i, struct refill_entry *out)
{
    char bytes[ENTRY];
    ssize_t n = pread(fd, bytes, sizeof bytes, (off_t)((i + 1) * ENTRY));
    return n < 0 ? -errno : n == ENTRY && get_entry(bytes, out);
}

/* ---------------------------------------------------------------- files */

static int open_file(const struct refill_index *x, uint64_t begin, int flags)
{
    struct strbuf path = {0};
    path_of(x, begin, &path);
    int fd = strbuf_failed(&path) ? -1 : open(path.p, flags | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd;
    strbuf_fini(&path);
    return r;
}

static void remove_file(const struct refill_index *x, uint64_t begin)
{
    struct strbuf path = {0};
    path_of(x, begin, &path);
    if (!strbuf_failed(&path))
        (void)unlink(path.p); /* one that stays is found again at the next start */
    strbuf_fini(&path);
}

static void remove_oldest(struct refill_index *x)
{
    (void)pthread_mutex_lock(&x->lock);
    uint64_t begin = x->files[0].begin;
    memmove(x->files, x->files + 1, --x->n_files * sizeof *x->files);
    (void)pthread_mutex_unlock(&x->lock);
    remove_file(x, begin);
}

static void clear(struct refill_index *x)
{
    if (x->fd >= 0)
        (void)close(x->fd);
    x->fd = -1;
    strbuf_reset(&x->out);
    while (x->n_files)
        remove_oldest(x);
}

/* What is in x->out, which is empty then, into the newest file. */
static int write_out(struct refill_index *x, uint64_t at)
{
    int r = strbuf_failed(&x->out) ? -ENOMEM : 0;
    for (size_t done = 0; r == 0 && done < x->out.n;) {
        ssize_t n = pwrite(x->fd, x->out.p + done, x->out.n - done, (off_t)(at + done));
        if (n < 0 && errno != EINTR)
            r = -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    strbuf_reset(&x->out);
    return r;
}

static int start_file(struct refill_index *x, uint64_t begin)
{
    int r = refill_index_write(x);
    if (r < 0)
        return r;
    if (x->fd >= 0)
        (void)close(x->fd);
    if (mkdir(x->dir, 0700) < 0 && errno != EEXIST)
        return -errno;
    x->fd = open_file(x, begin, O_RDWR | O_CREAT | O_TRUNC);
    if (x->fd < 0)
        return x->fd;
    if (x->n_files == REFILL_FILES)
        remove_oldest(x);
    put_head(&x->out, x->journal, begin);
    r = write_out(x, 0);
    (void)pthread_mutex_lock(&x->lock);
    x->files[x->n_files++] = (struct index_file){begin, 0};
    (void)pthread_mutex_unlock(&x->lock);
    return r;
}

/* Adds a file that was found: entries up to `record`, which it is cut to. false: it is not one of this
 * journal's, or has none of these records. */
static bool adopt(struct refill_index *x, uint64_t begin, uint64_t record, uint64_t *last)
{
    char head[ENTRY];
    struct refill_entry e;
    struct index_file f = {begin, 0};
    int fd = open_file(x, begin, O_RDWR);
    struct strbuf expected = {0};
    put_head(&expected, x->journal, begin);
    bool is_good = fd >= 0 && begin <= record + 1 && pread(fd, head, ENTRY, 0) == ENTRY &&
                   !strbuf_failed(&expected) && memcmp(head, expected.p, ENTRY) == 0;
    strbuf_fini(&expected);
    while (is_good && f.n < 2 * REFILL_FILE && read_entry(fd, f.n, &e) > 0 && e.record <= record) {
        *last = e.record;
        f.n++;
    }
    is_good = is_good && ftruncate(fd, (off_t)((f.n + 1) * ENTRY)) == 0 && x->n_files < REFILL_FILES;
    if (is_good) {
        if (x->fd >= 0)
            (void)close(x->fd);
        x->fd = fd;
        (void)pthread_mutex_lock(&x->lock);
        x->files[x->n_files++] = f;
        (void)pthread_mutex_unlock(&x->lock);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return is_good;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void refill_index_start(struct refill_index *x, uint64_t journal, uint64_t record)
{
    struct dirent **names = NULL;
    uint64_t last = 0;
    if (x->fd >= 0)
        (void)close(x->fd);
    x->fd = -1;
    strbuf_reset(&x->out);
    (void)pthread_mutex_lock(&x->lock);
    x->n_files = 0;
    (void)pthread_mutex_unlock(&x->lock);
    x->journal = journal;
    int n = scandir(x->dir, &names, NULL, by_name);
    bool is_whole_so_far = true;
    for (int i = 0; i < n; i++) {
        char *end;
        uint64_t begin = strtoull(names[i]->d_name, &end, 16);
        if (end == names[i]->d_name + 16 && strcmp(end, ".idx") == 0) {
            is_whole_so_far = is_whole_so_far && adopt(x, begin, record, &last);
            if (!is_whole_so_far)
                remove_file(x, begin);
        }
        free(names[i]);
    }
    free(names);
    bool is_fresh = x->n_files && x->files[x->n_files - 1].begin == record + 1;
    if (x->n_files && last != record && !is_fresh)
        clear(x); /* records between its last and the archive's are missing */
    x->last = record;
}

/* ---------------------------------------------------------------- writing */

int refill_index_write(struct refill_index *x)
{
    if (x->fd < 0 || x->out.n == 0)
        return 0;
    struct index_file *f = &x->files[x->n_files - 1];
    uint64_t n = x->out.n / ENTRY;
    int r = write_out(x, (f->n + 1) * ENTRY);
    if (r < 0) {
        clear(x);
        return r;
    }
    (void)pthread_mutex_lock(&x->lock);
    f->n += n;
    (void)pthread_mutex_unlock(&x->lock);
    return 0;
}

static struct refill_entry entry_of(const struct journal_batch *item)
{
    struct refill_entry e = {.record = item->last, .part = item->part};
    if (item->kind != JOURNAL_BATCH)
        return e;
    const struct batch *b = item->batch;
    e.count = (uint32_t)b->n;
    memcpy(e.producer, b->origin.producer, sizeof e.producer);
    e.epoch = b->origin.epoch;
    e.first_seq = b->origin.first_seq;
    e.min_ns = e.max_ns = b->n ? b->events[0].time_ns : 0;
    for (size_t i = 1; i < b->n; i++) {
        int64_t at = b->events[i].time_ns;
        e.min_ns = at < e.min_ns ? at : e.min_ns;
        e.max_ns = at > e.max_ns ? at : e.max_ns;
    }
    return e;
}

/* Files all of whose records are not asked for any more. */
static void trim(struct refill_index *x, uint64_t keep)
{
    while (x->n_files > 1 && x->files[1].begin <= keep + 1)
        remove_oldest(x);
}

void refill_index_add(struct refill_index *x, const struct journal_batch *item)
{
    (void)pthread_mutex_lock(&x->lock);
    uint64_t keep = x->keep;
    (void)pthread_mutex_unlock(&x->lock);
    bool is_next = item->first != x->last;
    x->last = item->last;
    if (keep == UINT64_MAX) {
        if (x->n_files)
            clear(x);
        return;
    }
    if (x->n_files == 0 && !is_next)
        return; /* from the next record on */
    const struct index_file *f = x->n_files ? &x->files[x->n_files - 1] : NULL;
    bool is_full = f && is_next && f->n + x->out.n / ENTRY >= REFILL_FILE;
    if ((!f || is_full) && start_file(x, item->first) < 0) {
        clear(x); /* what gives way from here on is told as a gap */
        return;
    }
    trim(x, keep);
    struct refill_entry e = entry_of(item);
    put_entry(&x->out, &e);
    if (x->out.n >= WRITE_BYTES)
        (void)refill_index_write(x); /* it begins anew */
}

/* ---------------------------------------------------------------- reading */

void refill_index_keep(struct refill_index *x, uint64_t record)
{
    (void)pthread_mutex_lock(&x->lock);
    x->keep = record;
    (void)pthread_mutex_unlock(&x->lock);
}

static bool is_before(const struct refill_entry *e, uint64_t record, uint32_t part)
{
    return e->record < record || (e->record == record && e->part < part);
}

/* The first of n entries that is not before that place. */
static int find_entry(int fd, uint64_t n, uint64_t record, uint32_t part, uint64_t *out)
{
    uint64_t low = 0, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct refill_entry e;
        int r = read_entry(fd, middle, &e);
        if (r <= 0)
            return r < 0 ? r : E_DAMAGE;
        if (is_before(&e, record, part))
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return 0;
}

static int read_file(int fd, const struct index_file *f, uint64_t record, uint32_t part, uint64_t last,
                     struct refill_entry *out, size_t max)
{
    uint64_t at;
    size_t n = 0;
    int r = find_entry(fd, f->n, record, part, &at);
    for (; r >= 0 && n < max && at < f->n; at++, n++) {
        r = read_entry(fd, at, &out[n]);
        if (r == 0)
            r = E_DAMAGE;
        if (r > 0 && out[n].record > last)
            break;
    }
    return r < 0 && n == 0 ? r : (int)n;
}

int refill_index_read(struct refill_index *x, uint64_t record, uint32_t part, uint64_t last,
                      uint64_t *covered, struct refill_entry *out, size_t max)
{
    (void)pthread_mutex_lock(&x->lock);
    struct index_file files[REFILL_FILES];
    size_t n_files = x->n_files;
    memcpy(files, x->files, n_files * sizeof *files);
    (void)pthread_mutex_unlock(&x->lock);
    *covered = n_files ? files[0].begin : UINT64_MAX;
    size_t i = 0;
    while (i + 1 < n_files && files[i + 1].begin <= record)
        i++;
    int n = 0;
    for (; i < n_files && n == 0 && files[i].begin <= last; i++) {
        int fd = open_file(x, files[i].begin, O_RDONLY);
        n = fd < 0 ? fd : read_file(fd, &files[i], record, part, last, out, max);
        if (fd >= 0)
            (void)close(fd);
    }
    return n;
}
