/* SPDX-License-Identifier: Apache-2.0 */
/* The list of segment files, and the one being written.
 *
 * A segment is born under a temporary name and gets its real one only when its first group of records is on
 * the disk, so each NAME.seg has held at least record NAME, and a crash while making one leaves nothing that
 * has to be interpreted. It is written by this process only: after a restart the next commit makes a new one,
 * whatever the old one's tail looks like, so nothing is ever cut or overwritten. */
#include "journal/internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>

static const char temporary_name[] = "new.tmp";

void segment_name(char to[SEGMENT_NAME_SIZE], uint64_t first)
{
    (void)snprintf(to, SEGMENT_NAME_SIZE, "%016llx.seg", (unsigned long long)first); /* always fits */
}

/* The number that name stands for, or 0 if it is not a segment's. Only half of the numbers are used, so that
 * adding to one can't overflow. */
static uint64_t number_of(const char *name)
{
    if (strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
        return 0;
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        int digit = text_hex_digit(name[i]);
        if (digit < 0 || (name[i] >= 'A' && name[i] <= 'F'))
            return 0;
        v = v << 4 | (unsigned)digit;
    }
    return v <= INT64_MAX ? v : 0;
}

/* What segment_list collects. */
struct listing {
    struct journal *journal;
    int (*on_other)(struct journal *j, const char *name);
    struct segment *segments;
    size_t n, cap;
};

static int reserve(struct segment **segments, size_t n, size_t *cap)
{
    if (n < *cap)
        return 0;
    size_t bigger = *cap ? *cap * 2 : 16;
    struct segment *p = mem_try_resize(*segments, bigger * sizeof *p);
    if (!p)
        return -ENOMEM;
    *segments = p;
    *cap = bigger;
    return 0;
}

static int on_name(void *arg, const char *name)
{
    struct listing *l = arg;
    uint64_t first = number_of(name);
    if (first == 0)
        return l->on_other ? l->on_other(l->journal, name) : 0;
    int r = reserve(&l->segments, l->n, &l->cap);
    if (r == 0)
        l->segments[l->n++] = (struct segment){first, 0};
    return r;
}

static int by_first(const void *a, const void *b)
{
    uint64_t x = ((const struct segment *)a)->first, y = ((const struct segment *)b)->first;
    return (x > y) - (x < y);
}

static int file_size(const struct journal *j, uint64_t first, uint64_t *out)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, first);
    int fd = io_open(j, name, O_RDONLY);
    if (fd < 0)
        return fd;
    int r = j->io->size(j->io->ctx, fd, out);
    io_close(j, fd);
    return r;
}

/* Fills in the sizes. What is already known is not asked again, but for the newest, which may grow. A file
 * that has gone meanwhile (its writer trims while we only read) is left out. */
static int measure(struct listing *l)
{
    const struct journal *j = l->journal;
    size_t known = 0, kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct segment s = l->segments[i];
        while (known < j->n_segments && j->segments[known].first < s.first)
            known++;
        int r = 0;
        if (known + 1 < j->n_segments && j->segments[known].first == s.first)
            s.size = j->segments[known].size;
        else
            r = file_size(j, s.first, &s.size);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r == 0)
            l->segments[kept++] = s;
    }
    l->n = kept;
    return 0;
}

int segment_list(struct journal *j, int (*on_other)(struct journal *j, const char *name))
{
    struct listing l = {.journal = j, .on_other = on_other};
    int r = j->io->list(j->io->ctx, j->dir, on_name, &l);
    if (r >= 0) {
        if (l.n)
            qsort(l.segments, l.n, sizeof *l.segments, by_first);
        r = measure(&l);
    }
    if (r < 0) {
        mem_free(l.segments);
        return r;
    }
    mem_free(j->segments);
    j->segments = l.segments;
    j->n_segments = l.n;
    j->cap_segments = l.cap;
    j->bytes = 0;
    for (size_t i = 0; i < l.n; i++)
        j->bytes += in_blocks(l.segments[i].size);
    return 0;
}

uint64_t segment_after(const struct journal *j, uint64_t first)
{
    size_t from = 0, to = j->n_segments; /* all before from are <= first, all from to on are > first */
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (j->segments[mid].first <= first)
            from = mid + 1;
        else
            to = mid;
    }
    return from < j->n_segments ? j->segments[from].first : 0;
}

