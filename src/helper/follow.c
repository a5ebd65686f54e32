/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one piece after the other.
 *
 * Every read is checked against truncation, before what it gave is used: the bytes just before it must be
 * those that were there (they are read again in the same call), and so must the file's first bytes, after the
 * read. Whatever happened to the file before the check has then not touched what was read, unless the new
 * content starts with the same MARK_HEAD_MAX bytes and has the same MARK_ANCHOR_MAX bytes at the place
 * reached.
 *
 * A file of which nothing was known when its first bytes are read may have been truncated before that; then
 * there is a copy by now, which is looked for before those bytes are used (FILL_FIRST).
 *
 * A piece has been read to its end when a read found nothing after the next piece was seen to be there, and
 * the piece has not grown for grace_ns: a process that still has it open may go on writing to it until it is
 * told to open the new one. What it holds then without a line end is its last line.
 *
 * NULs at the start of a line are passed over: a writer without O_APPEND goes on at its old offset after a
 * truncation, and what is before that reads as zeros. */
#include "helper/follow.h"

#include "base/mem.h"
#include "helper/follow_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER = MARK_ANCHOR_MAX + 2 * FOLLOW_LINE_MAX };

/* What a read found. */
enum { FILL_END, FILL_MORE, FILL_CHANGED, FILL_FIRST };

struct known_place follow_place(const struct follow *f, size_t back)
{
    const struct piece *p = &f->pieces[0];
    size_t end = f->used - back, n = end < MARK_ANCHOR_MAX ? end : MARK_ANCHOR_MAX;
    return (struct known_place){.ino = p->is.ino,
                                .offset = f->at + end,
                                .head = p->head,
                                .anchor = fingerprint_of(slice_of(f->buf + end - n, n))};
}

int follow_prime(struct follow *f)
{
    const struct piece *p = &f->pieces[0];
    size_t n = p->offset < MARK_ANCHOR_MAX ? (size_t)p->offset : MARK_ANCHOR_MAX;
    f->at = p->offset - n;
    f->n = f->used = n;
    f->looked = f->given = 0;
    f->grew_ns = f->mono_ns;
    f->has_changes = true;
    ssize_t r = n ? pread(p->fd, f->buf, n, (off_t)f->at) : 0;
    if (r < 0)
        return -errno;
    if ((size_t)r < n)
        return -EAGAIN; /* truncated this moment */
    if (f->notify_fd >= 0) {
        char path[40];
        if (f->file_watch >= 0)
            (void)inotify_rm_watch(f->notify_fd, f->file_watch); /* gone already if the file is */
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", p->fd);
        f->file_watch = inotify_add_watch(f->notify_fd, path, IN_MODIFY); /* -1: the period must do */
    }
    return 0;
}

static int find_folder(struct follow *f, struct diag *why)
{
    const char *path = f->options.path, *slash = strrchr(path, '/');
    struct found is;
    f->name = slash ? slash + 1 : path;
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    f->dir_path = mem_alloc(n + 1);
    memcpy(f->dir_path, slash ? path : ".", n);
    if (!*f->name || strlen(f->name) > NAME_MAX || follow_stat(AT_FDCWD, path, 0, &is) == -EINVAL)
        return diag_set(why, -EINVAL, 0, "%s: no regular file; name the log file itself", path);
    return 0;
}

static void take_position(struct follow *f, struct slice position)
{
    size_t used;
    if (position.n == 0)
        return;
    if (follow_mark_decode(position, &f->mark, &used) == 0)
        f->has_mark = true;
    else
        f->gap = (struct gap){.reason = "the kept position can't be read"};
}

int follow_open(const struct follow_options *o, struct slice position, struct follow **out, struct diag *why)
{
    struct follow *f = mem_alloc(sizeof *f);
    f->options = *o;
    f->file_watch = f->dir_watch = f->notify_fd = -1;
    int r = find_folder(f, why);
    if (r < 0) {
        follow_close(f);
        return r;
    }
    f->buf = mem_alloc(BUFFER);
    take_position(f, position);
    f->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC); /* -1: the period must do */
    *out = f;
    return 0;
}

