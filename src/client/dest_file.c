/* SPDX-License-Identifier: Apache-2.0 */
/* A file, appended to: blocks as they are (.glb), or decoded again and written as text.
 *
 * What one block becomes is written with one write(2). What the file system would not take stays in `rest`,
 * and nothing else is written before that is out: so there is never half a line or half a block with
 * something behind it. While `rest` waits, further blocks are dropped as unwritable. If it has to be given up
 * at close, and nobody else has appended since, the half that was written is cut off again.
 *
 * The head that some encodings have (XML, CSV) is written to an empty file only; the tail of an XML file is
 * taken off when it is opened again and written anew at close, and a CSV file keeps the columns of its first
 * line. */
#include "base/err.h"
#include "base/mem.h"
#include "client/dest.h"
#include "client/text_out.h"
#include "event/encodings.h"
#include "event/xml.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RETRY_MS = 1000, CSV_HEADER_MAX = 64 * 1024 };

static const struct encoding *const encodings[] = {
    &encoding_ulm, &encoding_bp, &encoding_ndjson, &encoding_xml_out, &encoding_csv, &encoding_binary,
};

struct file {
    struct dest dest;
    int fd;
    const struct encoding *encoding;
    struct text_out text;  /* unless binary */
    struct strbuf rest;    /* not written yet; the block that this is the end of counts as queued */
    off_t rest_began;      /* where in the file that block begins; -1 = nothing of it is there yet */
    struct strbuf encoded; /* work space */
    struct dest_counts counts;
};

static const struct encoding *by_name(struct slice name)
{
    if (slice_eq_nocase(name, SLICE_LIT("json")) || slice_eq_nocase(name, SLICE_LIT("jsonl")))
        return &encoding_ndjson;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (slice_eq_nocase(name, slice_str(encodings[i]->name)) ||
            slice_eq_nocase(name, slice_str(encodings[i]->suffix + 1)))
            return encodings[i];
    return NULL;
}

/* By ?format=, or by the file's ending; ULM if it has none that we know. NULL: a format that does not exist.
 */
static const struct encoding *choose(struct slice path, struct slice query)
{
    if (slice_starts(query, SLICE_LIT("format=")))
        return by_name(slice_from(query, 7));
    if (query.n)
        return NULL;
    const char *dot = memrchr(path.p, '.', path.n);
    const struct encoding *e = dot ? by_name(slice_from(path, (size_t)(dot - path.p) + 1)) : NULL;
    return e ? e : &encoding_ulm;
}

