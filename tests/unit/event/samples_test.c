/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of samples: what the reader gives is what the writer was given. */
#include "unit/event/random_event.h"

#include "base/mem.h"
#include "event/block.h"
#include "event/samples_layout.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static const struct slice host = {"h", 1};

/* A connection with a writer at one end and a reader at the other. */
struct link {
    struct registry *registry;
    struct samples_writer *w;
    struct samples_scratch *scratch, *other; /* the second for the twin */
    struct samples_reader *r;
    struct batch_builder *builder;
    struct strbuf schema, stream, packet;
    uint64_t next_seq;
    size_t announced_bytes, packet_bytes;
};

static void link_open(struct link *l, enum samples_flags flags)
{
    *l = (struct link){.registry = registry_create(), .w = samples_writer_create(flags), .next_seq = 1};
    l->scratch = samples_scratch_create();
    l->other = samples_scratch_create();
    l->r = samples_reader_create(l->registry, l->scratch);
    l->builder = batch_builder_create(l->registry, 0);
    assert_true(l->registry && l->w && l->r && l->builder);
}

static void link_close(struct link *l)
{
    samples_writer_destroy(l->w);
    samples_reader_destroy(l->r);
    samples_scratch_destroy(l->scratch);
    samples_scratch_destroy(l->other);
    batch_builder_destroy(l->builder);
    registry_destroy(l->registry);
    strbuf_fini(&l->schema);
    strbuf_fini(&l->stream);
    strbuf_fini(&l->packet);
}

/* The other end of a new connection. */
static void link_again(struct link *l)
{
    samples_writer_reset(l->w);
    samples_reader_destroy(l->r);
    l->r = samples_reader_create(l->registry, l->scratch);
    assert_non_null(l->r);
}

static uint32_t announce(struct link *l, const struct schema *s, const char *prog, const struct value *values)
{
    uint32_t number = 0;
    struct diag why = {0};
    strbuf_reset(&l->schema);
    strbuf_reset(&l->stream);
    assert_int_equal(
        samples_writer_announce(l->w, s, slice_str(prog), values, &l->schema, &l->stream, &number), 0);
    if (l->schema.n && samples_reader_schema(l->r, strbuf_slice(&l->schema), &why) < 0)
        fail_msg("%s", why.message);
    if (samples_reader_stream(l->r, strbuf_slice(&l->stream), &why) < 0)
        fail_msg("%s", why.message);
    l->announced_bytes += l->schema.n + l->stream.n;
    return number;
}

static void finish(struct link *l, const struct batch_clock *clock)
{
    strbuf_reset(&l->packet);
    uint64_t n = samples_writer_rows(l->w);
    assert_int_equal(samples_writer_finish(l->w, l->next_seq, clock, &l->packet), 0);
    assert_int_equal(samples_writer_rows(l->w), 0);
    assert_true(l->packet.n <= SAMPLES_BYTES_MAX);
    l->next_seq += n;
    l->packet_bytes += l->packet.n;
}

/* A reader that knows what l->r knows, by way of snapshots. */
static struct samples_reader *make_twin(struct link *l)
{
    struct samples_reader *twin = samples_reader_create(l->registry, l->other);
    struct samples_context context = samples_reader_context(l->r);
    struct diag why;
    assert_non_null(twin);
    for (uint32_t i = samples_reader_streams(l->r); i > 0; i--) { /* any order */
        struct samples_snapshot s;
        assert_int_equal(samples_reader_snapshot(l->r, i, &s), 0);
        assert_int_equal(samples_reader_restore(twin, &s, &why), 0);
    }
    samples_reader_set_context(twin, &context);
    return twin;
}

static void check_twin(struct link *l, struct samples_reader *twin)
{
    struct samples_context a = samples_reader_context(l->r), b = samples_reader_context(twin);
    assert_int_equal(samples_reader_streams(twin), samples_reader_streams(l->r));
    assert_int_equal(a.number, b.number);
    assert_true(a.clock.offset_ns == b.clock.offset_ns && a.clock.bound_ns == b.clock.bound_ns &&
                a.clock.generation == b.clock.generation);
    for (uint32_t i = 1; i <= samples_reader_streams(l->r); i++) {
        struct samples_snapshot s, t;
        assert_int_equal(samples_reader_snapshot(l->r, i, &s), 0);
        assert_int_equal(samples_reader_snapshot(twin, i, &t), 0);
        assert_ptr_equal(s.schema, t.schema);
        assert_true(s.baseline == t.baseline && s.is_rolled == t.is_rolled && slice_eq(s.state, t.state));
    }
    samples_reader_destroy(twin);
}

/* What the reader makes of a packet: a batch (or NULL) and *rc. */
static struct batch *receive_only(struct link *l, struct slice packet, int *rc)
{
    struct batch_origin origin = {.producer = {7}, .epoch = 3};
    uint32_t unknown = 99;
    struct diag why = {0};
    *rc = samples_reader_packet(l->r, packet, host, l->builder, &origin, &unknown, &why);
    if (*rc < 0) {
        assert_true(*rc == -ENOMEM || why.message[0]);
        assert_int_equal(batch_builder_count(l->builder), 0);
        return NULL;
    }
    assert_true(batch_builder_count(l->builder) == 0 || batch_builder_full(l->builder));
    struct batch *b = batch_builder_finish(l->builder, NULL);
    *rc = (int)unknown;
    return b;
}

/* The same; and a twin that only scans it comes to the same result and to the same state. */
static struct batch *receive(struct link *l, struct slice packet, int *rc)
{
    struct samples_reader *twin = make_twin(l);
    struct samples_count count = {0};
    struct diag why = {0};
    int scanned = samples_reader_scan(twin, packet, &count, &why);
    struct batch *b = receive_only(l, packet, rc);
    if (*rc < 0) {
        assert_int_equal(scanned, *rc);
        assert_true(why.message[0]);
    } else {
        struct samples_count head;
        assert_int_equal(scanned, 0);
        assert_int_equal(count.unknown, *rc);
        assert_int_equal(count.rows - count.unknown, b ? b->n : 0);
        assert_true(!b || count.first_seq == b->origin.first_seq);
        assert_int_equal(samples_packet_count(packet, &head), 0);
        assert_true(head.first_seq == count.first_seq && head.rows == count.rows);
    }
    check_twin(l, twin);
    return b;
}

