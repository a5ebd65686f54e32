/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a block: columns back to rows. Everything is checked here, at the edge: the checksum says that the
 * bytes are what somebody wrote, not that they mean well. Memory is bounded by BLOCK_EVENTS_MAX and
 * BLOCK_VALUES_MAX whatever the block claims, and is taken only after those checks. */
#include "event/block.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/block_layout.h"
#include "event/pack.h"
#include "event/schema_bytes.h"

#include <errno.h>

enum { AT_LENGTH = 4, AT_CRC = 8, AT_FLAGS = 12, AT_GENERATION = 20, AT_EVENTS = 16 };

static uint32_t u32_at(struct slice data, size_t at)
{
    struct cursor c = cursor_of(slice_from(data, at));
    return cursor_u32(&c);
}

/* The checksum is over the whole block with its own four bytes as zeros. */
static uint32_t checksum(struct slice block)
{
    uint32_t crc = crc32c(0, slice_of(block.p, AT_CRC));
    crc = crc32c(crc, SLICE_LIT("\0\0\0\0"));
    return crc32c(crc, slice_from(block, AT_CRC + 4));
}

int64_t block_check(struct slice data)
{
    size_t seen = data.n < 4 ? data.n : 4;
    if (memcmp(data.p, BLOCK_MAGIC, seen < 3 ? seen : 3) != 0)
        return E_PROTO;
    if (seen == 4 && data.p[3] != BLOCK_MAGIC[3])
        return data.p[3] > BLOCK_MAGIC[3] && data.p[3] <= '9' ? E_VERSION : E_PROTO;
    if (data.n < BLOCK_HEAD)
        return 0;
    uint32_t length = u32_at(data, AT_LENGTH);
    if (length > BLOCK_BODY_MAX)
        return E_LIMIT;
    if (data.n - BLOCK_HEAD < length)
        return 0;
    struct slice block = slice_of(data.p, BLOCK_HEAD + length);
    if (checksum(block) != u32_at(block, AT_CRC))
        return E_DAMAGE;
    return (int64_t)block.n;
}

size_t block_resync(struct slice data)
{
    for (size_t at = 1; at < data.n;) {
        const char *p = memchr(data.p + at, BLOCK_MAGIC[0], data.n - at);
        if (!p)
            break;
        at = (size_t)(p - data.p);
        size_t left = data.n - at;
        if (memcmp(p, BLOCK_MAGIC, left < 4 ? left : 4) == 0)
            return at;
        at++;
    }
    return data.n;
}

struct batch_origin block_origin(struct slice block)
{
    struct batch_origin o;
    struct cursor c = cursor_of(slice_from(block, AT_GENERATION));
    o.clock.generation = cursor_u32(&c);
    memcpy(o.producer, cursor_bytes(&c, sizeof o.producer).p, sizeof o.producer);
    o.epoch = cursor_u64(&c);
    o.first_seq = cursor_u64(&c);
    o.clock.offset_ns = (int64_t)cursor_u64(&c);
    o.clock.bound_ns = cursor_u64(&c);
    o.keep_ns = (int64_t)cursor_u64(&c);
    return o;
}

uint32_t block_count(struct slice block)
{
    return u32_at(block, AT_EVENTS);
}

/* The rows of one schema while they are being read. */
struct group {
    const struct schema *schema;
    size_t rows, next;
    struct value *values; /* rows x n_fields */
};

struct reading {
    struct cursor c;
    struct batch_builder *out;
    struct diag *why;
    size_t n_events, n_schemas;
    struct group *groups;
    struct slice *strings;
    size_t n_strings;
    uint64_t *scratch; /* n_events numbers, for the column at hand */
    uint64_t *order, *time, *level, *host, *prog;
    size_t longest;    /* longest text value of the block */
    struct arena work; /* all of the above; gone when the block is read */
};

static int refuse(struct reading *r, const char *what)
{
    return diag_set(r->why, E_PROTO, 0, "block: %s", what);
}

static void *work_alloc(struct reading *r, size_t n, size_t size)
{
    void *p = arena_alloc(&r->work, n * size + 1);
    if (p)
        memset(p, 0, n * size + 1);
    return p;
}

/* Blocks of one sender have the same ones again and again: then there is nothing to make or to check. */
static int read_schema(struct reading *r, const struct schema **out)
{
    struct cursor at = r->c;
    const struct schema *known = registry_by_hash(batch_builder_registry(r->out), cursor_u64(&at));
    if (known && schema_read_known(&r->c, known)) {
        *out = known;
        return 0;
    }
    struct schema *s;
    const char *what = "";
    int rc = schema_read(&r->c, &s, &what);
    if (rc < 0)
        return rc == E_PROTO ? refuse(r, what) : rc;
    return registry_intern(batch_builder_registry(r->out), s, out);
}

