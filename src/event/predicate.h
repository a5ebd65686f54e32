/* SPDX-License-Identifier: Apache-2.0 */
/* predicate.h - the WHERE clause: a documented subset of SQL, compiled once, evaluated on every event.
 *
 * Operands: field names (any name of the model; quoted "like.this" when it is not a plain identifier), and
 * time, host, prog, level, name; numbers, 'text', x'00ff' bytes, TRUE, FALSE, NULL.
 * Operators, loosest first: OR; AND; NOT; = == != <> < <= > >= IS [NOT] NULL, [NOT] IN (…), [NOT] BETWEEN x
 * AND y, [NOT] LIKE, [NOT] GLOB; + -; * / %; unary -.
 * As in SQL: a missing field is NULL, comparing with NULL is unknown, and only what is true passes.
 * Numbers compare by value across int, uint and float, exactly (no rounding to double); text with text,
 * bytes with bytes; numbers never equal text. `level` compares by importance with a level's name:
 * level <= 'warning' passes warning, error, …; `time` with a time as text ('2026-11-15T21:00:00Z', 'now-15m')
 * or seconds since 1970. Integer arithmetic that overflows goes on in floating point; x/0 and x%0 are NULL. */
#ifndef GRIDLINE_EVENT_PREDICATE_H
#define GRIDLINE_EVENT_PREDICATE_H

#include "base/err.h"
#include "base/slice.h"
#include "event/event.h"

struct predicate;

/* now_ns is what `now` means in times. On failure E_PROTO or E_LIMIT, with the column and a hint in *why. */
int predicate_compile(struct slice text, int64_t now_ns, struct predicate **out, struct diag *why);
void predicate_destroy(struct predicate *p); /* NULL is fine */

/* True when e passes. No allocation; the field look-ups are cached per schema, so p belongs to one thread. */
bool predicate_test(struct predicate *p, const struct event *e);

#endif
