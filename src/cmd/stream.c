/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/stop.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

static char stdin_name[] = "-";
static char *only_stdin[] = {stdin_name};

int stream_init(struct stream *s, const struct stream_options *options, struct operands files)
{
    struct diag why = {0};
    *s = (struct stream){
        .options = options, .files = files.n ? files.v : only_stdin, .n_files = files.n ? files.n : 1};
    s->spools = mem_alloc(s->n_files * sizeof *s->spools);
    for (size_t i = 0; i < s->n_files; i++) {
        s->spools[i] = -1;
        s->total_bytes += input_size_of(s->files[i]);
    }
    if (!input_escapes(options->escapes, &s->escapes) || !input_year(options->year, &s->year))
        return EXIT_USAGE;
    s->registry = registry_create();
    if (!s->registry) {
        say("%s", err_text(-ENOMEM));
        return EXIT_FAILED;
    }
    if (filter_create(&options->filter, clock_utc_ns(), &s->filter, &why) < 0) {
        say("%s", why.message);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

void stream_fini(struct stream *s)
{
    filter_destroy(s->filter);
    registry_destroy(s->registry);
    for (size_t i = 0; s->spools && i < s->n_files; i++)
        if (s->spools[i] >= 0)
            (void)close(s->spools[i]); /* without a name: gone */
    mem_free(s->spools);
}

const struct encoding *stream_format(const struct stream *s, const struct encoding *otherwise)
{
    const struct stream_options *o = s->options;
    if (o->format)
        return o->format;
    const struct encoding *named = o->output ? encoding_by_suffix(slice_str(o->output)) : NULL;
    return named ? named : otherwise;
}

static int read_one(struct stream *s, struct input *in, stream_sink sink, void *ctx)
{
    const struct batch *batch;
    struct batch passed;
    uint64_t before = s->bytes;
    int r;
    while ((r = input_next(in, &batch)) > 0) {
        filter_run(s->filter, batch, &passed);
        s->events += batch->n;
        s->passed += passed.n;
        r = passed.n ? sink(ctx, in, &passed) : 0;
        if (r < 0)
            return r;
        if (stop_asked())
            return -EINTR;
        s->bytes = before + input_bytes(in);
        say_progress(s->bytes);
    }
    return r;
}

static int read_all(struct stream *s, const struct input_options *options, stream_sink sink, void *ctx)
{
    for (size_t i = 0; i < s->n_files; i++) {
        struct input *in;
        int r = input_open(s->files[i], s->spools[i], options, s->registry, &in);
        if (r == -EINTR)
            return r;
        if (r < 0) {
            s->missing++;
            if (options->keep_going)
                continue;
            return r;
        }
        r = read_one(s, in, sink, ctx);
        s->bad += input_bad(in);
        s->trimmed.events += input_trimmed(in).events;
        s->trimmed.fields += input_trimmed(in).fields;
        input_close(in);
        if (r < 0)
            return r;
    }
    return 0;
}

int stream_read(struct stream *s, stream_sink sink, void *ctx)
{
    struct input_options options = {.encoding = s->options->input,
                                    .escapes = s->escapes, .filter = s->options->log_filter, .zone = s->options->zone, .year = s->year,
                                    .builder_flags = s->builder_flags,
                                    .keep_going = s->options->keep_going};
    if (!s->options->quiet)
        say_progress_start("read", s->total_bytes);
    s->bytes = s->events = s->passed = s->bad = s->missing = 0;
    s->trimmed = (struct batch_trimmed){0};
    int r = read_all(s, &options, sink, ctx);
    say_progress_end();
    return r;
}

static int note_schemas(void *ctx, const struct input *in, const struct batch *events)
{
    (void)in; /* whatever its encoding */
    for (size_t i = 0; i < events->n; i++)
        schemas_add(ctx, events->events[i].schema);
    return 0;
}

/* Reads everything once, for its fields alone. What can't be read is left for the second reading to report.
 */
static int scan_schemas(struct stream *s, struct schemas *out)
{
    struct input_options options = {
        .encoding = s->options->input, .escapes = s->escapes, .filter = s->options->log_filter, .zone = s->options->zone, .year = s->year, .keep_going = true, .is_quiet = true};
    for (size_t i = 0; i < s->n_files; i++) {
        if (input_can_rewind(s->files[i]))
            continue;
        int fd = input_spool(s->files[i]);
        if (fd < 0)
            return fd;
        s->spools[i] = fd;
    }
    if (!s->options->quiet)
        say_progress_start("looking for columns,", s->total_bytes);
    int r = read_all(s, &options, note_schemas, out);
    say_progress_end();
    return r;
}

int stream_set_columns(struct stream *s, struct output *out, const struct schemas *known)
{
    struct schemas found = {0};
    int r = 0;
    if (s->options->columns)
        return output_named_columns(out, s->options->columns);
    if (!known)
        r = scan_schemas(s, &found);
    const struct schemas *use = known ? known : &found;
    if (r == 0)
        r = output_columns(out, use->names, use->n_names);
    schemas_fini(&found);
    return r;
}

static void summarise(const struct stream *s)
{
    if (s->options->verbose && !s->options->quiet)
        say("%" PRIu64 " events read, %" PRIu64 " written, %" PRIu64 " bad, %" PRIu64 " bytes, %zu inputs",
            s->events, s->passed, s->bad, s->bytes, s->n_files);
}

int stream_report(struct stream *s, const struct output *out, int r)
{
    uint64_t left_out = out ? output_left_out(out) : 0;
    if (r < 0)
        return s->missing && r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    summarise(s);
    if (left_out && !s->options->quiet && !s->options->columns)
        say("%" PRIu64 " values had no column and were left out", left_out);
    if (!s->options->quiet && s->bad)
        say("%" PRIu64 " bad %s skipped", s->bad, s->bad == 1 ? "unit was" : "units were");
    if (!s->options->quiet)
        input_say_trimmed("", s->trimmed);
    if (!s->options->quiet && s->missing)
        say("%" PRIu64 " of %zu inputs could not be opened", s->missing, s->n_files);
    return s->bad || s->missing || s->trimmed.events || (left_out && !s->options->columns) ? EXIT_PARTLY : EXIT_OK;
}
