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
 * Everything a peer says is checked here or in the builder. Bounds: streams, schemas and baselines by
 * SAMPLES_MEMORY_MAX, counted before allocating; a stream by EVENT_SIZE_MAX, as its rows; the log by the
 * packet's bytes (each change takes at least one); the batch by SAMPLES_UNFOLD_MAX. */
#include "event/samples.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/samples_layout.h"
#include "event/schema_bytes.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>

enum { LOG_KEPT = 1024 }; /* entries that stay allocated between packets */

/* A baseline before this packet moved it. */
struct change {
    struct samples_stream *stream;
    uint32_t field;
    struct samples_base old;
};

struct samples_reader {
    struct registry *registry;
    struct samples_scratch *scratch;
    const struct schema **schemas; /* one reference each; number - 1 is the index */
    struct samples_kept **streams; /* the same; NULL: not known */
    uint32_t n_schemas, cap_schemas;
    uint32_t n_streams, cap_streams;
    size_t memory; /* as samples_stream_cost and samples_schema_cost count */
    struct samples_context context;
};

struct samples_scratch {
    struct value row[EVENT_FIELDS_MAX];
    uint16_t changed[EVENT_FIELDS_MAX];
    struct samples_stream stream; /* one that rests, unfolded: in the two arrays */
    struct samples_base base[EVENT_FIELDS_MAX];
    uint16_t value_at[EVENT_FIELDS_MAX];
    struct strbuf bytes; /* the state of a stream */
    struct change *log;
    uint32_t n_log, cap_log;
};

static const struct batch_clock no_clock = {.bound_ns = CLOCK_BOUND_UNKNOWN};

struct samples_scratch *samples_scratch_create(void)
{
    struct samples_scratch *s = mem_try_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->stream.base = s->base;
    s->stream.value_at = s->value_at;
    return s;
}

void samples_scratch_destroy(struct samples_scratch *s)
{
    if (!s)
        return;
    strbuf_fini(&s->bytes);
    mem_free(s->log);
    mem_free(s);
}

struct samples_reader *samples_reader_create(struct registry *registry, struct samples_scratch *scratch)
{
    struct samples_reader *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->registry = registry;
    r->scratch = scratch;
    r->context.clock = no_clock;
    return r;
}

void samples_reader_destroy(struct samples_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_streams; i++)
        samples_kept_destroy(r->streams[i]);
    for (size_t i = 0; i < r->n_schemas; i++)
        schema_unref(r->schemas[i]);
    mem_free(r->streams);
    mem_free(r->schemas);
    mem_free(r);
}

static int refuse(struct diag *why, const char *what)
{
    return diag_set(why, E_PROTO, 0, "samples: %s", what);
}

static int too_much(struct diag *why)
{
    return diag_set(why, E_LIMIT, 0, "samples: schemas and streams of more than %d bytes",
                    SAMPLES_MEMORY_MAX);
}

/* The array with room for n items; NULL: no memory, and it stays as it is. */
static void *reserve(void *array, uint32_t n, uint32_t *cap, size_t item)
{
    if (n <= *cap)
        return array;
    uint32_t more = *cap ? *cap : 1;
    while (more < n)
        more *= 2;
    void *p = mem_try_resize(array, more * item);
    if (p)
        *cap = more;
    return p;
}

/* A number that is announced: known, or the next. */
static int check_number(uint32_t number, size_t n, size_t max, const char *what, struct diag *why)
{
    if (number > max)
        return diag_set(why, E_LIMIT, 0, "samples: %s %u; there may be %zu", what, (unsigned)number, max);
    if (number == 0 || number > n + 1)
        return diag_set(why, E_PROTO, 0, "samples: %s %u is announced, and %zu before it", what,
                        (unsigned)number, n);
    return 0;
}

