/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - random tables and rows of every shape, for the tests of what is kept of them. */
#ifndef GRIDLINE_TESTS_CHUNKS_H
#define GRIDLINE_TESTS_CHUNKS_H

#include "unit/test.h"

#include "archive/rows.h"
#include "base/arena.h"

#include <math.h>
#include <stdio.h>

/* How values of a column come about. */
enum chunk_shape {
    SHAPE_SAME,
    SHAPE_COUNTER,
    SHAPE_EVEN, /* steps that are all alike */
    SHAPE_GAUGE,
    SHAPE_DECIMAL,
    SHAPE_SCALED, /* decimals times a number: not quite decimals any more */
    SHAPE_FEW,
    SHAPE_RUNS,
    SHAPE_NOISE,
    SHAPE_ODD, /* NaN, -0.0, denormals, infinities, extremes */
    SHAPE_MIXED,
    SHAPES
};

static inline uint64_t float_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline uint64_t odd_number(uint8_t type, uint64_t *seed)
{
    static const uint64_t integers[] = {0,        1,         UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                        1u << 31, UINT32_MAX};
    static const double floats[] = {0.0,
                                    -0.0,
                                    NAN,
                                    INFINITY,
                                    -INFINITY,
                                    5e-324,
                                    -5e-324,
                                    2.2250738585072014e-308,
                                    1.7976931348623157e308,
                                    -1e308,
                                    1e-300,
                                    0.1,
                                    1e15,
                                    9007199254740993.0,
                                    -9007199254740992.0,
                                    1e22,
                                    9.3e18,
                                    -9.3e18};
    uint64_t x = test_random(seed);
    if (type == VALUE_FLOAT)
        return float_bits(floats[x % (sizeof floats / sizeof floats[0])]);
    return integers[x % (sizeof integers / sizeof integers[0])];
}

/* The next of a column of this shape, after the one before; a float's or integer's bits. */
static inline uint64_t next_number(enum chunk_shape shape, uint8_t type, uint32_t row, uint64_t before,
                                   uint64_t salt, uint64_t *seed)
{
    uint64_t x = test_random(seed);
    bool is_float = type == VALUE_FLOAT;
    switch (shape) {
    case SHAPE_SAME:
        return row ? before : is_float ? float_bits((double)(salt % 1000) / 8) : salt;
    case SHAPE_COUNTER: {
        uint64_t step = x % 4 ? 0 : (x >> 8) % 1000;
        double f;
        memcpy(&f, &before, sizeof f);
        return is_float ? float_bits((row ? f : (double)(salt % 1000000)) + (double)step) : before + step;
    }
    case SHAPE_EVEN:
        return is_float ? float_bits((double)(salt % 1000) + row * 7.0) : salt + row * (salt % 11);
    case SHAPE_GAUGE:
        return is_float ? float_bits(floor((double)(x % 100000)) * 4096) : salt % 100000 + x % 77;
    case SHAPE_DECIMAL:
        return is_float ? float_bits((double)(int64_t)(x % 2000000 - 1000000) / 100) : x % 100;
    case SHAPE_SCALED:
        return is_float ? float_bits((double)(x % 100000) / 1000 * (double)(1 + salt % 17)) : x % 256;
    case SHAPE_FEW:
        return is_float ? float_bits((double)(x % 3) * 1.7) : x % 3 * 1000003;
    case SHAPE_RUNS:
        return row && x % 16 ? before : is_float ? float_bits((double)(x >> 8) / 3) : x >> 8;
    case SHAPE_NOISE:
        return is_float ? float_bits((double)x / 7e15) : x;
    case SHAPE_ODD:
        return odd_number(type, seed);
    case SHAPE_MIXED:
    case SHAPES:
        break;
    }
    return x % 8 ? next_number((enum chunk_shape)(salt % SHAPE_ODD), type, row, before, salt, seed)
                 : odd_number(type, seed);
}

static inline uint64_t *random_bitmap(struct arena *a, uint32_t n, uint64_t *seed)
{
    uint64_t *words = arena_alloc(a, (n + 63) / 64 * sizeof *words);
    unsigned how = (unsigned)(test_random(seed) % 4);
    for (uint32_t i = 0; i < (n + 63) / 64; i++) {
        uint64_t x = test_random(seed);
        words[i] = how == 0   ? x
                   : how == 1 ? x & test_random(seed) & test_random(seed)
                   : how == 2 ? 0
                              : UINT64_MAX;
    }
    uint32_t must = (uint32_t)(test_random(seed) % n);
    words[must >> 6] |= UINT64_C(1) << (must & 63); /* a column has a value at least */
    return words;
}

static inline void random_text(struct arena *a, uint32_t n, enum chunk_shape shape, uint64_t *seed,
                               struct column *c)
{
    uint32_t *ends = arena_alloc(a, n * sizeof *ends), at = 0;
    char *bytes = arena_alloc(a, n * 40 + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = test_random(seed);
        char text[40];
        int len = shape == SHAPE_SAME    ? snprintf(text, sizeof text, "always")
                  : shape == SHAPE_FEW   ? snprintf(text, sizeof text, "state %u", (unsigned)(x % 5))
                  : shape == SHAPE_ODD   ? snprintf(text, sizeof text, "%.*s", (int)(x % 2), "x")
                  : shape == SHAPE_NOISE ? snprintf(text, sizeof text, "id-%016llx", (unsigned long long)x)
                                         : snprintf(text, sizeof text, "row %u of %u", i, (unsigned)(x % 9));
        if (shape == SHAPE_NOISE)
            text[1] = '\0';
        memcpy(bytes + at, text, (size_t)len);
        ends[i] = at += (uint32_t)len;
    }
    c->ends = ends;
    c->bytes = bytes;
}

