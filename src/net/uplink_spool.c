/* SPDX-License-Identifier: Apache-2.0 */
/* The spool is a journal (src/journal) of blocks, blocks with marks (uplink_marks.c), and the last COUNTS of
 * runs that could not say goodbye. The cursor "sent" is behind the last record that was acknowledged. There
 * are two kinds:
 *
 * A backup is written when the receiver is away, without syncs: it survives the death of the process, not of
 * the machine, because a sync could hold up the program for as long as the disk likes. At its size limit it
 * refuses new blocks (they stay in memory, then are dropped and counted); old ones are never given up for new
 * ones.
 *
 * With UPLINK_SPOOL_FIRST all blocks are written and synced by uplink_commit. While the receiver keeps up,
 * each block is launched as its record is committed, from memory, so that nothing is read back; else it is
 * read when its turn comes. At the size limit the oldest segment goes, and what was in it is dropped and
 * counted (forced). The cursor is moved every TIDY_MS by uplink_commit, not at each acknowledgement: a sync
 * of its own each time is more than the blocks that would be sent again after a crash are worth. A segment is
 * at most a quarter of the size limit (the journal sees to it) and so is a group of records (group_max): the
 * three newest segments, which have the marks, are never forced out.
 *
 * A cursor that could not be moved costs nothing but sending some blocks again, which the receiver sees. A
 * record that can't be read any more is found out when those behind it are done with: what is then missing of
 * this run's events is counted as dropped.
 *
 * Which events go with a segment: the journal deletes whole segments, so a sum for each that this run wrote
 * is enough. Blocks that are on the way while their segment goes are still counted as queued: they are passed
 * when the receiver acknowledges them, forced when the connection breaks first.
 *
 * One process has the directory at a time. A forked child asks again each second and does without meanwhile.
 */
#include "net/uplink_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"

#include <errno.h>

enum {
    RETRY_MS = 100,
    REOPEN_MS = 1000,
    TIDY_MS = 10000,
    REPLAY_BYTES = 256 << 10, /* read by one pump; exceeded by at most one record */
    RECORD_COST = 32          /* bytes that a record takes besides its payload, about */
};
static const int64_t ns_per_ms = 1000000;

static int open_cursors(struct uplink *u)
{
    int r = journal_cursor_open(u->spool, "sent", &u->cursor_sent);
    if (r < 0 || !uplink_is_spool_first(u))
        return r;
    r = journal_cursor_open(u->spool, "marks", &u->cursor_marks);
    if (r < 0)
        return r;
    struct journal_cursor_info at;
    journal_cursor_info(u->cursor_marks, &at);
    return uplink_marks_load(u, at.position + 1);
}

int uplink_spool_open(struct uplink *u)
{
    struct journal_options options = u->spool_options;
    if (!uplink_is_spool_first(u))
        options.flags = JOURNAL_NOSYNC | JOURNAL_REFUSE;
    else if (!options.segment_bytes)
        options.segment_bytes = UPLINK_SEGMENT_BYTES;
    int r = journal_open(u->spool_dir, &options, &u->spool);
    if (r < 0)
        return r;
    r = open_cursors(u);
    if (r < 0) {
        uplink_spool_close(u, false);
        return r;
    }
    struct journal_stats stats;
    struct journal_cursor_info at;
    journal_stats(u->spool, &stats);
    journal_cursor_info(u->cursor_sent, &at);
    u->spool_oldest = stats.first;
    u->spool_last = stats.last;
    u->spool_done = at.position;
    u->spool_own = stats.last + 1;
    u->read_next = at.position + 1;
    u->newest = u->before_newest = stats.newest; /* the first group copies all marks that are older */
    u->marks_for = 0;
    return 0;
}

void uplink_spool_rewind(struct uplink *u, uint64_t next)
{
    journal_reader_close(u->reader);
    u->reader = NULL;
    u->has_ahead = false;
    u->read_next = next;
}

void uplink_spool_close(struct uplink *u, bool is_child)
{
    uplink_spool_rewind(u, 0);
    if (is_child)
        journal_abandon(u->spool);
    else
        journal_close(u->spool);
    u->spool = NULL;
    u->cursor_sent = u->cursor_marks = NULL;
    u->spool_last = u->spool_done = u->spool_events = 0;
    mem_free(u->segments);
    u->segments = NULL;
    u->n_segments = u->cap_segments = 0;
}

/* There to be written to? Asks again for one that could not be had. */
static bool is_there(struct uplink *u)
{
    if (u->spool || !u->spool_dir)
        return u->spool != NULL;
    int64_t now = clock_mono_ns();
    if (now < u->spool_retry_ns)
        return false;
    u->spool_retry_ns = now + REOPEN_MS * ns_per_ms;
    if (uplink_spool_open(u) < 0)
        return false;
    u->spool_retry_ns = 0;
    return true;
}

