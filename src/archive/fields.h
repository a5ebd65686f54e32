/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - a table by fields: one column a field, whatever types its values were stored with.
 *
 * What is stored has a column for each (name, type): `load` may be stored as int, float, number as written and text. What
 * is read has one column a field, by the field's class (event/class.h): class number: int, uint, float or bool; text is
 * left out. Class text: the text of every value. Behind the columns of the fields come their companions, column n + i of
 * field i of n, which hold the other side: "f:text" the text of every value, "f:number" the number or nothing.
 *
 * A field_map says which stored columns make which field, for the catalogue's table or a blob's. Where the two are the
 * same, which they are for every sensor and every program that types its values, chunks and rows pass untouched.
 *
 * A number field that was stored with several types is float in all rows, so that an answer does not depend on which rows
 * share a chunk. Integers beyond 2^53 are then exact in "f:text" alone. */
#ifndef GRIDLINE_ARCHIVE_FIELDS_H
#define GRIDLINE_ARCHIVE_FIELDS_H

#include "archive/blob.h"
#include "event/class.h"

enum { FIELD_NONE = UINT16_MAX };

/* The table by fields of a stored one; states[i]: of stored column i (columns of one name have the same). All of it in
 * arena, but names, units and helps, which are borrowed from stored. NULL: no memory. */
const struct table_def *fields_of(const struct table_def *stored, const struct class_state *const *states,
                                  struct arena *arena);

struct field_map {
    const struct table_def *fields; /* by fields; or a stored one (no states): columns are then found by name and type */
    const struct table_def *stored;
    bool is_same; /* nothing to convert */
    bool is_old;  /* text that is a number in a spelling of its own may have been a bare one: it counts as a number */
    uint16_t *field_of; /* by stored column: FIELD_NONE = it is of no field here */
    uint16_t *first;    /* by field: its first stored column, or FIELD_NONE; */
    uint16_t *next;     /* by stored column: the next one of the same field */
};

/* Borrows both tables. -ENOMEM. */
int field_map_init(struct field_map *m, const struct table_def *fields, const struct table_def *stored, bool is_old,
                   struct arena *arena);
/* The stored columns that make the wanted ones, ascending, at out, which has room for twice the columns that are stored:
 * how many. */
size_t field_map_want(const struct field_map *m, const uint16_t *want, size_t n_want, uint16_t *out);
/* The chunk by fields. *needs_rows: of some field only its rows can tell (is_old), its summary has a count at most. */
int field_map_chunk(const struct field_map *m, const struct blob_chunk *c, struct arena *arena, struct blob_chunk *out,
                    bool *needs_rows);
/* The rows by fields: the wanted columns that have values (want NULL = all but companions). */
int field_map_rows(const struct field_map *m, const struct rows *in, const uint16_t *want, size_t n_want,
                   struct arena *arena, struct rows *out);

#endif
