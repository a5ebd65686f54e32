/* SPDX-License-Identifier: Apache-2.0 */
/* NDJSON: one JSON object a line, flat, as consumers of JSON expect it.
 *
 *   {"time":"2026-11-15T21:20:28.123456Z","host":"h","prog":"p","level":"info","name":"cpu",
 *    "user":1.5,"bytes":12,"ok":true,"msg":"text","@":{"bytes":"uint"}}          (one line)
 *
 * Writing
 *   - host and prog are left out when they are not known, and so are missing fields.
 *   - a field named like one of the five keys has a `$` in front (head_key.h).
 *   - int and uint: JSON integers. float: a number with a '.' or an 'e'; NaN, Inf and -Inf are strings. bool.
 *     text: a string. bytes: a string of base64. number: as it is spelt, in a string where JSON has no such
 * number
 *     (.50, +0.25, nan).
 *   - "@", last, gives the types that the values alone do not tell: uint up to INT64_MAX (a larger integer
 * can only be one), bytes, and the floats and numbers that are strings. Its keys are the members' keys as
 * written.
 *
 * Reading takes more than is written
 *   - members in any order ("@" too), white space, any escape; a key that comes twice is an error.
 *   - time and name are required. time may also be a number since 1970, exact to the nanosecond: seconds below 1e11,
 *     milliseconds below 1e14, microseconds below 1e17, else nanoseconds, whatever its sign. Any time from 1973 on
 *     is so read as it was meant; what has a fraction goes by what stands before the point.
 *   - level in any case; a level that is not one of ours makes the event's level info and stays as field
 * `level`.
 *   - null is a missing field. Objects within are flattened, {"a":{"b":1}} is a field a.b, up to NDJSON_DEPTH
 *     deep; the five keys mean the head of the event only at the top. Arrays are an error.
 *   - a number is what value_untyped makes of it: int, uint, float, or with its spelling (0.50) a number. One
 * that value_untyped takes for text (12e4, an integer beyond uint) is the nearest float, which is what JSON
 * promises for it (RFC 8259, 6). A number beyond float (1e400) is E_LIMIT.
 *   - a string that is not UTF-8 is bytes (batch_builder_add).
 *   - a type in "@" that its value can't have is an error; one for a member that is not there is not.
 *
 * Cost: an event is read with no allocation but what the batch's arena takes; strings without escapes are not
 * copied on the way there. Names that have to be made (unescaped, flattened) go to an arena that is reset
 * with each line. Duplicates are found by the registry (one pass, free for the usual event) except where null
 * or an object left a key without a value: then here. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/encodings.h"
#include "event/head_key.h"
#include "event/json.h"
#include "event/line.h"
#include "event/prepared.h"

#include <errno.h>

enum { NDJSON_DEPTH = 8 };

struct hint {
    struct slice name; /* of the field, without `$` */
    const char *at;
    uint8_t type;
};

struct ndjson_reader {
    struct line_reader lines; /* first: line_step is given the whole state */
    struct json_reader json;
    struct batch_builder *out;
    struct diag *why;
    struct event_head head;
    unsigned seen;      /* bit k: head key k was there; SEEN_TYPES */
    bool has_valueless; /* some value is VALUE_NONE: its key was taken, by null or an object */
    size_t n, n_hints;
    struct arena names;
    struct strbuf scratch;
    char path[EVENT_NAME_MAX];       /* the open objects' keys, dotted */
    size_t path_n[NDJSON_DEPTH + 1]; /* its length at each depth; 0 at depth 1, the event itself */
    struct named_value values[EVENT_FIELDS_MAX];
    const char *at[EVENT_FIELDS_MAX]; /* the place of each value's key */
    struct hint hints[EVENT_FIELDS_MAX];
};

enum { SEEN_TYPES = 1 << HEAD_NONE };

static int refuse(struct ndjson_reader *r, int code, const char *at, const char *what)
{
    return diag_set(r->why, code, json_col(&r->json, at), "%s", what);
}