/* A number keeps its schema as long as the reader lives: streams hold it, and memory is counted once. */
static int keep_schema(struct samples_reader *r, uint32_t number, const struct schema *s, struct diag *why)
{
    if (number <= r->n_schemas)
        return schema_same(r->schemas[number - 1], s) ? 0
                                                      : refuse(why, "a schema's number with another meaning");
    if (r->memory + samples_schema_cost(s) > SAMPLES_MEMORY_MAX)
        return too_much(why);
    const struct schema **schemas = reserve(r->schemas, r->n_schemas + 1, &r->cap_schemas, sizeof *schemas);
    if (!schemas)
        return -ENOMEM;
    r->schemas = schemas;
    r->schemas[r->n_schemas++] = schema_ref(s);
    r->memory += samples_schema_cost(s);
    return 0;
}

int samples_reader_schema(struct samples_reader *r, struct slice payload, struct diag *why)
{
    struct cursor c = cursor_of(payload);
    uint32_t number = cursor_u32(&c);
    if (c.bad)
        return refuse(why, "SCHEMA is cut short");
    int rc = check_number(number, r->n_schemas, SAMPLES_SCHEMAS_MAX, "schema", why);
    if (rc < 0)
        return rc;
    struct schema *s;
    const char *what = "";
    rc = schema_read(&c, &s, &what);
    if (rc < 0)
        return rc == E_PROTO ? refuse(why, what) : rc;
    const struct schema *known;
    rc = registry_intern(r->registry, s, &known);
    return rc < 0 ? rc : keep_schema(r, number, known, why);
}

static int read_int(struct cursor *c, uint64_t code, const struct field *f, struct samples_base *b,
                    struct diag *why)
{
    uint64_t diff = code - CODE_DIFF;
    if (code == CODE_RAW)
        b->bits = cursor_u64(c);
    else
        b->bits += f->kind == KIND_COUNTER ? diff : (uint64_t)unzigzag(diff);
    return f->type == VALUE_BOOL && b->bits > 1 ? refuse(why, "a bool that is neither true nor false") : 0;
}

static int read_float(struct cursor *c, uint64_t code, struct samples_base *b, struct diag *why)
{
    double f;
    if (code == CODE_RAW) {
        uint64_t bits = cursor_u64(c);
        memcpy(&f, &bits, sizeof f);
    } else {
        if (code == CODE_DECIMAL) {
            b->k = cursor_u8(c);
            b->m = unzigzag(cursor_varint(c));
        } else {
            b->m = (int64_t)((uint64_t)b->m + (uint64_t)unzigzag(code - CODE_STEP));
        }
        if (b->k > SAMPLES_DECIMAL_MAX)
            return refuse(why, "a decimal out of range");
        f = (double)b->m / samples_powers[b->k];
    }
    b->bits = value_float(f).u;
    return 0;
}

/* The text stays in the payload: *b borrows it. */
static int read_text(struct cursor *c, uint64_t length, uint8_t type, struct samples_base *b,
                     struct diag *why)
{
    struct slice s = cursor_bytes(c, length);
    if (c->bad)
        return 0; /* the caller looks */
    if (s.n > EVENT_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "samples: a text of %zu bytes", s.n);
    if (type == VALUE_TEXT && !text_is_utf8(s))
        return refuse(why, "a text that is not UTF-8");
    b->text = (char *)(uintptr_t)s.p;
    b->n = (uint32_t)s.n;
    return 0;
}

/* Reads a value's code: *b is its baseline and becomes the value; text in it then borrows from the payload.
 */
