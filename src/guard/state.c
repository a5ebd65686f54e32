/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's state as a journal of groups. A group is what one commit made durable; it counts as a whole or
 * not at all. The journal itself promises less: power loss in the middle of a commit may keep a later record
 * of it and lose an earlier one. So each group says how many parts it has, and one that is not whole is left
 * out when the state is read.
 *
 * GROUP = one or more records of the journal (parts), of type 1 and numbered one after the other. Part, all
 * little-endian:
 *      0   8  group: counts from 1, each is one more than the last that counted
 *      8   4  part: counts from 0
 *     12   1  flags: 1 = snapshot, 2 = the last part of its group
 *     13      entries, until it ends:
 *             u8 kind (state.h), + 128: dropped
 *             u64 id
 *             put only: varint length, the record
 *
 * A snapshot has all records that live and stands for everything before it. It is written in a segment of its
 * own once the journal is much larger than what lives; the cursor `snapshot` then lets go of what is before.
 * It repeats what was committed already, so one that is not whole loses nothing, and a failure to write it is
 * no failure of a commit.
 *
 * Reading begins behind the cursor. Groups are applied in order. One that is not whole is
 *     left out   when nothing follows or the next has its number: a crash cut it, nobody was told that it
 *                counts; or when it is a snapshot and what it stands for was read
 *     salvaged   when the next has a higher number, so that it did count once, or when it is the snapshot
 *                that everything begins with: what can be read of it is applied, the parts that are lost are
 *                counted as damaged
 * Parts that are lost between groups are counted as well. A whole snapshot forgets about damage before it.
 * Parts of a snapshot are small, so that damage takes little; those of other groups as large as the journal
 * allows, so that nearly every group has one part and is either there or not.
 *
 * A record that is put several times before a commit is written once: whoever counts in one need not care how
 * often.
 *
 * Rejected: reading what lives from the journal when a snapshot is due, instead of keeping it in memory. It
 * would save some 30 MB at 100,000 faults, and make each snapshot depend on bytes that may have rotted. */
#include "guard/state.h"

#include "base/cursor.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    PART_TYPE = 1,
    PART_HEAD = 13,
    PART_FLAGS = 12, /* where they are */
    IS_SNAPSHOT = 1,
    IS_LAST = 2,
    IS_DROPPED = 128,
    ENTRY_HEAD = 9 + 10, /* at most */
    SNAPSHOT_PART = 32 << 10,
    RECORD_MAX = JOURNAL_RECORD_MAX - PART_HEAD - ENTRY_HEAD,
    SLACK = 4 << 20, /* bytes of journal besides what lives that are not worth a snapshot */
    SLACK_FACTOR = 3,
    TRY_AGAIN = 100 /* commits after a snapshot that failed */
};

struct record {
    struct {
        uint64_t kind, id;
    } key;
    struct record *next_dirty;
    bool is_dirty; /* to be written by the next commit */
    bool is_gone;  /* dropped; forgotten when that is written */
    size_t n;
    char *bytes;
};

/* A group that is being laid out for journal_commit_laid. Zeroed: empty. */
struct group {
    struct strbuf laid;
    size_t part_at; /* where the open part's journal head is */
    uint32_t parts; /* the open one included */
    size_t part_max;
    uint64_t number;
    uint8_t flags;
};

struct state {
    struct journal *journal;
    struct journal_cursor *snapshot;
    struct map records;   /* by key; with what is not committed yet */
    size_t n_gone;        /* of them */
    struct record *dirty; /* the newest first */
    uint64_t live;        /* bytes that a snapshot of them takes, about */
    uint64_t last;        /* group that counts */
    uint64_t slack;
    size_t part_max;
    bool is_worn;    /* something was damaged: a snapshot is due */
    unsigned pauses; /* commits until the next try of a snapshot */
};

/* ---------------------------------------------------------------- the records */

static struct slice key_of(const struct record *r)
{
    return slice_of((const char *)&r->key, sizeof r->key);
}

static size_t weight_of(const struct record *r)
{
    return r->is_gone ? 0 : ENTRY_HEAD + r->n;
}

