/* SPDX-License-Identifier: Apache-2.0 */
/* level.h - how important an event is. One list for the vocabularies of ULM and of NetLogger BP: names that
 * mean the same in both (BP's FATAL is ULM's Emergency) are one level. A smaller number is more important;
 * the numbers are on the wire and on disk. */
#ifndef GRIDLINE_EVENT_LEVEL_H
#define GRIDLINE_EVENT_LEVEL_H

#include "base/slice.h"

#include <stdint.h>

enum level {
    LEVEL_EMERGENCY = 0,
    LEVEL_ALERT = 1,
    LEVEL_CRITICAL = 2,
    LEVEL_ERROR = 3,
    LEVEL_WARNING = 4,
    LEVEL_AUTH = 5,
    LEVEL_SECURITY = 6,
    LEVEL_IMPORTANT = 7,
    LEVEL_NOTICE = 8,
    LEVEL_SYSTEM = 9,
    LEVEL_USAGE = 10,
    LEVEL_INFO = 11, /* what an event without a level has */
    LEVEL_DEBUG = 12,
    LEVEL_TRACE = 13,
    LEVEL_COUNT = 14
};

/* "Emergency", "Info", …: as written in ULM. */
struct slice level_name(uint8_t level);
/* "emergency", "info", …: as written everywhere else. */
struct slice level_lower(uint8_t level);
/* Any case; also fatal, crit, err, warn, panic, information. 0, or E_NODATA for a word that is no level. */
int level_parse(struct slice s, uint8_t *out);

#endif
