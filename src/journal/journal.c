/* SPDX-License-Identifier: Apache-2.0 */
/* The journal on disk, version 1. All integers are little-endian.
 *
 * A directory with
 *     lock                 empty; flock()ed by the one process that writes
 *     %016x.seg            segments, named by the number of their first record (1 .. 2^63-1)
 *     NAME.cur             cursors
 *     new.tmp              a segment that is being made; removed at open
 *
 * SEGMENT = head, then records one after the other, each at a multiple of 8.
 *
 *   Head, 64 bytes
 *      0   8  "gljourn\n"
 *      8   4  version, 1
 *     12   4  0
 *     16   8  number of its first record, the one in its name
 *     24   8  time it was made, ns since 1970 UTC
 *     32   8  id, random; the low 32 bits are not 0
 *     40  20  0
 *     60   4  CRC-32C of bytes 0..59
 *
 *   Record, 24 bytes + payload + 0..7 bytes of 0 up to a multiple of 8
 *      0   4  marker: the low 32 bits of the segment's id
 *      4   4  length of the payload, at most 1,114,112
 *      8   8  number
 *     16   4  type: the user's; 0xffffffff = seal
 *     20   4  CRC-32C of bytes 0..19 and the payload (not of the filling)
 *     24   n  payload
 *
 *   A seal has no payload and the number behind the last record: written when the journal is closed, it
 *   tells damage of the last records from a clean end. It has no number of its own.
 *
 * CURSOR = two slots of 40 bytes, at 0 (even generations) and 512 (odd ones). The valid one with the larger
 *   generation counts.
 *      0   4  "glcu"
 *      4   4  version, 1
 *      8   8  generation
 *     16   8  position: number of the last record its owner is done with
 *     24   8  records that were forced out before this cursor passed them
 *     32   4  0
 *     36   4  CRC-32C of bytes 0..35
 *
 * What holds at any instant, also after a crash:
 *   1. Numbers of a segment are contiguous and below the first number of the next segment. A record with a
 *      number at or above that is a left-over of a commit that failed and was repeated there: not valid.
 *   2. NAME.seg exists only if its first record was written (and synced) before: see segment.c.
 *   3. A group of records is in one segment. It is acknowledged only when its bytes and the segment's name
 *      are synced. So only the newest segment can have an incomplete tail that matters, and open reads no
 *      other.
 *   4. A segment is written by one opening of the journal only. The next one starts a new segment, at
 *      max(highest valid number, seal - 1, highest cursor, first number of the newest segment) + 1: a number
 *      that can still be read, or that a cursor has passed, is never given to another record.
 *   5. After a write or sync error nothing more is written to that file: the kernel may have dropped the
 *      pages and called them clean, so a second sync that succeeds proves nothing (PostgreSQL's fsyncgate).
 *
 * Power loss in the middle of a group may keep a later record of it and lose an earlier one. None of them was
 * acknowledged, but the earlier number was given, so a reader reports it as a gap.
 *
 * Why each record carries the segment's marker, instead of the CRC alone being salted with it: a segment
 * whose head is damaged is then still readable, and a stale record (an old block of the file system, a
 * segment stored in a payload) is still not taken for one of this segment.
 *
 * Rejected: appending to the newest segment after a restart (saves a file, costs a cut of the torn tail: the
 * one place where recovery would destroy bytes). Preallocating segments (zeros behind the tail would have to
 * be told from damage). An index of numbers to offsets (a reader seeks within one segment: at most
 * segment_bytes at memory speed). */
#include "journal/internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

enum { SEGMENT_BYTES_MIN = 4096 };

_Static_assert((int)JOURNAL_LAID_HEAD == RECORD_HEAD && (int)JOURNAL_LAID_ALIGN == RECORD_ALIGN,
               "what a caller lays out is what is written");

