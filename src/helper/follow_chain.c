/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are the log, in order: at start, after rotation, after truncation.
 *
 * The place reached is looked for by inode and content, then by content alone (copytruncate and restored
 * files). What came after it is each rotated file that follows it in order (follow_scan_order) and is not
 * known: not one of the pieces, not a copy of one, not a file read to its end before. The file that has the
 * log's name comes last whatever its age: with copytruncate it is the oldest of all.
 *
 * Order is by the last write. Births would give the same where files are renamed, but not where they are
 * copied and truncated: then the log is older than its copies. They would be better only for a writer that
 * keeps a file open through two rotations.
 *
 * Packed files are not unpacked. Their last write is that of the file they were made from; what they held is
 * a gap. */
#include "helper/follow_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What a file must come after. */
struct reference {
    struct found file;
    bool is_found;      /* file is in the folder, or an open piece */
    bool has_name;      /* file.name is where it is now */
    uint64_t lost_from; /* !is_found: the offset of the place that is lost, which may be in a packed file */
};

void piece_close(struct piece *p)
{
    if (p->fd >= 0)
        (void)close(p->fd); /* opened for reading */
    p->fd = -1;
}

static bool has_fingerprint(int fd, uint64_t end, struct fingerprint want, size_t max)
{
    char bytes[MARK_HEAD_MAX];
    if (want.len == 0)
        return true;
    if (want.len > max || want.len > end)
        return false;
    ssize_t n = pread(fd, bytes, want.len, (off_t)(end - want.len));
    return n == want.len && fingerprint_of(slice_of(bytes, (size_t)n)).hash == want.hash;
}

/* Is that place in this file? An empty head or anchor says nothing. */
static bool has_place(int fd, uint64_t size, const struct known_place *k)
{
    return size >= k->offset && has_fingerprint(fd, k->head.len, k->head, MARK_HEAD_MAX) &&
           has_fingerprint(fd, k->offset, k->anchor, MARK_ANCHOR_MAX);
}

/* Opens a file that was found. -EAGAIN: it is another one by now. */
static int open_found(int dir, const struct found *f, struct piece *out)
{
    struct piece p = {.is = *f, .fd = -1};
    char head[MARK_HEAD_MAX];
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (f->kind == FOUND_LOG ? 0 : O_NOFOLLOW);
    *out = p;
    p.fd = openat(dir, f->name, flags);
    if (p.fd < 0)
        return errno == ENOENT || errno == ELOOP ? -EAGAIN : -errno;
    int r = follow_stat(p.fd, "", AT_EMPTY_PATH, &p.is);
    if (r == 0 && (p.is.ino != f->ino || p.is.dev != f->dev))
        r = -EAGAIN;
    ssize_t n = r < 0 ? 0 : pread(p.fd, head, sizeof head, 0);
    if (n < 0)
        r = -errno;
    if (r < 0) {
        piece_close(&p);
        return r;
    }
    p.head = fingerprint_of(slice_of(head, (size_t)n));
    *out = p;
    return 0;
}

static const struct found *find_kind(const struct follow_scan *s, enum found_kind kind)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].kind == kind)
            return &s->v[i];
    return NULL;
}

static const struct found *find_ino(const struct follow_scan *s, uint64_t dev, uint64_t ino)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].ino == ino && s->v[i].dev == dev)
            return &s->v[i];
    return NULL;
}

/* The file with that place: of that inode if by_ino, else of any other. 0, E_NODATA, -EAGAIN, -errno. Nothing
 * but the inode speaks for a file that was empty: it must be on the same device, too. */
