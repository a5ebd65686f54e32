/* SPDX-License-Identifier: Apache-2.0 */
/* Events to a file that rotates. What waits on its way:
 *
 *     take --encode--> plain --a frame--> sink.waiting --write--> the file
 *
 * At a tick, or when FRAME_MAX bytes of text have come together, `plain` becomes one compressed frame
 * (compress.h), or none, and is written. So a kill -9 costs at most what came since the last tick, and the
 * file is then readable with zstd -d or gunzip to its last whole frame: nothing of a stream's state is left
 * to flush. (Compressing whole files when they are rotated would need a thread, or hold up the loop for 64
 * MiB.) It is not synced: what has to survive a power cut is in the journal.
 *
 * Rotation: the tail of the file (XML has one) is written; when everything is, the file is renamed and a new
 * one begun. Until then nothing more becomes a frame, so that no event lands behind the tail. The old file's
 * name is
 *
 *     PATH.YYYYMMDDTHHMMSSZ[.zst|.gz]     UTC; a PATH that ends with .zst or .gz has it at the end then
 *
 * or, so that the names' order is that of the events, a second after the newest.
 *
 * At start, and when SIGHUP finds the file still there, lines and binary without compression are appended to
 * (a torn last line gets its line end first); other files are rotated first: behind a torn frame nobody could
 * read on, and an XML document has one end. */
#include "gateway/observer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/sink.h"
#include "event/encoding.h"
#include "gateway/compress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FRAME_MAX = 128 << 10, /* bytes of text in a frame, and a batch more */
    WAITING_MAX = 4 << 20, /* bytes that wait, text and frames; then whole batches are dropped */
    FILE_MODE = 0640,
    STAMP = 16,  /* 20261115T212028Z */
    RETRY_S = 60 /* until the next try after a rotation that failed */
};

/* What comes when all that waits is written. */
enum next { GO_ON, ROTATE, REOPEN };

struct file {
    char *path;
    const struct encoding *encoding;
    struct encoder *encoder;
    struct compressor *compressor; /* NULL = none */
    struct strbuf plain;
    uint64_t pending; /* events in plain */
    struct sink sink;
    enum next next;
    uint64_t size_at_open, written_at_open; /* of the current file; sink.written */
    int64_t now_ns, opened_ns, retry_ns;
    uint64_t max_bytes;
    int64_t max_age_ns;
    uint32_t keep;
};

static uint64_t file_size(const struct file *f)
{
    return f->size_at_open + (f->sink.written - f->written_at_open);
}

/* ---------------------------------------------------------------- names */

/* PATH without the suffix that goes to the end. */
static struct slice stem(const struct file *f)
{
    struct slice path = slice_str(f->path), suffix = slice_str(compressor_suffix(f->compressor));
    if (suffix.n && slice_ends(path, suffix))
        path.n -= suffix.n;
    return path;
}

/* Of the path, up to the last slash and with it. */
static size_t folder_bytes(const struct file *f)
{
    const char *slash = strrchr(f->path, '/');
    return slash ? (size_t)(slash - f->path) + 1 : 0;
}

/* 2026-11-15T21:20:28.123456Z without its marks and fraction. */
static void print_stamp(char to[STAMP + 1], int64_t utc_ns)
{
    char iso[CLOCK_TEXT_MAX];
    size_t n = clock_print_iso(iso, utc_ns), k = 0;
    for (size_t i = 0; i < n && iso[i] != '.' && k < STAMP - 1; i++)
        if (iso[i] != '-' && iso[i] != ':')
            to[k++] = iso[i];
    to[k++] = 'Z';
    to[k] = '\0';
}

static bool is_stamp(struct slice s)
{
    for (size_t i = 0; i < STAMP; i++) {
        bool is_digit = i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
        bool is_mark = i < s.n && ((i == 8 && s.p[i] == 'T') || (i == STAMP - 1 && s.p[i] == 'Z'));
        if (i == 8 || i == STAMP - 1 ? !is_mark : !is_digit)
            return false;
    }
    return true;
}

/* Is it the name of one of ours that was rotated, however it is compressed? */
static bool is_rotated(struct slice base, struct slice name)
{
    if (!slice_starts(name, base) || name.n < base.n + 1 + STAMP || name.p[base.n] != '.')
        return false;
    struct slice rest = slice_from(name, base.n + 1);
    if (!is_stamp(rest))
        return false;
    rest = slice_from(rest, STAMP);
    return rest.n == 0 || slice_eq(rest, SLICE_LIT(".zst")) || slice_eq(rest, SLICE_LIT(".gz"));
}