static struct record *find(const struct state *s, enum state_kind kind, uint64_t id)
{
    const struct record k = {.key = {kind, id}};
    return map_get(&s->records, key_of(&k));
}

/* Finds it, or makes it, gone. */
static struct record *obtain(struct state *s, enum state_kind kind, uint64_t id)
{
    struct record *r = find(s, kind, id);
    if (r || !(r = mem_try_alloc(sizeof *r)))
        return r;
    r->key.kind = kind;
    r->key.id = id;
    r->is_gone = true;
    if (map_put(&s->records, key_of(r), r) < 0) {
        mem_free(r);
        return NULL;
    }
    s->n_gone++;
    return r;
}

static void fill(struct state *s, struct record *r, char *bytes, size_t n)
{
    s->live -= weight_of(r);
    s->n_gone -= r->is_gone;
    mem_free(r->bytes);
    r->bytes = bytes;
    r->n = n;
    r->is_gone = false;
    s->live += weight_of(r);
}

static int remember(struct state *s, enum state_kind kind, uint64_t id, struct slice bytes,
                    struct record **out)
{
    char *copy = mem_try_alloc(bytes.n + 1);
    struct record *r = copy ? obtain(s, kind, id) : NULL;
    if (!r) {
        mem_free(copy);
        return -ENOMEM;
    }
    if (bytes.n)
        memcpy(copy, bytes.p, bytes.n);
    fill(s, r, copy, bytes.n);
    *out = r;
    return 0;
}

static void mark_gone(struct state *s, struct record *r)
{
    if (r->is_gone)
        return;
    s->live -= weight_of(r);
    s->n_gone++;
    r->is_gone = true;
    mem_free(r->bytes);
    r->bytes = NULL;
    r->n = 0;
}

static void mark_dirty(struct state *s, struct record *r)
{
    if (r->is_dirty)
        return;
    r->is_dirty = true;
    r->next_dirty = s->dirty;
    s->dirty = r;
}

static void forget(struct state *s, struct record *r)
{
    mark_gone(s, r);
    (void)map_remove(&s->records, key_of(r)); /* it is there */
    s->n_gone--;
    mem_free(r);
}

static void forget_all(struct state *s)
{
    void *v;
    for (size_t i = 0; map_next(&s->records, &i, &v);) {
        struct record *r = v;
        mem_free(r->bytes);
        mem_free(r);
    }
    map_fini(&s->records);
    s->records = (struct map){0};
    s->n_gone = 0;
    s->live = 0;
}

static int by_key(const void *a, const void *b)
{
    const struct record *x = *(struct record *const *)a, *y = *(struct record *const *)b;
    if (x->key.kind != y->key.kind)
        return x->key.kind < y->key.kind ? -1 : 1;
    return x->key.id < y->key.id ? -1 : x->key.id > y->key.id;
}

