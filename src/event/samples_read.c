/* SPDX-License-Identifier: Apache-2.0 */
/* A packet is read in one pass that moves the baselines as it goes, for a later row of the same stream is a
 * difference to the earlier one. What each was before is in a log; an error plays the log back, so a packet
 * counts whole or not at all. Rejected: reading twice (the second row of a stream can't be checked without
 * the values of the first), and working on copies of the streams (a row of one change would copy all of its
 * fields).
 *
 * Where no events are wanted (samples_reader_scan) the same walk is made without them. Rows without ROLL of
 * streams that hold only numbers need not even their baseline then: nothing that such a row says can make it
 * wrong. That is what datagrams of sensors are, and a gateway reads millions of them.
 *
 * Everything a peer says is checked here or in the builder. Bounds: the log by the packet's bytes (each
 * change takes at least one); the batch by SAMPLES_UNFOLD_MAX; what is kept by samples_reader.c. */
#include "event/samples_reader.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>

enum { LOG_KEPT = 1024 }; /* entries that stay allocated between packets */

/* A packet while it is being read. */
struct reading {
    struct samples_reader *r;
    struct cursor c;
    struct batch_builder *out; /* NULL: no events are wanted */
    struct slice host;
    struct diag *why;
    uint8_t flags;
    uint64_t first_seq, n_rows;
    int64_t time_ns; /* of the last row */
    int64_t stream;  /* its number */
    struct batch_clock clock;
    size_t unfolded;
};

/* The rest is set by read_head; clearing it all would cost as much as reading the head. */
static void start_reading(struct reading *p, struct samples_reader *r, struct slice payload, struct diag *why)
{
    p->r = r;
    p->c = cursor_of(payload);
    p->out = NULL;
    p->why = why;
    p->stream = 0;
    p->unfolded = 0;
}

static int read_clock(struct reading *p)
{
    p->clock = p->flags & PACKET_ROLL ? p->r->context.clock : samples_no_clock;
    if (!(p->flags & PACKET_CLOCK))
        return 0;
    p->clock.offset_ns = unzigzag(cursor_varint(&p->c));
    p->clock.bound_ns = cursor_varint(&p->c) - 1;
    uint64_t generation = cursor_varint(&p->c);
    p->clock.generation = (uint32_t)generation;
    return generation > UINT32_MAX ? samples_refuse(p->why, "a clock generation out of range") : 0;
}

/* With ROLL a packet makes sense only behind the one that was sent before it. */
static int check_flags(const struct reading *p)
{
    unsigned number = p->flags >> PACKET_NUMBER_SHIFT;
    unsigned expected = p->flags & PACKET_ROLL ? p->r->context.number : 0;
    if (p->flags & 15 & ~PACKET_KNOWN)
        return samples_refuse(p->why, "a flag that is not known");
    return number == expected ? 0 : samples_refuse(p->why, "a packet is missing before this one");
}

static bool has_good_numbers(uint64_t first_seq, uint64_t n_rows)
{
    return n_rows && first_seq && first_seq <= UINT64_MAX - (n_rows - 1);
}

static int read_head(struct reading *p)
{
    p->flags = cursor_u8(&p->c);
    p->first_seq = cursor_varint(&p->c);
    p->time_ns = (int64_t)cursor_u64(&p->c);
    int rc = check_flags(p);
    if (rc == 0)
        rc = read_clock(p);
    if (rc < 0)
        return rc;
    p->n_rows = cursor_varint(&p->c);
    if (p->c.bad)
        return samples_refuse(p->why, "the head is cut short");
    if (p->n_rows > SAMPLES_ROWS_MAX)
        return diag_set(p->why, E_LIMIT, 0, "samples: more than %d rows", SAMPLES_ROWS_MAX);
    if (!has_good_numbers(p->first_seq, p->n_rows))
        return samples_refuse(p->why, "no rows, or a sequence number out of range");
    return 0;
}

/* The same as numbers, in order; returns how many. */
static int read_marks(struct cursor *c, uint32_t n, uint16_t *changed)
{
    unsigned char marks[EVENT_FIELDS_MAX / 8];
    int count = 0;
    if (samples_read_groups(c, n, marks) < 0)
        return E_PROTO;
    for (uint32_t g = 0; g * 8 < n; g++)
        for (unsigned bits = marks[g]; bits; bits &= bits - 1)
            changed[count++] = (uint16_t)(g * 8 + (unsigned)__builtin_ctz(bits));
    return count;
}

