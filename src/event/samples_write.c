/* SPDX-License-Identifier: Apache-2.0 */
/* A row is written in three steps: which fields differ from the baseline (most do not: a comparison each),
 * whether the new values are allowed (only those that differ: the others were), then the bytes, at the end of
 * the packet but not yet part of it. Only when they fit does the packet grow and, with ROLL, the baseline
 * move: a row is taken whole or not at all. See docs/protocol.md for the layout, samples_read.c for the other
 * direction.
 *
 * Floats: the smallest k from the field's last one on for which the value is exactly m / 10^k. k is kept with
 * the field and only grows, since a sensor's readings have so many decimals and 25.3 is 25.30 there; so the
 * usual code is one number, the difference of m, and k costs nothing. Counters have plain differences, not
 * zigzag: they go forward, and a step of 64 to 125 a second is then one byte and not two. */
#include "event/samples.h"

#include "base/cursor.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/block_layout.h"
#include "event/samples_layout.h"
#include "event/schema_bytes.h"

#include <errno.h>

enum {
    ROWS_BYTES_MAX = SAMPLES_BYTES_MAX - PACKET_HEAD_MAX,
    ROW_COST = 64,  /* bytes of a row besides its values, at most: head, time, marks */
    VALUE_COST = 12 /* bytes of a value besides its text, at most */
};

#define DIFF_MAX (UINT64_C(1) << 56) /* from here on raw bytes are no longer */

struct known_schema {
    const struct schema *schema; /* one reference; its hash is the map's key */
    uint32_t id;
};

struct samples_writer {
    enum samples_flags flags;
    struct map schemas; /* hash -> struct known_schema */
    uint32_t n_schemas;
    struct samples_stream **streams; /* number - 1 is the index */
    size_t n_streams, cap_streams;
    size_t memory; /* as samples_stream_cost and samples_schema_cost count */
    /* Numbers of baselines: where those of new streams begin, and the highest given. Without ROLL a row on its way when
     * everything is announced anew must not find its stream's number with another meaning. */
    uint32_t first_baseline, last_baseline;
    /* The packet being built: */
    size_t rows_max;
    struct strbuf rows;
    size_t n_rows, unfolded;
    int64_t first_ns, last_ns; /* times of its first and last row */
    uint32_t last_stream;
    /* Since the last reset: */
    struct batch_clock clock; /* of the last packet */
    uint64_t n_packets;
    /* The row at hand: */
    uint16_t changed[EVENT_FIELDS_MAX];         /* among the value fields */
    struct samples_base next[EVENT_FIELDS_MAX]; /* what their baselines become */
};

static const struct batch_clock no_clock = {.bound_ns = CLOCK_BOUND_UNKNOWN};

struct samples_writer *samples_writer_create(enum samples_flags flags)
{
    struct samples_writer *w = mem_try_alloc(sizeof *w);
    if (!w)
        return NULL;
    w->flags = flags;
    w->clock = no_clock;
    w->rows_max = ROWS_BYTES_MAX;
    return w;
}

static void clear_packet(struct samples_writer *w)
{
    strbuf_reset(&w->rows);
    w->n_rows = w->unfolded = 0;
    w->last_stream = 0;
}

static void known_schema_destroy(struct known_schema *k)
{
    schema_unref(k->schema);
    mem_free(k);
}

void samples_writer_reset(struct samples_writer *w)
{
    void *k;
    for (size_t i = 0; map_next(&w->schemas, &i, &k);)
        known_schema_destroy(k);
    map_fini(&w->schemas);
    for (size_t i = 0; i < w->n_streams; i++)
        samples_stream_destroy(w->streams[i]);
    w->n_streams = w->memory = 0;
    w->n_schemas = 0;
    w->n_packets = 0;
    w->clock = no_clock;
    if (!(w->flags & SAMPLES_ROLL))
        w->first_baseline = ++w->last_baseline;
    clear_packet(w);
}

void samples_writer_destroy(struct samples_writer *w)
{
    if (!w)
        return;
    samples_writer_reset(w);
    mem_free(w->streams);
    strbuf_fini(&w->rows);
    mem_free(w);
}

static inline char *put_varint(char *to, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *to++ = (char)(v | 0x80);
    *to++ = (char)v;
    return to;
}