/* Writes as much as it can at once; a negative errno only when that is nothing. */
static ssize_t write_some(int fd, struct slice s)
{
    size_t done = 0;
    while (done < s.n) {
        ssize_t n = write(fd, s.p + done, s.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return done ? (ssize_t)done : n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static off_t file_end(const struct file *f)
{
    struct stat st;
    return fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

static void settle(struct file *f, enum drop_reason reason)
{
    if (reason)
        f->counts.dropped[reason] += f->counts.queued;
    else
        f->counts.passed += f->counts.queued;
    f->counts.queued = 0;
}

/* Takes the rest of the last block further. True when it is out. */
static bool write_rest(struct file *f)
{
    if (f->rest.n == 0)
        return true;
    ssize_t n = write_some(f->fd, strbuf_slice(&f->rest));
    if (n > 0 && f->rest_began < 0)
        f->rest_began = file_end(f) - n;
    if (n > 0)
        strbuf_consume(&f->rest, (size_t)n);
    if (f->rest.n)
        return false;
    settle(f, 0);
    return true;
}

/* n events as these bytes, which must go out whole. */
static void write_whole(struct file *f, struct slice bytes, uint32_t n)
{
    ssize_t done = write_some(f->fd, bytes);
    if (done == (ssize_t)bytes.n) {
        f->counts.passed += n;
        return;
    }
    size_t out = done > 0 ? (size_t)done : 0;
    f->rest_began = out ? file_end(f) - (off_t)out : -1;
    strbuf_reset(&f->rest);
    strbuf_add_slice(&f->rest, slice_from(bytes, out));
    f->counts.queued = n;
    if (!strbuf_failed(&f->rest))
        return;
    /* no memory to keep it either */
    strbuf_reset(&f->rest);
    if (f->rest_began >= 0 && file_end(f) == f->rest_began + (off_t)out)
        (void)!ftruncate(f->fd, f->rest_began); /* if not, a reader skips the damage */
    settle(f, DROP_UNWRITABLE);
}

static void file_put(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq)
{
    struct file *f = (struct file *)d;
    (void)first_seq;
    f->counts.given += n;
    if (!write_rest(f)) {
        f->counts.dropped[DROP_UNWRITABLE] += n;
        return;
    }
    if (f->encoding == &encoding_binary) {
        write_whole(f, block, n);
        return;
    }
    strbuf_reset(&f->encoded);
    struct batch *b = text_out_decode(&f->text, block);
    if (b && text_out_encode(&f->text, b, &f->encoded) == 0)
        write_whole(f, strbuf_slice(&f->encoded), n);
    else
        f->counts.dropped[DROP_MEMORY] += n;
    batch_unref(b);
}

static int file_pump(struct dest *d, int64_t now_mono_ns)
{
    (void)now_mono_ns;
    return write_rest((struct file *)d) ? -1 : RETRY_MS;
}

static void file_counts(const struct dest *d, struct dest_counts *out)
{
    *out = ((const struct file *)d)->counts;
}

/* The parent finishes its own block; what the child writes before that lands in between if it must. */
static void file_after_fork(struct dest *d, const struct dest_env *env)
{
    struct file *f = (struct file *)d;
    (void)env;
    strbuf_reset(&f->rest);
    f->counts = (struct dest_counts){0};
}

static void give_up_rest(struct file *f)
{
    if (f->rest.n == 0)
        return;
    off_t end = file_end(f);
    if (f->rest_began >= 0 && end > f->rest_began)
        (void)!ftruncate(f->fd, f->rest_began); /* if not, a reader skips the damage */
    strbuf_reset(&f->rest);
    settle(f, DROP_UNWRITABLE);
}

static void file_goodbye(struct dest *d, uint64_t taken, const uint64_t dropped_before[DROP_REASONS])
{
    struct file *f = (struct file *)d;
    (void)taken;
    (void)dropped_before;
    if (!write_rest(f))
        give_up_rest(f);
}

static void file_close(struct dest *d)
{
    struct file *f = (struct file *)d;
    if (f->fd >= 0 && f->text.encoder && f->encoding == &encoding_xml_out && write_rest(f)) {
        strbuf_reset(&f->encoded);
        if (encoder_end(f->text.encoder, &f->encoded) == 0)
            (void)write_some(f->fd, strbuf_slice(&f->encoded)); /* readers do without */
    }
    give_up_rest(f);
    text_out_fini(&f->text);
    strbuf_fini(&f->rest);
    strbuf_fini(&f->encoded);
    if (f->fd >= 0)
        (void)close(f->fd); /* all that was written is with the kernel */
    mem_free(f);
}

static void cut_xml_tail(struct file *f, off_t size)
{
    static const char tail[] = "</events>\n";
    char end[sizeof tail - 1];
    off_t at = size - (off_t)sizeof end;
    if (at >= 0 && pread(f->fd, end, sizeof end, at) == (ssize_t)sizeof end &&
        memcmp(end, tail, sizeof end) == 0)
        (void)!ftruncate(f->fd, at); /* if not, the file has a second root's worth of events behind its end */
}

/* The columns of a file that has some: the names behind the first five of its first line. */
static int csv_keep_columns(struct file *f)
{
    struct slice names[EVENT_FIELDS_MAX];
    size_t n = 0;
    char *line = strbuf_room(&f->encoded, CSV_HEADER_MAX);
    ssize_t got = line ? pread(f->fd, line, CSV_HEADER_MAX, 0) : -1;
    const char *end = got > 0 ? memchr(line, '\r', (size_t)got) : NULL;
    if (!end)
        return line ? -EINVAL : -ENOMEM;
    struct slice rest = slice_of(line, (size_t)(end - line));
    for (size_t i = 0; rest.p < end; i++) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice name = comma ? slice_of(rest.p, (size_t)(comma - rest.p)) : rest;
        rest = slice_from(rest, name.n + 1);
        if (i >= 5 && n < EVENT_FIELDS_MAX)
            names[n++] = name.n && name.p[0] == '$' ? slice_from(name, 1) : name;
    }
    int r = encoder_csv_columns(f->text.encoder, names, n);
    return r == E_PROTO ? -EINVAL : r;
}

/* Goes on where the file ends: its head is there already. */
static int continue_file(struct file *f, off_t size)
{
    int r = 0;
    if (f->encoding == &encoding_xml_out)
        cut_xml_tail(f, size);
    if (f->encoding == &encoding_csv)
        r = csv_keep_columns(f);
    if (r == 0) {
        strbuf_reset(&f->encoded);
        r = encoder_end(f->text.encoder, &f->encoded); /* head and tail, for nothing */
    }
    return r;
}

static int open_path(struct slice path, int *fd)
{
    char *z = mem_try_alloc(path.n + 1);
    if (!z)
        return -ENOMEM;
    memcpy(z, path.p, path.n);
    *fd = open(z, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (*fd < 0 &&
        (errno == EACCES || errno == EINVAL)) /* may be written only: then its end can't be looked at */
        *fd = open(z, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    int r = *fd < 0 ? -errno : 0;
    mem_free(z);
    return r;
}

static int file_open(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    (void)env;
    const struct encoding *encoding = url.n ? choose(url, query) : NULL;
    if (!encoding || memchr(url.p, 0, url.n))
        return -EINVAL;
    struct file *f = mem_try_alloc(sizeof *f);
    if (!f)
        return -ENOMEM;
    f->dest.ops = &dest_file;
    f->encoding = encoding;
    f->fd = -1;
    int r = open_path(url, &f->fd);
    if (r == 0 && encoding != &encoding_binary)
        r = text_out_init(&f->text, encoding);
    off_t size = r == 0 ? file_end(f) : 0;
    if (size > 0 && f->text.encoder)
        r = continue_file(f, size);
    if (r < 0) {
        if (f->fd >= 0)
            (void)close(f->fd); /* nothing was written */
        f->fd = -1;
        file_close(&f->dest);
        return r;
    }
    *out = &f->dest;
    return 0;
}

const struct dest_ops dest_file = {
    .scheme = "file",
    .open = file_open,
    .put = file_put,
    .pump = file_pump,
    .counts = file_counts,
    .after_fork = file_after_fork,
    .goodbye = file_goodbye,
    .close = file_close,
};
