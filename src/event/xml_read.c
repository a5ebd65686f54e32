/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the format of xml.h, an element at a time.
 *
 * The input is not one document to the XML parser. A scanner looks for `<event ...>` and its end, and expat
 * gets that piece alone, as a document of its own. So a document type with its entity definitions never
 * reaches the parser (no expansion attacks, no outside files), memory is bounded by the longest element,
 * damage costs the element it is in, and a file cut off or still growing is readable up to there. The price:
 * what is around the elements is not looked at, neither the namespace nor whether the tags match.
 *
 * The scanner knows tags, quoted attribute values, comments and CDATA sections, and gives up on an element
 * where another one begins or a `<` stands in a tag: the next begins there. Any byte is scanned a bounded
 * number of times, also when the input comes in small pieces: where an element was not whole, the place is
 * remembered.
 *
 * Lenient: unknown attributes are ignored, fields without t are text, an unknown level makes the level info
 * and stays as a text field `level`. Unknown elements are an error: they would be lost. */
#include "event/xml.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/encodings.h"
#include "event/head_key.h"

#include <errno.h>
#include <expat.h>
#include <sys/random.h>

/* Where the scanner is. */
enum place { IN_TEXT, IN_TAG, IN_QUOTES, IN_COMMENT, IN_CDATA, IN_END_TAG };

struct scan {
    size_t at;
    enum place in;
    char quote;
};

/* A piece of xml_reader.text: by offset, since the buffer moves as it grows. */
struct span {
    size_t at, n;
};

struct xml_field {
    struct span name, text;
    uint8_t type;
    bool is_base64;
    struct value value; /* text and bytes: only the type, until the element is done */
};

struct xml_reader {
    XML_Parser parser; /* NULL until the first element, and after it ran out of memory */
    unsigned long salt;
    uint64_t lines;     /* line ends in what is done with */
    size_t col;         /* bytes since the last of them */
    enum place between; /* what the bytes between elements are in: IN_TEXT, IN_COMMENT, IN_CDATA */
    struct scan scan;   /* of an element that is not whole yet; all zero = none */

    /* The element in the parser. */
    struct diag *why;
    int failed; /* what a handler found wrong; 0 = nothing */
    unsigned depth;
    bool has_time;
    int64_t time_ns;
    uint8_t level;
    struct span host, prog, name;
    size_t n_fields;
    struct batch_builder *out;
    bool is_dropping; /* the field at hand is one too many: its text, from dropping_at on, is not kept */
    size_t dropping_at;
    struct strbuf text, scratch;
    struct xml_field fields[EVENT_FIELDS_MAX];
    struct named_value values[EVENT_FIELDS_MAX];
};

/* ---- scanner ---- */

enum token { TOKEN_OTHER, TOKEN_PARTIAL, TOKEN_COMMENT, TOKEN_CDATA, TOKEN_EVENT, TOKEN_EVENT_END };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const struct {
    struct slice text;
    enum token token;
} tokens[] = {
    {{"<!--", 4}, TOKEN_COMMENT},
    {{"<![CDATA[", 9}, TOKEN_CDATA},
    {{"<event", 6}, TOKEN_EVENT},
    {{"</event", 7}, TOKEN_EVENT_END},
};

/* What begins with the `<` at the front of s, and how long that is. TOKEN_PARTIAL: more bytes must tell. */
static enum token token_at(struct slice s, size_t *n)
{
    *n = 1;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct slice t = tokens[i].text;
        bool is_tag = tokens[i].token == TOKEN_EVENT || tokens[i].token == TOKEN_EVENT_END;
        if (slice_starts(t, s) && (is_tag || s.n < t.n))
            return TOKEN_PARTIAL;
        if (!slice_starts(s, t) || (is_tag && !is_space(s.p[t.n]) && s.p[t.n] != '>' && s.p[t.n] != '/'))
            continue;
        *n = t.n;
        return tokens[i].token;
    }
    return TOKEN_OTHER;
}

/* The end of a comment or CDATA section that is open at `from`: the place behind it and true; or false, and
 * the place from which to look again when there is more. */
