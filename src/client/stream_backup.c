/* SPDX-License-Identifier: Apache-2.0 */
/* The backup is a journal (src/journal) of two types of records: blocks, and the last COUNTS of a run that
 * could not say goodbye. One cursor, "sent", is behind the last record that was acknowledged. It is written
 * without syncs: it survives the death of the process, not of the machine, because a sync could hold up the
 * program for as long as the disk likes. At its size limit it refuses new blocks (they stay in memory, then
 * are dropped and counted); old ones are never given up for new ones.
 *
 * A cursor that could not be moved costs nothing but sending some blocks again, which the receiver sees. A
 * record that can't be read any more is found out when the backup has been read to its end: what is then
 * missing of this run's events is counted as dropped.
 *
 * One process has the directory at a time. A forked child asks again each second and does without meanwhile.
 */
#include "client/stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"

#include <errno.h>

enum { RECORD_BLOCK = 1, RECORD_COUNTS = 2 };
enum { RETRY_MS = 100, REOPEN_MS = 1000 };
static const int64_t ns_per_ms = 1000000;

int backup_open(struct stream *s)
{
    const struct journal_options options = {.flags = JOURNAL_NOSYNC | JOURNAL_REFUSE,
                                            .max_bytes = s->backup_max};
    struct journal *j;
    struct journal_cursor *c;
    int r = journal_open(s->backup_dir, &options, &j);
    if (r < 0)
        return r;
    r = journal_cursor_open(j, "sent", &c);
    if (r < 0) {
        journal_close(j);
        return r;
    }
    struct journal_stats stats;
    struct journal_cursor_info at;
    journal_stats(j, &stats);
    journal_cursor_info(c, &at);
    s->backup = j;
    s->backup_cursor = c;
    s->backup_last = stats.last;
    s->backup_done = at.position;
    s->read_next = at.position + 1;
    return 0;
}

void backup_rewind(struct stream *s, uint64_t next)
{
    journal_reader_close(s->reader);
    s->reader = NULL;
    s->has_ahead = false;
    s->read_next = next;
}

void backup_close(struct stream *s, bool is_child)
{
    backup_rewind(s, 0);
    if (is_child)
        journal_abandon(s->backup);
    else
        journal_close(s->backup);
    s->backup = NULL;
    s->backup_cursor = NULL;
    s->backup_last = s->backup_done = s->backup_events = 0;
}

/* There to be written to? Asks again for one that could not be had. */
static bool is_there(struct stream *s)
{
    if (s->backup || !s->backup_dir)
        return s->backup != NULL;
    int64_t now = clock_mono_ns();
    if (now < s->backup_retry_ns)
        return false;
    s->backup_retry_ns = now + REOPEN_MS * ns_per_ms;
    if (backup_open(s) < 0)
        return false;
    s->backup_retry_ns = 0;
    return true;
}

bool backup_has_unread(const struct stream *s)
{
    return s->backup && s->read_next <= s->backup_last;
}

bool backup_is_empty(const struct stream *s)
{
    return !backup_has_unread(s) && !(s->flight.head && s->flight.head->record);
}

static void free_data(struct stream *s, struct stream_item *i)
{
    s->memory -= i->size;
    mem_free(i->data);
    i->data = NULL;
}

/* Appends items from *from on while the journal takes them, and commits them. They get their record numbers.
 * Returns how many are in the journal now; less than there are means that it takes no more. */
static size_t append_items(struct stream *s, struct stream_item *from)
{
    size_t n = 0;
    for (struct stream_item *i = from; i; i = i->next, n++)
        if (journal_append(s->backup, RECORD_BLOCK, slice_of(i->data, i->size), &i->record) < 0)
            break;
    if (n && journal_commit(s->backup) == 0)
        return n;
    (void)journal_drop(s->backup); /* they are still in memory */
    for (struct stream_item *i = from; i && n; i = i->next, n--)
        i->record = 0;
    return 0;
}

/* n items from i on are in the backup now, and no longer in memory. */
static void settle(struct stream *s, struct stream_item *i, size_t n)
{
    for (; n; n--, i = i->next) {
        s->backup_last = i->record;
        s->backup_events += i->count;
        free_data(s, i);
    }
}

/* Blocks in flight keep their place there; when the connection breaks they are read again. */
static bool spill_flight(struct stream *s)
{
    struct stream_item *i = s->flight.head;
    while (i && i->record)
        i = i->next;
    while (i) {
        size_t n = append_items(s, i);
        if (n == 0)
            return false;
        settle(s, i, n);
        backup_rewind(s, s->backup_last + 1);
        for (; n; n--)
            i = i->next;
    }
    return true;
}