bool uplink_spool_has_unread(const struct uplink *u)
{
    return u->spool && u->read_next <= u->spool_last;
}

bool uplink_spool_is_empty(const struct uplink *u)
{
    return !uplink_spool_has_unread(u) && !(u->flight.head && u->flight.head->record);
}

/* ---------------------------------------------------------------- the ledger of segments */

/* So that entering a new one can't fail when it is already written. */
static int reserve_segment(struct uplink *u)
{
    if (u->n_segments < u->cap_segments)
        return 0;
    size_t cap = u->cap_segments ? 2 * u->cap_segments : 8;
    struct uplink_segment *p = mem_try_resize(u->segments, cap * sizeof *p);
    if (!p)
        return -ENOMEM;
    u->segments = p;
    u->cap_segments = cap;
    return 0;
}

/* Takes the oldest out of the ledger; returns the events that were in it. */
static uint64_t shift_segment(struct uplink *u)
{
    uint64_t events = u->segments[0].events;
    u->n_segments--;
    memmove(u->segments, u->segments + 1, u->n_segments * sizeof *u->segments);
    u->spool_events -= events;
    return events;
}

static void drop(struct uplink *u, enum drop_reason reason, uint64_t events)
{
    u->counts.queued -= events;
    u->counts.dropped[reason] += events;
}

void uplink_spool_settle(struct uplink *u, uint64_t record, uint32_t n)
{
    size_t k = u->n_segments;
    while (k > 1 && u->segments[k - 1].first > record)
        k--;
    u->segments[k - 1].events -= n;
    u->spool_events -= n;
}

/* The journal has deleted everything below first. What is on the way is not lost yet. */
static void forced_out(struct uplink *u, uint64_t first)
{
    uint64_t events = 0, flying = 0, earlier = 0;
    while (u->n_segments && u->segments[0].first < first)
        events += shift_segment(u);
    uint64_t from = u->spool_done + 1 > u->spool_oldest ? u->spool_done + 1 : u->spool_oldest;
    uint64_t to = first < u->spool_own ? first : u->spool_own;
    earlier = from < to ? to - from : 0;
    for (struct uplink_item *i = u->flight.head; i && i->record && i->record < first; i = i->next) {
        if (i->is_gone)
            continue;
        i->is_gone = true;
        flying += i->is_counted ? i->count : 0;
        earlier -= i->record < u->spool_own ? 1 : 0;
    }
    drop(u, DROP_FORCED, events - flying);
    u->counts.earlier_forced += earlier;
    u->spool_oldest = first;
    if (u->read_next < first)
        uplink_spool_rewind(u, first);
}

/* A group was committed, the copies of marks first, then n items from i on. */
static void enter_group(struct uplink *u, const struct uplink_item *i, size_t n)
{
    const bool was_read = !uplink_spool_has_unread(u);
    const uint64_t next = n ? i->record : 0;
    struct journal_stats stats;
    journal_stats(u->spool, &stats);
    if (u->n_segments == 0 || u->segments[u->n_segments - 1].first != stats.newest)
        u->segments[u->n_segments++] = (struct uplink_segment){stats.newest, 0};
    if (u->newest != stats.newest) {
        u->before_newest = u->newest;
        u->newest = stats.newest;
    }
    for (; n; n--, i = i->next) {
        u->segments[u->n_segments - 1].events += i->count;
        u->spool_events += i->count;
    }
    u->spool_last = stats.last;
    if (was_read && u->read_next != (next ? next : stats.last + 1))
        uplink_spool_rewind(u, next ? next
                                    : stats.last + 1); /* marks alone, and our own COUNTS, are not for now */
    if (stats.first > u->spool_oldest)
        forced_out(u, stats.first);
}

/* ---------------------------------------------------------------- writing */

static int append_item(struct uplink *u, struct uplink_item *i)
{
    uint32_t type = i->mark ? UPLINK_RECORD_MARK : UPLINK_RECORD_BLOCK;
    return journal_append(u->spool, type, slice_of(i->data, i->data_n), &i->record);
}

/* Appends items from *from on while the journal takes them, the group is not too large, and no mark is in it
 * twice: of a group that is not committed power loss may keep a later record and lose an earlier one, and a
 * mark must not come through without the blocks before it. */
static int append_items(struct uplink *u, struct uplink_item *from, size_t *n)
{
    const uint64_t group_max = u->spool_options.max_bytes / 4;
    uint64_t bytes = 0;
    int r = uplink_is_spool_first(u) ? uplink_marks_append(u, u->before_newest, &bytes) : 0;
    for (struct uplink_item *i = from; i && r == 0; i = i->next) {
        bytes += i->data_n + RECORD_COST;
        if (*n && ((bytes > group_max && uplink_is_spool_first(u)) || (i->mark && i->mark->is_grouped)))
            return 0;
        r = append_item(u, i);
        *n += r == 0;
        if (i->mark)
            i->mark->is_grouped = true;
    }
    return *n ? 0 : r;
}

