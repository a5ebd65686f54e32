/* SPDX-License-Identifier: Apache-2.0 */
/* An event is written into room reserved once for its longest possible text: the names of its schema as
 * prepared, host, prog and level as they were for the last event, and each value straight into place. */
#include "event/pairs.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"

#include <errno.h>

/* A-Z a-z 0-9 . - as bits by character: what the strict reading of ULM lets stand without quotes. */
static const uint64_t bare_bits[4] = {0x03ff600000000000, 0x07fffffe07fffffe, 0, 0};

static bool is_bare(unsigned char c)
{
    return bare_bits[c >> 6] >> (c & 63) & 1;
}

static bool is_alnum(char c)
{
    return c != '.' && c != '-' && is_bare((unsigned char)c);
}

static char *put(char *to, struct slice s)
{
    memcpy(to, s.p, s.n);
    return to + s.n;
}

/* Room for any text value: a marker, quotes, and three bytes for each of its own. */
static size_t text_room(size_t n)
{
    return 3 * n + 8;
}

static char *put_escaped(char *to, struct slice s, bool percent)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (percent && (c < 0x20 || c == 0x7f || c == '%')) {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
            continue;
        }
        if (c == '"' || c == '\\')
            *to++ = '\\';
        *to++ = (char)c;
    }
    return to;
}

/* is_marked: with the marker that makes it text whatever it looks like. */
static char *put_quoted(char *to, struct slice s, bool is_marked)
{
    bool percent = text_has_control(s);
    *to++ = '"';
    if (percent)
        to = put(to, SLICE_LIT("%e:"));
    else if (is_marked || pairs_like_marker(s))
        to = put(to, SLICE_LIT("%t:"));
    to = put_escaped(to, s, percent);
    *to++ = '"';
    return to;
}

/* How far s can stand without quotes; copies that much. */
static size_t copy_bare(char *to, struct slice s)
{
    size_t i = 0;
    for (; i < s.n && is_bare((unsigned char)s.p[i]); i++)
        to[i] = s.p[i];
    return i;
}

/* Text that has the looks of another type is quoted, which keeps it text. */
static char *put_text(char *to, struct slice s)
{
    bool bare = s.n && copy_bare(to, s) == s.n && value_untyped(s).type == VALUE_TEXT;
    return bare ? to + s.n : put_quoted(to, s, pairs_is_plus_number(s));
}

static char *put_head(char *to, struct slice s)
{
    return s.n && copy_bare(to, s) == s.n ? to + s.n : put_quoted(to, s, false);
}

/* to is in the room of out; base64 needs no more than a text would. */
static char *put_bytes(struct strbuf *out, char *to, struct slice s)
{
    to = put(to, SLICE_LIT("\"%b:"));
    out->n = (size_t)(to - out->p);
    text_add_base64(out, s);
    to = out->p + out->n;
    *to++ = '"';
    return to;
}

static char *put_value(struct strbuf *out, char *to, struct value v)
{
    switch (v.type) {
    case VALUE_INT:
        return to + num_print_int(to, v.i);
    case VALUE_UINT:
        return to + num_print_uint(to, v.u);
    case VALUE_FLOAT:
        return to + num_print_float(to, v.f);
    case VALUE_BOOL:
        return put(to, v.u ? SLICE_LIT("true") : SLICE_LIT("false"));
    case VALUE_TEXT:
        return put_text(to, value_slice(v));
    case VALUE_NUMBER:
        return put(to, value_slice(v));
    default:
        return put_bytes(out, to, value_slice(v));
    }
}

void pairs_add_head(struct strbuf *out, struct slice key, struct slice s)
{
    strbuf_add_char(out, ' ');
    strbuf_add_slice(out, key);
    strbuf_add_char(out, '=');
    char *to = strbuf_room(out, text_room(s.n));
    if (to)
        strbuf_advance(out, (size_t)(put_head(to, s) - to));
}

/* See pairs.h: can this field's name stand as it is? */
static bool is_plain(const struct pairs_dialect *d, struct slice name)
{
    if (!is_alnum(name.p[0]) || (name.p[0] >= '0' && name.p[0] <= '9') || slice_starts(name, d->mangled))
        return false;
    for (size_t i = 0; i < PAIRS_KEYS; i++)
        if (slice_eq(name, d->key[i]))
            return false;
    for (size_t i = 1; i < name.n; i++) {
        char c = name.p[i];
        bool empty_component = c == '.' && (i + 1 == name.n || name.p[i + 1] == '.');
        if (empty_component || !(is_bare((unsigned char)c) || c == '_'))
            return false;
    }
    return true;
}

