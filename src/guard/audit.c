/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the audit. Lines are made in memory and written and synced by a commit, at the end of the newest
 * file, which is never cut, so that a crash leaves whole lines and then at most some bytes of more. Who opens
 * it next finds the last whole line, and writes behind those bytes a line (AUDIT_TORN) with their number and
 * hash: they stay as they are and are part of the chain from then on.
 *
 * A write that fails is gone on with where it stopped, so that the line becomes whole. A sync that fails is
 * not repeated: the kernel may have dropped the pages and called them clean. What follows goes into the next
 * file. Where that can't be made, a file that is full grows on: no line is lost for it. */
#include "guard/audit.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/mem.h"
#include "guard/audit_file.h"
#include "guard/audit_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_DEFAULT = 16 << 20, WAITING_MAX = 4 << 20 };

struct audit {
    int folder, fd; /* -1 = not open */
    uint64_t file, file_max;
    uint64_t size; /* of the file, with what waits */
    uint64_t n;    /* lines, with what waits */
    char head[AUDIT_HASH + 1], committed[AUDIT_HASH + 1];
    struct strbuf waiting; /* lines that are not written */
    bool is_written;       /* something is and was not synced */
    bool is_new;           /* the folder was not synced since this file was made */
    bool is_spoilt;        /* a sync of this file has failed: the next is made before anything is written */
};

/* ---------------------------------------------------------------- the file */