/* For messages: only what is fit to be printed. */
static struct slice printable_name(struct slice name)
{
    return text_is_name(name) ? name : SLICE_LIT("(not a name)");
}

static int unescape_name(struct ndjson_reader *r, struct slice raw, struct slice *out)
{
    char *to = arena_alloc(&r->names, raw.n);
    if (!to)
        return -ENOMEM;
    out->p = to;
    return json_unescape(&r->json, raw, to, &out->n);
}

/* What the string means; unescaped it lives in `names` until the next line. */
static inline int read_name(struct ndjson_reader *r, struct slice raw, bool escaped, struct slice *out)
{
    *out = raw;
    return escaped ? unescape_name(r, raw, out) : 0;
}

/* Puts the keys of the objects around it, prefix_n bytes of the path, in front of a key. */
static int flatten(struct ndjson_reader *r, const struct json_item *item, size_t prefix_n, struct slice *name)
{
    struct slice key = *name;
    size_t n = prefix_n + 1 + key.n;
    if (n > EVENT_NAME_MAX)
        return diag_set(r->why, E_LIMIT, json_col(&r->json, item->key.p),
                        "the key with those of the objects around it is longer than %d bytes",
                        EVENT_NAME_MAX);
    char *to = arena_alloc(&r->names, n);
    if (!to)
        return -ENOMEM;
    memcpy(to, r->path, prefix_n);
    to[prefix_n] = '.';
    memcpy(to + prefix_n + 1, key.p, key.n);
    *name = slice_of(to, n);
    return 0;
}

static struct slice without_dollar(struct slice key)
{
    bool marked = key.n && key.p[0] == '$' && head_key_of(slice_from(key, 1)) != HEAD_NONE;
    return marked ? slice_from(key, 1) : key;
}

/* The next place for a value: its key is taken from now on. */
static int add_value(struct ndjson_reader *r, struct slice name, const struct json_item *item, struct value v)
{
    if (r->n == EVENT_FIELDS_MAX && batch_builder_trims(r->out)) {
        if (v.type != VALUE_NONE) /* a member without a value is not missed */
            (void)batch_builder_drop(r->out, name);
        return 0;
    }
    if (r->n == EVENT_FIELDS_MAX)
        return diag_set(r->why, E_LIMIT, json_col(&r->json, item->key.p),
                        "more than %d members, those that are null or objects included", EVENT_FIELDS_MAX);
    r->has_valueless |= v.type == VALUE_NONE;
    r->at[r->n] = item->key.p;
    r->values[r->n++] = (struct named_value){name, v};
    return 0;
}

static int number_value(struct ndjson_reader *r, struct slice text, struct value *out)
{
    double f;
    *out = value_untyped(text);
    if (out->type != VALUE_TEXT)
        return 0;
    if (num_parse_float(text, &f) == -ENOMEM)
        return -ENOMEM;
    if (!isfinite(f))
        return refuse(r, E_LIMIT, text.p, "the number is too large for 64-bit floating point");
    *out = value_float(f);
    return 0;
}

static int string_value(struct ndjson_reader *r, const struct json_item *item, struct value *out)
{
    struct slice s = item->text;
    if (item->escaped) {
        char *to = batch_builder_alloc(r->out, s.n);
        if (!to)
            return -ENOMEM;
        int rc = json_unescape(&r->json, s, to, &s.n);
        if (rc < 0)
            return rc;
        s.p = to;
    }
    *out = value_text(s);
    return 0;
}

static int item_value(struct ndjson_reader *r, const struct json_item *item, struct value *out)
{
    switch (item->kind) {
    case JSON_STRING:
        return string_value(r, item, out);
    case JSON_NUMBER:
        return number_value(r, item->text, out);
    case JSON_TRUE:
    case JSON_FALSE:
        *out = value_bool(item->kind == JSON_TRUE);
        return 0;
    default: /* null, or an object */
        *out = value_none();
        return 0;
    }
}

