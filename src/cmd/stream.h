/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - what convert and merge share: their options, and reading the events of many inputs through a
 * filter. */
#ifndef GRIDLINE_CMD_STREAM_H
#define GRIDLINE_CMD_STREAM_H

#include "cmd/filter.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "cmd/schemas.h"

struct stream_options {
    const struct encoding *format; /* NULL = by the output's name, else the command's own */
    const struct encoding *input;  /* NULL = told from each input */
    const char *output;            /* NULL = standard output */
    const char *escapes;           /* NULL = auto */
    const char *log_filter, *zone, *year; /* of logs; NULL = not given */
    const char *columns;           /* csv: names separated by commas; NULL = all there are */
    struct filter_options filter;
    bool keep_going, quiet, verbose;
};

/* The rows of their option tables; the struct with the options begins with a struct stream_options. */
/* clang-format off */
#define STREAM_OPTION(letter, name, type, metavar, member, help) \
    {letter, name, type, metavar, offsetof(struct stream_options, member), help}
#define STREAM_OPTIONS \
    STREAM_OPTION('t', "format", OPTION_FORMAT, "FORMAT", format, "write this format"), \
    STREAM_OPTION('o', "output", OPTION_FILE, "FILE", output, \
        "write to FILE, which appears when everything went well (it may be one of the inputs); its ending " \
        "names the format unless `--format` does"), \
    STREAM_OPTION(0, "input", OPTION_INPUT, "FORMAT", input, \
        "the inputs have this format; otherwise it is told from each one's first bytes"), \
    STREAM_OPTION(0, "escapes", OPTION_TEXT, "DIALECT", escapes, INPUT_ESCAPES_HELP), \
    STREAM_OPTION(0, "filter", OPTION_TEXT, "FILTER", log_filter, INPUT_FILTER_HELP), \
    STREAM_OPTION(0, "zone", OPTION_TEXT, "ZONE", zone, INPUT_ZONE_HELP), \
    STREAM_OPTION(0, "year", OPTION_TEXT, "YEAR", year, INPUT_YEAR_HELP), \
    STREAM_OPTION('w', "where", OPTION_TEXT, "EXPR", filter.where, \
        "only events for which EXPR is true: a WHERE clause of SQL on `time`, `host`, `prog`, `level`, " \
        "`name` and the fields, as in `level <= 'warning' AND size > 1000`"), \
    STREAM_OPTION(0, "from", OPTION_TIME, "TIME", filter.from, "only events at TIME or later"), \
    STREAM_OPTION(0, "to", OPTION_TIME, "TIME", filter.to, "only events before TIME"), \
    STREAM_OPTION(0, "columns", OPTION_TEXT, "NAMES", columns, \
        "for csv: these fields, separated by commas, in this order; otherwise all fields there are"), \
    STREAM_OPTION('k', "keep-going", OPTION_FLAG, NULL, keep_going, \
        "report and skip what can't be read, and exit with 4; otherwise the first such thing ends the " \
        "command"), \
    STREAM_OPTION('q', "quiet", OPTION_FLAG, NULL, quiet, "no progress and no summary"), \
    STREAM_OPTION('v', "verbose", OPTION_FLAG, NULL, verbose, "a summary at the end")
/* clang-format on */

/* One command's run over its inputs. */
struct stream {
    const struct stream_options *options;
    enum escapes escapes;
    int year;
    unsigned builder_flags;
    char **files; /* borrowed */
    size_t n_files;
    int *spools; /* per file, -1 or a copy of what can't be read twice */
    struct registry *registry;
    struct filter *filter;
    uint64_t total_bytes; /* of the regular files */
    /* what has been read so far; bad and missing are what makes a command's result a part */
    uint64_t bytes, events, passed, bad, missing;
    struct batch_trimmed trimmed;
};

/* No file means standard input. Errors have been reported; the result is an exit code. stream_fini in any
 * case. */
int stream_init(struct stream *s, const struct stream_options *options, struct operands files);
void stream_fini(struct stream *s);

/* Takes the events of one batch that passed the filter. An error ends the reading and has been reported. */
typedef int (*stream_sink)(void *ctx, const struct input *in, const struct batch *events);
/* All inputs, one after the other. */
int stream_read(struct stream *s, stream_sink sink, void *ctx);
/* What the format is, by options, the output's name, or otherwise. */
const struct encoding *stream_format(const struct stream *s, const struct encoding *otherwise);

/* For csv: the columns of the options, or those of schemas, or (NULL) of the inputs, which are read for it.
 */
int stream_set_columns(struct stream *s, struct output *out, const struct schemas *known);

/* Tells what was skipped and, if asked for, what was done; the exit code for the result r. */
int stream_report(struct stream *s, const struct output *out, int r);

#endif
