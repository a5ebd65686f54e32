/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - a mail as text (RFC 5322, MIME): header lines that data can't break out of, and a body that
 * every server passes on as it is. Pure functions; each appends to out. Lines end with CR LF. */
#ifndef GRIDLINE_ACTUATOR_MESSAGE_H
#define GRIDLINE_ACTUATOR_MESSAGE_H

#include "base/strbuf.h"

#include <stdint.h>

enum {
    MESSAGE_HEADER_MAX = 500,     /* bytes of a header's text; more is cut, at a character */
    MESSAGE_BODY_MAX = 256 << 10, /* bytes of a body before encoding; the rest is counted in its last line */
    MESSAGE_ADDRESS_MAX = 254
};

/* `name: text`, folded (a name has at most 40 bytes); text that is not plain ASCII as encoded words (RFC
 * 2047). Whatever text has in it, it is one header. */
void message_add_header(struct strbuf *out, const char *name, struct slice text);
/* `name: <local@domain>`: bytes that such an id can't have are written %XX, each in its own way. */
void message_add_id(struct strbuf *out, const char *name, struct slice local, struct slice domain);
void message_add_date(struct strbuf *out, int64_t utc_ns);
/* The headers that say how the body is written, the empty line, and the body: UTF-8, quoted-printable. */
void message_add_body(struct strbuf *out, struct slice text);

/* local@domain, or a name of this host alone: letters, digits, and the signs that need no quotes. */
bool message_is_address(struct slice address);

#endif
