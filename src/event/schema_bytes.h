/* SPDX-License-Identifier: Apache-2.0 */
/* schema_bytes.h - a schema as bytes, in blocks and in the frame SCHEMA (docs/protocol.md, "Blocks"). */
#ifndef GRIDLINE_EVENT_SCHEMA_BYTES_H
#define GRIDLINE_EVENT_SCHEMA_BYTES_H

#include "base/cursor.h"
#include "base/strbuf.h"
#include "event/schema.h"

void schema_write(struct strbuf *out, const struct schema *s);
/* Reads one and checks that it has the hash it claims. *out is an owned reference; on E_PROTO *what says in a
 * phrase what is wrong; -ENOMEM. */
int schema_read(struct cursor *c, struct schema **out, const char **what);
/* Reads one if it is s, in every byte; else false, and the cursor stays. A tenth of what schema_read costs.
 */
bool schema_read_known(struct cursor *c, const struct schema *s);

#endif
