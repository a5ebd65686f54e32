/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted array: adding at the end, which nearly every add is, costs a comparison; a search is binary. */
#include "gateway/dedup.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

void seq_set_fini(struct seq_set *s)
{
    mem_free(s->ranges);
    *s = (struct seq_set){0};
}

int seq_set_reserve(struct seq_set *s, size_t n)
{
    if (n > SEQ_SET_MAX || s->n > SEQ_SET_MAX - n)
        return E_LIMIT;
    if (s->n + n <= s->cap)
        return 0;
    size_t cap = s->cap ? s->cap * 2 : 2;
    while (cap < s->n + n)
        cap *= 2;
    struct seq_range *ranges = mem_try_resize(s->ranges, cap * sizeof *ranges);
    if (!ranges)
        return -ENOMEM;
    s->ranges = ranges;
    s->cap = cap;
    return 0;
}

/* Index of the first range that ends at or behind seq; n when none does. */
static size_t find(const struct seq_set *s, uint64_t seq)
{
    size_t from = 0, to = s->n;
    if (s->n && s->ranges[s->n - 1].last < seq)
        return s->n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (s->ranges[mid].last < seq)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

int seq_set_add(struct seq_set *s, uint64_t first, uint64_t last)
{
    size_t at = find(s, first ? first - 1 : 0); /* one that ends right before first grows */
    size_t end = at;
    while (end < s->n && (last == UINT64_MAX || s->ranges[end].first <= last + 1)) {
        first = s->ranges[end].first < first ? s->ranges[end].first : first;
        last = s->ranges[end].last > last ? s->ranges[end].last : last;
        end++;
    }
    int r = end == at ? seq_set_reserve(s, 1) : 0;
    if (r < 0)
        return r;
    /* The ranges at..end become one. */
    memmove(s->ranges + at + 1, s->ranges + end, (s->n - end) * sizeof *s->ranges);
    s->n = s->n - (end - at) + 1;
    s->ranges[at] = (struct seq_range){first, last};
    return 0;
}

bool seq_set_missing(const struct seq_set *s, uint64_t first, uint64_t last, struct seq_range *out)
{
    size_t at = find(s, first);
    if (at < s->n && s->ranges[at].first <= first) {
        if (s->ranges[at].last >= last)
            return false;
        first = s->ranges[at].last + 1;
        at++;
    }
    *out = (struct seq_range){first, last};
    if (at < s->n && s->ranges[at].first <= last)
        out->last = s->ranges[at].first - 1;
    return true;
}

uint64_t seq_set_max(const struct seq_set *s)
{
    return s->n ? s->ranges[s->n - 1].last : 0;
}

uint64_t seq_set_count(const struct seq_set *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->ranges[i].last - s->ranges[i].first + 1;
    return n;
}

bool seq_set_check(const struct seq_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->ranges[i].first > s->ranges[i].last)
            return false;
        if (i && (s->ranges[i - 1].last == UINT64_MAX || s->ranges[i - 1].last + 1 >= s->ranges[i].first))
            return false;
    }
    return s->n <= s->cap && s->n <= SEQ_SET_MAX;
}