static int read_value(struct cursor *c, const struct field *f, struct samples_base *b, struct diag *why)
{
    uint64_t code = cursor_varint(c);
    int rc = 0;
    b->type = f->type;
    if (value_is_text(f->type)) {
        b->text = NULL;
        b->n = 0;
    }
    if (code == CODE_MISSING)
        b->type = VALUE_NONE;
    else if (value_is_text(f->type))
        rc = read_text(c, code - 1, f->type, b, why);
    else if (f->type == VALUE_FLOAT)
        rc = read_float(c, code, b, why);
    else
        rc = read_int(c, code, f, b, why);
    return c->bad ? refuse(why, "a value is cut short") : rc;
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

/* The values of an announced stream, into its empty baseline; text is borrowed. */
static int read_baseline(struct cursor *c, struct samples_stream *s, struct diag *why)
{
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        int rc = read_value(c, &s->schema->fields[i], &s->base[i], why);
        if (rc < 0)
            return rc;
        s->text += value_is_text(s->schema->fields[i].type) ? s->base[i].n : 0;
    }
    return 0;
}

/* Keeps the stream in the scratch under this number, which may be that of another. */
static int keep_stream(struct samples_reader *r, uint32_t number, struct diag *why)
{
    const struct samples_stream *s = &r->scratch->stream;
    if (s->names + s->text > EVENT_SIZE_MAX)
        return diag_set(why, E_LIMIT, 0, "samples: a stream whose rows are larger than %d bytes",
                        EVENT_SIZE_MAX);
    struct samples_kept *old = number <= r->n_streams ? r->streams[number - 1] : NULL;
    size_t memory = r->memory + samples_stream_cost(s);
    if (memory > SAMPLES_MEMORY_MAX)
        return too_much(why);
    struct samples_kept **streams = reserve(r->streams, number, &r->cap_streams, sizeof *streams);
    if (!streams)
        return -ENOMEM;
    r->streams = streams;
    struct samples_kept *k = samples_kept_create(s, &r->scratch->bytes);
    if (!k)
        return -ENOMEM;
    while (r->n_streams < number)
        r->streams[r->n_streams++] = NULL;
    r->streams[number - 1] = k;
    r->memory = memory - (old ? samples_kept_cost(old) : 0);
    samples_kept_destroy(old);
    return 0;
}

int samples_reader_stream(struct samples_reader *r, struct slice payload, struct diag *why)
{
    struct cursor c = cursor_of(payload);
    uint32_t number = cursor_u32(&c), schema = cursor_u32(&c), baseline = cursor_u32(&c);
    struct slice prog = cursor_bytes(&c, cursor_varint(&c));
    if (c.bad || !samples_is_prog(prog))
        return refuse(why, c.bad ? "STREAM is cut short" : "a prog that the model does not allow");
    int rc = check_number(number, r->n_streams, SAMPLES_STREAMS_MAX, "stream", why);
    if (rc < 0)
        return rc;
    if (schema == 0 || schema > r->n_schemas)
        return refuse(why, "a stream of a schema that was not announced");
    struct samples_stream *s = &r->scratch->stream;
    samples_stream_init(s, r->schemas[schema - 1], prog);
    s->baseline = baseline;
    rc = read_baseline(&c, s, why);
    return rc < 0 ? rc : keep_stream(r, number, why);
}

struct samples_context samples_reader_context(const struct samples_reader *r)
{
    return r->context;
}

void samples_reader_set_context(struct samples_reader *r, const struct samples_context *c)
{
    r->context = *c;
    r->context.number &= 15;
}

uint32_t samples_reader_streams(const struct samples_reader *r)
{
    return r->n_streams;
}

int samples_reader_snapshot(const struct samples_reader *r, uint32_t number, struct samples_snapshot *out)
{
    const struct samples_kept *k = number && number <= r->n_streams ? r->streams[number - 1] : NULL;
    if (!k)
        return E_NODATA;
    *out = (struct samples_snapshot){.number = number, .schema = k->schema, .baseline = k->baseline};
    out->is_rolled = k->live && k->live->is_rolled;
    return samples_kept_state(k, &r->scratch->bytes, &out->state);
}

