/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - what an event of one name looks like.
 *
 * A schema version is immutable, reference-counted (atomically: batches cross threads) and named by its hash,
 * which covers the name and every field with type, role, kind, unit and help. A field is (name, type): one
 * seen with two types is two fields of the same name, of which an event sets at most one.
 *
 * A registry learns the schemas of outside events: one current version a name, which grows by a new version
 * when a field is new. Where growth would pass EVENT_FIELDS_MAX the next version starts from the event's own
 * fields alone. It is bounded: past REGISTRY_NAMES_MAX names it forgets them all and learns again. */
#ifndef GRIDLINE_EVENT_SCHEMA_H
#define GRIDLINE_EVENT_SCHEMA_H

#include "base/slice.h"
#include "event/limits.h"
#include "event/value.h"

#include <stdint.h>

/* On the wire and on disk. */
enum field_role { ROLE_VALUE = 0, ROLE_KEY = 1 };
enum field_kind { KIND_UNKNOWN = 0, KIND_COUNTER = 1, KIND_GAUGE = 2, KIND_STATE = 3, KIND_TEXT = 4 };

struct field {
    struct slice name;
    struct slice unit; /* "" = none; e.g. "bytes", "s", "1/s", "%" */
    struct slice help;
    uint8_t type; /* enum value_type, never VALUE_NONE */
    uint8_t role;
    uint8_t kind;
};

struct schema {
    struct slice name;
    uint64_t hash;
    const struct field *fields;
    uint32_t n_fields;
    const uint16_t *first_of_name; /* of each field: the first field of that name; NULL: names_once */
    bool names_once; /* no field name has two types */
    bool has_keys;   /* a field is a key */
    _Atomic uint32_t refs;
};

/* Copies everything. E_LIMIT or E_PROTO when a name, type or size is not allowed or a (name, type) comes
 * twice; -ENOMEM. Returns one reference in *out. */
int schema_create(struct slice name, const struct field *fields, size_t n, struct schema **out);
struct schema *schema_ref(const struct schema *s);
void schema_unref(const struct schema *s); /* NULL is fine */

/* Index of the field, or -1. Linear: n_fields is small and the usual caller guesses the index first. */
int schema_find(const struct schema *s, struct slice name, uint8_t type);
bool schema_same(const struct schema *a, const struct schema *b); /* every byte, not only the hash */

enum { REGISTRY_NAMES_MAX = 4096 };

struct registry;
struct registry *registry_create(void); /* NULL when out of memory */
void registry_destroy(struct registry *r);

struct named_value {
    struct slice name;
    struct value value; /* never VALUE_NONE */
};

/* The current version of this event name, grown if it must be to hold these fields; and index[i], the place
 * of values[i] in it. Borrowed: valid until the next call. Errors as schema_create; a name that comes twice
 * in values is E_PROTO.
 * Cost for the usual event (same fields in the same order as the last of its name): one memcmp a field. */
int registry_learn(struct registry *r, struct slice name, const struct named_value *values, size_t n,
                   const struct schema **out, uint16_t *index);

/* The one object for this version: the registry's own if it has one of that hash and the same content, else s
 * itself, which it then keeps too. Decoders use it, so that caches keyed by schema work across blocks. Takes
 * the caller's reference, also on failure; returns a borrowed one, valid until the next call. */
int registry_intern(struct registry *r, struct schema *s, const struct schema **out);
/* The version of that hash, or NULL. Borrowed as above. */
const struct schema *registry_by_hash(const struct registry *r, uint64_t hash);

/* Declares a version (a built-in sensor's, or one read from a file) as the current one for its name. */
int registry_declare(struct registry *r, const struct schema *s);

#endif
