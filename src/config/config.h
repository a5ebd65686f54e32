/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what a configuration of any of our daemons is made of: where values came from, and how one is
 * loaded and shown. load.h is for those who make one of a table.
 *
 * A configuration is read from a file in libconfuse's syntax, the drop-ins beside it, the environment and
 * flags, in this order, later values in place of earlier ones; it is checked as a whole and is immutable
 * then. Every value knows where it came from.
 *
 * libconfuse's scanner has static state: loading is for one thread at a time. */
#ifndef GRIDLINE_CONFIG_CONFIG_H
#define GRIDLINE_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"

enum {
    CONFIG_FILE_MAX = 1 << 20,  /* bytes of one file or document */
    CONFIG_SECTIONS_MAX = 1024, /* of one file, and of all */
    CONFIG_LIST_MAX = 256,      /* values of one list */
    CONFIG_TEXT_MAX = 4096,     /* bytes of one value */
    CONFIG_PROBLEMS_MAX = 20    /* told of one load */
};

/* Where a value came from. where NULL: it is the default; line 0: not a file ("environment
 * GRIDLINE_AGENT_HOSTNAME", "flag -s host"). */
struct config_origin {
    const char *where;
    unsigned line;
};

/* A key as it was given: "every" = "10s". */
struct config_setting {
    const char *name;
    const char *const *texts;
    size_t n;
};

struct config_entry {
    struct config_setting setting;
    struct config_origin from;
};

/* What was given on the command line: `key=value`, later wins. */
struct config_flags {
    const char *file; /* NULL: the usual one, if it is there */
    const char *const *settings;
    size_t n_settings;
    /* Hears of everything that is wrong, up to CONFIG_PROBLEMS_MAX, each as one line; NULL: only *why does,
     * of the first. message is borrowed for the call. */
    void (*on_problem)(void *arg, const char *message);
    void *arg;
};

enum config_form { CONFIG_FORM_TEXT, CONFIG_FORM_JSON };

#endif