void follow_close(struct follow *f)
{
    if (!f)
        return;
    while (f->n_pieces > 0)
        piece_close(&f->pieces[--f->n_pieces]);
    if (f->notify_fd >= 0)
        (void)close(f->notify_fd); /* nothing to lose */
    follow_scan_fini(&f->scan);
    mem_free(f->buf);
    mem_free(f->dir_path);
    mem_free(f);
}

/* What changed does not matter: everything is looked at. */
static void drain_notify(struct follow *f)
{
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n;
    while ((n = read(f->notify_fd, events, sizeof events)) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(events + at);
            if ((e->mask & (IN_IGNORED | IN_MOVE_SELF)) && e->wd == f->dir_watch)
                f->dir_watch = -1;
            at += (ssize_t)(sizeof *e + e->len);
        }
}

void follow_begin(struct follow *f, int64_t mono_ns, int64_t utc_ns)
{
    f->mono_ns = mono_ns;
    f->utc_ns = utc_ns;
    f->has_looked = false;
    if (f->notify_fd < 0)
        return;
    drain_notify(f);
    if (f->dir_watch < 0)
        f->dir_watch =
            inotify_add_watch(f->notify_fd, f->dir_path, IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF | IN_ONLYDIR);
}

/* At least FOLLOW_LINE_MAX bytes of room, with the anchor kept. */
static void make_room(struct follow *f)
{
    if (BUFFER - f->n >= FOLLOW_LINE_MAX)
        return;
    size_t from = f->used > MARK_ANCHOR_MAX ? f->used - MARK_ANCHOR_MAX : 0;
    memmove(f->buf, f->buf + from, f->n - from);
    f->at += from;
    f->n -= from;
    f->used -= from;
}

/* Are the file's first bytes still those that they were? Takes more of them where there are more. */
static int check_head(struct piece *p)
{
    char bytes[MARK_HEAD_MAX];
    ssize_t n = pread(p->fd, bytes, sizeof bytes, 0);
    if (n < 0)
        return -errno;
    if (n < p->head.len || fingerprint_of(slice_of(bytes, p->head.len)).hash != p->head.hash)
        return FILL_CHANGED;
    if (n > p->head.len)
        p->head = fingerprint_of(slice_of(bytes, (size_t)n));
    return 0;
}

static int fill(struct follow *f)
{
    struct piece *p = &f->pieces[0];
    struct found now = p->is;
    char again[MARK_ANCHOR_MAX];
    make_room(f);
    uint64_t end = f->at + f->n;
    int r = follow_stat(p->fd, "", AT_EMPTY_PATH, &now);
    if (r < 0)
        return r;
    if (now.size < end)
        return FILL_CHANGED;
    if (now.size == end && now.changed_ns == p->is.changed_ns && !f->has_changes)
        return FILL_END;
    size_t n_again = f->n < sizeof again ? f->n : sizeof again;
    struct iovec to[] = {{again, n_again}, {f->buf + f->n, BUFFER - f->n}};
    ssize_t n = preadv(p->fd, to, 2, (off_t)(end - n_again));
    if (n < 0)
        return errno == EINTR ? FILL_MORE : -errno;
    if ((size_t)n < n_again || memcmp(again, f->buf + f->n - n_again, n_again) != 0)
        return FILL_CHANGED;
    bool is_first = end == 0 && p->head.len == 0;
    if (is_first)
        p->head = fingerprint_of(slice_of(f->buf, (size_t)n < MARK_HEAD_MAX ? (size_t)n : MARK_HEAD_MAX));
    r = check_head(p);
    if (r != 0)
        return r;
    is_first &= n > 0 || now.changed_ns != p->is.changed_ns;
    p->is = now;
    f->n += (size_t)n - n_again;
    f->has_changes = (size_t)n > n_again;
    return is_first ? FILL_FIRST : f->has_changes ? FILL_MORE : FILL_END;
}

