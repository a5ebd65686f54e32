/* SPDX-License-Identifier: Apache-2.0 */
/* The file is a journal (src/journal) whose segments stand alone: each begins with all that is needed to read
 * its packets. So whole segments give way at the size limit, and nothing behind them is unreadable.
 *
 *   record of a round   u8 1 = first of its segment, then producer and u64 epoch; 2 = another one;
 *                       u64 number of its first row; u32 rows; u64 given, passed, forced, otherwise dropped
 *                       of the run so far, this record included;
 *                       frames (docs/protocol.md): SCHEMA, STREAM, SAMPLES, as a gateway would get them
 *
 * The cursor "sent" is before the oldest segment of which something is not acknowledged. After a crash that
 * segment is sent again from its beginning, and the gateway leaves out what it has: numbers of rows are those
 * in the file. Within a run of the agent a segment that is read again begins behind what was acknowledged.
 *
 * Rejected: blocks of events in the file. Each block repeats its schemas, which a round of sixteen sensors
 * turns into 26 kB; rolling packets take under 1.5 kB. */
#include "agent/ring.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "event/block.h"
#include "event/samples.h"
#include "journal/journal.h"

#include <errno.h>

enum {
    RECORD_TYPE = 1,
    RECORD_FIRST = 1,
    RECORD_NEXT = 2,
    SEGMENT_MIN = 256 << 10,
    SEGMENT_SHARE = 32,     /* of the ring, when that is more */
    SEGMENTS_MAX = 1024,    /* each time the gateway goes begins one, however small */
    RUNS_MAX = 8,           /* that are counted, with this one */
    RECORD_MAX = 512 << 10, /* a round with more is several records */
    BLOCK_ROWS = 1000,      /* in a block, about; and packets of so many bytes */
    BLOCK_BYTES = 16 << 10,
    EVERY_MS = 200 /* between two blocks */
};

/* A run of an agent that wrote rows. */
struct run {
    struct frame_origin origin;
    struct uplink_counts counts;
    uint64_t told;        /* given + passed + dropped when COUNTS were last made */
    bool is_own, is_over; /* is_over: the final COUNTS were made */
};

struct segment {
    uint64_t first;  /* its first record, by which the journal names it */
    uint64_t rows;   /* not done with */
    uint64_t acked;  /* rows up to this number are done with */
    struct run *run; /* NULL: not counted */
};

/* What sending needs; made when there is something to send. */
struct draining {
    struct registry *registry;
    struct samples_scratch *scratch;
    struct samples_reader *samples; /* of the segment at hand */
    struct batch_builder *builder;
    struct block_writer *writer;
    struct journal_reader *reader;
    struct journal_item item; /* read, and not used yet */
    bool has_item;
    struct frame_origin origin; /* of the segment at hand */
    uint64_t segment;           /* 0 = none yet */
    bool is_broken;             /* the rest of it can't be read */
    struct strbuf block;
};

struct ring {
    struct journal *journal;
    struct journal_cursor *sent;
    const char *host;
    uint64_t segment_bytes;
    struct run runs[RUNS_MAX]; /* the last is this one */
    size_t n_runs;
    struct segment *segments; /* oldest first, with rows or being written */
    size_t n_segments, cap_segments;

    /* Writing: */
    struct samples_writer *writer; /* NULL: the next record begins a segment */
    uint32_t generation;           /* counts writers: streams are announced anew */
    bool is_first;                 /* the record being made is the first of a segment */
    struct strbuf frames, record, schema, stream;
    uint32_t rows;    /* in frames */
    uint64_t seq;     /* the last number given to a row of this run */
    uint64_t written; /* bytes of this segment */
    int failed;       /* the last flush */

    /* Sending: */
    struct draining *d;
    struct {
        struct frame_origin origin;
        uint64_t segment, last; /* 0: nothing is on the way */
        uint64_t rows;
        bool is_end;  /* nothing of its segment is behind it */
        bool is_gone; /* its segment gave way meanwhile */
    } flight;
    int64_t next_ns;
};