/* The place of the row's stream, or NULL with *rc: E_PROTO, or 0 when the reader does not know what the row
 * means.
 */
static struct samples_kept **read_row_head(struct reading *p, bool *is_changed, int *rc)
{
    uint64_t head = cursor_varint(&p->c);
    int64_t step = unzigzag(head >> ROW_SHIFT);
    uint8_t baseline = p->flags & PACKET_ROLL ? 0 : cursor_u8(&p->c);
    if (head & ROW_TIME)
        p->time_ns = (int64_t)((uint64_t)p->time_ns + (uint64_t)unzigzag(cursor_varint(&p->c)));
    p->stream += step > -INT32_MAX && step < INT32_MAX ? step : INT32_MAX;
    if (p->c.bad || p->stream < 1 || p->stream > SAMPLES_STREAMS_MAX) {
        *rc = samples_refuse(p->why, p->c.bad ? "a row is cut short" : "a stream's number out of range");
        return NULL;
    }
    *is_changed = head & ROW_CHANGED;
    *rc = 0;
    struct samples_kept **at = p->stream <= p->r->n_streams ? &p->r->streams[p->stream - 1] : NULL;
    if (at && !*at)
        at = NULL;
    if (p->flags & PACKET_ROLL) {
        if (!at)
            *rc = samples_refuse(p->why, "a stream that was not announced");
        return at;
    }
    bool is_as_announced =
        at && ((*at)->baseline & 0xff) == baseline && !((*at)->live && (*at)->live->is_rolled);
    return is_as_announced ? at : NULL;
}

/* Makes borrowed text owned, so that the baseline can keep it. */
static int own_text(struct samples_base *b)
{
    char *copy = b->n ? mem_try_alloc(b->n) : NULL;
    if (b->n && !copy)
        return -ENOMEM;
    if (copy)
        memcpy(copy, b->text, b->n);
    b->text = copy;
    b->cap = b->n;
    return 0;
}

/* A changed value becomes the baseline; what was there goes to the log. */
static int roll(struct reading *p, struct samples_stream *s, uint32_t field, struct samples_base *b)
{
    struct samples_reader *r = p->r;
    struct samples_scratch *x = r->scratch;
    struct samples_base *at = &s->base[field];
    bool is_text = value_is_text(s->schema->fields[field].type);
    if (is_text && r->memory - at->n + b->n > SAMPLES_MEMORY_MAX)
        return samples_too_much(p->why);
    struct change *log = samples_reserve(x->log, x->n_log + 1, &x->cap_log, sizeof *log);
    x->log = log ? log : x->log;
    if (!log || (is_text && own_text(b) < 0))
        return -ENOMEM;
    if (is_text) {
        r->memory += (size_t)b->n - at->n;
        s->text += (size_t)b->n - at->n;
    }
    x->log[x->n_log++] = (struct change){s, field, *at};
    *at = *b;
    return 0;
}

/* Is it the work space, unfolded for this row alone? */
static bool is_unfolded(const struct reading *p, const struct samples_stream *s)
{
    return s == &p->r->scratch->stream;
}

/* The changed values of the row, in place of the baseline's: it is nobody's but this row's. */
static int read_in_place(struct reading *p, struct samples_stream *s, int n, size_t *text)
{
    const uint16_t *changed = p->r->scratch->changed;
    for (int c = 0; c < n; c++) {
        uint32_t i = s->value_at[changed[c]];
        struct samples_base *b = &s->base[i];
        size_t before = value_is_text(s->schema->fields[i].type) ? b->n : 0;
        int rc = samples_read_value(&p->c, &s->schema->fields[i], b, p->why);
        if (rc < 0)
            return rc;
        *text += (value_is_text(b->type) ? b->n : 0) - before;
    }
    return 0;
}

/* The changed values of the row; *text is what the row then has of it. */
static int read_changes(struct reading *p, struct samples_stream *s, size_t *text)
{
    const uint16_t *changed = p->r->scratch->changed;
    int n = read_marks(&p->c, s->n_values, p->r->scratch->changed);
    if (n < 0)
        return samples_refuse(p->why, p->c.bad ? "a row is cut short" : "the marks of a row are wrong");
    if (is_unfolded(p, s))
        return read_in_place(p, s, n, text);
    for (int c = 0; c < n; c++) {
        uint32_t i = s->value_at[changed[c]];
        struct samples_base b = s->base[i];
        size_t before = value_is_text(s->schema->fields[i].type) ? b.n : 0;
        int rc = samples_read_value(&p->c, &s->schema->fields[i], &b, p->why);
        if (rc < 0)
            return rc;
        *text += (value_is_text(b.type) ? b.n : 0) - before;
        rc = p->flags & PACKET_ROLL ? roll(p, s, i, &b) : 0;
        if (rc < 0)
            return rc;
        p->r->scratch->row[i] = samples_base_value(&b);
    }
    return 0;
}