/* Zeros at the start of a line; those of a hole that goes on behind the buffer are not even read. */
static void pass_zeros(struct follow *f)
{
    while (f->used < f->n && f->buf[f->used] == '\0')
        f->used++;
    if (f->used < f->n || f->used == 0 || f->buf[f->used - 1] != '\0')
        return;
    uint64_t end = f->at + f->n;
    off_t data = lseek(f->pieces[0].fd, (off_t)end, SEEK_DATA);
    if (data <= (off_t)end)
        return;
    f->at = (uint64_t)data;
    f->n = f->used = 0;
}

static void give(struct follow *f, struct follow_item *item, size_t length, size_t with_end, bool is_cut)
{
    const char *start = f->buf + f->used;
    size_t n = length < FOLLOW_LINE_MAX ? length : FOLLOW_LINE_MAX;
    if (!is_cut && n == length && n > 0 && start[n - 1] == '\r')
        n--;
    *item = (struct follow_item){.kind = FOLLOW_LINE, .line = slice_of(start, n), .is_cut = is_cut};
    f->used += with_end;
    f->given = with_end;
    f->looked = 0;
    f->pieces[0].offset = f->at + f->used;
    f->pieces[0].line++;
    f->stats.lines++;
    f->stats.bytes += with_end;
    f->stats.cut += item->is_cut;
}

/* The next line of the buffer. */
static bool take_line(struct follow *f, struct follow_item *item)
{
    struct piece *p = &f->pieces[0];
    for (;;) {
        if (!p->is_skipping)
            pass_zeros(f);
        size_t have = f->n - f->used;
        const char *start = f->buf + f->used;
        const char *lf = memchr(start + f->looked, '\n', have - f->looked);
        size_t length = lf ? (size_t)(lf - start) : have;
        if (p->is_skipping) {
            f->used += length + (lf != NULL);
            f->stats.bytes += length + (lf != NULL);
            p->offset = f->at + f->used;
            f->looked = 0;
            if (!lf)
                return false;
            p->is_skipping = false;
            continue;
        }
        if (lf) {
            give(f, item, length, length + 1, length > FOLLOW_LINE_MAX);
            return true;
        }
        f->looked = have;
        if (have <= FOLLOW_LINE_MAX)
            return false;
        give(f, item, FOLLOW_LINE_MAX, FOLLOW_LINE_MAX, true);
        p->is_skipping = true; /* the rest of it, which may not be there yet */
        return true;
    }
}

/* What is left of a piece that ends without a line end. */
static bool take_rest(struct follow *f, struct follow_item *item)
{
    size_t have = f->n - f->used;
    if (have == 0 || f->pieces[0].is_skipping)
        return false;
    give(f, item, have, have, false);
    return true;
}

static bool take_gap(struct follow *f, struct follow_item *item)
{
    struct gap *g = &f->pieces[0].gap;
    if (!g->reason)
        return false;
    *item = (struct follow_item){
        .kind = FOLLOW_GAP, .reason = g->reason, .lost = g->lost, .is_lost_known = g->is_known};
    *g = (struct gap){0};
    f->given = 0;
    f->stats.gaps++;
    return true;
}

/* Is the path the last piece still? */
static int look(struct follow *f, struct diag *why)
{
    struct found now = {0};
    int r = follow_stat(AT_FDCWD, f->options.path, 0, &now);
    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    if (r < 0)
        return diag_set(why, r, 0, "%s: %s", f->options.path,
                        r == -EINVAL ? "no regular file now" : err_text(r));
    for (size_t i = 0; i < f->n_pieces; i++)
        if (f->pieces[i].is.ino == now.ino && f->pieces[i].is.dev == now.dev)
            return 0;
    return f->n_pieces < FOLLOW_PIECES_MAX ? chain_extend(f, why) : 0;
}

static bool is_quiet(const struct follow *f)
{
    const struct piece *p = &f->pieces[0];
    return p->is_copy || f->mono_ns - f->grew_ns >= f->options.grace_ns ||
           f->utc_ns - p->is.changed_ns >= f->options.grace_ns;
}