/* ---------------------------------------------------------------- those that were rotated */

struct names {
    int folder; /* descriptor; -1 = none */
    struct arena arena;
    const char **v; /* the oldest first */
    size_t n, max;
};

static void names_fini(struct names *names)
{
    if (names->folder >= 0)
        (void)close(names->folder); /* it was only read */
    mem_free(names->v);
    arena_fini(&names->arena);
}

static int add_name(struct names *names, struct slice name)
{
    if (names->n == names->max) {
        size_t max = names->max ? 2 * names->max : 64;
        const char **v = mem_try_resize(names->v, max * sizeof *v);
        if (!v)
            return -ENOMEM;
        names->v = v;
        names->max = max;
    }
    struct slice copy = arena_copy(&names->arena, slice_of(name.p, name.n + 1)); /* and its NUL */
    if (!copy.p)
        return -ENOMEM;
    names->v[names->n++] = copy.p;
    return 0;
}

/* By their stamps, which are behind the same base. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Takes the descriptor. */
static int read_folder(int fd, struct slice base, struct names *names)
{
    DIR *dir = fdopendir(fd);
    int r = 0;
    if (!dir) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (is_rotated(base, slice_str(e->d_name)))
            r = add_name(names, slice_str(e->d_name));
    (void)closedir(dir); /* it was only read */
    if (r == 0 && names->n)
        qsort(names->v, names->n, sizeof *names->v, compare_names);
    return r;
}