static bool find_close(struct slice data, size_t from, enum place in, size_t *at)
{
    const char *close = in == IN_COMMENT ? "-->" : "]]>";
    struct slice rest = slice_from(data, from);
    const char *p = memmem(rest.p, rest.n, close, 3);
    if (p)
        *at = (size_t)(p - data.p) + 3;
    else
        *at = rest.n > 2 ? data.n - 2 : from;
    return p != NULL;
}

enum scan_result { SCAN_ON, SCAN_MORE, SCAN_WHOLE, SCAN_BROKEN };

/* One byte of a start tag. It may be the end of the element: <event/>. */
static enum scan_result scan_tag(struct scan *s, struct slice data)
{
    char c = data.p[s->at];
    if (c == '<')
        return SCAN_BROKEN;
    s->at++;
    if (s->in == IN_QUOTES) {
        if (c == s->quote)
            s->in = IN_TAG;
    } else if (c == '"' || c == '\'') {
        s->in = IN_QUOTES;
        s->quote = c;
    } else if (c == '>') {
        s->in = IN_TEXT;
        return data.p[s->at - 2] == '/' ? SCAN_WHOLE : SCAN_ON;
    }
    return SCAN_ON;
}

/* From within the content of the element to the next `<` and over what begins there. */
static enum scan_result scan_text(struct scan *s, struct slice data)
{
    const char *p = memchr(data.p + s->at, '<', data.n - s->at);
    size_t n;
    s->at = p ? (size_t)(p - data.p) : data.n;
    if (!p)
        return SCAN_MORE;
    switch (token_at(slice_from(data, s->at), &n)) {
    case TOKEN_PARTIAL:
        return SCAN_MORE;
    case TOKEN_EVENT:
        return SCAN_BROKEN;
    case TOKEN_EVENT_END:
        s->in = IN_END_TAG;
        break;
    case TOKEN_COMMENT:
        s->in = IN_COMMENT;
        break;
    case TOKEN_CDATA:
        s->in = IN_CDATA;
        break;
    case TOKEN_OTHER:
        break;
    }
    s->at += n;
    return SCAN_ON;
}

static enum scan_result scan_end_tag(struct scan *s, struct slice data)
{
    const char *p = memchr(data.p + s->at, '>', data.n - s->at);
    s->at = p ? (size_t)(p - data.p) + 1 : data.n;
    return p ? SCAN_WHOLE : SCAN_MORE;
}

/* SCAN_WHOLE: the element ends at s->at. SCAN_BROKEN: something that can't be in it begins there. SCAN_MORE:
 * data ends in it, and the next call goes on from there. */
static enum scan_result scan_element(struct scan *s, struct slice data)
{
    enum scan_result r = SCAN_ON;
    while (r == SCAN_ON && s->at < data.n) {
        if (s->in == IN_TAG || s->in == IN_QUOTES)
            r = scan_tag(s, data);
        else if (s->in == IN_TEXT)
            r = scan_text(s, data);
        else if (s->in == IN_END_TAG)
            r = scan_end_tag(s, data);
        else if (find_close(data, s->at, s->in, &s->at))
            s->in = IN_TEXT;
        else
            r = SCAN_MORE;
    }
    return r == SCAN_ON ? SCAN_MORE : r;
}

/* How many bytes at the front of data, which is between elements, are of no interest. 0: an element begins
 * there
 * (*at_event), or more bytes must tell. */
static size_t skip_between(struct xml_reader *x, struct slice data, bool *at_event)
{
    size_t n;
    *at_event = false;
    if (x->between != IN_TEXT) {
        if (find_close(data, 0, x->between, &n))
            x->between = IN_TEXT;
        return n;
    }
    const char *p = memchr(data.p, '<', data.n);
    if (p != data.p)
        return p ? (size_t)(p - data.p) : data.n;
    switch (token_at(data, &n)) {
    case TOKEN_PARTIAL:
        return 0;
    case TOKEN_EVENT:
        *at_event = true;
        return 0;
    case TOKEN_COMMENT:
        x->between = IN_COMMENT;
        return n;
    case TOKEN_CDATA:
        x->between = IN_CDATA;
        return n;
    case TOKEN_EVENT_END:
    case TOKEN_OTHER:
        break;
    }
    return n;
}

/* ---- one element in the parser ---- */

static struct slice span_slice(const struct xml_reader *x, struct span s)
{
    return s.n ? slice_of(x->text.p + s.at, s.n) : SLICE_LIT("");
}