static int count_unfolded(struct reading *p, const struct samples_stream *s, size_t text)
{
    p->unfolded += samples_row_cost(s, text);
    return p->unfolded <= SAMPLES_UNFOLD_MAX
               ? 0
               : diag_set(p->why, E_LIMIT, 0, "samples: rows of more than %d bytes in all",
                          SAMPLES_UNFOLD_MAX);
}

static int skip_row(struct reading *p, const struct samples_kept *k, bool is_changed)
{
    int rc = is_changed ? samples_skip_changes(&p->c, k, p->why) : 0;
    return rc < 0 ? rc : count_unfolded(p, &(struct samples_stream){.schema = k->schema}, k->text);
}

/* The stream with its baseline at hand: live if the row is going to move it. */
static struct samples_stream *unfold(struct reading *p, struct samples_kept **at, bool is_changed)
{
    struct samples_stream *unfolded = &p->r->scratch->stream;
    if (!(*at)->live && is_changed && p->flags & PACKET_ROLL && samples_kept_wake(at, unfolded) < 0)
        return NULL;
    if ((*at)->live)
        return (*at)->live;
    samples_kept_unfold(*at, unfolded);
    return unfolded;
}

/* What the builder would say, of an event that is not made. */
static int check_size(const struct reading *p, const struct schema *s)
{
    size_t size = s->name.n + 32;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        const struct value *v = &p->r->scratch->row[i];
        if (v->type != VALUE_NONE)
            size += s->fields[i].name.n + 8 + (value_is_text(v->type) ? v->n : 0);
    }
    return size <= EVENT_SIZE_MAX
               ? 0
               : diag_set(p->why, E_LIMIT, 0, "the event is larger than %d bytes", EVENT_SIZE_MAX);
}

static int finish_row(struct reading *p, const struct samples_stream *s)
{
    struct value *row = p->r->scratch->row;
    if (samples_sets_one_twice(s->schema, row))
        return samples_refuse(p->why, "a row with one field twice");
    if (!p->out)
        return check_size(p, s->schema);
    const struct event_head head = {
        .time_ns = p->time_ns, .host = p->host, .prog = s->prog, .level = LEVEL_INFO};
    return batch_builder_add_known(p->out, &head, s->schema, row, p->why);
}

static void fill_row(const struct samples_stream *s, struct value *row)
{
    for (uint32_t i = 0; i < s->schema->n_fields; i++)
        row[i] = samples_base_value(&s->base[i]);
}

/* 1: the row is in the batch. 0: it can't be read, as its stream or baseline is not known. */
static int read_row(struct reading *p)
{
    struct value *row = p->r->scratch->row;
    bool is_changed;
    int rc;
    struct samples_kept **at = read_row_head(p, &is_changed, &rc);
    if (!at)
        return rc;
    if (!p->out && (*at)->is_plain && !(p->flags & PACKET_ROLL)) {
        rc = skip_row(p, *at, is_changed);
        return rc < 0 ? rc : 1;
    }
    struct samples_stream *s = unfold(p, at, is_changed);
    if (!s)
        return -ENOMEM;
    /* Without events the row itself is only looked at where it could be wrong. */
    bool needs_row =
        p->out || !s->schema->names_once || s->names + s->text > EVENT_SIZE_MAX - SAMPLES_BYTES_MAX;
    size_t text = s->text;
    if (needs_row && !is_unfolded(p, s))
        fill_row(s, row);
    rc = is_changed ? read_changes(p, s, &text) : 0;
    if (rc == 0)
        rc = count_unfolded(p, s, text);
    if (rc == 0 && needs_row && is_unfolded(p, s))
        fill_row(s, row);
    if (rc == 0 && needs_row)
        rc = finish_row(p, s);
    return rc < 0 ? rc : 1;
}

static bool log_has_text(const struct change *c)
{
    return value_is_text(c->stream->schema->fields[c->field].type);
}