/* pieces[0] is read: on to the next. */
static int finish_piece(struct follow *f)
{
    struct known_place end = follow_place(f, 0);
    const struct piece *p = &f->pieces[0];
    follow_mark_done(&f->mark, &end);
    if (!p->is_late)
        f->before_changed_ns = p->is.changed_ns;
    piece_close(&f->pieces[0]);
    memmove(&f->pieces[0], &f->pieces[1], --f->n_pieces * sizeof f->pieces[0]);
    f->stats.rotations++;
    return follow_prime(f);
}

/* No file yet: from now on what comes is read from its start. */
static void note_waiting(struct follow *f)
{
    if (f->has_mark)
        return;
    f->mark.flags = MARK_BETWEEN;
    f->mark.changed_ns = f->utc_ns;
    f->has_mark = true;
}

/* At the end of pieces[0]. 0: go on reading; 1: *item is set; E_NODATA: that was all for now. */
static int at_end(struct follow *f, struct follow_item *item, struct diag *why)
{
    if (!f->has_looked) {
        f->has_looked = true;
        return look(f, why); /* its end must be seen again afterwards */
    }
    if (f->n_pieces == 1 || !is_quiet(f))
        return E_NODATA;
    if (take_rest(f, item))
        return 1;
    int r = finish_piece(f);
    return r == -EAGAIN ? 0 : r; /* the next read finds out */
}

static int at_change(struct follow *f, struct follow_item *item, struct diag *why)
{
    int r = chain_truncated(f, why);
    if (r == 1)
        return take_rest(f, item) ? 1 : 0;
    if (r < 0)
        return r == -EAGAIN ? E_NODATA : r;
    f->stats.truncations++;
    return 0;
}

/* What was read goes back if nobody can say yet whether it comes next. */
static int at_first(struct follow *f, struct diag *why)
{
    int r = chain_first(f, why);
    if (r != -EAGAIN)
        return r < 0 ? r : 0;
    f->pieces[0].head = (struct fingerprint){0};
    f->n = f->used = f->looked = 0;
    f->has_changes = true;
    return E_NODATA;
}

int follow_next(struct follow *f, struct follow_item *item, struct diag *why)
{
    f->given = 0;
    for (;;) {
        int r = 0;
        if (f->n_pieces == 0) {
            if (f->has_looked)
                return E_NODATA;
            f->has_looked = true;
            r = chain_locate(f, why);
            if (r == E_NODATA)
                note_waiting(f);
            if (r < 0)
                return r;
        }
        if (take_gap(f, item) || take_line(f, item))
            return 0;
        r = fill(f);
        if (r == FILL_MORE) {
            f->grew_ns = f->mono_ns;
            continue;
        }
        if (r < 0)
            r = diag_set(why, r, 0, "%s: %s", f->options.path, err_text(r));
        else if (r == FILL_FIRST)
            r = at_first(f, why);
        else
            r = r == FILL_END ? at_end(f, item, why) : at_change(f, item, why);
        if (r != 0)
            return r == 1 ? 0 : r;
    }
}

void follow_position(const struct follow *f, enum follow_when when, struct strbuf *out)
{
    struct follow_mark m = f->mark;
    if (f->n_pieces > 0) {
        const struct piece *p = &f->pieces[0];
        bool is_before = when == FOLLOW_BEFORE && f->given > 0;
        m.at = follow_place(f, is_before ? f->given : 0);
        bool is_between = m.at.offset == 0;
        m.dev = p->is.dev;
        m.line = p->line - is_before;
        m.changed_ns = is_between ? f->before_changed_ns : p->is.changed_ns;
        m.flags = is_between ? MARK_BETWEEN : p->is_skipping && !is_before ? MARK_SKIPPING : 0;
    }
    follow_mark_encode(&m, out);
}

int follow_wait_fd(const struct follow *f)
{
    return f->notify_fd;
}

bool follow_is_waiting(const struct follow *f)
{
    return f->n_pieces == 0;
}

uint64_t follow_backlog(const struct follow *f)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < f->n_pieces; i++)
        if (f->pieces[i].is.size > f->pieces[i].offset)
            sum += f->pieces[i].is.size - f->pieces[i].offset;
    return sum;
}

const struct follow_stats *follow_stats(const struct follow *f)
{
    return &f->stats;
}
