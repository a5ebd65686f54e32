/* SPDX-License-Identifier: Apache-2.0 */
/* head_key.h - the five things every event has besides its fields, under the keys that NDJSON, CSV and XML
 * share.
 *
 * Where fields and these stand side by side (NDJSON, CSV), a field of one of these names is written with a
 * `$` in front, "$host": `$` is outside the alphabet of names, so the two can't be taken for each other. */
#ifndef GRIDLINE_EVENT_HEAD_KEY_H
#define GRIDLINE_EVENT_HEAD_KEY_H

#include "base/slice.h"

enum head_key { HEAD_TIME, HEAD_HOST, HEAD_PROG, HEAD_LEVEL, HEAD_NAME, HEAD_NONE };

static inline enum head_key head_key_of(struct slice s)
{
    if (s.n == 5)
        return memcmp(s.p, "level", 5) == 0 ? HEAD_LEVEL : HEAD_NONE;
    if (s.n != 4)
        return HEAD_NONE;
    switch (s.p[0]) {
    case 't':
        return memcmp(s.p, "time", 4) == 0 ? HEAD_TIME : HEAD_NONE;
    case 'h':
        return memcmp(s.p, "host", 4) == 0 ? HEAD_HOST : HEAD_NONE;
    case 'p':
        return memcmp(s.p, "prog", 4) == 0 ? HEAD_PROG : HEAD_NONE;
    case 'n':
        return memcmp(s.p, "name", 4) == 0 ? HEAD_NAME : HEAD_NONE;
    default:
        return HEAD_NONE;
    }
}

#endif
