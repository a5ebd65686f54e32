/* SPDX-License-Identifier: Apache-2.0 */
/* Moving. The log is copied to `.TITLE.gridline-rotate` in the other folder, synced, and renamed to its new
 * name, which is never one that is there: a second log of the same second gets -1, -2, ... Only then it is
 * removed from its own folder. A crash before the rename leaves that hidden file, which the next run writes
 * anew; one after it leaves the log in both places: the next run finds the same bytes under the new name and
 * only removes the log.
 *
 * Copying and cutting, for a server that keeps its log open. The copy gets its name as above; what came
 * meanwhile is appended to it, as further members, in a few rounds; the last round is without a sync before
 * the log is cut. After a crash between the two the copy has the log's first bytes already. So before the
 * copy gets its name, `.TITLE.gridline-mark` is written beside it, one line:
 *
 *     1 DEVICE INODE BYTES CRC STORED NAME
 *
 * the log it is of, how many of its bytes are in the copy and their CRC-32C, how long the copy is with them,
 * and its name. A run that finds a mark, the copy, and a log that still begins with those bytes goes on from
 * there: it cuts the copy to STORED, appends what is behind BYTES, and cuts the log. In any other case the
 * mark is of no more use. */
#include "actuator/rotate_log.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_MAX = 1000, ROUNDS = 4, MARK_MAX = 2 * NAME_MAX };

/* A copy under way. */
struct copy {
    char temp[NAME_MAX + 1], name[NAME_MAX + 1];
    int fd;
    struct copied done;
};

/* Where the end begins that says how it is compressed; its length if there is none. */
static size_t packed_end(const char *name)
{
    static const char *const ends[] = {".gz", ".zst", ".xz", ".bz2"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (slice_ends(slice_str(name), slice_str(ends[i])))
            return n - strlen(ends[i]);
    return n;
}

bool rotate_is_packed(const char *name)
{
    return name[packed_end(name)] != '\0';
}

/* A lease for reading is given only when nobody has the file open for writing; it is given back at once. Who
 * opens it just then has the kernel tell us, by a signal that does nothing. */
bool rotate_is_quiet(int fd)
{
    if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return false;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK); /* closing ends it, too */
    return true;
}

/* ---------------------------------------------------------------- names */

static int fits(int n)
{
    return n < 0 || n > NAME_MAX ? -ENAMETOOLONG : 0;
}

static int hidden_name(char to[NAME_MAX + 1], const char *title, const char *what)
{
    return fits(snprintf(to, NAME_MAX + 1, ".%s.gridline-%s", title, what));
}

/* slapd.log.1.gz becomes slapd.log.1-20261116T140852Z.gz: it stays readable as what it is. */
static int final_name(char to[NAME_MAX + 1], const char *title, int64_t at_ns, unsigned n,
                      enum copy_form form)
{
    char digits[CLOCK_TEXT_MAX], number[16] = "";
    size_t end = packed_end(title);
    const char *packing = form == COPY_GZIP ? ".gz" : form == COPY_ZSTD ? ".zst" : "";
    (void)clock_print_ulm(digits, at_ns); /* date and time are its first 14 bytes */
    if (n)
        (void)snprintf(number, sizeof number, "-%u", n); /* it fits */
    return fits(snprintf(to, NAME_MAX + 1, "%.*s-%.8sT%.6sZ%s%s%s", (int)end, title, digits, digits + 8,
                         number, title + end, packing));
}

static int64_t changed_ns(const struct stat *st)
{
    return st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

/* ---------------------------------------------------------------- a copy */

/* A plain file of that folder, no link; *st is of it. */
static int open_log(int folder, const char *name, int flags, int *fd, struct stat *st)
{
    int f = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (f < 0)
        return -errno;
    int r = fstat(f, st) < 0 ? -errno : S_ISREG(st->st_mode) ? 0 : -EINVAL;
    if (r < 0)
        (void)close(f); /* nothing was written */
    else
        *fd = f;
    return r;
}

/* The copy is as the log was: who may read it, whose it is, when it was changed. */
static int dress(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM)
        return -errno; /* who is not root keeps it for himself */
    if (fchmod(fd, st->st_mode & 0777) < 0 || futimens(fd, times) < 0)
        return -errno;
    return fsync(fd) < 0 ? -errno : 0;
}

