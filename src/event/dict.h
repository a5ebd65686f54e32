/* SPDX-License-Identifier: Apache-2.0 */
/* dict.h - distinct strings in order of first use, each with a small number. Zeroed = empty. For columns and
 * string tables of blocks. About 8 ns to find a short string again, 2 ns
 * when it is the same as the last, or as the one that followed that before. */
#ifndef GRIDLINE_EVENT_DICT_H
#define GRIDLINE_EVENT_DICT_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

struct dict_entry {
    uint64_t hash;
    uint32_t at, n; /* in bytes */
    uint32_t next;  /* the one that was asked for after this one, last time: what goes round is found without hashing */
};

struct dict {
    struct strbuf bytes; /* all strings, one behind the other */
    struct dict_entry *entries;
    uint32_t n, cap;
    uint32_t *table; /* open addressing: entry number + 1; 0 = free */
    uint32_t table_cap;
    uint32_t last;
};

void dict_fini(struct dict *d);
void dict_reset(struct dict *d); /* keeps the memory */
/* The number of s, added if new; negative when out of memory (nothing is added). */
int64_t dict_add(struct dict *d, struct slice s);
static inline struct slice dict_get(const struct dict *d, uint32_t i)
{
    return (struct slice){d->bytes.p + d->entries[i].at, d->entries[i].n};
}

#endif