static struct run *own(struct ring *r)
{
    return &r->runs[r->n_runs - 1];
}

static uint64_t sum_dropped(const struct uplink_counts *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < DROP_REASONS; i++)
        n += c->dropped[i];
    return n;
}

static void drop(struct run *k, enum drop_reason reason, uint64_t rows)
{
    if (!k)
        return;
    k->counts.queued -= rows;
    k->counts.dropped[reason] += rows;
}

/* ---------------------------------------------------------------- segments */

static struct segment *segment_of(struct ring *r, uint64_t first)
{
    for (size_t i = 0; i < r->n_segments; i++)
        if (r->segments[i].first == first)
            return &r->segments[i];
    return NULL;
}

static void remove_segment(struct ring *r, struct segment *s)
{
    size_t at = (size_t)(s - r->segments);
    r->n_segments--;
    memmove(s, s + 1, (r->n_segments - at) * sizeof *s);
}

/* The oldest one's rows are gone. Those on the way may still arrive. */
static void lose_oldest(struct ring *r)
{
    struct segment *s = r->segments;
    uint64_t flying = r->flight.last && r->flight.segment == s->first ? r->flight.rows : 0;
    r->flight.is_gone |= flying > 0;
    drop(s->run, DROP_FORCED, s->rows - flying);
    remove_segment(r, s);
}

/* Room for one more, so that entering it can't fail. */
static int reserve_segment(struct ring *r)
{
    if (r->n_segments == SEGMENTS_MAX)
        lose_oldest(r);
    if (r->n_segments < r->cap_segments)
        return 0;
    size_t cap = r->cap_segments ? 2 * r->cap_segments : 8;
    struct segment *segments = mem_try_resize(r->segments, cap * sizeof *segments);
    if (!segments)
        return -ENOMEM;
    r->segments = segments;
    r->cap_segments = cap;
    return 0;
}

static void lose_forced(struct ring *r)
{
    struct journal_stats now;
    journal_stats(r->journal, &now);
    while (r->n_segments && r->segments[0].first < now.first)
        lose_oldest(r);
}

/* All of it has been read, and what could be read is acknowledged. */
static void finish_segment(struct ring *r, struct segment *s)
{
    struct journal_stats now;
    journal_stats(r->journal, &now);
    drop(s->run, DROP_UNWRITABLE, s->rows); /* damaged on the disk */
    remove_segment(r, s);
    uint64_t done = r->n_segments ? r->segments[0].first - 1 : now.last;
    (void)journal_cursor_move(r->sent, done); /* else it is sent again after a restart, and seen */
    (void)journal_trim(r->journal);           /* tried again with the next one */
}

/* ---------------------------------------------------------------- opening */

struct head {
    uint8_t kind;
    struct frame_origin origin;
    uint64_t first, given, passed, forced, dropped;
    uint32_t rows;
    struct slice frames;
};

static int get_head(struct slice payload, struct head *out)
{
    struct cursor c = cursor_of(payload);
    out->kind = cursor_u8(&c);
    if (out->kind == RECORD_FIRST)
        out->origin = frame_get_origin(&c);
    out->first = cursor_u64(&c);
    out->rows = cursor_u32(&c);
    out->given = cursor_u64(&c);
    out->passed = cursor_u64(&c);
    out->forced = cursor_u64(&c);
    out->dropped = cursor_u64(&c);
    if (c.bad || (out->kind != RECORD_FIRST && out->kind != RECORD_NEXT) || out->first == 0)
        return E_PROTO;
    out->frames = slice_from(payload, payload.n - cursor_left(&c));
    return 0;
}

static struct run *enter_run(struct ring *r, const struct head *h)
{
    for (size_t i = 0; i < r->n_runs; i++)
        if (frame_same_origin(&r->runs[i].origin, &h->origin))
            return &r->runs[i];
    if (r->n_runs == RUNS_MAX - 1)
        return NULL;
    struct run *k = &r->runs[r->n_runs++];
    *k = (struct run){.origin = h->origin};
    return k;
}