/* A time as a number, in the unit that its size tells: the point is moved by three digits a unit. */
static int parse_number_time(struct slice text, int64_t *out)
{
    char seconds[64];
    size_t sign = text.n && text.p[0] == '-', n = sign;
    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
        n++;
    size_t move = n - sign <= 11 ? 0 : n - sign <= 14 ? 3 : n - sign <= 17 ? 6 : 9;
    if (move == 0 || text.n + 1 > sizeof seconds)
        return clock_parse_epoch(text, out);
    struct slice fraction = slice_from(text, n + (n < text.n && text.p[n] == '.'));
    memcpy(seconds, text.p, n - move);
    seconds[n - move] = '.';
    memcpy(seconds + n - move + 1, text.p + n - move, move);
    memcpy(seconds + n + 1, fraction.p, fraction.n);
    return clock_parse_epoch(slice_of(seconds, n + 1 + fraction.n), out);
}

static int read_time(struct ndjson_reader *r, const struct json_item *item)
{
    struct slice text;
    int rc = read_name(r, item->text, item->escaped, &text);
    if (rc < 0)
        return rc;
    rc = item->kind == JSON_NUMBER ? parse_number_time(text, &r->head.time_ns)
                                   : clock_parse_iso(text, &r->head.time_ns);
    if (rc == -ERANGE)
        return refuse(r, E_LIMIT, item->at, "time is outside the years 1677 to 2262");
    if (rc < 0)
        return refuse(
            r, E_PROTO, item->at,
            "time is not like \"2026-11-15T21:20:28.123456Z\", nor a number since 1970 (s, ms, us or ns) without exponent");
    return 0;
}

static int read_level(struct ndjson_reader *r, const struct json_item *item)
{
    struct slice text = {"", 0};
    struct value v;
    if (item->kind == JSON_STRING) {
        int rc = read_name(r, item->text, item->escaped, &text);
        if (rc < 0)
            return rc;
    }
    if (level_parse(text, &r->head.level) == 0)
        return 0;
    int rc = item_value(r, item, &v);
    return rc < 0 ? rc : add_value(r, SLICE_LIT("level"), item, v);
}

/* Each key once. */
static int take_head_key(struct ndjson_reader *r, enum head_key key, const struct json_item *item)
{
    if (r->seen & 1u << key)
        return refuse(r, E_PROTO, item->key.p, "the key comes twice");
    r->seen |= 1u << key;
    return 0;
}

static int read_head(struct ndjson_reader *r, enum head_key key, const struct json_item *item)
{
    int rc = take_head_key(r, key, item);
    if (rc < 0)
        return rc;
    if (key == HEAD_LEVEL && item->kind != JSON_NULL)
        return read_level(r, item);
    if (item->kind == JSON_NULL) {
        bool required = key == HEAD_TIME || key == HEAD_NAME;
        return required ? refuse(r, E_PROTO, item->at, "an event needs a time and a name") : 0;
    }
    if (key == HEAD_TIME && item->kind == JSON_NUMBER)
        return read_time(r, item);
    if (item->kind != JSON_STRING)
        return refuse(r, E_PROTO, item->at, "a string is expected here");
    if (key == HEAD_TIME)
        return read_time(r, item);
    struct slice *to = key == HEAD_HOST ? &r->head.host : key == HEAD_PROG ? &r->head.prog : &r->head.name;
    return read_name(r, item->text, item->escaped, to);
}

/* A member with a value, or null. */
static int read_scalar(struct ndjson_reader *r, const struct json_item *item)
{
    struct slice name;
    struct value v;
    int rc = read_name(r, item->key, item->key_escaped, &name);
    if (rc < 0)
        return rc;
    if (r->json.depth > 1) {
        rc = flatten(r, item, r->path_n[r->json.depth], &name);
    } else {
        enum head_key key = head_key_of(name);
        if (key != HEAD_NONE)
            return read_head(r, key, item);
        name = without_dollar(name);
    }
    if (rc == 0)
        rc = item_value(r, item, &v);
    return rc < 0 ? rc : add_value(r, name, item, v);
}

