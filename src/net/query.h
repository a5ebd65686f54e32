/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - the frames of a query (docs/protocol.md, "Queries") as bytes and plain structs, and the rows of a
 * result as they are in ROWS. As frame.h: pure functions, slices borrowed from the payload. */
#ifndef GRIDLINE_NET_QUERY_H
#define GRIDLINE_NET_QUERY_H

#include "event/notice.h"
#include "event/value.h"
#include "net/args.h"
#include "net/frame.h"

enum query_frame {
    FRAME_QUERY = 34,
    FRAME_ROWS = 35,
    FRAME_QUERY_END = 36,
    FRAME_QUERY_CANCEL = 37,
    FRAME_QUERY_PROGRESS = 38
};

/* Options are named values; who does not know one of them refuses the query.
 *     time_ms    uint: how long it may take
 *     rows       uint: how many rows it may give */
struct frame_query {
    uint32_t id;       /* the asker's choice */
    struct slice text; /* one statement of SQL, UTF-8 */
    struct args options;
};

struct frame_rows {
    uint32_t id;
    struct slice piece; /* below */
};

struct frame_query_end {
    uint32_t id;
    uint16_t status; /* enum control_status: 0 = those were all rows; else text says why not */
    struct slice text;
    uint32_t column;     /* of the statement, from 1: where it is wrong; 0 = nowhere in particular */
    uint64_t rows, lost; /* given; kept out of it by damage */
    struct notices notices;
};

struct frame_query_progress {
    uint32_t id;
    uint64_t rows_seen, elapsed_ms;
};

void frame_put_query(struct strbuf *out, const struct frame_query *q);
int frame_get_query(struct slice payload, struct frame_query *out);
/* The head of ROWS for n bytes, which are sent behind it. */
void frame_put_rows_head(struct strbuf *out, uint32_t id, size_t n);
int frame_get_rows(struct slice payload, struct frame_rows *out);
void frame_put_query_end(struct strbuf *out, const struct frame_query_end *e);
int frame_get_query_end(struct slice payload, struct frame_query_end *out);
void frame_put_query_cancel(struct strbuf *out, uint32_t id);
int frame_get_query_cancel(struct slice payload, uint32_t *id);
void frame_put_query_progress(struct strbuf *out, const struct frame_query_progress *p);
int frame_get_query_progress(struct slice payload, struct frame_query_progress *out);

/* ---------------------------------------------------------------- rows
 *
 * A piece: u8 version (RESULT_VERSION), u8 flags; if RESULT_COLUMNS is set, varint n and n texts, the
 * columns' names; then rows to its end, each n values: u8 type (event/value.h: none, int, float, text,
 * bytes), and of an int a zigzag varint, of a float 8 bytes, of text and bytes a varint length and the bytes.
 * The first piece of a result has the columns, no other. A row is never cut. */
enum {
    RESULT_VERSION = 1,
    RESULT_COLUMNS = 1, /* flag */
    RESULT_COLUMNS_MAX = 2048,
    RESULT_ROW_MAX = 960 << 10 /* bytes of a row: with a page before it, it fits into a frame */
};

/* Begins a piece. names NULL: it has no columns. */
void result_begin(struct strbuf *out, const struct slice *names, size_t n);
/* VALUE_NONE, INT, FLOAT, TEXT (UTF-8) or BYTES. */
void result_put(struct strbuf *out, struct value v);

/* A piece that was checked: walking it can't fail. */
struct result_piece {
    bool has_columns;
    uint32_t n_columns;
    struct slice names; /* n_columns texts, if has_columns */
    struct slice rows;
    uint64_t n_rows;
};
/* n_columns: those of the result so far; 0: this is the first piece, which must have them. E_PROTO,
 * E_VERSION, E_LIMIT (columns). Cost: one pass over the bytes. */
int result_read(struct slice piece, uint32_t n_columns, struct result_piece *out);
/* Takes a name, or a row of n values, off the front: false at the end. */
bool result_next_name(struct slice *names, struct slice *out);
bool result_next_row(struct slice *rows, uint32_t n, struct value *out);

#endif