static inline char *put_u64(char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        *to++ = (char)(v >> (8 * i));
    return to;
}

static inline char *put_raw(char *to, uint64_t v)
{
    *to++ = CODE_RAW;
    return put_u64(to, v);
}

static inline char *put_int(char *to, uint64_t v, bool is_counter, struct samples_base *next)
{
    uint64_t step = v - next->bits;
    uint64_t diff = is_counter ? step : zigzag((int64_t)step);
    next->bits = v;
    return diff < DIFF_MAX ? put_varint(to, diff + CODE_DIFF) : put_raw(to, v);
}

/* Is f exactly *m / 10^k with |m| < 2^53? A zero below zero is not. */
static inline bool is_decimal(double f, uint64_t bits, unsigned k, int64_t *m)
{
    double scaled = rint(f * samples_powers[k]);
    if (!(fabs(scaled) < 9007199254740992.0) || bits == BLOCK_MINUS_ZERO)
        return false;
    double back = scaled / samples_powers[k];
    *m = (int64_t)scaled;
    return memcmp(&back, &bits, sizeof bits) == 0;
}

static char *put_float(char *to, double f, struct samples_base *next)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    next->bits = bits;
    for (unsigned k = next->k; k <= SAMPLES_DECIMAL_MAX; k++) {
        int64_t m;
        if (!is_decimal(f, bits, k, &m))
            continue;
        int64_t step = m - next->m; /* both are below 2^53 */
        next->m = m;
        if (k == next->k)
            return put_varint(to, zigzag(step) + CODE_STEP);
        next->k = (uint8_t)k;
        *to++ = CODE_DECIMAL;
        *to++ = (char)k;
        return put_varint(to, zigzag(m));
    }
    return put_raw(to, bits);
}

/* With at least k decimals, for a baseline: next is that of a stream that was just made. */
static char *put_decimal(char *to, double f, unsigned k, struct samples_base *next)
{
    uint64_t bits;
    int64_t m;
    memcpy(&bits, &f, sizeof bits);
    if (k == 0 || !is_decimal(f, bits, k, &m))
        return put_float(to, f, next);
    *next = (struct samples_base){.bits = bits, .m = m, .type = VALUE_FLOAT, .k = (uint8_t)k};
    *to++ = CODE_DECIMAL;
    *to++ = (char)k;
    return put_varint(to, zigzag(m));
}

static char *put_text(char *to, struct slice s, struct samples_base *next)
{
    to = put_varint(to, s.n + 1);
    if (s.n)
        memcpy(to, s.p, s.n);
    next->n = (uint32_t)s.n;
    return to + s.n;
}

/* Writes the code of v and makes *next, which is the baseline, what the baseline becomes; text itself stays.
 */
static inline char *put_value(char *to, const struct field *f, const struct value *v,
                              struct samples_base *next)
{
    next->type = v->type;
    switch (v->type) {
    case VALUE_NONE:
        if (value_is_text(f->type))
            next->n = 0;
        *to++ = CODE_MISSING;
        return to;
    case VALUE_FLOAT:
        return put_float(to, value_float(v->f).f, next);
    case VALUE_TEXT:
    case VALUE_BYTES:
    case VALUE_NUMBER:
        return put_text(to, value_slice(*v), next);
    default:
        return put_int(to, v->u, f->kind == KIND_COUNTER, next);
    }
}

/* Room for n bytes of text; what is there stays. */
static int reserve_text(struct samples_base *b, size_t n)
{
    if (n <= b->cap)
        return 0;
    char *text = mem_try_resize(b->text, n);
    if (!text)
        return -ENOMEM;
    b->text = text;
    b->cap = n;
    return 0;
}

/* Moves a baseline; reserve_text made room. */
static inline void roll(struct samples_base *b, const struct samples_base *next, const struct value *v)
{
    if (value_is_text(v->type) && v->n)
        memcpy(b->text, v->p, v->n);
    *b = *next;
}

static int check_text(const struct value *v)
{
    if (v->n > EVENT_TEXT_MAX)
        return E_LIMIT;
    return value_text_is_allowed(v->type, value_slice(*v)) ? 0 : E_PROTO;
}

static inline int check_value(const struct field *f, const struct value *v)
{
    if (v->type == VALUE_NONE)
        return 0;
    if (v->type != f->type || (v->type == VALUE_BOOL && v->u > 1))
        return E_PROTO;
    return value_is_text(v->type) ? check_text(v) : 0;
}

