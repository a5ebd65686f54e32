/* SPDX-License-Identifier: Apache-2.0 */
/* question.h - what the commands that ask a gateway share: their options, the connection, and rows that
 * become a table or events. Everything that is wrong has been said when a call returns; results are exit
 * codes. */
#ifndef GRIDLINE_CMD_QUESTION_H
#define GRIDLINE_CMD_QUESTION_H

#include "cmd/options.h"
#include "cmd/table.h"
#include "net/ask.h"

/* The struct with a command's options begins with this. */
struct question_options {
    const char *gateway, *identity, *format, *where;
    int64_t timeout_ns; /* 0 = the gateway's own */
};

/* clang-format off */
#define QUESTION_OPTION(letter, name, type, metavar, member, help) \
    {letter, name, type, metavar, offsetof(struct question_options, member), help}
#define QUESTION_WHERE \
    QUESTION_OPTION('w', "where", OPTION_TEXT, "EXPR", where, \
        "only workers for which EXPR is true: a WHERE clause of SQL on `host`, `state`, `mode`, `worker` and the static " \
        "properties, as in `cpus >= 8`")
#define QUESTION_OPTIONS \
    QUESTION_OPTION('g', "gateway", OPTION_TEXT, "ADDRESS", gateway, \
        "ask this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the one on this host)"), \
    QUESTION_OPTION(0, "identity", OPTION_FILE, "DIR", identity, \
        "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or `~/.config/gridline/identity`)"), \
    QUESTION_OPTION(0, "timeout", OPTION_DURATION, "TIME", timeout_ns, "wait so long for answers (default 10s)"), \
    QUESTION_OPTION('t', "format", OPTION_TEXT, "FORMAT", format, \
        "`table` (default), `json`, `csv`, `ulm`, `xml`, or another of the formats")
/* clang-format on */

struct question {
    const struct question_options *options;
    struct table_options table_options;
    struct table *table;
    struct ask *ask;
    struct args_writer args;  /* what will be asked */
    uint64_t asked, answered; /* workers */
    uint64_t rows;            /* of the last question_pages */
    int64_t start_ns;
    bool is_silent;     /* rows are only counted */
    bool prints_itself; /* set before question_open: with an encoding there is no table, the caller has an
                           output */
    bool is_order; /* it has no rows to give */
    bool may_be_none;   /* no row is no failure */
    /* Sees each row before it is printed: false leaves it out. NULL: prints all. */
    bool (*on_row)(void *arg, const struct frame_answer *row);
    void *arg;
};

/* Checks the format and connects. prog: "gridline-hosts". question_close in any case. */
int question_open(struct question *q, const struct question_options *o, const char *prog);
void question_close(struct question *q);

/* Adds "workers": the patterns, by commas. USAGE if one has a comma in it or can't be a pattern. */
int question_add_patterns(struct question *q, char *const *patterns, size_t n);
/* Adds the patterns as that argument, by commas; what: "host names", for what is said if one can't be one. */
int question_add_list(struct question *q, const char *name, const char *what, char *const *patterns,
                      size_t n);
/* Adds key=value as set.KEY. */
int question_add_setting(struct question *q, const char *word);
void question_add_where(struct question *q);

/* All pages of a verb that the gateway answers itself; not finished: the caller prints what it wants behind.
 */
int question_pages(struct question *q, const char *verb);
/* A verb that workers answer; says "n of m" on standard error. */
int question_workers(struct question *q, const char *verb);
/* Ends the output; the exit code for both. */
int question_finish(struct question *q, int code);

#endif
