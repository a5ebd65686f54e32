/* SPDX-License-Identifier: Apache-2.0 */
/* gridline import: files of events into an archive, through a gateway or directly.
 *
 * A file is known by what is in it: its id is the XXH3-128 of its bytes, unpacked, and of what --host and
 * --prog add to its events. Its events are numbered in their order. So a file may be imported again, or go on
 * after it was broken off, under whatever name it has now, and nothing is there twice. That takes a pass over
 * the file before the first event is sent; what can't be read twice is copied to TMPDIR. */
#include "cmd/import.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cmd/filter.h"
#include "cmd/input.h"
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "cmd/unpack.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

enum { SHOW_MAX = 5, CHUNK = 256 << 10, DRAW_MS = 500, QUIET_MS = 1000 };
static const int64_t ns_per_ms = 1000000;

struct import {
    const struct import_options *options;
    const struct import_target_ops *ops;
    void *target;
    struct registry *registry;
    struct filter *filter;
    enum escapes escapes;
    int year;
    struct table *table;
    struct args_writer row;
    /* of the file at hand */
    const char *path;
    int spool; /* -1, or a copy of what can't be read twice */
    uint64_t bad, bytes, size;
    struct batch_trimmed trimmed;
    int64_t start_ns, drawn_ns;
    /* of all */
    struct import_counts sum;
    uint64_t sum_bad, sum_trimmed;
    size_t missing;
    int failed; /* the target's error; 0: none. Ends the command, where a file's own does not */
};

/* ---------------------------------------------------------------- the file's id */

static int hash_fd(int fd, XXH3_state_t *state, const char *path)
{
    struct unpack *u = unpack_create(fd);
    char *buffer = mem_try_alloc(CHUNK);
    ssize_t n = u && buffer ? 1 : -ENOMEM;
    while (n > 0) {
        n = unpack_read(u, buffer, CHUNK);
        if (n > 0 && XXH3_128bits_update(state, buffer, (size_t)n) != XXH_OK)
            n = -ENOMEM;
        if (u)
            say_progress(unpack_bytes(u));
        if (stop_asked())
            n = -EINTR;
    }
    if (n == E_DAMAGE)
        n = 0; /* as far as it can be read: that is what will be read, and said, again */
    if (n < 0 && n != -EINTR)
        say_plain("%s: %s", path, err_text((int)n));
    mem_free(buffer);
    unpack_destroy(u);
    return (int)n;
}

static void hash_word(XXH3_state_t *state, const char *word)
{
    if (!word)
        word = "";
    (void)XXH3_128bits_update(state, word, strlen(word) + 1); /* fails only without a state */
}

/* What --host, --prog, --escapes and --filter say is part of what the events are: the same file of two hosts is two files. */
static void hash_options(XXH3_state_t *state, const struct import *im)
{
    const struct import_options *o = im->options;
    if (o->host || o->prog) {
        hash_word(state, o->host);
        hash_word(state, o->prog);
    }
    if (im->escapes != ESCAPES_AUTO)
        hash_word(state, im->escapes == ESCAPES_C ? "escapes=c" : "escapes=plain");
    if (o->log_filter) {
        hash_word(state, "filter");
        hash_word(state, o->log_filter);
        hash_word(state, o->zone);
        hash_word(state, o->year);
    }
}

static int file_id(struct import *im, uint8_t id[16])
{
    bool is_stdin = im->spool < 0 && strcmp(im->path, "-") == 0, is_mine = im->spool < 0 && !is_stdin;
    int fd = is_mine ? open(im->path, O_RDONLY | O_CLOEXEC) : is_stdin ? STDIN_FILENO : im->spool;
    if (fd < 0) {
        int r = -errno;
        say_plain("%s: %s", im->path, err_text(r));
        return r;
    }
    XXH3_state_t *state = XXH3_createState();
    int r = state && XXH3_128bits_reset(state) == XXH_OK ? 0 : -ENOMEM;
    if (!im->options->is_quiet)
        say_progress_start("looked at", im->size);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        r = hash_fd(fd, state, im->path);
    if (r == 0) {
        XXH128_canonical_t bytes;
        hash_options(state, im);
        XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state));
        memcpy(id, bytes.digest, 16);
    }
    say_progress_end();
    (void)XXH3_freeState(state); /* never fails; NULL is fine */
    if (is_mine)
        (void)close(fd); /* only read from */
    return r;
}

/* ---------------------------------------------------------------- progress */