static int type_by_name(struct slice s, uint8_t *out)
{
    for (uint8_t t = VALUE_INT; t < VALUE_TYPES; t++) {
        if (slice_eq_str(s, value_type_name(t))) {
            *out = t;
            return 0;
        }
    }
    return E_NODATA;
}

/* The object behind "@", to its end. */
static int read_types(struct ndjson_reader *r)
{
    struct json_item item;
    int rc;
    if (r->seen & SEEN_TYPES)
        return refuse(r, E_PROTO, r->json.at, "\"@\" comes twice");
    r->seen |= SEEN_TYPES;
    while ((rc = json_next(&r->json, &item)) == 0 && item.kind != JSON_OBJECT_END) {
        struct hint h = {.at = item.at};
        if (item.kind != JSON_STRING || type_by_name(item.text, &h.type) < 0)
            return refuse(
                r, E_PROTO, item.at,
                "a type is one of \"int\", \"uint\", \"float\", \"bool\", \"text\", \"bytes\", \"number\"");
        if (r->n_hints == EVENT_FIELDS_MAX && batch_builder_drop(r->out, SLICE_LIT("@")))
            continue;
        if (r->n_hints == EVENT_FIELDS_MAX)
            return refuse(r, E_LIMIT, item.at, "\"@\" has more members than an event has fields");
        rc = read_name(r, item.key, item.key_escaped, &h.name);
        if (rc < 0)
            return rc;
        if (head_key_of(h.name) != HEAD_NONE)
            continue; /* what is in the head has no type */
        h.name = without_dollar(h.name);
        r->hints[r->n_hints++] = h;
    }
    return rc;
}

/* Just inside an object that is a member's value. */
static int enter_object(struct ndjson_reader *r, const struct json_item *item)
{
    unsigned depth = r->json.depth;
    struct slice name;
    int rc = read_name(r, item->key, item->key_escaped, &name);
    if (rc < 0)
        return rc;
    if (depth == 2 && slice_eq(name, SLICE_LIT("@")))
        return read_types(r);
    enum head_key key = depth == 2 ? head_key_of(name) : HEAD_NONE;
    if (depth > 2)
        rc = flatten(r, item, r->path_n[depth - 1], &name);
    else if (name.n > sizeof r->path)
        rc = refuse(r, E_LIMIT, item->key.p, "the key is longer than a field name may be");
    else if (key == HEAD_TIME || key == HEAD_NAME)
        rc = refuse(r, E_PROTO, item->at, "a string is expected here");
    else if (key != HEAD_NONE)
        rc = take_head_key(r, key, item);
    if (rc < 0)
        return rc;
    memcpy(r->path, name.p, name.n);
    r->path_n[depth] = name.n;
    return add_value(r, name, item, value_none());
}

static int refuse_array(struct ndjson_reader *r, const struct json_item *item)
{
    unsigned depth = r->json.depth - 1u;
    struct slice name;
    int rc = read_name(r, item->key, item->key_escaped, &name);
    if (rc == 0 && depth > 1)
        rc = flatten(r, item, r->path_n[depth], &name);
    if (rc < 0)
        return rc;
    name = printable_name(name);
    return diag_set(r->why, E_PROTO, json_col(&r->json, item->at),
                    "field %.*s is an array; a field holds one value", SLICE_ARG(name));
}