/* All that live, by kind and id: *out is to be freed. */
static int list_records(const struct state *s, struct record ***out, size_t *n)
{
    struct record **list = mem_try_alloc((s->records.n + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    void *v;
    *n = 0;
    for (size_t i = 0; map_next(&s->records, &i, &v);) {
        struct record *r = v;
        if (!r->is_gone)
            list[(*n)++] = r;
    }
    qsort(list, *n, sizeof *list, by_key);
    *out = list;
    return 0;
}

/* ---------------------------------------------------------------- laying out a group */

static void put_le(char *to, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = (char)(v >> (8 * i));
}

static size_t part_payload(const struct group *g)
{
    return g->laid.n - g->part_at - JOURNAL_LAID_HEAD;
}

static void end_part(struct group *g)
{
    static const char zeros[JOURNAL_LAID_ALIGN];
    journal_lay_head(g->laid.p + g->part_at, PART_TYPE, part_payload(g));
    strbuf_add(&g->laid, zeros, -g->laid.n % JOURNAL_LAID_ALIGN);
}

static void begin_part(struct group *g)
{
    char head[JOURNAL_LAID_HEAD + PART_HEAD] = {0};
    g->part_at = g->laid.n;
    put_le(head + JOURNAL_LAID_HEAD, g->number, 8);
    put_le(head + JOURNAL_LAID_HEAD + 8, g->parts, 4);
    head[JOURNAL_LAID_HEAD + PART_FLAGS] = (char)g->flags;
    strbuf_add(&g->laid, head, sizeof head);
    g->parts++;
}

/* -ENOMEM: the group is of no more use. */
static int group_add(struct group *g, const struct record *r)
{
    /* So much room that nothing below fails. */
    if (!strbuf_room(&g->laid, 2 * JOURNAL_LAID_ALIGN + JOURNAL_LAID_HEAD + PART_HEAD + ENTRY_HEAD + r->n))
        return -ENOMEM;
    if (g->parts == 0) {
        begin_part(g);
    } else if (part_payload(g) + ENTRY_HEAD + r->n > g->part_max) {
        end_part(g);
        begin_part(g);
    }
    strbuf_add_char(&g->laid, (char)(r->key.kind | (r->is_gone ? IS_DROPPED : 0)));
    strbuf_add_u64(&g->laid, r->key.id);
    if (!r->is_gone)
        strbuf_add_text(&g->laid, slice_of(r->bytes, r->n));
    return 0;
}

static int group_commit(struct group *g, struct journal *j)
{
    if (!strbuf_room(&g->laid, JOURNAL_LAID_HEAD + PART_HEAD + JOURNAL_LAID_ALIGN))
        return -ENOMEM;
    if (g->parts == 0)
        begin_part(g);
    g->laid.p[g->part_at + JOURNAL_LAID_HEAD + PART_FLAGS] = (char)(g->flags | IS_LAST);
    end_part(g);
    return journal_commit_laid(j, g->laid.p, g->laid.n);
}

/* ---------------------------------------------------------------- snapshots */

static bool is_snapshot_due(struct state *s)
{
    struct journal_stats stats;
    journal_stats(s->journal, &stats);
    if (s->pauses > 0) {
        s->pauses--;
        return false;
    }
    return s->is_worn || stats.bytes > s->slack + SLACK_FACTOR * s->live;
}

static int write_snapshot(struct state *s)
{
    struct group g = {.part_max = SNAPSHOT_PART, .flags = IS_SNAPSHOT, .number = s->last + 1};
    struct record **list;
    size_t n;
    int r = list_records(s, &list, &n);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = group_add(&g, list[i]);
    mem_free(list);
    if (r == 0)
        r = group_commit(&g, s->journal);
    strbuf_fini(&g.laid);
    return r;
}

/* Nothing is lost when it fails: it is tried again after some commits. */
static void compact(struct state *s)
{
    struct journal_stats before;
    journal_stats(s->journal, &before);
    journal_cut(s->journal);
    if (write_snapshot(s) < 0) {
        s->pauses = TRY_AGAIN;
        return;
    }
    s->last++;
    s->is_worn = false;
    if (journal_cursor_move(s->snapshot, before.last) == 0)
        (void)journal_trim(s->journal); /* what can't be deleted now goes the next time */
}

/* ---------------------------------------------------------------- reading */

struct reading {
    struct state *state;
    struct strbuf parts; /* entries of the group under way, as far as it was read */
    uint64_t number;     /* of it; 0 = none */
    uint64_t segment;    /* of the journal that has it: all of it */
    uint32_t next_part;  /* behind the last that was read */
    uint8_t flags;
    bool has_end;     /* the last part was read */
    uint64_t missing; /* its parts that were not */
    uint64_t gap;     /* records of the journal that are lost since the last part */
    bool has_base;    /* everything was read from the first group, or from a snapshot, on */
    uint64_t damaged;
};

static int apply_entry(struct state *s, struct cursor *c)
{
    unsigned kind = cursor_u8(c);
    const bool is_dropped = kind & IS_DROPPED;
    uint64_t id = cursor_u64(c);
    kind &= ~(unsigned)IS_DROPPED;
    struct slice record = is_dropped ? slice_of("", 0) : cursor_text(c);
    if (c->bad || kind < STATE_FAULT || kind > STATE_COUNTER)
        return E_PROTO;
    struct record *r = NULL;
    if (!is_dropped)
        return remember(s, kind, id, record, &r);
    r = find(s, kind, id);
    if (r)
        forget(s, r);
    return 0;
}

static bool is_whole(const struct reading *r)
{
    return r->has_end && r->missing == 0;
}

static int apply(struct reading *r)
{
    struct cursor c = cursor_of(strbuf_slice(&r->parts));
    if ((r->flags & IS_SNAPSHOT) && is_whole(r)) {
        forget_all(r->state);
        r->damaged = 0;
    }
    r->has_base |= r->flags & IS_SNAPSHOT;
    r->damaged += r->missing;
    while (cursor_left(&c)) {
        int code = apply_entry(r->state, &c);
        if (code == E_PROTO) {
            r->damaged++; /* the checksum holds and the bytes make no sense: the rest of it neither */
            break;
        }
        if (code < 0)
            return code;
    }
    r->state->last = r->number;
    return 0;
}

/* The group under way is over; next is the number of the one that follows, 0 = none. */
static int end_group(struct reading *r, uint64_t next)
{
    int code = 0;
    const bool is_snapshot = r->flags & IS_SNAPSHOT;
    if (r->number == 0)
        return 0;
    if (r->number == 1)
        r->has_base = true;
    if (is_whole(r) || (is_snapshot ? !r->has_base : next > r->number)) {
        code = apply(r);
    } else if (is_snapshot) {
        r->state->last = r->number; /* as if it had counted: the next has another number, whatever follows */
    } else if (next == 0 && r->missing) {
        r->damaged += r->missing; /* cut by a crash, or damaged: nothing tells */
    }
    r->number = 0;
    r->missing = 0;
    strbuf_reset(&r->parts);
    return code;
}

/* Takes up to n of what was lost. */
static uint64_t take_gap(struct reading *r, uint64_t n)
{
    if (n > r->gap)
        n = r->gap;
    r->gap -= n;
    return n;
}

static int take_part(struct reading *r, const struct journal_item *item)
{
    struct cursor c = cursor_of(item->payload);
    const uint64_t number = cursor_u64(&c);
    const uint32_t part = cursor_u32(&c);
    const uint8_t flags = cursor_u8(&c);
    if (c.bad || number == 0) {
        r->damaged++;
        return 0;
    }
    if (number != r->number || item->segment != r->segment) {
        if (r->number && !r->has_end)
            r->missing += take_gap(r, r->gap > part ? r->gap - part : 0);
        int code = end_group(r, number);
        if (code < 0)
            return code;
        r->number = number;
        r->segment = item->segment;
        r->next_part = 0;
        r->has_end = false;
    }
    if (part < r->next_part || r->has_end) {
        r->damaged++; /* no group of ours is like that */
        return 0;
    }
    r->missing += part - r->next_part;
    (void)take_gap(r, part - r->next_part); /* the same, as the journal sees it */
    r->damaged += take_gap(r, r->gap);
    r->next_part = part + 1;
    r->flags = flags;
    r->has_end = flags & IS_LAST;
    strbuf_add(&r->parts, c.p, cursor_left(&c));
    return strbuf_failed(&r->parts) ? -ENOMEM : 0;
}

static int read_items(struct reading *r, struct journal_reader *reader)
{
    struct journal_item item;
    int code;
    while ((code = journal_reader_next(reader, &item)) == 0) {
        if (item.kind == JOURNAL_GAP)
            r->gap += item.last - item.first + 1;
        else if (item.type != PART_TYPE)
            return E_VERSION;
        else if ((code = take_part(r, &item)) < 0)
            return code;
    }
    if (code != E_NODATA)
        return code;
    const bool has_groups = r->number || r->state->last;
    if (r->number && !r->has_end)
        r->missing += take_gap(r, r->gap);
    code = end_group(r, 0);
    r->damaged += r->gap;
    if (has_groups && !r->has_base)
        r->damaged++; /* the beginning is gone: how much that was nothing tells */
    return code;
}

static int read_all(struct state *s, uint64_t *damaged)
{
    struct reading r = {.state = s};
    struct journal_reader *reader = NULL;
    struct journal_cursor_info info;
    journal_cursor_info(s->snapshot, &info);
    int code = journal_reader_open(s->journal, info.position + 1, &reader);
    if (code == 0)
        code = read_items(&r, reader);
    journal_reader_close(reader);
    strbuf_fini(&r.parts);
    s->is_worn = r.damaged > 0;
    *damaged = r.damaged;
    return code;
}

/* ---------------------------------------------------------------- the rest */

static int hand_out(const struct state *s,
                    void (*fn)(void *arg, enum state_kind kind, uint64_t id, struct slice record), void *arg)
{
    struct record **list;
    size_t n;
    int r = list_records(s, &list, &n);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        fn(arg, (enum state_kind)list[i]->key.kind, list[i]->key.id, slice_of(list[i]->bytes, list[i]->n));
    mem_free(list);
    return 0;
}

int state_open(const char *path, const struct journal_io *io,
               void (*fn)(void *arg, enum state_kind kind, uint64_t id, struct slice record), void *arg,
               uint64_t *damaged, struct state **out)
{
    /* Its size is kept small by snapshots; nothing may be forced out before that. */
    const struct journal_options options = {.flags = JOURNAL_REFUSE, .io = io};
    uint64_t lost = 0;
    struct state *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->part_max = JOURNAL_RECORD_MAX;
    s->slack = SLACK;
    int r = journal_open(path, &options, &s->journal);
    if (r == 0)
        r = journal_cursor_open(s->journal, "snapshot", &s->snapshot);
    if (r == 0)
        r = read_all(s, &lost);
    if (r == 0)
        r = hand_out(s, fn, arg);
    if (r < 0) {
        state_close(s);
        return r;
    }
    if (damaged)
        *damaged = lost;
    *out = s;
    return 0;
}

void state_close(struct state *s)
{
    if (!s)
        return;
    journal_close(s->journal);
    forget_all(s);
    mem_free(s);
}

int state_put(struct state *s, enum state_kind kind, uint64_t id, struct slice record)
{
    if (record.n > RECORD_MAX)
        return E_LIMIT;
    struct record *r = find(s, kind, id);
    if (r && !r->is_gone && slice_eq(slice_of(r->bytes, r->n), record))
        return 0; /* it is as it was */
    int code = remember(s, kind, id, record, &r);
    if (code == 0)
        mark_dirty(s, r);
    return code;
}

int state_drop(struct state *s, enum state_kind kind, uint64_t id)
{
    struct record *r = find(s, kind, id);
    if (!r || r->is_gone)
        return 0;
    mark_gone(s, r);
    mark_dirty(s, r);
    return 0;
}

/* What is dirty is written. */
static void clean(struct state *s)
{
    struct record *r;
    while ((r = s->dirty)) {
        s->dirty = r->next_dirty;
        r->is_dirty = false;
        if (r->is_gone)
            forget(s, r);
    }
}

int state_commit(struct state *s)
{
    struct group g = {.part_max = s->part_max, .number = s->last + 1};
    int code = 0;
    if (!state_is_dirty(s))
        return 0;
    for (const struct record *r = s->dirty; code == 0 && r; r = r->next_dirty)
        code = group_add(&g, r);
    if (code == 0)
        code = group_commit(&g, s->journal);
    strbuf_fini(&g.laid);
    if (code < 0)
        return code;
    s->last++;
    clean(s);
    if (is_snapshot_due(s))
        compact(s);
    return 0;
}

bool state_is_dirty(const struct state *s)
{
    return s->dirty != NULL;
}

void state_sizes(struct state *s, uint64_t slack, size_t part_max)
{
    assert(part_max > 0 && part_max <= JOURNAL_RECORD_MAX);
    s->slack = slack;
    s->part_max = part_max;
}

void state_stats(const struct state *s, struct state_stats *out)
{
    struct journal_stats j;
    journal_stats(s->journal, &j);
    *out = (struct state_stats){.records = s->records.n - s->n_gone, .bytes = j.bytes, .live_bytes = s->live};
}
