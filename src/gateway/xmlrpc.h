/* SPDX-License-Identifier: Apache-2.0 */
/* xmlrpc.h - XML-RPC (xmlrpc.com/spec): a call as bytes into a method's name and its values, and values into
 * an answer. Pure functions, for anybody's bytes: no document type, no entities but XML's own, XMLRPC_DEPTH
 * elements deep, ARGS_MAX values.
 *
 * Parameters are texts, numbers and the like, and one struct, whose members are named values; structs within
 * are flattened, {"set": {"vector.every": "2s"}} is set.vector.every. Arrays are refused: lists are texts, by
 * commas.
 *
 * Types: <int> and <i4> for what fits 32 bits, <i8> for what does not (an extension that is common: Python's
 * client reads it), text for a uint beyond that; <double>; <boolean>; <string>; <base64> for bytes, and for
 * text that XML can't carry. <nil/> is read as a missing value. dateTime.iso8601 is read as its text. */
#ifndef GRIDLINE_GATEWAY_XMLRPC_H
#define GRIDLINE_GATEWAY_XMLRPC_H

#include "base/err.h"
#include "net/args.h"

enum { XMLRPC_DEPTH = 16, XMLRPC_PARAMS = 4, XMLRPC_METHOD_MAX = 64 };

enum xmlrpc_fault {
    XMLRPC_NOT_XML = -32700,
    XMLRPC_NO_METHOD = -32601,
    XMLRPC_BAD_PARAMS = -32602,
    XMLRPC_INTERNAL = -32603 /* others are enum control_status */
};

struct xmlrpc_call {
    struct strbuf method;
    struct args_writer args; /* the members of the struct */
    bool has_struct;
    /* The parameters that are no struct, in order; text and bytes are in text, by offset in `at`. */
    struct value params[XMLRPC_PARAMS];
    size_t at[XMLRPC_PARAMS];
    size_t n;
    struct strbuf text;
};

/* Zeroed. E_PROTO, E_LIMIT: *why says what and where; -ENOMEM. xmlrpc_call_fini in any case. */
int xmlrpc_read(struct slice body, struct xmlrpc_call *out, struct diag *why);
void xmlrpc_call_fini(struct xmlrpc_call *c);
/* The i-th parameter as text; "" when it is none. */
struct slice xmlrpc_text(const struct xmlrpc_call *c, size_t i);

/* <value>...</value> */
void xmlrpc_put_value(struct strbuf *out, struct value v);
void xmlrpc_put_text(struct strbuf *out, const char *text);
/* <member><name>...</name>; what follows is a value, then "</member>". */
void xmlrpc_put_member(struct strbuf *out, const char *name, struct value v);
/* <value><struct>...</struct></value>; text is member `text` if not "". */
void xmlrpc_put_struct(struct strbuf *out, struct args row, struct slice text);
void xmlrpc_put_fault(struct strbuf *out, int code, struct slice text);
#define XMLRPC_HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodResponse><params><param>"
#define XMLRPC_TAIL "</param></params></methodResponse>\n"

#endif