static int read_members(struct ndjson_reader *r)
{
    struct json_item item;
    int rc = json_next(&r->json, &item);
    if (rc < 0)
        return rc;
    if (item.kind != JSON_OBJECT)
        return refuse(r, E_PROTO, item.at, "an event is a JSON object");
    while ((rc = json_next(&r->json, &item)) == 0 && item.kind != JSON_END) {
        if (item.kind == JSON_OBJECT)
            rc = enter_object(r, &item);
        else if (item.kind == JSON_ARRAY)
            rc = refuse_array(r, &item);
        else if (item.kind != JSON_OBJECT_END)
            rc = read_scalar(r, &item);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int bytes_from_text(struct ndjson_reader *r, struct value *v)
{
    strbuf_reset(&r->scratch);
    if (text_from_base64(value_slice(*v), &r->scratch) < 0)
        return E_PROTO;
    struct slice s = strbuf_slice(&r->scratch);
    char *to = batch_builder_alloc(r->out, s.n ? s.n : 1);
    if (!to || strbuf_failed(&r->scratch))
        return -ENOMEM;
    memcpy(to, s.p, s.n);
    *v = value_bytes(slice_of(to, s.n));
    return 0;
}

/* v as that type: E_PROTO when it can't be. */
static int give_type(struct ndjson_reader *r, struct value *v, uint8_t type)
{
    if (v->type == type || v->type == VALUE_NONE)
        return 0;
    if (type == VALUE_UINT && v->type == VALUE_INT && v->i >= 0) {
        *v = value_uint((uint64_t)v->i);
        return 0;
    }
    if (type == VALUE_FLOAT && v->type != VALUE_TEXT) {
        struct value n = value_number(*v);
        *v = n.type == VALUE_INT    ? value_float((double)n.i)
             : n.type == VALUE_UINT ? value_float((double)n.u)
                                    : n;
        return v->type == VALUE_FLOAT ? 0 : E_PROTO;
    }
    if (type == VALUE_FLOAT && v->type == VALUE_TEXT) {
        double f;
        if (num_parse_float(value_slice(*v), &f) < 0 || isfinite(f))
            return E_PROTO;
        *v = value_float(f);
        return 0;
    }
    if (type == VALUE_NUMBER && v->type == VALUE_TEXT && value_text_is_allowed(type, value_slice(*v))) {
        v->type = VALUE_NUMBER;
        return 0;
    }
    return type == VALUE_BYTES && v->type == VALUE_TEXT ? bytes_from_text(r, v) : E_PROTO;
}

static int apply_types(struct ndjson_reader *r)
{
    size_t i = 0; /* hints come in the order of the fields, as we write them: go on from the last one found */
    for (const struct hint *h = r->hints; h < r->hints + r->n_hints; h++) {
        size_t tried = 0;
        for (; tried < r->n && !slice_eq(r->values[i].name, h->name); tried++)
            i = i + 1 < r->n ? i + 1 : 0;
        if (tried == r->n)
            continue;
        int rc = give_type(r, &r->values[i].value, h->type);
        if (rc == E_PROTO)
            return diag_set(r->why, rc, json_col(&r->json, h->at), "the value of %.*s can't be %s",
                            SLICE_ARG(printable_name(h->name)), value_type_name(h->type));
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Points at the field that is wrong by itself or was there before; 0 when there is none. */
static int check_fields(struct ndjson_reader *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct slice name = r->values[i].name;
        uint32_t col = json_col(&r->json, r->at[i]);
        if (!text_is_name(name))
            return diag_set(r->why, name.n > EVENT_NAME_MAX ? E_LIMIT : E_PROTO, col,
                            "the field name is not 1 to %d characters of A-Z a-z 0-9 . _ : -",
                            EVENT_NAME_MAX);
        if (value_is_text(r->values[i].value.type) && r->values[i].value.n > EVENT_TEXT_MAX)
            return diag_set(r->why, E_LIMIT, col, "field %.*s is longer than %d bytes", SLICE_ARG(name),
                            EVENT_TEXT_MAX);
        for (size_t k = 0; k < i; k++)
            if (slice_eq(r->values[k].name, name))
                return diag_set(r->why, E_PROTO, col, "field %.*s comes twice", SLICE_ARG(name));
    }
    return 0;
}

static void drop_valueless(struct ndjson_reader *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->values[i].value.type == VALUE_NONE)
            continue;
        r->at[kept] = r->at[i];
        r->values[kept++] = r->values[i];
    }
    r->n = kept;
}

static int add_event(struct ndjson_reader *r)
{
    if (!(r->seen & 1u << HEAD_TIME) || !(r->seen & 1u << HEAD_NAME))
        return diag_set(r->why, E_PROTO, 1, "the event has no \"%s\"",
                        r->seen & 1u << HEAD_TIME ? "name" : "time");
    int rc = apply_types(r);
    if (rc == 0 && r->has_valueless) {
        rc = check_fields(r);
        drop_valueless(r);
    }
    if (rc < 0)
        return rc;
    rc = batch_builder_add(r->out, &r->head, r->values, r->n, r->why);
    if (rc < 0 && rc != -ENOMEM) {
        int better = check_fields(r); /* the builder does not know the columns */
        return better < 0 ? better : rc;
    }
    return rc;
}

static int ndjson_line(struct line_reader *lines, struct slice line, struct batch_builder *out,
                       struct diag *why)
{
    struct ndjson_reader *r = (struct ndjson_reader *)lines;
    json_init(&r->json, line, NDJSON_DEPTH, why);
    r->out = out;
    r->why = why;
    r->seen = 0;
    r->has_valueless = false;
    r->n = r->n_hints = 0;
    r->head = (struct event_head){.name = {"", 0}, .host = {"", 0}, .prog = {"", 0}, .level = LEVEL_INFO};
    if (r->names.total)
        arena_reset(&r->names);
    int rc = read_members(r);
    return rc < 0 ? rc : add_event(r);
}

static int ndjson_step(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                       struct diag *why)
{
    return line_step(state, ndjson_line, data, at_end, out, used, why);
}

static void ndjson_reader_fini(void *state)
{
    struct ndjson_reader *r = state;
    arena_fini(&r->names);
    strbuf_fini(&r->scratch);
}

/* Writing. An event's longest possible text is known before it is written, so that one check of the room in
 * the buffer is enough and everything below writes through a bare pointer. */
struct ndjson_writer {
    struct prepared_cache cache;
};

enum {
    HEAD_ROOM = 128,              /* time, level and the punctuation of head, "@" and line */
    VALUE_ROOM = NUM_TEXT_MAX + 2 /* a number, or NaN in quotes */
};

static size_t key_piece(size_t field)
{
    return 1 + 2 * field;
}
static size_t type_piece(size_t field)
{
    return 2 + 2 * field;
}

/* ,"key": and ,"key":"type" of each field; before them what follows the level: ","name":"cpu" */
static void fill_piece(const struct schema *s, size_t piece, struct strbuf *out)
{
    if (piece == 0) {
        strbuf_add_str(out, "\",\"name\":");
        json_add_string(out, s->name);
        return;
    }
    const struct field *f = &s->fields[(piece - 1) / 2];
    strbuf_add_str(out, head_key_of(f->name) != HEAD_NONE ? ",\"$" : ",\"");
    strbuf_add_slice(out, f->name); /* its alphabet needs no escape */
    strbuf_add_str(out, "\":");
    if (piece == type_piece((piece - 1) / 2))
        json_add_string(out, slice_str(value_type_name(f->type)));
}

static size_t event_room(const struct event *e, const struct prepared *t)
{
    size_t n = HEAD_ROOM + CLOCK_TEXT_MAX + JSON_STRING_ROOM(e->host.n) + JSON_STRING_ROOM(e->prog.n) +
               t->text_n + e->schema->n_fields * (size_t)VALUE_ROOM + PREPARED_SLACK;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (value_is_text(e->values[i].type))
            n += JSON_STRING_ROOM((size_t)e->values[i].n);
    return n;
}

static char *put(char *to, struct slice s)
{
    memcpy(to, s.p, s.n);
    return to + s.n;
}

static char *put_head(char *to, const struct event *e, const struct prepared *t)
{
    to = put(to, SLICE_LIT("{\"time\":\""));
    to += clock_print_iso(to, e->time_ns);
    *to++ = '"';
    if (e->host.n)
        to = json_put_string(put(to, SLICE_LIT(",\"host\":")), e->host);
    if (e->prog.n)
        to = json_put_string(put(to, SLICE_LIT(",\"prog\":")), e->prog);
    to = put(put(to, SLICE_LIT(",\"level\":\"")), level_lower(e->level));
    return prepared_copy(to, t, 0);
}

/* Base64 goes through the buffer, which has the room already. */
static char *put_bytes(char *to, struct slice s, struct strbuf *out)
{
    *to++ = '"';
    strbuf_advance(out, (size_t)(to - (out->p + out->n)));
    text_add_base64(out, s);
    to = out->p + out->n;
    *to++ = '"';
    return to;
}

static char *put_float(char *to, double v)
{
    if (isfinite(v))
        return to + num_print_float(to, v);
    *to++ = '"';
    to += num_print_float(to, v);
    *to++ = '"';
    return to;
}

static char *put_value(char *to, struct value v, struct strbuf *out)
{
    switch (v.type) {
    case VALUE_INT:
        return to + num_print_int(to, v.i);
    case VALUE_UINT:
        return to + num_print_uint(to, v.u);
    case VALUE_FLOAT:
        return put_float(to, v.f);
    case VALUE_BOOL:
        return put(to, v.u ? SLICE_LIT("true") : SLICE_LIT("false"));
    case VALUE_TEXT:
        return json_put_string(to, value_slice(v));
    case VALUE_NUMBER:
        return json_is_number(value_slice(v)) ? put(to, value_slice(v)) : json_put_string(to, value_slice(v));
    default:
        return put_bytes(to, value_slice(v), out);
    }
}

static bool needs_type(struct value v)
{
    return (v.type == VALUE_UINT && v.u <= INT64_MAX) || v.type == VALUE_BYTES ||
           (v.type == VALUE_FLOAT && !isfinite(v.f)) ||
           (v.type == VALUE_NUMBER && !json_is_number(value_slice(v)));
}

static char *put_types(char *to, const struct event *e, const struct prepared *t)
{
    to = put(to, SLICE_LIT(",\"@\":"));
    char *first = to; /* the comma in front of the first type becomes the brace */
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (needs_type(e->values[i]))
            to = prepared_copy(to, t, type_piece(i));
    *first = '{';
    *to++ = '}';
    return to;
}

static int put_event(struct ndjson_writer *w, const struct event *e, struct strbuf *out)
{
    const struct prepared *t = prepared_get(&w->cache, e->schema, 2, fill_piece);
    char *to = t ? strbuf_room(out, event_room(e, t)) : NULL;
    if (!to)
        return -ENOMEM;
    bool has_types = false;
    to = put_head(to, e, t);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        struct value v = e->values[i];
        if (v.type == VALUE_NONE)
            continue;
        to = put_value(prepared_copy(to, t, key_piece(i)), v, out);
        has_types |= needs_type(v);
    }
    if (has_types)
        to = put_types(to, e, t);
    to = put(to, SLICE_LIT("}\n"));
    strbuf_advance(out, (size_t)(to - (out->p + out->n)));
    return 0;
}