/* *out is good for names_fini, also on failure. */
static int list_rotated(const struct file *f, struct names *out)
{
    struct strbuf folder = {0};
    struct slice base = stem(f);
    *out = (struct names){.folder = -1};
    strbuf_add(&folder, f->path, folder_bytes(f));
    if (strbuf_failed(&folder))
        return -ENOMEM;
    out->folder = open(folder.n ? folder.p : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = out->folder < 0 ? -errno : 0;
    int fd = r == 0 ? fcntl(out->folder, F_DUPFD_CLOEXEC, 0) : -1;
    if (r == 0)
        r = fd < 0 ? -errno : read_folder(fd, slice_from(base, folder.n), out);
    strbuf_fini(&folder);
    return r;
}

/* Removes the oldest until `keep` are left. */
static int prune(const struct file *f)
{
    struct names names;
    if (f->keep == 0)
        return 0;
    int r = list_rotated(f, &names);
    for (size_t i = 0; r == 0 && i + f->keep < names.n; i++)
        if (unlinkat(names.folder, names.v[i], 0) < 0 && errno != ENOENT)
            r = -errno;
    names_fini(&names);
    return r;
}

/* The time that the next one is named after: now, or a second after the newest, whatever the clock says: the
 * order of the names is that of the events. */
static int next_stamp(const struct file *f, int64_t *out)
{
    struct names names;
    char digits[STAMP - 2];
    int64_t newest_ns;
    int r = list_rotated(f, &names);
    *out = clock_utc_ns();
    if (r == 0 && names.n) {
        const char *stamp = names.v[names.n - 1] + stem(f).n - folder_bytes(f) + 1;
        memcpy(digits, stamp, 8);
        memcpy(digits + 8, stamp + 9, 6);
        if (clock_parse_ulm(slice_of(digits, sizeof digits), &newest_ns, NULL) == 0 &&
            *out < newest_ns + NS_PER_S)
            *out = newest_ns + NS_PER_S;
    }
    names_fini(&names);
    return r;
}

/* ---------------------------------------------------------------- opening */

/* The file is closed. Nothing is there: fine, somebody has moved it. */
static int move_away(const struct file *f)
{
    struct strbuf name = {0};
    char stamp[STAMP + 1];
    int64_t at_ns;
    int r = next_stamp(f, &at_ns);
    if (r < 0)
        return r;
    print_stamp(stamp, at_ns);
    strbuf_printf(&name, "%.*s.%s%s", SLICE_ARG(stem(f)), stamp, compressor_suffix(f->compressor));
    r = strbuf_failed(&name) ? -ENOMEM : rename(f->path, name.p) < 0 ? -errno : 0;
    strbuf_fini(&name);
    return r == -ENOENT ? 0 : r;
}

static bool ends_with_line(const char *path, off_t size)
{
    char last = '\n';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return true; /* it can be written, but not read: nothing to be known */
    ssize_t n = pread(fd, &last, 1, size - 1);
    (void)close(fd); /* it was only read */
    return n != 1 || last == '\n';
}

static bool can_append(const struct file *f)
{
    return !f->compressor && !f->encoding->encoder->begin && !f->encoding->encoder->end;
}

static void close_file(struct file *f)
{
    sink_close(&f->sink);
    f->size_at_open = 0;
    f->written_at_open = f->sink.written;
}

/* Opens path. What another run has left there is appended to, or moved away; what is whole, because it is
 * ours and could not be moved, is appended to in any case. Nothing waits. */
static int open_current(struct file *f, bool is_whole)
{
    struct stat st = {0};
    int r = sink_open(&f->sink, f->path, FILE_MODE);
    if (r == 0 && f->sink.is_regular && !f->sink.is_borrowed && fstat(f->sink.fd, &st) < 0)
        st.st_size = 0;
    if (r == 0 && st.st_size > 0 && !is_whole && !can_append(f)) {
        close_file(f);
        r = move_away(f);
        if (r == 0)
            r = sink_open(&f->sink, f->path, FILE_MODE);
        (void)prune(f); /* if it can't, the next rotation tells */
        st.st_size = 0;
    }
    if (r < 0)
        return r;
    f->size_at_open = (uint64_t)st.st_size;
    f->written_at_open = f->sink.written;
    f->opened_ns = f->now_ns;
    if (st.st_size > 0 && !f->compressor && f->encoding->is_lines && !ends_with_line(f->path, st.st_size))
        strbuf_add_char(&f->sink.waiting, '\n');
    return 0;
}

/* ---------------------------------------------------------------- writing */

/* What is in plain becomes a frame. */
static int push(struct file *f)
{
    if (f->plain.n == 0)
        return 0;
    int r = compressor_frame(f->compressor, strbuf_slice(&f->plain), &f->sink.waiting);
    if (r < 0)
        return r;
    sink_mark(&f->sink, f->pending);
    f->pending = 0;
    strbuf_reset(&f->plain);
    return 0;
}

/* Everything is written: what was to come then. If this fails the file is closed; the next try opens it. */
static int switch_file(struct file *f)
{
    bool is_rotation = f->next == ROTATE;
    f->next = GO_ON;
    close_file(f);
    int moved = is_rotation ? move_away(f) : 0;
    if (moved < 0)
        f->retry_ns = f->now_ns + RETRY_S * NS_PER_S;
    if (is_rotation && moved == 0)
        moved = prune(f);
    int r = open_current(f, is_rotation && moved < 0);
    return r < 0 ? r : moved;
}

/* Writes as much as goes without waiting. */
static int write_out(struct file *f)
{
    int r = f->sink.fd < 0 ? open_current(f, false) : 0;
    if (r == 0 && f->next == GO_ON)
        r = push(f);
    if (r == 0)
        r = sink_flush(&f->sink);
    if (r < 0 || f->sink.waiting.n || f->next == GO_ON)
        return r;
    r = switch_file(f);
    int pushed = f->sink.fd < 0 ? 0 : push(f);
    int written = f->sink.fd < 0 || pushed < 0 ? pushed : sink_flush(&f->sink);
    return r < 0 ? r : written;
}

/* Ends the file: its tail goes behind what waits; what comes then belongs to the next one. */
static int begin_end(struct file *f, enum next next)
{
    struct encoder *fresh;
    size_t before = f->plain.n;
    if (f->next != GO_ON)
        return 0;
    int r = encoder_create(f->encoding, &fresh);
    if (r < 0)
        return r;
    r = file_size(f) + f->sink.waiting.n + before ? encoder_end(f->encoder, &f->plain) : 0;
    if (r == 0)
        r = push(f);
    if (r < 0) { /* as if nothing had been */
        f->plain.failed = false;
        f->plain.n = before;
        encoder_destroy(fresh);
        return r;
    }
    encoder_destroy(f->encoder);
    f->encoder = fresh;
    f->next = next;
    return 0;
}

static bool is_due(const struct file *f)
{
    uint64_t size = file_size(f);
    bool is_ours = f->sink.fd >= 0 && f->sink.is_regular && !f->sink.is_borrowed;
    if (!is_ours || size == 0 || f->next != GO_ON || f->now_ns < f->retry_ns)
        return false;
    return (f->max_bytes && size >= f->max_bytes) ||
           (f->max_age_ns && f->now_ns - f->opened_ns >= f->max_age_ns);
}

static int write_and_rotate(struct file *f)
{
    int r = write_out(f);
    if (r == 0 && is_due(f)) {
        r = begin_end(f, ROTATE);
        if (r == 0)
            r = write_out(f);
    }
    return r;
}

/* ---------------------------------------------------------------- the observer */

static void destroy(void *self)
{
    struct file *f = self;
    if (f->encoder && f->sink.fd >= 0 && f->next == GO_ON && file_size(f) + f->sink.waiting.n + f->plain.n)
        (void)encoder_end(f->encoder, &f->plain); /* a tail that finds no memory is left out */
    if (f->sink.fd >= 0)
        (void)write_out(f); /* what is left was counted as queued */
    encoder_destroy(f->encoder);
    compressor_destroy(f->compressor);
    strbuf_fini(&f->plain);
    sink_fini(&f->sink);
    mem_free(f->path);
    mem_free(f);
}

static int start(struct file *f, const struct observer_config *c, struct diag *why)
{
    int r = compressor_create(c->compression ? c->compression : "none", &f->compressor);
    if (r == -EINVAL)
        return diag_set(why, r, 0, "there is no compression '%s'", c->compression);
    if (r == 0)
        r = encoder_create(f->encoding, &f->encoder);
    if (r < 0)
        return diag_set(why, r, 0, "%s", err_text(r));
    r = open_current(f, false);
    return r < 0 ? diag_set(why, r, 0, "%s: %s", c->path, err_text(r)) : 0;
}

static int create(const struct observer_config *c, void **out, struct diag *why)
{
    const struct encoding *e = encoding_by_name(slice_str(c->encoding ? c->encoding : "ulm"));
    if (!e)
        return diag_set(why, -EINVAL, 0, "there is no encoding '%s'", c->encoding);
    struct file *f = mem_alloc(sizeof *f);
    *f = (struct file){.encoding = e,
                       .sink = {.fd = -1},
                       .now_ns = clock_mono_ns(),
                       .max_bytes = c->max_bytes,
                       .max_age_ns = c->max_age_ns,
                       .keep = c->keep};
    f->path = mem_alloc(strlen(c->path) + 1);
    memcpy(f->path, c->path, strlen(c->path) + 1);
    int r = start(f, c, why);
    if (r < 0) {
        destroy(f);
        return r;
    }
    *out = f;
    return 0;
}

static int take(void *self, const struct batch *b)
{
    struct file *f = self;
    if (f->plain.n + f->sink.waiting.n >= WAITING_MAX) {
        int r = write_and_rotate(f);
        if (f->plain.n + f->sink.waiting.n >= WAITING_MAX)
            return r < 0 ? r : -ENOBUFS;
    }
    size_t before = f->plain.n;
    int r = encoder_run(f->encoder, b, &f->plain);
    if (r < 0) { /* what was whole before stays */
        f->plain.failed = false;
        f->plain.n = before;
        return r;
    }
    f->pending += b->n;
    if (f->plain.n >= FRAME_MAX)
        (void)write_and_rotate(f); /* it waits then; the next tick tells of an error */
    return 0;
}

static int tick(void *self, int64_t now_ns)
{
    struct file *f = self;
    f->now_ns = now_ns;
    return write_and_rotate(f);
}

static uint64_t queued(const void *self)
{
    const struct file *f = self;
    return f->pending + sink_queued(&f->sink);
}

static void reopen(void *self)
{
    struct file *f = self;
    if (f->sink.fd >= 0 && begin_end(f, REOPEN) == 0) /* one that is closed is opened again in any case */
        (void)write_out(f);                           /* it waits then; the next tick tells of an error */
}

const struct observer_ops observer_file = {
    .type = "file",
    .summary = "a file that rotates, in any encoding, compressed",
    .create = create,
    .take = take,
    .tick = tick,
    .queued = queued,
    .reopen = reopen,
    .destroy = destroy,
};