static int read_schemas(struct reading *r)
{
    r->groups = work_alloc(r, r->n_schemas, sizeof *r->groups);
    if (!r->groups)
        return -ENOMEM;
    for (size_t i = 0; i < r->n_schemas; i++) {
        int rc = read_schema(r, &r->groups[i].schema);
        if (rc == 0) /* the builder's reference keeps it when the registry forgets */
            rc = batch_builder_use_schema(r->out, r->groups[i].schema);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A string table: count, lengths, bytes. The strings stay where they are. */
static int read_strings(struct reading *r, size_t max, struct slice **out, size_t *n)
{
    uint64_t count = cursor_varint(&r->c);
    if (count > max || count > cursor_left(&r->c))
        return refuse(r, "a string table is larger than the block");
    struct slice *s = work_alloc(r, count, sizeof *s);
    if (!s)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        s[i].n = cursor_varint(&r->c);
    for (size_t i = 0; i < count; i++)
        s[i] = cursor_bytes(&r->c, s[i].n);
    if (r->c.bad)
        return refuse(r, "a string table is cut short");
    *out = s;
    *n = count;
    return 0;
}

static bool is_origin_name(struct slice s)
{
    return s.n <= EVENT_ORIGIN_MAX && text_is_utf8(s) && !text_has_control(s);
}

static int read_heads(struct reading *r)
{
    int rc = read_strings(r, r->n_events * 2, &r->strings, &r->n_strings);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->n_strings; i++)
        if (!is_origin_name(r->strings[i]))
            return refuse(r, "a host or prog that the model does not allow");
    uint64_t **columns[] = {&r->order, &r->time, &r->level, &r->host, &r->prog};
    const uint64_t limits[] = {r->n_schemas, UINT64_MAX, LEVEL_COUNT, r->n_strings,
                               r->n_strings}; /* time: any */
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
        uint64_t *v = *columns[k] = work_alloc(r, r->n_events, sizeof *v);
        if (!v)
            return -ENOMEM;
        pack_read(&r->c, v, r->n_events);
        for (size_t i = 0; limits[k] != UINT64_MAX && i < r->n_events; i++)
            if (v[i] >= limits[k])
                return refuse(r, "a head column is out of range");
    }
    return r->c.bad ? refuse(r, "the head columns are cut short") : 0;
}

/* How many rows each schema has, and the memory for their values. */
static int size_groups(struct reading *r)
{
    size_t values = 0;
    for (size_t i = 0; i < r->n_events; i++)
        r->groups[r->order[i]].rows++;
    for (size_t i = 0; i < r->n_schemas; i++) {
        struct group *g = &r->groups[i];
        values += g->rows * g->schema->n_fields;
        if (values > BLOCK_VALUES_MAX)
            return diag_set(r->why, E_LIMIT, 0, "block: more than %d values", BLOCK_VALUES_MAX);
    }
    for (size_t i = 0; i < r->n_schemas; i++) {
        struct group *g = &r->groups[i];
        g->values = batch_builder_alloc(r->out, g->rows * g->schema->n_fields * sizeof *g->values + 1);
        if (!g->values)
            return -ENOMEM;
    }
    return 0;
}

static bool bit_at(struct slice bits, size_t i)
{
    return (unsigned char)bits.p[i / 8] >> (i % 8) & 1;
}

static int count_bits(struct reading *r, struct slice bits, size_t rows, size_t *n)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        count += bit_at(bits, i);
    *n = count;
    return count == 0 || (rows % 8 && (unsigned char)bits.p[rows / 8] >> (rows % 8))
               ? refuse(r, "a bad bitmap")
               : 0;
}

static int read_bools(struct reading *r, struct value *to, size_t stride, size_t n)
{
    struct slice bits = cursor_bytes(&r->c, (n + 7) / 8);
    if (r->c.bad)
        return refuse(r, "a column is cut short");
    for (size_t i = 0; i < n; i++)
        to[i * stride] = value_bool(bit_at(bits, i));
    return 0;
}

