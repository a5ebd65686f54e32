/* SPDX-License-Identifier: Apache-2.0 */
/* snmp_value.h - values as SNMP has them, as values of events. */
#ifndef GRIDLINE_HELPER_SNMP_VALUE_H
#define GRIDLINE_HELPER_SNMP_VALUE_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "event/value.h"

#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>

enum {
    SNMP_STRING_MAX = 16 << 10
}; /* bytes of a string that a device sends: as hexadecimal it has to fit an event */

/* Where texts live until the next reset. A zeroed struct is empty. */
struct snmp_texts {
    struct arena arena;
    struct strbuf text;    /* for building one */
    bool is_out_of_memory; /* one could not be kept, and is missing */
};
void snmp_texts_reset(struct snmp_texts *t);
void snmp_texts_fini(struct snmp_texts *t);

/* How a value becomes a field's. What is not of a type that fits becomes VALUE_NONE. */
enum snmp_as {
    SNMP_AS_UINT,
    SNMP_AS_TEXT,
    SNMP_AS_KIB,        /* KiB: as bytes */
    SNMP_AS_HUNDREDTHS, /* as a float */
    SNMP_AS_STATE,      /* of an interface */
    SNMP_AS_IF_TYPE,
    SNMP_AS_SPEED,    /* bit/s, if it is known */
    SNMP_AS_MEGABITS, /* Mbit/s, if ifSpeed can't tell it */
    SNMP_AS_STORAGE_TYPE
};
struct value snmp_convert(struct snmp_texts *t, const netsnmp_variable_list *v, enum snmp_as as);

/* A whole number that is not negative; false: it is none. */
bool snmp_uint_of(const netsnmp_variable_list *v, uint64_t *out);
/* The text of what is one: strings, addresses, OIDs; strings that are no text as hexadecimal. VALUE_NONE: it
 * is none, or longer than SNMP_STRING_MAX. */
struct value snmp_text_of(struct snmp_texts *t, const netsnmp_variable_list *v);

/* A copy that lives in t. */
struct value snmp_keep_text(struct snmp_texts *t, struct slice s);
static inline struct value snmp_static_text(const char *s)
{
    return value_text(slice_str(s));
}

#endif
