/* SPDX-License-Identifier: Apache-2.0 */
/* stream_key.h - the name of the stream that an event is of: host, prog, event name and the values of its key
 * fields, as bytes that are equal when the streams are. Latest, summaries, thresholds and the archive go by
 * it. */
#ifndef GRIDLINE_EVENT_STREAM_KEY_H
#define GRIDLINE_EVENT_STREAM_KEY_H

#include "base/strbuf.h"
#include "event/event.h"

/* Appends the key: text host, text prog, text name, and for each field of role key that has a value text
 * name, u8 type and the value. */
void stream_key_put(struct strbuf *out, const struct event *e);
/* Is b, too, of a's stream? Only a look, 2 ns without key fields: false also where it could only be told by
 * reading host and prog, which of one stream in a batch are usually the same bytes. */
bool stream_key_repeats(const struct event *a, const struct event *b);
/* What a key that stream_key_put made says; slices of it. */
struct stream_key_parts {
    struct slice host, prog, name;
    struct slice fields; /* for stream_key_next */
};
struct stream_key_parts stream_key_split(struct slice key);
/* The next key field and its value, of fields, which gets shorter; false at the end. */
bool stream_key_next(struct slice *fields, struct slice *name, struct value *value);
/* The key fields for a person: "device=sda,mode=read"; nothing when there are none. */
void stream_key_print(struct strbuf *out, const struct event *e);
/* One of them; from: where the first of its event began. */
void stream_key_print_field(struct strbuf *out, size_t from, struct slice name, struct value v);

#endif
