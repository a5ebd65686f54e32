/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the format of xml.h. As in ndjson.c the longest possible text of an event is known before it is
 * written: one check of the room, then bare pointers. */
#include "event/xml.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/prepared.h"

#include <errno.h>

struct xml_writer {
    struct prepared_cache cache;
};

enum {
    EVENT_ROOM = 192,                                          /* time, level and the tags of one event */
    FIELD_ROOM = NUM_TEXT_MAX + sizeof " enc=\"base64\"></f>", /* a number, and what is around a value */
    ESCAPED_MAX = 6                                            /* &quot; */
};

static char *put(char *to, struct slice s)
{
    memcpy(to, s.p, s.n);
    return to + s.n;
}

/* True when XML 1.0 can hold s and a parser hands it out unchanged (CR is turned into LF by every parser). */
static bool can_carry(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 && c != '\t' && c != '\n')
            return false;
        if (c == 0xef && s.n - i >= 3 &&
            (memcmp(s.p + i, "\xef\xbf\xbe", 3) == 0 || memcmp(s.p + i, "\xef\xbf\xbf", 3) == 0))
            return false;
    }
    return true;
}

/* For text and for attributes; to has room for ESCAPED_MAX bytes a byte. */
static char *put_escaped(char *to, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '&':
            to = put(to, SLICE_LIT("&amp;"));
            break;
        case '<':
            to = put(to, SLICE_LIT("&lt;"));
            break;
        case '>': /* only ]]> must not be, but so no reader has to know that */
            to = put(to, SLICE_LIT("&gt;"));
            break;
        case '"':
            to = put(to, SLICE_LIT("&quot;"));
            break;
        default:
            *to++ = s.p[i];
        }
    }
    return to;
}

/* Base64 goes through the buffer, which has the room already. */
static char *put_base64(char *to, struct slice s, struct strbuf *out)
{
    strbuf_advance(out, (size_t)(to - (out->p + out->n)));
    text_add_base64(out, s);
    return out->p + out->n;
}

/* Piece 0: what follows the level, `" name="cpu">`. Then for each field its start tag without the `>`. */
static void fill_piece(const struct schema *s, size_t piece, struct strbuf *out)
{
    strbuf_add_str(out, piece ? "<f n=\"" : "\" name=\"");
    strbuf_add_slice(out, piece ? s->fields[piece - 1].name : s->name); /* the alphabet needs no escape */
    if (piece) {
        strbuf_add_str(out, "\" t=\"");
        strbuf_add_str(out, value_type_name(s->fields[piece - 1].type));
        strbuf_add_char(out, '"');
    } else {
        strbuf_add_str(out, "\">");
    }
}

static size_t event_room(const struct event *e, const struct prepared *t)
{
    size_t n = EVENT_ROOM + CLOCK_TEXT_MAX + (e->host.n + e->prog.n) * ESCAPED_MAX + t->text_n +
               e->schema->n_fields * (size_t)FIELD_ROOM + PREPARED_SLACK;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (value_is_text(e->values[i].type))
            n += (size_t)e->values[i].n * ESCAPED_MAX + 4;
    return n;
}

/* The attribute of a host or prog: key is ` host`. */
static char *put_origin(char *to, struct slice key, struct slice s, struct strbuf *out)
{
    if (s.n == 0)
        return to;
    to = put(to, key);
    if (can_carry(s))
        to = put_escaped(put(to, SLICE_LIT("=\"")), s);
    else
        to = put_base64(put(to, SLICE_LIT("64=\"")), s, out);
    *to++ = '"';
    return to;
}

static char *put_text(char *to, struct slice s, struct strbuf *out)
{
    if (can_carry(s))
        return put_escaped(put(to, SLICE_LIT(">")), s);
    return put_base64(put(to, SLICE_LIT(" enc=\"base64\">")), s, out);
}

/* The rest of the start tag, the content and the end tag. */
static char *put_value(char *to, struct value v, struct strbuf *out)
{
    if (v.type == VALUE_TEXT) {
        to = put_text(to, value_slice(v), out);
        return put(to, SLICE_LIT("</f>"));
    }
    *to++ = '>';
    switch (v.type) {
    case VALUE_INT:
        to += num_print_int(to, v.i);
        break;
    case VALUE_UINT:
        to += num_print_uint(to, v.u);
        break;
    case VALUE_FLOAT:
        to += num_print_float(to, v.f);
        break;
    case VALUE_BOOL:
        to = put(to, v.u ? SLICE_LIT("true") : SLICE_LIT("false"));
        break;
    case VALUE_NUMBER: /* nothing in it to escape */
        to = put(to, value_slice(v));
        break;
    default:
        to = put_base64(to, value_slice(v), out);
    }
    return put(to, SLICE_LIT("</f>"));
}

static int put_event(struct xml_writer *w, const struct event *e, struct strbuf *out)
{
    const struct prepared *t = prepared_get(&w->cache, e->schema, 1, fill_piece);
    char *to = t ? strbuf_room(out, event_room(e, t)) : NULL;
    if (!to)
        return -ENOMEM;
    to = put(to, SLICE_LIT("<event time=\""));
    to += clock_print_iso(to, e->time_ns);
    *to++ = '"';
    to = put_origin(to, SLICE_LIT(" host"), e->host, out);
    to = put_origin(to, SLICE_LIT(" prog"), e->prog, out);
    to = put(put(to, SLICE_LIT(" level=\"")), level_lower(e->level));
    to = prepared_copy(to, t, 0);
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (e->values[i].type != VALUE_NONE)
            to = put_value(prepared_copy(to, t, 1 + i), e->values[i], out);
    to = put(to, SLICE_LIT("</event>\n"));
    strbuf_advance(out, (size_t)(to - (out->p + out->n)));
    return 0;
}

static void xml_begin(void *state, struct strbuf *out)
{
    (void)state;
    strbuf_add_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<events xmlns=\"" XML_NAMESPACE "\">\n");
}

static int xml_run(void *state, const struct batch *b, struct strbuf *out)
{
    int rc = 0;
    for (size_t i = 0; i < b->n && rc == 0; i++)
        rc = put_event(state, &b->events[i], out);
    return rc;
}

static void xml_end(void *state, struct strbuf *out)
{
    (void)state;
    strbuf_add_str(out, "</events>\n");
}

static void xml_writer_fini(void *state)
{
    struct xml_writer *w = state;
    prepared_fini(&w->cache);
}

bool xml_detect(struct slice head)
{
    size_t i = 0;
    while (i < head.n && (head.p[i] == ' ' || head.p[i] == '\t' || head.p[i] == '\r' || head.p[i] == '\n'))
        i++;
    return i < head.n && head.p[i] == '<';
}

const struct encoder_ops xml_encoder = {
    .state_size = sizeof(struct xml_writer),
    .fini = xml_writer_fini,
    .begin = xml_begin,
    .run = xml_run,
    .end = xml_end,
};

const struct encoding encoding_xml_out = {XML_ENCODING_COMMON};
