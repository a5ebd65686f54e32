/* SPDX-License-Identifier: Apache-2.0 */
/* target.h - a process that is to be ended, held by a descriptor (pidfd): a signal reaches it or nobody,
 * never one that has got its number meanwhile. */
#ifndef GRIDLINE_ACTUATOR_TARGET_H
#define GRIDLINE_ACTUATOR_TARGET_H

#include "actuator/actuator.h"

#include <sys/types.h>

struct target {
    pid_t pid;
    int fd;
    uint64_t start; /* ticks after boot */
    char name[16];  /* as the kernel has it: at most 15 bytes, any but NUL */
};

/* -ENOENT: there is none that lives. -EPERM: it is pid 1, this process, or its parent. */
int target_open(pid_t pid, struct target *out);
void target_close(struct target *t);
/* When it began: ns since 1970, by what this host's clock says now. */
int64_t target_began_ns(const struct target *t);
/* The one that a file names by its number. -ENOENT: no file, or no such process; or it began after the file
 * was written, so the number has come again. -EPERM: as above; or whoever owns the file (neither root, nor
 * we, nor the process's user) can't be believed. *why says it. */
int target_of_file(const char *path, struct target *out, struct diag *why);

/* Sends the signal to all, waits grace_ns for them to end, sends SIGKILL to the rest, waits until env's
 * deadline. grace_ns 0: no waiting, no SIGKILL. 0; -ETIMEDOUT: some live; -ECANCELED; -EPERM, ...: one could
 * not be sent to (the others have been). */
int targets_end(struct target *t, size_t n, int signal, int64_t grace_ns, const struct actuator_env *env);

#endif