static inline void random_column(struct arena *a, uint32_t n, uint8_t type, enum chunk_shape shape,
                                 uint64_t *seed, struct column *c)
{
    c->type = type;
    c->bytes = NULL;
    c->present = test_random(seed) % 3 ? NULL : random_bitmap(a, n, seed);
    if (value_is_text(type)) {
        random_text(a, n, shape, seed, c);
        return;
    }
    uint64_t *v = arena_alloc(a, n * sizeof *v), before = 0,
             salt = test_random(seed) >> (test_random(seed) % 64);
    for (uint32_t i = 0; i < n; i++) {
        before = next_number(shape, type, i, before, salt, seed);
        v[i] = type == VALUE_BOOL ? before & 1 : before;
    }
    c->u = v;
}

/* Everything of a column but its text, which is in arena. */
static inline struct table_def random_table(struct arena *a, const char *name, uint32_t n_columns,
                                            uint64_t *seed)
{
    struct field *columns = arena_alloc(a, n_columns * sizeof *columns);
    for (uint32_t i = 0; i < n_columns; i++) {
        char *text = arena_alloc(a, 16);
        (void)snprintf(text, 16, i == 1 ? "id" : "c%u", i);
        columns[i] = (struct field){.name = slice_str(text),
                                    .unit = slice_str(i % 2 ? "bytes" : ""),
                                    .help = slice_str(i % 3 ? "what it is" : ""),
                                    .type = (uint8_t)(1 + test_random(seed) % 6),
                                    .kind = (uint8_t)(i % 5)};
    }
    return (struct table_def){.name = slice_str(name), .columns = columns, .n_columns = n_columns};
}

static inline void random_heads(struct arena *a, uint32_t n, uint64_t *seed, struct rows *r)
{
    int64_t *times = arena_alloc(a, n * sizeof *times), now = (int64_t)(test_random(seed) % (1ull << 60));
    uint8_t *levels = arena_alloc(a, n);
    uint64_t *seqs = arena_alloc(a, n * sizeof *seqs), seq = test_random(seed) % 1000000;
    uint16_t *places = arena_alloc(a, n * sizeof *places);
    unsigned how = (unsigned)test_random(seed);
    uint32_t n_origins = how & 1 ? 1 : 1 + (how >> 8) % 7;
    struct row_origin *origins = arena_alloc(a, n_origins * sizeof *origins);
    for (uint32_t i = 0; i < n_origins; i++) {
        memset(&origins[i], 0,
               sizeof origins[i]); /* padding, too: tests compare members only, but valgrind looks */
        memset(origins[i].producer, (int)(test_random(seed) % 3), 16);
        origins[i].epoch = test_random(seed) % 2;
        origins[i].clock =
            (struct batch_clock){.offset_ns = (int64_t)test_random(seed) >> 40,
                                 .bound_ns = i % 2 ? CLOCK_BOUND_UNKNOWN : test_random(seed) % 100000,
                                 .generation = (uint32_t)test_random(seed) % 4};
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = test_random(seed);
        now += how & 2 ? 1000000000 : (int64_t)(x % 3 ? 1000000000 + x % 1000 : 0);
        times[i] = now;
        levels[i] = how & 4 ? 6 : (uint8_t)(x >> 16 & 7);
        seq += how & 8 ? 130 : (x >> 20) % 50;
        seqs[i] = how & 16 && x % 5 == 0 ? 0 : seq;
        places[i] = (uint16_t)((x >> 32) % n_origins);
    }
    *r = (struct rows){.n = n, .time_ns = times, .level = levels, .seq = seqs, .origin = places};
    r->origins = origins;
    r->n_origins = n_origins;
}

static inline struct rows random_rows(struct arena *a, const struct table_def *t, uint32_t n, uint64_t *seed)
{
    struct rows r;
    random_heads(a, n, seed, &r);
    struct column *columns = arena_alloc(a, (t->n_columns + 1) * sizeof *columns);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        if (test_random(seed) % 8 == 0)
            continue;
        struct column *c = &columns[r.n_columns++];
        random_column(a, n, t->columns[i].type, (enum chunk_shape)(test_random(seed) % SHAPES), seed, c);
        c->id = (uint16_t)i;
    }
    r.columns = columns;
    return r;
}

static inline void assert_same_column(const struct column *a, const struct column *b, uint32_t n)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->type, b->type);
    for (uint32_t i = 0; i < n; i++)
        if (!value_eq(column_value(a, i), column_value(b, i)))
            fail_msg("column %u (type %u) differs at row %u of %u", a->id, a->type, i, n);
}

static inline void assert_same_origin(const struct row_origin *a, const struct row_origin *b)
{
    assert_memory_equal(a->producer, b->producer, 16);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->clock.offset_ns, b->clock.offset_ns);
    assert_int_equal(a->clock.bound_ns, b->clock.bound_ns);
    assert_int_equal(a->clock.generation, b->clock.generation);
}

/* All that a chunk has. */
static inline void assert_same_rows(const struct rows *a, const struct rows *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_columns, b->n_columns);
    assert_memory_equal(a->time_ns, b->time_ns, a->n * sizeof a->time_ns[0]);
    assert_memory_equal(a->level, b->level, a->n);
    assert_memory_equal(a->seq, b->seq, a->n * sizeof a->seq[0]);
    for (uint32_t i = 0; i < a->n; i++)
        assert_same_origin(&a->origins[a->origin[i]], &b->origins[b->origin[i]]);
    for (uint32_t i = 0; i < a->n_columns; i++)
        assert_same_column(&a->columns[i], &b->columns[i], a->n);
}

#endif