static int find_place(struct follow *f, int dir, const struct known_place *k, uint64_t dev, bool by_ino,
                      struct piece *out)
{
    bool is_plain = k->head.len == 0 && k->anchor.len == 0;
    for (size_t i = 0; i < f->scan.n; i++) {
        const struct found *c = &f->scan.v[i];
        if (c->kind == FOUND_PACKED || c->size < k->offset || (c->ino == k->ino) != by_ino)
            continue;
        if (is_plain && (!by_ino || c->dev != dev))
            continue;
        struct piece p;
        int r = open_found(dir, c, &p);
        if (r == -EACCES)
            continue;
        if (r < 0)
            return r;
        if (has_place(p.fd, p.is.size, k)) {
            p.offset = k->offset;
            p.is_copy = !by_ino;
            *out = p;
            return 0;
        }
        piece_close(&p);
    }
    return E_NODATA;
}

/* Has the file the content of this piece, as far as it goes? A copy that someone made; its end must be the
 * piece's bytes at that place, since logs may start alike. */
static bool is_copy_of(const struct piece *c, const struct piece *p)
{
    char a[MARK_ANCHOR_MAX], b[MARK_ANCHOR_MAX];
    if (c->head.len == 0 || c->is.size > p->is.size ||
        !has_fingerprint(p->fd, c->head.len, c->head, MARK_HEAD_MAX))
        return false;
    size_t n = c->is.size < sizeof a ? (size_t)c->is.size : sizeof a;
    off_t at = (off_t)(c->is.size - n);
    return pread(c->fd, a, n, at) == (ssize_t)n && pread(p->fd, b, n, at) == (ssize_t)n &&
           memcmp(a, b, n) == 0;
}

/* Has it been read, or is it about to be? A file read to its end that has grown since goes on there. A log
 * that has as yet only a beginning that others have, too, is no copy. */
static bool is_known(const struct follow *f, struct piece *c)
{
    bool is_log = c->is.kind == FOUND_LOG;
    for (size_t i = 0; i < f->n_pieces; i++) {
        const struct piece *p = &f->pieces[i];
        if ((c->is.ino == p->is.ino && c->is.dev == p->is.dev) || (!is_log && is_copy_of(c, p)))
            return true;
    }
    for (size_t i = f->mark.n_done; i-- > 0;) {
        const struct known_place *k = &f->mark.done[i];
        if (k->anchor.len == 0 || !has_place(c->fd, c->is.size, k))
            continue;
        c->offset = k->offset;
        c->is_late = true;
        return c->is.size == k->offset && !is_log;
    }
    return false;
}

static bool is_after(const struct found *c, const struct reference *ref)
{
    const struct found *r = &ref->file;
    if (c->kind == FOUND_PACKED)
        return ref->is_found ? c->changed_ns > r->changed_ns : c->changed_ns >= r->changed_ns;
    if (c->changed_ns != r->changed_ns)
        return c->changed_ns > r->changed_ns;
    /* Written in the same instant it may be older: then it was read, and is known. */
    return !ref->has_name || follow_scan_order(c, r) > 0;
}

/* Is the file that it was made from still there, too? It is being packed. */
static bool has_plain_twin(const struct follow_scan *s, const struct found *packed)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->v[i].name);
        if (s->v[i].kind != FOUND_PACKED && strncmp(packed->name, s->v[i].name, n) == 0 &&
            packed->name[n] == '.' && !strchr(packed->name + n + 1, '.'))
            return true;
    }
    return false;
}

static void gap_add(struct gap *g, const char *reason, bool is_known, uint64_t lost)
{
    g->is_known = is_known && (g->is_known || !g->reason);
    g->lost += lost;
    g->reason = reason;
}

static void append(struct follow *f, struct piece *p)
{
    p->gap = f->gap;
    f->gap = (struct gap){0};
    f->pieces[f->n_pieces++] = *p;
}

/* skip: bytes of the packed file that were read before it was packed. */
static void note_packed(struct follow *f, int dir, const struct found *c, uint64_t skip)
{
    uint64_t size;
    bool is_known = follow_scan_unpacked(dir, c, &size);
    if (is_known && size <= skip)
        return; /* nothing of it is missing */
    gap_add(&f->gap, "a rotated file was compressed before it was read", is_known,
            is_known ? size - skip : 0);
}

static int by_order(const void *a, const void *b)
{
    return follow_scan_order(a, b);
}