static struct batch *pass(struct link *l, const struct batch_clock *clock)
{
    int rc;
    uint64_t first = l->next_seq;
    finish(l, clock);
    struct batch *b = receive(l, strbuf_slice(&l->packet), &rc);
    assert_int_equal(rc, 0);
    assert_non_null(b);
    assert_int_equal(b->origin.first_seq, first);
    assert_int_equal(b->origin.epoch, 3);
    assert_int_equal(b->origin.producer[0], 7);
    return b;
}

static struct schema *make_schema(const char *name, const struct field *fields, size_t n)
{
    struct schema *s;
    assert_int_equal(schema_create(slice_str(name), fields, n, &s), 0);
    return s;
}

/* Rows as they were given. */
enum { STREAMS = 6, ROOM = 48, EXPECTED = 600 };

struct model {
    const struct schema *schema;
    char prog[8];
    struct value values[EVENT_FIELDS_MAX];
    char text[EVENT_FIELDS_MAX][ROOM];
    uint32_t number;
};

static uint8_t random_type(uint64_t *seed)
{
    return (uint8_t)(1 + random_below(seed, VALUE_TYPES - 1));
}

/* With many fields now and then, keys anywhere, and sometimes one name with two types. */
static struct schema *random_schema(uint64_t *seed, unsigned number)
{
    static struct field fields[EVENT_FIELDS_MAX];
    static char names[EVENT_FIELDS_MAX][8];
    char name[16];
    size_t n = random_below(seed, 4) ? 1 + random_below(seed, 20) : 1 + random_below(seed, EVENT_FIELDS_MAX);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "f%zu", i);
        fields[i] = (struct field){.name = slice_str(names[i]), .type = random_type(seed)};
        fields[i].role = random_below(seed, 5) == 0 ? ROLE_KEY : ROLE_VALUE;
        fields[i].kind = (uint8_t)random_below(seed, KIND_TEXT + 1);
    }
    if (n > 1 && fields[0].type != fields[n - 1].type && random_below(seed, 3) == 0)
        fields[n - 1].name = fields[0].name;
    (void)snprintf(name, sizeof name, "s%u", number);
    return make_schema(name, fields, n);
}

static struct value random_of(uint64_t *seed, uint8_t type, char *room)
{
    for (;;) {
        struct value v = random_value(seed, room, ROOM);
        if (v.type == type)
            return v;
    }
}

/* Steps as sensors make them, jumps, and values that go missing. */
static void change(uint64_t *seed, struct model *m, uint32_t i)
{
    struct value *v = &m->values[i];
    uint8_t type = m->schema->fields[i].type;
    size_t kind = random_below(seed, 8);
    if (kind == 0)
        *v = value_none();
    else if (kind < 4 || v->type == VALUE_NONE || value_is_text(type) || type == VALUE_BOOL)
        *v = random_of(seed, type, m->text[i]);
    else if (type == VALUE_FLOAT)
        *v = value_float((double)random_below(seed, 10000) / (kind == 4 ? 1e4 : kind == 5 ? 1e9 : 100.0));
    else
        v->u += random_below(seed, 300) - (kind == 5 ? 200 : 0);
    if (!m->schema->names_once && i == m->schema->n_fields - 1 && v->type != VALUE_NONE)
        m->values[0] = value_none(); /* one type of a name at a time */
    if (!m->schema->names_once && i == 0 && v->type != VALUE_NONE)
        m->values[m->schema->n_fields - 1] = value_none();
}

static void change_some(uint64_t *seed, struct model *m)
{
    size_t often = 1 + random_below(seed, 30);
    for (uint32_t i = 0; i < m->schema->n_fields; i++)
        if (m->schema->fields[i].role == ROLE_VALUE && random_below(seed, often) == 0)
            change(seed, m, i);
}

static void start_model(uint64_t *seed, struct model *m, unsigned number)
{
    m->schema = random_schema(seed, number);
    (void)snprintf(m->prog, sizeof m->prog, "p%u", number % 3);
    for (uint32_t i = 0; i < m->schema->n_fields; i++)
        change(seed, m, i);
    if (!m->schema->names_once &&
        m->schema->fields[0].role != m->schema->fields[m->schema->n_fields - 1].role)
        m->values[0] = m->values[m->schema->n_fields - 1] = value_none(); /* a key does not give way */
}

/* The events given, with text of their own. */
struct expected {
    struct batch_builder *builder;
    struct registry *registry;
};

static void expect_row(struct batch_builder *b, const struct model *m, int64_t time_ns)
{
    const struct event_head head = {
        .time_ns = time_ns, .host = host, .prog = slice_str(m->prog), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add_known(b, &head, m->schema, m->values, NULL), 0);
}

static void check_same(const struct batch *got, const struct batch *want)
{
    assert_int_equal(got->n, want->n);
    for (size_t i = 0; i < got->n; i++) {
        assert_true(schema_same(got->events[i].schema, want->events[i].schema));
        for (uint32_t k = 0; k < want->events[i].schema->n_fields; k++)
            if (!value_eq(got->events[i].values[k], want->events[i].values[k]))
                fail_msg("row %zu field %u differs", i, (unsigned)k);
        assert_true(event_eq(&got->events[i], &want->events[i]));
    }
}

static bool keys_may_change_places(const struct model *m)
{
    return !m->schema->names_once && (m->schema->fields[0].role == ROLE_KEY ||
                                      m->schema->fields[m->schema->n_fields - 1].role == ROLE_KEY);
}