static bool spill_queue(struct stream *s)
{
    while (s->queue.head) {
        size_t n = append_items(s, s->queue.head);
        if (n == 0)
            return false;
        settle(s, s->queue.head, n);
        for (; n; n--)
            stream_item_free(stream_list_take(&s->queue));
    }
    return true;
}

void backup_spill(struct stream *s)
{
    if (s->memory == 0 || !is_there(s))
        return;
    int64_t now = s->backup_retry_ns ? clock_mono_ns() : 0;
    if (now < s->backup_retry_ns)
        return;
    bool is_done = spill_flight(s) && spill_queue(s);
    s->backup_retry_ns = is_done ? 0 : clock_mono_ns() + RETRY_MS * ns_per_ms;
}

void backup_pass(struct stream *s, uint64_t record)
{
    s->backup_done = record;
    (void)journal_cursor_move(s->backup_cursor, record); /* see the head of this file */
}

/* Everything was read and acknowledged. */
static void finish(struct stream *s)
{
    s->counts.queued -= s->backup_events;
    s->counts.dropped[DROP_UNWRITABLE] += s->backup_events; /* records that could not be read */
    s->backup_events = 0;
    if (s->backup_done < s->backup_last)
        backup_pass(s, s->backup_last);
    backup_rewind(s, s->backup_last + 1);
    (void)journal_trim(s->backup); /* gives the disk back; else at the limit */
}

static int launch_block(struct stream *s, const struct journal_item *record)
{
    struct slice block = record->payload;
    if (block_check(block) != (int64_t)block.n)
        return 0;
    struct batch_origin o = block_origin(block);
    struct stream_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    memcpy(i->origin.producer, o.producer, sizeof i->origin.producer);
    i->origin.epoch = o.epoch;
    i->count = block_count(block);
    i->first = o.first_seq;
    i->last = o.first_seq + i->count - 1;
    i->size = (uint32_t)block.n;
    i->record = record->first;
    i->is_own = stream_is_own(s, &i->origin);
    int r = stream_launch(s, i, block);
    if (r < 0)
        mem_free(i);
    return r;
}

/* COUNTS are not acknowledged: sent is done. */
static int launch_counts(struct stream *s, const struct journal_item *record)
{
    struct frame_counts counts;
    if (frame_get_counts(record->payload, &counts) < 0)
        return 0;
    struct stream_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    size_t at = s->out.n;
    frame_put(&s->out, FRAME_COUNTS, 0, record->payload);
    if (strbuf_failed(&s->out)) {
        s->out.failed = false;
        s->out.n = at;
        mem_free(i);
        return -ENOMEM;
    }
    i->record = record->first;
    i->is_done = true;
    stream_list_add(&s->flight, i);
    s->n_flight++;
    return 0;
}

/* A record that the window has no room for stays ahead: opening the reader again would read up to it again.
 */
static int replay_next(struct stream *s)
{
    struct journal_item *a = &s->ahead;
    int r = s->reader ? 0 : journal_reader_open(s->backup, s->read_next, &s->reader);
    if (r == 0 && !s->has_ahead)
        r = journal_reader_next(s->reader, a);
    if (r < 0)
        return r;
    s->has_ahead = true;
    if (a->kind == JOURNAL_RECORD && a->type == RECORD_BLOCK)
        r = launch_block(s, a);
    else if (a->kind == JOURNAL_RECORD && a->type == RECORD_COUNTS)
        r = launch_counts(s, a);
    if (r < 0)
        return r;
    s->has_ahead = false;
    s->read_next = a->last + 1;
    return 0;
}

void backup_replay(struct stream *s)
{
    while (backup_has_unread(s) && stream_may_launch(s)) {
        int r = replay_next(s);
        if (r == E_NODATA)
            backup_rewind(s, s->backup_last + 1);
        else if (r < 0)
            return; /* no room in the window, no memory, or a read error: tried again at the next pump */
    }
    bool was_used = s->backup_events || (s->backup && s->backup_done < s->backup_last);
    if (was_used && backup_is_empty(s))
        finish(s);
}

void backup_add_counts(struct stream *s, const struct frame_counts *c)
{
    struct strbuf out = {0};
    frame_put_counts(&out, c);
    if (!strbuf_failed(&out) && is_there(s) &&
        journal_append(s->backup, RECORD_COUNTS, slice_from(strbuf_slice(&out), FRAME_HEAD), NULL) == 0 &&
        journal_commit(s->backup) < 0)
        (void)journal_drop(s->backup); /* then the epoch stays open, which is the truth */
    strbuf_fini(&out);
}