/* All of the file counts as read. */
static int mark_done(struct follow_mark *m, const struct piece *p)
{
    char bytes[MARK_ANCHOR_MAX];
    size_t n = p->is.size < sizeof bytes ? (size_t)p->is.size : sizeof bytes;
    ssize_t r = pread(p->fd, bytes, n, (off_t)(p->is.size - n));
    if (r != (ssize_t)n)
        return r < 0 ? -errno : -EAGAIN;
    follow_mark_done(m, &(struct known_place){.ino = p->is.ino,
                                              .offset = p->is.size,
                                              .head = p->head,
                                              .anchor = fingerprint_of(slice_of(bytes, n))});
    return 0;
}

/* May it be a file that was read to its end and has grown since? */
static bool may_be_late(const struct follow *f, const struct found *c)
{
    for (size_t i = 0; i < f->mark.n_done; i++)
        if (f->mark.done[i].ino == c->ino && f->mark.done[i].offset < c->size)
            return true;
    return false;
}

/* Appends the file unless it is known. is_late: only if it goes on where it was left. log: the log's own
 * file, or NULL; a copy of that is being made, and the log will be truncated next. */
static int append_one(struct follow *f, int dir, const struct found *c, bool is_late, const struct piece *log)
{
    struct piece p;
    int r = open_found(dir, c, &p);
    if (r < 0)
        return r == -EACCES && c->kind != FOUND_LOG ? 0 : r;
    bool is_copy = log && (p.is.size == 0 || is_copy_of(&p, log)); /* empty: it has only been begun */
    if (is_copy || is_known(f, &p) || (is_late && !p.is_late)) {
        piece_close(&p);
        return 0;
    }
    append(f, &p);
    return 0;
}

/* The place reached is in no file that can be read. The oldest packed file after it is what it was in, if
 * there is one; else nobody knows what came after it. Sorted scan. Returns what was read of the packed file.
 */
static uint64_t note_lost(struct follow *f, const struct reference *ref, const char *reason)
{
    for (size_t i = 0; i < f->scan.n; i++) {
        const struct found *c = &f->scan.v[i];
        if (c->kind == FOUND_PACKED && is_after(c, ref) && !has_plain_twin(&f->scan, c))
            return ref->lost_from;
    }
    gap_add(&f->gap, reason, false, 0);
    return 0;
}

static int append_each(struct follow *f, int dir, const struct reference *ref, uint64_t skip,
                       const struct piece *log)
{
    const struct follow_scan *s = &f->scan;
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->n && f->n_pieces < FOLLOW_PIECES_MAX; i++) {
        const struct found *c = &s->v[i];
        bool is_next = is_after(c, ref);
        if (c->kind == FOUND_ROTATED && (is_next || may_be_late(f, c))) {
            r = append_one(f, dir, c, !is_next, log);
        } else if (c->kind == FOUND_PACKED && is_next && !has_plain_twin(s, c)) {
            note_packed(f, dir, c, skip);
            skip = 0;
        }
    }
    return r;
}

/* Appends the rotated files after ref, and those with late lines. reason: not NULL, the place reached is lost
 * for that reason. Sorts the scan. */
static int append_rotated(struct follow *f, int dir, const struct reference *ref, const char *reason)
{
    struct piece log = {.fd = -1};
    qsort(f->scan.v, f->scan.n, sizeof *f->scan.v, by_order);
    const struct found *now = find_kind(&f->scan, FOUND_LOG);
    int r = now ? open_found(dir, now, &log) : 0;
    f->passed_ino = now ? log.is.ino : 0;
    f->passed_head = log.head;
    if (r == 0)
        r = append_each(f, dir, ref, reason ? note_lost(f, ref, reason) : 0, now ? &log : NULL);
    piece_close(&log);
    return r;
}

/* Behind append_rotated. That has passed over a copy of the log if one was being made; if the log was
 * truncated since, it is to be read as the file that it was then: its first read finds that it changed, and
 * looks for the copy. */
