/* SPDX-License-Identifier: Apache-2.0 */
/* class.h - the class of a field: whether its column holds numbers or text. One per event name and field, so that a
 * column never mixes the two, whoever wrote the values and in whichever encoding.
 *
 * Class number: the column f holds numbers or NULL, "f:text" the spelling of every value.
 * Class text: the column f holds the text of every value, "f:number" the number or NULL.
 *
 * Who says which class a field has, strongest first:
 *   by hand    configuration, or `gridline schema set EVENT FIELD number|text`
 *   declared   a schema that describes the field (a sensor's: it has a kind, unit or help): by its type
 *   by name    names of ids and versions are text (class_by_name)
 *   decided    after CLASS_VALUES values, or CLASS_NS since the first: number if more than half of the values that are
 *              not quoted numbers are numbers, else text. Never changes by itself afterwards.
 *   provisional  until then: the same rule over what was seen so far
 *
 * Pure rules; the archive's catalogue keeps the states (archive/catalog.h) and others ask through a class_source. */
#ifndef GRIDLINE_EVENT_CLASS_H
#define GRIDLINE_EVENT_CLASS_H

#include "base/err.h"
#include "event/schema.h"

/* On disk and on the wire: never change the numbers. */
enum field_class { CLASS_UNKNOWN = 0, CLASS_NUMBER = 1, CLASS_TEXT = 2 };
enum class_by { CLASS_PROVISIONAL = 0, CLASS_DECIDED = 1, CLASS_BY_NAME = 2, CLASS_DECLARED = 3, CLASS_BY_HAND = 4 };

enum { CLASS_VALUES = 1000 };
#define CLASS_NS INT64_C(3600000000000)

/* What is known of one field of one event name. */
struct class_state {
    uint8_t class, by;
    uint64_t numbers; /* values that are numbers */
    uint64_t texts;   /* values that are text or bytes, and no quoted number */
    uint64_t quoted;  /* text that looks like a number: not counted either way */
    int64_t first_ns; /* UTC, when the first value arrived; 0 = none yet */
};

/* "number", "text", "unknown"; "provisional", "decided", "by name", "declared", "by hand". */
const char *class_name(uint8_t class);
const char *class_by_text(uint8_t by);
int class_parse(struct slice s, uint8_t *out); /* "number" or "text"; else E_PROTO */

/* CLASS_TEXT for names of ids and versions: id *.id *_id guid job step version *_version release serial trace span
 * parent, in any case; else CLASS_UNKNOWN. */
uint8_t class_by_name(struct slice field);
/* Does the schema describe the field (declared), or was it learned from values? */
bool class_is_declared(const struct field *f);
/* The class of a declared type. */
uint8_t class_of_type(uint8_t value_type);
/* The state that a field begins with: declared, by name, or provisional without values. */
struct class_state class_begin(const struct field *f);

/* Is the class still open, so that values have to be counted? */
static inline bool class_is_open(const struct class_state *s)
{
    return s->by == CLASS_PROVISIONAL;
}
/* Counts one value of an open class and decides when it is time. true: class or by has changed. */
bool class_count(struct class_state *s, struct value v, int64_t now_ns);
/* The same for n values at once of which so many are numbers, texts and quoted numbers. */
bool class_count_many(struct class_state *s, uint64_t numbers, uint64_t texts, uint64_t quoted, int64_t now_ns);

/* A value as its class has it in the column f: class number: the number or VALUE_NONE; class text: the text of the value
 * (bytes stay bytes), which may lie in buf. CLASS_UNKNOWN: as it is. */
struct value class_value(uint8_t class, struct value v, char buf[VALUE_SPELLING_MAX]);

/* The view that a column's name asks for: "f:text" is CLASS_TEXT of f, "f:number" CLASS_NUMBER; *base is f. CLASS_UNKNOWN: f
 * by its own class, *base is the name. */
uint8_t class_view(struct slice name, struct slice *base);

/* Whoever keeps classes, as others see it: wired by cmd (the gateway's loop asks the archive). Any thread. */
struct class_source {
    void *arg;
    /* false: nothing is known of that field; *out is then what class_by_name says. */
    bool (*get)(void *arg, struct slice event, struct slice field, struct class_state *out);
    /* Sets a class by hand; on disk when it returns. */
    int (*set)(void *arg, struct slice event, struct slice field, uint8_t class, struct diag *why);
    /* Changes when any class does: what was bound to classes is then bound again. */
    uint64_t (*generation)(void *arg);
};

/* The class by which a reader takes a field of a schema: the source's (NULL is fine), else what the schema declares or the
 * name says. CLASS_UNKNOWN: each value by itself. */
uint8_t class_of(const struct class_source *source, const struct schema *s, struct slice field);

#endif
