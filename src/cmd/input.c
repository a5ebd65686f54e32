/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer holds one unit of the largest size and a chunk more; it is read a chunk at a time, small enough
 * that the text is still in the processor's cache when it is decoded and encoded. Events borrow their text
 * from the buffer, so it is moved only after they have been handed out and given back. */
#include "cmd/input.h"

#include "base/mem.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/unpack.h"
#include "base/clock.h"
#include "base/num.h"
#include "helper/logfilter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, BUFFER = DECODE_UNIT_MAX + CHUNK, DETECT_ENOUGH = 4096, BATCH_EVENTS = 8192 };

struct input {
    const char *name; /* for messages */
    int fd;
    bool owns_fd, is_stream, at_end;
    struct input_options options;
    struct unpack *unpack;
    const struct encoding *encoding;
    struct decoder *decoder;
    struct logfilter *filter; /* in place of a decoder */
    int64_t written_ns;       /* when the file was, for times without a year */
    bool is_skipping;         /* the rest of a line that was too long */
    struct batch_builder *builder;
    struct batch *lent; /* what the caller has */
    char *buffer;
    size_t from, to; /* buffer[from, to) is not yet decoded */
    uint64_t bad;
    int failed; /* what the next call answers, when this one still had events */
};

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

static const char *name_of(const char *path)
{
    return is_stdin(path) ? "stdin" : path;
}

bool input_year(const char *text, int *out)
{
    uint64_t year = 0;
    if (text && (num_parse_uint(slice_str(text), &year) < 0 || year < 1970 || year > 2200)) {
        say("--year %s: give a year from 1970 to 2200", text);
        return false;
    }
    *out = (int)year;
    return true;
}

bool input_escapes(const char *text, enum escapes *out)
{
    *out = ESCAPES_AUTO;
    if (!text || escapes_parse(slice_str(text), out))
        return true;
    say("--escapes %s: give auto, plain or c", text);
    return false;
}

void input_say_trimmed(const char *where, struct batch_trimmed trimmed)
{
    if (trimmed.events)
        say_plain("%s%" PRIu64 " fields of %" PRIu64 " events are over a limit (%d KiB of text, %d fields, %d KiB an event) and "
                  "were left out; the field " EVENT_DROPPED_FIELD " names them",
                  where, trimmed.fields, trimmed.events, EVENT_TEXT_MAX >> 10, EVENT_FIELDS_MAX, EVENT_SIZE_MAX >> 10);
}

static int refuse(const struct input *in, int code, const char *what)
{
    if (!in->options.is_quiet)
        say_plain("%s: %s%s", in->name, what, err_text(code));
    return code;
}

static int refuse_packed(const struct input *in)
{
    if (!in->options.is_quiet)
        say_plain("%s: %s", in->name, unpack_why(in->unpack));
    return E_DAMAGE;
}

/* One chunk more behind what is left. */
static int fill(struct input *in)
{
    if (in->from) {
        memmove(in->buffer, in->buffer + in->from, in->to - in->from);
        in->to -= in->from;
        in->from = 0;
    }
    size_t room = BUFFER - in->to;
    ssize_t n = unpack_read(in->unpack, in->buffer + in->to, room < CHUNK ? room : CHUNK);
    if (n == -EINTR)
        return -EINTR; /* asked to stop: nothing to report */
    if (n == E_DAMAGE)
        return refuse_packed(in);
    if (n < 0)
        return refuse(in, (int)n, "can't be read: ");
    in->at_end = n == 0;
    in->to += (size_t)n;
    return 0;
}

/* By the name, without what says that it is packed. */
static const struct encoding *encoding_of_name(const char *path)
{
    static const char *const packed[] = {".gz", ".zst"};
    struct slice name = slice_str(path);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        size_t n = strlen(packed[i]);
        if (name.n > n && memcmp(name.p + name.n - n, packed[i], n) == 0)
            return encoding_by_suffix(slice_of(name.p, name.n - n));
    }
    return encoding_by_suffix(name);
}

/* Enough bytes to tell the encoding, then the encoding. */
static int find_encoding(struct input *in, const char *path)
{
    in->encoding = in->options.encoding;
    while (!in->at_end && in->to < DETECT_ENOUGH) {
        int r = fill(in);
        if (r < 0)
            return r;
        if (!in->encoding)
            in->encoding = encoding_detect(slice_of(in->buffer, in->to));
        if (in->encoding)
            return 0;
    }
    if (!in->encoding)
        in->encoding = encoding_of_name(path);
    if ((in->encoding && in->encoding->decoder) || in->to == 0)
        return 0;
    if (!in->options.is_quiet)
        say_plain("%s: can't tell the format from its first bytes; name it with --input FORMAT", in->name);
    return E_PROTO;
}