static int append_log(struct follow *f, int dir)
{
    const struct found *log = find_kind(&f->scan, FOUND_LOG);
    size_t had = f->n_pieces;
    int r = log && had < FOLLOW_PIECES_MAX ? append_one(f, dir, log, false, NULL) : 0;
    if (r < 0 || f->n_pieces == had)
        return r;
    struct piece *p = &f->pieces[had];
    if (p->is.ino == f->passed_ino && p->offset == 0)
        p->head = f->passed_head;
    return 0;
}

/* -EAGAIN: files came or went since the scan, perhaps a copy of the log, which was truncated before it was opened. */
static int confirm_scan(const struct follow *f, int dir)
{
    struct follow_scan again = {0};
    int r = follow_scan_run(&again, dir, f->name, f->scan.all);
    if (r == 0 && again.sum != f->scan.sum)
        r = -EAGAIN;
    follow_scan_fini(&again);
    return r;
}

static void drop_pieces(struct follow *f, size_t from)
{
    while (f->n_pieces > from)
        piece_close(&f->pieces[--f->n_pieces]);
}

static int failed(const struct follow *f, int r, struct diag *why)
{
    return diag_set(why, r, 0, "%s: %s", f->options.path,
                    r == E_LIMIT ? "its folder has too many files" : err_text(r));
}