static void draw(struct import *im, const struct input *in)
{
    int64_t now = clock_mono_ns();
    if (im->options->is_quiet || now - im->start_ns < QUIET_MS * ns_per_ms ||
        now - im->drawn_ns < DRAW_MS * ns_per_ms)
        return;
    struct import_counts n;
    char left[48] = "";
    im->ops->counts(im->target, &n);
    uint64_t done = input_bytes(in);
    double seconds = (double)(now - im->start_ns) / (double)NS_PER_S, mib = (double)done / (1 << 20);
    if (im->size > done && done)
        (void)snprintf(left, sizeof left, ", %.0f%%, %.0f s left", 100.0 * (double)done / (double)im->size,
                       seconds * (double)(im->size - done) / (double)done); /* fits */
    im->drawn_ns = now;
    say_status("%s: %" PRIu64 " events, %.0f MiB, %.0f events/s, %.1f MiB/s%s", im->path, n.given, mib,
               (double)n.given / seconds, mib / seconds, left);
}

/* ---------------------------------------------------------------- one file */

static struct input_options reading(const struct import *im)
{
    return (struct input_options){
        .encoding = im->options->input, .escapes = im->escapes, .filter = im->options->log_filter,
        .zone = im->options->zone, .year = im->year, .keep_going = !im->options->is_strict, .show_max = SHOW_MAX};
}

/* --strict: is there anything that can't be read? Then nothing of it is given. */
static int check(struct import *im)
{
    struct input_options options = reading(im);
    struct input *in = NULL;
    const struct batch *b;
    int r = input_open(im->path, im->spool, &options, im->registry, &in);
    while (r == 0 && (r = input_next(in, &b)) > 0)
        r = stop_asked() ? -EINTR : 0;
    input_close(in);
    return r;
}

/* 0: all of it; E_DAMAGE: as far as it can be unpacked; else it was broken off. */
static int give_all(struct import *im, struct input *in)
{
    const struct batch *b;
    struct batch with_hosts;
    int r;
    while ((r = input_next(in, &b)) > 0) {
        filter_run(im->filter, b, &with_hosts);
        im->failed = im->ops->give(im->target, &with_hosts);
        if (im->failed < 0 || stop_asked())
            return im->failed < 0 ? im->failed : -EINTR;
        draw(im, in);
    }
    return r;
}

/* r: how giving ended. */
static int end_file(struct import *im, const struct input *in, int r)
{
    bool is_damaged = r == E_DAMAGE && im->failed == 0;
    bool is_whole = r == 0 || is_damaged;
    im->bad += input_bad(in) + is_damaged;
    if (im->failed < 0)
        return r;
    im->failed = im->ops->end(im->target, is_whole);
    return im->failed < 0 ? im->failed : is_whole ? 0 : r;
}

static int transfer(struct import *im, const uint8_t id[16])
{
    struct input_options options = reading(im);
    struct input *in = NULL;
    int r = input_open(im->path, im->spool, &options, im->registry, &in);
    if (r < 0)
        return r;
    r = im->failed = im->ops->begin(im->target, id);
    if (r == 0)
        r = end_file(im, in, give_all(im, in));
    im->bytes = input_bytes(in);
    im->trimmed = input_trimmed(in);
    say_progress_end();
    if (r == 0 && im->bad > SHOW_MAX)
        say_plain("%s: %" PRIu64 " more like these", im->path, im->bad - SHOW_MAX);
    input_close(in);
    return r;
}

static void add_row(struct import *im, const uint8_t id[16], const struct import_counts *n)
{
    static const char digits[] = "0123456789abcdef";
    char hex[32];
    for (size_t i = 0; i < 16; i++) {
        hex[2 * i] = digits[id[i] >> 4];
        hex[2 * i + 1] = digits[id[i] & 15];
    }
    struct args_writer *row = &im->row;
    args_writer_reset(row);
    args_add_text(row, "file", slice_str(im->path));
    args_add_uint(row, "events", n->given);
    args_add_uint(row, "stored", n->stored);
    args_add_uint(row, "again", n->again);
    args_add_uint(row, "too_old", n->too_old);
    args_add_uint(row, "too_new", n->too_new);
    args_add_uint(row, "refused", n->refused);
    args_add_uint(row, "bad", im->bad);
    args_add_uint(row, "trimmed", im->trimmed.events);
    args_add_uint(row, "bytes", im->bytes);
    args_add(row, SLICE_LIT("seconds"),
             value_float((double)(clock_mono_ns() - im->start_ns) / (double)NS_PER_S));
    args_add_text(row, "id", slice_of(hex, sizeof hex));
    table_add(im->table, args_of(row), SLICE_LIT(""));
}

