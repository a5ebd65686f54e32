/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader knows: schemas and streams as they were announced, or written down and read again.
 *
 * Everything a peer says is checked here. Bounds: streams, schemas and baselines by SAMPLES_MEMORY_MAX,
 * counted before allocating; a stream by EVENT_SIZE_MAX, as its rows. */
#include "event/samples_reader.h"

#include "base/mem.h"
#include "base/text.h"
#include "event/schema_bytes.h"

#include <errno.h>

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
    r->context.clock = samples_no_clock;
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

int samples_refuse(struct diag *why, const char *what)
{
    return diag_set(why, E_PROTO, 0, "samples: %s", what);
}

int samples_too_much(struct diag *why)
{
    return diag_set(why, E_LIMIT, 0, "samples: schemas and streams of more than %d bytes",
                    SAMPLES_MEMORY_MAX);
}

void *samples_reserve(void *array, uint32_t n, uint32_t *cap, size_t item)
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
        return schema_same(r->schemas[number - 1], s)
                   ? 0
                   : samples_refuse(why, "a schema's number with another meaning");
    if (r->memory + samples_schema_cost(s) > SAMPLES_MEMORY_MAX)
        return samples_too_much(why);
    const struct schema **schemas =
        samples_reserve(r->schemas, r->n_schemas + 1, &r->cap_schemas, sizeof *schemas);
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
        return samples_refuse(why, "SCHEMA is cut short");
    int rc = check_number(number, r->n_schemas, SAMPLES_SCHEMAS_MAX, "schema", why);
    if (rc < 0)
        return rc;
    struct schema *s;
    const char *what = "";
    rc = schema_read(&c, &s, &what);
    if (rc < 0)
        return rc == E_PROTO ? samples_refuse(why, what) : rc;
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
    return f->type == VALUE_BOOL && b->bits > 1 ? samples_refuse(why, "a bool that is neither true nor false")
                                                : 0;
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
            return samples_refuse(why, "a decimal out of range");
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
    if (!value_text_is_allowed(type, s))
        return samples_refuse(why, type == VALUE_TEXT ? "a text that is not UTF-8"
                                                      : "a number that is not spelt as one");
    b->text = (char *)(uintptr_t)s.p;
    b->n = (uint32_t)s.n;
    return 0;
}

int samples_read_value(struct cursor *c, const struct field *f, struct samples_base *b, struct diag *why)
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
    return c->bad ? samples_refuse(why, "a value is cut short") : rc;
}

/* The values of an announced stream, into its empty baseline; text is borrowed. */
static int read_baseline(struct cursor *c, struct samples_stream *s, struct diag *why)
{
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        int rc = samples_read_value(c, &s->schema->fields[i], &s->base[i], why);
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
        return samples_too_much(why);
    struct samples_kept **streams = samples_reserve(r->streams, number, &r->cap_streams, sizeof *streams);
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
        return samples_refuse(why, c.bad ? "STREAM is cut short" : "a prog that the model does not allow");
    int rc = check_number(number, r->n_streams, SAMPLES_STREAMS_MAX, "stream", why);
    if (rc < 0)
        return rc;
    if (schema == 0 || schema > r->n_schemas)
        return samples_refuse(why, "a stream of a schema that was not announced");
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
        if (value_is_text(s->base[i].type) &&
            !value_text_is_allowed(s->base[i].type, slice_of(s->base[i].text, s->base[i].n)))
            return samples_refuse(why, "a text that its type does not allow");
    return samples_is_prog(s->prog) ? 0 : samples_refuse(why, "a prog that the model does not allow");
}

int samples_reader_restore(struct samples_reader *r, const struct samples_snapshot *snapshot,
                           struct diag *why)
{
    struct samples_stream *s = &r->scratch->stream;
    const char *what = "";
    if (snapshot->number == 0 || snapshot->number > SAMPLES_STREAMS_MAX)
        return samples_refuse(why, "a stream's number out of range");
    int rc = samples_state_read(snapshot->schema, snapshot->state, s, &what);
    if (rc < 0)
        return rc == E_PROTO ? samples_refuse(why, what) : diag_set(why, rc, 0, "samples: %s", what);
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