static void configure(struct journal *j, const struct journal_options *o)
{
    const uint64_t queue_min = RECORD_HEAD + JOURNAL_RECORD_MAX + RECORD_ALIGN;
    j->io = o->io ? o->io : &journal_io_libc;
    j->flags = o->flags;
    j->max_bytes = o->max_bytes ? o->max_bytes : UINT64_C(1) << 30;
    if (j->max_bytes < 4 * SEGMENT_BYTES_MIN)
        j->max_bytes = 4 * SEGMENT_BYTES_MIN;
    j->segment_bytes = o->segment_bytes ? o->segment_bytes : 16 << 20;
    if (j->segment_bytes > j->max_bytes / 4)
        j->segment_bytes = j->max_bytes / 4;
    j->queue_bytes = o->queue_bytes ? o->queue_bytes : 4 << 20;
    if (j->queue_bytes < queue_min)
        j->queue_bytes = queue_min;
}

static int take_lock(struct journal *j)
{
    j->lock = io_open(j, "lock", O_RDWR | O_CREAT);
    if (j->lock < 0)
        return j->lock;
    int r;
    do
        r = j->io->lock(j->io->ctx, j->lock);
    while (r == -EINTR);
    return r == -EWOULDBLOCK ? -EBUSY : r;
}

/* Finds the last number given in the newest segment. Its records may have been written but not synced by a
 * process that was killed; readers will see them from now on, so they are made durable first. (If a sync of
 * them had failed for that process, this one may succeed and prove nothing. Then power loss can still take
 * records that were read, but none that was acknowledged.) */
static int recover_newest(struct journal *j, uint64_t first)
{
    struct journal_scan s = {.fd = -1};
    uint64_t next = first;
    struct record rec;
    int r = journal_scan_open(&s, j, first);
    if (r == 0) {
        while ((r = journal_scan_next(&s, next, UINT64_MAX, &rec)) > 0)
            next = rec.head.number + (rec.head.type == TYPE_SEAL ? 0 : 1);
    }
    if (r == 0 && !(j->flags & JOURNAL_READONLY))
        r = io_sync_file(j, s.fd);
    scan_fini(&s);
    j->last = next > first ? next - 1 : first; /* record first existed: see 2. above */
    return r;
}

/* Sets back cursors whose file says nothing, and j->last forward to where any cursor is. */
static void settle_cursors(struct journal *j)
{
    for (size_t i = 0; i < j->n_cursors; i++)
        if (j->cursors[i]->slot.position > j->last)
            j->last = j->cursors[i]->slot.position;
    for (size_t i = 0; i < j->n_cursors; i++)
        if (j->cursors[i]->is_reset)
            j->cursors[i]->slot.position = journal_oldest(j) - 1;
}

/* The directory may be new: by now, or made by a process that died before its name was durable. */
static int sync_parent(struct journal *j)
{
    if (j->flags & JOURNAL_NOSYNC)
        return 0;
    int parent = io_open(j, "..", O_RDONLY | O_DIRECTORY);
    if (parent < 0)
        return parent;
    int r = io_sync_dir(j, parent);
    io_close(j, parent);
    return r;
}

static int recover(struct journal *j)
{
    int r = segment_list(j, cursor_load);
    if (r == 0 && j->n_segments)
        r = recover_newest(j, j->segments[j->n_segments - 1].first);
    if (r < 0)
        return r;
    settle_cursors(j);
    if (j->flags & JOURNAL_READONLY)
        return 0;
    (void)j->io->unlink(j->io->ctx, j->dir, "new.tmp"); /* usually there is none */
    r = io_sync_dir(j, j->dir);
    return r < 0 ? r : sync_parent(j);
}

int journal_open(const char *path, const struct journal_options *options, struct journal **out)
{
    struct journal *j = mem_try_alloc(sizeof *j);
    if (!j)
        return -ENOMEM;
    configure(j, options ? options : &(struct journal_options){0});
    j->dir = j->lock = j->fd = -1;
    const bool is_writer = !(j->flags & JOURNAL_READONLY);

    int r = j->dir = j->io->open_dir(j->io->ctx, path, is_writer);
    if (r >= 0 && is_writer)
        r = take_lock(j);
    if (r >= 0)
        r = recover(j);
    if (r < 0) {
        journal_abandon(j);
        return r;
    }
    *out = j;
    return 0;
}

