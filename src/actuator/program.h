/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - programs that actuators run to their end, under supervision (base/child.h).
 *
 * A program gets its arguments as they are, and an environment of its own:
 *
 *     PATH, LANG=C.UTF-8, HOME (ours, or /), TZ (if we have one)
 *     GRIDLINE_NAME=value    for each value of the data: names in upper case, all but letters and digits `_`
 *
 * So data never becomes PATH, LD_PRELOAD, IFS, or what gridline's own programs look at: a name that they use
 * (GRIDLINE_HELPER, GRIDLINE_DEST, ...) gets a `_` behind it. Of names that come to the same variable the
 * first counts. NUL and what is too long are dealt with as in texts (template.h): no value is longer than
 * TEMPLATE_TEXT_MAX, and all together than TEMPLATE_ALL_MAX. */
#ifndef GRIDLINE_ACTUATOR_PROGRAM_H
#define GRIDLINE_ACTUATOR_PROGRAM_H

#include "actuator/actuator.h"

enum { PROGRAM_AGAIN = 75 }; /* the exit code that means: not now (EX_TEMPFAIL of sysexits.h) */

struct program {
    const char *const *argv; /* ends with NULL */
    bool has_input;          /* else /dev/null */
    struct slice input;      /* at most CHILD_INPUT_MAX bytes; then its input ends */
};

/* "NAME=value"s, NULL at the end, in the arena; NULL: no memory. */
const char *const *program_environment(const struct actuator_env *env, struct arena *arena);
/* The argv as words, then what it gets besides. */
int program_plan(const struct program *p, const struct actuator_env *env, struct strbuf *out);
/* Runs it, to its end or env's deadline. 0: it ended with code 0; -EAGAIN: with PROGRAM_AGAIN; -ECHILD: with
 * another, or by a signal; -ETIMEDOUT, -ECANCELED; -ENOENT, -EACCES, ...: it could not be started. */
int program_run(const struct program *p, const struct actuator_env *env, struct actuator_report *report);
/* program and args as an argv, in the arena; the texts are borrowed. NULL: no memory. */
const char *const *program_argv(const struct parameter_list *first, const struct parameter_list *more,
                                struct arena *arena);

#endif
