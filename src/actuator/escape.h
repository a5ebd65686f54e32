/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - values of events inside texts that have a grammar: whatever bytes a value has, it stays a value.
 * Pure functions; each appends to out. */
#ifndef GRIDLINE_ACTUATOR_ESCAPE_H
#define GRIDLINE_ACTUATOR_ESCAPE_H

#include "base/strbuf.h"

/* As UTF-8: what is not well-formed becomes U+FFFD, one for each byte. */
void escape_utf8(struct strbuf *out, struct slice value);
/* On one line: as escape_utf8, and control characters (NUL, CR, LF, ...) become blanks. */
void escape_line(struct strbuf *out, struct slice value);
/* Inside the quotes of a JSON string (RFC 8259); as escape_utf8. */
void escape_json(struct strbuf *out, struct slice value);
/* Inside a filter (RFC 4515) or a distinguished name (RFC 4514) of LDAP: both write any byte as a backslash
 * and two hexadecimal digits, so all but letters, digits and a few signs without a meaning are written so. */
void escape_ldap(struct strbuf *out, struct slice value);
/* Inside a shell-style pattern (base/text.h): it matches only itself. */
void escape_glob(struct strbuf *out, struct slice value);

#endif