/* Counts what earlier runs left. A run's last record has its counts; since then rows were acknowledged, or
 * (if records behind the cursor are gone) gave way: whatever is in none of the other counts. */
static int scan(struct ring *r)
{
    struct journal_cursor_info at;
    struct journal_reader *reader = NULL;
    struct journal_item item;
    struct head h = {0};
    struct run *k = NULL;
    journal_cursor_info(r->sent, &at);
    int result = journal_reader_open(r->journal, at.position + 1, &reader);
    while (result == 0 && (result = journal_reader_next(reader, &item)) == 0) {
        if (item.kind != JOURNAL_RECORD || get_head(item.payload, &h) < 0)
            continue;
        struct segment *s = r->n_segments ? &r->segments[r->n_segments - 1] : NULL;
        if (!s || s->first != item.segment) {
            result = reserve_segment(r);
            if (result < 0)
                break;
            s = &r->segments[r->n_segments++];
            k = h.kind == RECORD_FIRST ? enter_run(r, &h) : NULL;
            *s = (struct segment){.first = item.segment, .acked = h.first - 1, .run = k};
        }
        s->rows += h.rows;
        if (k) {
            k->counts.given = h.given;
            k->counts.queued += h.rows;
            k->counts.passed = h.passed;
            k->counts.dropped[DROP_FORCED] = h.forced;
            k->counts.dropped[DROP_UNWRITABLE] = h.dropped;
        }
    }
    for (size_t i = 0; i < r->n_runs; i++) {
        struct uplink_counts *c = &r->runs[i].counts;
        uint64_t known = c->queued + c->passed + sum_dropped(c);
        bool has_lost = i == 0 && at.lost_first;
        *(has_lost ? &c->dropped[DROP_FORCED] : &c->passed) += c->given > known ? c->given - known : 0;
        c->given = c->queued + c->passed + sum_dropped(c);
    }
    journal_reader_close(reader);
    return result == E_NODATA ? 0 : result;
}

int ring_open(const char *dir, uint64_t max_bytes, const struct frame_origin *origin, const char *host,
              struct ring **out)
{
    struct ring *r = mem_alloc(sizeof *r);
    *r = (struct ring){.host = host, .segment_bytes = max_bytes / SEGMENT_SHARE};
    if (r->segment_bytes < SEGMENT_MIN)
        r->segment_bytes = SEGMENT_MIN;
    const struct journal_options o = {.flags = JOURNAL_NOSYNC | JOURNAL_OWN_SEGMENTS,
                                      .max_bytes = max_bytes,
                                      .queue_bytes = 2 * RECORD_MAX};
    int result = journal_open(dir, &o, &r->journal);
    if (result == 0)
        result = journal_cursor_open(r->journal, "sent", &r->sent);
    if (result == 0)
        result = scan(r);
    if (result < 0) {
        ring_close(r);
        return result;
    }
    r->runs[r->n_runs++] = (struct run){.origin = *origin, .is_own = true};
    *out = r;
    return 0;
}

static void stop_draining(struct ring *r)
{
    struct draining *d = r->d;
    if (!d)
        return;
    journal_reader_close(d->reader);
    samples_reader_destroy(d->samples);
    batch_builder_destroy(d->builder);
    block_writer_destroy(d->writer);
    samples_scratch_destroy(d->scratch);
    registry_destroy(d->registry);
    strbuf_fini(&d->block);
    mem_free(d);
    r->d = NULL;
}

void ring_close(struct ring *r)
{
    if (!r)
        return;
    ring_rest(r);
    stop_draining(r);
    journal_close(r->journal);
    mem_free(r->segments);
    mem_free(r);
}

/* ---------------------------------------------------------------- writing */