static int read_numbers(struct reading *r, struct value *to, size_t stride, size_t n, uint8_t type)
{
    pack_read(&r->c, r->scratch, n);
    if (r->c.bad)
        return refuse(r, "a column is cut short");
    for (size_t i = 0; i < n; i++)
        to[i * stride] = (struct value){.u = r->scratch[i], .type = type};
    if (type == VALUE_FLOAT) /* NaN is one value */
        for (size_t i = 0; i < n; i++)
            to[i * stride] = value_float(to[i * stride].f);
    return 0;
}

static int read_decimals(struct reading *r, struct value *to, size_t stride, size_t n)
{
    uint8_t k = cursor_u8(&r->c);
    if (k > BLOCK_DECIMAL_MAX)
        return refuse(r, "a decimal column out of range");
    pack_read(&r->c, r->scratch, n);
    if (r->c.bad)
        return refuse(r, "a column is cut short");
    for (size_t i = 0; i < n; i++)
        to[i * stride] = value_float((double)(int64_t)r->scratch[i] / block_powers[k]);
    return 0;
}

static int check_text(struct reading *r, struct slice s, uint8_t type)
{
    if (s.n > EVENT_TEXT_MAX)
        return diag_set(r->why, E_LIMIT, 0, "block: a text of %zu bytes", s.n);
    if (!value_text_is_allowed(type, s))
        return refuse(r,
                      type == VALUE_TEXT ? "a text that is not UTF-8" : "a number that is not spelt as one");
    r->longest = s.n > r->longest ? s.n : r->longest;
    return 0;
}

static struct value text_value(struct slice s, uint8_t type)
{
    return (struct value){.p = s.p, .n = (uint32_t)s.n, .type = type};
}

static int read_plain(struct reading *r, struct value *to, size_t stride, size_t n, uint8_t type)
{
    pack_read(&r->c, r->scratch, n);
    for (size_t i = 0; i < n; i++) {
        struct slice s = cursor_bytes(&r->c, r->scratch[i]);
        if (r->c.bad)
            return refuse(r, "a column is cut short");
        int rc = check_text(r, s, type);
        if (rc < 0)
            return rc;
        to[i * stride] = text_value(s, type);
    }
    return 0;
}

static int read_dict(struct reading *r, struct value *to, size_t stride, size_t n, uint8_t type)
{
    struct slice *table;
    size_t count;
    int rc = read_strings(r, n + 1, &table, &count); /* a row taken back may have left one entry unused */
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = check_text(r, table[i], type);
    if (rc < 0)
        return rc;
    pack_read(&r->c, r->scratch, n);
    if (r->c.bad)
        return refuse(r, "a column is cut short");
    for (size_t i = 0; i < n; i++) {
        if (r->scratch[i] >= count)
            return refuse(r, "a dictionary index out of range");
        to[i * stride] = text_value(table[r->scratch[i]], type);
    }
    return 0;
}

/* n present values, stride apart. */
static int read_values(struct reading *r, uint8_t codec, struct value *to, size_t stride, size_t n,
                       uint8_t type)
{
    bool text = value_is_text(type);
    if (codec == CODEC_BITS && type == VALUE_BOOL)
        return read_bools(r, to, stride, n);
    if (codec == CODEC_INTS && !text && type != VALUE_BOOL)
        return read_numbers(r, to, stride, n, type);
    if (codec == CODEC_DECIMAL && type == VALUE_FLOAT)
        return read_decimals(r, to, stride, n);
    if (codec == CODEC_PLAIN && text)
        return read_plain(r, to, stride, n, type);
    if (codec == CODEC_DICT && text)
        return read_dict(r, to, stride, n, type);
    return refuse(r, "a column codec that does not go with its type");
}

/* The values were read to the front; moves them to the rows that have one, from the back. */
static void spread(struct value *to, size_t stride, struct slice bits, size_t rows, size_t n)
{
    for (size_t row = rows; row-- > 0;)
        to[row * stride] = bit_at(bits, row) ? to[--n * stride] : value_none();
}

static int read_column(struct reading *r, struct group *g, uint32_t field)
{
    uint8_t codec = cursor_u8(&r->c), type = g->schema->fields[field].type;
    size_t stride = g->schema->n_fields, n = g->rows;
    struct value *to = g->values + field;
    struct slice bits = {"", 0};
    if (codec == CODEC_EMPTY) {
        for (size_t i = 0; i < n; i++)
            to[i * stride] = value_none();
        return r->c.bad ? refuse(r, "a column is missing") : 0;
    }
    if (codec & CODEC_HOLES) {
        bits = cursor_bytes(&r->c, (n + 7) / 8);
        if (r->c.bad)
            return refuse(r, "a bitmap is cut short");
        int rc = count_bits(r, bits, g->rows, &n);
        if (rc < 0)
            return rc;
    }
    int rc =
        n ? read_values(r, codec & ~CODEC_HOLES, to, stride, n, type) : refuse(r, "a schema without events");
    if (rc == 0 && (codec & CODEC_HOLES))
        spread(to, stride, bits, g->rows, n);
    return rc;
}

