/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - reading JSON (RFC 8259) piece by piece, and writing its strings.
 *
 * The reader takes one whole text, allocates nothing, copies nothing and does not recurse; strings and
 * numbers are handed out as they stand in the text. Strict: no comments, no trailing commas, no NaN.
 *
 *     struct json_reader r;
 *     struct json_item item;
 *     json_init(&r, text, 8, &why);
 *     while ((rc = json_next(&r, &item)) == 0 && item.kind != JSON_END)
 *         ...
 */
#ifndef GRIDLINE_EVENT_JSON_H
#define GRIDLINE_EVENT_JSON_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum json_kind {
    JSON_END, /* the text is over */
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_OBJECT, /* what follows, up to its JSON_OBJECT_END, is inside */
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END
};

struct json_item {
    struct slice key;  /* inside an object: as between the quotes; else "" */
    struct slice text; /* a string as between the quotes; a number as written, which follows the grammar */
    const char *at;    /* first byte of the value */
    uint8_t kind;
    bool key_escaped; /* the key holds a backslash: json_unescape gives what it means */
    bool escaped;     /* the string does */
};

enum { JSON_DEPTH_MAX = 64 };

struct json_reader {
    const char *start, *at, *end;
    struct diag *why;
    uint64_t objects; /* bit 0: the innermost open container is an object; bit 1: the one around it; … */
    uint8_t depth, depth_max;
    bool first; /* no member of the innermost container has been read; at depth 0: no value */
};

/* Borrows text and why (NULL is fine). More than depth_max (at most JSON_DEPTH_MAX) open objects and arrays
 * at once are E_LIMIT. */
void json_init(struct json_reader *r, struct slice text, unsigned depth_max, struct diag *why);
/* E_PROTO or E_LIMIT with the column in *why; then the reader is of no more use. */
int json_next(struct json_reader *r, struct json_item *item);
/* The column (from 1, in bytes) of a place in the text. */
uint32_t json_col(const struct json_reader *r, const char *p);

/* Is all of s one number of JSON? */
bool json_is_number(struct slice s);

/* What an escaped string means, into to, which has room for raw.n bytes (it never gets longer). Every escape
 * is checked here; half a surrogate pair is E_PROTO. Bytes that are not UTF-8 pass as they are. */
int json_unescape(const struct json_reader *r, struct slice raw, char *to, size_t *n);

/* Writes s in quotes, escaping `"`, `\` and control characters, and returns the place behind it.
 * to has room for JSON_STRING_ROOM(s.n) bytes. 8 bytes a step when there is nothing to escape. */
#define JSON_STRING_ROOM(n) (6 * (n) + 10)
char *json_put_string(char *to, struct slice s);
void json_add_string(struct strbuf *out, struct slice s);

#endif
