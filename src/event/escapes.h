/* SPDX-License-Identifier: Apache-2.0 */
/* escapes.h - the two dialects of backslashes in quoted values of ULM and BP, and telling them apart.
 *
 *   plain   \" and \\ are escapes; a backslash before anything else is itself (C:\temp). Ours.
 *   c       besides, \n \r \t \b \f \v \a are escapes, as NetLogger's libraries and dCache write them; before
 *           anything else a backslash is itself.
 *
 * They differ only where a lone backslash stands before one of these letters, which nothing that we write has. A
 * writer of dialect c doubles every other backslash. So a value with a lone backslash before any other
 * character, or one that begins like a path (a letter, a colon and a lone backslash, or \\), votes for plain; any
 * other value with \n, \r or \t votes for c. The file is of dialect c if most values that vote say so. */
#ifndef GRIDLINE_EVENT_ESCAPES_H
#define GRIDLINE_EVENT_ESCAPES_H

#include "base/slice.h"

#include <stdint.h>

enum escapes { ESCAPES_AUTO, ESCAPES_PLAIN, ESCAPES_C };

/* auto, plain or c. */
bool escapes_parse(struct slice name, enum escapes *out);
/* What a lone backslash and this letter mean in dialect c; 0: themselves. */
char escapes_meaning(char letter);

/* Votes so far, and where in a line the text ended. Zeroed at the start. */
struct escapes_votes {
    uint64_t plain, c;
    uint32_t at;          /* bytes of the value so far */
    char first, last;     /* of the value, of the line */
    bool in_value, is_escaped, is_drive, is_path, has_plain, has_c;
};

/* The next piece of the lines, cut anywhere. */
void escapes_vote(struct escapes_votes *v, struct slice text);
/* ESCAPES_PLAIN or ESCAPES_C. */
enum escapes escapes_result(const struct escapes_votes *v);

/* Votes of the whole input, also of what has not been read yet. False: can't be had. */
typedef bool (*escapes_look)(void *arg, struct escapes_votes *out);

#endif
