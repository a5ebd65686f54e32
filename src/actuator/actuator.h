/* SPDX-License-Identifier: Apache-2.0 */
/* actuator.h - what an actuator is. As a sensor, it is one file with one const table at its bottom, and one
 * line in list.def:
 *
 *     const struct actuator_ops actuator_kill = {
 *         .name = "kill", .summary = "ends a process", .options = kill_options, .is_repeatable = true,
 *         .state_size = sizeof(struct kill), .plan = kill_plan, .run = kill_run,
 *     };
 *
 * The table declares everything: options with default and help; `gridline act --list`, configuration, man
 * page and docs are made from it.
 *
 * An actuator does its work at once, in the calling thread, and may block: whoever runs it gives it a process
 * (the guard: gridline-act) and a deadline, and counts, limits, repeats and audits. An actuator holds none of
 * that.
 *
 * What comes from outside. Options are of two kinds. Those with is_program name what is done (a program, a
 * script, a file, a server): they are used as they were configured on this host. In all others `{NAME}`
 * stands for a value of the fault or event that the action is about (template.h): it is put there as it is,
 * whatever bytes it has, within that one text. A text is never split, never joined to a command line, never
 * given to a shell. */
#ifndef GRIDLINE_ACTUATOR_ACTUATOR_H
#define GRIDLINE_ACTUATOR_ACTUATOR_H

#include "base/err.h"
#include "base/parameter.h"
#include "base/strbuf.h"
#include "net/act.h"

/* What surrounds a run. Borrowed for the call. */
struct actuator_env {
    const struct act_datum *data;
    size_t n_data;
    int64_t deadline_ns; /* monotonic: by then it has to be over; what it started is ended */
    const char
        *attempt; /* names this run in whatever it sends (a mail's Message-ID): the same when repeated */
    /* A run may be called off: true = stop now, return -ECANCELED. NULL = never. */
    bool (*is_cancelled)(void *arg);
    void *arg;
};

/* What a run says: for the audit, the event `action`, and the person. */
struct actuator_report {
    struct strbuf text;   /* one line: "restarted slapd, pid 4711"; on failure what is wrong and what next */
    struct strbuf output; /* what a program printed, the first ACTUATOR_OUTPUT_MAX bytes */
    int exit_code;        /* of a program; -1 = there was none */
};
enum { ACTUATOR_OUTPUT_MAX = 16 << 10 };

/* Appends a value of data to a text that has a grammar, so that it stays a value: escape.h. Never a NUL. */
typedef void (*actuator_escape)(struct strbuf *out, struct slice value);

struct actuator_ops {
    const char *name;
    const char *summary;             /* a phrase */
    const struct parameter *options; /* ends with {0}; NULL: none */
    bool is_repeatable; /* doing it twice does no harm: repeated after a crash unless configured otherwise */
    bool is_groupable;  /* one run can be about many faults: {count}, {list} (guard/action.h) */
    size_t state_size;  /* options are filled in by the runner, with templates filled in */
    /* How {NAME} is put into this option; a result of NULL, or no function: as it is. (template.h: what
     * {NAME|url} gives is escaped, too.) */
    actuator_escape (*escape)(const char *option);
    /* Says exactly what run would do, and touches nothing: the argv with each element quoted, the request
     * with its body. -EINVAL with *why: the options do not fit together. It also tries a configuration
     * (actuator_check): then every {NAME} stands for "1". */
    int (*plan)(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why);
    /* 0: done. -EAGAIN: not now (the other end is busy), trying again makes sense; -ETIMEDOUT; -ENOENT: what
     * it was to act on is not there; other negative codes: failed. report->text says it in words in any case.
     * Leaves nothing open and nothing running, but for what it was asked to start (restart). */
    int (*run)(void *state, const struct actuator_env *env, struct actuator_report *report);
};

/* All of list.def, in its order; NULL at the end. */
extern const struct actuator_ops *const actuator_list[];
/* The same without functions, for those who only configure them (describe_main.c). */
extern const struct actuator_ops *const actuator_tables[];
/* NULL when there is none of that name. */
const struct actuator_ops *actuator_find(struct slice name);

/* Looks whether the settings can be used: every option known and of its type, templates well-formed; and,
 * unless ops is of actuator_tables, whether they fit together. */
int actuator_check(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                   struct diag *why);
/* Fills in options and templates, and says what it would do. */
int actuator_plan(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                  const struct actuator_env *env, struct strbuf *out, struct diag *why);
/* Does it. report is the caller's, zeroed; it ends it with actuator_report_fini. -EINVAL: options. */
int actuator_run(const struct actuator_ops *ops, const struct parameter_setting *settings, size_t n,
                 const struct actuator_env *env, struct actuator_report *report);
void actuator_report_fini(struct actuator_report *report);

#endif