static size_t text_size(const struct value *v)
{
    return value_is_text(v->type) ? v->n : 0;
}

static struct slice schema_key(const struct schema *s)
{
    return slice_of((const char *)&s->hash, sizeof s->hash);
}

/* Every value of a new stream; *text is how much of it is text. */
static int check_values(const struct schema *s, const struct value *values, size_t *text)
{
    *text = 0;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        int r = check_value(&s->fields[i], &values[i]);
        if (r < 0)
            return r;
        *text += text_size(&values[i]);
    }
    return samples_sets_one_twice(s, values) ? E_PROTO : 0;
}

/* STREAM's payload; the values become the baseline. before (NULL = none): the stream's last one. -ENOMEM leaves a part
 * of it. */
static int write_stream(struct samples_stream *s, const struct samples_stream *before, uint32_t number,
                        uint32_t schema_id, const struct value *values, struct strbuf *out)
{
    strbuf_add_u32(out, number);
    strbuf_add_u32(out, schema_id);
    strbuf_add_u32(out, s->baseline);
    strbuf_add_varint(out, s->prog.n);
    strbuf_add_slice(out, s->prog);
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        size_t text = text_size(&values[i]);
        char *start = strbuf_room(out, VALUE_COST + text);
        if (!start || (text && reserve_text(&s->base[i], text) < 0))
            return -ENOMEM;
        struct samples_base next = s->base[i];
        char *end = before && values[i].type == VALUE_FLOAT
                        ? put_decimal(start, value_float(values[i].f).f, before->base[i].k, &next)
                        : put_value(start, &s->schema->fields[i], &values[i], &next);
        roll(&s->base[i], &next, &values[i]);
        s->text += text;
        strbuf_advance(out, (size_t)(end - start));
    }
    return strbuf_failed(out) ? -ENOMEM : 0;
}

/* SCHEMA's payload, and remembers it. One that only shares the hash with a known one takes its place in the
 * map. */
static int write_schema(struct samples_writer *w, const struct schema *s, struct strbuf *out)
{
    struct known_schema *k = mem_try_alloc(sizeof *k);
    if (!k)
        return -ENOMEM;
    *k = (struct known_schema){schema_ref(s), w->n_schemas + 1};
    strbuf_add_u32(out, k->id);
    schema_write(out, s);
    struct known_schema *old = map_get(&w->schemas, schema_key(s));
    int r = strbuf_failed(out) ? -ENOMEM : map_put(&w->schemas, schema_key(k->schema), k);
    if (r < 0) {
        known_schema_destroy(k);
        return r;
    }
    if (old)
        known_schema_destroy(old);
    w->n_schemas++;
    w->memory += samples_schema_cost(s);
    return 0;
}

static int reserve_streams(struct samples_writer *w)
{
    if (w->n_streams < w->cap_streams)
        return 0;
    size_t cap = w->cap_streams ? w->cap_streams * 2 : 16;
    struct samples_stream **streams = mem_try_resize(w->streams, cap * sizeof(struct samples_stream *));
    if (!streams)
        return -ENOMEM;
    w->streams = streams;
    w->cap_streams = cap;
    return 0;
}

static void cut_back(struct strbuf *s, size_t n)
{
    s->n = n;
    s->failed = false;
}

/* Is there room for the stream, and for its schema if that is new? */
static int check_room(const struct samples_writer *w, const struct samples_stream *s, size_t text,
                      bool is_new)
{
    size_t cost = samples_stream_cost(s) + text + (is_new ? samples_schema_cost(s->schema) : 0);
    if (w->n_streams == SAMPLES_STREAMS_MAX || (is_new && w->n_schemas == SAMPLES_SCHEMAS_MAX) ||
        w->memory + cost > SAMPLES_MEMORY_MAX || s->names + text > EVENT_SIZE_MAX)
        return E_LIMIT;
    return 0;
}