static void account(struct import *im, const uint8_t id[16])
{
    struct import_counts n;
    im->ops->counts(im->target, &n);
    add_row(im, id, &n);
    im->sum.given += n.given;
    im->sum.stored += n.stored;
    im->sum.again += n.again;
    im->sum.too_old += n.too_old;
    im->sum.too_new += n.too_new;
    im->sum.refused += n.refused;
    im->sum_bad += im->bad;
    im->sum_trimmed += im->trimmed.events;
    if (im->trimmed.events) {
        struct strbuf where = {0};
        strbuf_printf(&where, "%s: ", im->path);
        input_say_trimmed(strbuf_failed(&where) ? "" : where.p, im->trimmed);
        strbuf_fini(&where);
    }
    if (n.refused)
        say("%s: %" PRIu64 " events were refused: %s", im->path, n.refused, n.said);
    if (n.too_old)
        say("%s: %" PRIu64 " events are too old: %s; %s", im->path, n.too_old, n.why_old,
            im->ops->when_too_old);
    if (n.too_new)
        say("%s: %" PRIu64 " events are too new: %s", im->path, n.too_new, n.why_new);
}

static int import_file(struct import *im, const char *path)
{
    uint8_t id[16];
    int r = 0;
    im->path = path;
    im->spool = -1;
    im->bad = im->bytes = 0;
    im->trimmed = (struct batch_trimmed){0};
    im->size = input_size_of(path);
    im->start_ns = im->drawn_ns = clock_mono_ns();
    if (!input_can_rewind(path)) {
        im->spool = input_spool(path);
        r = im->spool < 0 ? im->spool : 0;
    }
    if (r == 0)
        r = file_id(im, id);
    if (r == 0 && im->options->is_strict)
        r = check(im);
    if (r == 0) {
        r = transfer(im, id);
        account(im, id);
    }
    if (im->spool >= 0)
        (void)close(im->spool); /* without a name: gone */
    return r;
}

/* ---------------------------------------------------------------- all of them */

static int exit_of(const struct import *im, int r, size_t n_files)
{
    if (im->failed == -EACCES)
        return EXIT_NOT_ALLOWED;
    if (r < 0)
        return EXIT_FAILED;
    if (im->missing == n_files)
        return EXIT_NOT_FOUND;
    bool is_part = im->missing || im->sum_bad || im->sum_trimmed || im->sum.too_old || im->sum.too_new || im->sum.refused;
    return is_part ? EXIT_PARTLY : EXIT_OK;
}

static int import_files(struct import *im, struct operands files)
{
    int r = 0;
    for (size_t i = 0; i < files.n && r == 0; i++) {
        r = import_file(im, files.v[i]);
        bool is_of_file = r < 0 && r != -EINTR && im->failed == 0;
        im->missing += is_of_file;
        if (is_of_file && !im->options->is_strict)
            r = 0; /* the others come all the same */
    }
    if (table_finish(im->table) < 0 && r == 0)
        r = -EIO;
    if (r == -EINTR)
        say("stopped; the same command goes on where this one ended");
    return exit_of(im, r, files.n);
}

static const struct table_column columns[] = {
    {"file", 0},    {"events", 0},  {"stored", 0}, {"again", 0},   {"too_old", 0},
    {"too_new", 0}, {"refused", 0}, {"bad", 0},    {"trimmed", 0}, {NULL, 0},
};

static int prepare(struct import *im, struct table_options *report)
{
    const struct import_options *o = im->options;
    struct diag why = {0};
    struct filter_options fill = {.host = o->host, .prog = o->prog};
    if (o->archive && (o->gateway || o->identity)) {
        say("--archive and --gateway do not go together; leave one out");
        return EXIT_USAGE;
    }
    if (!table_format(o->format, &report->encoding) || !input_escapes(o->escapes, &im->escapes) ||
        !input_year(o->year, &im->year))
        return EXIT_USAGE;
    if (filter_create(&fill, 0, &im->filter, &why) < 0) {
        say("%s", why.message);
        return EXIT_USAGE;
    }
    im->registry = registry_create();
    im->table = im->registry ? table_create(report) : NULL;
    if (!im->table)
        return EXIT_FAILED;
    im->ops = o->archive ? &import_archive : &import_gateway;
    return im->ops->open(o, &im->target) < 0 ? EXIT_FAILED : EXIT_OK;
}

