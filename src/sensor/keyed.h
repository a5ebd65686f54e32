/* SPDX-License-Identifier: Apache-2.0 */
/* keyed.h - files of "Name:   number kB" or "name number" lines: /proc/meminfo, /proc/vmstat.
 *
 *     static const struct keyed_name names[] = {{SLICE_LIT("MemFree"), KEYED_KB}, ...};
 *     keyed_init(&k, names, n);
 *     struct value row[n] = {0};
 *     found = keyed_read(&k, text, row);
 *
 * The kernel prints the same lines in the same order each time. A reader remembers them, so that a line costs one
 * comparison with what it was last time; only a line that differs is looked up. Lines of other names are skipped.
 * About 12 ns a line; nothing is allocated once all lines have been seen. One thread. */
#ifndef GRIDLINE_SENSOR_KEYED_H
#define GRIDLINE_SENSOR_KEYED_H

#include "base/strbuf.h"
#include "event/value.h"

enum { KEYED_LINES_MAX = 512 }; /* remembered; those behind are looked up each time */

enum keyed_unit {
    KEYED_PLAIN,  /* the number as it is; a unit behind it makes it no number */
    KEYED_KB,     /* "kB" must stand behind it: bytes, 1024 times the number */
    KEYED_BARE_KB /* nothing behind it, but it counts KiB: bytes, 1024 times the number */
};

struct keyed_name {
    struct slice name; /* as the kernel has it, without the colon */
    uint8_t unit;
};

struct keyed_line;

struct keyed {
    const struct keyed_name *names; /* borrowed */
    size_t n_names;
    struct keyed_line *lines; /* what the lines were last time */
    size_t n_lines;
    struct strbuf text; /* their names, one after the other */
};

void keyed_init(struct keyed *k, const struct keyed_name *names, size_t n); /* n < 65535 */
void keyed_fini(struct keyed *k);                                           /* a zeroed struct is fine */

/* row[i] gets the number of names[i]; those that are missing, no numbers, out of range, or in a last line that is cut
 * stay as they are. A name that comes twice counts the last time. Returns how many lines gave a number. */
size_t keyed_read(struct keyed *k, struct slice text, struct value *row);

#endif
