/* SPDX-License-Identifier: Apache-2.0 */
/* live_internal.h - how live tables lie in memory: for live*.c, which changes them, and judge*.c, which reads
 * them.
 *
 * Everything of row i is at place i of arrays: of the table (time, heard, ...) and of each column (tag and
 * bits). Places 0 to n - 1 are used; when a row goes, the last one moves to its place. Rows of a host are a
 * list through next and prev. */
#ifndef GRIDLINE_GUARD_LIVE_INTERNAL_H
#define GRIDLINE_GUARD_LIVE_INTERNAL_H

#include "base/err.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "guard/live.h"

enum {
    LIVE_COLUMNS_MAX = 1000, /* of a table; SQLite takes 2000 */
    LIVE_SHAPES = 4,         /* versions of a schema whose columns are remembered */
    LIVE_SEEN_HUGE = 1       /* in live_column.seen, where VALUE_NONE has no bit: a uint above INT64_MAX */
};
#define LIVE_NO_ROW UINT32_MAX

union live_bits {
    int64_t i;
    uint64_t u; /* also a bool */
    double f;
};

/* The bytes of a text or bytes value; kept for the next one of its row and column. */
struct live_text {
    uint32_t n, cap;
    char p[];
};

struct live_column {
    struct slice field; /* its name in events; in name's memory */
    const char *name;   /* its name in SQL */
    uint8_t seen;       /* 1 << type for each type that it ever had, LIVE_SEEN_HUGE */
    uint8_t *tags;      /* value types; VALUE_NONE = missing */
    union live_bits *bits;
    struct live_text **texts; /* NULL until there is text; then each NULL until its row has */
};

struct live_host {
    struct slice name;   /* "" = not known */
    struct slice domain; /* behind the first dot; "" = none */
    int64_t heard_ns;
    uint32_t first; /* row */
    uint32_t n;     /* rows */
    char p[];
};

struct live_row {
    uint32_t at; /* its place */
    uint32_t n_key;
    struct slice prog; /* of key */
    char key[];        /* stream_key.h */
};

/* Where the fields of a schema version go. */
struct live_shape {
    const struct schema *schema; /* a reference */
    uint16_t column[];           /* of each field */
};

/* Rows in an order of their hosts'. */
struct live_order {
    uint32_t *rows;   /* cap places */
    uint64_t version; /* of the table's rows that it is of; 0 = none */
};

enum live_by { LIVE_BY_HOST, LIVE_BY_DOMAIN, LIVE_ORDERS };

struct live_table {
    struct slice name; /* the event's */
    const char *sql;   /* its name in SQL */
    struct live_column **columns;
    uint32_t n_columns;
    struct map by_field; /* field -> struct live_column */
    struct live_shape *shapes[LIVE_SHAPES];
    size_t shape_next;      /* which to replace */
    uint64_t version;       /* of its columns and their types; of all tables no two are equal */
    uint32_t n, cap;        /* rows */
    uint64_t rows_version;  /* changes when a row comes, goes or moves; never 0 */
    struct live_row **rows; /* from here on: cap places */
    struct live_host **hosts;
    uint32_t *next, *prev; /* of the same host; LIVE_NO_ROW */
    int64_t *time_ns, *heard_ns;
    uint8_t *levels;
    struct live_order orders[LIVE_ORDERS];
    struct map by_key;  /* stream key -> struct live_row */
    struct map by_host; /* name -> struct live_host */
    int64_t heard_ns_max;
};

struct live {
    struct live_limits limits;
    struct live_stats stats;
    struct live_table **tables;
    struct map by_name, by_sql; /* struct live_table */
    uint64_t versions;          /* given so far */
    uint64_t tables_gone;       /* how many; a struct live_table is good for as long as this stays */
    size_t forget_table;        /* where live_forget goes on */
    uint32_t forget_row;
    struct strbuf key; /* of the event that is being taken */
};

/* ---------------------------------------------------------------- live_column.c */

/* Room for n more bytes within the limit? live_charge counts them. */
bool live_has_room(const struct live *l, size_t n);
static inline void live_charge(struct live *l, size_t n)
{
    l->stats.bytes += n;
}
static inline void live_discharge(struct live *l, size_t n)
{
    l->stats.bytes -= n;
}

static inline size_t live_map_size(const struct map *m)
{
    return m->cap * sizeof *m->slots;
}
/* That one more may take: a map doubles when it is half full. */
static inline size_t live_map_more(const struct map *m)
{
    return m->cap ? live_map_size(m) : 16 * sizeof *m->slots;
}

/* The columns of a schema version's fields, made where they are missing. E_LIMIT, -ENOMEM. */
int live_shape_of(struct live *l, struct live_table *t, const struct schema *s,
                  const struct live_shape **out);
/* Room for the event's text in the row's cells; nothing that is there changes. E_LIMIT, -ENOMEM. */
int live_cells_reserve(struct live *l, struct live_table *t, const struct live_shape *s, uint32_t row,
                       const struct event *e);
/* Stores the values; room was made. */
void live_cells_store(struct live *l, struct live_table *t, const struct live_shape *s, uint32_t row,
                      const struct event *e);
/* Places for cap rows. -ENOMEM: there are as many as before, at least. */
int live_cells_resize(struct live_table *t, uint32_t cap);
size_t live_cells_row_size(const struct live_table *t); /* bytes of a place in all columns */
void live_cells_clear(struct live *l, struct live_table *t, uint32_t row); /* frees its texts */
/* No rows, no places. */
void live_cells_free(struct live_table *t);
void live_cells_move(struct live_table *t, uint32_t from, uint32_t to);
void live_columns_fini(struct live *l, struct live_table *t);
/* Bytes that were charged for columns; for live_check. */
size_t live_columns_size(const struct live_table *t);

/* The value at a row; text is borrowed until the row changes. */
static inline struct value live_cell(const struct live_column *c, uint32_t row)
{
    struct value v = {.u = c->bits[row].u, .type = c->tags[row]};
    if (v.type == VALUE_NONE)
        v.u = 0;
    if (value_is_text(v.type)) {
        v.p = c->texts[row]->p;
        v.n = c->texts[row]->n;
    }
    return v;
}

/* ---------------------------------------------------------------- live_table.c */

int live_table_create(struct live *l, struct slice name, struct live_table **out);
void live_table_destroy(struct live *l, struct live_table *t); /* NULL is fine */
/* A row for the event whose key is l->key, with no values yet. E_LIMIT, -ENOMEM. */
int live_row_add(struct live *l, struct live_table *t, const struct event *e, struct live_row **out);
void live_row_remove(struct live *l, struct live_table *t, uint32_t at);
/* All rows by host, or by domain and host; those without come first. NULL: no memory. Costs a look, but after
 * rows have come or gone, when hosts are sorted anew. */
const uint32_t *live_order(struct live_table *t, enum live_by by);
size_t live_table_size(const struct live_table *t); /* bytes that were charged, but for columns */

/* live_check.c: asserts that all of this is as said above. */
void live_check(const struct live *l);

#endif