static int open_file(struct audit *a, uint64_t number, int flags)
{
    char name[AUDIT_NAME];
    audit_file_name(name, number);
    int fd = openat(a->folder, name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (fd < 0)
        return -errno;
    if (a->fd >= 0)
        (void)close(a->fd); /* synced, or given up */
    a->fd = fd;
    a->file = number;
    return 0;
}

static int write_waiting(struct audit *a)
{
    while (a->waiting.n) {
        ssize_t n = write(a->fd, a->waiting.p, a->waiting.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        a->is_written |= n > 0;
        strbuf_consume(&a->waiting, (size_t)n);
    }
    return 0;
}

static int make_next(struct audit *a)
{
    int r = open_file(a, a->file + 1, O_CREAT | O_EXCL);
    if (r < 0)
        return r;
    a->size = a->waiting.n;
    a->is_new = true;
    a->is_spoilt = false;
    return 0;
}

static int flush(struct audit *a)
{
    int r = a->is_spoilt ? make_next(a) : 0;
    if (r == 0)
        r = write_waiting(a);
    if (r < 0 || !a->is_written)
        return r;
    if (fdatasync(a->fd) < 0 || (a->is_new && fsync(a->folder) < 0)) {
        r = -errno;
        a->is_spoilt = true;
    }
    a->is_written = false;
    a->is_new = false;
    return r;
}

/* What waits goes into the file that it was meant for. */
static void leave_full_file(struct audit *a, size_t more)
{
    if (flush(a) == 0 && a->size + more > a->file_max)
        (void)make_next(a); /* else this one grows on, and the next line tries again */
}

/* ---------------------------------------------------------------- what is there */

struct tail {
    size_t end;    /* behind the last line that is right; 0 = there is none */
    bool is_whole; /* it has its newline */
    uint64_t n;
    char hash[AUDIT_HASH + 1];
};

/* By its own hash alone: whether it follows the one before is for verify to say, or else a line that was
 * tampered with would be taken for a torn one. */
static void find_tail(struct slice text, struct tail *out)
{
    struct slice line;
    struct audit_line l;
    bool is_whole;
    for (size_t at = 0; audit_file_line(text, &at, &line, &is_whole);) {
        if (audit_line_get(line, &l) < 0)
            continue;
        out->end = at;
        out->is_whole = is_whole;
        out->n = l.n;
        memcpy(out->hash, l.hash.p, AUDIT_HASH);
    }
}

/* The files before the newest have the last line only when that one has none: a crash just after it was made.
 */
static int find_tail_before(struct audit *a, uint64_t number, struct tail *out)
{
    struct strbuf text = {0};
    int r = 0;
    for (; number > 0 && r == 0 && out->end == 0; number--) {
        strbuf_reset(&text);
        r = audit_file_read(a->folder, number, &text);
        if (r == -ENOENT)
            r = 0; /* verify says so */
        if (r == 0)
            find_tail(strbuf_slice(&text), out);
    }
    strbuf_fini(&text);
    return r;
}

static int note_torn(struct audit *a, struct slice torn)
{
    char bytes[24], hash[AUDIT_HASH + 1];
    struct strbuf all = {0};
    strbuf_add_slice(&all, torn);
    if (torn.p[torn.n - 1] != '\n') {
        strbuf_add_char(&all, '\n');
        strbuf_add_char(&a->waiting, '\n');
        a->size++;
    }
    int r =
        strbuf_failed(&all) || strbuf_failed(&a->waiting) ? -ENOMEM : audit_hash(strbuf_slice(&all), hash);
    (void)snprintf(bytes, sizeof bytes, "%zu", all.n);
    strbuf_fini(&all);
    if (r < 0)
        return r;
    const struct act_datum data[] = {{SLICE_LIT("bytes"), slice_str(bytes)},
                                     {SLICE_LIT("sha256"), slice_str(hash)}};
    struct strbuf line = {0};
    r = audit_line_put(&line, a->n + 1, a->head, clock_utc_ns(), AUDIT_TORN, data, 2, a->head);
    strbuf_add_slice(&a->waiting, strbuf_slice(&line));
    a->size += line.n;
    strbuf_fini(&line);
    if (r < 0 || strbuf_failed(&a->waiting))
        return r < 0 ? r : -ENOMEM;
    a->n++;
    return flush(a);
}

/* Only the newline is missing. */
static int end_line(struct audit *a)
{
    strbuf_add_char(&a->waiting, '\n');
    a->size++;
    return strbuf_failed(&a->waiting) ? -ENOMEM : flush(a);
}

static int go_on(struct audit *a)
{
    struct strbuf text = {0};
    struct tail tail = {.hash = AUDIT_NO_HASH};
    uint64_t last = 0;
    int r = audit_file_last(a->folder, &last);
    if (r == 0 && last)
        r = audit_file_read(a->folder, last, &text);
    if (r < 0)
        goto out;
    find_tail(strbuf_slice(&text), &tail);
    const size_t end = tail.end;
    if (end == 0 && last > 1)
        r = find_tail_before(a, last - 1, &tail);
    if (r < 0)
        goto out;
    a->n = tail.n;
    a->size = text.n;
    memcpy(a->head, tail.hash, sizeof a->head);
    r = open_file(a, last ? last : 1, last ? 0 : O_CREAT | O_EXCL);
    if (r == 0 && !last)
        r = fsync(a->folder) < 0 ? -errno : 0;
    if (r == 0 && text.n > end)
        r = note_torn(a, slice_from(strbuf_slice(&text), end));
    else if (r == 0 && end && !tail.is_whole)
        r = end_line(a);
    memcpy(a->committed, a->head, sizeof a->head);
out:
    strbuf_fini(&text);
    return r;
}

/* ---------------------------------------------------------------- */

static int open_folder(struct audit *a, const char *path, struct diag *why)
{
    int r = directory_make(path, why);
    if (r < 0)
        return r;
    a->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->folder < 0)
        return diag_set(why, -errno, 0, "%.150s: %s", path, err_text(-errno));
    if (flock(a->folder, LOCK_EX | LOCK_NB) < 0)
        return diag_set(why, errno == EWOULDBLOCK ? -EBUSY : -errno, 0, "%.120s: another process writes it",
                        path);
    return 0;
}

int audit_open(const char *path, uint64_t file_max, struct audit **out, struct diag *why)
{
    struct audit *a = mem_alloc(sizeof *a);
    a->folder = a->fd = -1;
    a->file_max = file_max ? file_max : FILE_MAX_DEFAULT;
    int r = open_folder(a, path, why);
    if (r == 0 && (r = go_on(a)) < 0)
        (void)diag_set(why, r, 0, "%.150s: %s", path, err_text(r));
    if (r < 0) {
        audit_close(a);
        return r;
    }
    *out = a;
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    if (a->fd >= 0)
        (void)close(a->fd); /* what is not committed is not promised */
    if (a->folder >= 0)
        (void)close(a->folder);
    strbuf_fini(&a->waiting);
    mem_free(a);
}

int audit_add(struct audit *a, int64_t now_ns, const char *what, const struct act_datum *data, size_t n)
{
    struct strbuf line = {0};
    char hash[AUDIT_HASH + 1];
    int r = audit_line_put(&line, a->n + 1, a->head, now_ns, what, data, n, hash);
    if (r == 0 && a->waiting.n + line.n > WAITING_MAX)
        r = flush(a); /* nobody has committed for long, or could */
    if (r == 0 && a->size && a->size + line.n > a->file_max)
        leave_full_file(a, line.n);
    if (r == 0) {
        strbuf_add_slice(&a->waiting, strbuf_slice(&line));
        if (strbuf_failed(&a->waiting)) {
            a->waiting.failed = false; /* the lines before are whole */
            r = -ENOMEM;
        }
    }
    if (r == 0) {
        a->n++;
        a->size += line.n;
        memcpy(a->head, hash, sizeof hash);
    }
    strbuf_fini(&line);
    return r;
}

int audit_commit(struct audit *a)
{
    int r = flush(a);
    if (r == 0)
        memcpy(a->committed, a->head, sizeof a->head);
    return r;
}

const char *audit_head(const struct audit *a)
{
    return a->committed;
}

static bool has_line(struct slice text, const char *hash)
{
    struct slice line;
    struct audit_line l;
    bool is_whole;
    if (!text.n || !memmem(text.p, text.n, hash, strlen(hash)))
        return false;
    for (size_t at = 0; audit_file_line(text, &at, &line, &is_whole);)
        if (audit_line_get(line, &l) == 0 && slice_eq_str(l.hash, hash))
            return true;
    return false;
}

int audit_has(const struct audit *a, const char *hash)
{
    struct strbuf text = {0};
    bool is_there = false;
    int r = 0;
    for (uint64_t file = a->file; file > 0 && r == 0 && !is_there; file--) {
        strbuf_reset(&text);
        r = audit_file_read(a->folder, file, &text);
        is_there = r == 0 && has_line(strbuf_slice(&text), hash);
        r = r == -ENOENT ? 0 : r; /* verify says so */
    }
    strbuf_fini(&text);
    return r < 0 ? r : is_there;
}
