/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: a table says which element may be where. An element's text is gathered from its start; at the end
 * of a <value> it becomes a value: of its type, or text when none was said. */
#include "gateway/xmlrpc.h"

#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <expat.h>
#include <sys/random.h>

enum element {
    EL_CALL,
    EL_METHOD,
    EL_PARAMS,
    EL_PARAM,
    EL_VALUE,
    EL_STRUCT,
    EL_MEMBER,
    EL_NAME,
    EL_INT,
    EL_DOUBLE,
    EL_BOOLEAN,
    EL_TEXT,
    EL_BASE64,
    EL_NIL,
    EL_NONE
};

static const struct {
    const char *name;
    enum element element, parent;
} elements[] = {{"methodCall", EL_CALL, EL_NONE}, {"methodName", EL_METHOD, EL_CALL},
                {"params", EL_PARAMS, EL_CALL},   {"param", EL_PARAM, EL_PARAMS},
                {"value", EL_VALUE, EL_PARAM},    {"value", EL_VALUE, EL_MEMBER},
                {"struct", EL_STRUCT, EL_VALUE},  {"member", EL_MEMBER, EL_STRUCT},
                {"name", EL_NAME, EL_MEMBER},     {"int", EL_INT, EL_VALUE},
                {"i4", EL_INT, EL_VALUE},         {"i8", EL_INT, EL_VALUE},
                {"double", EL_DOUBLE, EL_VALUE},  {"boolean", EL_BOOLEAN, EL_VALUE},
                {"string", EL_TEXT, EL_VALUE},    {"dateTime.iso8601", EL_TEXT, EL_VALUE},
                {"base64", EL_BASE64, EL_VALUE},  {"nil", EL_NIL, EL_VALUE}};

struct reader {
    XML_Parser parser;
    struct xmlrpc_call *call;
    struct diag *why;
    int failed;
    enum element stack[XMLRPC_DEPTH];
    unsigned depth;
    struct strbuf text;           /* of the innermost element that has text */
    struct strbuf scratch;        /* text of the value: r->text may grow behind its element */
    struct value value;           /* of the <value> that is open; text is in r->scratch */
    bool has_type;                /* it had a type element */
    char path[ARGS_NAME_MAX + 1]; /* the members' names around, dotted */
    size_t path_n;
    size_t paths[XMLRPC_DEPTH]; /* its length where each open <struct> began */
    unsigned n_structs;
    bool has_name; /* the open member's */
};

/* ---------------------------------------------------------------- reading */

static void stop(struct reader *r, int code, const char *what)
{
    if (r->failed)
        return;
    r->failed =
        diag_set(r->why, code, 0, "line %lu: %s", (unsigned long)XML_GetCurrentLineNumber(r->parser), what);
    (void)XML_StopParser(r->parser, XML_FALSE); /* fails only when already stopped */
}

static enum element top(const struct reader *r)
{
    return r->depth ? r->stack[r->depth - 1] : EL_NONE;
}

static void open_struct(struct reader *r)
{
    bool is_within = r->n_structs > 0;
    if (r->has_type || (!is_within && r->call->has_struct)) {
        stop(r, E_PROTO, "a call has one struct");
        return;
    }
    if (is_within && r->path_n < ARGS_NAME_MAX)
        r->path[r->path_n++] = '.';
    r->paths[r->n_structs++] = r->path_n;
    r->call->has_struct = true;
    r->has_type = true;
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *r = arg;
    (void)attributes; /* there are none in XML-RPC */
    enum element found = EL_NONE;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (strcmp(name, elements[i].name) == 0 && elements[i].parent == top(r))
            found = elements[i].element;
    if (found == EL_NONE) {
        stop(r, E_PROTO,
             strcmp(name, "array") == 0 ? "an array is no value here; lists are texts, by commas"
                                        : "an element that can't be here");
        return;
    }
    if (r->depth == XMLRPC_DEPTH) {
        stop(r, E_LIMIT, "nested too deep");
        return;
    }
    strbuf_reset(&r->text);
    if (found == EL_VALUE) {
        r->has_type = false;
        r->value = value_none();
    } else if (found == EL_STRUCT) {
        open_struct(r);
    } else if (found == EL_MEMBER) {
        r->has_name = false;
    } else if (found >= EL_INT) {
        if (r->has_type)
            stop(r, E_PROTO, "a value has one type");
        r->has_type = true;
    }
    if (!r->failed)
        r->stack[r->depth++] = found;
}

