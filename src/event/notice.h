/* SPDX-License-Identifier: Apache-2.0 */
/* notice.h - notices: facts beside the rows of an answer without which these mislead, such as "data from
 * 09:00 on; 3 h deleted by retention". The rows are right as they are: a notice is neither an error nor
 * damage.
 *
 * A plain value, bounded: a fact that is added twice is there once; facts beyond NOTICES_MAX are counted. */
#ifndef GRIDLINE_EVENT_NOTICE_H
#define GRIDLINE_EVENT_NOTICE_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum { NOTICES_MAX = 16, NOTICE_CODE_MAX = 24, NOTICE_TEXT_MAX = 240 };

struct query_notice {
    char code[NOTICE_CODE_MAX]; /* for programs: a word that stays, as "retention" */
    char text[NOTICE_TEXT_MAX]; /* for people, UTF-8 */
};

struct notices {
    uint32_t n, left_out;
    struct query_notice list[NOTICES_MAX];
};

/* Text that does not fit is cut at a character. */
void notices_add(struct notices *all, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds those of from: answers of several queries that make one. */
void notices_join(struct notices *all, const struct notices *from);

/* As bytes (docs/protocol.md, QUERY_END): varint left_out, varint n, n times text code, text text. */
void notices_put(struct strbuf *out, const struct notices *all);
/* No bytes are no notices: senders from before there were any. E_PROTO. */
int notices_get(struct slice bytes, struct notices *out);
/* [{"code":"retention","text":"..."}] */
void notices_put_json(struct strbuf *out, const struct notices *all);

#endif