/* Rows that are not in the file yet. */
static uint64_t unwritten(const struct ring *r)
{
    return r->rows + (r->writer ? samples_writer_rows(r->writer) : 0);
}

/* The next record begins a segment. */
void ring_rest(struct ring *r)
{
    if (unwritten(r)) /* none, but after an error */
        drop(own(r), DROP_UNWRITABLE, unwritten(r));
    samples_writer_destroy(r->writer);
    r->writer = NULL;
    r->rows = 0;
    strbuf_fini(&r->frames);
    strbuf_fini(&r->record);
    strbuf_fini(&r->schema);
    strbuf_fini(&r->stream);
}

static int begin_segment(struct ring *r)
{
    r->writer = samples_writer_create(SAMPLES_ROLL);
    if (!r->writer)
        return -ENOMEM;
    r->generation++;
    r->is_first = true;
    r->written = 0;
    journal_cut(r->journal);
    return 0;
}

static int announce(struct ring *r, struct stream *s, const struct value *values)
{
    if (s->ring_generation == r->generation)
        return 0;
    strbuf_reset(&r->schema);
    strbuf_reset(&r->stream);
    int result = samples_writer_announce(r->writer, s->schema, SLICE_LIT("gridline-agent"), values,
                                         &r->schema, &r->stream, &s->ring);
    if (result < 0)
        return result;
    if (r->schema.n)
        frame_put(&r->frames, FRAME_SCHEMA, 0, strbuf_slice(&r->schema));
    frame_put(&r->frames, FRAME_STREAM, 0, strbuf_slice(&r->stream));
    s->ring_generation = r->generation;
    return 0;
}

static int finish_packet(struct ring *r, const struct batch_clock *clock)
{
    uint32_t rows = (uint32_t)samples_writer_rows(r->writer);
    if (rows == 0)
        return 0;
    strbuf_reset(&r->record);
    int result = samples_writer_finish(r->writer, r->seq + r->rows + 1, clock, &r->record);
    if (result < 0)
        return result;
    frame_put(&r->frames, FRAME_SAMPLES, 0, strbuf_slice(&r->record));
    r->rows += rows;
    return 0;
}

/* -EAGAIN: the packet before it could not be finished. */
static int add_row(struct ring *r, struct stream *s, int64_t time_ns, const struct value *values,
                   const struct batch_clock *clock)
{
    int result = r->writer ? 0 : begin_segment(r);
    if (result == 0)
        result = announce(r, s, values);
    if (result < 0)
        return result == E_LIMIT ? -ENOBUFS : result;
    result = samples_writer_add(r->writer, s->ring, time_ns, values);
    if (result != E_LIMIT || samples_writer_rows(r->writer) == 0)
        return result;
    result = finish_packet(r, clock);
    return result < 0 ? result : samples_writer_add(r->writer, s->ring, time_ns, values);
}

void ring_sample(struct ring *r, struct stream *s, int64_t time_ns, const struct value *values,
                 const struct batch_clock *clock)
{
    if (r->frames.n >= RECORD_MAX)
        (void)ring_flush(r, clock); /* counted there */
    int result = add_row(r, s, time_ns, values, clock);
    struct uplink_counts *c = &own(r)->counts;
    c->given++;
    if (result == 0)
        c->queued++;
    else
        c->dropped[result == -ENOBUFS ? DROP_STREAMS : result == -ENOMEM ? DROP_MEMORY : DROP_TOO_LARGE]++;
}