static struct span add_span(struct xml_reader *x, struct slice s)
{
    struct span span = {x->text.n, s.n};
    strbuf_add_slice(&x->text, s);
    return span;
}

/* Puts the parser's place in *why. */
static void set_place(const struct xml_reader *x)
{
    if (!x->why)
        return;
    uint64_t line = XML_GetCurrentLineNumber(x->parser);
    x->why->line = x->lines + line;
    x->why->col = (uint32_t)(XML_GetCurrentColumnNumber(x->parser) + 1 + (line == 1 ? x->col : 0));
}

/* Ends the parse from within a handler. */
static void stop(struct xml_reader *x, int code)
{
    x->failed = code;
    set_place(x);
    (void)XML_StopParser(x->parser, XML_FALSE); /* fails only when already stopped */
}

/* Decodes base64 at the end of x->text, from `at` on, in its place. */
static int decode_tail(struct xml_reader *x, size_t at)
{
    strbuf_reset(&x->scratch);
    int rc = text_from_base64(slice_of(x->text.p + at, x->text.n - at), &x->scratch);
    if (rc < 0)
        return rc;
    if (strbuf_failed(&x->scratch))
        return -ENOMEM;
    x->text.n = at;
    strbuf_add_slice(&x->text, strbuf_slice(&x->scratch)); /* it is shorter: can't fail */
    return 0;
}

static struct xml_field *new_field(struct xml_reader *x, struct slice name, uint8_t type)
{
    if (x->n_fields == EVENT_FIELDS_MAX && batch_builder_drop(x->out, name)) {
        x->is_dropping = true;
        x->dropping_at = x->text.n;
        return NULL;
    }
    if (x->n_fields == EVENT_FIELDS_MAX) {
        stop(x, diag_set(x->why, E_LIMIT, 0, "more than %d fields", EVENT_FIELDS_MAX));
        return NULL;
    }
    struct xml_field *f = &x->fields[x->n_fields++];
    *f = (struct xml_field){.name = add_span(x, name), .type = type};
    f->text.at = x->text.n;
    return f;
}

static void take_time(struct xml_reader *x, struct slice text)
{
    int rc = clock_parse_iso(text, &x->time_ns);
    x->has_time = rc == 0;
    if (rc == -ERANGE)
        stop(x, diag_set(x->why, E_LIMIT, 0, "time is outside the years 1677 to 2262"));
    else if (rc < 0)
        stop(x, diag_set(x->why, E_PROTO, 0, "time is not like 2026-11-15T21:20:28.123456Z"));
}

static void take_level(struct xml_reader *x, struct slice text)
{
    if (level_parse(text, &x->level) == 0)
        return;
    struct xml_field *f = new_field(x, SLICE_LIT("level"), VALUE_TEXT);
    if (f)
        f->text = add_span(x, text);
}

/* host64 and prog64 */
static void take_encoded(struct xml_reader *x, struct slice text, struct span *out)
{
    *out = add_span(x, text);
    if (strbuf_failed(&x->text))
        return;
    int rc = decode_tail(x, out->at);
    if (rc < 0)
        stop(x, diag_set(x->why, rc, 0, "host64 or prog64 is not base64"));
    out->n = x->text.n - out->at;
}

static void start_event(struct xml_reader *x, const XML_Char **attributes)
{
    for (; *attributes && !x->failed; attributes += 2) {
        struct slice key = slice_str(attributes[0]), text = slice_str(attributes[1]);
        switch (head_key_of(key)) {
        case HEAD_TIME:
            take_time(x, text);
            break;
        case HEAD_LEVEL:
            take_level(x, text);
            break;
        case HEAD_NAME:
            x->name = add_span(x, text);
            break;
        case HEAD_HOST:
            x->host = add_span(x, text);
            break;
        case HEAD_PROG:
            x->prog = add_span(x, text);
            break;
        case HEAD_NONE:
            if (slice_eq(key, SLICE_LIT("host64")))
                take_encoded(x, text, &x->host);
            else if (slice_eq(key, SLICE_LIT("prog64")))
                take_encoded(x, text, &x->prog);
        }
    }
}

