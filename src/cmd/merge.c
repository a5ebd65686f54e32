/* SPDX-License-Identifier: Apache-2.0 */
/* gridline merge: many files into one stream in the order of time.
 *
 * Everything goes through a sorter, as records: where the output is made of lines, a record is the line to be
 * written. A line of an input that has the output's format has been parsed in full, for its time and to know
 * that it is good, but it is the line itself that passes. Events of other formats become lines before they
 * are sorted. Where the output is not made of lines a record is an event (row.h), encoded when it comes out
 * again.
 *
 * Rejected: a first pass that only finds out whether the files are in order (a second parse costs more than
 * writing and reading runs does). */
#include "base/mem.h"
#include "cmd/file.h"
#include "cmd/stop.h"
#include "cmd/row.h"
#include "cmd/say.h"
#include "cmd/sorter.h"
#include "cmd/stream.h"
#include "cmd/verbs.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

enum { DRAIN_EVENTS = 4096, DRAIN_BYTES = 4 << 20, STOP_EVERY = 4096 };

struct merge_options {
    struct stream_options stream;
    uint64_t memory_bytes;
};

struct merge {
    struct stream stream;
    struct sorter *sorter;
    const struct encoding *format;
    struct encoder *encoder; /* of lines, for inputs of other formats; made when needed */
    struct strbuf buffer;    /* what it writes; or a row */
    struct schemas schemas;  /* those that rows point to */
    struct output *out;
};

/* Sorter errors are about temporary files. */
static int refuse(int code)
{
    if (code == E_LIMIT)
        say("an event is longer than %d bytes in the output's format", SORTER_RECORD_MAX);
    else if (code != -EINTR)
        say("%s, where what does not fit in memory goes (TMPDIR): %s", file_temp_dir(), err_text(code));
    return code;
}

/* Each event is one line: line i is event i. */
static int add_encoded(struct merge *m, const struct batch *b)
{
    int r = m->encoder ? 0 : encoder_create(m->format, &m->encoder);
    strbuf_reset(&m->buffer);
    if (r == 0)
        r = encoder_run(m->encoder, b, &m->buffer);
    struct slice rest = strbuf_slice(&m->buffer);
    for (size_t i = 0; i < b->n && r == 0; i++) {
        const char *lf = memchr(rest.p, '\n', rest.n);
        assert(lf);
        struct slice line = {rest.p, (size_t)(lf - rest.p)};
        rest = slice_from(rest, line.n + 1);
        r = sorter_add(m->sorter, b->events[i].time_ns, line);
    }
    return r;
}

/* Lines as they are; but an event whose line is not to be copied is written anew. */
static int add_raw(struct merge *m, const struct batch *b)
{
    int r = 0;
    for (size_t i = 0; i < b->n && r == 0; i++) {
        struct batch one = {.events = &b->events[i], .n = 1, .origin = b->origin};
        r = b->raw[i].n ? sorter_add(m->sorter, b->events[i].time_ns, b->raw[i]) : add_encoded(m, &one);
    }
    return r;
}

static int add_rows(struct merge *m, const struct batch *b)
{
    int r = 0;
    for (size_t i = 0; i < b->n && r == 0; i++) {
        schemas_add(&m->schemas, b->events[i].schema);
        strbuf_reset(&m->buffer);
        row_write(&m->buffer, &b->events[i]);
        r = strbuf_failed(&m->buffer) ? -ENOMEM
                                      : sorter_add(m->sorter, b->events[i].time_ns, strbuf_slice(&m->buffer));
    }
    return r;
}

static int add_events(void *ctx, const struct input *in, const struct batch *events)
{
    struct merge *m = ctx;
    int r;
    if (!m->format) /* neither named nor in the output's ending: that of the first input */
        m->format = input_encoding(in) ? input_encoding(in) : encoding_by_name(SLICE_LIT("ndjson"));
    if (!m->format->is_lines)
        r = add_rows(m, events);
    else if (input_encoding(in) == m->format)
        r = add_raw(m, events);
    else
        r = add_encoded(m, events);
    return r < 0 ? refuse(r) : 0;
}

static int drain_lines(struct merge *m)
{
    struct slice line;
    int64_t time_ns;
    int r;
    for (uint64_t n = 1; (r = sorter_next(m->sorter, &time_ns, &line)) > 0; n++) {
        r = output_line(m->out, line);
        if (r < 0)
            return r;
        if (n % STOP_EVERY == 0 && stop_asked())
            return -EINTR;
    }
    return r < 0 ? refuse(r) : 0;
}

/* As many rows as make a batch; their number, 0 at the end. */
static int take_rows(struct merge *m, struct arena *arena, struct event *events)
{
    struct slice row;
    int64_t time_ns;
    int n = 0, r = 1;
    arena_reset(arena);
    while (n < DRAIN_EVENTS && arena->total < DRAIN_BYTES &&
           (r = sorter_next(m->sorter, &time_ns, &row)) > 0) {
        r = row_read(row, time_ns, arena, &events[n]);
        if (r < 0)
            break;
        n++;
    }
    return r < 0 ? refuse(r) : n;
}

