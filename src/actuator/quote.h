/* SPDX-License-Identifier: Apache-2.0 */
/* quote.h - texts of any bytes, shown to people. A text shown so can't begin another line, move a cursor,
 * colour a terminal, or make what stands behind it look as if it stood before. The result is UTF-8. */
#ifndef GRIDLINE_ACTUATOR_QUOTE_H
#define GRIDLINE_ACTUATOR_QUOTE_H

#include "base/strbuf.h"

/* As part of a line: control characters (also those of Unicode, with its line ends and its marks that turn
 * the direction of writing) and bytes that are no UTF-8 become \xHH, byte by byte. All else is as it is. */
void quote_line(struct strbuf *out, struct slice s);
/* As a word in double quotes, in which `"` and `\` have a backslash before them: one text for each word, and
 * one word for each text. */
void quote_word(struct strbuf *out, struct slice s);
/* As a JSON string; each byte that is no UTF-8 becomes U+FFFD, for a reader may refuse the rest with it. */
void quote_json(struct strbuf *out, struct slice s);
/* argv as words with a blank between. */
void quote_argv(struct strbuf *out, const char *const *argv);

#endif