static uint8_t type_by_name(struct slice s)
{
    for (uint8_t t = VALUE_INT; t < VALUE_TYPES; t++)
        if (slice_eq_str(s, value_type_name(t)))
            return t;
    return VALUE_NONE;
}

static void start_field(struct xml_reader *x, const XML_Char **attributes)
{
    struct slice name = {"", 0};
    uint8_t type = VALUE_TEXT;
    bool is_base64 = false;
    for (; *attributes; attributes += 2) {
        struct slice key = slice_str(attributes[0]), text = slice_str(attributes[1]);
        if (slice_eq(key, SLICE_LIT("n")))
            name = text;
        else if (slice_eq(key, SLICE_LIT("t")))
            type = type_by_name(text);
        else if (slice_eq(key, SLICE_LIT("enc")) && slice_eq(text, SLICE_LIT("base64")))
            is_base64 = true;
        else if (slice_eq(key, SLICE_LIT("enc")))
            type = VALUE_NONE;
    }
    if (!text_is_name(name))
        stop(x, diag_set(x->why, name.n > EVENT_NAME_MAX ? E_LIMIT : E_PROTO, 0,
                         "n, the field's name, is not 1 to %d characters of A-Z a-z 0-9 . _ : -",
                         EVENT_NAME_MAX));
    else if (type == VALUE_NONE)
        stop(x, diag_set(x->why, E_PROTO, 0,
                         "field %.*s: t is int, uint, float, bool, text, bytes or number; enc is base64",
                         SLICE_ARG(name)));
    if (x->failed)
        return;
    struct xml_field *f = new_field(x, name, type);
    if (f)
        f->is_base64 = is_base64 || type == VALUE_BYTES;
}

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct xml_reader *x = user;
    if (x->failed)
        return;
    x->depth++;
    if (x->depth == 1) /* the scanner has seen that it is an event */
        start_event(x, attributes);
    else if (x->depth == 2 && slice_eq_str(SLICE_LIT("f"), name))
        start_field(x, attributes);
    else
        stop(x, diag_set(x->why, E_PROTO, 0, "element <%.60s> is not known here; an event holds only <f>",
                         name));
}