static void random_round(uint64_t seed, enum samples_flags flags)
{
    static struct model models[STREAMS];
    struct link l;
    link_open(&l, flags);
    struct batch_builder *wanted = batch_builder_create(l.registry, 0);
    memset(models, 0, sizeof models);
    for (unsigned i = 0; i < STREAMS; i++)
        start_model(&seed, &models[i], i);
    for (int connection = 0; connection < 2; connection++) {
        link_again(&l);
        for (unsigned i = 0; i < STREAMS; i++)
            models[i].number = announce(&l, models[i].schema, models[i].prog, models[i].values);
        struct batch_clock clock = {.offset_ns = -5, .bound_ns = CLOCK_BOUND_UNKNOWN};
        int64_t now = INT64_C(1700000000000000000);
        for (int packet = 0; packet < 20; packet++) {
            size_t rows = 1 + random_below(&seed, 10);
            for (size_t i = 0; i < rows; i++) {
                struct model *m = &models[random_below(&seed, STREAMS)];
                now += random_below(&seed, 3) ? 0 : (int64_t)random_below(&seed, 2000000) - 1000;
                if (random_below(&seed, 50) == 0)
                    now = (int64_t)test_random(&seed);
                if (!keys_may_change_places(m))
                    change_some(&seed, m);
                assert_int_equal(samples_writer_add(l.w, m->number, now, m->values), 0);
                expect_row(wanted, m, now);
            }
            if (random_below(&seed, 4) == 0)
                clock = (struct batch_clock){.offset_ns = (int64_t)test_random(&seed),
                                             .bound_ns = test_random(&seed) >> random_below(&seed, 64),
                                             .generation = (uint32_t)test_random(&seed)};
            struct batch *want = batch_builder_finish(wanted, NULL), *got = pass(&l, &clock);
            check_same(got, want);
            assert_int_equal(got->origin.clock.offset_ns, clock.offset_ns);
            assert_int_equal(got->origin.clock.bound_ns, clock.bound_ns);
            assert_int_equal(got->origin.clock.generation, clock.generation);
            batch_unref(want);
            batch_unref(got);
        }
    }
    for (unsigned i = 0; i < STREAMS; i++)
        schema_unref(models[i].schema);
    batch_builder_destroy(wanted);
    link_close(&l);
}

static void test_random_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60 * test_scale(); seed++)
        random_round(seed, seed % 3 ? SAMPLES_ROLL : 0);
}

#define TEXT(s)            \
    {                      \
        (s), sizeof(s) - 1 \
    }
static const struct field mixed_fields[] = {
    {.name = TEXT("device"), .type = VALUE_TEXT, .role = ROLE_KEY},
    {.name = TEXT("n"), .type = VALUE_UINT, .kind = KIND_COUNTER},
    {.name = TEXT("i"), .type = VALUE_INT, .kind = KIND_GAUGE},
    {.name = TEXT("f"), .type = VALUE_FLOAT, .kind = KIND_GAUGE},
    {.name = TEXT("b"), .type = VALUE_BOOL, .kind = KIND_STATE},
    {.name = TEXT("t"), .type = VALUE_TEXT, .kind = KIND_TEXT},
    {.name = TEXT("raw"), .type = VALUE_BYTES, .kind = KIND_TEXT},
};
enum { MIXED = sizeof mixed_fields / sizeof *mixed_fields };

static struct schema *mixed_schema(void)
{
    return make_schema("mixed", mixed_fields, MIXED);
}

static struct value *mixed_values(uint64_t n)
{
    static struct value v[MIXED];
    v[0] = value_text(SLICE_LIT("sda"));
    v[1] = value_uint(n);
    v[2] = value_int(-(int64_t)n);
    v[3] = value_float((double)n / 100);
    v[4] = value_bool(n & 1);
    v[5] = value_text(n % 3 ? SLICE_LIT("up") : SLICE_LIT("down, for now"));
    v[6] = value_bytes(SLICE_LIT("\xff\0"));
    return v;
}

/* Every pair of values of every type, one after the other: the edges where differences wrap. */
static void test_edges(void **state)
{
    (void)state;
    static const uint64_t words[] = {0,
                                     1,
                                     2,
                                     INT64_MAX,
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX,
                                     UINT64_MAX - 1,
                                     1ull << 56,
                                     (1ull << 55) - 1,
                                     (1ull << 56) - 2,
                                     (1ull << 56) - 3};
    static const double floats[] = {0.0,
                                    -0.0,
                                    NAN,
                                    INFINITY,
                                    -INFINITY,
                                    0.1,
                                    25.3,
                                    25.31,
                                    0.0001,
                                    0.00001,
                                    1e22,
                                    5e-324,
                                    -1e-300,
                                    0.000123456,
                                    1e-9,
                                    1e-10,
                                    12.3456789,
                                    9007199254740991.0,
                                    9007199254740992.0,
                                    90071992547409.91,
                                    1e15,
                                    -1e15};
    enum { WORDS = sizeof words / sizeof *words, FLOATS = sizeof floats / sizeof *floats };
    struct schema *s = mixed_schema();
    for (int roll = 0; roll < 2; roll++) {
        struct link l;
        link_open(&l, roll ? SAMPLES_ROLL : 0);
        uint32_t number = announce(&l, s, "p", mixed_values(1));
        for (size_t i = 0; i < FLOATS * FLOATS; i++) {
            struct value v[MIXED];
            memcpy(v, mixed_values(i), sizeof v);
            for (int half = 0; half < 2; half++) {
                v[1] = half ? value_uint(words[i % WORDS]) : value_uint(words[i / WORDS % WORDS]);
                v[2] = half ? value_int((int64_t)words[i % WORDS]) : value_none();
                v[3] = value_float(floats[half ? i % FLOATS : i / FLOATS]);
                v[5] = i % 5 ? v[5] : half ? value_text(SLICE_LIT("")) : value_none();
                assert_int_equal(samples_writer_add(l.w, number, -1, v), 0);
                struct batch *b = pass(&l, NULL);
                assert_int_equal(b->n, 1);
                assert_int_equal(b->events[0].time_ns, -1);
                for (uint32_t k = 0; k < MIXED; k++)
                    assert_true(value_eq(b->events[0].values[k], v[k]));
                batch_unref(b);
            }
        }
        link_close(&l);
    }
    schema_unref(s);
}

