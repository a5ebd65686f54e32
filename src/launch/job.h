/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - runs the job as if nobody had come between: it has the descriptors, environment, folder, limits, signals
 * and process group that it would have had, gets what is sent to us, stops and goes on with us, and its end becomes
 * ours. If we are killed, so is it.
 *
 * While it runs we hold none of its descriptors: a pipe that it closes is closed. */
#ifndef GRIDLINE_LAUNCH_JOB_H
#define GRIDLINE_LAUNCH_JOB_H

#include "base/err.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { JOB_NOT_FOUND = 127, JOB_NOT_RUN = 126 }; /* exit codes, as shells have them */

struct job {
    pid_t pid;
    bool has_ended, is_signal;
    int code; /* exit code, or the signal */
    int64_t began_ns, ended_ns; /* monotonic */
    pid_t beside; /* another child of the caller's, which fills it in; 0 = none */
    bool beside_has_ended;
    int beside_status; /* waitpid's */
};

/* -errno with *why: it could not be started, code is then what to exit with. From here on signals are blocked, and
 * our descriptors 0, 1 and 2 lead nowhere. If there can't be another process we become the job, and nobody tells how
 * it ended. */
int job_start(char *const *argv, struct job *out, struct diag *why);
/* Passes on signals until it has ended. Takes the ends of all other children meanwhile: of `beside` it keeps it. */
void job_wait(struct job *j);
/* Ends as the job did. */
__attribute__((noreturn)) void job_exit(const struct job *j);

#endif
