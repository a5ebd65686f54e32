/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - the events of one file, or of standard input ("-"), in whatever encoding it has, packed (gzip,
 * zstd) or not.
 *
 * A bad unit is reported on standard error as file:line: reason. With keep_going it is skipped and counted,
 * otherwise it ends the input, after the events before it. Memory: about 1.5 MiB an open input. */
#ifndef GRIDLINE_CMD_INPUT_H
#define GRIDLINE_CMD_INPUT_H

#include "event/encoding.h"

#include <stdint.h>

struct input_options {
    const struct encoding *encoding; /* NULL = told from the first bytes, then from the file's name */
    enum escapes escapes;            /* of quoted values of ULM and BP */
    const char *filter, *zone;       /* of a log (helper/logfilter.h); NULL = the file has events */
    int year;                        /* of its first record; 0 = by the filter, or when the file was last written */
    unsigned builder_flags;          /* BUILDER_KEEP_RAW or 0; text is borrowed in any case */
    bool keep_going;
    uint64_t
        show_max;  /* with keep_going: bad units that are reported; the others are only counted. 0 = all */
    bool is_quiet; /* bad units are skipped, and nothing is reported: another pass does that */
};

/* For tables of options. */
#define INPUT_ESCAPES_HELP \
    "quoted values of ulm and bp: `plain`: a backslash is itself but before `\"` and `\\\\`; `c`: `\\n`, `\\t` and " \
    "`\\r` are escapes, too, as NetLogger's libraries and dCache write them; `auto` (default): what most values of the file show"
#define INPUT_FILTER_HELP \
    "the files are logs: this filter makes events of their lines; a name (`sshd`) or a path (docs/filters.md)"
#define INPUT_ZONE_HELP "with `--filter`: zone of times that have none: `local`, `utc`, `+02:00`, `Europe/Berlin`"
#define INPUT_YEAR_HELP \
    "with `--filter`: year of the first record of logs whose times have none (default: by when the file was last written)"
/* text, or NULL for 0. False: said. */
bool input_year(const char *text, int *out);
/* text, or NULL for auto. False: said. */
bool input_escapes(const char *text, enum escapes *out);

/* Says, if there were any, how many fields over a limit were left out; where is "", or "FILE: ". */
void input_say_trimmed(const char *where, struct batch_trimmed trimmed);

struct input;

/* Borrows path and registry. Errors (-errno, E_PROTO when the encoding can't be told) have been reported.
 * spool_fd, if not -1, is read in place of the path, from its start, and stays open. */
int input_open(const char *path, int spool_fd, const struct input_options *options, struct registry *registry,
               struct input **out);
void input_close(struct input *in); /* NULL is fine */

/* 1 with events, borrowed until the next call or close; 0 at the end; an error, which has been reported. */
int input_next(struct input *in, const struct batch **out);

const struct encoding *input_encoding(const struct input *in); /* NULL: the input is empty */
uint64_t input_bytes(const struct input *in);                  /* read of the file so far */
uint64_t input_bad(const struct input *in);                    /* units skipped so far */
struct batch_trimmed input_trimmed(const struct input *in); /* events with fields over a limit, which were left out */
bool input_is_stream(const struct input *in);                  /* not a file: bytes may come slowly */

/* The size of a regular file, 0 for anything else: for the progress line. */
uint64_t input_size_of(const char *path);
/* Can path ("-": standard input) be read a second time? */
bool input_can_rewind(const char *path);
/* Copies what path gives to a file without a name; its descriptor, or an error, which has been reported. */
int input_spool(const char *path);

#endif
