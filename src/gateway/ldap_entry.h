/* SPDX-License-Identifier: Apache-2.0 */
/* ldap_entry.h - what an entry of the directory looks like in an LDAP server (docs/ldap.md), as bytes: its
 * name below the base, and its attributes as a record. Pure functions, without libldap.
 *
 * A name is
 *     gridlineGatewayName=GATEWAY
 *     gridlineHostName=HOST
 *     gridlineSensorName=SENSOR,gridlineHostName=HOST
 * with every byte but letters, digits and . _ - : / @ written as %XX: servers compare names by rules of their
 * own (blanks, case of some letters, forms of Unicode), and what they take for equal would be one entry for
 * two sensors; and nothing is left that has a meaning in a distinguished name or a filter.
 *
 * A record is for each value u8 attribute and the text, by attribute, the values of one in the order of their
 * bytes: two are equal when the entries are. */
#ifndef GRIDLINE_GATEWAY_LDAP_ENTRY_H
#define GRIDLINE_GATEWAY_LDAP_ENTRY_H

#include "base/cursor.h"
#include "base/strbuf.h"

enum ldap_attribute {
    ATTRIBUTE_CLASS,
    ATTRIBUTE_GATEWAY,
    ATTRIBUTE_HOST,
    ATTRIBUTE_SENSOR,
    ATTRIBUTE_DOMAIN,
    ATTRIBUTE_STATE,
    ATTRIBUTE_STATUS,
    ATTRIBUTE_WHY,
    ATTRIBUTE_MODE,
    ATTRIBUTE_EVENT,
    ATTRIBUTE_SCHEMA,
    ATTRIBUTE_EVERY,
    ATTRIBUTE_RATE,
    ATTRIBUTE_SINCE,
    ATTRIBUTE_LAST,
    ATTRIBUTE_UPDATED,
    ATTRIBUTES
};
extern const char *const ldap_attribute_names[ATTRIBUTES]; /* "objectClass", "gridlineGatewayName", ... */

enum { LDAP_VALUES_MAX = 512 }; /* of one attribute; more are left out */

/* Without a sensor it is the host's entry, without a host the gateway's own. "", 0: not known, left out. */
struct ldap_entry {
    struct slice host, sensor;
    struct slice domain;
    struct slice state;       /* of a host or a gateway */
    struct slice status, why; /* of a sensor */
    struct slice mode;
    struct slice events, schemas; /* by commas: names, and the hash of each, 16 hex digits or nothing */
    uint64_t every_ms;
    double rate;               /* events a second; 0 = none, or not known */
    int64_t since_ns, last_ns; /* UTC */
    int64_t updated_ns;        /* of a gateway */
};

/* Appends the name, without the base. */
void ldap_entry_name(struct strbuf *out, struct slice host, struct slice sensor, struct slice gateway);
/* Appends the record of what `gateway` publishes. */
void ldap_entry_record(struct strbuf *out, const struct ldap_entry *e, struct slice gateway);
/* Appends the values of one attribute, in the order of records. Sorts them, and leaves out those that come
 * twice. */
void ldap_record_add(struct strbuf *out, enum ldap_attribute a, struct slice *values, size_t n);

struct ldap_value {
    enum ldap_attribute attribute;
    struct slice text;
};
/* The next of a record that was made here; false at its end. */
bool ldap_record_next(struct cursor *c, struct ldap_value *out);

/* What a name is written as: see above. */
void ldap_encode(struct strbuf *out, struct slice name);

#endif
