/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: an input is records of u8 type (0 SCHEMA, 1 STREAM, else SAMPLES), u16 length and payload, as a
 * connection brings them. Hardly any mutation has a schema's hash right, so four schemas are announced
 * before.
 *
 * Three readers get the same, but the second only what the first took: if an error left a trace in the first,
 * they come to differ. The third one only scans: it must come to the same results, counts and baselines. What
 * a packet decodes to must encode again, with and without ROLL, and decode to the same. */
#include "base/cursor.h"
#include "event/samples.h"
#include "event/schema_bytes.h"

#include <stdio.h>

enum { SCHEMAS = 4, MANY = 70, AGAIN_MAX = 64 };

struct end {
    struct samples_scratch *scratch;
    struct samples_reader *reader;
    struct batch_builder *builder;
    struct batch *batch; /* of the last packet; NULL: none */
    uint32_t unknown;
};

static struct schema *schemas[SCHEMAS];

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

#define NAME(s)            \
    {                      \
        (s), sizeof(s) - 1 \
    }

static void make_schemas(void)
{
    static const struct field types[] = {
        {.name = NAME("key"), .type = VALUE_TEXT, .role = ROLE_KEY},
        {.name = NAME("int"), .type = VALUE_INT},
        {.name = NAME("uint"), .type = VALUE_UINT},
        {.name = NAME("float"), .type = VALUE_FLOAT},
        {.name = NAME("bool"), .type = VALUE_BOOL},
        {.name = NAME("text"), .type = VALUE_TEXT},
        {.name = NAME("bytes"), .type = VALUE_BYTES},
    };
    static const struct field twice[] = {
        {.name = NAME("a"), .type = VALUE_INT},
        {.name = NAME("a"), .type = VALUE_FLOAT},
        {.name = NAME("k"), .type = VALUE_UINT, .role = ROLE_KEY},
        {.name = NAME("c"), .type = VALUE_UINT, .kind = KIND_COUNTER},
    };
    struct field many[MANY];
    char names[MANY][8];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "f%d", i);
        many[i] = (struct field){.name = slice_str(names[i]), .type = (uint8_t)(1 + i % 6)};
        many[i].kind = i % 2 ? KIND_COUNTER : KIND_GAUGE;
    }
    check(schema_create(slice_str("types"), types, 7, &schemas[0]) == 0);
    check(schema_create(slice_str("twice"), twice, 4, &schemas[1]) == 0);
    check(schema_create(slice_str("many"), many, MANY, &schemas[2]) == 0);
    check(schema_create(slice_str("none"), NULL, 0, &schemas[3]) == 0);
}

/* The same as give makes of it, but no events. */
static int scan(struct end *e, uint8_t type, struct slice payload, struct samples_count *count)
{
    struct diag why = {0};
    if (type == 0)
        return samples_reader_schema(e->reader, payload, &why);
    if (type == 1)
        return samples_reader_stream(e->reader, payload, &why);
    int r = samples_reader_scan(e->reader, payload, count, &why);
    check(r == 0 || why.message[0]);
    return r;
}

static void check_same_knowledge(const struct end *a, const struct end *b)
{
    uint32_t n = samples_reader_streams(a->reader);
    check(n == samples_reader_streams(b->reader));
    check(samples_reader_context(a->reader).number == samples_reader_context(b->reader).number);
    for (uint32_t i = 1; i <= n; i++) {
        struct samples_snapshot s, t;
        check(samples_reader_snapshot(a->reader, i, &s) == 0 &&
              samples_reader_snapshot(b->reader, i, &t) == 0);
        check(s.is_rolled == t.is_rolled && s.baseline == t.baseline && slice_eq(s.state, t.state));
    }
}

static int give(struct end *e, uint8_t type, struct slice payload)
{
    struct diag why = {0};
    batch_unref(e->batch);
    e->batch = NULL;
    if (type == 0)
        return samples_reader_schema(e->reader, payload, &why);
    if (type == 1)
        return samples_reader_stream(e->reader, payload, &why);
    struct batch_origin origin = {.epoch = 1};
    int r = samples_reader_packet(e->reader, payload, slice_str("h"), e->builder, &origin, &e->unknown, &why);
    check(r == 0 || (why.message[0] && batch_builder_count(e->builder) == 0));
    if (r == 0)
        e->batch = batch_builder_finish(e->builder, NULL);
    return r;
}

static void end_init(struct end *e, struct registry *registry, bool knows_schemas)
{
    *e = (struct end){.scratch = samples_scratch_create(), .builder = batch_builder_create(registry, 0)};
    e->reader = samples_reader_create(registry, e->scratch);
    for (uint32_t i = 0; i < SCHEMAS && knows_schemas; i++) {
        struct strbuf out = {0};
        strbuf_add_u32(&out, i + 1);
        schema_write(&out, schemas[i]);
        check(give(e, 0, strbuf_slice(&out)) == 0);
        strbuf_fini(&out);
    }
}

