/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - the limits that are part of the event model. More is E_LIMIT, never a cut; of what comes from outside a
 * field that is over one may be left out, and the event then says so (BUILDER_TRIM, batch.h). */
#ifndef GRIDLINE_EVENT_LIMITS_H
#define GRIDLINE_EVENT_LIMITS_H

enum {
    EVENT_NAME_MAX = 128,          /* bytes of an event or field name */
    EVENT_FIELDS_MAX = 256,        /* fields of one event or schema version */
    EVENT_TEXT_MAX = 64 * 1024,    /* bytes of one text or bytes value */
    EVENT_SIZE_MAX = 256 * 1024,   /* names and values of one event together */
    EVENT_ORIGIN_MAX = 255,        /* bytes of host, and of prog */
    EVENT_UNIT_MAX = 32,           /* bytes of a field's unit */
    EVENT_HELP_MAX = 512,          /* bytes of a field's help */
    EVENT_LINE_MAX = 2048 * 1024   /* bytes of one event in any text encoding: JSON may need six a byte */
};

/* Names of the fields that were left out, by commas. */
#define EVENT_DROPPED_FIELD "dropped_fields"

#endif
