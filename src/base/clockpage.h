/* SPDX-License-Identifier: Apache-2.0 */
/* clockpage.h - global time for every program on the host: a file of one page that the agent writes and others
 * map read-only. A sequence lock: writers never wait, readers try again. Version 1:
 *
 *     at 0  8  "glclock" 01      8  u32 sequence (odd: being written)    12  u32 generation
 *       16  i64 offset: global - local UTC    24  u64 bound at `at` (2^64-1 unknown)   32  i64 at (CLOCK_BOOTTIME)
 *       40  i64 base: global - CLOCK_BOOTTIME   48  i64 utc_base: local UTC - CLOCK_BOOTTIME when it was written
 *       56  u32 drift in ppm, by which the bound grows       60  u32 0     64  i64 valid until (CLOCK_BOOTTIME)
 *
 * Default place: /run/gridline/clock, or as the agent's run_dir has it; libgridline looks there and where
 * GRIDLINE_CLOCK says ("" = nowhere). A page is used only while it is valid and owned by root or this user. */
#ifndef GRIDLINE_BASE_CLOCKPAGE_H
#define GRIDLINE_BASE_CLOCKPAGE_H

#include "base/timesync.h"

struct clockpage;
/* The agent's end. Replaces what is there. -errno. */
int clockpage_create(const char *path, struct clockpage **out);
void clockpage_write(struct clockpage *p, const struct timesync_state *s, struct timesync_now now, uint32_t drift_ppm,
                     int64_t valid_until_boot_ns);
void clockpage_destroy(struct clockpage *p); /* NULL is fine; marks it invalid and removes the file */

/* A reader's end. -ENOENT, -EPERM (someone else's), E_VERSION, E_PROTO. */
int clockpage_open(const char *path, struct clockpage **out);
void clockpage_close(struct clockpage *p); /* NULL is fine */
/* false: not valid any more, or the writer is in the middle and stays there (after a bounded number of tries).
 * About 20 ns; signal-safe. */
bool clockpage_read(const struct clockpage *p, struct timesync_now now, struct timesync_state *out);

#endif