static void check_bytes(struct slice got, const unsigned char *want, size_t n)
{
    assert_int_equal(got.n, n);
    assert_memory_equal(got.p, want, n);
}

/* The example of docs/protocol.md, byte for byte. */
static void test_layout(void **state)
{
    (void)state;
    static const struct field fields[] = {
        {.name = TEXT("device"), .type = VALUE_TEXT, .role = ROLE_KEY},
        {.name = TEXT("reads"), .type = VALUE_UINT, .kind = KIND_COUNTER},
        {.name = TEXT("queue"), .type = VALUE_INT, .kind = KIND_GAUGE},
        {.name = TEXT("busy"), .type = VALUE_FLOAT, .kind = KIND_GAUGE},
    };
    struct schema *s = make_schema("disk", fields, 4);
    struct link l;
    link_open(&l, SAMPLES_ROLL);
    struct value v[] = {value_text(SLICE_LIT("sda")), value_uint(1000), value_int(2), value_float(0.25)};
    uint32_t number = announce(&l, s, "agent", v);
    static const unsigned char stream[] = {1,   0,   0,   0,   1, 0,   0,   0,   0,    0, 0, 0, 5, 'a',
                                           'g', 'e', 'n', 't', 4, 's', 'd', 'a', 0xea, 7, 6, 2, 2, 50};
    check_bytes(strbuf_slice(&l.stream), stream, sizeof stream);
    assert_int_equal(samples_writer_add(l.w, number, 256, v), 0);
    v[1] = value_uint(1100);
    v[3] = value_float(0.3);
    assert_int_equal(samples_writer_add(l.w, number, 257, v), 0);
    l.next_seq = 9;
    batch_unref(pass(&l, &(struct batch_clock){.offset_ns = 3, .bound_ns = 7, .generation = 1}));
    static const unsigned char first[] = {3, 9, 0, 1, 0, 0, 0, 0, 0, 0, 6, 8, 1, 2, 8, 3, 2, 5, 102, 13};
    check_bytes(strbuf_slice(&l.packet), first, sizeof first);
    v[2] = value_none();
    assert_int_equal(samples_writer_add(l.w, number, 512, v), 0);
    batch_unref(pass(&l, &(struct batch_clock){.offset_ns = 3, .bound_ns = 7, .generation = 1}));
    static const unsigned char second[] = {0x11, 11, 0, 2, 0, 0, 0, 0, 0, 0, 1, 9, 2, 0};
    check_bytes(strbuf_slice(&l.packet), second, sizeof second);
    link_close(&l);
    schema_unref(s);
}

/* Full by rows, by bytes, by what it unfolds to; and a row that never fits. */
static void test_full(void **state)
{
    (void)state;
    static char long_text[EVENT_TEXT_MAX + 1];
    memset(long_text, 'x', sizeof long_text);
    struct schema *s = mixed_schema();
    for (int kind = 0; kind < 3; kind++) {
        struct link l;
        link_open(&l, SAMPLES_ROLL);
        uint32_t number = announce(&l, s, "p", mixed_values(0));
        uint64_t total = 0;
        for (int packet = 0; packet < 3; packet++) {
            int r;
            uint64_t rows = 0;
            do {
                struct value *v = mixed_values(kind ? total + rows : 0);
                v[5] = value_text(slice_of(long_text, kind == 1 ? 1000 + rows % 2 : kind == 2 ? 3000 : 0));
                r = samples_writer_add(l.w, number, 5, v);
                rows += r == 0;
            } while (r == 0);
            assert_int_equal(r, E_LIMIT);
            assert_int_equal(rows, samples_writer_rows(l.w));
            assert_true(kind != 0 || rows == SAMPLES_ROWS_MAX);
            assert_true(kind != 1 || (rows > 60 && rows < 70));
            assert_true(kind != 2 || (rows > 300 && rows < 400));
            struct batch *b = pass(&l, NULL);
            assert_int_equal(b->n, rows);
            assert_true(kind == 0 || b->events[rows - 1].values[1].u == total + rows - 1);
            total += rows;
            batch_unref(b);
        }
        struct value *v = mixed_values(1);
        v[5] = value_text(slice_of(long_text, EVENT_TEXT_MAX));
        assert_int_equal(samples_writer_add(l.w, number, 5, v), E_LIMIT);
        assert_int_equal(samples_writer_rows(l.w), 0);
        v[5].n++;
        assert_int_equal(samples_writer_add(l.w, number, 5, v), E_LIMIT);
        assert_int_equal(samples_writer_add(l.w, number, 5, mixed_values(1)), 0);
        batch_unref(pass(&l, NULL));
        link_close(&l);
    }
    schema_unref(s);
}

