/* SPDX-License-Identifier: Apache-2.0 */
/* setting.h - the plain kinds of values that people write in configuration and on command lines: what each is
 * called, what to write, and its one parser. The options of sensors and the keys of the daemons are made of
 * these. */
#ifndef GRIDLINE_BASE_SETTING_H
#define GRIDLINE_BASE_SETTING_H

#include "base/arena.h"
#include "base/slice.h"

/* And the C type of the value. */
enum setting_type {
    SETTING_FLAG,     /* bool: true/false, yes/no, on/off */
    SETTING_INT,      /* int64_t */
    SETTING_FLOAT,    /* double */
    SETTING_SIZE,     /* uint64_t, bytes: 10MiB */
    SETTING_DURATION, /* int64_t, ns: 10s */
    SETTING_STRING,   /* const char *, NULL = not given */
    SETTING_LIST      /* texts: of no parser's concern */
};

/* "duration", "list", ...: for help. */
const char *setting_type_name(enum setting_type type);
/* "10s, 5m, 250ms", ...: what to write, for messages. */
const char *setting_type_example(enum setting_type type);
/* One text of any type but a list, to its C type; a string is copied into the arena. E_PROTO, -ERANGE: it is
 * not of that type; -ENOMEM. *at is untouched on failure. */
int setting_parse(enum setting_type type, struct slice text, struct arena *arena, void *at);

#endif