static void end_fini(struct end *e)
{
    batch_unref(e->batch);
    batch_builder_destroy(e->builder);
    samples_reader_destroy(e->reader);
    samples_scratch_destroy(e->scratch);
}

static void check_same(const struct batch *a, const struct batch *b)
{
    if (!a || !b) {
        check(a == b);
        return;
    }
    check(a->n == b->n && a->origin.first_seq == b->origin.first_seq);
    check(a->origin.clock.offset_ns == b->origin.clock.offset_ns &&
          a->origin.clock.bound_ns == b->origin.clock.bound_ns &&
          a->origin.clock.generation == b->origin.clock.generation);
    for (size_t i = 0; i < a->n; i++)
        check(schema_same(a->events[i].schema, b->events[i].schema) &&
              event_eq(&a->events[i], &b->events[i]));
}

static bool same_stream(const struct event *a, const struct event *b)
{
    if (a->schema != b->schema || !slice_eq(a->prog, b->prog))
        return false;
    for (uint32_t i = 0; i < a->schema->n_fields; i++)
        if (a->schema->fields[i].role == ROLE_KEY && !value_eq(a->values[i], b->values[i]))
            return false;
    return true;
}

/* The number of the event's stream at the writer, announced to the reader if it is new; 0: over a limit of
 * the writer, which counts the names of missing fields too. */
static uint32_t stream_of(struct samples_writer *w, struct end *to, const struct batch *b, size_t at,
                          uint32_t *numbers)
{
    for (size_t i = 0; i < at; i++)
        if (same_stream(&b->events[i], &b->events[at]))
            return numbers[i];
    const struct event *e = &b->events[at];
    struct strbuf schema = {0}, stream = {0};
    uint32_t number = 0;
    int r = samples_writer_announce(w, e->schema, e->prog, e->values, &schema, &stream, &number);
    check(r == 0 || r == E_LIMIT);
    check(schema.n == 0 || give(to, 0, strbuf_slice(&schema)) == 0);
    check(r < 0 || give(to, 1, strbuf_slice(&stream)) == 0);
    strbuf_fini(&schema);
    strbuf_fini(&stream);
    return number;
}

static void encode_again(struct registry *registry, const struct batch *b, enum samples_flags flags)
{
    uint32_t numbers[AGAIN_MAX];
    struct end to;
    struct samples_writer *w = samples_writer_create(flags);
    struct strbuf packet = {0};
    end_init(&to, registry, false);
    bool is_whole = b->n <= AGAIN_MAX;
    for (size_t i = 0; i < b->n && is_whole; i++) {
        numbers[i] = stream_of(w, &to, b, i, numbers);
        int r = numbers[i] ? samples_writer_add(w, numbers[i], b->events[i].time_ns, b->events[i].values)
                           : E_LIMIT;
        check(r == 0 || r == E_LIMIT);
        is_whole = r == 0;
    }
    if (is_whole) {
        check(samples_writer_finish(w, b->origin.first_seq, &b->origin.clock, &packet) == 0);
        check(packet.n <= SAMPLES_BYTES_MAX && give(&to, 2, strbuf_slice(&packet)) == 0 && to.unknown == 0);
        check_same(b, to.batch);
    }
    strbuf_fini(&packet);
    samples_writer_destroy(w);
    end_fini(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!schemas[0])
        make_schemas();
    struct registry *registry = registry_create();
    struct end all, good, scanner;
    end_init(&all, registry, true);
    end_init(&good, registry, true);
    end_init(&scanner, registry, true);
    struct cursor c = cursor_of(slice_of((const char *)data, size));
    while (cursor_left(&c)) {
        uint8_t type = cursor_u8(&c);
        size_t n = cursor_u16(&c);
        struct slice payload = cursor_bytes(&c, n < cursor_left(&c) ? n : cursor_left(&c));
        struct samples_count count = {0};
        int r = give(&all, type, payload);
        check(scan(&scanner, type, payload, &count) == r);
        if (r < 0)
            continue;
        check(type < 2 ||
              (count.unknown == all.unknown && count.rows - count.unknown == (all.batch ? all.batch->n : 0)));
        check(give(&good, type, payload) == 0);
        check_same(all.batch, good.batch);
        check(all.unknown == good.unknown);
        if (all.batch) {
            encode_again(registry, all.batch, SAMPLES_ROLL);
            encode_again(registry, all.batch, 0);
        }
    }
    check_same_knowledge(&all, &scanner);
    end_fini(&all);
    end_fini(&good);
    end_fini(&scanner);
    registry_destroy(registry);
    return 0;
}