void journal_abandon(struct journal *j)
{
    if (!j)
        return;
    io_close(j, j->fd);
    io_close(j, j->lock);
    io_close(j, j->dir);
    cursor_destroy_all(j);
    strbuf_fini(&j->queue);
    mem_free(j->segments);
    mem_free(j);
}

void journal_close(struct journal *j)
{
    if (j)
        segment_finish(j, true);
    journal_abandon(j);
}

/* Is there no room for n more bytes, even after trimming? Counted as if they took a new segment. */
static bool is_full(struct journal *j, uint64_t n)
{
    uint64_t need = HEAD_SIZE + j->queue.n + n + SEGMENT_BYTES_MIN;
    if (j->bytes + need <= j->max_bytes)
        return false;
    (void)journal_trim(j); /* what can't be deleted now still counts in j->bytes */
    return j->bytes + need > j->max_bytes;
}

int journal_append(struct journal *j, uint32_t type, struct slice payload, uint64_t *number)
{
    if (j->flags & JOURNAL_READONLY)
        return -EROFS;
    if (type == TYPE_SEAL)
        return -EINVAL;
    if (payload.n > JOURNAL_RECORD_MAX)
        return E_LIMIT;
    size_t size = (size_t)format_record_size(payload.n);
    if (j->queue.n + size > j->queue_bytes)
        return -ENOBUFS;
    if ((j->flags & JOURNAL_REFUSE) && is_full(j, size)) {
        j->stats.refused++;
        return -ENOSPC;
    }
    unsigned char *to = (unsigned char *)strbuf_room(&j->queue, size);
    if (!to) {
        j->queue.failed = false; /* this record is refused; those before it are whole */
        return -ENOMEM;
    }
    uint64_t n = j->last + j->queued + 1;
    format_put_record(to, (uint32_t)payload.n, n, type);
    if (payload.n)
        memcpy(to + RECORD_HEAD, payload.p, payload.n);
    memset(to + RECORD_HEAD + payload.n, 0, size - RECORD_HEAD - payload.n);
    strbuf_advance(&j->queue, size);
    j->queued++;
    if (number)
        *number = n;
    return 0;
}

/* Does a hold keep the oldest segment, whose last record is `last`? */
static bool is_held(const struct journal *j, uint64_t last)
{
    for (size_t i = 0; i < j->n_holds; i++)
        if (last > j->holds[i].number && j->bytes <= j->holds[i].bytes)
            return true;
    return false;
}

/* Up to where all cursors and holds have got; without any, 0. */
static uint64_t passed_by_all(const struct journal *j)
{
    uint64_t passed = cursor_min(j);
    for (size_t i = 0; i < j->n_holds; i++)
        passed = j->holds[i].number < passed ? j->holds[i].number : passed;
    return passed == UINT64_MAX ? 0 : passed;
}

/* Deletes the oldest segments until the rest fits. The newest stays whatever its size: it carries the
 * numbers; so do those that hold what is pinned or held. A file that can't be deleted is tried again after
 * the next commit. */
static void enforce_limit(struct journal *j)
{
    while (j->bytes > j->max_bytes && j->n_segments > 1) {
        uint64_t first = j->segments[0].first, behind = j->segments[1].first;
        uint64_t passed = passed_by_all(j);
        if (behind - 1 > cursor_pinned(j) || is_held(j, behind - 1) || segment_delete(j) < 0)
            return;
        if (passed + 1 < first)
            passed = first - 1; /* older ones were counted when they went */
        if (passed + 1 < behind)
            j->stats.forced += behind - 1 - passed;
    }
}