/* Commits a group of items from *from on (NULL: of marks alone). They get their record numbers. *n is how
 * many are in the journal now; fewer than there are: the rest may be tried as another group. */
static int commit_items(struct uplink *u, struct uplink_item *from, size_t *n)
{
    *n = 0;
    int r = reserve_segment(u);
    if (r == 0)
        r = append_items(u, from, n);
    if (r == 0)
        r = journal_commit(u->spool);
    uplink_marks_settle(u, r == 0);
    if (r == 0) {
        enter_group(u, from, *n);
        return 0;
    }
    (void)journal_drop(u->spool); /* they are still in memory */
    for (struct uplink_item *i = from; i && *n; i = i->next, --*n)
        i->record = 0;
    return r;
}

/* It is in the spool now, and its mark with it. */
static void settle(struct uplink *u, struct uplink_item *i)
{
    uplink_mark_apply(u, i);
    u->memory -= i->data_n;
    mem_free(i->data);
    i->data = NULL;
}

/* Blocks in flight keep their place there; when the connection breaks they are read again. */
static int spill_flight(struct uplink *u)
{
    struct uplink_item *i = u->flight.head;
    while (i && i->record)
        i = i->next;
    while (i) {
        size_t n;
        int r = commit_items(u, i, &n);
        if (r < 0)
            return r;
        for (; n; n--, i = i->next)
            settle(u, i);
        uplink_spool_rewind(u, u->spool_last + 1);
    }
    return 0;
}

/* The receiver keeps up: launches a record that was just committed, before its data is freed. */
static bool pass_through(struct uplink *u, struct uplink_item *i, struct slice block)
{
    if (!uplink_is_spool_first(u) || u->read_next != i->record)
        return false;
    bool is_launched = block.n && uplink_may_launch(u) && uplink_launch(u, i, block) == 0;
    if (is_launched || block.n == 0)
        uplink_spool_rewind(u, i->record + 1);
    return is_launched;
}

static int spill_queue(struct uplink *u)
{
    while (u->queue.head) {
        size_t n;
        int r = commit_items(u, u->queue.head, &n);
        if (r < 0)
            return r;
        for (; n; n--) {
            struct uplink_item *i = uplink_list_take(&u->queue);
            bool is_launched = pass_through(u, i, uplink_item_block(i));
            settle(u, i);
            if (!is_launched)
                uplink_item_free(i);
        }
    }
    return 0;
}

static int spill_all(struct uplink *u)
{
    size_t none;
    int r = spill_flight(u);
    if (r == 0)
        r = spill_queue(u);
    if (r == 0 && uplink_marks_are_dirty(u))
        r = commit_items(u, NULL, &none);
    return r;
}

int uplink_spool_spill(struct uplink *u, bool at_once)
{
    if (u->memory == 0 && !uplink_marks_are_dirty(u))
        return 0;
    if (at_once)
        u->spool_retry_ns = 0;
    if (!is_there(u))
        return -EAGAIN;
    if (u->spool_retry_ns && clock_mono_ns() < u->spool_retry_ns)
        return -EAGAIN;
    int r = spill_all(u);
    if (r == -ENOSPC && uplink_is_spool_first(u)) {
        uplink_spool_tidy(u, true); /* what was acknowledged may give the room */
        r = spill_all(u);
    }
    u->is_failing = r < 0;
    u->spool_retry_ns = r < 0 ? clock_mono_ns() + RETRY_MS * ns_per_ms : 0;
    return r;
}

/* ---------------------------------------------------------------- what is done with */

/* Moves cursor c forward to position if it is not there. It may fail: see the head of this file. */
static void move(struct journal_cursor *c, uint64_t position)
{
    struct journal_cursor_info at;
    journal_cursor_info(c, &at);
    if (position > at.position)
        (void)journal_cursor_move(c, position);
}

void uplink_spool_pass(struct uplink *u, uint64_t record)
{
    u->spool_done = record;
    while (u->n_segments > 1 && u->segments[1].first <= record + 1)
        drop(u, DROP_UNWRITABLE, shift_segment(u)); /* records that could not be read */
    if (!uplink_is_spool_first(u))
        move(u->cursor_sent, record);
}

void uplink_spool_tidy(struct uplink *u, bool at_once)
{
    if (!u->spool || !uplink_is_spool_first(u) || (!at_once && u->now_ns < u->tidy_at_ns))
        return;
    u->tidy_at_ns = u->now_ns + TIDY_MS * ns_per_ms;
    move(u->cursor_sent, u->spool_done);
    if (u->marks_for != u->newest) {
        uint64_t oldest = uplink_marks_oldest(u);
        move(u->cursor_marks, oldest > u->spool_last ? u->spool_last : oldest - 1);
        u->marks_for = u->newest;
    }
    (void)journal_trim(u->spool); /* what can't be deleted now is tried again next time */
}