/* What a writer must not be given. */
static void test_not_allowed(void **state)
{
    (void)state;
    static const struct field twice[] = {{.name = TEXT("a"), .type = VALUE_INT},
                                         {.name = TEXT("a"), .type = VALUE_UINT}};
    struct schema *s = mixed_schema(), *s2 = make_schema("twice", twice, 2);
    struct link l;
    struct strbuf a = {0}, b = {0};
    uint32_t number, other;
    link_open(&l, SAMPLES_ROLL);
    number = announce(&l, s, "p", mixed_values(0));
    struct value both[] = {value_int(1), value_uint(1)}, one[] = {value_none(), value_uint(1)};
    assert_int_equal(samples_writer_announce(l.w, s2, SLICE_LIT("p"), both, &a, &b, &other), E_PROTO);
    other = announce(&l, s2, "p", one);
    assert_int_equal(samples_writer_add(l.w, other, 1, both), E_PROTO);
    struct value *v = mixed_values(1);
    v[1] = value_int(5);
    assert_int_equal(samples_writer_add(l.w, number, 1, v), E_PROTO);
    v = mixed_values(1);
    v[5] = value_text(SLICE_LIT("\xff"));
    assert_int_equal(samples_writer_add(l.w, number, 1, v), E_PROTO);
    assert_int_equal(samples_writer_announce(l.w, s, SLICE_LIT("p"), v, &a, &b, &other), E_PROTO);
    assert_int_equal(samples_writer_announce(l.w, s, SLICE_LIT("\n"), mixed_values(1), &a, &b, &other),
                     E_PROTO);
    assert_int_equal(samples_writer_add(l.w, 0, 1, mixed_values(1)), -EINVAL);
    assert_int_equal(samples_writer_add(l.w, 3, 1, mixed_values(1)), -EINVAL);
    assert_int_equal(samples_writer_rows(l.w), 0);
    assert_int_equal(a.n + b.n, 0);
    assert_int_equal(samples_writer_finish(l.w, 1, NULL, &a), 0); /* no row: nothing */
    assert_int_equal(a.n, 0);
    v = mixed_values(1);
    v[0] = value_none(); /* keys are not looked at */
    assert_int_equal(samples_writer_add(l.w, number, 1, v), 0);
    assert_int_equal(samples_writer_finish(l.w, 0, NULL, &a), -EINVAL);
    struct batch *got = pass(&l, NULL);
    assert_true(value_eq(got->events[0].values[0], value_text(SLICE_LIT("sda"))));
    batch_unref(got);
    strbuf_fini(&a);
    strbuf_fini(&b);
    link_close(&l);
    schema_unref(s);
    schema_unref(s2);
}

/* Cut anywhere or with a bit turned: refused, and then the packet as it was still gives what was sent; or it
 * means something else. Nothing is read behind its end (ASan). */
static void test_damage(void **state)
{
    (void)state;
    struct schema *s = mixed_schema();
    for (int roll = 0; roll < 2; roll++) {
        struct link l;
        link_open(&l, roll ? SAMPLES_ROLL : 0);
        uint32_t one = announce(&l, s, "p", mixed_values(0)), two = announce(&l, s, "q", mixed_values(7));
        for (uint64_t n = 0; n < 6; n++) {
            assert_int_equal(samples_writer_add(l.w, one, (int64_t)n, mixed_values(n)), 0);
            assert_int_equal(samples_writer_add(l.w, two, 0, mixed_values(7 - n)), 0);
        }
        finish(&l, NULL);
        struct slice packet = strbuf_slice(&l.packet);
        int rc;
        for (size_t n = 0; n < packet.n; n++) {
            char *cut = malloc(n ? n : 1); /* its own, so that ASan sees its end */
            memcpy(cut, packet.p, n);
            assert_null(receive(&l, slice_of(cut, n), &rc));
            assert_int_equal(rc, E_PROTO);
            free(cut);
        }
        unsigned refused = 0;
        for (size_t bit = 0; bit < packet.n * 8 && !roll;
             bit++) { /* nothing rolls: the reader stays as it is */
            l.packet.p[bit / 8] ^= (char)(1 << bit % 8);
            batch_unref(receive(&l, packet, &rc));
            refused += rc < 0;
            l.packet.p[bit / 8] ^= (char)(1 << bit % 8);
        }
        assert_true(roll || refused > 10);
        struct batch *b = receive(&l, packet, &rc);
        assert_int_equal(rc, 0);
        assert_int_equal(b->n, 12);
        for (size_t i = 0; i < b->n; i++)
            for (uint32_t k = 0; k < MIXED; k++)
                assert_true(value_eq(b->events[i].values[k], mixed_values(i % 2 ? 7 - i / 2 : i / 2)[k]));
        batch_unref(b);
        link_close(&l);
    }
    schema_unref(s);
}

/* With ROLL a packet that was left out is noticed; announcing everything anew mends it. */
static void test_missing_packet(void **state)
{
    (void)state;
    struct schema *s = mixed_schema();
    struct link l;
    int rc;
    link_open(&l, SAMPLES_ROLL);
    uint32_t number = announce(&l, s, "p", mixed_values(0));
    for (uint64_t n = 1; n < 40; n++) { /* the number is four bits */
        assert_int_equal(samples_writer_add(l.w, number, 1, mixed_values(n)), 0);
        batch_unref(pass(&l, NULL));
    }
    assert_int_equal(samples_writer_add(l.w, number, 1, mixed_values(51)), 0);
    finish(&l, NULL);
    assert_int_equal(samples_writer_add(l.w, number, 1, mixed_values(53)),
                     0); /* could be read, and be wrong */
    finish(&l, NULL);
    assert_null(receive(&l, strbuf_slice(&l.packet), &rc));
    assert_int_equal(rc, E_PROTO);
    link_again(&l);
    number = announce(&l, s, "p", mixed_values(51));
    assert_int_equal(number, 1);
    assert_true(l.schema.n > 0);
    assert_int_equal(samples_writer_add(l.w, number, 1, mixed_values(52)), 0);
    struct batch *b = pass(&l, NULL);
    assert_int_equal(b->events[0].values[1].u, 52);
    batch_unref(b);
    link_close(&l);
    schema_unref(s);
}

