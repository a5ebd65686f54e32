/* SPDX-License-Identifier: Apache-2.0 */
/* rotate_log.h - one log from its folder to another, so that whatever ends us in between (kill -9, loss of
 * power, a full disk) no line of it is lost, and doing it again finishes what was begun. No link is followed.
 */
#ifndef GRIDLINE_ACTUATOR_ROTATE_LOG_H
#define GRIDLINE_ACTUATOR_ROTATE_LOG_H

#include "actuator/rotate_copy.h"

struct rotate_place {
    int from, to; /* the folders, open */
    enum copy_form form;
    struct copy_limits limits;
};

struct rotate_done {
    uint64_t bytes, stored; /* of logs; what they take now */
};

/* What a name's end says: it is compressed already. */
bool rotate_is_packed(const char *name);
/* Nobody has it open for writing; where the file system can't tell: false. */
bool rotate_is_quiet(int fd);

/* The log `name` goes to the other folder as TITLE-20261116T140852Z[-N][.gz|.zst], by its last change, and is
 * then removed. -EBUSY: somebody has it open for writing, or has changed it meanwhile: it stays. -ENOENT,
 * -ELOOP (it is a link), -ENOSPC, ... */
int rotate_move(const struct rotate_place *p, const char *name, const char *title, struct rotate_done *done);
/* The same for one that stays open: it is copied, and then cut to nothing. What is written to it between the
 * last look and the cut, a few microseconds, is lost. -ENODATA: it is empty. */
int rotate_copy_and_cut(const struct rotate_place *p, const char *name, struct rotate_done *done);

#endif
