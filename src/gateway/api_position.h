/* SPDX-License-Identifier: Apache-2.0 */
/* api_position.h - positions as programs without a connection keep them: "JOURNAL.RECORD-PART-EVENT", where
 * JOURNAL is the number of the journal in hex digits, so that a place in another journal is known as such.
 * Pure functions. */
#ifndef GRIDLINE_GATEWAY_API_POSITION_H
#define GRIDLINE_GATEWAY_API_POSITION_H

#include "net/subscribe.h"

enum { API_POSITION_MAX = POSITION_TEXT_MAX + 20 };

/* With a NUL; the length. */
size_t api_position_print(char to[API_POSITION_MAX], uint64_t journal, struct position p);
/* Without a journal in front, or "oldest", "now": as it is, and *is_elsewhere is false. */
struct slice api_position_from(struct slice text, uint64_t journal, bool *is_elsewhere);

#endif