static void add_mangled(struct strbuf *out, const struct pairs_dialect *d, struct slice name)
{
    strbuf_add_slice(out, d->mangled);
    for (size_t i = 0; i < name.n; i++) {
        if (is_alnum(name.p[i]))
            strbuf_add_char(out, name.p[i]);
        else
            strbuf_printf(out, "-%02x", (unsigned)(unsigned char)name.p[i]);
    }
}

void pairs_fill(const struct pairs_dialect *d, const struct schema *s, size_t piece, struct strbuf *out)
{
    if (piece == 0) {
        pairs_add_head(out, d->key[PAIRS_NAME], s->name);
        return;
    }
    struct slice name = s->fields[piece - 1].name;
    strbuf_add_char(out, ' ');
    if (is_plain(d, name))
        strbuf_add_slice(out, name);
    else
        add_mangled(out, d, name);
    strbuf_add_char(out, '=');
}

/* The longest that e can get. */
static size_t event_room(const struct pairs_writer *w, const struct prepared *names, const struct event *e)
{
    size_t n = w->dialect->key[PAIRS_TIME].n + 1 + CLOCK_TEXT_MAX + w->origin.n + names->text_n + 1;
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        n += value_is_text(e->values[i].type) ? text_room(e->values[i].n) : NUM_TEXT_MAX;
        n += e->values[i].type == VALUE_UINT ? e->schema->fields[i].name.n + 1 : 0;
    }
    return n + w->dialect->key[PAIRS_UINTS].n + 4 + PREPARED_SLACK;
}

/* An int would be read from the digits of such a uint. */
static bool looks_like_int(const struct value *v)
{
    return v->type == VALUE_UINT && v->u <= INT64_MAX;
}

/* The pair that says which fields are uint; nothing when there is none to name. */
static char *put_uints(const struct pairs_dialect *d, char *to, const struct event *e)
{
    char *start = to;
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (!looks_like_int(&e->values[i]))
            continue;
        if (to == start) {
            *to++ = ' ';
            to = put(to, d->key[PAIRS_UINTS]);
            to = put(to, SLICE_LIT("=\""));
        } else {
            *to++ = ',';
        }
        to = put(to, e->schema->fields[i].name);
    }
    if (to > start)
        *to++ = '"';
    return to;
}

static int write_event(struct pairs_writer *w, const struct event *e, struct strbuf *out)
{
    const struct pairs_dialect *d = w->dialect;
    const struct prepared *names = prepared_get(&w->names, e->schema, 1, d->fill);
    char *to = names ? strbuf_room(out, event_room(w, names, e)) : NULL;
    if (!to)
        return -ENOMEM;
    to = put(to, d->key[PAIRS_TIME]);
    *to++ = '=';
    to += d->print_time(to, e->time_ns);
    if (d->name_first)
        to = prepared_copy(to, names, 0);
    to = put(to, strbuf_slice(&w->origin));
    if (!d->name_first)
        to = prepared_copy(to, names, 0);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (e->values[i].type == VALUE_NONE)
            continue;
        to = prepared_copy(to, names, 1 + i);
        to = put_value(out, to, e->values[i]);
    }
    to = put_uints(d, to, e);
    *to++ = '\n';
    out->n = (size_t)(to - out->p);
    *to = '\0';
    return 0;
}

/* Within a batch, which is immutable, equal pointers are equal text. */
static bool same_origin(const struct event *a, const struct event *b)
{
    return a->level == b->level && a->host.p == b->host.p && a->host.n == b->host.n &&
           a->prog.p == b->prog.p && a->prog.n == b->prog.n;
}

int pairs_run(void *state, const struct batch *b, struct strbuf *out)
{
    struct pairs_writer *w = state;
    for (size_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        if (i == 0 || !same_origin(e, e - 1)) {
            strbuf_reset(&w->origin);
            w->dialect->add_origin(e, &w->origin);
            if (strbuf_failed(&w->origin))
                return -ENOMEM;
        }
        int rc = write_event(w, e, out);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void pairs_writer_fini(void *state)
{
    struct pairs_writer *w = state;
    prepared_fini(&w->names);
    strbuf_fini(&w->origin);
}
