/* SPDX-License-Identifier: Apache-2.0 */
#include "event/schema_bytes.h"

#include "base/err.h"

#include <errno.h>

static void write_short_text(struct strbuf *out, struct slice s)
{
    strbuf_add_varint(out, s.n);
    strbuf_add_slice(out, s);
}

void schema_write(struct strbuf *out, const struct schema *s)
{
    strbuf_add_u64(out, s->hash);
    write_short_text(out, s->name);
    strbuf_add_varint(out, s->n_fields);
    for (uint32_t i = 0; i < s->n_fields; i++) {
        const struct field *f = &s->fields[i];
        strbuf_add_char(out, (char)f->type);
        strbuf_add_char(out, (char)(f->role << 4 | f->kind));
        write_short_text(out, f->name);
        write_short_text(out, f->unit);
        write_short_text(out, f->help);
    }
}

static struct slice read_short_text(struct cursor *c)
{
    return cursor_bytes(c, cursor_varint(c));
}

static int refuse(const char **what, const char *text)
{
    *what = text;
    return E_PROTO;
}

static bool is_field(struct cursor *c, const struct field *f)
{
    uint8_t type = cursor_u8(c), tags = cursor_u8(c);
    return type == f->type && tags == (f->role << 4 | f->kind) && slice_eq(read_short_text(c), f->name) &&
           slice_eq(read_short_text(c), f->unit) && slice_eq(read_short_text(c), f->help);
}

bool schema_read_known(struct cursor *c, const struct schema *s)
{
    struct cursor at = *c;
    if (cursor_u64(&at) != s->hash || !slice_eq(read_short_text(&at), s->name) ||
        cursor_varint(&at) != s->n_fields)
        return false;
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (!is_field(&at, &s->fields[i]))
            return false;
    if (at.bad)
        return false;
    *c = at;
    return true;
}

int schema_read(struct cursor *c, struct schema **out, const char **what)
{
    struct field fields[EVENT_FIELDS_MAX];
    uint64_t hash = cursor_u64(c);
    struct slice name = read_short_text(c);
    uint64_t n = cursor_varint(c);
    if (n > EVENT_FIELDS_MAX)
        return refuse(what, "a schema with too many fields");
    for (size_t i = 0; i < n; i++) {
        fields[i].type = cursor_u8(c);
        uint8_t tags = cursor_u8(c);
        fields[i].role = tags >> 4;
        fields[i].kind = tags & 15;
        fields[i].name = read_short_text(c);
        fields[i].unit = read_short_text(c);
        fields[i].help = read_short_text(c);
    }
    struct schema *s;
    if (c->bad)
        return refuse(what, "a schema is cut short");
    int rc = schema_create(name, fields, n, &s);
    if (rc < 0)
        return rc == -ENOMEM ? rc : refuse(what, "a schema that the model does not allow");
    if (s->hash != hash) {
        schema_unref(s);
        return refuse(what, "a schema does not have the hash it claims");
    }
    *out = s;
    return 0;
}