static int write_record(struct ring *r)
{
    struct run *k = own(r);
    strbuf_reset(&r->record);
    strbuf_add_char(&r->record, r->is_first ? RECORD_FIRST : RECORD_NEXT);
    if (r->is_first)
        frame_put_origin(&r->record, &k->origin);
    strbuf_add_u64(&r->record, r->seq + 1);
    strbuf_add_u32(&r->record, r->rows);
    strbuf_add_u64(&r->record, k->counts.given);
    strbuf_add_u64(&r->record, k->counts.passed);
    strbuf_add_u64(&r->record, k->counts.dropped[DROP_FORCED]);
    strbuf_add_u64(&r->record, sum_dropped(&k->counts) - k->counts.dropped[DROP_FORCED]);
    strbuf_add_slice(&r->record, strbuf_slice(&r->frames));
    if (strbuf_failed(&r->record) || strbuf_failed(&r->frames))
        return -ENOMEM;
    int result = reserve_segment(r);
    if (result == 0)
        result = journal_append(r->journal, RECORD_TYPE, strbuf_slice(&r->record), NULL);
    if (result == 0)
        result = journal_commit(r->journal);
    if (result < 0)
        (void)journal_drop(r->journal); /* they are counted as dropped */
    return result;
}

/* The record is in the file. */
static void enter_record(struct ring *r)
{
    struct journal_stats now;
    journal_stats(r->journal, &now);
    if (r->is_first)
        r->segments[r->n_segments++] = (struct segment){.first = now.newest, .acked = r->seq, .run = own(r)};
    r->segments[r->n_segments - 1].rows += r->rows;
    r->seq += r->rows;
    r->written += r->record.n;
    r->is_first = false;
    r->rows = 0;
    strbuf_reset(&r->frames);
    lose_forced(r);
    if (r->written >= r->segment_bytes)
        ring_rest(r);
}

int ring_flush(struct ring *r, const struct batch_clock *clock)
{
    if (!r->writer)
        return 0;
    int result = finish_packet(r, clock);
    if (result == 0 && r->rows == 0)
        return 0;
    if (result == 0)
        result = write_record(r);
    if (result == 0) {
        enter_record(r);
    } else {
        ring_rest(r); /* drops the rows; what the file lacks is announced anew */
    }
    bool is_news = result < 0 && r->failed == 0;
    r->failed = result;
    return is_news ? result : 0;
}

/* ---------------------------------------------------------------- sending */

bool ring_is_empty(const struct ring *r)
{
    return r->n_segments == 0;
}

static int start_draining(struct ring *r)
{
    struct draining *d = r->d = mem_alloc(sizeof *d);
    *d = (struct draining){.registry = registry_create(), .scratch = samples_scratch_create()};
    d->builder = d->registry ? batch_builder_create(d->registry, 0) : NULL;
    d->writer = block_writer_create();
    if (!d->builder || !d->writer || !d->scratch ||
        journal_reader_open(r->journal, r->segments[0].first, &d->reader) < 0) {
        stop_draining(r);
        return -ENOMEM;
    }
    return 0;
}

/* Reads the next item unless there is one. 1; 0: the end. */
static int look_ahead(struct draining *d)
{
    if (d->has_item)
        return 1;
    int result = journal_reader_next(d->reader, &d->item);
    d->has_item = result == 0;
    return result == E_NODATA ? 0 : result < 0 ? result : 1;
}

/* The frames of a record; its rows go to the builder. */
static int read_frames(struct ring *r, struct draining *d, struct slice frames, struct batch_origin *origin)
{
    struct diag why;
    struct frame f;
    int64_t n;
    uint32_t unknown;
    int result = 0;
    while (result == 0 && (n = frame_read(frames, FRAME_PAYLOAD_MAX, &f)) > 0) {
        if (f.type == FRAME_SCHEMA)
            result = samples_reader_schema(d->samples, f.payload, &why);
        else if (f.type == FRAME_STREAM)
            result = samples_reader_stream(d->samples, f.payload, &why);
        else if (f.type == FRAME_SAMPLES)
            result = samples_reader_add(d->samples, f.payload, slice_str(r->host), d->builder, origin,
                                        &unknown, &why);
        frames = slice_from(frames, (size_t)n);
    }
    return result;
}

