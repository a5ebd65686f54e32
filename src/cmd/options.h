/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - what a command takes. One table a verb: it parses the arguments, and the usage text, the man
 * page (manual.h) and the shell completion (completion.h) are made from it, so that none of them can be
 * wrong.
 *
 *     static const struct option_spec table[] = {
 *         {'o', "output", OPTION_FILE, "FILE", offsetof(struct convert, output), "write to FILE"},
 *         {0}};
 *
 * Accepted: --name value, --name=value, -n value, -nvalue, -abc for flags; options and operands in any order;
 * what follows -- is operands, and so is a single -. Nothing here prints. */
#ifndef GRIDLINE_CMD_OPTIONS_H
#define GRIDLINE_CMD_OPTIONS_H

#include "base/err.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

/* The exit codes of every command (DESIGN.md, "Programs"). */
enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_FOUND = 3, EXIT_PARTLY = 4, EXIT_NOT_ALLOWED = 5 };

/* What an option's value is, and the C type at its offset. */
enum option_type {
    OPTION_FLAG,     /* bool; no value */
    OPTION_TEXT,     /* const char *, borrowed from argv; NULL = not given */
    OPTION_FILE,     /* the same; completion offers files */
    OPTION_TEXTS,    /* struct option_texts: may be given again, and each time adds one */
    OPTION_FORMAT,   /* const struct encoding *, one that can be written */
    OPTION_INPUT,    /* const struct encoding *, one that can be read */
    OPTION_LEVEL,    /* uint8_t, enum level */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_DURATION, /* int64_t, ns */
    OPTION_KEEP,     /* int64_t, ns; its value may be left out, or be `forever`: INT64_MAX */
    OPTION_TIME      /* struct option_time */
};

struct option_time {
    bool is_set;
    int64_t at_ns;
};

enum { OPTION_TEXTS_MAX = 64 };

struct option_texts {
    const char *v[OPTION_TEXTS_MAX]; /* borrowed from argv, in order */
    size_t n;
};

struct option_spec {
    char letter;      /* 0 = none */
    const char *name; /* NULL ends the table */
    enum option_type type;
    const char *metavar; /* NULL for flags */
    size_t offset;
    const char *help; /* a phrase, lower case, no full stop; `code` for literals. NULL: parsed, not shown */
};

struct example {
    const char *command;
    const char *says; /* what it does; NULL ends the list */
};

/* What completion offers for operands. */
enum operand_kind { OPERAND_NONE, OPERAND_FILES, OPERAND_WORDS, OPERAND_VERBS };

struct operands {
    char **v; /* borrowed from argv, in order */
    size_t n;
};

/* A command: `gridline NAME …`. */
struct verb {
    const char *name;
    const char *summary;     /* for lists: a phrase */
    const char *operands;    /* as in the synopsis: "FILE..."; "" = none */
    const char *description; /* paragraphs, each a line of its own; `code` for literals */
    enum operand_kind operand_kind;
    size_t operands_min, operands_max;
    const struct option_spec *options;
    const struct example *examples;
    bool lists_formats; /* the manual has the table of encodings */
    size_t state_size;  /* of the struct the options are stored in */
    const void *defaults;
    const char *program; /* does it, and is found beside this one; NULL: run does */
    /* An exit code. state is as the options left it. */
    int (*run)(void *state, struct operands operands);
};

enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Fills state, which has the defaults, and operands, which are moved to the front of argv (argc and argv are
 * those behind the verb). now_ns is what `now` means. OPTIONS_HELP: --help or -h was there. OPTIONS_BAD:
 * why->message says what is wrong and what to do. */
enum options_result options_parse(const struct verb *v, int argc, char **argv, int64_t now_ns, void *state,
                                  struct operands *operands, struct diag *why);

/* The nearest of the words, if it is near enough to be what was meant; NULL. A list of n pointers to strings,
 * stride bytes apart. */
const char *options_nearest(struct slice word, const void *words, size_t n, size_t stride);

#endif
