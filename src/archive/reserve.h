/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - disk space that is kept for when there is no other: DIR/reserve, a file of nothing. Given up,
 * it lets a commit end, or lets the deletions commit that make room; filled again when there is room for it
 * and as much again, so that a disk on the edge does not change hands with every flush. One thread. */
#ifndef GRIDLINE_ARCHIVE_RESERVE_H
#define GRIDLINE_ARCHIVE_RESERVE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define RESERVE_BYTES (UINT64_C(16) << 20)

struct reserve;
/* bytes 0: RESERVE_BYTES. A disk that has no room for it is no failure: reserve_is_held is false then.
 * -ENOMEM, -EACCES...: *why. */
int reserve_open(const char *dir, uint64_t bytes, struct reserve **out, struct diag *why);
void reserve_close(struct reserve *r); /* NULL is fine; the file stays */
bool reserve_is_held(const struct reserve *r);
/* true: there is more room than before. */
bool reserve_release(struct reserve *r);
/* 0: it is held; -ENOSPC: there is no room for it yet; -EIO. Cheap when it is held. */
int reserve_refill(struct reserve *r);

#endif