static int open_dir(const struct follow *f)
{
    int dir = open(f->dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 ? dir : -errno;
}

/* A file that is there before anything was read: at its end, or where the next line starts if it ends within
 * one. */
static int start_at_end(struct piece *p)
{
    char last;
    p->offset = p->is.size;
    if (p->is.size == 0)
        return 0;
    ssize_t n = pread(p->fd, &last, 1, (off_t)p->is.size - 1);
    p->is_skipping = n == 1 && last != '\n';
    return n < 0 ? -errno : 0;
}

/* Files that were the log before anyone looked count as read: only what is still written to them is news. */
static int pass_rotated(struct follow *f, int dir)
{
    struct follow_mark *m = &f->mark;
    qsort(f->scan.v, f->scan.n, sizeof *f->scan.v, by_order);
    for (size_t i = 0; i < f->scan.n; i++) {
        struct piece p;
        const struct found *c = &f->scan.v[i];
        if (c->kind != FOUND_ROTATED || c->size == 0)
            continue;
        int r = open_found(dir, c, &p);
        if (r == 0)
            r = mark_done(m, &p);
        piece_close(&p);
        if (r < 0 && r != -EACCES)
            return r;
    }
    return 0;
}

static int64_t newest_rotated(const struct follow *f)
{
    int64_t newest = 0;
    for (size_t i = 0; i < f->scan.n; i++)
        if (f->scan.v[i].kind == FOUND_ROTATED && f->scan.v[i].changed_ns > newest)
            newest = f->scan.v[i].changed_ns;
    return newest;
}

/* Nothing is known of the log. */
static int locate_first(struct follow *f, int dir)
{
    if (!find_kind(&f->scan, FOUND_LOG))
        return E_NODATA;
    struct piece p;
    int r = pass_rotated(f, dir);
    if (r == 0)
        r = open_found(dir, find_kind(&f->scan, FOUND_LOG), &p);
    if (r < 0)
        return r;
    f->before_changed_ns = newest_rotated(f);
    r = f->options.from_start ? 0 : start_at_end(&p);
    append(f, &p); /* closed with the others on failure */
    return r;
}

static struct reference reference_before(const struct follow *f)
{
    return (struct reference){.file = {.changed_ns = f->before_changed_ns}};
}

/* The place is in no file. */
static int locate_lost(struct follow *f, int dir)
{
    const struct found *log = find_kind(&f->scan, FOUND_LOG);
    if (!log)
        return E_NODATA; /* rotation is under way: look again later */
    f->before_changed_ns = f->mark.changed_ns;
    struct reference ref = reference_before(f);
    ref.lost_from = f->mark.at.offset;
    const char *reason = log->ino == f->mark.at.ino
                             ? "the file was truncated and there is no copy of what it held"
                             : "the file that was read last is gone";
    int r = append_rotated(f, dir, &ref, reason);
    return r < 0 ? r : append_log(f, dir);
}

/* Is the file that was to come next among the pieces, with the start that it had? */
static bool has_next(const struct follow *f)
{
    const struct known_place *k = &f->mark.at;
    for (size_t i = 0; i < f->n_pieces; i++)
        if (k->head.len ? has_place(f->pieces[i].fd, f->pieces[i].is.size, k) : f->pieces[i].is.ino == k->ino)
            return true;
    return k->ino == 0 || f->n_pieces == FOLLOW_PIECES_MAX; /* or it comes later */
}

/* Nothing was read of what comes next: it is all that came after what was read before it. */
static int locate_between(struct follow *f, int dir)
{
    if (!find_kind(&f->scan, FOUND_LOG))
        return E_NODATA; /* rotation is under way: look again later */
    f->before_changed_ns = f->mark.changed_ns;
    struct reference ref = reference_before(f);
    ref.is_found = f->mark.at.ino != 0;
    int r = append_rotated(f, dir, &ref, NULL);
    if (r == 0)
        r = append_log(f, dir);
    struct gap *first = f->n_pieces ? &f->pieces[0].gap : &f->gap;
    if (r == 0 && !first->reason && !has_next(f))
        gap_add(first, "a rotated file is gone that was not read", false, 0);
    return r;
}

/* Makes p, which holds the place reached, the first piece, and appends what came after it. */
static int locate_from(struct follow *f, int dir, struct piece *p)
{
    p->line = f->mark.line;
    p->is_skipping = f->mark.flags & MARK_SKIPPING;
    struct reference ref = {.file = p->is, .is_found = true, .has_name = true};
    append(f, p);
    if (ref.file.kind == FOUND_LOG)
        return 0;
    int r = append_rotated(f, dir, &ref, NULL);
    if (r == 0)
        r = append_log(f, dir);
    return r < 0 ? r : confirm_scan(f, dir);
}

/* By inode, then by content alone. */
static int locate_again(struct follow *f, int dir)
{
    struct piece p;
    int r = find_place(f, dir, &f->mark.at, f->mark.dev, true, &p);
    if (r == E_NODATA)
        r = find_place(f, dir, &f->mark.at, f->mark.dev, false, &p);
    return r < 0 ? r : locate_from(f, dir, &p);
}

static int locate_in(struct follow *f, int dir)
{
    int r = follow_scan_run(&f->scan, dir, f->name, false);
    if (r < 0)
        return r;
    if (!f->has_mark)
        return locate_first(f, dir);
    if (f->mark.flags & MARK_BETWEEN)
        return locate_between(f, dir);
    r = locate_again(f, dir);
    if (r != E_NODATA)
        return r;
    r = follow_scan_run(&f->scan, dir, f->name, true); /* under any name */
    if (r == 0)
        r = locate_again(f, dir);
    else if (r == E_LIMIT) /* too many to look at: only those of the log's name */
        r = follow_scan_run(&f->scan, dir, f->name, false) < 0 ? -EAGAIN : E_NODATA;
    return r == E_NODATA ? locate_lost(f, dir) : r;
}

int chain_locate(struct follow *f, struct diag *why)
{
    struct gap gap = f->gap;
    int dir = open_dir(f);
    if (dir == -ENOENT || dir == -ENOTDIR)
        return E_NODATA;
    if (dir < 0)
        return failed(f, dir, why);
    int r = locate_in(f, dir);
    (void)close(dir); /* opened for reading */
    if (r == 0 && f->n_pieces > 0)
        r = follow_prime(f);
    if (r < 0) {
        drop_pieces(f, 0);
        f->gap = gap;
    }
    if (r == -EAGAIN || r == E_NODATA || (r == 0 && f->n_pieces == 0))
        return E_NODATA; /* files come and go: look again in the next round */
    return r < 0 ? failed(f, r, why) : 0;
}

/* What the scan says of the pieces: the log may have been renamed since it was opened. */
static void refresh(struct follow *f)
{
    for (size_t i = 0; i < f->n_pieces; i++) {
        struct piece *p = &f->pieces[i];
        const struct found *now = find_ino(&f->scan, p->is.dev, p->is.ino);
        p->is.kind = now ? now->kind : FOUND_OTHER;
        if (now)
            memcpy(p->is.name, now->name, sizeof now->name);
        if (now && i > 0)
            p->is.changed_ns = now->changed_ns;
    }
}

static int extend_in(struct follow *f, int dir)
{
    const struct piece *last = &f->pieces[f->n_pieces - 1];
    struct reference ref = {.file = last->is, .is_found = true};
    int r = follow_scan_run(&f->scan, dir, f->name, false);
    if (r == 0)
        r = follow_stat(last->fd, "", AT_EMPTY_PATH, &ref.file);
    if (r < 0)
        return r;
    refresh(f);
    const struct found *now = find_ino(&f->scan, ref.file.dev, ref.file.ino);
    if (now)
        ref.file = *now;
    ref.has_name = now != NULL;
    r = append_rotated(f, dir, &ref, NULL);
    if (r == 0)
        r = append_log(f, dir);
    return r < 0 ? r : confirm_scan(f, dir);
}

int chain_extend(struct follow *f, struct diag *why)
{
    size_t had = f->n_pieces;
    struct gap gap = f->gap;
    int dir = open_dir(f);
    if (dir == -ENOENT || dir == -ENOTDIR)
        return 0;
    if (dir < 0)
        return failed(f, dir, why);
    int r = extend_in(f, dir);
    (void)close(dir); /* opened for reading */
    if (r == 0)
        return 0;
    drop_pieces(f, had);
    f->gap = gap;
    return r == -EAGAIN ? 0 : failed(f, r, why);
}

/* At the front or before the first piece that was written later; the log's own file stays last. */
static void insert(struct follow *f, const struct piece *p, bool at_front)
{
    size_t at = 0;
    if (f->n_pieces == FOLLOW_PIECES_MAX) /* found again when the others have been read */
        piece_close(&f->pieces[--f->n_pieces]);
    while (!at_front && at < f->n_pieces && f->pieces[at].is.kind != FOUND_LOG &&
           follow_scan_order(&f->pieces[at].is, &p->is) < 0)
        at++;
    memmove(&f->pieces[at + 1], &f->pieces[at], (f->n_pieces - at) * sizeof f->pieces[0]);
    f->pieces[at] = *p;
    f->n_pieces++;
}

/* Sorts in what came after ref and is not known. A gap comes before all of it. reason as in append_rotated.
 */
static int merge(struct follow *f, int dir, const struct reference *ref, const char *reason)
{
    struct piece found[FOLLOW_PIECES_MAX];
    struct gap gap = f->gap;
    size_t had = f->n_pieces;
    refresh(f);
    int r = append_rotated(f, dir, ref, reason);
    if (r < 0) {
        drop_pieces(f, had);
        f->gap = gap;
        return r;
    }
    size_t n = f->n_pieces - had;
    memcpy(found, &f->pieces[had], n * sizeof *found);
    f->n_pieces = had;
    gap = f->gap;
    f->gap = (struct gap){0};
    for (size_t i = 0; i < n; i++) {
        if (found[i].gap.reason)
            gap_add(&gap, found[i].gap.reason, found[i].gap.is_known, found[i].gap.lost);
        found[i].gap = (struct gap){0};
        insert(f, &found[i], false);
    }
    if (gap.reason)
        gap_add(&f->pieces[0].gap, gap.reason, gap.is_known, gap.lost);
    return 0;
}

/* 1: pieces[0] is another now. */
static int first_in(struct follow *f, int dir)
{
    struct reference ref = reference_before(f);
    uint64_t front = f->pieces[0].is.ino;
    ref.is_found = true;
    int r = follow_scan_run(&f->scan, dir, f->name, false);
    if (r == 0)
        r = merge(f, dir, &ref, NULL);
    return r < 0 ? r : f->pieces[0].is.ino != front;
}

int chain_first(struct follow *f, struct diag *why)
{
    int dir = open_dir(f);
    if (dir == -ENOENT || dir == -ENOTDIR)
        return 0;
    if (dir < 0)
        return failed(f, dir, why);
    int r = first_in(f, dir);
    (void)close(dir); /* opened for reading */
    if (r == 1) {
        r = follow_prime(f);
        return r < 0 && r != -EAGAIN ? failed(f, r, why) : 1;
    }
    return r < 0 && r != -EAGAIN ? failed(f, r, why) : r;
}

/* A copy of what pieces[0] held, made before it was truncated; under any name. */
static int find_copy(struct follow *f, int dir, struct piece *out)
{
    struct known_place place = follow_place(f, 0);
    for (int all = 0; all <= 1; all++) {
        int r = follow_scan_run(&f->scan, dir, f->name, all);
        if (r == 0)
            r = find_place(f, dir, &place, f->pieces[0].is.dev, false, out);
        if (r == E_LIMIT) /* too many to look at: only those of the log's name */
            r = follow_scan_run(&f->scan, dir, f->name, false) < 0 ? -EAGAIN : E_NODATA;
        if (r != E_NODATA)
            return r;
    }
    return E_NODATA;
}

/* It is about to be inserted elsewhere. */
static void forget_piece(struct follow *f, uint64_t ino)
{
    for (size_t i = 1; i < f->n_pieces; i++) {
        if (f->pieces[i].is.ino != ino)
            continue;
        piece_close(&f->pieces[i]);
        memmove(&f->pieces[i], &f->pieces[i + 1], (--f->n_pieces - i) * sizeof f->pieces[0]);
        return;
    }
}

/* pieces[0] is read from its start, after the copy of what it held and later copies. copy is NULL when there
 * is none. On failure everything is as it was, for another try. */
static int start_anew(struct follow *f, int dir, struct piece *copy)
{
    struct piece *p = &f->pieces[0], old = *p;
    struct reference ref = {
        .file = copy ? copy->is : old.is, .is_found = copy, .has_name = copy, .lost_from = old.offset};
    int r = follow_stat(p->fd, "", AT_EMPTY_PATH, &p->is);
    if (r < 0)
        return r;
    p->offset = p->line = 0;
    p->is_skipping = p->is_copy = p->is_late = false;
    p->head = (struct fingerprint){0};
    if (copy) {
        forget_piece(f, copy->is.ino);
        copy->line = old.line;
        copy->is_skipping = old.is_skipping;
        insert(f, copy, true);
    }
    r = merge(f, dir, &ref, copy ? NULL : "the file was truncated and there is no copy of what it held");
    if (r < 0) {
        if (copy) {
            piece_close(&f->pieces[0]);
            memmove(&f->pieces[0], &f->pieces[1], --f->n_pieces * sizeof f->pieces[0]);
        }
        f->pieces[0] = old;
        return r;
    }
    if (!copy)
        f->before_changed_ns = old.is.changed_ns;
    return 0;
}

int chain_truncated(struct follow *f, struct diag *why)
{
    int dir = open_dir(f);
    struct piece copy;
    if (dir < 0 && dir != -ENOENT)
        return failed(f, dir, why);
    f->scan.n = 0;
    int r = dir < 0 ? E_NODATA : find_copy(f, dir, &copy);
    bool is_found = r == 0;
    if (r == E_NODATA && f->n > f->used && !f->pieces[0].is_skipping)
        r = 1; /* the start of a line is all that is left: the caller gives that first */
    else if (r == 0 || r == E_NODATA)
        r = start_anew(f, dir, is_found ? &copy : NULL);
    if (dir >= 0)
        (void)close(dir); /* opened for reading */
    if (r == 0)
        r = follow_prime(f);
    return r < 0 && r != -EAGAIN ? failed(f, r, why) : r;
}