static void on_text(void *arg, const XML_Char *text, int n)
{
    struct reader *r = arg;
    if (!r->failed)
        strbuf_add(&r->text, text, (size_t)n);
}

static struct slice trimmed(const struct reader *r)
{
    struct slice s = strbuf_slice(&r->text);
    while (s.n && (unsigned char)s.p[0] <= ' ')
        s = slice_from(s, 1);
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static void take_number(struct reader *r, enum element type)
{
    struct slice text = trimmed(r);
    int64_t i = 0;
    double f = 0;
    int e = type == EL_DOUBLE ? num_parse_float(text, &f) : num_parse_int(text, &i);
    if (e < 0 || (type == EL_BOOLEAN && i != 0 && i != 1)) {
        stop(r, e == -ENOMEM ? e : E_PROTO, "a number or boolean that can't be read");
        return;
    }
    r->value = type == EL_DOUBLE    ? value_float(f)
               : type == EL_BOOLEAN ? value_bool(i)
               : i >= 0             ? value_uint((uint64_t)i)
                                    : value_int(i);
}

/* Base64 as people write it, in lines. */
static void take_base64(struct reader *r)
{
    char *to = r->text.p;
    size_t n = 0;
    for (size_t i = 0; i < r->text.n; i++)
        if ((unsigned char)r->text.p[i] > ' ')
            to[n++] = r->text.p[i];
    strbuf_reset(&r->scratch);
    if (text_from_base64(slice_of(n ? to : "", n), &r->scratch) < 0)
        stop(r, E_PROTO, "base64 that can't be read");
    r->value = value_bytes(strbuf_slice(&r->scratch));
}

static void take_text(struct reader *r)
{
    strbuf_reset(&r->scratch);
    strbuf_add_slice(&r->scratch, strbuf_slice(&r->text));
    if (strbuf_failed(&r->scratch))
        stop(r, -ENOMEM, "no memory");
    r->value = value_text(strbuf_slice(&r->scratch));
}

static void end_name(struct reader *r)
{
    struct slice name = trimmed(r);
    size_t at = r->paths[r->n_structs - 1];
    r->has_name = true;
    if (at + name.n > ARGS_NAME_MAX) {
        stop(r, E_LIMIT, "a member's name is too long, with those around it");
        return;
    }
    memcpy(r->path + at, name.p, name.n);
    r->path_n = at + name.n;
    if (!text_is_name(slice_of(r->path, r->path_n)))
        stop(r, E_PROTO, "a member's name has letters, digits and . _ : - only");
}

static void add_member(struct reader *r, struct value v)
{
    struct args_writer *args = &r->call->args;
    if (!r->has_name)
        stop(r, E_PROTO, "a member has its name before its value");
    else if (args->n >= ARGS_MAX - 1)
        stop(r, E_LIMIT, "too many values");
    else if (value_is_text(v.type) && v.n > ARGS_TEXT_MAX)
        stop(r, E_LIMIT, "a text that is too long");
    else
        args_add(args, slice_of(r->path, r->path_n), v);
}

static void add_param(struct reader *r, struct value v)
{
    struct xmlrpc_call *c = r->call;
    if (c->n == XMLRPC_PARAMS) {
        stop(r, E_LIMIT, "too many parameters");
        return;
    }
    c->at[c->n] = c->text.n;
    if (value_is_text(v.type))
        strbuf_add_slice(&c->text, value_slice(v));
    c->params[c->n++] = v;
}

static void end_value(struct reader *r)
{
    struct value v = r->value;
    bool is_struct = r->has_type && v.type == VALUE_TYPES;
    if (!r->has_type)
        v = value_text(strbuf_slice(&r->text));
    if (!is_struct && top(r) == EL_MEMBER)
        add_member(r, v);
    else if (!is_struct)
        add_param(r, v);
    strbuf_reset(&r->text);
    r->has_type = true;
}

static void end_struct(struct reader *r)
{
    r->path_n = r->paths[--r->n_structs];
    if (r->path_n) /* the dot of open_struct */
        r->path_n--;
    r->value = (struct value){.type = VALUE_TYPES}; /* it was taken, member by member */
    r->has_type = r->has_name = true;
}

static void on_end(void *arg, const XML_Char *name)
{
    struct reader *r = arg;
    (void)name; /* expat has matched it */
    if (r->failed)
        return;
    enum element ended = r->stack[--r->depth];
    switch (ended) {
    case EL_METHOD:
        strbuf_reset(&r->call->method);
        strbuf_add_slice(&r->call->method, trimmed(r));
        break;
    case EL_NAME:
        end_name(r);
        break;
    case EL_INT:
    case EL_DOUBLE:
    case EL_BOOLEAN:
        take_number(r, ended);
        break;
    case EL_TEXT:
        take_text(r);
        break;
    case EL_BASE64:
        take_base64(r);
        break;
    case EL_STRUCT:
        end_struct(r);
        break;
    case EL_VALUE:
        end_value(r);
        break;
    default:
        break;
    }
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                       int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    stop(arg, E_PROTO, "a document type is not taken");
}

static int parse(struct reader *r, struct slice body)
{
    unsigned long salt;
    if (getrandom(&salt, sizeof salt, GRND_NONBLOCK) == sizeof salt) /* else expat makes one of its own */
        (void)XML_SetHashSalt(r->parser, salt);
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    enum XML_Status status = XML_Parse(r->parser, body.p, (int)body.n, 1);
    if (r->failed)
        return r->failed;
    if (status != XML_STATUS_OK)
        return XML_GetErrorCode(r->parser) == XML_ERROR_NO_MEMORY
                   ? -ENOMEM
                   : diag_set(r->why, E_PROTO, 0, "line %lu: %s",
                              (unsigned long)XML_GetCurrentLineNumber(r->parser),
                              XML_ErrorString(XML_GetErrorCode(r->parser)));
    return 0;
}

int xmlrpc_read(struct slice body, struct xmlrpc_call *out, struct diag *why)
{
    struct reader r = {.call = out, .why = why};
    if (body.n > INT32_MAX)
        return diag_set(why, E_LIMIT, 0, "the call is too long");
    r.parser = XML_ParserCreate("UTF-8");
    if (!r.parser)
        return -ENOMEM;
    int e = parse(&r, body);
    bool failed = strbuf_failed(&r.text) || strbuf_failed(&r.scratch) || strbuf_failed(&out->method) ||
                  strbuf_failed(&out->args.list) || strbuf_failed(&out->text);
    XML_ParserFree(r.parser);
    strbuf_fini(&r.text);
    strbuf_fini(&r.scratch);
    if (e == 0 && failed)
        return -ENOMEM;
    struct slice method = strbuf_slice(&out->method);
    if (e == 0 && (method.n == 0 || method.n > XMLRPC_METHOD_MAX || !text_is_name(method)))
        return diag_set(why, E_PROTO, 0, "methodName is missing or none; system.listMethods lists them");
    for (size_t i = 0; i < out->n; i++)
        if (value_is_text(out->params[i].type))
            out->params[i].p = out->params[i].n ? out->text.p + out->at[i] : "";
    return e;
}

void xmlrpc_call_fini(struct xmlrpc_call *c)
{
    strbuf_fini(&c->method);
    args_writer_fini(&c->args);
    strbuf_fini(&c->text);
}

struct slice xmlrpc_text(const struct xmlrpc_call *c, size_t i)
{
    return i < c->n && value_is_text(c->params[i].type) ? value_slice(c->params[i]) : SLICE_LIT("");
}

/* ---------------------------------------------------------------- writing */

/* Can XML 1.0 hold it? */
static bool can_carry(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
            return false;
        if (c == 0xef && s.n - i >= 3 &&
            (memcmp(s.p + i, "\xef\xbf\xbe", 3) == 0 || memcmp(s.p + i, "\xef\xbf\xbf", 3) == 0))
            return false;
    }
    return text_is_utf8(s);
}