/* Baselines as they were before the packet. */
static void take_back(struct samples_reader *r)
{
    struct samples_scratch *x = r->scratch;
    while (x->n_log) {
        const struct change *c = &x->log[--x->n_log];
        struct samples_base *at = &c->stream->base[c->field];
        if (log_has_text(c)) {
            r->memory += (size_t)c->old.n - at->n;
            c->stream->text += (size_t)c->old.n - at->n;
            mem_free(at->text);
        }
        *at = c->old;
    }
}

static void settle(struct samples_scratch *x)
{
    for (size_t i = 0; i < x->n_log; i++) {
        x->log[i].stream->is_rolled = true;
        if (log_has_text(&x->log[i]))
            mem_free(x->log[i].old.text);
    }
    x->n_log = 0;
}

static void shrink_log(struct samples_scratch *x)
{
    if (x->cap_log <= LOG_KEPT)
        return;
    mem_free(x->log);
    x->log = NULL;
    x->cap_log = 0;
}

/* Reads all rows; *done is how many could be. On an error nothing has changed. */
static int read_packet(struct reading *p, uint64_t *done)
{
    struct samples_reader *r = p->r;
    if (cursor_left(&p->c) > SAMPLES_BYTES_MAX)
        return diag_set(p->why, E_LIMIT, 0, "samples: a packet of %zu bytes", cursor_left(&p->c));
    int rc = read_head(p);
    if (rc < 0)
        return rc;
    *done = 0;
    while (*done < p->n_rows && (rc = read_row(p)) > 0)
        ++*done;
    if (rc < 0)
        take_back(r);
    else
        settle(r->scratch);
    shrink_log(r->scratch);
    if (rc >= 0 && p->flags & PACKET_ROLL) {
        r->context.clock = p->clock;
        r->context.number = (r->context.number + 1) & 15;
    }
    return rc < 0 ? rc : 0;
}

int samples_reader_add(struct samples_reader *r, struct slice payload, struct slice host,
                       struct batch_builder *out, struct batch_origin *origin, uint32_t *unknown,
                       struct diag *why)
{
    assert(!batch_builder_borrows(out));
    struct reading p;
    uint64_t done;
    size_t before = batch_builder_count(out);
    start_reading(&p, r, payload, why);
    p.out = out;
    p.host = host;
    int rc = read_packet(&p, &done);
    if (rc < 0) {
        batch_builder_cut(out, before);
        return rc;
    }
    origin->first_seq = p.first_seq;
    origin->clock = p.clock;
    *unknown = (uint32_t)(p.n_rows - done);
    return 0;
}

int samples_reader_packet(struct samples_reader *r, struct slice payload, struct slice host,
                          struct batch_builder *out, struct batch_origin *origin, uint32_t *unknown,
                          struct diag *why)
{
    assert(batch_builder_count(out) == 0);
    int rc = samples_reader_add(r, payload, host, out, origin, unknown, why);
    if (batch_builder_count(out) > 0)
        batch_builder_set_origin(out, origin);
    else
        batch_unref(batch_builder_finish(out, NULL)); /* empties it */
    return rc;
}

int samples_packet_count(struct slice payload, struct samples_count *out)
{
    struct cursor c = cursor_of(payload);
    uint8_t flags = cursor_u8(&c);
    uint64_t first_seq = cursor_varint(&c);
    (void)cursor_u64(&c); /* the time, and then the clock */
    for (int i = 0; i < 3 && flags & PACKET_CLOCK; i++)
        (void)cursor_varint(&c);
    uint64_t n_rows = cursor_varint(&c);
    if (c.bad || !has_good_numbers(first_seq, n_rows))
        return E_PROTO;
    if (n_rows > SAMPLES_ROWS_MAX)
        return E_LIMIT;
    *out = (struct samples_count){first_seq, (uint32_t)n_rows, 0};
    return 0;
}

int samples_reader_scan(struct samples_reader *r, struct slice payload, struct samples_count *out,
                        struct diag *why)
{
    struct reading p __attribute__((uninitialized)); /* else the build fills it, at the cost of the head */
    uint64_t done;
    start_reading(&p, r, payload, why);
    int rc = read_packet(&p, &done);
    if (rc == 0)
        *out = (struct samples_count){p.first_seq, (uint32_t)p.n_rows, (uint32_t)(p.n_rows - done)};
    return rc;
}
