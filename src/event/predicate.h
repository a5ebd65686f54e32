/* SPDX-License-Identifier: Apache-2.0 */
/* predicate.h - the WHERE clause: a documented subset of SQL, compiled once, evaluated on every event.
 * docs/predicate.md is the same for users, with examples.
 *
 * Operands: time, host, prog, level, name; fields by name, bare (job.id) or quoted ("like-this"), case
 * matters;
 * "$host" is the field called host. Numbers, 'text' (a quote doubled), x'00ff' bytes, TRUE, FALSE, NULL.
 *
 * Operators, loosest first, as in SQLite:
 *     OR
 *     AND
 *     NOT
 *     = == != <>  IS [NOT] NULL  [NOT] IN (constants)  [NOT] BETWEEN x AND y  [NOT] LIKE 'a%' [ESCAPE 'c']
 *                 [NOT] GLOB 'a*'
 *     < <= > >=
 *     + -
 *     * / %
 *     -x
 *
 * Meaning: a missing field is NULL, so is an unknown host or prog; comparing with NULL is unknown (NULL);
 * NOT, AND and OR follow SQL's three-valued logic; only what is true passes.
 *   - Numbers compare by value across int, uint, float and bool (TRUE is 1), exactly: no rounding to double.
 *     NaN compares as unknown. Text compares with text, bytes with bytes, byte by byte; with bytes text is unknown.
 *   - A field is taken by its class (class.h), as its SQL column is: in a number column text is NULL, in a text column a
 *     number is its text. A constant is then taken for the column's class: '17' is 17 in a number column, 17 is '17' in a
 *     text column; text that is no number compares as unknown with a number column. Between two columns a text that is a
 *     number is that number. A field without a class is taken for what it is compared with, value by value.
 *     "f:text" and "f:number" are f by that class, whatever its own.
 *   - As a condition a number is true unless it is 0; text is unknown, and refused where it can be told.
 *   - Integer arithmetic that leaves int64 (uint64 where an operand is beyond int64) goes on in floating
 * point. x/0, x%0, a NaN result and arithmetic on text that is no number are NULL. Integer division truncates.
 *   - LIKE ignores the case of A-Z, `_` is one character; GLOB is text_glob, by bytes, case matters.
 *   - `level` compares as its number, only with a level's name: level <= 'warning' passes emergency to
 * warning.
 *   - `time` compares only with constants: text ('2026-11-15T21:00:00Z', 'now-15m') or seconds since 1970.
 *
 * Cost: 10 to 30 ns for a few conditions. The worst, for LIKE '%…%' on hostile text: the bytes of the pattern
 * times those of the text. */
#ifndef GRIDLINE_EVENT_PREDICATE_H
#define GRIDLINE_EVENT_PREDICATE_H

#include "base/err.h"
#include "base/slice.h"
#include "event/class.h"
#include "event/event.h"

/* More of any is E_LIMIT. */
enum {
    PREDICATE_TEXT_MAX = 64 * 1024, /* bytes of the predicate */
    PREDICATE_DEPTH_MAX = 64,       /* parentheses, NOTs and minus signs inside each other; chains are free */
    PREDICATE_NODES_MAX = 1024,     /* operands and operators */
    PREDICATE_IN_MAX = 4096,        /* constants of one IN list */
    PREDICATE_PATTERN_MAX = 4096,   /* bytes of all LIKE and GLOB patterns together */
    PREDICATE_FIELDS_MAX = EVENT_FIELDS_MAX
};

struct predicate;

/* now_ns is what `now` means in times. text need not outlive the call. On failure E_PROTO, E_LIMIT or
 * -ENOMEM: *why (NULL is fine) has the column (bytes, from 1) and what is wrong with a hint; its line is left
 * alone. */
int predicate_compile(struct slice text, int64_t now_ns, struct predicate **out, struct diag *why);
void predicate_destroy(struct predicate *p); /* NULL is fine */

/* From now on fields are taken by the classes that are kept there; NULL: by what their schemas and names say. classes
 * outlives p. */
void predicate_use_classes(struct predicate *p, const struct class_source *classes);
/* Whether a condition can't be true of events of that name, because a number column is compared with text that is no number
 * or with a pattern; *why then says which and what to write. */
bool predicate_notice(const struct predicate *p, const struct class_source *classes, struct slice event, struct diag *why);

/* True when e passes. No allocation. p belongs to one thread: it remembers where the last few schema versions
 * have its fields, and holds a reference to each of those. */
bool predicate_test(struct predicate *p, const struct event *e);
/* index has the places of n events, in order: keeps those of events that pass, and returns how many. The same
 * as testing each, at half the cost where conditions compare fields with whole numbers and all have to
 * hold (size >= 100 AND size < 200). */
size_t predicate_filter(struct predicate *p, const struct event *events, uint32_t *index, size_t n);

#endif