/* Reads the whole file once more, by a descriptor of its own, for the dialect of its escapes. */
static bool look_for_escapes(void *arg, struct escapes_votes *out)
{
    const struct input *in = arg;
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", in->fd); /* fits */
    int fd = in->is_stream ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    struct unpack *u = fd >= 0 ? unpack_create(fd) : NULL;
    char *buffer = u ? mem_try_alloc(CHUNK) : NULL;
    ssize_t n = buffer ? 1 : -ENOMEM;
    while (n > 0 && (n = unpack_read(u, buffer, CHUNK)) > 0)
        escapes_vote(out, slice_of(buffer, (size_t)n));
    mem_free(buffer);
    unpack_destroy(u);
    if (fd >= 0)
        (void)close(fd); /* only read from */
    return n == 0 || n == E_DAMAGE; /* as far as it can be unpacked */
}

static int prepare(struct input *in, const char *path, struct registry *registry)
{
    in->buffer = mem_try_alloc(BUFFER);
    in->unpack = unpack_create(in->fd);
    unsigned borrows = in->options.filter ? 0 : BUILDER_BORROW; /* a filter's texts are gone with the next record */
    in->builder = batch_builder_create(registry, borrows | BUILDER_TRIM | in->options.builder_flags);
    if (!in->buffer || !in->unpack || !in->builder)
        return refuse(in, -ENOMEM, "");
    batch_builder_limit(in->builder, BATCH_EVENTS, 8 << 20);
    if (in->options.filter) {
        struct diag why = {0};
        const struct logfilter_options o = {.zone = in->options.zone, .year = in->options.year};
        int loaded = logfilter_find(in->options.filter, &o, &in->filter, &why);
        if (loaded < 0)
            say("%s", why.message[0] ? why.message : err_text(loaded));
        return loaded;
    }
    int r = find_encoding(in, path);
    if (r < 0 || !in->encoding)
        return r;
    r = decoder_create(in->encoding, &in->decoder);
    if (r < 0)
        return refuse(in, r, "");
    decoder_set_escapes(in->decoder, in->options.escapes, look_for_escapes, in);
    return 0;
}

static int open_fd(struct input *in, const char *path, int spool_fd)
{
    struct stat st;
    in->owns_fd = spool_fd < 0 && !is_stdin(path);
    in->fd = spool_fd >= 0 ? spool_fd : is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        return refuse(in, -errno, "");
    if (!in->owns_fd)
        (void)lseek(in->fd, 0, SEEK_SET); /* a stream stays where it is */
    bool is_known = fstat(in->fd, &st) == 0;
    in->is_stream = is_known && !S_ISREG(st.st_mode);
    in->written_ns = is_known && !in->is_stream && spool_fd < 0 ? (int64_t)st.st_mtim.tv_sec * NS_PER_S : clock_utc_ns();
    (void)posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice */
    return 0;
}

int input_open(const char *path, int spool_fd, const struct input_options *options, struct registry *registry,
               struct input **out)
{
    struct input *in = mem_try_alloc(sizeof *in);
    if (!in) {
        say("%s: %s", name_of(path), err_text(-ENOMEM));
        return -ENOMEM;
    }
    *in = (struct input){.name = name_of(path), .fd = -1, .options = *options};
    int r = open_fd(in, path, spool_fd);
    if (r == 0)
        r = prepare(in, path, registry);
    if (r < 0) {
        input_close(in);
        return r;
    }
    *out = in;
    return 0;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    batch_unref(in->lent);
    batch_builder_destroy(in->builder);
    decoder_destroy(in->decoder);
    logfilter_destroy(in->filter);
    unpack_destroy(in->unpack);
    mem_free(in->buffer);
    if (in->owns_fd && in->fd >= 0)
        (void)close(in->fd); /* only read from */
    mem_free(in);
}

/* Reports the unit that decoder_run refused. 0 to go on. */
static int bad_unit(struct input *in, int code, const struct diag *why)
{
    char column[32] = "", reason[sizeof why->message];
    (void)snprintf(reason, sizeof reason, "%s",
                   *why->message ? why->message : err_text(code)); /* may be cut */
    if (why->col)
        (void)snprintf(column, sizeof column, " (column %" PRIu32 ")", why->col); /* fits */
    in->bad++;
    if (in->options.is_quiet)
        return 0;
    if (in->options.keep_going && in->options.show_max && in->bad > in->options.show_max)
        return 0;
    if (why->line)
        say_plain("%s:%" PRIu64 ": %s%s", in->name, why->line, reason, column);
    else
        say_plain("%s: %s%s", in->name, reason, column);
    return in->options.keep_going ? 0 : code;
}

/* What is in the builder, if anything. */
static int hand_out(struct input *in, const struct batch **out)
{
    if (batch_builder_count(in->builder) == 0)
        return 0;
    in->lent = batch_builder_finish(in->builder, NULL);
    if (!in->lent)
        return refuse(in, -ENOMEM, "");
    *out = in->lent;
    return 1;
}

