/* SPDX-License-Identifier: Apache-2.0 */
/* gridline convert: any encoding to any, in one pass; csv in two, as its columns come first. */
#include "cmd/stream.h"
#include "cmd/verbs.h"

#include <errno.h>

struct convert {
    struct stream stream;
    struct output *out;
};

static int write_events(void *ctx, const struct input *in, const struct batch *events)
{
    struct convert *c = ctx;
    int r = output_batch(c->out, events);
    return r == 0 && input_is_stream(in) ? output_flush(c->out) : r; /* someone may be watching */
}

static int convert(struct convert *c)
{
    const struct encoding *format = stream_format(&c->stream, encoding_by_name(SLICE_LIT("ndjson")));
    int r = output_open(c->stream.options->output, format, &c->out);
    if (r == 0 && strcmp(format->name, "csv") == 0)
        r = stream_set_columns(&c->stream, c->out, NULL);
    if (r == 0)
        r = stream_read(&c->stream, write_events, c);
    if (r == -EINTR || r == -EPIPE)
        return r;
    if (r < 0 && !c->stream.options->output)
        (void)output_flush(c->out); /* what came before the error; its own error has been reported */
    return r < 0 ? r : output_finish(c->out);
}

static int convert_run(void *state, struct operands files)
{
    struct convert c = {0};
    int code = stream_init(&c.stream, state, files);
    if (code == EXIT_OK) {
        int r = convert(&c);
        code = stream_report(&c.stream, c.out, r);
    }
    output_close(c.out);
    stream_fini(&c.stream);
    return code;
}

static const struct option_spec convert_options[] = {
    STREAM_OPTIONS,
    {0, "host", OPTION_TEXT, "NAME", offsetof(struct stream_options, filter.host),
     "for events without a host"},
    {0, "prog", OPTION_TEXT, "NAME", offsetof(struct stream_options, filter.prog),
     "for events without a program"},
    {0},
};

static const struct example convert_examples[] = {
    {"gridline convert app.ulm", "A ULM log as JSON, one object a line"},
    {"gridline convert -o app.glb app.ulm", "As gridline's binary, by the ending of the output's name"},
    {"gridline convert -t csv --columns id,size --where \"name = 'transfer.end'\" app.glb",
     "Two fields of one kind of event, for a spreadsheet"},
    {"gridline convert --filter syslog --zone Europe/Berlin messages.1.gz",
     "A log that is no events yet, by a filter (docs/filters.md)"},
    {"tail -f app.log | gridline convert -t ulm --host node17",
     "A growing log, line by line, with the host it lacks"},
    {NULL, NULL},
};

const struct verb verb_convert = {
    .name = "convert",
    .summary = "events in any format to any other",
    .operands = "[FILE...]",
    .description = "Reads events from the files, or from standard input when there is none or it is `-`, and "
                   "writes them in "
                   "another format, one file after the other. Formats may be mixed. Nothing is lost between "
                   "formats: every value "
                   "keeps its type, and all text formats read back to the same events. Of a schema, roles, "
                   "kinds, units and help "
                   "are kept in the binary format only; csv has no types and is written only.\n"
                   "Without `--format` the output's ending names the format; without that it is ndjson.\n"
                   "A line or block that can't be read is reported as `file:line: reason`. It ends the "
                   "command with 1, after "
                   "the events before it have been written; with `--keep-going` it is skipped, and the "
                   "command ends with 4.\n"
                   "For csv the columns must be known first: files are read twice, and what can't be (a "
                   "pipe) is copied to "
                   "`TMPDIR` meanwhile. `--columns` saves that.",
    .operand_kind = OPERAND_FILES,
    .operands_max = SIZE_MAX,
    .options = convert_options,
    .examples = convert_examples,
    .lists_formats = true,
    .state_size = sizeof(struct stream_options),
    .run = convert_run,
};
