/* SPDX-License-Identifier: Apache-2.0 */
/* dedup.h - which sequence numbers of one (producer, epoch) are held: a set of ranges, sorted and apart.
 *
 * A sender sends in order and leaves out only what it had to drop, so a set is usually one range; the limit
 * is for senders that mean ill. A zeroed struct is an empty set. */
#ifndef GRIDLINE_GATEWAY_DEDUP_H
#define GRIDLINE_GATEWAY_DEDUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEQ_SET_MAX = 1024 }; /* ranges */

struct seq_range {
    uint64_t first, last; /* both in it */
};

struct seq_set {
    struct seq_range *ranges;
    size_t n, cap;
};

void seq_set_fini(struct seq_set *s); /* leaves an empty set */
/* Room for n more ranges, so that as many adds can't fail. E_LIMIT past SEQ_SET_MAX, -ENOMEM. */
int seq_set_reserve(struct seq_set *s, size_t n);
/* Adds first..last, first <= last; what is there already stays. Errors as reserve; then nothing has changed.
 */
int seq_set_add(struct seq_set *s, uint64_t first, uint64_t last);
/* The first run of numbers in first..last that is not in the set; false when all are. */
bool seq_set_missing(const struct seq_set *s, uint64_t first, uint64_t last, struct seq_range *out);
/* The largest number; 0 when empty. */
uint64_t seq_set_max(const struct seq_set *s);
/* How many numbers. */
uint64_t seq_set_count(const struct seq_set *s);
/* Sorted, apart, none touching the next. */
bool seq_set_check(const struct seq_set *s);

#endif