static int take_event(void *arg, const struct event_head *head, const struct named_value *values, size_t n)
{
    struct input *in = arg;
    struct diag why = {0};
    int r = batch_builder_add(in->builder, head, values, n, &why);
    in->bad += r < 0;
    if (r < 0 && !in->options.is_quiet)
        say_plain("%s: an event can't be made of record %" PRIu64 ": %s", in->name, logfilter_stats(in->filter)->records,
                  why.message[0] ? why.message : err_text(r));
    return r;
}

/* As decoder_run, of lines of a log. A line that is longer than a record is cut. */
static int filter_run_lines(struct input *in, struct slice data, size_t *used)
{
    const struct logfilter_sink sink = {take_event, in};
    struct slice rest = data;
    while (rest.n && !batch_builder_full(in->builder)) {
        const char *lf = memchr(rest.p, '\n', rest.n);
        struct slice line = slice_of(rest.p, lf ? (size_t)(lf - rest.p) : rest.n);
        bool is_long = line.n > LOGFILTER_RECORD_MAX;
        if (!lf && !in->at_end && !is_long && !in->is_skipping)
            break;
        rest = slice_from(rest, line.n + (lf != NULL));
        if (is_long)
            line.n = LOGFILTER_RECORD_MAX;
        else if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        if (!in->is_skipping)
            (void)logfilter_line(in->filter, line, is_long, in->written_ns, &sink);
        in->is_skipping = !lf;
    }
    if (in->at_end && rest.n == 0)
        logfilter_flush(in->filter, in->written_ns, &sink);
    *used = data.n - rest.n;
    return 0;
}

/* Nothing is left out without a word. */
static void report_unmatched(const struct input *in)
{
    const struct logfilter_stats *s = in->filter ? logfilter_stats(in->filter) : NULL;
    if (s && s->unmatched && !in->options.is_quiet)
        say_plain("%s: %" PRIu64 " of %" PRIu64 " records match no rule of the filter", in->name, s->unmatched, s->records);
    if (s && s->bad_values && !in->options.is_quiet)
        say_plain("%s: %" PRIu64 " times, numbers and levels can't be read and stay text", in->name, s->bad_values);
}

int input_next(struct input *in, const struct batch **out)
{
    batch_unref(in->lent);
    in->lent = NULL;
    if ((!in->decoder && !in->filter) || in->failed < 0)
        return in->failed;
    for (;;) {
        struct diag why;
        size_t used;
        struct slice data = slice_of(in->buffer + in->from, in->to - in->from);
        int r = in->filter ? filter_run_lines(in, data, &used)
                           : decoder_run(in->decoder, data, in->at_end, in->builder, &used, &why);
        in->from += used;
        if (r == -ENOMEM)
            return in->failed = refuse(in, r, "");
        if (r < 0)
            in->failed = bad_unit(in, r, &why);
        if (r < 0 && in->failed == 0)
            continue;
        int given = hand_out(in, out);
        if (given != 0)
            return given;
        if (in->failed < 0 || in->at_end) {
            report_unmatched(in);
            return in->failed;
        }
        r = fill(in);
        if (r < 0)
            return in->failed = r;
    }
}

const struct encoding *input_encoding(const struct input *in)
{
    return in->encoding;
}

uint64_t input_bytes(const struct input *in)
{
    return unpack_bytes(in->unpack);
}

uint64_t input_bad(const struct input *in)
{
    return in->bad;
}

struct batch_trimmed input_trimmed(const struct input *in)
{
    return in->builder ? batch_builder_trimmed(in->builder) : (struct batch_trimmed){0};
}

bool input_is_stream(const struct input *in)
{
    return in->is_stream;
}

static bool stat_of(const char *path, struct stat *st)
{
    return (is_stdin(path) ? fstat(STDIN_FILENO, st) : stat(path, st)) == 0;
}

uint64_t input_size_of(const char *path)
{
    struct stat st;
    return stat_of(path, &st) && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

bool input_can_rewind(const char *path)
{
    struct stat st;
    return !stat_of(path, &st) ||
           S_ISREG(st.st_mode); /* what can't be opened is reported when it is opened */
}

static int copy_all(int from, int to, char *buffer, size_t size)
{
    for (;;) {
        ssize_t n = file_read(from, buffer, size);
        if (n <= 0)
            return (int)n;
        int r = file_write_all(to, slice_of(buffer, (size_t)n));
        if (r < 0)
            return r;
    }
}

int input_spool(const char *path)
{
    int to = file_open_temp(), from = is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int r = from < 0 ? -errno : to < 0 ? to : 0;
    char *buffer = mem_alloc(CHUNK);
    if (r == 0)
        r = copy_all(from, to, buffer, CHUNK);
    mem_free(buffer);
    if (from > STDIN_FILENO)
        (void)close(from); /* only read from */
    if (r == 0)
        return to;
    if (to >= 0)
        (void)close(to); /* dropped */
    if (r != -EINTR)
        say("%s: can't be copied to %s: %s", name_of(path), file_temp_dir(), err_text(r));
    return r;
}