/* The record at hand is the first of another segment. */
static void enter_segment(struct draining *d)
{
    struct head h;
    samples_reader_destroy(d->samples);
    d->samples = samples_reader_create(d->registry, d->scratch);
    d->segment = d->item.segment;
    d->is_broken = !d->samples || get_head(d->item.payload, &h) < 0 || h.kind != RECORD_FIRST;
    if (!d->is_broken)
        d->origin = h.origin;
}

/* A block has one clock: its bound covers those of all its rows. */
static void widen(struct batch_clock *to, const struct batch_clock *from)
{
    int64_t apart =
        from->offset_ns > to->offset_ns ? from->offset_ns - to->offset_ns : to->offset_ns - from->offset_ns;
    uint64_t bound;
    if (__builtin_add_overflow(from->bound_ns, (uint64_t)apart, &bound) || from->generation != to->generation)
        bound = CLOCK_BOUND_UNKNOWN;
    to->bound_ns = bound > to->bound_ns ? bound : to->bound_ns;
}

/* Collects rows of one segment that are not acknowledged; *head is of the first. 1: the segment goes on; 0:
 * that was all of it. */
static int collect(struct ring *r, struct segment *s, struct batch_origin *head)
{
    struct draining *d = r->d;
    size_t bytes = 0;
    int result;
    while ((result = look_ahead(d)) > 0) {
        struct head h;
        if (d->item.kind == JOURNAL_RECORD && d->item.segment != s->first && d->item.first > s->first)
            return 0;
        struct journal_item item = d->item;
        if (item.kind != JOURNAL_RECORD || item.segment != s->first) {
            d->has_item = false; /* damage, or one that gave way */
            continue;
        }
        if (d->segment != s->first)
            enter_segment(d);
        if (d->is_broken || get_head(item.payload, &h) < 0) {
            d->is_broken = true;
            d->has_item = false;
            continue;
        }
        size_t before = batch_builder_count(d->builder);
        struct batch_origin o = {.epoch = d->origin.epoch};
        memcpy(o.producer, d->origin.producer, sizeof o.producer);
        d->has_item = false;
        d->is_broken = read_frames(r, d, h.frames, &o) < 0;
        if (d->is_broken || h.first + h.rows - 1 <= s->acked) {
            batch_builder_cut(d->builder, before);
            continue;
        }
        if (before == 0) {
            *head = o;
            head->first_seq = h.first;
        } else {
            widen(&head->clock, &o.clock);
        }
        bytes += h.frames.n;
        if (batch_builder_count(d->builder) >= BLOCK_ROWS || bytes >= BLOCK_BYTES)
            break;
    }
    if (result <= 0)
        return result == 0 ? 0 : 1;
    return look_ahead(d) == 0
               ? 0
               : !(d->has_item && d->item.kind == JOURNAL_RECORD && d->item.segment != s->first);
}

/* The rows in the builder, behind those that are acknowledged, as a block on the way. A block that is full is
 * sent as it is, and the rest read again. */
static int make_block(struct ring *r, struct segment *s, struct batch_origin *head, bool is_end)
{
    struct draining *d = r->d;
    const struct event *events = batch_builder_events(d->builder);
    size_t n = batch_builder_count(d->builder), from = 0, to;
    if (head->first_seq <= s->acked)
        from = (size_t)(s->acked - head->first_seq + 1);
    int result = 0;
    for (to = from; to < n && result == 0; to += result == 0)
        result = block_writer_add(d->writer, &events[to]);
    if (to == from) {
        block_writer_reset(d->writer);
        return result < 0 ? result : E_NODATA;
    }
    head->first_seq += from;
    strbuf_reset(&d->block);
    result = block_writer_finish(d->writer, head, &d->block);
    if (result < 0)
        return result;
    r->flight.origin = d->origin;
    r->flight.segment = s->first;
    r->flight.rows = to - from;
    r->flight.last = head->first_seq + (to - from) - 1;
    r->flight.is_end = is_end && to == n;
    r->flight.is_gone = false;
    if (to < n)
        d->is_broken = true; /* read again from the beginning, behind what is acknowledged: see ring_done */
    return 0;
}

