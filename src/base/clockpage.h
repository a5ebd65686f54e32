/* SPDX-License-Identifier: Apache-2.0 */
/* clockpage.h - global time for every program on the host: a file of one page that the agent writes and
 * others map read-only. A sequence lock: the writer never waits, readers try again. Version 1, integers in
 * the host's order:
 *
 *     at 0  8  "glclock" 01      8  u32 sequence (odd: being written)    12  u32 generation
 *       16  i64 offset: global - local UTC    24  u64 bound at `at` (2^64-1 unknown)   32  i64 at
 * (CLOCK_BOOTTIME) 40  i64 base: global - CLOCK_BOOTTIME   48  i64 utc_base: local UTC - CLOCK_BOOTTIME, all
 * at `at` 56  u32 drift in ppm, by which the bound grows       60  u32 flags: 1 = offset 0 is meant to stay
 *       64  i64 valid until (CLOCK_BOOTTIME)   72  i64 goal, to which base is slewed at 500 ppm
 *       80  i64 CLOCK_MONOTONIC - CLOCK_MONOTONIC_RAW   88  i64 CLOCK_BOOTTIME - CLOCK_MONOTONIC, at `at`
 *       96  u32 error of utc_base   100  0 up to 4096
 *
 * The offset is for readers that do without the rest: it is base - utc_base.
 *
 * Default place: `clock` in the agent's run_dir. A page is used only while it is valid and owned by root or
 * this user. Nothing here logs or aborts: libgridline reads pages in other people's programs. */
#ifndef GRIDLINE_BASE_CLOCKPAGE_H
#define GRIDLINE_BASE_CLOCKPAGE_H

#include "base/timesync.h"

struct clockpage;
/* The agent's end, one thread. Replaces what is there, which is marked invalid for those who have it mapped.
 * *generation gets the one behind that of the page that was there, or 0. -errno. */
int clockpage_create(const char *path, struct clockpage **out, uint32_t *generation);
void clockpage_write(struct clockpage *p, const struct timesync_line *l, int64_t valid_until_boot_ns);
void clockpage_destroy(
    struct clockpage *p); /* NULL is fine; marks it invalid and removes the file, if it still is ours */

/* A reader's end. -ENOENT, -EPERM (someone else's), E_VERSION, E_PROTO, -errno. */
int clockpage_open(const char *path, struct clockpage **out);
void clockpage_close(struct clockpage *p); /* NULL is fine */
/* Any thread. false: not valid (any more), or the writer is in the middle and stays there (after a bounded
 * number of tries). About 20 ns; signal-safe. */
bool clockpage_read(const struct clockpage *p, const struct clock_moment *now, struct timesync_state *out);

#endif
