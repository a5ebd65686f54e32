/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence lock. The words between are atomics of their own, stored with release and loaded with acquire
 * order: so none of them is stored before the odd sequence, nor loaded after the second look at it. That is
 * what fences would do, too, but ThreadSanitizer does not know those, and on x86 both cost nothing.
 *
 * The file is made whole under another name and renamed, so a reader never sees half a page; it is never
 * truncated, so mapping it can't fault; and it is written once in full, so that a full file system shows then
 * and not as SIGBUS at a store. */
#include "base/clockpage.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, READ_TRIES = 100, FLAG_IS_UTC = 1, VERSION = 1 };

static const char magic[7] = {'g', 'l', 'c', 'l', 'o', 'c', 'k'};

struct page {
    char magic[7];
    uint8_t version;
    _Atomic uint32_t sequence;
    _Atomic uint32_t generation;
    _Atomic int64_t offset_ns;
    _Atomic uint64_t bound_ns;
    _Atomic int64_t at_ns, base_ns, utc_base_ns;
    _Atomic uint32_t drift_ppm, flags;
    _Atomic int64_t valid_until_ns, goal_ns, slew_ns, slept_ns;
    _Atomic uint32_t utc_error_ns;
    char rest[PAGE_BYTES - 100];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "the layout in the header");
_Static_assert(offsetof(struct page, utc_error_ns) == 96, "the layout in the header");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

struct clockpage {
    struct page *page; /* the writer's, or read-only */
    char *path;        /* the writer's; NULL = a reader */
    dev_t device;
    ino_t inode;
};

static void page_store(struct page *p, const struct timesync_line *l, int64_t valid_until_ns)
{
    uint32_t sequence = atomic_load_explicit(&p->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&p->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&p->generation, l->generation, memory_order_release);
    atomic_store_explicit(&p->offset_ns, l->base_ns - l->utc_base_ns, memory_order_release);
    atomic_store_explicit(&p->bound_ns, l->bound_ns, memory_order_release);
    atomic_store_explicit(&p->at_ns, l->at_ns, memory_order_release);
    atomic_store_explicit(&p->base_ns, l->base_ns, memory_order_release);
    atomic_store_explicit(&p->utc_base_ns, l->utc_base_ns, memory_order_release);
    atomic_store_explicit(&p->drift_ppm, l->drift_ppm, memory_order_release);
    atomic_store_explicit(&p->flags, l->is_utc ? FLAG_IS_UTC : 0, memory_order_release);
    atomic_store_explicit(&p->valid_until_ns, valid_until_ns, memory_order_release);
    atomic_store_explicit(&p->goal_ns, l->goal_ns, memory_order_release);
    atomic_store_explicit(&p->slew_ns, l->slew_ns, memory_order_release);
    atomic_store_explicit(&p->slept_ns, l->slept_ns, memory_order_release);
    atomic_store_explicit(&p->utc_error_ns, l->utc_error_ns, memory_order_release);
    atomic_store_explicit(&p->sequence, sequence + 1, memory_order_release);
}

static bool page_load_once(const struct page *p, struct timesync_line *out, int64_t *valid_until_ns)
{
    uint32_t sequence = atomic_load_explicit(&p->sequence, memory_order_acquire);
    if (sequence & 1)
        return false;
    out->generation = atomic_load_explicit(&p->generation, memory_order_acquire);
    out->bound_ns = atomic_load_explicit(&p->bound_ns, memory_order_acquire);
    out->at_ns = atomic_load_explicit(&p->at_ns, memory_order_acquire);
    out->base_ns = atomic_load_explicit(&p->base_ns, memory_order_acquire);
    out->utc_base_ns = atomic_load_explicit(&p->utc_base_ns, memory_order_acquire);
    out->drift_ppm = atomic_load_explicit(&p->drift_ppm, memory_order_acquire);
    out->is_utc = atomic_load_explicit(&p->flags, memory_order_acquire) & FLAG_IS_UTC;
    *valid_until_ns = atomic_load_explicit(&p->valid_until_ns, memory_order_acquire);
    out->goal_ns = atomic_load_explicit(&p->goal_ns, memory_order_acquire);
    out->slew_ns = atomic_load_explicit(&p->slew_ns, memory_order_acquire);
    out->slept_ns = atomic_load_explicit(&p->slept_ns, memory_order_acquire);
    out->utc_error_ns = atomic_load_explicit(&p->utc_error_ns, memory_order_acquire);
    return atomic_load_explicit(&p->sequence, memory_order_relaxed) == sequence;
}

static bool page_load(const struct page *p, struct timesync_line *out, int64_t *valid_until_ns)
{
    for (int i = 0; i < READ_TRIES; i++)
        if (page_load_once(p, out, valid_until_ns))
            return true;
    return false;
}