int ring_next(struct ring *r, int64_t now_ns, struct slice *block, int64_t *next_ns)
{
    *next_ns = INT64_MAX;
    if (r->flight.last || r->n_segments == 0)
        return 0;
    *next_ns = r->next_ns;
    if (now_ns < r->next_ns)
        return 0;
    r->next_ns = *next_ns = now_ns + EVERY_MS * INT64_C(1000000);
    if (!r->d && start_draining(r) < 0)
        return 0;
    struct segment *s = &r->segments[0];
    struct batch_origin head = {0};
    bool is_written = r->writer && s == &r->segments[r->n_segments - 1] && !r->is_first;
    bool is_end = collect(r, s, &head) == 0;
    if (is_end && is_written && unwritten(r) == 0)
        ring_rest(r); /* what comes is of the next segment: this one will be done with */
    else if (is_end && is_written)
        is_end = false;
    int result = make_block(r, s, &head, is_end);
    batch_builder_cut(r->d->builder, 0);
    if (result == 0) {
        *next_ns = INT64_MAX;
        *block = strbuf_slice(&r->d->block);
        return 1;
    }
    if (result == E_NODATA && is_end)
        finish_segment(r, s);
    if (result != E_NODATA || r->n_segments == 0)
        stop_draining(r);
    return 0;
}

void ring_done(struct ring *r, const struct frame_origin *origin, uint64_t seq, bool is_refused)
{
    if (!r->flight.last || seq < r->flight.last || !frame_same_origin(origin, &r->flight.origin))
        return;
    struct segment *s = segment_of(r, r->flight.segment);
    struct run *k = NULL;
    for (size_t i = 0; i < r->n_runs && !k; i++)
        k = frame_same_origin(&r->runs[i].origin, origin) ? &r->runs[i] : NULL;
    if (k) {
        k->counts.queued -= r->flight.rows;
        *(is_refused ? &k->counts.dropped[DROP_REFUSED] : &k->counts.passed) += r->flight.rows;
    }
    if (s) {
        s->acked = r->flight.last;
        s->rows -= r->flight.rows;
    }
    bool is_end = r->flight.is_end;
    r->flight.last = 0;
    if (s && is_end)
        finish_segment(r, s);
    if (r->n_segments == 0 || (!is_end && r->d && r->d->is_broken))
        stop_draining(r); /* or a block was full: read again */
}

void ring_down(struct ring *r)
{
    if (r->flight.last && r->flight.is_gone) {
        for (size_t i = 0; i < r->n_runs; i++)
            if (frame_same_origin(&r->runs[i].origin, &r->flight.origin))
                drop(&r->runs[i], DROP_FORCED, r->flight.rows);
    }
    r->flight.last = 0;
    stop_draining(r);
}

/* ---------------------------------------------------------------- counts */

bool ring_tell(struct ring *r, bool is_final, struct frame_counts *out)
{
    for (size_t i = 0; i < r->n_runs; i++) {
        struct run *k = &r->runs[i];
        const struct uplink_counts *c = &k->counts;
        uint64_t state = c->given + c->passed + sum_dropped(c);
        bool is_over = (!k->is_own || is_final) && c->queued == 0 && c->given;
        if (k->is_over || (state == k->told && !is_over))
            continue;
        *out = (struct frame_counts){.origin = k->origin,
                                     .class = CLASS_EVENTS,
                                     .is_final = is_over,
                                     .taken = c->given,
                                     .passed = c->passed,
                                     .queued = c->queued};
        for (size_t n = 0; n < DROP_REASONS; n++)
            out->dropped[n] = c->dropped[n];
        k->told = state;
        k->is_over = is_over;
        return true;
    }
    return false;
}

void ring_counts(const struct ring *r, struct uplink_counts *out)
{
    *out = r->runs[r->n_runs - 1].counts;
}