static int drain_rows(struct merge *m)
{
    struct arena arena = {0};
    struct event *events = mem_alloc(DRAIN_EVENTS * sizeof *events);
    int n, r = 0;
    while (r == 0 && (n = take_rows(m, &arena, events)) != 0) {
        struct batch view = {
            .events = events, .n = (size_t)n, .origin = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}}};
        r = n < 0 ? n : stop_asked() ? -EINTR : output_batch(m->out, &view);
    }
    arena_fini(&arena);
    mem_free(events);
    return r;
}

static int write_all(struct merge *m)
{
    if (!m->format) /* there was no event */
        m->format = encoding_by_name(SLICE_LIT("ulm"));
    int r = sorter_sort(m->sorter);
    if (r < 0)
        return refuse(r);
    r = output_open(m->stream.options->output, m->format, &m->out);
    if (r == 0 && strcmp(m->format->name, "csv") == 0)
        r = stream_set_columns(&m->stream, m->out, &m->schemas);
    if (r == 0)
        r = m->format->is_lines ? drain_lines(m) : drain_rows(m);
    return r < 0 ? r : output_finish(m->out);
}

static int merge(struct merge *m, uint64_t memory_bytes)
{
    int r = sorter_create(memory_bytes, &m->sorter);
    if (r < 0)
        return refuse(r);
    m->format = stream_format(&m->stream, NULL);
    m->stream.builder_flags = BUILDER_KEEP_RAW;
    r = stream_read(&m->stream, add_events, m);
    if (r < 0)
        return r;
    if (m->stream.options->verbose && sorter_spills(m->sorter))
        say("%" PRIu64 " runs in %s", sorter_spills(m->sorter), file_temp_dir());
    return write_all(m);
}

static int merge_run(void *state, struct operands files)
{
    const struct merge_options *o = state;
    struct merge m = {0};
    int code = stream_init(&m.stream, &o->stream, files);
    if (code == EXIT_OK) {
        int r = merge(&m, o->memory_bytes);
        code = stream_report(&m.stream, m.out, r);
    }
    output_close(m.out);
    sorter_destroy(m.sorter);
    encoder_destroy(m.encoder);
    strbuf_fini(&m.buffer);
    schemas_fini(&m.schemas);
    stream_fini(&m.stream);
    return code;
}

static const struct option_spec merge_table[] = {
    STREAM_OPTIONS,
    {0, "memory", OPTION_SIZE, "SIZE", offsetof(struct merge_options, memory_bytes),
     "memory to sort in, from `16MiB` to `4GiB` (default `64MiB`); what does not fit goes to files in "
     "`TMPDIR`"},
    {0},
};

static const struct merge_options merge_defaults = {.memory_bytes = 64 << 20};

static const struct example merge_examples[] = {
    {"gridline merge -o all.ulm node*.ulm", "The logs of many hosts in one, in time order"},
    {"gridline merge --from now-1h --where \"level <= 'error'\" *.log",
     "The errors of the last hour, whatever the formats"},
    {"gridline merge --memory 2GiB -o all.glb /data/*.glb",
     "More events than fit in memory, faster with more of it"},
    {NULL, NULL},
};

const struct verb verb_merge = {
    .name = "merge",
    .summary = "many files of events into one, in time order",
    .operands = "[FILE...]",
    .description = "Reads the events of all files, in whatever formats and orders, and writes them in the "
                   "order of their times. "
                   "Events of equal time keep the order of the files on the command line, and within a file "
                   "their own. The files "
                   "may be larger than memory: what does not fit is sorted in parts, which are kept in "
                   "`TMPDIR` (about as many "
                   "bytes as the files have) and have no name, so that nothing is left behind.\n"
                   "Merge changes no byte of a line: lines of files that have the output's own line format "
                   "(ulm, bp, ndjson) are "
                   "checked and then written as they are; only their ends become a single LF, and blank "
                   "lines go. Lines with escapes as of C or a field over a limit, and events of other "
                   "formats, are converted. Without `--format` the output's ending names the format; without "
                   "that it is that of the "
                   "first file. The numbering and clocks of binary blocks are not kept, as merging takes the "
                   "blocks apart.\n"
                   "A line or block that can't be read is reported as `file:line: reason`. It ends the "
                   "command with 1, and "
                   "nothing is written; with `--keep-going` it is skipped, and the command ends with 4.",
    .operand_kind = OPERAND_FILES,
    .operands_max = SIZE_MAX,
    .options = merge_table,
    .examples = merge_examples,
    .lists_formats = true,
    .state_size = sizeof(struct merge_options),
    .defaults = &merge_defaults,
    .run = merge_run,
};