/* The group of count records that fill p[0..n). */
static int commit(struct journal *j, unsigned char *p, size_t n, uint64_t count)
{
    const bool is_own = j->flags & JOURNAL_OWN_SEGMENTS;
    if (!is_own && j->fd >= 0 && j->end > HEAD_SIZE && j->end + n > j->segment_bytes)
        segment_finish(j, false);
    int r = segment_commit(j, p, n);
    if (r < 0 && !is_own) {
        segment_abandon(j, n);
        r = segment_commit(j, p, n);
    }
    if (r < 0) {
        segment_abandon(j, n);
        return r;
    }
    j->last += count;
    j->stats.records += count;
    if (!(j->flags & JOURNAL_REFUSE))
        enforce_limit(j);
    return 0;
}

int journal_commit(struct journal *j)
{
    if (j->queued == 0)
        return 0;
    int r = commit(j, (unsigned char *)j->queue.p, j->queue.n, j->queued);
    if (r == 0)
        (void)journal_drop(j); /* they are in the file now */
    return r;
}

void journal_lay_head(char to[JOURNAL_LAID_HEAD], uint32_t type, size_t length)
{
    assert(type != TYPE_SEAL && length <= JOURNAL_RECORD_MAX);
    format_put_record((unsigned char *)to, (uint32_t)length, 0, type);
}

int journal_commit_laid(struct journal *j, char *records, size_t n)
{
    assert(j->queued == 0);
    if (j->flags & JOURNAL_READONLY)
        return -EROFS;
    uint64_t count = format_number((unsigned char *)records, n, j->last + 1);
    return count ? commit(j, (unsigned char *)records, n, count) : 0;
}

uint64_t journal_drop(struct journal *j)
{
    uint64_t n = j->queued;
    j->queued = 0;
    strbuf_reset(&j->queue);
    return n;
}

void journal_cut(struct journal *j)
{
    segment_finish(j, false);
}

/* The list is newer than the limit: a number up to it is in the last segment that begins at or before it,
 * and the left-over of a failed commit with that number is in one before. */
int journal_follow(struct journal *j, uint64_t last)
{
    assert(j->flags & JOURNAL_READONLY);
    if (j->has_limit && last <= j->last)
        return 0;
    int r = segment_list(j, NULL);
    if (r < 0)
        return r;
    j->last = last;
    j->has_limit = true;
    return 0;
}

uint64_t journal_segment_of(const struct journal *j, uint64_t number)
{
    return segment_with(j, number);
}

int journal_trim(struct journal *j)
{
    if (j->flags & JOURNAL_READONLY)
        return -EROFS;
    uint64_t passed = passed_by_all(j), pinned = cursor_pinned(j);
    if (pinned < passed)
        passed = pinned;
    int n = 0;
    while (j->n_segments > 1 && j->segments[1].first <= passed + 1) {
        int r = segment_delete(j);
        if (r < 0)
            return r;
        n++;
    }
    int r = n ? io_sync_dir(j, j->dir) : 0;
    return r < 0 ? r : n;
}

void journal_set_holds(struct journal *j, const struct journal_hold *holds, size_t n)
{
    assert(n <= JOURNAL_HOLDS_MAX);
    if (n)
        memcpy(j->holds, holds, n * sizeof *holds);
    j->n_holds = n;
    if (!(j->flags & (JOURNAL_REFUSE | JOURNAL_READONLY)))
        enforce_limit(j);
}

uint64_t journal_bytes_above(const struct journal *j, uint64_t number)
{
    uint64_t bytes = 0;
    for (size_t i = j->n_segments; i-- > 0;) {
        uint64_t last = i + 1 < j->n_segments ? j->segments[i + 1].first - 1 : j->last;
        if (last <= number)
            break;
        bytes += in_blocks(j->segments[i].size);
    }
    return bytes;
}

void journal_stats(const struct journal *j, struct journal_stats *out)
{
    *out = j->stats;
    out->first = journal_oldest(j);
    out->last = j->last;
    out->queued = j->queued;
    out->bytes = j->bytes;
    out->segments = j->n_segments;
    out->newest = j->n_segments ? j->segments[j->n_segments - 1].first : 0;
}