static int begin_copy(const struct rotate_place *p, const char *title, struct copy *c)
{
    int r = hidden_name(c->temp, title, "rotate");
    if (r < 0)
        return r;
    if (unlinkat(p->to, c->temp, 0) < 0 && errno != ENOENT)
        return -errno;
    c->fd = openat(p->to, c->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
    return c->fd < 0 ? -errno : 0;
}

/* Gives the copy a name that is not there yet: 0; -EEXIST: there is one. */
static int give_name(int folder, const char *from, const char *to)
{
    if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* The file system can't do it in one step. */
    if (linkat(folder, from, folder, to, 0) < 0)
        return -errno;
    return unlinkat(folder, from, 0) < 0 ? -errno : 0;
}

/* Does the file of that name hold the same bytes? 1, 0, or a negative code. */
static int is_there(const struct rotate_place *p, const char *name, int fd)
{
    struct stat st;
    int other;
    int r = open_log(p->to, name, O_RDONLY, &other, &st);
    if (r < 0)
        return r == -ELOOP || r == -EINVAL ? 0 : r;
    r = copy_is_same(fd, other);
    (void)close(other); /* only read */
    return r;
}

static int place_copy(const struct rotate_place *p, const char *title, const struct stat *st,
                      enum copy_form form, struct copy *c, bool may_be_there)
{
    int r = -EEXIST;
    for (unsigned n = 0; n < NAMES_MAX && r == -EEXIST; n++) {
        r = final_name(c->name, title, changed_ns(st), n, form);
        if (r == 0)
            r = give_name(p->to, c->temp, c->name);
        int same = r == -EEXIST && may_be_there ? is_there(p, c->name, c->fd) : 0;
        if (same < 0)
            r = same;
        else if (same)
            r = unlinkat(p->to, c->temp, 0) < 0 ? -errno : 0;
    }
    return r == 0 && fsync(p->to) < 0 ? -errno : r;
}

static void end_copy(const struct rotate_place *p, struct copy *c, int r)
{
    if (c->fd < 0)
        return;
    (void)close(c->fd); /* it was synced, or is of no use */
    if (r < 0)
        (void)unlinkat(p->to, c->temp, 0); /* the next run writes it anew */
}

static void count(struct rotate_done *done, const struct copy *c, uint64_t bytes)
{
    struct stat st;
    done->bytes += bytes;
    done->stored += fstat(c->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ---------------------------------------------------------------- moving */

/* It is what was copied, and nobody can add to it: away with it. */
static int remove_log(const struct rotate_place *p, const char *name, int fd, const struct stat *before)
{
    struct stat now, named;
    if (fstat(fd, &now) < 0 || fstatat(p->from, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    bool is_same = named.st_dev == now.st_dev && named.st_ino == now.st_ino &&
                   now.st_size == before->st_size && changed_ns(&now) == changed_ns(before);
    if (!is_same || !rotate_is_quiet(fd))
        return -EBUSY;
    if (unlinkat(p->from, name, 0) < 0)
        return -errno;
    return fsync(p->from) < 0 ? -errno : 0;
}

static int move_open(const struct rotate_place *p, int fd, const struct stat *st, const char *title,
                     struct copy *c)
{
    enum copy_form form = rotate_is_packed(title) ? COPY_PLAIN : p->form;
    int r = rotate_is_quiet(fd) ? begin_copy(p, title, c) : -EBUSY;
    if (r == 0)
        r = copy_append(fd, c->fd, form, &p->limits, &c->done);
    if (r == 0 && c->done.bytes != (uint64_t)st->st_size)
        r = -EBUSY;
    if (r == 0)
        r = dress(c->fd, st);
    return r == 0 ? place_copy(p, title, st, form, c, true) : r;
}

int rotate_move(const struct rotate_place *p, const char *name, const char *title, struct rotate_done *done)
{
    struct copy c = {.fd = -1};
    struct stat st;
    int fd, r = open_log(p->from, name, O_RDONLY, &fd, &st);
    if (r < 0)
        return r;
    r = move_open(p, fd, &st, title, &c);
    if (r == 0)
        r = remove_log(p, name, fd, &st); /* when it fails the copy stays: lines twice are better than none */
    if (r == 0)
        count(done, &c, c.done.bytes);
    end_copy(p, &c, r);
    (void)close(fd); /* only read */
    return r;
}

/* ---------------------------------------------------------------- marks */

struct mark {
    struct copied copied;
    uint64_t device, inode, stored;
    char name[NAME_MAX + 1];
};

static int write_mark(const struct rotate_place *p, const char *title, const struct mark *m)
{
    char name[NAME_MAX + 1], temp[NAME_MAX + 1], line[MARK_MAX];
    int r = hidden_name(name, title, "mark");
    if (r == 0)
        r = hidden_name(temp, title, "marking");
    if (r < 0)
        return r;
    int n = snprintf(line, sizeof line, "1 %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %s\n",
                     m->device, m->inode, m->copied.bytes, m->copied.crc, m->stored, m->name);
    (void)unlinkat(p->to, temp, 0); /* of a run that was ended */
    int fd = openat(p->to, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (n < 0 || (size_t)n >= sizeof line)
        r = -ENAMETOOLONG;
    else if (write(fd, line, (size_t)n) != n)
        r = -ENOSPC;
    else if (fsync(fd) < 0 || renameat(p->to, temp, p->to, name) < 0)
        r = -errno;
    (void)close(fd); /* it was synced */
    return r;
}

/* The next word of the line, as a number. */
static bool take_number(struct slice *line, uint64_t *out)
{
    const char *blank = memchr(line->p, ' ', line->n);
    struct slice word = slice_of(line->p, blank ? (size_t)(blank - line->p) : line->n);
    *line = slice_from(*line, word.n + 1);
    return num_parse_uint(word, out) == 0;
}

static bool parse_mark(struct slice line, struct mark *m)
{
    uint64_t version, crc;
    if (!take_number(&line, &version) || version != 1 || !take_number(&line, &m->device) ||
        !take_number(&line, &m->inode) || !take_number(&line, &m->copied.bytes) ||
        !take_number(&line, &crc) || crc > UINT32_MAX || !take_number(&line, &m->stored))
        return false;
    if (line.n < 2 || line.n > NAME_MAX + 1 || line.p[line.n - 1] != '\n' || memchr(line.p, '/', line.n))
        return false;
    m->copied.crc = (uint32_t)crc;
    (void)snprintf(m->name, sizeof m->name, "%.*s", (int)line.n - 1, line.p); /* it fits */
    return true;
}

static bool read_mark(const struct rotate_place *p, const char *title, struct mark *m)
{
    char name[NAME_MAX + 1], line[MARK_MAX];
    struct stat st;
    int fd;
    if (hidden_name(name, title, "mark") < 0 || open_log(p->to, name, O_RDONLY, &fd, &st) < 0)
        return false;
    ssize_t n = read(fd, line, sizeof line);
    (void)close(fd); /* only read */
    return n > 0 && parse_mark(slice_of(line, (size_t)n), m);
}

static int drop_mark(const struct rotate_place *p, const char *title)
{
    char name[NAME_MAX + 1];
    int r = hidden_name(name, title, "mark");
    return r < 0 ? r : unlinkat(p->to, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---------------------------------------------------------------- copying and cutting */

/* The copy of a run that was ended before it cut the log: it is open then, as the mark says. */
static bool resume(const struct rotate_place *p, const char *title, int log, const struct stat *st,
                   struct copy *c)
{
    struct mark m;
    struct stat copy;
    uint32_t crc;
    int fd;
    if (!read_mark(p, title, &m) || m.device != (uint64_t)st->st_dev || m.inode != (uint64_t)st->st_ino ||
        m.copied.bytes > (uint64_t)st->st_size || copy_checksum(log, m.copied.bytes, &p->limits, &crc) < 0 ||
        crc != m.copied.crc || open_log(p->to, m.name, O_RDWR | O_APPEND, &fd, &copy) < 0)
        return false;
    if ((uint64_t)copy.st_size < m.stored || ftruncate(fd, (off_t)m.stored) < 0) {
        (void)close(fd); /* nothing was written */
        return false;
    }
    c->fd = fd;
    c->done = m.copied;
    (void)snprintf(c->name, sizeof c->name, "%s", m.name); /* as long */
    return true;
}

static int copy_first(const struct rotate_place *p, const char *title, int log, const struct stat *st,
                      struct copy *c)
{
    struct stat copy;
    int r = begin_copy(p, title, c);
    if (r == 0)
        r = copy_append(log, c->fd, p->form, &p->limits, &c->done);
    if (r == 0)
        r = dress(c->fd, st);
    if (r == 0 && fstat(c->fd, &copy) < 0)
        r = -errno;
    if (r < 0)
        return r;
    /* Which name it gets is known when it has it; a mark with a name that is not there counts for nothing. */
    for (unsigned n = 0; n < NAMES_MAX; n++) {
        struct mark m = {.copied = c->done,
                         .device = (uint64_t)st->st_dev,
                         .inode = (uint64_t)st->st_ino,
                         .stored = (uint64_t)copy.st_size};
        r = final_name(m.name, title, changed_ns(st), n, p->form);
        if (r == 0 && faccessat(p->to, m.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (r == 0)
            r = write_mark(p, title, &m);
        if (r == 0)
            r = give_name(p->to, c->temp, m.name);
        if (r == -EEXIST)
            continue;
        (void)snprintf(c->name, sizeof c->name, "%s", m.name); /* as long */
        return r == 0 && fsync(p->to) < 0 ? -errno : r;
    }
    return -EEXIST;
}

/* What came meanwhile; *is_more: there was something. */
static int catch_up(const struct rotate_place *p, int log, struct copy *c, bool *is_more)
{
    struct stat st;
    if (fstat(log, &st) < 0)
        return -errno;
    *is_more = (uint64_t)st.st_size > c->done.bytes;
    return *is_more ? copy_append(log, c->fd, p->form, &p->limits, &c->done) : 0;
}

static int finish(const struct rotate_place *p, const char *title, int log, struct copy *c)
{
    bool is_more = true;
    int r = 0;
    for (int i = 0; i < ROUNDS && is_more && r == 0; i++) {
        r = catch_up(p, log, c, &is_more);
        if (r == 0 && is_more && i + 1 < ROUNDS && fsync(c->fd) < 0)
            r = -errno;
    }
    if (r == 0 && ftruncate(log, 0) < 0)
        r = -errno;
    if (r == 0 && (fsync(c->fd) < 0 || fsync(log) < 0))
        r = -errno;
    return r == 0 ? drop_mark(p, title) : r;
}

int rotate_copy_and_cut(const struct rotate_place *p, const char *name, struct rotate_done *done)
{
    struct copy c = {.fd = -1};
    struct stat st;
    int log, r = open_log(p->from, name, O_RDWR, &log, &st);
    if (r < 0)
        return r;
    if (st.st_nlink >
        1) { /* cut here, it would be cut elsewhere, too: somebody may have put it here for that */
        (void)close(log); /* nothing was written */
        return -EMLINK;
    }
    bool is_named = resume(p, name, log, &st, &c);
    if (!is_named)
        r = st.st_size == 0 ? -ENODATA : copy_first(p, name, log, &st, &c);
    if (r == 0) {
        is_named = true;
        r = finish(p, name, log, &c);
    }
    if (r == 0)
        count(done, &c, c.done.bytes);
    end_copy(p, &c, is_named ? 0 : r);
    if (close(log) < 0 && r == 0)
        r = -errno;
    return r;
}