static int import_run(void *state, struct operands files)
{
    struct import_options *o = state;
    if (o->keep_ns && __builtin_add_overflow(clock_utc_ns(), o->keep_ns, &o->keep_until_ns))
        o->keep_until_ns = BATCH_KEEP_EVER;
    struct import im = {.options = o};
    struct table_options report = {.event = "import", .columns = columns, .shows_all = true};
    int code = prepare(&im, &report);
    if (code == EXIT_OK)
        code = import_files(&im, files);
    if (im.ops)
        im.ops->close(im.target);
    table_destroy(im.table);
    args_writer_fini(&im.row);
    filter_destroy(im.filter);
    registry_destroy(im.registry);
    return code;
}

static const struct option_spec table[] = {
    {0, "archive", OPTION_FILE, "DIR", offsetof(struct import_options, archive),
     "into the archive in this folder, which is made if it is not there; no gateway may have it"},
    {'g', "gateway", OPTION_TEXT, "ADDRESS", offsetof(struct import_options, gateway),
     "to this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the one on this host)"},
    {0, "identity", OPTION_FILE, "DIR", offsetof(struct import_options, identity),
     "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or "
     "`~/.config/gridline/identity`)"},
    {0, "input", OPTION_INPUT, "FORMAT", offsetof(struct import_options, input),
     "the files have this format; otherwise it is told from each one's first bytes"},
    {0, "host", OPTION_TEXT, "NAME", offsetof(struct import_options, host), "for events without a host"},
    {0, "prog", OPTION_TEXT, "NAME", offsetof(struct import_options, prog), "for events without a program"},
    {0, "escapes", OPTION_TEXT, "DIALECT", offsetof(struct import_options, escapes), INPUT_ESCAPES_HELP},
    {0, "filter", OPTION_TEXT, "FILTER", offsetof(struct import_options, log_filter), INPUT_FILTER_HELP},
    {0, "zone", OPTION_TEXT, "ZONE", offsetof(struct import_options, zone), INPUT_ZONE_HELP},
    {0, "year", OPTION_TEXT, "YEAR", offsetof(struct import_options, year), INPUT_YEAR_HELP},
    {0, "keep", OPTION_KEEP, "[TIME]", offsetof(struct import_options, keep_ns),
     "take events however old they are, and keep them for so long from now on (`30d`), or for ever if no "
     "time is "
     "given: the archive's own ages (`archive.keep`) do not count for them. At a gateway: for who may "
     "control workers"},
    {0, "strict", OPTION_FLAG, NULL, offsetof(struct import_options, is_strict),
     "nothing of a file goes in if some of it can't be read, and none of the files behind it"},
    {0, "timeout", OPTION_DURATION, "TIME", offsetof(struct import_options, timeout_ns),
     "how long a gateway may be away or take nothing before the command gives up (default 30s)"},
    {'t', "format", OPTION_TEXT, "FORMAT", offsetof(struct import_options, format),
     "of the report: `table` (default), `json`, `csv`, `ulm`, `xml`, or another of the formats"},
    {'q', "quiet", OPTION_FLAG, NULL, offsetof(struct import_options, is_quiet), "no progress"},
    {0},
};

static const struct example examples[] = {
    {"gridline import app.ulm.gz app.ulm", "Two logs to this host's gateway, and so into its archive"},
    {"gridline import --archive /srv/archive --host node7 old/*.log",
     "Into a folder, with the host they lack"},
    {"gridline import --filter access --host web1 access.log.1", "A web server's log, by a filter (docs/filters.md)"},
    {"gridline import --keep trace-2010.ulm.gz", "An old trace, to stay beside what is kept for 90 days"},
    {"gridline import --format json - < events.ndjson", "From a pipe; the report is for a program"},
    {NULL, NULL},
};

const struct verb verb_import = {
    .name = "import",
    .summary = "files of events into an archive",
    .operands = "FILE...",
    .description =
        "Reads events of any format that gridline reads, also packed with gzip or zstd, and gives them to a "
        "gateway, "
        "whose archive takes them as it takes what happens now; or with `--archive` to an archive's folder.\n"
        "A file is known by its content. What is there already is left out: import it again, under any name, "
        "packed "
        "or not, and nothing is added; a command that was broken off, by you or by the gateway, goes on "
        "where it "
        "ended when it is started again. A file that has grown or was corrected is another file. Events in "
        "binary "
        "files keep the producer and number that they have.\n"
        "What can't be read is reported as `file:line: reason`, the first few of each file, and left out.\n"
        "The report has a row a file: `events` that were read, of them `stored`, there before (`again`), "
        "`too_old`, "
        "`too_new`, `refused`; units that could not be read (`bad`); and events of which a field was left out that is over a limit "
        "(`trimmed`; the field `dropped_fields` names it). Ends with 4 if something was left out, with 3 "
        "if no "
        "file could be read.",
    .operand_kind = OPERAND_FILES,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct import_options),
    .run = import_run,
};
