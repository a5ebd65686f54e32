/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - a list of named values as bytes: properties of a worker, settings, arguments and answers of
 * control (docs/protocol.md, "Named values"). A list is a varint count and then, per value: text name,
 * u8 type (event/value.h), and of int, uint and float 8 bytes, of bool one, of text and bytes a varint length
 * and the bytes. Pure functions; slices are borrowed. */
#ifndef GRIDLINE_NET_ARGS_H
#define GRIDLINE_NET_ARGS_H

#include "base/cursor.h"
#include "base/strbuf.h"
#include "event/value.h"

enum {
    ARGS_MAX = 256,           /* values of a list */
    ARGS_NAME_MAX = 128,      /* bytes of a name: [A-Za-z0-9._:-] */
    ARGS_TEXT_MAX = 512 << 10 /* bytes of one value */
};

/* A list that args_get has checked: walking it can't fail. */
struct args {
    struct slice bytes; /* behind the count */
    uint32_t n;
};

struct arg {
    struct slice name;
    struct value value; /* text is borrowed */
};

/* Takes a list from the cursor and checks all of it. false: malformed, and the cursor is bad. */
bool args_get(struct cursor *c, struct args *out);
/* The next value of the list, which gets shorter: true; false at its end. */
bool args_next(struct args *list, struct arg *out);
/* The value of that name; its type is VALUE_NONE when there is none. The last of several counts. */
struct value args_value(struct args list, const char *name);
/* The same for text; "" when there is none or it is not text. */
struct slice args_text(struct args list, const char *name);
/* A uint, or an int that is not negative; else fallback. */
uint64_t args_uint(struct args list, const char *name, uint64_t fallback);

/* A list being written: begin, any number of adds, end. */
struct args_writer {
    struct strbuf list; /* without the count */
    uint32_t n;
};
void args_add(struct args_writer *w, struct slice name, struct value value); /* VALUE_NONE is left out */
void args_add_text(struct args_writer *w, const char *name, struct slice text);
void args_add_uint(struct args_writer *w, const char *name, uint64_t value);
/* As a list that can be walked; borrowed until the next add. */
struct args args_of(const struct args_writer *w);
void args_writer_reset(struct args_writer *w);
void args_writer_fini(struct args_writer *w);
/* Appends count and values. */
void args_put(struct strbuf *out, struct args list);

#endif
