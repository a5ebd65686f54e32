/* SPDX-License-Identifier: Apache-2.0 */
/* actuator.h - run any of gridline's actuators by name, from a program. Link with -lgridline-actuator.
 *
 *     const char *options[] = {"to=ops@example.org", "subject={host} is full", NULL};
 *     struct gridline_value data[] = {{.name = "host", .type = 't', .v.p = "c0-0", .n = 4}};
 *     char said[200];
 *     int r = gridline_actuator_run("mail", options, data, 1, 30000, said, sizeof said);
 *
 * What there is (names, options) is listed by the functions below; a new actuator needs no change in the
 * programs that use them. Calls block until the work is done or its time is over. Nothing here writes to
 * stderr. Results are 0 or a negative errno value. */
#ifndef GRIDLINE_ACTUATOR_H
#define GRIDLINE_ACTUATOR_H

#include <gridline/gridline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The i-th actuator's name, NULL behind the last; and what it does, NULL when there is none of that name. */
GRIDLINE_API const char *gridline_actuator_name(size_t i);
GRIDLINE_API const char *gridline_actuator_summary(const char *actuator);

#define GRIDLINE_ACTUATOR_REPEATABLE 1 /* doing it twice does no harm */
#define GRIDLINE_ACTUATOR_GROUPABLE  2 /* one run can be about many faults */
/* Or of these; -ENOENT. */
GRIDLINE_API int gridline_actuator_traits(const char *actuator);

/* Its options. is_fixed: never has data put into it ({NAME}). default_text is NULL when there is no default.
 * The callback's first non-zero result ends the listing and is returned; -ENOENT: no such actuator. */
typedef int (*gridline_actuator_option_fn)(void *arg, const char *option, const char *type,
                                           const char *default_text, int is_needed, int is_fixed,
                                           const char *help);
GRIDLINE_API int gridline_actuator_options(const char *actuator, gridline_actuator_option_fn fn, void *arg);

/* options: "name=value" strings, NULL at the end (NULL = none); a list takes its name several times. -EINVAL:
 * why says which option and what is wrong. */
GRIDLINE_API int gridline_actuator_check(const char *actuator, const char *const *options, char *why,
                                         size_t why_size);
/* What would be done, exactly, as text: *plan is to be freed with free(). Nothing is touched. data: n values
 * by which {NAME} in options is replaced. */
GRIDLINE_API int gridline_actuator_plan(const char *actuator, const char *const *options,
                                        const struct gridline_value *data, size_t n, char **plan, char *why,
                                        size_t why_size);
/* Does it, within timeout_ms (0 = 30 s). said (may be NULL) gets one line: what was done, or what is wrong.
 */
GRIDLINE_API int gridline_actuator_run(const char *actuator, const char *const *options,
                                       const struct gridline_value *data, size_t n, int timeout_ms,
                                       char *said, size_t said_size);
/* The same; *output, to be freed with free(), gets what a program printed, the first 16 KiB, with a NUL behind
 * its *output_size bytes. It is written in any case; NULL when nothing was printed. */
GRIDLINE_API int gridline_actuator_run_output(const char *actuator, const char *const *options,
                                              const struct gridline_value *data, size_t n, int timeout_ms,
                                              char *said, size_t said_size, char **output,
                                              size_t *output_size);

#ifdef __cplusplus
}
#endif
#endif