static int ndjson_run(void *state, const struct batch *b, struct strbuf *out)
{
    int rc = 0;
    for (size_t i = 0; i < b->n && rc == 0; i++)
        rc = put_event(state, &b->events[i], out);
    return rc;
}

static void ndjson_writer_fini(void *state)
{
    struct ndjson_writer *w = state;
    prepared_fini(&w->cache);
}

static bool ndjson_detect(struct slice head)
{
    size_t i = 0;
    while (i < head.n && (head.p[i] == ' ' || head.p[i] == '\t' || head.p[i] == '\r' || head.p[i] == '\n'))
        i++;
    return i < head.n && head.p[i] == '{';
}

static const struct decoder_ops ndjson_decoder = {
    .state_size = sizeof(struct ndjson_reader),
    .fini = ndjson_reader_fini,
    .step = ndjson_step,
};

static const struct encoder_ops ndjson_encoder = {
    .state_size = sizeof(struct ndjson_writer),
    .fini = ndjson_writer_fini,
    .run = ndjson_run,
};

const struct encoding encoding_ndjson = {
    .name = "ndjson",
    .suffix = ".ndjson",
    .mime = "application/x-ndjson",
    .summary = "one JSON object a line",
    .is_lines = true,
    .detect = ndjson_detect,
    .decoder = &ndjson_decoder,
    .encoder = &ndjson_encoder,
};