/* Everything was read and acknowledged. */
static void finish(struct uplink *u)
{
    while (u->n_segments)
        drop(u, DROP_UNWRITABLE, shift_segment(u)); /* records that could not be read */
    if (u->spool_done < u->spool_last)
        uplink_spool_pass(u, u->spool_last);
    uplink_spool_rewind(u, u->spool_last + 1);
    if (!uplink_is_spool_first(u))
        (void)journal_trim(u->spool); /* gives the disk back; else at the limit */
}

/* ---------------------------------------------------------------- reading */

static int launch_block(struct uplink *u, struct slice block, uint64_t record)
{
    if (block_check(block) != (int64_t)block.n || block.n == 0)
        return 0;
    struct batch_origin o = block_origin(block);
    struct uplink_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    memcpy(i->origin.producer, o.producer, sizeof i->origin.producer);
    i->origin.epoch = o.epoch;
    i->count = block_count(block);
    i->first = o.first_seq;
    i->last = o.first_seq + i->count - 1;
    i->size = (uint32_t)block.n;
    i->record = record;
    i->is_counted = record >= u->spool_own;
    int r = uplink_launch(u, i, block);
    if (r < 0)
        mem_free(i);
    return r;
}

static int launch_marked(struct uplink *u, const struct journal_item *record)
{
    struct slice name, position, block;
    if (uplink_mark_get(record->payload, &name, &position, &block) < 0)
        return 0;
    return launch_block(u, block, record->first);
}

/* COUNTS are not acknowledged: sent is done. */
static int launch_counts(struct uplink *u, const struct journal_item *record)
{
    struct frame_counts counts;
    if (frame_get_counts(record->payload, &counts) < 0)
        return 0;
    struct uplink_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    size_t at = u->out.n;
    frame_put(&u->out, FRAME_COUNTS, 0, record->payload);
    if (strbuf_failed(&u->out)) {
        u->out.failed = false;
        u->out.n = at;
        mem_free(i);
        return -ENOMEM;
    }
    i->record = record->first;
    i->is_done = true;
    uplink_list_add(&u->flight, i);
    u->n_flight++;
    return 0;
}

static int launch_record(struct uplink *u, const struct journal_item *record)
{
    if (record->kind != JOURNAL_RECORD)
        return 0;
    switch (record->type) {
    case UPLINK_RECORD_BLOCK:
        return launch_block(u, record->payload, record->first);
    case UPLINK_RECORD_COUNTS:
        return launch_counts(u, record);
    case UPLINK_RECORD_MARK:
        return launch_marked(u, record);
    default:
        return 0;
    }
}

/* A record that the window has no room for stays ahead: opening the reader again would read up to it again.
 * Takes what was read from *budget. */
static int replay_next(struct uplink *u, size_t *budget)
{
    struct journal_item *a = &u->ahead;
    int r = u->reader ? 0 : journal_reader_open(u->spool, u->read_next, &u->reader);
    if (r == 0 && !u->has_ahead)
        r = journal_reader_next(u->reader, a);
    if (r < 0)
        return r;
    u->has_ahead = true;
    r = launch_record(u, a);
    if (r < 0)
        return r;
    size_t cost = a->payload.n + RECORD_COST;
    *budget -= cost < *budget ? cost : *budget;
    u->has_ahead = false;
    u->read_next = a->last + 1;
    return 0;
}

void uplink_spool_replay(struct uplink *u)
{
    size_t budget = REPLAY_BYTES;
    u->has_more = false;
    while (uplink_spool_has_unread(u) && uplink_may_launch(u) && budget) {
        int r = replay_next(u, &budget);
        if (r == E_NODATA)
            uplink_spool_rewind(u, u->spool_last + 1);
        else if (r < 0)
            return; /* no room in the window, no memory, or a read error: tried again at the next pump */
    }
    u->has_more = uplink_spool_has_unread(u);
    bool was_used = u->spool_events || (u->spool && u->spool_done < u->spool_last);
    if (was_used && uplink_spool_is_empty(u))
        finish(u);
}

void uplink_spool_add_counts(struct uplink *u, const struct frame_counts *c)
{
    struct strbuf out = {0};
    size_t none;
    frame_put_counts(&out, c);
    if (!strbuf_failed(&out) && is_there(u) && reserve_segment(u) == 0 &&
        journal_append(u->spool, UPLINK_RECORD_COUNTS, slice_from(strbuf_slice(&out), FRAME_HEAD), NULL) == 0)
        (void)commit_items(u, NULL, &none); /* if it fails the epoch stays open, which is the truth */
    strbuf_fini(&out);
}
