/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRIDLINE_CLIENT_DEST_MEM_H
#define GRIDLINE_CLIENT_DEST_MEM_H

#include "client/dest.h"

/* Puts all blocks that a memory destination holds, oldest first, into another one. 0, or -EIO when that could
 * not take them all. */
int dest_mem_copy(const struct dest *mem, struct dest *to);

#endif