int samples_writer_announce(struct samples_writer *w, const struct schema *schema, struct slice prog,
                            const struct value *values, struct strbuf *schema_payload,
                            struct strbuf *stream_payload, uint32_t *stream)
{
    size_t text, schema_at = schema_payload->n, stream_at = stream_payload->n;
    int r = samples_is_prog(prog) ? check_values(schema, values, &text) : E_PROTO;
    if (r < 0)
        return r;
    struct samples_stream *s = samples_stream_create(schema, prog);
    if (!s)
        return -ENOMEM;
    const struct known_schema *known = map_get(&w->schemas, schema_key(schema));
    bool is_new = !known || !schema_same(known->schema, schema);
    uint32_t number = (uint32_t)w->n_streams + 1;
    s->baseline = w->first_baseline;
    r = check_room(w, s, text, is_new);
    if (r == 0)
        r = reserve_streams(w);
    if (r == 0)
        r = write_stream(s, NULL, number, is_new ? w->n_schemas + 1 : known->id, values, stream_payload);
    if (r == 0 && is_new)
        r = write_schema(w, schema, schema_payload);
    if (r < 0) {
        cut_back(schema_payload, schema_at);
        cut_back(stream_payload, stream_at);
        samples_stream_destroy(s);
        return r;
    }
    w->streams[w->n_streams++] = s;
    w->memory += samples_stream_cost(s);
    *stream = number;
    return 0;
}

/* The schema was announced with the stream, and its number stays. */
static uint32_t schema_id_of(const struct samples_writer *w, const struct samples_stream *s)
{
    const struct known_schema *known = map_get(&w->schemas, schema_key(s->schema));
    return known && schema_same(known->schema, s->schema) ? known->id : 0;
}

int samples_writer_rebase(struct samples_writer *w, uint32_t stream, const struct value *values,
                          struct strbuf *stream_payload)
{
    size_t text, at = stream_payload->n;
    if (stream == 0 || stream > w->n_streams || (w->flags & SAMPLES_ROLL))
        return -EINVAL;
    if (w->n_rows)
        return -EBUSY;
    struct samples_stream *old = w->streams[stream - 1];
    uint32_t schema_id = schema_id_of(w, old);
    int r = schema_id ? check_values(old->schema, values, &text) : E_LIMIT;
    if (r < 0)
        return r;
    struct samples_stream *s = samples_stream_create(old->schema, old->prog);
    if (!s)
        return -ENOMEM;
    s->baseline = old->baseline + 1;
    /* The reader holds both for a moment. */
    bool is_too_much = w->memory + samples_stream_cost(s) + text > SAMPLES_MEMORY_MAX;
    r = is_too_much || s->names + text > EVENT_SIZE_MAX ? E_LIMIT : 0;
    if (r == 0)
        r = write_stream(s, old, stream, schema_id, values, stream_payload);
    if (r < 0) {
        cut_back(stream_payload, at);
        samples_stream_destroy(s);
        return r;
    }
    w->memory += samples_stream_cost(s) - samples_stream_cost(old);
    w->last_baseline = s->baseline > w->last_baseline ? s->baseline : w->last_baseline;
    w->streams[stream - 1] = s;
    samples_stream_destroy(old);
    return 0;
}

uint32_t samples_writer_baseline(const struct samples_writer *w, uint32_t stream)
{
    return stream && stream <= w->n_streams ? w->streams[stream - 1]->baseline : 0;
}

void samples_writer_limit(struct samples_writer *w, size_t rows_bytes)
{
    w->rows_max = rows_bytes && rows_bytes < ROWS_BYTES_MAX ? rows_bytes : ROWS_BYTES_MAX;
}

/* As value_eq. */
static inline bool is_same(const struct value *v, const struct samples_base *b)
{
    if (v->type != b->type)
        return false;
    if (value_is_text(v->type))
        return slice_eq(value_slice(*v), slice_of(b->text, b->n));
    if (v->u == b->bits || v->type == VALUE_NONE)
        return true;
    return v->type == VALUE_FLOAT && isnan(v->f) && isnan(samples_base_value(b).f);
}

/* The value fields that may differ from the baseline, in w->changed: every number with other bits, and all
 * text. Whether a field changed can't be predicted, so there is no branch on it. */
static size_t find_candidates(struct samples_writer *w, const struct samples_stream *s,
                              const struct value *values)
{
    size_t n = 0;
    for (uint32_t j = 0; j < s->n_values; j++) {
        const struct value *v = &values[s->value_at[j]];
        const struct samples_base *b = &s->base[s->value_at[j]];
        w->changed[n] = (uint16_t)j;
        n += (v->u != b->bits) | (v->type != b->type) | value_is_text(v->type);
    }
    return n;
}