/* Without ROLL the rows behind an unknown stream are left out and counted; with it that can't be. */
static void test_unknown(void **state)
{
    (void)state;
    struct schema *s = mixed_schema();
    for (int roll = 0; roll < 2; roll++) {
        struct link l;
        int rc;
        struct strbuf schema = {0}, stream = {0};
        uint32_t known, unknown;
        link_open(&l, roll ? SAMPLES_ROLL : 0);
        known = announce(&l, s, "p", mixed_values(0));
        assert_int_equal(
            samples_writer_announce(l.w, s, SLICE_LIT("q"), mixed_values(0), &schema, &stream, &unknown), 0);
        assert_int_equal(samples_writer_add(l.w, known, 1, mixed_values(1)), 0);
        assert_int_equal(samples_writer_add(l.w, unknown, 1, mixed_values(1)), 0);
        assert_int_equal(samples_writer_add(l.w, known, 1, mixed_values(2)), 0);
        finish(&l, NULL);
        struct batch *b = receive(&l, strbuf_slice(&l.packet), &rc);
        assert_int_equal(rc, roll ? E_PROTO : 2);
        assert_true(roll ? !b : b->n == 1);
        batch_unref(b);
        struct diag why;
        assert_int_equal(samples_reader_stream(l.r, strbuf_slice(&stream), &why),
                         0); /* late, and all is well */
        b = receive(&l, strbuf_slice(&l.packet), &rc);
        assert_int_equal(rc, 0);
        assert_int_equal(b->n, 3);
        batch_unref(b);
        if (!roll) { /* another baseline for the first stream: what was made for the old one is not guessed at
                      */
            stream.p[0] = 1;
            stream.p[8] = 5;
            assert_int_equal(samples_reader_stream(l.r, strbuf_slice(&stream), &why), 0);
            assert_null(receive(&l, strbuf_slice(&l.packet), &rc));
            assert_int_equal(rc, 3);
        }
        strbuf_fini(&schema);
        strbuf_fini(&stream);
        link_close(&l);
    }
    schema_unref(s);
}

static int give_stream(struct link *l, uint32_t number, uint32_t schema, size_t prog)
{
    struct diag why;
    struct strbuf out = {0};
    strbuf_add_u32(&out, number);
    strbuf_add_u32(&out, schema);
    strbuf_add_u32(&out, 0);
    strbuf_add_varint(&out, prog);
    for (size_t i = 0; i < prog; i++)
        strbuf_add_char(&out, 'p');
    for (int i = 0; i < MIXED; i++)
        strbuf_add_char(&out, 0);
    int rc = samples_reader_stream(l->r, strbuf_slice(&out), &why);
    strbuf_fini(&out);
    return rc;
}

/* A peer that announces what it likes. */
static void test_announcements(void **state)
{
    (void)state;
    struct schema *s = mixed_schema(), *other = make_schema("other", mixed_fields, 2);
    struct link l, second;
    struct diag why;
    link_open(&l, SAMPLES_ROLL);
    link_open(&second, SAMPLES_ROLL);
    (void)announce(&l, s, "p", mixed_values(0));
    (void)announce(&second, other, "p", mixed_values(0));
    assert_int_equal(samples_reader_schema(l.r, strbuf_slice(&l.schema), &why), 0); /* the same again */
    assert_int_equal(samples_reader_schema(l.r, strbuf_slice(&second.schema), &why), E_PROTO);
    for (size_t n = 0; n < l.schema.n; n++)
        assert_int_equal(samples_reader_schema(l.r, slice_of(l.schema.p, n), &why), E_PROTO);
    for (size_t n = 0; n < l.stream.n; n++)
        assert_int_equal(samples_reader_stream(l.r, slice_of(l.stream.p, n), &why), E_PROTO);
    l.schema.p[0] = 3; /* not the next */
    assert_int_equal(samples_reader_schema(l.r, strbuf_slice(&l.schema), &why), E_PROTO);
    assert_int_equal(give_stream(&l, 1, 1, 0), 0);
    assert_int_equal(give_stream(&l, 2, 1, EVENT_ORIGIN_MAX), 0);
    assert_int_equal(give_stream(&l, 0, 1, 0), E_PROTO);
    assert_int_equal(give_stream(&l, 4, 1, 0), E_PROTO);
    assert_int_equal(give_stream(&l, 3, 0, 0), E_PROTO);
    assert_int_equal(give_stream(&l, 3, 2, 0), E_PROTO);
    assert_int_equal(give_stream(&l, 3, 1, EVENT_ORIGIN_MAX + 1), E_PROTO);
    assert_int_equal(give_stream(&l, SAMPLES_STREAMS_MAX + 1, 1, 0), E_LIMIT);
    uint32_t n = 3;
    while (give_stream(&l, n, 1, EVENT_ORIGIN_MAX) == 0)
        n++;
    assert_int_equal(give_stream(&l, n, 1, EVENT_ORIGIN_MAX),
                     E_LIMIT); /* by memory, long before all numbers */
    assert_true(n > 20000 && n < SAMPLES_STREAMS_MAX);
    link_close(&l);
    link_close(&second);
    schema_unref(s);
    schema_unref(other);
}

/* The writer stops where the reader would. */
static void test_too_many_streams(void **state)
{
    (void)state;
    static char text[60000];
    memset(text, 't', sizeof text);
    struct schema *s = mixed_schema();
    struct link l;
    uint32_t n = 0, number;
    int r;
    link_open(&l, SAMPLES_ROLL);
    for (;;) {
        struct value *v = mixed_values(0);
        v[5] = value_text(slice_of(text, sizeof text));
        strbuf_reset(&l.schema);
        strbuf_reset(&l.stream);
        r = samples_writer_announce(l.w, s, SLICE_LIT("p"), v, &l.schema, &l.stream, &number);
        if (r < 0)
            break;
        struct diag why;
        assert_true(l.schema.n == 0 || samples_reader_schema(l.r, strbuf_slice(&l.schema), &why) == 0);
        assert_int_equal(samples_reader_stream(l.r, strbuf_slice(&l.stream), &why), 0);
        n = number;
    }
    assert_int_equal(r, E_LIMIT);
    assert_true(n > 200 && n < 300);
    number = announce(&l, s, "small", mixed_values(0)); /* a small one still fits; its text can't grow then */
    struct value *v = mixed_values(0);
    v[5] = value_text(slice_of(text, sizeof text));
    assert_int_equal(samples_writer_add(l.w, number, 1, v), E_LIMIT);
    assert_int_equal(samples_writer_add(l.w, number, 1, mixed_values(1)), 0);
    batch_unref(pass(&l, NULL));
    link_close(&l);
    schema_unref(s);
}