static void put_escaped(struct strbuf *out, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        const char *as = s.p[i] == '&'    ? "&amp;"
                         : s.p[i] == '<'  ? "&lt;"
                         : s.p[i] == '>'  ? "&gt;"
                         : s.p[i] == '\r' ? "&#13;" /* a parser would make LF of it */
                                          : NULL;
        if (as)
            strbuf_add_str(out, as);
        else
            strbuf_add_char(out, s.p[i]);
    }
}

static void put_tagged(struct strbuf *out, const char *tag, struct slice text)
{
    strbuf_printf(out, "<%s>", tag);
    put_escaped(out, text);
    strbuf_printf(out, "</%s>", tag);
}

static void put_base64(struct strbuf *out, struct slice bytes)
{
    strbuf_add_str(out, "<base64>");
    text_add_base64(out, bytes);
    strbuf_add_str(out, "</base64>");
}

void xmlrpc_put_value(struct strbuf *out, struct value v)
{
    char text[NUM_TEXT_MAX];
    bool is_int = v.type == VALUE_INT || (v.type == VALUE_UINT && v.u <= INT64_MAX);
    strbuf_add_str(out, "<value>");
    if (is_int)
        put_tagged(out, v.i >= INT32_MIN && v.i <= INT32_MAX ? "int" : "i8",
                   slice_of(text, num_print_int(text, v.i)));
    else if (v.type == VALUE_UINT)
        put_tagged(out, "string", slice_of(text, num_print_uint(text, v.u)));
    else if (v.type == VALUE_FLOAT)
        put_tagged(out, "double", slice_of(text, num_print_float(text, v.f)));
    else if (v.type == VALUE_BOOL)
        strbuf_add_str(out, v.u ? "<boolean>1</boolean>" : "<boolean>0</boolean>");
    else if (v.type == VALUE_NUMBER && isfinite(value_number(v).f))
        put_tagged(out, "double", slice_of(text, num_print_float(text, value_number(v).f)));
    else if ((v.type == VALUE_TEXT || v.type == VALUE_NUMBER) && can_carry(value_slice(v)))
        put_tagged(out, "string", value_slice(v));
    else if (value_is_text(v.type))
        put_base64(out, value_slice(v));
    else
        strbuf_add_str(out, "<string></string>");
    strbuf_add_str(out, "</value>");
}

void xmlrpc_put_text(struct strbuf *out, const char *text)
{
    xmlrpc_put_value(out, value_text(slice_str(text)));
}

static void put_member(struct strbuf *out, struct slice name, struct value v)
{
    strbuf_add_str(out, "<member>");
    put_tagged(out, "name", name);
    xmlrpc_put_value(out, v);
    strbuf_add_str(out, "</member>");
}

void xmlrpc_put_member(struct strbuf *out, const char *name, struct value v)
{
    put_member(out, slice_str(name), v);
}

void xmlrpc_put_struct(struct strbuf *out, struct args row, struct slice text)
{
    struct arg a;
    strbuf_add_str(out, "<value><struct>");
    while (args_next(&row, &a))
        put_member(out, a.name, a.value);
    if (text.n)
        xmlrpc_put_member(out, "text", value_text(text));
    strbuf_add_str(out, "</struct></value>");
}

void xmlrpc_put_fault(struct strbuf *out, int code, struct slice text)
{
    strbuf_add_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodResponse><fault><value><struct>");
    xmlrpc_put_member(out, "faultCode", value_int(code));
    xmlrpc_put_member(out, "faultString", value_text(text));
    strbuf_add_str(out, "</struct></value></fault></methodResponse>\n");
}