/* Names may come twice in a schema (one a type), of which an event may set one; and its size is bounded. Both
 * are looked at only where the block could break them. */
static int check_rows(struct reading *r, const struct group *g)
{
    uint32_t n_fields = g->schema->n_fields;
    bool may_be_large = r->longest * n_fields > EVENT_SIZE_MAX / 2;
    for (size_t row = 0; row < g->rows && (may_be_large || !g->schema->names_once); row++) {
        const struct value *v = g->values + row * n_fields;
        size_t size = g->schema->name.n + 32;
        for (uint32_t i = 0; i < n_fields; i++) {
            if (v[i].type == VALUE_NONE)
                continue;
            size += g->schema->fields[i].name.n + 8 + (value_is_text(v[i].type) ? v[i].n : 0);
            for (uint32_t k = 0; k < i && !g->schema->names_once; k++)
                if (v[k].type != VALUE_NONE && slice_eq(g->schema->fields[k].name, g->schema->fields[i].name))
                    return refuse(r, "an event with one field twice");
        }
        if (size > EVENT_SIZE_MAX)
            return diag_set(r->why, E_LIMIT, 0, "block: an event larger than %d bytes", EVENT_SIZE_MAX);
    }
    return 0;
}

static int read_columns(struct reading *r)
{
    r->scratch = work_alloc(r, r->n_events, sizeof *r->scratch);
    if (!r->scratch)
        return -ENOMEM;
    for (size_t i = 0; i < r->n_schemas; i++) {
        for (uint32_t f = 0; f < r->groups[i].schema->n_fields; f++) {
            int rc = read_column(r, &r->groups[i], f);
            if (rc < 0)
                return rc;
        }
        int rc = check_rows(r, &r->groups[i]);
        if (rc < 0)
            return rc;
    }
    return cursor_left(&r->c) ? refuse(r, "bytes behind the last column") : 0;
}

static int add_events(struct reading *r)
{
    struct event *e = batch_builder_bulk(r->out, r->n_events);
    if (!e)
        return -ENOMEM;
    for (size_t i = 0; i < r->n_events; i++) {
        struct group *g = &r->groups[r->order[i]];
        e[i] = (struct event){.time_ns = (int64_t)r->time[i],
                              .host = r->strings[r->host[i]],
                              .prog = r->strings[r->prog[i]],
                              .schema = g->schema,
                              .values = g->values + g->next++ * g->schema->n_fields,
                              .level = (uint8_t)r->level[i]};
    }
    return 0;
}

int block_decode(struct slice block, struct batch_builder *out, struct diag *why)
{
    struct reading r = {.out = out, .why = why, .n_events = block_count(block)};
    struct cursor head = cursor_of(slice_from(block, AT_FLAGS));
    if (cursor_u16(&head) & 0xff)
        return diag_set(why, E_VERSION, 0, "block: needs a later version of gridline");
    r.n_schemas = cursor_u16(&head);
    if (r.n_events == 0 || r.n_events > BLOCK_EVENTS_MAX || r.n_schemas > BLOCK_SCHEMAS_MAX ||
        r.n_schemas == 0)
        return diag_set(why, E_LIMIT, 0, "block: %zu events of %zu schemas", r.n_events, r.n_schemas);
    struct slice body = slice_from(block, BLOCK_HEAD);
    if (!batch_builder_borrows(out)) {
        char *copy = batch_builder_alloc(out, block.n + 1);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, block.p, block.n);
        block.p = copy;
        body.p = copy + BLOCK_HEAD;
    }
    r.c = cursor_of(body);
    int rc = read_schemas(&r);
    if (rc == 0)
        rc = read_heads(&r);
    if (rc == 0)
        rc = size_groups(&r);
    if (rc == 0)
        rc = read_columns(&r);
    if (rc == 0)
        rc = add_events(&r);
    arena_fini(&r.work);
    if (rc < 0)
        return rc;
    struct batch_origin origin = block_origin(block);
    batch_builder_set_origin(out, &origin);
    if (!batch_builder_borrows(out))
        batch_builder_set_block(out, block);
    return 0;
}