/* Whatever allocation fails: the same call again works, and the values are right. */
static void test_no_memory(void **state)
{
    (void)state;
    struct schema *s = mixed_schema();
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct link l;
        uint32_t number = 0;
        struct diag why;
        struct batch_origin origin = {.epoch = 1};
        uint32_t unknown;
        int r;
        link_open(&l, SAMPLES_ROLL);
#define AGAIN(call)                          \
    do {                                     \
        r = (call);                          \
        assert_true(r == 0 || r == -ENOMEM); \
    } while (r < 0)
        mem_fail_after(nth);
        AGAIN(
            samples_writer_announce(l.w, s, SLICE_LIT("p"), mixed_values(0), &l.schema, &l.stream, &number));
        AGAIN(samples_reader_schema(l.r, strbuf_slice(&l.schema), &why));
        AGAIN(samples_reader_stream(l.r, strbuf_slice(&l.stream), &why));
        for (uint64_t n = 1; n < 30; n++)
            AGAIN(samples_writer_add(l.w, number, (int64_t)n, mixed_values(n)));
        AGAIN(samples_writer_finish(l.w, 1, NULL, &l.packet));
        AGAIN(samples_reader_packet(l.r, strbuf_slice(&l.packet), host, l.builder, &origin, &unknown, &why));
#undef AGAIN
        mem_fail_after(0);
        struct batch *b = batch_builder_finish(l.builder, NULL);
        assert_int_equal(b->n, 29);
        for (size_t i = 0; i < b->n; i++)
            for (uint32_t k = 0; k < MIXED; k++)
                assert_true(value_eq(b->events[i].values[k], mixed_values(i + 1)[k]));
        batch_unref(b);
        link_close(&l);
    }
    schema_unref(s);
}

/* A host like that of data/host1hz: 30 streams with 22 values each, a reading a second; counters that step,
 * memory in bytes by pages, percentages with two decimals; about 19 % of the values differ from the reading
 * before. */
enum { HOST_STREAMS = 30, HOST_VALUES = 22, HOST_SECONDS = 300 };

static struct schema *host_schema(unsigned number)
{
    struct field fields[HOST_VALUES + 1] = {{.name = TEXT("device"), .type = VALUE_TEXT, .role = ROLE_KEY}};
    char names[HOST_VALUES + 1][24], name[16];
    for (size_t i = 1; i <= HOST_VALUES; i++) {
        (void)snprintf(names[i], sizeof names[i], "reading_%zu", i);
        fields[i] = (struct field){.name = slice_str(names[i]), .type = i % 3 ? VALUE_UINT : VALUE_FLOAT};
        fields[i].help = SLICE_LIT("what it is, in a phrase that people can read");
        fields[i].kind = i % 3 == 1 ? KIND_COUNTER : KIND_GAUGE;
    }
    (void)snprintf(name, sizeof name, "sensor%u", number);
    return make_schema(name, fields, HOST_VALUES + 1);
}

