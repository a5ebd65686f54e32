/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - rows of named values for a person (a table) or for a program (as events of one name, in any
 * encoding).
 *
 *     t = table_create(&options);
 *     table_add(t, row, text);   any number of times; the row and its text are copied
 *     table_flush(t);            what has come so far is to be seen
 *     table_finish(t); table_destroy(t);
 *
 * Errors of the output have been reported when a call returns them. */
#ifndef GRIDLINE_CMD_TABLE_H
#define GRIDLINE_CMD_TABLE_H

#include "event/encoding.h"
#include "net/args.h"

/* A column of the table; events always have everything. */
struct table_column {
    const char *name; /* NULL ends the list */
    size_t cut;       /* show at most so many bytes; 0 = all */
};

/* By which rows are sorted: the bytes of a text column; more than one: where the first are the same. */
struct table_order {
    const char *name; /* NULL ends the list */
    bool is_down;     /* the greatest first */
};

struct table_options {
    const char *event;                  /* the name of the events */
    const struct encoding *encoding;    /* NULL: a table */
    const struct table_column *columns; /* the first ones, in this order */
    bool has_rest;                      /* and all others, in the order in which they come */
    bool shows_all;                     /* columns that no row has are shown, too */
    const struct table_order *order;    /* of the rows that are printed at once; NULL: as they came */
    /* The escape sequence that a cell's text is coloured by; NULL: none. Asked only for a terminal, and not
     * with NO_COLOR. */
    const char *(*colour)(const char *column, struct value v);
};

/* A name as in --format: "table" (or NULL) gives *out NULL, else an encoding. false after having said what
 * there is. */
bool table_format(const char *name, const struct encoding **out);

struct table;
/* NULL after having said why. Borrows options. */
struct table *table_create(const struct table_options *o);
void table_destroy(struct table *t); /* NULL is fine */
/* text "": none; else it is a value `text`, the last. host and prog are the events' own if the row has them
 * as text. */
void table_add(struct table *t, struct args row, struct slice text);
/* Prints what is waiting; of a table with a head before the first row. Of csv it waits for the end: all
 * columns must be known. */
int table_flush(struct table *t);
/* The same, of csv too: the columns are those of the rows so far, and what later rows have besides is left
 * out. */
int table_round(struct table *t);
int table_finish(struct table *t);
/* The next flush prints the head again (after the screen was cleared). */
void table_again(struct table *t);

/* As people read it: numbers as they are, yes and no, text without control characters. */
void table_add_value(struct strbuf *out, struct value v);

#endif
