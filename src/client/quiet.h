/* SPDX-License-Identifier: Apache-2.0 */
/* quiet.h - writing out on a thread of the program's without killing the program. A file over its size limit
 * (SIGXFSZ) or a pipe that nobody reads (SIGPIPE) would: the signal goes to the thread that writes. Both are
 * blocked meanwhile, and taken back unless they were pending before. Two system calls each way. */
#ifndef GRIDLINE_CLIENT_QUIET_H
#define GRIDLINE_CLIENT_QUIET_H

#include <signal.h>

struct quiet {
    sigset_t mask, pending; /* as they were */
};

void quiet_begin(struct quiet *q);
void quiet_end(const struct quiet *q);

#endif