/* What no writer of ours wrote: the text of a state is checked only here. */
static int check_texts(const struct samples_stream *s, struct diag *why)
{
    for (uint32_t i = 0; i < s->schema->n_fields; i++)
        if (s->base[i].type == VALUE_TEXT && !text_is_utf8(slice_of(s->base[i].text, s->base[i].n)))
            return refuse(why, "a text that is not UTF-8");
    return samples_is_prog(s->prog) ? 0 : refuse(why, "a prog that the model does not allow");
}

int samples_reader_restore(struct samples_reader *r, const struct samples_snapshot *snapshot,
                           struct diag *why)
{
    struct samples_stream *s = &r->scratch->stream;
    const char *what = "";
    if (snapshot->number == 0 || snapshot->number > SAMPLES_STREAMS_MAX)
        return refuse(why, "a stream's number out of range");
    int rc = samples_state_read(snapshot->schema, snapshot->state, s, &what);
    if (rc < 0)
        return rc == E_PROTO ? refuse(why, what) : diag_set(why, rc, 0, "samples: %s", what);
    s->baseline = snapshot->baseline;
    rc = check_texts(s, why);
    if (rc == 0)
        rc = keep_stream(r, snapshot->number, why);
    if (rc < 0 || !snapshot->is_rolled)
        return rc;
    struct samples_kept **at = &r->streams[snapshot->number - 1];
    rc = samples_kept_wake(at, s);
    if (rc == 0) {
        (*at)->live->is_rolled = true;
    } else { /* better none than one that is taken for the announced one */
        r->memory -= samples_kept_cost(*at);
        samples_kept_destroy(*at);
        *at = NULL;
    }
    return rc;
}

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
    p->clock = p->flags & PACKET_ROLL ? p->r->context.clock : no_clock;
    if (!(p->flags & PACKET_CLOCK))
        return 0;
    p->clock.offset_ns = unzigzag(cursor_varint(&p->c));
    p->clock.bound_ns = cursor_varint(&p->c) - 1;
    uint64_t generation = cursor_varint(&p->c);
    p->clock.generation = (uint32_t)generation;
    return generation > UINT32_MAX ? refuse(p->why, "a clock generation out of range") : 0;
}

/* With ROLL a packet makes sense only behind the one that was sent before it. */
static int check_flags(const struct reading *p)
{
    unsigned number = p->flags >> PACKET_NUMBER_SHIFT;
    unsigned expected = p->flags & PACKET_ROLL ? p->r->context.number : 0;
    if (p->flags & 15 & ~PACKET_KNOWN)
        return refuse(p->why, "a flag that is not known");
    return number == expected ? 0 : refuse(p->why, "a packet is missing before this one");
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
        return refuse(p->why, "the head is cut short");
    if (p->n_rows > SAMPLES_ROWS_MAX)
        return diag_set(p->why, E_LIMIT, 0, "samples: more than %d rows", SAMPLES_ROWS_MAX);
    if (!has_good_numbers(p->first_seq, p->n_rows))
        return refuse(p->why, "no rows, or a sequence number out of range");
    return 0;
}

/* Reads which of n fields changed: a bit each, lowest first, in marks. E_PROTO: not as a writer marks them.
 */
static int read_groups(struct cursor *c, uint32_t n, unsigned char marks[EVENT_FIELDS_MAX / 8])
{
    uint32_t n_groups = (n + 7) / 8, top = 1;
    if (n_groups > 1)
        top = (uint32_t)cursor_fixed(c, (n_groups + 7) / 8);
    if (top == 0 || n_groups == 0 || (n_groups < 32 && top >> n_groups))
        return E_PROTO;
    for (uint32_t g = 0; g < n_groups; g++) {
        marks[g] = 0;
        if (!(top >> g & 1))
            continue;
        marks[g] = cursor_u8(c);
        if (marks[g] == 0)
            return E_PROTO;
    }
    return n % 8 && marks[n_groups - 1] >> n % 8 ? E_PROTO : 0;
}