static void host_step(uint64_t *seed, struct value *v)
{
    for (size_t i = 1; i <= HOST_VALUES; i++) {
        if (v[i].type != VALUE_NONE && random_below(seed, 100) >= (i % 7 ? 13 : 60))
            continue;
        if (i % 3 == 0)
            v[i] = value_float((double)random_below(seed, 10001) / 100);
        else if (i % 3 == 1)
            v[i] = value_uint(v[i].u + random_below(seed, random_below(seed, 3) ? 200 : 100000));
        else
            v[i] = value_uint((1u << 30) + 4096 * random_below(seed, 1000));
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static size_t block_size(const struct batch *b)
{
    struct block_writer *w = block_writer_create();
    struct strbuf out = {0};
    for (size_t i = 0; i < b->n; i++)
        assert_int_equal(block_writer_add(w, &b->events[i]), 0);
    assert_int_equal(block_writer_finish(w, &b->origin, &out), 0);
    size_t n = out.n;
    strbuf_fini(&out);
    block_writer_destroy(w);
    return n;
}

static void measure(enum samples_flags flags)
{
    static struct value values[HOST_STREAMS][HOST_VALUES + 1];
    struct schema *schemas[HOST_STREAMS];
    struct link l;
    uint64_t seed = 1, write_ns = 0, read_ns = 0;
    size_t block = 0;
    link_open(&l, flags);
    memset(values, 0, sizeof values);
    for (unsigned i = 0; i < HOST_STREAMS; i++) {
        schemas[i] = host_schema(i / 3);
        values[i][0] = value_text(SLICE_LIT("eth0"));
        host_step(&seed, values[i]);
        assert_int_equal(announce(&l, schemas[i], "agent", values[i]), i + 1);
    }
    for (int second = 0; second < HOST_SECONDS; second++) {
        int64_t now = INT64_C(1700000000000000000) + second * INT64_C(1000000000);
        for (unsigned i = 0; i < HOST_STREAMS; i++)
            host_step(&seed, values[i]);
        uint64_t start = cpu_ns();
        for (unsigned i = 0; i < HOST_STREAMS; i++)
            assert_int_equal(samples_writer_add(l.w, i + 1, now + i / 3 * 10000, values[i]), 0);
        finish(&l, NULL);
        uint64_t written = cpu_ns();
        int rc;
        struct batch *b = receive_only(&l, strbuf_slice(&l.packet), &rc);
        read_ns += cpu_ns() - written;
        write_ns += written - start;
        assert_int_equal(b->n, HOST_STREAMS);
        for (unsigned i = 0; i < HOST_STREAMS; i++)
            for (unsigned k = 0; k <= HOST_VALUES; k++)
                assert_true(value_eq(b->events[i].values[k], values[i][k]));
        block = block_size(b);
        batch_unref(b);
    }
    double n = (double)HOST_STREAMS * HOST_VALUES * HOST_SECONDS;
    print_message(
        "%s: %.3f bytes and %.1f ns to write, %.1f ns to read a value sampled; announced once: %zu bytes; "
        "as a block: %zu bytes a second\n",
        flags & SAMPLES_ROLL ? "roll" : "no roll", (double)l.packet_bytes / n, (double)write_ns / n,
        (double)read_ns / n, l.announced_bytes, block);
    assert_true((double)l.packet_bytes / n < (flags & SAMPLES_ROLL ? 1.5 : 8));
    for (unsigned i = 0; i < HOST_STREAMS; i++)
        schema_unref(schemas[i]);
    link_close(&l);
}

/* The vector of a host: eighteen numbers, many of them with two decimals; each second all differ from the
 * announced ones. What scanning its packets costs is printed. */
static void test_plain_scan(void **state)
{
    (void)state;
    enum { VECTOR = 18, PACKETS = 64, ROUNDS = 100, EACH = 50 * PACKETS };
    struct field fields[VECTOR];
    struct value values[VECTOR];
    char names[VECTOR][8];
    static char packets[PACKETS][256];
    size_t sizes[PACKETS];
    struct link l;
    uint64_t seed = 3;
    struct samples_count count;
    struct diag why;
    for (size_t i = 0; i < VECTOR; i++) {
        (void)snprintf(names[i], sizeof names[i], "v%zu", i);
        fields[i] = (struct field){.name = slice_str(names[i]), .kind = KIND_GAUGE};
        fields[i].type = i % 3 ? VALUE_FLOAT : VALUE_UINT;
        values[i] = i % 3 ? value_float(1.25) : value_uint(1000);
    }
    struct schema *s = make_schema("vector", fields, VECTOR);
    link_open(&l, 0);
    uint32_t number = announce(&l, s, "agent", values);
    for (size_t p = 0; p < PACKETS; p++) {
        for (size_t i = 0; i < VECTOR; i++)
            values[i] = i % 3 ? value_float((double)random_below(&seed, 100000) / 100)
                              : value_uint(random_below(&seed, 100000));
        assert_int_equal(samples_writer_add(l.w, number, 5, values), 0);
        struct batch *b = pass(&l, NULL); /* checks that scanning agrees */
        for (size_t i = 0; i < VECTOR; i++)
            assert_true(value_eq(b->events[0].values[i], values[i]));
        batch_unref(b);
        assert_true(l.packet.n <= sizeof packets[p]);
        memcpy(packets[p], l.packet.p, l.packet.n);
        sizes[p] = l.packet.n;
    }
    uint64_t best = UINT64_MAX; /* the machine may do other things, too */
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < EACH; i++)
            if (samples_reader_scan(l.r, slice_of(packets[i % PACKETS], sizes[i % PACKETS]), &count, &why) <
                0)
                fail();
        uint64_t took = cpu_ns() - start;
        best = took < best ? took : best;
    }
    print_message("scan of a vector of %zu bytes: %.1f ns\n", sizes[0], (double)best / EACH);
    link_close(&l);
    schema_unref(s);
}

/* States that no reader wrote. */
static void test_bad_snapshots(void **state)
{
    (void)state;
    struct schema *s = mixed_schema();
    struct link l;
    struct diag why;
    link_open(&l, SAMPLES_ROLL);
    uint32_t number = announce(&l, s, "p", mixed_values(7));
    struct samples_snapshot good;
    struct strbuf state_bytes = {0};
    assert_int_equal(samples_reader_snapshot(l.r, 0, &good), E_NODATA);
    assert_int_equal(samples_reader_snapshot(l.r, 2, &good), E_NODATA);
    assert_int_equal(samples_reader_snapshot(l.r, number, &good), 0);
    strbuf_add_slice(&state_bytes, good.state);
    good.state = strbuf_slice(&state_bytes);
    struct samples_reader *twin = samples_reader_create(l.registry, l.other);
    for (size_t n = 0; n < good.state.n; n++) {
        struct samples_snapshot cut = good;
        cut.state = slice_of(good.state.p, n);
        assert_int_equal(samples_reader_restore(twin, &cut, &why), E_PROTO);
    }
    struct samples_snapshot other = good;
    other.number = 0;
    assert_int_equal(samples_reader_restore(twin, &other, &why), E_PROTO);
    other.number = SAMPLES_STREAMS_MAX + 1;
    assert_int_equal(samples_reader_restore(twin, &other, &why), E_PROTO);
    assert_int_equal(samples_reader_streams(twin), 0);
    for (size_t bit = 0; bit < good.state.n * 8;
         bit++) { /* taken or refused, and nothing is read behind the end */
        state_bytes.p[bit / 8] ^= (char)(1 << bit % 8);
        (void)samples_reader_restore(twin, &good, &why);
        state_bytes.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    other.number = 5; /* with a hole before it */
    assert_int_equal(samples_reader_restore(twin, &other, &why), 0);
    assert_int_equal(samples_reader_streams(twin), 5);
    assert_int_equal(samples_reader_snapshot(twin, 3, &good), E_NODATA);
    samples_reader_destroy(twin);
    strbuf_fini(&state_bytes);
    link_close(&l);
    schema_unref(s);
}

static void test_figures(void **state)
{
    (void)state;
    measure(SAMPLES_ROLL);
    measure(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rows),    cmocka_unit_test(test_edges),
        cmocka_unit_test(test_layout),         cmocka_unit_test(test_full),
        cmocka_unit_test(test_not_allowed),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_missing_packet), cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_announcements),  cmocka_unit_test(test_too_many_streams),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_figures),
        cmocka_unit_test(test_plain_scan),     cmocka_unit_test(test_bad_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
