/* SPDX-License-Identifier: Apache-2.0 */
/* parameter.h - the options of a sensor or an actuator: a table beside its code says what there is, with
 * default and help, and from it come the parser, the messages, the configuration and the docs.
 *
 *     static const struct parameter ping_parameters[] = {
 *         {SETTING_DURATION, "timeout", "1s", offsetof(struct ping, timeout_ns), "how long to wait"}, {0}};
 */
#ifndef GRIDLINE_BASE_PARAMETER_H
#define GRIDLINE_BASE_PARAMETER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/setting.h"

/* The C type of SETTING_LIST. */
struct parameter_list {
    const char *const *v;
    size_t n;
};

struct parameter {
    enum setting_type type;
    const char *name;         /* NULL ends the table */
    const char *default_text; /* as it would be configured; lists: words separated by spaces; NULL = empty */
    size_t offset;            /* in the state */
    const char *help;         /* a phrase, lower case, no full stop; `code` for literals */
    bool is_program; /* names a program to run, or a file whose content is sent: remote configuration may not
                      * set it unless trusted; no data of events is ever put into it */
    bool is_needed;  /* must be given */
};

/* A configured option: `name = text`, or several texts for a list. */
struct parameter_setting {
    const char *name;
    const char *const *texts;
    size_t n;
};

/* Whose table it is: for messages. */
struct parameter_owner {
    const char *name;    /* "ping" */
    const char *explain; /* the command that lists its options, "gridline config explain ping" */
};

/* Fills state with defaults, then with the settings. Texts are copied into the arena. *why names the option
 * and what is wrong: unknown, not of its type, needed and missing. -EINVAL, -ENOMEM. table may be NULL. */
int parameters_apply(const struct parameter_owner *owner, const struct parameter *table,
                     const struct parameter_setting *settings, size_t n, struct arena *arena, void *state,
                     struct diag *why);
/* "name=value" strings, NULL at the end (NULL = none), to settings: those of one name are one setting, in the
 * order of their first. Names are copied into the arena, texts borrowed. -EINVAL: one has no name or no `=`.
 */
int parameters_group(const char *const *options, struct arena *arena, const struct parameter_setting **out,
                     size_t *n, struct diag *why);
/* NULL when there is none of that name. */
const struct parameter *parameter_find(const struct parameter *table, const char *name);

#endif