/* The same as numbers, in order; returns how many. */
static int read_marks(struct cursor *c, uint32_t n, uint16_t *changed)
{
    unsigned char marks[EVENT_FIELDS_MAX / 8];
    int count = 0;
    if (read_groups(c, n, marks) < 0)
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
        *rc = refuse(p->why, p->c.bad ? "a row is cut short" : "a stream's number out of range");
        return NULL;
    }
    *is_changed = head & ROW_CHANGED;
    *rc = 0;
    struct samples_kept **at = p->stream <= p->r->n_streams ? &p->r->streams[p->stream - 1] : NULL;
    if (at && !*at)
        at = NULL;
    if (p->flags & PACKET_ROLL) {
        if (!at)
            *rc = refuse(p->why, "a stream that was not announced");
        return at;
    }
    bool is_as_announced =
        at && ((*at)->baseline & 0xff) == baseline && !((*at)->live && (*at)->live->is_rolled);
    return is_as_announced ? at : NULL;
}

/* A changed value becomes the baseline; what was there goes to the log. */
static int roll(struct reading *p, struct samples_stream *s, uint32_t field, struct samples_base *b)
{
    struct samples_reader *r = p->r;
    struct samples_scratch *x = r->scratch;
    struct samples_base *at = &s->base[field];
    bool is_text = value_is_text(s->schema->fields[field].type);
    if (is_text && r->memory - at->n + b->n > SAMPLES_MEMORY_MAX)
        return too_much(p->why);
    struct change *log = reserve(x->log, x->n_log + 1, &x->cap_log, sizeof *log);
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

/* The changed values of the row; *text is what the row then has of it. */
static int read_changes(struct reading *p, struct samples_stream *s, size_t *text)
{
    const uint16_t *changed = p->r->scratch->changed;
    int n = read_marks(&p->c, s->n_values, p->r->scratch->changed);
    if (n < 0)
        return refuse(p->why, p->c.bad ? "a row is cut short" : "the marks of a row are wrong");
    for (int c = 0; c < n; c++) {
        uint32_t i = s->value_at[changed[c]];
        struct samples_base b = s->base[i];
        size_t before = value_is_text(s->schema->fields[i].type) ? b.n : 0;
        int rc = read_value(&p->c, &s->schema->fields[i], &b, p->why);
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

/* The field behind value number j. */
static const struct field *value_field(const struct samples_kept *k, uint32_t j)
{
    const struct field *f = k->schema->fields;
    if (!k->has_keys)
        return f + j;
    for (;; f++)
        if (f->role != ROLE_KEY && j-- == 0)
            return f;
}

/* The bytes of the varint at p, of which eight can be read; 0: it has more, or says more than a difference.
 */
static inline size_t difference_size(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t ends = ~le64toh(word) & UINT64_C(0x8080808080808080);
    return ends && (*p & 0x7f) > CODE_DECIMAL ? (size_t)__builtin_ctzll(ends) / 8 + 1 : 0;
}

/* Skips codes, eight bytes at a time, as long as they are short differences; at least one of the n stays.
 * Where a varint ends its byte's high bit is clear, so counting those bits counts codes, and no step waits
 * for the one before to say where it starts. Returns how many. */
static uint32_t skip_words(struct cursor *c, uint32_t n)
{
    const uint64_t high = UINT64_C(0x8080808080808080);
    const unsigned char *at = c->p;
    uint64_t before = high; /* the ends in the word before */
    uint32_t done = 0;
    while (c->end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word = le64toh(word);
        uint64_t ends = ~word & high, starts = ends << 8 | before >> 56;
        uint64_t above =
            (word & ~high) + (0x7f - CODE_DECIMAL) * (high >> 7); /* high bit: low seven > CODE_DECIMAL */
        if (ends == 0 || starts & ~above || (__builtin_clzll(before) + __builtin_ctzll(ends)) / 8 >= 8)
            break;
        uint32_t count = (uint32_t)((ends >> 7) * (high >> 7) >> 56);
        if (done + count >= n)
            break;
        done += count;
        before = ends;
        at += 8;
    }
    c->p = at - __builtin_clzll(before) / 8; /* back to the start of one that was begun */
    return done;
}

static uint32_t count_bits(unsigned char b)
{
    b = (unsigned char)(b - (b >> 1 & 0x55));
    b = (unsigned char)((b & 0x33) + (b >> 2 & 0x33));
    return (b + (b >> 4)) & 15;
}

/* The number of the value behind code n of the row. */
static uint32_t nth_marked(const unsigned char *marks, uint32_t n)
{
    for (uint32_t j = 0;; j++)
        if (marks[j / 8] >> j % 8 & 1 && n-- == 0)
            return j;
}

/* Any code: number n of the row. */
static int skip_code(struct reading *p, const struct samples_kept *k, const unsigned char *marks, uint32_t n)
{
    uint64_t code = cursor_varint(&p->c);
    if (code == CODE_RAW) {
        (void)cursor_u64(&p->c);
    } else if (code == CODE_DECIMAL && value_field(k, nth_marked(marks, n))->type == VALUE_FLOAT) {
        if (cursor_u8(&p->c) > SAMPLES_DECIMAL_MAX)
            return refuse(p->why, "a decimal out of range");
        (void)cursor_varint(&p->c);
    }
    return p->c.bad ? refuse(p->why, "a value is cut short") : 0;
}

/* The values of a row that nobody wants, of a plain stream: whatever numbers they are, they are good. Only
 * how far they reach must be found. As read_marks and read_value. */
static int skip_changes(struct reading *p, const struct samples_kept *k)
{
    unsigned char marks[EVENT_FIELDS_MAX / 8];
    if (read_groups(&p->c, k->n_values, marks) < 0)
        return refuse(p->why, p->c.bad ? "a row is cut short" : "the marks of a row are wrong");
    uint32_t n = 0;
    for (uint32_t g = 0; g * 8 < k->n_values; g++)
        n += count_bits(marks[g]);
    for (uint32_t done = skip_words(&p->c, n); done < n; done++) {
        size_t size = cursor_left(&p->c) >= 8 ? difference_size(p->c.p) : 0;
        p->c.p += size;
        int rc = size ? 0 : skip_code(p, k, marks, done);
        if (rc < 0)
            return rc;
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
    int rc = is_changed ? skip_changes(p, k) : 0;
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
        return refuse(p->why, "a row with one field twice");
    if (!p->out)
        return check_size(p, s->schema);
    const struct event_head head = {
        .time_ns = p->time_ns, .host = p->host, .prog = s->prog, .level = LEVEL_INFO};
    return batch_builder_add_known(p->out, &head, s->schema, row, p->why);
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
    for (uint32_t i = 0; needs_row && i < s->schema->n_fields; i++)
        row[i] = samples_base_value(&s->base[i]);
    size_t text = s->text;
    rc = is_changed ? read_changes(p, s, &text) : 0;
    if (rc == 0)
        rc = count_unfolded(p, s, text);
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

int samples_reader_packet(struct samples_reader *r, struct slice payload, struct slice host,
                          struct batch_builder *out, struct batch_origin *origin, uint32_t *unknown,
                          struct diag *why)
{
    assert(!batch_builder_borrows(out) && batch_builder_count(out) == 0);
    struct reading p;
    uint64_t done;
    start_reading(&p, r, payload, why);
    p.out = out;
    p.host = host;
    int rc = read_packet(&p, &done);
    if (rc < 0) {
        batch_unref(batch_builder_finish(out, NULL)); /* empties it */
        return rc;
    }
    origin->first_seq = p.first_seq;
    origin->clock = p.clock;
    *unknown = (uint32_t)(p.n_rows - done);
    if (done)
        batch_builder_set_origin(out, origin);
    return 0;
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