/* The row as the reader will see it has keys of its own; only schemas with a name of two types need this
 * look. */
static bool sets_one_twice(const struct samples_stream *s, const struct value *values)
{
    struct value row[EVENT_FIELDS_MAX];
    for (uint32_t i = 0; i < s->schema->n_fields; i++)
        row[i] = s->schema->fields[i].role == ROLE_KEY ? samples_base_value(&s->base[i]) : values[i];
    return samples_sets_one_twice(s->schema, row);
}

/* A row on its way: */
struct row {
    size_t n;     /* fields that changed, in w->changed */
    size_t text;  /* bytes of text it has */
    size_t fresh; /* of that in fields that changed */
};

/* What changed, that it is allowed, and room to keep it. */
static int look_at_row(struct samples_writer *w, const struct samples_stream *s, const struct value *values,
                       struct row *row)
{
    bool is_rolling = w->flags & SAMPLES_ROLL;
    size_t candidates = find_candidates(w, s, values);
    *row = (struct row){.text = s->text};
    for (size_t c = 0; c < candidates; c++) {
        uint16_t j = w->changed[c];
        const struct value *v = &values[s->value_at[j]];
        struct samples_base *b = &s->base[s->value_at[j]];
        const struct field *f = &s->schema->fields[s->value_at[j]];
        if (is_same(v, b))
            continue;
        w->changed[row->n++] = j;
        int r = check_value(f, v);
        if (r < 0)
            return r;
        if (!value_is_text(f->type))
            continue;
        if (is_rolling && text_size(v) && reserve_text(b, text_size(v)) < 0)
            return -ENOMEM;
        row->text += text_size(v) - b->n;
        row->fresh += text_size(v);
    }
    if (!s->schema->names_once && sets_one_twice(s, values))
        return E_PROTO;
    bool is_too_much = is_rolling && w->memory + row->text - s->text > SAMPLES_MEMORY_MAX;
    return is_too_much || s->names + row->text > EVENT_SIZE_MAX ? E_LIMIT : 0;
}

/* Which fields changed: a bitmap; with more than eight of them in groups of eight, of which those with no bit
 * are left out, behind a bitmap of the groups. */
static char *put_marks(char *to, const uint16_t *changed, size_t n, uint32_t n_values)
{
    unsigned char groups[EVENT_FIELDS_MAX / 8] = {0}, top[EVENT_FIELDS_MAX / 64] = {0};
    for (size_t c = 0; c < n; c++) {
        groups[changed[c] / 8] |= (unsigned char)(1 << changed[c] % 8);
        top[changed[c] / 64] |= (unsigned char)(1 << changed[c] / 8 % 8);
    }
    uint32_t n_groups = (n_values + 7) / 8;
    if (n_groups > 1)
        for (uint32_t i = 0; i * 8 < n_groups; i++)
            *to++ = (char)top[i];
    for (uint32_t i = 0; i < n_groups; i++)
        if (groups[i])
            *to++ = (char)groups[i];
    return to;
}

static char *put_row_head(const struct samples_writer *w, char *to, uint32_t stream, int64_t time_ns,
                          bool is_changed)
{
    bool has_time = w->n_rows && time_ns != w->last_ns;
    uint64_t step = zigzag((int64_t)stream - w->last_stream);
    to = put_varint(to, step << ROW_SHIFT | (has_time ? ROW_TIME : 0) | (is_changed ? ROW_CHANGED : 0));
    if (!(w->flags & SAMPLES_ROLL))
        *to++ = (char)w->streams[stream - 1]->baseline;
    return has_time ? put_varint(to, zigzag((int64_t)((uint64_t)time_ns - (uint64_t)w->last_ns))) : to;
}

/* The bytes of the row, from `to` on; w->next is what the baselines become. */
static char *put_row(struct samples_writer *w, char *to, uint32_t stream, int64_t time_ns,
                     const struct value *values, const struct row *row)
{
    const struct samples_stream *s = w->streams[stream - 1];
    to = put_row_head(w, to, stream, time_ns, row->n > 0);
    if (row->n)
        to = put_marks(to, w->changed, row->n, s->n_values);
    for (size_t c = 0; c < row->n; c++) {
        uint32_t i = s->value_at[w->changed[c]];
        w->next[c] = s->base[i];
        to = put_value(to, &s->schema->fields[i], &values[i], &w->next[c]);
    }
    return to;
}

