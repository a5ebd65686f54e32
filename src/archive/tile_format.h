/* SPDX-License-Identifier: Apache-2.0 */
/* tile_format.h - GLT1: a piece of a picture as columns of bytes. Pure. The byte layout is in tile_format.c
 * and docs/tiles.md. */
#ifndef GRIDLINE_ARCHIVE_TILE_FORMAT_H
#define GRIDLINE_ARCHIVE_TILE_FORMAT_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

/* On the wire: never change them. */
enum tile_kind {
    TILE_SERIES = 1,
    TILE_POINTS = 2,
    TILE_LIFELINE_EXACT = 3,
    TILE_LIFELINE_DENSITY = 4,
    TILE_EDGES = 5,
    TILE_KINDS = 6
};

enum {
    TILE_BINS = 256,     /* of a tile of level L: 4^L ns wide, so a tile has four of level L - 1 */
    TILE_LEVEL_MAX = 26, /* 256 bins of 52 days: 36 years */
    TILE_HEAD = 64,
    TILE_BYTES_MAX =
        64 << 10 /* what a tile is kept to, about: the few that a screen shows are 300 KB gzipped */
};

enum {
    TILE_OPEN = 1,     /* rows may still come: ask again */
    TILE_LEFT_OUT = 2, /* head.left_out is not 0 */
    TILE_COARSE = 4,   /* bins are wider than 4^level ns, to keep it small: column bin_ns */
    TILE_DAMAGED = 8   /* head.lost is not 0 */
};

enum tile_type {
    TILE_U8 = 1,
    TILE_U16 = 2,
    TILE_U32 = 3,
    TILE_U64 = 4,
    TILE_F32 = 5,
    TILE_F64 = 6,
    TILE_TEXT = 7
};

/* What columns there are; numbers are on the wire. Columns of one group have as many values each; group 0
 * are the rows of the picture, others are lists that they refer to. */
enum tile_column {
    COLUMN_BIN_NS = 1, /* u64, one value: how wide bins are */
    COLUMN_STREAM,     /* text: "host prog name key=value..." */
    COLUMN_ROW,        /* u16: number of a stream */
    COLUMN_T,          /* u32: base_ns + t * span_ns / 2^32 */
    COLUMN_FIRST,      /* f64 */
    COLUMN_MIN,
    COLUMN_MAX,
    COLUMN_LAST,
    COLUMN_COUNT,        /* u32, or more: its greatest value */
    COLUMN_SEVERITY,     /* u8: a level (level.h); the worst */
    COLUMN_ID,           /* text; "" = none */
    COLUMN_EVENT,        /* text: event names */
    COLUMN_HOST,         /* text: hosts */
    COLUMN_PATH_END,     /* u32: where a path ends in path_event */
    COLUMN_PATH_EVENT,   /* u16: number of an event */
    COLUMN_PATH,         /* u32: of a lifeline: number of a path */
    COLUMN_VERTEX_T,     /* u32: as t; as many for each lifeline as its path has events */
    COLUMN_VERTEX_HOST,  /* u16: number of a host */
    COLUMN_PAIR_FROM,    /* u16: number of an event; 65535 = none is known */
    COLUMN_PAIR_TO,      /* u16 */
    COLUMN_PAIR_LATE,    /* u8: 1 = events that came after a later one of their id */
    COLUMN_PAIR,         /* u16: number of a pair */
    COLUMN_LATENCY_BIN,  /* u8: of 252, four to a doubling; 255 = without a latency */
    COLUMN_OUTLIER_PAIR, /* as those above, of outliers */
    COLUMN_OUTLIER_T,
    COLUMN_OUTLIER_LATENCY, /* f64: ns; NaN = none */
    COLUMN_OUTLIER_SEVERITY,
    COLUMN_OUTLIER_HOST,
    COLUMN_OUTLIER_ID,
    COLUMN_NODE,         /* text */
    COLUMN_SRC,          /* u32: number of a node */
    COLUMN_DST,          /* u32 */
    COLUMN_RATE,         /* f32: a second */
    COLUMN_ERRORS,       /* u32 */
    COLUMN_P50,          /* f32: seconds */
    COLUMN_P99,          /* f32: seconds */
    COLUMN_HOP_EDGE,     /* u16: number of an edge */
    COLUMN_HOP_T,        /* u32: when it ended */
    COLUMN_HOP_LATENCY,  /* f32: seconds */
    COLUMN_HOP_SEVERITY, /* u8 */
    COLUMN_NODE_FIRST,   /* u32: ids whose first event is there */
    COLUMNS
};

struct tile_column_def {
    const char *name;
    uint8_t type;
    uint8_t group;
    uint8_t refers; /* its values are numbers of this column's; 0 = they are not */
};
/* NULL: there is no such column. */
const struct tile_column_def *tile_column_def(unsigned column);
/* "series"... NULL: no such kind. */
const char *tile_kind_name(unsigned kind);

struct tile_head {
    uint16_t kind, level, flags;
    int64_t index;
    int64_t base_ns;
    uint64_t span_ns;
    uint64_t left_out; /* what the picture has no room for: rows, lifelines, series */
    uint64_t lost;     /* rows that damage has kept out of it */
};

/* ---------------------------------------------------------------- writing */

struct tile_writer {
    struct tile_head head;
    struct {
        struct strbuf values; /* of text: where each ends, u32 */
        struct strbuf text;
        uint32_t n;
        bool is_there;
    } columns[COLUMNS];
};
/* A zeroed one is empty. Values of a column by its type; running out of memory is told by tile_finish. */
void tile_writer_fini(struct tile_writer *w);
void tile_declare(struct tile_writer *w, enum tile_column c); /* it is there although it has no values */
void tile_put_uint(struct tile_writer *w, enum tile_column c, uint64_t v); /* above its type: the greatest */
void tile_put_float(struct tile_writer *w, enum tile_column c, double v);
void tile_put_text(struct tile_writer *w, enum tile_column c, struct slice s);
size_t tile_size(const struct tile_writer *w); /* what it would have now */
/* t of a time: in units of span_ns / 2^32 from base_ns; clamped. */
uint32_t tile_time(const struct tile_head *h, int64_t time_ns);
/* Appends the tile. -ENOMEM. */
int tile_finish(const struct tile_writer *w, struct strbuf *out);

/* ---------------------------------------------------------------- reading */

struct tile {
    struct tile_head head;
    struct {
        uint32_t n;
        const char *values; /* of text: u32 ends, then the bytes; little-endian, aligned as the tile is */
        const char *text;
        bool is_there;
    } columns[COLUMNS];
};
/* Checks everything; borrows bytes. E_PROTO, E_DAMAGE, E_VERSION. */
int tile_read(struct slice bytes, struct tile *out);
/* Value i of a column, which it has. */
uint64_t tile_uint(const struct tile *t, enum tile_column c, uint32_t i);
double tile_float(const struct tile *t, enum tile_column c, uint32_t i);
struct slice tile_text(const struct tile *t, enum tile_column c, uint32_t i);
int64_t tile_time_ns(const struct tile *t, uint64_t at);

/* For people: all columns as one JSON object; the rows of the picture as CSV, with texts for numbers. */
void tile_print_json(const struct tile *t, struct strbuf *out);
void tile_print_csv(const struct tile *t, struct strbuf *out);

#endif
