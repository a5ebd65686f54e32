/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: a position for each name, kept in the journal together with the block that it belongs to.
 *
 * A record of type 3 is: varint length, name; varint length, position; then the block, to the record's end,
 * or nothing. The newest record of a name counts; one with an empty position takes the name out. A journal's
 * record is there whole or not at all, so a crash keeps block and mark or neither.
 *
 * Segments go when their blocks have been acknowledged, or when the size limit forces it. So that no mark
 * goes with them:
 *
 *   1. Each group of records that is committed begins with a copy (a record of type 3 without block) of every
 * mark whose newest record is older than the two newest segments, or is nowhere. No sync of its own, and no
 * record is needed unless segments come and go while a mark rests.
 *   2. So when a commit returns, each mark is in one of the three newest segments. The size limit never takes
 * those: a segment and a group are at most a quarter of it (uplink_spool.c).
 *   3. The journal's cursor "marks" is behind the last record that is not needed for any mark, and so keeps
 * trimming off the others. It moves when a new segment has begun, and only after the copies that allow it are
 * committed.
 *
 * A crash before the commit leaves the old records, which the cursor still holds. One between the commit and
 * the move of the cursor leaves both, and the newer ones say the same. At open, the records behind the cursor
 * are read: usually of three segments, whatever the size of the journal. All of a name's records before its
 * newest may go at any time: they are older, so a record that takes a name out is never outlived by one that
 * it has overruled. */
#include "net/uplink_internal.h"

#include "base/cursor.h"
#include "base/mem.h"

#include <errno.h>

/* ---------------------------------------------------------------- the record */

void uplink_mark_put(struct strbuf *out, struct slice name, struct slice position)
{
    strbuf_add_varint(out, name.n);
    strbuf_add_slice(out, name);
    strbuf_add_varint(out, position.n);
    strbuf_add_slice(out, position);
}

int uplink_mark_get(struct slice payload, struct slice *name, struct slice *position, struct slice *block)
{
    struct cursor c = cursor_of(payload);
    struct slice n = cursor_bytes(&c, cursor_varint(&c));
    struct slice p = cursor_bytes(&c, cursor_varint(&c));
    if (c.bad || n.n == 0 || n.n > UPLINK_MARK_NAME_MAX || p.n > UPLINK_MARK_POSITION_MAX)
        return E_PROTO;
    *name = n;
    *position = p;
    *block = cursor_bytes(&c, cursor_left(&c));
    return 0;
}

/* ---------------------------------------------------------------- marks */

static struct uplink_mark *find(const struct uplink *u, struct slice name)
{
    for (struct uplink_mark *m = u->marks; m; m = m->next)
        if (slice_eq(slice_of(m->name, m->name_n), name))
            return m;
    return NULL;
}

static void destroy(struct uplink_mark *m)
{
    mem_free(m->position);
    mem_free(m);
}

/* Frees the marks without a position of which nothing is on its way. */
static void sweep(struct uplink *u)
{
    for (struct uplink_mark **at = &u->marks; *at;) {
        struct uplink_mark *m = *at;
        if (m->position_n || m->is_dirty || m->waiting) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        u->n_marks--;
        destroy(m);
    }
}

static int find_or_make(struct uplink *u, struct slice name, struct uplink_mark **out)
{
    struct uplink_mark *m = find(u, name);
    if (!m) {
        if (u->n_marks == UPLINK_MARKS_MAX)
            return E_LIMIT;
        m = mem_try_alloc(sizeof *m + name.n);
        if (!m)
            return -ENOMEM;
        m->name_n = name.n;
        memcpy(m->name, name.p, name.n);
        m->next = u->marks;
        u->marks = m;
        u->n_marks++;
    }
    *out = m;
    return 0;
}

int uplink_mark_reserve(struct uplink *u, struct slice name, struct uplink_mark **out)
{
    int r = find_or_make(u, name, out);
    if (r == 0)
        (*out)->waiting++;
    return r;
}

void uplink_mark_release(struct uplink *u, struct uplink_mark *m)
{
    m->waiting--;
    sweep(u);
}

void uplink_mark_apply(struct uplink *u, struct uplink_item *i)
{
    struct uplink_mark *m = i->mark;
    if (!m)
        return;
    mem_free(m->position);
    m->position = i->position;
    m->position_n = i->position_n;
    m->record = i->record ? i->record : m->record;
    m->is_dirty = i->record == 0;
    i->position = NULL;
    i->mark = NULL;
    uplink_mark_release(u, m);
}

bool uplink_marks_are_dirty(const struct uplink *u)
{
    for (const struct uplink_mark *m = u->marks; m; m = m->next)
        if (m->is_dirty)
            return true;
    return false;
}

int uplink_marks_append(struct uplink *u, uint64_t before, uint64_t *bytes)
{
    struct strbuf copy = {0};
    int r = 0;
    for (struct uplink_mark *m = u->marks; m && r == 0; m = m->next) {
        if (!m->is_dirty && (m->position_n == 0 || m->record >= before))
            continue;
        strbuf_reset(&copy);
        uplink_mark_put(&copy, slice_of(m->name, m->name_n), slice_of(m->position, m->position_n));
        r = strbuf_failed(&copy)
                ? -ENOMEM
                : journal_append(u->spool, UPLINK_RECORD_MARK, strbuf_slice(&copy), &m->moving);
        *bytes += copy.n;
    }
    strbuf_fini(&copy);
    return r;
}

void uplink_marks_settle(struct uplink *u, bool is_committed)
{
    for (struct uplink_mark *m = u->marks; m; m = m->next) {
        if (m->moving && is_committed) {
            m->record = m->moving;
            m->is_dirty = false;
        }
        m->moving = 0;
        m->is_grouped = false;
    }
    if (is_committed)
        sweep(u);
}

uint64_t uplink_marks_oldest(const struct uplink *u)
{
    uint64_t oldest = UINT64_MAX;
    for (const struct uplink_mark *m = u->marks; m; m = m->next)
        if (m->record && m->record < oldest)
            oldest = m->record;
    return oldest;
}

/* ---------------------------------------------------------------- loading */

/* One that is dirty was acknowledged by this run, so it is newer than what the journal has. */
static int load_one(struct uplink *u, struct slice payload, uint64_t record)
{
    struct slice name, position, block;
    struct uplink_mark *m;
    if (uplink_mark_get(payload, &name, &position, &block) < 0)
        return 0;
    int r = find_or_make(u, name, &m);
    if (r < 0)
        return r;
    m->record = record;
    if (m->is_dirty)
        return 0;
    char *copy = mem_try_alloc(position.n + 1);
    if (!copy)
        return -ENOMEM;
    if (position.n)
        memcpy(copy, position.p, position.n);
    mem_free(m->position);
    m->position = copy;
    m->position_n = position.n;
    if (position.n == 0)
        sweep(u);
    return 0;
}

int uplink_marks_load(struct uplink *u, uint64_t from)
{
    struct journal_reader *reader;
    struct journal_item item;
    int r = journal_reader_open(u->spool, from, &reader);
    if (r < 0)
        return r;
    while (r == 0 && (r = journal_reader_next(reader, &item)) == 0)
        if (item.kind == JOURNAL_RECORD && item.type == UPLINK_RECORD_MARK)
            r = load_one(u, item.payload, item.first);
    journal_reader_close(reader);
    return r == E_NODATA ? 0 : r;
}

void uplink_marks_fini(struct uplink *u)
{
    while (u->marks) {
        struct uplink_mark *m = u->marks;
        u->marks = m->next;
        destroy(m);
    }
    u->n_marks = 0;
}