static void roll_row(struct samples_writer *w, struct samples_stream *s, const struct value *values,
                     const struct row *row)
{
    for (size_t c = 0; c < row->n; c++) {
        uint32_t i = s->value_at[w->changed[c]];
        roll(&s->base[i], &w->next[c], &values[i]);
    }
    w->memory += row->text - s->text;
    s->text = row->text;
}

int samples_writer_add(struct samples_writer *w, uint32_t stream, int64_t time_ns, const struct value *values)
{
    if (stream == 0 || stream > w->n_streams)
        return -EINVAL;
    struct samples_stream *s = w->streams[stream - 1];
    struct row row;
    int r = look_at_row(w, s, values, &row);
    if (r < 0)
        return r;
    size_t cost = samples_row_cost(s, row.text);
    if (w->n_rows == SAMPLES_ROWS_MAX || w->unfolded + cost > SAMPLES_UNFOLD_MAX)
        return E_LIMIT;
    char *start = strbuf_room(&w->rows, ROW_COST + row.n * VALUE_COST + row.fresh);
    if (!start) {
        w->rows.failed = false; /* what is there stays whole */
        return -ENOMEM;
    }
    size_t size = (size_t)(put_row(w, start, stream, time_ns, values, &row) - start);
    if (w->rows.n + size > w->rows_max)
        return E_LIMIT;
    strbuf_advance(&w->rows, size);
    if (w->flags & SAMPLES_ROLL)
        roll_row(w, s, values, &row);
    if (w->n_rows++ == 0)
        w->first_ns = time_ns;
    w->last_ns = time_ns;
    w->last_stream = stream;
    w->unfolded += cost;
    return 0;
}

size_t samples_writer_rows(const struct samples_writer *w)
{
    return w->n_rows;
}

size_t samples_writer_bytes(const struct samples_writer *w)
{
    return w->rows.n;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

size_t samples_head_size(uint64_t first_seq, const struct batch_clock *clock)
{
    return 1 + varint_size(first_seq) + 8 + varint_size(zigzag(clock->offset_ns)) + varint_size(clock->bound_ns + 1) +
           varint_size(clock->generation) + varint_size(SAMPLES_ROWS_MAX);
}

static void write_head(const struct samples_writer *w, uint64_t first_seq, const struct batch_clock *clock,
                       struct strbuf *out)
{
    const struct batch_clock *before = w->flags & SAMPLES_ROLL ? &w->clock : &no_clock;
    bool has_clock = clock->offset_ns != before->offset_ns || clock->bound_ns != before->bound_ns ||
                     clock->generation != before->generation;
    unsigned flags = has_clock ? PACKET_CLOCK : 0;
    if (w->flags & SAMPLES_ROLL)
        flags |= PACKET_ROLL | (unsigned)(w->n_packets & 15) << PACKET_NUMBER_SHIFT;
    strbuf_add_char(out, (char)flags);
    strbuf_add_varint(out, first_seq);
    strbuf_add_u64(out, (uint64_t)w->first_ns);
    if (has_clock) {
        strbuf_add_varint(out, zigzag(clock->offset_ns));
        strbuf_add_varint(out, clock->bound_ns + 1); /* not known is 0 */
        strbuf_add_varint(out, clock->generation);
    }
    strbuf_add_varint(out, w->n_rows);
}

int samples_writer_finish(struct samples_writer *w, uint64_t first_seq, const struct batch_clock *clock,
                          struct strbuf *out)
{
    size_t at = out->n;
    if (w->n_rows == 0)
        return 0;
    if (first_seq == 0 || first_seq > UINT64_MAX - (w->n_rows - 1))
        return -EINVAL;
    write_head(w, first_seq, clock ? clock : &no_clock, out);
    strbuf_add_slice(out, strbuf_slice(&w->rows));
    if (strbuf_failed(out)) {
        cut_back(out, at);
        return -ENOMEM;
    }
    w->clock = clock ? *clock : no_clock;
    w->n_packets++;
    clear_packet(w);
    return 0;
}