uint64_t segment_with(const struct journal *j, uint64_t number)
{
    for (size_t i = j->n_segments; i-- > 0;)
        if (j->segments[i].first <= number)
            return j->segments[i].first;
    return 0;
}

/* Markers tell segments apart, so a poor number when the kernel has no randomness yet does no great harm. */
static uint64_t random_id(uint64_t first)
{
    uint64_t seed[4] = {first, (uint64_t)clock_utc_ns(), (uint64_t)clock_mono_ns(), 0};
    if (getrandom(&seed[3], sizeof seed[3], GRND_NONBLOCK) < 0)
        seed[3] = (uintptr_t)seed;
    uint64_t id = hash_bytes(slice_of((const char *)seed, sizeof seed));
    return (uint32_t)id ? id : id | 1;
}

static int create(struct journal *j)
{
    int r = reserve(&j->segments, j->n_segments, &j->cap_segments); /* so that adding it later can't fail */
    if (r < 0)
        return r;
    j->fd = io_open(j, temporary_name, O_RDWR | O_CREAT | O_TRUNC);
    if (j->fd < 0)
        return j->fd;
    j->is_temporary = true;
    j->head = (struct segment_head){j->last + 1, clock_utc_ns(), random_id(j->last + 1)};
    j->end = HEAD_SIZE;
    unsigned char head[HEAD_SIZE];
    format_put_head(head, &j->head);
    return io_write(j, j->fd, head, sizeof head, 0);
}

/* A file of that name may exist: one whose directory sync failed. It has no committed record. */
static int give_name(struct journal *j)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, j->head.first);
    int r = j->io->rename(j->io->ctx, j->dir, temporary_name, name);
    if (r < 0)
        return r;
    j->is_temporary = false;
    return io_sync_dir(j, j->dir);
}

/* Enters what was written in the list; it becomes the newest or makes it longer. */
static void account(struct journal *j, uint64_t end)
{
    struct segment *s = &j->segments[j->n_segments ? j->n_segments - 1 : 0];
    if (j->n_segments == 0 || s->first != j->head.first) {
        s = &j->segments[j->n_segments++];
        *s = (struct segment){j->head.first, 0};
    }
    j->bytes += in_blocks(end) - in_blocks(s->size);
    s->size = end;
}

int segment_commit(struct journal *j, unsigned char *p, size_t n)
{
    int r = j->fd >= 0 ? 0 : create(j);
    if (r < 0)
        return r;
    format_stamp(p, n, (uint32_t)j->head.id);
    r = io_write(j, j->fd, p, n, j->end);
    if (r == 0)
        r = io_sync_file(j, j->fd);
    if (r == 0 && j->is_temporary)
        r = give_name(j);
    if (r < 0)
        return r;
    j->end += n;
    account(j, j->end);
    return 0;
}

void segment_abandon(struct journal *j, size_t n)
{
    if (j->fd < 0)
        return;
    io_close(j, j->fd);
    j->fd = -1;
    j->stats.faults++;
    if (j->is_temporary)
        (void)j->io->unlink(j->io->ctx, j->dir, temporary_name); /* else the next one overwrites it */
    else if (j->end > HEAD_SIZE)
        account(j, j->end + n); /* so much may have been written */
    j->is_temporary = false;
}

void segment_finish(struct journal *j, bool seal)
{
    if (j->fd < 0)
        return;
    if (seal) {
        unsigned char record[RECORD_HEAD];
        format_put_record(record, 0, j->last + 1, TYPE_SEAL);
        format_stamp(record, sizeof record, (uint32_t)j->head.id);
        /* Only a help for telling damage from the end: without it no record is lost. */
        if (io_write(j, j->fd, record, sizeof record, j->end) == 0)
            (void)io_sync_file(j, j->fd);
    }
    io_close(j, j->fd);
    j->fd = -1;
}

int segment_delete(struct journal *j)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, j->segments[0].first);
    int r = j->io->unlink(j->io->ctx, j->dir, name);
    if (r < 0 && r != -ENOENT)
        return r;
    j->bytes -= in_blocks(j->segments[0].size);
    j->n_segments--;
    memmove(j->segments, j->segments + 1, j->n_segments * sizeof *j->segments);
    return 0;
}