/* ---------------------------------------------------------------- the agent's end */

/* Whoever has the page of an agent that was killed must not go on with it: its sequence may be odd for ever,
 * or its time still valid. */
static uint32_t retire(const char *path)
{
    uint32_t generation = 0;
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0;
    bool is_ours =
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size == PAGE_BYTES;
    struct page *p = is_ours ? mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    (void)close(fd); /* the mapping stays */
    if (p == MAP_FAILED)
        return 0;
    if (memcmp(p->magic, magic, sizeof magic) == 0 && p->version == VERSION) {
        generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
        atomic_store_explicit(&p->valid_until_ns, 0, memory_order_release);
    }
    (void)munmap(p, PAGE_BYTES); /* was mapped */
    return generation;
}

static int write_new(struct clockpage *p, const char *name)
{
    static const struct page empty = {.magic = {'g', 'l', 'c', 'l', 'o', 'c', 'k'}, .version = VERSION};
    struct stat st;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    int r = fchmod(fd, 0644) < 0 ? -errno : 0; /* whatever the umask: every program may read it */
    ssize_t n = r == 0 ? write(fd, &empty, sizeof empty) : -1;
    if (r == 0 && n != (ssize_t)sizeof empty)
        r = n < 0 ? -errno : -ENOSPC;
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    void *page = r == 0 ? mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (r == 0 && page == MAP_FAILED)
        r = -errno;
    (void)close(fd); /* nothing is lost with it: nobody reads this file after a crash of the machine */
    if (r < 0) {
        (void)unlink(name); /* ours, of no use */
        return r;
    }
    p->page = page;
    p->device = st.st_dev;
    p->inode = st.st_ino;
    return 0;
}

static int put_in_place(struct clockpage *p, const char *path)
{
    struct strbuf name = {0};
    strbuf_printf(&name, "%s.%ld", path, (long)getpid());
    if (strbuf_failed(&name)) {
        strbuf_fini(&name);
        return -ENOMEM;
    }
    (void)unlink(name.p); /* of a process that had our number; mostly there is none */
    int r = write_new(p, name.p);
    if (r == 0 && rename(name.p, path) < 0) {
        r = -errno;
        (void)unlink(name.p); /* ours, of no use */
    }
    strbuf_fini(&name);
    return r;
}

int clockpage_create(const char *path, struct clockpage **out, uint32_t *generation)
{
    size_t n = strlen(path) + 1;
    struct clockpage *p = mem_try_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    char *copy = mem_try_alloc(n);
    int r = copy ? 0 : -ENOMEM;
    if (r == 0) {
        memcpy(copy, path, n);
        *generation = retire(path);
        r = put_in_place(p, path);
    }
    if (r < 0) {
        mem_free(copy);
        clockpage_close(p);
        return r;
    }
    p->path = copy;
    *out = p;
    return 0;
}

void clockpage_write(struct clockpage *p, const struct timesync_line *l, int64_t valid_until_boot_ns)
{
    page_store(p->page, l, valid_until_boot_ns);
}

void clockpage_destroy(struct clockpage *p)
{
    struct stat st;
    if (!p)
        return;
    atomic_store_explicit(&p->page->valid_until_ns, 0, memory_order_release);
    if (stat(p->path, &st) == 0 && st.st_dev == p->device && st.st_ino == p->inode)
        (void)unlink(p->path); /* if it can't be: it is invalid */
    mem_free(p->path);
    clockpage_close(p);
}

/* ---------------------------------------------------------------- a reader's end */

static int map_page(int fd, struct clockpage *p)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return -EPERM;
    if (!S_ISREG(st.st_mode) || st.st_size != PAGE_BYTES)
        return E_PROTO;
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    p->page = page;
    if (memcmp(p->page->magic, magic, sizeof magic) != 0)
        return E_PROTO;
    return p->page->version == VERSION ? 0 : E_VERSION;
}

int clockpage_open(const char *path, struct clockpage **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct clockpage *p = mem_try_alloc(sizeof *p);
    int r = p ? map_page(fd, p) : -ENOMEM;
    (void)close(fd); /* the mapping stays */
    if (r < 0) {
        clockpage_close(p);
        return r;
    }
    *out = p;
    return 0;
}

void clockpage_close(struct clockpage *p)
{
    if (!p)
        return;
    if (p->page)
        (void)munmap(p->page, PAGE_BYTES); /* was mapped */
    mem_free(p);
}

bool clockpage_read(const struct clockpage *p, const struct clock_moment *now, struct timesync_state *out)
{
    struct timesync_line line;
    int64_t valid_until_ns;
    if (!page_load(p->page, &line, &valid_until_ns) || now->boot_ns >= valid_until_ns)
        return false;
    timesync_line_state(&line, now, out);
    return true;
}