static struct slice trim(struct slice s)
{
    while (s.n && is_space(s.p[0]))
        s = slice_from(s, 1);
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

static int parse_float(struct slice s, double *out)
{
    int rc = num_parse_float(s, out);
    bool is_word = s.n && slice_lower(s.p[s.n - 1]) >= 'a'; /* Inf, Infinity, NaN */
    return rc == 0 && !is_word && !isfinite(*out) ? -ERANGE : rc;
}

static int parse_bool(struct slice s, uint64_t *out)
{
    *out = slice_eq(s, SLICE_LIT("true")) || slice_eq(s, SLICE_LIT("1"));
    return *out || slice_eq(s, SLICE_LIT("false")) || slice_eq(s, SLICE_LIT("0")) ? 0 : E_PROTO;
}

static int parse_content(struct xml_reader *x, struct xml_field *f)
{
    struct slice s = slice_of(x->text.p + f->text.at, x->text.n - f->text.at);
    struct value *v = &f->value;
    v->type = f->type;
    if (f->type != VALUE_TEXT || f->is_base64) {
        struct slice inner = trim(s);
        memmove(x->text.p + f->text.at, inner.p, inner.n);
        x->text.n = f->text.at + inner.n;
        s = slice_of(x->text.p + f->text.at, inner.n);
    }
    switch (f->type) {
    case VALUE_INT:
        return num_parse_int(s, &v->i);
    case VALUE_UINT:
        return num_parse_uint(s, &v->u);
    case VALUE_FLOAT:
        return parse_float(s, &v->f);
    case VALUE_BOOL:
        return parse_bool(s, &v->u);
    case VALUE_NUMBER:
        return !f->is_base64 && value_text_is_allowed(VALUE_NUMBER, s) ? 0 : E_PROTO;
    default:
        return f->is_base64 ? decode_tail(x, f->text.at) : 0;
    }
}

static void end_field(struct xml_reader *x)
{
    if (x->is_dropping) {
        x->is_dropping = false;
        x->text.n = x->dropping_at;
        return;
    }
    struct xml_field *f = &x->fields[x->n_fields - 1];
    int rc = strbuf_failed(&x->text) ? -ENOMEM : parse_content(x, f);
    if (rc == -ENOMEM)
        stop(x, rc);
    else if (rc < 0)
        stop(x, diag_set(x->why, rc == -ERANGE ? E_LIMIT : E_PROTO, 0, "the value of field %.*s is not %s%s",
                         SLICE_ARG(span_slice(x, f->name)), f->is_base64 ? "base64 " : "",
                         value_type_name(f->type)));
    f->text.n = x->text.n - f->text.at;
    if (!value_is_text(f->type)) {
        x->text.n = f->text.at; /* the value is all there is to keep */
        f->text.n = 0;
    }
}

static void on_end(void *user, const XML_Char *name)
{
    struct xml_reader *x = user;
    (void)name;
    if (!x->failed && x->depth-- == 2)
        end_field(x);
}

static void on_text(void *user, const XML_Char *p, int n)
{
    struct xml_reader *x = user;
    if (x->failed)
        return;
    if (x->depth == 2)
        strbuf_add(&x->text, p, (size_t)n);
    else if (trim(slice_of(p, (size_t)n)).n)
        stop(x, diag_set(x->why, E_PROTO, 0, "text outside a field"));
}

static int ready_parser(struct xml_reader *x)
{
    static const XML_Memory_Handling_Suite memory = {mem_try_alloc, mem_try_resize, mem_free};
    if (!x->parser)
        x->parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    else if (!XML_ParserReset(x->parser, "UTF-8"))
        return -ENOMEM;
    if (!x->parser)
        return -ENOMEM;
    (void)XML_SetHashSalt(x->parser, x->salt); /* else every element costs a system call for a new one */
    XML_SetUserData(x->parser, x);
    XML_SetElementHandler(x->parser, on_start, on_end);
    XML_SetCharacterDataHandler(x->parser, on_text);
    return 0;
}

static int run_parser(struct xml_reader *x, struct slice element)
{
    enum XML_Status status = XML_Parse(x->parser, element.p, (int)element.n, XML_TRUE);
    if (x->failed)
        return x->failed;
    if (status == XML_STATUS_OK)
        return strbuf_failed(&x->text) ? -ENOMEM : 0;
    enum XML_Error code = XML_GetErrorCode(x->parser);
    if (code == XML_ERROR_NO_MEMORY)
        return -ENOMEM;
    int rc = diag_set(x->why, E_PROTO, 0, "%s", XML_ErrorString(code));
    set_place(x);
    return rc;
}

/* Points *why at the front of the data: where the unit begins. */
static void place_at_unit(const struct xml_reader *x, struct diag *why)
{
    if (!why)
        return;
    why->line = x->lines + 1;
    why->col = (uint32_t)x->col + 1;
}

/* Gives the builder what the handlers collected. */
static int add_event(struct xml_reader *x, struct batch_builder *out)
{
    if (!x->has_time || !x->name.n)
        return diag_set(x->why, E_PROTO, 0, "the event has no %s", x->has_time ? "name" : "time");
    char *text = batch_builder_alloc(out, x->text.n); /* not empty: the name is in it */
    if (!text)
        return -ENOMEM;
    memcpy(text, x->text.p, x->text.n);
    for (size_t i = 0; i < x->n_fields; i++) {
        const struct xml_field *f = &x->fields[i];
        struct value v = f->value;
        if (value_is_text(f->type))
            v = (struct value){.p = text + f->text.at, .n = (uint32_t)f->text.n, .type = f->type};
        x->values[i] = (struct named_value){slice_of(text + f->name.at, f->name.n), v};
    }
    struct event_head head = {.time_ns = x->time_ns,
                              .name = span_slice(x, x->name),
                              .host = span_slice(x, x->host),
                              .prog = span_slice(x, x->prog),
                              .level = x->level};
    return batch_builder_add(out, &head, x->values, x->n_fields, x->why);
}

static int read_element(struct xml_reader *x, struct slice element, struct batch_builder *out,
                        struct diag *why)
{
    x->why = why;
    x->out = out;
    x->is_dropping = false;
    x->failed = 0;
    x->depth = 0;
    x->has_time = false;
    x->level = LEVEL_INFO;
    x->host = x->prog = x->name = (struct span){0, 0};
    x->n_fields = 0;
    strbuf_reset(&x->text);
    int rc = ready_parser(x);
    if (rc == 0)
        rc = run_parser(x, element);
    if (rc == -ENOMEM) { /* what state it is in then is nothing to build on */
        XML_ParserFree(x->parser);
        x->parser = NULL;
    }
    if (rc < 0)
        return rc;
    rc = add_event(x, out);
    if (rc == 0)
        batch_builder_set_raw(out, element);
    else
        place_at_unit(x, why);
    return rc;
}

/* ---- units ---- */

/* Passes the first n bytes of data: they are done with. */
static void pass(struct xml_reader *x, struct slice data, size_t n)
{
    const char *p = data.p, *end = data.p + n, *lf;
    while ((lf = memchr(p, '\n', (size_t)(end - p)))) {
        x->lines++;
        x->col = 0;
        p = lf + 1;
    }
    x->col += (size_t)(end - p);
}

static int refuse_unit(const struct xml_reader *x, struct diag *why, int code, const char *what)
{
    (void)diag_set(why, code, 0, "%s", what); /* gives back code */
    place_at_unit(x, why);
    return code;
}

static int take_between(struct xml_reader *x, struct slice data, bool at_end, size_t *used, bool *at_event,
                        struct diag *why)
{
    *used = skip_between(x, data, at_event);
    int rc = 0;
    bool undecided = *used == 0 && !*at_event;
    bool open = *used == data.n && x->between != IN_TEXT;
    if (at_end && (undecided || open)) {
        rc = refuse_unit(x, why, E_PROTO, "the input ends within a tag or comment");
        *used = data.n;
        x->between = IN_TEXT;
    }
    pass(x, data, *used);
    return rc;
}

static int take_element(struct xml_reader *x, struct slice data, bool at_end, struct batch_builder *out,
                        size_t *used, struct diag *why)
{
    struct scan s = x->scan;
    int rc;
    if (s.at == 0 || s.at > data.n)
        s = (struct scan){.at = sizeof "<event" - 1, .in = IN_TAG};
    bool too_long = data.n > EVENT_LINE_MAX;
    enum scan_result found = scan_element(&s, too_long ? slice_of(data.p, EVENT_LINE_MAX) : data);
    if (found == SCAN_MORE && !too_long && !at_end) {
        x->scan = s;
        return 0;
    }
    x->scan = (struct scan){0};
    *used = s.at;
    if (found == SCAN_WHOLE) {
        rc = read_element(x, slice_of(data.p, s.at), out, why);
    } else if (found == SCAN_BROKEN) {
        rc = refuse_unit(x, why, E_PROTO, "the element is not closed where the next tag begins");
    } else if (too_long) {
        rc = refuse_unit(x, why, E_LIMIT, "the element is too long");
        *used = sizeof "<event" - 1; /* and what follows is passed as text between elements */
    } else {
        rc = refuse_unit(x, why, E_PROTO, "the input ends within the element");
        *used = data.n;
    }
    if (rc == -ENOMEM)
        *used = 0; /* it will be given again */
    pass(x, data, *used);
    return rc;
}

static int xml_step(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                    struct diag *why)
{
    struct xml_reader *x = state;
    bool at_event = true;
    *used = 0;
    if (x->scan.at == 0) {
        int rc = take_between(x, data, at_end, used, &at_event, why);
        if (rc < 0 || !at_event)
            return rc;
    }
    return take_element(x, data, at_end, out, used, why);
}

static int xml_reader_init(void *state)
{
    struct xml_reader *x = state;
    /* without entropy the salt is merely guessable, as everywhere before salts */
    if (getrandom(&x->salt, sizeof x->salt, GRND_NONBLOCK) < 0)
        x->salt = (unsigned long)clock_mono_ns();
    x->salt |= 1; /* 0 means: make one */
    return 0;
}

static void xml_reader_fini(void *state)
{
    struct xml_reader *x = state;
    XML_ParserFree(x->parser); /* NULL is fine */
    strbuf_fini(&x->text);
    strbuf_fini(&x->scratch);
}

static const struct decoder_ops xml_decoder = {
    .state_size = sizeof(struct xml_reader),
    .init = xml_reader_init,
    .fini = xml_reader_fini,
    .step = xml_step,
};

const struct encoding encoding_xml = {XML_ENCODING_COMMON, .decoder = &xml_decoder};
