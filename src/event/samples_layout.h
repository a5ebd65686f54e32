/* SPDX-License-Identifier: Apache-2.0 */
/* samples_layout.h - what samples_write.c and samples_read.c share: the constants of the byte layout
 * (docs/protocol.md, "Samples"), and what each end knows of a stream. Both keep the same: a code is a
 * difference to it. */
#ifndef GRIDLINE_EVENT_SAMPLES_LAYOUT_H
#define GRIDLINE_EVENT_SAMPLES_LAYOUT_H

#include "event/samples.h"

/* A packet: flags, head, rows. */
enum samples_packet_flags {
    PACKET_ROLL = 1,  /* each row becomes its stream's baseline */
    PACKET_CLOCK = 2, /* the clock follows; otherwise it is that of the packet before (ROLL), or none */
    PACKET_KNOWN = 3, /* all of these; others are 0 */
    PACKET_NUMBER_SHIFT = 4, /* ROLL: the packet's number, from 0, modulo 16 is in the high bits */
    PACKET_HEAD_MAX = 48     /* bytes before the rows */
};

/* The number at the front of a row: zigzag(step of the stream's number) << ROW_SHIFT | flags. */
enum samples_row_flags { ROW_CHANGED = 1, ROW_TIME = 2, ROW_SHIFT = 2 };

/* The number at the front of a value. Text: 0 missing, else 1 + length. */
enum samples_code {
    CODE_MISSING = 0,
    CODE_RAW = 1,     /* 8 bytes follow */
    CODE_DIFF = 2,    /* integers and bools: this + the difference */
    CODE_DECIMAL = 2, /* floats: u8 k, varint zigzag(m): the value is m / 10^k */
    CODE_STEP = 3     /* floats: this + zigzag(difference of m), k as before */
};

/* Floats: up to nanoseconds in seconds; more digits are seldom exact. */
enum { SAMPLES_DECIMAL_MAX = 9 };
static const double samples_powers[SAMPLES_DECIMAL_MAX + 1] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

enum {
    SAMPLES_MEMORY_MAX =
        16 << 20, /* bytes of schemas, streams and baselines a connection, as counted below */
    SAMPLES_UNFOLD_MAX =
        1 << 20 /* bytes of a packet's rows as events: a small packet must not become a huge batch */
};

/* A field's baseline. What a value was is kept while it is missing: differences go on from there. */
struct samples_base {
    union {
        uint64_t bits; /* of a number */
        char *text;    /* owned */
    };
    union {
        int64_t m;  /* float: the last one sent as m / 10^k */
        size_t cap; /* text: bytes allocated */
    };
    uint32_t n;   /* text: length */
    uint8_t type; /* the field's, or VALUE_NONE: missing */
    uint8_t k;
};

struct samples_stream {
    const struct schema *schema; /* one reference */
    struct slice prog;           /* in the same allocation, as base and value_at */
    uint32_t baseline;           /* its number */
    bool is_rolled;              /* the baseline is not the announced one any more */
    uint32_t n_values;           /* fields that are no keys: */
    uint16_t *value_at;          /* their places in the schema */
    size_t names;                /* bytes an event of this schema has besides text, at most */
    size_t text;                 /* bytes of text in the baseline */
    struct samples_base *base;   /* schema->n_fields of them */
};

/* Everything missing; baseline number 0. NULL: no memory. */
struct samples_stream *samples_stream_create(const struct schema *schema, struct slice prog);
void samples_stream_destroy(struct samples_stream *s); /* NULL is fine */
/* What SAMPLES_MEMORY_MAX counts; the same at both ends, so that the writer knows what the reader takes. */
size_t samples_stream_cost(const struct samples_stream *s);
size_t samples_schema_cost(const struct schema *s);
/* What SAMPLES_UNFOLD_MAX counts: a row of the stream with that much text. */
static inline size_t samples_row_cost(const struct samples_stream *s, size_t text)
{
    return 64 + 16 * s->schema->n_fields + text;
}

/* A stream as a reader keeps it. Most rest: packets without ROLL never move their baseline. Then the baseline
 * is bytes, a tenth of what it is unfolded. */
struct samples_kept {
    const struct schema *schema; /* one reference */
    struct samples_stream *live; /* NULL: it rests, in state */
    uint32_t baseline;
    uint32_t text;     /* bytes of text in state */
    uint32_t n;        /* bytes of state */
    uint16_t n_values; /* fields that are no keys */
    bool is_plain;     /* these are numbers, and a row of them is always an event */
    bool has_keys;
    unsigned char state[];
};

/* Keeps s, at rest; s is only looked at. bytes is work space. NULL: no memory. */
struct samples_kept *samples_kept_create(const struct samples_stream *s, struct strbuf *bytes);
void samples_kept_destroy(struct samples_kept *k); /* NULL is fine */
size_t samples_kept_cost(const struct samples_kept *k);
/* The stream of one that rests: fills in *s, whose base and value_at have room for every field. Everything is
 * borrowed from k. */
void samples_kept_unfold(const struct samples_kept *k, struct samples_stream *s);
/* Makes it live, so that its baseline can move; it may be elsewhere then. unfolded is work space. -ENOMEM. */
int samples_kept_wake(struct samples_kept **kept, struct samples_stream *unfolded);
/* The state: that of one at rest as it is, else made in *bytes. -ENOMEM. */
int samples_kept_state(const struct samples_kept *k, struct strbuf *bytes, struct slice *out);
/* Reads a state from outside into *s as unfold does. E_PROTO, E_LIMIT, with *what in a phrase. */
int samples_state_read(const struct schema *schema, struct slice state, struct samples_stream *s,
                       const char **what);
/* s becomes an empty stream of this schema; base and value_at stay where they are and have room. */
void samples_stream_init(struct samples_stream *s, const struct schema *schema, struct slice prog);

/* The baseline as a value; text is borrowed from it. */
static inline struct value samples_base_value(const struct samples_base *b)
{
    struct value v = {.u = b->bits, .n = b->n, .type = b->type};
    if (value_is_text(b->type) && b->n == 0)
        v.p = "";
    return b->type == VALUE_NONE ? value_none() : v;
}

/* An event may set one type of a name. */
bool samples_sets_one_twice(const struct schema *s, const struct value *values);
bool samples_is_prog(struct slice prog);

#endif
