/* SPDX-License-Identifier: Apache-2.0 */
/* clean.h - names that others chose (mount points, groups, firmware strings) as text, which must be UTF-8. */
#ifndef GRIDLINE_SENSOR_CLEAN_H
#define GRIDLINE_SENSOR_CLEAN_H

#include "base/strbuf.h"
#include "base/text.h"

/* Appends raw as it is, or, when it is not UTF-8, with each byte from 0x80 as `\ooo`. */
static inline void clean_add(struct strbuf *out, struct slice raw)
{
    if (text_is_utf8(raw)) {
        strbuf_add_slice(out, raw);
        return;
    }
    for (size_t i = 0; i < raw.n; i++) {
        unsigned char c = (unsigned char)raw.p[i];
        if (c < 0x80)
            strbuf_add_char(out, (char)c);
        else
            strbuf_printf(out, "\\%03o", c);
    }
}

#endif
