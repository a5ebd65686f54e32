/* SPDX-License-Identifier: Apache-2.0 */
/* roster.h - the devices a file listed last time, by name and in its order, with what a sensor knows of each.
 *
 *     struct disk { struct roster_entry entry; ...what is known of it... };     the entry is first
 *     roster_begin(&r);
 *     for each line: r = roster_see(&roster, name, &entry);   1: new, find out about it; 0: as last time
 *     roster_end(&r);                                         those that were not seen are forgotten
 *
 * So a device that went and came back, even with the same name, is a new one. Names come in the same order each time,
 * so that seeing one costs a comparison; one that is out of order costs a search. One thread. */
#ifndef GRIDLINE_SENSOR_ROSTER_H
#define GRIDLINE_SENSOR_ROSTER_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

enum { ROSTER_MAX = 16384, ROSTER_NAME_MAX = 255 };

struct roster_entry {
    struct slice name;  /* the kernel's bytes */
    struct slice label; /* for keys: the name as UTF-8 (clean.h) */
    uint64_t round;     /* in which it was seen */
};

struct roster {
    struct roster_entry **v;
    size_t n, cap;
    size_t entry_size;
    size_t next; /* where the next name is expected */
    uint64_t round;
};

void roster_init(struct roster *r, size_t entry_size); /* of the struct that begins with a roster_entry */
void roster_fini(struct roster *r);                    /* a zeroed struct is fine */

void roster_begin(struct roster *r);
/* 1: new, zeroed but for the entry; 0: known. E_PROTO: a second time in this round, empty, or longer than
 * ROSTER_NAME_MAX; E_LIMIT: over ROSTER_MAX; -ENOMEM. *out lives until a roster_end after a round without it. */
int roster_see(struct roster *r, struct slice name, struct roster_entry **out);
void roster_end(struct roster *r);

#endif
